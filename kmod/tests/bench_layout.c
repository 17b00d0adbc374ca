// SPDX-License-Identifier: GPL-2.0
/*
 * Where the index's memory lies after a mixed load, and what of it lookups touch.
 *
 * Nodes among other objects are on more pages than they need, and nodes at a regular
 * distance use some sets of a cache more than others ("Getting to the root of
 * concurrent binary search tree performance", section 3.2, Table 4, Figures 6 and 7).
 */
#include <linux/err.h>
#include <linux/io.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>
#include <linux/xarray.h>

#include "bench.h"
#include "masstree/tree.h"

#define LINE		64u
/* Of a cache of 1 MiB with 16 ways. */
#define SETS		1024u
#define LOOKUPS		100000u
/* Of one lookup, of one kind. */
#define LINES_MAX	64u

enum kind { INNER, LEAF, VALUE, KINDS };

static const char *const kind_names[KINDS] = { "inner", "leaf", "value" };

struct layout {
	struct xarray pages[KINDS];
	u32 lines[KINDS][SETS];		/* of objects, by the set that they belong to */
	u64 nr[KINDS];
	u64 bytes[KINDS];
};

/* The different lines that lookups touch. */
struct touched {
	unsigned long line[LINES_MAX];
	unsigned int nr;
};

static int layout_add(struct layout *l, enum kind k, const void *object, size_t size)
{
	phys_addr_t at = virt_to_phys((void *)object), end = at + size;
	int err;

	l->nr[k]++;
	l->bytes[k] += size;
	for (at = round_down(at, LINE); at < end; at += LINE) {
		l->lines[k][at / LINE % SETS]++;
		if (xa_load(&l->pages[k], at >> PAGE_SHIFT))
			continue;
		err = xa_err(xa_store(&l->pages[k], at >> PAGE_SHIFT, xa_mk_value(1),
				      GFP_KERNEL));
		if (err)
			return err;
	}
	return 0;
}

static int add_nodes(struct layout *l, struct mt_node *node);

static int add_leaf(struct layout *l, struct mt_leaf *leaf)
{
	u64 perm = mt_leaf_perm(leaf);
	unsigned int i;
	int err = layout_add(l, LEAF, leaf, mt_leaf_bytes(mt_has_cells(leaf)));

	for (i = 0; i < mt_perm_size(perm) && !err; i++) {
		unsigned long slot = mt_leaf_slot(leaf, mt_perm_slot(perm, i));
		struct kvt_value *v = mt_slot_value(slot);

		if (mt_slot_is_layer(slot))
			err = add_nodes(l, mt_slot_to_layer(slot));
		else if (!mt_slot_is_cell(slot))
			err = layout_add(l, VALUE, v, v->size);
	}
	return err;
}

/* A layer, and those below it. */
static int add_nodes(struct layout *l, struct mt_node *node)
{
	unsigned int i;
	int err;

	cond_resched();
	if (mt_is_leaf(node))
		return add_leaf(l, mt_leaf(node));
	err = layout_add(l, INNER, node, sizeof(struct mt_inner));
	for (i = 0; i <= mt_inner(node)->nkeys && !err; i++)
		err = add_nodes(l, mt_inner(node)->child[i]);
	return err;
}

static void touch(struct touched *t, const void *p, size_t size)
{
	unsigned long line = (unsigned long)p / LINE, last = ((unsigned long)p + size - 1) / LINE;
	unsigned int i;

	for (; line <= last; line++) {
		for (i = 0; i < t->nr && t->line[i] != line; i++)
			;
		if (i == t->nr && t->nr < LINES_MAX)
			t->line[t->nr++] = line;
	}
}

static void touch_field(struct touched *t, const u64 *field)
{
	touch(t, field, sizeof(*field));
}

/* As mt_inner_search() goes. */
static struct mt_node *touch_inner(struct touched *t, const struct mt_inner *inner, u64 slice)
{
	unsigned int i, group = 0, at = mt_inner_search(inner, inner->nkeys, slice);

	touch_field(t, &inner->node.version);
	touch(t, &inner->nkeys, sizeof(inner->nkeys) + sizeof(inner->level));
	for (i = 2; i < MT_INNER_WIDTH; i += 4) {
		touch_field(t, &inner->slice[i]);
		group = slice >= inner->slice[i] ? i + 1 : group;
	}
	touch(t, &inner->slice[group], 3 * sizeof(*inner->slice));
	touch(t, &inner->child[at], sizeof(inner->child[at]));
	return inner->child[at];
}

