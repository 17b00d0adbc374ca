// SPDX-License-Identifier: GPL-2.0
/*
 * Whatever bad input a caller passes, the call returns an errno, changes nothing,
 * and leaves no message in the kernel's log.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include "kselftest_harness.h"
#include "lib/hostile.h"
#include "lib/kvt_test.h"

/* All calls, and the sizes of their structures in version 1. */
static const struct {
	unsigned long cmd;
	size_t first;
} calls[] = {
	/* kvtree.yaml: ioctls_test */
	{ KVTREE_IOC_INFO, KVTREE_INFO_SIZE_VER0 },
	{ KVTREE_IOC_BATCH, KVTREE_BATCH_SIZE_VER0 },
	{ KVTREE_IOC_STORE_CREATE, KVTREE_STORE_CREATE_SIZE_VER0 },
	{ KVTREE_IOC_STORE_OPEN, KVTREE_STORE_OPEN_SIZE_VER0 },
	{ KVTREE_IOC_STORE_DESTROY, KVTREE_STORE_DESTROY_SIZE_VER0 },
	{ KVTREE_IOC_STORE_LIST, KVTREE_STORE_INFO_SIZE_VER0 },
	{ KVTREE_IOC_STORE_SELF, KVTREE_STORE_INFO_SIZE_VER0 },
	{ KVTREE_IOC_STAT, KVTREE_STAT_ARGS_SIZE_VER0 },
	{ KVTREE_IOC_OP, KVTREE_OP_SIZE_VER0 },
	{ KVTREE_IOC_ENGINE_STAT, KVTREE_ENGINE_STAT_SIZE_VER0 },
	{ KVTREE_IOC_STORE_SET, KVTREE_STORE_SET_SIZE_VER0 },
	{ KVTREE_IOC_BPF_ACCESS, KVTREE_BPF_ACCESS_SIZE_VER0 },
	{ KVTREE_IOC_BPF_BIND, KVTREE_BPF_BIND_SIZE_VER0 },
	{ KVTREE_IOC_BPF_HOOK, KVTREE_BPF_HOOK_SIZE_VER0 },
	{ KVTREE_IOC_BPF_BINDING, KVTREE_BPF_BINDING_SIZE_VER0 },
	{ KVTREE_IOC_BPF_UNBIND, KVTREE_BPF_UNBIND_SIZE_VER0 },
	{ KVTREE_IOC_STORE_ATTACH, KVTREE_STORE_ATTACH_SIZE_VER0 },
	{ KVTREE_IOC_STORE_DETACH, KVTREE_STORE_DETACH_SIZE_VER0 },
	{ KVTREE_IOC_CHECKPOINT, KVTREE_CHECKPOINT_SIZE_VER0 },
	/* kvtree.yaml: end */
};

FIXTURE(bad) {
	struct kvt_env env;
	int fd;
	__u64 digest;
};

FIXTURE_SETUP(bad)
{
	struct kvtree_col cols[2] = { { .id = 1, .len = 3 }, { .id = 2, .len = 3 } };

	kvt_env_init(&self->env, "bad", 0, 0);
	self->fd = self->env.fd;
	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("a value"), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("l"), STR("another value"), NULL));
	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("cols"), cols, 2, STR("onetwo"), NULL));
	ASSERT_EQ(0, kvt_add(self->fd, STR("n"), 0, 1, NULL));
	self->digest = kvt_digest(self->fd);
}

FIXTURE_TEARDOWN(bad)
{
	kvt_env_exit(&self->env);
}

/*
 * The result of an operation that must fail, alone among good ones: these are
 * done nevertheless, and the store is as it was.
 */
static int refused(int fd, const struct kvtree_op *bad)
{
	struct kvtree_op ops[3] = {
		kvt_op(KVTREE_OP_NOP, kvt_bytes(NULL, 0)),
		*bad,
		kvt_op(KVTREE_OP_NOP, kvt_bytes(NULL, 0)),
	};
	__u64 digest = kvt_digest(fd);
	__u32 done;

	ops[0].result = 1234;
	ops[1].result = 1234;
	ops[2].result = 1234;
	KVT_CHECK(kvt_batch(fd, ops, 3, &done) == 0);
	KVT_CHECK(done == 3);
	KVT_CHECK(ops[0].result == 0 && ops[2].result == 0);
	KVT_CHECK(kvt_digest(fd) == digest);
	return ops[1].result;
}

/*
 * Operations
 */
TEST_F(bad, unknown_opcodes_are_refused)
{
	struct kvtree_op op;
	int code;

	for (code = KVTREE_OP_NR; code < 256; code++) {
		op = kvt_good_op(KVTREE_OP_PUT);
		op.opcode = code;
		ASSERT_EQ(-EINVAL, refused(self->fd, &op));
	}
}

TEST_F(bad, unknown_flags_and_those_of_other_operations_are_refused)
{
	static const struct {
		int opcode;
		int flags;	/* what it may have */
	} may[] = {
		{ KVTREE_OP_GET, KVTREE_F_KEY_INLINE | KVTREE_F_COLS | KVTREE_F_ALL_COLS },
		{ KVTREE_OP_PUT, KVTREE_F_KEY_INLINE | KVTREE_F_COLS | KVTREE_F_CREATE |
				 KVTREE_F_REPLACE | KVTREE_F_SYNC | KVTREE_F_WHOLE },
		{ KVTREE_OP_CAS, KVTREE_F_KEY_INLINE | KVTREE_F_COLS | KVTREE_F_SYNC |
				 KVTREE_F_WHOLE },
		{ KVTREE_OP_REMOVE, KVTREE_F_KEY_INLINE | KVTREE_F_VERSION | KVTREE_F_SYNC },
		{ KVTREE_OP_ADD, KVTREE_F_KEY_INLINE | KVTREE_F_REPLACE | KVTREE_F_SYNC },
		{ KVTREE_OP_SCAN, KVTREE_F_KEY_INLINE },
	};
	struct kvtree_op op;
	size_t i;
	int bit;

	for (i = 0; i < NR(may); i++) {
		for (bit = 0; bit < 16; bit++) {
			if (may[i].flags & (1 << bit))
				continue;
			op = kvt_good_op(may[i].opcode);
			op.flags = 1 << bit;
			ASSERT_EQ(-EINVAL, refused(self->fd, &op)) {
				TH_LOG("operation %d, flag %x", may[i].opcode, 1 << bit);
			}
		}
	}
	op = kvt_good_op(KVTREE_OP_PUT);
	op.flags = KVTREE_F_CREATE | KVTREE_F_REPLACE;
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));
	/* All columns of what, without COLS?  And no other columns than which? */
	op = kvt_good_op(KVTREE_OP_GET);
	op.flags = KVTREE_F_ALL_COLS;
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));
	op = kvt_good_op(KVTREE_OP_PUT);
	op.flags = KVTREE_F_WHOLE;
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));
	op = kvt_good_op(KVTREE_OP_GET);
	op.flags = KVTREE_F_COLS | KVTREE_F_WHOLE;
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));
}

TEST_F(bad, sync_on_a_volatile_store_is_refused)
{
	struct kvtree_op op;
	int code;

	for (code = KVTREE_OP_PUT; code <= KVTREE_OP_ADD; code++) {
		op = kvt_good_op(code);
		op.flags |= KVTREE_F_SYNC;
		EXPECT_EQ(-EOPNOTSUPP, refused(self->fd, &op));
	}
	op = kvt_good_op(KVTREE_OP_SYNC);
	EXPECT_EQ(-EOPNOTSUPP, refused(self->fd, &op));
}

