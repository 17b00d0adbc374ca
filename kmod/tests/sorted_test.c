// SPDX-License-Identifier: GPL-2.0
/*
 * Keys that are inserted together, in order: what the engines make of them, beside each other and
 * without memory.  That the result is the same as of single puts, differential_test.c shows.
 */
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "bwtree/tree.h"
#include "keys.h"
#include "masstree/node.h"
#include "thread.h"

#define SORTED_KEYS	(12000u / KT_SLOWER)
#define SORTED_THREADS	3u

/* Keys with much, little and nothing in common, and of many lengths. */
static const enum kt_kind kinds[] = {
	KT_RANDOM_8, KT_DECIMAL, KT_SHARED_9, KT_SHARED_40, KT_ZEROS, KT_PREFIXES,
};

KT_ENGINES();

static struct kt_keys *keys_make(struct kunit *test, enum kt_kind kind, unsigned int nr)
{
	struct kt_rnd rnd = kt_rnd(test);

	return kt_keys_make(test, &rnd, kind, nr);
}

/* All keys exist, once, in order. */
static void expect_all(struct kunit *test, struct kt *kt, const struct kt_keys *keys)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, keys->nr, kt_count(kt, false));
	KUNIT_EXPECT_EQ(test, keys->nr, kt_count(kt, true));
	for (i = 0; i < keys->nr; i++)
		KUNIT_ASSERT_EQ_MSG(test, 0, kt_get(kt, &keys->key[i], NULL), "key %u", i);
}

/* Some keys are inserted in runs. */
static int insert_part(struct kt *kt, const struct kt_keys *keys, unsigned int from,
		       unsigned int to)
{
	unsigned int n, done;
	int err = 0;

	for (; !err && from < to; from += n) {
		n = min(to - from, KT_SORTED_MAX);
		err = kt_insert_sorted(kt, &keys->key[from], n, NULL, &done);
		if (!err && done != n)
			err = -ENOENT;
		cond_resched();
	}
	return err;
}

/* Splits move nothing, left of other keys, too: leaves of which half moves are half full. */
static void sorted_keys_fill_the_leaves(struct kunit *test)
{
	const struct kt_engine *engine = test->param_value;
	struct kt *alone = kt_open_pages(test, engine, U64_MAX);
	struct kt *before = kt_open_pages(test, engine, U64_MAX);
	struct kt_keys *keys = keys_make(test, KT_RANDOM_8, SORTED_KEYS);
	unsigned int half = keys->nr / 2;

	KUNIT_ASSERT_EQ(test, 0, insert_part(alone, keys, 0, half));
	/* The same keys, left of others. */
	KUNIT_ASSERT_EQ(test, 0, insert_part(before, keys, half, keys->nr));
	KUNIT_ASSERT_EQ(test, 0, insert_part(before, keys, 0, half));
	expect_all(test, before, keys);
	/* Most of them needed no search of their own. */
	KUNIT_EXPECT_GT(test, atomic64_read(&alone->sorted), half * 3 / 4);
	if (engine->page_size)
		return;
	KUNIT_EXPECT_GT(test, kt_stat(alone, KVTREE_STAT_LEAF_NODES) * 5 / 2,
			kt_stat(before, KVTREE_STAT_LEAF_NODES));
	if (engine->ops == &kvt_masstree_ops)
		KUNIT_EXPECT_GT(test, half / MT_LEAF_WIDTH + 8,
				kt_stat(alone, KVTREE_STAT_LEAF_NODES));
}

/* A beginning that all keys have, eight random bytes, and an end. */
struct shape {
	u32 begin;
	u32 end;
	bool varies;			/* the end has up to this many bytes */
};

static const struct shape shapes[] = {
	{ .end = 8 },
	{ .end = 24 },
	{ .end = 40, .varies = true },
	{ .begin = 100 },
	{ .begin = 100, .end = 40, .varies = true },
	{ .begin = 400, .end = 4 },
};

