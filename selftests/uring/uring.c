// SPDX-License-Identifier: GPL-2.0
/*
 * Commands by io_uring do what the system calls do, in every form and on every
 * kind of ring, and work together with the other features of rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/uring.h"
#include "lib/work.h"

/* Where an operation only gives a version back. */
#define VERSION_JUNK	0xfeedfacecafebeefull

/* A ring on which SQEs and CQEs of both sizes may follow each other. */
#define MIXED		(IORING_SETUP_SQE_MIXED | IORING_SETUP_CQE_MIXED)

static bool kernel_is_at_least(int major, int minor)
{
	struct utsname name;
	int a, b;

	KVT_CHECK(uname(&name) == 0);
	KVT_CHECK(sscanf(name.release, "%d.%d", &a, &b) == 2);
	return a > major || (a == major && b >= minor);
}

/*
 * What every kind of ring has to do
 */
FIXTURE(kinds) {
	struct kvt_env env;		/* commands work here */
	struct kvt_env twin;		/* and system calls here */
	struct kvt_way way;
};

FIXTURE_VARIANT(kinds) {
	unsigned int setup;		/* IORING_SETUP_* */
	unsigned int sqe_flags;		/* IOSQE_* */
};

FIXTURE_VARIANT_ADD(kinds, sqe64_cqe16) { .setup = 0 };
FIXTURE_VARIANT_ADD(kinds, sqe64_cqe32) { .setup = IORING_SETUP_CQE32 };
FIXTURE_VARIANT_ADD(kinds, sqe128_cqe16) { .setup = IORING_SETUP_SQE128 };
FIXTURE_VARIANT_ADD(kinds, sqe128_cqe32) { .setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 };
FIXTURE_VARIANT_ADD(kinds, sqpoll) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_SQPOLL,
};

FIXTURE_VARIANT_ADD(kinds, defer_taskrun) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_SINGLE_ISSUER |
		 IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_VARIANT_ADD(kinds, coop_taskrun) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_COOP_TASKRUN,
};

FIXTURE_VARIANT_ADD(kinds, workers) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.sqe_flags = IOSQE_ASYNC,
};

FIXTURE_VARIANT_ADD(kinds, workers_sqe64) { .setup = 0, .sqe_flags = IOSQE_ASYNC };

FIXTURE_VARIANT_ADD(kinds, registered_file) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.sqe_flags = IOSQE_FIXED_FILE,
};

FIXTURE_VARIANT_ADD(kinds, registered_file_of_workers) {
	.setup = IORING_SETUP_SQE128,
	.sqe_flags = IOSQE_FIXED_FILE | IOSQE_ASYNC,
};

FIXTURE_VARIANT_ADD(kinds, mixed) { .setup = MIXED };
FIXTURE_VARIANT_ADD(kinds, mixed_workers) { .setup = MIXED, .sqe_flags = IOSQE_ASYNC };
FIXTURE_VARIANT_ADD(kinds, mixed_sqpoll) { .setup = MIXED | IORING_SETUP_SQPOLL };

FIXTURE_SETUP(kinds)
{
	int files[3] = { -1, -1, -1 };

	if (variant->setup & MIXED && !kernel_is_at_least(7, 0))
		SKIP(return, "rings of mixed sizes are not in every kernel before 7.0");
	kvt_env_init(&self->env, "uring", 0, 0);
	kvt_env_init(&self->twin, "uring-twin", 0, 0);
	/* Eight long SQEs, and the padding before one that would wrap around. */
	kvt_ring_make(&self->way.ring, variant->setup & MIXED ? 32 : 8, variant->setup);
	self->way.fd = self->env.fd;
	self->way.sqe_flags = variant->sqe_flags;
	if (variant->sqe_flags & IOSQE_FIXED_FILE) {
		files[2] = self->env.fd;
		ASSERT_EQ(0, kvt_ring_files(&self->way.ring, files, 3));
		self->way.fd = 2;
	}
}

FIXTURE_TEARDOWN(kinds)
{
	kvt_ring_exit(&self->way.ring);
	kvt_env_exit(&self->twin);
	kvt_env_exit(&self->env);
}

/* A version in the table below that is the one that the key has. */
#define NOW		(~0ull)
#define ABSENT		KVTREE_COL_ABSENT

/* An operation that is executed on both stores, and its expected result. */
struct step {
	int result;
	int opcode;
	const char *key;
	int flags;
	const char *val;	/* what it stores */
	__u32 room;		/* or where it may store what it finds */
	__u64 version;
	__u64 arg;		/* of an addition */
	int col;
	int ncols;
	struct kvtree_col cols[4];
	const char *end;
	__u16 ids[4];		/* columns of a scan, scan.ncols of them */
	struct kvtree_scan scan;
};

#define LONG_KEY	"a key that does not fit into an operation"
#define GET		KVTREE_OP_GET
#define PUT		KVTREE_OP_PUT
#define CAS		KVTREE_OP_CAS
#define REMOVE		KVTREE_OP_REMOVE
#define ADD		KVTREE_OP_ADD
#define SCAN		KVTREE_OP_SCAN
#define COLS		KVTREE_F_COLS

static const struct step steps[] = {
	{ .opcode = KVTREE_OP_NOP },
	{ -ENOENT, GET, "a", .room = 64 },
	{ 0, PUT, "a", .val = "first" },
	{ 5, GET, "a", .room = 64 },
	{ 5, GET, "a", .room = 5 },
	{ -EMSGSIZE, GET, "a", .room = 4 },
	{ -EMSGSIZE, GET, .key = "a" },
	{ -EEXIST, PUT, "a", KVTREE_F_CREATE, .val = "other" },
	{ 0, PUT, "a", KVTREE_F_REPLACE, .val = "second" },
	{ -ENOENT, PUT, "b", KVTREE_F_REPLACE, .val = "other" },
	{ 0, PUT, "b", KVTREE_F_CREATE, .val = "" },
	{ 0, GET, "b", .room = 64 },
	{ 0, GET, .key = "b" },
	{ 0, PUT, LONG_KEY, .val = "long" },
	{ 4, GET, LONG_KEY, .room = 64 },
	{ 0, PUT, "", .val = "of the empty key" },
	{ 16, GET, "", .room = 64 },
	{ 0, PUT, "sixteen letters!", .val = "16" },
	{ 2, GET, "sixteen letters!", .room = 64 },

	{ 0, CAS, "c", .val = "made", .version = 0 },
	{ -ECANCELED, CAS, "c", .val = "other", .version = 0 },
	{ -ECANCELED, CAS, "c", .val = "other", .version = 77777 },
	{ 0, CAS, "c", .val = "changed", .version = NOW },
	{ 7, GET, "c", .room = 64 },
	{ -ECANCELED, CAS, "none", .val = "other", .version = 1 },

	{ 0, ADD, "n", .arg = 5 },
	{ 0, ADD, "n", .arg = -7ull },
	{ 8, GET, "n", .room = 8 },
	{ 0, ADD, "n", .arg = 1, .col = 255 },
	{ -EINVAL, ADD, "a", .arg = 1 },
	{ -ENOENT, ADD, "none", KVTREE_F_REPLACE, .arg = 1 },
	{ 0, ADD, "n", KVTREE_F_REPLACE, .arg = 1 },

	{ -ENOENT, REMOVE, .key = "none" },
	{ -ECANCELED, REMOVE, "c", KVTREE_F_VERSION, .version = 77777 },
	{ 0, REMOVE, "c", KVTREE_F_VERSION, .version = NOW },
	{ -ENOENT, REMOVE, "c", KVTREE_F_VERSION, .version = 1 },
	{ 0, REMOVE, .key = "b" },
	{ -ENOENT, GET, "b", .room = 64 },
	{ 0, PUT, "b", .val = "again" },

	{ 0, PUT, "m", COLS, "onetwothree", .ncols = 3,
	  .cols = { { 1, 0, 3 }, { 2, 0, 3 }, { 200, 0, 5 } } },
	{ 8, GET, "m", COLS, .room = 64, .ncols = 3, .cols = { { 1 }, { 3 }, { 200 } } },
	{ -EMSGSIZE, GET, "m", COLS, .room = 7, .ncols = 2, .cols = { { 1 }, { 200 } } },
	{ 11, GET, "m", COLS | KVTREE_F_ALL_COLS, .room = 64, .ncols = 4 },
	{ -EMSGSIZE, GET, "m", COLS | KVTREE_F_ALL_COLS, .room = 64, .ncols = 2 },
	{ 0, PUT, "m", COLS, "", .ncols = 1, .cols = { { 2, 0, ABSENT } } },
	{ 8, GET, "m", COLS | KVTREE_F_ALL_COLS, .room = 64, .ncols = 4 },
	{ 0, CAS, "m", COLS, "four", .version = NOW, .ncols = 1, .cols = { { 4, 0, 4 } } },
	{ 0, PUT, "m", COLS | KVTREE_F_WHOLE, "five", .ncols = 1, .cols = { { 5, 0, 4 } } },
	{ 4, GET, "m", COLS | KVTREE_F_ALL_COLS, .room = 64, .ncols = 4 },
	{ 0, GET, "m", .room = 64 },
	{ -EINVAL, PUT, "m", COLS, "ab", .ncols = 2, .cols = { { 2, 0, 1 }, { 1, 0, 1 } } },

	{ 0, SCAN, "zzz", .room = 512 },
	{ 1, SCAN, "", .room = 512 },
	{ 1, SCAN, "", .room = 512, .scan = { .limit = 2 } },
	{ 1, SCAN, "a", .room = 512, .scan = { .flags = KVTREE_SCAN_AFTER, .limit = 1 } },
	{ 1, SCAN, "", .room = 64 },
	{ -EMSGSIZE, SCAN, "", .room = 8 },
	{ 1, SCAN, "", .room = 512, .scan = { .flags = KVTREE_SCAN_KEYS_ONLY } },
	{ 1, SCAN, "", .room = 512, .scan = { .flags = KVTREE_SCAN_ALL_COLS } },
	{ 1, SCAN, "", .room = 512, .ids = { 0, 5 }, .scan = { .ncols = 2 } },
	{ 1, SCAN, "", .room = 512,
	  .scan = { .flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST } },
	{ 1, SCAN, "m", .room = 512, .end = "a", .scan = { .flags = KVTREE_SCAN_REVERSE } },
	{ 1, SCAN, "a", .room = 512, .end = "n",
	  .scan = { .flags = KVTREE_SCAN_END | KVTREE_SCAN_END_INCL } },
	{ 1, SCAN, "a k", .room = 512, .scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 1 } },
	{ 0, SCAN, "q", .room = 512, .scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 1 } },
	{ -EINVAL, SCAN, "a", .room = 512, .scan = { .flags = 1u << 31 } },
	{ -ENXIO, SCAN, "a", .room = 512, .scan = { .filter_id = 1 } },

	{ -EINVAL, KVTREE_OP_NR, .key = "a" },
	{ -EINVAL, 255, .key = "a" },
	{ -EINVAL, GET, "a", 1 << 15, .room = 64 },
	{ -EINVAL, KVTREE_OP_NOP, .key = "a" },
	{ -EINVAL, REMOVE, "a", .room = 1 },
	{ -EINVAL, PUT, "a", KVTREE_F_CREATE | KVTREE_F_REPLACE, .val = "x" },
	{ -EINVAL, GET, "a", .ncols = 1, .room = 64 },
};

