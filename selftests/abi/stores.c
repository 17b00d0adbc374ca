// SPDX-License-Identifier: GPL-2.0
/*
 * Stores: they are created and destroyed by name, are separate from each other,
 * and never exceed their limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

FIXTURE(stores) {
	int dev;
	char name[KVTREE_NAME_MAX];
	char other[KVTREE_NAME_MAX];
};

FIXTURE_SETUP(stores)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "stores-%d", getpid());
	snprintf(self->other, sizeof(self->other), "stores-%d.other", getpid());
}

FIXTURE_TEARDOWN(stores)
{
	kvt_destroy(self->dev, self->name);
	kvt_destroy(self->dev, self->other);
	close(self->dev);
}

/* A session on a new store with limits. */
static int open_limited(int dev, const char *name, __u64 bytes, __u64 keys)
{
	int fd;

	KVT_CHECK(kvt_create(dev, name, 0600, bytes, keys) == 0);
	fd = kvt_store(dev, name, RW);
	KVT_CHECK(fd >= 0);
	return fd;
}

/* The engine of stores that name none. */
#define ENGINE	"/sys/module/kvtree/parameters/engine"

static void get_engine(char *name)
{
	FILE *f = fopen(ENGINE, "re");

	KVT_CHECK(f && fscanf(f, "%15s", name) == 1);
	fclose(f);
}

