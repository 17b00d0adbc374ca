// SPDX-License-Identifier: GPL-2.0
/*
 * Commands with memory that is not resident: the submitter continues, a worker waits,
 * and the outcome is the same as with resident memory.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/place.h"
#include "lib/uring.h"
#include "lib/work.h"

/*
 * Everything that an operation points to
 */
FIXTURE(parts) {
	struct kvt_env env;
	struct kvt_env twin;
	struct kvt_way way;
};

FIXTURE_VARIANT(parts) {
	enum kvt_absence how;
	unsigned int setup;
	unsigned int sqe_flags;
};

#define LONG	(IORING_SETUP_SQE128 | IORING_SETUP_CQE32)

FIXTURE_VARIANT_ADD(parts, hole) { .how = KVT_HOLE, .setup = LONG };
FIXTURE_VARIANT_ADD(parts, hole_for_short_sqes) { .how = KVT_HOLE };
FIXTURE_VARIANT_ADD(parts, hole_for_a_worker) {
	.how = KVT_HOLE, .setup = LONG, .sqe_flags = IOSQE_ASYNC,
};

FIXTURE_VARIANT_ADD(parts, hole_for_a_thread) {
	.how = KVT_HOLE, .setup = LONG | IORING_SETUP_SQPOLL,
};

