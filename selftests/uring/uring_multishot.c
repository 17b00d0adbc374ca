// SPDX-License-Identifier: GPL-2.0
/*
 * Multishot scans: the records of one command fill one provided buffer after the
 * other, and are those of a scan by system calls.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "../../lib/kvtree_uring.h"
#include "lib/place.h"
#include "lib/uring.h"
#include "lib/work.h"

#define NR_KEYS		500
#define GROUP		7
#define BUFS		32
#define BUF_BYTES	1024

struct shots {
	struct kvt_env env;
	int fd;
	struct kvt_way way;
	struct kvt_bufs bufs;
	bool given[BUFS];	/* the kernel has it */
	__u32 queue[BUFS];	/* those, in the order in which it uses them */
	__u32 first;
	__u32 nr;
	char *mem;		/* the buffers', one after the other */
	__u32 size;		/* of each */
};

FIXTURE(shots) {
	struct shots s;
};

FIXTURE_VARIANT(shots) {
	unsigned int setup;
};

FIXTURE_VARIANT_ADD(shots, short_sqes) { .setup = 0 };
FIXTURE_VARIANT_ADD(shots, long_sqes) { .setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 };
FIXTURE_VARIANT_ADD(shots, thread) { .setup = IORING_SETUP_SQE128 | IORING_SETUP_SQPOLL };
FIXTURE_VARIANT_ADD(shots, deferred) {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_SINGLE_ISSUER |
		 IORING_SETUP_DEFER_TASKRUN,
};

static bool offered(void)
{
	int dev = kvt_open();
	__u64 features;

	KVT_CHECK(dev >= 0);
	features = kvt_features(dev);
	close(dev);
	return features & KVTREE_FEAT_URING_MULTISHOT;
}

/* Keys of several lengths, some of which begin with others. */
static __u32 key_of(__u32 i, char *key)
{
	return sprintf(key, "%s%05u%s", i % 3 ? "key" : "prefix-", i, i % 5 ? "" : "-and-more");
}

static void populate(int fd)
{
	struct kvtree_col cols[2] = { { .id = 0 }, { .id = 5, .len = 4 } };
	char key[64], val[64];
	__u32 i;

	for (i = 0; i < NR_KEYS; i++) {
		memset(val, 'a' + i % 26, sizeof(val));
		cols[0].len = i % 40;
		KVT_CHECK(kvt_put_cols(fd, kvt_bytes(key, key_of(i, key)), cols, 2,
				       kvt_bytes(val, i % 40 + 4), NULL) == 0);
	}
}

static void give(struct shots *s, __u32 id)
{
	KVT_CHECK(!s->given[id]);
	s->given[id] = true;
	s->queue[(s->first + s->nr++) % BUFS] = id;
	memset(s->mem + id * s->size, 0xa5, s->size);
	kvt_bufs_add(&s->bufs, s->mem + id * s->size, s->size, id);
}

/* The kernel has used one; which? */
static __u32 used(struct shots *s)
{
	__u32 id = s->queue[s->first++ % BUFS];

	KVT_CHECK(s->nr--);
	KVT_CHECK(s->given[id]);
	s->given[id] = false;
	return id;
}

static void give_all(struct shots *s)
{
	__u32 i;

	for (i = 0; i < BUFS; i++)
		if (!s->given[i])
			give(s, i);
}

FIXTURE_SETUP(shots)
{
	struct shots *s = &self->s;

	if (!offered())
		SKIP(return, "this kernel has no commands with provided buffers");
	kvt_env_init(&s->env, "shots", 0, 0);
	s->fd = s->env.fd;
	populate(s->fd);
	kvt_ring_make(&s->way.ring, 64, variant->setup);
	s->way.fd = s->fd;
	s->size = BUF_BYTES;
	s->mem = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	ASSERT_NE(MAP_FAILED, s->mem);
	ASSERT_EQ(0, kvt_bufs_init(&s->bufs, &s->way.ring, GROUP, BUFS));
}

FIXTURE_TEARDOWN(shots)
{
	struct shots *s = &self->s;

	if (s->way.ring.fd >= 0) {
		kvt_bufs_exit(&s->bufs, &s->way.ring);
		kvt_ring_exit(&s->way.ring);
	}
	munmap(s->mem, 1 << 20);
	kvt_env_exit(&s->env);
}

/* Start over with buffers of another size. */
static void renew(struct shots *s, __u32 size)
{
	kvt_bufs_exit(&s->bufs, &s->way.ring);
	KVT_CHECK(kvt_bufs_init(&s->bufs, &s->way.ring, GROUP, BUFS) == 0);
	memset(s->given, 0, sizeof(s->given));
	s->nr = 0;
	s->size = size;
}

static struct io_uring_sqe *queue(struct kvt_way *way, struct kvtree_op *op, __u64 data)
{
	enum kvt_form form = kvt_way_has(way, KVT_INLINE) && data % 2 ? KVT_INLINE : KVT_BY_POINTER;
	struct io_uring_sqe *sqe = kvt_way_queue(way, form, op, data);

	kvtree_prep_multishot(sqe, GROUP);
	return sqe;
}

