// SPDX-License-Identifier: GPL-2.0
/*
 * The worker: looks for pages with records that do not change any more, for short pages that
 * should have been merged, and for merges that were not finished.  Each exchange of a page's
 * entry touches its id.  A round takes over the touched ids, and touches again those for the
 * next round.  So its cost is in proportion to the changes, not to the size of the tree.
 */
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "swap.h"
#include "tree.h"

/* Without memory the delay doubles each time, at most this often. */
#define BW_TIDY_DELAYS	4

/* More rounds than it takes to merge a whole idle tree, level by level. */
#define BW_SWEEP_ROUNDS	32

/* What a page needs. */
struct bw_care {
	u32 id;
	u8 level;
	bool finish;		/* one of its terms is marked */
	bool tidy;		/* it has records */
	bool fold;		/* it is short */
	bool young;		/* some pages of this round have records that are too young */
	u32 len;		/* of its first key */
	u8 key[KVTREE_KEY_MAX];
	DECLARE_BITMAP(touched, BW_TOUCH_BITS);	/* since the last round began */
};

/* Whether a page needs care.  Records of this round and the last one are too young. */
static bool bw_care_look(struct bw_tree *tree, struct bw_care *care, bool all)
{
	struct bw_rec *top = bw_load_any(tree, care->id);
	const struct bw_key *low;
	unsigned int age;

	if (!top)
		return false;
	kvt_park_loose(KVT_PARK_BW_CARE);
	care->finish = false;
	care->tidy = false;
	care->fold = false;
	if (top->kind == BW_REMOVE) {
		bw_touch(tree->map, care->id);
		low = &bw_remove(top)->low;
	} else {
		age = (READ_ONCE(tree->round) - top->round) & 15;
		care->tidy = top->depth && (all || age > 1);
		care->young |= top->depth && !care->tidy;
		care->fold = care->id != BW_ROOT ? bw_is_underfull(tree, top) :
						  top->level && top->nr == 1;
		care->finish = top->has_mark;
		/* Records may be too young, and what a page needs may fail. */
		if (top->depth || care->fold || care->finish)
			bw_touch(tree->map, care->id);
		if (!care->finish && !care->tidy && !care->fold)
			return false;
		low = bw_page_low(top->base);
	}
	bw_key_bytes(low, care->key);
	care->len = low->len;
	care->level = top->level;
	return true;
}

static int bw_care_take(struct bw_tree *tree, struct bw_care *care, gfp_t gfp)
{
	const struct bw_want want = bw_want(care->key, care->len);
	const struct bw_help collapse = { .kind = BW_HELP_COLLAPSE };
	const struct bw_help finish = {
		.kind = BW_HELP_FINISH,
		.level = care->level - 1,
		.want = want,
	};
	int ret;

	ret = bw_clear_way(tree, &want, care->level, gfp);
	if (!ret && care->finish)
		ret = bw_do_help(tree, &finish, gfp);
	if (!ret && care->tidy)
		ret = bw_tidy(tree, care->id, 0, false, gfp);
	if (!ret && care->fold)
		ret = care->id == BW_ROOT ? bw_do_help(tree, &collapse, gfp) :
					    bw_fold(tree, &want, care->level, gfp);
	return ret;
}

/* Take over the touched ids, before any page is read. */
static void bw_care_begin(struct bw_tree *tree, struct bw_care *care)
{
	unsigned int i;

	/* Full barriers: either the change is seen, or the touch.  Pairs with bw_touch(). */
	for (i = 0; i < ARRAY_SIZE(care->touched); i++)
		care->touched[i] = xchg(&tree->map->touched[i], 0);
}

/* The round has ended early: leave its touched ids to the next one. */
static void bw_care_put_back(struct bw_tree *tree, const struct bw_care *care)
{
	unsigned int bit;

	for_each_set_bit(bit, care->touched, BW_TOUCH_BITS)
		set_bit(bit, tree->map->touched);
}

/* How many ids, from @care->id on and below @end, can be skipped. */
static u32 bw_care_skip(const struct bw_care *care, u32 end)
{
	if (test_bit(bw_touch_bit(care->id), care->touched))
		return 0;
	return min(ALIGN(care->id + 1, BW_TOUCH_IDS), end) - care->id;
}

/* Look at a page, and do what it needs. */
static int bw_care_for(struct bw_tree *tree, struct bw_care *care, bool all, gfp_t gfp)
{
	bool needed;

	rcu_read_lock();
	needed = bw_care_look(tree, care, all);
	rcu_read_unlock();
	/* If the care fails, the page is examined again: see bw_do_help(). */
	return needed ? bw_care_take(tree, care, gfp) : 0;
}

