// SPDX-License-Identifier: GPL-2.0
/*
 * What a Bw-tree could get wrong: one case for each hazard.
 *
 * A case builds a small tree, brings it into the state in question, often from the hook of a
 * park point in the middle of a step, and checks how other operations cope with it.
 */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "bwtree/find.h"
#include "bwtree/tree.h"
#include "lib.h"
#include "thread.h"

/* Keys are numbers, of eight bytes; only the last byte differs. */
#define KEYS		256
/* Six entries and a few bytes. */
#define SMALL		100

static struct {
	struct kt *kt;
	void (*act)(enum kvt_park at);
	bool inside;			/* @act runs */
	/* For @act: */
	unsigned int key;
	u32 id;
	struct kvt_key long_key;
	unsigned int passed;		/* how often it met what it waits for */
	bool armed;			/* its next allocation fails */
	bool half;			/* a page is split, but not posted */
	u8 data[KEYS][8];
} hazard;

static struct kvt_key key_of(unsigned int i)
{
	return KT_BYTES(hazard.data[i], 8);
}

static struct bw_want want_of(unsigned int i)
{
	return bw_want(hazard.data[i], 8);
}

static struct bw_tree *tree_of(const struct kt *kt)
{
	return bw_tree(kt->index);
}

static void hazard_hook(enum kvt_park at)
{
	int held;

	if (hazard.inside)
		return;
	hazard.inside = true;
	held = kt_pause_holding();
	hazard.act(at);
	kt_go_on_holding(held);
	hazard.inside = false;
}

/* Call @act in the middle of every step, except those that it makes itself; NULL: nothing. */
static void act_between_steps(void (*act)(enum kvt_park at))
{
	hazard.act = act;
	WRITE_ONCE(kvt_park_loose_hook, act ? hazard_hook : NULL);
}

static void hazard_exit(void *arg)
{
	act_between_steps(NULL);
}

/* Make a tree without a worker, so that only the case changes it. */
static struct kt *open_limited(struct kunit *test, u32 page_size, u64 limit)
{
	const struct kt_engine engine = { "bwtree", &kvt_bwtree_ops, page_size };
	unsigned int i;

	memset(&hazard, 0, sizeof(hazard));
	for (i = 0; i < KEYS; i++)
		put_unaligned_be64(i, hazard.data[i]);
	hazard.kt = kt_open_pages(test, &engine, limit);
	disable_delayed_work_sync(&tree_of(hazard.kt)->work);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hazard_exit, NULL));
	return hazard.kt;
}

static struct kt *open_tree(struct kunit *test, u32 page_size)
{
	return open_limited(test, page_size, U64_MAX);
}

static void put(struct kt *kt, unsigned int i)
{
	const struct kvt_key key = key_of(i);

	KUNIT_EXPECT_EQ_MSG(kt->test, 0, kt_put_gfp(kt, &key, GFP_NOWAIT, NULL), "key %u", i);
}

static void del(struct kt *kt, unsigned int i)
{
	const struct kvt_key key = key_of(i);

	KUNIT_EXPECT_EQ_MSG(kt->test, 0, kt_del_gfp(kt, &key, GFP_NOWAIT, NULL), "key %u", i);
}

static void put_all(struct kt *kt, unsigned int from, unsigned int to)
{
	for (; from < to; from++)
		put(kt, from);
}

/* The page on a level that covers a key. */
static u32 page_at(struct kt *kt, unsigned int i, u8 level)
{
	const struct bw_want want = want_of(i);
	struct bw_at at;
	int err;

	rcu_read_lock();
	err = bw_seek(tree_of(kt), &want, level, BW_SEEK_READ, &at);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(kt->test, 0, err);
	return at.id;
}

/* The newest record of the leaf that covers a key. */
static struct bw_rec leaf_of(struct kt *kt, unsigned int i)
{
	u32 id = page_at(kt, i, 0);
	struct bw_rec rec;

	rcu_read_lock();
	rec = *bw_load(tree_of(kt), id);
	rcu_read_unlock();
	return rec;
}

/* The first key of the leaf to the right of a key's leaf. */
static unsigned int next_leaf(struct kt *kt, unsigned int i)
{
	u32 id = page_at(kt, i, 0);

	while (i < KEYS - 1 && page_at(kt, i, 0) == id)
		i++;
	return i;
}

/* Remove keys of a leaf, from @i on, until @left are left.  Returns the next one. */
static unsigned int trim(struct kt *kt, unsigned int i, unsigned int left)
{
	for (; leaf_of(kt, i).nr > left; i++)
		del(kt, i);
	return i;
}

static struct delayed_work *worker_of(struct kt *kt)
{
	return &tree_of(kt)->work;
}

/* Have the worker make its rounds without pauses. */
static void wait_until_asleep(struct kt *kt)
{
	while (flush_delayed_work(worker_of(kt)) || !READ_ONCE(tree_of(kt)->asleep))
		;
}

/* The same for a disabled worker. */
static void let_worker_rest(struct kt *kt)
{
	enable_delayed_work(worker_of(kt));
	queue_delayed_work(kt->wq, worker_of(kt), 0);
	wait_until_asleep(kt);
	disable_delayed_work_sync(worker_of(kt));
}

/* Consolidate or split the leaf of a key. */
static void tidy(struct kt *kt, unsigned int i)
{
	KUNIT_EXPECT_EQ(kt->test, 0,
			bw_tidy(tree_of(kt), page_at(kt, i, 0), 0, false, GFP_NOWAIT));
}

/* Check a page: does its first key lead to it, and is no step pending? */
static const char *page_wrong(struct bw_tree *tree, u32 id, struct bw_rec *top)
{
	struct bw_want low;
	struct bw_at at;

	if (top->kind == BW_REMOVE)
		return "is frozen";
	if (top->has_mark)
		return "has a mark";
	low = bw_want_key(bw_page_low(top->base));
	if (bw_seek(tree, &low, top->level, BW_SEEK_READ, &at) || at.id != id)
		return "is not where its key leads";
	return NULL;
}

/*
 * Expect that no step is pending.  Remove a page that nothing leads to: its contents
 * also belong to another page, and would be freed twice.
 */