TEST_F(bad, fields_that_are_not_used_must_be_zero)
{
	struct kvtree_op op;
	int code;

	for (code = 0; code < KVTREE_OP_NR; code++) {
		if (code == KVTREE_OP_SYNC)
			continue;
		op = kvt_good_op(code);
		op.reserved = 1ull << 63;
		EXPECT_EQ(-EINVAL, refused(self->fd, &op));
		op = kvt_good_op(code);
		op.key_reserved = 1;
		EXPECT_EQ(-EINVAL, refused(self->fd, &op));
		op = kvt_good_op(code);
		op.ncols = 1;
		EXPECT_EQ(-EINVAL, refused(self->fd, &op)) {
			TH_LOG("operation %d with ncols", code);
		}
		if (code != KVTREE_OP_ADD) {
			op = kvt_good_op(code);
			op.col = 1;
			EXPECT_EQ(-EINVAL, refused(self->fd, &op)) {
				TH_LOG("operation %d with col", code);
			}
		}
		if (code != KVTREE_OP_ADD && code != KVTREE_OP_SCAN) {
			op = kvt_good_op(code);
			op.arg = 1;
			EXPECT_EQ(-EINVAL, refused(self->fd, &op)) {
				TH_LOG("operation %d with arg", code);
			}
		}
		if (code == KVTREE_OP_NOP || code == KVTREE_OP_REMOVE || code == KVTREE_OP_ADD) {
			op = kvt_good_op(code);
			op.val = kvt_ptr("x");
			EXPECT_EQ(-EINVAL, refused(self->fd, &op)) {
				TH_LOG("operation %d with val", code);
			}
			op = kvt_good_op(code);
			op.val_len = 1;
			EXPECT_EQ(-EINVAL, refused(self->fd, &op)) {
				TH_LOG("operation %d with val_len", code);
			}
		}
	}
	op = kvt_op(KVTREE_OP_NOP, STR("k"));
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));
}

TEST_F(bad, key_over_4096_bytes_is_refused)
{
	char key[65535] = {};
	struct kvtree_op op;
	int code;

	for (code = KVTREE_OP_GET; code <= KVTREE_OP_SCAN; code++) {
		op = kvt_good_op(code);
		op.key = kvt_ptr(key);
		op.key_len = KVTREE_KEY_MAX + 1;
		EXPECT_EQ(-E2BIG, refused(self->fd, &op));
		op.key_len = 65535;
		EXPECT_EQ(-E2BIG, refused(self->fd, &op));
		op = kvt_good_op(code);
		op.flags = KVTREE_F_KEY_INLINE;
		op.key_len = KVTREE_KEY_INLINE + 1;
		EXPECT_EQ(-EINVAL, refused(self->fd, &op));
		op.key_len = 65535;
		EXPECT_EQ(-EINVAL, refused(self->fd, &op));
	}
}

TEST_F(bad, value_over_1_mib_is_refused)
{
	static const __u32 lens[] = { KVTREE_VALUE_MAX + 1, 1u << 31, ~0u - 1, ~0u };
	char *val = malloc(KVTREE_VALUE_MAX + 1);
	struct kvtree_op op;
	size_t i;

	ASSERT_NE(NULL, val);
	memset(val, 1, KVTREE_VALUE_MAX + 1);
	for (i = 0; i < NR(lens); i++) {
		op = kvt_good_op(KVTREE_OP_PUT);
		op.val = kvt_ptr(val);
		op.val_len = lens[i];
		EXPECT_EQ(-E2BIG, refused(self->fd, &op));
		op.opcode = KVTREE_OP_CAS;
		op.version = kvt_version(self->fd, STR("k"));
		EXPECT_EQ(-E2BIG, refused(self->fd, &op));
	}
	free(val);
}

TEST_F(bad, room_for_a_get_may_be_any_length)
{
	char buf[64];
	struct kvtree_op op = kvt_good_op(KVTREE_OP_GET);

	/* Only as many bytes as the value has are touched. */
	op.val = kvt_ptr(buf);
	op.val_len = ~0u;
	EXPECT_EQ(7, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, memcmp(buf, "a value", 7));
}

TEST_F(bad, column_descriptors_that_make_no_sense_are_refused)
{
	static const struct {
		const char *what;
		int ncols;
		struct kvtree_col cols[3];
		int err;
		__u32 val_len;
	} table[] = {
		{ "same id twice", 2, { { 1, 0, 1 }, { 1, 0, 1 } }, -EINVAL, 2 },
		{ "descending", 2, { { 2, 0, 1 }, { 1, 0, 1 } }, -EINVAL, 2 },
		{ "descending at the end", 3, { { 1, 0, 1 }, { 5, 0, 1 }, { 4, 0, 1 } },
		  -EINVAL, 3 },
		{ "id 256", 1, { { 256, 0, 1 } }, -EINVAL, 1 },
		{ "id 65535", 1, { { 65535, 0, 1 } }, -EINVAL, 1 },
		{ "reserved", 1, { { 1, 1, 1 } }, -EINVAL, 1 },
		{ "more data than lengths", 1, { { 1, 0, 1 } }, -EINVAL, 2 },
		{ "less data than lengths", 2, { { 1, 0, 1 }, { 2, 0, 2 } }, -EINVAL, 2 },
		{ "lengths that overflow", 3, { { 1, 0, 0x80000000 }, { 2, 0, 0x80000000 },
		  { 3, 0, 1 } }, -E2BIG, 1 },
		{ "just below absent", 2, { { 1, 0, 0xfffffffe }, { 2, 0, 3 } }, -E2BIG, 1 },
		{ "absent with data", 1, { { 1, 0, KVTREE_COL_ABSENT } }, -EINVAL, 1 },
	};
	struct kvtree_op op;
	size_t i;
	int code;

	for (i = 0; i < NR(table); i++) {
		for (code = KVTREE_OP_PUT; code <= KVTREE_OP_CAS; code++) {
			op = kvt_op(code, STR("k"));
			op.flags = KVTREE_F_COLS;
			op.arg = kvt_ptr(table[i].cols);
			op.ncols = table[i].ncols;
			op.val = kvt_ptr("0123456789");
			op.val_len = table[i].val_len;
			op.version = kvt_version(self->fd, STR("k"));
			EXPECT_EQ(table[i].err, refused(self->fd, &op)) {
				TH_LOG("operation %d: %s", code, table[i].what);
			}
		}
	}
	/* The order and the ids count for a get too; lengths do not. */
	for (i = 0; i < 6; i++) {
		struct kvtree_col cols[3];
		char buf[64];

		memcpy(cols, table[i].cols, sizeof(cols));
		EXPECT_EQ(-EINVAL, kvt_get_cols(self->fd, STR("cols"), cols, table[i].ncols,
						buf, sizeof(buf))) {
			TH_LOG("get: %s", table[i].what);
		}
	}
}

TEST_F(bad, more_than_256_columns_are_refused)
{
	struct kvtree_col cols[257];
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, STR("k"));
	int i;

	for (i = 0; i < 257; i++)
		cols[i] = (struct kvtree_col){ .id = i, .len = 0 };
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols);
	op.ncols = 257;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));
	op.ncols = 65535;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));
	op.opcode = KVTREE_OP_GET;
	op.ncols = 257;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));
	op.ncols = 65535;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));
}

