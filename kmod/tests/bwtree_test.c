// SPDX-License-Identifier: GPL-2.0
/*
 * The steps in which a Bw-tree changes its structure.  Between any two of them another
 * thread reads everything, or makes a change and so has to complete the pending steps.
 *
 * The hook of the park points plays that thread, in the middle of a step of the thread
 * under test.  The tree cannot tell it from a faster thread: at park points, nothing is
 * held that another thread would wait for.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "bwtree/tree.h"
#include "lib.h"

#define BW_KEYS		160
#define BW_ROUNDS	6
/* In a batch. */
#define BW_LOOKUPS	20
/* Four entries and a few. */
#define BW_SMALL	100

#define BW_POINT(name) { KVT_PARK_##name, #name },
static const struct bw_point {
	enum kvt_park at;
	const char *name;
} bw_points[] = { KVT_PARK_BW_POINTS(BW_POINT) };

static struct bw_scene {
	struct kunit *test;
	struct kt *kt;
	struct kt_rnd rnd;
	struct kt_cursor cur;
	bool inside;			/* the hook runs */
	bool writes;			/* ... and changes something */
	bool drains;			/* ... but puts nothing */
	unsigned int busy_key;		/* that the thread under test changes */
	unsigned int hits[KVT_PARK_NR];
	unsigned int helped;		/* changes made from the hook */
	unsigned int split_in_merge;	/* ... that split a page while another was merged */
	unsigned int merge_in_split;	/* ... and the other way round */
	unsigned int starved;		/* changes that were refused for want of memory */
	bool starves;			/* the thread under test does, now and then */
	const char *wrong;
	enum kvt_park wrong_at;
	unsigned int wrong_key;
	u8 data[BW_KEYS][8];
	DECLARE_BITMAP(present, BW_KEYS);
	struct kvt_lookup lookups[BW_LOOKUPS];
	struct kvt_cell cells[BW_LOOKUPS];
} scene;

static struct kvt_key scene_key(unsigned int i)
{
	return KT_BYTES(scene.data[i], 8);
}

static void scene_fail(const char *wrong, enum kvt_park at, unsigned int key)
{
	if (scene.wrong)
		return;
	scene.wrong = wrong;
	scene.wrong_at = at;
	scene.wrong_key = key;
}

/* Judge what a lookup found. */
static void scene_judge(const char *what, enum kvt_park at, unsigned int i, int err)
{
	int want = test_bit(i, scene.present) ? 0 : -ENOENT;

	if (err != want && (i != scene.busy_key || (err && err != -ENOENT)))
		scene_fail(what, at, i);
}

/* The same keys in batches, the first of each a second time at its end. */
static void scene_get_batches(enum kvt_park at)
{
	const struct kvt_index_ops *ops = scene.kt->ops;
	unsigned int i, n;

	for (i = 0; i < BW_KEYS; i += BW_LOOKUPS - 1) {
		for (n = 0; n < BW_LOOKUPS - 1 && i + n < BW_KEYS; n++)
			scene.lookups[n].key = scene_key(i + n);
		scene.lookups[n].key = scene_key(i);
		ops->get_batch(scene.kt->index, scene.lookups, scene.cells, n + 1);
		scene_judge("the second of two lookups of a batch", at, i,
			    kt_check(scene.lookups[n].value, &scene.lookups[n].key, NULL));
		while (n--)
			scene_judge("a lookup of a batch", at, i + n,
				    kt_check(scene.lookups[n].value, &scene.lookups[n].key, NULL));
	}
}

static void scene_get_all(enum kvt_park at)
{
	unsigned int i;

	for (i = 0; i < BW_KEYS; i++) {
		const struct kvt_key key = scene_key(i);

		scene_judge("a lookup", at, i, kt_get_rcu(scene.kt, &key, NULL));
	}
	scene_get_batches(at);
}

/* The number of present keys, without the one that is being changed. */
static unsigned int scene_count(void)
{
	unsigned int i, nr = 0;

	for (i = 0; i < BW_KEYS; i++)
		nr += i != scene.busy_key && test_bit(i, scene.present);
	return nr;
}

