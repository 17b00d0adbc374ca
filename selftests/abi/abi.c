// SPDX-License-Identifier: GPL-2.0
/*
 * Every operation and structure of /dev/kvtree does what its comment in
 * linux/kvtree.h says.  Scans have a program of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

FIXTURE(abi) {
	struct kvt_env env;
	int fd;
};

FIXTURE_SETUP(abi)
{
	kvt_env_init(&self->env, "abi", 0, 0);
	self->fd = self->env.fd;
}

FIXTURE_TEARDOWN(abi)
{
	kvt_env_exit(&self->env);
}

/* Bytes that differ from one place to the next and from one seed to the next. */
static void fill(unsigned char *p, size_t len, __u64 seed)
{
	struct kvt_rand rand = { .state = seed };
	size_t i;
	__u64 word = 0;

	for (i = 0; i < len; i++, word >>= 8) {
		if (i % 8 == 0)
			word = kvt_rand(&rand);
		p[i] = word;
	}
}

static __u64 le64(const void *p)
{
	const unsigned char *b = p;
	__u64 v = 0;
	int i;

	for (i = 7; i >= 0; i--)
		v = v << 8 | b[i];
	return v;
}

static void put_le64(void *p, __u64 v)
{
	unsigned char *b = p;
	int i;

	for (i = 0; i < 8; i++, v >>= 8)
		b[i] = v;
}

/*
 * INFO
 */
TEST_F(abi, info_reports_the_limits_of_the_header)
{
	struct kvtree_info info;

	memset(&info, 0xff, sizeof(info));
	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_INFO, &info));
	EXPECT_EQ(KVTREE_ABI_VERSION, info.abi_version);
	EXPECT_EQ(KVTREE_KEY_MAX, info.key_max);
	EXPECT_EQ(KVTREE_VALUE_MAX, info.value_max);
	EXPECT_EQ(KVTREE_COLS_MAX, info.cols_max);
	EXPECT_EQ(KVTREE_BATCH_MAX, info.batch_max);
	EXPECT_EQ(KVTREE_KEY_INLINE, info.key_inline);
	EXPECT_EQ(0, info.reserved[0] | info.reserved[1] | info.reserved[2] | info.reserved[3]);
	EXPECT_NE(0, info.version[0]);
	EXPECT_NE(NULL, memchr(info.version, 0, sizeof(info.version)));
}

TEST_F(abi, info_offers_exactly_the_operations_that_work)
{
	struct kvtree_info info;
	int code;

	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_INFO, &info));
	/* The features of the first version. */
	for (code = KVTREE_OP_NOP; code <= KVTREE_OP_SCAN; code++)
		EXPECT_TRUE(info.ops & (1ull << code));
	EXPECT_EQ(0, info.ops >> KVTREE_OP_NR);
	/* An operation that is not offered is refused, and only such a one. */
	for (code = 0; code < 64; code++) {
		struct kvtree_scan scan = {};
		struct kvtree_op op = kvt_op(code, STR("k"));
		int ret;

		if (code == KVTREE_OP_SCAN)
			op.arg = kvt_ptr(&scan);
		if (code == KVTREE_OP_NOP || code == KVTREE_OP_SYNC)
			op = kvt_op(code, kvt_bytes(NULL, 0));
		/* Of durable stores, which this one is not. */
		if (code == KVTREE_OP_SYNC)
			continue;
		ret = kvt_exec(self->fd, &op);
		EXPECT_EQ(!(info.ops & (1ull << code)), ret == -EINVAL || ret == -EOPNOTSUPP) {
			TH_LOG("operation %d: %d", code, ret);
		}
	}
}

/* An ioctl number that says another size of its structure. */
static unsigned long resized(unsigned long cmd, size_t size)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

TEST_F(abi, longer_info_with_a_zero_tail_is_accepted)
{
	struct {
		struct kvtree_info info;
		__u64 tail[4];
	} buf = {};

	ASSERT_EQ(0, kvt_ioctl(self->fd, resized(KVTREE_IOC_INFO, sizeof(buf)), &buf));
	EXPECT_EQ(KVTREE_ABI_VERSION, buf.info.abi_version);
	EXPECT_EQ(0, buf.tail[0] | buf.tail[1] | buf.tail[2] | buf.tail[3]);
}

TEST_F(abi, longer_batch_needs_a_zero_tail)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, STR("k"));
	struct {
		struct kvtree_batch batch;
		__u64 tail[5];
	} buf = {
		.batch = { .ops = kvt_ptr(&op), .nr = 1, .op_size = sizeof(op) },
	};
	unsigned long cmd = resized(KVTREE_IOC_BATCH, sizeof(buf));

	buf.tail[4] = 1ull << 56;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &buf));
	EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
	buf.tail[4] = 0;
	ASSERT_EQ(0, kvt_ioctl(self->fd, cmd, &buf));
	EXPECT_EQ(1, buf.batch.done);
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("")));
}

TEST_F(abi, longer_store_calls_need_a_zero_tail)
{
	struct {
		struct kvtree_store_create create;
		__u64 tail;
	} create = { .create.mode = 0600 };
	struct {
		struct kvtree_store_open open;
		__u64 tail;
	} open = { .open.flags = KVTREE_OPEN_READ };
	struct {
		struct kvtree_store_set set;
		__u64 tail;
	} set = { .set.set = KVTREE_SET_LIMIT_KEYS };
	struct {
		struct kvtree_store_destroy destroy;
		__u64 tail;
	} destroy = { };
	struct {
		struct kvtree_store_info info;
		__u64 tail;
	} info = { };
	struct {
		struct kvtree_stat_args args;
		__u64 tail;
	} stat = { };
	unsigned long cmd;
	int fd;

	snprintf(create.create.name, KVTREE_NAME_MAX, "longer-%d", getpid());
	strcpy(open.open.name, create.create.name);
	strcpy(set.set.name, create.create.name);
	strcpy(destroy.destroy.name, create.create.name);

	cmd = resized(KVTREE_IOC_STORE_CREATE, sizeof(create));
	create.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &create));
	create.tail = 0;
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &create));

	cmd = resized(KVTREE_IOC_STORE_OPEN, sizeof(open));
	open.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &open));
	open.tail = 0;
	fd = kvt_ioctl(self->fd, cmd, &open);
	EXPECT_LE(0, fd);
	close(fd);

	cmd = resized(KVTREE_IOC_STORE_SET, sizeof(set));
	set.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &set));
	set.tail = 0;
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &set));

	cmd = resized(KVTREE_IOC_STORE_LIST, sizeof(info));
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &info));
	EXPECT_EQ(0, info.tail);
	info.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &info));
	info.tail = 0;
	cmd = resized(KVTREE_IOC_STORE_SELF, sizeof(info));
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &info));
	EXPECT_EQ(0, info.tail);

	cmd = resized(KVTREE_IOC_STAT, sizeof(stat));
	stat.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &stat));
	stat.tail = 0;
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &stat));

	cmd = resized(KVTREE_IOC_STORE_DESTROY, sizeof(destroy));
	destroy.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, cmd, &destroy));
	destroy.tail = 0;
	EXPECT_EQ(0, kvt_ioctl(self->fd, cmd, &destroy));
}

/*
 * Values and keys
 */
TEST_F(abi, put_then_get_gives_the_same_bytes_and_version)
{
	__u64 put, got;
	char buf[16];

	ASSERT_EQ(0, kvt_put(self->fd, STR("key"), STR("value"), &put));
	EXPECT_NE(0, put);
	ASSERT_EQ(5, kvt_get(self->fd, STR("key"), buf, sizeof(buf), &got));
	EXPECT_EQ(0, memcmp(buf, "value", 5));
	EXPECT_EQ(put, got);
	EXPECT_EQ(put, kvt_version(self->fd, STR("key")));
}

TEST_F(abi, get_of_an_absent_key_is_enoent)
{
	char buf[16] = "untouched";

	EXPECT_EQ(-ENOENT, kvt_get(self->fd, STR("key"), buf, sizeof(buf), NULL));
	EXPECT_STREQ("untouched", buf);
	EXPECT_EQ(-ENOENT, kvt_remove(self->fd, STR("key")));
}

TEST_F(abi, get_that_does_not_fit_returns_the_size_and_copies_nothing)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, STR("key"));
	char buf[16] = "untouched";

	ASSERT_EQ(0, kvt_put(self->fd, STR("key"), STR("0123456789"), NULL));
	op.val = kvt_ptr(buf);
	op.val_len = 9;
	EXPECT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	EXPECT_EQ(10, op.val_len);
	EXPECT_STREQ("untouched", buf);
	/* The returned length is exactly the one needed. */
	EXPECT_EQ(10, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, memcmp(buf, "0123456789", 10));
	EXPECT_EQ(0, buf[10]);

	op.val = 0;
	op.val_len = 0;
	EXPECT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	EXPECT_EQ(10, op.val_len);
}

TEST_F(abi, get_writes_no_byte_behind_the_value)
{
	char buf[32];
	int i;

	ASSERT_EQ(0, kvt_put(self->fd, STR("key"), STR("0123456789abc"), NULL));
	memset(buf, 0x5a, sizeof(buf));
	ASSERT_EQ(13, kvt_get(self->fd, STR("key"), buf, sizeof(buf), NULL));
	for (i = 13; i < 32; i++)
		EXPECT_EQ(0x5a, buf[i]);
}

TEST_F(abi, empty_key_and_empty_value_are_as_good_as_others)
{
	char buf[4];

	EXPECT_EQ(-ENOENT, kvt_get(self->fd, STR(""), buf, sizeof(buf), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR(""), STR("x"), NULL));
	EXPECT_EQ(1, kvt_get(self->fd, STR(""), buf, sizeof(buf), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR(""), STR(""), NULL));
	EXPECT_EQ(0, kvt_get(self->fd, STR(""), NULL, 0, NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR(""), NULL));
	EXPECT_EQ(0, kvt_get(self->fd, STR("k"), buf, sizeof(buf), NULL));
	ASSERT_EQ(0, kvt_remove(self->fd, STR("")));
	EXPECT_EQ(-ENOENT, kvt_get(self->fd, STR(""), buf, sizeof(buf), NULL));
	EXPECT_EQ(0, kvt_get(self->fd, STR("k"), buf, sizeof(buf), NULL));
}

