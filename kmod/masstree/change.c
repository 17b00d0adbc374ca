// SPDX-License-Identifier: GPL-2.0
/*
 * Changing a key: begin() finds its place, locks every node and allocates all
 * memory that the change can need; commit() cannot fail.  Splits are those of
 * EuroSys 2012, figure 5, but all ancestors that the split will reach are locked
 * before anything changes.
 */

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "base/trace.h"
#include "split.h"
#include "table.h"
#include "tree.h"

/* Tries of a change that may not sleep. */
#define MT_ATOMIC_TRIES	16

/* The memory that a change lacks. */
struct mt_want {
	bool right;			/* a leaf for the right half, ... */
	bool cells;			/* ... with cells */
	unsigned int inners;
	unsigned int chain;		/* leaves of a chain of layers, starting at ... */
	u32 chain_off;			/* ... this layer */
};

/*
 * Unlock what begin() locked, from the last to the first.  The RCU read section
 * continues.
 */
static void mt_let_go(struct mt_change *c)
{
	if (c->up)
		mt_unlock(&c->up->node, &mt_class_slot);
	while (c->nr_above) {
		struct mt_node *node = &c->above[--c->nr_above]->node;

		mt_unlock(node, mt_class_of(node));
	}
	mt_unlock(&c->leaf->node, &mt_class_leaf);
	c->up = NULL;
	c->leaf = NULL;
	mt_release();
}

/*
 * Two different keys have the same slice at @off and both continue.  Count the layers after it
 * in which they have the same slice and continue again.
 */
static unsigned int mt_common_layers(const struct kvt_key *key, const struct kvt_value *value,
				     u32 off)
{
	unsigned int nr = 0;

	for (off += MT_SLICE; key->len > off + MT_SLICE && value->key_len > off + MT_SLICE;
	     off += MT_SLICE, nr++)
		if (memcmp(key->data + off, kvt_value_suffix(value, off), MT_SLICE))
			break;
	return nr;
}

/* The slot holds another key with the same slice, and both continue: they need more layers. */
static int mt_hold_layer(struct kvt_change *change, struct mt_change *c,
			 const struct kvt_value *value, struct mt_want *want)
{
	unsigned int nr = mt_common_layers(&change->key, value, c->off) + 1;

	c->kind = MT_CHANGE_LAYER;
	c->other = (struct kvt_value *)value;
	if (c->nr_chain == nr && c->chain_off == c->off + MT_SLICE)
		return 0;
	want->chain = nr;
	want->chain_off = c->off + MT_SLICE;
	return -ENOMEM;
}

/* Whether a locked leaf has a cell. */
static bool mt_keeps_cells(const struct mt_leaf *leaf)
{
	unsigned int i;

	for (i = 0; i < mt_perm_size(leaf->perm); i++)
		if (mt_slot_is_cell(leaf->slot[mt_perm_slot(leaf->perm, i)]))
			return true;
	return false;
}

/* Whether a leaf with cells in the layer at @off would take one for the key. */
static bool mt_may_take_cell(const struct kvt_change *change, u32 off)
{
	return change->wants_cell && mt_rank(change->key.len, off) != MT_RANK_LONG;
}

/* The leaf is full: lock every node that its split will change. */
static int mt_hold_split(const struct kvt_change *change, struct mt_change *c,
			 struct mt_want *want)
{
	struct mt_node *node = &c->leaf->node;
	struct mt_inner *parent;
	unsigned int inners = 0;

	c->kind = MT_CHANGE_SPLIT;
	while ((parent = mt_lock_parent(node, true))) {
		if (WARN_ON_ONCE(c->nr_above == MT_HEIGHT_MAX)) {
			mt_unlock(&parent->node, mt_class_of(&parent->node));
			return -EBUSY;
		}
		c->above[c->nr_above++] = parent;
		if (parent->nkeys < MT_INNER_WIDTH)
			break;
		inners++;
		node = &parent->node;
	}
	if (!parent) {
		inners++;
		c->up = mt_lock_up(node, true, &c->up_slot);
	}
	want->right = true;
	want->cells = mt_may_take_cell(change, c->off) || mt_keeps_cells(c->leaf);
	want->inners = inners;
	if (!c->right || mt_has_cells(c->right) != want->cells)
		return -ENOMEM;
	return c->nr_inners >= inners ? 0 : -ENOMEM;
}

