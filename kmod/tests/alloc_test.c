// SPDX-License-Identifier: GPL-2.0
/*
 * No memory: the n-th allocation of a change fails, for n = 1, 2, ... until the
 * change succeeds.  Until then it must return an error and change nothing.
 *
 * The kernel's fault injection makes allocations fail, where it is available; so
 * does the store's limit, everywhere, which leaves a little more room at each
 * attempt.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "base/merge.h"
#include "base/park.h"
#include "lib.h"
#include "masstree/tree.h"
#include "thread.h"
#include "value.h"

#define PREFIX_MAX	(KVTREE_KEY_MAX - 8)
#define FULL_1		MT_LEAF_WIDTH
#define FULL_2		(FULL_1 * (MT_INNER_WIDTH + 1))
#define FULL_3		(FULL_2 * (MT_INNER_WIDTH + 1))

/* Keys present before one is put: numbers after a prefix. */
static const struct load {
	const char *name;
	u32 prefix;
	unsigned int nr;
	u64 number;		/* that is put */
	unsigned int nodes;	/* that it needs */
	unsigned int stride;	/* between attempts: 0 is 1 */
} loads[] = {
	{ "update", 0, 3, 1, 0 },
	{ "insert", 0, 3, 3, 0 },
	{ "split_of_the_root", 0, FULL_1, FULL_1, 2 },
	{ "split_below_the_root", 0, 2 * FULL_1, 2 * FULL_1, 1 },
	{ "split_below_a_full_root", 0, FULL_2, FULL_2, 3 },
	{ "split_below_two_full_levels", 0, FULL_3, FULL_3, 4 },
	{ "split_of_the_root_of_a_layer", 16, FULL_1, FULL_1, 2 },
	{ "split_below_a_full_root_of_a_layer", 16, FULL_2, FULL_2, 3 },
	{ "one_layer", 8, 1, 1, 1 },
	{ "fifty_layers", 400, 1, 1, 50 },
	/* Five hundred attempts at five hundred allocations, all of them alike. */
	{ "five_hundred_layers", PREFIX_MAX, 1, 1, PREFIX_MAX / 8, 4 * KT_SLOWER - 1 },
};