static bool expect_whole(struct kt *kt)
{
	struct bw_tree *tree = tree_of(kt);
	unsigned int leaves = 0, inner = 0;
	bool whole = true;
	struct bw_rec *top;
	const char *wrong;
	u32 id;

	for (id = 0; id < (u32)atomic_read(&tree->map->next); id++) {
		rcu_read_lock();
		top = bw_load_any(tree, id);
		wrong = top ? page_wrong(tree, id, top) : NULL;
		leaves += top && !top->level;
		inner += top && top->level;
		if (wrong && top->kind != BW_REMOVE && !top->has_mark)
			WRITE_ONCE(*bw_map_entry(tree->map, id), 0);
		rcu_read_unlock();
		KUNIT_EXPECT_NULL_MSG(kt->test, wrong, "page %u %s", id, wrong);
		whole &= !wrong;
	}
	KUNIT_EXPECT_EQ(kt->test, leaves, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(kt->test, inner, kt_stat(kt, KVTREE_STAT_INNER_NODES));
	return whole;
}

/* The same, and writers can pass everywhere: a step that nobody can finish would stop them. */
static void expect_usable(struct kt *kt)
{
	unsigned int i;

	if (!expect_whole(kt))
		return;
	put_all(kt, 0, KEYS);
	for (i = 0; i < KEYS; i += 2)
		del(kt, i);
	kt_settle(kt);
	expect_whole(kt);
	KUNIT_EXPECT_EQ(kt->test, KEYS / 2, kt_count(kt, false));
	KUNIT_EXPECT_EQ(kt->test, KEYS / 2, kt_count(kt, true));
}

/* The module may be unloaded when no thread is in the hook any more. */
static int hazard_begin(struct kunit_suite *suite)
{
#ifdef CONFIG_FAILSLAB
	return kt_failing_begin(suite);
#else
	return 0;
#endif
}

static void hazard_end(struct kunit_suite *suite)
{
#ifdef CONFIG_FAILSLAB
	kt_failing_end(suite);
#endif
	synchronize_rcu();
}

/* Readers */

/*
 * The last two leaves are frozen for ever, in the middle of their removal.  A reader that
 * looks for a key of the last one is sent to the first, moves right to the other frozen
 * one, and restarts.
 */
#define MAZE_LEAVES	10

static struct maze {
	struct kt *kt;
	unsigned int key[MAZE_LEAVES];	/* the first of each leaf */
	u32 id[MAZE_LEAVES];
	struct bw_remove *remove[2];
	unsigned long entry[2];		/* what they replaced */
	bool end;			/* the watching thread may end */
	bool lost;			/* the reader had to be released */
} maze;

static void maze_freeze(unsigned int i, unsigned int leaf, unsigned int left)
{
	unsigned long *entry = bw_map_entry(tree_of(maze.kt)->map, maze.id[leaf]);
	struct bw_rec *top = (struct bw_rec *)*entry;
	const struct bw_want low = bw_want_key(bw_page_low(top->base));
	struct bw_remove *remove = maze.remove[i];

	remove->rec = *top;
	remove->rec.kind = BW_REMOVE;
	remove->rec.next = top;
	remove->id = maze.id[leaf];
	remove->left = maze.id[left];
	bw_key_set(&remove->low, &low);
	maze.entry[i] = *entry;
	smp_store_release(entry, (unsigned long)remove);	/* as bw_publish() */
}

static void maze_open(unsigned int leaf, unsigned int i)
{
	WRITE_ONCE(*bw_map_entry(tree_of(maze.kt)->map, maze.id[leaf]), maze.entry[i]);
}

static bool maze_too_long(void)
{
	return kt_stat(maze.kt, KVTREE_STAT_READ_RESTART) > MAZE_LEAVES * BW_READ_BUDGET;
}

/* Release a reader that never stops. */
static int maze_watch(void *arg)
{
	unsigned int last = *(unsigned int *)arg;

	while (!READ_ONCE(maze.end)) {
		if (maze_too_long()) {
			WRITE_ONCE(maze.lost, true);
			maze_open(last - 2, 0);
		}
		cond_resched();
	}
	return 0;
}

/* Look up a key in a maze of @nr leaves: the number determines the pages visited per round. */
static int maze_get(struct kunit *test, unsigned int nr)
{
	const struct kvt_key key = key_of(maze.key[nr - 1]);
	struct kt_thread watcher;
	int err;

	maze.end = false;
	maze.lost = false;
	maze_freeze(0, nr - 2, 0);
	maze_freeze(1, nr - 1, 0);
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&watcher, 0, maze_watch, &nr));
	kt_thread_start(&watcher);
	rcu_read_lock();
	err = kt_get_rcu(maze.kt, &key, NULL);
	rcu_read_unlock();
	WRITE_ONCE(maze.end, true);
	kt_thread_join(&watcher);
	maze_open(nr - 2, 0);
	maze_open(nr - 1, 1);
	return err;
}

static void a_reader_gives_up_wherever_its_budget_ends(struct kunit *test)
{
	unsigned int i, nr;

	memset(&maze, 0, sizeof(maze));
	maze.kt = open_tree(test, SMALL);
	for (i = 0; i < 2; i++) {
		maze.remove[i] = kunit_kzalloc(test, sizeof(*maze.remove[i]), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, maze.remove[i]);
	}
	put_all(maze.kt, 0, KEYS);
	for (i = 0; i < MAZE_LEAVES; i++) {
		maze.key[i] = i ? next_leaf(maze.kt, maze.key[i - 1]) : 0;
		maze.id[i] = page_at(maze.kt, maze.key[i], 0);
	}
	for (nr = 3; nr <= MAZE_LEAVES; nr++) {
		KUNIT_EXPECT_EQ_MSG(test, -EBUSY, maze_get(test, nr), "%u leaves", nr);
		KUNIT_EXPECT_FALSE_MSG(test, maze.lost, "%u leaves", nr);
		if (maze.lost)
			break;
	}
}

/* The cache line of an offset in a page. */
static u32 line_of(u32 off)
{
	return (off + BW_MEM_HEAD) / BW_LINE;
}

/* Otherwise each change would invalidate the line in the caches of all readers. */
static void a_change_writes_no_line_that_lookups_read(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	const struct bw_page *page;
	unsigned int i;
	u32 off, changed = 0;
	u8 *was;

	put(kt, 0);
	page = leaf_of(kt, 0).base;
	was = kunit_kmalloc(test, page->size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, was);
	memcpy(was, page, page->size);
	for (i = 1; i < 4; i++)
		put(kt, i);
	KUNIT_ASSERT_TRUE(test, leaf_of(kt, 0).base == page);
	for (off = 0; off < page->size; off++) {
		if (((u8 *)page)[off] == was[off])
			continue;
		changed++;
		KUNIT_EXPECT_GT_MSG(test, line_of(off), line_of(page->end - 1), "byte %u of %u",
				    off, page->end);
	}
	KUNIT_EXPECT_NE(test, 0, changed);
}

/* Prefixes */

static void count_pages(enum kvt_park at)
{
	if (at == KVT_PARK_BW_SEEK)
		hazard.passed++;
}

/*
 * For each prefix of a key, put a key that differs in the prefix's last byte and has @tail
 * more bytes.  None of these is a prefix of the key.  Returns the key's @len bytes.
 */
static u8 *put_near_beginnings(struct kt *kt, u32 len, u32 tail)
{
	u8 *data = kunit_kmalloc(kt->test, len + tail, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(kt->test, data);
	memset(data, 'm', len + tail);
	for (i = 0; i < len; i++) {
		data[i] = 'l';
		KUNIT_ASSERT_EQ(kt->test, 0, kt_put(kt, &KT_BYTES(data, i + 1 + tail), NULL));
		data[i] = 'm';
	}
	return data;
}

static void a_prefix_is_found_past_keys_that_nearly_are(struct kunit *test)
{
	struct kt *kt = open_tree(test, 0);
	const u32 len = 512;
	u8 *data = put_near_beginnings(kt, len, 0);
	struct kvt_key key = KT_BYTES(data, len);

	act_between_steps(count_pages);
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_get_prefix(kt, &key, NULL));
	act_between_steps(NULL);
	KUNIT_EXPECT_LE(test, hazard.passed, len / 2);
	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(data, 7), NULL));
	KUNIT_EXPECT_EQ(test, 7, kt_get_prefix(kt, &key, NULL));
	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(data, 0), NULL));
	KUNIT_ASSERT_EQ(test, 0, kt_del(kt, &KT_BYTES(data, 7), NULL));
	KUNIT_EXPECT_EQ(test, 0, kt_get_prefix(kt, &key, NULL));
}

/* The number of pages that a failing prefix lookup of a key's first bytes visits. */
static unsigned int pages_of_prefix(struct kt *kt, const u8 *data, u32 len)
{
	s64 found;

	hazard.passed = 0;
	act_between_steps(count_pages);
	rcu_read_lock();
	found = kt_get_prefix_rcu(kt, &KT_BYTES(data, len), NULL);
	rcu_read_unlock();
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ_MSG(kt->test, -ENOENT, found, "%u bytes", len);
	return hazard.passed;
}

/*
 * The same with long suffixes, few of which fit a page: there are more pages than a reader
 * may visit without progress.
 */
static void pages_of_a_prefix_are_as_many_as_its_bytes_at_most(struct kunit *test)
{
	struct kt *kt = open_tree(test, 0);
	const u32 len = KVTREE_KEY_MAX - 800;
	u8 *data = put_near_beginnings(kt, len, 800);
	u32 i;

	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_LEAF_NODES), len / 8);
	for (i = 100; i <= len; i *= 2)
		KUNIT_EXPECT_LE_MSG(test, pages_of_prefix(kt, data, i), i, "%u bytes", i);
	KUNIT_EXPECT_LE(test, pages_of_prefix(kt, data, len), len);
	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(data, 7), NULL));
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, 7, kt_get_prefix_rcu(kt, &KT_BYTES(data, len), NULL));
	rcu_read_unlock();
}

/* Merges */

/* Mark the term of a page to be merged into that of a key, and stop there. */
static void leave_mark(struct kt *kt, unsigned int i)
{
	struct bw_stock stock = { .gfp = GFP_NOWAIT, .pass = true };
	struct bw_help help = { .kind = BW_HELP_FOLD, .want = want_of(i) };

	KUNIT_ASSERT_EQ(kt->test, BW_NEEDS_HELP,
			bw_run(tree_of(kt), bw_mark_step, &help, &stock));
	bw_stock_drop(tree_of(kt), &stock);
	KUNIT_ASSERT_EQ(kt->test, BW_HELP_FINISH, help.kind);
}

