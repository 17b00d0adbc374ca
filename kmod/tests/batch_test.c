// SPDX-License-Identifier: GPL-2.0
/* What a batch of GETs pins in a store while it copies values to user space. */
#include <linux/mman.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "api/batch.h"
#include "api/run.h"
#include "api/scratch.h"
#include "core/stores.h"
#include "lib.h"

#define STORE	"kunit-batch"
#define KEYS	32
#define ABSENT	(64 * 1024)

static struct {
	struct kvt_store *store;
	u64 ops;		/* user addresses */
	u64 val;
	u64 absent;		/* where no page is present yet: ABSENT bytes */
	u32 calls;		/* of the hook */
	u32 pinned[3];		/* bytes in the first calls */
	u32 pinned_max;
} bt;

static struct kvtree_op key_op(u8 opcode, u32 nr, u32 len)
{
	struct kvtree_op op = {
		.opcode = opcode, .flags = KVTREE_F_KEY_INLINE, .key_len = sizeof(nr),
		.val = bt.val, .val_len = len,
	};

	memcpy(op.key_inline, &nr, sizeof(nr));
	return op;
}

static int batch_run(struct kunit *test, struct kvtree_op *ops, u32 nr)
{
	struct kvt_scratch scratch = {};
	const struct kvt_op_ctx ctx = {
		.store = bt.store, .access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
		.gfp = KVT_GFP_PROCESS, .waits = true, .scratch = &scratch,
	};
	struct kvtree_batch batch = { .ops = bt.ops, .nr = nr, .op_size = sizeof(*ops) };
	int err;

	if (copy_to_user(u64_to_user_ptr(bt.ops), ops, nr * sizeof(*ops)))
		return -EFAULT;
	err = kvt_batch_run(&ctx, &batch);
	kvt_scratch_exit(&scratch);
	KUNIT_EXPECT_EQ(test, nr, batch.done);
	if (copy_from_user(ops, u64_to_user_ptr(bt.ops), nr * sizeof(*ops)))
		return -EFAULT;
	return err;
}

static void batch_open(struct kunit *test)
{
	const struct kvtree_store_create args = { .name = STORE };
	unsigned long user;

	memset(&bt, 0, sizeof(bt));
	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	bt.store = kvt_store_find(STORE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(bt.store));
	user = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE + KVTREE_VALUE_MAX + ABSENT,
			     PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, 0, user);
	bt.ops = user;
	bt.val = user + PAGE_SIZE;
	bt.absent = bt.val + KVTREE_VALUE_MAX;
	KUNIT_ASSERT_EQ(test, 0, clear_user(u64_to_user_ptr(bt.val), KVTREE_VALUE_MAX));
}

static void batch_exit(struct kunit *test)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	if (IS_ERR_OR_NULL(bt.store))
		return;
	kvt_store_destroy(STORE);
	kvt_store_put(bt.store);
}

/* Count the bytes of pinned values. */
static void count_pinned(enum kvt_park at)
{
	struct kvt_index *index = bt.store->index;
	struct kvt_column col;
	struct kvt_cell cell;
	struct kvt_value *v;
	struct kvt_key key;
	u32 nr, bytes = 0;

	if (at != KVT_PARK_GET_PINNED)
		return;
	rcu_read_lock();
	for (nr = 0; nr < KEYS; nr++) {
		key = KT_BYTES(&nr, sizeof(nr));
		v = index->ops->get(index, &key, &cell);
		if (IS_ERR_OR_NULL(v))
			continue;
		kvt_value_column(v, 0, &col);
		if (col.blob && refcount_read(&col.blob->refs) > 1)
			bytes += col.len;
	}
	rcu_read_unlock();
	if (bt.calls < ARRAY_SIZE(bt.pinned))
		bt.pinned[bt.calls] = bytes;
	bt.calls++;
	bt.pinned_max = max(bt.pinned_max, bytes);
}

/* Make a value for each key, and get all of them in one batch, the first into @val. */
static void get_all(struct kunit *test, u32 len, u64 val)
{
	struct kvtree_op *ops = kunit_kmalloc_array(test, KEYS, sizeof(*ops), GFP_KERNEL);
	u32 nr;

	KUNIT_ASSERT_NOT_NULL(test, ops);
	for (nr = 0; nr < KEYS; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr, len);
	KUNIT_ASSERT_EQ(test, 0, batch_run(test, ops, KEYS));
	for (nr = 0; nr < KEYS; nr++)
		ops[nr] = key_op(KVTREE_OP_GET, nr, len);
	ops[0].val = val;
	WRITE_ONCE(kvt_park_loose_hook, count_pinned);
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	for (nr = 0; nr < KEYS; nr++)
		KUNIT_EXPECT_EQ(test, len, ops[nr].result);
}

static const u32 lens[] = { 10000, 100000, KVTREE_VALUE_MAX };

static void len_desc(const u32 *len, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "of_%u_bytes", *len);
}

KUNIT_ARRAY_PARAM(len, lens, len_desc);

static void gets_hold_no_more_than_one_value_may_have(struct kunit *test)
{
	u32 len = *(const u32 *)test->param_value;

	batch_open(test);
	get_all(test, len, bt.val);
	KUNIT_EXPECT_LE(test, KEYS, bt.calls);
	KUNIT_EXPECT_GE(test, KVTREE_VALUE_MAX, bt.pinned_max);
	KUNIT_EXPECT_LE(test, len, bt.pinned_max);
}

static void a_get_that_takes_a_page_fault_lets_go_of_all_others(struct kunit *test)
{
	const u32 len = 10000;

	batch_open(test);
	get_all(test, len, bt.absent);
	/* The others are pinned only until the first one meets the page fault. */
	KUNIT_EXPECT_LT(test, len, bt.pinned[0]);
	KUNIT_EXPECT_EQ(test, len, bt.pinned[1]);
	KUNIT_EXPECT_EQ(test, len, bt.pinned[2]);
}

/* Readers of one value must not contend for its reference count. */
static void gets_hold_nothing_of_some_kilobytes(struct kunit *test)
{
	batch_open(test);
	get_all(test, 4000, bt.val);
	get_all(test, KVT_COPIED_MAX, bt.absent);
	KUNIT_EXPECT_EQ(test, 0, bt.calls);
}

static struct kunit_case batch_cases[] = {
	KUNIT_CASE_PARAM(gets_hold_no_more_than_one_value_may_have, len_gen_params),
	KUNIT_CASE(a_get_that_takes_a_page_fault_lets_go_of_all_others),
	KUNIT_CASE(gets_hold_nothing_of_some_kilobytes),
	{}
};

static struct kunit_suite batch_suite = {
	.name = "kvt_batch",
	.exit = batch_exit,
	.test_cases = batch_cases,
};

kunit_test_suite(batch_suite);