#undef GET
#undef PUT
#undef CAS
#undef REMOVE
#undef ADD
#undef SCAN
#undef COLS

static void work_scan(struct kvt_work *w, const struct step *s)
{
	w->scan = s->scan;
	if (s->end) {
		strcpy(w->end, s->end);
		w->scan.end = kvt_ptr(w->end);
		w->scan.end_len = strlen(s->end);
	}
	if (s->scan.ncols) {
		memcpy(w->ids, s->ids, sizeof(w->ids));
		w->scan.cols = kvt_ptr(w->ids);
	}
	w->op.arg = kvt_ptr(&w->scan);
	w->op.arg_size = sizeof(w->scan);
}

/* A step as an operation; NOW means the version in the store of `fd`. */
static void work_init(struct kvt_work *w, const struct step *s, bool in_op, int fd)
{
	struct kvtree_op *op = &w->op;

	kvt_work_init(w);
	op->opcode = s->opcode;
	op->flags = s->flags;
	op->col = s->col;
	op->arg = s->arg;
	op->version = s->version;
	if (s->key)
		kvt_work_key(w, s->key, strlen(s->key), in_op);
	if (s->version == NOW)
		op->version = kvt_version(fd, kvt_bytes(s->key, strlen(s->key)));
	else if (s->opcode == KVTREE_OP_GET || s->opcode == KVTREE_OP_PUT ||
		 s->opcode == KVTREE_OP_ADD)
		op->version = VERSION_JUNK;
	if (s->val || s->room) {
		op->val = kvt_ptr(w->val);
		op->val_len = s->room;
	}
	if (s->val) {
		op->val_len = strlen(s->val);
		memcpy(w->val, s->val, op->val_len);
	}
	op->ncols = s->ncols;
	if (s->flags & KVTREE_F_COLS) {
		memcpy(w->cols, s->cols, sizeof(s->cols));
		op->arg = kvt_ptr(w->cols);
	}
	if (s->opcode == KVTREE_OP_SCAN)
		work_scan(w, s);
}

/* The system call: alternately the one for batches and the one for a single operation. */
static int call_exec(int fd, struct kvtree_op *op)
{
	static unsigned int turn;
	int err;

	if (turn++ % 2)
		return kvt_exec(fd, op);
	err = kvt_ioctl(fd, KVTREE_IOC_OP, op);
	return err ?: op->result;
}

/*
 * Execute both, which are equal; returns whether the outcomes are, too.  *result
 * is that of the system call.
 */
static bool same_outcome(struct kvt_way *way, int form, int twin, struct kvt_work *call,
			 struct kvt_work *cmd, int *result)
{
	struct kvtree_op before = cmd->op;
	struct kvt_cqe cqe;
	int ret;

	*result = call_exec(twin, &call->op);
	ret = kvt_way_exec(way, form, &cmd->op, &cqe);
	if (ret != *result || !kvt_same_memory(call, cmd))
		return false;
	/* Without a place for the outcome there is none. */
	if (form == KVT_INLINE && memcmp(&before, &cmd->op, sizeof(before)))
		return false;
	if (form != KVT_INLINE && !kvt_same_op(&call->op, &cmd->op))
		return false;
	/* Where a CQE may be long it is, if it has something to say. */
	if (!kvt_cqe_is_long(&way->ring, cqe.flags))
		return !(way->ring.flags & IORING_SETUP_CQE_MIXED) || !kvt_returns_version(ret);
	if (form != KVT_IN_BATCH && kvt_returns_version(ret) && cqe.extra[0] != call->op.version)
		return false;
	return cqe.extra[1] == 0;
}

/* Remove every key of the two stores, in the same way. */
static void wipe(int fd, int twin)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	size_t i;

	KVT_CHECK(kvt_digest(fd) == kvt_digest(twin));
	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i++) {
		KVT_CHECK(kvt_remove(fd, list.rec[i].key) == 0);
		KVT_CHECK(kvt_remove(twin, list.rec[i].key) == 0);
	}
	kvt_list_free(&list);
}

TEST_F(kinds, commands_do_what_the_calls_do)
{
	struct kvt_way *way = &self->way;
	struct kvt_work call, cmd;
	int form, in_op, ret;
	size_t i;

	for (form = 0; form < KVT_FORMS; form++) {
		if (!kvt_way_has(way, form))
			continue;
		for (in_op = 0; in_op < 2; in_op++) {
			for (i = 0; i < NR(steps); i++) {
				work_init(&call, &steps[i], in_op, self->twin.fd);
				work_init(&cmd, &steps[i], in_op, self->twin.fd);
				ASSERT_TRUE(same_outcome(way, form, self->twin.fd, &call, &cmd,
							 &ret)) {
					TH_LOG("%s, step %zu: %d", kvt_form_names[form], i, ret);
				}
				/* So many bytes of records as there are. */
				if (steps[i].opcode == KVTREE_OP_SCAN && ret > 0)
					ret = 1;
				ASSERT_EQ(steps[i].result, ret) {
					TH_LOG("step %zu", i);
				}
			}
			ASSERT_EQ(kvt_digest(self->twin.fd), kvt_digest(self->env.fd));
			wipe(self->env.fd, self->twin.fd);
		}
	}
}

static void random_key(struct kvt_rand *rand, struct kvt_work *w)
{
	static const char *const keys[] = {
		"", "a", "ab", "abc", "b", "sixteen letters!", LONG_KEY, LONG_KEY " too",
	};
	const char *key = keys[kvt_rand_below(rand, NR(keys))];

	kvt_work_key(w, key, strlen(key), kvt_rand_below(rand, 2));
}

static void random_cols(struct kvt_rand *rand, struct kvt_work *w)
{
	bool get = w->op.opcode == KVTREE_OP_GET;
	__u32 i, sum = 0, id = 0;

	w->op.flags |= KVTREE_F_COLS;
	w->op.ncols = kvt_rand_below(rand, NR(w->cols) + 1);
	w->op.arg = kvt_ptr(w->cols);
	for (i = 0; i < w->op.ncols; i++) {
		/* Now and then the same id twice, which is malformed. */
		id += kvt_rand_below(rand, 16) ? 1 + kvt_rand_below(rand, 3) : 0;
		w->cols[i].id = id;
		w->cols[i].len = get ? 0 : kvt_rand_below(rand, 60);
		if (!get && kvt_rand_below(rand, 8) == 0)
			w->cols[i].len = KVTREE_COL_ABSENT;
		else
			sum += w->cols[i].len;
	}
	if (!get)
		w->op.val_len = sum;
	if (get ? !kvt_rand_below(rand, 3) : false)
		w->op.flags |= KVTREE_F_ALL_COLS;
	if (!get && !kvt_rand_below(rand, 4))
		w->op.flags |= KVTREE_F_WHOLE;
}

