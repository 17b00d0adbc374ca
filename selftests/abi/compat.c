// SPDX-License-Identifier: GPL-2.0
/*
 * A 32-bit program on a 64-bit kernel sees the same structures and gets the
 * same results.  This program is built both ways; they differ where only one fails.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

FIXTURE(compat) {
	struct kvt_env env;
	int fd;
};

FIXTURE_SETUP(compat)
{
	kvt_env_init(&self->env, "compat", 0, 0);
	self->fd = self->env.fd;
}

FIXTURE_TEARDOWN(compat)
{
	kvt_env_exit(&self->env);
}

TEST_F(compat, structures_have_the_same_layout)
{
	/* Numbers of the 64-bit layout; the header asserts the sizes. */
	EXPECT_EQ(16, offsetof(struct kvtree_op, key));
	EXPECT_EQ(32, offsetof(struct kvtree_op, val));
	EXPECT_EQ(56, offsetof(struct kvtree_op, reserved));
	EXPECT_EQ(32, offsetof(struct kvtree_scan, cols));
	EXPECT_EQ(48, offsetof(struct kvtree_scan, reserved2));
	EXPECT_EQ(16, offsetof(struct kvtree_rec, version));
	EXPECT_EQ(24, offsetof(struct kvtree_batch, reserved));
	EXPECT_EQ(24, offsetof(struct kvtree_info, features));
	EXPECT_EQ(72, offsetof(struct kvtree_info, reserved));
	EXPECT_EQ(96, offsetof(struct kvtree_store_create, limit_bytes));
	EXPECT_EQ(16, offsetof(struct kvtree_store_attach, devices));
	EXPECT_EQ(32, offsetof(struct kvtree_store_attach, until));
	EXPECT_EQ(112, offsetof(struct kvtree_store_info, limit_bytes));
	EXPECT_EQ(16, offsetof(struct kvtree_stat_args, reserved));
	EXPECT_EQ(0xc0284b41, KVTREE_IOC_BATCH);
	EXPECT_EQ(0x80684b40, KVTREE_IOC_INFO);
}

TEST_F(compat, info_reports_that_32_bit_callers_may_call)
{
	struct kvtree_info info = {};

	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_INFO, &info));
	EXPECT_EQ(KVTREE_FEAT_COMPAT, info.features & KVTREE_FEAT_COMPAT);
	EXPECT_EQ(KVTREE_ABI_VERSION, info.abi_version);
	EXPECT_EQ(KVTREE_VALUE_MAX, info.value_max);
}

TEST_F(compat, operations_of_every_kind_work)
{
	struct kvtree_col put[2] = { { .id = 3, .len = 5 }, { .id = 77, .len = 4 } };
	struct kvtree_col get[2] = { { .id = 3 }, { .id = 77 } };
	__u64 version, before;
	char buf[64];

	ASSERT_EQ(0, kvt_put(self->fd, STR("key"), STR("value"), &version));
	ASSERT_EQ(5, kvt_get(self->fd, STR("key"), buf, sizeof(buf), NULL));
	EXPECT_EQ(0, memcmp(buf, "value", 5));
	ASSERT_EQ(0, kvt_cas(self->fd, STR("key"), STR("other"), &version));
	EXPECT_TRUE(kvt_has(self->fd, STR("key"), STR("other")));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0xffffffffffffffffull, &before));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 0, &before));
	EXPECT_EQ(0xffffffffffffffffull, before);
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("cols"), put, 2, STR("threeseve"), NULL));
	ASSERT_EQ(9, kvt_get_cols(self->fd, STR("cols"), get, 2, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "threeseve", 9));
	EXPECT_EQ(0, memcmp(put, get, sizeof(put)));
	ASSERT_EQ(0, kvt_remove(self->fd, STR("key")));
	EXPECT_EQ(0, kvt_version(self->fd, STR("key")));
}

TEST_F(compat, large_values_and_batches_work)
{
	struct kvtree_op *ops = calloc(KVTREE_BATCH_MAX, sizeof(*ops));
	unsigned char *val = malloc(KVTREE_VALUE_MAX), *got = malloc(KVTREE_VALUE_MAX);
	__u32 i, done;

	ASSERT_TRUE(ops && val && got);
	for (i = 0; i < KVTREE_VALUE_MAX; i++)
		val[i] = i * 7 + i / 256;
	ASSERT_EQ(0, kvt_put(self->fd, STR("big"), kvt_bytes(val, KVTREE_VALUE_MAX), NULL));
	ASSERT_EQ((int)KVTREE_VALUE_MAX,
		  kvt_get(self->fd, STR("big"), got, KVTREE_VALUE_MAX, NULL));
	EXPECT_EQ(0, memcmp(val, got, KVTREE_VALUE_MAX));
	for (i = 0; i < KVTREE_BATCH_MAX; i++) {
		ops[i].opcode = KVTREE_OP_PUT;
		ops[i].flags = KVTREE_F_KEY_INLINE;
		ops[i].key_len = 4;
		memcpy(ops[i].key_inline, &i, 4);
		ops[i].val = kvt_ptr(val + i);
		ops[i].val_len = 8;
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, KVTREE_BATCH_MAX, &done));
	ASSERT_EQ(KVTREE_BATCH_MAX, done);
	for (i = 0; i < KVTREE_BATCH_MAX; i++) {
		ASSERT_EQ(0, ops[i].result);
		ops[i].opcode = KVTREE_OP_GET;
		ops[i].val = kvt_ptr(got + 8 * i);
	}
	ASSERT_EQ(0, kvt_batch(self->fd, ops, KVTREE_BATCH_MAX, &done));
	for (i = 0; i < KVTREE_BATCH_MAX; i++)
		ASSERT_EQ(0, memcmp(val + i, got + 8 * i, 8));
	free(ops);
	free(val);
	free(got);
}