static void load_desc(const struct load *load, char *desc)
{
	strscpy(desc, load->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(load, loads, load_desc);

/* Everything that a failed change must not alter. */
struct state {
	u64 leaves, inners, layers, bytes;
	u64 version;
	int get;
};

struct attempts {
	const struct load *load;
	struct kunit *test;
	struct kt *kt;
	struct kvt_key key;
	struct state before;
	gfp_t gfp;
};

static struct kvt_key number_key(struct attempts *a, u64 number)
{
	const u32 prefix = a->load->prefix;
	u8 *data = kunit_kmalloc(a->test, prefix + 8, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(a->test, data);
	memset(data, 'p', prefix);
	put_unaligned_be64(number, data + prefix);
	return KT_BYTES(data, prefix + 8);
}

static struct state state(struct attempts *a)
{
	struct state state = {
		.leaves = kt_stat(a->kt, KVTREE_STAT_LEAF_NODES),
		.inners = kt_stat(a->kt, KVTREE_STAT_INNER_NODES),
		.layers = kt_stat(a->kt, KVTREE_STAT_LAYERS),
		.bytes = kvt_quota_bytes(&a->kt->quota),
	};

	/* Without the table (masstree/table.c), which a change does not make. */
	state.bytes -= kt_stat(a->kt, KVTREE_STAT_INNER_BYTES) -
		       state.inners * sizeof(struct mt_inner);

	state.get = kt_get(a->kt, &a->key, &state.version);
	return state;
}

static struct attempts attempts(struct kunit *test, gfp_t gfp)
{
	struct attempts a = { .load = test->param_value, .test = test, .gfp = gfp };
	unsigned int i;

	a.kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	disable_delayed_work_sync(&mt_tree(a.kt->index)->table_work);
	for (i = 0; i < a.load->nr; i++) {
		a.key = number_key(&a, i);
		KUNIT_ASSERT_EQ(test, 0, kt_put(a.kt, &a.key, NULL));
	}
	a.key = number_key(&a, a.load->number);
	kt_flush(a.kt);
	a.before = state(&a);
	return a;
}

static void expect_unchanged(struct attempts *a, unsigned int n)
{
	struct state now = state(a);

	KUNIT_ASSERT_EQ_MSG(a->test, a->before.leaves, now.leaves, "n = %u", n);
	KUNIT_ASSERT_EQ_MSG(a->test, a->before.inners, now.inners, "n = %u", n);
	KUNIT_ASSERT_EQ_MSG(a->test, a->before.layers, now.layers, "n = %u", n);
	KUNIT_ASSERT_EQ_MSG(a->test, a->before.bytes, now.bytes, "n = %u", n);
	KUNIT_ASSERT_EQ_MSG(a->test, a->before.get, now.get, "n = %u", n);
	KUNIT_ASSERT_EQ_MSG(a->test, a->before.version, now.version, "n = %u", n);
}

static void expect_changed(struct attempts *a)
{
	const s64 nr = a->load->nr + (a->before.get == -ENOENT);
	struct state now = state(a);

	KUNIT_EXPECT_EQ(a->test, 0, now.get);
	KUNIT_EXPECT_GT(a->test, now.version, a->before.version);
	KUNIT_EXPECT_EQ(a->test, a->load->nodes,
			now.leaves + now.inners - a->before.leaves - a->before.inners);
	KUNIT_EXPECT_EQ(a->test, nr, kt_count(a->kt, false));
	KUNIT_EXPECT_EQ(a->test, nr, kt_count(a->kt, true));
}

/* The store's limit */

static void a_put_over_the_limit_changes_nothing(struct kunit *test)
{
	struct attempts a = attempts(test, GFP_KERNEL);
	const unsigned int step = 64 * max(a.load->stride, 1);
	unsigned int n;
	int err;

	for (n = 0; ; n++) {
		kt_leave(a.kt, n * step);
		err = kt_put_gfp(a.kt, &a.key, a.gfp, NULL);
		if (!err)
			break;
		KUNIT_ASSERT_EQ_MSG(test, -EDQUOT, err, "n = %u", n);
		expect_unchanged(&a, n);
	}
	expect_changed(&a);
	/* No byte too early or too late. */
	KUNIT_EXPECT_EQ(test, DIV_ROUND_UP(state(&a).bytes - a.before.bytes, step), n);
}

static void removals_pass_at_the_limit(struct kunit *test)
{
	struct attempts a = attempts(test, GFP_KERNEL);
	struct kvt_key key;
	unsigned int i;

	kt_leave(a.kt, 0);
	for (i = 0; i < a.load->nr; i++) {
		key = number_key(&a, i);
		KUNIT_ASSERT_EQ(test, 0, kt_del(a.kt, &key, NULL));
	}
	kt_settle(a.kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(a.kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, kt_stat(a.kt, KVTREE_STAT_LEAF_BYTES), kvt_quota_bytes(&a.kt->quota));
}

/* For every engine: numbers, long enough to be stored in full, are present or absent. */

#define TIDE_KEYS	400
#define TIDE_LEN	40

struct tide {
	struct kunit *test;
	struct kt *kt;
	struct kt_rnd rnd;
	unsigned int failed;		/* changes that lacked memory, though they succeeded */
	u8 data[TIDE_LEN];
	DECLARE_BITMAP(present, TIDE_KEYS);
};

static struct tide *tide_open(struct kunit *test)
{
	struct tide *tide = kunit_kzalloc(test, sizeof(*tide), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tide);
	tide->test = test;
	tide->kt = kt_open(test);
	tide->rnd = kt_rnd(test);
	return tide;
}

/* Every other key is short. */
static struct kvt_key tide_key(struct tide *tide, unsigned int i)
{
	put_unaligned_be64(7ull * i, tide->data);
	return KT_BYTES(tide->data, i & 1 ? TIDE_LEN : 8);
}

static void tide_expect(struct tide *tide)
{
	const unsigned int nr = bitmap_weight(tide->present, TIDE_KEYS);
	unsigned int i;

	for (i = 0; i < TIDE_KEYS; i++) {
		const struct kvt_key key = tide_key(tide, i);

		KUNIT_ASSERT_EQ_MSG(tide->test, test_bit(i, tide->present) ? 0 : -ENOENT,
				    kt_get(tide->kt, &key, NULL), "key %u", i);
	}
	KUNIT_EXPECT_EQ(tide->test, nr, kt_count(tide->kt, false));
	KUNIT_EXPECT_EQ(tide->test, nr, kt_count(tide->kt, true));
}

/* All keys are removed: only an empty tree is left. */
static void tide_expect_low(struct tide *tide)
{
	kt_settle(tide->kt);
	tide_expect(tide);
	KUNIT_EXPECT_EQ(tide->test, 1, kt_stat(tide->kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(tide->test, 0, kt_stat(tide->kt, KVTREE_STAT_INNER_NODES));
}

static void what_brings_no_key_passes_at_the_limit(struct kunit *test)
{
	struct tide *tide = tide_open(test);
	struct kvt_key key;
	unsigned int i, n;

	for (i = 0; i < TIDE_KEYS; i++) {
		key = tide_key(tide, i);
		KUNIT_ASSERT_EQ(test, 0, kt_put(tide->kt, &key, NULL));
		__set_bit(i, tide->present);
	}
	for (n = 0; n < 10 * TIDE_KEYS; n++) {
		kt_leave(tide->kt, 0);
		key = tide_key(tide, n < 40 ? 1 : kt_rnd_below(&tide->rnd, TIDE_KEYS));
		KUNIT_ASSERT_EQ_MSG(test, 0, kt_put(tide->kt, &key, NULL), "n = %u", n);
	}
	tide_expect(tide);
	for (n = 0; n < TIDE_KEYS; n++) {
		kt_leave(tide->kt, 0);
		i = n * 7 % TIDE_KEYS;
		key = tide_key(tide, i);
		KUNIT_ASSERT_EQ_MSG(test, 0, kt_del(tide->kt, &key, NULL), "n = %u", n);
		__clear_bit(i, tide->present);
	}
	kt_leave(tide->kt, 0);
	tide_expect_low(tide);
}

KT_ENGINES();

/* Fault injection */

#ifdef CONFIG_FAILSLAB

/* From now on this thread's n-th allocation fails. */
static void arm(unsigned int n)
{
	WRITE_ONCE(current->fail_nth, n);
}

/* Returns whether one did. */
static bool disarm(void)
{
	return !xchg(&current->fail_nth, 0);
}

/*
 * The put did not need what failed: it was the kernel's own accounting, or a
 * large value, which has a fallback.  Undo the put.
 */
static void undo_put(struct attempts *a)
{
	if (a->before.get == -ENOENT) {
		KUNIT_ASSERT_EQ(a->test, 0, kt_del(a->kt, &a->key, NULL));
		kt_settle(a->kt);
	} else {
		a->before.version = state(a).version;
	}
}

static void put_until_it_succeeds(struct attempts *a)
{
	unsigned int n;
	bool failed;
	int err;

	for (n = 1; ; n += max(a->load->stride, 1)) {
		arm(n);
		err = kt_put_gfp(a->kt, &a->key, a->gfp, NULL);
		failed = disarm();
		if (!failed)
			break;
		if (!err)
			undo_put(a);
		else
			KUNIT_ASSERT_EQ_MSG(a->test, -ENOMEM, err, "n = %u", n);
		expect_unchanged(a, n);
	}
	KUNIT_ASSERT_EQ(a->test, 0, err);
	/* A value and its nodes. */
	KUNIT_EXPECT_GT(a->test, n, a->load->nodes + 1);
	expect_changed(a);
}

static void a_put_without_memory_changes_nothing(struct kunit *test)
{
	struct attempts a = attempts(test, GFP_KERNEL);

	put_until_it_succeeds(&a);
}

static void a_put_that_may_not_sleep_without_memory_changes_nothing(struct kunit *test)
{
	struct attempts a = attempts(test, GFP_NOWAIT);

	put_until_it_succeeds(&a);
}

static void removals_need_no_memory(struct kunit *test)
{
	struct attempts a = attempts(test, GFP_KERNEL);
	struct kvt_key key;
	unsigned int i;
	int err;

	for (i = 0; i < a.load->nr; i++) {
		key = number_key(&a, i);
		arm(1);
		err = kt_del(a.kt, &key, NULL);
		disarm();
		KUNIT_ASSERT_EQ(test, 0, err);
	}
	kt_settle(a.kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(a.kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, kt_stat(a.kt, KVTREE_STAT_LEAF_BYTES), kvt_quota_bytes(&a.kt->quota));
	KUNIT_EXPECT_EQ(test, 0, kt_stat(a.kt, KVTREE_STAT_LAYERS));
}

static void a_sweep_without_memory_is_made_up_for_by_the_worker(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	struct mt_tree *tree = mt_tree(kt->index);
	bool failed;

	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_KEY("same slice 1"), NULL));
	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_KEY("same slice 2"), NULL));
	/* Hide from the worker that there is a layer to collect, and which one. */
	atomic_add(INT_MAX / 2, &tree->check_bytes);
	KUNIT_ASSERT_EQ(test, 0, kt_del(kt, &KT_KEY("same slice 2"), NULL));
	atomic_sub(INT_MAX / 2, &tree->check_bytes);
	cancel_delayed_work_sync(&tree->check_work);
	WRITE_ONCE(tree->sweep_needed, false);
	arm(1);
	kt->ops->sweep(kt->index);
	failed = disarm();
	flush_delayed_work(&tree->check_work);
	KUNIT_EXPECT_TRUE(test, failed);
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_LAYERS));
}

static void an_index_is_made_whole_or_not_at_all(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	u64 bytes = kvt_quota_bytes(&kt->quota);
	struct kvt_index *index;
	unsigned int n;
	bool failed;

	for (n = 1; ; n++) {
		arm(n);
		index = kt->ops->create(&kt->index->env);
		failed = disarm();
		if (IS_ERR(index))
			KUNIT_EXPECT_EQ(test, -ENOMEM, PTR_ERR(index));
		else
			kt->ops->destroy(index);
		KUNIT_EXPECT_EQ(test, bytes, kvt_quota_bytes(&kt->quota));
		if (!failed)
			break;
	}
	KUNIT_EXPECT_FALSE(test, IS_ERR(index));
	KUNIT_EXPECT_GT(test, n, 1);
}

/* Make a change while its n-th allocation fails: it succeeds or returns -ENOMEM. */
static void tide_change(struct tide *tide, unsigned int i, unsigned int n, gfp_t gfp)
{
	const struct kvt_key key = tide_key(tide, i);
	bool put = !test_bit(i, tide->present), failed;
	int err;

	do {
		arm(n++);
		err = put ? kt_put_gfp(tide->kt, &key, gfp, NULL) : kt_del(tide->kt, &key, NULL);
		failed = disarm();
		tide->failed += failed && !err;
	} while (put && failed && err == -ENOMEM);
	KUNIT_ASSERT_EQ_MSG(tide->test, 0, err, "%s %u, n = %u", put ? "put" : "removal", i, n);
	__change_bit(i, tide->present);
}

/*
 * Engines that change their structure in steps skip a step without memory, or leave it
 * half done.  Here the next change has to complete it, possibly without memory as well.
 */
static void changes_without_memory_lose_nothing_and_removals_are_made(struct kunit *test)
{
	struct tide *tide = tide_open(test);
	unsigned int i, n, round;

	for (round = 0; round < 6; round++) {
		for (n = 0; n < 3 * TIDE_KEYS; n++) {
			i = kt_rnd_below(&tide->rnd, TIDE_KEYS);
			if (test_bit(i, tide->present) == (round & 1) ||
			    !kt_rnd_below(&tide->rnd, 8))
				tide_change(tide, i, 1 + kt_rnd_below(&tide->rnd, 8),
					    round & 2 ? GFP_NOWAIT : GFP_KERNEL);
		}
		tide_expect(tide);
		kt_flush(tide->kt);
	}
	for (i = 0; i < TIDE_KEYS; i++)
		if (test_bit(i, tide->present))
			tide_change(tide, i, 1 + i % 4, GFP_KERNEL);
	tide_expect_low(tide);
	if (tide->kt->ops != &kvt_masstree_ops)
		KUNIT_EXPECT_NE(test, 0, tide->failed);
}

/*
 * A writer has allocated a large block when another writer makes the value small.
 * @fails: the slab allocator has no memory
 */
static void retire_filled_with_less(struct kunit *test, size_t room, bool fails)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	static const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	static const struct kvt_column col = { .data = "12345678", .len = 8 };
	const struct kvt_key key = KT_KEY("key");
	struct kvt_merge merge = { .edits = &col, .nr = 1, .key_len = key.len };
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
	u64 before = kt_accounted();
	struct kvt_value *v;
	struct kvt_bag *bag;

	if (fails)
		arm(1);
	v = kvt_value_alloc(&mem, &key, room);
	KUNIT_EXPECT_EQ(test, fails, disarm() && fails);
	KUNIT_ASSERT_NOT_NULL(test, v);
	KUNIT_ASSERT_EQ(test, 0, kvt_merge_plan(&merge));
	kvt_merge_fill(&merge, v, kept);
	KUNIT_EXPECT_EQ(test, 24, v->size);
	KUNIT_EXPECT_GE(test, kvt_value_charge(v), room);
	if (before)
		KUNIT_EXPECT_EQ(test, kvt_value_charge(v), kt_accounted() - before);
	bag = kvt_bag_new(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bag);
	kt_value_adopt(v);
	kvt_value_retire(&kt->reclaim, bag, v, NULL);
	KUNIT_EXPECT_GE(test, kvt_reclaim_waiting(&kt->reclaim), room);
	kt_flush(kt);
	kt_close(kt);
}