static void random_scan(struct kvt_rand *rand, struct kvt_work *w)
{
	static const __u32 flags[] = {
		0, KVTREE_SCAN_REVERSE, KVTREE_SCAN_KEYS_ONLY, KVTREE_SCAN_AFTER,
		KVTREE_SCAN_PREFIX, KVTREE_SCAN_ALL_COLS, KVTREE_SCAN_LAST,
	};
	struct kvtree_scan *scan = &w->scan;
	__u32 i;

	for (i = kvt_rand_below(rand, 4); i; i--)
		scan->flags |= flags[kvt_rand_below(rand, NR(flags))];
	if (scan->flags & KVTREE_SCAN_PREFIX)
		scan->prefix_len = kvt_rand_below(rand, w->op.key_len + 1);
	scan->limit = kvt_rand_below(rand, 4);
	if (!kvt_rand_below(rand, 3)) {
		scan->end_len = kvt_rand_below(rand, 3);
		memcpy(w->end, "ab", 2);
		scan->end = kvt_ptr(w->end);
		scan->flags |= KVTREE_SCAN_END;
	}
	if (!kvt_rand_below(rand, 4)) {
		w->ids[0] = kvt_rand_below(rand, 3);
		w->ids[1] = w->ids[0] + kvt_rand_below(rand, 3);
		scan->cols = kvt_ptr(w->ids);
		scan->ncols = 2;
	}
	w->op.arg = kvt_ptr(scan);
	w->op.arg_size = sizeof(*scan);
}

/* An operation of any kind, most of them sensible. */
static void random_work(struct kvt_rand *rand, struct kvt_work *w, int fd)
{
	struct kvtree_op *op = &w->op;
	__u32 i;

	kvt_work_init(w);
	op->opcode = kvt_rand_below(rand, KVTREE_OP_NR);
	if (op->opcode == KVTREE_OP_NOP || op->opcode == KVTREE_OP_SYNC)
		return;
	random_key(rand, w);
	if (op->opcode == KVTREE_OP_ADD) {
		op->arg = kvt_rand(rand);
		op->col = kvt_rand_below(rand, 3);
	}
	if (op->opcode != KVTREE_OP_ADD && op->opcode != KVTREE_OP_REMOVE) {
		op->val = kvt_ptr(w->val);
		op->val_len = kvt_rand_below(rand, kvt_rand_below(rand, 2) ? sizeof(w->val) : 9);
	}
	if (op->opcode == KVTREE_OP_PUT || op->opcode == KVTREE_OP_CAS) {
		for (i = 0; i < op->val_len; i++)
			w->val[i] = kvt_rand(rand);
		if (op->opcode == KVTREE_OP_PUT && !kvt_rand_below(rand, 3))
			op->flags |= kvt_rand_below(rand, 2) ? KVTREE_F_CREATE : KVTREE_F_REPLACE;
	}
	if (op->opcode >= KVTREE_OP_GET && op->opcode <= KVTREE_OP_CAS && !kvt_rand_below(rand, 3))
		random_cols(rand, w);
	if (op->opcode == KVTREE_OP_REMOVE && kvt_rand_below(rand, 2))
		op->flags |= KVTREE_F_VERSION;
	if (op->opcode == KVTREE_OP_CAS || op->flags & KVTREE_F_VERSION)
		op->version = kvt_rand_below(rand, 4);
	/* Guesses are wrong for the most part. */
	if (op->version == 3) {
		op->version = kvt_version(fd, op->flags & KVTREE_F_KEY_INLINE ?
					  kvt_bytes(op->key_inline, op->key_len) :
					  kvt_bytes(w->key, op->key_len));
	}
	if (op->opcode == KVTREE_OP_SCAN)
		random_scan(rand, w);
	/* Not KVTREE_F_KEY_INLINE: a pointer is no key to compare. */
	if (!kvt_rand_below(rand, 16))
		op->flags ^= 1 << (1 + kvt_rand_below(rand, 15));
}

TEST_F(kinds, random_commands_do_what_the_calls_do)
{
	struct kvt_way *way = &self->way;
	struct kvt_rand rand, again;
	struct kvt_work call, cmd;
	int i, form, ret;

	kvt_rand_init(&rand, variant->setup * 31 + variant->sqe_flags);
	for (i = 0; i < 500; i++) {
		do {
			form = kvt_rand_below(&rand, KVT_FORMS);
		} while (!kvt_way_has(way, form));
		/* Twice the same, with pointers into either. */
		again = rand;
		random_work(&rand, &call, self->twin.fd);
		random_work(&again, &cmd, self->twin.fd);
		ASSERT_TRUE(same_outcome(way, form, self->twin.fd, &call, &cmd, &ret)) {
			TH_LOG("%s, round %d: operation %u, flags %x: not %d",
			       kvt_form_names[form], i, call.op.opcode, call.op.flags, ret);
		}
	}
	EXPECT_EQ(kvt_digest(self->twin.fd), kvt_digest(self->env.fd));
}

TEST_F(kinds, batches_do_what_the_calls_do)
{
	static struct kvt_work call[64], cmd[64];
	static struct kvtree_op call_ops[64], cmd_ops[64];
	struct kvt_way *way = &self->way;
	struct kvt_rand rand, again;
	struct kvt_cqe cqe;
	__u32 i, round, done;

	kvt_rand_init(&rand, 99 + variant->setup);
	for (round = 0; round < 12; round++) {
		again = rand;
		for (i = 0; i < 64; i++) {
			random_work(&rand, &call[i], self->twin.fd);
			call_ops[i] = call[i].op;
		}
		for (i = 0; i < 64; i++) {
			random_work(&again, &cmd[i], self->twin.fd);
			cmd_ops[i] = cmd[i].op;
		}
		ASSERT_EQ(0, kvt_batch_all(self->twin.fd, call_ops, 64));
		/* The rest, where it could not be done at once. */
		for (done = 0; done < 64; done += cqe.res) {
			kvt_sqe_batch(kvt_ring_sqe(&way->ring), way->fd, cmd_ops + done, 64 - done,
				      round);
			kvt_ring_sqe_at(&way->ring, way->ring.sq_tail - 1)->flags = way->sqe_flags;
			kvt_ring_wait(&way->ring, &cqe);
			ASSERT_EQ(round, cqe.data);
			ASSERT_LT(0, cqe.res);
			ASSERT_GE(64 - done, cqe.res);
			ASSERT_EQ(0, cqe.extra[1]);
		}
		for (i = 0; i < 64; i++) {
			ASSERT_TRUE(kvt_same_op(&call_ops[i], &cmd_ops[i])) {
				TH_LOG("round %u, operation %u: %d, not %d", round, i,
				       cmd_ops[i].result, call_ops[i].result);
			}
			ASSERT_TRUE(kvt_same_memory(&call[i], &cmd[i]));
		}
	}
	EXPECT_EQ(kvt_digest(self->twin.fd), kvt_digest(self->env.fd));
}

TEST_F(kinds, every_command_completes_once)
{
	struct kvt_way *way = &self->way;
	char keys[8][32], seen[8], vals[8][32];
	struct kvtree_op ops[8];
	struct kvt_cqe cqe;
	int form, round, i;

	for (i = 0; i < 8; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key number %d of several", i);
		ASSERT_EQ(0, kvt_put(self->env.fd, kvt_bytes(keys[i], strlen(keys[i])),
				     kvt_bytes(keys[i], strlen(keys[i])), NULL));
	}
	for (round = 0; round < 100; round++) {
		form = round % KVT_FORMS;
		if (!kvt_way_has(way, form))
			continue;
		memset(vals, 0, sizeof(vals));
		memset(seen, 0, sizeof(seen));
		for (i = 0; i < 8; i++) {
			ops[i] = kvt_op(KVTREE_OP_GET, kvt_bytes(keys[i], strlen(keys[i])));
			ops[i].val = kvt_ptr(vals[i]);
			ops[i].val_len = sizeof(vals[i]);
			kvt_way_queue(way, form, &ops[i], i);
		}
		for (i = 0; i < 8; i++) {
			kvt_ring_wait(&way->ring, &cqe);
			ASSERT_GT(8, cqe.data);
			ASSERT_EQ(0, seen[cqe.data]);
			seen[cqe.data] = 1;
			ASSERT_EQ(form == KVT_IN_BATCH ? 1 : (int)strlen(keys[0]), cqe.res);
			ASSERT_STREQ(keys[cqe.data], vals[cqe.data]);
		}
		ASSERT_FALSE(kvt_ring_reap(&way->ring, &cqe));
	}
}

