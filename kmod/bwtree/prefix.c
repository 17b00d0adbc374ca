// SPDX-License-Identifier: GPL-2.0
/*
 * The longest key that is a prefix of another key.
 *
 * The last entry that is not greater than the key is its longest prefix in the tree, or shares
 * some bytes with the key and then differs.  Then no stored prefix of the key is longer than
 * the bytes that the two share.  If a piece of a leaf has no such entry, only prefixes that are
 * less than the piece's first key are left.  So every step shortens the prefixes that are left,
 * and each page is found with a budget of its own: whatever keys a user stores between the
 * prefixes, the number of pages visited grows no faster than the key's length.
 *
 * An attacker can reach that number by storing, for each prefix, a page of keys between it and
 * the next longer one.  To avoid it, a page would have to say which prefixes of its first key are
 * in the tree, and a change of a short key would change every page with a first key that begins
 * with it.  So a lookup of 16 bytes visits at most 16 pages, and one of 512 bytes, the most that
 * programs may look up, 512; the layers of a Masstree cost as much (masstree/prefix.c).
 */
#include <linux/err.h>

#include "find.h"
#include "tree.h"

/* A lookup of the longest stored prefix of a key. */
struct bw_prefix {
	struct bw_tree *tree;
	const u8 *key;
	struct bw_want want;		/* the longest prefix that is left */
	/* The piece of a leaf that covers it, ... */
	struct bw_part part;
	u32 common;			/* ... bytes that the key and its first key share ... */
	u32 least;			/* ... and the shortest prefix that it covers */
	/* The page above it, and the first key of that page. */
	u32 above_id;
	const struct bw_key *above_low;
};

static void bw_prefix_cut(struct bw_prefix *p, u32 len)
{
	p->want = bw_want(p->key, len);
}

/*
 * Find the piece of a leaf that covers the longest prefix left, starting from the page above
 * the last one if that covers it.  Returns 0 or -EBUSY.
 */
static int bw_prefix_seek(struct bw_prefix *p)
{
	u32 from = BW_ROOT;
	struct bw_want low;
	struct bw_at at;

	if (p->above_id != BW_ROOT && bw_cmp(&p->want, p->above_low) >= 0)
		from = p->above_id;
	if (bw_seek_from(p->tree, from, &p->want, 0, BW_SEEK_READ, &at))
		return -EBUSY;
	p->above_id = BW_ROOT;
	if (at.above) {
		p->above_id = at.above_id;
		p->above_low = bw_page_low(at.above->base);
	}
	bw_part_load(at.top, &p->want, false, &p->part);
	low = bw_want_key(p->part.low);
	p->common = bw_want_common(&p->want, &low);
	/* Unless the key begins with the first key, their common prefix is less than that. */
	p->least = p->common + (p->common < low.len);
	return 0;
}

/* How many bytes an entry's key has in common with a key: at least @from. */
static u32 bw_common(const struct bw_ent *ent, const struct bw_want *want, u32 from)
{
	const struct bw_ent it = { .slice = want->head, .tail = want->tail, .len = want->len };

	return bw_ent_common(ent, &it, from);
}

/* Find a piece's last entry that is not greater than a key.  Returns false if there is none. */
static bool bw_part_upto(const struct bw_part *part, const struct bw_want *want,
			 struct bw_ent *ent)
{
	bool same;
	u16 i = bw_page_lower(part->base, want, part->begin, part->end, &same) + same;
	u8 d = 0;

	while (d < part->nr && bw_cmp(want, &part->delta[d]->key) >= 0)
		d++;
	return bw_part_prev(part, &i, &d, ent);
}

/* The longest prefix in the piece; NULL: shorter ones are left, or none if @least is 0. */
static struct kvt_value *bw_prefix_look(struct bw_prefix *p)
{
	struct bw_ent ent;
	u32 len;

	while (p->want.len >= p->least && bw_part_upto(&p->part, &p->want, &ent)) {
		/* The entry shares at least as many bytes with the key as the first key does. */
		len = bw_common(&ent, &p->want, p->common);
		if (len == ent.len)
			return (struct kvt_value *)ent.load;
		bw_prefix_cut(p, len);
	}
	if (p->want.len >= p->least && p->least)
		bw_prefix_cut(p, p->least - 1);
	return NULL;
}

/**
 * bw_get_prefix() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 * @cell: not used: every value has a block
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *bw_get_prefix(struct kvt_index *index, const struct kvt_key *key,
				struct kvt_cell *cell)
{
	struct bw_prefix p = { .tree = bw_tree(index), .key = key->data, .above_id = BW_ROOT };
	struct kvt_value *value;
	int err;

	bw_prefix_cut(&p, key->len);
	do {
		err = bw_prefix_seek(&p);
		if (err)
			return ERR_PTR(err);
		value = bw_prefix_look(&p);
	} while (!value && p.least);
	kvt_value_prefetch(value, key->len);
	return value;
}
