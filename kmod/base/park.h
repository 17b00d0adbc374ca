/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Park points: places where a test can hold a thread and let others look at the
 * state, or change it.  Compiled in only for test modules: see Kbuild (and if the
 * build does not say KVT_NO_PARK).
 */
#ifndef KVT_BASE_PARK_H
#define KVT_BASE_PARK_H

#include <linux/compiler.h>

/* Between two steps of a change of structure. */
#define KVT_PARK_POINTS(X)						\
	X(LOCKED)		/* begin: the leaf is locked */		\
	X(INSERT_REUSE)		/* slot being rewritten, leaf dirty */	\
	X(INSERT_WRITTEN)	/* slot written, not yet in the permutation */ \
	X(CELL_BUSY)		/* a cell's slot says busy, its data are the old ones */ \
	X(CELL_WRITTEN)		/* its data are the new ones, its slot still says busy */ \
	X(SPLIT_MARKED)		/* leaf dirty, nothing moved */		\
	X(SPLIT_BUILT)		/* sibling filled, not linked */	\
	X(SPLIT_LINKED)		/* sibling linked, both still hold its keys */ \
	X(SPLIT_SHRUNK)		/* leaf has let go of the moved keys */	\
	X(SPLIT_INNER_MARKED)	/* an inner node is dirty */		\
	X(SPLIT_INNER_MOVED)	/* its upper half is in its sibling */ \
	X(SPLIT_PARENT)		/* sibling inserted into the parent */	\
	X(SPLIT_ROOT)		/* new root filled, not published */	\
	X(SPLIT_ROOT_PUBLISHED)	/* new root published, all still locked */ \
	X(REMOVE_UNLISTED)	/* key out of the permutation, leaf locked */ \
	X(UNLINK_LOCKED)	/* empty leaf and neighbours locked */	\
	X(UNLINK_LISTED)	/* out of the list of leaves, still in the parent */ \
	X(UNLINK_PARENT)	/* out of the parent, not marked */	\
	X(UNLINK_MARKED)	/* marked deleted, all still locked */	\
	X(LAYER_BUILT)		/* chain of layers built, not published */ \
	X(LAYER_PUBLISHED)	/* chain published, leaf still locked */ \
	X(STEM_LOCKED)		/* one more layer and its slot's leaf locked */ \
	X(COLLECT_LOCKED)	/* all layers locked that go with the last key */ \
	X(COLLECT_EMPTIED)	/* key gone, slot still there */	\
	X(COLLECT_REMOVED)	/* slot gone, layers not marked */	\
	X(COLLECT_MARKED)	/* layers marked deleted, all still locked */ \
	X(COLLAPSE_LOCKED)	/* layers with one key and their slot's leaf locked */ \
	X(COLLAPSE_PUBLISHED)	/* key back in the upper layer, layers not marked */ \
	X(COLLAPSE_MARKED)	/* layers marked deleted, all still locked */ \
	X(SHRINK_LOCKED)	/* one-child root, child and its slot's leaf locked */ \
	X(SHRINK_BESIDE)	/* its child says that it is the root */ \
	X(SHRINK_PUBLISHED)	/* its child is the root, it is not marked */ \
	X(SHRINK_MARKED)	/* old root marked deleted, all still locked */

/* As KVT_PARK_POINTS, in the Bw-tree, where a writer holds nothing that others wait for. */
#define KVT_PARK_BW_POINTS(X)						\
	X(BW_CONSOLIDATED)	/* new base page built, not exchanged */ \
	X(BW_SPLIT_BUILT)	/* right sibling built, nothing leads to it */ \
	X(BW_SPLIT_HALF)	/* split record there, parent does not know */ \
	X(BW_POST_BUILT)	/* index term record built, not exchanged */ \
	X(BW_POSTED)		/* parent knows */			\
	X(BW_ROOT_BUILT)	/* two new pages and a root built, not exchanged */ \
	X(BW_MARKED)		/* a page's term marked, it is to be merged */ \
	X(BW_REMOVED)		/* it is frozen */			\
	X(BW_MERGED)		/* its left sibling has taken it over */ \
	X(BW_UNPOSTED)		/* its term is gone, its id not retired */ \
	X(BW_ROOT_FROZEN)	/* the root's only child is frozen */	\
	X(BW_ROOT_TAKEN)	/* its chain is the root's */		\
	X(BW_BEGUN)		/* a writer has found its page */	\
	X(BW_COMMIT)		/* its record is made, not exchanged */