static void a_block_filled_with_less_is_freed_and_counted_as_it_was_taken(struct kunit *test)
{
	/* From vmalloc(), and whole pages of the page allocator. */
	retire_filled_with_less(test, PAGE_SIZE + 2000, true);
	retire_filled_with_less(test, KVT_VALUE_SIZE_MAX, false);
}

#endif /* CONFIG_FAILSLAB */

/* Values */

static void a_small_value_takes_little_more_than_it_has(struct kunit *test)
{
	const struct kvt_key key = KT_KEY("12345678");
	struct kvt_value *v;
	u8 data[256] = {};
	size_t takes;
	u32 len;

	for (len = 0; len <= sizeof(data); len++) {
		v = kt_value_of(&key, data, len);
		KUNIT_ASSERT_NOT_NULL(test, v);
		takes = kvt_value_charge(v);
		KUNIT_EXPECT_GE(test, takes, v->size);
		KUNIT_EXPECT_LE(test, takes, kmalloc_size_roundup(v->size));
		/* At most a seventh more, rounded up to whole words. */
		if (v->size >= 24 && v->size <= 96)
			KUNIT_EXPECT_LE(test, takes, ALIGN(v->size, 8) * 8 / 7);
		if (len == 8)
			KUNIT_EXPECT_EQ(test, 24, takes);
		kvt_value_free(v);
	}
}

