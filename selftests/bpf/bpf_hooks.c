// SPDX-License-Identifier: GPL-2.0
/*
 * Filters and validators: what scans return and which changes are refused, through every
 * interface, and how hooks are attached and detached.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "call.h"
#include "hooks.h"
#include "lib/uring.h"
#include "lib/work.h"
#include "bpf_hooks.skel.h"

#define RW		KVT_RW
#define NOBODY		65534
#define MARK_EVERY	4096	/* records, and less than a step of 64 more */
#define PIN_DIR		"/sys/fs/bpf"
#define PIN		PIN_DIR "/kvtree-test"

static const char store[] = "bpf-hooks", theirs[] = "bpf-hooks-theirs";
static const char seen[] = "bpf-hooks-seen";	/* by everybody */
static struct bpf_hooks *skel;

/* Each test, a child of the process that loads the programs, opens its own session. */
FIXTURE(hooks) {
	int fd;
	int dev;
	struct hooks *h;
	struct call *call;
};

static void empty_store(int fd)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = { 0 };
	size_t i;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i++)
		KVT_CHECK(kvt_remove(fd, list.rec[i].key) == 0);
	kvt_list_free(&list);
}

FIXTURE_SETUP(hooks)
{
	self->dev = kvt_open();
	self->fd = kvt_store(self->dev, store, RW);
	ASSERT_LE(0, self->fd);
	self->h = &skel->bss->hooks;
	self->call = &skel->bss->call;
	memset(self->h, 0, sizeof(*self->h));
	empty_store(self->fd);
}

FIXTURE_TEARDOWN(hooks)
{
	EXPECT_EQ(0, self->h->wrong);
	close(self->fd);
	close(self->dev);
}

static int hook_list(int fd, __u32 after, struct kvtree_bpf_hook *info)
{
	memset(info, 0xee, sizeof(*info));
	memset(info->reserved, 0, sizeof(info->reserved));
	info->after = after;
	return kvt_ioctl(fd, KVTREE_IOC_BPF_HOOK, info);
}

/* The id of the newest hook of a store; 0: it has none. */
static __u32 newest(int fd)
{
	struct kvtree_bpf_hook info;
	__u32 id = 0;

	while (!hook_list(fd, id, &info))
		id = info.id;
	return id;
}

/* Attach, or end the process. */
static struct bpf_link *attach(struct bpf_map *map)
{
	struct bpf_link *link = bpf_map__attach_struct_ops(map);

	if (!link)
		fprintf(stderr, "%d %s", errno, kvt_bpf_log());
	KVT_CHECK(link);
	return link;
}

/* 0 or an errno. */
static int try_attach(struct bpf_map *map)
{
	struct bpf_link *link = bpf_map__attach_struct_ops(map);

	if (!link)
		return -errno;
	bpf_link__destroy(link);
	return 0;
}

/*
 * What filters choose
 */
#define NR_RECS	400

static __u32 key_of(__u32 i, char *key)
{
	return sprintf(key, "%s%05u%s", i % 3 ? "key" : "prefix-", i, i % 5 ? "" : "-and-more");
}

static void populate(int fd)
{
	struct kvtree_col cols[2] = { { .id = 0 }, { .id = PICK_ID } };
	static char val[100000];
	char key[64];
	__u32 i;

	for (i = 0; i < NR_RECS; i++) {
		memset(val, 'a' + i % 26, sizeof(val));
		cols[0].len = i % 50 ? i % 40 : 1500 * (i / 50);
		cols[1].len = i % 9;
		KVT_CHECK(kvt_put_cols(fd, kvt_bytes(key, key_of(i, key)), cols, 2,
				       kvt_bytes(val, cols[0].len + cols[1].len), NULL) == 0);
	}
	/* A large value in one block each, and one without column 0. */
	KVT_CHECK(kvt_put(fd, STR("large"), kvt_bytes(val, sizeof(val)), NULL) == 0);
	cols[1].len = 4;
	KVT_CHECK(kvt_put_cols(fd, STR("no-column-0"), &cols[1], 1, kvt_bytes(val, 4),
			       NULL) == 0);
}

/* The same as the programs, of records with all columns. */
static bool picked(enum pick pick, const struct kvt_rec *rec)
{
	const unsigned char *data = rec->val.data, *zero = NULL, *other = NULL;
	__u32 zero_len = 0, other_len = 0, at = rec->ncols * sizeof(struct kvtree_col);
	const unsigned char *key = rec->key.data;
	struct kvtree_col col;
	int i;

	for (i = 0; i < rec->ncols; i++) {
		memcpy(&col, data + i * sizeof(col), sizeof(col));
		if (col.id == 0) {
			zero = data + at;
			zero_len = col.len;
		} else if (col.id == PICK_ID) {
			other = data + at;
			other_len = col.len;
		}
		at += col.len;
	}
	switch (pick) {
	case PICK_ALL:
		return true;
	case PICK_KEY:
		return !(key[rec->key.len - 1] & 1);
	case PICK_OTHER:
		return key[rec->key.len - 1] & 1;
	case PICK_VALUE:
		return zero && zero_len > PICK_AT && (zero[PICK_AT] & 1);
	case PICK_COLUMN:
		return other && other_len > 3;
	case PICK_LARGE:
		return zero && zero_len > 1000;
	default:
		return false;
	}
}