FIXTURE_VARIANT_ADD(parts, hole_for_deferred_work) {
	.how = KVT_HOLE,
	.setup = LONG | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_VARIANT_ADD(parts, gone) { .how = KVT_GONE, .setup = LONG };
FIXTURE_VARIANT_ADD(parts, gone_for_short_sqes) { .how = KVT_GONE };
FIXTURE_VARIANT_ADD(parts, copied) { .how = KVT_COPIED, .setup = LONG };
FIXTURE_VARIANT_ADD(parts, copied_for_short_sqes) { .how = KVT_COPIED };

#define KEY	"a key of more than sixteen bytes"
#define NUMBER	"a number with such a long key"

static void populate(int fd)
{
	struct kvtree_col cols[2] = { { .id = 0, .len = 300 }, { .id = 7, .len = 200 } };
	char val[500];

	memset(val, 'v', sizeof(val));
	KVT_CHECK(kvt_put_cols(fd, STR(KEY), cols, 2, kvt_bytes(val, sizeof(val)), NULL) == 0);
	KVT_CHECK(kvt_put(fd, STR("b"), STR("next"), NULL) == 0);
	KVT_CHECK(kvt_add(fd, STR(NUMBER), 0, 1, NULL) == 0);
}

FIXTURE_SETUP(parts)
{
	kvt_env_init(&self->env, "fault", 0, 0);
	kvt_env_init(&self->twin, "fault-twin", 0, 0);
	kvt_ring_make(&self->way.ring, 8, variant->setup);
	self->way.fd = self->env.fd;
	self->way.sqe_flags = variant->sqe_flags;
}

FIXTURE_TEARDOWN(parts)
{
	kvt_ring_exit(&self->way.ring);
	kvt_env_exit(&self->twin);
	kvt_env_exit(&self->env);
}

enum part { OP, OUT, KEY_PART, VAL, COLS, SCAN, END, IDS };

static const struct {
	const char *name;
	__u32 offset;		/* of struct kvt_work */
	__u32 size;
	__u32 first;		/* bytes that are there */
} parts[] = {
	[OP] = { "operation", offsetof(struct kvt_work, op), 64, 32 },
	[OUT] = { "outcome", offsetof(struct kvt_work, op), 64, 32 },
	[KEY_PART] = { "key", offsetof(struct kvt_work, key), 64, 16 },
	[VAL] = { "value", offsetof(struct kvt_work, val), 1024, 16 },
	[COLS] = { "columns", offsetof(struct kvt_work, cols), 64, 8 },
	[SCAN] = { "scan", offsetof(struct kvt_work, scan), 64, 32 },
	[END] = { "end", offsetof(struct kvt_work, end), 16, 8 },
	[IDS] = { "ids", offsetof(struct kvt_work, ids), 8, 2 },
};

#define BIT(n)		(1u << (n))
#define ALWAYS		(BIT(OP) | BIT(OUT))

/* Operations, and the memory that they must point to. */
static const struct {
	int opcode;
	int flags;
	unsigned int parts;
} kinds[] = {
	{ KVTREE_OP_NOP, 0, ALWAYS },
	{ KVTREE_OP_GET, 0, ALWAYS | BIT(KEY_PART) | BIT(VAL) },
	{ KVTREE_OP_GET, KVTREE_F_COLS, ALWAYS | BIT(KEY_PART) | BIT(VAL) | BIT(COLS) },
	{ KVTREE_OP_GET, KVTREE_F_COLS | KVTREE_F_ALL_COLS,
	  ALWAYS | BIT(KEY_PART) | BIT(VAL) | BIT(COLS) },
	{ KVTREE_OP_PUT, 0, ALWAYS | BIT(KEY_PART) | BIT(VAL) },
	{ KVTREE_OP_PUT, KVTREE_F_COLS, ALWAYS | BIT(KEY_PART) | BIT(VAL) | BIT(COLS) },
	{ KVTREE_OP_CAS, 0, ALWAYS | BIT(KEY_PART) | BIT(VAL) },
	{ KVTREE_OP_ADD, 0, ALWAYS | BIT(KEY_PART) },
	{ KVTREE_OP_SCAN, 0, ALWAYS | BIT(KEY_PART) | BIT(VAL) | BIT(SCAN) | BIT(END) | BIT(IDS) },
	{ KVTREE_OP_REMOVE, KVTREE_F_VERSION, ALWAYS | BIT(KEY_PART) },
	{ KVTREE_OP_PUT, KVTREE_F_CREATE, ALWAYS | BIT(KEY_PART) | BIT(VAL) },
	{ KVTREE_OP_REMOVE, 0, ALWAYS | BIT(KEY_PART) },
};

static void work_make(struct kvt_work *w, int kind, int fd)
{
	struct kvtree_op *op = &w->op;
	bool adds = kinds[kind].opcode == KVTREE_OP_ADD;

	kvt_work_init(w);
	op->opcode = kinds[kind].opcode;
	op->flags = kinds[kind].flags;
	if (op->opcode == KVTREE_OP_NOP)
		return;
	kvt_work_key(w, adds ? NUMBER : KEY, adds ? sizeof(NUMBER) - 1 : sizeof(KEY) - 1, false);
	if (op->opcode == KVTREE_OP_CAS || op->flags & KVTREE_F_VERSION)
		op->version = kvt_version(fd, STR(KEY));
	if (adds)
		op->arg = 5;
	if (kinds[kind].parts & BIT(VAL)) {
		op->val = kvt_ptr(w->val);
		op->val_len = sizeof(w->val);
	}
	if (kinds[kind].parts & BIT(COLS)) {
		w->cols[0] = (struct kvtree_col){ .id = 0, .len = 24 };
		w->cols[1] = (struct kvtree_col){ .id = 7, .len = 1000 };
		op->ncols = op->flags & KVTREE_F_ALL_COLS ? NR(w->cols) : 2;
		op->arg = kvt_ptr(w->cols);
	}
	if (kinds[kind].parts & BIT(SCAN)) {
		strcpy(w->end, "zzzzz");
		w->ids[1] = 7;
		w->scan.end = kvt_ptr(w->end);
		w->scan.end_len = sizeof(w->end);
		w->scan.cols = kvt_ptr(w->ids);
		w->scan.ncols = 2;
		op->arg = kvt_ptr(&w->scan);
		op->arg_size = sizeof(w->scan);
	}
}

/* Let the operation point to where a part of it is now. */
static void work_point(struct kvt_work *w, enum part part, void *to)
{
	switch (part) {
	case KEY_PART:
		w->op.key = kvt_ptr(to);
		break;
	case VAL:
		w->op.val = kvt_ptr(to);
		break;
	case COLS:
	case SCAN:
		w->op.arg = kvt_ptr(to);
		break;
	case END:
		w->scan.end = kvt_ptr(to);
		break;
	case IDS:
		w->scan.cols = kvt_ptr(to);
		break;
	default:
		break;
	}
}

static bool part_fits(enum part part, enum kvt_form form)
{
	if (part == OP)
		return form == KVT_BY_POINTER || form == KVT_IN_BATCH;
	return part != OUT || form == KVT_INLINE_OUT;
}

/* Execute an operation while one of its parts is not resident.  Returns its result. */
static int exec_part(struct kvt_way *way, enum kvt_form form, struct kvt_work *w,
		     enum part part, enum kvt_absence how, struct kvt_cqe *cqe)
{
	char *storage = (char *)w + parts[part].offset;
	struct kvtree_op *op = &w->op;
	struct kvt_place place;
	void *at;
	int ret;

	at = kvt_place_make(&place, how, storage, parts[part].size, parts[part].first);
	work_point(w, part, at);
	if (part == OP)
		op = at;
	if (part == OUT) {
		kvt_sqe_inline(kvt_ring_sqe(&way->ring), way->fd, op, at, 7);
		kvt_ring_sqe_at(&way->ring, way->ring.sq_tail - 1)->flags = way->sqe_flags;
		op = at;
	} else {
		kvt_way_queue(way, form, op, 7);
	}
	kvt_ring_submit(&way->ring);
	if (how == KVT_HOLE) {
		kvt_hole_wait(&place);
		KVT_CHECK(!kvt_ring_reap(&way->ring, cqe));
		kvt_hole_fill(&place);
	}
	kvt_ring_wait(&way->ring, cqe);
	KVT_CHECK(cqe->data == 7);
	/* A UML thread sees a page that another one has copied when it enters the kernel. */
	getppid();
	ret = kvt_way_result(form, op, cqe);
	memcpy(storage, at, parts[part].size);
	kvt_place_end(&place);
	return ret;
}

TEST_F(parts, what_is_not_at_hand_makes_no_difference)
{
	struct kvt_way *way = &self->way;
	struct kvt_work call, cmd;
	__u64 punts, n = 0;
	struct kvt_cqe cqe;
	int form, kind, part, ret, err;

	punts = kvt_stat(self->env.fd, KVTREE_STAT_URING_PUNT);
	for (form = 0; form < KVT_FORMS; form++) {
		if (!kvt_way_has(way, form))
			continue;
		for (kind = 0; kind < NR(kinds); kind++) {
			for (part = 0; part < NR(parts); part++) {
				if (!(kinds[kind].parts & BIT(part)) || !part_fits(part, form))
					continue;
				populate(self->env.fd);
				populate(self->twin.fd);
				if (kinds[kind].flags & KVTREE_F_CREATE) {
					kvt_remove(self->env.fd, STR(KEY));
					kvt_remove(self->twin.fd, STR(KEY));
				}
				work_make(&call, kind, self->twin.fd);
				work_make(&cmd, kind, self->twin.fd);
				err = kvt_exec(self->twin.fd, &call.op);
				ret = exec_part(way, form, &cmd, part, variant->how, &cqe);
				n++;
				ASSERT_EQ(err, ret) {
					TH_LOG("%s, operation %d, flags %x: %s",
					       kvt_form_names[form], call.op.opcode,
					       call.op.flags, parts[part].name);
				}
				ASSERT_TRUE(kvt_same_memory(&call, &cmd)) {
					TH_LOG("%s, operation %d, flags %x: %s",
					       kvt_form_names[form], call.op.opcode,
					       call.op.flags, parts[part].name);
				}
				ASSERT_TRUE(form == KVT_INLINE || kvt_same_op(&call.op, &cmd.op));
				if (variant->setup & IORING_SETUP_CQE32 && form != KVT_IN_BATCH &&
				    kvt_returns_version(ret))
					ASSERT_EQ(call.op.version, cqe.extra[0]);
				/* It was done once: versions count. */
				ASSERT_EQ(kvt_digest(self->twin.fd), kvt_digest(self->env.fd)) {
					TH_LOG("%s, operation %d, flags %x: %s",
					       kvt_form_names[form], call.op.opcode,
					       call.op.flags, parts[part].name);
				}
			}
		}
	}
	EXPECT_EQ(n, kvt_stat(self->env.fd, KVTREE_STAT_URING));
	if (variant->how != KVT_COPIED && !(variant->sqe_flags & IOSQE_ASYNC))
		EXPECT_EQ(n, kvt_stat(self->env.fd, KVTREE_STAT_URING_PUNT) - punts);
}

/*
 * Concurrent operations
 */
FIXTURE(meanwhile) {
	struct kvt_env env;
	int fd;
	struct kvt_way way;
	struct kvt_place hole;
	char *in_hole;		/* 256 bytes, of which the second half is in it */
};

#define HOLE_BYTES	256

FIXTURE_SETUP(meanwhile)
{
	char letters[HOLE_BYTES];

	kvt_env_init(&self->env, "fault", 0, 0);
	self->fd = self->env.fd;
	kvt_ring_make(&self->way.ring, 64, LONG);
	self->way.fd = self->fd;
	memset(letters, 'h', sizeof(letters));
	self->in_hole = kvt_place_make(&self->hole, KVT_HOLE, letters, sizeof(letters), 128);
}

FIXTURE_TEARDOWN(meanwhile)
{
	kvt_place_end(&self->hole);
	if (self->way.ring.fd >= 0)
		kvt_ring_exit(&self->way.ring);
	kvt_env_exit(&self->env);
}

static struct kvtree_op put_op(struct kvt_bytes key, struct kvt_bytes val)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, key);

	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	return op;
}

