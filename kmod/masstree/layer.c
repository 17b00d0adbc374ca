// SPDX-License-Identifier: GPL-2.0
/*
 * Layers that have become too thin for their cost: layers with one key are folded into the
 * layer above, and roots with one child are replaced by it (EuroSys 2012, section 4.6.5:
 * "empty and pathologically-shaped layer-h trees").  A worker does this some time after the
 * removal that made the layer thin, in case another key comes.  Empty layers are removed at
 * once: the key in a thin layer is worth the path there, but an empty layer is not.  The worker
 * may still find an empty layer before the thread that emptied it has removed it.
 *
 * The locks are those of the removal and of the split: the layer's root, after its child if that
 * becomes the root, and then the leaf of the upper layer that holds it.
 */

#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/trace.h"
#include "table.h"
#include "tree.h"

#define MT_CHECK_DELAY	(HZ / 20)

/*
 * A layer to check, named by the bytes of key that lead to it.  It is not charged to the store:
 * a removal at the quota must not cost a check of all layers.  Queued checks take at most
 * MT_CHECK_BYTES; for further layers the worker sweeps the keys from the first to the last.
 */
struct mt_check {
	struct llist_node link;
	u32 off;
	u8 key[];
};

/* The outcome of checking a layer. */
enum mt_verdict {
	MT_LAYER_FINE,
	MT_LAYER_AGAIN,		/* it is changing: check it once more */
	MT_LAYER_SHRUNK,	/* it has another root, which may be thin */
	MT_LAYER_GONE,		/* the layer above may be thin now */
	MT_LAYER_CELL,		/* check it with a block for its only value, which is a cell */
};

/**
 * mt_layer_is_thin() - guess whether the worker would change a layer
 * @root: its root
 *
 * To be verified under the lock.
 *
 * Context: under rcu_read_lock().
 *
 * Return: whether it seems so.
 */
bool mt_layer_is_thin(const struct mt_node *root)
{
	const struct mt_leaf *leaf;
	unsigned long slot;
	u64 perm;

	if (!mt_is_leaf(root))
		return !READ_ONCE(container_of(root, struct mt_inner, node)->nkeys);
	leaf = container_of(root, struct mt_leaf, node);
	perm = READ_ONCE(leaf->perm);
	slot = READ_ONCE(leaf->slot[mt_perm_slot(perm, 0)]);
	if (mt_above(root) == MT_ROOT)
		return false;
	return !mt_perm_size(perm) || (mt_perm_size(perm) == 1 && !mt_slot_is_layer(slot));
}

/* The only child of a root, or NULL: it is a leaf, or has several. */
static struct mt_node *mt_layer_child(struct mt_node *root)
{
	if (mt_is_leaf(root) || READ_ONCE(mt_inner(root)->nkeys))
		return NULL;
	return READ_ONCE(mt_inner(root)->child[0]);
}

/*
 * Lock a layer's root, and before it its only child if that will replace it.  Until the old root
 * is marked deleted, readers come from there and assume that the child covers the whole layer, so
 * the child must not split.
 */
static void mt_layer_lock(struct mt_node *root, struct mt_node *child)
{
	if (child)
		mt_lock(child, mt_class_of(child), 0);
	mt_lock(root, mt_class_of(root), 0);
}

static void mt_layer_unlock(struct mt_node *root, struct mt_node *child)
{
	mt_unlock(root, mt_class_of(root));
	if (child)
		mt_unlock(child, mt_class_of(child));
}

/* Make the only child of a root the root.  Both are locked. */
static void mt_layer_shrink(struct mt_tree *tree, struct mt_node *root, struct mt_node *child)
{
	struct mt_leaf *up;
	unsigned int slot;

	up = mt_lock_up(root, true, &slot);
	kvt_park(KVT_PARK_SHRINK_LOCKED);
	mt_set_beside(child, root);
	kvt_park(KVT_PARK_SHRINK_BESIDE);
	if (up)
		mt_leaf_set_slot(up, slot, mt_layer_to_slot(child));
	else
		mt_set_root(tree, child);
	kvt_park(KVT_PARK_SHRINK_PUBLISHED);
	mt_mark_deleted(root);
	kvt_park(KVT_PARK_SHRINK_MARKED);
	if (up)
		mt_unlock(&up->node, &mt_class_slot);
}

/*
 * The layer that the worker checks.  If its only value is a cell, that needs a block in the layer
 * above, where the rest of its key is compared.
 */
struct mt_look {
	struct mt_tree *tree;
	const u8 *key;			/* at least the first @off bytes of the layer's keys */
	u32 off;			/* of the layer */
	struct kvt_value *block;	/* NULL, or for a key of the layer, and charged */
	struct mt_stem stem;		/* layers that were removed */
};

