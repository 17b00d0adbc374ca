// SPDX-License-Identifier: GPL-2.0
/*
 * What other implementations of Masstree got wrong, and what this one could:
 * one case for each hazard.
 *
 * A hook at a park point runs in the middle of a writer's step, usually with
 * nodes locked and preemption off.  It looks up keys and takes notes, which the
 * case checks after the step.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "lib.h"
#include "masstree/tree.h"
#include "thread.h"

#define PREFIX_MAX	(KVTREE_KEY_MAX - 8)
/* More calls than any scan here needs. */
#define SCAN_CALLS	20000
/* How often iter_next() may ask for a pause that a reader cannot make: see bpf/cursor.c. */
#define SCAN_TRIES	4

/* Layers stay as removals leave them, until run_worker() or a sweep. */
static struct kt *open_masstree(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);

	disable_delayed_work_sync(&mt_tree(kt->index)->check_work);
	return kt;
}

static void run_worker(struct kt *kt)
{
	struct delayed_work *work = &mt_tree(kt->index)->check_work;

	enable_delayed_work(work);
	queue_delayed_work(kt->wq, work, 0);
	while (flush_delayed_work(work))
		;
	disable_delayed_work_sync(work);
	kt_flush(kt);
}

/* A key of @prefix equal bytes and a tail, in an allocation of its size. */
static struct kvt_key make_key(struct kunit *test, u32 prefix, const void *tail, u32 len)
{
	u8 *data = kunit_kmalloc(test, prefix + len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	memset(data, 'p', prefix);
	memcpy(data + prefix, tail, len);
	return KT_BYTES(data, prefix + len);
}

static struct kvt_key string_key(struct kunit *test, u32 prefix, const char *tail)
{
	return make_key(test, prefix, tail, strlen(tail));
}

static struct kvt_key number_key(struct kunit *test, u32 prefix, u64 number)
{
	__be64 tail = cpu_to_be64(number);

	return make_key(test, prefix, &tail, sizeof(tail));
}

static void put(struct kt *kt, struct kvt_key key)
{
	KUNIT_ASSERT_EQ(kt->test, 0, kt_put(kt, &key, NULL));
}

static void del(struct kt *kt, struct kvt_key key)
{
	KUNIT_ASSERT_EQ(kt->test, 0, kt_del(kt, &key, NULL));
}

static void expect_get(struct kt *kt, int want, struct kvt_key key)
{
	KUNIT_EXPECT_EQ(kt->test, want, kt_get(kt, &key, NULL));
}

static void expect_stat(struct kt *kt, enum kvtree_stat id, u64 want)
{
	KUNIT_EXPECT_EQ_MSG(kt->test, want, kt_stat(kt, id), "counter %d", id);
}

static void expect_count(struct kt *kt, s64 want)
{
	KUNIT_EXPECT_EQ(kt->test, want, kt_count(kt, false));
	KUNIT_EXPECT_EQ(kt->test, want, kt_count(kt, true));
}

/* The next record for a reader that cannot pause; -EAGAIN if it would have to. */
static int next_rcu(struct kt_cursor *cur)
{
	unsigned int tries = SCAN_TRIES;
	int err;

	do {
		err = kt_cursor_next_rcu(cur);
	} while (err == -EAGAIN && --tries);
	return err;
}

/* Count the records in one RCU read section; -ELOOP if there is no end. */
static s64 count_rcu(struct kt_cursor *cur, bool reverse)
{
	const struct kvt_key empty = { };
	unsigned int calls;
	s64 nr = 0;
	int err;

	kt_cursor_set(cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	for (calls = 0; calls < SCAN_CALLS; calls++) {
		err = next_rcu(cur);
		if (err == -ENOENT)
			return nr;
		if (err)
			return err;
		nr++;
	}
	return -ELOOP;
}

static void expect_scans_end(struct kt *kt, s64 want)
{
	struct kt_cursor cur;
	s64 forward, backward;

	KUNIT_ASSERT_EQ(kt->test, 0, kt_cursor_init(kt, &cur));
	rcu_read_lock();
	forward = count_rcu(&cur, false);
	backward = count_rcu(&cur, true);
	rcu_read_unlock();
	kt_cursor_exit(&cur);
	KUNIT_EXPECT_EQ(kt->test, want, forward);
	KUNIT_EXPECT_EQ(kt->test, want, backward);
}

/* Hooks */

static struct hook {
	struct kt *kt;
	struct kt_cursor cur;
	struct kvt_key key[4];
	unsigned int nr_keys;
	/* What the last run of the hook saw, for each point. */
	unsigned int hits[KVT_PARK_NR];
	int get[KVT_PARK_NR][4];
	s64 forward[KVT_PARK_NR];
	s64 backward[KVT_PARK_NR];
} hook;

static void hook_look(enum kvt_park at)
{
	unsigned int i;

	hook.hits[at]++;
	rcu_read_lock();
	for (i = 0; i < hook.nr_keys; i++)
		hook.get[at][i] = kt_get_rcu(hook.kt, &hook.key[i], NULL);
	hook.forward[at] = count_rcu(&hook.cur, false);
	hook.backward[at] = count_rcu(&hook.cur, true);
	rcu_read_unlock();
}

static void hook_exit(void *unused)
{
	WRITE_ONCE(kvt_park_hook, NULL);
	/* It runs with preemption off. */
	synchronize_rcu();
	kt_cursor_exit(&hook.cur);
}

/* From now on look up @nr keys and scan at each park point. */
static void hook_init(struct kt *kt, const struct kvt_key *key, unsigned int nr)
{
	memset(&hook, 0, sizeof(hook));
	hook.kt = kt;
	hook.nr_keys = nr;
	memcpy(hook.key, key, nr * sizeof(*key));
	KUNIT_ASSERT_EQ(kt->test, 0, kt_cursor_init(kt, &hook.cur));
	KUNIT_ASSERT_EQ(kt->test, 0, kunit_add_action_or_reset(kt->test, hook_exit, NULL));
	WRITE_ONCE(kvt_park_hook, hook_look);
}

static void hook_end(struct kt *kt)
{
	kunit_release_action(kt->test, hook_exit, NULL);
}

static void clear_loose_hook(void *unused)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
}

static void expect_scans_at(struct kt *kt, enum kvt_park at, s64 want)
{
	KUNIT_EXPECT_GT_MSG(kt->test, hook.hits[at], 0, "point %d", at);
	KUNIT_EXPECT_EQ_MSG(kt->test, want, hook.forward[at], "point %d", at);
	KUNIT_EXPECT_EQ_MSG(kt->test, want, hook.backward[at], "point %d", at);
}

/* Emptied leaves */

/* Put numbers 0..nr-1 after a prefix: these fill leaves. */
static void put_numbers(struct kt *kt, u32 prefix, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		put(kt, number_key(kt->test, prefix, i));
}

static void del_numbers(struct kt *kt, u32 prefix, unsigned int from, unsigned int to)
{
	unsigned int i;

	for (i = from; i < to; i++)
		del(kt, number_key(kt->test, prefix, i));
}

/* A put by another thread, begun while a leaf is locked. */
static struct rival {
	struct work_struct work;
	struct kt *kt;
	struct kvt_key key;
	bool queued;
	bool begun;
	bool met;	/* it had begun while the leaf was locked */
	int ret;
} rival;

static void rival_put(struct work_struct *work)
{
	WRITE_ONCE(rival.begun, true);
	rival.ret = kt_put(rival.kt, &rival.key, NULL);
}

static void rival_init(struct kt *kt, unsigned int number)
{
	memset(&rival, 0, sizeof(rival));
	INIT_WORK(&rival.work, rival_put);
	rival.kt = kt;
	rival.key = number_key(kt->test, 0, number);
}

static void rival_start(void)
{
	rival.queued = true;
	queue_work(rival.kt->wq, &rival.work);
	rival.met = kt_await(READ_ONCE(rival.begun));
	/* Give it time to reach the lock of the leaf. */
	kt_linger(1);
}

static void let_rival_begin(enum kvt_park at)
{
	if (at == KVT_PARK_UNLINK_LOCKED && !rival.queued)
		rival_start();
}

static void put_while_leaf_is_removed(struct kt *kt, unsigned int number)
{
	rival_init(kt, number);
	WRITE_ONCE(kvt_park_hook, let_rival_begin);
	del(kt, rival.key);
	WRITE_ONCE(kvt_park_hook, NULL);
	flush_work(&rival.work);
}

static void an_insert_that_waits_for_an_emptied_leaf_is_not_lost(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int leaf;

	kt_need_two_cpus(test);
	put_numbers(kt, 0, 8 * MT_LEAF_WIDTH);
	/* The leftmost leaf, those between, and the rightmost. */
	for (leaf = 0; leaf < 8; leaf++) {
		unsigned int first = leaf * MT_LEAF_WIDTH;

		del_numbers(kt, 0, first + 1, first + MT_LEAF_WIDTH);
		put_while_leaf_is_removed(kt, first);
		KUNIT_EXPECT_TRUE(test, rival.met);
		KUNIT_EXPECT_EQ(test, 0, rival.ret);
		expect_get(kt, 0, rival.key);
		expect_count(kt, 8 * MT_LEAF_WIDTH - (leaf + 1) * (MT_LEAF_WIDTH - 1));
	}
}

static void leftmost_leaves_are_freed_like_others(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	const unsigned int leaves = 40;
	unsigned int leaf;

	put_numbers(kt, 0, leaves * MT_LEAF_WIDTH);
	for (leaf = 0; leaf + 1 < leaves; leaf++) {
		expect_stat(kt, KVTREE_STAT_LEAF_NODES, leaves - leaf);
		del_numbers(kt, 0, leaf * MT_LEAF_WIDTH, (leaf + 1) * MT_LEAF_WIDTH);
		expect_count(kt, (leaves - leaf - 1) * MT_LEAF_WIDTH);
		/* The leaf's range now belongs to its right neighbour. */
		put(kt, number_key(test, 0, leaf));
		expect_get(kt, 0, number_key(test, 0, leaf));
		del(kt, number_key(test, 0, leaf));
	}
	kt_settle(kt);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, 0);
}

/* Emptied layers */

/* Layers without keys are gone, though no worker has run. */
static void expect_no_layers(struct kt *kt, s64 keys)
{
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
	expect_scans_end(kt, keys);
}