TEST_F(bad, scans_that_make_no_sense_are_refused)
{
	static const __u16 twice[] = { 1, 1 }, falling[] = { 2, 1 }, large[] = { 256 };
	static __u16 many[257];
	const struct {
		const char *what;
		struct kvtree_scan scan;
		const char *key;
	} table[] = {
		{ "unknown flag 8", { .flags = 1 << 8 }, "" },
		{ "unknown flag 31", { .flags = 1u << 31 }, "" },
		{ "reserved 0", { .reserved = { 1 } }, "" },
		{ "reserved 2", { .reserved = { 0, 0, 1 } }, "" },
		{ "reserved2 0", { .reserved2 = { 1 } }, "" },
		{ "reserved2 1", { .reserved2 = { 0, 1ull << 63 } }, "" },
		{ "prefix longer than the key",
		  { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 2 }, "k" },
		{ "prefix_len without PREFIX", { .prefix_len = 1 }, "k" },
		{ "end of 4097 bytes", { .end = 4096, .end_len = 4097 }, "" },
		{ "END_INCL without an end", { .flags = KVTREE_SCAN_END_INCL }, "" },
		{ "end_len 0 without END", { .end = kvt_ptr(twice) }, "" },
		{ "LAST without REVERSE", { .flags = KVTREE_SCAN_LAST }, "" },
		{ "LAST with AFTER", { .flags = KVTREE_SCAN_LAST | KVTREE_SCAN_REVERSE |
		  KVTREE_SCAN_AFTER }, "" },
		{ "LAST with a start key",
		  { .flags = KVTREE_SCAN_LAST | KVTREE_SCAN_REVERSE }, "k" },
		{ "KEYS_ONLY and ALL_COLS",
		  { .flags = KVTREE_SCAN_KEYS_ONLY | KVTREE_SCAN_ALL_COLS }, "" },
		{ "cols without a number", { .cols = kvt_ptr(twice) }, "" },
		{ "same column twice", { .cols = kvt_ptr(twice), .ncols = 2 }, "" },
		{ "columns descending", { .cols = kvt_ptr(falling), .ncols = 2 }, "" },
		{ "column 256", { .cols = kvt_ptr(large), .ncols = 1 }, "" },
		{ "257 columns", { .cols = kvt_ptr(many), .ncols = 257 }, "" },
		{ "columns and ALL_COLS", { .cols = kvt_ptr(twice), .ncols = 1,
		  .flags = KVTREE_SCAN_ALL_COLS }, "" },
	};
	struct kvtree_scan scan;
	struct kvtree_op op;
	char buf[256];
	size_t i;
	int err;

	for (i = 0; i < NR(many); i++)
		many[i] = i;
	for (i = 0; i < NR(table); i++) {
		scan = table[i].scan;
		op = kvt_op(KVTREE_OP_SCAN, kvt_bytes(table[i].key, strlen(table[i].key)));
		op.arg = kvt_ptr(&scan);
		op.val = kvt_ptr(buf);
		op.val_len = sizeof(buf);
		err = scan.end_len > 4096 || scan.ncols > 256 ? -E2BIG : -EINVAL;
		EXPECT_EQ(err, refused(self->fd, &op)) {
			TH_LOG("%s", table[i].what);
		}
	}
}

/* Sizes of a scan are those of callers that were compiled at another time. */
TEST_F(bad, tail_of_a_scan_that_is_not_known_must_be_zero)
{
	struct {
		struct kvtree_scan scan;
		__u64 tail[4];
	} longer = {};
	char *end = kvt_map_guarded(2);
	struct kvtree_op op;
	int i;

	for (i = 0; i < (int)KVTREE_SCAN_SIZE_VER0; i++) {
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.arg_size = i;
		ASSERT_EQ(-EINVAL, refused(self->fd, &op)) {
			TH_LOG("%d bytes", i);
		}
	}
	op.arg_size = 4097;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));
	op.arg_size = 0xffff;
	EXPECT_EQ(-E2BIG, refused(self->fd, &op));

	op.arg = kvt_ptr(&longer);
	op.arg_size = sizeof(longer);
	EXPECT_LT(0, kvt_exec(self->fd, &op));
	EXPECT_LT(0, longer.scan.count);
	for (i = 0; i < (int)NR(longer.tail); i++) {
		longer.tail[i] = 1ull << 63;
		EXPECT_EQ(-E2BIG, refused(self->fd, &op));
		longer.tail[i] = 0;
	}
	longer.scan.reserved2[1] = 1;
	EXPECT_EQ(-EINVAL, refused(self->fd, &op));

	/* One of a page, as far as it is there. */
	memset(end - 8192, 0, 8192);
	op.arg = kvt_ptr(end - 4096);
	op.arg_size = 4096;
	EXPECT_LT(0, kvt_exec(self->fd, &op));
	op.arg = kvt_ptr(end - 4096 + 8);
	EXPECT_EQ(-EFAULT, refused(self->fd, &op));
}

/*
 * Addresses
 */
TEST_F(bad, no_bytes_may_be_anywhere)
{
	struct kvtree_col col = { .id = 0, .len = 0 };
	struct kvtree_op op;
	int i, cols;

	for (i = 0; i < 2 * KVT_NR_WILD; i++) {
		cols = i & 1;
		op = kvt_op(KVTREE_OP_PUT, STR("nothing"));
		op.val = kvt_wild[i / 2];
		if (cols) {
			op.flags |= KVTREE_F_COLS;
			op.arg = kvt_ptr(&col);
			op.ncols = 1;
		}
		EXPECT_EQ(0, kvt_exec(self->fd, &op));
		op.opcode = KVTREE_OP_GET;
		op.version = 0;
		EXPECT_EQ(0, kvt_exec(self->fd, &op));
	}
}

TEST_F(bad, wild_pointers_of_operations_are_efault)
{
	struct kvtree_col col = { .id = 1, .len = 3 };
	struct kvtree_scan scan;
	struct kvtree_op op;
	char buf[256];
	size_t i;
	int code;

	for (i = 0; i < KVT_NR_WILD; i++) {
		for (code = KVTREE_OP_GET; code <= KVTREE_OP_SCAN; code++) {
			op = kvt_good_op(code);
			op.key = kvt_wild[i];
			ASSERT_EQ(-EFAULT, refused(self->fd, &op)) {
				TH_LOG("key at %llx, operation %d", kvt_wild[i], code);
			}
		}
		for (code = KVTREE_OP_GET; code <= KVTREE_OP_CAS; code++) {
			op = kvt_good_op(code);
			op.val = kvt_wild[i];
			op.version = kvt_version(self->fd, STR("k"));
			ASSERT_EQ(-EFAULT, refused(self->fd, &op)) {
				TH_LOG("value at %llx, operation %d", kvt_wild[i], code);
			}
			op = kvt_good_op(code);
			op.key = kvt_ptr("cols");
			op.key_len = 4;
			op.flags = KVTREE_F_COLS;
			op.ncols = 1;
			op.arg = kvt_wild[i];
			op.version = kvt_version(self->fd, STR("cols"));
			ASSERT_EQ(-EFAULT, refused(self->fd, &op)) {
				TH_LOG("columns at %llx, operation %d", kvt_wild[i], code);
			}
			op.arg = kvt_ptr(&col);
			op.val = kvt_wild[i];
			ASSERT_EQ(-EFAULT, refused(self->fd, &op)) {
				TH_LOG("column data at %llx, operation %d", kvt_wild[i], code);
			}
			col.len = 3;
		}
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.arg = kvt_wild[i];
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.val = kvt_wild[i];
		ASSERT_EQ(-EFAULT, refused(self->fd, &op)) {
			TH_LOG("records at %llx", kvt_wild[i]);
		}
		memset(&scan, 0, sizeof(scan));
		scan.end = kvt_wild[i];
		scan.end_len = 3;
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.arg = kvt_ptr(&scan);
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
		memset(&scan, 0, sizeof(scan));
		scan.cols = kvt_wild[i];
		scan.ncols = 1;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	}
	/* A get that does not fit copies nothing, so that no address matters. */
	op = kvt_good_op(KVTREE_OP_GET);
	op.val = kvt_wild[0];
	op.val_len = 1;
	EXPECT_EQ(-EMSGSIZE, refused(self->fd, &op));
	memset(buf, 0, sizeof(buf));
}

