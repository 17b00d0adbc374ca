// SPDX-License-Identifier: GPL-2.0
/* The nodes that the Masstree engine ends up with, according to its counters. */
#include <linux/math.h>
#include <linux/unaligned.h>

#include "lib.h"
#include "masstree/node.h"

#define NR_KEYS	(40000 / KT_SLOWER)

struct numbers {
	struct kt *kt;
	u32 prefix;		/* bytes that all keys share */
	u8 key[64];
};

static struct numbers *numbers(struct kunit *test, u32 prefix)
{
	struct numbers *n = kunit_kzalloc(test, sizeof(*n), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, n);
	n->kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	n->prefix = prefix;
	memset(n->key, 'p', prefix);
	return n;
}

static struct kvt_key number(struct numbers *n, u32 i)
{
	put_unaligned_be64(i, n->key + n->prefix);
	return KT_BYTES(n->key, n->prefix + 8);
}

static void put_number(struct numbers *n, u32 i)
{
	const struct kvt_key key = number(n, i);

	KUNIT_ASSERT_EQ(n->kt->test, 0, kt_put(n->kt, &key, NULL));
	cond_resched();
}

static void del_number(struct numbers *n, u32 i)
{
	const struct kvt_key key = number(n, i);

	KUNIT_ASSERT_EQ(n->kt->test, 0, kt_del(n->kt, &key, NULL));
	cond_resched();
}

static void expect_stat(struct numbers *n, enum kvtree_stat id, u64 want)
{
	KUNIT_EXPECT_EQ_MSG(n->kt->test, want, kt_stat(n->kt, id), "counter %d", id);
}

/* The number of inner nodes if all but the last of each level are full. */
static u64 full_inners(u64 children)
{
	u64 sum = 0;

	while (children > 1) {
		children = DIV_ROUND_UP(children, MT_INNER_WIDTH + 1);
		sum += children;
	}
	return sum;
}

static void expect_full(struct numbers *n, u32 nr, u32 layers)
{
	u64 leaves = DIV_ROUND_UP(nr, MT_LEAF_WIDTH), cells;

	expect_stat(n, KVTREE_STAT_LAYERS, layers);
	expect_stat(n, KVTREE_STAT_LEAF_NODES, leaves + layers);
	/* Some of the first layer have room for cells. */
	cells = kt_stat(n->kt, KVTREE_STAT_LEAF_BYTES) - (leaves + layers) * sizeof(struct mt_leaf);
	KUNIT_EXPECT_EQ(n->kt->test, 0, cells % MT_CELLS_BYTES);
	KUNIT_EXPECT_LE(n->kt->test, cells, leaves * MT_CELLS_BYTES);
	expect_stat(n, KVTREE_STAT_INNER_NODES, full_inners(leaves));
	expect_stat(n, KVTREE_STAT_SPLIT_LEAF, leaves - 1);
}

static void expect_count(struct numbers *n, s64 want)
{
	KUNIT_EXPECT_EQ(n->kt->test, want, kt_count(n->kt, false));
	KUNIT_EXPECT_EQ(n->kt->test, want, kt_count(n->kt, true));
}

static void expect_empty(struct numbers *n)
{
	expect_count(n, 0);
	kt_settle(n->kt);
	expect_stat(n, KVTREE_STAT_LEAF_NODES, 1);
	expect_stat(n, KVTREE_STAT_INNER_NODES, 0);
	expect_stat(n, KVTREE_STAT_LAYERS, 0);
}

static void an_ascending_load_leaves_full_nodes(struct kunit *test)
{
	struct numbers *n = numbers(test, 0);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, i);
	expect_full(n, NR_KEYS, 0);
	expect_count(n, NR_KEYS);
}

static void a_descending_load_leaves_full_nodes(struct kunit *test)
{
	struct numbers *n = numbers(test, 0);
	u32 i;

	for (i = NR_KEYS; i-- > 0; )
		put_number(n, i);
	expect_full(n, NR_KEYS, 0);
	expect_count(n, NR_KEYS);
}

static void an_ascending_load_below_a_prefix_leaves_full_nodes(struct kunit *test)
{
	struct numbers *n = numbers(test, 16);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, i);
	expect_full(n, NR_KEYS, 2);
	expect_count(n, NR_KEYS);
}

static void a_descending_load_below_a_prefix_leaves_full_nodes(struct kunit *test)
{
	struct numbers *n = numbers(test, 16);
	u32 i;

	for (i = NR_KEYS; i-- > 0; )
		put_number(n, i);
	expect_full(n, NR_KEYS, 2);
	expect_count(n, NR_KEYS);
}

