// SPDX-License-Identifier: GPL-2.0
/*
 * The table of the first layer (see table.h).  It is not in the paper.
 *
 * With ten million keys a lookup goes through six inner nodes and a leaf, and has to read each
 * before it knows the next.  The table says which of the nodes above the leaves (level 1) covers a
 * slice.  It is an array, sorted by the nodes' smallest slices, and an index of that array by
 * the slices' upper bits.
 *
 * **What an entry says.**  If the node is not deleted, and its vsplit is this one, it covers the
 * entry's slices, from its bound to the next entry's.  This was true when the entry was made, and
 * only a split reduces what a node covers.  A reader compares vsplit, and continues from the node
 * as if it had just descended to it.  If the entry is stale, or the node deleted, the lookup
 * starts again at the root.  If the node is changing, a probe waits for it (find.c).
 *
 * **Splits.**  Before a thread that has split nodes unlocks any, it looks at the entry for the
 * slice that it inserts.  If the entry leads to one of these nodes, the thread replaces it by the
 * lowest node above that has not split, which covers all that the split nodes did; or, if the root
 * has split, clears it.  Other entries for these nodes become stale.
 *
 * **Deleted nodes** are not freed while a table may lead to them.  A node in a table goes to the
 * tree's list of graves instead of being retired.  The maker of a table sets inner->tabled, then
 * reads the version; the remover of a node sets MT_DELETED, then reads inner->tabled, and each has
 * a full barrier in between.  So the maker sees that the node is deleted, and leaves it out, or the
 * remover puts it on the list.  The maker takes the list before it reads the first node, and
 * retires the nodes in it when the new table is published: readers of the old one read under RCU.
 * Without a table (tree->tabling), nodes are retired at once.  If there is no memory for another
 * table, the old one is dropped to make room.
 *
 * **The worker** makes another table after one split or removal of an inner node for every eight
 * entries.  It reads the nodes of level 2 from left to right, each in a read section of its own.
 * It may wait for memory, and for readers.
 *
 * **Wraparound.**  An entry has 14 bits of vsplit.  Each time that a node's vsplit passes a
 * multiple of 2^12, the thread that splits the node counts a turn, even while the first table is
 * being made.  At the second turn since a table was begun, that thread withdraws the table before
 * it unlocks the node.  A reader checks that its table is in use after it has read the node's
 * version.
 *
 * **Locks.**  table_lock serializes makers; no node is locked under it.  table_swap is taken under
 * it, and under node locks, which are held with preemption off: so it is a raw spinlock.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/sched.h>

#include "base/mem.h"
#include "base/park.h"
#include "compat.h"
#include "table.h"

/* Make another table after one change for this many entries, and some more. */
#define MT_TABLE_OLD		8
#define MT_TABLE_SOME		4
/* No changes are needed. */
#define MT_TABLE_ANY		-1
/* Least delay in jiffies, and rest as a multiple of the time it took; more without memory. */
#define MT_TABLE_DELAY		(HZ / 20)
#define MT_TABLE_REST		9
#define MT_TABLE_LONGEST_REST	9999
#define MT_TABLE_REST_MAX	(60 * HZ)
/* At most one entry in this many may be in a bucket too large to search without branches. */
#define MT_TABLE_UNEVEN		4
/* After how many concurrent changes the maker gives up, and after how many it sleeps a little. */
#define MT_TABLE_TRIES		1000
#define MT_TABLE_PATIENCE	10
/* The level above the nodes in the table. */
#define MT_TABLE_ABOVE		2

/* A table that is being made; or, without one, how large it will be. */
struct mt_making {
	struct mt_table *table;
	u32 room;
	u32 nr;
	u64 slice;			/* where to go on */
};

/* A node above those of the table, and what it covers. */
struct mt_above {
	struct mt_inner *inner;
	u64 version;
	u64 next;			/* the smallest slice of the one after it */
	bool last;			/* there is none */
};

/* Read an inner node's version.  Returns false if it is changing or deleted. */
static bool mt_table_read(const struct mt_node *node, u64 *version)
{
	/* Pairs with mt_unlock(). */
	*version = smp_load_acquire(&node->version);
	return !(*version & (MT_DIRTY | MT_DELETED));
}

/*
 * Find the node of level 2 that covers a slice.  Returns 0; -EAGAIN: the tree is changing; or
 * -ENOENT: the tree is too low for a table.
 */