/* None of them is slower to see what others did: one key, changed by turns. */
TEST_F(kinds, commands_and_calls_see_each_others_changes)
{
	struct kvt_way *way = &self->way;
	struct kvtree_op op;
	int form, i, n = 0;

	for (i = 0; i < 40; i++) {
		form = i % KVT_FORMS;
		if (!kvt_way_has(way, form))
			continue;
		op = kvt_op(KVTREE_OP_ADD, STR("n"));
		op.arg = 1;
		ASSERT_EQ(0, kvt_way_exec(way, form, &op, NULL));
		n++;
		ASSERT_EQ(0, kvt_add(self->env.fd, STR("n"), 0, 1, &op.arg));
		ASSERT_EQ(n, op.arg);
		n++;
	}
}

/*
 * What one ring with everything is enough for
 */
FIXTURE(uring) {
	struct kvt_env env;
	int fd;
	struct kvt_way way;
	struct kvt_ring *ring;
};

FIXTURE_SETUP(uring)
{
	kvt_env_init(&self->env, "uring", 0, 0);
	self->fd = self->env.fd;
	self->ring = &self->way.ring;
	kvt_ring_make(self->ring, 64, IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	self->way.fd = self->fd;
}

FIXTURE_TEARDOWN(uring)
{
	kvt_ring_exit(self->ring);
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

TEST_F(uring, info_reports_what_the_kernel_offers)
{
	__u64 has = kvt_features(self->fd);

	EXPECT_NE(0, has & KVTREE_FEAT_OP);
	EXPECT_NE(0, has & KVTREE_FEAT_URING);
	EXPECT_NE(0, has & KVTREE_FEAT_URING_FIXED);
	/* Commands with provided buffers are a matter of the kernel. */
	if (kernel_is_at_least(7, 0))
		EXPECT_NE(0, has & KVTREE_FEAT_URING_MULTISHOT);
	if (!kernel_is_at_least(6, 13))
		EXPECT_EQ(0, has & KVTREE_FEAT_URING_MULTISHOT);
}

/*
 * Two long ones and a short one by turns, so that in either queue every place is
 * the first of a long one, also the last, which has no second.
 */
TEST_F(uring, commands_of_both_sizes_follow_each_other)
{
	enum { INLINE, NOP, BY_POINTER };
	struct kvt_way way = { .fd = self->fd };
	char bufs[3][16];
	struct kvtree_op ops[3];
	struct kvt_cqe cqe;
	__u64 version;
	int i, j, seen;

	if (!kernel_is_at_least(7, 0))
		SKIP(return, "rings of mixed sizes are not in every kernel before 7.0");
	kvt_ring_make(&way.ring, 8, MIXED);
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, kvt_put(self->fd, STR("k"), kvt_bytes(&i, sizeof(i)), &version));
		for (j = 0; j < 3; j++)
			ops[j] = get_op(STR("k"), bufs[j], sizeof(bufs[j]));
		kvt_way_queue(&way, KVT_INLINE, &ops[INLINE], INLINE);
		kvt_ring_sqe(&way.ring)->user_data = NOP;
		kvt_way_queue(&way, KVT_BY_POINTER, &ops[BY_POINTER], BY_POINTER);
		for (seen = 0; seen != 7; seen |= 1 << cqe.data) {
			kvt_ring_wait(&way.ring, &cqe);
			ASSERT_GT(3, cqe.data);
			ASSERT_EQ(0, seen & 1 << cqe.data);
			ASSERT_EQ(cqe.data != NOP, kvt_cqe_is_long(&way.ring, cqe.flags));
			if (cqe.data == NOP) {
				ASSERT_EQ(0, cqe.res);
				continue;
			}
			ASSERT_EQ(sizeof(i), cqe.res);
			ASSERT_EQ(version, cqe.extra[0]);
			ASSERT_EQ(0, cqe.extra[1]);
			ASSERT_EQ(0, memcmp(bufs[cqe.data], &i, sizeof(i)));
		}
		ASSERT_FALSE(kvt_ring_reap(&way.ring, &cqe));
	}
	/* An SQE of 64 bytes has no room for an operation, whatever follows it. */
	kvt_sqe_inline(kvt_ring_sqe128(&way.ring), way.fd, &ops[INLINE], NULL, 4);
	way.ring.sq_tail--;
	ASSERT_EQ(-EINVAL, kvt_ring_result(&way.ring, 4));
	kvt_ring_exit(&way.ring);
}

TEST_F(uring, counters_know_every_command)
{
	struct kvt_way *way = &self->way;
	struct kvtree_op op, ops[10];
	int form, i, n = 0;

	for (form = 0; form < KVT_FORMS; form++) {
		for (i = 0; i < 5; i++, n++) {
			op = put_op(STR("k"), STR("v"));
			ASSERT_EQ(0, kvt_way_exec(way, form, &op, NULL));
		}
		/* Those that fail, too. */
		op = get_op(STR("none"), ops, sizeof(ops));
		ASSERT_EQ(-ENOENT, kvt_way_exec(way, form, &op, NULL));
		op = kvt_op(KVTREE_OP_NOP, kvt_bytes(NULL, 0));
		ASSERT_EQ(0, kvt_way_exec(way, form, &op, NULL));
		n += 2;
	}
	EXPECT_EQ(n, kvt_stat(self->fd, KVTREE_STAT_URING));
	EXPECT_EQ(5 * KVT_FORMS, kvt_stat(self->fd, KVTREE_STAT_PUT));
	EXPECT_EQ(KVT_FORMS, kvt_stat(self->fd, KVTREE_STAT_GET_MISS));
	/* A command is one, however many operations it carries. */
	for (i = 0; i < 10; i++)
		ops[i] = put_op(STR("k"), STR("v"));
	kvt_sqe_batch(kvt_ring_sqe(self->ring), self->fd, ops, 10, 1);
	ASSERT_EQ(10, kvt_ring_result(self->ring, 1));
	EXPECT_EQ(n + 1, kvt_stat(self->fd, KVTREE_STAT_URING));
	EXPECT_EQ(5 * KVT_FORMS + 10, kvt_stat(self->fd, KVTREE_STAT_PUT));
	/* System calls are none. */
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	EXPECT_EQ(n + 1, kvt_stat(self->fd, KVTREE_STAT_URING));
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_URING_WAIT));
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL));
}

TEST_F(uring, gets_of_a_batch_are_looked_up_together)
{
	struct kvtree_op ops[64];
	char vals[64][16];
	__u32 i;

	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, 4), kvt_bytes(&i, 4), NULL));
	for (i = 0; i < 64; i++) {
		ops[i] = get_op(kvt_bytes(NULL, 4), vals[i], sizeof(vals[i]));
		ops[i].flags = KVTREE_F_KEY_INLINE;
		memcpy(ops[i].key_inline, &i, 4);
	}
	kvt_sqe_batch(kvt_ring_sqe(self->ring), self->fd, ops, 64, 1);
	ASSERT_EQ(64, kvt_ring_result(self->ring, 1));
	for (i = 0; i < 64; i++) {
		EXPECT_EQ(4, ops[i].result);
		EXPECT_EQ(0, memcmp(&i, vals[i], 4));
	}
	EXPECT_EQ(64, kvt_stat(self->fd, KVTREE_STAT_GET_INTERLEAVED));
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_URING));
}

TEST_F(uring, batch_has_up_to_4096_operations_at_any_distance)
{
	static const __u32 strides[] = { 64, 72, 128, 4096 };
	struct kvtree_uring_batch arg = { .nr = KVTREE_BATCH_MAX };
	struct kvtree_op *op;
	struct kvt_cqe cqe;
	__u32 i, s, done;
	char *mem;

	mem = mmap(NULL, 4096 * 1024, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	for (s = 0; s < NR(strides); s++) {
		arg.op_size = strides[s];
		arg.nr = strides[s] > 128 ? 1024 : KVTREE_BATCH_MAX;
		memset(mem, 0, (size_t)arg.nr * arg.op_size);
		for (i = 0; i < arg.nr; i++) {
			op = (void *)(mem + (size_t)i * arg.op_size);
			*op = kvt_op(KVTREE_OP_ADD, kvt_bytes(NULL, 4));
			op->flags = KVTREE_F_KEY_INLINE;
			memcpy(op->key_inline, &i, 4);
			op->arg = 1;
		}
		for (done = 0; done < arg.nr; done += cqe.res) {
			struct kvtree_uring_batch rest = arg;

			rest.ops = kvt_ptr(mem + (size_t)done * arg.op_size);
			rest.nr = arg.nr - done;
			kvt_sqe_cmd(kvt_ring_sqe(self->ring), self->fd, KVTREE_URING_BATCH, &rest,
				    sizeof(rest), 1);
			kvt_ring_wait(self->ring, &cqe);
			ASSERT_LT(0, cqe.res);
		}
		ASSERT_EQ(arg.nr, done);
		for (i = 0; i < arg.nr; i++) {
			op = (void *)(mem + (size_t)i * arg.op_size);
			ASSERT_EQ(0, op->result);
			ASSERT_EQ(s, op->arg);
		}
	}
	/* Of none at all. */
	arg.nr = 0;
	arg.ops = 0;
	kvt_sqe_cmd(kvt_ring_sqe(self->ring), self->fd, KVTREE_URING_BATCH, &arg, sizeof(arg), 1);
	EXPECT_EQ(0, kvt_ring_result(self->ring, 1));
	munmap(mem, 4096 * 1024);
}

TEST_F(uring, operations_of_a_later_kernels_size_are_executed)
{
	static const __u32 sizes[] = { 64, 65, 72, 128, 4095, 4096 };
	struct kvtree_uring_op arg = {};
	char *mem = calloc(1, 4096), buf[16];
	struct kvtree_op *op = (void *)mem;
	size_t i;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("value"), NULL));
	for (i = 0; i < NR(sizes); i++) {
		*op = get_op(STR("k"), buf, sizeof(buf));
		arg.op = kvt_ptr(mem);
		arg.op_size = sizes[i];
		kvt_sqe_cmd(kvt_ring_sqe(self->ring), self->fd, KVTREE_URING_OP, &arg, sizeof(arg),
			    i);
		ASSERT_EQ(5, kvt_ring_result(self->ring, i));
		ASSERT_EQ(5, op->result);
	}
	free(mem);
}