static void append(struct kvt_list *list, const struct kvtree_rec *rec)
{
	const char *key = (const char *)rec + rec->hdr_len;
	struct kvt_rec *to;
	char *copy;

	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->rec = realloc(list->rec, list->room * sizeof(*list->rec));
		KVT_CHECK(list->rec);
	}
	copy = malloc(rec->key_len + 1);
	KVT_CHECK(copy);
	to = &list->rec[list->nr++];
	to->key = kvt_bytes(memcpy(copy, key, rec->key_len), rec->key_len);
	copy = malloc(rec->val_len + 1);
	KVT_CHECK(copy);
	to->val = kvt_bytes(memcpy(copy, key + rec->key_len, rec->val_len), rec->val_len);
	to->version = rec->version;
	to->ncols = rec->ncols;
	to->flags = rec->flags;
}

/* One that is used up without a record has the whole buffer to itself. */
static void check_skip(const struct kvtree_rec *rec, __s32 res)
{
	const char *p;

	KVT_CHECK(rec->flags == KVTREE_REC_SKIP && rec->rec_len == (__u32)res);
	KVT_CHECK(rec->hdr_len == sizeof(*rec) && !rec->key_len && !rec->val_len);
	KVT_CHECK(!rec->ncols && !rec->version);
	for (p = (const char *)(rec + 1); p < (const char *)rec + res; p++)
		KVT_CHECK(*p == (char)0xa5);
}

/* Take the records of one buffer, and provide it again. */
static void take(struct shots *s, const struct kvt_cqe *cqe, struct kvt_list *list)
{
	__u32 id = kvt_cqe_buffer(cqe), at = 0;
	char *buf = s->mem + id * s->size;
	const struct kvtree_rec *rec;

	KVT_CHECK(cqe->flags & IORING_CQE_F_BUFFER);
	KVT_CHECK(used(s) == id);
	KVT_CHECK(cqe->res > 0 && (__u32)cqe->res <= s->size);
	while (at < (__u32)cqe->res) {
		rec = (const void *)(buf + at);
		KVT_CHECK(rec->rec_len % 8 == 0 && rec->rec_len <= cqe->res - at);
		KVT_CHECK(rec->hdr_len >= sizeof(*rec));
		KVT_CHECK(rec->hdr_len + rec->key_len + rec->val_len <= rec->rec_len);
		if (rec->flags & KVTREE_REC_SKIP) {
			check_skip(rec, cqe->res);
			KVT_CHECK((__u32)cqe->res == s->size);
		} else {
			append(list, rec);
		}
		at += rec->rec_len;
	}
	KVT_CHECK(at == cqe->res);
	/* Nothing was written after them. */
	for (; at < s->size; at++)
		KVT_CHECK(buf[at] == (char)0xa5);
	list->calls++;
}

/* Reap all completions of a command; returns the result of the last one. */
static int reap(struct shots *s, __u64 data, struct kvt_list *list, bool again)
{
	struct kvt_cqe cqe;

	for (;;) {
		kvt_ring_wait(&s->way.ring, &cqe);
		KVT_CHECK(cqe.data == data);
		if (!(cqe.flags & IORING_CQE_F_MORE))
			break;
		take(s, &cqe, list);
		if (again)
			give(s, kvt_cqe_buffer(&cqe));
	}
	KVT_CHECK(!(cqe.flags & IORING_CQE_F_BUFFER));
	KVT_CHECK(cqe.res <= 0);
	return cqe.res;
}

/* A whole scan, resumed when the buffers ran out; *shots becomes the commands it took. */
static int scan(struct shots *s, struct kvt_bytes start, struct kvtree_scan *args,
		struct kvt_list *list, int *shots)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, start);
	__u32 limit = args->limit;
	size_t nr;
	int ret;

	*shots = 0;
	do {
		give_all(s);
		op.arg = kvt_ptr(args);
		nr = list->nr;
		queue(&s->way, &op, ++*shots);
		ret = reap(s, *shots, list, false);
		if (!ret)
			KVT_CHECK(args->count == list->nr - nr);
		if (ret != -ENOBUFS)
			return ret;
		/* Some progress, or it would go on for ever. */
		KVT_CHECK(list->nr > nr);
		op.key = kvt_ptr(list->rec[list->nr - 1].key.data);
		op.key_len = list->rec[list->nr - 1].key.len;
		args->flags = (args->flags & ~KVTREE_SCAN_LAST) | KVTREE_SCAN_AFTER;
		if (limit)
			args->limit = limit - list->nr;
	} while (!limit || args->limit);
	return 0;
}

static bool same_list(const struct kvt_list *a, const struct kvt_list *b)
{
	size_t i;

	if (a->nr != b->nr)
		return false;
	for (i = 0; i < a->nr; i++) {
		if (kvt_cmp(a->rec[i].key, b->rec[i].key) ||
		    kvt_cmp(a->rec[i].val, b->rec[i].val) ||
		    a->rec[i].version != b->rec[i].version ||
		    a->rec[i].ncols != b->rec[i].ncols || a->rec[i].flags != b->rec[i].flags)
			return false;
	}
	return true;
}

#define ALL	1000	/* as many as there are */