TEST_F(abi, keys_of_every_length_to_4096_are_told_apart)
{
	static const __u32 lens[] = {
		0, 1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65,
		127, 128, 255, 256, 257, 511, 512, 1023, 1024, 2047, 2048, 4087, 4088,
		4089, 4095, 4096,
	};
	unsigned char key[KVTREE_KEY_MAX];
	__u32 got;
	size_t i;

	/* All of them prefixes of the longest. */
	fill(key, sizeof(key), 1);
	for (i = 0; i < NR(lens); i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(key, lens[i]),
				     kvt_bytes(&lens[i], sizeof(lens[i])), NULL));
	for (i = 0; i < NR(lens); i++) {
		ASSERT_EQ(4, kvt_get(self->fd, kvt_bytes(key, lens[i]), &got, 4, NULL));
		ASSERT_EQ(lens[i], got);
	}
	/* Lengths in between do not exist. */
	EXPECT_EQ(-ENOENT, kvt_get(self->fd, kvt_bytes(key, 3), &got, 4, NULL));
	EXPECT_EQ(-ENOENT, kvt_get(self->fd, kvt_bytes(key, 4094), &got, 4, NULL));
	/* Nor is a key of the same length that differs in its last byte. */
	for (i = 1; i < NR(lens); i++) {
		key[lens[i] - 1] ^= 0x80;
		ASSERT_EQ(-ENOENT, kvt_get(self->fd, kvt_bytes(key, lens[i]), &got, 4, NULL));
		key[lens[i] - 1] ^= 0x80;
	}
	for (i = 0; i < NR(lens); i += 2)
		ASSERT_EQ(0, kvt_remove(self->fd, kvt_bytes(key, lens[i])));
	for (i = 0; i < NR(lens); i++)
		ASSERT_EQ(i % 2 ? 4 : -ENOENT,
			  kvt_get(self->fd, kvt_bytes(key, lens[i]), &got, 4, NULL));
}

TEST_F(abi, zero_bytes_in_keys_count)
{
	unsigned char zeros[40] = {};
	__u32 i, got;

	for (i = 0; i <= sizeof(zeros); i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(zeros, i), kvt_bytes(&i, 4), NULL));
	for (i = 0; i <= sizeof(zeros); i++) {
		ASSERT_EQ(4, kvt_get(self->fd, kvt_bytes(zeros, i), &got, 4, NULL));
		ASSERT_EQ(i, got);
	}
	ASSERT_EQ(0, kvt_remove(self->fd, kvt_bytes(zeros, 8)));
	EXPECT_EQ(-ENOENT, kvt_get(self->fd, kvt_bytes(zeros, 8), &got, 4, NULL));
	EXPECT_EQ(4, kvt_get(self->fd, kvt_bytes(zeros, 7), &got, 4, NULL));
	EXPECT_EQ(4, kvt_get(self->fd, kvt_bytes(zeros, 9), &got, 4, NULL));
}

TEST_F(abi, values_of_up_to_1_mib_come_back_whole)
{
	static const __u32 lens[] = {
		1, 7, 8, 63, 64, 4095, 4096, 4097, 65535, 65536, 131072, 1048575, 1048576,
	};
	unsigned char *val = malloc(KVTREE_VALUE_MAX), *got = malloc(KVTREE_VALUE_MAX + 1);
	size_t i;

	ASSERT_TRUE(val && got);
	for (i = 0; i < NR(lens); i++) {
		fill(val, lens[i], i);
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, sizeof(i)),
				     kvt_bytes(val, lens[i]), NULL));
	}
	for (i = 0; i < NR(lens); i++) {
		fill(val, lens[i], i);
		memset(got, 0, lens[i]);
		got[lens[i]] = 0x5a;
		ASSERT_EQ((int)lens[i], kvt_get(self->fd, kvt_bytes(&i, sizeof(i)), got,
						lens[i], NULL));
		ASSERT_EQ(0, memcmp(val, got, lens[i]));
		ASSERT_EQ(0x5a, got[lens[i]]);
	}
	/* Large to small and back: nothing of the old value shines through. */
	i = NR(lens) - 1;
	ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, sizeof(i)), STR("small"), NULL));
	EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(&i, sizeof(i)), STR("small")));
	fill(val, KVTREE_VALUE_MAX, 99);
	ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, sizeof(i)),
			     kvt_bytes(val, KVTREE_VALUE_MAX), NULL));
	EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(val, KVTREE_VALUE_MAX)));
	free(val);
	free(got);
}

TEST_F(abi, inline_keys_are_the_keys_that_pointers_give)
{
	unsigned char key[KVTREE_KEY_INLINE];
	struct kvtree_op op;
	__u32 len, got;

	fill(key, sizeof(key), 3);
	for (len = 0; len <= KVTREE_KEY_INLINE; len++) {
		memset(&op, 0, sizeof(op));
		op.opcode = KVTREE_OP_PUT;
		op.flags = KVTREE_F_KEY_INLINE;
		op.key_len = len;
		memcpy(op.key_inline, key, len);
		op.val = kvt_ptr(&len);
		op.val_len = sizeof(len);
		ASSERT_EQ(0, kvt_exec(self->fd, &op));
		ASSERT_EQ(4, kvt_get(self->fd, kvt_bytes(key, len), &got, 4, NULL));
		ASSERT_EQ(len, got);
	}
	for (len = 0; len <= KVTREE_KEY_INLINE; len++) {
		got = ~len;
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(key, len), kvt_bytes(&got, 4), NULL));
		memset(&op, 0, sizeof(op));
		op.opcode = KVTREE_OP_GET;
		op.flags = KVTREE_F_KEY_INLINE;
		op.key_len = len;
		memcpy(op.key_inline, key, len);
		op.val = kvt_ptr(&got);
		op.val_len = sizeof(got);
		ASSERT_EQ(4, kvt_exec(self->fd, &op));
		ASSERT_EQ(~len, got);
		/* The key is an input: it is still there. */
		ASSERT_EQ(0, memcmp(op.key_inline, key, len));
	}
}

/*
 * Conditions and versions
 */
TEST_F(abi, create_refuses_a_key_that_exists)
{
	__u64 version;

	ASSERT_EQ(0, kvt_put_flags(self->fd, STR("k"), STR("one"), KVTREE_F_CREATE));
	version = kvt_version(self->fd, STR("k"));
	EXPECT_EQ(-EEXIST, kvt_put_flags(self->fd, STR("k"), STR("two"), KVTREE_F_CREATE));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("one")));
	EXPECT_EQ(version, kvt_version(self->fd, STR("k")));
}

TEST_F(abi, replace_refuses_a_key_that_does_not_exist)
{
	EXPECT_EQ(-ENOENT, kvt_put_flags(self->fd, STR("k"), STR("one"), KVTREE_F_REPLACE));
	EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("one"), NULL));
	EXPECT_EQ(0, kvt_put_flags(self->fd, STR("k"), STR("two"), KVTREE_F_REPLACE));
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("two")));
}

TEST_F(abi, cas_takes_place_only_at_the_version_named)
{
	__u64 version, v;

	/* Version 0: a key that does not exist. */
	v = 0;
	ASSERT_EQ(0, kvt_cas(self->fd, STR("k"), STR("one"), &v));
	EXPECT_NE(0, v);
	EXPECT_EQ(v, kvt_version(self->fd, STR("k")));
	version = v;
	v = 0;
	EXPECT_EQ(-ECANCELED, kvt_cas(self->fd, STR("k"), STR("two"), &v));
	EXPECT_EQ(version, v);
	/* The version that came back is the one that works. */
	EXPECT_EQ(0, kvt_cas(self->fd, STR("k"), STR("two"), &v));
	EXPECT_LT(version, v);
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("two")));
	/* The old one no longer does, and changes nothing. */
	EXPECT_EQ(-ECANCELED, kvt_cas(self->fd, STR("k"), STR("three"), &version));
	EXPECT_EQ(v, version);
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("two")));
	v++;
	EXPECT_EQ(-ECANCELED, kvt_cas(self->fd, STR("k"), STR("three"), &v));
	EXPECT_EQ(version, v);
	/* A key that does not exist has no version. */
	EXPECT_EQ(-ECANCELED, kvt_cas(self->fd, STR("absent"), STR("x"), &v));
	EXPECT_EQ(0, v);
	EXPECT_EQ(0, kvt_version(self->fd, STR("absent")));
}

TEST_F(abi, remove_at_a_version_leaves_another_version_alone)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_REMOVE, STR("k"));
	__u64 version;

	op.flags = KVTREE_F_VERSION;
	op.version = 1;
	EXPECT_EQ(-ENOENT, kvt_exec(self->fd, &op));
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), &version));
	op.version = version + 1;
	EXPECT_EQ(-ECANCELED, kvt_exec(self->fd, &op));
	EXPECT_EQ(version, op.version);
	EXPECT_TRUE(kvt_has(self->fd, STR("k"), STR("v")));
	EXPECT_EQ(0, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
}

TEST_F(abi, remove_then_reinsert_keeps_version_growing)
{
	struct kvt_rand rand;
	__u64 last = 0, version;
	int i, ret;

	kvt_rand_init(&rand, 1);
	for (i = 0; i < 500; i++) {
		switch (kvt_rand_below(&rand, 4)) {
		case 0:
			version = last;
			ret = kvt_remove(self->fd, STR("k"));
			ASSERT_TRUE(ret == 0 || ret == -ENOENT);
			break;
		case 1:
			ASSERT_EQ(0, kvt_add(self->fd, STR("k"), 1, 1, NULL));
			version = kvt_version(self->fd, STR("k"));
			ASSERT_LT(last, version);
			break;
		default:
			ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), &version));
			ASSERT_LT(last, version);
			break;
		}
		last = version;
		/* Put and remove other keys in between. */
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, sizeof(i)), STR(""), NULL));
		if (i % 3)
			ASSERT_EQ(0, kvt_remove(self->fd, kvt_bytes(&i, sizeof(i))));
	}
}

