// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree by ioctl, like a program that uses /dev/kvtree directly.  The library only creates the
 * stores and reads their counters.
 */
#include <string.h>
#include <sys/ioctl.h>

#include <kvtree.h>

#include "bench_stock.h"

/* One for the plain keys, one for the keys of MYCSB. */
static const char * const stores[] = { "bench-stock", "bench-stock-columns" };

/* An unknown ioctl number of /dev/kvtree: the call returns at once. */
#define IOC_NOTHING	_IOWR('K', 0x7f, struct kvtree_op)

/* Memory for the answer to a request. */
struct slot {
	struct kvtree_col cols[COLS];
	char val[VALUE_LEN];
};

struct kvtree_client {
	int fds[ARRAY_SIZE(stores)];
	struct contents contents;
	struct kvtree_op ops[DEPTH_MAX];
	struct slot slots[DEPTH_MAX];
};

static struct kvtree *sessions[ARRAY_SIZE(stores)];

static void stores_destroy(void)
{
	struct kvtree *any;
	unsigned int i;

	if (kvtree_open(NULL, 0, &any))
		return;
	for (i = 0; i < ARRAY_SIZE(stores); i++) {
		kvtree_close(sessions[i]);
		kvtree_store_destroy(any, stores[i]);
	}
	kvtree_close(any);
}

static void store_create(const struct kvtree *any, unsigned int i)
{
	struct kvtree_store_create args = { .mode = 0600 };
	int err;

	strcpy(args.name, stores[i]);
	kvtree_store_destroy(any, args.name);
	err = kvtree_store_create(any, &args, sizeof(args));
	if (!err)
		err = kvtree_open(args.name, 0, &sessions[i]);
	if (err)
		die("store %s: %s", args.name, kvtree_strerror(err));
}

static void stores_create(void)
{
	struct kvtree *any;
	unsigned int i;
	int err;

	err = kvtree_open(NULL, 0, &any);
	if (err)
		die("/dev/kvtree: %s", kvtree_strerror(err));
	for (i = 0; i < ARRAY_SIZE(stores); i++)
		store_create(any, i);
	kvtree_close(any);
	atexit(stores_destroy);
}

static void load(const struct contents *c)
{
	struct kvtree_column cols[COLS];
	unsigned int col;
	uint32_t i;
	int err;

	for (i = 0; i < nr_keys; i++) {
		err = kvtree_put(sessions[0], kvtree_slice(plain_keys[i].data, KEY_LEN),
				 kvtree_slice(c->values[i], VALUE_LEN), KVTREE_F_CREATE, NULL);
		for (col = 0; col < COLS; col++)
			cols[col] = (struct kvtree_column) { col, COL_LEN, &c->cols[i][col] };
		if (!err)
			err = kvtree_put_cols(sessions[1],
					      kvtree_slice(col_keys[i].data, col_keys[i].len), cols,
					      COLS, KVTREE_F_CREATE, NULL);
		if (err)
			die("kvtree: loading key %u: %s", i, kvtree_strerror(err));
	}
}

/**
 * kvtree_client_fds() - the sessions' descriptors
 * @c: the client
 *
 * Return: two descriptors, in the order of is_cols()
 */
const int *kvtree_client_fds(const struct kvtree_client *c)
{
	return c->fds;
}

static void fill_key(struct kvtree_op *op, const struct key *key)
{
	op->key_len = key->len;
	if (key->len <= KVTREE_KEY_INLINE) {
		op->flags |= KVTREE_F_KEY_INLINE;
		memcpy(op->key_inline, key->data, KVTREE_KEY_INLINE);
	} else {
		op->key = (uintptr_t)key->data;
	}
}

static void fill_cols(struct kvtree_client *c, unsigned int slot, const struct request *r,
		      struct kvtree_op *op)
{
	struct kvtree_col *cols = c->slots[slot].cols;

	op->arg = (uintptr_t)cols;
	op->flags = KVTREE_F_COLS;
	if (r->kind == GET_COLS) {
		op->opcode = KVTREE_OP_GET;
		op->flags |= KVTREE_F_ALL_COLS;
		op->ncols = COLS;
		op->val = (uintptr_t)c->slots[slot].val;
		op->val_len = COLS * COL_LEN;
	} else {
		cols[0] = (struct kvtree_col) { .id = r->col, .len = COL_LEN };
		op->opcode = KVTREE_OP_PUT;
		op->ncols = 1;
		op->val = (uintptr_t)contents_put(&c->contents, r);
		op->val_len = COL_LEN;
	}
	fill_key(op, &col_keys[r->key]);
}

/**
 * kvtree_fill() - make the operation of a request
 * @c: the client
 * @slot: the slot for its answer, below DEPTH_MAX
 * @r: the request
 * @op: filled in
 */
void kvtree_fill(struct kvtree_client *c, unsigned int slot, const struct request *r,
		 struct kvtree_op *op)
{
	*op = (struct kvtree_op) { .val_len = VALUE_LEN };
	if (r->kind == GET) {
		op->opcode = KVTREE_OP_GET;
		op->val = (uintptr_t)c->slots[slot].val;
		fill_key(op, &plain_keys[r->key]);
	} else if (r->kind == PUT) {
		op->opcode = KVTREE_OP_PUT;
		op->val = (uintptr_t)contents_put(&c->contents, r);
		fill_key(op, &plain_keys[r->key]);
	} else {
		fill_cols(c, slot, r, op);
	}
}