static bool same_bytes(struct kvt_bytes a, struct kvt_bytes b)
{
	return a.len == b.len && !memcmp(a.data, b.data, a.len);
}

/* Whether `some` is what of `all` is picked; marks say nothing. */
static bool is_picked(const struct kvt_list *all, const struct kvt_list *some, enum pick pick,
		      bool keys_only)
{
	size_t i, at = 0;

	for (i = 0; i < all->nr; i++) {
		if (!picked(pick, &all->rec[i]))
			continue;
		while (at < some->nr && some->rec[at].flags == KVTREE_REC_MARK)
			at++;
		if (at == some->nr || !same_bytes(all->rec[i].key, some->rec[at].key) ||
		    all->rec[i].version != some->rec[at].version)
			return false;
		if (!keys_only && !same_bytes(all->rec[i].val, some->rec[at].val))
			return false;
		at++;
	}
	while (at < some->nr && some->rec[at].flags == KVTREE_REC_MARK)
		at++;
	return at == some->nr;
}

static const struct form {
	struct kvt_bytes start;
	struct kvtree_scan scan;
	__u32 room;
} forms[] = {
	{ { "", 0 }, { 0 }, 1 << 16 },
	{ { "", 0 }, { .flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST }, 1 << 16 },
	{ { "key", 3 }, { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 3 }, 512 },
	{ { "", 0 }, { .limit = 3 }, 4096 },
	{ { "key00200", 8 }, { .flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_AFTER }, 8192 },
	{ { "", 0 }, { .flags = KVTREE_SCAN_KEYS_ONLY }, 256 },
};

static struct kvtree_scan form_scan(const struct form *form, __u32 filter)
{
	struct kvtree_scan scan = form->scan;

	scan.filter_id = filter;
	if (!(scan.flags & KVTREE_SCAN_KEYS_ONLY))
		scan.flags |= KVTREE_SCAN_ALL_COLS;
	return scan;
}

TEST_F(hooks, filters_agree_with_an_oracle)
{
	struct kvt_list all = { 0 }, some;
	struct kvtree_scan scan;
	struct bpf_link *link;
	__u32 id, i, pick;

	populate(self->fd);
	link = attach(skel->maps.first);
	id = newest(self->fd);
	for (i = 0; i < NR(forms); i++) {
		scan = form_scan(&forms[i], 0);
		scan.flags = (scan.flags & ~KVTREE_SCAN_KEYS_ONLY) | KVTREE_SCAN_ALL_COLS;
		ASSERT_EQ(0, kvt_scan_all(self->fd, forms[i].start, &scan, 1 << 16, &all));
		for (pick = PICK_NONE; pick < PICK_OTHER; pick++) {
			self->h->pick = pick;
			some = (struct kvt_list){ 0 };
			scan = form_scan(&forms[i], id);
			ASSERT_EQ(0, kvt_scan_all(self->fd, forms[i].start, &scan,
						  forms[i].room, &some));
			EXPECT_TRUE(is_picked(&all, &some, pick,
					      scan.flags & KVTREE_SCAN_KEYS_ONLY)) {
				TH_LOG("form %u, filter %u", i, pick);
			}
			kvt_list_free(&some);
		}
		kvt_list_free(&all);
		all = (struct kvt_list){ 0 };
	}
	bpf_link__destroy(link);
}

TEST_F(hooks, a_batch_has_filters_of_its_own)
{
	struct bpf_link *link = attach(skel->maps.first), *other;
	struct kvtree_scan scans[3] = { 0 };
	struct kvtree_op ops[3];
	static char buf[3][1 << 16];
	__u32 i, done;

	populate(self->fd);
	other = attach(skel->maps.nameless);
	self->h->pick = PICK_COLUMN;
	scans[1].filter_id = newest(self->fd);
	scans[2].filter_id = newest(self->fd) + 1;
	for (i = 0; i < NR(ops); i++) {
		ops[i] = kvt_op(KVTREE_OP_SCAN, STR("key"));
		ops[i].arg = kvt_ptr(&scans[i]);
		ops[i].val = kvt_ptr(buf[i]);
		ops[i].val_len = sizeof(buf[i]);
		scans[i].limit = 9;
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, 3, &done));
	EXPECT_EQ(3, done);
	EXPECT_LT(0, ops[0].result);
	EXPECT_LT(0, ops[1].result);
	EXPECT_EQ(-ENXIO, ops[2].result);
	EXPECT_EQ(9, scans[0].count);
	EXPECT_EQ(9, scans[1].count);
	EXPECT_NE(0, memcmp(buf[0], buf[1], 512));
	bpf_link__destroy(other);
	bpf_link__destroy(link);
}

