// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of records: base pages, and records that are not beside one.
 *
 * Publishing a base page, or a record of a key too long for the space beside one, charges
 * the quota.  Records of changes of structure are few and short-lived.  They are not charged,
 * so that the limit never stops a change that has begun.
 *
 * The limit also does not refuse changes that need records but do not make the store larger:
 * removals, new values of existing keys, merges.  At the limit their records are not charged,
 * and the base page that replaces them is charged no more than the pages before it, until a
 * later one is charged in full.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "base/mem.h"
#include "compat.h"
#include "tree.h"

/* Precedes every object. */
struct bw_mem {
	struct llist_node retire;
	u32 size;			/* of the allocation */
	u32 charged;			/* of it */
};

static struct bw_mem *bw_mem(const void *obj)
{
	BUILD_BUG_ON(sizeof(struct bw_mem) != BW_MEM_HEAD);
	return (struct bw_mem *)obj - 1;
}

/**
 * bw_mem_alloc() - memory for a record
 * @size: bytes
 * @gfp: how to allocate
 *
 * Return: the memory, or NULL.
 */
void *bw_mem_alloc(size_t size, gfp_t gfp)
{
	struct bw_mem *mem;

	size += sizeof(*mem);
	if (size > KMALLOC_MAX_CACHE_SIZE) {
		size = PAGE_ALIGN(size);
		mem = kvt_mem_pages(size, gfp);
	} else {
		size = kmalloc_size_roundup(size);
		/* Do not wait for contiguous pages. */
		mem = gfp & __GFP_NOFAIL ? kvmalloc(size, gfp) : kmalloc(size, gfp | __GFP_NOWARN);
	}
	if (!mem)
		return NULL;
	mem->size = size;
	mem->charged = 0;
	return mem + 1;
}

/**
 * bw_mem_free() - free a record that was not published
 * @obj: from bw_mem_alloc(), or NULL
 */
void bw_mem_free(void *obj)
{
	if (obj)
		kvt_mem_free(bw_mem(obj), bw_mem_size(obj));
}

/**
 * bw_mem_size() - bytes to charge for a record, unless the limit forbids it
 * @obj: of bw_mem_alloc()
 *
 * Return: bytes.
 */
u32 bw_mem_size(const void *obj)
{
	return bw_mem(obj)->size;
}

/**
 * bw_mem_room() - bytes of a record's memory, at least as many as requested
 * @obj: of bw_mem_alloc()
 *
 * Return: bytes.
 */
u32 bw_mem_room(const void *obj)
{
	return bw_mem(obj)->size - sizeof(struct bw_mem);
}

/**
 * bw_charge_obj() - charge a record before publishing it
 * @tree: the tree
 * @level: of the page
 * @obj: of bw_mem_alloc(), charged or not
 *
 * Return: 0 or -EDQUOT.
 */
int bw_charge_obj(struct bw_tree *tree, u8 level, void *obj)
{
	struct bw_mem *mem = bw_mem(obj);
	int err = bw_charge(tree, level, (s64)mem->size - mem->charged);

	if (!err)
		mem->charged = mem->size;
	return err;
}

/**
 * bw_uncharge_obj() - undo bw_charge_obj()
 * @tree: the tree
 * @level: of the page
 * @obj: of bw_mem_alloc()
 */
void bw_uncharge_obj(struct bw_tree *tree, u8 level, void *obj)
{
	struct bw_mem *mem = bw_mem(obj);

	bw_uncharge(tree, level, mem->charged);
	mem->charged = 0;
}

/**
 * bw_charge_instead() - charge a record that replaces others
 * @tree: the tree
 * @level: of the page
 * @obj: of bw_mem_alloc()
 * @had: what the others are charged
 * @pass: ignore the limit; at the limit the record is charged no more than they were
 *
 * If the charge is less than @had, the difference is not given back yet.
 *
 * Return: 0 or -EDQUOT.
 */
int bw_charge_instead(struct bw_tree *tree, u8 level, void *obj, u32 had, bool pass)
{
	struct bw_mem *mem = bw_mem(obj);

	mem->charged = mem->size;
	if (mem->size <= had || !bw_charge(tree, level, mem->size - had))
		return 0;
	mem->charged = pass ? had : 0;
	return pass ? 0 : -EDQUOT;
}

/**
 * bw_uncharge_instead() - undo bw_charge_instead()
 * @tree: the tree
 * @level: of the page
 * @obj: of bw_mem_alloc()
 * @had: as it was then
 */
void bw_uncharge_instead(struct bw_tree *tree, u8 level, void *obj, u32 had)
{
	struct bw_mem *mem = bw_mem(obj);

	if (mem->charged > had)
		bw_uncharge(tree, level, mem->charged - had);
	mem->charged = 0;
}

/**
 * bw_charged() - bytes charged for a record
 * @obj: of bw_mem_alloc()
 *
 * Return: bytes.
 */
u32 bw_charged(const void *obj)
{
	return bw_mem(obj)->charged;
}

/**
 * bw_count_page() - count pages that come or go
 * @tree: the tree
 * @level: of the pages
 * @nr: how many; less than 0: they go
 */
void bw_count_page(struct bw_tree *tree, u8 level, int nr)
{
	kvt_stat_add(tree->index.env.stats,
		     level ? KVTREE_STAT_INNER_NODES : KVTREE_STAT_LEAF_NODES, nr);
}