TEST_F(abi, cas_at_a_removed_version_never_succeeds_again)
{
	__u64 old, v;
	int i;

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), &old));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, kvt_remove(self->fd, STR("k")));
		v = old;
		ASSERT_EQ(-ECANCELED, kvt_cas(self->fd, STR("k"), STR("w"), &v));
		ASSERT_EQ(0, v);
		ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
		v = old;
		ASSERT_EQ(-ECANCELED, kvt_cas(self->fd, STR("k"), STR("w"), &v));
	}
}

TEST_F(abi, add_counts_little_endian_and_wraps)
{
	unsigned char buf[8];
	__u64 before;

	/* A key that does not exist counts as 0 and comes into being. */
	before = 99;
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 5, &before));
	EXPECT_EQ(0, before);
	ASSERT_EQ(8, kvt_get(self->fd, STR("n"), buf, 8, NULL));
	EXPECT_EQ(5, le64(buf));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0x0102030405060708ull, &before));
	EXPECT_EQ(5, before);
	ASSERT_EQ(8, kvt_get(self->fd, STR("n"), buf, 8, NULL));
	EXPECT_EQ(0x010203040506070dull, le64(buf));
	EXPECT_EQ(0x0d, buf[0]);
	/* Two's complement: subtraction, and over the edge both ways. */
	put_le64(buf, 2);
	ASSERT_EQ(0, kvt_put(self->fd, STR("n"), kvt_bytes(buf, 8), NULL));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, (__u64)-3, &before));
	EXPECT_EQ(2, before);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 1, &before));
	EXPECT_EQ(~0ull, before);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(0, before);
}

TEST_F(abi, add_with_replace_creates_nothing)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_ADD, STR("n"));
	char buf[8];

	op.flags = KVTREE_F_REPLACE;
	op.arg = 1;
	EXPECT_EQ(-ENOENT, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, kvt_version(self->fd, STR("n")));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 1, NULL));
	op.arg = 1;
	EXPECT_EQ(0, kvt_exec(self->fd, &op));
	EXPECT_EQ(1, op.arg);
	ASSERT_EQ(8, kvt_get(self->fd, STR("n"), buf, 8, NULL));
	EXPECT_EQ(2, le64(buf));
}

TEST_F(abi, add_to_what_is_not_8_bytes_is_refused)
{
	static const __u32 lens[] = { 0, 1, 7, 9, 16, 4096 };
	unsigned char val[4096];
	__u64 digest;
	size_t i;

	fill(val, sizeof(val), 4);
	for (i = 0; i < NR(lens); i++) {
		ASSERT_EQ(0, kvt_put(self->fd, STR("n"), kvt_bytes(val, lens[i]), NULL));
		digest = kvt_digest(self->fd);
		EXPECT_EQ(-EINVAL, kvt_add(self->fd, STR("n"), 0, 1, NULL));
		EXPECT_EQ(digest, kvt_digest(self->fd));
	}
}

TEST_F(abi, add_changes_its_column_alone)
{
	struct kvtree_col cols[3] = { { .id = 0 }, { .id = 7 }, { .id = 255 } };
	unsigned char buf[64];
	__u64 before;

	ASSERT_EQ(0, kvt_put(self->fd, STR("n"), STR("column zero"), NULL));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 7, 40, &before));
	EXPECT_EQ(0, before);
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 255, 1, &before));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 7, 2, &before));
	EXPECT_EQ(40, before);
	ASSERT_EQ(27, kvt_get_cols(self->fd, STR("n"), cols, 3, buf, sizeof(buf)));
	EXPECT_EQ(11, cols[0].len);
	EXPECT_EQ(0, memcmp(buf, "column zero", 11));
	EXPECT_EQ(8, cols[1].len);
	EXPECT_EQ(42, le64(buf + 11));
	EXPECT_EQ(8, cols[2].len);
	EXPECT_EQ(1, le64(buf + 19));
}

/* An operation, its result, and the version that it returns. */
struct refusal {
	struct kvtree_op op;
	int result;
	__u64 version;
};

TEST_F(abi, failed_operation_leaves_what_the_caller_gave)
{
	const __u64 any = 0x1234;
	__u64 v;
	char buf[2];
	size_t i;

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("value"), &v));
	struct refusal table[] = {
		{ kvt_op(KVTREE_OP_GET, STR("absent")), -ENOENT, 0 },
		{ kvt_op(KVTREE_OP_GET, STR("k")), -EMSGSIZE, v },
		{ kvt_op(KVTREE_OP_PUT, STR("k")), -EEXIST, v },
		{ kvt_op(KVTREE_OP_PUT, STR("absent")), -ENOENT, 0 },
		{ kvt_op(KVTREE_OP_CAS, STR("k")), -ECANCELED, v },
		{ kvt_op(KVTREE_OP_CAS, STR("absent")), -ECANCELED, 0 },
		{ kvt_op(KVTREE_OP_REMOVE, STR("absent")), -ENOENT, 0 },
		{ kvt_op(KVTREE_OP_REMOVE, STR("k")), -ECANCELED, v },
		{ kvt_op(KVTREE_OP_ADD, STR("absent")), -ENOENT, 0 },
		/* The key exists, and the column does not. */
		{ kvt_op(KVTREE_OP_ADD, STR("k")), -ENOENT, 0 },
		/* A number of five bytes. */
		{ kvt_op(KVTREE_OP_ADD, STR("k")), -EINVAL, any },
		/* The version that a CAS expects is an input: it is kept for another try. */
		{ kvt_op(KVTREE_OP_CAS, STR("k")), -E2BIG, any },
		{ kvt_op(KVTREE_OP_CAS, STR("k")), -EFAULT, any },
	};
	table[2].op.flags = KVTREE_F_CREATE;
	table[3].op.flags = KVTREE_F_REPLACE;
	table[7].op.flags = KVTREE_F_VERSION;
	table[8].op.flags = KVTREE_F_REPLACE;
	table[9].op.flags = KVTREE_F_REPLACE;
	table[9].op.col = 7;

	for (i = 0; i < NR(table); i++) {
		struct kvtree_op *op = &table[i].op, was;

		op->version = any;
		if (op->opcode == KVTREE_OP_ADD) {
			op->arg = any;
		} else if (op->opcode != KVTREE_OP_REMOVE) {
			op->val = kvt_ptr(buf);
			op->val_len = sizeof(buf);
		}
		if (table[i].result == -E2BIG)
			op->val_len = KVTREE_VALUE_MAX + 1;
		if (table[i].result == -EFAULT)
			op->val = 8;
		was = *op;
		ASSERT_EQ(table[i].result, kvt_exec(self->fd, op)) {
			TH_LOG("refusal %zu", i);
		}
		/* An ADD's version is an output alone, and undefined after EINVAL. */
		if (op->opcode != KVTREE_OP_ADD || table[i].result == -ENOENT) {
			EXPECT_EQ(table[i].version, op->version) {
				TH_LOG("refusal %zu", i);
			}
		}
		was.version = op->version;
		was.result = op->result;
		if (table[i].result == -EMSGSIZE)
			was.val_len = 5;
		EXPECT_EQ(0, memcmp(&was, op, sizeof(was))) {
			TH_LOG("refusal %zu", i);
		}
	}
	EXPECT_EQ(v, kvt_version(self->fd, STR("k")));
	EXPECT_EQ(0, kvt_version(self->fd, STR("absent")));
}

TEST_F(abi, remove_returns_the_version_that_it_removed)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_REMOVE, STR("k"));
	__u64 version;

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), &version));
	ASSERT_EQ(0, kvt_exec(self->fd, &op));
	EXPECT_EQ(version, op.version);
}

/*
 * Columns
 */
TEST_F(abi, put_of_some_columns_leaves_the_others)
{
	struct kvtree_col put[2] = { { .id = 1, .len = 3 }, { .id = 3, .len = 4 } };
	struct kvtree_col get[4] = { { .id = 0 }, { .id = 1 }, { .id = 2 }, { .id = 3 } };
	char buf[32];

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 2, STR("onefour"), NULL));
	put[0] = (struct kvtree_col){ .id = 2, .len = 2 };
	put[1] = (struct kvtree_col){ .id = 3, .len = 0 };
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 2, STR("22"), NULL));
	memset(buf, 0, sizeof(buf));
	ASSERT_EQ(5, kvt_get_cols(self->fd, STR("k"), get, 4, buf, sizeof(buf)));
	EXPECT_STREQ("one22", buf);
	EXPECT_EQ(KVTREE_COL_ABSENT, get[0].len);
	EXPECT_EQ(3, get[1].len);
	EXPECT_EQ(2, get[2].len);
	EXPECT_EQ(0, get[3].len);
	/* A value without column 0 reads as empty. */
	EXPECT_EQ(0, kvt_get(self->fd, STR("k"), buf, sizeof(buf), NULL));
}

TEST_F(abi, whole_put_leaves_no_other_columns)
{
	struct kvtree_col put[3] = {
		{ .id = 0, .len = 1 }, { .id = 5, .len = 3000 }, { .id = 9, .len = 1 },
	};
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, STR("k"));
	struct kvtree_col one[2] = { { .id = 4, .len = 2 }, { .id = 6, .len = KVTREE_COL_ABSENT } };
	struct kvtree_col get[256];
	static char val[3002];
	char buf[8];

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, kvt_bytes(val, 3002), NULL));
	op.flags = KVTREE_F_COLS | KVTREE_F_WHOLE;
	op.arg = kvt_ptr(one);
	op.ncols = 2;
	op.val = kvt_ptr("44");
	op.val_len = 2;
	ASSERT_EQ(0, kvt_exec(self->fd, &op));
	op.opcode = KVTREE_OP_GET;
	op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	op.arg = kvt_ptr(get);
	op.ncols = 256;
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	ASSERT_EQ(2, kvt_exec(self->fd, &op));
	ASSERT_EQ(1, op.ncols);
	EXPECT_EQ(4, get[0].id);
	EXPECT_EQ(0, memcmp(buf, "44", 2));

	/* At a version, and with no columns at all. */
	op.opcode = KVTREE_OP_CAS;
	op.flags = KVTREE_F_COLS | KVTREE_F_WHOLE;
	op.arg = 0;
	op.ncols = 0;
	op.val = 0;
	op.val_len = 0;
	ASSERT_EQ(0, kvt_exec(self->fd, &op));
	op.opcode = KVTREE_OP_GET;
	op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	EXPECT_EQ(0, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, op.ncols);
	EXPECT_NE(0, op.version);
}