TEST_F(bad, wild_pointers_of_calls_are_efault)
{
	struct kvtree_stat_args args = { .nr = 4 };
	struct kvtree_batch batch = { .nr = 1, .op_size = sizeof(struct kvtree_op) };
	size_t i, j;

	for (i = 0; i < KVT_NR_WILD; i++) {
		for (j = 0; j < NR(calls); j++) {
			ASSERT_EQ(-EFAULT, kvt_ioctl(self->fd, calls[j].cmd,
						     (void *)(uintptr_t)kvt_wild[i])) {
				TH_LOG("call %zu at %llx", j, kvt_wild[i]);
			}
		}
		args.values = kvt_wild[i];
		ASSERT_EQ(-EFAULT, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
		args.nr = 4;
		batch.ops = kvt_wild[i];
		batch.done = 77;
		ASSERT_EQ(-EFAULT, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
		ASSERT_EQ(0, batch.done);
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

/* Places of a buffer in front of memory that is not there, so that `in` bytes are. */
TEST_F(bad, half_mapped_inputs_are_efault)
{
	char *end = kvt_map_guarded(2);
	struct kvtree_col *cols;
	struct kvtree_scan *scan;
	struct kvtree_op op;
	int in;

	memset(end - 8192, 'k', 8192);
	for (in = 0; in < 8; in++) {
		op = kvt_good_op(KVTREE_OP_PUT);
		op.key = kvt_ptr(end - in);
		op.key_len = 8;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
		op = kvt_good_op(KVTREE_OP_PUT);
		op.val = kvt_ptr(end - in);
		op.val_len = 8;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
		/* A page of it is there. */
		op.val = kvt_ptr(end - 4096 - in);
		op.val_len = 4096 + 8;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	}
	/* A megabyte of which all but a byte is there. */
	op = kvt_good_op(KVTREE_OP_PUT);
	end = kvt_map_guarded(256);
	op.val = kvt_ptr(end - KVTREE_VALUE_MAX + 1);
	op.val_len = KVTREE_VALUE_MAX;
	ASSERT_EQ(-EFAULT, refused(self->fd, &op));

	cols = (struct kvtree_col *)end - 1;
	cols->id = 1;
	cols->len = 3;
	op = kvt_good_op(KVTREE_OP_PUT);
	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols);
	op.ncols = 2;
	ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	op.opcode = KVTREE_OP_GET;
	ASSERT_EQ(-EFAULT, refused(self->fd, &op));

	for (in = 0; in < (int)sizeof(*scan); in += 8) {
		memset(end - 64, 0, 64);
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.arg = kvt_ptr(end - in);
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	}
	scan = (struct kvtree_scan *)end - 1;
	memset(scan, 0, sizeof(*scan));
	scan->end = kvt_ptr(end - 3);
	scan->end_len = 4;
	op.arg = kvt_ptr(scan);
	ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	memset(scan, 0, sizeof(*scan));
	scan->cols = kvt_ptr(end - 2);
	scan->ncols = 2;
	ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	/* What ends right at the edge is whole. */
	memset(end - 16, 'k', 16);
	op = kvt_good_op(KVTREE_OP_GET);
	op.key = kvt_ptr(end - 1);
	EXPECT_EQ(7, kvt_exec(self->fd, &op));
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

TEST_F(bad, half_mapped_outputs_are_efault)
{
	char *end = kvt_map_guarded(2);
	struct kvtree_scan scan;
	struct kvtree_op op;
	int in;

	for (in = 0; in < 7; in++) {
		op = kvt_good_op(KVTREE_OP_GET);
		op.val = kvt_ptr(end - in);
		op.val_len = 64;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	}
	/* The value itself fits in front of the edge. */
	op.val = kvt_ptr(end - 7);
	EXPECT_EQ(7, kvt_exec(self->fd, &op));
	EXPECT_EQ(0, memcmp(end - 7, "a value", 7));

	/* A scan finds its first record without a place, or a later one. */
	for (in = 0; in < 128; in += 8) {
		memset(&scan, 0, sizeof(scan));
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.key_len = 0;
		op.arg = kvt_ptr(&scan);
		op.val = kvt_ptr(end - in);
		op.val_len = 4096;
		ASSERT_EQ(-EFAULT, refused(self->fd, &op));
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

/* Long values take another way to the caller than short ones. */
TEST_F(bad, half_mapped_outputs_of_long_values_are_efault)
{
	static const __u32 lens[] = { 2048, 2049, 4096, 20000, KVTREE_VALUE_MAX };
	struct kvtree_col put[2] = { { .id = 1, .len = 4 }, { .id = 2 } }, get[2];
	char *val = calloc(1, KVTREE_VALUE_MAX), *end = kvt_map_guarded(257);
	struct kvtree_scan scan;
	struct kvtree_op ops[3];
	__u32 i, j, done, in;

	ASSERT_NE(NULL, val);
	memset(val, 'v', KVTREE_VALUE_MAX);
	for (i = 0; i < NR(lens); i++) {
		ASSERT_EQ(0, kvt_put(self->fd, STR("long"), kvt_bytes(val, lens[i]), NULL));
		put[1].len = lens[i] - 4;
		ASSERT_EQ(0, kvt_put_cols(self->fd, STR("longcols"), put, 2,
					  kvt_bytes(val, lens[i]), NULL));
		for (j = 0; j < 3; j++) {
			/* All but a byte, half, nothing. */
			in = j == 0 ? lens[i] - 1 : j == 1 ? lens[i] / 2 : 0;
			ops[0] = kvt_op(KVTREE_OP_GET, STR("long"));
			ops[0].val = kvt_ptr(end - in);
			ops[0].val_len = lens[i];
			ASSERT_EQ(-EFAULT, refused(self->fd, &ops[0]));
			/* Several, looked up together. */
			ops[1] = ops[0];
			ops[1].val = kvt_ptr(end - lens[i]);
			ops[2] = ops[0];
			ASSERT_EQ(0, kvt_batch(self->fd, ops, 3, &done));
			ASSERT_EQ(3, done);
			ASSERT_EQ(-EFAULT, ops[0].result);
			ASSERT_EQ((int)lens[i], ops[1].result);
			ASSERT_EQ(-EFAULT, ops[2].result);

			get[0] = (struct kvtree_col){ .id = 1 };
			get[1] = (struct kvtree_col){ .id = 2 };
			ASSERT_EQ(-EFAULT, kvt_get_cols(self->fd, STR("longcols"), get, 2,
							end - in, lens[i]));
			memset(&scan, 0, sizeof(scan));
			scan.flags = KVTREE_SCAN_ALL_COLS;
			ops[0] = kvt_op(KVTREE_OP_SCAN, STR("longcols"));
			ops[0].arg = kvt_ptr(&scan);
			ops[0].val = kvt_ptr(end - in);
			ops[0].val_len = 2 * KVTREE_VALUE_MAX;
			ASSERT_EQ(-EFAULT, refused(self->fd, &ops[0]));
		}
	}
	free(val);
}

/* Of the page that ends at @end. */
static int protect_last(char *end, int prot)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return mprotect(end - page, page, prot);
}

TEST_F(bad, read_only_outputs_are_efault)
{
	char *end = kvt_map_guarded(1), *page = end - 4096;
	struct kvtree_col *cols = (void *)page;
	struct kvtree_scan *scan = (void *)(page + 1024);
	struct kvtree_op op;
	char buf[64];

	cols->id = 1;
	memset(scan, 0, sizeof(*scan));
	ASSERT_EQ(0, protect_last(end, PROT_READ));
	op = kvt_good_op(KVTREE_OP_GET);
	op.val = kvt_ptr(page);
	EXPECT_EQ(-EFAULT, refused(self->fd, &op));
	op = kvt_good_op(KVTREE_OP_SCAN);
	op.val = kvt_ptr(page);
	op.val_len = 4096;
	EXPECT_EQ(-EFAULT, refused(self->fd, &op));
	/* The outcome of a scan and the lengths of columns are outputs too. */
	op = kvt_good_op(KVTREE_OP_SCAN);
	op.arg = kvt_ptr(scan);
	EXPECT_EQ(-EFAULT, refused(self->fd, &op));
	EXPECT_EQ(-EFAULT, kvt_get_cols(self->fd, STR("cols"), cols, 1, buf, sizeof(buf)));
	/* Those of a put are not. */
	ASSERT_EQ(0, protect_last(end, PROT_READ | PROT_WRITE));
	cols->len = 1;
	ASSERT_EQ(0, protect_last(end, PROT_READ));
	EXPECT_EQ(0, kvt_put_cols(self->fd, STR("cols"), cols, 1, STR("x"), NULL));
	/* Values are only read: they may be in constant memory. */
	EXPECT_EQ(0, kvt_put(self->fd, kvt_bytes(page, 8), kvt_bytes(page, 4096), NULL));
}

/* How many of the keys 0..nr-1 exist; they must be the first ones. */
static __u32 first_keys(int fd, __u32 nr)
{
	__u32 i, n = 0;

	for (i = 0; i < nr; i++) {
		if (!kvt_version(fd, kvt_bytes(&i, sizeof(i))))
			continue;
		KVT_CHECK(n == i);
		n++;
	}
	return n;
}

static void put_inline(struct kvtree_op *op, __u32 key)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KVTREE_OP_PUT;
	op->flags = KVTREE_F_KEY_INLINE;
	op->key_len = sizeof(key);
	memcpy(op->key_inline, &key, sizeof(key));
	op->result = 1234;
}

TEST_F(bad, half_mapped_batch_reports_what_was_done)
{
	static const int mapped[] = { 0, 1, 2, 63, 100, 127 };
	char *end = kvt_map_guarded(2);
	struct kvtree_op *ops;
	__u32 i, done;
	int m, in;

	for (m = 0; m < (int)NR(mapped); m++) {
		/* Whole operations, then one of which `in` bytes are there. */
		for (in = 0; in < 64; in += 56) {
			ops = (void *)(end - in - mapped[m] * sizeof(*ops));
			for (i = 0; i < (__u32)mapped[m]; i++)
				put_inline(&ops[i], i);
			memset(end - in, 0, in);
			ASSERT_EQ(-EFAULT, kvt_batch(self->fd, ops, mapped[m] + 2, &done));
			ASSERT_GE(mapped[m], done);
			ASSERT_EQ(done, first_keys(self->fd, mapped[m]));
			for (i = 0; i < (__u32)mapped[m]; i++) {
				ASSERT_EQ(i < done ? 0 : 1234, ops[i].result);
				kvt_remove(self->fd, kvt_bytes(&i, sizeof(i)));
			}
		}
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

TEST_F(bad, batch_whose_outcome_cannot_be_written_reports_what_was_done)
{
	char *end = kvt_map_guarded(1);
	struct kvtree_op *ops = (void *)(end - 4096);
	__u32 i, done, there;

	for (i = 0; i < 10; i++)
		put_inline(&ops[i], i);
	ASSERT_EQ(0, protect_last(end, PROT_READ));
	ASSERT_EQ(-EFAULT, kvt_batch(self->fd, ops, 10, &done));
	/* Only the operation that lost its outcome may have taken place, too. */
	there = first_keys(self->fd, 10);
	EXPECT_LE(done, there);
	EXPECT_GE(done + 1, there);
	EXPECT_GE(1, done);
}

TEST_F(bad, batch_header_that_cannot_be_written_is_efault)
{
	char *end = kvt_map_guarded(1);
	struct kvtree_batch *batch = (void *)(end - 4096);
	struct kvtree_op op;
	char buf[16];

	op = kvt_good_op(KVTREE_OP_GET);
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	batch->ops = kvt_ptr(&op);
	batch->nr = 1;
	batch->op_size = sizeof(op);
	ASSERT_EQ(0, protect_last(end, PROT_READ));
	EXPECT_EQ(-EFAULT, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, batch));
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

/*
 * Calls
 */
static bool is_call(unsigned int nr)
{
	size_t i;

	for (i = 0; i < NR(calls); i++)
		if (_IOC_NR(calls[i].cmd) == nr)
			return true;
	return false;
}

TEST_F(bad, unknown_calls_are_enotty)
{
	char buf[4096] = {};
	int nr;

	for (nr = 0; nr < 256; nr++) {
		if (is_call(nr))
			continue;
		ASSERT_EQ(-ENOTTY, kvt_ioctl(self->fd, _IOC(_IOC_READ | _IOC_WRITE, 'K', nr, 64),
					     buf)) {
			TH_LOG("call %x", nr);
		}
		ASSERT_EQ(-ENOTTY, kvt_ioctl(self->fd, _IOC(0, 'K', nr, 0), buf));
	}
	EXPECT_EQ(-ENOTTY, kvt_ioctl(self->fd, _IOWR('L', 0x41, struct kvtree_batch), buf));
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

TEST_F(bad, impossible_sizes_of_structures_are_refused)
{
	const size_t large = (1 << 14) - 1;
	char *buf = calloc(1, large);
	size_t i, size;

	ASSERT_NE(NULL, buf);
	for (i = 0; i < NR(calls); i++) {
		const unsigned long cmd = calls[i].cmd;

		/* Shorter than the first version's structure: no caller was compiled that way. */
		ASSERT_LE(calls[i].first, _IOC_SIZE(cmd));
		for (size = 0; size < calls[i].first; size++) {
			ASSERT_EQ(-EINVAL, kvt_ioctl(self->fd, _IOC(_IOC_DIR(cmd), 'K',
								    _IOC_NR(cmd), size), buf)) {
				TH_LOG("call %zu with %zu bytes", i, size);
			}
		}
		/* Longer than any will be. */
		ASSERT_EQ(-E2BIG, kvt_ioctl(self->fd, _IOC(_IOC_DIR(cmd), 'K', _IOC_NR(cmd),
							   large), buf)) {
			TH_LOG("call %zu", i);
		}
		/* The direction is a part of the number. */
		ASSERT_EQ(-ENOTTY, kvt_ioctl(self->fd, _IOC(0, 'K', _IOC_NR(cmd),
							    _IOC_SIZE(cmd)), buf)) {
			TH_LOG("call %zu", i);
		}
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
	free(buf);
}

TEST_F(bad, batch_headers_that_make_no_sense_are_refused)
{
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	struct kvtree_op ops[4];
	const struct kvtree_batch ok = {
		.ops = kvt_ptr(&op), .nr = 1, .op_size = sizeof(op),
	};
	struct kvtree_batch batch;
	__u32 size;

	for (size = 0; size < KVTREE_OP_SIZE_VER0; size++) {
		batch = ok;
		batch.op_size = size;
		ASSERT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	}
	batch = ok;
	batch.nr = KVTREE_BATCH_MAX + 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch.nr = ~0u;
	EXPECT_EQ(-E2BIG, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch = ok;
	batch.flags = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch.flags = 1u << 31;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch = ok;
	batch.reserved[0] = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch = ok;
	batch.reserved[1] = 1ull << 63;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	/* A stride so long that the array would wrap round. */
	batch = ok;
	batch.nr = KVTREE_BATCH_MAX;
	batch.op_size = ~0u;
	EXPECT_GT(0, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	batch.op_size = 1u << 31;
	EXPECT_GT(0, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
	/* Such a call is refused even if there is nothing to do. */
	batch = ok;
	batch.nr = 0;
	batch.flags = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BATCH, &batch));
	memset(ops, 0, sizeof(ops));
	EXPECT_EQ(0, kvt_batch(self->fd, ops, 4, NULL));
}

TEST_F(bad, stat_calls_that_make_no_sense_are_refused)
{
	__u64 values[4];
	struct kvtree_stat_args args = { .values = kvt_ptr(values), .nr = 4, .flags = 1 };

	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
	args.flags = 0;
	args.reserved[1] = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
	args.reserved[1] = 0;
	args.reserved[0] = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STAT, &args));
}

TEST_F(bad, store_names_that_are_none_are_refused)
{
	static const char *const names[] = {
		"", ".", "..", "/", "a/b", "/a", "a/", "../a", "a b", " ", "a\n", "\n", "a\t",
		"\x7f", "\x80", "\xc3\xa4", "a:b", "a,b", "a=b", "a*", "%s", "a\\b", "~", "@", "[",
	};
	struct kvtree_store_create create;
	struct kvtree_store_destroy destroy;
	struct kvtree_store_open open;
	struct kvtree_store_set set;
	size_t i;

	for (i = 0; i < NR(names) + 2; i++) {
		memset(&create, 0, sizeof(create));
		memset(&open, 0, sizeof(open));
		memset(&destroy, 0, sizeof(destroy));
		memset(&set, 0, sizeof(set));
		if (i < NR(names)) {
			strcpy(create.name, names[i]);
			strcpy(open.name, names[i]);
			strcpy(destroy.name, names[i]);
			strcpy(set.name, names[i]);
		} else if (i == NR(names)) {
			/* Bytes after the NUL. */
			memcpy(create.name, "ab\0c", 4);
			memcpy(open.name, "ab\0c", 4);
			memcpy(destroy.name, "ab\0c", 4);
			memcpy(set.name, "ab\0c", 4);
		} else {
			/* No NUL at all. */
			memset(create.name, 'a', sizeof(create.name));
			memset(open.name, 'a', sizeof(open.name));
			memset(destroy.name, 'a', sizeof(destroy.name));
			memset(set.name, 'a', sizeof(set.name));
		}
		create.mode = 0600;
		set.set = KVTREE_SET_LIMIT_KEYS;
		open.flags = KVTREE_OPEN_READ;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create)) {
			TH_LOG("name %zu", i);
		}
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_OPEN, &open)) {
			TH_LOG("name %zu", i);
		}
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_DESTROY, &destroy)) {
			TH_LOG("name %zu", i);
		}
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SET, &set)) {
			TH_LOG("name %zu", i);
		}
	}
}

