// SPDX-License-Identifier: GPL-2.0
/*
 * Splits (EuroSys 2012, section 4.6.4).  begin() has locked every node that
 * will change, from the leaf to the first ancestor with room, and set aside
 * the new nodes.  A node splits to the right: its higher keys move.
 */

#include "base/trace.h"
#include "split.h"
#include "table.h"

/* A key that comes to the end or the beginning of its layer, or is followed by more of them. */
enum mt_sequential {
	MT_RANDOM,
	MT_ASCENDING,
	MT_DESCENDING,
};

/* New nodes stay locked until the split is done: a writer that reaches them must wait. */
static void mt_born_locked(struct mt_node *node)
{
	node->version |= MT_LOCK;
	mt_lock_acquired(mt_class_of(node), MT_SUB_NEW, true);
}

static void mt_unlock_new(struct mt_node *node)
{
	mt_unlock(node, mt_class_of(node));
}

/* The full leaf's keys and the new one, in order. */
struct mt_leaf_keys {
	struct mt_entry entry[MT_LEAF_WIDTH + 1];
	u8 slot[MT_LEAF_WIDTH + 1];	/* its slot; MT_LEAF_WIDTH: the new key */
};

static void mt_collect_keys(struct mt_change *c, u32 rank, struct kvt_value *value,
			    struct mt_leaf_keys *keys)
{
	struct mt_leaf *leaf = c->leaf;
	unsigned int i, n, from = 0;

	for (i = 0; i <= MT_LEAF_WIDTH; i++) {
		struct mt_entry *e = &keys->entry[i];

		if (i == c->at) {
			keys->slot[i] = MT_LEAF_WIDTH;
			e->slice = c->slice;
			e->rank = rank;
			e->slot = mt_value_to_slot(value, &e->data);
			continue;
		}
		n = mt_perm_slot(leaf->perm, from++);
		keys->slot[i] = n;
		e->slice = leaf->slice[n];
		e->rank = mt_leaf_rank(leaf, n);
		e->slot = leaf->slot[n];
		if (mt_slot_is_cell(e->slot))
			e->data = leaf->data[n];
	}
}

/* Whether the next key that the caller inserts belongs to the same leaf. */
static bool mt_goes_on(const struct kvt_change *change, const struct mt_change *c)
{
	const struct kvt_key *then;

	if (c->nr_inserts <= 1)
		return false;
	then = &c->inserts[1].key;
	return mt_same_layer(then, &change->key, c->off) &&
	       mt_leaf_covers(c->leaf, mt_slice(then->data, then->len, c->off));
}

static enum mt_sequential mt_sequential(const struct kvt_change *change,
					const struct mt_change *c)
{
	if (c->at == MT_LEAF_WIDTH && (!c->leaf->next || mt_goes_on(change, c)))
		return MT_ASCENDING;
	/* A split of the left neighbour may write prev now, but does not write NULL. */
	if (c->at == 0 && !READ_ONCE(c->leaf->prev))
		return MT_DESCENDING;
	return MT_RANDOM;
}

static bool mt_may_split_at(const struct mt_leaf_keys *keys, unsigned int i)
{
	return keys->entry[i - 1].slice != keys->entry[i].slice;
}

/*
 * How many of the keys stay.  Sequential loads leave full leaves behind; keys
 * with the same slice stay together (there are at most ten).
 */
static unsigned int mt_split_point(const struct mt_leaf_keys *keys, enum mt_sequential seq)
{
	const unsigned int mid = (MT_LEAF_WIDTH + 1) / 2;
	unsigned int d;

	if (seq == MT_ASCENDING && mt_may_split_at(keys, MT_LEAF_WIDTH))
		return MT_LEAF_WIDTH;
	if (seq == MT_DESCENDING && mt_may_split_at(keys, 1))
		return 1;
	for (d = 0; d < mid; d++) {
		if (mt_may_split_at(keys, mid - d))
			return mid - d;
		if (mid + d <= MT_LEAF_WIDTH && mt_may_split_at(keys, mid + d))
			return mid + d;
	}
	WARN_ON_ONCE(1);
	return mid;
}