static int put_whole(int fd, int opcode, int flags, const struct kvtree_col *cols, int ncols,
		     struct kvt_bytes val, __u64 *version)
{
	struct kvtree_op op = kvt_op(opcode, STR("k"));
	int ret;

	op.flags = KVTREE_F_COLS | KVTREE_F_WHOLE | flags;
	op.arg = kvt_ptr(cols);
	op.ncols = ncols;
	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	op.version = *version;
	ret = kvt_exec(fd, &op);
	*version = op.version;
	return ret;
}

TEST_F(abi, refused_whole_put_leaves_all_columns)
{
	struct kvtree_col old[2] = { { .id = 0, .len = 1 }, { .id = 9, .len = 2 } };
	struct kvtree_col new = { .id = 1, .len = 1 };
	__u64 version = 0, digest, v;

	/* Conditions are those of other puts. */
	EXPECT_EQ(-ENOENT, put_whole(self->fd, KVTREE_OP_PUT, KVTREE_F_REPLACE, &new, 1,
				     STR("x"), &version));
	version = 1;
	EXPECT_EQ(-ECANCELED, put_whole(self->fd, KVTREE_OP_CAS, 0, &new, 1, STR("x"), &version));
	EXPECT_EQ(0, version);
	EXPECT_EQ(0, kvt_version(self->fd, STR("k")));
	ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_CAS, 0, old, 2, STR("abb"), &version));
	EXPECT_EQ(version, kvt_version(self->fd, STR("k")));

	digest = kvt_digest(self->fd);
	v = 0;
	EXPECT_EQ(-EEXIST, put_whole(self->fd, KVTREE_OP_PUT, KVTREE_F_CREATE, &new, 1,
				     STR("x"), &v));
	EXPECT_EQ(version, v);
	v--;
	EXPECT_EQ(-ECANCELED, put_whole(self->fd, KVTREE_OP_CAS, 0, &new, 1, STR("x"), &v));
	EXPECT_EQ(version, v);
	EXPECT_EQ(-EINVAL, put_whole(self->fd, KVTREE_OP_PUT, 0, &new, 1, STR("xy"), &v));
	EXPECT_EQ(digest, kvt_digest(self->fd));

	EXPECT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, KVTREE_F_REPLACE, &new, 1, STR("x"), &v));
	EXPECT_LT(version, v);
	EXPECT_EQ(0, kvt_remove(self->fd, STR("k")));
	EXPECT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, KVTREE_F_CREATE, &new, 1, STR("x"), &v));
}

TEST_F(abi, whole_put_gives_back_what_the_old_columns_took)
{
	struct kvtree_col big[2] = { { .id = 1, .len = 600000 }, { .id = 2, .len = 400000 } };
	struct kvtree_col other = { .id = 3, .len = 1000000 };
	struct kvtree_col small = { .id = 4, .len = 1 };
	unsigned char *val = malloc(1000000), *buf = malloc(1000000);
	__u64 s[2][KVTREE_STAT_NR], version = 0;
	int i;

	ASSERT_TRUE(val && buf);
	fill(val, 1000000, 8);
	ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, 0, &small, 1, STR("s"), &version));
	ASSERT_EQ(0, kvt_stats(self->fd, s[0]));
	for (i = 0; i < 20; i++) {
		/* More than a value may have, together with the existing columns. */
		ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, 0, big, 2,
				       kvt_bytes(val, 1000000), &version));
		ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_CAS, 0, &other, 1,
				       kvt_bytes(val, 1000000), &version));
	}
	ASSERT_EQ(1000000, kvt_get_cols(self->fd, STR("k"), &other, 1, buf, 1000000));
	EXPECT_EQ(0, memcmp(val, buf, 1000000));
	ASSERT_EQ(0, kvt_get_cols(self->fd, STR("k"), big, 2, buf, 1000000));
	EXPECT_EQ(KVTREE_COL_ABSENT, big[0].len);
	EXPECT_EQ(KVTREE_COL_ABSENT, big[1].len);
	ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, 0, &small, 1, STR("s"), &version));
	ASSERT_EQ(0, kvt_stats(self->fd, s[1]));
	EXPECT_EQ(s[0][KVTREE_STAT_BYTES], s[1][KVTREE_STAT_BYTES]);
	EXPECT_EQ(s[0][KVTREE_STAT_VALUES], s[1][KVTREE_STAT_VALUES]);
	EXPECT_EQ(s[0][KVTREE_STAT_VALUE_BYTES], s[1][KVTREE_STAT_VALUE_BYTES]);
	free(val);
	free(buf);
}

/* Two values that have no column in common. */
static const struct kvtree_col whole_cols[2][2] = {
	{ { .id = 1, .len = 4 }, { .id = 3, .len = 4 } },
	{ { .id = 2, .len = 4 }, { .id = 4, .len = 3000 } },
};

struct whole_writer {
	int fd;
	int done;
};

static int whole_writer(void *arg)
{
	struct whole_writer *w = arg;
	static const char val[3004];
	__u64 version = 0;
	int i;

	for (i = 0; i < 4000; i++)
		KVT_CHECK(put_whole(w->fd, KVTREE_OP_PUT, 0, whole_cols[i % 2], 2,
				    kvt_bytes(val, i % 2 ? 3004 : 8), &version) == 0);
	__atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
	return 0;
}

TEST_F(abi, whole_put_is_seen_whole)
{
	struct whole_writer *w = kvt_map_shared(sizeof(*w));
	struct kvtree_col get[8];
	static char buf[4096];
	__u64 version = 0;
	int pid;

	ASSERT_EQ(0, put_whole(self->fd, KVTREE_OP_PUT, 0, whole_cols[0], 2, STR("13131313"),
			       &version));
	w->fd = self->fd;
	pid = kvt_fork(whole_writer, w);
	while (!__atomic_load_n(&w->done, __ATOMIC_ACQUIRE)) {
		struct kvtree_op op = kvt_op(KVTREE_OP_GET, STR("k"));

		op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
		op.arg = kvt_ptr(get);
		op.ncols = NR(get);
		op.val = kvt_ptr(buf);
		op.val_len = sizeof(buf);
		ASSERT_LE(0, kvt_exec(self->fd, &op));
		ASSERT_EQ(2, op.ncols);
		ASSERT_TRUE(!memcmp(get, whole_cols[0], sizeof(whole_cols[0])) ||
			    !memcmp(get, whole_cols[1], sizeof(whole_cols[1])));
	}
	EXPECT_EQ(0, kvt_wait(pid));
}

TEST_F(abi, value_may_have_no_columns)
{
	struct kvtree_col get = { .id = 0 };
	__u64 version;

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), NULL, 0, STR(""), &version));
	EXPECT_EQ(version, kvt_version(self->fd, STR("k")));
	EXPECT_EQ(0, kvt_get(self->fd, STR("k"), NULL, 0, NULL));
	EXPECT_EQ(0, kvt_get_cols(self->fd, STR("k"), &get, 1, NULL, 0));
	EXPECT_EQ(KVTREE_COL_ABSENT, get.len);
	/* No columns asked for: is the key there? */
	EXPECT_EQ(0, kvt_get_cols(self->fd, STR("k"), NULL, 0, NULL, 0));
	EXPECT_EQ(-ENOENT, kvt_get_cols(self->fd, STR("l"), NULL, 0, NULL, 0));
}

TEST_F(abi, put_without_columns_replaces_them_all)
{
	struct kvtree_col put[2] = { { .id = 0, .len = 1 }, { .id = 9, .len = 1 } };
	struct kvtree_col get[2] = { { .id = 0 }, { .id = 9 } };
	char buf[8];

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 2, STR("ab"), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("c"), NULL));
	ASSERT_EQ(1, kvt_get_cols(self->fd, STR("k"), get, 2, buf, sizeof(buf)));
	EXPECT_EQ('c', buf[0]);
	EXPECT_EQ(1, get[0].len);
	EXPECT_EQ(KVTREE_COL_ABSENT, get[1].len);
}

TEST_F(abi, absent_descriptor_removes_its_column)
{
	struct kvtree_col put[3] = {
		{ .id = 0, .len = 1 }, { .id = 1, .len = 1 }, { .id = 2, .len = 1 }
	};
	struct kvtree_col get[3] = { { .id = 0 }, { .id = 1 }, { .id = 2 } };
	char buf[8];

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, STR("abc"), NULL));
	put[0].len = KVTREE_COL_ABSENT;
	put[1].id = 2;
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 2, STR("C"), NULL));
	ASSERT_EQ(2, kvt_get_cols(self->fd, STR("k"), get, 3, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "bC", 2));
	EXPECT_EQ(KVTREE_COL_ABSENT, get[0].len);
	EXPECT_EQ(1, get[1].len);
	EXPECT_EQ(1, get[2].len);
	/* Removing an absent column is no error; the last column may be removed, too. */
	put[0] = (struct kvtree_col){ .id = 1, .len = KVTREE_COL_ABSENT };
	put[1] = (struct kvtree_col){ .id = 2, .len = KVTREE_COL_ABSENT };
	put[2] = (struct kvtree_col){ .id = 3, .len = KVTREE_COL_ABSENT };
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, STR(""), NULL));
	EXPECT_EQ(0, kvt_get(self->fd, STR("k"), buf, sizeof(buf), NULL));
	EXPECT_NE(0, kvt_version(self->fd, STR("k")));
}

