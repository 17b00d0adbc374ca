// SPDX-License-Identifier: GPL-2.0
/*
 * Batches: what GETs pin in a store while they copy values to user space, and what changes look up
 * before they are made.
 */
#include <linux/bitmap.h>
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

KT_ENGINES();

static struct {
	struct kvt_store *store;
	u64 ops;		/* user addresses */
	u64 val;
	u64 absent;		/* where no page is present yet: ABSENT bytes */
	u32 calls;		/* of the hook */
	u32 pinned[3];		/* bytes in the first calls */
	u32 pinned_max;
} bt;

/* An engine that notes what is looked up together, and when. */
static struct {
	struct kvt_index_ops ops;
	const struct kvt_index_ops *of;
	u32 begun;		/* changes */
	u32 ahead;		/* keys that were only fetched before the first change */
	DECLARE_BITMAP(seen, KEYS);	/* ... which */
	u32 strange;		/* ... and how many others */
	void (*first)(struct kunit *test);	/* called before the first change */
	struct kunit *test;
} noting;

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

static void batch_open_engine(struct kunit *test, const char *engine)
{
	struct kvtree_store_create args = { .name = STORE };
	unsigned long user;

	strscpy(args.engine, engine);
	memset(&bt, 0, sizeof(bt));
	memset(&noting, 0, sizeof(noting));
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

static void batch_open(struct kunit *test)
{
	batch_open_engine(test, "");
}

static void batch_exit(struct kunit *test)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	if (IS_ERR_OR_NULL(bt.store))
		return;
	if (noting.of)
		bt.store->index->ops = noting.of;
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

/* Changes */

static void noting_get_batch(struct kvt_index *index, struct kvt_lookup *lookups,
			     struct kvt_cell *cells, unsigned int nr)
{
	unsigned int i;
	u32 key;

	for (i = 0; i < nr && !noting.begun && !cells; i++) {
		noting.ahead++;
		key = KEYS;
		if (lookups[i].key.len == sizeof(key))
			memcpy(&key, lookups[i].key.data, sizeof(key));
		if (key < KEYS)
			__set_bit(key, noting.seen);
		else
			noting.strange++;
	}
	noting.of->get_batch(index, lookups, cells, nr);
}

static int noting_begin(struct kvt_change *change)
{
	void (*first)(struct kunit *test) = noting.first;

	noting.begun++;
	noting.first = NULL;
	if (first)
		first(noting.test);
	return noting.of->begin(change);
}

static void noting_open(struct kunit *test, void (*first)(struct kunit *test))
{
	const struct kt_engine *engine = test->param_value;

	batch_open_engine(test, engine->ops->name);
	noting.test = test;
	noting.first = first;
	noting.of = bt.store->index->ops;
	noting.ops = *noting.of;
	noting.ops.get_batch = noting_get_batch;
	noting.ops.begin = noting_begin;
	bt.store->index->ops = &noting.ops;
}

/* Forget what was noted. */
static void noting_reset(void)
{
	noting.begun = 0;
	noting.ahead = 0;
	noting.strange = 0;
	bitmap_zero(noting.seen, KEYS);
}

static struct kvtree_op *ops_alloc(struct kunit *test)
{
	struct kvtree_op *ops = kunit_kcalloc(test, KEYS, sizeof(*ops), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ops);
	return ops;
}

/* One operation, as if by another process. */
static int run_alone(struct kvtree_op op)
{
	const struct kvt_op_ctx ctx = {
		.store = bt.store, .access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
		.gfp = KVT_GFP_PROCESS, .waits = true,
	};
	struct kvtree_batch batch = {
		.ops = bt.ops + PAGE_SIZE / 2, .nr = 1, .op_size = sizeof(op),
	};

	if (copy_to_user(u64_to_user_ptr(batch.ops), &op, sizeof(op)) ||
	    kvt_batch_run(&ctx, &batch) ||
	    copy_from_user(&op, u64_to_user_ptr(batch.ops), sizeof(op)))
		return -EFAULT;
	return op.result;
}

static struct kvtree_op remove_op(u32 nr)
{
	struct kvtree_op op = key_op(KVTREE_OP_REMOVE, nr, 0);

	op.val = 0;
	return op;
}

static struct kvtree_op point_at(struct kvtree_op op, u64 key)
{
	op.flags &= ~KVTREE_F_KEY_INLINE;
	op.key = key;
	op.key_reserved = 0;
	return op;
}

/* Have an operation point to its key, where no value is copied to. */
static struct kvtree_op point(struct kunit *test, struct kvtree_op op, u32 nr)
{
	op = point_at(op, bt.val + KVTREE_VALUE_MAX / 2 + nr * sizeof(nr));
	KUNIT_ASSERT_EQ(test, 0, put_user(nr, (u32 __user *)u64_to_user_ptr(op.key)));
	return op;
}

static void changes_of_a_batch_are_looked_up_together(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, NULL);
	for (nr = 0; nr < KEYS; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr, 8);
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	KUNIT_EXPECT_EQ(test, KEYS, noting.begun);
	KUNIT_EXPECT_EQ(test, KEYS, noting.ahead);
	KUNIT_EXPECT_TRUE(test, bitmap_full(noting.seen, KEYS));
	for (nr = 0; nr < KEYS; nr++)
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
}