static u64 mt_perm_of(const u8 *slots, unsigned int nr)
{
	unsigned int i, n = nr;
	u64 order = 0, used = 0;

	for (i = 0; i < nr; i++) {
		order |= (u64)slots[i] << 4 * i;
		used |= BIT(slots[i]);
	}
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		if (!(used & BIT(i)))
			order |= (u64)i << 4 * n++;
	return mt_perm_make(order, nr);
}

/* The keys from @first on become the keys of the new leaf. */
static void mt_fill_right(struct mt_leaf *right, const struct mt_leaf_keys *keys,
			  unsigned int first)
{
	unsigned int i;

	for (i = first; i <= MT_LEAF_WIDTH; i++) {
		const struct mt_entry *e = &keys->entry[i];

		mt_leaf_fill(right, i - first, e->slice, e->rank, e->slot, e->data);
		right->perm = mt_perm_insert(right->perm, i - first);
		if (mt_slot_is_layer(e->slot))
			mt_set_up(mt_slot_to_layer(e->slot), right);
	}
	right->lowkey = keys->entry[first].slice;
}

/* The first @nr keys stay; if the new one is among them, it gets the slot of a key that left. */
static void mt_shrink_left(struct mt_leaf *left, struct mt_leaf_keys *keys, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		const struct mt_entry *e = &keys->entry[i];

		if (keys->slot[i] != MT_LEAF_WIDTH)
			continue;
		keys->slot[i] = keys->slot[nr];
		mt_leaf_fill(left, keys->slot[i], e->slice, e->rank, e->slot, e->data);
	}
	left->stale = 0;	/* earlier readers see vsplit change, and retry */
	mt_leaf_set_perm(left, mt_perm_of(keys->slot, nr));
}

/* The new key has come to the new leaf: insert those that follow it, as many as belong there. */
static void mt_fill_more(struct mt_tree *tree, struct mt_change *c, struct mt_leaf *right)
{
	struct mt_filling f = {
		.tree = tree,
		.leaf = right,
		.off = c->off,
		.first = &c->inserts->key,
		.perm = right->perm,
	};

	c->nr_more = mt_fill(&f, c->inserts + 1, c->nr_inserts - 1);
	c->full = f.full;
	right->perm = f.perm;
}

/* Split the leaf.  Its new right neighbour is locked and in the list of leaves. */
static struct mt_leaf *mt_split_leaf(struct mt_tree *tree, struct mt_change *c,
				     struct mt_leaf_keys *keys, unsigned int stay)
{
	struct mt_leaf *left = c->leaf;
	struct mt_leaf *right = c->right;
	struct mt_leaf *next = left->next;

	c->right = NULL;
	mt_born_locked(&right->node);
	mt_mark(&left->node, MT_SPLITTING);
	kvt_park(KVT_PARK_SPLIT_MARKED);
	mt_fill_right(right, keys, stay);
	right->prev = left;
	right->next = next;
	if (c->nr_inserts > 1 && c->at >= stay)
		mt_fill_more(tree, c, right);
	mt_set_beside(&right->node, &left->node);
	kvt_park(KVT_PARK_SPLIT_BUILT);
	/*
	 * prev is protected by the left neighbour's lock.  Readers only test it for NULL.  A
	 * thread that unlinks @next locks the leaf that it finds here, and waits: @right was
	 * marked locked before the barrier in mt_mark().
	 */
	if (next)
		WRITE_ONCE(next->prev, right);
	mt_leaf_set_next(left, right);
	kvt_park(KVT_PARK_SPLIT_LINKED);
	mt_shrink_left(left, keys, stay);
	kvt_park(KVT_PARK_SPLIT_SHRUNK);
	mt_stat(tree, KVTREE_STAT_SPLIT_LEAF);
	c->stay[c->nr_split++] = stay;
	return right;
}