static void a_layer_is_removed_with_its_last_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put(kt, KT_KEY("a"));
	put(kt, KT_KEY("z"));
	put(kt, string_key(test, 8, "1"));
	put(kt, string_key(test, 8, "2"));
	del(kt, string_key(test, 8, "1"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 1);
	expect_scans_end(kt, 3);
	del(kt, string_key(test, 8, "2"));
	expect_no_layers(kt, 2);
	expect_stat(kt, KVTREE_STAT_LAYER_COLLECT, 1);
}

static void five_hundred_layers_go_with_their_last_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put(kt, KT_KEY("a"));
	put(kt, KT_KEY("z"));
	put(kt, string_key(test, PREFIX_MAX, "1"));
	put(kt, string_key(test, PREFIX_MAX, "2"));
	expect_scans_end(kt, 4);
	del(kt, string_key(test, PREFIX_MAX, "1"));
	expect_stat(kt, KVTREE_STAT_LAYERS, PREFIX_MAX / 8);
	del(kt, string_key(test, PREFIX_MAX, "2"));
	expect_no_layers(kt, 2);
	expect_stat(kt, KVTREE_STAT_LAYER_COLLECT, PREFIX_MAX / 8);
}

/* commit() runs with preemption off, in a durable store throughout. */
static void a_commit_hands_no_layers_over_to_be_freed(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	const struct kvt_key key = string_key(test, PREFIX_MAX, "2");
	struct kvt_value *old;
	struct kt_change c;

	put(kt, string_key(test, PREFIX_MAX, "1"));
	put(kt, key);
	del(kt, string_key(test, PREFIX_MAX, "1"));
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1 + PREFIX_MAX / MT_SLICE);
	KUNIT_ASSERT_EQ(test, 0, kt_del_begin(kt, &c, &key, GFP_KERNEL));
	old = c.change.old;
	KUNIT_EXPECT_EQ(test, 0, kt->ops->commit(&c.change, NULL));
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1 + PREFIX_MAX / MT_SLICE);
	kvt_value_retire(&kt->reclaim, c.bag, old, NULL);
	kt->ops->finish(&c.change);
	expect_no_layers(kt, 0);
}

/* A layer with other keys stays, as do those above it, until these keys are removed. */
static void layers_go_as_far_up_as_nothing_else_is_left(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int prefix;

	for (prefix = 8; prefix <= 80; prefix += 8) {
		put(kt, string_key(test, prefix, "1"));
		put(kt, string_key(test, prefix, "2"));
	}
	for (prefix = 80; prefix > 40; prefix -= 8) {
		del(kt, string_key(test, prefix, "2"));
		del(kt, string_key(test, prefix, "1"));
	}
	expect_stat(kt, KVTREE_STAT_LAYERS, 5);
	expect_scans_end(kt, 10);
	for (prefix = 8; prefix <= 40; prefix += 8)
		del(kt, string_key(test, prefix, "2"));
	/* One key besides the layer below. */
	del(kt, string_key(test, 40, "1"));
	del(kt, string_key(test, 32, "1"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 3);
	expect_scans_end(kt, 3);
	for (prefix = 8; prefix <= 24; prefix += 8) {
		expect_stat(kt, KVTREE_STAT_LAYERS, 3);
		del(kt, string_key(test, prefix, "1"));
	}
	expect_no_layers(kt, 0);
}

/* Leave leaves below inner nodes without other children. */
static void layers_of_many_leaves_go_with_their_last_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int i;

	for (i = 0; i < 5; i++)
		put_numbers(kt, 8 * i, 5 * MT_LEAF_WIDTH);
	/* Each layer keeps only the key that leads to the layer below. */
	for (i = 0; i < 4; i++)
		del_numbers(kt, 8 * i, 0, 5 * MT_LEAF_WIDTH);
	expect_stat(kt, KVTREE_STAT_LAYERS, 4);
	expect_scans_end(kt, 5 * MT_LEAF_WIDTH);
	del_numbers(kt, 32, 0, 5 * MT_LEAF_WIDTH);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_scans_end(kt, 0);
	kt_settle(kt);
	expect_no_layers(kt, 0);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, 0);
}

/* A layer points to the leaf with its slot, even after splits have moved the slot. */
static void layers_go_from_where_splits_have_moved_them(struct kunit *test)
{
	const unsigned int nr = 20 * MT_LEAF_WIDTH;
	struct kt *kt = open_masstree(test);
	unsigned int i;
	char name[16];

	put(kt, KT_KEY("a"));
	for (i = 0; i < nr; i++) {
		sprintf(name, "lay%05u.1", i * 7919 % nr);
		put(kt, string_key(test, 0, name));
		name[9] = '2';
		put(kt, string_key(test, 0, name));
	}
	expect_stat(kt, KVTREE_STAT_LAYERS, nr);
	for (i = 0; i < nr; i++) {
		sprintf(name, "lay%05u.1", i);
		del(kt, string_key(test, 0, name));
		name[9] = '2';
		/* Some are first put in place of their layers. */
		if (i % 3 == 1)
			run_worker(kt);
		del(kt, string_key(test, 0, name));
		expect_stat(kt, KVTREE_STAT_LAYERS, nr - 1 - i);
	}
	kt_settle(kt);
	expect_no_layers(kt, 1);
}

static void scans_that_meet_the_collection_of_a_layer_end(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key[] = { KT_KEY("a"), string_key(test, 24, "1"), KT_KEY("z") };

	put(kt, key[0]);
	put(kt, key[1]);
	put(kt, string_key(test, 24, "2"));
	put(kt, key[2]);
	del(kt, string_key(test, 24, "2"));
	hook_init(kt, key, 3);
	del(kt, key[1]);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, 3, hook.hits[KVT_PARK_STEM_LOCKED]);
	expect_scans_at(kt, KVT_PARK_STEM_LOCKED, 3);
	expect_scans_at(kt, KVT_PARK_COLLECT_LOCKED, 3);
	expect_scans_at(kt, KVT_PARK_COLLECT_REMOVED, 2);
	expect_scans_at(kt, KVT_PARK_COLLECT_MARKED, 2);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLECT_LOCKED][1]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLECT_MARKED][0]);
	KUNIT_EXPECT_EQ(test, -ENOENT, hook.get[KVT_PARK_COLLECT_REMOVED][1]);
	KUNIT_EXPECT_EQ(test, -ENOENT, hook.get[KVT_PARK_COLLECT_MARKED][1]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLECT_MARKED][2]);
	expect_no_layers(kt, 2);
}

/* Root of a layer */

/* If the tree's root is not a root, every lookup searches for one for ever. */
static void find_root(struct mt_tree *tree)
{
	struct mt_node *root = mt_root(tree);

	if (!mt_is_root(root))
		mt_set_root(tree, (struct mt_node *)mt_above(root));
}

/* How often the child of a root that is removed was checked, and was locked then. */
static struct heir {
	struct mt_node *leaf;
	unsigned int seen;
	unsigned int locked;
} heir;

/* Meanwhile another thread is about to split it. */
static void look_at_heir(enum kvt_park at)
{
	if (at < KVT_PARK_SHRINK_LOCKED || at > KVT_PARK_SHRINK_MARKED)
		return;
	heir.seen++;
	heir.locked += !!(READ_ONCE(heir.leaf->version) & MT_LOCK);
	if (at == KVT_PARK_SHRINK_BESIDE)
		rival_start();
	if (at == KVT_PARK_SHRINK_PUBLISHED)
		find_root(mt_tree(rival.kt->index));
}

/*
 * Until the old root is marked, it leads to the leaf for all keys.  Only the leaf's lock keeps
 * another thread from putting a root above the leaf meanwhile.
 */
static void a_leaf_stays_locked_while_it_becomes_the_root(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = mt_tree(kt->index);
	unsigned int i;

	kt_need_two_cpus(test);
	disable_delayed_work_sync(&tree->check_work);
	put_numbers(kt, 0, MT_LEAF_WIDTH + 1);
	del_numbers(kt, 0, MT_LEAF_WIDTH, MT_LEAF_WIDTH + 1);
	KUNIT_ASSERT_FALSE(test, mt_is_leaf(mt_root(tree)));
	heir = (struct heir){ .leaf = mt_inner(mt_root(tree))->child[0] };
	rival_init(kt, MT_LEAF_WIDTH);
	WRITE_ONCE(kvt_park_hook, look_at_heir);
	kvt_masstree_ops.sweep(kt->index);
	WRITE_ONCE(kvt_park_hook, NULL);
	flush_work(&rival.work);
	enable_delayed_work(&tree->check_work);
	KUNIT_EXPECT_EQ(test, 4, heir.seen);
	KUNIT_EXPECT_EQ(test, 4, heir.locked);
	KUNIT_EXPECT_TRUE(test, rival.met);
	KUNIT_EXPECT_EQ(test, 0, rival.ret);
	/* It has split, as it was the root by then. */
	KUNIT_EXPECT_FALSE(test, mt_is_leaf(mt_root(tree)));
	KUNIT_EXPECT_FALSE(test, mt_is_deleted(mt_root(tree)));
	for (i = 0; i <= MT_LEAF_WIDTH; i++)
		expect_get(kt, 0, number_key(test, 0, i));
	expect_count(kt, MT_LEAF_WIDTH + 1);
}

/* Even numbers fill a leaf that is the root of a layer; then another key is put. */
static void grow_root_of_layer(struct kunit *test, u64 number)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key[] = {
		number_key(test, 16, 2), number_key(test, 16, 2 * MT_LEAF_WIDTH),
		KT_KEY("z"), number_key(test, 16, number),
	};
	unsigned int at, i;

	put(kt, key[2]);
	for (i = 1; i <= MT_LEAF_WIDTH; i++)
		put(kt, number_key(test, 16, 2 * i));
	hook_init(kt, key, 4);
	put(kt, key[3]);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, 1, hook.hits[KVT_PARK_SPLIT_ROOT_PUBLISHED]);
	for (at = KVT_PARK_SPLIT_MARKED; at <= KVT_PARK_SPLIT_ROOT_PUBLISHED; at++) {
		/* A reader that would have to wait for this thread gives up. */
		for (i = 0; i < 2; i++)
			KUNIT_EXPECT_TRUE(test, !hook.get[at][i] || hook.get[at][i] == -EBUSY);
		KUNIT_EXPECT_EQ(test, 0, hook.get[at][2]);
	}
	for (i = 0; i < 4; i++)
		expect_get(kt, 0, key[i]);
	expect_count(kt, MT_LEAF_WIDTH + 2);
}