TEST_F(bad, settings_that_make_no_sense_change_nothing)
{
	static const struct kvtree_store_set sets[] = {
		{ .set = 0 },
		{ .set = 1u << 5 },
		{ .set = KVTREE_SET_LIMIT_KEYS | 1u << 31, .limit_keys = 7 },
		{ .set = KVTREE_SET_MODE, .mode = 0601 },
		{ .set = KVTREE_SET_MODE, .mode = 01600 },
		{ .set = KVTREE_SET_MODE, .mode = ~0u },
		{ .set = KVTREE_SET_UID, .uid = ~0u },
		{ .set = KVTREE_SET_GID, .gid = ~0u },
		/* A wrong setting keeps right ones from being set. */
		{ .set = KVTREE_SET_LIMIT_KEYS | KVTREE_SET_GID, .limit_keys = 7, .gid = ~0u },
		{ .set = KVTREE_SET_LIMIT_BYTES | KVTREE_SET_MODE, .limit_bytes = 7, .mode = 0777 },
		{ .set = KVTREE_SET_LIMIT_KEYS, .limit_keys = 7, .reserved[0] = 1 },
		{ .set = KVTREE_SET_LIMIT_KEYS, .limit_keys = 7, .reserved[1] = 1 },
	};
	struct kvtree_store_info before, after;
	struct kvtree_store_set set;
	size_t i;

	ASSERT_EQ(0, kvt_self(self->fd, &before));
	for (i = 0; i < NR(sets); i++) {
		set = sets[i];
		strcpy(set.name, self->env.name);
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SET, &set)) {
			TH_LOG("set %zu", i);
		}
	}
	memset(&set, 0, sizeof(set));
	strcpy(set.name, "no-such-store");
	set.set = KVTREE_SET_LIMIT_KEYS;
	EXPECT_EQ(-ENOENT, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SET, &set));
	ASSERT_EQ(0, kvt_self(self->fd, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	/* Fields that are not named are not read. */
	memset(&set, 0xff, sizeof(set));
	memset(set.name, 0, sizeof(set.name));
	memset(set.reserved, 0, sizeof(set.reserved));
	strcpy(set.name, self->env.name);
	set.set = KVTREE_SET_MODE;
	set.mode = before.mode;
	EXPECT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SET, &set));
	ASSERT_EQ(0, kvt_self(self->fd, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
}

TEST_F(bad, store_calls_that_make_no_sense_are_refused)
{
	static const __u32 modes[] = { 01, 010, 0100, 0111, 0700, 0777, 01000, 04600, 010000, ~0u };
	static const struct {
		const char *engine;
		__u32 size;
	} page_sizes[] = {
		{ "masstree", 1 }, { "masstree", 256 }, { "masstree", 4096 }, { "masstree", ~0u },
		{ "bwtree", 1 }, { "bwtree", 255 }, { "bwtree", 16385 }, { "bwtree", 1u << 31 },
		{ "bwtree", ~0u },
	};
	struct kvtree_store_create create, ok = { .mode = 0600 };
	struct kvtree_store_destroy destroy = {};
	struct kvtree_store_open open = {};
	struct kvtree_store_info info;
	size_t i;

	snprintf(ok.name, sizeof(ok.name), "refused-%d", getpid());
	for (i = 0; i < NR(modes); i++) {
		create = ok;
		create.mode = modes[i];
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	}
	create = ok;
	create.flags = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	create = ok;
	create.reserved2 = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	for (i = 0; i < NR(page_sizes); i++) {
		create = ok;
		strcpy(create.engine, page_sizes[i].engine);
		create.page_size = page_sizes[i].size;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	}
	for (i = 0; i < NR(create.reserved); i++) {
		create = ok;
		create.reserved[i] = 1;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	}
	/* No such user or group. */
	create = ok;
	create.uid = ~0u;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	create = ok;
	create.gid = ~0u;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	create = ok;
	memset(create.engine, 'a', sizeof(create.engine));
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	create = ok;
	strcpy(create.engine, "none-such");
	EXPECT_GT(0, kvt_ioctl(self->fd, KVTREE_IOC_STORE_CREATE, &create));
	EXPECT_EQ(-ENOENT, kvt_find(self->fd, ok.name, &info));

	strcpy(open.name, self->env.name);
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_OPEN, &open));
	open.flags = 4 | KVTREE_OPEN_READ;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_OPEN, &open));
	open.flags = KVTREE_OPEN_READ;
	for (i = 0; i < 3; i++) {
		open.reserved[i] = 1;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_OPEN, &open));
		open.reserved[i] = 0;
	}

	strcpy(destroy.name, self->env.name);
	destroy.flags = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_DESTROY, &destroy));
	destroy.flags = 0;
	for (i = 0; i < 3; i++) {
		destroy.reserved[i] = 1;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_DESTROY, &destroy));
		destroy.reserved[i] = 0;
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

