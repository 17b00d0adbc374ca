// SPDX-License-Identifier: GPL-2.0
/*
 * The store to be measured: one created by the benchmark, or the user's, which is left as it
 * was.
 */
#include <inttypes.h>
#include <unistd.h>

#include "bench_load.h"

#define BATCH_OPS	256		/* maximum in a batch */
#define BATCH_BYTES	(4u << 20)

/* The target to be restored when the program ends, also by die(). */
static struct target *current;
static pid_t owner;

static void create_own(struct target *t)
{
	struct kvtree_store_create args = { .mode = 0600, .uid = getuid(), .gid = getgid() };
	int err;

	t->admin = open_store(KVTREE_OPEN_READ);
	snprintf(t->name, sizeof(t->name), "bench-%d", (int)getpid());
	memcpy(args.name, t->name, sizeof(args.name));
	err = kvtree_store_create(t->admin, &args, sizeof(args));
	if (err == -EPERM)
		die("bench creates a store, which needs root: try sudo, or %s",
		    "--store with an empty store that you may write");
	if (err)
		die("cannot create the store '%s': %s", t->name, kvtree_strerror(err));
	t->own = true;
	tool.store = t->name;
}

static void must_be_empty(struct kvtree *kv)
{
	struct kvtree_store_info si = { 0 };
	int err = kvtree_store_self(kv, &si, sizeof(si));

	if (err)
		die("cannot examine the store '%s': %s", tool.store, reason(err));
	if (si.keys)
		die("the store '%s' is not empty, and bench overwrites nothing: %s", tool.store,
		    "use another, or --no-load if an earlier bench --keep left its records there");
}

/* The number of requests in a batch. */
static unsigned int batch_size(const struct shape *shape)
{
	size_t n = BATCH_BYTES / (record_size(shape) + record_key_room(shape));

	return n > BATCH_OPS ? BATCH_OPS : n ? (unsigned int)n : 1;
}

/* A batch of requests of one kind, for consecutive records. */
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

/* Return: the first error, or 0 */
static int batch_run(struct batch *b, struct kvtree *kv, unsigned int nr)
{
	unsigned int i;
	int err = kvtree_submit(kv, b->op, nr, NULL);

	for (i = 0; i < nr && !err; i++) {
		b->room.request[i].result = b->op[i].result;
		err = b->op[i].result < 0 ? b->op[i].result : 0;
	}
	return err;
}

static void load(struct target *t)
{
	const struct shape *shape = &t->plan->shape;
	struct batch *b = batch_new(shape);
	struct progress progress = { 0 };
	uint64_t n = 0;
	unsigned int nr;
	int err;

	progress_start(&progress, "load", t->plan->progress, shape->records);
	t->loaded = true;
	while (n < shape->records && !crew_interrupted()) {
		for (nr = 0; nr < b->room.nr && n + nr < shape->records; nr++)
			batch_add(b, nr, n + nr, KIND_INSERT);
		err = batch_run(b, t->kv, nr);
		if (err)
			die("cannot load records into the store '%s': %s", tool.store,
			    err == -EEXIST ? "another program writes to it" : reason(err));
		n += nr;
		progress_show(&progress, n, n, n * record_size(shape));
	}
	t->load_seconds = progress_end(&progress, "loaded", n, n * record_size(shape));
	batch_free(b);
}

/* Check some of the records that --no-load assumes. */
static void find_records(struct target *t)
{
	const struct shape *shape = &t->plan->shape;
	uint64_t step = shape->records / 16 + 1, n;
	struct batch *b = batch_new(shape);
	struct request *r = b->room.request;

	for (n = shape->records - 1; ; n -= step) {
		batch_add(b, 0, n, KIND_READ);
		if (batch_run(b, t->kv, 1) || request_judge(&b->room, r, true))
			die("the store '%s' has no record '%.*s' as --no-load requires: %s",
			    tool.store, (int)r->key_len, r->key,
			    "use the records, fields and sizes of bench --keep");
		if (n < step)
			break;
	}
	batch_free(b);
}

/* Remove records in a batch; missing ones are no error. */
static int remove_batch(struct target *t, struct batch *b, uint64_t from, unsigned int nr)
{
	struct kvtree_op *op;
	unsigned int i;
	int err;

	for (i = 0; i < nr; i++) {
		/* The key of a read. */
		op = batch_add(b, i, from + i, KIND_READ);
		*op = (struct kvtree_op){
			.opcode = KVTREE_OP_REMOVE, .key_len = op->key_len,
			.flags = op->flags & KVTREE_F_KEY_INLINE,
			.key = op->key, .key_reserved = op->key_reserved,
		};
	}
	err = batch_run(b, t->kv, nr);
	return err == -ENOENT ? 0 : err;
}

/* Remove records from..to-1. */
static void forget(struct target *t, uint64_t from, uint64_t to)
{
	struct batch *b = batch_new(&t->plan->shape);
	unsigned int nr;
	int err = 0;

	for (; from < to && !err; from += nr) {
		nr = to - from < b->room.nr ? (unsigned int)(to - from) : b->room.nr;
		err = remove_batch(t, b, from, nr);
	}
	/* Not die(), which may have called this. */
	if (err)
		warn("cannot remove records from the store '%s': %s", tool.store, reason(err));
	batch_free(b);
}

static void destroy_own(struct target *t)
{
	int err = kvtree_store_destroy(t->admin, t->name);

	if (err && err != -ENOENT)
		warn("cannot destroy the store '%s': %s", t->name, kvtree_strerror(err));
}

/**
 * target_forget_inserts() - remove the records inserted by a run
 * @t: the store
 */
void target_forget_inserts(struct target *t)
{
	if (t->kv && t->inserts)
		forget(t, t->plan->shape.records, t->inserts->next);
	t->inserts = NULL;
}

static void leave(void)
{
	struct target *t = current;

	/* Children must not clean up when they exit. */
	if (!t || owner != getpid())
		return;
	current = NULL;
	if (t->own && !t->plan->keep) {
		destroy_own(t);
	} else {
		target_forget_inserts(t);
		if (t->own)
			warn("the store '%s' is kept: kvtree store destroy %s", t->name, t->name);
		else if (t->loaded && !t->plan->keep)
			forget(t, 0, t->plan->shape.records);
	}
	kvtree_close(t->kv);
	kvtree_close(t->admin);
	t->kv = NULL;
}

/**
 * target_open() - open the store, or create one; exits on failure
 * @t: set up
 * @plan: the plan
 */
void target_open(struct target *t, const struct plan *plan)
{
	*t = (struct target){ .plan = plan };
	if (plan_is_dry(plan))
		return;
	current = t;
	owner = getpid();
	atexit(leave);
	/* Do not fill a store named by the environment for other commands. */
	if (!tool.store_given)
		create_own(t);
	t->kv = open_store(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
}

/**
 * target_has_uring() - whether the kernel supports kvtree on io_uring
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
 * target_load() - load or check the records; exits on failure
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
 * target_end() - clean up the store as configured
 */
void target_end(void)
{
	leave();
}