static int set_engine(const char *name)
{
	int err = 0, fd = open(ENGINE, O_WRONLY | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	if (write(fd, name, strlen(name)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/*
 * Names and lives
 */
TEST_F(stores, default_store_exists)
{
	struct kvtree_store_info info;

	ASSERT_EQ(0, kvt_find(self->dev, "default", &info));
	EXPECT_TRUE(!strcmp(info.engine, "masstree") || !strcmp(info.engine, "bwtree"));
	EXPECT_EQ(0, info.flags);
	/* A session of /dev/kvtree is on it. */
	ASSERT_EQ(0, kvt_self(self->dev, &info));
	EXPECT_STREQ("default", info.name);
	EXPECT_EQ(-EEXIST, kvt_create(self->dev, "default", 0666, 0, 0));
}

FIXTURE(engine) {
	int dev;
	char name[KVTREE_NAME_MAX];
};

FIXTURE_VARIANT(engine) {
	const char *name;
	__u32 asked;
	__u32 page_size;
};

FIXTURE_VARIANT_ADD(engine, masstree) { .name = "masstree" };
FIXTURE_VARIANT_ADD(engine, bwtree) { .name = "bwtree", .page_size = 3072 };
FIXTURE_VARIANT_ADD(engine, bwtree_of_the_smallest_pages) {
	.name = "bwtree", .asked = 256, .page_size = 256,
};

FIXTURE_VARIANT_ADD(engine, bwtree_of_the_largest_pages) {
	.name = "bwtree", .asked = 16384, .page_size = 16384,
};

FIXTURE_SETUP(engine)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "stores-%d", getpid());
}

FIXTURE_TEARDOWN(engine)
{
	kvt_destroy(self->dev, self->name);
	close(self->dev);
}

TEST_F(engine, created_store_can_be_listed_opened_used_and_destroyed)
{
	struct kvtree_store_create create = {
		.mode = 0640, .uid = 1234, .gid = 5678,
		.limit_bytes = 10 << 20, .limit_keys = 1000,
	};
	static const __u8 none[16];
	struct kvtree_store_info info;
	int fd;

	strcpy(create.name, self->name);
	strcpy(create.engine, variant->name);
	create.page_size = variant->asked;
	ASSERT_EQ(0, kvt_ioctl(self->dev, KVTREE_IOC_STORE_CREATE, &create));
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_STREQ(variant->name, info.engine);
	EXPECT_EQ(0640, info.mode);
	EXPECT_EQ(1234, info.uid);
	EXPECT_EQ(5678, info.gid);
	EXPECT_EQ(10 << 20, info.limit_bytes);
	EXPECT_EQ(1000, info.limit_keys);
	EXPECT_EQ(0, info.keys);
	EXPECT_EQ(variant->page_size, info.page_size);
	EXPECT_EQ(0, info.progress | info.reserved);
	EXPECT_EQ(0, memcmp(info.uuid, none, sizeof(none)));

	fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(1, info.keys);
	EXPECT_LT(0, info.bytes);
	close(fd);
	/* Its contents do not depend on sessions. */
	fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("v")));
	close(fd);
	ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	EXPECT_EQ(-ENOENT, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(-ENOENT, kvt_store(self->dev, self->name, RW));
	EXPECT_EQ(-ENOENT, kvt_destroy(self->dev, self->name));
}

TEST_F(stores, parameter_is_the_engine_of_those_that_name_none)
{
	static const char *const names[] = { "bwtree", "masstree\n", "bwtree\n" };
	struct kvtree_store_info info;
	char before[KVTREE_ENGINE_MAX];
	size_t i;

	get_engine(before);
	for (i = 0; i < NR(names); i++) {
		ASSERT_EQ(0, set_engine(names[i]));
		EXPECT_EQ(-EINVAL, set_engine("none-such"));
		EXPECT_EQ(-EINVAL, set_engine("masstreemasstreemasstree"));
		EXPECT_EQ(0, kvt_create(self->dev, self->name, 0600, 0, 0));
		EXPECT_EQ(0, kvt_find(self->dev, self->name, &info));
		EXPECT_EQ(0, strncmp(names[i], info.engine, strlen(info.engine)));
		EXPECT_EQ(0, kvt_destroy(self->dev, self->name));
	}
	ASSERT_EQ(0, set_engine(before));
}

TEST_F(stores, every_name_of_the_allowed_letters_works)
{
	static const char *const names[] = {
		"a", "Z", "0", "-", "_", "...", ".a", "a.", "..a", "-rf",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789._-",
		/* 63 of them. */
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	};
	struct kvtree_store_info info;
	size_t i;
	int fd;

	for (i = 0; i < NR(names); i++) {
		ASSERT_EQ(0, kvt_create(self->dev, names[i], 0600, 0, 0)) {
			TH_LOG("name '%s'", names[i]);
		}
		fd = kvt_store(self->dev, names[i], RW);
		EXPECT_LE(0, fd);
		EXPECT_EQ(0, kvt_self(fd, &info));
		EXPECT_STREQ(names[i], info.name);
		close(fd);
	}
	for (i = 0; i < NR(names); i++)
		EXPECT_EQ(0, kvt_destroy(self->dev, names[i]));
}

TEST_F(stores, second_store_of_a_name_is_refused)
{
	int fd = open_limited(self->dev, self->name, 0, 0);

	ASSERT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	EXPECT_EQ(-EEXIST, kvt_create(self->dev, self->name, 0666, 0, 0));
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("v")));
	close(fd);
}

TEST_F(stores, absent_store_is_enoent)
{
	EXPECT_EQ(-ENOENT, kvt_store(self->dev, self->name, KVTREE_OPEN_READ));
	EXPECT_EQ(-ENOENT, kvt_destroy(self->dev, self->name));
}

TEST_F(stores, list_shows_every_store_once_in_order_of_id)
{
	struct kvtree_store_info info;
	__u64 after = 0, ids[3] = {};
	int ret, n = 0;

	ASSERT_EQ(0, kvt_create(self->dev, self->name, 0600, 0, 0));
	ASSERT_EQ(0, kvt_create(self->dev, self->other, 0600, 0, 0));
	for (;;) {
		memset(&info, 0, sizeof(info));
		info.after = after;
		ret = kvt_ioctl(self->dev, KVTREE_IOC_STORE_LIST, &info);
		if (ret)
			break;
		ASSERT_LT(after, info.id);
		after = info.id;
		if (!strcmp(info.name, "default"))
			ids[0] += info.id;
		if (!strcmp(info.name, self->name))
			ids[1] += info.id;
		if (!strcmp(info.name, self->other))
			ids[2] += info.id;
		n++;
	}
	EXPECT_EQ(-ENOENT, ret);
	EXPECT_LE(3, n);
	EXPECT_LT(0, ids[0]);
	EXPECT_LT(ids[0], ids[1]);
	EXPECT_LT(ids[1], ids[2]);
	info.after = ~0ull;
	EXPECT_EQ(-ENOENT, kvt_ioctl(self->dev, KVTREE_IOC_STORE_LIST, &info));
}