static int mt_table_descend(struct mt_tree *tree, u64 slice, struct mt_above *above)
{
	struct mt_node *node = mt_root(tree), *child;
	struct mt_inner *inner;
	unsigned int at, nkeys;
	u64 v, child_v;

	above->last = true;
	if (!mt_table_read(node, &v) || !mt_is_root(node))
		return -EAGAIN;
	if (v & MT_LEAF || mt_inner(node)->level < MT_TABLE_ABOVE)
		return -ENOENT;
	while ((inner = mt_inner(node))->level > MT_TABLE_ABOVE) {
		nkeys = mt_inner_nkeys(inner);
		at = mt_inner_search(inner, nkeys, slice);
		child = READ_ONCE(inner->child[at]);
		if (at < nkeys) {
			above->next = READ_ONCE(inner->slice[at]);
			above->last = false;
		}
		if (!mt_table_read(child, &child_v) || mt_changed(node, v))
			return -EAGAIN;
		node = child;
		v = child_v;
	}
	above->inner = inner;
	above->version = v;
	return 0;
}

/* From now on the node is put on the list of graves when it is deleted. */
static void mt_table_mark(struct mt_inner *inner)
{
	/* Do not write without need: all readers share the cache line. */
	if (!READ_ONCE(inner->tabled))
		WRITE_ONCE(inner->tabled, true);
}

static u64 mt_table_ref(const struct mt_table *t, const struct mt_node *node, u64 version)
{
	unsigned long address = (unsigned long)kasan_reset_tag(node);

	if ((address & MT_REF_TOP) != t->top)
		return MT_REF_NONE;
	return (u64)address << MT_REF_SHIFT | mt_ref_vsplit(version);
}

/* Make entries for children of a node, from number @first on. */
static void mt_table_fill(struct mt_table *t, u32 at, const struct mt_inner *inner,
			  unsigned int first, unsigned int nkeys, u64 slice)
{
	struct mt_table_entry *e = &t->entry[at];
	struct mt_inner *child;
	unsigned int i;
	u64 v;

	for (i = first; i <= nkeys; i++)
		mt_table_mark(mt_inner(READ_ONCE(inner->child[i])));
	/* Pairs with mt_inner_retire(). */
	smp_mb();
	for (i = first; i <= nkeys; i++, e++) {
		child = mt_inner(READ_ONCE(inner->child[i]));
		e->bound = i == first ? slice : READ_ONCE(inner->slice[i - 1]);
		e->ref = mt_table_read(&child->node, &v) ? mt_table_ref(t, &child->node, v) :
							   MT_REF_NONE;
		kvt_park_loose(KVT_PARK_TABLE_READ);
	}
}

/* Add entries for the children of a node, from the one that covers m->slice on. */
static int mt_table_add(struct mt_making *m, const struct mt_above *above)
{
	struct mt_inner *inner = above->inner;
	unsigned int nkeys = mt_inner_nkeys(inner);
	unsigned int first = mt_inner_search(inner, nkeys, m->slice);
	unsigned int nr = nkeys + 1 - first;

	if (m->table && m->nr + nr > m->room)
		return -ENOSPC;
	if (m->table)
		mt_table_fill(m->table, m->nr, inner, first, nkeys, m->slice);
	/* Otherwise these children covered their slices when their versions were read. */
	if (mt_changed(&inner->node, above->version))
		return -EAGAIN;
	m->nr += nr;
	return 0;
}

/* Go through all nodes of level 2.  Returns 0, -ENOENT, -ENOSPC or -EBUSY: try later. */
static int mt_table_walk(struct mt_tree *tree, struct mt_making *m)
{
	struct mt_above above = { };
	unsigned int tries = 0;
	int err;

	m->nr = 0;
	m->slice = 0;
	do {
		rcu_read_lock();
		err = mt_table_descend(tree, m->slice, &above);
		if (!err)
			err = mt_table_add(m, &above);
		rcu_read_unlock();
		if (!err)
			m->slice = above.next;
		else if (err != -EAGAIN)
			return err;
		else if (++tries == MT_TABLE_TRIES)
			return -EBUSY;
		else if (!(tries % MT_TABLE_PATIENCE))
			usleep_range(50, 100);
		if (READ_ONCE(tree->ending))
			return -EBUSY;
		cond_resched();
	} while (err || !above.last);
	return 0;
}

