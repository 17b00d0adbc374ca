// SPDX-License-Identifier: GPL-2.0
/*
 * The Bw-tree: the engine as a whole.
 */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bwtree.h"
#include "compat.h"

/**
 * DOC: The Bw-tree engine
 *
 * After "The Bw-Tree: A B-tree for New Hardware Platforms" (Levandoski, Lomet,
 * Sengupta, ICDE 2013); the space for records beside a base page, and the places
 * that records tell a search, after "Building a Bw-Tree Takes More Than Just Buzz
 * Words" (Wang et al., SIGMOD 2018).
 *
 * **Shape.** A B+-tree whose pages are known by ids.  The mapping table says for each
 * id what the page is now: a chain of records, the newest first, at whose end is a
 * base page::
 *
 *	        mapping table
 *	id 17  | * |---> [PUT k3] --> [DEL k7] --> [PUT k3] --> | base page: k1 k3 k7 |
 *	id 18  | * |---> | base page: k9 |
 *
 * Nothing in a chain ever changes.  Every change of a page is one compare-and-swap of
 * its entry in the table: from the newest record to one whose next it is, or to a base
 * page that says the same as the chain.  All links between pages are ids.  A page knows
 * its first key (low), its right sibling, and that one's first key (high).  Every record
 * says what the page is with it: number of entries, right sibling, high key, depth of
 * the chain.
 *
 * **Base pages** are sorted arrays.  What all keys begin with is kept once; what follows
 * it is a slice of eight bytes, compared as a number, in an array of its own, and a
 * tail.  Keys stand in the page in full: the value of an entry that a newer record has
 * replaced may be freed while the page is not.
 * Every eighth slice stands a second time among the marks at the page's beginning: so a
 * search waits for memory twice, first for the beginning, then for eight slices that are
 * a cache line.
 *
 * **Readers** take no lock, write nothing, allocate nothing and help nobody.  They run
 * under RCU.  A search goes down from the root; in each page it looks at the records
 * from the newest on, until one knows the answer, and then in the base page.  A key that
 * is not less than high is looked for in the right sibling.  The number of pages that a
 * reader looks at is bounded; then it gives up with -EBUSY.
 *
 * **Writers** put a PUT or a DEL in front of a leaf.  begin() finds the leaf and makes
 * the record, commit() swaps the entry, and fails with -EAGAIN if another was first.
 * Records stand in space beside the base page, which was allocated with it, and are
 * freed with it; only long keys need memory of their own.  A chain that has become long
 * is consolidated by the writer that notices, before its own change; if its swap fails,
 * it leaves that to the next one.  Pages that nobody changes any more are consolidated by
 * a worker.
 *
 * **Changes of structure** go in steps, each of them one swap.  Between any two of them
 * the tree is whole, and any writer who comes by makes the next one before its own change
 * (step.c).  A page splits in two steps:
 *
 * 1. The right sibling Q is built and put in the table, where nothing leads to it; then a
 *    SPLIT in front of P says where Q begins.
 * 2. A TERM_ADD in front of their parent makes Q known, with the range of keys that lead
 *    to it.
 *
 * The root keeps its id: when it is too long, two new pages take its content, and its
 * entry becomes a base page with these two as its children, in one swap.
 *
 * A page R is merged with its left sibling L in four:
 *
 * 1. The parent is replaced by a base page in which the term of R is marked.
 * 2. A REMOVE in front of R freezes it.
 * 3. A MERGE in front of L makes the chain of R a part of L.
 * 4. A TERM_DEL in front of the parent takes the term of R out, and makes what it led to
 *    lead to L.  R's id and its REMOVE are retired.
 *
 * The mark, which the paper does not have, orders everything else.  A page has one mark
 * at most.  The first term is never marked, so the left sibling has the same parent.  A
 * page with a mark neither splits nor is removed, and of its children no other is
 * removed: so L stays until R is gone, a merge never waits for another one at its level,
 * and R's term cannot become the first of another page.  And whoever posts a page to a
 * parent, and has loaded the parent before it saw the page, knows by its swap that the
 * page is not removed: the mark would have changed the parent.
 *
 * The root's only child takes the root's place in two steps: a REMOVE freezes it, then
 * its chain becomes the root's.
 *
 * **Readers in the middle of a merge.**  Whoever comes to a REMOVE goes to L, which the
 * record names, and from there to the right.  If the page whose high key is R's first key
 * still has R as its right sibling, the MERGE is still to come, and the chain below the
 * REMOVE was the truth when L's entry was loaded; that is when the reader read it.
 * Otherwise the page that covers the key is found there.
 *
 * **Memory.**  What a swap has replaced is retired as a whole, a grace period later, by
 * the store's reclaim.  So are ids; until then the REMOVE stays in the table.  What a split
 * needs is allocated before its first swap, and what a merge needs before the page is
 * frozen.  Whoever lacks that leaves the mark.  The next writer to the marked page finishes
 * the merge, or whoever is about to split the parent, or the worker.
 *
 * **Iterators** keep a key between RCU read sections, and within one a page's records in
 * order.  Before each result they look whether the page's entry is still the same.
 * Forward, values are fetched ahead of their turn, those of the next page, too; what is
 * fetched is a guess, and read again.
 */