TEST_F(stores, stores_do_not_share_keys_or_counters)
{
	__u64 stats[KVTREE_STAT_NR];
	int a = open_limited(self->dev, self->name, 0, 0);
	int b = open_limited(self->dev, self->other, 0, 0);

	ASSERT_EQ(0, kvt_put(a, STR("k"), STR("of a"), NULL));
	EXPECT_EQ(0, kvt_version(b, STR("k")));
	ASSERT_EQ(0, kvt_put(b, STR("k"), STR("of b"), NULL));
	EXPECT_TRUE(kvt_has(a, STR("k"), STR("of a")));
	ASSERT_EQ(0, kvt_remove(a, STR("k")));
	EXPECT_TRUE(kvt_has(b, STR("k"), STR("of b")));
	ASSERT_EQ(0, kvt_stats(a, stats));
	EXPECT_EQ(0, stats[KVTREE_STAT_KEYS]);
	ASSERT_EQ(0, kvt_stats(b, stats));
	EXPECT_EQ(1, stats[KVTREE_STAT_KEYS]);
	EXPECT_EQ(1, stats[KVTREE_STAT_PUT]);
	close(a);
	close(b);
}

TEST_F(stores, opened_session_is_a_new_descriptor_that_exec_closes)
{
	int a = open_limited(self->dev, self->name, 0, 0);
	int b = kvt_store(self->dev, self->name, RW);

	EXPECT_NE(a, b);
	EXPECT_NE(a, self->dev);
	EXPECT_EQ(FD_CLOEXEC, fcntl(a, F_GETFD) & FD_CLOEXEC);
	/* It lives on without the session that it came from, and of it too. */
	close(a);
	a = kvt_store(b, self->name, RW);
	ASSERT_LE(0, a);
	close(b);
	EXPECT_EQ(0, kvt_put(a, STR("k"), STR("v"), NULL));
	close(a);
}

/*
 * Destruction
 */
TEST_F(stores, destroyed_store_leaves_its_sessions_stale)
{
	int fd = open_limited(self->dev, self->name, 0, 0);
	__u64 stats[KVTREE_STAT_NR];
	struct kvtree_store_info info;
	struct kvtree_scan scan = {};
	struct kvtree_op op;
	char buf[64];

	ASSERT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	EXPECT_EQ(-ESTALE, kvt_get(fd, STR("k"), buf, sizeof(buf), NULL));
	EXPECT_EQ(-ESTALE, kvt_put(fd, STR("k"), STR("w"), NULL));
	EXPECT_EQ(-ESTALE, kvt_remove(fd, STR("k")));
	EXPECT_EQ(-ESTALE, kvt_add(fd, STR("n"), 0, 1, NULL));
	op = kvt_op(KVTREE_OP_SCAN, STR(""));
	op.arg = kvt_ptr(&scan);
	EXPECT_EQ(-ESTALE, kvt_exec(fd, &op));
	EXPECT_EQ(-ESTALE, kvt_self(fd, &info));
	EXPECT_EQ(-ESTALE, kvt_stats(fd, stats));
	/* The session is still one: it can open others. */
	close(self->dev);
	self->dev = kvt_store(fd, "default", RW);
	EXPECT_LE(0, self->dev);
	close(fd);
}