static unsigned int mt_child_index(const struct mt_inner *inner, const struct mt_node *child)
{
	unsigned int i;

	for (i = 0; i < inner->nkeys; i++)
		if (inner->child[i] == child)
			break;
	return i;
}

/* Insert @right after @left into a parent with room. */
static void mt_enter_child(struct mt_inner *p, struct mt_node *left, u64 slice,
			   struct mt_node *right)
{
	unsigned int i, at = mt_child_index(p, left);

	mt_mark(&p->node, MT_INSERTING);
	for (i = p->nkeys; i > at; i--) {
		WRITE_ONCE(p->slice[i], p->slice[i - 1]);
		WRITE_ONCE(p->child[i + 1], p->child[i]);
	}
	WRITE_ONCE(p->slice[at], slice);
	WRITE_ONCE(p->child[at + 1], right);
	mt_set_parent(right, p);
	mt_inner_set_nkeys(p, p->nkeys + 1);
	kvt_park(KVT_PARK_SPLIT_PARENT);
}

/* A full inner node's keys and children with one more of each. */
struct mt_inner_keys {
	u64 slice[MT_INNER_WIDTH + 1];
	struct mt_node *child[MT_INNER_WIDTH + 2];
};

static unsigned int mt_collect_children(const struct mt_inner *p, struct mt_node *left,
					u64 slice, struct mt_node *right,
					struct mt_inner_keys *keys)
{
	unsigned int at = mt_child_index(p, left);
	unsigned int i;

	for (i = 0; i <= MT_INNER_WIDTH; i++)
		keys->child[i + (i > at)] = p->child[i];
	for (i = 0; i < MT_INNER_WIDTH; i++)
		keys->slice[i + (i >= at)] = p->slice[i];
	keys->child[at + 1] = right;
	keys->slice[at] = slice;
	return at;
}

/* How many children stay: as in leaves, sequential loads leave full nodes behind. */
static unsigned int mt_inner_split_point(unsigned int at, enum mt_sequential seq)
{
	if (seq == MT_ASCENDING && at == MT_INNER_WIDTH)
		return MT_INNER_WIDTH + 1;
	if (seq == MT_DESCENDING && at == 0)
		return 1;
	return (MT_INNER_WIDTH + 2) / 2;
}

/*
 * Split a full inner node to insert @right after @left.  Returns the new right
 * neighbour, locked, and in @slice the key that divides the two.
 */
static struct mt_inner *mt_split_inner(struct mt_tree *tree, struct mt_change *c,
				       struct mt_inner *p, struct mt_node *left, u64 *slice,
				       struct mt_node *right, enum mt_sequential seq)
{
	struct mt_inner *q = mt_take_inner(c);
	struct mt_inner_keys keys;
	unsigned int i, stay;

	q->level = p->level;
	mt_born_locked(&q->node);
	stay = mt_inner_split_point(mt_collect_children(p, left, *slice, right, &keys), seq);
	mt_mark(&p->node, MT_SPLITTING);
	kvt_park(KVT_PARK_SPLIT_INNER_MARKED);
	mt_set_beside(&q->node, &p->node);
	for (i = stay; i < MT_INNER_WIDTH + 2; i++)
		q->child[i - stay] = keys.child[i];
	for (i = stay; i < MT_INNER_WIDTH + 1; i++)
		q->slice[i - stay] = keys.slice[i];
	q->nkeys = MT_INNER_WIDTH + 1 - stay;
	for (i = 0; i <= q->nkeys; i++)
		mt_set_parent(q->child[i], q);
	kvt_park(KVT_PARK_SPLIT_INNER_MOVED);
	for (i = 0; i < stay; i++)
		WRITE_ONCE(p->child[i], keys.child[i]);
	for (i = 0; i + 1 < stay; i++)
		WRITE_ONCE(p->slice[i], keys.slice[i]);
	for (; i < MT_INNER_WIDTH; i++)
		WRITE_ONCE(p->slice[i], ~0ull);
	mt_inner_set_nkeys(p, stay - 1);
	for (i = 0; i < stay; i++)
		mt_set_parent(keys.child[i], p);
	*slice = keys.slice[stay - 1];
	mt_stat(tree, KVTREE_STAT_SPLIT_INNER);
	c->stay[c->nr_split++] = stay;
	return q;
}

