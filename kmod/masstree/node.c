// SPDX-License-Identifier: GPL-2.0
/* Nodes: memory and locks. */

#include <linux/processor.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "tree.h"

static struct kmem_cache *mt_leaf_cache;
static struct kmem_cache *mt_cells_cache;
static struct kmem_cache *mt_inner_cache;

DEFINE_PER_CPU(unsigned int, mt_held);
KVT_EXPORT_PER_CPU_FOR_TESTS(mt_held);

struct mt_lock_class mt_class_leaf;
struct mt_lock_class mt_class_slot;
struct mt_lock_class mt_class_inner[MT_HEIGHT_MAX + 1];
KVT_EXPORT_FOR_TESTS(mt_class_leaf);
KVT_EXPORT_FOR_TESTS(mt_class_inner);

#ifdef CONFIG_DEBUG_LOCK_ALLOC
static struct lock_class_key mt_key_leaf, mt_key_slot, mt_key_inner[MT_HEIGHT_MAX + 1];

static void mt_lockdep_init(void)
{
	unsigned int i;

	lockdep_init_map(&mt_class_leaf.map, "mt_leaf", &mt_key_leaf, 0);
	lockdep_init_map(&mt_class_slot.map, "mt_slot", &mt_key_slot, 0);
	for (i = 0; i <= MT_HEIGHT_MAX; i++)
		lockdep_init_map(&mt_class_inner[i].map, "mt_inner", &mt_key_inner[i], 0);
}
#else
static void mt_lockdep_init(void) { }
#endif

/**
 * mt_node_init() - create the node caches
 *
 * Each kind has its own cache, not merged with others of its size, so that nodes
 * of one kind are together (ATC 2018, section 4).
 *
 * Return: 0 or -ENOMEM.
 */
int mt_node_init(void)
{
	BUILD_BUG_ON(offsetof(struct mt_leaf, slice) != 64);
	BUILD_BUG_ON(sizeof(struct mt_leaf) != 320);
	BUILD_BUG_ON(sizeof(struct mt_inner) != 256);
	/* See MT_SLOT_LAYER. */
	BUILD_BUG_ON(sizeof(unsigned long) != sizeof(u64));
	BUILD_BUG_ON(KVT_CELL_VERSION_END << 4);
	/* See mt_table_ref(). */
	BUILD_BUG_ON(SMP_CACHE_BYTES % 64);

	mt_lockdep_init();
	mt_leaf_cache = kmem_cache_create("kvt_mt_leaf", sizeof(struct mt_leaf), SMP_CACHE_BYTES,
					  SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE, NULL);
	mt_cells_cache = kmem_cache_create("kvt_mt_cells", mt_leaf_bytes(true), SMP_CACHE_BYTES,
					   SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE, NULL);
	mt_inner_cache = kmem_cache_create("kvt_mt_inner", sizeof(struct mt_inner), SMP_CACHE_BYTES,
					   SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE, NULL);
	if (mt_leaf_cache && mt_cells_cache && mt_inner_cache)
		return 0;
	mt_node_exit();
	return -ENOMEM;
}

/**
 * mt_node_exit() - destroy the node caches, which must be empty
 */
void mt_node_exit(void)
{
	kmem_cache_destroy(mt_inner_cache);
	kmem_cache_destroy(mt_cells_cache);
	kmem_cache_destroy(mt_leaf_cache);
}

static struct kmem_cache *mt_leaf_cache_of(bool cells)
{
	return cells ? mt_cells_cache : mt_leaf_cache;
}

/* Count @nr nodes of a kind that come (1) or go (-1). */
static void mt_count_leaf(struct mt_tree *tree, int nr, size_t size)
{
	struct kvt_stats *stats = tree->index.env.stats;

	kvt_stat_add(stats, KVTREE_STAT_LEAF_NODES, nr);
	kvt_stat_add(stats, KVTREE_STAT_LEAF_BYTES, nr * (s64)size);
}

static void mt_count_inner(struct mt_tree *tree, int nr)
{
	struct kvt_stats *stats = tree->index.env.stats;

	kvt_stat_add(stats, KVTREE_STAT_INNER_NODES, nr);
	kvt_stat_add(stats, KVTREE_STAT_INNER_BYTES, nr * (s64)sizeof(struct mt_inner));
}

static void *mt_node_alloc(struct mt_tree *tree, struct kmem_cache *cache, size_t size,
			   gfp_t gfp, int *err)
{
	void *node;

	*err = kvt_quota_charge(tree->index.env.quota, size);
	if (*err)
		return NULL;
	node = kmem_cache_zalloc(cache, gfp);
	if (node)
		return node;
	kvt_quota_uncharge(tree->index.env.quota, size);
	*err = -ENOMEM;
	return NULL;
}