static bool cols_right(const struct kvtree_client *c, const struct slot *s, uint32_t key,
		       unsigned int slack)
{
	unsigned int col;

	for (col = 0; col < COLS; col++)
		if (s->cols[col].id != col || s->cols[col].len != COL_LEN ||
		    !contents_check_col(&c->contents, key, col, s->val + col * COL_LEN, slack))
			return false;
	return true;
}

/**
 * kvtree_check() - check the result of a request; ends the program if it is wrong
 * @c: the client
 * @slot: as for kvtree_fill()
 * @r: the request
 * @result: the operation's result
 * @depth: requests sent together
 */
void kvtree_check(struct kvtree_client *c, unsigned int slot, const struct request *r,
		  int result, unsigned int depth)
{
	const struct slot *s = &c->slots[slot];

	if (result < 0)
		die("kvtree: a request failed: %s", kvtree_strerror(result));
	if (r->kind == GET &&
	    (result != VALUE_LEN || !contents_check(&c->contents, r->key, s->val, depth - 1)))
		die("kvtree: a wrong value for the key of number %u", r->key);
	if (r->kind == GET_COLS &&
	    (result != COLS * COL_LEN || !cols_right(c, s, r->key, depth - 1)))
		die("kvtree: wrong columns for the key of number %u", r->key);
}

static void run_single(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_client *c = sys->client;
	int fd = c->fds[is_cols(reqs)];
	unsigned int i;

	for (i = 0; i < n; i++) {
		kvtree_fill(c, 0, &reqs[i], &c->ops[0]);
		if (ioctl(fd, KVTREE_IOC_OP, &c->ops[0]))
			die("kvtree: KVTREE_IOC_OP: %s", kvtree_strerror(errno));
		kvtree_check(c, 0, &reqs[i], c->ops[0].result, 1);
	}
}

static void run_batch(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_client *c = sys->client;
	struct kvtree_batch batch = {
		.ops = (uintptr_t)c->ops,
		.nr = sys->depth,
		.op_size = sizeof(c->ops[0]),
	};
	int fd = c->fds[is_cols(reqs)];
	unsigned int at, i;

	for (at = 0; at < n; at += sys->depth) {
		for (i = 0; i < sys->depth; i++)
			kvtree_fill(c, i, &reqs[at + i], &c->ops[i]);
		if (ioctl(fd, KVTREE_IOC_BATCH, &batch))
			die("kvtree: KVTREE_IOC_BATCH: %s", kvtree_strerror(errno));
		if (batch.done != sys->depth)
			die("kvtree: KVTREE_IOC_BATCH stopped after %u", batch.done);
		for (i = 0; i < sys->depth; i++)
			kvtree_check(c, i, &reqs[at + i], c->ops[i].result, sys->depth);
	}
}

static void run_empty(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_client *c = sys->client;
	unsigned int i;

	(void)reqs;
	for (i = 0; i < n; i++)
		if (ioctl(c->fds[0], IOC_NOTHING, &c->ops[0]) != -1 || errno != ENOTTY)
			die("kvtree: there is a call of the number that is to do nothing");
}

/**
 * kvtree_uring_commands() - the kernel's counter of commands
 *
 * Return: io_uring commands executed so far in both stores
 */
uint64_t kvtree_uring_commands(void)
{
	uint64_t stats[KVTREE_STAT_NR], sum = 0;
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(stores); i++) {
		ret = kvtree_stat(sessions[i], stats, KVTREE_STAT_NR);
		if (ret < 0)
			die("kvtree: counters: %s", kvtree_strerror(ret));
		sum += stats[KVTREE_STAT_URING];
	}
	return sum;
}

static void check_features(void)
{
	struct kvtree_info info;
	int err = kvtree_info(sessions[0], &info, sizeof(info));

	if (err)
		die("kvtree: %s", kvtree_strerror(err));
	if (!(info.features & KVTREE_FEAT_URING))
		die("kvtree: this kernel and this module offer no io_uring commands");
}

/**
 * kvtree_start() - create two stores and load them
 * @s: gets its systems
 */
void kvtree_start(struct systems *s)
{
	static const struct system systems[] = {
		{ "kvtree ioctl that does nothing", 1, ON(EMPTY), 1024, run_empty },
		{ "kvtree ioctl", 1, ON_PLAIN | ON_MYCSB, 1024, run_single },
		{ "kvtree batch 1", 1, ON_PLAIN, 1024, run_batch },
		{ "kvtree batch 64", 64, ON_PLAIN | ON_MYCSB, 2048, run_batch },
	};
	struct kvtree_client *c = calloc(1, sizeof(*c));
	struct system sys;
	unsigned int i;

	if (!c)
		die("out of memory");
	stores_create();
	check_features();
	for (i = 0; i < ARRAY_SIZE(stores); i++)
		c->fds[i] = kvtree_fd(sessions[i]);
	contents_init(&c->contents);
	load(&c->contents);
	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		sys = systems[i];
		sys.client = c;
		systems_add(s, &sys);
	}
	uring_start(s, c);
}