/* All fields but the id to continue from are output; the others may become input. */
TEST_F(bad, reserved_fields_of_what_is_described_are_refused)
{
	struct kvtree_store_info info = { .flags = ~0u, .keys = 1, .progress = 1 };
	struct kvtree_bpf_binding binding = { .access = ~0u };
	struct kvtree_bpf_hook hook = { .kind = ~0u };
	int i;

	EXPECT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SELF, &info));
	EXPECT_EQ(0, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SELF, &info));
	info.reserved = 1;
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_SELF, &info));
	EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_STORE_LIST, &info));
	EXPECT_EQ(-ENOENT, kvt_ioctl(self->fd, KVTREE_IOC_BPF_BINDING, &binding));
	EXPECT_EQ(-ENOENT, kvt_ioctl(self->fd, KVTREE_IOC_BPF_HOOK, &hook));
	for (i = 0; i < 2; i++) {
		binding.reserved[i] = 1;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BPF_BINDING, &binding));
		binding.reserved[i] = 0;
		hook.reserved[i] = 1;
		EXPECT_EQ(-EINVAL, kvt_ioctl(self->fd, KVTREE_IOC_BPF_HOOK, &hook));
		hook.reserved[i] = 0;
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
}

/*
 * Memory that changes meanwhile
 */
struct flip {
	struct kvt_race race;
	struct kvtree_op op[8];
	struct kvtree_col cols[4];
	struct kvtree_scan scan;
	char key[16];
	char val[8192];
	char out[8192];
};

#define RACES	3000

static int flip_value(void *arg)
{
	struct flip *f = arg;

	kvt_race_begin(&f->race);
	while (!kvt_race_over(&f->race)) {
		memset(f->val, 'A', sizeof(f->val));
		memset(f->val, 'B', sizeof(f->val));
	}
	return 0;
}

TEST_F(bad, value_that_changes_during_a_put_is_copied_once)
{
	struct flip *f = kvt_map_shared(sizeof(*f));
	char first[8192], second[8192];
	__u32 i, j, races = kvt_fewer(RACES, 4);
	int pid;

	pid = kvt_race_start(&f->race, flip_value, f);
	for (i = 0; i < races; i++) {
		/* Old and new letters may mix, but the stored bytes no longer change. */
		ASSERT_EQ(0, kvt_put(self->fd, STR("k"), kvt_bytes(f->val, sizeof(f->val)),
				     NULL));
		ASSERT_EQ(8192, kvt_get(self->fd, STR("k"), first, 8192, NULL));
		ASSERT_EQ(8192, kvt_get(self->fd, STR("k"), second, 8192, NULL));
		ASSERT_EQ(0, memcmp(first, second, 8192));
		if (i % 64)
			continue;
		for (j = 0; j < 8192; j++)
			ASSERT_TRUE(!first[j] || first[j] == 'A' || first[j] == 'B');
	}
	kvt_race_stop(&f->race, pid);
}

