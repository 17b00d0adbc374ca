// SPDX-License-Identifier: GPL-2.0
/* The table of Masstree's first layer: see masstree/table.c. */
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "lib.h"
#include "masstree/table.h"

/* Enough for four levels. */
#define KEYS		4000u
/* Nodes that a lookup reads: the one in the table, and a leaf. */
#define BY_TABLE	2u
/* One more, if the first has split since. */
#define BY_HEIR		3u

/* No worker makes a table before a sweep does. */
static struct kt *open_masstree(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);

	disable_delayed_work_sync(&mt_tree(kt->index)->table_work);
	disable_delayed_work_sync(&mt_tree(kt->index)->check_work);
	return kt;
}

static struct mt_tree *tree_of(struct kt *kt)
{
	return mt_tree(kt->index);
}

static void expect_table(struct kt *kt, bool want)
{
	KUNIT_EXPECT_EQ(kt->test, want, !!READ_ONCE(tree_of(kt)->table));
}

/* Numbers in random order. */
static struct kvt_key make_key(u8 *bytes, u32 number)
{
	put_unaligned_be64(number * 0x9e3779b97f4a7c15ull, bytes);
	return KT_BYTES(bytes, 8);
}

/* Hooks run in an RCU read section. */
static gfp_t gfp = GFP_KERNEL;

static int put(struct kt *kt, u32 number)
{
	u8 bytes[8];
	struct kvt_key key = make_key(bytes, number);

	return kt_put_gfp(kt, &key, gfp, NULL);
}

static int del(struct kt *kt, u32 number)
{
	u8 bytes[8];
	struct kvt_key key = make_key(bytes, number);

	return kt_del_gfp(kt, &key, gfp, NULL);
}

static void put_all(struct kt *kt, u32 from, u32 to)
{
	for (; from < to; from++)
		KUNIT_ASSERT_EQ(kt->test, 0, put(kt, from));
}

static unsigned int nodes_read;

static void count_nodes(enum kvt_park at)
{
	if (at == KVT_PARK_READ_CHILD)
		nodes_read++;
}

static void clear_hook(void *unused)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
}

static void set_hook(struct kt *kt, void (*hook)(enum kvt_park at))
{
	KUNIT_ASSERT_EQ(kt->test, 0, kunit_add_action_or_reset(kt->test, clear_hook, NULL));
	WRITE_ONCE(kvt_park_loose_hook, hook);
}

static void unset_hook(struct kt *kt)
{
	kunit_release_action(kt->test, clear_hook, NULL);
}

/* Look a key up in two ways.  Returns how many nodes the longer one has read. */
static unsigned int look_one_up(struct kt *kt, u32 number, int want)
{
	u8 bytes[8];
	struct kvt_key key = make_key(bytes, number);
	unsigned int by_get;

	nodes_read = 0;
	KUNIT_EXPECT_EQ_MSG(kt->test, want, kt_get(kt, &key, NULL), "key %u", number);
	by_get = nodes_read;
	nodes_read = 0;
	KUNIT_EXPECT_EQ_MSG(kt->test, want ?: 8, kt_get_prefix(kt, &key, NULL), "key %u", number);
	return max(by_get, nodes_read);
}

/* Look all keys up.  Returns how many lookups read more than @nodes. */
static unsigned int look_up(struct kt *kt, u32 from, u32 to, int want, unsigned int nodes)
{
	unsigned int more = 0;

	set_hook(kt, count_nodes);
	for (; from < to; from++)
		more += look_one_up(kt, from, want) > nodes;
	unset_hook(kt);
	return more;
}

/* A tree with a table of all its keys. */
static struct kt *open_tabled(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS);
	kt_settle(kt);
	expect_table(kt, true);
	return kt;
}

static void a_lookup_begins_above_its_leaf(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS);
	KUNIT_EXPECT_EQ(test, KEYS, look_up(kt, 0, KEYS, 0, BY_HEIR));
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, KEYS, 0, BY_TABLE));
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, KEYS, 2 * KEYS, -ENOENT, BY_TABLE));
	/* The greatest slice. */
	set_hook(kt, count_nodes);
	nodes_read = 0;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_get(kt, &KT_BYTES("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
					      NULL));
	KUNIT_EXPECT_EQ(test, BY_TABLE, nodes_read);
	unset_hook(kt);
}