/*
 * A CPU takes ahead only from what the charge itself leaves: smaller charges after a
 * large one find all of the rest, and nothing beyond it.
 */
static void charges_of_any_size_fill_a_limit_and_never_pass_it(struct kunit *test)
{
	static const u64 limits[] = { 1000, 100000, 10 << 20, 1 << 30 };
	struct kvt_quota quota;
	u64 sum, n, limit;
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		limit = limits[i];
		for (round = 0; round < 20; round++) {
			KUNIT_ASSERT_EQ(test, 0, kvt_quota_init(&quota, limit, U64_MAX));
			sum = limit - round;
			KUNIT_EXPECT_EQ(test, 0, kvt_quota_charge(&quota, sum));
			/* A refusal would give back what was taken in excess. */
			for (n = 8; n; n /= 2)
				while (sum <= 2 * limit && !kvt_quota_charge(&quota, n))
					sum += n;
			KUNIT_EXPECT_EQ_MSG(test, limit, sum, "round %u", round);
			KUNIT_EXPECT_EQ(test, sum, kvt_quota_bytes(&quota));
			kvt_quota_exit(&quota);
		}
	}
}

/* Without a limit, too, memory counts if it is given back first and charged later. */
static void what_is_given_back_before_it_is_charged_counts(struct kunit *test)
{
	struct kvt_quota quota;

	KUNIT_ASSERT_EQ(test, 0, kvt_quota_init(&quota, U64_MAX, U64_MAX));
	kvt_quota_uncharge(&quota, 1 << 20);
	kvt_quota_uncharge_keys(&quota, 1);
	KUNIT_EXPECT_EQ(test, 0, kvt_quota_charge(&quota, 1 << 20));
	KUNIT_EXPECT_EQ(test, 0, kvt_quota_charge(&quota, 100));
	KUNIT_EXPECT_EQ(test, 0, kvt_quota_charge_keys(&quota, 3));
	KUNIT_EXPECT_EQ(test, 100, kvt_quota_bytes(&quota));
	KUNIT_EXPECT_EQ(test, 2, kvt_quota_keys(&quota));
	kvt_quota_exit(&quota);
}

