// SPDX-License-Identifier: GPL-2.0
/*
 * The store that is measured: one of the bench's own, or the user's, which is
 * left as it was found.
 */
#include <inttypes.h>
#include <unistd.h>

#include "bench.h"

#define BATCH_OPS	256		/* of a load, at the most */
#define BATCH_BYTES	(4u << 20)

/* The store that is to be destroyed when the program ends, also by die(). */
static struct {
	struct kvtree *kv;
	char name[KVTREE_NAME_MAX];
	pid_t pid;
} own;

static void destroy_own(void)
{
	int err;

	/* Children that end have nothing to do with it. */
	if (!own.kv || own.pid != getpid())
		return;
	err = kvtree_store_destroy(own.kv, own.name);
	if (err && err != -ENOENT)
		warn("cannot destroy the store '%s': %s", own.name, kvtree_strerror(err));
	kvtree_close(own.kv);
	own.kv = NULL;
}

static void create_own(void)
{
	struct kvtree_store_create args = { .mode = 0600, .uid = getuid(), .gid = getgid() };
	int err;

	own.kv = open_store(KVTREE_OPEN_READ);
	own.pid = getpid();
	snprintf(own.name, sizeof(own.name), "bench-%d", (int)own.pid);
	memcpy(args.name, own.name, sizeof(args.name));
	err = kvtree_store_create(own.kv, &args, sizeof(args));
	if (err == -EPERM)
		die("bench makes a store of its own, which needs root: try sudo, or %s",
		    "--store with an empty store that you may write");
	if (err)
		die("cannot create the store '%s': %s", own.name, kvtree_strerror(err));
	atexit(destroy_own);
	tool.store = own.name;
}

static void must_be_empty(struct kvtree *kv)
{
	struct kvtree_store_info si = { 0 };
	int err = kvtree_store_self(kv, &si, sizeof(si));

	if (err)
		die("cannot look at the store '%s': %s", tool.store, reason(err));
	if (si.keys)
		die("the store '%s' is not empty, and bench overwrites nothing: %s", tool.store,
		    "use another, or --no-load if an earlier bench --keep left its records there");
}

/* How many requests a batch has. */
static unsigned int batch_size(const struct shape *shape)
{
	size_t n = BATCH_BYTES / (record_size(shape) + record_key_room(shape));

	return n > BATCH_OPS ? BATCH_OPS : n ? (unsigned int)n : 1;
}

/* A batch of requests of one kind, for records that follow one another. */
struct batch {
	struct request_room room;
	struct kvtree_op op[BATCH_OPS];
};

static struct batch *batch_new(const struct shape *shape)
{
	struct batch *b = alloc(NULL, sizeof(*b));

	requests_new(&b->room, shape, batch_size(shape), 0);
	return b;
}

static void batch_free(struct batch *b)
{
	requests_free(&b->room);
	free(b);
}

static struct kvtree_op *batch_add(struct batch *b, unsigned int i, uint64_t number, enum kind kind)
{
	struct request *r = &b->room.request[i];

	r->number = number;
	r->kind = kind;
	r->salt = (uint32_t)number;
	request_lay_out(&b->room, r, &b->op[i]);
	return &b->op[i];
}

static void batch_run(struct batch *b, struct kvtree *kv, unsigned int nr)
{
	unsigned int i;
	int err = kvtree_submit(kv, b->op, nr, NULL);

	if (err)
		die("the store '%s': %s", tool.store, reason(err));
	for (i = 0; i < nr; i++)
		b->room.request[i].result = b->op[i].result;
}

static void load_failed(const struct request *r)
{
	if (r->result == -EEXIST)
		die("the record '%.*s' is there already: somebody else writes to the store '%s'",
		    (int)r->key_len, r->key, tool.store);
	die("cannot load the record '%.*s' into the store '%s': %s", (int)r->key_len, r->key,
	    tool.store, reason(r->result));
}