static void keys_reshape(struct kunit *test, struct kt_keys *keys, const struct shape *shape)
{
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int i;
	u8 *data;
	u32 len;

	for (i = 0; i < keys->nr; i++) {
		len = shape->begin + 8 + shape->end;
		if (shape->varies)
			len -= kt_rnd_below(&rnd, shape->end + 1);
		data = kmalloc(len, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, data);
		memset(data, 'a', len);
		memcpy(data + shape->begin, keys->key[i].data, 8);
		kfree(keys->key[i].data);
		keys->key[i] = KT_BYTES(data, len);
	}
}

static void put_part(struct kunit *test, struct kt *kt, const struct kt_keys *keys,
		     unsigned int from, unsigned int to)
{
	for (; from < to; from++)
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &keys->key[from], NULL));
}

/* Two indexes with the same keys: one takes hardly more memory than the other. */
static void expect_small(struct kunit *test, struct kt *kt, struct kt *other)
{
	const struct kt_engine *engine = test->param_value;
	u64 nodes, bytes;

	kt_settle(kt);
	kt_settle(other);
	/* Of small pages, what a key more makes is not small. */
	if (engine->page_size)
		return;
	nodes = kt_stat(other, KVTREE_STAT_LEAF_NODES);
	bytes = kt_stat(other, KVTREE_STAT_LEAF_BYTES);
	KUNIT_EXPECT_GE(test, nodes + nodes / 8 + 4, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_GE(test, bytes + bytes / 8 + 4096, kt_stat(kt, KVTREE_STAT_LEAF_BYTES));
}

/* Whatever the keys look like, they take as little memory as if all were put in order. */
static void no_keys_leave_leaves_half_full(struct kunit *test)
{
	const unsigned int nr = SORTED_KEYS / 2;
	struct kt *sorted, *single;
	struct kt_keys *keys;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		keys = keys_make(test, KT_RANDOM_8, nr);
		keys_reshape(test, keys, &shapes[i]);
		sorted = kt_open_pages(test, test->param_value, U64_MAX);
		single = kt_open_pages(test, test->param_value, U64_MAX);
		/* At the end of the index, and left of other keys. */
		KUNIT_ASSERT_EQ(test, 0, insert_part(sorted, keys, nr / 2, keys->nr));
		KUNIT_ASSERT_EQ(test, 0, insert_part(sorted, keys, 0, nr / 2));
		put_part(test, single, keys, 0, keys->nr);
		expect_small(test, sorted, single);
		expect_all(test, sorted, keys);
		kt_close(sorted);
		kt_close(single);
	}
}

/* Keys in groups: those of a group begin with the same @GROUP_BEGIN bytes, which no others have. */
#define GROUP_BEGIN	96u

static void keys_group(struct kunit *test, struct kt_keys *keys, unsigned int group)
{
	unsigned int i, j;
	u8 *data;

	for (i = 0; i < keys->nr; i++) {
		data = kmalloc(GROUP_BEGIN + 8, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, data);
		for (j = 0; j < GROUP_BEGIN; j += 8)
			put_unaligned_be64(i / group, data + j);
		put_unaligned_be64(i, data + GROUP_BEGIN);
		kfree(keys->key[i].data);
		keys->key[i] = KT_BYTES(data, GROUP_BEGIN + 8);
	}
}

/* Nodes that would be split again if they were merged are left as they are. */
static void what_is_merged_is_not_split_again(struct kunit *test)
{
	static const unsigned int groups[] = { 20, 33, 44, 47 };
	struct kt_keys *keys;
	unsigned int i, j;
	struct kt *kt;
	u64 merged;

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		keys = keys_make(test, KT_RANDOM_8, SORTED_KEYS / 2);
		keys_group(test, keys, groups[i]);
		kt = kt_open_pages(test, test->param_value, U64_MAX);
		KUNIT_ASSERT_EQ(test, 0, insert_part(kt, keys, 0, keys->nr));
		/* Each round may merge what the round before has merged. */
		for (j = 0; j < 4; j++)
			kt_settle(kt);
		merged = kt_stat(kt, KVTREE_STAT_NODE_UNLINK);
		kt_settle(kt);
		kt_settle(kt);
		KUNIT_EXPECT_EQ_MSG(test, merged, kt_stat(kt, KVTREE_STAT_NODE_UNLINK),
				    "groups of %u keys", groups[i]);
		expect_all(test, kt, keys);
		kt_close(kt);
	}
}