/* As mt_leaf_find() goes, and then to the value. */
static bool touch_leaf(struct touched *t, const struct mt_leaf *leaf, u64 slice)
{
	int n = mt_leaf_find(leaf, mt_leaf_perm(leaf), slice, MT_SLICE);
	const struct kvt_value *v;
	unsigned long slot;

	touch_field(&t[LEAF], &leaf->node.version);
	touch_field(&t[LEAF], &leaf->perm);
	if (n < 0)
		return false;
	touch(&t[LEAF], leaf->slice, (n + 1) * sizeof(*leaf->slice));
	touch_field(&t[LEAF], &leaf->ranks);
	touch(&t[LEAF], &leaf->slot[n], sizeof(leaf->slot[n]));
	slot = mt_leaf_slot(leaf, n);
	if (mt_slot_is_cell(slot)) {
		touch_field(&t[LEAF], &leaf->data[n]);
		return true;
	}
	v = mt_slot_value(slot);
	touch(&t[VALUE], v, v->size);
	return true;
}

/* @levels: increased by the number of inner nodes. */
static bool touch_all(struct touched *t, struct mt_node *node, u64 key, u64 *levels)
{
	for (; !mt_is_leaf(node); ++*levels)
		node = touch_inner(&t[INNER], mt_inner(node), key);
	return touch_leaf(t, mt_leaf(node), key);
}

static int print_lookups(struct mt_node *root, u32 keys)
{
	struct touched *t = kcalloc(KINDS, sizeof(*t), GFP_KERNEL);
	u64 lines[KINDS] = { 0 }, levels = 0, state = 1;
	bool found = true;
	unsigned int i, k;

	if (!t)
		return -ENOMEM;
	for (i = 0; i < LOOKUPS && found; i++) {
		for (k = 0; k < KINDS; k++)
			t[k].nr = 0;
		found = touch_all(t, root, bench_mix(bench_below(&state, keys) + 1), &levels);
		for (k = 0; k < KINDS; k++)
			lines[k] += t[k].nr;
	}
	kfree(t);
	if (!found)
		return -EILSEQ;
	pr_info("kvtree_bench: lookup levels_milli=%llu inner_lines_milli=%llu leaf_lines_milli=%llu value_lines_milli=%llu\n",
		div_u64(levels * 1000, LOOKUPS), div_u64(lines[INNER] * 1000, LOOKUPS),
		div_u64(lines[LEAF] * 1000, LOOKUPS), div_u64(lines[VALUE] * 1000, LOOKUPS));
	return 0;
}

static void print_kind(struct layout *l, enum kind k)
{
	unsigned long pfn, last = 0;
	u64 pages = 0, runs = 0, sum = 0;
	u32 least = U32_MAX, most = 0;
	unsigned int i;
	void *entry;

	xa_for_each(&l->pages[k], pfn, entry) {
		pages++;
		runs += !last || pfn != last + 1;
		last = pfn;
	}
	for (i = 0; i < SETS; i++) {
		least = min(least, l->lines[k][i]);
		most = max(most, l->lines[k][i]);
		sum += l->lines[k][i];
	}
	pr_info("kvtree_bench: layout %s objects=%llu bytes=%llu pages=%llu pages_least=%llu runs=%llu set_least=%u set_mean=%llu set_most=%u\n",
		kind_names[k], l->nr[k], l->bytes[k], pages,
		DIV_ROUND_UP_ULL(l->bytes[k], PAGE_SIZE), runs, least, div_u64(sum, SETS),
		most);
}

static int print_layout(struct mt_node *root)
{
	struct layout *l = kvzalloc(sizeof(*l), GFP_KERNEL);
	unsigned int k;
	int err;

	if (!l)
		return -ENOMEM;
	for (k = 0; k < KINDS; k++)
		xa_init(&l->pages[k]);
	err = add_nodes(l, root);
	for (k = 0; k < KINDS && !err; k++)
		print_kind(l, k);
	for (k = 0; k < KINDS; k++)
		xa_destroy(&l->pages[k]);
	kvfree(l);
	return err;
}

/* Keys come in no order, with values that are replaced, and longer keys between them. */
static int load(u32 keys)
{
	u8 name[BENCH_NAME_LEN + 1], data[BENCH_NAME_DATA] = { 0 };
	u64 state = 1;
	int err = 0;
	u32 i;

	for (i = 0; i < keys && !err; i++) {
		err = bench_kvtree.put(bench_mix(i + 1), i);
		if (!err && i % 2)
			err = bench_kvtree.put(bench_mix(bench_below(&state, i) + 1), i);
		if (!err && i % 8 == 0) {
			snprintf(name, sizeof(name), "%030u", i);
			err = bench_names_kvtree.put(name, data);
		}
		if (!(i % 1024))
			cond_resched();
	}
	return err;
}

/**
 * bench_layout() - measure and print
 * @keys: of eight bytes; there are an eighth as many longer ones besides
 *
 * Return: 0 or an errno.
 */
int bench_layout(u32 keys)
{
	struct mt_node *root;
	int err = bench_kvtree.open();

	if (err)
		return err;
	err = load(keys);
	if (!err) {
		root = mt_root(mt_tree(bench_kvtree_index()));
		/* Nobody changes it. */
		err = print_layout(root) ?: print_lookups(root, keys);
	}
	bench_kvtree.close();
	return err;
}