static const struct {
	const char *what;
	const char *start;
	const char *end;
	struct kvtree_scan scan;
	int nr;			/* at least this many records */
} scans[] = {
	{ "everything", "", NULL, {}, NR_KEYS },
	{ "backwards", "", NULL, { .flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST }, NR_KEYS },
	{ "keys", "", NULL, { .flags = KVTREE_SCAN_KEYS_ONLY }, NR_KEYS },
	{ "columns", "", NULL, { .flags = KVTREE_SCAN_ALL_COLS }, NR_KEYS },
	{ "prefix", "prefix-00", NULL, { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 7 }, 150 },
	{ "prefix backwards", "key", NULL,
	  { .flags = KVTREE_SCAN_PREFIX | KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST,
	    .prefix_len = 3 }, 300 },
	{ "a range", "key001", "key003", {}, 100 },
	{ "a range backwards", "key003", "key001", { .flags = KVTREE_SCAN_REVERSE }, 100 },
	{ "a limit", "", NULL, { .limit = 123 }, 123 },
	{ "one", "", NULL, { .limit = 1 }, 1 },
	{ "nothing", "zzz", NULL, {}, 0 },
	{ "nothing backwards", "a", NULL, { .flags = KVTREE_SCAN_REVERSE }, 0 },
	{ "an empty range", "key001", "key001", {}, 0 },
	{ "no such prefix", "q", NULL, { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 1 }, 0 },
};

TEST_F(shots, what_they_find_is_what_a_call_finds)
{
	struct shots *s = &self->s;
	static const __u32 sizes[] = { 120, 1024, 32768 };
	struct kvt_list call = {}, shot = {};
	struct kvtree_scan args;
	struct kvt_bytes start;
	size_t i, z;
	int shots;

	for (z = 0; z < NR(sizes); z++) {
		renew(s, sizes[z]);
		for (i = 0; i < NR(scans); i++) {
			args = scans[i].scan;
			start = kvt_bytes(scans[i].start, strlen(scans[i].start));
			if (scans[i].end) {
				args.end = kvt_ptr(scans[i].end);
				args.end_len = strlen(scans[i].end);
			}
			args.limit = 0;
			ASSERT_EQ(0, kvt_scan_all(s->fd, start, &args, 1 << 18, &call));
			if (scans[i].scan.limit) {
				while (call.nr > scans[i].scan.limit) {
					call.nr--;
					free((void *)call.rec[call.nr].key.data);
					free((void *)call.rec[call.nr].val.data);
				}
			}
			args.limit = scans[i].scan.limit;
			ASSERT_EQ(0, scan(s, start, &args, &shot, &shots));
			ASSERT_TRUE(same_list(&call, &shot)) {
				TH_LOG("%s, buffers of %u: %zu records, not %zu", scans[i].what,
				       sizes[z], shot.nr, call.nr);
			}
			ASSERT_LE(scans[i].nr, shot.nr);
			/* A range that is exhausted is said to be. */
			if (!scans[i].scan.limit)
				ASSERT_EQ(KVTREE_SCAN_DONE, args.out_flags);
			/* So small that no command could do it, or large enough for all. */
			if (sizes[z] == 120 && scans[i].nr > 250)
				ASSERT_LT(1, shots);
			if (sizes[z] == 32768)
				ASSERT_EQ(1, shots);
			kvt_list_free(&call);
			kvt_list_free(&shot);
		}
	}
}

TEST_F(shots, buffers_that_are_given_back_are_used_again)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = {};
	struct kvt_list list = {};
	struct kvt_cqe cqe;
	__u32 i, id, seen = 0;

	/* Commands for a few records each, as many as it takes to go round twice. */
	op.arg = kvt_ptr(&args);
	args.limit = 3;
	give_all(s);
	for (i = 0; i < 2 * BUFS; i++) {
		queue(&s->way, &op, i);
		kvt_ring_wait(&s->way.ring, &cqe);
		ASSERT_EQ(i, cqe.data);
		ASSERT_NE(0, cqe.flags & IORING_CQE_F_MORE);
		id = kvt_cqe_buffer(&cqe);
		seen |= 1u << id;
		take(s, &cqe, &list);
		give(s, id);
		ASSERT_EQ(0, reap(s, i, &list, true));
		ASSERT_EQ(3 * (i + 1), list.nr);
		ASSERT_EQ(3, args.count);
	}
	EXPECT_EQ(~0u, seen);
	kvt_list_free(&list);
}

TEST_F(shots, no_buffers_are_enobufs)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = {};
	struct kvt_list list = {};
	struct io_uring_sqe *sqe;

	op.arg = kvt_ptr(&args);
	queue(&s->way, &op, 1);
	EXPECT_EQ(-ENOBUFS, reap(s, 1, &list, false));
	/* No such group. */
	sqe = queue(&s->way, &op, 2);
	sqe->buf_group = GROUP + 1;
	EXPECT_EQ(-ENOBUFS, reap(s, 2, &list, false));
	/* One buffer, and then none. */
	give(s, 3);
	queue(&s->way, &op, 3);
	EXPECT_EQ(-ENOBUFS, reap(s, 3, &list, false));
	EXPECT_EQ(1, list.calls);
	EXPECT_LT(1, list.nr);
	EXPECT_FALSE(s->given[3]);
	kvt_list_free(&list);
}