static struct kvtree_op get_op(struct kvt_bytes key, void *buf, __u32 room)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, key);

	op.val = kvt_ptr(buf);
	op.val_len = room;
	return op;
}

static struct kvt_bytes hole_bytes(const char *in_hole)
{
	return kvt_bytes(in_hole, HOLE_BYTES);
}

TEST_F(meanwhile, others_on_the_ring_are_executed)
{
	struct kvtree_op waits = put_op(STR("w"), hole_bytes(self->in_hole)), op;
	struct kvt_cqe cqe;
	int form;

	for (form = 0; form < KVT_FORMS; form++) {
		kvt_way_queue(&self->way, KVT_BY_POINTER, &waits, 100);
		kvt_ring_submit(&self->way.ring);
		kvt_hole_wait(&self->hole);
		op = put_op(STR("k"), STR("v"));
		ASSERT_EQ(0, kvt_way_exec(&self->way, form, &op, NULL));
		op = kvt_op(KVTREE_OP_REMOVE, STR("k"));
		ASSERT_EQ(0, kvt_way_exec(&self->way, form, &op, NULL));
		ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
		ASSERT_EQ(0, kvt_version(self->fd, STR("w")));
		kvt_hole_fill(&self->hole);
		kvt_ring_wait(&self->way.ring, &cqe);
		ASSERT_EQ(100, cqe.data);
		ASSERT_EQ(0, cqe.res);
		ASSERT_TRUE(kvt_has(self->fd, STR("w"), hole_bytes(self->in_hole)));
		ASSERT_EQ(0, kvt_remove(self->fd, STR("w")));
		kvt_hole_empty(&self->hole);
		memset(self->hole.later, 'h', KVT_PAGE);
	}
}