TEST_F(stores, new_store_of_an_old_name_is_another_store)
{
	struct kvtree_store_info first, second;
	int fd = open_limited(self->dev, self->name, 0, 0), again, i;

	ASSERT_EQ(0, kvt_self(fd, &first));
	ASSERT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
		again = open_limited(self->dev, self->name, 0, 0);
		ASSERT_EQ(0, kvt_self(again, &second));
		EXPECT_LT(first.id, second.id);
		first.id = second.id;
		EXPECT_EQ(0, kvt_version(again, STR("k")));
		EXPECT_EQ(-ESTALE, kvt_put(fd, STR("k"), STR("v"), NULL));
		EXPECT_EQ(0, second.keys);
		close(fd);
		fd = again;
	}
	close(fd);
}

TEST_F(stores, store_is_destroyed_under_those_who_use_it)
{
	struct kvtree_op ops[64];
	int pid[2], i, j, n, fd, key;
	__u32 done, round;
	int *go = kvt_map_shared(sizeof(*go));

	for (n = 0; n < 10; n++) {
		*go = 0;
		fd = open_limited(self->dev, self->name, 0, 0);
		for (i = 0; i < 2; i++) {
			pid[i] = kvt_child();
			if (pid[i])
				continue;
			/* Until it is gone; the only error may be ESTALE. */
			for (round = 0;; round++) {
				for (j = 0; j < 64; j++) {
					key = round % 100 * 64 + j;
					memset(&ops[j], 0, sizeof(ops[j]));
					ops[j].opcode = j % 2 ? KVTREE_OP_PUT : KVTREE_OP_ADD;
					ops[j].flags = KVTREE_F_KEY_INLINE;
					ops[j].key_len = 16;
					memcpy(ops[j].key_inline + 12, &key, 4);
					ops[j].key_inline[0] = j % 2;
				}
				if (kvt_batch(fd, ops, 64, &done) == -ESTALE)
					_exit(0);
				__atomic_store_n(go, 1, __ATOMIC_RELEASE);
				KVT_CHECK(done == 64);
				for (j = 0; j < 64; j++) {
					if (ops[j].result == -ESTALE)
						_exit(0);
					KVT_CHECK(ops[j].result == 0);
				}
			}
		}
		while (!__atomic_load_n(go, __ATOMIC_ACQUIRE))
			kvt_sleep_ms(1);
		kvt_sleep_ms(3 * n);
		ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
		ASSERT_EQ(0, kvt_wait(pid[0]));
		ASSERT_EQ(0, kvt_wait(pid[1]));
		close(fd);
	}
}

TEST_F(stores, default_store_can_be_destroyed_and_made_again)
{
	struct kvtree_store_info info;
	struct kvtree_store_create create = { .name = "default" };
	char buf[8];
	int fd;

	ASSERT_EQ(0, kvt_find(self->dev, "default", &info));
	ASSERT_EQ(0, kvt_destroy(self->dev, "default"));
	EXPECT_EQ(-ESTALE, kvt_get(self->dev, STR("k"), buf, sizeof(buf), NULL));
	/* The device still opens: how else would a store be made? */
	fd = kvt_open();
	ASSERT_LE(0, fd);
	EXPECT_GT(0, kvt_get(fd, STR("k"), buf, sizeof(buf), NULL));
	/* Left behind with another engine, it would keep that engine's module. */
	snprintf(create.engine, sizeof(create.engine), "%s", info.engine);
	create.page_size = info.page_size;
	create.mode = info.mode;
	create.uid = info.uid;
	create.gid = info.gid;
	create.limit_bytes = info.limit_bytes;
	create.limit_keys = info.limit_keys;
	ASSERT_EQ(0, kvt_ioctl(fd, KVTREE_IOC_STORE_CREATE, &create));
	close(fd);
	fd = kvt_open();
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	EXPECT_EQ(0, kvt_remove(fd, STR("k")));
	close(fd);
}

/*
 * Limits
 */