/* If the root is the only node above those in the table, nothing is above it when it splits. */
static void the_root_splits(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	u64 grown;
	u32 nr;

	for (nr = 0; mt_inner(tree_of(kt)->root)->level < 2; nr += 50)
		put_all(kt, nr, nr + 50);
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, nr, 0, BY_TABLE));
	grown = kt_stat(kt, KVTREE_STAT_ROOT_GROW);
	put_all(kt, nr, KEYS);
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_ROOT_GROW), grown);
	look_up(kt, 0, KEYS, 0, 0);
	look_up(kt, KEYS, 2 * KEYS, -ENOENT, 0);
}

/* Until there is another table, and although none of its entries is right any more. */
static void a_node_that_splits_is_found_below_its_parent(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	unsigned int by_heir, by_root;

	put_all(kt, KEYS, KEYS + KEYS / 4);
	by_heir = look_up(kt, 0, KEYS + KEYS / 4, 0, BY_TABLE);
	by_root = look_up(kt, 0, KEYS + KEYS / 4, 0, BY_HEIR);
	KUNIT_EXPECT_GT(test, by_heir, KEYS / 8);
	KUNIT_EXPECT_LE(test, by_root, by_heir / 4);
	put_all(kt, KEYS + KEYS / 4, 3 * KEYS);
	look_up(kt, 0, 3 * KEYS, 0, 0);
	look_up(kt, 3 * KEYS, 4 * KEYS, -ENOENT, 0);
}

/*
 * Pretend that each node of the table has split so often that its next split makes a turn; or, with
 * @passed, that other changes have made a turn already.
 */
static void age_nodes(struct kt *kt, unsigned int passed)
{
	const struct mt_table *t = tree_of(kt)->table;
	struct mt_node *node;
	u32 i;

	for (i = 0; i < t->nr; i++) {
		node = mt_ref_node(t, t->entry[i].ref);
		WRITE_ONCE(node->version, node->version % MT_VSPLIT +
			   (MT_TABLE_TURN - 1 + passed) * MT_VSPLIT);
	}
}

/* A node that splits again and again has all of its numbers in an entry at some time. */
static void use_until_too_many_splits(struct kunit *test, unsigned int passed)
{
	struct kt *kt = open_tabled(test);
	u32 nr = KEYS;
	u64 splits;

	age_nodes(kt, passed);
	kt_settle(kt);
	splits = kt_stat(kt, KVTREE_STAT_SPLIT_INNER);
	for (; kt_stat(kt, KVTREE_STAT_SPLIT_INNER) == splits; nr++)
		put_all(kt, nr, nr + 1);
	expect_table(kt, true);
	put_all(kt, nr, 2 * KEYS);
	expect_table(kt, false);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	look_up(kt, 0, 2 * KEYS, 0, 0);
	kt_settle(kt);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, 2 * KEYS, 0, BY_TABLE));
}

static void a_table_is_not_used_after_too_many_splits(struct kunit *test)
{
	use_until_too_many_splits(test, 0);
}

static void a_turn_that_was_no_split_counts_later(struct kunit *test)
{
	use_until_too_many_splits(test, 3);
}

/* Remove the keys with a first byte from @first up to but not including @end. */
static void del_range(struct kt *kt, u32 nr, u8 first, u8 end)
{
	struct kvt_key key;
	u8 bytes[8];
	u32 i;

	for (i = 0; i < nr; i++) {
		key = make_key(bytes, i);
		if (bytes[0] >= first && bytes[0] < end)
			KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &key, gfp, NULL));
	}
}

static void a_deleted_node_stays_until_no_table_leads_to_it(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	u32 i;

	del_range(kt, KEYS, 0, 0x80);
	kt_flush(kt);
	KUNIT_EXPECT_FALSE(test, llist_empty(&tree_of(kt)->graves));
	/* As many keys as before, most of them where there were none. */
	for (i = 0; i < KEYS; i++)
		put(kt, i);
	look_up(kt, 0, KEYS, 0, 0);
	kt_settle(kt);
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, KEYS, 0, BY_TABLE));
	for (i = 0; i < KEYS - 1; i++)
		KUNIT_EXPECT_EQ(test, 0, del(kt, i));
	kt_settle(kt);
	expect_table(kt, false);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, KEYS - 1, KEYS, 0, 1));
}