/* The root of a layer has split: put a new one above it. */
static struct mt_inner *mt_grow_root(struct mt_tree *tree, struct mt_change *c,
				     struct mt_node *left, u64 slice, struct mt_node *right)
{
	struct mt_inner *root = mt_take_inner(c);

	root->level = mt_is_leaf(left) ? 1 : mt_inner(left)->level + 1;
	mt_born_locked(&root->node);
	root->slice[0] = slice;
	root->child[0] = left;
	root->child[1] = right;
	root->nkeys = 1;
	mt_set_beside(&root->node, left);
	kvt_park(KVT_PARK_SPLIT_ROOT);
	mt_set_parent(left, root);
	mt_set_parent(right, root);
	if (c->up)
		mt_leaf_set_slot(c->up, c->up_slot, mt_layer_to_slot(&root->node));
	else
		mt_set_root(tree, &root->node);
	mt_stat(tree, KVTREE_STAT_ROOT_GROW);
	c->grown = true;
	kvt_park(KVT_PARK_SPLIT_ROOT_PUBLISHED);
	return root;
}

/**
 * mt_insert_split() - insert a key in a full leaf
 * @tree: the tree
 * @change: the key
 * @c: what begin() holds: the leaf, its ancestors up to one with room or to
 *	the layer's root, and the slot of the root if that one splits
 * @value: the key's value
 *
 * The nodes that begin() locked stay locked; the new ones are unlocked.
 *
 * Context: mt_hold().
 */
void mt_insert_split(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
		     struct kvt_value *value)
{
	struct mt_node *new[MT_HEIGHT_MAX + 2];
	enum mt_sequential seq = mt_sequential(change, c);
	struct mt_node *left = &c->leaf->node;
	unsigned int i, nr_new = 0;
	struct mt_leaf_keys keys;
	struct mt_leaf *leaf;
	struct mt_node *right;
	u64 slice;

	mt_collect_keys(c, mt_rank(change->key.len, c->off), value, &keys);
	leaf = mt_split_leaf(tree, c, &keys, mt_split_point(&keys, seq));
	slice = leaf->lowkey;
	right = &leaf->node;
	new[nr_new++] = right;
	for (i = 0; i < c->nr_above; i++) {
		struct mt_inner *parent = c->above[i];

		if (parent->nkeys < MT_INNER_WIDTH) {
			mt_enter_child(parent, left, slice, right);
			break;
		}
		right = &mt_split_inner(tree, c, parent, left, &slice, right, seq)->node;
		left = &parent->node;
		new[nr_new++] = right;
	}
	if (i == c->nr_above)
		new[nr_new++] = &mt_grow_root(tree, c, left, slice, right)->node;
	if (!c->off && i)
		mt_table_split(tree, c->slice, c->above, i,
			       i < c->nr_above ? c->above[i] : NULL);
	while (nr_new)
		mt_unlock_new(new[--nr_new]);
}

/**
 * mt_trace_split() - trace the splits that mt_insert_split() did
 * @tree: the tree
 * @c: of mt_insert_split()
 *
 * A program attached to the tracepoint may read the tree, which was dirty before.
 *
 * Context: nothing locked.
 */
void mt_trace_split(struct mt_tree *tree, const struct mt_change *c)
{
	unsigned int level, all;

	for (level = 0; level < c->nr_split; level++) {
		all = level ? MT_INNER_WIDTH + 2 : MT_LEAF_WIDTH + 1 + c->nr_more;
		trace_kvt_split(tree, level, c->stay[level], all - c->stay[level]);
	}
	if (c->grown)
		trace_kvt_root(tree, level, true);
}