TEST_F(stores, key_limit_is_kept_exactly_and_changes_nothing)
{
	int fd = open_limited(self->dev, self->name, 0, 100);
	struct kvtree_store_info before, after;
	__u64 digest;
	__u32 i;

	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&i, 4), STR("v"), NULL));
	digest = kvt_digest(fd);
	ASSERT_EQ(0, kvt_self(fd, &before));
	ASSERT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&i, 4), STR("v"), NULL));
	ASSERT_EQ(-EDQUOT, kvt_add(fd, STR("counter"), 0, 1, NULL));
	EXPECT_EQ(digest, kvt_digest(fd));
	/* Nor is anything charged for refused operations. */
	ASSERT_EQ(0, kvt_self(fd, &after));
	EXPECT_EQ(before.bytes, after.bytes);
	EXPECT_EQ(100, after.keys);
	/* Existing keys may change. */
	i = 7;
	EXPECT_EQ(0, kvt_put(fd, kvt_bytes(&i, 4), STR("a longer value"), NULL));
	/* A key makes room for a key, at once. */
	for (i = 0; i < 50; i++) {
		__u32 new = i + 1000;

		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&i, 4)));
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&new, 4), STR("v"), NULL));
		new += 5000;
		ASSERT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&new, 4), STR("v"), NULL));
	}
	close(fd);
}

/* Put keys 0, 1, ... with values of this length until the store is full. */
static __u32 fill(int fd, __u32 len)
{
	char *val = calloc(1, len + 1);
	__u32 i;
	int ret;

	KVT_CHECK(val);
	for (i = 0;; i++) {
		ret = kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(val, len), NULL);
		if (ret)
			break;
		KVT_CHECK(i < 1000000);
	}
	KVT_CHECK(ret == -EDQUOT);
	free(val);
	return i;
}

TEST_F(stores, byte_limit_is_never_passed_and_a_refused_put_changes_nothing)
{
	static const __u32 lens[] = { 10, 100, 5000, 100000 };
	const __u64 limit = 2 << 20;
	struct kvtree_store_info info;
	char *big = calloc(1, KVTREE_VALUE_MAX);
	__u64 digest;
	__u32 i, nr;
	size_t l;
	int fd;

	ASSERT_NE(NULL, big);

	for (l = 0; l < NR(lens); l++) {
		fd = open_limited(self->dev, self->name, limit, 0);
		nr = fill(fd, lens[l]);
		ASSERT_EQ(0, kvt_self(fd, &info));
		EXPECT_EQ(nr, info.keys);
		EXPECT_GE(limit, info.bytes);
		/* Not refused far too early either. */
		EXPECT_LE(limit * 3 / 4, info.bytes + lens[l]) {
			TH_LOG("values of %u bytes: full at %llu", lens[l], info.bytes);
		}
		EXPECT_LE(nr * (__u64)lens[l], info.bytes);

		/* More than all that is left in any case. */
		digest = kvt_digest(fd);
		for (i = 0; i < 3; i++) {
			__u32 key = nr + 1 + i;

			EXPECT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&key, 4),
						   kvt_bytes(big, KVTREE_VALUE_MAX), NULL));
			EXPECT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&i, 4),
						   kvt_bytes(big, KVTREE_VALUE_MAX), NULL));
		}
		EXPECT_EQ(digest, kvt_digest(fd));
		/* Reads go on. */
		i = 0;
		EXPECT_NE(0, kvt_version(fd, kvt_bytes(&i, 4)));
		ASSERT_EQ(0, kvt_self(fd, &info));
		EXPECT_GE(limit, info.bytes);
		close(fd);
		ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	}
	free(big);
}

TEST_F(stores, puts_that_do_not_grow_and_removes_pass_in_a_full_store)
{
	int fd = open_limited(self->dev, self->name, 1 << 20, 0);
	struct kvtree_store_info info;
	char val[1000] = {};
	__u32 i, nr;

	nr = fill(fd, sizeof(val));
	/* Take up the last bytes with small values. */
	for (i = nr; kvt_put(fd, kvt_bytes(&i, 4), STR(""), NULL) == 0; i++)
		;
	for (i = 0; i < nr; i++) {
		memset(val, i, sizeof(val));
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(val, sizeof(val)), NULL)) {
			TH_LOG("same size, key %u of %u", i, nr);
		}
	}
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(val, 1000 - i % 999),
				     NULL)) {
			TH_LOG("shrinking, key %u of %u", i, nr);
		}
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_GE(1 << 20, info.bytes);
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&i, 4)));
	close(fd);
}

