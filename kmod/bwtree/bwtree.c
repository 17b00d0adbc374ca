// SPDX-License-Identifier: GPL-2.0
/*
 * The Bw-tree: the engine as a whole.
 */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "compat.h"
#include "tree.h"

/**
 * DOC: The Bw-tree engine
 *
 * After "The Bw-Tree: A B-tree for New Hardware Platforms" (Levandoski, Lomet,
 * Sengupta, ICDE 2013).  Two ideas come from "Building a Bw-Tree Takes More Than Just
 * Buzz Words" (Wang et al., SIGMOD 2018): space for records beside a base page, and
 * positions in the base page that records pass to a search.
 *
 * **Shape.** A B+-tree of pages with ids.  For each id, the mapping table has the
 * current page: a chain of records, newest first, that ends with a base page::
 *
 *	        mapping table
 *	id 17  | * |---> [PUT k3] --> [DEL k7] --> [PUT k3] --> | base page: k1 k3 k7 |
 *	id 18  | * |---> | base page: k9 |
 *
 * Nothing in a chain ever changes.  Every change of a page is one compare-and-swap of
 * its entry in the table: from the newest record to a new one that precedes it, or to a
 * base page with the same content as the chain.  All links between pages are ids.  A page
 * knows its first key (low), its right sibling, and the sibling's first key (high).  Every
 * record has the state of the page including it: number of entries, right sibling, high
 * key, depth of the chain.
 *
 * **Base pages** are sorted arrays.  The common prefix of all keys is stored once.  After
 * it, each key has a slice of eight bytes, compared as a number, in an array of its own,
 * and a tail.  The page has keys in full, because the value of an entry that a newer
 * record has replaced may be freed before the page.  Every eighth slice is repeated among
 * the samples at the beginning of the page.  So a search waits for memory twice: for that
 * beginning, and for eight slices in one cache line.
 *
 * **Readers** take no lock, write nothing, allocate nothing and help no writer.  They run
 * under RCU.  A search descends from the root.  In each page it examines the records, newest
 * first, until one has the answer, and then the base page.  If the key is not less than
 * high, it continues in the right sibling.  The number of pages that a reader visits is
 * bounded; beyond that it gives up with -EBUSY.
 *
 * **Batches** of lookups descend to the level above the leaves one after the other.  Then all of
 * them load their leaves, then all search these, and each step prefetches what the next one reads.
 * A lookup finds the value that its key had when the leaf's entry was loaded, since nothing in a
 * chain changes.  A lookup that meets a REMOVE, or a page that was split since it read the parent,
 * starts over as a single one.
 *
 * **Writers** prepend a PUT or a DEL to a leaf.  begin() finds the leaf and makes the
 * record; commit() swaps the entry, and fails with -EAGAIN if another writer was first.
 * Records use space beside the base page, allocated and freed with it; only long keys
 * need memory of their own.  A writer that finds a long chain consolidates it before its
 * own change, or leaves that to the next one if its swap fails.  A worker consolidates
 * pages that do not change any more.
 *
 * Several keys in order (sorted.c) need no records: a leaf without a chain is replaced by a
 * base page that has them, too, or they become the page that is split off from a full one.
 *
 * **Changes of structure** take steps, each of them one swap.  The tree is consistent
 * between any two steps, and any writer that passes by takes the next step before its own
 * change (help.c).  A page P splits in two steps:
 *
 * 1. The right sibling Q is built and put in the table, where nothing leads to it; then a
 *    SPLIT prepended to P says where Q begins.
 * 2. A TERM_ADD prepended to their parent makes Q known, with the range of keys that lead
 *    to it.
 *
 * A page splits only if its parent leads to it and to its right sibling.  So a reader passes
 * a page that no parent knows in one step to the right, even when the second step of each
 * split fails, for lack of memory or because the store's limit refuses a longer parent: the
 * next split waits for it.  Two such pages in a row remain only where a page was merged while
 * its neighbours split.
 *
 * The root keeps its id: when it is too long, two new pages take its content, and its
 * entry becomes a base page with these two as its children, in one swap.
 *
 * A page R is merged with its left sibling L in four steps:
 *
 * 1. The parent is replaced by a base page in which the term of R is marked.
 * 2. A REMOVE prepended to R freezes it.
 * 3. A MERGE prepended to L makes the chain of R a part of L.
 * 4. A TERM_DEL prepended to the parent removes the term of R, so that its range leads to
 *    L.  R's id and its REMOVE are retired.
 *
 * The mark, which the paper does not have, orders everything else.  A page has at most one
 * mark.  The first term is never marked, so the left sibling has the same parent.  A page
 * with a mark neither splits nor is removed, and none of its other children is removed.  So
 * L stays until R is gone, a merge never waits for another one at its level, and R's term
 * cannot become the first of another page.  And a thread that loads a parent, then sees a
 * page and posts it to that parent, knows from its successful swap that the page has not
 * been removed: the mark would have changed the parent.
 *
 * The root's only child takes the root's place in two steps: a REMOVE freezes it, then
 * its chain becomes the root's.
 *
 * **Readers in the middle of a merge.**  A reader that reaches a REMOVE goes to L, which the
 * record names, and from there to the right.  If the page that ends at R's first key still
 * has R as its right sibling, the MERGE is still to come.  Then the chain below the
 * REMOVE was valid when the reader loaded that page's entry, and the reader uses it.
 * Otherwise it finds the page that covers the key on its way.
 *
 * **Memory.**  The store's reclaim frees what a swap has replaced, as a whole, after a grace
 * period.  The same holds for ids; until then the REMOVE stays in the table.  A split
 * allocates what it needs before its first swap, a merge before it freezes the page.  If
 * that fails, the mark stays, and the merge is finished by the next writer to the marked page,
 * by a writer about to split the parent, or by the worker.
 *
 * **Iterators** keep a key between RCU read sections, and within one section the records of a
 * page in order.  Before each result they check that the page's entry is still the same.
 * Forward, they prefetch values, also those of the next page; this is a guess, and they
 * read them again.
 */