TEST_F(shots, record_that_fits_into_no_buffer_is_emsgsize)
{
	struct shots *s = &self->s;
	struct kvtree_scan args = {};
	struct kvt_list list = {};
	char val[2000];
	int shots;

	memset(val, 'v', sizeof(val));
	ASSERT_EQ(0, kvt_put(s->fd, STR("key00001-large"), kvt_bytes(val, sizeof(val)), NULL));
	/* Those before it come.  Of two buffers that are too small the second stays. */
	EXPECT_EQ(-EMSGSIZE, scan(s, STR("key"), &args, &list, &shots));
	EXPECT_EQ(1, list.nr);
	EXPECT_EQ(2, list.calls);
	EXPECT_EQ(BUFS - 2, s->nr);
	EXPECT_EQ(0, kvt_cmp(STR("key00001"), list.rec[0].key));
	kvt_list_free(&list);
	EXPECT_EQ(-EMSGSIZE, scan(s, STR("key00001-large"), &args, &list, &shots));
	EXPECT_EQ(0, list.nr);
	EXPECT_EQ(1, list.calls);
	/* The records after it can be read. */
	args.flags = KVTREE_SCAN_AFTER;
	EXPECT_EQ(0, scan(s, STR("key00001-large"), &args, &list, &shots));
	EXPECT_LT(300, list.nr);
	kvt_list_free(&list);
}

/* Buffers of which a completion takes a part. */
struct parts {
	__u32 at[BUFS];		/* where the next one begins */
	unsigned int skips;	/* completions that used up a rest, without a record */
	unsigned int shorts;	/* ... which was too short even to say so */
	unsigned int goes_on;	/* those that left something */
};

static void parts_begin(struct shots *s, struct parts *p, __u32 size)
{
	__u32 id;

	kvt_bufs_exit(&s->bufs, &s->way.ring);
	KVT_CHECK(kvt_bufs_init_flags(&s->bufs, &s->way.ring, GROUP, BUFS, KVT_PBUF_RING_INC) == 0);
	s->size = size;
	memset(p, 0, sizeof(*p));
	memset(s->mem, 0xa5, BUFS * (size_t)size);
	for (id = 0; id < BUFS; id++)
		kvt_bufs_add(&s->bufs, s->mem + id * size, size, id);
}

static void take_part(struct shots *s, const struct kvt_cqe *cqe, struct parts *p,
		      struct kvt_list *list)
{
	__u32 id = kvt_cqe_buffer(cqe), at = p->at[id], end = at + cqe->res;
	const char *buf = s->mem + id * s->size;
	const struct kvtree_rec *rec;

	KVT_CHECK(cqe->flags & IORING_CQE_F_BUFFER);
	KVT_CHECK(cqe->res > 0 && end <= s->size);
	KVT_CHECK(!(cqe->flags & IORING_CQE_F_BUF_MORE) == (end == s->size));
	p->at[id] = end;
	p->goes_on += end < s->size;
	rec = (const void *)(buf + at);
	if (cqe->res < (int)sizeof(*rec) || rec->flags & KVTREE_REC_SKIP) {
		KVT_CHECK(end == s->size);
		if (cqe->res >= (int)sizeof(*rec))
			check_skip(rec, cqe->res);
		else
			p->shorts++;
		p->skips++;
		return;
	}
	for (; at < end; at += rec->rec_len) {
		rec = (const void *)(buf + at);
		KVT_CHECK(rec->rec_len % 8 == 0 && rec->rec_len <= end - at);
		KVT_CHECK(!(rec->flags & KVTREE_REC_SKIP));
		append(list, rec);
	}
	KVT_CHECK(at == end);
}

/* One command; its result. */
static int scan_parts(struct shots *s, struct kvtree_op *op, struct parts *p,
		      struct kvt_list *list)
{
	struct kvt_cqe cqe;

	queue(&s->way, op, 1);
	for (;;) {
		kvt_ring_wait(&s->way.ring, &cqe);
		KVT_CHECK(cqe.data == 1);
		if (!(cqe.flags & IORING_CQE_F_MORE))
			break;
		take_part(s, &cqe, p, list);
	}
	KVT_CHECK(!(cqe.flags & IORING_CQE_F_BUFFER));
	return cqe.res;
}

/* No scan, nor a later one, gets stuck at the rest of a buffer. */
TEST_F(shots, what_is_left_of_an_incremental_buffer_is_used_up)
{
	struct shots *s = &self->s;
	static const __u32 limits[] = { 0, 3 };
	struct kvt_list list = {}, call = {};
	struct kvtree_op op;
	struct kvtree_scan args;
	struct parts parts;
	size_t i, nr;

	for (i = 0; i < NR(limits); i++) {
		parts_begin(s, &parts, 2000);
		args = (struct kvtree_scan){};
		ASSERT_EQ(0, kvt_scan_all(s->fd, STR(""), &args, 1 << 18, &call));
		op = kvt_op(KVTREE_OP_SCAN, STR(""));
		op.arg = kvt_ptr(&args);
		args.limit = limits[i];
		do {
			nr = list.nr;
			ASSERT_EQ(0, scan_parts(s, &op, &parts, &list));
			ASSERT_EQ(args.count, list.nr - nr);
			ASSERT_TRUE(list.nr > nr || args.out_flags & KVTREE_SCAN_DONE);
			op.key = kvt_ptr(list.rec[list.nr - 1].key.data);
			op.key_len = list.rec[list.nr - 1].key.len;
			args.flags = KVTREE_SCAN_AFTER;
		} while (!(args.out_flags & KVTREE_SCAN_DONE));
		EXPECT_TRUE(same_list(&call, &list));
		EXPECT_LT(3, parts.skips);
		EXPECT_LT(0, parts.shorts);
		EXPECT_LT(parts.shorts, parts.skips);
		EXPECT_LT(3, parts.goes_on);
		kvt_list_free(&call);
		kvt_list_free(&list);
	}
}