TEST_F(abi, get_of_all_columns_returns_their_number)
{
	struct kvtree_col put[3] = {
		{ .id = 4, .len = 2 }, { .id = 5, .len = 0 }, { .id = 200, .len = 3 }
	};
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, STR("k"));
	struct kvtree_col get[8];
	char buf[16];

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, STR("aabbb"), NULL));
	memset(get, 0, sizeof(get));
	op.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	op.arg = kvt_ptr(get);
	op.ncols = NR(get);
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	ASSERT_EQ(5, kvt_exec(self->fd, &op));
	ASSERT_EQ(3, op.ncols);
	EXPECT_EQ(0, memcmp(buf, "aabbb", 5));
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));
	EXPECT_EQ(0, get[3].id | get[3].len);

	/* Not enough room for descriptors: how many it takes. */
	memset(get, 0, sizeof(get));
	op.ncols = 2;
	op.val_len = sizeof(buf);
	ASSERT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	EXPECT_EQ(3, op.ncols);
	/* Not enough room for data. */
	op.ncols = NR(get);
	op.val_len = 4;
	memset(buf, 0, sizeof(buf));
	ASSERT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	EXPECT_EQ(5, op.val_len);
	EXPECT_EQ(0, buf[0]);
	/* Both at once: the returned lengths suffice for both. */
	op.ncols = 0;
	op.val_len = 0;
	ASSERT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	ASSERT_EQ(3, op.ncols);
	ASSERT_EQ(5, op.val_len);
	ASSERT_EQ(5, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, memcmp(buf, "aabbb", 5));
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));
}

TEST_F(abi, get_of_columns_that_does_not_fit_copies_nothing)
{
	struct kvtree_col put[2] = { { .id = 1, .len = 4 }, { .id = 2, .len = 4 } };
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, STR("k"));
	struct kvtree_col get[2] = { { .id = 1 }, { .id = 2 } };
	char buf[9] = "........";

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 2, STR("aaaabbbb"), NULL));
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(get);
	op.ncols = 2;
	op.val = kvt_ptr(buf);
	op.val_len = 7;
	ASSERT_EQ(-EMSGSIZE, kvt_exec(self->fd, &op));
	EXPECT_EQ(8, op.val_len);
	EXPECT_STREQ("........", buf);
	ASSERT_EQ(8, kvt_exec(self->fd, &op));
	EXPECT_STREQ("aaaabbbb", buf);
}

TEST_F(abi, value_of_256_columns)
{
	struct kvtree_col put[256], get[256];
	unsigned char val[256 * 3], buf[256 * 3];
	__u32 i, sum = 0;

	for (i = 0; i < 256; i++) {
		put[i] = (struct kvtree_col){ .id = i, .len = i % 4 };
		sum += i % 4;
	}
	fill(val, sizeof(val), 5);
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 256, kvt_bytes(val, sum), NULL));
	memset(get, 0, sizeof(get));
	for (i = 0; i < 256; i++)
		get[i].id = i;
	ASSERT_EQ((int)sum, kvt_get_cols(self->fd, STR("k"), get, 256, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(val, buf, sum));
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));
	/* One in the middle grows. */
	put[0] = (struct kvtree_col){ .id = 128, .len = 100 };
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 1, kvt_bytes(val, 100), NULL));
	ASSERT_EQ((int)sum + 100, kvt_get_cols(self->fd, STR("k"), get, 256, buf, sizeof(buf)));
	EXPECT_EQ(100, get[128].len);
	for (i = 0, sum = 0; i < 128; i++)
		sum += i % 4;
	EXPECT_EQ(0, memcmp(buf, val, sum));
	EXPECT_EQ(0, memcmp(buf + sum, val, 100));
	EXPECT_EQ(0, memcmp(buf + sum + 100, val + sum, 127 % 4 + 1));
}

TEST_F(abi, large_columns_of_1_mib_in_all)
{
	static const __u32 lens[4] = { 1000, 524288, 3, 523285 };
	struct kvtree_col put[4], get[4];
	unsigned char *val = malloc(KVTREE_VALUE_MAX), *buf = malloc(KVTREE_VALUE_MAX);
	__u64 version, digest;
	int i, ret;

	ASSERT_TRUE(val && buf);
	ASSERT_EQ(KVTREE_VALUE_MAX, lens[0] + lens[1] + lens[2] + lens[3]);
	fill(val, KVTREE_VALUE_MAX, 6);
	for (i = 0; i < 4; i++) {
		put[i] = (struct kvtree_col){ .id = 10 * i, .len = lens[i] };
		get[i] = (struct kvtree_col){ .id = 10 * i };
	}
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 4, kvt_bytes(val, KVTREE_VALUE_MAX),
				  NULL));
	ASSERT_EQ((int)KVTREE_VALUE_MAX,
		  kvt_get_cols(self->fd, STR("k"), get, 4, buf, KVTREE_VALUE_MAX));
	EXPECT_EQ(0, memcmp(val, buf, KVTREE_VALUE_MAX));
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));

	/* A small change of a value with large columns. */
	put[2].len = 3;
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put + 2, 1, STR("xyz"), &version));
	memcpy(val + lens[0] + lens[1], "xyz", 3);
	ASSERT_EQ((int)KVTREE_VALUE_MAX,
		  kvt_get_cols(self->fd, STR("k"), get, 4, buf, KVTREE_VALUE_MAX));
	EXPECT_EQ(0, memcmp(val, buf, KVTREE_VALUE_MAX));

	/* One byte more in all is too much, and changes nothing. */
	digest = kvt_digest(self->fd);
	put[2].len = 4;
	ret = kvt_put_cols(self->fd, STR("k"), put + 2, 1, STR("xyzw"), NULL);
	EXPECT_EQ(-E2BIG, ret);
	EXPECT_EQ(digest, kvt_digest(self->fd));
	/* Shrinking one column makes room for another in the same put. */
	put[2] = (struct kvtree_col){ .id = 20, .len = 4 };
	put[3] = (struct kvtree_col){ .id = 30, .len = 100 };
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put + 2, 2, kvt_bytes(val, 104), NULL));
	free(val);
	free(buf);
}

/* Lengths around which a column may be kept one way or another. */
TEST_F(abi, columns_of_every_length_keep_their_neighbours)
{
	static const __u32 lens[] = {
		0, 1, 7, 8, 9, 15, 16, 17, 64, 200, 1000, 1365, 1366, 2040, 2047, 2048, 2049,
		4088, 4095, 4096, 4097, 8191, 8192, 8193, 20000,
	};
	static unsigned char want[8][20000], buf[8 * 20000], val[8 * 20000];
	struct kvtree_col put[8], get[8];
	struct kvt_rand rand;
	int len[8], i, n, step;
	__u32 at;

	kvt_rand_init(&rand, 4);
	memset(len, 0xff, sizeof(len));
	for (step = 0; step < 1500; step++) {
		n = 0;
		at = 0;
		for (i = 0; i < 8; i++) {
			if (kvt_rand_below(&rand, 3))
				continue;
			len[i] = lens[kvt_rand_below(&rand, NR(lens))];
			if (!kvt_rand_below(&rand, 6))
				len[i] = -1;
			put[n] = (struct kvtree_col){ .id = i, .len = len[i] };
			if (len[i] >= 0) {
				fill(want[i], len[i], step * 8 + i);
				memcpy(val + at, want[i], len[i]);
				at += len[i];
			}
			n++;
		}
		if (!n)
			continue;
		ASSERT_EQ(0, kvt_put_cols(self->fd, STR("some key of 27 bytes, say.."), put, n,
					  kvt_bytes(val, at), NULL));
		for (i = 0; i < 8; i++)
			get[i] = (struct kvtree_col){ .id = i };
		ASSERT_LE(0, kvt_get_cols(self->fd, STR("some key of 27 bytes, say.."), get, 8,
					  buf, sizeof(buf)));
		for (i = 0, at = 0; i < 8; i++) {
			ASSERT_EQ(len[i], (int)get[i].len);
			if (len[i] < 0)
				continue;
			ASSERT_EQ(0, memcmp(buf + at, want[i], len[i]));
			at += len[i];
		}
	}
}

TEST_F(abi, multi_column_put_makes_one_version)
{
	struct kvtree_col put[3] = {
		{ .id = 1, .len = 1 }, { .id = 2, .len = 1 }, { .id = 3, .len = 1 }
	};
	__u64 v, version;

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, STR("abc"), &v));
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, STR("def"), &version));
	EXPECT_LT(v, version);
	EXPECT_EQ(version, kvt_version(self->fd, STR("k")));
}

TEST_F(abi, cas_of_columns_leaves_the_others)
{
	struct kvtree_col col = { .id = 1, .len = 3 };
	struct kvtree_col get[2] = { { .id = 0 }, { .id = 1 } };
	struct kvtree_op op = kvt_op(KVTREE_OP_CAS, STR("k"));
	char buf[8] = {};

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("zero"), &op.version));
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(&col);
	op.ncols = 1;
	op.val = kvt_ptr("one");
	op.val_len = 3;
	ASSERT_EQ(0, kvt_exec(self->fd, &op));
	ASSERT_EQ(7, kvt_get_cols(self->fd, STR("k"), get, 2, buf, sizeof(buf)));
	EXPECT_STREQ("zeroone", buf);
	op.version--;
	op.val = kvt_ptr("two");
	EXPECT_EQ(-ECANCELED, kvt_exec(self->fd, &op));
	ASSERT_EQ(7, kvt_get_cols(self->fd, STR("k"), get, 2, buf, sizeof(buf)));
	EXPECT_STREQ("zeroone", buf);
}

/*
 * Batches
 */
