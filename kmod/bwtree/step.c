// SPDX-License-Identifier: GPL-2.0
/* What the steps of a change of structure (help.c) have in common. */
#include <linux/err.h>

#include "compat.h"
#include "find.h"
#include "swap.h"
#include "tree.h"

/**
 * bw_request() - say what must be done before a step can continue
 * @stock: the step's
 * @help: set to the request, with a key of its own
 * @first: what must be done
 *
 * Return: BW_NEEDS_HELP, or -ENOMEM, when the stock has noted what it lacks.
 */
int bw_request(struct bw_stock *stock, struct bw_help *help, const struct bw_help *first)
{
	struct bw_key *key = bw_stock_get(stock, BW_SLOT_NEXT, bw_key_size(first->want.len));

	if (!key)
		return -ENOMEM;
	bw_key_set(key, &first->want);
	*help = *first;
	help->want = bw_want_key(key);
	return BW_NEEDS_HELP;
}

/**
 * bw_step_seek() - find the page that a step is to change
 * @tree: the tree
 * @stock: the step's
 * @help: the step's request, with a key that leads to the page
 * @level: of the page
 * @at: set to the page
 *
 * Return: as bw_seek(); if that is BW_NEEDS_HELP, @help is what must be done first.
 */
int bw_step_seek(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help, u8 level,
		 struct bw_at *at)
{
	int ret = bw_seek(tree, &help->want, level, BW_SEEK_STEP, at);

	return ret == BW_NEEDS_HELP ? bw_request(stock, help, &at->help) : ret;
}

/**
 * bw_help_finish() - request to finish the merge that a page is marked for
 * @stock: the step's
 * @help: set to the request
 * @top: the page's newest record
 *
 * Return: BW_NEEDS_HELP, or -ENOMEM, when the stock has noted what it lacks.
 */
int bw_help_finish(struct bw_stock *stock, struct bw_help *help, const struct bw_rec *top)
{
	const struct bw_help finish = {
		.kind = BW_HELP_FINISH,
		.level = top->level - 1,
		.want = bw_want_key(bw_page_low(top->base)),
	};

	return bw_request(stock, help, &finish);
}

/**
 * bw_frame_of() - the frame of a page: level, sibling and key range
 * @top: the page's newest record
 *
 * Return: the frame for its next base page.
 */
struct bw_frame bw_frame_of(const struct bw_rec *top)
{
	return (struct bw_frame) {
		.level = top->level,
		.right = top->right,
		.low = bw_page_low(top->base),
		.high = top->high,
	};
}

/**
 * bw_replace() - replace a page's whole chain
 * @tree: the tree
 * @id: the page
 * @old: its newest record; the chain is retired
 * @new: the new base page
 * @pass: ignore the store's limit
 * @nr: counter of this kind of exchange
 *
 * Return: 0, -EDQUOT, or -EAGAIN if @old is no longer the newest record.
 */
int bw_replace(struct bw_tree *tree, u32 id, struct bw_rec *old, struct bw_page *new, bool pass,
	       enum bw_nr nr)
{
	u32 had = bw_chain_bytes(old), now;
	u8 level = old->level;

	if (bw_charge_instead(tree, level, new, had, pass))
		return -EDQUOT;
	now = bw_charged(new);
	if (!bw_swap(tree, id, old, &new->rec, nr)) {
		bw_uncharge_instead(tree, level, new, had);
		return -EAGAIN;
	}
	if (now < had)
		bw_uncharge(tree, level, had - now);
	bw_chain_retire(tree, old);
	return 0;
}

/**
 * bw_term_size() - size of an index term record
 * @key: bytes of its key
 * @from: start of the range, or NULL: @key
 * @to: end of the range, or NULL: unbounded
 *
 * Return: bytes.
 */
u32 bw_term_size(u32 key, const struct bw_ent *from, const struct bw_ent *to)
{
	return ALIGN(sizeof(struct bw_term) + bw_key_tail(key), 8) +
	       (from ? bw_key_size(from->len) : 0) + (to ? bw_key_size(to->len) : 0);
}

/* Copy an entry's key, and advance to after it. */
static const struct bw_key *bw_term_key(u8 **to, const struct bw_ent *ent)
{
	struct bw_key *key = (struct bw_key *)*to;

	bw_ent_key(ent, ent->len, key);
	*to += bw_key_size(ent->len);
	return key;
}

/**
 * bw_term_fill() - build an index term record
 * @obj: memory of bw_term_size() bytes
 * @kind: BW_TERM_ADD or BW_TERM_DEL
 * @top: the inner page's newest record
 * @child: the child that covers the range from now on
 * @key: the term's key
 * @from: start of the range, or NULL: @key
 * @to: end of the range, or NULL: unbounded
 *
 * Return: the record.
 */
struct bw_term *bw_term_fill(void *obj, enum bw_kind kind, struct bw_rec *top, u32 child,
			     const struct bw_want *key, const struct bw_ent *from,
			     const struct bw_ent *to)
{
	u8 *more = (u8 *)obj + ALIGN(sizeof(struct bw_term) + bw_key_tail(key->len), 8);
	struct bw_term *term = obj;
	unsigned long load;

	bw_rec_init(&term->delta.rec, kind, top);
	term->delta.rec.own = true;
	term->delta.load = child;
	bw_key_set(&term->delta.key, key);
	term->from = from ? bw_term_key(&more, from) : &term->delta.key;
	term->to = to ? bw_term_key(&more, to) : NULL;
	bw_place(top, key, &term->delta.rec, &load);
	return term;
}