static int by_uring(struct kvt_way *way, enum kvt_form form, const struct form *f, __u32 filter,
		    struct kvt_list *list)
{
	static char buf[1 << 18];
	struct kvtree_scan scan = form_scan(f, filter);
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, f->start);
	const struct kvtree_rec *rec;
	int ret, at;

	list->rec = calloc(NR_RECS + 10, sizeof(*list->rec));
	list->nr = 0;
	scan.limit = 0;
	op.arg = kvt_ptr(&scan);
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	ret = kvt_way_exec(way, form, &op, NULL);
	for (at = 0; at < ret; at += rec->rec_len) {
		rec = (const void *)(buf + at);
		list->rec[list->nr++] = (struct kvt_rec){
			.key = kvt_bytes(buf + at + rec->hdr_len, rec->key_len),
			.val = kvt_bytes(buf + at + rec->hdr_len + rec->key_len, rec->val_len),
			.version = rec->version,
			.ncols = rec->ncols,
			.flags = rec->flags,
		};
	}
	return ret < 0 ? ret : 0;
}

TEST_F(hooks, io_uring_has_the_same_filters)
{
	struct kvt_way way = { .fd = self->fd };
	struct kvt_list all = { 0 }, some;
	struct kvtree_scan scan;
	struct bpf_link *link;
	__u32 id, i;
	int form;

	populate(self->fd);
	link = attach(skel->maps.first);
	id = newest(self->fd);
	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	for (i = 0; i < 2; i++) {
		scan = form_scan(&forms[i], 0);
		ASSERT_EQ(0, kvt_scan_all(self->fd, forms[i].start, &scan, 1 << 16, &all));
		for (form = 0; form < KVT_FORMS; form++) {
			self->h->pick = i ? PICK_KEY : PICK_VALUE;
			ASSERT_EQ(0, by_uring(&way, form, &forms[i], id, &some));
			EXPECT_TRUE(is_picked(&all, &some, self->h->pick, false)) {
				TH_LOG("%s", kvt_form_names[form]);
			}
			free(some.rec);
		}
		EXPECT_EQ(-ENXIO, by_uring(&way, KVT_INLINE, &forms[i], id + 1, &some));
		free(some.rec);
		kvt_list_free(&all);
		all = (struct kvt_list){ 0 };
	}
	kvt_ring_exit(&way.ring);
	bpf_link__destroy(link);
}

/* Several buffers with few records, one of them with a mark. */
#define SHOT_BUFS	64
#define SHOT_BYTES	4096

static __u32 count_records(const char *buf, int len, __u32 *marks)
{
	const struct kvtree_rec *rec;
	__u32 nr = 0;
	int at;

	for (at = 0; at < len; at += rec->rec_len) {
		rec = (const void *)(buf + at);
		if (rec->flags == KVTREE_REC_MARK)
			(*marks)++;
		else
			nr++;
	}
	return nr;
}

/* Numbered keys, of which as many are put in a batch as one may have. */
static void put_many(int fd, __u32 nr)
{
	static struct kvtree_op ops[KVTREE_BATCH_MAX];
	__u32 i, n, at, done;

	for (at = 0; at < nr; at += n) {
		n = nr - at < NR(ops) ? nr - at : NR(ops);
		for (i = 0; i < n; i++) {
			ops[i] = (struct kvtree_op){
				.opcode = KVTREE_OP_PUT,
				.flags = KVTREE_F_KEY_INLINE,
				.key_len = 8,
			};
			snprintf((char *)ops[i].key_inline, 9, "%08u", at + i);
		}
		KVT_CHECK(kvt_batch(fd, ops, n, &done) == 0 && done == n);
	}
}

TEST_F(hooks, multishot_scans_go_on_over_what_is_left_out)
{
	static char mem[SHOT_BUFS][SHOT_BYTES];
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	__u32 nr = 0, marks = 0, n = 2 * MARK_EVERY + 500;
	struct kvt_way way = { .fd = self->fd };
	struct io_uring_sqe *sqe;
	struct kvt_bufs bufs;
	struct bpf_link *link;
	struct kvt_cqe cqe;
	int i;

	if (!(kvt_features(self->fd) & KVTREE_FEAT_URING_MULTISHOT))
		SKIP(return, "this kernel has no commands with provided buffers");
	put_many(self->fd, n);
	ASSERT_EQ(0, kvt_put(self->fd, STR("zoo"), kvt_bytes(mem, 2000), NULL));
	link = attach(skel->maps.first);
	self->h->pick = PICK_LARGE;
	scan.filter_id = newest(self->fd);
	kvt_ring_make(&way.ring, 8, 0);
	ASSERT_EQ(0, kvt_bufs_init(&bufs, &way.ring, 1, SHOT_BUFS));
	for (i = 0; i < SHOT_BUFS; i++)
		kvt_bufs_add(&bufs, mem[i], SHOT_BYTES, i);
	op.arg = kvt_ptr(&scan);
	sqe = kvt_way_queue(&way, KVT_BY_POINTER, &op, 1);
	sqe->rw_flags = IORING_URING_CMD_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = 1;
	for (;;) {
		kvt_ring_wait(&way.ring, &cqe);
		if (!(cqe.flags & IORING_CQE_F_MORE))
			break;
		nr += count_records(mem[kvt_cqe_buffer(&cqe)], cqe.res, &marks);
	}
	EXPECT_EQ(0, cqe.res);
	EXPECT_EQ(1, nr);
	EXPECT_EQ(1, scan.count);
	EXPECT_EQ(2, marks);
	kvt_bufs_exit(&bufs, &way.ring);
	kvt_ring_exit(&way.ring);
	bpf_link__destroy(link);
}