TEST_F(abi, operations_of_a_batch_see_the_earlier_ones)
{
	char buf[4][8] = {};
	struct kvtree_op ops[] = {
		kvt_op(KVTREE_OP_GET, STR("k")),
		kvt_op(KVTREE_OP_PUT, STR("k")),
		kvt_op(KVTREE_OP_GET, STR("k")),
		kvt_op(KVTREE_OP_PUT, STR("k")),
		kvt_op(KVTREE_OP_GET, STR("k")),
		kvt_op(KVTREE_OP_REMOVE, STR("k")),
		kvt_op(KVTREE_OP_GET, STR("k")),
		kvt_op(KVTREE_OP_NOP, STR("")),
	};
	__u32 done;
	size_t i, n = 0;

	for (i = 0; i < NR(ops); i++) {
		ops[i].result = 1234;
		if (ops[i].opcode == KVTREE_OP_GET) {
			ops[i].val = kvt_ptr(buf[n++]);
			ops[i].val_len = sizeof(buf[0]);
		}
	}
	ops[1].val = kvt_ptr("one");
	ops[1].val_len = 3;
	ops[3].val = kvt_ptr("three");
	ops[3].val_len = 5;
	ops[7].key = 0;
	ASSERT_EQ(0, kvt_batch(self->fd, ops, NR(ops), &done));
	EXPECT_EQ(NR(ops), done);
	EXPECT_EQ(-ENOENT, ops[0].result);
	EXPECT_EQ(0, ops[1].result);
	EXPECT_EQ(3, ops[2].result);
	EXPECT_EQ(ops[1].version, ops[2].version);
	EXPECT_EQ(0, ops[3].result);
	EXPECT_LT(ops[1].version, ops[3].version);
	EXPECT_EQ(5, ops[4].result);
	EXPECT_EQ(ops[3].version, ops[4].version);
	EXPECT_EQ(0, ops[5].result);
	EXPECT_EQ(-ENOENT, ops[6].result);
	EXPECT_EQ(0, ops[7].result);
	EXPECT_STREQ("", buf[0]);
	EXPECT_STREQ("one", buf[1]);
	EXPECT_STREQ("three", buf[2]);
	EXPECT_STREQ("", buf[3]);
}

TEST_F(abi, failed_operation_does_not_stop_a_batch)
{
	struct kvtree_op ops[3] = {
		kvt_op(KVTREE_OP_PUT, STR("a")),
		kvt_op(200, STR("b")),
		kvt_op(KVTREE_OP_PUT, STR("c")),
	};
	__u32 done;

	ASSERT_EQ(0, kvt_batch(self->fd, ops, 3, &done));
	EXPECT_EQ(3, done);
	EXPECT_EQ(0, ops[0].result);
	EXPECT_GT(0, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	EXPECT_TRUE(kvt_has(self->fd, STR("a"), STR("")));
	EXPECT_TRUE(kvt_has(self->fd, STR("c"), STR("")));
}

TEST_F(abi, batch_of_nothing)
{
	__u32 done = 1;

	EXPECT_EQ(0, kvt_batch(self->fd, NULL, 0, &done));
	EXPECT_EQ(0, done);
}

TEST_F(abi, batch_of_the_limit)
{
	struct kvtree_op *ops = calloc(KVTREE_BATCH_MAX, sizeof(*ops));
	__u32 i, done, val[KVTREE_BATCH_MAX];

	ASSERT_NE(NULL, ops);
	for (i = 0; i < KVTREE_BATCH_MAX; i++) {
		val[i] = i;
		ops[i].opcode = KVTREE_OP_PUT;
		ops[i].flags = KVTREE_F_KEY_INLINE;
		ops[i].key_len = 4;
		memcpy(ops[i].key_inline, &i, 4);
		ops[i].val = kvt_ptr(&val[i]);
		ops[i].val_len = 4;
		ops[i].result = 1234;
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, KVTREE_BATCH_MAX, &done));
	ASSERT_EQ(KVTREE_BATCH_MAX, done);
	for (i = 0; i < KVTREE_BATCH_MAX; i++) {
		ASSERT_EQ(0, ops[i].result);
		ops[i].opcode = KVTREE_OP_GET;
		val[i] = ~0u;
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, KVTREE_BATCH_MAX, &done));
	ASSERT_EQ(KVTREE_BATCH_MAX, done);
	for (i = 0; i < KVTREE_BATCH_MAX; i++) {
		ASSERT_EQ(4, ops[i].result);
		ASSERT_EQ(i, val[i]);
	}
	free(ops);
}

TEST_F(abi, gets_of_a_batch_do_not_mix_up_their_keys)
{
	struct kvtree_op ops[64];
	__u64 keys[64], vals[64];
	struct kvt_rand rand;
	__u32 i, round, done;

	/* Every third key is absent; some are read twice, with writes in between. */
	kvt_rand_init(&rand, 2);
	for (i = 0; i < 300; i++) {
		__u64 key = i, val = i * 7;

		if (i % 3)
			ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&key, 8), kvt_bytes(&val, 8),
					     NULL));
	}
	for (round = 0; round < 100; round++) {
		for (i = 0; i < 64; i++) {
			keys[i] = kvt_rand_below(&rand, 300);
			vals[i] = ~0ull;
			ops[i] = kvt_op(KVTREE_OP_GET, kvt_bytes(&keys[i], 8));
			ops[i].val = kvt_ptr(&vals[i]);
			ops[i].val_len = 8;
			if (round % 4 == 3 && kvt_rand_below(&rand, 8) == 0) {
				ops[i].opcode = KVTREE_OP_PUT;
				vals[i] = keys[i] * 7;
				if (keys[i] % 3 == 0)
					ops[i] = kvt_op(KVTREE_OP_NOP, kvt_bytes(NULL, 0));
			}
		}
		ASSERT_EQ(0, kvt_batch(self->fd, ops, 64, &done));
		ASSERT_EQ(64, done);
		for (i = 0; i < 64; i++) {
			if (ops[i].opcode != KVTREE_OP_GET) {
				ASSERT_EQ(0, ops[i].result);
			} else if (keys[i] % 3) {
				ASSERT_EQ(8, ops[i].result);
				ASSERT_EQ(keys[i] * 7, vals[i]);
			} else {
				ASSERT_EQ(-ENOENT, ops[i].result);
				ASSERT_EQ(~0ull, vals[i]);
			}
		}
	}
}

TEST_F(abi, longer_operations_need_zero_tails)
{
	struct {
		struct kvtree_op op;
		__u8 tail[24];
	} ops[3] = {
		{ .op = kvt_op(KVTREE_OP_PUT, STR("a")) },
		{ .op = kvt_op(KVTREE_OP_PUT, STR("b")) },
		{ .op = kvt_op(KVTREE_OP_PUT, STR("c")) },
	};
	struct kvtree_batch batch = {
		.ops = kvt_ptr(ops), .nr = 3, .op_size = sizeof(ops[0]),
	};
	int ret;

	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	EXPECT_EQ(3, batch.done);
	EXPECT_EQ(0, ops[0].op.result | ops[1].op.result | ops[2].op.result);
	EXPECT_TRUE(kvt_has(self->fd, STR("a"), STR("")));
	EXPECT_TRUE(kvt_has(self->fd, STR("c"), STR("")));

	ops[1].tail[23] = 1;
	ops[0].op = kvt_op(KVTREE_OP_REMOVE, STR("a"));
	ops[1].op = kvt_op(KVTREE_OP_REMOVE, STR("b"));
	ops[2].op = kvt_op(KVTREE_OP_REMOVE, STR("c"));
	batch.done = 1234;
	ret = kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch);
	if (ret < 0) {
		/* The call failed; the completed operations are reported. */
		EXPECT_EQ(-E2BIG, ret);
		EXPECT_GE(1, batch.done);
		EXPECT_EQ(!batch.done, kvt_has(self->fd, STR("a"), STR("")));
	} else {
		EXPECT_EQ(-E2BIG, ops[1].op.result);
		EXPECT_EQ(3, batch.done);
	}
	EXPECT_TRUE(kvt_has(self->fd, STR("b"), STR("")));
	EXPECT_EQ(1, ops[1].tail[23]);
}

TEST_F(abi, sync_of_a_volatile_store)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SYNC, kvt_bytes(NULL, 0));

	EXPECT_EQ(-EOPNOTSUPP, kvt_exec(self->fd, &op));
}

/*
 * Counters
 */
TEST_F(abi, counters_count_what_was_done)
{
	__u64 s[2][KVTREE_STAT_NR], v = 1, version;
	char buf[8];
	struct kvtree_scan scan = {};
	struct kvt_list list = {};

	ASSERT_EQ(0, kvt_stats(self->fd, s[0]));
	EXPECT_EQ(0, s[0][KVTREE_STAT_KEYS]);

	ASSERT_EQ(0, kvt_put(self->fd, STR("a"), STR("1"), &version));
	ASSERT_EQ(0, kvt_put(self->fd, STR("b"), STR("2"), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("c"), STR("too long for a cell"), NULL));
	ASSERT_EQ(1, kvt_get(self->fd, STR("a"), buf, 8, NULL));
	ASSERT_EQ(1, kvt_get(self->fd, STR("b"), buf, 8, NULL));
	ASSERT_EQ(-ENOENT, kvt_get(self->fd, STR("x"), buf, 8, NULL));
	ASSERT_EQ(0, kvt_cas(self->fd, STR("a"), STR("4"), &version));
	ASSERT_EQ(-ECANCELED, kvt_cas(self->fd, STR("a"), STR("5"), &v));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 1, NULL));
	ASSERT_EQ(0, kvt_remove(self->fd, STR("b")));
	ASSERT_EQ(0, kvt_scan_once(self->fd, STR(""), &scan, 4096, &list, NULL) < 0);
	ASSERT_EQ(3, list.nr);
	kvt_list_free(&list);

	ASSERT_EQ(0, kvt_stats(self->fd, s[1]));
	EXPECT_EQ(3, s[1][KVTREE_STAT_KEYS]);
	EXPECT_LT(s[0][KVTREE_STAT_BYTES], s[1][KVTREE_STAT_BYTES]);
	EXPECT_EQ(3, s[1][KVTREE_STAT_PUT] - s[0][KVTREE_STAT_PUT]);
	EXPECT_EQ(3, s[1][KVTREE_STAT_GET] - s[0][KVTREE_STAT_GET]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_GET_MISS] - s[0][KVTREE_STAT_GET_MISS]);
	EXPECT_EQ(2, s[1][KVTREE_STAT_CAS] - s[0][KVTREE_STAT_CAS]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_CAS_FAIL] - s[0][KVTREE_STAT_CAS_FAIL]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_ADD] - s[0][KVTREE_STAT_ADD]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_REMOVE] - s[0][KVTREE_STAT_REMOVE]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_SCAN] - s[0][KVTREE_STAT_SCAN]);
	EXPECT_EQ(3, s[1][KVTREE_STAT_SCAN_RECORDS] - s[0][KVTREE_STAT_SCAN_RECORDS]);
	EXPECT_EQ(0, s[1][KVTREE_STAT_BATCH] - s[0][KVTREE_STAT_BATCH]);
	EXPECT_LE(3, s[1][KVTREE_STAT_VALUES]);
	EXPECT_LE(1, s[1][KVTREE_STAT_LEAF_NODES]);
	EXPECT_LT(0, s[1][KVTREE_STAT_LEAF_BYTES]);
	EXPECT_LT(0, s[1][KVTREE_STAT_VALUE_BYTES]);
}