/* The leaf is locked.  Decide how to change the key in it. */
static int mt_hold_place(struct kvt_change *change, struct mt_change *c, struct mt_want *want)
{
	u32 rank = mt_rank(change->key.len, c->off);
	struct kvt_value *value;
	unsigned long slot;
	int n;

	change->takes_cell = mt_may_take_cell(change, c->off) && mt_has_cells(c->leaf);
	if (change->wants_cell)
		kvt_index_learn_cell(change->index, change->key.len, change->takes_cell);
	n = mt_leaf_place(c->leaf, c->leaf->perm, c->slice, rank, &c->at);
	if (n >= 0) {
		slot = c->leaf->slot[n];
		if (mt_slot_is_layer(slot))
			return -EAGAIN;
		value = mt_slot_is_cell(slot) ?
			mt_slot_cell(slot, c->leaf->data[n], change->key.len, &change->cell) :
			mt_slot_value(slot);
		c->slot = n;
		if (rank != MT_RANK_LONG || mt_same_tail(value, change->key.data, change->key.len,
							 c->off + MT_SLICE)) {
			c->kind = MT_CHANGE_UPDATE;
			change->old = value;
			return 0;
		}
	}
	if (!change->may_insert) {
		c->kind = MT_CHANGE_NONE;
		return 0;
	}
	if (n >= 0)
		return mt_hold_layer(change, c, value, want);
	if (mt_perm_size(c->leaf->perm) == MT_LEAF_WIDTH)
		return mt_hold_split(change, c, want);
	c->kind = MT_CHANGE_INSERT;
	return 0;
}

/* Prefetch the old value: replacing it reads it. */
static void mt_fetch_old(const struct mt_change *c, const struct mt_leaf *leaf, u32 len)
{
	int n = mt_leaf_find(leaf, mt_leaf_perm(leaf), c->slice, mt_rank(len, c->off));

	if (n >= 0)
		mt_prefetch_slot(mt_leaf_slot(leaf, n), len);
}

/*
 * Find the key's place and lock it.  Returns 0, or, with nothing locked: -EAGAIN: the tree has
 * changed meanwhile; -EBUSY; -ENOMEM: @want says what is missing.
 */
static int mt_find_place(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
			 struct mt_want *want)
{
	struct mt_probe probe;
	int err;

	mt_probe_place(&probe, tree, &change->key);
	if (IS_ERR(probe.value))
		return PTR_ERR(probe.value);
	c->off = probe.off;
	c->slice = probe.slice;
	kvt_park_loose(KVT_PARK_WRITE_FOUND);
	mt_fetch_old(c, mt_leaf(probe.node), change->key.len);
	mt_hold();
	c->leaf = mt_lock_leaf(tree, mt_leaf(probe.node), probe.version, c->slice);
	if (!c->leaf) {
		mt_release();
		return -EAGAIN;
	}
	err = mt_hold_place(change, c, want);
	if (err)
		mt_let_go(c);
	else
		kvt_park(KVT_PARK_LOCKED);
	return err;
}

/* As mt_find_place(), under RCU.  On success the read section stays open until mt_end(). */
static int mt_try_begin(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
			struct mt_want *want)
{
	int err;

	change->old = NULL;
	rcu_read_lock();
	err = mt_find_place(tree, change, c, want);
	if (err)
		rcu_read_unlock();
	else
		__release(RCU);	/* for sparse: mt_end() does it */
	return err;
}

static void mt_end(void)
{
	__acquire(RCU);
	rcu_read_unlock();
}

/* Lists of nodes set aside are linked through next and the first child. */

static void mt_put_leaf(struct mt_change *c, struct mt_leaf *leaf)
{
	leaf->next = c->leaves;
	c->leaves = leaf;
	c->nr_leaves++;
}

static void mt_put_inner(struct mt_change *c, struct mt_inner *inner)
{
	inner->child[0] = (struct mt_node *)c->inners;
	c->inners = inner;
	c->nr_inners++;
}