/* Scan all keys in order, except the one that is being changed. */
static void scene_scan(enum kvt_park at, bool reverse)
{
	const struct kvt_key empty = { };
	unsigned int nr = 0, calls = 0;
	s64 i, last = reverse ? BW_KEYS : -1;
	int err;

	kt_cursor_set(&scene.cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	while (calls++ < 2 * BW_KEYS) {
		err = kt_cursor_next_rcu(&scene.cur);
		if (err == -EAGAIN)
			continue;
		if (err)
			break;
		i = get_unaligned_be64(scene.cur.iter->key) / 3;
		if (reverse ? i >= last : i <= last)
			scene_fail("the order of a scan", at, i);
		last = i;
		if (i == scene.busy_key)
			continue;
		if (!test_bit(i, scene.present))
			scene_fail("a scan found a removed key", at, i);
		nr++;
	}
	kt_cursor_set(&scene.cur, &empty, KVT_AT, false);
	if (err != -ENOENT)
		scene_fail("the end of a scan", at, 0);
	if (nr != scene_count())
		scene_fail("a scan missed a key", at, nr);
}

static int scene_change(unsigned int i, gfp_t gfp)
{
	const struct kvt_key key = scene_key(i);
	int err;

	if (!test_bit(i, scene.present)) {
		err = kt_put_gfp(scene.kt, &key, gfp, NULL);
		if (!err)
			__set_bit(i, scene.present);
	} else {
		err = kt_del_gfp(scene.kt, &key, gfp, NULL);
		if (!err)
			__clear_bit(i, scene.present);
	}
	return err;
}

/* Does this point lie in the middle of a merge?  Of a split? */
static bool scene_merges(enum kvt_park at)
{
	return at == KVT_PARK_BW_MARKED || at == KVT_PARK_BW_REMOVED || at == KVT_PARK_BW_MERGED;
}

static bool scene_splits(enum kvt_park at)
{
	return at == KVT_PARK_BW_SPLIT_BUILT || at == KVT_PARK_BW_SPLIT_HALF ||
	       at == KVT_PARK_BW_POST_BUILT;
}

static u64 scene_nr(enum bw_nr nr)
{
	return kvt_stats_read(&scene.kt->stats, KVT_STAT_ENGINE + nr);
}

/* The statistics of chain lengths agree with the number of records. */
static void scene_count_chains(struct kunit *test)
{
	u64 least = 0, most = 0, records = scene_nr(BW_NR_CHAIN_RECORDS), pages;
	unsigned int i;

	for (i = 0; i < BW_CHAIN_CLASSES; i++) {
		pages = scene_nr(BW_NR_CHAINS + i);
		least += pages << i;
		most += pages * (i + 1 < BW_CHAIN_CLASSES ? (2ull << i) - 1 : 2 * BW_CHAIN_MAX);
	}
	KUNIT_EXPECT_LE(test, least, records);
	KUNIT_EXPECT_GE(test, most, records);
}

static void scene_write_one(enum kvt_park at, unsigned int i)
{
	if (scene_change(i, GFP_NOWAIT))
		scene_fail("a change", at, i);
	scene.helped++;
}

/* During a merge insert so many keys that pages split; during a split remove them. */
static void scene_race(enum kvt_park at)
{
	u64 merged = kt_stat(scene.kt, KVTREE_STAT_NODE_UNLINK), split = scene_nr(BW_NR_SPLIT);
	bool fill = scene_merges(at);
	unsigned int i, n;

	if ((fill && scene.drains) || (!fill && !scene_splits(at)))
		return;
	for (n = 1; n <= BW_KEYS / 4; n++) {
		i = (scene.busy_key + n) % BW_KEYS;
		if (i != scene.busy_key && test_bit(i, scene.present) != fill)
			scene_write_one(at, i);
	}
	scene.split_in_merge += fill && scene_nr(BW_NR_SPLIT) > split;
	scene.merge_in_split += !fill && kt_stat(scene.kt, KVTREE_STAT_NODE_UNLINK) > merged;
}

/* A faster thread changes a few keys, beginning near the other change. */
static void scene_write(enum kvt_park at)
{
	unsigned int i, n;

	for (n = 0; n < 3; n++) {
		i = (scene.busy_key + 1 + kt_rnd_below(&scene.rnd, n ? BW_KEYS - 1 : 6)) % BW_KEYS;
		if (i == scene.busy_key || (scene.drains && !test_bit(i, scene.present)))
			continue;
		scene_write_one(at, i);
	}
}

/* Do not let allocations of the interposed thread fail: failures are for the one under test. */
static unsigned int scene_pause_failing(void)
{
#ifdef CONFIG_FAILSLAB
	return xchg(&current->fail_nth, 0);
#else
	return 0;
#endif
}

static void scene_go_on_failing(unsigned int nth)
{
#ifdef CONFIG_FAILSLAB
	WRITE_ONCE(current->fail_nth, nth);
#endif
}

/* A change; if the scene starves, the n-th of its allocations fails before it is made. */
static int scene_change_starved(unsigned int i)
{
	int err;

	if (!scene.starves)
		return scene_change(i, GFP_KERNEL);
	scene_go_on_failing(1 + kt_rnd_below(&scene.rnd, 8));
	err = scene_change(i, GFP_KERNEL);
	scene_pause_failing();
	if (err != -ENOMEM)
		return err;
	scene.starved++;
	return scene_change(i, GFP_KERNEL);
}

static void scene_hook(enum kvt_park at)
{
	unsigned int nth;
	int held;

	scene.hits[at]++;
	/* The other points have enough changes. */
	if (scene.inside || at == KVT_PARK_BW_SEEK)
		return;
	scene.inside = true;
	nth = scene_pause_failing();
	held = kt_pause_holding();
	if (scene.writes && !kt_rnd_below(&scene.rnd, 4))
		scene_write(at);
	else if (scene.writes && !kt_rnd_below(&scene.rnd, 16))
		scene_race(at);
	rcu_read_lock();
	scene_get_all(at);
	scene_scan(at, false);
	scene_scan(at, true);
	rcu_read_unlock();
	kt_go_on_holding(held);
	scene_go_on_failing(nth);
	scene.inside = false;
}

static void scene_exit(void *arg)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	kt_cursor_exit(&scene.cur);
}