TEST_F(abi, errors_are_counted)
{
	__u64 s[2][KVTREE_STAT_NR];
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, STR("k"));

	ASSERT_EQ(0, kvt_stats(self->fd, s[0]));
	op.reserved = 1;
	ASSERT_EQ(-EINVAL, kvt_exec(self->fd, &op));
	ASSERT_EQ(0, kvt_stats(self->fd, s[1]));
	EXPECT_EQ(1, s[1][KVTREE_STAT_ERROR] - s[0][KVTREE_STAT_ERROR]);
}

TEST_F(abi, gets_of_a_batch_are_looked_up_together)
{
	__u64 s[2][KVTREE_STAT_NR], keys[32], vals[32];
	struct kvtree_op ops[32];
	__u32 i, done;

	for (i = 0; i < 32; i++) {
		keys[i] = i;
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&keys[i], 8), kvt_bytes(&keys[i], 8),
				     NULL));
		ops[i] = kvt_op(KVTREE_OP_GET, kvt_bytes(&keys[i], 8));
		ops[i].val = kvt_ptr(&vals[i]);
		ops[i].val_len = 8;
	}
	ASSERT_EQ(0, kvt_stats(self->fd, s[0]));
	ASSERT_EQ(0, kvt_batch(self->fd, ops, 32, &done));
	ASSERT_EQ(32, done);
	ASSERT_EQ(0, kvt_stats(self->fd, s[1]));
	EXPECT_EQ(32, s[1][KVTREE_STAT_GET] - s[0][KVTREE_STAT_GET]);
	EXPECT_EQ(32, s[1][KVTREE_STAT_GET_INTERLEAVED] - s[0][KVTREE_STAT_GET_INTERLEAVED]);
	EXPECT_EQ(1, s[1][KVTREE_STAT_BATCH] - s[0][KVTREE_STAT_BATCH]);
	for (i = 0; i < 32; i++)
		EXPECT_EQ(keys[i], vals[i]);
}

TEST_F(abi, layers_are_counted)
{
	bool masstree = kvt_is_masstree(self->fd);
	__u64 s[KVTREE_STAT_NR];

	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(0, s[KVTREE_STAT_LAYERS]);
	/* Two keys that differ after 16 shared bytes make layers. */
	ASSERT_EQ(0, kvt_put(self->fd, STR("0123456789abcdef-one"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("0123456789abcdef-two"), STR(""), NULL));
	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(masstree ? 2 : 0, s[KVTREE_STAT_LAYERS]);
	EXPECT_LE(masstree, s[KVTREE_STAT_LAYER_CREATE]);
}

TEST_F(abi, stat_fills_what_was_asked_for_and_returns_the_number_of_counters)
{
	__u64 values[KVTREE_STAT_NR + 100];
	struct kvtree_stat_args args = { .values = kvt_ptr(values) };
	size_t i;

	ASSERT_EQ(0, kvt_put(self->fd, STR("a"), STR("1"), NULL));
	memset(values, 0xa5, sizeof(values));
	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
	EXPECT_EQ(KVTREE_STAT_NR, args.nr);
	EXPECT_EQ(0xa5a5a5a5a5a5a5a5ull, values[0]);

	args.nr = 1;
	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
	EXPECT_EQ(KVTREE_STAT_NR, args.nr);
	EXPECT_EQ(1, values[KVTREE_STAT_KEYS]);
	EXPECT_EQ(0xa5a5a5a5a5a5a5a5ull, values[1]);

	args.nr = NR(values);
	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
	EXPECT_EQ(KVTREE_STAT_NR, args.nr);
	for (i = 0; i < KVTREE_STAT_NR; i++)
		EXPECT_NE(0xa5a5a5a5a5a5a5a5ull, values[i]);
	for (i = KVTREE_STAT_NR; i < NR(values); i++)
		EXPECT_TRUE(values[i] == 0xa5a5a5a5a5a5a5a5ull || !values[i]);
}

/* The engine's counters in a list, which ends; their number. */
static int engine_stats(int fd, struct kvtree_engine_stat *stat, int room)
{
	int nr, ret;

	for (nr = 0; nr < room; nr++) {
		memset(&stat[nr], 0xa5, sizeof(*stat));
		stat[nr].nr = nr;
		ret = kvt_ioctl(fd, KVTREE_IOC_ENGINE_STAT, &stat[nr]);
		if (ret == -ENOENT)
			return nr;
		KVT_CHECK(ret == 0 && stat[nr].nr == nr);
		KVT_CHECK(!(stat[nr].flags & ~KVTREE_ENGINE_STAT_NOW));
		KVT_CHECK(stat[nr].name[0] && stat[nr].text[0]);
		/* NUL-terminated, with no kernel memory after the NUL. */
		KVT_CHECK(!stat[nr].name[sizeof(stat->name) - 1]);
		KVT_CHECK(!stat[nr].text[sizeof(stat->text) - 1]);
	}
	return room;
}

static __u64 engine_stat_of(const struct kvtree_engine_stat *stat, int nr, const char *name)
{
	while (nr--)
		if (!strcmp(stat[nr].name, name))
			return stat[nr].value;
	return ~0ull;
}

TEST_F(abi, counters_of_an_engine_come_with_their_names)
{
	struct kvtree_store_create create = { .engine = "bwtree", .mode = 0600 };
	struct kvtree_engine_stat stat[32];
	int fd, nr, i, j;

	snprintf(create.name, sizeof(create.name), "abi-engine-%d", getpid());
	ASSERT_EQ(0, kvt_ioctl(self->env.dev, KVTREE_IOC_STORE_CREATE, &create));
	fd = kvt_store(self->env.dev, create.name, KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	nr = engine_stats(fd, stat, NR(stat));
	EXPECT_LT(0, nr);
	EXPECT_GT(NR(stat), nr);
	for (i = 0; i < nr; i++)
		for (j = 0; j < i; j++)
			EXPECT_STRNE(stat[i].name, stat[j].name);
	EXPECT_EQ(0, engine_stat_of(stat, nr, "bw_update"));
	EXPECT_LT(0, engine_stat_of(stat, nr, "bw_map_bytes"));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, kvt_put(fd, kvt_bytes(&i, sizeof(i)), STR(""), NULL));
	EXPECT_EQ(nr, engine_stats(fd, stat, NR(stat)));
	EXPECT_EQ(100, engine_stat_of(stat, nr, "bw_update"));
	EXPECT_LE(3, engine_stat_of(stat, nr, "bw_consolidate"));
	stat[0].nr = ~0u;
	EXPECT_EQ(-ENOENT, kvt_ioctl(fd, KVTREE_IOC_ENGINE_STAT, &stat[0]));
	close(fd);
	EXPECT_EQ(0, kvt_destroy(self->env.dev, create.name));

	/* One that has none. */
	if (kvt_is_masstree(self->fd))
		EXPECT_EQ(0, engine_stats(self->fd, stat, NR(stat)));
}

TEST_F(abi, self_describes_the_sessions_store)
{
	struct kvtree_store_info self_info, found;

	ASSERT_EQ(0, kvt_put(self->fd, STR("a"), STR("1"), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("b"), STR("1"), NULL));
	ASSERT_EQ(0, kvt_self(self->fd, &self_info));
	EXPECT_STREQ(self->env.name, self_info.name);
	EXPECT_EQ(2, self_info.keys);
	EXPECT_NE(0, self_info.id);
	EXPECT_EQ(0600, self_info.mode);
	ASSERT_EQ(0, kvt_find(self->env.dev, self->env.name, &found));
	EXPECT_EQ(self_info.id, found.id);
	EXPECT_EQ(self_info.keys, found.keys);
}

/*
 * Everything at once: random operations against an array of values.
 */
#define MODEL_KEYS	64
#define MODEL_COLS	4

struct model {
	bool there;
	__u64 version;		/* the last that the key had */
	int len[MODEL_COLS];	/* -1: not there */
	unsigned char col[MODEL_COLS][64];
};

static struct kvt_bytes model_key(unsigned int i, unsigned char *buf)
{
	/* Groups that share 0, 8, 16 and 40 bytes; some are prefixes of others. */
	static const int shared[4] = { 0, 8, 16, 40 };
	int len = shared[i % 4];

	memset(buf, 'p', len);
	buf[len] = i / 8;
	buf[len + 1] = 0;
	return kvt_bytes(buf, len + 1 + i / 4 % 2);
}

static bool model_equal(int fd, struct kvt_bytes key, const struct model *m)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, key);
	struct kvtree_col cols[MODEL_COLS];
	unsigned char buf[MODEL_COLS * 64], *p = buf;
	int i, ret;

	for (i = 0; i < MODEL_COLS; i++)
		cols[i] = (struct kvtree_col){ .id = i };
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols);
	op.ncols = MODEL_COLS;
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	ret = kvt_exec(fd, &op);
	if (!m->there)
		return ret == -ENOENT;
	if (ret < 0 || op.version != m->version)
		return false;
	for (i = 0; i < MODEL_COLS; i++) {
		if (m->len[i] < 0) {
			if (cols[i].len != KVTREE_COL_ABSENT)
				return false;
			continue;
		}
		if ((int)cols[i].len != m->len[i] || memcmp(p, m->col[i], m->len[i]))
			return false;
		p += m->len[i];
	}
	return p == buf + ret;
}