/* Insert a key, and one that is far away from it. */
static void insert_two(struct kunit *test, struct kt *kt, const struct kt_keys *keys,
		       unsigned int near, unsigned int far)
{
	const struct kvt_key two[] = { keys->key[near], keys->key[far] };
	u64 versions[2];
	unsigned int done;

	KUNIT_ASSERT_EQ(test, 0, kt_insert_sorted(kt, two, 2, versions, &done));
	KUNIT_ASSERT_EQ(test, 2, done);
}

/* Beside a full leaf, sparse keys that come from the right do not each get one of their own. */
static void sparse_keys_from_the_right_share_leaves(struct kunit *test)
{
	struct kt *sorted = kt_open_pages(test, test->param_value, U64_MAX);
	struct kt *single = kt_open_pages(test, test->param_value, U64_MAX);
	struct kt_keys *keys = keys_make(test, KT_RANDOM_8, SORTED_KEYS);
	/* Full leaves of Masstree. */
	const unsigned int part = 10 * MT_LEAF_WIDTH;
	unsigned int from, to, i;

	for (from = 0; from < keys->nr; from += 2 * part) {
		to = min(from + part, keys->nr);
		KUNIT_ASSERT_EQ(test, 0, insert_part(sorted, keys, from, to));
		put_part(test, single, keys, from, to);
	}
	for (i = keys->nr - 1; i--;) {
		if (i / part % 2 == 0)
			continue;
		insert_two(test, sorted, keys, i, keys->nr - 1);
		put_part(test, single, keys, i, i + 1);
	}
	put_part(test, single, keys, keys->nr - 1, keys->nr);
	expect_all(test, sorted, keys);
	expect_small(test, sorted, single);
}

/* Leaves that have keys on both sides of each new one are not rewritten for each of them. */
static void keys_between_others_rewrite_few_leaves(struct kunit *test)
{
	const unsigned int rewritten = KVT_STAT_ENGINE + BW_NR_CONSOLIDATE;
	const struct kt_engine *engine = test->param_value;
	struct kt *sorted = kt_open_pages(test, test->param_value, U64_MAX);
	struct kt *single = kt_open_pages(test, test->param_value, U64_MAX);
	struct kt_keys *keys = keys_make(test, KT_RANDOM_8, SORTED_KEYS);
	unsigned int i, half = keys->nr / 2;
	u64 before[2];

	for (i = 0; i < keys->nr; i += 2) {
		put_part(test, sorted, keys, i, i + 1);
		put_part(test, single, keys, i, i + 1);
	}
	before[0] = kvt_stats_read(&sorted->stats, rewritten);
	before[1] = kvt_stats_read(&single->stats, rewritten);
	/* The others, in order. */
	for (i = 0; i < half; i++)
		swap(keys->key[i], keys->key[2 * i + 1]);
	KUNIT_ASSERT_EQ(test, 0, insert_part(sorted, keys, 0, half));
	put_part(test, single, keys, 0, half);
	expect_all(test, sorted, keys);
	if (engine->ops == &kvt_bwtree_ops)
		KUNIT_EXPECT_GE(test, kvt_stats_read(&single->stats, rewritten) - before[1] + 8,
				kvt_stats_read(&sorted->stats, rewritten) - before[0]);
}

/* A thread that inserts every third part of a set. */
struct part_thread {
	struct kt_thread thread;
	struct kt *kt;
	const struct kt_keys *keys;
	unsigned int first;
	unsigned int part;		/* keys of a part */
};