static int flip_op(void *arg)
{
	/*
	 * The kernel may read half of one and half of the next.  Any such
	 * mixture is too long, or not longer than val and out.
	 */
	static const __u32 lens[] = { 1, 8192, 0x01000001, 0xff000001, 5 };
	struct flip *f = arg;
	volatile struct kvtree_op *op = f->op;
	__u32 i;

	kvt_race_begin(&f->race);
	for (i = 0; !kvt_race_over(&f->race); i++) {
		op[0].key_len = i % 2 ? 1 : 2;
		op[1].val_len = lens[i % NR(lens)];
		op[2].opcode = i % 3 ? KVTREE_OP_GET : KVTREE_OP_PUT;
		op[3].flags = i % 3 ? KVTREE_F_KEY_INLINE : 0;
		op[4].key_len = i % 2 ? KVTREE_KEY_MAX + 1 : 3;
		op[5].ncols = i % 4;
		op[6].arg = i % 2 ? 0 : kvt_ptr(&f->scan);
	}
	return 0;
}

TEST_F(bad, operations_that_change_meanwhile_are_read_once)
{
	struct flip *f = kvt_map_shared(sizeof(*f));
	struct kvtree_scan all = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	__u32 i, j, done, races = kvt_fewer(RACES, 4);
	int pid, ret;

	strcpy(f->key, "xyz");
	ASSERT_EQ(0, kvt_put(self->fd, STR("xyz"), STR("v"), NULL));
	f->cols[0] = (struct kvtree_col){ .id = 1, .len = 1 };
	f->cols[1] = (struct kvtree_col){ .id = 2, .len = 1 };
	f->cols[2] = (struct kvtree_col){ .id = 3, .len = 1 };
	for (j = 0; j < 7; j++) {
		f->op[j] = kvt_op(KVTREE_OP_PUT, kvt_bytes(f->key, 3));
		f->op[j].val = kvt_ptr(f->val);
		f->op[j].val_len = 2;
	}
	f->op[5].flags = KVTREE_F_COLS;
	f->op[5].arg = kvt_ptr(f->cols);
	f->op[6].opcode = KVTREE_OP_SCAN;
	f->op[6].arg_size = sizeof(f->scan);
	f->op[6].key_len = 0;
	f->op[6].val = kvt_ptr(f->out);
	f->op[6].val_len = sizeof(f->out);
	pid = kvt_race_start(&f->race, flip_op, f);
	for (i = 0; i < races; i++) {
		/* EMSGSIZE has raised it. */
		f->op[2].val_len = sizeof(f->val);
		f->op[6].val_len = sizeof(f->out);
		ret = kvt_batch(self->fd, f->op, 7, &done);
		ASSERT_EQ(0, ret);
		ASSERT_EQ(7, done);
		ASSERT_EQ(0, f->op[0].result);
		ret = f->op[1].result;
		ASSERT_TRUE(ret == 0 || ret == -E2BIG);
		ret = f->op[2].result;
		ASSERT_TRUE(ret >= 0 || ret == -EMSGSIZE) {
			TH_LOG("result %d", ret);
		}
		ret = f->op[3].result;
		ASSERT_EQ(0, ret);
		ret = f->op[4].result;
		ASSERT_TRUE(ret == 0 || ret == -E2BIG);
		ret = f->op[5].result;
		ASSERT_TRUE(ret == 0 || ret == -EINVAL);
		/* Half of a pointer may point to other memory. */
		ret = f->op[6].result;
		ASSERT_TRUE(kvt_documented(ret)) {
			TH_LOG("result %d", ret);
		}
	}
	kvt_race_stop(&f->race, pid);
	/* Nothing came into being but what one of the states says. */
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &all, 4096, &list));
	for (i = 0; i < list.nr; i++) {
		struct kvt_bytes key = list.rec[i].key;

		if (key.len == 3 && !memcmp(key.data, &f->op[3].key, 3))
			continue;
		EXPECT_TRUE(!kvt_cmp(key, STR("k")) || !kvt_cmp(key, STR("l")) ||
			    !kvt_cmp(key, STR("cols")) || !kvt_cmp(key, STR("n")) ||
			    !kvt_cmp(key, STR("x")) || !kvt_cmp(key, STR("xy")) ||
			    !kvt_cmp(key, STR("xyz")));
	}
	kvt_list_free(&list);
}

static int flip_cols(void *arg)
{
	static const __u32 lens[] = { 1, 0, 4096, KVTREE_COL_ABSENT, 0xfffffffe };
	struct flip *f = arg;
	volatile struct kvtree_col *col = f->cols;
	volatile struct kvtree_scan *scan = &f->scan;
	__u32 i;

	kvt_race_begin(&f->race);
	for (i = 0; !kvt_race_over(&f->race); i++) {
		col[0].len = lens[i % NR(lens)];
		col[1].id = i % 2 ? 2 : 300;
		scan->end_len = i % 3 ? 1 : 4097;
		scan->flags = i % 5 ? KVTREE_SCAN_REVERSE : KVTREE_SCAN_ALL_COLS;
		scan->ncols = i % 7 ? 2 : 40000;
	}
	return 0;
}

TEST_F(bad, columns_and_scans_that_change_meanwhile_are_one_thing_or_another)
{
	struct flip *f = kvt_map_shared(sizeof(*f));
	__u32 i, done, races = kvt_fewer(RACES, 4);
	int pid, ret;

	f->cols[0] = (struct kvtree_col){ .id = 1, .len = 1 };
	f->cols[1] = (struct kvtree_col){ .id = 2, .len = 4096 };
	f->op[0] = kvt_op(KVTREE_OP_PUT, STR("cols"));
	f->op[0].flags = KVTREE_F_COLS;
	f->op[0].arg = kvt_ptr(f->cols);
	f->op[0].ncols = 2;
	f->op[0].val = kvt_ptr(f->val);
	f->op[0].val_len = 4097;
	f->op[1] = f->op[0];
	f->op[1].opcode = KVTREE_OP_GET;
	f->op[1].val = kvt_ptr(f->out);
	f->op[2] = kvt_op(KVTREE_OP_SCAN, STR(""));
	f->op[2].arg = kvt_ptr(&f->scan);
	f->op[2].val = kvt_ptr(f->out);
	f->op[2].val_len = sizeof(f->out);
	f->scan.end = kvt_ptr(f->key);
	f->scan.cols = kvt_ptr("\1\0\2\0");
	pid = kvt_race_start(&f->race, flip_cols, f);
	for (i = 0; i < races; i++) {
		f->op[1].val_len = sizeof(f->out);
		f->op[2].val_len = sizeof(f->out);
		/* A get puts the lengths that it found in their place. */
		f->cols[1].len = 4096;
		ASSERT_EQ(0, kvt_batch(self->fd, f->op, 3, &done));
		ASSERT_EQ(3, done);
		ret = f->op[0].result;
		ASSERT_TRUE(ret == 0 || ret == -EINVAL || ret == -E2BIG);
		ret = f->op[1].result;
		ASSERT_TRUE(ret >= 0 || ret == -EINVAL || ret == -EMSGSIZE);
		ret = f->op[2].result;
		ASSERT_TRUE(ret >= 0 || ret == -EINVAL || ret == -E2BIG || ret == -EMSGSIZE ||
			    ret == -EFAULT);
	}
	kvt_race_stop(&f->race, pid);
}

/*
 * Puts, gets and scans with everything but the operations themselves in `mem`.
 * Every result is that with the memory, or EFAULT, or, where the memory came
 * back as zeros, that of a request of zeros.
 */
