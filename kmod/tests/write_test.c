// SPDX-License-Identifier: GPL-2.0
/* A write to a store: what it does between the steps of the engine. */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/workqueue.h>

#include "core/ctx.h"
#include "core/store.h"
#include "core/stores.h"
#include "core/write.h"
#include "lib.h"
#include "value.h"

#define STORE	"kunit-write"

KT_ENGINES();

/* An engine that observes the writer. */
static struct {
	struct kvt_index_ops ops;
	const struct kvt_index_ops *of;
	unsigned int refusals;		/* commits to refuse, as if another writer had been first */
	unsigned int begun;
	unsigned int bagged;		/* values that the last to begin left in this CPU's bag */
	unsigned int replaced;		/* values, each to be retired */
	unsigned int preemptible;	/* ... by a writer that could be preempted */
} noting;

/* Values that wait in this CPU's bag for the worker or the next writer. */
static unsigned int bagged(struct kvt_reclaim *reclaim)
{
	struct kvt_bag *bag = kvt_bag_take(reclaim);
	unsigned int nr = bag ? bag->nr : 0;

	kvt_bag_put(reclaim, bag);
	return nr;
}

static int noting_begin(struct kvt_change *change)
{
	noting.begun++;
	noting.bagged = bagged(change->index->env.reclaim);
	return noting.of->begin(change);
}

static int noting_commit(struct kvt_change *change, struct kvt_value *value)
{
	const struct kvt_value *old = change->old;
	int err;

	if (noting.refusals) {
		noting.refusals--;
		noting.of->abort(change);
		return -EAGAIN;
	}
	/* commit() releases the place. */
	err = noting.of->commit(change, value);
	if (!err && old) {
		noting.replaced++;
		noting.preemptible += !!preemptible();
	}
	return err;
}

static struct kvt_store *store_make(struct kunit *test)
{
	const struct kt_engine *engine = test->param_value;
	struct kvtree_store_create args = { .name = STORE };
	struct kvt_store *store;

	strscpy(args.engine, engine->ops->name);
	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	store = kvt_store_find(STORE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(store));
	memset(&noting, 0, sizeof(noting));
	noting.of = store->index->ops;
	noting.ops = *noting.of;
	noting.ops.begin = noting_begin;
	noting.ops.commit = noting_commit;
	return store;
}

/* Give the key "k" a value, or remove it. */
static int change(struct kvt_store *store, enum kvtree_opcode opcode)
{
	const struct kvt_op_ctx ctx = { .store = store, .gfp = KVT_GFP_PROCESS };
	struct kvtree_op op = { .opcode = opcode };
	struct kvt_write write = { .op = &op, .key = KT_KEY("k") };
	int err;

	if (opcode == KVTREE_OP_PUT) {
		/* Too large for a cell. */
		write.value = kt_value_of(&write.key, "nine more", 9);
		if (!write.value)
			return -ENOMEM;
	}
	err = kvt_write(&ctx, &write);
	if (err)
		kvt_value_free(write.value);
	return err;
}

/* Its bag may hold values of others, which nobody can free until the bag is back. */
static void a_writer_is_not_preempted_before_it_has_retired_a_value(struct kunit *test)
{
	struct kvt_store *store = store_make(test);

	store->index->ops = &noting.ops;
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_PUT));
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_PUT));
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_REMOVE));
	store->index->ops = noting.of;
	KUNIT_EXPECT_EQ(test, 2, noting.replaced);
	KUNIT_EXPECT_EQ(test, 0, noting.preemptible);
	kvt_store_destroy(STORE);
	kvt_store_put(store);
	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		kunit_mark_skipped(test, "the kernel does not track whether a task is preemptible");
}

/* Nobody frees them while it has them, and its preparations may take long. */
static void a_writer_that_begins_again_has_no_values_of_others(struct kunit *test)
{
	struct kvt_store *store;

	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	store = store_make(test);
	/* Retired values stay where writers have left them. */
	disable_delayed_work_sync(&store->reclaim.gather);
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_PUT));
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_PUT));
	KUNIT_EXPECT_EQ(test, 1, bagged(&store->reclaim));
	noting.refusals = 1;
	store->index->ops = &noting.ops;
	KUNIT_EXPECT_EQ(test, 0, change(store, KVTREE_OP_PUT));
	store->index->ops = noting.of;
	KUNIT_EXPECT_EQ(test, 2, noting.begun);
	KUNIT_EXPECT_EQ(test, 1, noting.bagged);
	KUNIT_EXPECT_EQ(test, 2, bagged(&store->reclaim));
	kvt_store_destroy(STORE);
	kvt_store_put(store);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* Put some bytes of a number, with the data loaded as callers load it. */