struct mt_leaf *mt_take_leaf(struct mt_change *c)
{
	struct mt_leaf *leaf = c->leaves;

	c->leaves = leaf->next;
	c->nr_leaves--;
	leaf->next = NULL;
	return leaf;
}

struct mt_inner *mt_take_inner(struct mt_change *c)
{
	struct mt_inner *inner = c->inners;

	c->inners = (struct mt_inner *)inner->child[0];
	c->nr_inners--;
	inner->child[0] = NULL;
	return inner;
}

static int mt_stock_leaves(struct mt_tree *tree, struct mt_change *c, unsigned int nr, gfp_t gfp)
{
	struct mt_leaf *leaf;
	int err;

	while (c->nr_leaves < nr) {
		leaf = mt_leaf_alloc(tree, false, gfp, &err);
		if (!leaf)
			return err;
		mt_put_leaf(c, leaf);
	}
	return 0;
}

/* The right half of a split. */
static int mt_stock_right(struct mt_tree *tree, struct mt_change *c, const struct mt_want *want,
			  gfp_t gfp)
{
	int err;

	if (c->right && mt_has_cells(c->right) != want->cells) {
		mt_leaf_free(tree, c->right);
		c->right = NULL;
	}
	if (want->right && !c->right) {
		c->right = mt_leaf_alloc(tree, want->cells, gfp, &err);
		if (!c->right)
			return err;
	}
	return 0;
}

static int mt_stock_inners(struct mt_tree *tree, struct mt_change *c, unsigned int nr, gfp_t gfp)
{
	struct mt_inner *inner;
	int err;

	while (c->nr_inners < nr) {
		inner = mt_inner_alloc(tree, gfp, &err);
		if (!inner)
			return err;
		mt_put_inner(c, inner);
	}
	return 0;
}

/* Take apart a chain that was not used. */
static void mt_drop_chain(struct mt_change *c)
{
	struct mt_leaf *leaf = c->chain;

	while (c->nr_chain) {
		struct mt_leaf *below = NULL;

		if (--c->nr_chain)
			below = mt_leaf(mt_slot_to_layer(leaf->slot[0]));
		leaf->perm = MT_PERM_EMPTY;
		mt_put_leaf(c, leaf);
		leaf = below;
	}
	c->chain = NULL;
}

/*
 * Build the layers that the new key will share with the key in the slot.  mt_insert_layer()
 * fills the last layer and publishes them.
 */
static int mt_stock_chain(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
			  const struct mt_want *want)
{
	struct mt_leaf *below = NULL;
	struct mt_leaf *leaf;
	unsigned int i;
	int err;

	mt_drop_chain(c);
	err = mt_stock_leaves(tree, c, want->chain, change->gfp);
	if (err)
		return err;
	for (i = want->chain; i-- > 0; below = leaf) {
		leaf = mt_take_leaf(c);
		if (!below) {
			c->chain_last = leaf;
			continue;
		}
		mt_leaf_fill(leaf, 0, mt_slice(change->key.data, change->key.len,
					       want->chain_off + i * MT_SLICE),
			     MT_RANK_LONG, mt_layer_to_slot(&below->node), 0);
		leaf->perm = mt_perm_insert(MT_PERM_EMPTY, 0);
		mt_set_up(&below->node, leaf);
	}
	c->chain = below;
	c->nr_chain = want->chain;
	c->chain_off = want->chain_off;
	return 0;
}

static int mt_stock(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
		    const struct mt_want *want)
{
	int err;

	if (want->chain)
		return mt_stock_chain(tree, change, c, want);
	err = mt_stock_right(tree, c, want, change->gfp);
	if (!err)
		err = mt_stock_inners(tree, c, want->inners, change->gfp);
	return err;
}

/**
 * mt_begin() - see struct kvt_index_ops
 * @change: key, gfp, may_insert
 *
 * Return: 0 with the key's place held, -ENOMEM, -EDQUOT, -EBUSY or -EINTR.
 */