static unsigned int waits;

static void count_waits(enum kvt_park at)
{
	if (at == KVT_PARK_READ_WAIT)
		waits++;
}

/* The writer cannot go on before the reader ends. */
static void a_reader_on_top_of_a_writer_does_not_wait_for_it(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key = number_key(test, 0, 0);

	put_numbers(kt, 0, MT_LEAF_WIDTH);
	hook_init(kt, &key, 1);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	waits = 0;
	WRITE_ONCE(kvt_park_loose_hook, count_waits);
	put(kt, number_key(test, 0, MT_LEAF_WIDTH));
	kunit_release_action(test, clear_loose_hook, NULL);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, -EBUSY, hook.get[KVT_PARK_SPLIT_MARKED][0]);
	KUNIT_EXPECT_EQ(test, -EBUSY, hook.forward[KVT_PARK_SPLIT_MARKED]);
	KUNIT_EXPECT_EQ(test, 0, waits);
	expect_get(kt, 0, key);
}

/* A writer that never ends with the only leaf. */
static void lookups_that_only_fetch_do_not_wait_for_a_writer(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_node *leaf = mt_root(mt_tree(kt->index));
	struct kvt_lookup lookups[MT_LEAF_WIDTH];
	struct kvt_cell cells[MT_LEAF_WIDTH];
	u64 version;
	u32 i;

	put_numbers(kt, 0, MT_LEAF_WIDTH);
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		lookups[i].key = number_key(test, 0, i);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	waits = 0;
	WRITE_ONCE(kvt_park_loose_hook, count_waits);
	version = READ_ONCE(leaf->version);
	WRITE_ONCE(leaf->version, version | MT_INSERTING);
	rcu_read_lock();
	kt->ops->get_batch(kt->index, lookups, NULL, MT_LEAF_WIDTH);
	KUNIT_EXPECT_EQ(test, 0, waits);
	expect_stat(kt, KVTREE_STAT_READ_BUSY, 0);
	kt->ops->get_batch(kt->index, lookups, cells, MT_LEAF_WIDTH);
	rcu_read_unlock();
	KUNIT_EXPECT_NE(test, 0, waits);
	expect_stat(kt, KVTREE_STAT_READ_BUSY, MT_LEAF_WIDTH);
	WRITE_ONCE(leaf->version, version);
	kunit_release_action(test, clear_loose_hook, NULL);
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		expect_get(kt, 0, lookups[i].key);
}

static void keys_are_found_while_the_root_of_a_sub_layer_grows(struct kunit *test)
{
	grow_root_of_layer(test, 1);
	grow_root_of_layer(test, MT_LEAF_WIDTH | 1);
	grow_root_of_layer(test, 2 * MT_LEAF_WIDTH + 1);
}

static int first_number_behind(struct kt_cursor *cur, void *arg)
{
	u64 *last = arg;
	const struct kvt_key key = kt_cursor_key(cur);

	*last = get_unaligned_be64(key.data + key.len - 8);
	return 1;
}

/* Leave a cursor at each key while the layer below grows by two levels. */
static void a_scan_sees_each_stable_key_once_across_root_growth(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	unsigned int i, nr = 0;
	u64 last = 0;

	for (i = 0; i < 20; i++)
		put(kt, number_key(test, 16, 1000 * i));
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	while (kt_scan(&cur, 1, first_number_behind, &last) > 0) {
		if (last % 1000)
			continue;
		KUNIT_EXPECT_EQ(test, 1000 * nr, last);
		nr++;
		/* After the position and before it. */
		for (i = 1; i < 20; i++) {
			put(kt, number_key(test, 16, last + i));
			if (last)
				put(kt, number_key(test, 16, last - i));
		}
	}
	kt_cursor_exit(&cur);
	KUNIT_EXPECT_EQ(test, 20, nr);
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_ROOT_GROW), 1);
}

/* Lengths */

/* Two keys with the same slice and different lengths, in and out of one slot. */
static void toggle_lengths(struct work_struct *work)
{
	struct kvt_key key[2] = { KT_KEY("slice\0\0\0tail"), KT_KEY("slice") };
	unsigned int i;
	int err;

	for (i = 0; i < 20000 / KT_SLOWER && !rival.ret; i++) {
		err = kt_put(rival.kt, &key[i & 1], NULL);
		if (!err)
			err = kt_del(rival.kt, &key[i & 1], NULL);
		rival.ret = err;
		cond_resched();
	}
	WRITE_ONCE(rival.begun, true);
}

static void a_scan_never_takes_a_length_for_that_of_another_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	/* Each exists when the reader meets it: first one, then the other. */
	const s64 most = MT_LEAF_WIDTH + 1;
	s64 nr = MT_LEAF_WIDTH - 1;
	bool reverse = false;

	/* Only one slot is free, and is reused again and again. */
	put_numbers(kt, 0, MT_LEAF_WIDTH - 1);
	memset(&rival, 0, sizeof(rival));
	INIT_WORK(&rival.work, toggle_lengths);
	rival.kt = kt;
	queue_work(kt->wq, &rival.work);
	while (!READ_ONCE(rival.begun) && nr >= MT_LEAF_WIDTH - 1 && nr <= most) {
		nr = kt_count(kt, reverse);
		reverse = !reverse;
	}
	flush_work(&rival.work);
	KUNIT_EXPECT_EQ(test, 0, rival.ret);
	KUNIT_EXPECT_GE(test, nr, MT_LEAF_WIDTH - 1);
	KUNIT_EXPECT_LE(test, nr, most);
	expect_count(kt, MT_LEAF_WIDTH - 1);
}

/* Each length from 0 to 24 twice: as prefixes of one another, and not. */
static void nothing_is_read_behind_the_end_of_a_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	u32 len, twin;

	for (len = 0; len <= 24; len++) {
		for (twin = 0; twin < 2; twin++) {
			put(kt, make_key(test, len, "y", twin));
			put(kt, make_key(test, len, "y", twin));
			expect_get(kt, 0, make_key(test, len, "y", twin));
		}
	}
	expect_count(kt, 50);
	for (len = 0; len <= 24; len++) {
		for (twin = 0; twin < 2; twin++) {
			del(kt, make_key(test, len, "y", twin));
			expect_get(kt, -ENOENT, make_key(test, len, "y", twin));
		}
	}
	kt_settle(kt);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
}

static void keys_of_nine_bytes_are_told_apart_by_the_last(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int i;
	u8 last;

	put(kt, make_key(test, 8, "", 0));
	for (i = 0; i < 256; i++) {
		last = i;
		expect_get(kt, -ENOENT, make_key(test, 8, &last, 1));
		put(kt, make_key(test, 8, &last, 1));
		expect_get(kt, 0, make_key(test, 8, &last, 1));
	}
	expect_count(kt, 257);
}

static void shuffle(struct kt_rnd *rnd, struct kvt_key *key, unsigned int nr)
{
	while (nr > 1) {
		unsigned int other = kt_rnd_below(rnd, nr--);

		swap(key[nr], key[other]);
	}
}

/* Put keys of one slice, which begins with @first, and others around them. */
static void load_one_slice(struct kt *kt, struct kt_rnd *rnd, u32 prefix, u8 first)
{
	const u8 slice[10] = { first };
	const unsigned int lengths = MT_RANK_LONG + 1;
	struct kvt_key key[60];
	unsigned int i, j;

	/* Without its first byte, the empty one would have another slice. */
	for (i = 0; i < lengths; i++)
		key[i] = make_key(kt->test, prefix, slice, first ? max(i, 1) : i);
	for (; i < ARRAY_SIZE(key); i++)
		key[i] = number_key(kt->test, prefix, (u64)(4 * i) << 56 | 1);
	shuffle(rnd, key, ARRAY_SIZE(key));
	for (i = 0; i < ARRAY_SIZE(key); i++) {
		put(kt, key[i]);
		for (j = 0; j <= i; j++)
			expect_get(kt, 0, key[j]);
	}
	expect_count(kt, ARRAY_SIZE(key) - !!first);
	for (i = 0; i < ARRAY_SIZE(key); i++)
		kt_del(kt, &key[i], NULL);
	expect_count(kt, 0);
}

static void all_lengths_of_a_slice_stay_in_one_leaf(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int round;

	for (round = 0; round < 40 / KT_SLOWER; round++) {
		load_one_slice(kt, &rnd, 0, 0);
		load_one_slice(kt, &rnd, 0, 'm');
		load_one_slice(kt, &rnd, 16, 0);
		load_one_slice(kt, &rnd, 16, 'm');
	}
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_SPLIT_LEAF), 0);
	kt_settle(kt);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
}

/* The slot of a leaf's smallest key is used for a greater one. */
static void a_leaf_whose_first_slot_has_another_slice_keeps_its_range(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	const u64 first = 1000 * MT_LEAF_WIDTH;
	unsigned int i;

	/* Two leaves, the second full but for one. */
	for (i = 0; i < 2 * MT_LEAF_WIDTH - 1; i++)
		put(kt, number_key(test, 0, 1000 * i));
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 2);
	del(kt, number_key(test, 0, first));
	/* One for the slot that was free, one for that of the first key. */
	put(kt, number_key(test, 0, first + 900));
	put(kt, number_key(test, 0, first + 950));
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 2);
	expect_get(kt, -ENOENT, number_key(test, 0, first));
	expect_count(kt, 2 * MT_LEAF_WIDTH);
	/* Between the greatest key of the left leaf and the smallest of the right one. */
	for (i = 1; i < 200; i++) {
		put(kt, number_key(test, 0, first - 100 + i));
		expect_get(kt, 0, number_key(test, 0, first - 100 + i));
	}
	expect_count(kt, 2 * MT_LEAF_WIDTH + 199);
}