static int insert_parts(void *arg)
{
	struct part_thread *t = arg;
	unsigned int from = t->first * t->part, to;
	int err = 0;

	for (; !err && from < t->keys->nr; from += SORTED_THREADS * t->part) {
		to = min(from + t->part, t->keys->nr);
		err = insert_part(t->kt, t->keys, from, to);
	}
	return err;
}

static void insert_by_threads(struct kunit *test, struct kt *kt, const struct kt_keys *keys,
			      unsigned int part)
{
	struct part_thread *t = kunit_kcalloc(test, SORTED_THREADS, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (i = 0; i < SORTED_THREADS; i++) {
		t[i] = (struct part_thread) { .kt = kt, .keys = keys, .first = i, .part = part };
		KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&t[i].thread, i & 1, insert_parts, &t[i]));
	}
	for (i = 0; i < SORTED_THREADS; i++)
		kt_thread_start(&t[i].thread);
	for (i = 0; i < SORTED_THREADS; i++)
		KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&t[i].thread));
}

/* As workers of a recovery do it: each has a part between those of others. */
static void runs_beside_each_other_lose_no_key(struct kunit *test)
{
	static const unsigned int parts[] = { 1, 50, 400 };
	struct kt_keys *keys;
	unsigned int i;
	struct kt *kt;

	kt_need_two_cpus(test);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		keys = keys_make(test, kinds[i], SORTED_KEYS / 2);
		kt = kt_open_pages(test, test->param_value, U64_MAX);
		insert_by_threads(test, kt, keys, parts[i % ARRAY_SIZE(parts)]);
		expect_all(test, kt, keys);
		kt_close(kt);
	}
}

#ifdef CONFIG_FAILSLAB

/* Few enough that some fail in the engine. */
#define FAILING_RUN	64u

/*
 * The n-th allocation fails, for n = 1, 2, ...: the first keys exist then, with the versions
 * that were returned, and no others.
 */
static void a_run_without_memory_inserts_the_first_keys(struct kunit *test)
{
	struct kt_keys *keys = keys_make(test, KT_SHARED_9, 600);
	struct kt *kt = kt_open_pages(test, test->param_value, U64_MAX);
	unsigned int from = 0, n, done, i;
	u64 versions[FAILING_RUN], version;
	bool failed = true;
	int err;

	for (n = 1; from < keys->nr; n = failed ? n + 1 : 1, from += done) {
		i = min(keys->nr - from, FAILING_RUN);
		WRITE_ONCE(current->fail_nth, n);
		err = kt_insert_sorted(kt, &keys->key[from], i, versions, &done);
		failed = !xchg(&current->fail_nth, 0);
		if (!failed)
			KUNIT_ASSERT_EQ(test, 0, err);
		else if (err)
			KUNIT_ASSERT_EQ(test, -ENOMEM, err);
		for (i = 0; i < done; i++) {
			KUNIT_ASSERT_EQ(test, 0, kt_get(kt, &keys->key[from + i], &version));
			KUNIT_ASSERT_EQ(test, versions[i], version);
		}
		KUNIT_ASSERT_EQ_MSG(test, from + done, kt_count(kt, false), "n = %u", n);
	}
	expect_all(test, kt, keys);
}

#endif

static struct kunit_case sorted_cases[] = {
	KT_CASE(sorted_keys_fill_the_leaves),
	KT_CASE(no_keys_leave_leaves_half_full),
	KT_CASE(what_is_merged_is_not_split_again),
	KT_CASE(sparse_keys_from_the_right_share_leaves),
	KT_CASE(keys_between_others_rewrite_few_leaves),
	KT_CASE(runs_beside_each_other_lose_no_key),
#ifdef CONFIG_FAILSLAB
	KT_CASE(a_run_without_memory_inserts_the_first_keys),
#endif
	{}
};

static struct kunit_suite sorted_suite = {
	.name = "kvtree_sorted",
	.test_cases = sorted_cases,
#ifdef CONFIG_FAILSLAB
	.suite_init = kt_failing_begin,
	.suite_exit = kt_failing_end,
#endif
};

kunit_test_suite(sorted_suite);