/* The second leaf is short, and about to be merged with the third. */
static struct kt *open_short(struct kunit *test, unsigned int *left)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int right;

	put_all(kt, 0, 40);
	*left = next_leaf(kt, 0);
	right = next_leaf(kt, *left);
	trim(kt, *left, 1);
	trim(kt, right, 2);
	/* No other step is pending there. */
	tidy(kt, right);
	return kt;
}

/*
 * A thread has marked a leaf and not continued; meanwhile the left sibling got more keys,
 * and neither of them is short.
 */
static struct kt *open_marked(struct kunit *test)
{
	unsigned int left;
	struct kt *kt = open_short(test, &left);

	leave_mark(kt, left);
	put_all(kt, left, left + 4);
	return kt;
}

/* Nested marks: each page is to be merged after the one below it. */
#define NESTED	7u

static int put_number(struct kt *kt, u64 number)
{
	__be64 data = cpu_to_be64(number);

	return kt_put_gfp(kt, &KT_BYTES(&data, sizeof(data)), GFP_NOWAIT, NULL);
}

/* Split the pages with four entries on the way to a number, each in the middle. */
static void split_way(struct kt *kt, u64 number)
{
	__be64 data = cpu_to_be64(number);
	const struct bw_want want = bw_want((u8 *)&data, sizeof(data));
	struct bw_tree *tree = tree_of(kt);
	u16 nr;
	struct bw_at at;
	u8 level;

	for (level = 0;; level++) {
		rcu_read_lock();
		nr = bw_seek(tree, &want, level, BW_SEEK_READ, &at) ? 0 : at.top->nr;
		rcu_read_unlock();
		if (nr < BW_SPLIT_MIN)
			break;
		KUNIT_EXPECT_EQ(kt->test, 0, bw_tidy(tree, at.id, 8, true, GFP_KERNEL));
		KUNIT_EXPECT_EQ(kt->test, 0, bw_tidy(tree, at.id, 0, false, GFP_KERNEL));
	}
}

/* Mark a child of the page that covers a number.  Returns the marked page's first number. */
static u64 leave_mark_below(struct kt *kt, u64 number, u8 level)
{
	struct bw_stock stock = { .gfp = GFP_NOWAIT, .pass = true };
	__be64 data = cpu_to_be64(number);
	struct bw_help help = {
		.kind = BW_HELP_FOLD,
		.want = bw_want((u8 *)&data, sizeof(data)),
		.level = level - 1,
	};
	const struct bw_page *base;
	struct bw_at at;

	KUNIT_ASSERT_EQ_MSG(kt->test, BW_NEEDS_HELP,
			    bw_run(tree_of(kt), bw_mark_step, &help, &stock), "level %u", level);
	bw_stock_drop(tree_of(kt), &stock);
	rcu_read_lock();
	help.want = bw_want((u8 *)&data, sizeof(data));
	KUNIT_EXPECT_EQ(kt->test, 0, bw_seek(tree_of(kt), &help.want, level, BW_SEEK_READ, &at));
	base = at.top->base;
	KUNIT_EXPECT_NE(kt->test, 0, base->marked);
	number = bw_page_low(bw_load(tree_of(kt), bw_page_load(base, base->marked))->base)->head;
	rcu_read_unlock();
	return number;
}

