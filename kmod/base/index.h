/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every engine provides: an ordered map from keys to value blocks.
 *
 * An engine knows nothing of operations, columns, logs or user memory.  Its keys
 * are bytes and its values pointers to struct kvt_value, of which it uses only the
 * key's length and the key's bytes from the ninth on (kvt_value_suffix()), and of a
 * cell, if it takes some, all.
 */
#ifndef KVT_BASE_INDEX_H
#define KVT_BASE_INDEX_H

#include <linux/err.h>
#include <linux/gfp_types.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/kvtree.h>

struct kvt_index_ops;
struct kvt_quota;
struct kvt_reclaim;
struct kvt_stats;
struct kvt_value;
struct mem_cgroup;
struct workqueue_struct;

struct kvt_key {
	const u8 *data;
	u32 len;		/* bytes, at most KVTREE_KEY_MAX */
};

/*
 * What a store lends its index; it outlives the index.  Node memory is charged
 * to the quota, counted in the stats, and retired through the reclaim.
 */
struct kvt_index_env {
	struct kvt_quota *quota;
	struct kvt_reclaim *reclaim;
	struct kvt_stats *stats;
	struct workqueue_struct *wq;
	struct workqueue_struct *slow_wq;	/* for work that waits for memory or readers */
	struct mem_cgroup *memcg;	/* charged for allocations of the engine's workers */
	u32 page_size;			/* of engines with pages: bytes; 0: the engine's choice */
};

struct kvt_index {
	const struct kvt_index_ops *ops;
	struct kvt_index_env env;	/* page_size: what it has, or 0 */
};

/*
 * Room for a small value that has no block: an engine may keep such a value in its nodes, and
 * copies it here for the caller that looks it up.  See base/value.h.
 */
struct kvt_cell {
	u64 word[3];
};

/* One of several keys that are looked up together. */
struct kvt_lookup {
	struct kvt_key key;		/* in */
	struct kvt_value *value;	/* out, as of get() */
};

/* One of several keys that are inserted together. */
struct kvt_insert {
	struct kvt_key key;
	struct kvt_value *value;	/* with its version */
};

/*
 * A change of one key, between begin() and commit() or abort().  The caller
 * fills the first part, the engine the rest.
 */
struct kvt_change {
	struct kvt_index *index;
	struct kvt_key key;
	gfp_t gfp;			/* for the engine's memory; GFP_NOWAIT never sleeps */
	bool may_insert;		/* the key may be created */
	bool removes;			/* a commit removes the key */
	bool wants_cell;		/* the new value may be a cell */

	struct kvt_value *old;		/* out of begin(): the value now, or NULL */
	struct kvt_cell cell;		/* where it is if it has no block */
	bool takes_cell;		/* out of begin(): the key's place takes a cell */

	unsigned long engine[47];
};

/* A counter of an engine, as users see it. */
struct kvt_index_stat {
	const char *name;		/* with the engine's prefix */
	const char *text;		/* what it counts */
	bool now;			/* it goes up and down */
};

enum kvt_bound {
	KVT_AT,			/* the key itself and the keys after it */
	KVT_AFTER,		/* the keys after the key */
	KVT_PAST,		/* the keys after all those that begin with the key */
};

/*
 * A value and its key.  The value holds the key's length, and a block all bytes but the first
 * eight.  The pairs with cells of one call of iter_next() whose keys are longer than that have
 * these bytes in common with the iterator's key, up to the last multiple of eight before their end.
 */
struct kvt_pair {
	struct kvt_value *value;	/* perhaps in @cell: a pair is not copied */
	u64 head;			/* the bytes of the key that are not there, filled up with
					 * zeros
					 */
	struct kvt_cell cell;
};

/*
 * An iterator.  It keeps a key, never a node, from one RCU read section to the
 * next.  "After" means the direction of the iterator: in a reverse one KVT_AT
 * is the key itself and the smaller ones, KVT_AFTER the smaller ones, and
 * KVT_PAST all keys that begin with the key, and the smaller ones.
 */
struct kvt_iter {
	struct kvt_index *index;
	bool reverse;
	enum kvt_bound bound;		/* where to continue, relative to key */
	u32 want;		/* results that the caller expects to take; 0: unknown */
	u32 len;
	struct kvt_pair one;	/* of kvt_iter_one() */
	u8 key[KVTREE_KEY_MAX + 8];	/* the position: after next() the key returned */
	/* The engine's part follows: see kvt_index_ops.iter_size. */
};

/* The iterators of all engines fit. */
#define KVT_ITER_SIZE_MAX	(sizeof(struct kvt_iter) + 512)

/**
 * kvt_iter_cmp() - compare an iterator's position with a key
 * @iter: the iterator
 * @key: the key
 * @len: bytes of it
 *
 * Return: less than, equal to or greater than 0, as the position's key is.
 */