/* A record too large for a whole buffer is distinguished from one too large for a rest. */
TEST_F(shots, record_that_fits_into_no_incremental_buffer_is_emsgsize)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR("key00001-large"));
	struct kvtree_scan args = {};
	struct kvt_list list = {};
	struct parts parts;
	char val[2000];

	memset(val, 'v', sizeof(val));
	ASSERT_EQ(0, kvt_put(s->fd, STR("key00001-large"), kvt_bytes(val, sizeof(val)), NULL));
	/* The first is used up as a rest, and the second stays whole. */
	parts_begin(s, &parts, sizeof(val));
	op.arg = kvt_ptr(&args);
	EXPECT_EQ(-EMSGSIZE, scan_parts(s, &op, &parts, &list));
	EXPECT_EQ(0, list.nr);
	EXPECT_EQ(1, parts.skips);
	EXPECT_EQ(sizeof(val), parts.at[0]);
	EXPECT_EQ(0, parts.at[1]);
	/* It fits where it may. */
	parts_begin(s, &parts, 3000);
	args.limit = 1;
	EXPECT_EQ(0, scan_parts(s, &op, &parts, &list));
	EXPECT_EQ(1, list.nr);
	EXPECT_EQ(0, parts.skips);
	EXPECT_EQ(0, scan_parts(s, &op, &parts, &list));
	EXPECT_EQ(2, list.nr);
	EXPECT_EQ(1, parts.skips);
	EXPECT_EQ(3000, parts.at[0]);
	kvt_list_free(&list);
}

/* Also with buffers of the kind that a separate operation provides. */
TEST_F(shots, provided_one_by_one_they_serve_as_well)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = { .limit = 20 };
	struct kvt_list list = {}, call = {};
	struct io_uring_sqe *sqe;

	/* In the place of those that the ring would give. */
	give_all(s);
	sqe = kvt_ring_sqe(&s->way.ring);
	sqe->opcode = IORING_OP_PROVIDE_BUFFERS;
	sqe->fd = BUFS;
	sqe->addr = kvt_ptr(s->mem);
	sqe->len = s->size;
	sqe->buf_group = GROUP + 2;
	sqe->user_data = 1;
	ASSERT_LE(0, kvt_ring_result(&s->way.ring, 1));
	op.arg = kvt_ptr(&args);
	sqe = queue(&s->way, &op, 2);
	sqe->buf_group = GROUP + 2;
	ASSERT_EQ(0, reap(s, 2, &list, false));
	args.limit = 0;
	ASSERT_EQ(0, kvt_scan_all(s->fd, STR(""), &args, 1 << 18, &call));
	call.nr = 20;
	EXPECT_TRUE(same_list(&call, &list));
	kvt_list_free(&list);
	kvt_list_free(&call);
}

/* Several of one group at once: each has its own records, in order. */
TEST_F(shots, several_share_a_group)
{
	struct shots *s = &self->s;
	struct kvtree_scan args[4] = {};
	struct kvtree_op ops[4];
	struct kvt_list lists[4] = {}, call = {};
	struct kvt_cqe cqe;
	int i, left = 4;

	give_all(s);
	for (i = 0; i < 4; i++) {
		ops[i] = kvt_op(KVTREE_OP_SCAN, STR(""));
		ops[i].arg = kvt_ptr(&args[i]);
		args[i].limit = 100;
		queue(&s->way, &ops[i], i);
	}
	while (left) {
		kvt_ring_wait(&s->way.ring, &cqe);
		ASSERT_GT(4, cqe.data);
		if (cqe.flags & IORING_CQE_F_MORE) {
			take(s, &cqe, &lists[cqe.data]);
			continue;
		}
		ASSERT_EQ(0, cqe.res);
		left--;
	}
	args[0].limit = 0;
	ASSERT_EQ(0, kvt_scan_all(s->fd, STR(""), &args[0], 1 << 18, &call));
	call.nr = 100;
	for (i = 0; i < 4; i++) {
		EXPECT_TRUE(same_list(&call, &lists[i]));
		kvt_list_free(&lists[i]);
	}
	kvt_list_free(&call);
}

/* The command has ended; its last completion may have found no room. */
static bool has_ended(void *arg)
{
	struct kvt_ring *ring = arg;
	__u32 newest;

	return (kvt_ring_ready(ring, &newest) && !(newest & IORING_CQE_F_MORE)) ||
	       __atomic_load_n(ring->ksq_flags, __ATOMIC_ACQUIRE) & IORING_SQ_CQ_OVERFLOW;
}