/* The default for the bytes of content at which a page splits. */
#define BW_PAGE_SIZE	3072u
/* Smaller pages would be mostly headers; larger ones are hard to allocate. */
#define BW_PAGE_MIN	256u
#define BW_PAGE_MAX	(16u << 10)

/* Free all values of a leaf's chain. */
static void bw_free_values(struct bw_tree *tree, const struct bw_rec *top)
{
	struct kvt_reclaim *reclaim = tree->index.env.reclaim;
	struct bw_walk walk;
	struct bw_ent ent;
	void *value;

	bw_walk_init(&walk, top);
	while (bw_walk_next(&walk, &ent)) {
		value = (void *)ent.load;
		reclaim->free_values(&value, 1);
	}
}

/* Free an id's page, except what is already retired or another page's. */
static void bw_free_page(struct bw_tree *tree, struct bw_rec *top)
{
	struct bw_remove *remove;
	u8 level = top->level;

	if (top->kind == BW_REMOVE) {
		remove = bw_remove(top);
		if (!remove->merged)
			bw_free_page(tree, top->next);
		else
			bw_count_page(tree, level, -1);
		bw_mem_free(remove);
		return;
	}
	if (bw_is_leaf(top))
		bw_free_values(tree, top);
	bw_chain_free(tree, top);
	bw_count_page(tree, level, -1);
}

static void bw_destroy(struct kvt_index *index)
{
	struct bw_tree *tree = bw_tree(index);
	struct bw_rec *top;
	u32 id;

	bw_tidy_exit(tree);
	for (id = 0; id < (u32)atomic_read(&tree->map->next); id++) {
		top = bw_load_any(tree, id);
		if (top)
			bw_free_page(tree, top);
		cond_resched();
	}
	bw_uncharge(tree, 1, atomic64_read(&tree->map_bytes));
	bw_map_put(tree->map);
	kfree(tree);
}

static struct kvt_index *bw_create(const struct kvt_index_env *env)
{
	struct bw_tree *tree;
	struct bw_page *root;