static void scene_open(struct kunit *test, bool writes)
{
	const struct kt_engine engine = { "bwtree", &kvt_bwtree_ops, BW_SMALL };
	unsigned int i;

	memset(&scene, 0, sizeof(scene));
	scene.test = test;
	scene.writes = writes;
	scene.rnd = kt_rnd(test);
	for (i = 0; i < BW_KEYS; i++)
		put_unaligned_be64(3ull * i, scene.data[i]);
	scene.kt = kt_open_pages(test, &engine, U64_MAX);
	disable_delayed_work_sync(&bw_tree(scene.kt->index)->work);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(scene.kt, &scene.cur));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, scene_exit, NULL));
}

/* Change keys until all, or none, of them exist. */
static void scene_tide(bool fill)
{
	unsigned int n, i;

	for (n = 0; n < 3 * BW_KEYS && !scene.wrong; n++) {
		i = kt_rnd_below(&scene.rnd, BW_KEYS);
		if (test_bit(i, scene.present) == fill && kt_rnd_below(&scene.rnd, 8))
			continue;
		scene.busy_key = i;
		KUNIT_ASSERT_EQ(scene.test, 0, scene_change_starved(i));
		cond_resched();
	}
}

/* Wait for rare events, ten times as long if necessary. */
static bool scene_continues(unsigned int round)
{
	bool seen = !scene.writes || (scene.split_in_merge && scene.merge_in_split);

	return !scene.wrong && round < (seen ? BW_ROUNDS : 10 * BW_ROUNDS);
}