static void marks_below_each_other_in_many_levels_are_finished(struct kunit *test)
{
	struct kt *kt = open_tree(test, 1);
	u64 number = 0;
	u8 level;

	/* Pages of two entries, which are to be merged once pages may be larger. */
	while (bw_load(tree_of(kt), BW_ROOT)->level < NESTED) {
		KUNIT_ASSERT_EQ(test, 0, put_number(kt, number));
		split_way(kt, number++);
	}
	tree_of(kt)->page_size = 64 << 10;
	number = 0;
	for (level = NESTED; level; level--)
		number = leave_mark_below(kt, number, level);
	KUNIT_EXPECT_EQ(test, 0, put_number(kt, number));
	KUNIT_EXPECT_EQ(test, NESTED, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
}

static void a_mark_that_was_left_is_finished_by_the_worker(struct kunit *test)
{
	struct kt *kt = open_marked(test);

	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	kt_settle(kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	expect_whole(kt);
}

static void the_next_writer_to_a_marked_page_finishes_its_merge(struct kunit *test)
{
	struct kt *kt = open_marked(test);
	unsigned int right = next_leaf(kt, next_leaf(kt, 0));

	put(kt, right);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	expect_whole(kt);
}

static void a_page_whose_mark_was_left_splits(struct kunit *test)
{
	struct kt *kt = open_marked(test);
	unsigned int i;
	u32 most = 0;

	for (i = 40; i < KEYS; i++) {
		put(kt, i);
		rcu_read_lock();
		most = max(most, bw_load(tree_of(kt), BW_ROOT)->bytes);
		rcu_read_unlock();
	}
	KUNIT_EXPECT_LE(test, most, 2 * SMALL);
	kt_settle(kt);
	expect_whole(kt);
}

/* Find two leaves under one parent that is not the first of its level. */
static void find_pair(struct kt *kt, unsigned int *left, unsigned int *right)
{
	*right = next_leaf(kt, KEYS / 2);
	do {
		*left = *right;
		*right = next_leaf(kt, *left);
	} while (page_at(kt, *left, 1) != page_at(kt, *right, 1));
	KUNIT_EXPECT_NE(kt->test, page_at(kt, 0, 1), page_at(kt, *left, 1));
}

static void consolidate_parent(enum kvt_park at)
{
	struct bw_tree *tree = tree_of(hazard.kt);

	if (at != KVT_PARK_BW_REMOVED)
		return;
	hazard.passed++;
	/* To make room for a record, it is consolidated in any case. */
	KUNIT_EXPECT_EQ(hazard.kt->test, 0,
			bw_tidy(tree, page_at(hazard.kt, hazard.key, 1), 8, false, GFP_NOWAIT));
}

/* Its terms have the same lengths, so they are copied unchanged. */
static void a_mark_outlives_a_consolidation(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int left, right, last;

	put_all(kt, 0, KEYS);
	find_pair(kt, &left, &right);
	trim(kt, right, 2);
	last = trim(kt, left, 2);
	hazard.key = left;
	act_between_steps(consolidate_parent);
	del(kt, last);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
	expect_usable(kt);
}

/* Half as many keys as make a page of this size too long. */
#define HALF		13
#define HALF_PAGE	400

/*
 * The first leaf has absorbed the second, and the second's term is still there.  Split the
 * first leaf, then split its new right sibling exactly where the second leaf began.
 */
static void split_at_old_boundary(enum kvt_park at)
{
	struct kt *kt = hazard.kt;

	if (at != KVT_PARK_BW_MERGED || hazard.passed++)
		return;
	put_all(kt, 0, HALF - 2);
	tidy(kt, 0);
	put_all(kt, HALF - 2, HALF + 1);
	tidy(kt, 0);
	KUNIT_EXPECT_EQ(kt->test, HALF, next_leaf(kt, 0));
	put_all(kt, HALF + 1, hazard.key);
	tidy(kt, HALF);
	KUNIT_EXPECT_EQ(kt->test, hazard.key, next_leaf(kt, HALF));
}

static void a_page_that_begins_as_a_merged_one_is_posted_after_the_merge(struct kunit *test)
{
	struct kt *kt = open_tree(test, HALF_PAGE);
	unsigned int right, i;

	put_all(kt, 0, 64);
	right = next_leaf(kt, 0);
	KUNIT_ASSERT_EQ(test, 2 * HALF, right);
	trim(kt, right + HALF, HALF);
	hazard.key = right;
	act_between_steps(split_at_old_boundary);
	for (i = 0; i < right && !hazard.passed; i++)
		del(kt, i);
	act_between_steps(NULL);
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	expect_usable(kt);
}

/* A reader has loaded the parent; then this happens before it loads the page. */
static void overtake_reader(enum kvt_park at)
{
	struct kt *kt = hazard.kt;
	unsigned long *entry = bw_map_entry(tree_of(kt)->map, BW_ROOT), was, now;
	const struct kvt_key key = key_of(hazard.key);
	u64 version = 0, found = 0;

	if (at != KVT_PARK_BW_MERGED || hazard.passed++)
		return;
	was = READ_ONCE(*entry);
	hazard.passed--;
	split_at_old_boundary(at);
	KUNIT_EXPECT_EQ(kt->test, 0, kt_put_gfp(kt, &key, GFP_NOWAIT, &version));
	now = xchg(entry, was);
	KUNIT_EXPECT_EQ(kt->test, 0, kt_get_rcu(kt, &key, &found));
	WRITE_ONCE(*entry, now);
	KUNIT_EXPECT_EQ(kt->test, version, found);
}

static void a_reader_of_a_frozen_page_finds_what_was_written_since(struct kunit *test)
{
	struct kt *kt = open_tree(test, HALF_PAGE);
	unsigned int i;

	put_all(kt, 0, 64);
	hazard.key = next_leaf(kt, 0);
	trim(kt, hazard.key + HALF, HALF);
	act_between_steps(overtake_reader);
	for (i = 0; i < hazard.key && !hazard.passed; i++)
		del(kt, i);
	act_between_steps(NULL);
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	expect_usable(kt);
}

/* A page is to be merged during a merge of its last two children. */
static void fold_parent(enum kvt_park at)
{
	const struct bw_want want = want_of(hazard.key);
	struct kt *kt = hazard.kt;
	u64 before = kt_stat(kt, KVTREE_STAT_NODE_UNLINK);

	if (at != KVT_PARK_BW_REMOVED || hazard.passed ||
	    page_at(kt, hazard.key, 1) != hazard.id || bw_load(tree_of(kt), hazard.id)->nr != 2)
		return;
	hazard.passed++;
	KUNIT_EXPECT_EQ(kt->test, 0, bw_fold(tree_of(kt), &want, 1, GFP_NOWAIT));
	KUNIT_EXPECT_NE(kt->test, hazard.id, page_at(kt, hazard.key, 1));
	/* The child first, then the page. */
	KUNIT_EXPECT_EQ(kt->test, before + 2, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
}

static void a_page_with_a_mark_is_merged_after_its_child(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i, left = 0;

	put_all(kt, 0, KEYS);
	/* The first pages above the leaves, under one parent. */
	while (page_at(kt, left, 1) == page_at(kt, 0, 1))
		left++;
	KUNIT_EXPECT_EQ(test, page_at(kt, 0, 2), page_at(kt, left, 2));
	hazard.key = left;
	hazard.id = page_at(kt, left, 1);
	for (i = 0; i < left; i++)
		del(kt, i);
	act_between_steps(fold_parent);
	for (; i < KEYS && !hazard.passed; i++)
		del(kt, i);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
	expect_usable(kt);
}

/* Only the first of two steps. */
static void split_and_go_no_further(struct kt *kt, unsigned int i)
{
	struct bw_stock stock = { .gfp = GFP_NOWAIT };
	struct bw_help help = { .kind = BW_HELP_TIDY, .id = page_at(kt, i, 0) };

	KUNIT_EXPECT_EQ(kt->test, BW_NEEDS_HELP,
			bw_run(tree_of(kt), bw_tidy_step, &help, &stock));
	KUNIT_EXPECT_EQ(kt->test, BW_HELP_POST, help.kind);
	bw_stock_drop(tree_of(kt), &stock);
}

static void split_only_child(enum kvt_park at)
{
	struct kt *kt = hazard.kt;

	if (at != KVT_PARK_BW_UNPOSTED || bw_load(tree_of(kt), BW_ROOT)->nr != 1 || hazard.passed++)
		return;
	/* The first leaf was empty, so it could absorb a whole one. */
	split_and_go_no_further(kt, 0);
}

/* If it became the root, the page split off would have no parent. */
static void an_only_child_that_was_split_does_not_become_the_root(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;

	put_all(kt, 0, 16);
	act_between_steps(split_only_child);
	for (i = 0; i < 16 && !hazard.passed; i++)
		del(kt, i);
	act_between_steps(NULL);
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	put_all(kt, 0, KEYS);
	expect_usable(kt);
}

/* Merge the children of a page on this level, one by one, until only the first is left. */
static void merge_below_first(struct kt *kt, u8 level)
{
	struct bw_help finish = { .kind = BW_HELP_FINISH, .want = want_of(0), .level = level - 1 };

	while (bw_load(tree_of(kt), page_at(kt, 0, level))->nr > 1) {
		leave_mark_below(kt, 0, level);
		KUNIT_ASSERT_EQ(kt->test, 0, bw_do_help(tree_of(kt), &finish, GFP_NOWAIT));
	}
}

/* Give the root's only child enough siblings that it gets another parent, then remove them. */
static void put_parent_between(enum kvt_park at)
{
	struct kt *kt = hazard.kt;
	struct bw_tree *tree = tree_of(kt);
	unsigned int i;

	/* The first time the step lacks memory, and changes nothing. */
	if (at != KVT_PARK_BW_ROOT_ALONE || ++hazard.passed != 2)
		return;
	for (i = 0; bw_load(tree, BW_ROOT)->level < 2; i++)
		put(kt, i);
	/* With pages that large, all existing ones are short. */
	tree->page_size = 64 << 10;
	merge_below_first(kt, 2);
	merge_below_first(kt, 1);
	tree->page_size = SMALL;
}

/* It would stay frozen: no page that could absorb it leads to it. */
static void an_only_child_with_another_parent_is_not_frozen(struct kunit *test)
{
	const struct bw_help collapse = { .kind = BW_HELP_COLLAPSE };
	struct kt *kt = open_tree(test, SMALL);
	struct bw_tree *tree = tree_of(kt);
	unsigned int i;

	for (i = 0; !bw_load(tree, BW_ROOT)->level; i++)
		put(kt, i);
	tree->page_size = 64 << 10;
	merge_below_first(kt, 1);
	tree->page_size = SMALL;
	act_between_steps(put_parent_between);
	KUNIT_EXPECT_EQ(test, 0, bw_do_help(tree, &collapse, GFP_NOWAIT));
	act_between_steps(NULL);
	KUNIT_EXPECT_LE(test, 2, hazard.passed);
	KUNIT_EXPECT_EQ(test, 1, bw_load(tree, BW_ROOT)->level);
	expect_usable(kt);
}

#ifdef CONFIG_FAILSLAB

/* Change a leaf until its chain has @depth records. */
static void lengthen(struct kt *kt, unsigned int i, unsigned int depth)
{
	while (leaf_of(kt, i).depth != depth)
		put(kt, i);
}

/* Let this thread's next allocation fail. */
static void arm(void)
{
	WRITE_ONCE(current->fail_nth, 1);
	hazard.armed = true;
}

/* Returns whether an allocation failed. */
static bool disarm(void)
{
	bool failed = hazard.armed && !xchg(&current->fail_nth, 0);

	hazard.armed = false;
	return failed;
}

static void fail_when_marked(enum kvt_park at)
{
	if (at == KVT_PARK_BW_MARKED)
		arm();
}

/* The worker may be asleep, since the last change was long ago. */
static void a_merge_that_was_given_up_wakes_the_worker(struct kunit *test)
{
	unsigned int left;
	struct kt *kt = open_short(test, &left);
	const struct bw_want want = want_of(left);

	WRITE_ONCE(tree_of(kt)->asleep, true);
	enable_delayed_work(worker_of(kt));
	act_between_steps(fail_when_marked);
	KUNIT_EXPECT_EQ(test, -ENOMEM, bw_fold(tree_of(kt), &want, 0, GFP_NOWAIT));
	act_between_steps(NULL);
	KUNIT_EXPECT_TRUE(test, disarm());
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree_of(kt)->asleep));
	wait_until_asleep(kt);
	disable_delayed_work_sync(worker_of(kt));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	expect_whole(kt);
}

static void fail_when_frozen(enum kvt_park at)
{
	if (at != KVT_PARK_BW_REMOVED)
		return;
	hazard.passed++;
	/* Lengthen the chain of the page that absorbs it to the maximum. */
	lengthen(hazard.kt, hazard.key, BW_CHAIN_LEAF);
	arm();
}

static void a_merge_needs_no_memory_once_a_page_is_frozen(struct kunit *test)
{
	struct kt *kt = open_tree(test, HALF_PAGE);
	unsigned int right;

	put_all(kt, 0, 64);
	right = next_leaf(kt, 0);
	trim(kt, right, 6);
	trim(kt, 1, 7);
	hazard.key = 0;
	act_between_steps(fail_when_frozen);
	del(kt, right - 1);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
	KUNIT_EXPECT_FALSE(test, disarm());
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	expect_whole(kt);
}

static void fail_after_parent_is_tidied(enum kvt_park at)
{
	if (at == KVT_PARK_BW_SPLIT_HALF)
		hazard.half = true;
	if (at == KVT_PARK_BW_CONSOLIDATED && hazard.half)
		arm();
	if (at == KVT_PARK_BW_POSTED) {
		hazard.passed += hazard.armed && !disarm();
		hazard.half = false;
	}
}

static void a_post_keeps_its_memory_while_the_parent_is_tidied(struct kunit *test)
{
	struct kt *kt = open_tree(test, HALF_PAGE);
	unsigned int i;

	act_between_steps(fail_after_parent_is_tidied);
	for (i = 0; i < KEYS && !hazard.armed && !hazard.passed; i++)
		put(kt, i);
	act_between_steps(NULL);
	KUNIT_EXPECT_FALSE(test, disarm());
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
	expect_whole(kt);
}

/* Replace a key's value, or, if @value is NULL, remove it.  The first allocation fails. */
static int change_without_memory(struct kt *kt, unsigned int i, struct kvt_value *value)
{
	struct kt_change c = {
		.kt = kt,
		.change = {
			.index = kt->index,
			.key = key_of(i),
			.gfp = GFP_KERNEL_ACCOUNT,
			.removes = !value,
		},
		.value = value,
		.bag = kvt_bag_get(&kt->reclaim, GFP_KERNEL),
	};
	int err;

	arm();
	err = kt->ops->begin(&c.change);
	hazard.passed += disarm();
	if (!err)
		return kt_commit(&c, NULL);
	kt->ops->finish(&c.change);
	if (value)
		kvt_value_retire(&kt->reclaim, c.bag, value, NULL);
	else
		kvt_bag_put(&kt->reclaim, c.bag);
	return err;
}

/* All in one leaf. */
#define LEAF_KEYS	40

static void a_removal_that_finds_no_memory_at_once_is_charged_for_it(struct kunit *test)
{
	struct kt *kt = open_tree(test, 0);
	unsigned int i, most = 0;
	s64 before;

	put_all(kt, 0, LEAF_KEYS);
	kt->ops->sweep(kt->index);
	before = kt_unaccounted(kt);
	for (i = 0; i < LEAF_KEYS; i++) {
		KUNIT_EXPECT_EQ(test, 0, change_without_memory(kt, i, NULL));
		most = max(most, leaf_of(kt, i).depth);
	}
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	KUNIT_EXPECT_LE(test, most, BW_CHAIN_LEAF + 1);
	KUNIT_EXPECT_EQ(test, before, kt_unaccounted(kt));
	expect_whole(kt);
}

/* Only a removal, which makes room, may use memory that is charged to nobody. */
static void a_replacement_that_finds_no_memory_reports_it(struct kunit *test)
{
	const struct kvt_key key = key_of(0);
	struct kt *kt = open_tree(test, 0);
	struct kvt_value *value;
	unsigned int i;
	int err = 0;
	s64 before;

	put_all(kt, 0, LEAF_KEYS);
	kt->ops->sweep(kt->index);
	before = kt_unaccounted(kt);
	for (i = 0; i <= BW_CHAIN_MAX && !err; i++) {
		value = kt_value_new(&key, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, value);
		err = change_without_memory(kt, 0, value);
	}
	KUNIT_EXPECT_EQ(test, -ENOMEM, err);
	KUNIT_EXPECT_EQ(test, before, kt_unaccounted(kt));
	KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &key, NULL));
	expect_whole(kt);
}