/* Where a thread has seen something and locked nothing. */
#define KVT_PARK_LOOSE_POINTS(X)					\
	X(READ_CHILD)		/* next node known, its version not yet */ \
	X(READ_VERSION)		/* its version known, the parent not checked */ \
	X(READ_SLOT)		/* key found in a leaf, its slot not yet read */ \
	X(READ_DATA)		/* a cell's slot read, its data not */	\
	X(READ_CHECK)		/* leaf read, its version not checked */ \
	X(READ_WAIT)		/* a node is dirty, and is read again */ \
	X(SCAN_PLACED)		/* position found in a leaf, its version not checked */ \
	X(SCAN_SLOTS)		/* permutation looked at, slots not read */ \
	X(SCAN_CHECK)		/* slots and data read, the leaf not checked */ \
	X(SCAN_NEXT)		/* leaf returned, to be followed by the next */ \
	X(WRITE_FOUND)		/* leaf found, to be locked */		\
	X(UNLINK_FOUND)		/* leaf emptied, to be locked again and unlinked */ \
	X(LAYER_FOUND)		/* layer found, to be locked by the worker */ \
	X(TABLE_READ)		/* a node for a table read, the one above not checked */ \
	X(QUOTA_AHEAD)		/* a CPU has taken charges ahead, and not set them aside */ \
	X(GET_PINNED)		/* a GET holds a blob, which is not copied yet */ \
	X(BW_SEEK)		/* a page's id found on the way down, nothing loaded */ \
	X(BW_ID_SEEN)		/* a free id and the next one seen, not taken */ \
	X(BW_ROOT_ALONE)	/* a root with one child read, the child not loaded */ \
	X(BW_CARE)		/* the Bw-tree's worker has found a page, and looks at it */ \
	X(BW_TIDIED)		/* the Bw-tree's worker has made a round, and is awake */

/* In the log: a writer that holds its key's place. */
#define KVT_PARK_LOG_POINTS(X)						\
	X(LOG_RESERVE)		/* no epoch known, no room taken */	\
	X(LOG_GROW)		/* a stream locked, room for what is new seen, it is not counted */

enum kvt_park {
#define KVT_PARK_ENUM(name) KVT_PARK_##name,
	KVT_PARK_POINTS(KVT_PARK_ENUM)
	KVT_PARK_LOOSE_POINTS(KVT_PARK_ENUM)
	KVT_PARK_BW_POINTS(KVT_PARK_ENUM)
	KVT_PARK_LOG_POINTS(KVT_PARK_ENUM)
#undef KVT_PARK_ENUM
	KVT_PARK_NR
};

/* Called at each point, usually with preemption off and nodes locked. */
extern void (*kvt_park_hook)(enum kvt_park at);
/* Called at each loose point, usually under RCU; so also by readers in the other hook. */
extern void (*kvt_park_loose_hook)(enum kvt_park at);

#if IS_ENABLED(CONFIG_KUNIT) && defined(KVT_TESTS) && !defined(KVT_NO_PARK)
#define KVT_PARK 1
static inline void kvt_park(enum kvt_park at)
{
	void (*hook)(enum kvt_park at) = READ_ONCE(kvt_park_hook);

	if (unlikely(hook))
		hook(at);
}

static inline void kvt_park_loose(enum kvt_park at)
{
	void (*hook)(enum kvt_park at) = READ_ONCE(kvt_park_loose_hook);

	if (unlikely(hook))
		hook(at);
}
#else
static inline void kvt_park(enum kvt_park at) { }
static inline void kvt_park_loose(enum kvt_park at) { }
#endif

#endif /* KVT_BASE_PARK_H */