TEST_F(stores, columns_put_again_in_the_same_sizes_pass_in_a_full_store)
{
	int fd = open_limited(self->dev, self->name, 1 << 20, 0), ret;
	struct kvtree_col cols[3] = {
		{ .id = 1, .len = 2000 }, { .id = 2, .len = 2000 }, { .id = 3, .len = 200 },
	};
	static char val[4200];
	__u32 i;

	/* Written one after the other, then all at once. */
	ASSERT_EQ(0, kvt_put_cols(fd, STR("k"), cols, 2, kvt_bytes(val, 4000), NULL));
	ASSERT_EQ(0, kvt_put_cols(fd, STR("k"), cols + 2, 1, kvt_bytes(val, 200), NULL));
	fill(fd, 1000);
	for (i = 0; kvt_put(fd, kvt_bytes(&i, 3), STR(""), NULL) == 0; i++)
		;
	ret = kvt_put_cols(fd, STR("k"), cols, 3, kvt_bytes(val, 4200), NULL);
	EXPECT_EQ(0, ret);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, kvt_put_cols(fd, STR("k"), cols + i, 1, kvt_bytes(val, cols[i].len),
					  NULL));
	close(fd);
}

TEST_F(stores, counters_in_a_full_store_still_count)
{
	int fd = open_limited(self->dev, self->name, 1 << 20, 0);
	__u64 before;
	__u32 i;

	ASSERT_EQ(0, kvt_add(fd, STR("counter"), 0, 1, NULL));
	fill(fd, 500);
	for (i = 0; kvt_put(fd, kvt_bytes(&i, 3), STR(""), NULL) == 0; i++)
		;
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, kvt_add(fd, STR("counter"), 0, 1, &before));
		ASSERT_EQ(i + 1, before);
	}
	close(fd);
}

TEST_F(stores, space_comes_back_after_removes)
{
	int fd = open_limited(self->dev, self->name, 2 << 20, 0);
	struct kvtree_store_info info;
	__u32 i, nr, again, round;
	__u64 empty;

	ASSERT_EQ(0, kvt_self(fd, &info));
	empty = info.bytes;
	nr = fill(fd, 1000);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < nr; i++)
			ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&i, 4)));
		/* What only waits to be freed is not charged. */
		again = fill(fd, 1000);
		EXPECT_LE(nr * 9 / 10, again);
		EXPECT_GE(nr * 11 / 10, again);
		nr = again;
	}
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&i, 4)));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(0, info.keys);
	/* Empty nodes may stay, values may not. */
	EXPECT_GE(empty + (64 << 10), info.bytes);
	close(fd);
}

static bool nothing_waits(void *arg)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(*(int *)arg, stats) == 0);
	return !stats[KVTREE_STAT_WAITING_BYTES];
}

TEST_F(stores, removed_memory_is_freed_in_the_end)
{
	int fd = open_limited(self->dev, self->name, 0, 0);
	__u64 stats[KVTREE_STAT_NR];
	char val[3000] = {};
	__u32 i;

	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(val, sizeof(val)), NULL));
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&i, 4)));
	EXPECT_TRUE(kvt_eventually(nothing_waits, &fd));
	ASSERT_EQ(0, kvt_stats(fd, stats));
	EXPECT_EQ(0, stats[KVTREE_STAT_KEYS]);
	EXPECT_EQ(0, stats[KVTREE_STAT_VALUES]);
	EXPECT_EQ(0, stats[KVTREE_STAT_VALUE_BYTES]);
	EXPECT_LE(3000, stats[KVTREE_STAT_WAITING_MAX]);
	EXPECT_LE(1, stats[KVTREE_STAT_RECLAIM_BATCHES]);
	close(fd);
}