static void mt_look_free(struct mt_look *l)
{
	if (l->block)
		kvt_quota_uncharge(l->tree->index.env.quota, kvt_value_charge(l->block));
	kvt_value_free(l->block);
	l->block = NULL;
}

/* Returns whether there are memory and, below the limit, room for a block. */
static bool mt_look_alloc(struct mt_look *l)
{
	const struct kvt_index_env *env = &l->tree->index.env;
	const struct kvt_mem mem = {
		.memcg = env->memcg, .gfp = KVT_GFP_PROCESS | __GFP_ACCOUNT | __GFP_NOWARN,
	};
	const struct kvt_key prefix = { .data = l->key, .len = l->off };

	l->block = kvt_value_alloc(&mem, &prefix,
				   kvt_value_head_size(l->off + MT_SLICE) + KVT_CELL_MAX);
	if (!l->block)
		return false;
	if (!kvt_quota_charge(env->quota, kvt_value_charge(l->block)))
		return true;
	kvt_value_free(l->block);
	l->block = NULL;
	return false;
}

/* Whether the first entry of a leaf, the only one, is a cell. */
static bool mt_look_needs_block(const struct mt_leaf *leaf)
{
	return mt_perm_size(leaf->perm) && mt_slot_is_cell(leaf->slot[mt_perm_slot(leaf->perm, 0)]);
}

/* The only value of a leaf, in a block.  The leaf is locked. */
static struct kvt_value *mt_look_value(struct mt_look *l, const struct mt_leaf *leaf)
{
	unsigned int n = mt_perm_slot(leaf->perm, 0);
	struct kvt_value *block = l->block;
	struct kvt_cell cell;

	if (!mt_slot_is_cell(leaf->slot[n]))
		return mt_slot_value(leaf->slot[n]);
	kvt_value_set_cell(block, mt_slot_cell(leaf->slot[n], leaf->data[n],
					       l->off + mt_leaf_rank(leaf, n), &cell));
	put_unaligned_be64(leaf->slice[n], (u8 *)kvt_value_suffix(block, l->off));
	kvt_stat_add(l->tree->index.env.stats, KVTREE_STAT_VALUE_BYTES, kvt_value_charge(block));
	l->block = NULL;
	return block;
}

/* Change a layer if it is thin; its root and @child are locked. */
static enum mt_verdict mt_layer_judge(struct mt_look *l, struct mt_node *root,
				      struct mt_node *child)
{
	if (mt_is_deleted(root) || !mt_is_root(root) || mt_layer_child(root) != child)
		return MT_LAYER_AGAIN;
	if (!mt_layer_is_thin(root))
		return MT_LAYER_FINE;
	if (child) {
		mt_layer_shrink(l->tree, root, child);
		return MT_LAYER_SHRUNK;
	}
	if (!l->block && mt_look_needs_block(mt_leaf(root)))
		return MT_LAYER_CELL;
	if (!mt_stem_lock(&l->stem, mt_leaf(root)))
		return MT_LAYER_FINE;
	if (mt_perm_size(mt_leaf(root)->perm))
		mt_stem_collapse(&l->stem, mt_look_value(l, mt_leaf(root)));
	else
		mt_stem_remove(&l->stem);
	mt_stem_unlock(&l->stem);
	return MT_LAYER_GONE;
}

/* Count and free what is no longer part of the tree. */
static void mt_layer_retire(struct mt_tree *tree, struct mt_node *root, u32 off,
			    const struct mt_stem *stem)
{
	if (!stem->layers) {
		mt_stat(tree, KVTREE_STAT_ROOT_SHRINK);
		trace_kvt_root(tree, mt_inner(root)->level - 1, false);
		mt_inner_retire(tree, mt_inner(root));
		return;
	}
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_LAYER_COLLAPSE, stem->layers);
	trace_kvt_layer_collapse(tree, off / MT_SLICE + 1 - stem->layers, stem->layers);
	mt_stem_retire(tree, stem);
}

/*
 * An empty layer may have been the last entry of its leaf.  The thread that emptied the layer
 * finds it gone and does nothing more, so unlink the leaf here.
 */
static void mt_layer_unlink(struct mt_tree *tree, struct mt_leaf *top)
{
	u8 gone = 0;

	if (mt_perm_size(mt_leaf_perm(top)))
		return;
	mt_unlink_leaf(tree, top, &gone);
	if (gone)
		trace_kvt_unlink(tree, gone - 1);
}

/* Check one layer, under rcu_read_lock().  Sets @l->off to the layer to check next. */
static enum mt_verdict mt_layer_look(struct mt_look *l, struct mt_node *root)
{
	enum mt_verdict verdict;
	struct mt_node *child = mt_layer_child(root);