static inline int kvt_iter_cmp(const struct kvt_iter *iter, const u8 *key, u32 len)
{
	int cmp = memcmp(iter->key, key, min(iter->len, len));

	return cmp ?: (iter->len > len) - (iter->len < len);
}

/**
 * struct kvt_index_ops - an engine
 * @name: as users write it
 * @page_min: the smallest page that a user may ask for, in bytes, or 0: the engine has
 *	no pages of selectable size
 * @page_max: the largest
 * @stats: what the engine counts from KVT_STAT_ENGINE on (base/stats.h)
 * @nr_stats: how many, at most KVT_STAT_ENGINE_MAX
 * @iter_size: bytes of an iterator, struct kvt_iter first; at most KVT_ITER_SIZE_MAX
 * @create: make an empty index.  May sleep.  Returns it or an ERR_PTR.
 * @stop: stop what works in the background and may replace values by others, or NULL: nothing does.
 *	Nobody changes the index any more.  May sleep.
 * @destroy: free the index with its nodes and, through @env.reclaim's free
 *	function for values, every value.  It is not used any more, and a grace
 *	period has passed since.  May sleep; reschedules.
 * @cells: it keeps small values in its nodes (kvt_value_fits_cell()): those of keys of at most
 *	eight bytes mostly, those of longer ones in places that are known to begin() alone
 * @get: the value of a key.  Under rcu_read_lock(), from any context,
 *	including NMI; writes no shared memory.  Returns the value, which stays
 *	valid until rcu_read_unlock(), and is in @cell if it has no block; NULL: no
 *	such key; ERR_PTR(-EBUSY): bounded retries spent, the caller may try again.
 * @get_batch: get() for several keys, their memory accesses overlapped, with a
 *	cell for each of them.  Context as for @get.  Without cells (NULL), it only fetches the
 *	memory that changes of these keys will read: the values are undefined afterwards, and a
 *	key that is just being changed is skipped.
 * @get_prefix: the value of the longest key that @key begins with, @key itself
 *	included.  Context and return value as for @get; a prefix that is present
 *	throughout is returned, or a longer one that was present at some time.  The
 *	work is bounded by the length of @key.
 * @begin: find the place of @change->key and hold it.  Called outside of RCU
 *	read sections and locks; sleeps if @change->gfp allows it.  After 0 the
 *	place is held with preemption and bottom halves off, inside an RCU read
 *	section, @change->old is the present value, and one of @commit and
 *	@abort must follow soon, with nothing in between that sleeps or
 *	allocates.  A later commit of a new value cannot fail for lack of
 *	memory if there is an @change->old or @change->may_insert was set.  The new
 *	value may be a cell if @change->takes_cell is set then, which requires
 *	@change->wants_cell.
 *	Errors: -ENOMEM, -EDQUOT, -EBUSY (only if @change->gfp cannot sleep), -EINTR
 *	(only if it can: a fatal signal came before the place was found).
 *	-EDQUOT only for a key that does not exist; with @change->removes, -ENOMEM
 *	only if @change->gfp cannot sleep: a removal makes room.
 * @commit: publish @value, or remove the key if it is NULL, and release the
 *	place.  The index takes over a block, and copies a cell; its version is higher
 *	than that of @change->old.  Allocates and frees nothing, and does not sleep: as
 *	with @abort, the caller may keep preemption off for longer than the place is
 *	held.  Returns 0, or -EAGAIN (engines that hold no lock): another writer was
 *	first, nothing was published, call begin() again.  The caller owns an old block
 *	and retires it.  Committing a removal when @change->old is NULL is not allowed.
 * @abort: release the place without a change.
 * @finish: end the change, where begin() may be called: gives back memory that
 *	begin() set aside and did not use, schedules work that the commit found, and
 *	calls tracepoints.  Called once after the last commit or abort, also if begin()
 *	failed.  @change->engine is zero before the first begin(), and @change->key still
 *	the same.
 * @insert_sorted: insert keys that do not exist, in ascending order, each key once: the
 *	first of @inserts, up to one that exists or that the engine leaves to begin().  The
 *	caller inserts that one, and goes on with the others.  The index takes over blocks and
 *	copies cells, as with @commit.  Other threads may change the same keys.  Called outside
 *	of RCU read sections and locks; allocates by @gfp.
 *	Returns how many were inserted, 0 to @nr.
 * @iter_next: the next values in the iterator's direction, with their keys, at least
 *	one and at most @max, which is not 0.  The key of the last is then in @key and
 *	@len with @bound KVT_AFTER.  Under rcu_read_lock(); values stay valid until
 *	rcu_read_unlock(), and each was its key's at some time during the call,
 *	whatever earlier calls have read.  A key beyond the position is not missed if it
 *	is present from iter_rest() on; one inserted later may be.  The work is bounded
 *	by the lengths of the last key before the call and of the keys returned, except
 *	for pages that have just become empty.
 *	Returns how many there are; 0 at the end; -EBUSY if bounded retries are
 *	spent; -EAGAIN after a bounded amount of work without a result: leave the RCU
 *	read section, call iter_rest(), and continue.
 * @iter_rest: forget what was read under the RCU read section that ends; also
 *	makes a new iterator ready, after its position was set.
 * @sweep: look through the whole index for work that a worker should do and do
 *	it.  For tests and for low memory.  May sleep.
 */