struct spender {
	struct kvt_quota quota;
	bool stop;
	unsigned int charges, refusals;
};

static int spend(void *arg)
{
	struct spender *s = arg;

	while (!READ_ONCE(s->stop)) {
		if (kvt_quota_charge(&s->quota, 4096))
			WRITE_ONCE(s->refusals, s->refusals + 1);
		else
			WRITE_ONCE(s->charges, s->charges + 1);
		cond_resched();
	}
	return 0;
}

/* Meanwhile, what was taken ahead is in neither account. */
static void be_slow(enum kvt_park at)
{
	if (at == KVT_PARK_QUOTA_AHEAD)
		udelay(8);
}

static void wait_for_more(const unsigned int *count, unsigned int more)
{
	const unsigned int before = READ_ONCE(*count);

	while (READ_ONCE(*count) - before < more)
		cond_resched();
}

/* A concurrent charge keeps nothing that it took ahead under the old limit. */
static void a_new_limit_holds_at_once(struct kunit *test)
{
	struct spender *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct kt_thread thread;
	unsigned int round, charges;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_EQ(test, 0, kvt_quota_init(&s->quota, U64_MAX, U64_MAX));
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&thread, 1, spend, s));
	WRITE_ONCE(kvt_park_loose_hook, be_slow);
	kt_thread_start(&thread);
	for (round = 0; round < 60; round++) {
		wait_for_more(&s->charges, 1 + round % 40);
		kvt_quota_limit(&s->quota, 1, U64_MAX);
		charges = READ_ONCE(s->charges);
		wait_for_more(&s->refusals, 2);
		/* One may have begun already, and one may not be counted yet. */
		charges = READ_ONCE(s->charges) - charges;
		KUNIT_EXPECT_LE_MSG(test, charges, 2, "round %u", round);
		kvt_quota_limit(&s->quota, U64_MAX, U64_MAX);
	}
	WRITE_ONCE(s->stop, true);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&thread));
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	KUNIT_EXPECT_EQ(test, 4096ull * s->charges, kvt_quota_bytes(&s->quota));
	kvt_quota_exit(&s->quota);
}