TEST_F(compat, scans_work)
{
	static const __u16 ids[] = { 1, 2 };
	struct kvtree_col put[2] = { { .id = 1, .len = 1 }, { .id = 2, .len = 2 } };
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = {};
	char key[16];
	int i, kind;

	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "key-%05d", i);
		ASSERT_EQ(0, kvt_put_cols(self->fd, kvt_bytes(key, 9), put, 2, STR("abc"), NULL));
	}
	for (kind = 0; kind < 4; kind++) {
		memset(&scan, 0, sizeof(scan));
		scan.flags = kind % 2 ? KVTREE_SCAN_REVERSE : 0;
		scan.cols = kvt_ptr(ids);
		scan.ncols = 2;
		scan.end = kvt_ptr(kind % 2 ? "key-00050" : "key-00150");
		scan.end_len = 9;
		if (kind / 2) {
			scan.flags |= KVTREE_SCAN_PREFIX;
			scan.prefix_len = 7;
		}
		ASSERT_EQ(0, kvt_scan_all(self->fd, STR("key-00100"), &scan, 300, &list));
		EXPECT_EQ(kind < 2 ? 50 : kind == 2 ? 50 : 1, list.nr) {
			TH_LOG("kind %d", kind);
		}
		for (i = 0; i < (int)list.nr; i++)
			EXPECT_EQ(2 * 8 + 3, list.rec[i].val.len);
		kvt_list_free(&list);
	}
}

TEST_F(compat, stores_and_counters_work)
{
	struct kvtree_store_info info;
	__u64 stats[KVTREE_STAT_NR];
	char name[KVTREE_NAME_MAX];
	int fd;

	snprintf(name, sizeof(name), "compat-%d.other", getpid());
	/* A limit that takes more than 32 bits. */
	ASSERT_EQ(0, kvt_create(self->fd, name, 0640, 5ull << 32, 6ull << 32));
	fd = kvt_store(self->fd, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvt_put(fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_STREQ(name, info.name);
	EXPECT_EQ(5ull << 32, info.limit_bytes);
	EXPECT_EQ(6ull << 32, info.limit_keys);
	EXPECT_EQ(1, info.keys);
	ASSERT_EQ(0, kvt_stats(fd, stats));
	EXPECT_EQ(1, stats[KVTREE_STAT_KEYS]);
	EXPECT_EQ(1, stats[KVTREE_STAT_PUT]);
	close(fd);
	ASSERT_EQ(0, kvt_find(self->fd, name, &info));
	EXPECT_EQ(0, kvt_destroy(self->fd, name));
}

/* A pointer is 64 bits wide: its upper half is not to be cut off. */
TEST_F(compat, pointers_with_more_than_32_bits_are_efault)
{
	struct kvtree_batch batch = { .nr = 1, .op_size = sizeof(struct kvtree_op) };
	const __u64 high = sizeof(void *) == 4 ? 1ull << 32 : 1ull << 63;
	struct kvtree_scan scan = {};
	struct kvtree_op op;
	char buf[64];

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	op = kvt_op(KVTREE_OP_GET, STR("k"));
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	batch.ops = kvt_ptr(&op);
	ASSERT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	ASSERT_EQ(1, op.result);
	batch.ops |= high;
	EXPECT_EQ(-EFAULT, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	op.key |= high;
	EXPECT_EQ(-EFAULT, kvt_exec(self->fd, &op));
	op.key &= ~high;
	op.val |= high;
	EXPECT_EQ(-EFAULT, kvt_exec(self->fd, &op));
	op.val &= ~high;
	EXPECT_EQ(1, kvt_exec(self->fd, &op));
	op.opcode = KVTREE_OP_SCAN;
	op.version = 0;
	op.arg_size = sizeof(scan);
	op.arg = kvt_ptr(&scan) | high;
	EXPECT_EQ(-EFAULT, kvt_exec(self->fd, &op));
}

TEST_HARNESS_MAIN
