/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A value: what a key maps to.
 *
 * A value block is immutable from the moment that it is published; a change
 * of a key's value publishes another block and retires the old one.  Readers
 * use it under rcu_read_lock().
 *
 *	struct kvt_value
 *	+---------+--------+------+---------+-------+----------------------+
 *	| version | retire | size | key_len | ncols | body                 |
 *	+---------+--------+------+---------+-------+----------------------+
 *	body: key tail | pad to 8 | column table (if any) | column data
 *
 * The block carries its key's bytes from the ninth on (the "tail").  The index
 * holds the first bytes in its nodes; what lies behind the slice of a node is
 * compared here, on the cache line that the reader needs next anyway.
 */
#ifndef KVT_VALUE_H
#define KVT_VALUE_H

#include <linux/llist.h>
#include <linux/types.h>

/* Bytes of a key that are not repeated in its value. */
#define KVT_KEY_HEAD	8u

struct kvt_value {
	u64 version;
	struct llist_node retire;	/* for reclaim; readers never read it */
	u32 size;			/* bytes of the whole block */
	u16 key_len;			/* bytes of the whole key */
	u16 ncols;			/* entries of the column table; 0: column 0 alone */
	u8 body[];
};

/**
 * kvt_value_suffix() - the bytes of a value's key from a position on
 * @v: the value
 * @at: position in the key, at least KVT_KEY_HEAD and at most @v->key_len
 *
 * Return: pointer to @v->key_len - @at bytes.
 */
static inline const u8 *kvt_value_suffix(const struct kvt_value *v, u32 at)
{
	return v->body + (at - KVT_KEY_HEAD);
}

#endif /* KVT_VALUE_H */