	tree = kzalloc(sizeof(*tree), GFP_KERNEL);
	if (!tree)
		return ERR_PTR(-ENOMEM);
	tree->index.ops = &kvt_bwtree_ops;
	tree->index.env = *env;
	tree->page_size = env->page_size ?: BW_PAGE_SIZE;
	tree->index.env.page_size = tree->page_size;
	tree->map = bw_map_new();
	root = bw_mem_alloc(sizeof(*root) + 256 + BW_SPACE_LEAF, GFP_KERNEL_ACCOUNT);
	if (!tree->map || !root)
		goto no_memory;
	if (bw_charge_obj(tree, 0, root)) {
		bw_mem_free(root);
		bw_map_put(tree->map);
		kfree(tree);
		return ERR_PTR(-EDQUOT);
	}
	bw_page_empty(root, bw_mem_room(root), 0);
	bw_publish(tree, BW_ROOT, &root->rec);
	bw_count_page(tree, 0, 1);
	bw_nr_add(tree, BW_NR_MAP_BYTES, sizeof(struct bw_map) + sizeof(struct bw_twigs) +
		  sizeof(struct bw_leaves));
	bw_memory_register(tree);
	bw_tidy_init(tree);
	return &tree->index;

no_memory:
	bw_mem_free(root);
	if (tree->map)
		bw_map_put(tree->map);
	kfree(tree);
	return ERR_PTR(-ENOMEM);
}

static const struct kvt_index_stat bw_stats[] = {
	[BW_NR_UPDATE] = { "bw_update", "records of keys prepended to leaves" },
	[BW_NR_UPDATE_FAIL] = { "bw_update_fail", "updates that lost a swap and started again" },
	[BW_NR_CONSOLIDATE] = { "bw_consolidate", "pages rewritten without records" },
	[BW_NR_CONSOLIDATE_FAIL] = { "bw_consolidate_fail", "consolidations that lost a swap" },
	[BW_NR_SPLIT] = { "bw_split", "pages split, the root included" },
	[BW_NR_SPLIT_FAIL] = { "bw_split_fail", "splits that lost a swap" },
	[BW_NR_POST] = { "bw_post", "new pages made known to their parents" },
	[BW_NR_POST_FAIL] = { "bw_post_fail", "posts that lost a swap" },
	[BW_NR_MERGE] = { "bw_merge", "steps of merges and of the root's collapse" },
	[BW_NR_MERGE_FAIL] = { "bw_merge_fail", "steps of merges that lost a swap" },
	[BW_NR_CHAIN_RECORDS] = { "bw_chain_records", "records before base pages", true },
	[BW_NR_CHAINS] = { "bw_chains_1", "pages with a chain of 1 record", true },
	{ "bw_chains_2", "pages with 2 or 3", true },
	{ "bw_chains_4", "pages with 4 to 7", true },
	{ "bw_chains_8", "pages with 8 to 15", true },
	{ "bw_chains_16", "pages with 16 or more", true },
	[BW_NR_FOLDED_RECORDS] = { "bw_folded_records", "records that consolidations replaced" },
	[BW_NR_RECORD_BYTES] = {
		"bw_record_bytes", "memory of records outside base pages' allocations", true,
	},
	[BW_NR_MAP_BYTES] = { "bw_map_bytes", "memory of the mapping table", true },
};

static_assert(ARRAY_SIZE(bw_stats) == BW_NRS && BW_NRS <= KVT_STAT_ENGINE_MAX);
static_assert(sizeof(struct bw_iter) <= KVT_ITER_SIZE_MAX);

const struct kvt_index_ops kvt_bwtree_ops = {
	.name = "bwtree",
	.page_min = BW_PAGE_MIN,
	.page_max = BW_PAGE_MAX,
	.stats = bw_stats,
	.nr_stats = ARRAY_SIZE(bw_stats),
	.iter_size = sizeof(struct bw_iter),
	.create = bw_create,
	.destroy = bw_destroy,
	.get = bw_get,
	.get_batch = bw_get_batch,
	.get_prefix = bw_get_prefix,
	.begin = bw_begin,
	.commit = bw_commit,
	.abort = bw_abort,
	.finish = bw_finish,
	.insert_sorted = bw_insert_sorted,
	.iter_next = bw_iter_next,
	.iter_rest = bw_iter_rest,
	.sweep = bw_sweep,
};
KVT_EXPORT_FOR_TESTS(kvt_bwtree_ops);