#endif /* CONFIG_FAILSLAB */

/* Ids */

static void tidy_all_ids(enum kvt_park at)
{
	struct bw_tree *tree = tree_of(hazard.kt);
	u32 id, end = atomic_read(&tree->map->next);

	if (at != KVT_PARK_BW_SPLIT_BUILT && at != KVT_PARK_BW_ROOT_BUILT)
		return;
	hazard.passed++;
	/* The newest first: nothing leads to these yet.  Consolidation is allowed, a split not. */
	for (id = end; id-- > 0;) {
		bw_tidy(tree, id, 0, false, GFP_NOWAIT);
		bw_tidy(tree, id, 8, false, GFP_NOWAIT);
	}
	if (hazard.key < KEYS)
		put(hazard.kt, hazard.key);
}

/*
 * A thread has found a page that needs a step, but meanwhile the page's id has passed to
 * another: to a page that is about to be split off, or would have been.
 */
static void a_page_that_nothing_leads_to_is_not_split(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;

	act_between_steps(tidy_all_ids);
	for (i = KEYS; i-- > 0;) {
		/* The page to be split changes as well, so that the split fails. */
		hazard.key = i + 1;
		put(kt, i);
		expect_whole(kt);
	}
	act_between_steps(NULL);
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	KUNIT_EXPECT_EQ(test, KEYS, kt_count(kt, false));
}

static void take_ids(enum kvt_park at)
{
	struct bw_tree *tree = tree_of(hazard.kt);
	u32 first, second;

	if (at != KVT_PARK_BW_ID_SEEN || hazard.passed++)
		return;
	KUNIT_EXPECT_EQ(hazard.kt->test, 0, bw_id_alloc(tree, GFP_NOWAIT, &first));
	KUNIT_EXPECT_EQ(hazard.kt->test, 0, bw_id_alloc(tree, GFP_NOWAIT, &second));
	bw_id_free(tree->map, first);
	hazard.id = second;
}

/* The first free id is the same again, but the next one is no longer free. */
static void a_free_id_is_handed_out_once(struct kunit *test)
{
	struct bw_tree *tree = tree_of(open_tree(test, SMALL));
	u32 id[3];
	unsigned int i;

	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, bw_id_alloc(tree, GFP_NOWAIT, &id[i]));
	for (i = 0; i < 3; i++)
		bw_id_free(tree->map, id[i]);
	act_between_steps(take_ids);
	KUNIT_EXPECT_EQ(test, 0, bw_id_alloc(tree, GFP_NOWAIT, &id[0]));
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 0, bw_id_alloc(tree, GFP_NOWAIT, &id[1]));
	KUNIT_EXPECT_NE(test, 0, hazard.passed);
	KUNIT_EXPECT_NE(test, id[0], hazard.id);
	KUNIT_EXPECT_NE(test, id[1], hazard.id);
	/* An id in use has an entry of its own; here it is none. */
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, 0, *bw_map_entry(tree->map, id[i]));
}

/* The limit */

static void remove_long_key(enum kvt_park at)
{
	if (at != KVT_PARK_BW_COMMIT || hazard.passed++)
		return;
	KUNIT_EXPECT_EQ(hazard.kt->test, 0,
			kt_del_gfp(hazard.kt, &hazard.long_key, GFP_NOWAIT, NULL));
}

/* While the key existed, its record needed no charge. */
static void a_put_whose_key_was_removed_meanwhile_does_not_pass_the_limit(struct kunit *test)
{
	const u64 limit = 1 << 16;
	struct kt *kt = open_limited(test, SMALL, limit);
	u8 *data = kunit_kzalloc(test, KVTREE_KEY_MAX, GFP_KERNEL);
	u64 rest;

	KUNIT_ASSERT_NOT_NULL(test, data);
	hazard.long_key = KT_BYTES(data, KVTREE_KEY_MAX);
	KUNIT_EXPECT_EQ(test, 0, kt_put_gfp(kt, &hazard.long_key, GFP_NOWAIT, NULL));
	rest = limit - kvt_quota_bytes(&kt->quota);
	KUNIT_EXPECT_EQ(test, 0, kvt_quota_charge(&kt->quota, rest));
	act_between_steps(remove_long_key);
	KUNIT_EXPECT_EQ(test, -EDQUOT, kt_put_gfp(kt, &hazard.long_key, GFP_NOWAIT, NULL));
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
	kvt_quota_uncharge(&kt->quota, rest);
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_get(kt, &hazard.long_key, NULL));
}

/* More leaves than a reader may visit pages. */
#define MANY_NUMBERS	(12u * BW_READ_BUDGET)

/* Enough for any change. */
#define PLENTY		(1024 * 1024)

/* Reach the limit between the two steps of a split. */
static void leave_nothing_at_half(enum kvt_park at)
{
	if (at == KVT_PARK_BW_SPLIT_HALF)
		kt_leave(hazard.kt, 0);
}