/* A write can fail for other reasons, but must not fail for want of a bag. */
static void an_allocation_that_may_sleep_always_gets_a_bag(struct kunit *test)
{
	struct kvt_bag *bag;

	bag = kvt_bag_new(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	KUNIT_EXPECT_TRUE(test, bag);
	kfree(bag);
	bag = kvt_bag_new(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
	KUNIT_EXPECT_TRUE(test, bag);
	kfree(bag);
}

/* More than a bag has room for. */
static void all_that_was_replaced_is_freed(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	const unsigned int nr = 3 * KVT_BAG_VALUES + 1;
	const struct kvt_key key = KT_KEY("key");
	unsigned int i;
	u64 most = 0;

	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &key, NULL));
		most = max(most, kvt_reclaim_waiting(&kt->reclaim));
	}
	KUNIT_EXPECT_GT(test, most, 0);
	kt_flush(kt);
	KUNIT_EXPECT_EQ(test, 0, kvt_reclaim_waiting(&kt->reclaim));
	KUNIT_EXPECT_GE(test, kvt_reclaim_waiting_max(&kt->reclaim), 1);
	/* kt_close() sees whether values are left. */
	kt_close(kt);
}

static struct kunit_case alloc_cases[] = {
	KUNIT_CASE_PARAM(a_put_over_the_limit_changes_nothing, load_gen_params),
	KUNIT_CASE_PARAM(removals_pass_at_the_limit, load_gen_params),
	KT_CASE(what_brings_no_key_passes_at_the_limit),
	KUNIT_CASE(a_small_value_takes_little_more_than_it_has),
	KUNIT_CASE(charges_of_any_size_fill_a_limit_and_never_pass_it),
	KUNIT_CASE(what_is_given_back_before_it_is_charged_counts),
	KUNIT_CASE(a_new_limit_holds_at_once),
	KUNIT_CASE(an_allocation_that_may_sleep_always_gets_a_bag),
	KUNIT_CASE(all_that_was_replaced_is_freed),
#ifdef CONFIG_FAILSLAB
	KUNIT_CASE_PARAM(a_put_without_memory_changes_nothing, load_gen_params),
	KUNIT_CASE_PARAM(a_put_that_may_not_sleep_without_memory_changes_nothing,
			 load_gen_params),
	KUNIT_CASE_PARAM(removals_need_no_memory, load_gen_params),
	KUNIT_CASE(a_block_filled_with_less_is_freed_and_counted_as_it_was_taken),
	KUNIT_CASE(a_sweep_without_memory_is_made_up_for_by_the_worker),
	KT_CASE(an_index_is_made_whole_or_not_at_all),
	KT_CASE(changes_without_memory_lose_nothing_and_removals_are_made),
#endif
	{}
};

static struct kunit_suite alloc_suite = {
	.name = "kvtree_alloc",
#ifdef CONFIG_FAILSLAB
	.suite_init = kt_failing_begin,
	.suite_exit = kt_failing_end,
#endif
	.test_cases = alloc_cases,
};

kunit_test_suite(alloc_suite);