/*
 * Where no completion finds room the scan ends, and the next buffer is used up
 * for nothing: that one and no other, and no record is lost.
 */
TEST_F(shots, full_queue_ends_a_scan_and_costs_one_buffer)
{
	struct shots *s = &self->s;
	struct io_uring_params params = {
		.flags = variant->setup | IORING_SETUP_CQSIZE, .cq_entries = 4,
		.sq_thread_idle = 10,
	};
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvt_list list = {}, call = {};
	struct kvtree_scan args = {};
	int ret, full = 0;

	kvt_bufs_exit(&s->bufs, &s->way.ring);
	kvt_ring_exit(&s->way.ring);
	ASSERT_EQ(0, kvt_ring_init_params(&s->way.ring, 4, &params));
	ASSERT_EQ(4, s->way.ring.cq_entries);
	ASSERT_EQ(0, kvt_bufs_init(&s->bufs, &s->way.ring, GROUP, BUFS));
	s->size = 256;
	ASSERT_EQ(0, kvt_scan_all(s->fd, STR(""), &args, 1 << 18, &call));
	do {
		/* They go round several times, in the order that is expected. */
		give_all(s);
		op.arg = kvt_ptr(&args);
		queue(&s->way, &op, 1);
		kvt_ring_submit(&s->way.ring);
		/* A thread of the kernel's would find room again, were it reaped before. */
		ASSERT_TRUE(kvt_eventually(has_ended, &s->way.ring));
		ret = reap(s, 1, &list, false);
		ASSERT_TRUE(ret == 0 || ret == -EOVERFLOW) {
			TH_LOG("%d", ret);
		}
		if (ret) {
			used(s);
			full++;
		}
		ASSERT_GT(NR_KEYS, full);
		ASSERT_LT(0, list.nr);
		op.key = kvt_ptr(list.rec[list.nr - 1].key.data);
		op.key_len = list.rec[list.nr - 1].key.len;
		args.flags = KVTREE_SCAN_AFTER;
	} while (ret);
	EXPECT_LT(BUFS / 2, full);
	EXPECT_TRUE(same_list(&call, &list));
	kvt_list_free(&list);
	kvt_list_free(&call);
}

TEST_F(shots, what_no_multishot_can_be_is_refused)
{
	struct shots *s = &self->s;
	struct kvtree_scan args = {};
	struct kvtree_op op;
	struct io_uring_sqe *sqe;
	__u64 digest = kvt_digest(s->fd);
	char buf[64];
	int code;

	give_all(s);
	/* Only scans have several results. */
	for (code = 0; code < KVTREE_OP_NR; code++) {
		if (code == KVTREE_OP_SCAN)
			continue;
		op = kvt_op(code, code == KVTREE_OP_NOP || code == KVTREE_OP_SYNC ?
			    kvt_bytes(NULL, 0) : STR("key00001"));
		queue(&s->way, &op, 1);
		EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1)) {
			TH_LOG("operation %d", code);
		}
	}
	op = kvt_op(KVTREE_OP_SCAN, STR(""));
	op.arg = kvt_ptr(&args);
	op.val = kvt_ptr(buf);
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	op.val = 0;
	op.val_len = 64;
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	op.val_len = 0;
	sqe = queue(&s->way, &op, 1);
	sqe->flags |= IOSQE_ASYNC;
	EXPECT_EQ(-EOPNOTSUPP, kvt_ring_result(&s->way.ring, 1));
	/* One without the other. */
	sqe = queue(&s->way, &op, 1);
	sqe->flags = 0;
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	sqe = queue(&s->way, &op, 1);
	sqe->rw_flags = 0;
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	sqe = queue(&s->way, &op, 1);
	sqe->rw_flags |= IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	sqe = kvt_ring_sqe(&s->way.ring);
	kvt_sqe_batch(sqe, s->fd, &op, 1, 1);
	kvtree_prep_multishot(sqe, GROUP);
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	sqe = kvt_ring_sqe(&s->way.ring);
	kvt_sqe_cancel(sqe, s->fd, 1, 0, 1);
	sqe->rw_flags = IORING_URING_CMD_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	/* Errors of any scan are errors of this one. */
	args.flags = 1u << 31;
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EINVAL, kvt_ring_result(&s->way.ring, 1));
	args.flags = 0;
	op.arg = 8;
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EFAULT, kvt_ring_result(&s->way.ring, 1));
	op.arg = kvt_ptr(&args);
	op.key = 8;
	op.key_len = 4;
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EFAULT, kvt_ring_result(&s->way.ring, 1));
	EXPECT_EQ(digest, kvt_digest(s->fd));
}