/* A removed key is not found through its former slot. */
static void a_reused_slot_belongs_to_the_new_key_alone(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key old = KT_KEY("k0"), new = KT_KEY("k99");
	struct kvt_key key[] = { old, new };
	unsigned int i;
	char name[8];

	for (i = 0; i < MT_LEAF_WIDTH; i++) {
		sprintf(name, "k%u", i);
		put(kt, string_key(test, 0, name));
	}
	del(kt, old);
	hook_init(kt, key, 2);
	put(kt, new);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, 1, hook.hits[KVT_PARK_INSERT_REUSE]);
	/* Readers wait: the permutation that they read may show the old key. */
	KUNIT_EXPECT_EQ(test, -EBUSY, hook.get[KVT_PARK_INSERT_REUSE][0]);
	KUNIT_EXPECT_EQ(test, -EBUSY, hook.get[KVT_PARK_INSERT_WRITTEN][1]);
	expect_get(kt, -ENOENT, old);
	expect_get(kt, 0, new);
	expect_count(kt, MT_LEAF_WIDTH);
}

/* What another thread does while a reader is held, where it first reaches a point. */
static struct overtaking {
	struct work_struct work;
	struct kt *kt;
	struct task_struct *reader;
	enum kvt_park at;
	int (*fn)(struct kt *kt);
	bool met;
	bool done;
	bool in_time;		/* while the reader was held */
	int ret;
} overtaking;

static void overtake(struct work_struct *work)
{
	overtaking.ret = overtaking.fn(overtaking.kt);
	smp_store_release(&overtaking.done, true);	/* pairs with let_overtake() */
}

static void let_overtake(enum kvt_park at)
{
	if (at != overtaking.at || current != overtaking.reader || overtaking.met)
		return;
	overtaking.met = true;
	queue_work(overtaking.kt->wq, &overtaking.work);
	/* Pairs with overtake(). */
	overtaking.in_time = kt_await(smp_load_acquire(&overtaking.done));
}

/* From now on another thread calls @fn when this one reaches a point. */
static void overtake_at(struct kt *kt, enum kvt_park at, int (*fn)(struct kt *kt))
{
	memset(&overtaking, 0, sizeof(overtaking));
	INIT_WORK(&overtaking.work, overtake);
	overtaking.kt = kt;
	overtaking.reader = current;
	overtaking.at = at;
	overtaking.fn = fn;
	KUNIT_ASSERT_EQ(kt->test, 0, kunit_add_action_or_reset(kt->test, clear_loose_hook, NULL));
	WRITE_ONCE(kvt_park_loose_hook, let_overtake);
}

static void expect_overtaken(struct kt *kt)
{
	kunit_release_action(kt->test, clear_loose_hook, NULL);
	flush_work(&overtaking.work);
	KUNIT_EXPECT_TRUE(kt->test, overtaking.in_time);
	KUNIT_EXPECT_EQ(kt->test, 0, overtaking.ret);
}

/* Remove the layer; its slot goes to a key with the same suffix as the reader's. */
static int take_slot_of_layer(struct kt *kt)
{
	return kt_del(kt, &KT_KEY("AAAAAAAAy"), NULL) ?: kt_put(kt, &KT_KEY("BBBBBBBBx"), NULL);
}

static void a_slot_that_a_layer_has_left_belongs_to_the_new_key_alone(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	int err;

	/* No other slot is free. */
	put_numbers(kt, 0, MT_LEAF_WIDTH - 1);
	put(kt, KT_KEY("AAAAAAAAx"));
	put(kt, KT_KEY("AAAAAAAAy"));
	del(kt, KT_KEY("AAAAAAAAx"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 1);
	overtake_at(kt, KVT_PARK_READ_SLOT, take_slot_of_layer);
	err = kt_get(kt, &KT_KEY("AAAAAAAAx"), NULL);
	expect_overtaken(kt);
	KUNIT_EXPECT_EQ(test, -ENOENT, err);
	expect_get(kt, 0, KT_KEY("BBBBBBBBx"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
}

/* Remove the other leaf's key while the first leaf is empty and not yet unlinked. */
static int empty_last_leaf(struct kt *kt)
{
	const __be64 tail = cpu_to_be64(MT_LEAF_WIDTH);
	u8 key[24 + sizeof(tail)];

	memset(key, 'p', 24);
	memcpy(key + 24, &tail, sizeof(tail));
	return kt_del(kt, &KT_BYTES(key, sizeof(key)), NULL);
}

/* Neither of the two removers finds the layer empty when it removes its key. */
static void a_layer_whose_last_leaves_are_emptied_at_a_time_is_removed(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	kt_need_two_cpus(test);
	put(kt, KT_KEY("a"));
	put_numbers(kt, 24, MT_LEAF_WIDTH + 1);
	del_numbers(kt, 24, 0, MT_LEAF_WIDTH - 1);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 3 + 2);
	overtake_at(kt, KVT_PARK_UNLINK_FOUND, empty_last_leaf);
	del_numbers(kt, 24, MT_LEAF_WIDTH - 1, MT_LEAF_WIDTH);
	expect_overtaken(kt);
	expect_no_layers(kt, 1);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, 0);
}

/*
 * As before, but the worker reaches the empty layer first.  The layer's slot is the only one
 * of its leaf, which has neighbours.
 */
static void a_leaf_is_removed_with_the_layer_that_the_worker_takes_out(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	const struct kvt_key key = number_key(test, 24, MT_LEAF_WIDTH - 1);
	struct kvt_value *old;
	struct kt_change c;

	kt_need_two_cpus(test);
	put_numbers(kt, 0, 2 * MT_LEAF_WIDTH);
	put_numbers(kt, 24, MT_LEAF_WIDTH + 1);
	del_numbers(kt, 24, 0, MT_LEAF_WIDTH - 1);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 3 + 2 + 2);
	overtake_at(kt, KVT_PARK_UNLINK_FOUND, empty_last_leaf);
	KUNIT_ASSERT_EQ(test, 0, kt_del_begin(kt, &c, &key, GFP_KERNEL));
	old = c.change.old;
	KUNIT_EXPECT_EQ(test, 0, kt->ops->commit(&c.change, NULL));
	expect_overtaken(kt);
	expect_stat(kt, KVTREE_STAT_LAYERS, 3);
	kt->ops->sweep(kt->index);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	kvt_value_retire(&kt->reclaim, c.bag, old, NULL);
	kt->ops->finish(&c.change);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 2);
	expect_scans_end(kt, 2 * MT_LEAF_WIDTH);
}

/* The worker has found a layer, and locked nothing. */

static struct kt_change removal;
static struct kvt_value *removed;

/* The layer is removed with its key, and retired only when the removal has ended. */
static int remove_layer(struct kt *kt)
{
	int err = kt_del_begin(kt, &removal, &KT_KEY("AAAAAAAAy"), GFP_KERNEL);

	if (err)
		return err;
	removed = removal.change.old;
	return kt->ops->commit(&removal.change, NULL);
}

static void a_removed_layer_is_not_removed_again(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	kt_need_two_cpus(test);
	put(kt, KT_KEY("AAAAAAAAx"));
	put(kt, KT_KEY("AAAAAAAAy"));
	put(kt, KT_KEY("B"));
	del(kt, KT_KEY("AAAAAAAAx"));
	overtake_at(kt, KVT_PARK_LAYER_FOUND, remove_layer);
	kt->ops->sweep(kt->index);
	expect_overtaken(kt);
	kvt_value_retire(&kt->reclaim, removal.bag, removed, NULL);
	kt->ops->finish(&removal.change);
	expect_no_layers(kt, 1);
}

/* The worker has found a root with one child, and locked nothing. */

static int put_number(struct kt *kt, u64 number)
{
	const __be64 tail = cpu_to_be64(number);

	return kt_put(kt, &KT_BYTES(&tail, sizeof(tail)), NULL);
}

static int del_number_range(struct kt *kt, u64 from, u64 to)
{
	int err = 0;

	for (; !err && from < to; from++) {
		const __be64 tail = cpu_to_be64(from);

		err = kt_del(kt, &KT_BYTES(&tail, sizeof(tail)), NULL);
	}
	return err;
}

/* Put the numbers of a full leaf, below a root that had another one. */
static struct kt *open_thin_root(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	kt_need_two_cpus(test);
	put_numbers(kt, 0, MT_LEAF_WIDTH + 1);
	del_numbers(kt, 0, MT_LEAF_WIDTH, MT_LEAF_WIDTH + 1);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, 1);
	return kt;
}

/* The child splits and is removed: its sibling is now the only child. */
static int replace_child(struct kt *kt)
{
	return put_number(kt, MT_LEAF_WIDTH) ?: del_number_range(kt, 0, MT_LEAF_WIDTH);
}

static unsigned int deleted_roots;

/* If a deleted node is the root, every lookup searches for another for ever: replace it. */
static void replace_deleted_root(enum kvt_park at)
{
	struct mt_tree *tree = mt_tree(overtaking.kt->index);
	struct mt_node *root = mt_root(tree);

	if (at != KVT_PARK_SHRINK_PUBLISHED || !mt_is_deleted(root))
		return;
	deleted_roots++;
	mt_set_beside(&mt_leaf(root)->next->node, root);
	mt_set_root(tree, &mt_leaf(root)->next->node);
}

static void a_removed_child_does_not_become_the_root(struct kunit *test)
{
	struct kt *kt = open_thin_root(test);

	deleted_roots = 0;
	overtake_at(kt, KVT_PARK_LAYER_FOUND, replace_child);
	WRITE_ONCE(kvt_park_hook, replace_deleted_root);
	kt->ops->sweep(kt->index);
	WRITE_ONCE(kvt_park_hook, NULL);
	expect_overtaken(kt);
	KUNIT_EXPECT_EQ(test, 0, deleted_roots);
	expect_get(kt, 0, number_key(test, 0, MT_LEAF_WIDTH));
	expect_count(kt, 1);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, 0);
}

/* Give the root enough children that it gets a parent, then remove all but the first. */
static int put_root_above(struct kt *kt)
{
	struct mt_tree *tree = mt_tree(kt->index);
	struct mt_node *root = mt_root(tree);
	u64 number = MT_LEAF_WIDTH;
	int err = 0;

	while (!err && mt_root(tree) == root)
		err = put_number(kt, number++);
	return err ?: del_number_range(kt, MT_LEAF_WIDTH, mt_inner(mt_root(tree))->slice[0]);
}