/**
 * mt_leaf_alloc() - a new leaf, empty and unlocked
 * @tree: its quota and statistics count the leaf
 * @cells: with room for cells
 * @gfp: for its memory
 * @err: -ENOMEM or -EDQUOT if it fails
 *
 * Return: the leaf or NULL.
 */
struct mt_leaf *mt_leaf_alloc(struct mt_tree *tree, bool cells, gfp_t gfp, int *err)
{
	size_t size = mt_leaf_bytes(cells);
	struct mt_leaf *leaf;

	leaf = mt_node_alloc(tree, mt_leaf_cache_of(cells), size, gfp, err);
	if (!leaf)
		return NULL;
	leaf->node.version = MT_LEAF | (cells ? MT_CELLS : 0);
	leaf->perm = MT_PERM_EMPTY;
	mt_count_leaf(tree, 1, size);
	return leaf;
}

/**
 * mt_inner_alloc() - a new inner node, empty and unlocked
 * @tree: its quota and statistics count the node
 * @gfp: for its memory
 * @err: -ENOMEM or -EDQUOT if it fails
 *
 * Return: the node or NULL.
 */
struct mt_inner *mt_inner_alloc(struct mt_tree *tree, gfp_t gfp, int *err)
{
	struct mt_inner *inner = mt_node_alloc(tree, mt_inner_cache, sizeof(*inner), gfp, err);

	if (inner) {
		memset(inner->slice, 0xff, sizeof(inner->slice));
		mt_count_inner(tree, 1);
	}
	return inner;
}

/**
 * mt_leaf_free() - free a leaf that no reader has seen
 * @tree: its tree
 * @leaf: the leaf
 */
void mt_leaf_free(struct mt_tree *tree, struct mt_leaf *leaf)
{
	size_t size = mt_leaf_bytes(mt_has_cells(leaf));

	mt_count_leaf(tree, -1, size);
	kvt_quota_uncharge(tree->index.env.quota, size);
	kmem_cache_free(mt_leaf_cache_of(mt_has_cells(leaf)), leaf);
}

/**
 * mt_inner_free() - free an inner node that no reader has seen
 * @tree: its tree
 * @inner: the node
 */
void mt_inner_free(struct mt_tree *tree, struct mt_inner *inner)
{
	mt_count_inner(tree, -1);
	kvt_quota_uncharge(tree->index.env.quota, sizeof(*inner));
	kmem_cache_free(mt_inner_cache, inner);
}

/**
 * mt_leaf_retire() - free a deleted leaf once no reader holds it
 * @tree: its tree
 * @leaf: marked deleted and unlocked
 *
 * The link overlays the pointer to what is above the leaf.  Readers that still read it under
 * RCU see that the node is deleted before they use it.
 */
void mt_leaf_retire(struct mt_tree *tree, struct mt_leaf *leaf)
{
	size_t size = mt_leaf_bytes(mt_has_cells(leaf));

	mt_count_leaf(tree, -1, size);
	kvt_quota_uncharge(tree->index.env.quota, size);
	kvt_reclaim_retire(tree->index.env.reclaim, KVT_GARBAGE_LEAF, &leaf->node.retire, size);
}

/**
 * mt_inner_retire() - free a deleted inner node once no reader holds it
 * @tree: its tree
 * @inner: marked deleted and unlocked
 *
 * The link is as in mt_leaf_retire().  A node that a table may lead to is retired when another
 * table is published.
 */
void mt_inner_retire(struct mt_tree *tree, struct mt_inner *inner)
{
	/* Pairs with mt_table_fill(). */
	smp_mb();
	/* Pairs with mt_table_publish(): no reader that begins now finds a table. */
	if (!READ_ONCE(inner->tabled) || !smp_load_acquire(&tree->tabling)) {
		mt_inner_exhume(tree, inner);
		return;
	}
	/* Readers may still read the word that the link overlays. */
	data_race(llist_add(&inner->node.retire, &tree->graves));
	atomic_inc(&tree->table_changes);
}

/**
 * mt_inner_exhume() - free a deleted inner node once no reader holds it
 * @tree: its tree
 * @inner: the node; no table leads to it
 */
void mt_inner_exhume(struct mt_tree *tree, struct mt_inner *inner)
{
	mt_count_inner(tree, -1);
	kvt_quota_uncharge(tree->index.env.quota, sizeof(*inner));
	kvt_reclaim_retire(tree->index.env.reclaim, KVT_GARBAGE_INNER, &inner->node.retire,
			   sizeof(*inner));
}