/* Entries lead to the nodes above those that have split, and then these are removed. */
static void a_deleted_heir_stays_until_no_table_leads_to_it(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	u32 i;

	put_all(kt, KEYS, KEYS + KEYS / 4);
	for (i = 1; i < KEYS + KEYS / 4; i++)
		KUNIT_EXPECT_EQ(test, 0, del(kt, i));
	kt_flush(kt);
	look_up(kt, 0, 1, 0, 0);
	look_up(kt, 1, KEYS + KEYS / 4, -ENOENT, 0);
}

static u64 inner_nodes(struct kt *kt)
{
	return kt_stat(kt, KVTREE_STAT_INNER_NODES);
}

/* There is room for one table, not for two. */
static void a_full_store_gets_a_table_in_the_place_of_the_last(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	u64 nodes;

	nodes = inner_nodes(kt);
	del_range(kt, KEYS, 0, 0x60);
	KUNIT_EXPECT_FALSE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	kt_leave(kt, 0);
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_GT(test, nodes, inner_nodes(kt));
}

/* A table must not keep a full store full. */
static void a_table_that_cannot_be_replaced_is_given_up(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	u64 nodes;

	del_range(kt, KEYS, 0, 0x20);
	KUNIT_EXPECT_FALSE(test, llist_empty(&tree_of(kt)->graves));
	put_all(kt, KEYS, 3 * KEYS);
	kt_leave(kt, 0);
	kt_settle(kt);
	expect_table(kt, false);
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	look_up(kt, KEYS, 3 * KEYS, 0, 0);
	nodes = inner_nodes(kt);
	del_range(kt, KEYS, 0x20, 0x60);
	for (u32 i = KEYS; i < 2 * KEYS; i++)
		KUNIT_EXPECT_EQ(test, 0, del(kt, i));
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_GE(test, nodes, inner_nodes(kt));
	kt_leave(kt, S32_MAX);
	kt_settle(kt);
	expect_table(kt, true);
}

/* Changes during the making of a table. */
static struct {
	struct kt *kt;
	void (*change)(void);
	unsigned int when;		/* how many nodes were read */
	unsigned int nr;		/* of keys */
	bool done;
} meanwhile;

/* While the children of the first node of level 2 are read, and when they are entries. */
#define AT_FIRST	3
#define AT_SECOND	(MT_INNER_WIDTH + 3)

static void change_meanwhile(enum kvt_park at)
{
	if (at != KVT_PARK_TABLE_READ || meanwhile.done || --meanwhile.when)
		return;
	meanwhile.done = true;
	gfp = GFP_NOWAIT;
	meanwhile.change();
	gfp = GFP_KERNEL;
}

static void settle_meanwhile(struct kt *kt, unsigned int when, void (*change)(void))
{
	memset(&meanwhile, 0, sizeof(meanwhile));
	meanwhile.kt = kt;
	meanwhile.when = when;
	meanwhile.change = change;
	set_hook(kt, change_meanwhile);
	kt_settle(kt);
	unset_hook(kt);
	KUNIT_EXPECT_TRUE(kt->test, meanwhile.done);
}

/* Where nodes were read, and where they are yet to be: few, since a table has little room. */
static void put_some(void)
{
	for (; meanwhile.nr < KEYS / 4; meanwhile.nr++)
		KUNIT_EXPECT_EQ(meanwhile.kt->test, 0, put(meanwhile.kt, KEYS + meanwhile.nr));
}

static void split_while_a_table_is_made(struct kunit *test, unsigned int when)
{
	struct kt *kt = open_masstree(test);
	u64 splits;

	put_all(kt, 0, KEYS);
	splits = kt_stat(kt, KVTREE_STAT_SPLIT_INNER);
	settle_meanwhile(kt, when, put_some);
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_SPLIT_INNER), splits);
	expect_table(kt, true);
	/* Some of its entries lead to nodes that have split since. */
	if (when == AT_SECOND)
		KUNIT_EXPECT_NE(test, 0, look_up(kt, 0, KEYS + meanwhile.nr, 0, BY_TABLE));
	look_up(kt, 0, KEYS + meanwhile.nr, 0, 0);
	look_up(kt, KEYS + meanwhile.nr, 2 * KEYS, -ENOENT, 0);
	kt_settle(kt);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, KEYS + meanwhile.nr, 0, BY_TABLE));
}