TEST_F(shots, access_and_counters_are_those_of_scans)
{
	struct shots *s = &self->s;
	int wo = kvt_store(s->env.dev, s->env.name, KVTREE_OPEN_WRITE);
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	__u64 before[KVTREE_STAT_NR], after[KVTREE_STAT_NR];
	struct kvtree_scan args = { .limit = 200 };
	struct kvt_list list = {};
	int shots;

	ASSERT_LE(0, wo);
	give_all(s);
	op.arg = kvt_ptr(&args);
	s->way.fd = wo;
	queue(&s->way, &op, 1);
	EXPECT_EQ(-EACCES, kvt_ring_result(&s->way.ring, 1));
	s->way.fd = s->fd;
	close(wo);
	ASSERT_EQ(0, kvt_stats(s->fd, before));
	ASSERT_EQ(0, scan(s, STR(""), &args, &list, &shots));
	ASSERT_EQ(1, shots);
	ASSERT_EQ(0, kvt_stats(s->fd, after));
	EXPECT_EQ(1, after[KVTREE_STAT_URING] - before[KVTREE_STAT_URING]);
	EXPECT_EQ(1, after[KVTREE_STAT_SCAN] - before[KVTREE_STAT_SCAN]);
	EXPECT_EQ(200, after[KVTREE_STAT_SCAN_RECORDS] - before[KVTREE_STAT_SCAN_RECORDS]);
	kvt_list_free(&list);
}

/* Buffers without pages yet, and unmapped ones. */
TEST_F(shots, buffers_may_be_fresh_memory_and_must_be_memory)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = {};
	struct kvt_cqe cqe;
	char *fresh;
	int i;

	op.arg = kvt_ptr(&args);
	fresh = mmap(NULL, 64 * KVT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	ASSERT_NE(MAP_FAILED, fresh);
	kvt_bufs_add(&s->bufs, fresh, 64 * KVT_PAGE, 0);
	queue(&s->way, &op, 1);
	kvt_ring_wait(&s->way.ring, &cqe);
	EXPECT_NE(0, cqe.flags & IORING_CQE_F_MORE);
	EXPECT_LT(NR_KEYS * (int)sizeof(struct kvtree_rec), cqe.res);
	EXPECT_EQ(0, kvt_ring_result(&s->way.ring, 1));
	EXPECT_EQ(NR_KEYS, args.count);
	ASSERT_EQ(0, munmap(fresh, 64 * KVT_PAGE));
	for (i = 0; i < 3; i++) {
		void *where[] = { fresh, (void *)8, (void *)0xffff888000001000ull };

		/* It stays in the ring until it was of use. */
		kvt_bufs_exit(&s->bufs, &s->way.ring);
		ASSERT_EQ(0, kvt_bufs_init(&s->bufs, &s->way.ring, GROUP, BUFS));
		kvt_bufs_add(&s->bufs, where[i], 4096, 1);
		queue(&s->way, &op, 1);
		/* One that is the kernel's is none to io_uring. */
		EXPECT_EQ(i < 2 ? -EFAULT : -ENOBUFS, kvt_ring_result(&s->way.ring, 1)) {
			TH_LOG("buffer at %p", where[i]);
		}
	}
}

TEST_F(shots, ring_can_be_closed_with_records_in_it)
{
	struct shots *s = &self->s;
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = {};
	__u64 digest = kvt_digest(s->fd);
	struct kvt_cqe cqe;

	op.arg = kvt_ptr(&args);
	give_all(s);
	queue(&s->way, &op, 1);
	kvt_ring_wait(&s->way.ring, &cqe);
	queue(&s->way, &op, 2);
	kvt_ring_submit(&s->way.ring);
	kvt_ring_exit(&s->way.ring);
	EXPECT_EQ(digest, kvt_digest(s->fd));
}

/*
 * Buffers for one key each, as many as a ring may have, all at the same address, which shows when
 * a scan has begun.
 */
#define SMALL_BUFS	32768
#define SMALL_BYTES	(sizeof(struct kvtree_rec) + sizeof(__u64))
#define SMALL_KEYS	(SMALL_BUFS - 100)
/* A scan may end before the event that should end it. */
#define SMALL_TRIES	50