TEST_F(hooks, a_filter_that_matches_nothing_bounds_the_work_of_a_call)
{
	struct kvt_list list = { 0 };
	__u32 n = 5 * MARK_EVERY, calls = 0, need;
	struct kvt_bytes from = STR("");
	struct kvtree_scan scan = { 0 };
	struct bpf_link *link;
	__u64 asked = 0;

	put_many(self->fd, n);
	link = attach(skel->maps.first);
	self->h->pick = PICK_NONE;
	scan.filter_id = newest(self->fd);
	do {
		ASSERT_LE(0, kvt_scan_once(self->fd, from, &scan, 4096, &list, NULL));
		EXPECT_EQ(0, scan.count);
		EXPECT_GT(MARK_EVERY + 64, self->h->asked - asked);
		asked = self->h->asked;
		if (!list.done) {
			/* A mark, each one further than the one before. */
			ASSERT_EQ(++calls, list.nr);
			EXPECT_LT(0, kvt_cmp(list.rec[list.nr - 1].key, from));
			from = list.rec[list.nr - 1].key;
			scan.flags |= KVTREE_SCAN_AFTER;
		}
	} while (!list.done && calls < 100);
	EXPECT_TRUE(list.done);
	EXPECT_EQ(calls, list.nr);
	EXPECT_LE(4, calls);
	EXPECT_EQ(n, asked);
	/* Where not even the mark fits it says so, as for a record. */
	scan.flags = 0;
	EXPECT_EQ(-EMSGSIZE, kvt_scan_once(self->fd, STR(""), &scan, 24, &list, &need));
	EXPECT_EQ(32, need);
	bpf_link__destroy(link);
	kvt_list_free(&list);
}

TEST_F(hooks, a_filter_is_known_by_its_id_and_to_its_store_alone)
{
	struct bpf_link *link = attach(skel->maps.first), *guard = attach(skel->maps.guard);
	struct kvtree_scan scan = { 0 };
	struct kvtree_bpf_hook info;
	struct kvt_list list = { 0 };
	__u32 filter, id;
	int other, by_id;

	ASSERT_EQ(0, hook_list(self->fd, 0, &info));
	filter = info.id;
	EXPECT_EQ(KVTREE_HOOK_FILTER, info.kind);
	EXPECT_STREQ("picky", info.name);
	by_id = bpf_link_get_fd_by_id(info.link_id);
	EXPECT_LE(0, by_id);
	close(by_id);
	ASSERT_EQ(0, hook_list(self->fd, filter, &info));
	EXPECT_EQ(KVTREE_HOOK_VALIDATOR, info.kind);
	EXPECT_EQ(0, info.reserved[0] | info.reserved[1]);
	EXPECT_EQ(-ENOENT, hook_list(self->fd, info.id, &info));
	EXPECT_EQ(-ENOENT, hook_list(self->dev, 0, &info));
	EXPECT_EQ(-EFAULT, kvt_ioctl(self->fd, KVTREE_IOC_BPF_HOOK, NULL));

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	scan.filter_id = filter;
	EXPECT_EQ(0, kvt_scan_once(self->fd, STR(""), &scan, 256, &list, NULL));
	ASSERT_EQ(0, hook_list(self->fd, 0, &info));
	EXPECT_EQ(1, info.calls);
	EXPECT_EQ(1, info.refused);
	/* The validator's id, one of none, and a filter of another store. */
	for (id = filter + 1; id < filter + 3; id++) {
		scan.filter_id = id;
		EXPECT_EQ(-ENXIO, kvt_scan_once(self->fd, STR(""), &scan, 256, &list, NULL));
	}
	scan.filter_id = filter;
	other = kvt_store(self->dev, theirs, KVTREE_OPEN_READ);
	ASSERT_LE(0, other);
	EXPECT_EQ(-ENXIO, kvt_scan_once(other, STR(""), &scan, 256, &list, NULL));
	close(other);
	other = kvt_store(self->dev, store, KVTREE_OPEN_WRITE);
	EXPECT_EQ(-EACCES, kvt_scan_once(other, STR(""), &scan, 256, &list, NULL));
	close(other);
	bpf_link__destroy(link);
	EXPECT_EQ(-ENXIO, kvt_scan_once(self->fd, STR(""), &scan, 256, &list, NULL));
	bpf_link__destroy(guard);
	EXPECT_EQ(0, newest(self->fd));
	kvt_list_free(&list);
}

/*
 * Rules and permissions of attaching
 */