static void splits_while_a_table_is_made_do_no_harm(struct kunit *test)
{
	split_while_a_table_is_made(test, AT_FIRST);
	split_while_a_table_is_made(test, AT_SECOND);
}

/* More nodes than the table being made has room for: it is made another time. */
static void put_many(void)
{
	for (; meanwhile.nr < KEYS; meanwhile.nr++)
		KUNIT_EXPECT_EQ(meanwhile.kt->test, 0, put(meanwhile.kt, KEYS + meanwhile.nr));
}

static void put_far(void)
{
	for (; meanwhile.nr < 2 * KEYS; meanwhile.nr++)
		KUNIT_EXPECT_EQ(meanwhile.kt->test, 0, put(meanwhile.kt, 3 * KEYS + meanwhile.nr));
}

static void a_table_has_room_for_so_many(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS);
	settle_meanwhile(kt, AT_FIRST, put_many);
	expect_table(kt, false);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	kt_settle(kt);
	expect_table(kt, true);
	/* There is a table, which stays, with its graves. */
	del_range(kt, KEYS, 0, 0x40);
	put_all(kt, 2 * KEYS, 3 * KEYS);
	settle_meanwhile(kt, AT_FIRST, put_far);
	expect_table(kt, true);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	kt_settle(kt);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 3 * KEYS, 5 * KEYS, 0, BY_TABLE));
}

static void del_read(void)
{
	del_range(meanwhile.kt, KEYS, 0, 0x10);
}

/* The table leads to nodes that were deleted before it was published. */
static void nodes_that_go_while_a_table_is_made_stay(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key;
	u8 bytes[8];
	u32 i;

	put_all(kt, 0, KEYS);
	settle_meanwhile(kt, AT_SECOND, del_read);
	kt_flush(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_FALSE(test, llist_empty(&tree_of(kt)->graves));
	for (i = 0; i < KEYS; i++) {
		key = make_key(bytes, i);
		KUNIT_EXPECT_EQ(test, bytes[0] < 0x10 ? -ENOENT : 0, kt_get(kt, &key, NULL));
	}
	kt_settle(kt);
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
}

/* Pretend to the counter that nodes have split this often. */
static void count_turns(void)
{
	tree_of(meanwhile.kt)->table_turns += MT_TABLE_TURNS;
}

static void a_table_that_took_too_long_is_not_used(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS);
	settle_meanwhile(kt, AT_FIRST, count_turns);
	expect_table(kt, false);
	KUNIT_EXPECT_TRUE(test, !!tree_of(kt)->table_made);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	look_up(kt, 0, KEYS, 0, 0);
	kt_settle(kt);
	expect_table(kt, true);
}

/* There is no room for a table, and later there is. */
static void without_memory_there_is_no_table(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS);
	kt_leave(kt, 0);
	kt_settle(kt);
	expect_table(kt, false);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	look_up(kt, 0, KEYS, 0, 0);
	kt_leave(kt, S32_MAX);
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
}

/* Adjacent keys, so that all nodes above their leaves are in one bucket. */
static void put_crowd(struct kt *kt, u64 first, unsigned int nr)
{
	u8 bytes[8];

	for (; nr; nr--) {
		put_unaligned_be64(first++, bytes);
		KUNIT_ASSERT_EQ(kt->test, 0, kt_put(kt, &KT_BYTES(bytes, 8), NULL));
	}
}

static void del_crowd(struct kt *kt, u64 first, unsigned int nr)
{
	u8 bytes[8];

	for (; nr; nr--) {
		put_unaligned_be64(first++, bytes);
		KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &KT_BYTES(bytes, 8), gfp, NULL));
	}
}

static void find_crowd(struct kt *kt, u64 first, unsigned int nr)
{
	u8 bytes[8];

	set_hook(kt, count_nodes);
	for (; nr; nr--) {
		put_unaligned_be64(first++, bytes);
		nodes_read = 0;
		KUNIT_EXPECT_EQ(kt->test, 0, kt_get(kt, &KT_BYTES(bytes, 8), NULL));
		KUNIT_EXPECT_EQ(kt->test, BY_TABLE, nodes_read);
	}
	unset_hook(kt);
}