TEST_F(meanwhile, thread_that_submits_is_not_stopped)
{
	struct kvtree_op waits = put_op(STR("w"), hole_bytes(self->in_hole)), op;
	struct kvt_way way = { .fd = self->fd };
	struct kvt_cqe cqe;
	int i;

	kvt_ring_make(&way.ring, 8, LONG | IORING_SETUP_SQPOLL);
	kvt_way_queue(&way, KVT_INLINE, &waits, 100);
	kvt_ring_submit(&way.ring);
	kvt_hole_wait(&self->hole);
	for (i = 0; i < 20; i++) {
		op = put_op(STR("k"), STR("v"));
		ASSERT_EQ(0, kvt_way_exec(&way, i % KVT_FORMS, &op, NULL));
	}
	kvt_hole_fill(&self->hole);
	kvt_ring_wait(&way.ring, &cqe);
	EXPECT_EQ(100, cqe.data);
	EXPECT_EQ(0, cqe.res);
	kvt_ring_exit(&way.ring);
}

/* Where nothing at all is there at first: one page after the other comes. */
TEST_F(meanwhile, every_page_may_be_missing)
{
	struct kvt_place op_place, key_place, val_place;
	struct kvtree_op op, *at;
	struct kvt_cqe cqe;
	char val[64];

	memset(val, 'v', sizeof(val));
	op = put_op(kvt_bytes(NULL, 32), kvt_bytes(NULL, 64));
	op.key = kvt_ptr(kvt_place_make(&key_place, KVT_HOLE, KEY, 32, 16));
	op.val = kvt_ptr(kvt_place_make(&val_place, KVT_HOLE, val, 64, 32));
	at = kvt_place_make(&op_place, KVT_HOLE, &op, sizeof(op), 32);
	kvt_way_queue(&self->way, KVT_BY_POINTER, at, 1);
	kvt_ring_submit(&self->way.ring);
	kvt_hole_wait(&op_place);
	kvt_hole_fill(&op_place);
	kvt_hole_wait(&key_place);
	kvt_hole_fill(&key_place);
	kvt_hole_wait(&val_place);
	ASSERT_FALSE(kvt_ring_reap(&self->way.ring, &cqe));
	kvt_hole_fill(&val_place);
	EXPECT_EQ(0, kvt_ring_result(&self->way.ring, 1));
	EXPECT_EQ(0, at->result);
	EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(KEY, 32), kvt_bytes(val, 64)));
	kvt_place_end(&op_place);
	kvt_place_end(&key_place);
	kvt_place_end(&val_place);
}