/* Leave enough before a change, and after one that has hit the limit. */
static int put_number_with_plenty(struct kt *kt, u64 number)
{
	unsigned int tries = 32;
	int err;

	do {
		kt_leave(kt, PLENTY);
		err = put_number(kt, number);
	} while (err == -EDQUOT && --tries);
	return err;
}

/* One try: -EBUSY if the key is too far to the right. */
static int get_number(struct kt *kt, u64 number)
{
	__be64 data = cpu_to_be64(number);
	int err;

	rcu_read_lock();
	err = kt_get_rcu(kt, &KT_BYTES(&data, sizeof(data)), NULL);
	rcu_read_unlock();
	return err;
}

/* Splits without their second step. */
static u64 unposted(const struct kt *kt)
{
	return kt_stat(kt, KVTREE_STAT_SPLIT_LEAF) + kt_stat(kt, KVTREE_STAT_SPLIT_INNER) -
	       kvt_stats_read(&kt->stats, KVT_STAT_ENGINE + BW_NR_POST);
}

static bool is_posted(struct bw_tree *tree, u32 id, const struct bw_rec *top)
{
	const struct bw_want low = bw_want_key(bw_page_low(top->base));
	struct bw_at at;

	return !bw_seek(tree, &low, top->level + 1, BW_SEEK_READ, &at) &&
	       bw_inner_find(at.top, &low, false) == id;
}

/* The longest run of pages on a level that no parent leads to. */
static unsigned int most_unposted(struct kt *kt, u8 level)
{
	struct bw_tree *tree = tree_of(kt);
	const struct bw_want first = {};
	unsigned int nr = 0, most = 0;
	struct bw_at at;

	rcu_read_lock();
	KUNIT_EXPECT_EQ(kt->test, 0, bw_seek(tree, &first, level, BW_SEEK_READ, &at));
	for (;;) {
		nr = is_posted(tree, at.id, at.top) ? 0 : nr + 1;
		most = max(most, nr);
		if (!at.top->high)
			break;
		at.id = at.top->right;
		at.top = bw_load(tree, at.id);
	}
	rcu_read_unlock();
	return most;
}

/* Keys are put in descending order, so always the first leaf is full. */
static void a_page_is_not_split_beside_one_that_no_parent_knows(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int unposted_often = 0;
	u64 number;
	u8 level;

	act_between_steps(leave_nothing_at_half);
	for (number = MANY_NUMBERS; number-- > 0;) {
		KUNIT_ASSERT_EQ(test, 0, put_number_with_plenty(kt, number));
		unposted_often += !!unposted(kt);
	}
	act_between_steps(NULL);
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_LEAF_NODES), BW_READ_BUDGET);
	KUNIT_EXPECT_NE(test, 0, unposted_often);
	for (level = 0; level < bw_load(tree_of(kt), BW_ROOT)->level; level++)
		KUNIT_EXPECT_LE_MSG(test, most_unposted(kt, level), 1, "level %u", level);
	for (number = 0; number < MANY_NUMBERS; number++)
		KUNIT_ASSERT_EQ(test, 0, get_number(kt, number));
	/* A writer posts the splits on its way. */
	for (number = 0; number < MANY_NUMBERS; number++)
		KUNIT_ASSERT_EQ(test, 0, put_number_with_plenty(kt, number));
	KUNIT_EXPECT_EQ(test, 0, unposted(kt));
	kt_settle(kt);
	expect_whole(kt);
}

/* The worker */

static void change_late(enum kvt_park at)
{
	if (at == KVT_PARK_BW_TIDIED && ++hazard.passed == hazard.key)
		put(hazard.kt, 0);
}

/* It sleeps after a round without a change: no change may be missed, whenever it happens. */
static void a_change_at_the_end_of_a_round_is_looked_after(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int round;

	enable_delayed_work(worker_of(kt));
	/* It makes three. */
	for (round = 1; round <= 3; round++) {
		hazard.key = round;
		hazard.passed = 0;
		put(kt, 1);
		act_between_steps(change_late);
		wait_until_asleep(kt);
		act_between_steps(NULL);
		KUNIT_EXPECT_GT(test, hazard.passed, round);
		KUNIT_EXPECT_EQ_MSG(test, 0, leaf_of(kt, 0).depth, "round %u", round);
	}
	disable_delayed_work_sync(worker_of(kt));
}

static u64 records_left(const struct kt *kt)
{
	return kvt_stats_read(&kt->stats, KVT_STAT_ENGINE + BW_NR_CHAIN_RECORDS);
}

/*
 * Keys are put in order, so the worker has to split the last pages of all levels: leaves in
 * one round, and the pages above them in a later one.
 */
static void the_worker_looks_after_what_it_has_split(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;

	enable_delayed_work(worker_of(kt));
	for (i = 0; i < KEYS; i++) {
		put(kt, i);
		wait_until_asleep(kt);
		KUNIT_EXPECT_EQ_MSG(test, 0, records_left(kt), "key %u", i);
	}
	disable_delayed_work_sync(worker_of(kt));
	KUNIT_EXPECT_NE(test, 0, kt_stat(kt, KVTREE_STAT_SPLIT_INNER));
	expect_whole(kt);
}

/* The worker may have gone to sleep since the removal that was the reason. */
static void a_merge_wakes_the_worker(struct kunit *test)
{
	unsigned int left;
	struct kt *kt = open_short(test, &left);
	const struct bw_want want = want_of(left);

	WRITE_ONCE(tree_of(kt)->asleep, true);
	WRITE_ONCE(tree_of(kt)->busy, false);
	enable_delayed_work(worker_of(kt));
	KUNIT_EXPECT_EQ(test, 0, bw_fold(tree_of(kt), &want, 0, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_NODE_UNLINK));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree_of(kt)->asleep));
	wait_until_asleep(kt);
	disable_delayed_work_sync(worker_of(kt));
	KUNIT_EXPECT_EQ(test, 0, records_left(kt));
	expect_whole(kt);
}

/* Pages keep little of the number of a round: the next one may have any. */
#define ROUNDS	16

/*
 * It splits leaves that nobody changes any more: only it knows of the records that their
 * parents then get for the new leaves.
 */
static void the_worker_does_not_rest_while_its_own_records_are_left(struct kunit *test)
{
	unsigned int i, round;
	struct bw_tree *tree;
	struct kt *kt;

	for (round = 0; round < ROUNDS; round++) {
		kt = open_tree(test, SMALL);
		tree = tree_of(kt);
		for (i = 0; i < KEYS; i += 2)
			put(kt, i);
		let_worker_rest(kt);

		tree->round = round;
		/* While there are no ids, no writer splits them. */
		tree->map->limit = atomic_read(&tree->map->next);
		for (i = 1; i < KEYS; i += 2)
			put(kt, i);
		tree->map->limit = BW_IDS_MAX;
		KUNIT_EXPECT_GT(test, leaf_of(kt, 0).bytes, tree->page_size);
		let_worker_rest(kt);
		KUNIT_EXPECT_LE(test, leaf_of(kt, 0).bytes, tree->page_size);
		KUNIT_EXPECT_EQ_MSG(test, 0, records_left(kt), "round %u", round);
		expect_whole(kt);
	}
}

/* A leaf that the worker reaches after the first one. */
#define LATE_KEY	78

static void look_after_round(enum kvt_park at)
{
	if (at != KVT_PARK_BW_TIDIED)
		return;
	/* The first round that ended early. */
	if (tree_of(hazard.kt)->delays && !hazard.armed) {
		hazard.armed = true;
		hazard.half = leaf_of(hazard.kt, LATE_KEY).depth;
	}
	WRITE_ONCE(hazard.passed, hazard.passed + 1);
}

static void make_round(struct kt *kt)
{
	unsigned int before = READ_ONCE(hazard.passed);

	enable_delayed_work(worker_of(kt));
	mod_delayed_work(kt->wq, worker_of(kt), 0);
	while (READ_ONCE(hazard.passed) == before)
		cond_resched();
	disable_delayed_work_sync(worker_of(kt));
}