/* GETs are between the changes, half of which point to their keys. */
static void changes_among_others_are_looked_up_together(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, NULL);
	for (nr = 0; nr < KEYS; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr, nr % 2 ? 300 : 8);
	KUNIT_ASSERT_EQ(test, 0, batch_run(test, ops, KEYS));
	noting_reset();
	for (nr = 0; nr < KEYS; nr++) {
		if (nr % 3) {
			ops[nr] = key_op(KVTREE_OP_GET, nr, 300);
			continue;
		}
		ops[nr] = remove_op(nr);
		if (nr % 2)
			ops[nr] = point(test, ops[nr], nr);
	}
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	for (nr = 0; nr < KEYS; nr++) {
		KUNIT_EXPECT_EQ(test, nr % 3 ? nr % 2 ? 300 : 8 : 0, ops[nr].result);
		KUNIT_EXPECT_EQ_MSG(test, !(nr % 3), test_bit(nr, noting.seen), "key %u", nr);
	}
}

static void few_changes_are_not_looked_up_ahead(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, NULL);
	ops[0] = key_op(KVTREE_OP_GET, 1, 8);
	ops[1] = key_op(KVTREE_OP_SCAN, 1, 8);
	for (nr = 2; nr < 5; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr, 8);
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, 5));
	KUNIT_EXPECT_EQ(test, 0, noting.ahead);
	for (nr = 2; nr < 5; nr++)
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
}

static void changes_of_the_same_key_see_each_other(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u64 version = 0;
	u32 nr;

	noting_open(test, NULL);
	for (nr = 0; nr < KEYS; nr++) {
		ops[nr] = key_op(KVTREE_OP_ADD, 7, 0);
		ops[nr].val = 0;
		ops[nr].arg = 1;
	}
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	for (nr = 0; nr < KEYS; nr++) {
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
		KUNIT_EXPECT_EQ(test, nr, ops[nr].arg);
		KUNIT_EXPECT_GT(test, ops[nr].version, version);
		version = ops[nr].version;
	}

	for (nr = 0; nr < KEYS; nr++) {
		ops[nr] = nr % 4 < 2 ? key_op(KVTREE_OP_PUT, 9, 8) : remove_op(9);
		if (nr % 4 < 2)
			ops[nr].flags |= KVTREE_F_CREATE;
	}
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	for (nr = 0; nr < KEYS; nr += 4) {
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
		KUNIT_EXPECT_EQ(test, -EEXIST, ops[nr + 1].result);
		KUNIT_EXPECT_EQ(test, 0, ops[nr + 2].result);
		KUNIT_EXPECT_EQ(test, -ENOENT, ops[nr + 3].result);
	}
}

/* The second key goes, the third one comes, and the fourth gets another value. */
static void others_change(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, run_alone(remove_op(1)));
	KUNIT_EXPECT_EQ(test, 0, run_alone(key_op(KVTREE_OP_PUT, 2, 8)));
	KUNIT_EXPECT_EQ(test, 0, run_alone(key_op(KVTREE_OP_PUT, 3, 8)));
}

static void others_may_change_what_was_looked_up(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);

	noting_open(test, NULL);
	ops[0] = key_op(KVTREE_OP_PUT, 1, 8);
	ops[1] = key_op(KVTREE_OP_PUT, 3, 8);
	KUNIT_ASSERT_EQ(test, 0, batch_run(test, ops, 2));
	ops[3] = key_op(KVTREE_OP_CAS, 3, 8);
	ops[3].version = ops[1].version;
	ops[0] = key_op(KVTREE_OP_PUT, 0, 8);
	ops[1] = key_op(KVTREE_OP_PUT, 1, 8);
	ops[1].flags |= KVTREE_F_REPLACE;
	ops[2] = key_op(KVTREE_OP_PUT, 2, 8);
	ops[2].flags |= KVTREE_F_CREATE;
	noting_reset();
	noting.first = others_change;
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, 4));
	KUNIT_EXPECT_EQ(test, 4, noting.ahead);
	KUNIT_EXPECT_EQ(test, 0, ops[0].result);
	KUNIT_EXPECT_EQ(test, -ENOENT, ops[1].result);
	KUNIT_EXPECT_EQ(test, -EEXIST, ops[2].result);
	KUNIT_EXPECT_EQ(test, -ECANCELED, ops[3].result);
}