static void a_node_that_is_no_root_any_more_does_not_make_way(struct kunit *test)
{
	struct kt *kt = open_thin_root(test);
	struct mt_tree *tree = mt_tree(kt->index);
	struct mt_node *first = mt_root(tree);

	overtake_at(kt, KVT_PARK_LAYER_FOUND, put_root_above);
	kt->ops->sweep(kt->index);
	expect_overtaken(kt);
	KUNIT_EXPECT_PTR_EQ(test, first, mt_inner(mt_root(tree))->child[0]);
	KUNIT_EXPECT_EQ(test, 0, mt_inner(first)->nkeys);
	expect_stat(kt, KVTREE_STAT_ROOT_SHRINK, 0);
	expect_get(kt, 0, number_key(test, 0, MT_LEAF_WIDTH - 1));
}

/* One key of the layer stays, in place of the layer. */
static int fold_layer(struct kt *kt)
{
	int err = kt_del(kt, &KT_KEY("AAAAAAAAx"), NULL);

	kt->ops->sweep(kt->index);
	return err;
}

/* The iterator has found the slot of the layer that its position is in. */
static void a_key_that_a_layer_leaves_is_not_returned_again(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	int err;

	put(kt, KT_KEY("AAAAAAAAb"));
	put(kt, KT_KEY("AAAAAAAAx"));
	put(kt, KT_KEY("BBBBBBBB"));
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	kt_cursor_set(&cur, &KT_KEY("AAAAAAAAb"), KVT_AFTER, false);
	overtake_at(kt, KVT_PARK_SCAN_PLACED, fold_layer);
	rcu_read_lock();
	err = next_rcu(&cur);
	rcu_read_unlock();
	expect_overtaken(kt);
	KUNIT_EXPECT_EQ(test, 0, err);
	KUNIT_EXPECT_EQ(test, 'B', cur.iter->key[0]);
	kt_cursor_exit(&cur);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
}

/* Chains of layers */

static void a_chain_of_layers_is_published_at_once(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key[] = {
		string_key(test, PREFIX_MAX, "1"), string_key(test, PREFIX_MAX, "2"),
	};

	put(kt, key[0]);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	hook_init(kt, key, 2);
	put(kt, key[1]);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, 1, hook.hits[KVT_PARK_LAYER_BUILT]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_LAYER_BUILT][0]);
	KUNIT_EXPECT_EQ(test, -ENOENT, hook.get[KVT_PARK_LAYER_BUILT][1]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_LAYER_PUBLISHED][0]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_LAYER_PUBLISHED][1]);
	expect_scans_at(kt, KVT_PARK_LAYER_BUILT, 1);
	expect_scans_at(kt, KVT_PARK_LAYER_PUBLISHED, 2);
	expect_stat(kt, KVTREE_STAT_LAYERS, PREFIX_MAX / 8);
	expect_stat(kt, KVTREE_STAT_LAYER_CREATE, PREFIX_MAX / 8);
}

static void a_layer_of_one_key_collapses(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key stays = string_key(test, 8, "stays");
	u64 before, after;

	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &stays, &before));
	put(kt, string_key(test, 8, "goes"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 1);
	del(kt, string_key(test, 8, "goes"));
	hook_init(kt, &stays, 1);
	run_worker(kt);
	hook_end(kt);
	KUNIT_EXPECT_EQ(test, 1, hook.hits[KVT_PARK_COLLAPSE_PUBLISHED]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLAPSE_LOCKED][0]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLAPSE_PUBLISHED][0]);
	KUNIT_EXPECT_EQ(test, 0, hook.get[KVT_PARK_COLLAPSE_MARKED][0]);
	expect_scans_at(kt, KVT_PARK_COLLAPSE_LOCKED, 1);
	expect_scans_at(kt, KVT_PARK_COLLAPSE_PUBLISHED, 1);
	expect_scans_at(kt, KVT_PARK_COLLAPSE_MARKED, 1);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_stat(kt, KVTREE_STAT_LAYER_COLLAPSE, 1);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
	KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &stays, &after));
	KUNIT_EXPECT_EQ(test, before, after);
}

static void the_worker_collapses_a_chain_of_five_hundred_layers(struct kunit *test)
{
	struct kt *kt = open_masstree(test);

	put(kt, string_key(test, PREFIX_MAX, "1"));
	put(kt, string_key(test, PREFIX_MAX, "2"));
	expect_stat(kt, KVTREE_STAT_LAYERS, PREFIX_MAX / 8);
	del(kt, string_key(test, PREFIX_MAX, "1"));
	run_worker(kt);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
	expect_stat(kt, KVTREE_STAT_LAYER_COLLAPSE, PREFIX_MAX / 8);
	expect_get(kt, 0, string_key(test, PREFIX_MAX, "2"));
	expect_get(kt, -ENOENT, string_key(test, PREFIX_MAX, "1"));
	expect_count(kt, 1);
	/* And again, in a tree that has had such layers. */
	put(kt, string_key(test, PREFIX_MAX, "1"));
	del(kt, string_key(test, PREFIX_MAX, "1"));
	del(kt, string_key(test, PREFIX_MAX, "2"));
	run_worker(kt);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
}

/* Work of scans */

static unsigned int nodes_read;

static void count_nodes(enum kvt_park at)
{
	if (at == KVT_PARK_READ_CHILD || at == KVT_PARK_SCAN_NEXT)
		nodes_read++;
}

static int add_length(struct kt_cursor *cur, void *arg)
{
	*(u64 *)arg += cur->iter->len;
	return 0;
}

/*
 * For each record a scan visits a few nodes, and for every slice of its key as many as two
 * descents take: one from the layer above, and, after a pause, one from the root.
 */
static void expect_work(struct kt *kt, unsigned int burst, bool reverse)
{
	const struct kvt_key empty = { };
	struct kt_cursor cur;
	u64 bytes = 0, bound;
	s64 nr = kt_count(kt, reverse);

	KUNIT_ASSERT_EQ(kt->test, 0, kt_cursor_init(kt, &cur));
	kt_cursor_set(&cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	KUNIT_ASSERT_EQ(kt->test, 0, kunit_add_action_or_reset(kt->test, clear_loose_hook, NULL));
	nodes_read = 0;
	WRITE_ONCE(kvt_park_loose_hook, count_nodes);
	KUNIT_EXPECT_EQ(kt->test, 0, kt_scan(&cur, burst, add_length, &bytes));
	kunit_release_action(kt->test, clear_loose_hook, NULL);
	kt_cursor_exit(&cur);
	bound = 2 * (bytes / MT_SLICE) + 8 * nr;
	KUNIT_EXPECT_LE_MSG(kt->test, nodes_read, bound, "%lld records, reverse %d, burst %u", nr,
			    reverse, burst);
}

static void expect_scans_work_for_what_they_return(struct kt *kt)
{
	expect_work(kt, 1, false);
	expect_work(kt, 1, true);
	expect_work(kt, 1000, false);
	expect_work(kt, 1000, true);
}

/* Pairs that share many slices and differ only at their ends. */
static void put_pairs(struct kt *kt, u32 len, unsigned int nr)
{
	unsigned int i, j;

	for (i = 0; i < nr; i++) {
		struct kvt_key key = make_key(kt->test, len, "1", 1);

		for (j = 0; j < 2; j++) {
			((u8 *)key.data)[0] = 'a' + i;
			((u8 *)key.data)[len] = '1' + j;
			put(kt, key);
		}
	}
}

static void a_scan_works_for_the_length_of_the_keys_it_returns(struct kunit *test)
{
	static const u32 lens[] = { 64, 512, 2048, PREFIX_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct kt *kt = open_masstree(test);

		put_pairs(kt, lens[i], 10);
		expect_scans_work_for_what_they_return(kt);
	}
}

/* In each of many layers there are records after the one that leads to the next layer. */
static void a_scan_comes_back_to_every_layer_that_has_more(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	u32 len;

	for (len = 0; len <= PREFIX_MAX; len += MT_SLICE) {
		put(kt, make_key(test, len, "a", 1));
		put(kt, make_key(test, len, "z", 1));
	}
	expect_scans_end(kt, 2 * (PREFIX_MAX / MT_SLICE + 1));
	expect_scans_work_for_what_they_return(kt);
	/* The deeper half has nothing after it. */
	for (len = 2048; len <= PREFIX_MAX; len += MT_SLICE)
		del(kt, make_key(test, len, "z", 1));
	expect_scans_work_for_what_they_return(kt);
}

/* Nor for removed keys, even if no worker has cleaned up after them. */
static void a_scan_does_not_work_for_keys_that_were_removed(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	const unsigned int nr = 20;
	unsigned int i;

	put(kt, KT_KEY("a"));
	put(kt, KT_KEY("z"));
	for (i = 0; i < nr; i++) {
		struct kvt_key key = make_key(test, PREFIX_MAX, "1", 1);

		((u8 *)key.data)[0] = 'b' + i;
		put(kt, key);
		((u8 *)key.data)[PREFIX_MAX] = '2';
		put(kt, key);
		del(kt, key);
		((u8 *)key.data)[PREFIX_MAX] = '1';
		del(kt, key);
	}
	expect_scans_work_for_what_they_return(kt);
	expect_no_layers(kt, 2);
}

static void count_steps(enum kvt_park at)
{
	if (at == KVT_PARK_STEM_LOCKED)
		nodes_read++;
}

static void stop_counting_steps(void *unused)
{
	WRITE_ONCE(kvt_park_hook, NULL);
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	/* The hooks run with preemption off or under RCU. */
	synchronize_rcu();
}

/* Remove one key of a chain of layers, let the worker run if @worker, and remove the other key. */
static unsigned int count_removal(struct kt *kt, unsigned int layers, bool worker)
{
	const u32 len = layers * MT_SLICE;

	put(kt, string_key(kt->test, len, "1"));
	put(kt, string_key(kt->test, len, "2"));
	expect_stat(kt, KVTREE_STAT_LAYERS, layers);
	KUNIT_ASSERT_EQ(kt->test, 0, kunit_add_action_or_reset(kt->test, stop_counting_steps,
							       NULL));
	nodes_read = 0;
	WRITE_ONCE(kvt_park_hook, count_steps);
	WRITE_ONCE(kvt_park_loose_hook, count_nodes);
	del(kt, string_key(kt->test, len, "1"));
	if (worker)
		run_worker(kt);
	del(kt, string_key(kt->test, len, "2"));
	kunit_release_action(kt->test, stop_counting_steps, NULL);
	run_worker(kt);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	return nodes_read;
}

/* Once down to each key, once up, and once more for the worker. */
static void a_removal_works_for_the_length_of_its_key(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int layers;

	for (layers = 1; layers <= PREFIX_MAX / MT_SLICE; layers = 2 * layers + 1) {
		KUNIT_EXPECT_LE(test, count_removal(kt, layers, false), 3 * layers + 8);
		KUNIT_EXPECT_LE(test, count_removal(kt, layers, true), 3 * layers + 8);
	}
}

#define DETOUR_LAYERS	40

/* Leaves of a deep layer, emptied when a reader has read them. */
static struct {
	struct kt *kt;
	struct kvt_key key[2][MT_LEAF_WIDTH];
	unsigned int gone;
	unsigned int leaves;		/* that were read, in all layers */
	unsigned int nodes;		/* ... since the last one was emptied */
	bool inside;
	int err;
} detour;

static void empty_what_is_read(enum kvt_park at)
{
	unsigned int i;

	if (detour.inside)
		return;
	if (at == KVT_PARK_READ_CHILD)
		detour.nodes++;
	if (at != KVT_PARK_READ_CHECK || ++detour.leaves % (DETOUR_LAYERS + 1) ||
	    detour.gone == ARRAY_SIZE(detour.key))
		return;
	detour.inside = true;
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		detour.err |= kt_del_gfp(detour.kt, &detour.key[detour.gone][i], GFP_ATOMIC,
					 NULL);
	detour.gone++;
	detour.nodes = 0;
	detour.inside = false;
}

/* The first leaf makes the lookup wait and retry; the second makes it restart. */
static void a_change_in_a_layer_sends_no_reader_to_the_layers_above(struct kunit *test)
{
	const u32 prefix = DETOUR_LAYERS * MT_SLICE;
	struct kt *kt = open_masstree(test);
	unsigned int i;

	memset(&detour, 0, sizeof(detour));
	detour.kt = kt;
	put_numbers(kt, prefix, 8 * MT_LEAF_WIDTH);
	for (i = 0; i < MT_LEAF_WIDTH; i++) {
		detour.key[0][i] = number_key(test, prefix, 4 * MT_LEAF_WIDTH + i);
		detour.key[1][i] = number_key(test, prefix, 3 * MT_LEAF_WIDTH + i);
	}
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	WRITE_ONCE(kvt_park_loose_hook, empty_what_is_read);
	expect_get(kt, -ENOENT, detour.key[0][1]);
	kunit_release_action(test, clear_loose_hook, NULL);
	KUNIT_EXPECT_EQ(test, 2, detour.gone);
	KUNIT_EXPECT_EQ(test, 0, detour.err);
	/* An inner node and a leaf. */
	KUNIT_EXPECT_LE(test, detour.nodes, 4);
	expect_scans_end(kt, 6 * MT_LEAF_WIDTH);
}

/* Keys of others cannot make a reader fail that has a bounded number of tries. */
static void deep_layers_stop_no_reader_that_cannot_pause(struct kunit *test)
{
	struct kvt_key deep = string_key(test, PREFIX_MAX, "2");
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	s64 prefix;

	put(kt, KT_KEY("a"));
	put(kt, string_key(test, PREFIX_MAX, "1"));
	put(kt, deep);
	put(kt, string_key(test, PREFIX_MAX, "3"));
	put(kt, KT_KEY("z"));
	expect_scans_end(kt, 5);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	rcu_read_lock();
	/* Find the next key on either side of the layers, and inside. */
	kt_cursor_set(&cur, &KT_KEY("b"), KVT_AT, false);
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, PREFIX_MAX + 1, cur.iter->len);
	kt_cursor_set(&cur, &KT_KEY("q"), KVT_AT, true);
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, PREFIX_MAX + 1, cur.iter->len);
	kt_cursor_set(&cur, &deep, KVT_PAST, false);
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, 'z', cur.iter->key[0]);
	kt_cursor_set(&cur, &deep, KVT_AFTER, true);
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, 0, next_rcu(&cur));
	KUNIT_EXPECT_EQ(test, 'a', cur.iter->key[0]);
	prefix = kt_get_prefix_rcu(kt, &deep, NULL);
	KUNIT_EXPECT_EQ(test, deep.len, prefix);
	rcu_read_unlock();
	kt_cursor_exit(&cur);
}