/* Each number once: the step has no divisor in common with the count. */
static u32 scattered(u32 i)
{
	return (u64)i * 7919 % NR_KEYS;
}

static void a_scattered_load_leaves_half_full_nodes_at_least(struct kunit *test)
{
	struct numbers *n = numbers(test, 0);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, scattered(i));
	KUNIT_EXPECT_LE(test, kt_stat(n->kt, KVTREE_STAT_LEAF_NODES),
			DIV_ROUND_UP(NR_KEYS, MT_LEAF_WIDTH / 2));
	expect_count(n, NR_KEYS);
}

static void removing_all_in_ascending_order_leaves_one_node(struct kunit *test)
{
	struct numbers *n = numbers(test, 16);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, scattered(i));
	for (i = 0; i < NR_KEYS; i++)
		del_number(n, i);
	expect_empty(n);
}

static void removing_all_in_descending_order_leaves_one_node(struct kunit *test)
{
	struct numbers *n = numbers(test, 16);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, scattered(i));
	for (i = NR_KEYS; i-- > 0; )
		del_number(n, i);
	expect_empty(n);
}

/* A queue: its memory must not grow with the number of keys that passed through it. */
static void a_queue_of_keys_takes_no_more_nodes_than_it_has_keys_for(struct kunit *test)
{
	struct numbers *n = numbers(test, 8);
	const u32 queue = 300;
	u32 i;

	for (i = 0; i < NR_KEYS; i++) {
		put_number(n, i);
		if (i >= queue)
			del_number(n, i - queue);
	}
	expect_count(n, queue);
	/* The leaf at each end may be partly filled. */
	KUNIT_EXPECT_LE(test, kt_stat(n->kt, KVTREE_STAT_LEAF_NODES),
			1 + DIV_ROUND_UP(queue, MT_LEAF_WIDTH) + 1);
	KUNIT_EXPECT_GE(test, kt_stat(n->kt, KVTREE_STAT_NODE_UNLINK),
			(NR_KEYS - queue) / MT_LEAF_WIDTH - 1);
}

/* Put and remove the same keys: an unlinking undoes every split. */
static void churn_of_the_same_keys_leaks_no_nodes(struct kunit *test)
{
	struct numbers *n = numbers(test, 8);
	const u32 nr = 1000;
	u32 round, i;

	for (round = 0; round < 20; round++) {
		for (i = 0; i < nr; i++)
			put_number(n, round & 1 ? i : nr - 1 - i);
		expect_count(n, nr);
		for (i = 0; i < nr; i++)
			del_number(n, round & 2 ? i : nr - 1 - i);
		expect_empty(n);
	}
}

static void a_root_with_one_child_makes_way_for_it(struct kunit *test)
{
	struct numbers *n = numbers(test, 0);
	u32 i;

	for (i = 0; i < NR_KEYS; i++)
		put_number(n, i);
	for (i = 3; i < NR_KEYS; i++)
		del_number(n, i);
	kt_settle(n->kt);
	expect_stat(n, KVTREE_STAT_LEAF_NODES, 1);
	expect_stat(n, KVTREE_STAT_INNER_NODES, 0);
	expect_count(n, 3);
	for (i = 3; i < NR_KEYS; i++)
		put_number(n, i);
	expect_count(n, NR_KEYS);
}

static struct kunit_case shape_cases[] = {
	KUNIT_CASE(an_ascending_load_leaves_full_nodes),
	KUNIT_CASE(a_descending_load_leaves_full_nodes),
	KUNIT_CASE(an_ascending_load_below_a_prefix_leaves_full_nodes),
	KUNIT_CASE(a_descending_load_below_a_prefix_leaves_full_nodes),
	KUNIT_CASE(a_scattered_load_leaves_half_full_nodes_at_least),
	KUNIT_CASE(removing_all_in_ascending_order_leaves_one_node),
	KUNIT_CASE(removing_all_in_descending_order_leaves_one_node),
	KUNIT_CASE(a_queue_of_keys_takes_no_more_nodes_than_it_has_keys_for),
	KUNIT_CASE(churn_of_the_same_keys_leaks_no_nodes),
	KUNIT_CASE(a_root_with_one_child_makes_way_for_it),
	{}
};

static struct kunit_suite shape_suite = {
	.name = "kvtree_masstree_shape",
	.test_cases = shape_cases,
};

kunit_test_suite(shape_suite);