static void what_is_refused_is_not_looked_up(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, NULL);
	for (nr = 0; nr < 8; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr, 8);
	ops[1].key_len = KVTREE_KEY_MAX;
	ops[2].flags |= KVTREE_F_SYNC;
	ops[3].opcode = KVTREE_OP_NR;
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, 8));
	KUNIT_EXPECT_EQ(test, 0, ops[0].result);
	KUNIT_EXPECT_EQ(test, -EINVAL, ops[1].result);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, ops[2].result);
	KUNIT_EXPECT_EQ(test, -EINVAL, ops[3].result);
	for (nr = 4; nr < 8; nr++)
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
	KUNIT_EXPECT_EQ(test, 5, noting.ahead);
	KUNIT_EXPECT_EQ(test, 0, noting.strange);
}

/* A page that only an operation's turn may bring in. */
static void expect_absent(struct kunit *test)
{
	unsigned long left;
	u32 nr;

	pagefault_disable();
	left = copy_from_user(&nr, u64_to_user_ptr(bt.absent), sizeof(nr));
	pagefault_enable();
	KUNIT_EXPECT_NE(test, 0, left);
}

/* An absent page, which has zeros, and an address where nothing is. */
static void a_change_takes_its_page_fault_in_its_turn(struct kunit *test)
{
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, expect_absent);
	for (nr = 0; nr < 8; nr++)
		ops[nr] = key_op(KVTREE_OP_PUT, nr + 1, 8);
	ops[3] = point_at(ops[3], bt.absent);
	ops[5] = point_at(ops[5], 8);
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, 8));
	KUNIT_EXPECT_EQ(test, 6, noting.ahead);
	KUNIT_EXPECT_EQ(test, 0, noting.strange);
	for (nr = 0; nr < 8; nr++)
		KUNIT_EXPECT_EQ(test, nr == 5 ? -EFAULT : 0, ops[nr].result);
	/* The key of zeros exists. */
	KUNIT_EXPECT_EQ(test, 8, run_alone(key_op(KVTREE_OP_GET, 0, 8)));
}

/* Of long keys, as many are looked up as there is room for, and every short one. */
static void keys_without_room_are_not_looked_up_ahead(struct kunit *test)
{
	const u32 len = KVTREE_KEY_MAX / 4;
	struct kvtree_op *ops = ops_alloc(test);
	u32 nr;

	noting_open(test, NULL);
	for (nr = 0; nr < KEYS; nr++) {
		ops[nr] = key_op(KVTREE_OP_PUT, nr, 8);
		if (nr % 4)
			continue;
		ops[nr] = point_at(ops[nr], bt.val);
		ops[nr].key_len = len + nr;
	}
	KUNIT_EXPECT_EQ(test, 0, batch_run(test, ops, KEYS));
	KUNIT_EXPECT_EQ(test, 3, noting.strange);
	KUNIT_EXPECT_EQ(test, 3 + KEYS - KEYS / 4, noting.ahead);
	KUNIT_EXPECT_EQ(test, KEYS - KEYS / 4, bitmap_weight(noting.seen, KEYS));
	for (nr = 0; nr < KEYS; nr++)
		KUNIT_EXPECT_EQ(test, 0, ops[nr].result);
}

static struct kunit_case batch_cases[] = {
	KUNIT_CASE_PARAM(gets_hold_no_more_than_one_value_may_have, len_gen_params),
	KUNIT_CASE(a_get_that_takes_a_page_fault_lets_go_of_all_others),
	KUNIT_CASE(gets_hold_nothing_of_some_kilobytes),
	KT_CASE(changes_of_a_batch_are_looked_up_together),
	KT_CASE(changes_among_others_are_looked_up_together),
	KT_CASE(few_changes_are_not_looked_up_ahead),
	KT_CASE(changes_of_the_same_key_see_each_other),
	KT_CASE(others_may_change_what_was_looked_up),
	KT_CASE(what_is_refused_is_not_looked_up),
	KT_CASE(a_change_takes_its_page_fault_in_its_turn),
	KT_CASE(keys_without_room_are_not_looked_up_ahead),
	{}
};

static struct kunit_suite batch_suite = {
	.name = "kvt_batch",
	.exit = batch_exit,
	.test_cases = batch_cases,
};

kunit_test_suite(batch_suite);