/* Keys at the ends of chains, removed when a reader reaches them. */
static struct {
	struct kt *kt;
	struct kvt_key key[6];
	unsigned int nr, gone;
	unsigned int leaves;		/* on the way */
	bool inside;
} mirage;

static void take_away(enum kvt_park at)
{
	if (at != KVT_PARK_SCAN_PLACED || mirage.inside || mirage.gone == mirage.nr ||
	    ++mirage.leaves % (PREFIX_MAX / MT_SLICE + 1))
		return;
	mirage.inside = true;
	KUNIT_EXPECT_EQ(mirage.kt->test, 0, kt_del_gfp(mirage.kt, &mirage.key[mirage.gone++],
						       GFP_NOWAIT, NULL));
	mirage.inside = false;
}

/* Each time it restarts from the root.  It still has tries left. */
static void a_reader_whose_keys_go_gives_up_when_all_tries_are_spent(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	unsigned int i;
	int err;

	memset(&mirage, 0, sizeof(mirage));
	mirage.kt = kt;
	mirage.nr = ARRAY_SIZE(mirage.key) - 1;
	for (i = 0; i <= mirage.nr; i++) {
		mirage.key[i] = make_key(test, PREFIX_MAX, "2", 1);
		((u8 *)mirage.key[i].data)[0] = 'b' + i;
		put(kt, mirage.key[i]);
		((u8 *)mirage.key[i].data)[PREFIX_MAX] = '1';
		put(kt, mirage.key[i]);
		/* One stays, and the chain with it. */
		del(kt, mirage.key[i]);
		((u8 *)mirage.key[i].data)[PREFIX_MAX] = '2';
	}
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	rcu_read_lock();
	kt_cursor_set(&cur, &KT_KEY("a"), KVT_AT, false);
	WRITE_ONCE(kvt_park_loose_hook, take_away);
	err = next_rcu(&cur);
	rcu_read_unlock();
	kunit_release_action(test, clear_loose_hook, NULL);
	KUNIT_EXPECT_EQ(test, 0, err);
	KUNIT_EXPECT_EQ(test, mirage.nr, mirage.gone);
	KUNIT_EXPECT_EQ(test, 'b' + mirage.nr, cur.iter->key[0]);
	kt_cursor_exit(&cur);
}

/* Changes under an iterator */

/* As string_key(), valid as long as the string. */
static struct kvt_key key_of(const char *s)
{
	return KT_BYTES(s, strlen(s));
}

static void expect_next(struct kt_cursor *cur, const char *want)
{
	struct kunit *test = cur->kt->test;
	int err = next_rcu(cur);

	KUNIT_EXPECT_EQ_MSG(test, want ? 0 : -ENOENT, err, "%s", want ?: "the end");
	if (want && !err)
		KUNIT_EXPECT_TRUE_MSG(test, cur->iter->len == strlen(want) &&
				      !memcmp(cur->iter->key, want, cur->iter->len),
				      "%s, not %.*s", want, cur->iter->len, cur->iter->key);
}

static const char *const walk[] = {
	"", "a", "b", "behind1", "behind1.", "behind1.1", "behind1.2.1", "behind1.2.2.1",
	"behind1.2.2.2", "behind1.3", "c", "d", "e",
};

/* Put and remove another key among those of the first layer. */
static void stir(struct kt *kt)
{
	KUNIT_EXPECT_EQ(kt->test, 0, kt_put_gfp(kt, &KT_KEY("f"), GFP_NOWAIT, NULL));
	KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &KT_KEY("f"), GFP_NOWAIT, NULL));
}

/*
 * Iterate over the keys.  Before each step give the next key another value, or, at @gone, remove
 * it.  With @stirs, also change the leaf of the first layer before each step.
 */
static void walk_and_remove(struct kt *kt, int gone, bool reverse, bool stirs)
{
	const struct kvt_key empty = { };
	int i, next, step = reverse ? -1 : 1;
	struct kt_cursor cur;
	struct kvt_key key;
	u64 version = 0;

	for (i = 0; i < ARRAY_SIZE(walk); i++)
		put(kt, string_key(kt->test, 0, walk[i]));
	KUNIT_ASSERT_EQ(kt->test, 0, kt_cursor_init(kt, &cur));
	rcu_read_lock();
	kt_cursor_set(&cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	for (i = reverse ? ARRAY_SIZE(walk) - 1 : 0; i >= 0 && i < ARRAY_SIZE(walk); i += step) {
		if (i == gone)
			continue;
		expect_next(&cur, walk[i]);
		KUNIT_EXPECT_GE(kt->test, cur.version, version);
		next = i + step;
		if (stirs)
			stir(kt);
		if (next == gone) {
			key = key_of(walk[next]);
			KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &key, GFP_NOWAIT, NULL));
			next += step;
		}
		if (next < 0 || next >= ARRAY_SIZE(walk))
			continue;
		key = key_of(walk[next]);
		KUNIT_EXPECT_EQ(kt->test, 0, kt_put_gfp(kt, &key, GFP_NOWAIT, &version));
	}
	expect_next(&cur, NULL);
	rcu_read_unlock();
	kt_cursor_exit(&cur);
}

static void an_iterator_returns_nothing_that_was_gone_before(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	int gone;

	for (gone = 1; gone < ARRAY_SIZE(walk); gone++) {
		walk_and_remove(kt, gone, false, false);
		walk_and_remove(kt, gone, false, true);
		walk_and_remove(kt, gone - 1, true, false);
		walk_and_remove(kt, gone - 1, true, true);
	}
}

/* Look up the key, then continue an iterator inside the layer that is removed. */
static struct inside {
	struct kt_cursor cur;
	struct kvt_key key;
	enum kvt_park at;
	unsigned int looked;
	int get;
	int next;
} inside;

static void look_inside(enum kvt_park at)
{
	if (at != inside.at)
		return;
	inside.looked++;
	inside.get = kt_get_rcu(inside.cur.kt, &inside.key, NULL);
	inside.next = next_rcu(&inside.cur);
}