static void mt_table_free(struct mt_tree *tree, struct mt_table *t)
{
	size_t size = t->size;

	kvt_mem_free(t, size);
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_INNER_BYTES, -(s64)size);
	kvt_quota_uncharge(tree->index.env.quota, size);
}

static struct mt_table *mt_table_alloc(struct mt_tree *tree, u32 room)
{
	/* A table is not worth invoking the OOM killer. */
	const struct kvt_mem mem = {
		.memcg = tree->index.env.memcg, .gfp = GFP_KERNEL | __GFP_NORETRY,
	};
	struct mt_table *t;
	size_t size;

	/* At most two buckets for an entry. */
	size = sizeof(*t) + ((size_t)room + MT_TABLE_PAD) * sizeof(t->entry[0]) +
	       (2 * (size_t)room + 2) * sizeof(t->bucket[0]);
	size = kvt_mem_size(size);
	if (kvt_quota_charge(tree->index.env.quota, size))
		return NULL;
	t = kvt_mem_alloc(&mem, size);
	if (!t) {
		kvt_quota_uncharge(tree->index.env.quota, size);
		return NULL;
	}
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_INNER_BYTES, size);
	t->size = size;
	t->top = (unsigned long)kasan_reset_tag(mt_root(tree)) & MT_REF_TOP;
	return t;
}

/*
 * The entries are complete: make the buckets.  Returns false if too many entries are in few
 * buckets: searching these would take as long as descending from the root.
 */
static bool mt_table_index(struct mt_table *t, u32 nr, u32 room)
{
	u32 b, at = 0, crowded = 0;
	u64 span, first;

	t->nr = nr;
	t->bucket = (u32 *)&t->entry[room + MT_TABLE_PAD];
	for (b = 0; b < MT_TABLE_PAD; b++)
		t->entry[nr + b] = (struct mt_table_entry) { .bound = ~0ull };
	t->base = nr > 1 ? t->entry[1].bound : 0;
	span = t->entry[nr - 1].bound - t->base;
	t->shift = 0;
	while (span >> t->shift >= 2 * (u64)nr)
		t->shift++;
	t->nr_buckets = (span >> t->shift) + 1;
	t->bucket[0] = 0;
	for (b = 1; b < t->nr_buckets; b++) {
		first = t->base + ((u64)b << t->shift);
		while (at + 1 < nr && t->entry[at + 1].bound <= first)
			at++;
		t->bucket[b] = at;
		if (at - t->bucket[b - 1] > MT_TABLE_NEAR)
			crowded += at - t->bucket[b - 1];
		cond_resched();
	}
	t->bucket[b] = nr - 1;
	if (nr - 1 - at > MT_TABLE_NEAR)
		crowded += nr - 1 - at;
	return crowded <= nr / MT_TABLE_UNEVEN;
}

/*
 * Make a table, m->table.  Returns 0; or, without a table: -ENOENT: the tree is too low; -EDOM: its
 * slices are too uneven; others: try later.
 */
static int mt_table_make(struct mt_tree *tree, struct mt_making *m)
{
	struct mt_table *table;
	int err;

	err = mt_table_walk(tree, m);
	if (err)
		return err;
	m->room = m->nr + m->nr / 8 + 16;
	table = mt_table_alloc(tree, m->room);
	m->table = table;
	if (!table)
		return -ENOMEM;
	err = mt_table_walk(tree, m);
	if (!err && !mt_table_index(table, m->nr, m->room))
		err = -EDOM;
	if (!err)
		return 0;
	m->table = NULL;
	mt_table_free(tree, table);
	return err;
}

/*
 * Have lookups use @table, or none if it is NULL.  @turns: the number of turns when the table was
 * begun.  If too many were counted since then, the table is never used.
 */
static void mt_table_publish(struct mt_tree *tree, struct mt_table *table, unsigned int turns)
{
	struct mt_table *old = tree->table_made;

	WRITE_ONCE(tree->table_made, table);
	local_bh_disable();
	raw_spin_lock(&tree->table_swap);
	tree->table_turns -= turns;
	/* Pairs with mt_table(). */
	smp_store_release(&tree->table, tree->table_turns < MT_TABLE_TURNS ? table : NULL);
	raw_spin_unlock(&tree->table_swap);
	local_bh_enable();
	/* Pairs with mt_inner_retire(). */
	smp_store_release(&tree->tabling, !!table);
	if (!old)
		return;
	/* Readers may still use the old one. */
	synchronize_rcu();
	mt_table_free(tree, old);
}