/* Bytes of a page's content that make it split, unless the user says how many. */
#define BW_PAGE_SIZE	3072u
/* Below, hardly anything but headers would be in a page; above, it is hardly allocated. */
#define BW_PAGE_MIN	256u
#define BW_PAGE_MAX	(16u << 10)

/* Free the values of a leaf's chain, which has them all. */
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

/* Free what an id stands for, but for what is retired or another's already. */
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
	u32 size;

	tree = kzalloc(sizeof(*tree), GFP_KERNEL);
	if (!tree)
		return ERR_PTR(-ENOMEM);
	tree->index.ops = &kvt_bwtree_ops;
	tree->index.env = *env;
	tree->page_size = env->page_size ?: BW_PAGE_SIZE;
	tree->index.env.page_size = tree->page_size;
	tree->map = bw_map_new();
	root = bw_mem_alloc(sizeof(*root) + 256 + BW_SPACE_LEAF, GFP_KERNEL_ACCOUNT, &size);
	if (!tree->map || !root)
		goto no_memory;
	if (bw_charge_obj(tree, 0, root)) {
		bw_mem_free(root);
		bw_map_put(tree->map);
		kfree(tree);
		return ERR_PTR(-EDQUOT);
	}
	bw_page_empty(root, size, 0);
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
	[BW_NR_UPDATE] = { "bw_update", "records of keys put in front of leaves" },
	[BW_NR_UPDATE_FAIL] = { "bw_update_fail", "updates that lost, and began again" },
	[BW_NR_CONSOLIDATE] = { "bw_consolidate", "pages written anew without records" },
	[BW_NR_CONSOLIDATE_FAIL] = { "bw_consolidate_fail", "consolidations that lost" },
	[BW_NR_SPLIT] = { "bw_split", "pages split, the root included" },
	[BW_NR_SPLIT_FAIL] = { "bw_split_fail", "splits that lost" },
	[BW_NR_POST] = { "bw_post", "new pages made known to their parents" },
	[BW_NR_POST_FAIL] = { "bw_post_fail", "posts that lost" },
	[BW_NR_MERGE] = { "bw_merge", "steps of merges and of the root's collapse" },
	[BW_NR_MERGE_FAIL] = { "bw_merge_fail", "steps of merges that lost" },
	[BW_NR_CHAIN_RECORDS] = { "bw_chain_records", "records in front of base pages", true },
	[BW_NR_CHAINS] = { "bw_chains_1", "pages with a chain of 1 record", true },
	{ "bw_chains_2", "pages with 2 or 3", true },
	{ "bw_chains_4", "pages with 4 to 7", true },
	{ "bw_chains_8", "pages with 8 to 15", true },
	{ "bw_chains_16", "pages with 16 or more", true },
	[BW_NR_FOLDED_RECORDS] = { "bw_folded_records", "records that consolidations replaced" },
	[BW_NR_RECORD_BYTES] = {
		"bw_record_bytes", "memory of records that do not stand beside a base page", true,
	},
	[BW_NR_MAP_BYTES] = { "bw_map_bytes", "memory of the mapping table", true },
};

static_assert(ARRAY_SIZE(bw_stats) == BW_NRS && BW_NRS <= KVT_STAT_ENGINE_MAX);

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
	.iter_next = bw_iter_next,
	.iter_rest = bw_iter_rest,
	.sweep = bw_sweep,
};
KVT_EXPORT_FOR_TESTS(kvt_bwtree_ops);