static void remove_below_iterator(struct kt *kt, enum kvt_park at)
{
	memset(&inside, 0, sizeof(inside));
	inside.at = at;
	inside.key = KT_KEY("layer...2");
	put(kt, KT_KEY("layer...1"));
	put(kt, inside.key);
	KUNIT_ASSERT_EQ(kt->test, 0, kt_cursor_init(kt, &inside.cur));
	rcu_read_lock();
	kt_cursor_set(&inside.cur, &KT_KEY("l"), KVT_AT, false);
	expect_next(&inside.cur, "layer...1");
	KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &KT_KEY("layer...1"), GFP_NOWAIT, NULL));
	WRITE_ONCE(kvt_park_hook, look_inside);
	KUNIT_EXPECT_EQ(kt->test, 0, kt_del_gfp(kt, &inside.key, GFP_NOWAIT, NULL));
	WRITE_ONCE(kvt_park_hook, NULL);
	rcu_read_unlock();
	kt_cursor_exit(&inside.cur);
	KUNIT_EXPECT_EQ(kt->test, 1, inside.looked);
}

static void an_iterator_in_a_layer_being_removed_returns_no_more_than_a_lookup(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	enum kvt_park at;

	for (at = KVT_PARK_COLLECT_LOCKED; at <= KVT_PARK_COLLECT_MARKED; at++) {
		remove_below_iterator(kt, at);
		KUNIT_EXPECT_EQ_MSG(test, at == KVT_PARK_COLLECT_LOCKED ? 0 : -ENOENT, inside.get,
				    "point %d", at);
		KUNIT_EXPECT_EQ_MSG(test, inside.get, inside.next, "point %d", at);
	}
}

/* The only free slot is that of the removed key. */
static int take_slot_of_next(struct kt *kt)
{
	return kt_del(kt, &KT_KEY("key b"), NULL) ?: kt_put(kt, &KT_KEY("key z"), NULL);
}

/* The iterator has found the key, and is about to read its slot. */
static void a_slot_that_another_key_takes_is_not_read_in_its_place(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	char name[] = "key a";
	unsigned int i;

	for (i = 0; i < MT_LEAF_WIDTH; i++) {
		name[4] = 'a' + i;
		put(kt, KT_KEY(name));
	}
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	kt_cursor_set(&cur, &KT_KEY("key a"), KVT_AT, false);
	overtake_at(kt, KVT_PARK_SCAN_SLOTS, take_slot_of_next);
	rcu_read_lock();
	expect_next(&cur, "key a");
	for (i = 2; i < MT_LEAF_WIDTH; i++) {
		name[4] = 'a' + i;
		expect_next(&cur, name);
	}
	expect_next(&cur, "key z");
	expect_next(&cur, NULL);
	rcu_read_unlock();
	expect_overtaken(kt);
	kt_cursor_exit(&cur);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, 1);
}

/* Nested layers of several leaves; the i-th keeps i numbers. */
static void make_thin_layers(struct kt *kt)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		put_numbers(kt, 8 * i, 5 * MT_LEAF_WIDTH);
	for (i = 0; i < 5; i++)
		del_numbers(kt, 8 * i, i, 5 * MT_LEAF_WIDTH);
}

static void one_sweep_finds_all_thin_layers(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	u64 leaves, inners;
	unsigned int i;
	char name[16];

	make_thin_layers(kt);
	/* Layers side by side, with one key each; every other one has none, and is gone. */
	for (i = 0; i < 300; i++) {
		sprintf(name, "layer%03u.1", i);
		put(kt, string_key(test, 0, name));
		name[9] = '2';
		put(kt, string_key(test, 0, name));
		del(kt, string_key(test, 0, name));
		name[9] = '1';
		if (i & 1)
			del(kt, string_key(test, 0, name));
	}
	KUNIT_EXPECT_GE(test, kt_stat(kt, KVTREE_STAT_LAYERS), 150);
	kt_settle(kt);
	leaves = kt_stat(kt, KVTREE_STAT_LEAF_NODES);
	inners = kt_stat(kt, KVTREE_STAT_INNER_NODES);
	expect_stat(kt, KVTREE_STAT_LAYERS, 4);
	expect_count(kt, 150 + 10);
	/* Another sweep finds nothing to do. */
	kt_settle(kt);
	expect_stat(kt, KVTREE_STAT_LEAF_NODES, leaves);
	expect_stat(kt, KVTREE_STAT_INNER_NODES, inners);
}

/* Removals without memory to tell the worker which layers to check. */
static void without_memory_for_a_work_item_the_worker_sweeps(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = mt_tree(kt->index);

	put(kt, string_key(test, 24, "1"));
	put(kt, string_key(test, 24, "2"));
	put(kt, KT_KEY("other"));
	/* All the bytes that work items may take: none is allocated. */
	atomic_add(INT_MAX / 2, &tree->check_bytes);
	del(kt, string_key(test, 24, "1"));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(tree->sweep_needed));
	KUNIT_EXPECT_TRUE(test, llist_empty(&tree->checks));
	expect_stat(kt, KVTREE_STAT_LAYERS, 3);
	run_worker(kt);
	atomic_sub(INT_MAX / 2, &tree->check_bytes);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree->sweep_needed));
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_count(kt, 2);
}

/* Removals of long keys that cannot be remembered cost a sweep now and then. */
static void sweeps_rest_between_each_other(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = mt_tree(kt->index);
	struct delayed_work *work = &tree->check_work;
	const unsigned long before = jiffies;
	unsigned int ms;

	put(kt, KT_KEY("same slice 1"));
	put(kt, KT_KEY("same slice 2"));
	atomic_add(INT_MAX / 2, &tree->check_bytes);
	del(kt, KT_KEY("same slice 1"));
	tree->sweep_due = jiffies + 3600 * HZ;
	enable_delayed_work(work);
	queue_delayed_work(kt->wq, work, 0);
	flush_delayed_work(work);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(tree->sweep_needed));
	expect_stat(kt, KVTREE_STAT_LAYERS, 1);
	/* The worker handles the layers that it remembers without waiting for that. */
	atomic_sub(INT_MAX / 2, &tree->check_bytes);
	put(kt, KT_KEY("other slice 1"));
	put(kt, KT_KEY("other slice 2"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 2);
	del(kt, KT_KEY("other slice 1"));
	for (ms = 0; ms < 60000 && kt_stat(kt, KVTREE_STAT_LAYERS) > 1; ms++)
		usleep_range(1000, 2000);
	expect_stat(kt, KVTREE_STAT_LAYERS, 1);
	disable_delayed_work_sync(work);
	tree->sweep_due = before - HZ;
	run_worker(kt);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree->sweep_needed));
	KUNIT_EXPECT_TRUE(test, time_after_eq(tree->sweep_due, before));
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
}

/* Keys on either side of those to be swept. */
#define FAR_KEYS	(400u * MT_LEAF_WIDTH)
#define NEAR_KEYS	(10u * MT_LEAF_WIDTH)

/* Leaves that an iterator may read in vain in one RCU read section. */
#define RUN_LEAVES	256u

static unsigned int leaves_read;

static void count_leaves(enum kvt_park at)
{
	if (at == KVT_PARK_SCAN_PLACED)
		leaves_read++;
}

static void put_numbered(struct kt *kt, const char *format, unsigned int nr)
{
	char name[16];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		sprintf(name, format, i);
		put(kt, string_key(kt->test, 0, name));
	}
}

/* It does not depend on how much else is in the store. */
static void a_sweep_begins_and_ends_with_what_it_is_for(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = mt_tree(kt->index);

	put_numbered(kt, "a%07u", FAR_KEYS);
	put_numbered(kt, "m%07u", NEAR_KEYS);
	put_numbered(kt, "z%07u", FAR_KEYS);
	put(kt, KT_KEY("m0000000 1"));
	put(kt, KT_KEY("m0000000 2"));
	put(kt, KT_KEY("m0000100 1"));
	put(kt, KT_KEY("m0000100 2"));
	atomic_add(INT_MAX / 2, &tree->check_bytes);
	del(kt, KT_KEY("m0000100 1"));
	del(kt, KT_KEY("m0000000 1"));
	expect_stat(kt, KVTREE_STAT_LAYERS, 2);
	leaves_read = 0;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	WRITE_ONCE(kvt_park_loose_hook, count_leaves);
	run_worker(kt);
	kunit_release_action(test, clear_loose_hook, NULL);
	atomic_sub(INT_MAX / 2, &tree->check_bytes);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree->sweep_needed));
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	KUNIT_EXPECT_NE(test, 0, leaves_read);
	KUNIT_EXPECT_LE(test, leaves_read, RUN_LEAVES + 4 * NEAR_KEYS / MT_LEAF_WIDTH);
	expect_count(kt, 2 * FAR_KEYS + NEAR_KEYS + 2);
}

static struct mt_tree *ending;
static unsigned int layers_found;

static void end_tree(enum kvt_park at)
{
	if (at == KVT_PARK_LAYER_FOUND && !layers_found++)
		WRITE_ONCE(ending->ending, true);
}

/* Destroying the tree waits for the worker. */
static void a_sweep_ends_when_its_tree_does(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	unsigned int i;
	char name[16];

	for (i = 0; i < 300; i++) {
		sprintf(name, "layer%03u.1", i);
		put(kt, string_key(test, 0, name));
		name[9] = '2';
		put(kt, string_key(test, 0, name));
		del(kt, string_key(test, 0, name));
	}
	expect_stat(kt, KVTREE_STAT_LAYERS, 300);
	ending = mt_tree(kt->index);
	layers_found = 0;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_loose_hook, NULL));
	WRITE_ONCE(kvt_park_loose_hook, end_tree);
	kt->ops->sweep(kt->index);
	run_worker(kt);
	kunit_release_action(test, clear_loose_hook, NULL);
	KUNIT_EXPECT_NE(test, 0, layers_found);
	/* Only the first layer was collected. */
	expect_stat(kt, KVTREE_STAT_LAYERS, 299);
	KUNIT_EXPECT_TRUE(test, llist_empty(&ending->checks));
}