static size_t mt_leaf_reclaim(struct llist_node *link)
{
	struct mt_leaf *leaf = container_of(link, struct mt_leaf, node.retire);
	bool cells = mt_has_cells(leaf);

	kmem_cache_free(mt_leaf_cache_of(cells), leaf);
	return mt_leaf_bytes(cells);
}

static size_t mt_inner_reclaim(struct llist_node *link)
{
	kmem_cache_free(mt_inner_cache, container_of(link, struct mt_inner, node.retire));
	return sizeof(struct mt_inner);
}

/**
 * mt_node_register() - tell the store's reclaim how nodes are freed
 * @tree: the tree
 */
void mt_node_register(struct mt_tree *tree)
{
	tree->index.env.reclaim->free[KVT_GARBAGE_LEAF] = mt_leaf_reclaim;
	tree->index.env.reclaim->free[KVT_GARBAGE_INNER] = mt_inner_reclaim;
}

/**
 * mt_lock() - lock a node
 * @node: the node, under RCU; it may be deleted by the time it is locked
 * @class: its lock class
 * @sub: its lockdep subclass
 *
 * Context: bottom halves and preemption off (mt_hold()).  The holder can only be another
 * CPU, since neither a softirq nor a task can run on top of a holder.
 *
 * Return: whether it had to wait for another CPU.
 */
bool mt_lock(struct mt_node *node, struct mt_lock_class *class, unsigned int sub)
{
	bool waited = false;
	u64 v;

	mt_lock_acquired(class, sub, false);
	for (;;) {
		v = READ_ONCE(node->version);
		if (!(v & MT_LOCK) &&
		    try_cmpxchg_acquire(&node->version, &v, v | MT_LOCK))
			return waited;
		waited = true;
		cpu_relax();
	}
}
KVT_EXPORT_FOR_TESTS(mt_lock);

/**
 * mt_unlock() - publish the changes of a node and unlock it
 * @node: the node
 * @class: its lock class
 */
void mt_unlock(struct mt_node *node, struct mt_lock_class *class)
{
	/* CPUs that wait for the lock read the word, and try to exchange it. */
	u64 v = READ_ONCE(node->version);

	if (v & MT_INSERTING)
		v += MT_VINSERT;
	if (v & MT_SPLITTING)
		v += MT_VSPLIT;
	mt_lock_released(class);
	/* Pairs with mt_stable(), mt_changed() and mt_lock(). */
	smp_store_release(&node->version, v & ~(MT_LOCK | MT_DIRTY));
}
KVT_EXPORT_FOR_TESTS(mt_unlock);

/**
 * mt_lock_parent() - lock the parent of a node
 * @node: the node, locked; under RCU
 * @tell: tell lockdep
 *
 * A node's above changes only under the lock of the node that it points to, and, if a layer's
 * root gets a parent or a node becomes the root, under the node's own lock as well.
 *
 * Return: the parent, or NULL if the node is the root of its layer.
 */
struct mt_inner *mt_lock_parent(struct mt_node *node, bool tell)
{
	struct mt_inner *parent;
	unsigned long above;

	while (!((above = mt_above(node)) & MT_ROOT)) {
		parent = (struct mt_inner *)above;
		mt_lock(&parent->node, tell ? mt_class_of(&parent->node) : NULL, 0);
		if (mt_above(node) == above)
			return parent;
		mt_unlock(&parent->node, tell ? mt_class_of(&parent->node) : NULL);
	}
	return NULL;
}

/* The slot in which a leaf holds the root of a layer; there is one. */
static unsigned int mt_slot_of(const struct mt_leaf *leaf, struct mt_node *root)
{
	unsigned int i, n;

	for (i = 0; i < mt_perm_size(leaf->perm); i++) {
		n = mt_perm_slot(leaf->perm, i);
		if (leaf->slot[n] == mt_layer_to_slot(root))
			return n;
	}
	WARN_ON_ONCE(1);
	return 0;
}

/**
 * mt_lock_up() - lock the leaf that holds the root of a layer
 * @root: the layer's root, locked, not deleted; under RCU
 * @tell: tell lockdep: it is of mt_class_slot
 * @slot: set to the number of the root's slot
 *
 * Return: the leaf, or NULL if the layer is the first.
 */
struct mt_leaf *mt_lock_up(struct mt_node *root, bool tell, unsigned int *slot)
{
	struct mt_leaf *up;
	unsigned long above;

	while ((above = mt_above(root)) != MT_ROOT) {
		up = (struct mt_leaf *)(above & ~MT_ROOT);
		mt_lock(&up->node, tell ? &mt_class_slot : NULL, 0);
		if (mt_above(root) == above) {
			*slot = mt_slot_of(up, root);
			return up;
		}
		mt_unlock(&up->node, tell ? &mt_class_slot : NULL);
	}
	return NULL;
}