static void hammer(int fd, char *mem, size_t bytes, unsigned int rounds)
{
	struct kvtree_op ops[4];
	__u32 done;
	int ret, j;

	KVT_CHECK(bytes >= 3 << 14);
	while (rounds--) {
		ops[0] = kvt_op(KVTREE_OP_PUT, kvt_bytes(mem, 4));
		ops[0].val = kvt_ptr(mem + 100);
		ops[0].val_len = 10000;
		ops[1] = kvt_op(KVTREE_OP_GET, STR("big"));
		ops[1].val = kvt_ptr(mem + (1 << 14));
		ops[1].val_len = 1 << 14;
		ops[2] = kvt_op(KVTREE_OP_SCAN, STR(""));
		ops[2].arg = kvt_ptr(mem + 64);
		ops[2].val = kvt_ptr(mem + (2 << 14));
		ops[2].val_len = 1 << 14;
		ops[3] = kvt_op(KVTREE_OP_PUT, STR("cols"));
		ops[3].flags = KVTREE_F_COLS;
		ops[3].arg = kvt_ptr(mem + 32);
		ops[3].ncols = 1;
		KVT_CHECK(kvt_batch(fd, ops, 4, &done) == 0);
		KVT_CHECK(done == 4);
		for (j = 0; j < 4; j++) {
			ret = ops[j].result;
			if (ret == -EFAULT || ret == 0)
				continue;
			if (j == 1)
				KVT_CHECK(ret == 15000);
			else if (j == 2)
				KVT_CHECK(ret > 0 || ret == -EMSGSIZE);
			else
				KVT_CHECK(false);
		}
	}
}

TEST_F(bad, buffers_that_a_thread_unmaps_meanwhile_are_efault)
{
	struct kvt_unmap u = { .bytes = 4 << 14 };
	char big[15000];

	memset(big, 'B', sizeof(big));
	ASSERT_EQ(0, kvt_put(self->fd, STR("big"), kvt_bytes(big, sizeof(big)), NULL));
	kvt_stay_clear_of_uml_race();
	for (u.how = 0; u.how < KVT_UNMAP_WAYS; u.how++) {
		u.mem = mmap(NULL, u.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
		ASSERT_NE(MAP_FAILED, u.mem);
		kvt_unmap_start(&u);
		hammer(self->fd, u.mem, u.bytes, kvt_fewer(RACES / 2, 4));
		kvt_unmap_stop(&u);
	}
	EXPECT_TRUE(kvt_has(self->fd, STR("big"), kvt_bytes(big, sizeof(big))));
	EXPECT_TRUE(kvt_has(self->fd, STR("l"), STR("another value")));
}

TEST_F(bad, buffers_that_a_process_truncates_meanwhile_are_efault)
{
	struct kvt_truncate *t;
	char big[15000];

	memset(big, 'B', sizeof(big));
	ASSERT_EQ(0, kvt_put(self->fd, STR("big"), kvt_bytes(big, sizeof(big)), NULL));
	kvt_stay_clear_of_uml_race();
	t = kvt_truncate_start(4 << 14);
	hammer(self->fd, t->mem, t->bytes, kvt_fewer(RACES, 4));
	kvt_truncate_stop(t);
	EXPECT_TRUE(kvt_has(self->fd, STR("big"), kvt_bytes(big, sizeof(big))));
}

TEST_F(bad, operations_that_a_process_truncates_meanwhile_are_efault)
{
	__u32 i, j, done, races = kvt_fewer(RACES, 4);
	struct kvt_truncate *t;
	struct kvtree_op op;
	int ret;

	kvt_stay_clear_of_uml_race();
	t = kvt_truncate_start(3 * 4096);
	for (i = 0; i < races; i++) {
		/* Written by pwrite(), which gets no SIGBUS. */
		for (j = 0; j < 8; j++) {
			put_inline(&op, j);
			ASSERT_EQ(64, pwrite(t->fd, &op, 64, (60 + j) * 64));
		}
		ret = kvt_batch(self->fd, t->mem + 60 * 64, 8, &done);
		ASSERT_TRUE(ret == 0 || ret == -EFAULT);
		/* The outcome of the last one may be lost, and it is done. */
		ASSERT_TRUE(ret ? done <= 8 : done == 8);
	}
	kvt_truncate_stop(t);
}

/*
 * Anything at all
 */
TEST_F(bad, random_operations_get_documented_results)
{
	struct kvt_arena arena, *a = &arena;
	char name[KVTREE_NAME_MAX];
	struct kvtree_op ops[16];
	struct kvt_rand rand;
	__u32 i, j, nr, done;
	int fd, ret;

	/* A limit, so that no run takes all memory. */
	snprintf(name, sizeof(name), "fuzz-%d", getpid());
	ASSERT_EQ(0, kvt_create(self->env.dev, name, 0600, 8 << 20, 0));
	fd = kvt_store(self->env.dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	kvt_arena_make(a);
	kvt_rand_init(&rand, 1);
	kvt_random_arena(&rand, a);
	for (i = 0; i < 4000; i++) {
		if (i % 256 == 0)
			kvt_random_arena(&rand, a);
		nr = 1 + kvt_rand_below(&rand, NR(ops));
		for (j = 0; j < nr; j++)
			kvt_random_op(&rand, a, &ops[j]);
		ret = kvt_batch(fd, ops, nr, &done);
		ASSERT_EQ(0, ret);
		ASSERT_EQ(nr, done);
		for (j = 0; j < nr; j++) {
			ASSERT_TRUE(kvt_documented(ops[j].result)) {
				TH_LOG("round %u: operation %u, flags %x: %d", i, ops[j].opcode,
				       ops[j].flags, ops[j].result);
			}
		}
	}
	kvt_check_sound(fd);
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
	close(fd);
	ASSERT_EQ(0, kvt_destroy(self->env.dev, name));
}

TEST_F(bad, random_calls_get_documented_results)
{
	static const unsigned char names[] = "abcxyz./ -_";
	unsigned char buf[512];
	struct kvtree_store_info info = { .after = 0 };
	struct kvt_rand rand;
	unsigned long cmd;
	__u64 before = 0, id;
	__u32 i;
	int ret;

	while (info.after = before, ret = kvt_ioctl(self->fd, KVTREE_IOC_STORE_LIST, &info), !ret)
		before = info.id;
	ASSERT_EQ(-ENOENT, ret);
	kvt_rand_init(&rand, 2);
	for (i = 0; i < 10000; i++) {
		/* Others of the kernel's calls are not this device's. */
		cmd = _IOC(kvt_rand_below(&rand, 4), 'K', kvt_rand_below(&rand, 2) ?
			   0x40 + kvt_rand_below(&rand, 8) : kvt_rand_below(&rand, 256),
			   kvt_rand_below(&rand, 2) ? 8 * kvt_rand_below(&rand, 32) :
			   kvt_rand_below(&rand, sizeof(buf)));
		memset(buf, 0, sizeof(buf));
		if (kvt_rand_below(&rand, 2)) {
			buf[0] = names[kvt_rand_below(&rand, sizeof(names))];
			buf[1] = names[kvt_rand_below(&rand, sizeof(names))];
			buf[64 + kvt_rand_below(&rand, 128)] = 1 << kvt_rand_below(&rand, 8);
		} else {
			kvt_random_bytes(&rand, buf, kvt_rand_below(&rand, sizeof(buf)));
		}
		ret = kvt_ioctl(self->fd, cmd, buf);
		if (_IOC_NR(cmd) == _IOC_NR(KVTREE_IOC_STORE_OPEN) && ret > 0)
			close(ret);
		ASSERT_TRUE(kvt_documented(ret) || ret == -ENOTTY || ret == -ENODEV) {
			TH_LOG("call %lx: %d", cmd, ret);
		}
	}
	EXPECT_EQ(self->digest, kvt_digest(self->fd));
	/* Some of it may have made stores: they are as good as others. */
	for (id = before;;) {
		memset(&info, 0, sizeof(info));
		info.after = id;
		if (kvt_ioctl(self->fd, KVTREE_IOC_STORE_LIST, &info))
			break;
		id = info.id;
		ASSERT_EQ(0, kvt_destroy(self->fd, info.name));
	}
}

TEST_HARNESS_MAIN