struct kvt_index_ops {
	const char *name;
	u32 page_min;
	u32 page_max;
	const struct kvt_index_stat *stats;
	unsigned int nr_stats;
	size_t iter_size;
	struct kvt_index *(*create)(const struct kvt_index_env *env);
	void (*stop)(struct kvt_index *index);
	void (*destroy)(struct kvt_index *index);
	bool cells;
	struct kvt_value *(*get)(struct kvt_index *index, const struct kvt_key *key,
				 struct kvt_cell *cell);
	void (*get_batch)(struct kvt_index *index, struct kvt_lookup *lookups,
			  struct kvt_cell *cells, unsigned int nr);
	struct kvt_value *(*get_prefix)(struct kvt_index *index, const struct kvt_key *key,
					struct kvt_cell *cell);
	int (*begin)(struct kvt_change *change);
	int (*commit)(struct kvt_change *change, struct kvt_value *value);
	void (*abort)(struct kvt_change *change);
	void (*finish)(struct kvt_change *change);
	unsigned int (*insert_sorted)(struct kvt_index *index, const struct kvt_insert *inserts,
				      unsigned int nr, gfp_t gfp);
	int (*iter_next)(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max);
	void (*iter_rest)(struct kvt_iter *iter);
	void (*sweep)(struct kvt_index *index);
};

/**
 * kvt_iter_seek() - move an iterator to a key
 * @iter: the iterator
 * @key: the key, which need not be there
 * @len: bytes of it
 *
 * Context: any.
 */
static inline void kvt_iter_seek(struct kvt_iter *iter, const u8 *key, u32 len)
{
	iter->bound = KVT_AT;
	iter->len = len;
	memcpy(iter->key, key, len);
	iter->index->ops->iter_rest(iter);
}

/**
 * kvt_iter_one() - the next value
 * @iter: the iterator
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, with its key as the iterator's position, until the iterator is called
 * again; NULL at the end; or another result of iter_next(), as an ERR_PTR.
 */
static inline struct kvt_value *kvt_iter_one(struct kvt_iter *iter)
{
	struct kvt_pair *pair = &iter->one;
	int nr = iter->index->ops->iter_next(iter, pair, 1);

	return likely(nr > 0) ? pair->value : ERR_PTR(nr);
}

/*
 * What a walk over all values of an index does.  The caller embeds it in a structure of its own.
 */
struct kvt_walk {
	/*
	 * Called for each value, under RCU.  Returns 0 to continue; an errno to end the walk;
	 * 1 to leave RCU and call @act.
	 */
	int (*see)(struct kvt_walk *walk, const struct kvt_value *v);
	/* May sleep and change the key.  Returns 0 to continue; an errno to end the walk. */
	int (*act)(struct kvt_walk *walk, const struct kvt_key *key);
};

int kvt_index_walk(struct kvt_index *index, struct kvt_walk *walk);

bool kvt_index_may_cell(const struct kvt_index *index, u32 key_len);
void kvt_index_learn_cell(const struct kvt_index *index, u32 key_len, bool takes);

extern const struct kvt_index_ops kvt_masstree_ops;
extern const struct kvt_index_ops kvt_bwtree_ops;

/*
 * The lookups of BPF programs, most of which are made in the default engine: an indirect
 * call takes longer than much of what it calls.
 */
struct kvt_value *mt_get(struct kvt_index *index, const struct kvt_key *key,
			 struct kvt_cell *cell);
struct kvt_value *mt_get_prefix(struct kvt_index *index, const struct kvt_key *key,
				struct kvt_cell *cell);

static __always_inline struct kvt_value *kvt_index_get(struct kvt_index *index,
						       const struct kvt_key *key,
						       struct kvt_cell *cell)
{
	if (likely(index->ops == &kvt_masstree_ops))
		return mt_get(index, key, cell);
	return index->ops->get(index, key, cell);
}

static __always_inline struct kvt_value *kvt_index_get_prefix(struct kvt_index *index,
							      const struct kvt_key *key,
							      struct kvt_cell *cell)
{
	if (likely(index->ops == &kvt_masstree_ops))
		return mt_get_prefix(index, key, cell);
	return index->ops->get_prefix(index, key, cell);
}

/* Memory that all indexes of an engine share. */
int kvt_masstree_init(void);
void kvt_masstree_exit(void);

#endif /* KVT_BASE_INDEX_H */