TEST_F(stores, memory_that_waits_is_bounded)
{
	const __u32 len = 100000, writers = 3, rounds = 130;
	__u64 stats[KVTREE_STAT_NR];
	char old[16], *val = calloc(1, len);
	int pid[3], fd;
	__u32 i, j;

	ASSERT_NE(NULL, val);
	kvt_set_bound("1", old, sizeof(old));
	fd = open_limited(self->dev, self->name, 0, 0);
	kvt_set_bound(old, NULL, 0);
	for (i = 0; i < writers; i++) {
		pid[i] = kvt_child();
		if (pid[i])
			continue;
		/* Where memory is freed sooner than it is retired, it takes more of them. */
		for (j = 0; j < rounds || (j < 1000 * rounds &&
					   !kvt_stat(fd, KVTREE_STAT_WAITING_STALL)); j++)
			KVT_CHECK(kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(val, len), NULL) == 0);
		_exit(0);
	}
	for (i = 0; i < writers; i++)
		EXPECT_EQ(0, kvt_wait(pid[i]));
	ASSERT_EQ(0, kvt_stats(fd, stats));
	/* Each may have one value on its way when the bound is reached. */
	EXPECT_GE((1 << 20) + writers * (len + 4096), stats[KVTREE_STAT_WAITING_MAX]);
	EXPECT_LT(0, stats[KVTREE_STAT_WAITING_STALL]);
	EXPECT_TRUE(kvt_eventually(nothing_waits, &fd));
	close(fd);
	free(val);
}

static bool only_a_root_is_left(void *arg)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(*(int *)arg, stats) == 0);
	return stats[KVTREE_STAT_LEAF_NODES] == 1 && !stats[KVTREE_STAT_INNER_NODES] &&
	       !stats[KVTREE_STAT_LAYERS];
}

TEST_F(stores, empty_nodes_are_taken_away_in_the_end)
{
	int fd = open_limited(self->dev, self->name, 0, 0);
	__u64 stats[KVTREE_STAT_NR];
	char key[200];
	__u32 i;

	memset(key, 'x', sizeof(key));
	for (i = 0; i < 100; i++) {
		memcpy(key + 100, &i, 4);
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(key, 104), STR(""), NULL));
		memcpy(key + 100, "xxxx", 4);
		memcpy(key + 180, &i, 4);
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(key, 200), STR(""), NULL));
	}
	ASSERT_EQ(0, kvt_stats(fd, stats));
	if (kvt_is_masstree(fd))
		EXPECT_LE(20, stats[KVTREE_STAT_LAYERS]);
	EXPECT_LT(1, stats[KVTREE_STAT_LEAF_NODES]);
	for (i = 0; i < 100; i++) {
		memcpy(key + 180, &i, 4);
		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(key, 200)));
	}
	for (i = 0; i < 100; i++) {
		memcpy(key + 100, &i, 4);
		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(key, 104)));
	}
	EXPECT_TRUE(kvt_eventually(only_a_root_is_left, &fd));
	EXPECT_TRUE(kvt_eventually(nothing_waits, &fd));
	close(fd);
}

TEST_F(stores, limit_holds_for_writers_on_all_cpus_together)
{
	const __u64 limit = 4 << 20;
	struct kvtree_store_info info;
	int fd = open_limited(self->dev, self->name, limit, 2000);
	int pid[4], i;
	__u64 key;

	for (i = 0; i < 4; i++) {
		pid[i] = kvt_child();
		if (pid[i])
			continue;
		for (key = 0; key < 1000; key++) {
			__u64 name = key << 8 | i;
			char val[1000] = {};
			int ret = kvt_put(fd, kvt_bytes(&name, 8), kvt_bytes(val, 1000), NULL);

			KVT_CHECK(ret == 0 || ret == -EDQUOT);
			if (ret)
				continue;
			KVT_CHECK(kvt_self(fd, &info) == 0);
			KVT_CHECK(info.keys <= 2000);
			KVT_CHECK(info.bytes <= limit);
		}
		_exit(0);
	}
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, kvt_wait(pid[i]));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(2000, info.keys);
	close(fd);
}