/* There are no ids, so one leaf cannot be split. */
static void a_round_that_runs_out_of_memory_is_resumed_by_the_next(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	struct bw_tree *tree = tree_of(kt);
	unsigned int i, second;

	for (i = 0; i <= LATE_KEY; i += 2)
		put(kt, i);
	kt->ops->sweep(kt->index);
	second = next_leaf(kt, 0);
	KUNIT_EXPECT_GT(test, page_at(kt, LATE_KEY, 0), page_at(kt, 0, 0));
	tree->map->limit = atomic_read(&tree->map->next);
	for (i = 1; i < second; i += 2)
		put(kt, i);
	KUNIT_EXPECT_GT(test, leaf_of(kt, 0).bytes, tree->page_size);
	put(kt, LATE_KEY);

	act_between_steps(look_after_round);
	for (i = 0; i < 10 && leaf_of(kt, LATE_KEY).depth; i++)
		make_round(kt);
	act_between_steps(NULL);
	KUNIT_EXPECT_TRUE(test, hazard.half);
	KUNIT_EXPECT_EQ(test, 0, leaf_of(kt, LATE_KEY).depth);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(tree->asleep));

	tree->map->limit = BW_IDS_MAX;
	let_worker_rest(kt);
	KUNIT_EXPECT_EQ(test, 0, tree->delays);
	expect_whole(kt);
}

static void end_round(enum kvt_park at)
{
	if (at == KVT_PARK_BW_CONSOLIDATED && !hazard.passed++)
		WRITE_ONCE(tree_of(hazard.kt)->ending, true);
}

static void a_round_ends_when_its_tree_does(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;

	put_all(kt, 0, KEYS);
	kt->ops->sweep(kt->index);
	for (i = 0; i < KEYS; i += 10)
		put(kt, i);
	act_between_steps(end_round);
	kt->ops->sweep(kt->index);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 1, hazard.passed);
}

static void count_cares(enum kvt_park at)
{
	if (at == KVT_PARK_BW_CARE)
		hazard.passed++;
	if (at == KVT_PARK_BW_TIDIED)
		hazard.key++;
}

/* The changed page, and short pages at the ends of the levels. */
#define TOUCHED_IDS	(4 * BW_TOUCH_IDS)

/* It does not depend on how much else is in the store. */
static void a_round_visits_only_changed_pages(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	u64 number;

	for (number = 0; number < 2 * MANY_NUMBERS; number++)
		KUNIT_ASSERT_EQ(test, 0, put_number(kt, number));
	let_worker_rest(kt);
	KUNIT_ASSERT_EQ(test, 0, records_left(kt));
	KUNIT_EXPECT_GT(test, (u32)atomic_read(&tree_of(kt)->map->next), 2 * TOUCHED_IDS);
	KUNIT_ASSERT_EQ(test, 0, put_number(kt, MANY_NUMBERS));
	KUNIT_ASSERT_EQ(test, 1, records_left(kt));
	act_between_steps(count_cares);
	let_worker_rest(kt);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 0, records_left(kt));
	KUNIT_EXPECT_NE(test, 0, hazard.key);
	KUNIT_EXPECT_LE(test, hazard.passed, hazard.key * TOUCHED_IDS);
}

/* Batches of lookups */

/* As many as are under way at once. */
#define LOOKUPS		16u
/* The first key that they look for; after it, every other. */
#define LOOK_FROM	64u
#define LOOK_TO		(LOOK_FROM + 2 * LOOKUPS)

static struct {
	struct kvt_lookup lookups[LOOKUPS];
	struct kvt_cell cells[LOOKUPS];
	int err[LOOKUPS];
	u64 version[LOOKUPS];
	/* Of the same keys, before others came between and afterwards. */
	u64 was[LOOKUPS];
	u64 is[LOOKUPS];
	/* Others come between when the batch has reached this many pages. */
	unsigned int nth;
	void (*others)(struct kt *kt);
	bool overtaken;
	unsigned int steps;		/* of changes of structure that they have made */
	unsigned int tidied;		/* leaves with records */
} batch;

/* Look up every other key, or with @step 0 one key as often as there are lookups. */
static void look_up(struct kt *kt, unsigned int from, unsigned int step)
{
	unsigned int i;

	for (i = 0; i < LOOKUPS; i++)
		batch.lookups[i].key = key_of(from + i * step);
	rcu_read_lock();
	kt->ops->get_batch(kt->index, batch.lookups, batch.cells, LOOKUPS);
	for (i = 0; i < LOOKUPS; i++)
		batch.err[i] = kt_check(batch.lookups[i].value, &batch.lookups[i].key,
					&batch.version[i]);
	rcu_read_unlock();
}

/* Look the same keys up alone. */
static void look_up_alone(struct kt *kt, u64 *versions)
{
	struct kvt_key key;
	unsigned int i;

	for (i = 0; i < LOOKUPS; i++) {
		key = key_of(LOOK_FROM + 2 * i);
		KUNIT_EXPECT_EQ(kt->test, 0, kt_get(kt, &key, &versions[i]));
	}
}

static void a_batch_looks_each_key_up_once(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int alone;

	put_all(kt, 0, KEYS);
	let_worker_rest(kt);
	KUNIT_EXPECT_GT(test, bw_load(tree_of(kt), BW_ROOT)->level, 1);
	act_between_steps(count_pages);
	look_up_alone(kt, batch.was);
	alone = hazard.passed;
	look_up(kt, LOOK_FROM, 2);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ(test, 2 * alone, hazard.passed);
}

static void a_batch_may_look_for_the_same_key_several_times(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;

	put_all(kt, 0, KEYS);
	del(kt, LOOK_FROM + 1);
	look_up_alone(kt, batch.was);
	look_up(kt, LOOK_FROM, 0);
	for (i = 0; i < LOOKUPS; i++) {
		KUNIT_EXPECT_EQ(test, 0, batch.err[i]);
		KUNIT_EXPECT_EQ(test, batch.was[0], batch.version[i]);
	}
	look_up(kt, LOOK_FROM + 1, 0);
	for (i = 0; i < LOOKUPS; i++)
		KUNIT_EXPECT_EQ(test, -ENOENT, batch.err[i]);
}

static void put_some(struct kt *kt, unsigned int from, unsigned int step)
{
	for (; from < LOOK_TO; from += step)
		put(kt, from);
}

/* Consolidate, or split, the leaves where the keys are. */
static void tidy_some(struct kt *kt)
{
	unsigned int i;

	for (i = LOOK_FROM; i < LOOK_TO; i += 2) {
		batch.tidied += !!leaf_of(kt, i).depth;
		tidy(kt, i);
	}
}

static void others_split(struct kt *kt)
{
	u64 split = kvt_stats_read(&kt->stats, KVT_STAT_ENGINE + BW_NR_SPLIT);

	put_some(kt, LOOK_FROM, 1);
	tidy_some(kt);
	/* The lower half's chain still has the old values of the upper half. */
	put_some(kt, LOOK_FROM, 2);
	batch.steps += kvt_stats_read(&kt->stats, KVT_STAT_ENGINE + BW_NR_SPLIT) - split;
}

static void others_consolidate(struct kt *kt)
{
	put_some(kt, LOOK_FROM, 2);
	batch.tidied = 0;
	tidy_some(kt);
	batch.steps += batch.tidied;
}

static void others_merge(struct kt *kt)
{
	u64 merged = kt_stat(kt, KVTREE_STAT_NODE_UNLINK);
	unsigned int i;

	for (i = LOOK_FROM; i < LOOK_TO; i += 2)
		del(kt, i);
	batch.steps += kt_stat(kt, KVTREE_STAT_NODE_UNLINK) - merged;
	put_some(kt, LOOK_FROM, 2);
}

static void overtake_batch(enum kvt_park at)
{
	if (at != KVT_PARK_BW_SEEK || hazard.passed++ != batch.nth)
		return;
	batch.overtaken = true;
	batch.others(hazard.kt);
}

/*
 * Others come between when a batch is at its nth page.  A lookup that has not come to its leaf by
 * then finds what they have left.
 */
static void overtake_at(struct kt *kt, unsigned int nth)
{
	unsigned int i, above;

	for (i = 0; i < KEYS; i += 2)
		put(kt, i);
	look_up_alone(kt, batch.was);
	above = LOOKUPS * bw_load(tree_of(kt), BW_ROOT)->level;
	batch.nth = nth;
	batch.overtaken = false;
	batch.steps = 0;
	hazard.passed = 0;
	act_between_steps(overtake_batch);
	look_up(kt, LOOK_FROM, 2);
	act_between_steps(NULL);
	KUNIT_EXPECT_EQ_MSG(kt->test, batch.overtaken, !!batch.steps, "page %u", nth);
	look_up_alone(kt, batch.is);
	for (i = 0; i < LOOKUPS; i++) {
		KUNIT_EXPECT_EQ_MSG(kt->test, 0, batch.err[i], "key %u, page %u", i, nth);
		KUNIT_EXPECT_TRUE_MSG(kt->test, batch.version[i] == batch.is[i] ||
				      (batch.version[i] == batch.was[i] && nth > above),
				      "key %u, page %u", i, nth);
	}
}