TEST_F(uring, one_ring_serves_several_sessions)
{
	struct kvt_env other;
	int ro, fds[3];
	struct kvtree_op op;
	char buf[16];
	int i;

	kvt_env_init(&other, "uring-other", 0, 0);
	ro = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ);
	ASSERT_LE(0, ro);
	fds[0] = self->fd;
	fds[1] = other.fd;
	fds[2] = ro;
	for (i = 0; i < 3; i++) {
		self->way.fd = fds[i];
		op = put_op(STR("k"), kvt_bytes(&i, 4));
		ASSERT_EQ(i == 2 ? -EACCES : 0, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
	}
	for (i = 0; i < 3; i++) {
		self->way.fd = fds[i];
		op = get_op(STR("k"), buf, sizeof(buf));
		ASSERT_EQ(4, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
		EXPECT_EQ(i == 1, *(int *)buf);
	}
	close(ro);
	kvt_env_exit(&other);
}

TEST_F(uring, several_rings_serve_one_session)
{
	struct kvt_way ways[4] = {};
	struct kvtree_op ops[4][8];
	struct kvt_cqe cqe;
	__u64 before;
	int i, j, round;

	for (i = 0; i < 4; i++) {
		kvt_ring_make(&ways[i].ring, 8, i % 2 ? IORING_SETUP_SQE128 : 0);
		ways[i].fd = self->fd;
	}
	for (round = 0; round < 20; round++) {
		for (j = 0; j < 8; j++) {
			for (i = 0; i < 4; i++) {
				ops[i][j] = kvt_op(KVTREE_OP_ADD, STR("n"));
				ops[i][j].arg = 1;
				kvt_way_queue(&ways[i], KVT_BY_POINTER, &ops[i][j], j);
			}
		}
		for (i = 0; i < 4; i++)
			kvt_ring_submit(&ways[i].ring);
		for (i = 0; i < 4; i++) {
			for (j = 0; j < 8; j++) {
				kvt_ring_wait(&ways[i].ring, &cqe);
				ASSERT_EQ(0, cqe.res);
			}
		}
	}
	for (i = 0; i < 4; i++)
		kvt_ring_exit(&ways[i].ring);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(20 * 4 * 8, before);
}

struct adder {
	int fd;
	int times;
};

static void *add_thread(void *arg)
{
	struct adder *a = arg;
	struct kvt_way way = { .fd = a->fd };
	struct kvtree_op op;
	int i;

	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	for (i = 0; i < a->times; i++) {
		op = kvt_op(KVTREE_OP_ADD, STR("n"));
		op.arg = 1;
		KVT_CHECK(kvt_way_exec(&way, i % KVT_FORMS, &op, NULL) == 0);
	}
	kvt_ring_exit(&way.ring);
	return NULL;
}

TEST_F(uring, rings_of_several_threads_serve_one_session)
{
	struct adder adder = { .fd = self->fd, .times = 500 };
	pthread_t threads[4];
	__u64 before;
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, add_thread, &adder));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(4 * 500, before);
}

static int add_process(void *arg)
{
	add_thread(arg);
	return 0;
}

TEST_F(uring, rings_of_several_processes_serve_one_session)
{
	struct adder adder = { .fd = self->fd, .times = 300 };
	__u64 before;
	int i, pids[4];

	for (i = 0; i < 4; i++)
		pids[i] = kvt_fork(add_process, &adder);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, kvt_wait(pids[i]));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(4 * 300, before);
}

static char child_val[16];

static int put_own(void *arg)
{
	struct kvt_way *way = arg;
	struct kvtree_op op;

	/* The same address as the parent's, and other memory. */
	strcpy(child_val, "the child's");
	op = put_op(STR("k"), kvt_bytes(child_val, sizeof(child_val)));
	return kvt_way_exec(way, KVT_BY_POINTER, &op, NULL) ? 1 : 0;
}

TEST_F(uring, pointers_are_the_submitters)
{
	char buf[16];

	strcpy(child_val, "the parent's");
	ASSERT_EQ(0, kvt_run(put_own, &self->way));
	ASSERT_EQ(16, kvt_get(self->fd, STR("k"), buf, sizeof(buf), NULL));
	EXPECT_STREQ("the child's", buf);
}

TEST_F(uring, access_is_the_sessions)
{
	static const unsigned int access[] = { KVTREE_OPEN_READ, KVTREE_OPEN_WRITE };
	struct kvtree_scan scan;
	struct kvtree_op op;
	__u64 digest;
	char buf[256];
	int form, code, i, fd, ret;

	ASSERT_EQ(0, kvt_add(self->fd, STR("k"), 0, 1, NULL));
	for (i = 0; i < 2; i++) {
		fd = kvt_store(self->env.dev, self->env.name, access[i]);
		ASSERT_LE(0, fd);
		self->way.fd = fd;
		for (form = 0; form < KVT_FORMS; form++) {
			for (code = KVTREE_OP_GET; code <= KVTREE_OP_SCAN; code++) {
				bool reads = code == KVTREE_OP_GET || code == KVTREE_OP_SCAN;
				bool may = reads ? i == 0 : code == KVTREE_OP_ADD ? false : i == 1;

				op = kvt_op(code, STR("k"));
				memset(&scan, 0, sizeof(scan));
				if (code != KVTREE_OP_ADD && code != KVTREE_OP_REMOVE) {
					op.val = kvt_ptr(buf);
					op.val_len = reads ? sizeof(buf) : 8;
				}
				if (code == KVTREE_OP_SCAN)
					op.arg = kvt_ptr(&scan);
				if (code == KVTREE_OP_CAS)
					op.version = kvt_version(self->fd, STR("k"));
				digest = kvt_digest(self->fd);
				ret = kvt_way_exec(&self->way, form, &op, NULL);
				EXPECT_EQ(may, ret >= 0) {
					TH_LOG("%s, operation %d, access %u: %d",
					       kvt_form_names[form], code, access[i], ret);
				}
				if (may)
					continue;
				EXPECT_EQ(-EACCES, ret);
				EXPECT_EQ(digest, kvt_digest(self->fd));
			}
			kvt_put(self->fd, STR("k"), STR("12345678"), NULL);
		}
		close(fd);
	}
}