static int put_bytes(struct kvt_store *store, const struct kvt_key *key, u64 number, u32 len)
{
	const struct kvt_op_ctx ctx = { .store = store, .gfp = KVT_GFP_PROCESS };
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvtree_op op = { .opcode = KVTREE_OP_PUT };
	struct kvt_write write = { .op = &op, .key = *key };
	u8 *data;
	int err;

	write.value = kvt_value_make_whole(&mem, key, len, &data, kvt_write_cell(&ctx, &write));
	if (!write.value)
		return -ENOMEM;
	memcpy(data, &number, len);
	err = kvt_write(&ctx, &write);
	if (err)
		kvt_value_free(write.value);
	return err;
}

static int put_small(struct kvt_store *store, const struct kvt_key *key, u32 number)
{
	return put_bytes(store, key, number, sizeof(number));
}

/* The version under a key, if @number exists. */
static u64 small_version(struct kvt_store *store, const struct kvt_key *key, u32 number,
			 bool *cell)
{
	const struct kvt_value *v;
	struct kvt_cell room;
	u64 version = 0;
	const u8 *data;
	u32 len;

	rcu_read_lock();
	v = store->index->ops->get(store->index, key, &room);
	if (!IS_ERR_OR_NULL(v)) {
		data = kvt_value_plain_data(v, &len);
		*cell = kvt_value_is_cell(v);
		if (len == sizeof(number) && get_unaligned((const u32 *)data) == number)
			version = v->version;
	}
	rcu_read_unlock();
	return version;
}

/* Versions beyond those of cells: such values have blocks. */
static void versions_grow_beyond_those_of_cells(struct kunit *test)
{
	struct kvt_store *store = store_make(test);
	const struct kvt_key key = KT_KEY("k");
	bool cell, cells = store->index->ops->cells;
	u64 floor, version;
	u32 i;

	KUNIT_EXPECT_EQ(test, 0, put_small(store, &key, 7));
	KUNIT_EXPECT_NE(test, 0, small_version(store, &key, 7, &cell));
	KUNIT_EXPECT_EQ(test, cells, cell);
	/* It is raised a little further. */
	kvt_store_raise_floor(store, KVT_CELL_VERSION_END - 6000);
	KUNIT_EXPECT_EQ(test, 0, put_small(store, &key, 8));
	floor = small_version(store, &key, 8, &cell);
	KUNIT_ASSERT_LT(test, floor, KVT_CELL_VERSION_END);
	for (i = 0; i < 7000; i++) {
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &key, i));
		version = small_version(store, &key, i, &cell);
		KUNIT_ASSERT_EQ(test, floor + 1 + i, version);
		KUNIT_ASSERT_EQ(test, cells && version < KVT_CELL_VERSION_END, cell);
	}
	KUNIT_EXPECT_GT(test, version, KVT_CELL_VERSION_END);
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

/* All leaves but the first were made for long keys. */
static void small_values_are_put_where_there_is_no_room_for_cells(struct kunit *test)
{
	struct kvt_store *store = store_make(test);
	unsigned int blocks = 0;
	struct kvt_key key;
	u8 bytes[16] = { };
	bool cell;
	u32 i;

	for (i = 0; i < 100; i++) {
		put_unaligned_be32(i, bytes);
		key = KT_BYTES(bytes, sizeof(bytes));
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &key, i));
	}
	for (i = 0; i < 100; i++) {
		put_unaligned_be32(i, bytes);
		key = KT_BYTES(bytes, 4);
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &key, i + 1));
		KUNIT_EXPECT_NE(test, 0, small_version(store, &key, i + 1, &cell));
		blocks += !cell;
		/* Replace it, whether it is a block or a cell. */
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &key, i + 2));
		KUNIT_EXPECT_NE(test, 0, small_version(store, &key, i + 2, &cell));
	}
	KUNIT_EXPECT_NE(test, 0, blocks);
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