TEST_F(meanwhile, large_values_fit_into_memory_never_touched)
{
	char *val = malloc(KVTREE_VALUE_MAX), *fresh;
	struct kvtree_scan scan;
	struct kvtree_op op;
	__u64 punts;
	int form, i;

	ASSERT_NE(NULL, val);
	for (i = 0; i < KVTREE_VALUE_MAX; i++)
		val[i] = i * 7 + i / 256;
	ASSERT_EQ(0, kvt_put(self->fd, STR("big"), kvt_bytes(val, KVTREE_VALUE_MAX), NULL));
	punts = kvt_stat(self->fd, KVTREE_STAT_URING_PUNT);
	for (form = 0; form < KVT_FORMS; form++) {
		fresh = mmap(NULL, 2 * KVTREE_VALUE_MAX, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, fresh);
		op = get_op(STR("big"), fresh + 1000, KVTREE_VALUE_MAX);
		ASSERT_EQ((int)KVTREE_VALUE_MAX, kvt_way_exec(&self->way, form, &op, NULL));
		ASSERT_EQ(0, memcmp(val, fresh + 1000, KVTREE_VALUE_MAX));
		ASSERT_EQ(0, munmap(fresh, 2 * KVTREE_VALUE_MAX));

		fresh = mmap(NULL, 2 * KVTREE_VALUE_MAX, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, fresh);
		memset(&scan, 0, sizeof(scan));
		op = kvt_op(KVTREE_OP_SCAN, STR("big"));
		op.arg = kvt_ptr(&scan);
		op.val = kvt_ptr(fresh);
		op.val_len = 2 * KVTREE_VALUE_MAX;
		ASSERT_LT((int)KVTREE_VALUE_MAX, kvt_way_exec(&self->way, form, &op, NULL));
		ASSERT_EQ(1, scan.count);
		ASSERT_EQ(0, memcmp(val, fresh + sizeof(struct kvtree_rec) + 3, KVTREE_VALUE_MAX));
		ASSERT_EQ(0, munmap(fresh, 2 * KVTREE_VALUE_MAX));
	}
	EXPECT_EQ(2 * KVT_FORMS, kvt_stat(self->fd, KVTREE_STAT_URING_PUNT) - punts);
	free(val);
}

/* Commands of a ring take turns at one worker. */
static void one_worker(struct kvt_ring *ring)
{
	__u32 max[2] = { 1, 1 };

	KVT_CHECK(kvt_ring_register(ring, IORING_REGISTER_IOWQ_MAX_WORKERS, max, 2) == 0);
}

#define QUEUED	24

/*
 * Operations with values that are not resident, queued behind one that waits for the
 * hole.  They are submitted and not yet executed.
 */
struct queue {
	struct kvtree_op ops[QUEUED];
	struct kvt_place vals[QUEUED];
	char keys[QUEUED][32];
};

static void queue_make(struct queue *q, struct kvt_way *way, enum kvt_form form,
		       struct kvtree_op *first)
{
	char val[64], *at;
	int i;

	one_worker(&way->ring);
	kvt_way_queue(way, form, first, QUEUED);
	for (i = 0; i < QUEUED; i++) {
		/* Inline or not. */
		snprintf(q->keys[i], sizeof(q->keys[i]), "%s %d",
			 i % 2 ? "a key that is long" : "key", i);
		memset(val, 'a' + i, sizeof(val));
		at = kvt_place_make(&q->vals[i], KVT_GONE, val, 64, 32);
		q->ops[i] = put_op(kvt_bytes(q->keys[i], strlen(q->keys[i])), kvt_bytes(at, 64));
		if (i % 2 == 0) {
			q->ops[i].key = 0;
			q->ops[i].flags |= KVTREE_F_KEY_INLINE;
			memcpy(q->ops[i].key_inline, q->keys[i], strlen(q->keys[i]));
		}
		kvt_way_queue(way, form, &q->ops[i], i);
	}
	kvt_ring_submit(&way->ring);
}

static bool queue_has(const struct queue *q, int fd, int i)
{
	char val[64];

	memset(val, 'a' + i, sizeof(val));
	return kvt_has(fd, kvt_bytes(q->keys[i], strlen(q->keys[i])), kvt_bytes(val, 64));
}

static void queue_end(struct queue *q)
{
	int i;

	for (i = 0; i < QUEUED; i++)
		kvt_place_end(&q->vals[i]);
}

/*
 * The place of an SQE belongs to the submitter again as soon as it is submitted;
 * the worker that runs later must not read it.
 */