/*
 * Look at the pages that were touched, or @all, once, from @care->id on.  If memory runs out,
 * stop, with @care->id at the page to continue with.  Allocations are charged like the pages that
 * they replace, to a cgroup that may be at its limit.  There, and on a machine that lacks memory,
 * trying hard for page after page gains nothing: this can wait.
 *
 * Return: 0 or -ENOMEM.
 */
static int bw_round(struct bw_tree *tree, struct bw_care *care, bool all)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
	struct mem_cgroup *memcg = set_active_memcg(tree->index.env.memcg);
	/* Pages added while this runs are for the next round. */
	u32 end = atomic_read_acquire(&tree->map->next);	/* pairs with bw_id_alloc() */
	u32 left, nr;
	int err = 0;

	if (care->id >= end)
		care->id = 0;
	for (left = end; left && err != -ENOMEM && !READ_ONCE(tree->ending); left -= nr) {
		nr = all ? 0 : min(bw_care_skip(care, end), left);
		if (!nr) {
			err = bw_care_for(tree, care, all, gfp);
			nr = 1;
		}
		care->id = care->id + nr < end ? care->id + nr : 0;
		cond_resched();
	}
	set_active_memcg(memcg);
	if (left && !all)
		bw_care_put_back(tree, care);
	return err == -ENOMEM ? err : 0;
}

/* Sets *left if some records are too young for this round. */
static int bw_work_round(struct bw_tree *tree, bool *left)
{
	struct bw_care *care = kmalloc(sizeof(*care), GFP_KERNEL);
	int err;

	WRITE_ONCE(tree->round, tree->round + 1);
	if (!care)
		return -ENOMEM;
	care->id = tree->resume;
	care->young = false;
	bw_care_begin(tree, care);
	err = bw_round(tree, care, false);
	tree->resume = care->id;
	*left = care->young;
	kfree(care);
	return err;
}

static void bw_work(struct work_struct *work)
{
	struct bw_tree *tree = container_of(to_delayed_work(work), struct bw_tree, work);
	bool left = false, again;
	int err = bw_work_round(tree, &left);

	tree->delays = err ? min(tree->delays + 1, BW_TIDY_DELAYS) : 0;
	/* If neither writers nor this round changed anything, the worker has nothing left to do. */
	again = xchg(&tree->busy, false) || left || err;
	kvt_park_loose(KVT_PARK_BW_TIDIED);
	if (again)
		queue_delayed_work(tree->index.env.wq, &tree->work,
				   BW_TIDY_DELAY << tree->delays);
	else
		WRITE_ONCE(tree->asleep, true);
	/* Pairs with bw_tidy_later(): one of the two sees the other's write. */
	smp_mb();
	if (READ_ONCE(tree->asleep) && READ_ONCE(tree->busy))
		bw_tidy_later(tree);
}

/**
 * bw_tidy_init() - prepare the worker of a tree
 * @tree: the tree
 */
void bw_tidy_init(struct bw_tree *tree)
{
	tree->asleep = true;
	INIT_DELAYED_WORK(&tree->work, bw_work);
}

/**
 * bw_tidy_exit() - stop the worker of a tree
 * @tree: the tree, which does not change any more
 */
void bw_tidy_exit(struct bw_tree *tree)
{
	/* Stop a round, which takes long in a large tree. */
	WRITE_ONCE(tree->ending, true);
	cancel_delayed_work_sync(&tree->work);
}

/* How often the tree became smaller. */
static u64 bw_shrunk(struct bw_tree *tree)
{
	return kvt_stats_read(tree->index.env.stats, KVTREE_STAT_NODE_UNLINK) +
	       kvt_stats_read(tree->index.env.stats, KVTREE_STAT_ROOT_SHRINK);
}

/**
 * bw_sweep() - see struct kvt_index_ops
 * @index: the tree
 *
 * Context: may sleep.
 */
void bw_sweep(struct kvt_index *index)
{
	struct bw_tree *tree = bw_tree(index);
	struct bw_care *care = kmalloc(sizeof(*care), GFP_KERNEL);
	unsigned int rounds = 0;
	u64 before;

	if (!care)
		return;
	care->id = 0;
	care->young = false;
	do {
		before = bw_shrunk(tree);
		if (bw_round(tree, care, true))
			break;
	} while (bw_shrunk(tree) != before && ++rounds < BW_SWEEP_ROUNDS);
	kfree(care);
}