TEST_F(uring, commands_to_a_destroyed_store_are_estale)
{
	char name[KVTREE_NAME_MAX];
	struct kvtree_op op;
	char buf[16];
	int form, fd;

	snprintf(name, sizeof(name), "uring-gone-%d", getpid());
	ASSERT_EQ(0, kvt_create(self->env.dev, name, 0600, 0, 0));
	fd = kvt_store(self->env.dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	self->way.fd = fd;
	op = put_op(STR("k"), STR("v"));
	ASSERT_EQ(0, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
	ASSERT_EQ(0, kvt_destroy(self->env.dev, name));
	for (form = 0; form < KVT_FORMS; form++) {
		op = get_op(STR("k"), buf, sizeof(buf));
		EXPECT_EQ(-ESTALE, kvt_way_exec(&self->way, form, &op, NULL));
		self->way.sqe_flags = IOSQE_ASYNC;
		op = put_op(STR("k"), STR("v"));
		EXPECT_EQ(-ESTALE, kvt_way_exec(&self->way, form, &op, NULL));
		self->way.sqe_flags = 0;
	}
	close(fd);
}

TEST_F(uring, cancel_finds_nothing_where_nothing_waits)
{
	static const __u32 flags[] = {
		0, KVTREE_CANCEL_ALL, KVTREE_CANCEL_ANY, KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY,
	};
	struct kvtree_op op = put_op(STR("k"), STR("v"));
	size_t i;

	for (i = 0; i < NR(flags); i++) {
		kvt_sqe_cancel(kvt_ring_sqe(self->ring), self->fd, 7, flags[i], 1);
		EXPECT_EQ(-ENOENT, kvt_ring_result(self->ring, 1));
		/* Nor does one that has completed. */
		ASSERT_EQ(0, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
	}
}

/*
 * Registered buffers
 */
#define FIXED_BYTES	(KVTREE_VALUE_MAX + 3 * 4096)

/* A file that is mapped twice: one mapping to be registered, one to look at it. */
struct twice {
	char *reg;
	char *see;
};

static void map_twice(struct twice *t, size_t bytes)
{
	int fd = memfd_create("kvtree-test", MFD_CLOEXEC);

	KVT_CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
	t->reg = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	t->see = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	KVT_CHECK(t->reg != MAP_FAILED && t->see != MAP_FAILED);
	close(fd);
}

/* The buffers 0 and 2 of a ring; 1 has less. */
static void register_buffers(struct kvt_ring *ring, struct twice *big, struct twice *small)
{
	struct iovec iov[2];

	map_twice(big, FIXED_BYTES);
	map_twice(small, 8192);
	iov[0] = (struct iovec){ big->reg, FIXED_BYTES };
	/* In the middle of a page, and not a whole one. */
	iov[1] = (struct iovec){ small->reg + 1000, 5000 };
	KVT_CHECK(kvt_ring_buffers(ring, iov, 2) == 0);
}

static int exec_fixed(struct kvt_way *way, int form, struct kvtree_op *op, int index)
{
	struct io_uring_sqe *sqe = kvt_way_queue(way, form, op, 5);

	sqe->rw_flags = IORING_URING_CMD_FIXED;
	sqe->buf_index = index;
	return kvt_ring_result(&way->ring, 5);
}

static void fill(char *to, size_t len, unsigned int salt)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = i * 7 + i / 256 + salt;
}

static const __u32 fixed_lens[] = { 0, 1, 100, 2048, 4095, 4096, 4097, 65537, KVTREE_VALUE_MAX };

TEST_F(uring, values_come_from_and_go_to_registered_buffers)
{
	static const __u32 offsets[] = { 0, 1, 4095, 8192 };
	static char expect[KVTREE_VALUE_MAX], got[KVTREE_VALUE_MAX];
	struct twice big, small;
	struct kvtree_op op;
	__u32 i, j, len;
	int form;

	register_buffers(self->ring, &big, &small);
	for (form = KVT_INLINE; form <= KVT_BY_POINTER; form++) {
		self->way.sqe_flags = form == KVT_INLINE_OUT ? IOSQE_ASYNC : 0;
		for (i = 0; i < NR(fixed_lens); i++) {
			len = fixed_lens[i];
			for (j = 0; j < NR(offsets); j++) {
				if (len > 65537 && j % 3)
					continue;
				fill(big.see + offsets[j], len, i + j + form);
				fill(expect, len, i + j + form);
				op = put_op(STR("k"), kvt_bytes(big.reg + offsets[j], len));
				ASSERT_EQ(0, exec_fixed(&self->way, form, &op, 0));
				ASSERT_EQ((int)len, kvt_get(self->fd, STR("k"), got, sizeof(got),
							    NULL));
				ASSERT_EQ(0, memcmp(expect, got, len));

				memset(big.see, 0xee, FIXED_BYTES);
				op = get_op(STR("k"), big.reg + offsets[j], len + 1);
				ASSERT_EQ((int)len, exec_fixed(&self->way, form, &op, 0));
				ASSERT_EQ(0, memcmp(expect, big.see + offsets[j], len));
				/* Nothing before and nothing after. */
				ASSERT_EQ((char)0xee, big.see[offsets[j] + len]);
				if (offsets[j])
					ASSERT_EQ((char)0xee, big.see[offsets[j] - 1]);
			}
		}
	}
}

/* Of a buffer that begins and ends in the middle of a page. */
TEST_F(uring, registered_buffer_is_used_to_its_edges)
{
	struct twice big, small;
	struct kvtree_op op;
	char expect[5000];

	register_buffers(self->ring, &big, &small);
	fill(expect, sizeof(expect), 3);
	memcpy(small.see + 1000, expect, 5000);
	op = put_op(STR("k"), kvt_bytes(small.reg + 1000, 5000));
	ASSERT_EQ(0, exec_fixed(&self->way, KVT_INLINE, &op, 1));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), kvt_bytes(expect, 5000)));
	memset(small.see, 0, 8192);
	op = get_op(STR("k"), small.reg + 1000, 5000);
	ASSERT_EQ(5000, exec_fixed(&self->way, KVT_INLINE, &op, 1));
	EXPECT_EQ(0, memcmp(expect, small.see + 1000, 5000));
	EXPECT_EQ(0, small.see[999]);
	EXPECT_EQ(0, small.see[6000]);
	/* The last byte alone, and nothing at the end. */
	op = put_op(STR("k"), kvt_bytes(small.reg + 5999, 1));
	EXPECT_EQ(0, exec_fixed(&self->way, KVT_INLINE, &op, 1));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), kvt_bytes(expect + 4999, 1)));
	op = put_op(STR("k"), kvt_bytes(small.reg + 6000, 0));
	EXPECT_EQ(0, exec_fixed(&self->way, KVT_INLINE, &op, 1));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("")));
}

TEST_F(uring, what_lies_outside_of_a_registered_buffer_is_efault)
{
	struct twice big, small;
	struct {
		const char *what;
		const void *val;
		__u32 len;
		int index;
	} table[8];
	struct kvtree_op op;
	__u64 digest;
	size_t i, n = 0;
	int form;

	register_buffers(self->ring, &big, &small);
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	digest = kvt_digest(self->fd);
#define BAD(...)	(table[n++] = (typeof(table[0])){ __VA_ARGS__ })
	BAD("before", small.reg + 999, 10, 1);
	BAD("behind", small.reg + 6000, 1, 1);
	BAD("across the end", small.reg + 5999, 2, 1);
	BAD("longer than all", small.reg + 1000, 5001, 1);
	BAD("another buffer", big.reg, 10, 1);
	BAD("the same memory by another mapping", big.see, 10, 0);
	BAD("around the world", (void *)-8l, 16, 0);
	BAD("an index too much", big.reg, 10, 2);
#undef BAD
	for (i = 0; i < n; i++) {
		for (form = KVT_INLINE; form <= KVT_BY_POINTER; form++) {
			op = put_op(STR("k"), kvt_bytes(table[i].val, table[i].len));
			EXPECT_EQ(-EFAULT, exec_fixed(&self->way, form, &op, table[i].index)) {
				TH_LOG("put from %s", table[i].what);
			}
			/* All of the room has to be there, however short the value. */
			op = get_op(STR("k"), (void *)table[i].val, table[i].len);
			EXPECT_EQ(-EFAULT, exec_fixed(&self->way, form, &op, table[i].index)) {
				TH_LOG("get to %s", table[i].what);
			}
		}
	}
	op = get_op(STR("k"), small.reg + 1000, ~0u);
	EXPECT_EQ(-EFAULT, exec_fixed(&self->way, KVT_INLINE, &op, 1));
	op = put_op(STR("k"), kvt_bytes(big.reg, 1));
	EXPECT_EQ(-EFAULT, exec_fixed(&self->way, KVT_INLINE, &op, 65535));
	EXPECT_EQ(digest, kvt_digest(self->fd));
}

TEST_F(uring, registered_buffer_needs_a_ring_that_has_it)
{
	struct kvtree_op op = put_op(STR("k"), STR("v"));

	EXPECT_EQ(-EFAULT, exec_fixed(&self->way, KVT_INLINE, &op, 0));
	EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
}

/*
 * The registered memory counts, not what is mapped at its address now.
 */
TEST_F(uring, registered_buffer_outlives_its_mapping)
{
	struct twice big, small;
	struct kvtree_op op;

	register_buffers(self->ring, &big, &small);
	memset(big.see, 'a', FIXED_BYTES);
	/* Map something else at the same address. */
	ASSERT_EQ(big.reg, mmap(big.reg, FIXED_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	memset(big.reg, 'z', FIXED_BYTES);
	op = put_op(STR("k"), kvt_bytes(big.reg + 100, 5));
	ASSERT_EQ(0, exec_fixed(&self->way, KVT_INLINE, &op, 0));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("aaaaa")));
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("other"), NULL));
	op = get_op(STR("k"), big.reg + 100, 5);
	ASSERT_EQ(5, exec_fixed(&self->way, KVT_INLINE, &op, 0));
	EXPECT_EQ(0, memcmp("other", big.see + 100, 5));
	EXPECT_EQ('z', big.reg[100]);
	/* Nothing at all there. */
	ASSERT_EQ(0, munmap(big.reg, FIXED_BYTES));
	memset(big.see, 0, FIXED_BYTES);
	op = get_op(STR("k"), big.reg + 4090, 64);
	ASSERT_EQ(5, exec_fixed(&self->way, KVT_BY_POINTER, &op, 0));
	EXPECT_EQ(0, memcmp("other", big.see + 4090, 5));
}