static void what_work_items_take_is_bounded_by_bytes(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct mt_tree *tree = mt_tree(kt->index);
	const int others = MT_CHECK_BYTES - 128;

	put(kt, KT_KEY("same slice 1"));
	put(kt, KT_KEY("same slice 2"));
	put(kt, string_key(test, 400, "1"));
	put(kt, string_key(test, 400, "2"));
	atomic_add(others, &tree->check_bytes);
	del(kt, KT_KEY("same slice 1"));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree->sweep_needed));
	KUNIT_EXPECT_FALSE(test, llist_empty(&tree->checks));
	KUNIT_EXPECT_GT(test, atomic_read(&tree->check_bytes), others);
	/* The other layer's work item is larger than what is left. */
	del(kt, string_key(test, 400, "1"));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(tree->sweep_needed));
	KUNIT_EXPECT_LE(test, atomic_read(&tree->check_bytes), MT_CHECK_BYTES);
	run_worker(kt);
	KUNIT_EXPECT_EQ(test, others, atomic_read(&tree->check_bytes));
	atomic_sub(others, &tree->check_bytes);
	expect_stat(kt, KVTREE_STAT_LAYERS, 0);
	expect_count(kt, 2);
}

/* Memory */

/* Milliseconds: long enough for a free that does not wait for readers. */
#define LINGER_MS	100

static void a_value_stays_while_a_reader_may_hold_it(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	const struct kvt_key key = KT_KEY("key of a value");
	struct kvt_cell cell;
	struct kvt_value *value;
	int replaced, removed;
	bool ok;

	put(kt, key);
	rcu_read_lock();
	value = kt->ops->get(kt->index, &key, &cell);
	replaced = kt_put_gfp(kt, &key, GFP_NOWAIT, NULL);
	kt_linger(LINGER_MS);
	ok = kt_value_ok(value, &key);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, 0, replaced);
	KUNIT_EXPECT_TRUE(test, ok);

	rcu_read_lock();
	value = kt->ops->get(kt->index, &key, &cell);
	removed = kt_del_gfp(kt, &key, GFP_NOWAIT, NULL);
	kt_linger(LINGER_MS);
	ok = kt_value_ok(value, &key);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, 0, removed);
	KUNIT_EXPECT_TRUE(test, ok);
}

/* The iterator is about to follow the link to a leaf that is removed. */
static void a_leaf_stays_while_a_reader_may_hold_it(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kvt_key key[MT_LEAF_WIDTH];
	struct kt_cursor cur;
	int removed = 0, err;
	unsigned int i;
	s64 nr = 0;

	put_numbers(kt, 0, 3 * MT_LEAF_WIDTH);
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		key[i] = number_key(test, 0, MT_LEAF_WIDTH + i);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	rcu_read_lock();
	err = kt_cursor_next_rcu(&cur);
	for (i = 0; i < MT_LEAF_WIDTH && !removed; i++)
		removed = kt_del_gfp(kt, &key[i], GFP_NOWAIT, NULL);
	kt_linger(LINGER_MS);
	while (!err || err == -EAGAIN) {
		nr += !err;
		err = kt_cursor_next_rcu(&cur);
	}
	rcu_read_unlock();
	kt_cursor_exit(&cur);
	KUNIT_EXPECT_EQ(test, 0, removed);
	expect_stat(kt, KVTREE_STAT_NODE_UNLINK, 1);
	KUNIT_EXPECT_EQ(test, -ENOENT, err);
	KUNIT_EXPECT_EQ(test, 2 * MT_LEAF_WIDTH, nr);
}

#define LAYERS	100

static void each_in_layers(struct kt *kt, unsigned int from,
			   void (*fn)(struct kt *kt, struct kvt_key key))
{
	unsigned int i, j;
	char name[10];

	for (i = from; i < LAYERS; i++)
		for (j = 0; j < 2; j++) {
			snprintf(name, sizeof(name), "%08u%c", i, 'a' + j);
			fn(kt, string_key(kt->test, 0, name));
		}
}

/* The nodes that were to be prefetched may be freed before the iterator continues. */
static void what_is_to_be_prefetched_is_forgotten_without_rcu(struct kunit *test)
{
	struct kt *kt = open_masstree(test);
	struct kt_cursor cur;
	unsigned int i, nr = 0;
	int err = 0;

	each_in_layers(kt, 0, put);
	put_numbers(kt, 8, 3 * MT_LEAF_WIDTH);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	/* Into the second leaf: layers below the third one have been prefetched. */
	rcu_read_lock();
	for (i = 0; i < 2 * MT_LEAF_WIDTH + 2 && !err; i++)
		err = kt_cursor_next_rcu(&cur);
	kt->ops->iter_rest(cur.iter);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, 0, err);
	each_in_layers(kt, MT_LEAF_WIDTH + 1, del);
	kt_flush(kt);
	rcu_read_lock();
	do {
		err = kt_cursor_next_rcu(&cur);
		nr += !err;
	} while (!err || err == -EAGAIN);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, -ENOENT, err);
	KUNIT_EXPECT_EQ(test, 3 * MT_LEAF_WIDTH, nr);
	kt_cursor_exit(&cur);
}

/* Versions */

static u64 version_after_put(struct kt *kt, struct kvt_key key)
{
	u64 version = 0;

	KUNIT_EXPECT_EQ(kt->test, 0, kt_put(kt, &key, &version));
	return version;
}

static void remove_then_reinsert_keeps_versions_growing(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	struct kvt_key a = string_key(test, 16, "a"), b = string_key(test, 16, "b");
	u64 version_a = 0, version_b = 0, version;
	unsigned int round;

	for (round = 0; round < 20; round++) {
		version = version_after_put(kt, a);
		KUNIT_EXPECT_GT(test, version, version_a);
		version_a = version_after_put(kt, a);
		KUNIT_EXPECT_GT(test, version_a, version);
		version = version_after_put(kt, b);
		KUNIT_EXPECT_GT(test, version, version_b);
		version_b = version;
		/* The layers collapse to one key, or are collected. */
		del(kt, a);
		if (round & 1)
			kt_settle(kt);
		if (round & 2)
			del(kt, b);
		kt_settle(kt);
	}
}

KT_ENGINES();

static struct kunit_case hazard_cases[] = {
	KUNIT_CASE(an_insert_that_waits_for_an_emptied_leaf_is_not_lost),
	KUNIT_CASE(leftmost_leaves_are_freed_like_others),
	KUNIT_CASE(a_layer_is_removed_with_its_last_key),
	KUNIT_CASE(five_hundred_layers_go_with_their_last_key),
	KUNIT_CASE(a_commit_hands_no_layers_over_to_be_freed),
	KUNIT_CASE(layers_go_as_far_up_as_nothing_else_is_left),
	KUNIT_CASE(layers_of_many_leaves_go_with_their_last_key),
	KUNIT_CASE(layers_go_from_where_splits_have_moved_them),
	KUNIT_CASE(scans_that_meet_the_collection_of_a_layer_end),
	KUNIT_CASE(a_layer_whose_last_leaves_are_emptied_at_a_time_is_removed),
	KUNIT_CASE(a_leaf_is_removed_with_the_layer_that_the_worker_takes_out),
	KUNIT_CASE(a_leaf_stays_locked_while_it_becomes_the_root),
	KUNIT_CASE(a_reader_on_top_of_a_writer_does_not_wait_for_it),
	KUNIT_CASE(lookups_that_only_fetch_do_not_wait_for_a_writer),
	KUNIT_CASE(keys_are_found_while_the_root_of_a_sub_layer_grows),
	KUNIT_CASE(a_scan_sees_each_stable_key_once_across_root_growth),
	KUNIT_CASE(a_scan_never_takes_a_length_for_that_of_another_key),
	KUNIT_CASE(nothing_is_read_behind_the_end_of_a_key),
	KUNIT_CASE(keys_of_nine_bytes_are_told_apart_by_the_last),
	KUNIT_CASE(all_lengths_of_a_slice_stay_in_one_leaf),
	KUNIT_CASE(a_leaf_whose_first_slot_has_another_slice_keeps_its_range),
	KUNIT_CASE(a_reused_slot_belongs_to_the_new_key_alone),
	KUNIT_CASE(a_slot_that_a_layer_has_left_belongs_to_the_new_key_alone),
	KUNIT_CASE(a_removed_layer_is_not_removed_again),
	KUNIT_CASE(a_removed_child_does_not_become_the_root),
	KUNIT_CASE(a_node_that_is_no_root_any_more_does_not_make_way),
	KUNIT_CASE(a_key_that_a_layer_leaves_is_not_returned_again),
	KUNIT_CASE(a_slot_that_another_key_takes_is_not_read_in_its_place),
	KUNIT_CASE(a_chain_of_layers_is_published_at_once),
	KUNIT_CASE(a_layer_of_one_key_collapses),
	KUNIT_CASE(the_worker_collapses_a_chain_of_five_hundred_layers),
	KUNIT_CASE(a_scan_works_for_the_length_of_the_keys_it_returns),
	KUNIT_CASE(a_scan_comes_back_to_every_layer_that_has_more),
	KUNIT_CASE(a_scan_does_not_work_for_keys_that_were_removed),
	KUNIT_CASE(a_removal_works_for_the_length_of_its_key),
	KUNIT_CASE(a_change_in_a_layer_sends_no_reader_to_the_layers_above),
	KUNIT_CASE(deep_layers_stop_no_reader_that_cannot_pause),
	KUNIT_CASE(a_reader_whose_keys_go_gives_up_when_all_tries_are_spent),
	KT_CASE(an_iterator_returns_nothing_that_was_gone_before),
	KUNIT_CASE(an_iterator_in_a_layer_being_removed_returns_no_more_than_a_lookup),
	KUNIT_CASE(one_sweep_finds_all_thin_layers),
	KUNIT_CASE(without_memory_for_a_work_item_the_worker_sweeps),
	KUNIT_CASE(sweeps_rest_between_each_other),
	KUNIT_CASE(a_sweep_begins_and_ends_with_what_it_is_for),
	KUNIT_CASE(a_sweep_ends_when_its_tree_does),
	KUNIT_CASE(what_work_items_take_is_bounded_by_bytes),
	KT_CASE(a_value_stays_while_a_reader_may_hold_it),
	KUNIT_CASE(a_leaf_stays_while_a_reader_may_hold_it),
	KUNIT_CASE(what_is_to_be_prefetched_is_forgotten_without_rcu),
	KT_CASE(remove_then_reinsert_keeps_versions_growing),
	{}
};

static struct kunit_suite hazard_suite = {
	.name = "kvtree_masstree_hazard",
	.test_cases = hazard_cases,
};

kunit_test_suite(hazard_suite);