/* A store with as many keys of eight bytes as there are buffers, nearly; a session on it. */
static int small_store(int dev, const char *name)
{
	struct kvtree_op ops[256], *op;
	__u64 i, key;
	int fd;

	KVT_CHECK(kvt_create(dev, name, 0600, 0, 0) == 0);
	fd = kvt_store(dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(fd >= 0);
	for (i = 0; i < SMALL_KEYS; i += op - ops) {
		for (op = ops; op < ops + NR(ops) && i + (op - ops) < SMALL_KEYS; op++) {
			*op = kvt_op(KVTREE_OP_PUT, kvt_bytes(NULL, sizeof(key)));
			op->flags = KVTREE_F_KEY_INLINE;
			key = htobe64(i + (op - ops));
			memcpy(op->key_inline, &key, sizeof(key));
		}
		KVT_CHECK(kvt_batch_all(fd, ops, op - ops) == 0);
	}
	return fd;
}

/* Scan all of a store's keys by one command; its result. */
static int scan_small(int fd, unsigned int setup, char *place)
{
	struct io_uring_params params = {
		.flags = setup | IORING_SETUP_CQSIZE, .cq_entries = 2 * SMALL_BUFS,
		.sq_thread_idle = 10,
	};
	struct kvtree_scan args = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvt_way way = { .fd = fd };
	struct kvt_bufs bufs;
	struct kvt_cqe cqe;
	int i;

	KVT_CHECK(kvt_ring_init_params(&way.ring, 4, &params) == 0);
	KVT_CHECK(kvt_bufs_init(&bufs, &way.ring, GROUP, SMALL_BUFS) == 0);
	for (i = 0; i < SMALL_BUFS; i++)
		kvt_bufs_add(&bufs, place, SMALL_BYTES, i);
	op.arg = kvt_ptr(&args);
	queue(&way, &op, 1);
	do {
		kvt_ring_wait(&way.ring, &cqe);
	} while (cqe.flags & IORING_CQE_F_MORE);
	kvt_bufs_exit(&bufs, &way.ring);
	kvt_ring_exit(&way.ring);
	return cqe.res;
}

/* A record begins with its length. */
static bool has_a_record(const char *place)
{
	return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

struct small {
	const char *place;
	int dev;
	const char *name;
	bool over;		/* the scan has ended */
};

static void *destroy_soon(void *arg)
{
	const struct small *small = arg;

	while (!has_a_record(small->place) && !__atomic_load_n(&small->over, __ATOMIC_ACQUIRE))
		sched_yield();
	KVT_CHECK(kvt_destroy(small->dev, small->name) == 0);
	return NULL;
}

/* A destroy does not wait for the whole scan, however many small buffers there are. */
TEST_F(shots, store_is_destroyed_between_two_small_buffers)
{
	struct shots *s = &self->s;
	struct small small = { .place = s->mem, .dev = s->env.dev, .name = "shots-small" };
	pthread_t thread;
	int fd, ret, tries = 0;

	do {
		ASSERT_LT(tries++, SMALL_TRIES);
		fd = small_store(small.dev, small.name);
		s->mem[0] = 0;
		small.over = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, destroy_soon, &small));
		ret = scan_small(fd, variant->setup, s->mem);
		__atomic_store_n(&small.over, true, __ATOMIC_RELEASE);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		close(fd);
	} while (!ret);
	EXPECT_EQ(-ESTALE, ret);
}

/*
 * Nor does a kill wait for it.  A scan counts its records when it ends: the count is unchanged if
 * the process was killed in between.
 */
TEST_F(shots, process_is_killed_between_two_small_buffers)
{
	struct shots *s = &self->s;
	char *place = mmap(NULL, KVT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			   0);
	int fd, status, tries = 0;
	pid_t pid, ended;
	__u64 before;

	ASSERT_NE(MAP_FAILED, place);
	fd = small_store(s->env.dev, "shots-small");
	ASSERT_EQ(0, scan_small(fd, variant->setup, place));
	ASSERT_EQ(SMALL_KEYS, kvt_stat(fd, KVTREE_STAT_SCAN_RECORDS));
	do {
		ASSERT_LT(tries++, SMALL_TRIES);
		before = kvt_stat(fd, KVTREE_STAT_SCAN_RECORDS);
		place[0] = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(scan_small(fd, variant->setup, place) ? 1 : 0);
		while (!(ended = waitpid(pid, &status, WNOHANG)) && !has_a_record(place))
			sched_yield();
		if (!ended) {
			ASSERT_EQ(0, kill(pid, SIGKILL));
			ended = waitpid(pid, &status, 0);
		}
		ASSERT_EQ(pid, ended);
		ASSERT_TRUE(WIFSIGNALED(status) || !WEXITSTATUS(status));
	} while (!WIFSIGNALED(status) || kvt_stat(fd, KVTREE_STAT_SCAN_RECORDS) != before);
	close(fd);
	ASSERT_EQ(0, kvt_destroy(s->env.dev, "shots-small"));
	ASSERT_EQ(0, munmap(place, KVT_PAGE));
}

/* A session that is closed while completions of its scan are unread. */
TEST_F(shots, session_can_be_closed_with_records_unread)
{
	struct shots *s = &self->s;
	int fd = kvt_store(s->env.dev, s->env.name, KVTREE_OPEN_READ);
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = { .limit = 100 };
	struct kvt_list list = {};

	ASSERT_LE(0, fd);
	s->way.fd = fd;
	op.arg = kvt_ptr(&args);
	give_all(s);
	queue(&s->way, &op, 1);
	kvt_ring_submit(&s->way.ring);
	/* A thread that submits has to have seen it. */
	while (__atomic_load_n(s->way.ring.ksq_head, __ATOMIC_ACQUIRE) !=
	       s->way.ring.sq_tail)
		sched_yield();
	close(fd);
	EXPECT_EQ(0, reap(s, 1, &list, false));
	EXPECT_EQ(100, list.nr);
	kvt_list_free(&list);
}

TEST(kernel_without_them_reports_it)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	struct kvtree_scan args = {};
	struct kvt_env env;
	struct kvt_way way;

	if (offered())
		SKIP(return, "this kernel has commands with provided buffers");
	kvt_env_init(&env, "shots", 0, 0);
	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	way.fd = env.fd;
	way.sqe_flags = 0;
	op.arg = kvt_ptr(&args);
	queue(&way, &op, 1);
	EXPECT_EQ(-EOPNOTSUPP, kvt_ring_result(&way.ring, 1));
	queue(&way, &op, 2);
	EXPECT_EQ(-EOPNOTSUPP, kvt_ring_result(&way.ring, 2));
	EXPECT_EQ(0, kvt_stat(env.fd, KVTREE_STAT_URING));
	kvt_ring_exit(&way.ring);
	kvt_env_exit(&env);
}

TEST_HARNESS_MAIN