static void load(struct target *t)
{
	const struct shape *shape = &t->plan->shape;
	struct batch *b = batch_new(shape);
	struct progress progress = { 0 };
	uint64_t n = 0;
	unsigned int i, nr;

	progress_start(&progress, "load", t->plan->progress, shape->records);
	t->loaded = true;
	while (n < shape->records && !crew_interrupted()) {
		for (nr = 0; nr < b->room.nr && n + nr < shape->records; nr++)
			batch_add(b, nr, n + nr, KIND_INSERT);
		batch_run(b, t->kv, nr);
		for (i = 0; i < nr; i++)
			if (b->room.request[i].result < 0)
				load_failed(&b->room.request[i]);
		n += nr;
		progress_show(&progress, n, n, n * record_size(shape));
	}
	t->load_seconds = progress_end(&progress, "loaded", n, n * record_size(shape));
	batch_free(b);
}

/* Whether the records are there that --no-load promises: look at some of them. */
static void find_records(struct target *t)
{
	const struct shape *shape = &t->plan->shape;
	uint64_t step = shape->records / 16 + 1, n;
	struct batch *b = batch_new(shape);
	struct request *r = b->room.request;

	for (n = shape->records - 1; ; n -= step) {
		batch_add(b, 0, n, KIND_READ);
		batch_run(b, t->kv, 1);
		if (request_judge(&b->room, r, true) != VERDICT_RIGHT)
			die("the store '%s' has no record '%.*s' as --no-load expects it: %s",
			    tool.store, (int)r->key_len, r->key,
			    "records, fields and sizes have to be those of bench --keep");
		if (n < step)
			break;
	}
	batch_free(b);
}

/* Remove records from..to-1, of which some may not be there. */
static void forget(struct target *t, uint64_t from, uint64_t to)
{
	struct batch *b = batch_new(&t->plan->shape);
	struct kvtree_op *op;
	unsigned int i, nr;

	for (; from < to; from += nr) {
		for (nr = 0; nr < b->room.nr && from + nr < to; nr++) {
			/* The key is the read's. */
			op = batch_add(b, nr, from + nr, KIND_READ);
			*op = (struct kvtree_op){
				.opcode = KVTREE_OP_REMOVE, .key_len = op->key_len,
				.flags = op->flags & KVTREE_F_KEY_INLINE,
				.key = op->key, .key_reserved = op->key_reserved,
			};
		}
		batch_run(b, t->kv, nr);
		for (i = 0; i < nr; i++)
			if (b->op[i].result < 0 && b->op[i].result != -ENOENT)
				die("cannot remove records from the store '%s': %s", tool.store,
				    reason(b->op[i].result));
	}
	batch_free(b);
}

/**
 * target_forget_inserts() - remove records that were inserted
 * @t: the store
 * @from: the first
 * @to: the first that is not to be removed
 */
void target_forget_inserts(struct target *t, uint64_t from, uint64_t to)
{
	if (t->kv && from < to)
		forget(t, from, to);
}

/**
 * target_open() - open the store, or make one; exits if it cannot
 * @t: set up
 * @plan: what is measured
 */
void target_open(struct target *t, const struct plan *plan)
{
	*t = (struct target){ .plan = plan };
	if (plan_is_dry(plan))
		return;
	t->own = !tool.store;
	if (t->own)
		create_own();
	t->kv = open_store(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
}

/**
 * target_has_uring() - tell whether the kernel offers kvtree on io_uring
 * @t: the store
 *
 * Return: true if it does
 */
bool target_has_uring(const struct target *t)
{
	struct kvtree_info info = { 0 };

	return t->kv && !kvtree_info(t->kv, &info, sizeof(info)) &&
	       info.features & KVTREE_FEAT_URING;
}

/**
 * target_load() - see to it that the records are there; exits if it cannot
 * @t: the store
 */
void target_load(struct target *t)
{
	if (!t->kv)
		return;
	if (!t->plan->load) {
		find_records(t);
		return;
	}
	if (!t->own)
		must_be_empty(t->kv);
	load(t);
}

/**
 * target_end() - leave the store as the user wants it
 * @t: the store
 */
void target_end(struct target *t)
{
	if (!t->kv)
		return;
	if (t->own && t->plan->keep) {
		warn("the store '%s' is kept: kvtree store-destroy %s", own.name, own.name);
		kvtree_close(own.kv);
		own.kv = NULL;
	}
	if (!t->own && t->loaded && !t->plan->keep)
		forget(t, 0, t->plan->shape.records);
	kvtree_close(t->kv);
	destroy_own();
}