static int set_limit_keys(int dev, const char *name, __u64 keys)
{
	const struct kvtree_store_set set = { .set = KVTREE_SET_LIMIT_KEYS, .limit_keys = keys };

	return kvt_set(dev, name, &set);
}

/* Of what removals give back, nothing is for others before the store is below its limit. */
TEST_F(stores, store_over_a_new_limit_does_not_grow_by_what_is_removed)
{
	int fd = open_limited(self->dev, self->name, 0, 0);
	struct kvtree_store_info info;
	cpu_set_t all;
	__u32 key;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	kvt_run_on(0);
	for (key = 0; key < 10; key++)
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&key, 4), STR("v"), NULL));
	ASSERT_EQ(0, set_limit_keys(self->dev, self->name, 5));
	for (key = 0; key < 5; key++) {
		__u32 other = 100 + key;

		ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&key, 4)));
		EXPECT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&other, 4), STR("v"), NULL));
	}
	ASSERT_EQ(0, kvt_remove(fd, kvt_bytes(&key, 4)));
	EXPECT_EQ(0, kvt_put(fd, kvt_bytes(&key, 4), STR("v"), NULL));
	key = 0;
	EXPECT_EQ(-EDQUOT, kvt_put(fd, kvt_bytes(&key, 4), STR("v"), NULL));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(5, info.keys);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
	close(fd);
}

/* Each CPU has taken more from the limit than it has used. */
TEST_F(stores, new_limit_is_kept_exactly_in_the_middle_of_writes)
{
	int fd = open_limited(self->dev, self->name, 0, 0);
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), cpu, added;
	struct kvtree_store_info info;
	cpu_set_t all;
	__u32 key;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	for (cpu = 0; cpu < cpus; cpu++) {
		kvt_run_on(cpu);
		for (key = 0; key < 10; key++) {
			__u32 name = key << 8 | (__u32)cpu;

			ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&name, 4), STR("v"), NULL));
		}
	}
	/* Less than there is, then three more. */
	ASSERT_EQ(0, set_limit_keys(self->dev, self->name, 1));
	for (cpu = 0; cpu < cpus; cpu++) {
		kvt_run_on(cpu);
		EXPECT_EQ(-EDQUOT, kvt_put(fd, STR("new"), STR("v"), NULL));
		key = (__u32)cpu;
		EXPECT_EQ(0, kvt_put(fd, kvt_bytes(&key, 4), STR("w"), NULL));
	}
	ASSERT_EQ(0, set_limit_keys(self->dev, self->name, (__u64)cpus * 10 + 3));
	for (key = 0, added = 0; key < 10; key++) {
		__u32 name = 0xffff0000 | key;

		kvt_run_on((int)key % cpus);
		added += kvt_put(fd, kvt_bytes(&name, 4), STR("v"), NULL) == 0;
	}
	EXPECT_EQ(3, added);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(cpus * 10 + 3, info.keys);
	EXPECT_EQ(cpus * 10 + 3, info.limit_keys);
	ASSERT_EQ(0, set_limit_keys(self->dev, self->name, 0));
	EXPECT_EQ(0, kvt_put(fd, STR("new"), STR("v"), NULL));
	close(fd);
}

TEST_F(stores, limit_too_small_for_anything_is_no_crash)
{
	__u64 limit;
	int fd, ret;

	for (limit = 1; limit <= 65536; limit *= 2) {
		ret = kvt_create(self->dev, self->name, 0600, limit, 1);
		if (ret) {
			ASSERT_EQ(-EDQUOT, ret);
			continue;
		}
		fd = kvt_store(self->dev, self->name, RW);
		ASSERT_LE(0, fd);
		ret = kvt_put(fd, STR("k"), STR("v"), NULL);
		ASSERT_TRUE(ret == 0 || ret == -EDQUOT);
		ASSERT_EQ(ret == 0, kvt_has(fd, STR("k"), STR("v")));
		ret = kvt_put(fd, STR("l"), STR("v"), NULL);
		ASSERT_EQ(-EDQUOT, ret);
		close(fd);
		ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	}
}

TEST_HARNESS_MAIN