/**
 * bw_mem_retire() - free a record that readers may hold, after a grace period
 * @tree: the tree
 * @obj: of bw_mem_alloc(), not charged
 */
void bw_mem_retire(struct bw_tree *tree, void *obj)
{
	struct bw_mem *mem = bw_mem(obj);

	kvt_reclaim_retire(tree->index.env.reclaim, KVT_GARBAGE_LEAF, &mem->retire, mem->size);
}

/* The beginning of a record's allocation. */
static void *bw_rec_obj(const struct bw_rec *rec)
{
	switch (rec->kind) {
	case BW_TERM_ADD:
	case BW_TERM_DEL:
		return bw_term(rec);
	default:
		return (void *)rec;
	}
}

/**
 * bw_count_record() - count the memory of a record that is not beside a base page
 * @tree: the tree
 * @rec: any record that is an allocation of its own
 * @sign: 1: it comes; -1: it goes
 */
void bw_count_record(const struct bw_tree *tree, const struct bw_rec *rec, int sign)
{
	if (rec->kind != BW_BASE)
		bw_nr_add(tree, BW_NR_RECORD_BYTES, sign * (s64)bw_mem_size(bw_rec_obj(rec)));
}

/* The next record of a chain; @other keeps the chain that was merged into it. */
static struct bw_rec *bw_chain_next(const struct bw_rec *rec, struct bw_rec **other)
{
	struct bw_rec *next = rec->next;

	if (rec->kind == BW_MERGE)
		*other = bw_merge(rec)->other;
	if (!next) {
		next = *other;
		*other = NULL;
	}
	return next;
}

/**
 * bw_chain_bytes() - bytes charged for a chain
 * @rec: its newest record
 *
 * Return: bytes.
 */
s64 bw_chain_bytes(const struct bw_rec *rec)
{
	struct bw_rec *other = NULL;
	s64 bytes = 0;

	for (; rec; rec = bw_chain_next(rec, &other))
		if (rec->own)
			bytes += bw_charged(bw_rec_obj(rec));
	return bytes;
}

/**
 * bw_chain_retire() - free a chain, after a grace period
 * @tree: the tree
 * @rec: its newest record, no longer in an entry and no longer charged
 */
void bw_chain_retire(struct bw_tree *tree, struct bw_rec *rec)
{
	struct bw_rec *next, *other = NULL;

	for (; rec; rec = next) {
		next = bw_chain_next(rec, &other);
		if (!rec->own)
			continue;
		bw_count_record(tree, rec, -1);
		bw_mem_retire(tree, bw_rec_obj(rec));
	}
}

/**
 * bw_chain_free() - free a chain at once
 * @tree: the tree, which is no longer used
 * @rec: its newest record, still charged
 */
void bw_chain_free(struct bw_tree *tree, struct bw_rec *rec)
{
	struct bw_rec *next, *other = NULL;
	void *obj, *base = NULL;
	u8 level = rec->level;

	/* Records beside a base page are freed with it, so free bases last. */
	bw_uncharge(tree, level, bw_chain_bytes(rec));
	for (; rec; rec = next) {
		next = bw_chain_next(rec, &other);
		if (!rec->own)
			continue;
		obj = bw_rec_obj(rec);
		bw_count_record(tree, rec, -1);
		if (rec->kind == BW_BASE && next) {
			base = obj;
			continue;
		}
		bw_mem_free(obj);
	}
	bw_mem_free(base);
}

/**
 * bw_remove_retire() - free an id when no reader can use it any more
 * @tree: the tree
 * @remove: the newest record of its page, which no link leads to any more
 */
void bw_remove_retire(struct bw_tree *tree, struct bw_remove *remove)
{
	struct bw_mem *mem = bw_mem(remove);

	/* Hide it from readers that begin now: the grace period does not wait for them. */
	WRITE_ONCE(*bw_map_entry(remove->map, remove->id), (unsigned long)remove | BW_FREE);
	bw_count_record(tree, &remove->rec, -1);
	bw_count_chain(tree, remove->rec.depth, 0);
	refcount_inc(&remove->map->refs);
	kvt_reclaim_retire(tree->index.env.reclaim, KVT_GARBAGE_INNER, &mem->retire, mem->size);
}

static size_t bw_mem_reclaim(struct llist_node *link)
{
	struct bw_mem *mem = container_of(link, struct bw_mem, retire);
	size_t size = mem->size;

	kvt_mem_free(mem, size);
	return size;
}

static size_t bw_remove_reclaim(struct llist_node *link)
{
	struct bw_mem *mem = container_of(link, struct bw_mem, retire);
	struct bw_remove *remove = (struct bw_remove *)(mem + 1);

	bw_id_free(remove->map, remove->id);
	bw_map_put(remove->map);
	return bw_mem_reclaim(link);
}

/**
 * bw_memory_register() - tell the store's reclaim how records and ids are freed
 * @tree: the tree
 */
void bw_memory_register(struct bw_tree *tree)
{
	tree->index.env.reclaim->free[KVT_GARBAGE_LEAF] = bw_mem_reclaim;
	tree->index.env.reclaim->free[KVT_GARBAGE_INNER] = bw_remove_reclaim;
}