int mt_begin(struct kvt_change *change)
{
	bool may_sleep = gfpflags_allow_blocking(change->gfp);
	struct mt_tree *tree = mt_tree(change->index);
	struct mt_change *c = mt_change(change);
	/* A sorted key with others after it mostly splits a leaf, like the one before it. */
	struct mt_want sorted = {
		.right = true,
		.cells = change->wants_cell && kvt_index_may_cell(change->index, change->key.len),
	};
	unsigned int tries = 0;
	int err;

	err = c->nr_inserts > 1 ? mt_stock_right(tree, c, &sorted, change->gfp) : 0;
	if (err)
		return err;
	for (;;) {
		struct mt_want want = { };

		err = mt_try_begin(tree, change, c, &want);
		if (!err)
			return 0;
		if (err == -ENOMEM) {
			err = mt_stock(tree, change, c, &want);
			if (err)
				return err;
		}
		if (!may_sleep && ++tries == MT_ATOMIC_TRIES)
			return -EBUSY;
		if (may_sleep && fatal_signal_pending(current))
			return -EINTR;
		if (may_sleep)
			cond_resched();
	}
}

/* Insert a new key into a leaf that has room. */
static void mt_insert_slot(struct kvt_change *change, struct mt_change *c,
			   struct kvt_value *value)
{
	struct mt_leaf *leaf = c->leaf;
	unsigned int n = mt_perm_slot(leaf->perm, mt_perm_size(leaf->perm));
	u64 data = 0;
	unsigned long slot = mt_value_to_slot(value, &data);

	/*
	 * A reader may have found the slot's earlier key in an older permutation
	 * and not yet have read the slot: make it retry (EuroSys 2012, section
	 * 4.6.5).
	 */
	if (leaf->stale & BIT(n)) {
		mt_mark(&leaf->node, MT_INSERTING);
		leaf->stale &= ~BIT(n);
		kvt_park(KVT_PARK_INSERT_REUSE);
	}
	mt_leaf_fill(leaf, n, c->slice, mt_rank(change->key.len, c->off), slot, data);
	kvt_park(KVT_PARK_INSERT_WRITTEN);
	mt_leaf_set_perm(leaf, mt_perm_insert(leaf->perm, c->at));
}

/* Put the new key and the key in the slot into the chain's last layer, and publish the chain. */
static void mt_insert_layer(struct mt_tree *tree, struct kvt_change *change,
			    struct mt_change *c, struct kvt_value *value)
{
	u32 off = c->chain_off + (c->nr_chain - 1) * MT_SLICE;
	struct kvt_value *other = c->other;
	const u8 *suffix = kvt_value_suffix(other, off);
	u64 other_slice = mt_slice(suffix, other->key_len - off, 0);
	u32 other_rank = mt_rank(other->key_len, off);
	u64 slice = mt_slice(change->key.data, change->key.len, off);
	u32 rank = mt_rank(change->key.len, off);
	bool first = slice < other_slice || (slice == other_slice && rank < other_rank);
	struct mt_leaf *leaf = c->chain_last;

	mt_leaf_fill(leaf, 0, other_slice, other_rank, (unsigned long)other, 0);
	mt_leaf_fill(leaf, 1, slice, rank, (unsigned long)value, 0);
	leaf->perm = mt_perm_insert(mt_perm_insert(MT_PERM_EMPTY, 0), first ? 0 : 1);
	mt_set_up(&c->chain->node, c->leaf);
	kvt_park(KVT_PARK_LAYER_BUILT);
	mt_leaf_set_slot(c->leaf, c->slot, mt_layer_to_slot(&c->chain->node));
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_LAYER_CREATE, c->nr_chain);
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_LAYERS, c->nr_chain);
	c->nr_built = c->nr_chain;
	c->chain = NULL;
	c->nr_chain = 0;
	kvt_park(KVT_PARK_LAYER_PUBLISHED);
}

/* What a removal has left in a locked leaf. */
static enum mt_leftover mt_left_in(const struct mt_leaf *leaf, u32 off)
{
	unsigned int size = mt_perm_size(leaf->perm);

	if (!mt_is_root(&leaf->node))
		return size ? MT_LEFT_ENOUGH : MT_LEFT_EMPTY;
	return size <= 1 && off ? MT_LEFT_THIN : MT_LEFT_ENOUGH;
}