TEST_F(hooks, what_does_not_fit_is_not_attached)
{
	struct bpf_link *link = attach(skel->maps.first), *guard = attach(skel->maps.guard);

	EXPECT_EQ(-EEXIST, try_attach(skel->maps.second));
	EXPECT_EQ(0, try_attach(skel->maps.nameless));
	EXPECT_EQ(-EEXIST, try_attach(skel->maps.wall));
	EXPECT_EQ(-EINVAL, try_attach(skel->maps.misnamed));
	EXPECT_EQ(-EINVAL, try_attach(skel->maps.empty));
	EXPECT_EQ(-ENOENT, try_attach(skel->maps.stray));
	EXPECT_EQ(-EOPNOTSUPP, try_attach(skel->maps.linkless));
	bpf_link__destroy(link);
	EXPECT_EQ(0, try_attach(skel->maps.second));
	bpf_link__destroy(guard);
	EXPECT_EQ(0, try_attach(skel->maps.wall));
	EXPECT_EQ(0, newest(self->fd));
}

/* Become an ordinary user with CAP_BPF. */
static void drop_to_bpf(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	__u32 caps[2] = { 0, 1 << (CAP_BPF - 32) | 1 << (CAP_PERFMON - 32) };
	struct __user_cap_data_struct data[2] = {
		{ .effective = caps[0], .permitted = caps[0] },
		{ .effective = caps[1], .permitted = caps[1] },
	};

	KVT_CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
	KVT_CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	KVT_CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	KVT_CHECK(syscall(SYS_capset, &head, data) == 0);
}

static int attach_as_nobody(void *arg)
{
	drop_to_bpf();
	KVT_CHECK(try_attach(skel->maps.first) == -EACCES);
	KVT_CHECK(try_attach(skel->maps.guard) == -EACCES);
	KVT_CHECK(try_attach(skel->maps.seen) == -EPERM);
	KVT_CHECK(try_attach(skel->maps.judged) == -EACCES);
	KVT_CHECK(try_attach(skel->maps.theirs) == 0);
	return 0;
}

TEST_F(hooks, the_owner_alone_attaches)
{
	EXPECT_EQ(0, kvt_run(attach_as_nobody, NULL));
	/* An administrator may, too. */
	EXPECT_EQ(0, try_attach(skel->maps.theirs));
	EXPECT_EQ(0, try_attach(skel->maps.judged));
}

/*
 * Hooks come and go while they are used
 */
struct load {
	int fd;
	__u32 filter;
	bool stop;
	bool attached;		/* since when no bad value gets through */
	__u32 calls;
	__u32 gone;		/* the filter did not exist */
	__u32 bad;		/* what cannot be */
};

static void wait_for_calls(const struct load *load, __u32 n)
{
	__u32 from = __atomic_load_n(&load->calls, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&load->calls, __ATOMIC_ACQUIRE) - from < n)
		sched_yield();
}

static void *scan_all_the_time(void *arg)
{
	struct load *load = arg;
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = { 0 };
	int ret;

	while (!__atomic_load_n(&load->stop, __ATOMIC_RELAXED)) {
		scan.filter_id = __atomic_load_n(&load->filter, __ATOMIC_RELAXED);
		ret = kvt_scan_once(load->fd, STR(""), &scan, 1 << 16, &list, NULL);
		if (ret == -ENXIO)
			load->gone++;
		else if (ret < 0)
			load->bad++;
		__atomic_fetch_add(&load->calls, 1, __ATOMIC_RELEASE);
		kvt_list_free(&list);
		list = (struct kvt_list){ 0 };
	}
	return NULL;
}

TEST_F(hooks, a_filter_is_replaced_and_detached_under_scans)
{
	struct load load = { .fd = self->fd };
	struct kvt_list all = { 0 }, some = { 0 };
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct bpf_link *link;
	pthread_t thread;
	int i;

	populate(self->fd);
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 16, &all));
	self->h->pick = PICK_KEY;
	link = attach(skel->maps.first);
	load.filter = newest(self->fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scan_all_the_time, &load));
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(0, bpf_link__update_map(link, skel->maps.second));
		EXPECT_EQ(load.filter, newest(self->fd));
		scan.filter_id = load.filter;
		ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 16, &some));
		EXPECT_TRUE(is_picked(&all, &some, PICK_OTHER, false));
		kvt_list_free(&some);
		some = (struct kvt_list){ 0 };
		EXPECT_EQ(0, bpf_link__update_map(link, skel->maps.first));
		if (i % 2) {
			bpf_link__destroy(link);
			link = attach(skel->maps.first);
			__atomic_store_n(&load.filter, newest(self->fd), __ATOMIC_RELAXED);
		}
		wait_for_calls(&load, 1);
	}
	/* Not by one of another name. */
	EXPECT_EQ(-EINVAL, bpf_link__update_map(link, skel->maps.nameless));
	__atomic_store_n(&load.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, load.bad);
	printf("# %u scans, %u of which found the filter gone\n", load.calls, load.gone);
	bpf_link__destroy(link);
	kvt_list_free(&all);
}