static void scene_run(struct kunit *test, bool writes, bool starves)
{
	unsigned int i, round;

	scene_open(test, writes);
	scene.starves = starves;
	WRITE_ONCE(kvt_park_loose_hook, scene_hook);
	for (round = 0; scene_continues(round); round++) {
		scene_tide(true);
		scene_tide(false);
		scene.drains = true;
		for (i = 0; i < BW_KEYS; i++) {
			scene.busy_key = i;
			if (test_bit(i, scene.present))
				KUNIT_ASSERT_EQ(test, 0, scene_change_starved(i));
		}
		scene.busy_key = BW_KEYS;
		scene.kt->ops->sweep(scene.kt->index);
		scene.drains = false;
	}
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	KUNIT_EXPECT_NULL_MSG(test, scene.wrong, "%s at point %d: key %u", scene.wrong,
			      scene.wrong_at, scene.wrong_key);
	if (scene.wrong)
		return;
	for (i = 0; i < ARRAY_SIZE(bw_points); i++)
		KUNIT_EXPECT_NE_MSG(test, 0, scene.hits[bw_points[i].at], "%s was not passed",
				    bw_points[i].name);
	scene.writes = false;
	scene_count_chains(test);
	for (i = 0; i < BW_KEYS; i++)
		if (test_bit(i, scene.present))
			KUNIT_EXPECT_EQ(test, 0, scene_change(i, GFP_KERNEL));
	kt_settle(scene.kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(scene.kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, 0, kt_stat(scene.kt, KVTREE_STAT_INNER_NODES));
	/* All counters that go up and down are back at zero. */
	KUNIT_EXPECT_EQ(test, 0, scene_nr(BW_NR_CHAIN_RECORDS));
	for (i = BW_NR_CHAINS; i <= BW_NR_CHAINS_LAST; i++)
		KUNIT_EXPECT_EQ(test, 0, scene_nr(i));
	KUNIT_EXPECT_EQ(test, 0, scene_nr(BW_NR_RECORD_BYTES));
}

static void readers_are_right_between_any_two_steps(struct kunit *test)
{
	scene_run(test, false, false);
}

static void a_writer_between_any_two_steps_finishes_them_and_loses_nothing(struct kunit *test)
{
	enum bw_nr nr;

	scene_run(test, true, false);
	KUNIT_EXPECT_NE(test, 0, scene.helped);
	KUNIT_EXPECT_NE(test, 0, scene.split_in_merge);
	KUNIT_EXPECT_NE(test, 0, scene.merge_in_split);
	/* Exchanges of all kinds have succeeded, and failed. */
	for (nr = 0; nr <= BW_NR_MERGE_FAIL; nr++)
		KUNIT_EXPECT_NE_MSG(test, 0, scene_nr(nr), "%s",
				    kvt_bwtree_ops.stats[nr].name);
}

#ifdef CONFIG_FAILSLAB
/* A thread without memory between two steps leaves the rest to others, or to its retry. */
static void steps_without_memory_are_finished_later(struct kunit *test)
{
	scene_run(test, true, true);
	KUNIT_EXPECT_NE(test, 0, scene.starved);
}
#endif

static void expect_all_found(struct kunit *test)
{
	scene.busy_key = BW_KEYS;
	rcu_read_lock();
	scene_get_all(0);
	scene_scan(0, false);
	scene_scan(0, true);
	rcu_read_unlock();
	KUNIT_EXPECT_NULL_MSG(test, scene.wrong, "%s: key %u", scene.wrong, scene.wrong_key);
}

/* Pages grow until puts are refused; existing keys stay and can be removed. */
static void without_ids_puts_fail_and_nothing_is_lost(struct kunit *test)
{
	unsigned int i, nr;
	int err = 0;

	scene_open(test, false);
	bw_tree(scene.kt->index)->map->limit = 3;
	for (nr = 0; nr < BW_KEYS && !err; nr += !err)
		err = scene_change(nr, GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, -ENOMEM, err);
	expect_all_found(test);
	for (i = 0; i < nr; i += 2)
		KUNIT_ASSERT_EQ(test, 0, scene_change(i, GFP_KERNEL));
	expect_all_found(test);
	bw_tree(scene.kt->index)->map->limit = BW_IDS_MAX;
	for (i = nr; i < BW_KEYS; i++)
		KUNIT_ASSERT_EQ(test, 0, scene_change(i, GFP_KERNEL));
	expect_all_found(test);
}

static int scene_begin(struct kunit_suite *suite)
{
#ifdef CONFIG_FAILSLAB
	return kt_failing_begin(suite);
#else
	return 0;
#endif
}

/* The module may be unloaded when no thread is in the hook any more. */
static void scene_end(struct kunit_suite *suite)
{
#ifdef CONFIG_FAILSLAB
	kt_failing_end(suite);
#endif
	synchronize_rcu();
}

static struct kunit_case bwtree_cases[] = {
	KT_CASE_LONG(readers_are_right_between_any_two_steps),
	KT_CASE_LONG(a_writer_between_any_two_steps_finishes_them_and_loses_nothing),
#ifdef CONFIG_FAILSLAB
	KT_CASE_LONG(steps_without_memory_are_finished_later),
#endif
	KUNIT_CASE(without_ids_puts_fail_and_nothing_is_lost),
	{}
};

static struct kunit_suite bwtree_suite = {
	.name = "kvtree_bwtree_steps",
	.suite_init = scene_begin,
	.suite_exit = scene_end,
	.test_cases = bwtree_cases,
};

kunit_test_suite(bwtree_suite);