static enum mt_leftover mt_remove_slot(struct mt_change *c)
{
	struct mt_leaf *leaf = c->leaf;
	enum mt_leftover left;

	leaf->stale |= BIT(c->slot);
	mt_leaf_set_perm(leaf, mt_perm_remove(leaf->perm, c->at));
	kvt_park(KVT_PARK_REMOVE_UNLISTED);
	left = mt_left_in(leaf, c->off);
	mt_unlock(&leaf->node, &mt_class_leaf);
	return left;
}

/* Remove a stem with its leaf, and unlock the leaf.  The caller retires it. */
static enum mt_leftover mt_remove_stem(struct mt_change *c, struct mt_stem *stem)
{
	enum mt_leftover left;

	mt_stem_remove(stem);
	c->off -= stem->layers * MT_SLICE;
	c->nr_collected += stem->layers;
	left = mt_left_in(stem->top, c->off);
	mt_stem_unlock(stem);
	mt_unlock(&stem->leaf->node, &mt_class_leaf);
	return left;
}

/* Unlink an empty leaf.  Returns what is left of the layer; EMPTY: the leaf is its last one. */
static enum mt_leftover mt_remove_leaf(struct mt_tree *tree, struct mt_change *c,
				       struct mt_leaf *leaf)
{
	switch (mt_unlink_leaf(tree, leaf, &c->gone)) {
	case MT_UNLINK_THIN:
		return MT_LEFT_THIN;
	case MT_UNLINK_LAST:
		return c->off ? MT_LEFT_EMPTY : MT_LEFT_THIN;
	default:
		return MT_LEFT_ENOUGH;
	}
}

/*
 * Remove the key and all nodes that become empty.  Preemption stays off until that is done,
 * since empty nodes delay readers.  finish() handles a layer that other threads emptied at the
 * same time, and retires the removed nodes, since there may be many.
 */
static void mt_remove(struct mt_tree *tree, struct mt_change *c)
{
	struct mt_leaf *leaf = c->leaf;

	if (mt_perm_size(leaf->perm) == 1 && mt_stem_lock(&c->stem, leaf)) {
		c->left = mt_remove_stem(c, &c->stem);
		leaf = c->stem.top;
	} else {
		c->left = mt_remove_slot(c);
	}
	if (c->left == MT_LEFT_EMPTY)
		c->left = mt_remove_leaf(tree, c, leaf);
	c->leaf = NULL;
	mt_release();
}

/* The leaf was the last of its layer: remove the layer, unless it has changed. */
static void mt_collect_leaf(struct mt_tree *tree, struct mt_change *c, struct mt_leaf *leaf)
{
	struct mt_stem stem = { };

	c->left = MT_LEFT_ENOUGH;
	mt_hold();
	mt_lock(&leaf->node, &mt_class_leaf, 0);
	if (!mt_is_deleted(&leaf->node) && !mt_perm_size(leaf->perm)) {
		c->left = MT_LEFT_EMPTY;
		if (mt_stem_lock(&stem, leaf))
			c->left = mt_remove_stem(c, &stem);
	}
	if (!stem.layers)
		mt_unlock(&leaf->node, &mt_class_leaf);
	mt_release();
	if (stem.layers)
		mt_stem_retire(tree, &stem);
	if (c->left == MT_LEFT_EMPTY)
		c->left = mt_remove_leaf(tree, c, stem.layers ? stem.top : leaf);
}

/*
 * Remove a layer that became empty: before this thread could unlink its empty leaf, other
 * threads emptied and unlinked the neighbours.  Another thread may remove the layer first.
 */