/* Count a turn.  Returns whether the table may still be used. */
static noinline bool mt_table_turn(struct mt_tree *tree)
{
	bool in_use;

	raw_spin_lock(&tree->table_swap);
	in_use = ++tree->table_turns < MT_TABLE_TURNS;
	if (!in_use)
		WRITE_ONCE(tree->table, NULL);
	raw_spin_unlock(&tree->table_swap);
	return in_use;
}

/* Count the split of a locked node, not yet in vsplit.  Returns as mt_table_turn(). */
static bool mt_table_count(struct mt_tree *tree, struct mt_inner *split)
{
	u8 turn = (READ_ONCE(split->node.version) / MT_VSPLIT + 1) / MT_TABLE_TURN;

	if (likely(turn == split->turn))
		return true;
	split->turn = turn;
	return mt_table_turn(tree);
}

/**
 * mt_table_split() - update the table when nodes of the first layer have split
 * @tree: the tree
 * @slice: of a key that is in the first of them
 * @split: the nodes, from level 1 on, locked and marked
 * @nr: how many
 * @heir: the node above the last of them, locked; NULL: that was the root
 *
 * Context: under rcu_read_lock(), mt_hold().
 */
void mt_table_split(struct mt_tree *tree, u64 slice, struct mt_inner *const *split,
		    unsigned int nr, struct mt_inner *heir)
{
	struct mt_table *t = smp_load_acquire(&tree->table);	/* pairs with mt_table_publish() */
	u64 *ref, was, to = MT_REF_NONE;
	bool in_use = t;
	unsigned int i;

	atomic_add(nr, &tree->table_changes);
	for (i = 0; i < nr; i++)
		in_use &= mt_table_count(tree, split[i]);
	if (!in_use)
		return;
	ref = &t->entry[mt_table_at(t, slice)].ref;
	was = READ_ONCE(*ref);
	for (i = 0; i < nr; i++)
		if (was == mt_table_ref(t, &split[i]->node, READ_ONCE(split[i]->node.version)))
			break;
	/* Leave an entry that is stale, or leads elsewhere: @heir may cover less than it. */
	if (was == MT_REF_NONE || i == nr)
		return;
	if (heir) {
		mt_table_mark(heir);
		to = mt_table_ref(t, &heir->node, READ_ONCE(heir->node.version));
	}
	/* Only the thread that locks its node changes an entry.  Pairs with mt_table_find(). */
	smp_store_release(ref, to);
}

/**
 * mt_table_is_old() - whether the worker should make another one
 * @tree: the tree
 *
 * Return: whether much has changed, or the table is out of use.
 */
bool mt_table_is_old(const struct mt_tree *tree)
{
	return atomic_read(&tree->table_changes) > READ_ONCE(tree->table_enough) ||
	       (READ_ONCE(tree->table_made) && !READ_ONCE(tree->table));
}
KVT_EXPORT_FOR_TESTS(mt_table_is_old);

/* How many changes make another table due. */
static int mt_table_enough(const struct mt_making *m, int err)
{
	switch (err) {
	case 0:
		return m->nr / MT_TABLE_OLD + MT_TABLE_SOME;
	case -ENOENT:
		return MT_TABLE_SOME;
	case -EDOM:
		/* Uneven slices stay so until there are about as many new ones. */
		return min_t(u32, m->nr, INT_MAX / 2) + MT_TABLE_SOME;
	default:
		return MT_TABLE_ANY;
	}
}

/* Retire nodes that no table leads to, not more at once than the store may keep. */
static void mt_table_exhume(struct mt_tree *tree, struct llist_node *graves)
{
	struct mt_inner *inner, *next;

	llist_for_each_entry_safe(inner, next, graves, node.retire) {
		kvt_reclaim_throttle(tree->index.env.reclaim, true);
		mt_inner_exhume(tree, inner);
		cond_resched();
	}
}

/* Keep deleted nodes, since the old table stays. */
static void mt_table_put_back(struct mt_tree *tree, struct llist_node *graves)
{
	struct llist_node *last = graves;

	if (!graves)
		return;
	for (; last->next; last = last->next)
		cond_resched();
	/* As in mt_inner_retire(). */
	data_race(llist_add_batch(graves, last, &tree->graves));
}