/* Values that the validator refuses, and others. */
static void *put_all_the_time(void *arg)
{
	struct load *load = arg;
	bool attached;
	int ret;

	while (!__atomic_load_n(&load->stop, __ATOMIC_RELAXED)) {
		attached = __atomic_load_n(&load->attached, __ATOMIC_ACQUIRE);
		ret = kvt_put(load->fd, STR("k"), STR("!bad"), NULL);
		if (ret == -EKEYREJECTED)
			load->gone++;
		else if (ret || attached)
			load->bad++;
		if (kvt_put(load->fd, STR("k"), STR("good"), NULL))
			load->bad++;
		__atomic_fetch_add(&load->calls, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST_F(hooks, a_validator_is_attached_and_detached_under_puts)
{
	struct load load[2] = { { .fd = self->fd }, { .fd = self->fd } };
	struct bpf_link *link;
	pthread_t thread[2];
	int i, t;

	for (t = 0; t < 2; t++)
		ASSERT_EQ(0, pthread_create(&thread[t], NULL, put_all_the_time, &load[t]));
	for (i = 0; i < 10; i++) {
		link = attach(skel->maps.guard);
		for (t = 0; t < 2; t++)
			__atomic_store_n(&load[t].attached, true, __ATOMIC_RELEASE);
		for (t = 0; t < 2; t++)
			wait_for_calls(&load[t], 50);
		for (t = 0; t < 2; t++)
			__atomic_store_n(&load[t].attached, false, __ATOMIC_RELEASE);
		/* Let the threads finish calls begun while it was attached. */
		for (t = 0; t < 2; t++)
			wait_for_calls(&load[t], 2);
		if (i % 2)
			ASSERT_EQ(0, bpf_link__detach(link));
		bpf_link__destroy(link);
	}
	for (t = 0; t < 2; t++) {
		__atomic_store_n(&load[t].stop, true, __ATOMIC_RELAXED);
		pthread_join(thread[t], NULL);
		EXPECT_EQ(0, load[t].bad);
		EXPECT_LT(0, load[t].gone);
		printf("# %u puts, %u refused\n", 2 * load[t].calls, load[t].gone);
	}
}

/*
 * What validators refuse
 */
static int put_cols2(int fd, int a, const char *text_a, int b, const char *text_b)
{
	struct kvtree_col cols[2] = {
		{ .id = a, .len = strlen(text_a) },
		{ .id = b, .len = text_b ? strlen(text_b) : 0 },
	};
	char val[64];

	snprintf(val, sizeof(val), "%s%s", text_a, text_b ?: "");
	return kvt_put_cols(fd, STR("cols"), cols, text_b ? 2 : 1,
			    kvt_bytes(val, cols[0].len + cols[1].len), NULL);
}

TEST_F(hooks, a_validator_sees_every_change_and_refuses_by_what_it_comes_to)
{
	struct bpf_link *link = attach(skel->maps.guard);
	struct hooks *h = self->h;
	__u64 version, before, judged;
	int fd = self->fd;

	ASSERT_EQ(0, kvt_put(fd, STR("key"), STR("value"), &version));
	EXPECT_EQ(3, h->key_len);
	EXPECT_EQ(5, h->val_len);
	EXPECT_EQ(0, h->version);
	EXPECT_EQ(-EKEYREJECTED, kvt_put(fd, STR("key"), STR("!value"), NULL));
	EXPECT_EQ(-EKEYREJECTED, kvt_put(fd, STR("!key"), STR("value"), NULL));
	EXPECT_TRUE(kvt_has(fd, STR("key"), STR("value")));
	EXPECT_EQ(version, kvt_version(fd, STR("key")));
	EXPECT_EQ(0, kvt_version(fd, STR("!key")));
	EXPECT_EQ(-EKEYREJECTED, kvt_cas(fd, STR("key"), STR("!"), &version));
	EXPECT_EQ(0, kvt_cas(fd, STR("key"), STR("new"), &version));

	/* For an add the sum counts, not the addend. */
	EXPECT_EQ(0, kvt_add(fd, STR("n"), LIMIT_ID, LIMIT - 1, &before));
	EXPECT_EQ(-EKEYREJECTED, kvt_add(fd, STR("n"), LIMIT_ID, 2, &before));
	EXPECT_EQ(0, kvt_add(fd, STR("n"), LIMIT_ID, 1, &before));
	EXPECT_EQ(LIMIT - 1, before);
	EXPECT_EQ(-EKEYREJECTED, kvt_add(fd, STR("n"), LIMIT_ID, 1, &before));

	/* Of columns all, those that stay as well. */
	EXPECT_EQ(0, put_cols2(fd, 1, "x", 5, "some"));
	EXPECT_EQ(-EKEYREJECTED, put_cols2(fd, 2, "x", 0, NULL));
	EXPECT_EQ(0, put_cols2(fd, 2, "y", 0, NULL));
	EXPECT_EQ(-EKEYREJECTED, put_cols2(fd, 1, "x", 2, "x"));
	EXPECT_EQ(0, put_cols2(fd, 1, "a", 2, "x"));

	/* No hook is called for removals and reads. */
	judged = h->judged;
	EXPECT_EQ(0, kvt_remove(fd, STR("key")));
	EXPECT_EQ(-ENOENT, kvt_remove(fd, STR("key")));
	EXPECT_TRUE(kvt_version(fd, STR("cols")));
	EXPECT_EQ(judged, h->judged);
	bpf_link__destroy(link);
	EXPECT_EQ(0, kvt_put(fd, STR("key"), STR("!value"), NULL));
}

TEST_F(hooks, batches_and_io_uring_are_validated)
{
	struct bpf_link *link = attach(skel->maps.guard);
	static const char *const values[] = { "one", "!two", "three" };
	struct kvt_way way = { .fd = self->fd };
	struct kvtree_op ops[3], op;
	__u32 done;
	int i;

	for (i = 0; i < 3; i++) {
		ops[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(values[i] + 1, 1));
		ops[i].val = kvt_ptr(values[i]);
		ops[i].val_len = strlen(values[i]);
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, 3, &done));
	EXPECT_EQ(3, done);
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(-EKEYREJECTED, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	EXPECT_EQ(0, kvt_version(self->fd, STR("t")));
	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	for (i = 0; i < KVT_FORMS; i++) {
		op = kvt_op(KVTREE_OP_PUT, STR("ring"));
		op.val = kvt_ptr("!no");
		op.val_len = 3;
		EXPECT_EQ(-EKEYREJECTED, kvt_way_exec(&way, i, &op, NULL));
		op.val_len = 3;
		op.val = kvt_ptr("yes");
		EXPECT_EQ(0, kvt_way_exec(&way, i, &op, NULL));
	}
	kvt_ring_exit(&way.ring);
	bpf_link__destroy(link);
}

static int call(struct __test_metadata *_metadata, struct _test_data_hooks *self, int op,
		struct bpf_kvt_req req, struct kvt_bytes key, struct kvt_bytes val)
{
	struct call *call = self->call;

	call->op = op;
	call->req = req;
	call->req.key_len = key.len;
	call->key_size = key.len;
	call->val_size = val.len;
	memcpy(call->key, key.data, key.len);
	memcpy(call->val, val.data ?: "", val.len);
	EXPECT_EQ(0, kvt_bpf_run(bpf_program__fd(skel->progs.change), 1));
	return call->ret;
}

#define CALL(op, key, val, ...) \
	call(_metadata, self, op, (struct bpf_kvt_req){ __VA_ARGS__ }, key, val)

static bool post_failed(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_BPF_POST_FAIL) > 0;
}

TEST_F(hooks, changes_by_programs_are_validated)
{
	struct bpf_link *link = attach(skel->maps.guard);
	int fd = self->fd;
	__u64 version;

	EXPECT_EQ(-EKEYREJECTED, CALL(CALL_PUT, STR("k"), STR("!")));
	EXPECT_EQ(0, CALL(CALL_PUT, STR("k"), STR("v")));
	version = kvt_version(fd, STR("k"));
	EXPECT_EQ(-EKEYREJECTED, CALL(CALL_CAS, STR("k"), STR("!"), .version = version));
	EXPECT_EQ(-EKEYREJECTED,
		  CALL(CALL_PUT, STR("k"), STR("!"), .flags = BPF_KVT_COL));
	EXPECT_EQ(-EKEYREJECTED,
		  CALL(CALL_ADD, STR("n"), STR(""), .col = LIMIT_ID, .arg = LIMIT + 1));
	EXPECT_EQ(0, CALL(CALL_ADD, STR("n"), STR(""), .col = LIMIT_ID, .arg = LIMIT));
	EXPECT_EQ(version, kvt_version(fd, STR("k")));
	/* A post is validated when its turn has come. */
	EXPECT_EQ(0, CALL(CALL_POST, STR("k"), STR("!late")));
	EXPECT_TRUE(kvt_eventually(post_failed, &fd));
	EXPECT_EQ(version, kvt_version(fd, STR("k")));
	EXPECT_EQ(0, CALL(CALL_REMOVE, STR("k"), STR("")));
	bpf_link__destroy(link);
}

struct duel {
	int fd;
	int col;
	__u32 made;
	bool stop;
};

static void *take_the_x(void *arg)
{
	struct duel *duel = arg;
	struct kvtree_col col = { .id = duel->col, .len = 1 };
	int ret;

	while (!__atomic_load_n(&duel->stop, __ATOMIC_RELAXED)) {
		ret = kvt_put_cols(duel->fd, STR("duel"), &col, 1, STR("x"), NULL);
		KVT_CHECK(!ret || ret == -EKEYREJECTED);
		__atomic_fetch_add(&duel->made, !ret, __ATOMIC_RELAXED);
		KVT_CHECK(kvt_put_cols(duel->fd, STR("duel"), &col, 1, STR("-"), NULL) == 0);
	}
	return NULL;
}

static bool both_made(const struct duel *duel)
{
	return __atomic_load_n(&duel[0].made, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&duel[1].made, __ATOMIC_RELAXED);
}

TEST_F(hooks, what_was_validated_is_what_is_published)
{
	struct duel duel[2] = { { .fd = self->fd, .col = 1 }, { .fd = self->fd, .col = 2 } };
	struct bpf_link *link = attach(skel->maps.guard);
	struct kvtree_col cols[2];
	pthread_t thread[2];
	char val[8];
	int i, both = 0;

	ASSERT_EQ(0, kvt_put(self->fd, STR("duel"), STR(""), NULL));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, take_the_x, &duel[i]));
	/* At least so often, and until both have been there, whenever they get a CPU. */
	for (i = 0; i < 5000 || !both_made(duel); i++) {
		cols[0] = (struct kvtree_col){ .id = 1 };
		cols[1] = (struct kvtree_col){ .id = 2 };
		if (kvt_get_cols(self->fd, STR("duel"), cols, 2, val, sizeof(val)) == 2)
			both += !memcmp(val, "xx", 2);
	}
	for (i = 0; i < 2; i++) {
		__atomic_store_n(&duel[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(thread[i], NULL);
	}
	EXPECT_EQ(0, both);
	bpf_link__destroy(link);
}

/*
 * Lifetime of links
 */
static int pin_and_leave(void *arg)
{
	struct bpf_link *link = attach(skel->maps.guard);

	KVT_CHECK(bpf_link__pin(link, PIN) == 0);
	bpf_link__destroy(link);
	return 0;
}

static int attach_and_leave(void *arg)
{
	attach(skel->maps.guard);
	return 0;
}

static bool no_hooks(void *arg)
{
	return !newest(*(int *)arg);
}

TEST_F(hooks, a_hook_lives_as_long_as_its_link)
{
	EXPECT_EQ(0, kvt_run(attach_and_leave, NULL));
	EXPECT_TRUE(kvt_eventually(no_hooks, &self->fd));
	mount("bpf", PIN_DIR, "bpf", 0, NULL);
	unlink(PIN);
	EXPECT_EQ(0, kvt_run(pin_and_leave, NULL));
	EXPECT_NE(0, newest(self->fd));
	EXPECT_EQ(-EKEYREJECTED, kvt_put(self->fd, STR("k"), STR("!"), NULL));
	EXPECT_EQ(0, unlink(PIN));
	EXPECT_TRUE(kvt_eventually(no_hooks, &self->fd));
	EXPECT_EQ(0, kvt_put(self->fd, STR("k"), STR("!"), NULL));
}

TEST_F(hooks, a_store_that_forbids_programs_lets_go_of_hooks)
{
	struct bpf_link *link = attach(skel->maps.theirs);
	int fd = kvt_store(self->dev, theirs, RW);

	ASSERT_LE(0, fd);
	EXPECT_NE(0, newest(fd));
	ASSERT_EQ(0, kvt_bpf_access(fd, false));
	EXPECT_EQ(0, newest(fd));
	bpf_link__destroy(link);
	EXPECT_EQ(-EPERM, try_attach(skel->maps.theirs));
	ASSERT_EQ(0, kvt_bpf_access(fd, true));
	EXPECT_EQ(0, try_attach(skel->maps.theirs));
	close(fd);
}

/* The last one but for the module's: the store is gone then. */
TEST_F(hooks, a_store_that_is_destroyed_lets_go_of_hooks)
{
	struct bpf_link *link = attach(skel->maps.first), *guard = attach(skel->maps.guard);
	struct kvtree_bpf_hook info;

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	EXPECT_EQ(0, kvt_destroy(self->dev, store));
	EXPECT_EQ(-ESTALE, hook_list(self->fd, 0, &info));
	EXPECT_EQ(-ENOENT, bpf_link__update_map(link, skel->maps.second));
	bpf_link__destroy(link);
	EXPECT_EQ(0, bpf_link__detach(guard));
	bpf_link__destroy(guard);
	EXPECT_EQ(-ENOENT, try_attach(skel->maps.first));
}

static int make_store(int dev, const char *name, __u32 mode, __u32 owner)
{
	int fd;

	kvt_destroy(dev, name);
	KVT_CHECK(kvt_create_as(dev, name, mode, owner, owner) == 0);
	fd = kvt_store(dev, name, RW);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_bpf_access(fd, true) == 0);
	return fd;
}

/* Programs are loaded once for all tests: see bpf_kfuncs.c. */
static void load(int dev)
{
	int fd = make_store(dev, store, 0600, 0);

	close(make_store(dev, theirs, 0600, NOBODY));
	close(make_store(dev, seen, 0644, 0));
	kvt_bpf_quiet();
	skel = bpf_hooks__open();
	KVT_CHECK(skel);
	if (bpf_hooks__load(skel))
		fprintf(stderr, "%s", kvt_bpf_log());
	KVT_CHECK(kvt_bpf_bind(fd, bpf_map__fd(skel->maps.rodata_changed), RW) == 0);
	close(fd);
}

/* The harness does not return. */
static void unload(void)
{
	int dev = kvt_open();

	kvt_destroy(dev, store);
	kvt_destroy(dev, theirs);
	kvt_destroy(dev, seen);
	close(dev);
}

int main(int argc, char **argv)
{
	int dev = kvt_open();

	KVT_CHECK(dev >= 0);
	load(dev);
	close(dev);
	KVT_CHECK(atexit(unload) == 0);
	return test_harness_run(argc, argv);
}