	l->stem = (struct mt_stem) { };
	kvt_park_loose(KVT_PARK_LAYER_FOUND);
	mt_hold();
	mt_layer_lock(root, child);
	verdict = mt_layer_judge(l, root, child);
	mt_layer_unlock(root, child);
	mt_release();
	if (verdict == MT_LAYER_SHRUNK || verdict == MT_LAYER_GONE)
		mt_layer_retire(l->tree, root, l->off, &l->stem);
	if (verdict == MT_LAYER_GONE)
		mt_layer_unlink(l->tree, l->stem.top);
	l->off -= l->stem.layers * MT_SLICE;
	return verdict;
}

static enum mt_verdict mt_layer_find(struct mt_look *l)
{
	const struct kvt_key prefix = { .data = l->key, .len = l->off };
	enum mt_verdict verdict;
	struct mt_probe probe;
	struct mt_node *root;

	rcu_read_lock();
	mt_probe_prepare(&probe, l->tree, &prefix);
	root = mt_find_layer(&probe, l->off);
	mt_probe_end(&probe);
	if (IS_ERR(root))
		verdict = MT_LAYER_AGAIN;
	else
		verdict = root ? mt_layer_look(l, root) : MT_LAYER_FINE;
	rcu_read_unlock();
	return verdict;
}

static int mt_range_cmp(const u8 *a, u32 a_len, const u8 *b, u32 b_len)
{
	int diff = memcmp(a, b, min(a_len, b_len));

	return diff ?: (int)a_len - (int)b_len;
}

/* Have the worker sweep a range. */
static void mt_sweep_later(struct mt_tree *tree, const struct mt_range *range)
{
	struct mt_range *sweep = &tree->sweep;

	spin_lock_bh(&tree->sweep_lock);
	if (!tree->sweep_needed)
		*sweep = *range;
	if (mt_range_cmp(range->from, range->from_len, sweep->from, sweep->from_len) < 0) {
		memcpy(sweep->from, range->from, range->from_len);
		sweep->from_len = range->from_len;
	}
	if (mt_range_cmp(range->to, range->to_len, sweep->to, sweep->to_len) > 0) {
		memcpy(sweep->to, range->to, range->to_len);
		sweep->to_len = range->to_len;
	}
	WRITE_ONCE(tree->sweep_needed, true);
	spin_unlock_bh(&tree->sweep_lock);
}

/* Have the worker sweep for a layer, which the first @off bytes of @key lead to. */
static void mt_sweep_layer(struct mt_tree *tree, const u8 *key, u32 off)
{
	const u32 len = min(off, MT_SWEEP_KEY);
	struct mt_range range = { .from_len = len, .to_len = len };

	memcpy(range.from, key, len);
	memcpy(range.to, key, len);
	mt_sweep_later(tree, &range);
}

/*
 * Check the layer that the first @off bytes of @key lead to.  After a change, check what may be
 * thin now: the layer again, or the one above.  Returns false if it stays thin, since there is no
 * memory or no room for a block: when the worker runs again, it sweeps for it.
 */
static bool mt_layer_check(struct mt_tree *tree, const u8 *key, u32 off)
{
	struct mt_look l = { .tree = tree, .key = key, .off = off };
	enum mt_verdict verdict;

	do {
		verdict = mt_layer_find(&l);
		if (verdict == MT_LAYER_CELL && !mt_look_alloc(&l)) {
			mt_sweep_layer(tree, key, l.off);
			return false;
		}
		/* The next layer has keys with fewer bytes in common. */
		if (verdict == MT_LAYER_GONE)
			mt_look_free(&l);
		cond_resched();
	} while (verdict != MT_LAYER_FINE);
	mt_look_free(&l);
	return true;
}

/* Whether a sweep continues after the iterator's position. */
static bool mt_sweep_goes_on(const struct mt_tree *tree, const struct kvt_iter *iter,
			     const struct mt_range *range)
{
	return !READ_ONCE(tree->ending) &&
	       mt_range_cmp(iter->key, min(iter->len, MT_SWEEP_KEY), range->to,
			    range->to_len) <= 0;
}

/* Check all layers of a range. */
static void mt_sweep_range(struct mt_tree *tree, const struct mt_range *range)
{
	struct kvt_value *value;
	struct mt_iter *it;

	it = kzalloc(sizeof(*it), GFP_KERNEL);
	if (!it) {
		mt_sweep_later(tree, range);
		queue_delayed_work(tree->index.env.slow_wq, &tree->check_work, MT_CHECK_DELAY);
		return;
	}
	it->iter.index = &tree->index;
	it->iter.len = range->from_len;
	memcpy(it->iter.key, range->from, range->from_len);
	do {
		unsigned int nr = 0;

		mt_iter_rest(&it->iter);
		rcu_read_lock();
		do {
			value = mt_iter_step(it, true, &it->iter.one.cell);
		} while (!IS_ERR_OR_NULL(value) && ++nr < 256);
		rcu_read_unlock();
		/* A layer that stays thin has nothing below. */
		if (value == ERR_PTR(-ESTALE) &&
		    !mt_layer_check(tree, it->iter.key, it->iter.len))
			it->iter.bound = KVT_PAST;
		cond_resched();
	} while (value && mt_sweep_goes_on(tree, &it->iter, range));
	mt_layer_check(tree, NULL, 0);
	kfree(it);
}