/* As mt_table_renew(), once.  -ENOSPC and -EBUSY keep an existing table; -ENOMEM drops it. */
static int mt_table_try(struct mt_tree *tree)
{
	struct llist_node *graves = llist_del_all(&tree->graves);
	/* Later changes count for the new table. */
	int err, changes = atomic_read(&tree->table_changes);
	unsigned int turns = READ_ONCE(tree->table_turns);
	struct mt_making m = { };

	/* Before any node is marked. */
	WRITE_ONCE(tree->tabling, true);
	err = mt_table_make(tree, &m);
	if ((err == -ENOSPC || err == -EBUSY) && tree->table_made) {
		mt_table_put_back(tree, graves);
		return err;
	}
	atomic_sub(changes, &tree->table_changes);
	WRITE_ONCE(tree->table_enough, mt_table_enough(&m, err));
	mt_table_publish(tree, m.table, turns);
	mt_table_exhume(tree, graves);
	/* A node that a thread adds later waits for the next attempt. */
	if (!m.table)
		mt_table_exhume(tree, llist_del_all(&tree->graves));
	return err == -ENOENT || err == -EDOM ? 0 : err;
}

/**
 * mt_table_renew() - make another table, and retire the nodes that the last one has kept
 * @tree: the tree
 *
 * Context: may sleep.
 *
 * Return: 0, also if the tree should have no table; -ENOMEM, -ENOSPC or -EBUSY: try later.
 */
int mt_table_renew(struct mt_tree *tree)
{
	bool had;
	int err;

	mutex_lock(&tree->table_lock);
	had = tree->table_made;
	err = mt_table_try(tree);
	/* The old table is gone: there may be room now. */
	if (err == -ENOMEM && had)
		err = mt_table_try(tree);
	mutex_unlock(&tree->table_lock);
	return err;
}

/**
 * mt_table_later() - have the worker make another table, if it is time
 * @tree: the tree, after inner nodes were added or removed
 *
 * Context: any but NMI and hardirq; nothing held.
 */
void mt_table_later(struct mt_tree *tree)
{
	unsigned long now = jiffies, due = READ_ONCE(tree->table_due);
	unsigned long delay = MT_TABLE_DELAY;

	if (READ_ONCE(tree->ending) || !mt_table_is_old(tree))
		return;
	if (time_after(due, now + delay))
		delay = due - now;
	queue_delayed_work(tree->index.env.slow_wq, &tree->table_work, delay);
}
KVT_EXPORT_FOR_TESTS(mt_table_later);

/* Take at most a tenth of the time, or run once a minute; less often without memory. */
static void mt_table_work(struct work_struct *work)
{
	struct mt_tree *tree = container_of(to_delayed_work(work), struct mt_tree, table_work);
	unsigned long rest, start = jiffies;

	/* A writer may have queued it while it ran. */
	if (time_before(start, tree->table_due) || !mt_table_is_old(tree)) {
		mt_table_later(tree);
		return;
	}
	if (mt_table_renew(tree) == -ENOMEM)
		tree->table_rest = min_t(unsigned int, 2 * tree->table_rest, MT_TABLE_LONGEST_REST);
	else
		tree->table_rest = MT_TABLE_REST;
	/* Round up. */
	rest = min_t(unsigned long, tree->table_rest * (jiffies - start + 1), MT_TABLE_REST_MAX);
	WRITE_ONCE(tree->table_due, jiffies + rest);
	mt_table_later(tree);
}

/**
 * mt_table_init() - prepare a tree
 * @tree: the tree
 */
void mt_table_init(struct mt_tree *tree)
{
	mutex_init(&tree->table_lock);
	raw_spin_lock_init(&tree->table_swap);
	init_llist_head(&tree->graves);
	atomic_set(&tree->table_changes, 0);
	tree->table_enough = MT_TABLE_SOME;
	tree->table_due = jiffies;
	tree->table_rest = MT_TABLE_REST;
	INIT_DELAYED_WORK(&tree->table_work, mt_table_work);
}

/**
 * mt_table_exit() - free a tree's table
 * @tree: the tree, which is ending and not used any more
 *
 * Context: may sleep.
 */
void mt_table_exit(struct mt_tree *tree)
{
	struct mt_inner *inner, *next;

	cancel_delayed_work_sync(&tree->table_work);
	if (tree->table_made)
		mt_table_free(tree, tree->table_made);
	llist_for_each_entry_safe(inner, next, llist_del_all(&tree->graves), node.retire) {
		mt_inner_free(tree, inner);
		cond_resched();
	}
}