static u32 most_in_a_bucket(struct kt *kt)
{
	const struct mt_table *t = tree_of(kt)->table;
	u32 b, most = 0;

	for (b = 0; b < t->nr_buckets; b++)
		most = max(most, t->bucket[b + 1] - t->bucket[b]);
	return most;
}

static void crowded_buckets_are_searched(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, 3 * KEYS);
	put_crowd(kt, 0, KEYS / 16);
	put_crowd(kt, BIT_ULL(62), KEYS / 8);
	put_crowd(kt, 1 - (u64)KEYS / 16, KEYS / 16);
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_GT(test, most_in_a_bucket(kt), MT_TABLE_NEAR);
	find_crowd(kt, 0, KEYS / 16);
	find_crowd(kt, BIT_ULL(62), KEYS / 8);
	find_crowd(kt, 1 - (u64)KEYS / 16, KEYS / 16);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, 3 * KEYS, 0, BY_TABLE));
}

/* And no table is made before there are many more nodes. */
static void uneven_slices_get_no_table(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put_all(kt, 0, KEYS / 4);
	put_crowd(kt, BIT_ULL(62), KEYS);
	kt_settle(kt);
	expect_table(kt, false);
	put_all(kt, KEYS / 4, KEYS / 2);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
	put_all(kt, KEYS / 2, 6 * KEYS);
	KUNIT_EXPECT_TRUE(test, mt_table_is_old(tree_of(kt)));
	kt_settle(kt);
	expect_table(kt, true);
	KUNIT_EXPECT_EQ(test, 0, look_up(kt, 0, 6 * KEYS, 0, BY_TABLE));
}

static void del_half_a_crowd(void)
{
	del_crowd(meanwhile.kt, BIT_ULL(62), KEYS / 2);
}

/* If no table is worth making, removed nodes are not kept for one. */
static void without_a_table_there_are_no_graves(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	u64 nodes;

	put_all(kt, 0, KEYS / 4);
	put_crowd(kt, BIT_ULL(62), 2 * KEYS);
	nodes = inner_nodes(kt);
	settle_meanwhile(kt, AT_SECOND, del_half_a_crowd);
	expect_table(kt, false);
	KUNIT_EXPECT_FALSE(test, mt_table_is_old(tree_of(kt)));
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_GT(test, nodes, inner_nodes(kt));
	nodes = inner_nodes(kt);
	del_crowd(kt, BIT_ULL(62) + KEYS / 2, KEYS / 2);
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree_of(kt)->graves));
	KUNIT_EXPECT_GT(test, nodes, inner_nodes(kt));
}

/* A lookup has read its entry, and not yet the node. */
static void split_a_node_too_often(enum kvt_park at)
{
	struct mt_tree *tree = tree_of(meanwhile.kt);
	struct mt_node *node;
	u64 version;

	if (at != KVT_PARK_READ_CHILD || meanwhile.done)
		return;
	meanwhile.done = true;
	node = mt_ref_node(tree->table, tree->table->entry[meanwhile.when].ref);
	version = READ_ONCE(node->version);
	gfp = GFP_NOWAIT;
	put_all(meanwhile.kt, KEYS, 3 * KEYS);
	gfp = GFP_KERNEL;
	KUNIT_EXPECT_NE(meanwhile.kt->test, mt_ref_vsplit(version),
			mt_ref_vsplit(READ_ONCE(node->version)));
	/* Pretend 2^14 splits: the number is the same again, and the table is out of use. */
	WRITE_ONCE(node->version, READ_ONCE(node->version) % MT_VSPLIT +
		   version / MT_VSPLIT * MT_VSPLIT);
	WRITE_ONCE(tree->table, NULL);
}

