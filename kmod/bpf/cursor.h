/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cursors: iterators for BPF programs.
 *
 * An iterator has room for the longest key, which is too much for a stack that an
 * interrupt may share with the interrupted task.  So each CPU has a pool, from which
 * cursors can be taken in any context, by an atomic operation on one word.  A store's
 * programs may hold as many cursors as they leave free.
 */
#ifndef KVT_BPF_CURSOR_H
#define KVT_BPF_CURSOR_H

#include <linux/types.h>
#include <linux/kvtree.h>
#include <kvtree.bpf.h>

#include "base/index.h"

struct cursor_pool;
struct kvt_store;
struct kvt_value;

struct kvt_cursor {
	struct cursor_pool *pool;	/* its pool */
	unsigned int nr;	/* its bit there */
	/* While an iterator uses the cursor: */
	struct kvt_store *store;
	struct kvt_value *value;	/* at its position, or NULL */
	u32 flags;
	u16 col;
	u16 end_len;		/* of the range's end, or of the prefix */
	u8 end[BPF_KVT_KEY_MAX];

	struct kvt_iter iter;	/* the engine's part follows */
};

int kvt_cursors_prepare(void);
void kvt_cursors_exit(void);

struct kvt_cursor *kvt_cursor_get(const struct kvt_store *store);
void kvt_cursor_put(struct kvt_cursor *cursor);
void kvt_cursor_seek(struct kvt_cursor *cursor, struct kvt_index *index, const u8 *key,
		     u32 len, enum kvt_bound bound, bool reverse);
struct kvt_value *kvt_cursor_next(struct kvt_cursor *cursor);

#endif /* KVT_BPF_CURSOR_H */