static void model_clear(struct model *m)
{
	int i;

	m->there = false;
	for (i = 0; i < MODEL_COLS; i++)
		m->len[i] = -1;
}

/* A random set of columns for a put; the model as it is to be afterwards. */
static int model_cols(struct kvt_rand *rand, struct model *m, struct kvtree_col *cols,
		      unsigned char *val, __u32 *len)
{
	int i, n = 0;

	*len = 0;
	for (i = 0; i < MODEL_COLS; i++) {
		if (kvt_rand_below(rand, 2))
			continue;
		cols[n] = (struct kvtree_col){ .id = i, .len = kvt_rand_below(rand, 65) };
		if (cols[n].len == 64) {
			cols[n].len = KVTREE_COL_ABSENT;
			m->len[i] = -1;
		} else {
			m->len[i] = cols[n].len;
			fill(m->col[i], m->len[i], kvt_rand(rand));
			memcpy(val + *len, m->col[i], m->len[i]);
			*len += m->len[i];
		}
		n++;
	}
	return n;
}

TEST_F(abi, random_operations_agree_with_a_model)
{
	static struct model model[MODEL_KEYS];
	unsigned char buf[64], val[MODEL_COLS * 64];
	struct kvtree_col cols[MODEL_COLS];
	struct kvt_rand rand;
	unsigned int step, i;

	kvt_rand_init(&rand, 3);
	for (i = 0; i < MODEL_KEYS; i++)
		model_clear(&model[i]);
	for (step = 0; step < 6000; step++) {
		struct kvtree_op op;
		struct model next;
		int want = 0;
		__u32 len;

		i = kvt_rand_below(&rand, MODEL_KEYS);
		next = model[i];
		op = kvt_op(KVTREE_OP_PUT, model_key(i, buf));
		op.val = kvt_ptr(val);
		switch (kvt_rand_below(&rand, 8)) {
		case 0:
			op.opcode = KVTREE_OP_REMOVE;
			op.val = 0;
			want = next.there ? 0 : -ENOENT;
			model_clear(&next);
			break;
		case 1:
			op.opcode = KVTREE_OP_ADD;
			op.val = 0;
			op.col = kvt_rand_below(&rand, MODEL_COLS);
			op.arg = kvt_rand(&rand);
			if (next.len[op.col] < 0) {
				next.len[op.col] = 8;
				memset(next.col[op.col], 0, 8);
			}
			if (next.len[op.col] != 8)
				want = -EINVAL;
			next.there = true;
			put_le64(next.col[op.col], le64(next.col[op.col]) + op.arg);
			break;
		case 2:
			op.opcode = KVTREE_OP_CAS;
			op.version = next.there ? next.version : 0;
			if (kvt_rand_below(&rand, 2)) {
				op.version += 1 + kvt_rand_below(&rand, 3);
				want = -ECANCELED;
			}
			goto put;
		case 3:
			op.flags = KVTREE_F_CREATE;
			want = next.there ? -EEXIST : 0;
			goto put;
		case 4:
			op.flags = KVTREE_F_REPLACE;
			want = next.there ? 0 : -ENOENT;
			goto put;
		default:
put:
			next.there = true;
			if (kvt_rand_below(&rand, 2)) {
				op.flags |= KVTREE_F_COLS;
				if (kvt_rand_below(&rand, 4) == 0) {
					op.flags |= KVTREE_F_WHOLE;
					model_clear(&next);
					next.there = true;
				}
				op.arg = kvt_ptr(cols);
				op.ncols = model_cols(&rand, &next, cols, val, &len);
				op.val_len = len;
			} else {
				model_clear(&next);
				next.there = true;
				next.len[0] = kvt_rand_below(&rand, 64);
				op.val_len = next.len[0];
				fill(next.col[0], next.len[0], kvt_rand(&rand));
				memcpy(val, next.col[0], next.len[0]);
			}
			break;
		}
		ASSERT_EQ(want, kvt_exec(self->fd, &op)) {
			TH_LOG("step %u, operation %u, flags %x, key %u", step, op.opcode,
			       op.flags, i);
		}
		if (!want) {
			if (next.there) {
				ASSERT_LT(model[i].version, op.version);
				next.version = op.version;
			}
			model[i] = next;
		}
		ASSERT_TRUE(model_equal(self->fd, model_key(i, buf), &model[i])) {
			TH_LOG("step %u, operation %u, flags %x, key %u", step, op.opcode,
			       op.flags, i);
		}
	}
	for (i = 0; i < MODEL_KEYS; i++)
		EXPECT_TRUE(model_equal(self->fd, model_key(i, buf), &model[i]));
}

/*
 * Addresses with a tag, which the processor does not look at
 */
static struct kvtree_op tagged_op(int opcode, struct kvt_bytes key, const void *val, size_t len)
{
	struct kvtree_op op = kvt_op(opcode, key);

	op.key |= KVT_TAG;
	op.val = kvt_ptr(val) | KVT_TAG;
	op.val_len = len;
	return op;
}

/* An operation in its own batch, with all pointers tagged. */
static int tagged_exec(int fd, struct kvtree_op *op)
{
	struct kvtree_batch batch = {
		.ops = kvt_ptr(op) | KVT_TAG, .nr = 1, .op_size = sizeof(*op),
	};
	int err = kvt_ioctl(fd, KVTREE_IOC_BATCH, (void *)(uintptr_t)(kvt_ptr(&batch) | KVT_TAG));

	return err ?: op->result;
}

TEST_F(abi, values_may_be_at_tagged_addresses)
{
	static const __u32 lens[] = { 0, 8, 100, 5000, KVTREE_VALUE_MAX };
	unsigned char *val = malloc(KVTREE_VALUE_MAX), *got;
	struct kvtree_op op;
	__u64 version;
	size_t i;

	if (!kvt_allow_tags())
		SKIP(return, "no addresses with a tag");
	ASSERT_NE(NULL, val);
	for (i = 0; i < NR(lens); i++) {
		fill(val, lens[i], i);
		op = tagged_op(KVTREE_OP_PUT, STR("key"), val, lens[i]);
		ASSERT_EQ(0, tagged_exec(self->fd, &op)) {
			TH_LOG("%u bytes", lens[i]);
		}
		version = op.version;
		/* Into memory without pages yet. */
		got = mmap(NULL, KVTREE_VALUE_MAX, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, got);
		op = tagged_op(KVTREE_OP_GET, STR("key"), got, KVTREE_VALUE_MAX);
		ASSERT_EQ((int)lens[i], tagged_exec(self->fd, &op));
		ASSERT_EQ(0, memcmp(val, got, lens[i]));
		munmap(got, KVTREE_VALUE_MAX);
		/* The same by the call for one operation, and from a page that is only read. */
		op = tagged_op(KVTREE_OP_CAS, STR("key"), "another", 7);
		op.version = version;
		ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_OP,
				       (void *)(uintptr_t)(kvt_ptr(&op) | KVT_TAG)));
		ASSERT_EQ(0, op.result);
		ASSERT_TRUE(kvt_has(self->fd, STR("key"), STR("another")));
	}
	free(val);
}

TEST_F(abi, columns_and_scans_may_be_at_tagged_addresses)
{
	struct kvtree_col cols[2] = { { .id = 1, .len = 3 }, { .id = 9, .len = 4 } };
	const __u16 ids[] = { 9 };
	struct kvtree_scan scan = {
		.end = kvt_ptr("keyz") | KVT_TAG, .end_len = 4,
		.cols = kvt_ptr(ids) | KVT_TAG, .ncols = 1,
	};
	char buf[256] = {};
	const struct kvtree_rec *rec = (const void *)buf;
	struct kvtree_op op;

	if (!kvt_allow_tags())
		SKIP(return, "no addresses with a tag");
	op = tagged_op(KVTREE_OP_PUT, STR("keys"), "onenine", 7);
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols) | KVT_TAG;
	op.ncols = 2;
	ASSERT_EQ(0, tagged_exec(self->fd, &op));
	op = tagged_op(KVTREE_OP_GET, STR("keys"), buf, sizeof(buf));
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols) | KVT_TAG;
	op.ncols = 2;
	ASSERT_EQ(7, tagged_exec(self->fd, &op));
	EXPECT_EQ(0, memcmp(buf, "onenine", 7));
	op = tagged_op(KVTREE_OP_SCAN, STR("key"), buf, sizeof(buf));
	op.arg = kvt_ptr(&scan) | KVT_TAG;
	ASSERT_LT(0, tagged_exec(self->fd, &op));
	EXPECT_EQ(1, scan.count);
	EXPECT_EQ(0, memcmp(buf + rec->hdr_len + 4 + sizeof(cols[0]), "nine", 4));
	op = kvt_op(KVTREE_OP_REMOVE, STR("keys"));
	op.key |= KVT_TAG;
	EXPECT_EQ(0, tagged_exec(self->fd, &op));
}

/*
 * The store that exists without being asked for
 */
TEST(default_store_works_after_loading)
{
	struct kvtree_store_info info;
	int fd = kvt_open();

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_STREQ("default", info.name);
	EXPECT_EQ(0, info.uid);
	EXPECT_EQ(0, info.gid);
	EXPECT_EQ(0600, info.mode);
	EXPECT_NE(0, info.limit_bytes);
	ASSERT_EQ(0, kvt_put(fd, STR("selftest"), STR("hello"), NULL));
	EXPECT_TRUE(kvt_has(fd, STR("selftest"), STR("hello")));
	EXPECT_EQ(0, kvt_remove(fd, STR("selftest")));
	close(fd);
}

TEST_HARNESS_MAIN