/**
 * mt_sweep() - see struct kvt_index_ops
 * @index: the tree
 *
 * Checks all layers, when it is not known which are thin.
 *
 * Context: may sleep.
 */
void mt_sweep(struct kvt_index *index)
{
	struct mt_range all = { .to_len = MT_SWEEP_KEY };

	memset(all.to, 0xff, sizeof(all.to));
	mt_sweep_range(mt_tree(index), &all);
	mt_table_renew(mt_tree(index));
}

/* Bytes of a queued check. */
static int mt_check_size(u32 off)
{
	return kmalloc_size_roundup(offsetof(struct mt_check, key) + off);
}

/*
 * Sweep for removals that were not remembered, from the first of their keys to the last, for at
 * most a tenth of the time: removing many long keys could keep the worker sweeping for ever.
 * Until the sweep is due, the work runs at its usual interval for the layers that are
 * remembered: if these waited, there would soon be too many of them as well.
 */
static void mt_sweep_in_turn(struct mt_tree *tree)
{
	unsigned long start = jiffies;
	struct mt_range range;

	if (time_before(start, tree->sweep_due)) {
		queue_delayed_work(tree->index.env.slow_wq, &tree->check_work, MT_CHECK_DELAY);
		return;
	}
	/* Clear sweep_needed before reading the tree: later removals set it again. */
	spin_lock_bh(&tree->sweep_lock);
	range = tree->sweep;
	WRITE_ONCE(tree->sweep_needed, false);
	spin_unlock_bh(&tree->sweep_lock);
	mt_sweep_range(tree, &range);
	/* Round up. */
	tree->sweep_due = jiffies + 9 * (jiffies - start + 1);
}

static void mt_check_work(struct work_struct *work)
{
	struct mt_tree *tree = container_of(to_delayed_work(work), struct mt_tree, check_work);
	struct llist_node *list = llist_del_all(&tree->checks);
	struct mt_check *check, *next;

	llist_for_each_entry_safe(check, next, list, link) {
		if (!READ_ONCE(tree->ending))
			mt_layer_check(tree, check->key, check->off);
		atomic_sub(mt_check_size(check->off), &tree->check_bytes);
		kfree(check);
	}
	if (READ_ONCE(tree->sweep_needed))
		mt_sweep_in_turn(tree);
	mt_table_later(tree);
}

static bool mt_check_queue(struct mt_tree *tree, const u8 *key, u32 off)
{
	const int size = mt_check_size(off);
	struct mt_check *check = NULL;

	if (atomic_add_return(size, &tree->check_bytes) <= MT_CHECK_BYTES)
		check = kmalloc(size, GFP_NOWAIT | __GFP_NOWARN);
	if (!check) {
		atomic_sub(size, &tree->check_bytes);
		return false;
	}
	check->off = off;
	memcpy(check->key, key, off);
	llist_add(&check->link, &tree->checks);
	return true;
}

/**
 * mt_layer_check_later() - have the worker check a layer
 * @tree: the tree
 * @key: a key of the layer, at least the first @off bytes
 * @off: of the layer
 *
 * If there is no memory to remember the layer, the worker sweeps for it.
 *
 * Context: any but NMI and hardirq; nothing held: it allocates.
 */
void mt_layer_check_later(struct mt_tree *tree, const u8 *key, u32 off)
{
	if (!mt_check_queue(tree, key, off))
		mt_sweep_layer(tree, key, off);
	queue_delayed_work(tree->index.env.slow_wq, &tree->check_work, MT_CHECK_DELAY);
}

/**
 * mt_layer_init() - prepare the worker of a tree
 * @tree: the tree
 */
void mt_layer_init(struct mt_tree *tree)
{
	init_llist_head(&tree->checks);
	atomic_set(&tree->check_bytes, 0);
	spin_lock_init(&tree->sweep_lock);
	tree->sweep_due = jiffies;
	INIT_DELAYED_WORK(&tree->check_work, mt_check_work);
}

/**
 * mt_layer_exit() - stop the worker of a tree, unless that has been done
 * @tree: the tree, which nobody changes any more
 *
 * Context: may sleep.
 */
void mt_layer_exit(struct mt_tree *tree)
{
	struct mt_check *check, *next;

	/* Stop a sweep, which takes long in a large tree. */
	WRITE_ONCE(tree->ending, true);
	cancel_delayed_work_sync(&tree->check_work);
	llist_for_each_entry_safe(check, next, llist_del_all(&tree->checks), link)
		kfree(check);
}