static void a_table_that_is_out_of_use_finds_nothing(struct kunit *test)
{
	struct kt *kt = open_tabled(test);
	u32 i, last = 0;
	u64 bound, slice = 0;
	u8 bytes[8];

	/* A split will move the last key of the node to another. */
	memset(&meanwhile, 0, sizeof(meanwhile));
	meanwhile.kt = kt;
	meanwhile.when = tree_of(kt)->table->nr / 2;
	bound = tree_of(kt)->table->entry[meanwhile.when + 1].bound;
	for (i = 0; i < KEYS; i++) {
		make_key(bytes, i);
		if (get_unaligned_be64(bytes) < bound && get_unaligned_be64(bytes) > slice) {
			slice = get_unaligned_be64(bytes);
			last = i;
		}
	}
	set_hook(kt, split_a_node_too_often);
	make_key(bytes, last);
	KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &KT_BYTES(bytes, 8), NULL));
	unset_hook(kt);
	KUNIT_EXPECT_TRUE(test, meanwhile.done);
}

/* The worker may wait, or get no CPU, for a while. */
static void wait_until(struct kt *kt, bool (*is_so)(const struct mt_tree *tree))
{
	unsigned int n;

	for (n = 0; !is_so(tree_of(kt)) && n < 12000; n++)
		usleep_range(10000, 20000);
	KUNIT_EXPECT_TRUE(kt->test, is_so(tree_of(kt)));
}

static bool is_there(const struct mt_tree *tree)
{
	return READ_ONCE(tree->table);
}

static bool is_up_to_date(const struct mt_tree *tree)
{
	return is_there(tree) && !mt_table_is_old(tree);
}

static bool has_failed(const struct mt_tree *tree)
{
	return READ_ONCE(tree->table_enough) < 0;
}

static void the_worker_makes_tables(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);

	put_all(kt, 0, KEYS);
	wait_until(kt, is_up_to_date);
	put_all(kt, KEYS, 4 * KEYS);
	wait_until(kt, is_up_to_date);
	del_range(kt, 4 * KEYS, 0, 0xc0);
	wait_until(kt, is_up_to_date);
	/* Not concurrently with the worker, which also reads nodes. */
	disable_delayed_work_sync(&tree_of(kt)->table_work);
	disable_delayed_work_sync(&tree_of(kt)->check_work);
	look_up(kt, 4 * KEYS, 5 * KEYS, -ENOENT, 0);
}

/* It tries again although nothing has changed. */
static void the_worker_waits_for_memory(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = tree_of(kt);

	put_all(kt, 0, KEYS);
	kt_leave(kt, 0);
	enable_delayed_work(&tree->table_work);
	mt_table_later(tree);
	wait_until(kt, has_failed);
	expect_table(kt, false);
	kt_leave(kt, S32_MAX);
	wait_until(kt, is_there);
}

static struct kunit_case table_cases[] = {
	KUNIT_CASE(a_lookup_begins_above_its_leaf),
	KUNIT_CASE(the_root_splits),
	KUNIT_CASE(a_node_that_splits_is_found_below_its_parent),
	KUNIT_CASE(a_table_is_not_used_after_too_many_splits),
	KUNIT_CASE(a_turn_that_was_no_split_counts_later),
	KUNIT_CASE(a_deleted_node_stays_until_no_table_leads_to_it),
	KUNIT_CASE(a_deleted_heir_stays_until_no_table_leads_to_it),
	KUNIT_CASE(a_full_store_gets_a_table_in_the_place_of_the_last),
	KUNIT_CASE(a_table_that_cannot_be_replaced_is_given_up),
	KUNIT_CASE(splits_while_a_table_is_made_do_no_harm),
	KUNIT_CASE(a_table_has_room_for_so_many),
	KUNIT_CASE(nodes_that_go_while_a_table_is_made_stay),
	KUNIT_CASE(a_table_that_took_too_long_is_not_used),
	KUNIT_CASE(without_memory_there_is_no_table),
	KUNIT_CASE(crowded_buckets_are_searched),
	KUNIT_CASE(uneven_slices_get_no_table),
	KUNIT_CASE(without_a_table_there_are_no_graves),
	KUNIT_CASE(a_table_that_is_out_of_use_finds_nothing),
	KUNIT_CASE(the_worker_makes_tables),
	KUNIT_CASE(the_worker_waits_for_memory),
	{}
};

static struct kunit_suite table_suite = {
	.name = "kvtree_masstree_table",
	.test_cases = table_cases,
};

kunit_test_suite(table_suite);