TEST_F(uring, columns_and_records_use_registered_buffers)
{
	struct kvtree_col put[2] = { { .id = 1, .len = 3000 }, { .id = 9, .len = 2000 } }, get[4];
	struct kvtree_scan scan = {};
	char expect[5000], *plain = malloc(1 << 16);
	struct twice big, small;
	struct kvtree_op op;
	__u32 i, need;

	ASSERT_NE(NULL, plain);
	register_buffers(self->ring, &big, &small);
	fill(expect, 5000, 1);
	memcpy(big.see + 77, expect, 5000);
	op = put_op(STR("cols"), kvt_bytes(big.reg + 77, 5000));
	op.flags = KVTREE_F_COLS;
	op.ncols = 2;
	op.arg = kvt_ptr(put);
	ASSERT_EQ(0, exec_fixed(&self->way, KVT_INLINE, &op, 0));
	memset(big.see, 0, FIXED_BYTES);
	op = get_op(STR("cols"), big.reg + 4000, 5000);
	op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	op.ncols = 4;
	op.arg = kvt_ptr(get);
	ASSERT_EQ(5000, exec_fixed(&self->way, KVT_INLINE_OUT, &op, 0));
	EXPECT_EQ(2, op.ncols);
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));
	EXPECT_EQ(0, memcmp(expect, big.see + 4000, 5000));

	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, 4), kvt_bytes(expect, 1 + i * 20),
				     NULL));
	for (i = 0; i < 4; i++) {
		memset(&scan, 0, sizeof(scan));
		scan.flags = i & 1 ? KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST : 0;
		scan.limit = i & 2 ? 7 : 0;
		memset(plain, 0x55, 1 << 16);
		op = kvt_op(KVTREE_OP_SCAN, STR(""));
		op.arg = kvt_ptr(&scan);
		op.val = kvt_ptr(plain);
		op.val_len = 1 << 16;
		need = kvt_exec(self->fd, &op);
		ASSERT_LT(0, (int)need);
		memset(big.see, 0x55, FIXED_BYTES);
		scan.count = 0;
		op.val = kvt_ptr(big.reg + 8);
		ASSERT_EQ((int)need, exec_fixed(&self->way, i, &op, 0));
		EXPECT_EQ(0, memcmp(plain, big.see + 8, 1 << 16));
		EXPECT_LT(0, scan.count);
		if (i == KVT_BY_POINTER)
			break;
	}
	/* One that needs more than there is. */
	op = get_op(STR("cols"), big.reg, 10);
	op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	op.ncols = 4;
	op.arg = kvt_ptr(get);
	EXPECT_EQ(-EMSGSIZE, exec_fixed(&self->way, KVT_INLINE_OUT, &op, 0));
	EXPECT_EQ(5000, op.val_len);
	free(plain);
}

TEST_F(uring, registered_buffers_are_refused_where_there_is_no_value)
{
	static const int codes[] = { KVTREE_OP_NOP, KVTREE_OP_REMOVE, KVTREE_OP_ADD };
	struct twice big, small;
	struct io_uring_sqe *sqe;
	struct kvtree_op op;
	__u64 digest;
	size_t i;
	int form;

	register_buffers(self->ring, &big, &small);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 1, NULL));
	digest = kvt_digest(self->fd);
	for (i = 0; i < NR(codes); i++) {
		for (form = KVT_INLINE; form < KVT_FORMS; form++) {
			op = kvt_op(codes[i], codes[i] ? STR("n") : kvt_bytes(NULL, 0));
			EXPECT_EQ(-EINVAL, exec_fixed(&self->way, form, &op, 0)) {
				TH_LOG("operation %d, %s", codes[i], kvt_form_names[form]);
			}
		}
	}
	/* Whatever the batch contains. */
	op = put_op(STR("k"), kvt_bytes(big.reg, 4));
	EXPECT_EQ(-EINVAL, exec_fixed(&self->way, KVT_IN_BATCH, &op, 0));
	sqe = kvt_ring_sqe(self->ring);
	kvt_sqe_cancel(sqe, self->fd, 1, 0, 5);
	sqe->rw_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EINVAL, kvt_ring_result(self->ring, 5));
	EXPECT_EQ(digest, kvt_digest(self->fd));
}

/* On arm64 the upper byte of an address may be a tag. */
TEST_F(uring, values_may_be_at_tagged_addresses)
{
	struct kvt_way way = { .fd = self->fd };
	char *val = malloc(20000), *got = malloc(20000);
	struct kvtree_op op;
	int form, i;

	if (!kvt_allow_tags())
		SKIP(return, "no addresses with a tag");
	ASSERT_TRUE(val && got);
	/* A new ring, since only threads made from now on accept tags. */
	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	for (form = 0; form < KVT_FORMS; form++) {
		for (i = 0; i < 2; i++) {
			way.sqe_flags = i ? IOSQE_ASYNC : 0;
			fill(val, 20000, 2 * form + i);
			op = put_op(STR("key"), kvt_bytes(val, 20000));
			op.key |= KVT_TAG;
			op.val |= KVT_TAG;
			ASSERT_EQ(0, kvt_way_exec(&way, form, &op, NULL)) {
				TH_LOG("%s", kvt_form_names[form]);
			}
			op = get_op(STR("key"), got, 20000);
			op.key |= KVT_TAG;
			op.val |= KVT_TAG;
			ASSERT_EQ(20000, kvt_way_exec(&way, form, &op, NULL));
			ASSERT_EQ(0, memcmp(val, got, 20000));
		}
	}
	kvt_ring_exit(&way.ring);
	free(val);
	free(got);
}

/*
 * Neighbours on the ring
 */
TEST_F(uring, registered_file_outlives_its_descriptor)
{
	int fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	struct kvtree_op op;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvt_ring_files(self->ring, &fd, 1));
	close(fd);
	self->way.fd = 0;
	self->way.sqe_flags = IOSQE_FIXED_FILE;
	op = put_op(STR("k"), STR("v"));
	EXPECT_EQ(0, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("v")));
	self->way.fd = 1;
	EXPECT_EQ(-EBADF, kvt_way_exec(&self->way, KVT_INLINE, &op, NULL));
}

static bool sleeps(void *arg)
{
	const struct kvt_ring *ring = arg;

	return __atomic_load_n(ring->ksq_flags, __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP;
}

TEST_F(uring, thread_that_submits_is_woken)
{
	struct kvt_way way = { .fd = self->fd };
	struct kvtree_op op;
	__u64 before;
	int i;

	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQPOLL | IORING_SETUP_SQE128);
	for (i = 0; i < 16; i++) {
		/* Asleep, or awake still. */
		if (i % 2)
			ASSERT_TRUE(kvt_eventually(sleeps, &way.ring));
		op = kvt_op(KVTREE_OP_ADD, STR("n"));
		op.arg = 1;
		ASSERT_EQ(0, kvt_way_exec(&way, i / 2 % KVT_FORMS, &op, NULL));
	}
	kvt_ring_exit(&way.ring);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(16, before);
}

struct slow_thread {
	unsigned int head;
	unsigned int tail;
	bool stop;
};

/* As the kernel's thread does: take all there is, at any moment. */
static void *take_all(void *arg)
{
	struct slow_thread *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED))
		__atomic_store_n(&t->head, __atomic_load_n(&t->tail, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	return NULL;
}

/*
 * A test of the tests' own client: room that appears while it looks is room.  For a
 * second or two, since the threads wait for each other.
 */
TEST_F(uring, full_ring_of_a_polling_thread_has_room_again)
{
	struct slow_thread t = { 0 };
	struct kvt_ring ring;
	pthread_t thread;
	time_t end = time(NULL) + 2;
	int full = 0;

	kvt_ring_make(&ring, 2, 0);
	ring.flags |= IORING_SETUP_SQPOLL;
	ring.ksq_head = &t.head;
	ring.ksq_tail = &t.tail;
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_all, &t));
	while (time(NULL) < end) {
		full += !kvt_ring_sqe(&ring);
		kvt_ring_publish(&ring);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	kvt_ring_exit(&ring);
	EXPECT_EQ(0, full);
}

/* Queue a chain of operations; `flags` goes into all but the last. */
static void queue_chain(struct kvt_way *way, struct kvtree_op *ops, int nr, int form,
			unsigned int flags)
{
	int i;

	for (i = 0; i < nr; i++) {
		way->sqe_flags = i < nr - 1 ? flags : 0;
		kvt_way_queue(way, form, &ops[i], i);
	}
	way->sqe_flags = 0;
}

static void reap_chain(struct kvt_way *way, int *results, int nr)
{
	struct kvt_cqe cqe;
	int i;

	for (i = 0; i < nr; i++) {
		kvt_ring_wait(&way->ring, &cqe);
		KVT_CHECK(cqe.data == i);
		results[i] = cqe.res;
	}
}

static void check_chain(struct kvt_way *way, int form, unsigned int flags)
{
	struct kvtree_op ops[4];
	char buf[2][16] = { "" };
	int res[4];

	ops[0] = put_op(STR("k"), STR("one"));
	ops[1] = get_op(STR("k"), buf[0], 16);
	ops[2] = put_op(STR("k"), STR("three"));
	ops[3] = get_op(STR("k"), buf[1], 16);
	queue_chain(way, ops, 4, form, IOSQE_IO_LINK | flags);
	reap_chain(way, res, 4);
	KVT_CHECK(!res[0] && res[1] == 3 && !res[2] && res[3] == 5);
	KVT_CHECK(!memcmp(buf[0], "one", 3) && !memcmp(buf[1], "three", 5));
}