TEST_F(meanwhile, executed_is_what_was_submitted)
{
	struct kvtree_op first, poison = put_op(STR("poison"), STR("poison"));
	struct kvt_ring *ring = &self->way.ring;
	static struct queue q;
	struct kvt_cqe cqe;
	int form, i;

	for (form = 0; form < KVT_FORMS; form++) {
		first = put_op(STR("first"), hole_bytes(self->in_hole));
		queue_make(&q, &self->way, form, &first);
		/* They wait, in this order, for the one worker. */
		kvt_hole_wait(&self->hole);
		ASSERT_FALSE(kvt_ring_peek(ring, &cqe));
		for (i = 0; i < 64; i++) {
			struct io_uring_sqe *sqe = kvt_ring_sqe_at(ring, i);

			if (i % 3)
				kvt_sqe_inline(sqe, self->fd, &poison, NULL, 1000);
			else
				memset(sqe, 0xff, kvt_ring_sqe_size(ring));
		}
		kvt_hole_fill(&self->hole);
		for (i = 0; i < QUEUED + 1; i++) {
			kvt_ring_wait(ring, &cqe);
			ASSERT_GE(QUEUED, cqe.data);
			ASSERT_EQ(form == KVT_IN_BATCH ? 1 : 0, cqe.res) {
				TH_LOG("%s, %d", kvt_form_names[form], (int)cqe.data);
			}
		}
		for (i = 0; i < QUEUED; i++)
			ASSERT_TRUE(queue_has(&q, self->fd, i));
		ASSERT_EQ(0, kvt_version(self->fd, STR("poison")));
		for (i = 0; i < QUEUED; i++)
			kvt_remove(self->fd, kvt_bytes(q.keys[i], strlen(q.keys[i])));
		queue_end(&q);
		kvt_hole_empty(&self->hole);
	}
	/* None was executed at once, or there was nothing to see. */
	EXPECT_EQ(KVT_FORMS * (QUEUED + 1), kvt_stat(self->fd, KVTREE_STAT_URING_PUNT));
}

/* The same where io_uring gives them to workers by itself. */
TEST_F(meanwhile, executed_is_what_was_submitted_to_workers)
{
	struct kvtree_op first, poison = put_op(STR("poison"), STR("poison"));
	struct kvt_ring *ring = &self->way.ring;
	static struct queue q;
	struct kvt_cqe cqe;
	int form, i;

	self->way.sqe_flags = IOSQE_ASYNC;
	for (form = 0; form < KVT_FORMS; form++) {
		first = put_op(STR("first"), hole_bytes(self->in_hole));
		queue_make(&q, &self->way, form, &first);
		for (i = 0; i < 64; i++)
			kvt_sqe_inline(kvt_ring_sqe_at(ring, i), self->fd, &poison, NULL, 1000);
		kvt_hole_wait(&self->hole);
		kvt_hole_fill(&self->hole);
		for (i = 0; i < QUEUED + 1; i++) {
			kvt_ring_wait(ring, &cqe);
			ASSERT_GE(QUEUED, cqe.data);
			ASSERT_EQ(form == KVT_IN_BATCH ? 1 : 0, cqe.res);
		}
		for (i = 0; i < QUEUED; i++)
			ASSERT_TRUE(queue_has(&q, self->fd, i));
		ASSERT_EQ(0, kvt_version(self->fd, STR("poison")));
		queue_end(&q);
		kvt_hole_empty(&self->hole);
	}
}

static void queue_cancel(struct kvt_way *way, __u64 target, __u64 data)
{
	struct io_uring_sqe *sqe = kvt_ring_sqe(&way->ring);

	KVT_CHECK(sqe);
	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->addr = target;
	sqe->user_data = data;
	sqe->fd = -1;
}

TEST_F(meanwhile, commands_in_a_workers_queue_can_be_canceled)
{
	struct kvtree_op first = put_op(STR("first"), hole_bytes(self->in_hole));
	int i, canceled = 0, state[QUEUED] = {};
	static struct queue q;
	struct kvt_cqe cqe;

	queue_make(&q, &self->way, KVT_INLINE, &first);
	kvt_hole_wait(&self->hole);
	for (i = 0; i < QUEUED; i += 2)
		queue_cancel(&self->way, i, 1000 + i);
	for (i = 0; i < QUEUED; i++) {
		/* The cancellation and the command that was canceled. */
		kvt_ring_wait(&self->way.ring, &cqe);
		if (cqe.data >= 1000) {
			ASSERT_EQ(0, cqe.res);
		} else {
			ASSERT_EQ(-ECANCELED, cqe.res);
			ASSERT_EQ(0, state[cqe.data]);
			state[cqe.data] = 1;
			canceled++;
		}
	}
	EXPECT_EQ(QUEUED / 2, canceled);
	/* kvtree itself has nothing to do with workers' queues. */
	kvt_sqe_cancel(kvt_ring_sqe(&self->way.ring), self->fd, 0, KVTREE_CANCEL_ANY, 2000);
	EXPECT_EQ(-ENOENT, kvt_ring_result(&self->way.ring, 2000));
	kvt_hole_fill(&self->hole);
	for (i = 0; i < QUEUED / 2 + 1; i++) {
		kvt_ring_wait(&self->way.ring, &cqe);
		ASSERT_EQ(0, cqe.res);
	}
	for (i = 0; i < QUEUED; i++)
		EXPECT_EQ(i % 2, queue_has(&q, self->fd, i));
	EXPECT_TRUE(kvt_has(self->fd, STR("first"), hole_bytes(self->in_hole)));
	queue_end(&q);
}