static void mt_collect(struct mt_tree *tree, const struct kvt_key *key, struct mt_change *c)
{
	struct mt_probe probe;
	struct mt_node *root;
	struct mt_leaf *leaf;
	unsigned int tries;
	u64 v;

	for (tries = 0; c->left == MT_LEFT_EMPTY && tries < MT_ATOMIC_TRIES; tries++) {
		rcu_read_lock();
		mt_probe_prepare(&probe, tree, key);
		root = mt_find_layer(&probe, c->off);
		leaf = IS_ERR_OR_NULL(root) ? ERR_CAST(root) :
		       mt_probe_descend(&probe, root, c->off,
					mt_slice(key->data, key->len, c->off), &v);
		mt_probe_end(&probe);
		if (!root)
			c->left = MT_LEFT_ENOUGH;
		else if (!IS_ERR_OR_NULL(leaf))
			mt_collect_leaf(tree, c, leaf);
		rcu_read_unlock();
	}
	/* Leave the layer to the worker, which can wait. */
	if (c->left == MT_LEFT_EMPTY)
		c->left = MT_LEFT_THIN;
}

/* Replace the value in the key's slot, while readers may read it. */
static void mt_update(struct mt_change *c, struct kvt_value *value)
{
	unsigned long slot;
	u64 data = 0;

	slot = mt_value_to_slot(value, &data);
	if (mt_slot_is_cell(slot))
		mt_leaf_set_cell(c->leaf, c->slot, slot, data);
	else
		mt_leaf_set_slot(c->leaf, c->slot, slot);
}

static void mt_apply(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
		     struct kvt_value *value)
{
	if (value)
		mt_note_cell(tree, value, c->off);
	switch (c->kind) {
	case MT_CHANGE_UPDATE:
		mt_update(c, value);
		break;
	case MT_CHANGE_INSERT:
		mt_note_length(tree, &change->key);
		mt_insert_slot(change, c, value);
		break;
	case MT_CHANGE_SPLIT:
		mt_note_length(tree, &change->key);
		mt_insert_split(tree, change, c, value);
		break;
	case MT_CHANGE_LAYER:
		mt_insert_layer(tree, change, c, value);
		break;
	case MT_CHANGE_NONE:
		WARN_ON_ONCE(1);
		break;
	}
}

/**
 * mt_commit() - see struct kvt_index_ops
 * @change: between mt_begin() and mt_finish()
 * @value: the new value, or NULL to remove the key
 *
 * Return: 0.
 */
int mt_commit(struct kvt_change *change, struct kvt_value *value)
{
	struct mt_tree *tree = mt_tree(change->index);
	struct mt_change *c = mt_change(change);

	if (!value && c->kind == MT_CHANGE_UPDATE) {
		mt_remove(tree, c);
	} else {
		mt_apply(tree, change, c, value);
		mt_let_go(c);
	}
	mt_end();
	return 0;
}

/**
 * mt_abort() - see struct kvt_index_ops
 * @change: after mt_begin()
 */
void mt_abort(struct kvt_change *change)
{
	mt_let_go(mt_change(change));
	mt_end();
}

/**
 * mt_finish() - see struct kvt_index_ops
 * @change: after its last mt_commit() or mt_abort()
 */
void mt_finish(struct kvt_change *change)
{
	struct mt_tree *tree = mt_tree(change->index);
	struct mt_change *c = mt_change(change);

	if (c->stem.layers)
		mt_stem_retire(tree, &c->stem);
	if (c->left == MT_LEFT_EMPTY)
		mt_collect(tree, &change->key, c);
	if (c->left == MT_LEFT_THIN)
		mt_layer_check_later(tree, change->key.data, c->off);
	if (c->gone)
		trace_kvt_unlink(tree, c->gone - 1);
	if (c->nr_collected) {
		kvt_stat_add(tree->index.env.stats, KVTREE_STAT_LAYER_COLLECT, c->nr_collected);
		trace_kvt_layer_collect(tree, c->off / MT_SLICE + 1, c->nr_collected);
	}
	if (c->nr_split)
		mt_trace_split(tree, c);
	if (c->nr_split || c->gone)
		mt_table_later(tree);
	if (c->nr_built)
		trace_kvt_layer_create(tree, c->chain_off / MT_SLICE, c->nr_built);
	mt_drop_chain(c);
	while (c->nr_leaves)
		mt_leaf_free(tree, mt_take_leaf(c));
	if (c->right)
		mt_leaf_free(tree, c->right);
	while (c->nr_inners)
		mt_inner_free(tree, mt_take_inner(c));
}