static void overtake(struct kunit *test, void (*others)(struct kt *kt))
{
	unsigned int nth = 0;
	struct kt *kt;

	batch.others = others;
	do {
		/* Pages that have been split once may have room for all the keys. */
		kt = open_tree(test, SMALL);
		overtake_at(kt, nth++);
		kt_close(kt);
	} while (batch.overtaken);
	KUNIT_EXPECT_GT(test, nth, 2 * LOOKUPS);
}

static void a_batch_finds_what_others_split(struct kunit *test)
{
	overtake(test, others_split);
}

static void a_batch_finds_what_others_consolidate(struct kunit *test)
{
	overtake(test, others_consolidate);
}

static void a_batch_finds_what_others_merge(struct kunit *test)
{
	overtake(test, others_merge);
}

static void others_grow(struct kt *kt)
{
	put_all(kt, 4, KEYS);
}

/* Its id is an inner page's then. */
static void a_batch_finds_what_was_in_a_root_that_others_split(struct kunit *test)
{
	unsigned int i, nth = 0;
	struct kt *kt;

	batch.others = others_grow;
	do {
		kt = open_tree(test, SMALL);
		put_all(kt, 0, 4);
		KUNIT_EXPECT_EQ(test, 0, bw_load(tree_of(kt), BW_ROOT)->level);
		batch.nth = nth++;
		batch.overtaken = false;
		act_between_steps(overtake_batch);
		look_up(kt, 1, 0);
		act_between_steps(NULL);
		for (i = 0; i < LOOKUPS; i++)
			KUNIT_EXPECT_EQ_MSG(test, 0, batch.err[i], "lookup %u, page %u", i, nth);
		kt_close(kt);
	} while (batch.overtaken);
	KUNIT_EXPECT_GE(test, nth, LOOKUPS);
}

/* A page that is at its own right, with keys beyond it. */
static struct {
	struct bw_rec rec;
	unsigned long *entry;
	unsigned long was;
	bool lost;			/* a reader had to be let out */
} ring;

static void leave_ring(enum kvt_park at)
{
	if (at != KVT_PARK_BW_SEEK || hazard.passed++ < 4 * BW_READ_BUDGET)
		return;
	ring.lost = true;
	WRITE_ONCE(*ring.entry, ring.was);
}

static u32 make_ring(struct kt *kt)
{
	u32 id = page_at(kt, LOOK_FROM, 0);

	ring.lost = false;
	ring.entry = bw_map_entry(tree_of(kt)->map, id);
	ring.was = *ring.entry;
	ring.rec = *(const struct bw_rec *)ring.was;
	ring.rec.kind = BW_SPLIT;
	ring.rec.next = (struct bw_rec *)ring.was;
	ring.rec.high = bw_page_low(ring.rec.base);
	ring.rec.right = id;
	smp_store_release(ring.entry, (unsigned long)&ring.rec);	/* as bw_publish() */
	return id;
}

static void a_batch_gives_up_the_key_that_a_single_lookup_would(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int i;
	u32 id;

	put_all(kt, 0, KEYS);
	id = make_ring(kt);
	act_between_steps(leave_ring);
	look_up(kt, LOOK_FROM, 2);
	act_between_steps(NULL);
	WRITE_ONCE(*ring.entry, ring.was);
	KUNIT_EXPECT_FALSE(test, ring.lost);
	for (i = 0; i < LOOKUPS; i++)
		KUNIT_EXPECT_EQ_MSG(test, page_at(kt, LOOK_FROM + 2 * i, 0) == id ? -EBUSY : 0,
				    batch.err[i], "key %u", i);
	KUNIT_EXPECT_EQ(test, -EBUSY, batch.err[0]);
	KUNIT_EXPECT_EQ(test, 0, batch.err[LOOKUPS - 1]);
}

static void a_batch_that_only_fetches_starts_no_lookup_over(struct kunit *test)
{
	struct kt *kt = open_tree(test, SMALL);
	unsigned int once;

	put_all(kt, 0, KEYS);
	let_worker_rest(kt);
	act_between_steps(count_pages);
	look_up(kt, LOOK_FROM, 2);
	once = hazard.passed;
	act_between_steps(NULL);
	make_ring(kt);
	hazard.passed = 0;
	act_between_steps(count_pages);
	rcu_read_lock();
	kt->ops->get_batch(kt->index, batch.lookups, NULL, LOOKUPS);
	rcu_read_unlock();
	act_between_steps(NULL);
	WRITE_ONCE(*ring.entry, ring.was);
	KUNIT_EXPECT_EQ(test, once, hazard.passed);
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_READ_BUSY));
}

static struct kunit_case hazard_cases[] = {
	KUNIT_CASE(a_reader_gives_up_wherever_its_budget_ends),
	KUNIT_CASE(a_change_writes_no_line_that_lookups_read),
	KUNIT_CASE(a_prefix_is_found_past_keys_that_nearly_are),
	KT_CASE_LONG(pages_of_a_prefix_are_as_many_as_its_bytes_at_most),
	KUNIT_CASE(marks_below_each_other_in_many_levels_are_finished),
	KUNIT_CASE(a_mark_that_was_left_is_finished_by_the_worker),
	KUNIT_CASE(the_next_writer_to_a_marked_page_finishes_its_merge),
	KUNIT_CASE(a_page_whose_mark_was_left_splits),
	KUNIT_CASE(a_mark_outlives_a_consolidation),
	KUNIT_CASE(a_page_that_begins_as_a_merged_one_is_posted_after_the_merge),
	KUNIT_CASE(a_reader_of_a_frozen_page_finds_what_was_written_since),
	KUNIT_CASE(a_page_with_a_mark_is_merged_after_its_child),
	KUNIT_CASE(an_only_child_that_was_split_does_not_become_the_root),
	KUNIT_CASE(an_only_child_with_another_parent_is_not_frozen),
#ifdef CONFIG_FAILSLAB
	KUNIT_CASE(a_merge_that_was_given_up_wakes_the_worker),
	KUNIT_CASE(a_merge_needs_no_memory_once_a_page_is_frozen),
	KUNIT_CASE(a_post_keeps_its_memory_while_the_parent_is_tidied),
	KUNIT_CASE(a_removal_that_finds_no_memory_at_once_is_charged_for_it),
	KUNIT_CASE(a_replacement_that_finds_no_memory_reports_it),
#endif
	KUNIT_CASE(a_page_that_nothing_leads_to_is_not_split),
	KUNIT_CASE(a_free_id_is_handed_out_once),
	KUNIT_CASE(a_put_whose_key_was_removed_meanwhile_does_not_pass_the_limit),
	KUNIT_CASE(a_page_is_not_split_beside_one_that_no_parent_knows),
	KUNIT_CASE(a_change_at_the_end_of_a_round_is_looked_after),
	KUNIT_CASE(the_worker_looks_after_what_it_has_split),
	KUNIT_CASE(a_merge_wakes_the_worker),
	KUNIT_CASE(the_worker_does_not_rest_while_its_own_records_are_left),
	KUNIT_CASE(a_round_that_runs_out_of_memory_is_resumed_by_the_next),
	KUNIT_CASE(a_round_ends_when_its_tree_does),
	KUNIT_CASE(a_round_visits_only_changed_pages),
	KUNIT_CASE(a_batch_looks_each_key_up_once),
	KUNIT_CASE(a_batch_may_look_for_the_same_key_several_times),
	KUNIT_CASE(a_batch_finds_what_others_split),
	KUNIT_CASE(a_batch_finds_what_others_consolidate),
	KUNIT_CASE(a_batch_finds_what_others_merge),
	KUNIT_CASE(a_batch_finds_what_was_in_a_root_that_others_split),
	KUNIT_CASE(a_batch_gives_up_the_key_that_a_single_lookup_would),
	KUNIT_CASE(a_batch_that_only_fetches_starts_no_lookup_over),
	{}
};

static struct kunit_suite hazard_suite = {
	.name = "kvtree_bwtree_hazard",
	.suite_init = hazard_begin,
	.suite_exit = hazard_end,
	.test_cases = hazard_cases,
};

kunit_test_suite(hazard_suite);