TEST_F(meanwhile, link_waits_for_the_one_before)
{
	struct kvtree_op ops[3];
	struct kvt_cqe cqe;
	char buf[HOLE_BYTES];
	int i;

	ops[0] = put_op(STR("k"), hole_bytes(self->in_hole));
	ops[1] = get_op(STR("k"), buf, sizeof(buf));
	ops[2] = put_op(STR("k"), STR("last"));
	for (i = 0; i < 3; i++) {
		self->way.sqe_flags = i < 2 ? IOSQE_IO_LINK : 0;
		kvt_way_queue(&self->way, KVT_INLINE, &ops[i], i);
	}
	kvt_ring_submit(&self->way.ring);
	kvt_hole_wait(&self->hole);
	ASSERT_FALSE(kvt_ring_reap(&self->way.ring, &cqe));
	ASSERT_EQ(0, kvt_version(self->fd, STR("k")));
	kvt_hole_fill(&self->hole);
	for (i = 0; i < 3; i++) {
		kvt_ring_wait(&self->way.ring, &cqe);
		ASSERT_EQ(i, cqe.data);
		ASSERT_EQ(i == 1 ? HOLE_BYTES : 0, cqe.res);
	}
	EXPECT_EQ(0, memcmp(buf, self->in_hole, HOLE_BYTES));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("last")));
}

/* Wait for a completion, and fill the hole if that is what it waits for. */
static void settle(struct kvt_ring *ring, const struct kvt_place *hole, struct kvt_cqe *cqe)
{
	struct pollfd fds[2] = {
		{ .fd = ring->fd, .events = POLLIN },
		{ .fd = hole->uffd, .events = POLLIN },
	};

	kvt_ring_submit(ring);
	while (!kvt_ring_reap(ring, cqe)) {
		KVT_CHECK(poll(fds, 2, -1) > 0 || errno == EINTR);
		if (!(fds[1].revents & POLLIN))
			continue;
		kvt_hole_wait(hole);
		kvt_hole_fill(hole);
	}
}

/* One place of many is not there: the operations before it are not done twice. */
TEST_F(meanwhile, batch_is_done_once_whatever_is_missing_in_it)
{
	static const int where[] = { 0, 1, 31, 32, 33, 63 };
	__u64 numbers[64], before;
	struct kvtree_op ops[64];
	struct kvt_cqe cqe;
	__u32 i, w, done;

	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, kvt_add(self->fd, kvt_bytes(&i, 4), 0, i, NULL));
	for (w = 0; w < NR(where); w++) {
		for (i = 0; i < 64; i++) {
			ops[i] = kvt_op(i % 3 ? KVTREE_OP_ADD : KVTREE_OP_GET, kvt_bytes(NULL, 4));
			ops[i].flags = KVTREE_F_KEY_INLINE;
			memcpy(ops[i].key_inline, &i, 4);
			if (i % 3) {
				ops[i].arg = 1000;
				continue;
			}
			ops[i].val = kvt_ptr(&numbers[i]);
			ops[i].val_len = 8;
		}
		i = where[w];
		/* The value of a get, or a key. */
		if (i % 3) {
			memcpy(self->hole.later, &i, 4);
			ops[i].flags = 0;
			memset(ops[i].key_inline, 0, KVTREE_KEY_INLINE);
			ops[i].key = kvt_ptr(self->hole.mem + KVT_PAGE);
		} else {
			ops[i].val = kvt_ptr(self->hole.mem + KVT_PAGE);
		}
		for (done = 0; done < 64; done += cqe.res) {
			kvt_sqe_batch(kvt_ring_sqe(&self->way.ring), self->fd, ops + done,
				      64 - done, 1);
			settle(&self->way.ring, &self->hole, &cqe);
			ASSERT_LT(0, cqe.res);
			ASSERT_GE(64 - done, cqe.res);
		}
		for (i = 0; i < 64; i++) {
			ASSERT_EQ(i % 3 ? 0 : 8, ops[i].result);
			if (i % 3)
				ASSERT_EQ(i + 1000 * w, ops[i].arg);
		}
		kvt_hole_empty(&self->hole);
	}
	for (i = 0; i < 64; i++) {
		ASSERT_EQ(0, kvt_add(self->fd, kvt_bytes(&i, 4), 0, 0, &before));
		EXPECT_EQ(i % 3 ? i + 1000 * NR(where) : i, before);
	}
}