#define PREFIX		24	/* bytes that long keys have in common */
#define LONG_KEYS	500

static struct kvt_key long_key(u8 *bytes, u32 i)
{
	memset(bytes, 'p', PREFIX);
	put_unaligned_be64(i, bytes + PREFIX);
	return KT_BYTES(bytes, PREFIX + 8);
}

/* Put numbers under long keys.  Returns how many are in cells. */
static u32 put_long_keys(struct kvt_store *store, struct kunit *test, u32 number)
{
	u8 bytes[PREFIX + 8];
	struct kvt_key key;
	u32 i, cells = 0;
	bool cell;

	for (i = 0; i < LONG_KEYS; i++) {
		key = long_key(bytes, i);
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &key, i + number));
	}
	for (i = 0; i < LONG_KEYS; i++) {
		key = long_key(bytes, i);
		KUNIT_EXPECT_NE(test, 0, small_version(store, &key, i + number, &cell));
		cells += cell;
	}
	return cells;
}

/* In the layer where they end, all but those of the first leaves. */
static void small_values_of_long_keys_are_in_cells(struct kunit *test)
{
	struct kvt_store *store = store_make(test);
	u32 least = store->index->ops->cells ? LONG_KEYS - 64 : 0;

	KUNIT_EXPECT_GE(test, put_long_keys(store, test, 0), least);
	KUNIT_EXPECT_GE(test, put_long_keys(store, test, 1), least);
	if (least)
		KUNIT_EXPECT_LT(test, kvt_quota_bytes(&store->quota), 50 * LONG_KEYS);
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

/* Have the guess for a key on this CPU be wrong or right. */
static void guess(struct kvt_store *store, const struct kvt_key *key, bool takes)
{
	preempt_disable();
	kvt_index_learn_cell(store->index, key->len, takes);
	preempt_enable();
}

/* The writer has prepared a block for a cell's key, or a cell for that of a block. */
static void small_values_are_not_refused_because_of_a_wrong_guess(struct kunit *test)
{
	struct kvt_store *store;
	u8 bytes[PREFIX + 8];
	struct kvt_key key;
	bool cell, was;
	u32 i;

	/* Guesses are of a CPU. */
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	store = store_make(test);
	put_long_keys(store, test, 0);
	kvt_quota_limit(&store->quota, kvt_quota_bytes(&store->quota), U64_MAX);
	for (i = 0; i < LONG_KEYS; i++) {
		key = long_key(bytes, i);
		small_version(store, &key, i, &was);
		guess(store, &key, !was);
		KUNIT_EXPECT_EQ(test, 0, put_small(store, &key, 7));
		KUNIT_EXPECT_NE(test, 0, small_version(store, &key, 7, &cell));
		/* A block that a split has moved to where cells are becomes one. */
		KUNIT_EXPECT_GE(test, cell, was);
		KUNIT_EXPECT_EQ(test, cell, kvt_index_may_cell(store->index, key.len));
	}
	kvt_store_destroy(STORE);
	kvt_store_put(store);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* Of any size that a cell may have, and of none, in a place that takes no cells. */
static void small_blocks_take_the_same_whatever_was_guessed(struct kunit *test)
{
	const struct kvt_key key = KT_KEY("a key that is alone");
	struct kvt_store *store;
	u32 len;

	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	store = store_make(test);
	for (len = 0; len <= KVT_CELL_MAX; len++) {
		kvt_quota_limit(&store->quota, U64_MAX, U64_MAX);
		guess(store, &key, false);
		KUNIT_EXPECT_EQ(test, 0, put_bytes(store, &key, 1, len));
		kvt_quota_limit(&store->quota, kvt_quota_bytes(&store->quota), U64_MAX);
		guess(store, &key, true);
		KUNIT_EXPECT_EQ(test, 0, put_bytes(store, &key, 2, len));
	}
	kvt_store_destroy(STORE);
	kvt_store_put(store);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static int put_columns(struct kvt_store *store, const struct kvt_key *key,
		       struct kvt_column *cols, unsigned int nr)
{
	const struct kvt_op_ctx ctx = { .store = store, .gfp = KVT_GFP_PROCESS };
	struct kvtree_op op = { .opcode = KVTREE_OP_PUT, .flags = KVTREE_F_COLS, .ncols = nr };
	struct kvt_write write = { .op = &op, .key = *key, .cols = cols, .ncols = nr };

	return kvt_write(&ctx, &write);
}

static struct {
	struct kvt_store *store;
	struct kvt_key key;
	unsigned int puts;
} overtaking;

/* Another writer puts a small value between the preparation of this one and its place. */
static int overtaken_begin(struct kvt_change *change)
{
	if (overtaking.puts) {
		overtaking.puts--;
		overtaking.store->index->ops = noting.of;
		put_bytes(overtaking.store, &overtaking.key, 5, 8);
		overtaking.store->index->ops = &noting.ops;
	}
	return noting.of->begin(change);
}

/* At the limit, a merge that makes a cell of a cell is not refused, however it was prepared. */
static void a_merge_that_is_overtaken_does_not_grow_a_cell(struct kunit *test)
{
	struct kvt_store *store = store_make(test);
	static const u8 data[8];
	struct kvt_column cols[] = {
		{ .id = 0, .len = sizeof(data), .data = data },
		{ .id = 5, .len = sizeof(data), .data = data },
	};
	u8 bytes[200];
	u32 i;

	memset(bytes, 'p', sizeof(bytes));
	for (i = 0; i < 100; i++) {
		put_unaligned_be64(i, bytes + sizeof(bytes) - 8);
		KUNIT_ASSERT_EQ(test, 0, put_small(store, &KT_BYTES(bytes, sizeof(bytes)), i));
	}
	overtaking.store = store;
	overtaking.key = KT_BYTES(bytes, sizeof(bytes));
	KUNIT_EXPECT_EQ(test, 0, put_columns(store, &overtaking.key, cols, 2));
	overtaking.puts = 1;
	noting.ops.begin = overtaken_begin;
	store->index->ops = &noting.ops;
	kvt_quota_limit(&store->quota, store->index->ops->cells ? 1 : U64_MAX, U64_MAX);
	KUNIT_EXPECT_EQ(test, 0, put_columns(store, &overtaking.key, cols, 1));
	store->index->ops = noting.of;
	KUNIT_EXPECT_EQ(test, 0, overtaking.puts);
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

/* At the limit, a change that does not grow the value is not refused. */
static void a_small_value_loses_its_column_at_the_limit(struct kunit *test)
{
	struct kvt_store *store = store_make(test);
	const struct kvt_op_ctx ctx = { .store = store, .gfp = KVT_GFP_PROCESS };
	struct kvt_column none = { .len = KVTREE_COL_ABSENT };
	struct kvtree_op op = { .opcode = KVTREE_OP_PUT, .flags = KVTREE_F_COLS, .ncols = 1 };
	struct kvt_write write = { .op = &op, .key = KT_KEY("k"), .cols = &none, .ncols = 1 };
	const struct kvt_value *v;
	struct kvt_cell cell;

	KUNIT_EXPECT_EQ(test, 0, put_small(store, &write.key, 7));
	kvt_quota_limit(&store->quota, kvt_quota_bytes(&store->quota), U64_MAX);
	KUNIT_EXPECT_EQ(test, 0, kvt_write(&ctx, &write));
	rcu_read_lock();
	v = store->index->ops->get(store->index, &write.key, &cell);
	KUNIT_EXPECT_TRUE(test, !IS_ERR_OR_NULL(v) && !kvt_value_ncols(v));
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, 0, put_small(store, &write.key, 8));
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

static struct kunit_case write_cases[] = {
	KT_CASE(a_writer_is_not_preempted_before_it_has_retired_a_value),
	KT_CASE(a_writer_that_begins_again_has_no_values_of_others),
	KT_CASE(versions_grow_beyond_those_of_cells),
	KT_CASE(small_values_are_put_where_there_is_no_room_for_cells),
	KT_CASE(small_values_of_long_keys_are_in_cells),
	KT_CASE(small_values_are_not_refused_because_of_a_wrong_guess),
	KT_CASE(small_blocks_take_the_same_whatever_was_guessed),
	KT_CASE(a_merge_that_is_overtaken_does_not_grow_a_cell),
	KT_CASE(a_small_value_loses_its_column_at_the_limit),
	{}
};

static struct kunit_suite write_suite = {
	.name = "kvtree_write",
	.test_cases = write_cases,
};

kunit_test_suite(write_suite);