/*
 * Many times: after a worker has executed a command, worker and task race.  Either may
 * execute the next one, and its SQE may or may not have been copied by then.
 */
TEST_F(uring, links_are_executed_in_order)
{
	int form, i;

	for (form = 0; form < KVT_IN_BATCH; form++) {
		check_chain(&self->way, form, 0);
		for (i = 0; i < 400; i++)
			check_chain(&self->way, form, IOSQE_ASYNC);
	}
}

TEST_F(uring, failure_ends_a_chain_but_not_a_hard_one)
{
	struct kvtree_op ops[3];
	int form, hard, res[3];
	char buf[16];

	for (form = 0; form < KVT_IN_BATCH; form++) {
		for (hard = 0; hard < 2; hard++) {
			kvt_remove(self->fd, STR("last"));
			ops[0] = put_op(STR("first"), STR("x"));
			ops[1] = get_op(STR("none"), buf, 16);
			ops[2] = put_op(STR("last"), STR("x"));
			queue_chain(&self->way, ops, 3, form,
				    hard ? IOSQE_IO_HARDLINK : IOSQE_IO_LINK);
			reap_chain(&self->way, res, 3);
			EXPECT_EQ(0, res[0]);
			EXPECT_EQ(-ENOENT, res[1]);
			EXPECT_EQ(hard ? 0 : -ECANCELED, res[2]);
			EXPECT_EQ(!hard, kvt_version(self->fd, STR("last")) == 0);
		}
	}
	/* What fails within a batch does not make the batch fail. */
	ops[1] = get_op(STR("none"), buf, 16);
	queue_chain(&self->way, ops + 1, 2, KVT_IN_BATCH, IOSQE_IO_LINK);
	reap_chain(&self->way, res, 2);
	EXPECT_EQ(1, res[0]);
	EXPECT_EQ(1, res[1]);
}

TEST_F(uring, links_with_others_work)
{
	struct io_uring_sqe *sqe;
	struct kvtree_op op;
	int pipe_fds[2], res[3];
	char in[8] = "", buf[8] = "value";

	/* Put the data of a read: the buffer is only read when the command is executed. */
	ASSERT_EQ(0, pipe(pipe_fds));
	ASSERT_EQ(5, write(pipe_fds[1], "piped", 5));
	sqe = kvt_ring_sqe(self->ring);
	sqe->opcode = IORING_OP_READ;
	sqe->fd = pipe_fds[0];
	sqe->addr = kvt_ptr(in);
	sqe->len = 5;
	sqe->off = -1ull;
	sqe->flags = IOSQE_IO_LINK;
	op = put_op(STR("k"), kvt_bytes(in, 5));
	self->way.sqe_flags = IOSQE_IO_LINK;
	kvt_way_queue(&self->way, KVT_INLINE, &op, 1);
	sqe = kvt_ring_sqe(self->ring);
	sqe->opcode = IORING_OP_WRITE;
	sqe->fd = pipe_fds[1];
	sqe->addr = kvt_ptr(buf);
	sqe->len = 5;
	sqe->off = -1ull;
	sqe->user_data = 2;
	reap_chain(&self->way, res, 3);
	EXPECT_EQ(5, res[0]);
	EXPECT_EQ(0, res[1]);
	EXPECT_EQ(5, res[2]);
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("piped")));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

TEST_F(uring, drain_waits_for_all_before)
{
	struct kvtree_op ops[20], last;
	struct kvt_cqe cqe;
	char buf[16];
	__u32 i;

	for (i = 0; i < 20; i++) {
		ops[i] = kvt_op(KVTREE_OP_ADD, STR("n"));
		ops[i].arg = 1;
		self->way.sqe_flags = i % 2 ? IOSQE_ASYNC : 0;
		kvt_way_queue(&self->way, i % KVT_IN_BATCH, &ops[i], i);
	}
	last = get_op(STR("n"), buf, 16);
	self->way.sqe_flags = IOSQE_IO_DRAIN;
	kvt_way_queue(&self->way, KVT_INLINE, &last, 20);
	for (i = 0; i < 21; i++) {
		kvt_ring_wait(self->ring, &cqe);
		EXPECT_EQ(i == 20, cqe.data == 20);
		EXPECT_EQ(i == 20 ? 8 : 0, cqe.res);
	}
	EXPECT_EQ(20, *(__u64 *)buf);
}

TEST_F(uring, success_without_a_completion)
{
	static const unsigned int flags[] = { 0, IOSQE_ASYNC };
	struct kvtree_op op, nop = kvt_op(KVTREE_OP_NOP, kvt_bytes(NULL, 0));
	struct kvt_cqe cqe;
	char buf[16];
	int f, form;

	for (f = 0; f < 2; f++) {
		for (form = 0; form < KVT_FORMS; form++) {
			kvt_remove(self->fd, STR("k"));
			op = put_op(STR("k"), STR("v"));
			self->way.sqe_flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK | flags[f];
			kvt_way_queue(&self->way, form, &op, 1);
			/* The next one is executed when that is done. */
			self->way.sqe_flags = 0;
			kvt_way_queue(&self->way, KVT_INLINE, &nop, 2);
			kvt_ring_wait(self->ring, &cqe);
			ASSERT_EQ(2, cqe.data);
			ASSERT_TRUE(kvt_has(self->fd, STR("k"), STR("v")));
			ASSERT_FALSE(kvt_ring_reap(self->ring, &cqe));
			if (form == KVT_IN_BATCH)
				continue;
			/* Failure has one. */
			op = get_op(STR("none"), buf, 16);
			self->way.sqe_flags = IOSQE_CQE_SKIP_SUCCESS | flags[f];
			ASSERT_EQ(-ENOENT, kvt_way_exec(&self->way, form, &op, &cqe));
		}
	}
}

/*
 * A ring that polls for completions
 */
TEST_F(uring, polling_rings_work_or_are_refused)
{
	bool offered = kvt_features(self->fd) & KVTREE_FEAT_URING_IOPOLL;
	struct kvt_way way = { .fd = self->fd };
	static const unsigned int flags[] = { 0, IOSQE_ASYNC };
	struct kvtree_op op;
	char buf[16];
	int form, f, ret, ok = offered ? 0 : -EOPNOTSUPP;

	kvt_ring_make(&way.ring, 8, IORING_SETUP_IOPOLL | IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	for (f = 0; f < 2; f++) {
		way.sqe_flags = flags[f];
		for (form = 0; form < KVT_FORMS; form++) {
			op = put_op(STR("k"), STR("value"));
			EXPECT_EQ(ok, kvt_way_exec(&way, form, &op, NULL));
			op = get_op(STR("k"), buf, 16);
			ret = kvt_way_exec(&way, form, &op, NULL);
			EXPECT_EQ(offered ? 5 : -EOPNOTSUPP, ret);
			op = kvt_op(KVTREE_OP_REMOVE, STR("k"));
			EXPECT_EQ(ok, kvt_way_exec(&way, form, &op, NULL));
			EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
		}
	}
	kvt_ring_exit(&way.ring);
}

TEST_F(uring, more_completions_than_the_queue_holds_are_kept)
{
	static const unsigned int flags[] = { 0, IOSQE_ASYNC };
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_CQSIZE,
		.cq_entries = 4,
	};
	struct kvt_way way = { .fd = self->fd };
	struct kvtree_op ops[64];
	struct kvt_cqe cqe;
	__u64 seen;
	__u32 i, f;

	ASSERT_EQ(0, kvt_ring_init_params(&way.ring, 4, &params));
	ASSERT_EQ(4, way.ring.cq_entries);
	for (f = 0; f < 2; f++) {
		way.sqe_flags = flags[f];
		for (i = 0; i < 64; i++) {
			ops[i] = put_op(kvt_bytes(NULL, 4), kvt_bytes(&ops[i], 4));
			ops[i].flags = KVTREE_F_KEY_INLINE;
			memcpy(ops[i].key_inline, &i, 4);
			kvt_way_queue(&way, i % KVT_IN_BATCH, &ops[i], i);
			kvt_ring_submit(&way.ring);
		}
		seen = 0;
		for (i = 0; i < 64; i++) {
			kvt_ring_wait(&way.ring, &cqe);
			ASSERT_EQ(0, cqe.res);
			ASSERT_GT(64, cqe.data);
			ASSERT_EQ(0, seen >> cqe.data & 1);
			seen |= 1ull << cqe.data;
			/* What the long completion says is kept with it. */
			ASSERT_EQ(kvt_version(self->fd, kvt_bytes(&cqe.data, 4)), cqe.extra[0]);
			ASSERT_EQ(0, cqe.extra[1]);
		}
		ASSERT_FALSE(kvt_ring_reap(&way.ring, &cqe));
	}
	kvt_ring_exit(&way.ring);
}

TEST_HARNESS_MAIN