/* Outcomes cannot be written to a page before its copy on write. */
TEST_F(meanwhile, batch_with_an_array_to_be_copied_is_done_once)
{
	const size_t bytes = 8 * KVT_PAGE, nr = bytes / sizeof(struct kvtree_op);
	struct kvtree_op *ops;
	struct kvt_cqe cqe;
	__u64 before;
	__u32 i, done;
	int fd;

	fd = memfd_create("kvtree-test", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	for (i = 0; i < nr; i++) {
		struct kvtree_op op = kvt_op(KVTREE_OP_ADD, STR("n"));

		op.arg = 1;
		ASSERT_EQ(64, pwrite(fd, &op, 64, i * 64));
	}
	ops = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, ops);
	close(fd);
	for (i = 0; i < nr; i++)
		ASSERT_EQ(KVTREE_OP_ADD, ops[i].opcode);
	for (done = 0; done < nr; done += cqe.res) {
		kvt_sqe_batch(kvt_ring_sqe(&self->way.ring), self->fd, ops + done, nr - done, 1);
		kvt_ring_wait(&self->way.ring, &cqe);
		ASSERT_LT(0, cqe.res);
	}
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(i, ops[i].arg);
	}
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(nr, before);
	munmap(ops, bytes);
}

/*
 * Ends
 */
TEST_F(meanwhile, session_that_is_closed_stays_until_then)
{
	struct kvtree_op op = put_op(STR("k"), hole_bytes(self->in_hole));
	int fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);

	ASSERT_LE(0, fd);
	self->way.fd = fd;
	kvt_way_queue(&self->way, KVT_INLINE, &op, 1);
	kvt_ring_submit(&self->way.ring);
	kvt_hole_wait(&self->hole);
	close(fd);
	kvt_hole_fill(&self->hole);
	EXPECT_EQ(0, kvt_ring_result(&self->way.ring, 1));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), hole_bytes(self->in_hole)));
}

TEST_F(meanwhile, ring_can_be_closed)
{
	struct kvtree_op first = put_op(STR("first"), hole_bytes(self->in_hole));
	static struct queue q;
	__u32 i, there = 0;

	queue_make(&q, &self->way, KVT_INLINE, &first);
	kvt_hole_wait(&self->hole);
	kvt_ring_exit(&self->way.ring);
	kvt_hole_fill(&self->hole);
	queue_end(&q);
	/* Every executed operation was executed completely. */
	for (i = 0; i < QUEUED; i++) {
		if (!kvt_version(self->fd, kvt_bytes(q.keys[i], strlen(q.keys[i]))))
			continue;
		EXPECT_TRUE(queue_has(&q, self->fd, i));
		there++;
	}
	EXPECT_GE(QUEUED, there);
	ASSERT_EQ(0, kvt_put(self->fd, STR("still"), STR("works"), NULL));
}

struct victim {
	int fd;
	int waits;
};

static int wait_for_ever(void *arg)
{
	struct victim *v = arg;
	struct kvt_way way = { .fd = v->fd };
	static struct queue q;
	struct kvtree_op first;
	struct kvt_place hole;
	char val[64];

	memset(val, 'v', sizeof(val));
	kvt_ring_make(&way.ring, 64, LONG);
	first = put_op(STR("first"), kvt_bytes(kvt_place_make(&hole, KVT_HOLE, val, 64, 32), 64));
	queue_make(&q, &way, KVT_INLINE, &first);
	kvt_hole_wait(&hole);
	__atomic_store_n(&v->waits, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return 0;
}

static bool waits(void *arg)
{
	struct victim *v = arg;

	return __atomic_load_n(&v->waits, __ATOMIC_ACQUIRE);
}

TEST_F(meanwhile, process_can_be_killed)
{
	struct victim *v = kvt_map_shared(sizeof(*v));
	int i, pid;

	for (i = 0; i < 3; i++) {
		v->fd = self->fd;
		v->waits = 0;
		pid = kvt_fork(wait_for_ever, v);
		ASSERT_TRUE(kvt_eventually(waits, v));
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
		ASSERT_EQ(0, kvt_put(self->fd, STR("still"), STR("works"), NULL));
	}
}

TEST_HARNESS_MAIN
