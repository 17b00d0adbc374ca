/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Park points: places between two steps of a change of structure where a test
 * can hold a thread and let others look at the state.  Compiled in only where
 * the kernel has KUnit (and the build does not say KVT_NO_PARK).
 */
#ifndef KVT_PARK_H
#define KVT_PARK_H

#include <linux/compiler.h>

#define KVT_PARK_POINTS(X)						\
	X(LOCKED)		/* begin: the leaf is locked */		\
	X(INSERT_REUSE)		/* slot being rewritten, leaf dirty */	\
	X(INSERT_WRITTEN)	/* slot written, not yet in the permutation */ \
	X(SPLIT_MARKED)		/* leaf dirty, nothing moved */		\
	X(SPLIT_BUILT)		/* sibling filled, not linked */	\
	X(SPLIT_LINKED)		/* sibling linked, both still hold its keys */ \
	X(SPLIT_SHRUNK)		/* leaf has let go of the moved keys */	\
	X(SPLIT_INNER_MARKED)	/* an inner node is dirty */		\
	X(SPLIT_INNER_MOVED)	/* its upper half stands in its sibling */ \
	X(SPLIT_PARENT)		/* sibling entered in the parent */	\
	X(SPLIT_ROOT)		/* new root filled, not published */	\
	X(SPLIT_ROOT_PUBLISHED)	/* new root published, all still locked */ \
	X(REMOVE_UNLISTED)	/* key out of the permutation, leaf locked */ \
	X(UNLINK_LOCKED)	/* empty leaf and neighbours locked */	\
	X(UNLINK_LISTED)	/* out of the list of leaves, still in the parent */ \
	X(UNLINK_PARENT)	/* out of the parent, not marked */	\
	X(UNLINK_MARKED)	/* marked deleted, all still locked */	\
	X(LAYER_BUILT)		/* chain of layers built, not published */ \
	X(LAYER_PUBLISHED)	/* chain published, leaf still locked */ \
	X(COLLECT_LOCKED)	/* empty layer's root and its slot's leaf locked */ \
	X(COLLECT_REMOVED)	/* slot gone, root not marked */	\
	X(COLLECT_MARKED)	/* root marked deleted, both still locked */ \
	X(COLLAPSE_LOCKED)	/* one-key layer and its slot's leaf locked */ \
	X(COLLAPSE_PUBLISHED)	/* key back in the upper layer, layer not marked */ \
	X(COLLAPSE_MARKED)	/* layer marked deleted, both still locked */ \
	X(SHRINK_LOCKED)	/* one-child root and its slot's leaf locked */ \
	X(SHRINK_PUBLISHED)	/* its child is the root, it is not marked */ \
	X(SHRINK_MARKED)	/* old root marked deleted, all still locked */

enum kvt_park {
#define KVT_PARK_ENUM(name) KVT_PARK_##name,
	KVT_PARK_POINTS(KVT_PARK_ENUM)
#undef KVT_PARK_ENUM
	KVT_PARK_NR
};

#if IS_ENABLED(CONFIG_KUNIT) && !defined(KVT_NO_PARK)
#define KVT_PARK 1
/* Called at each point, usually with preemption off and nodes locked. */
extern void (*kvt_park_hook)(enum kvt_park at);

static inline void kvt_park(enum kvt_park at)
{
	void (*hook)(enum kvt_park at) = READ_ONCE(kvt_park_hook);

	if (unlikely(hook))
		hook(at);
}
#else
static inline void kvt_park(enum kvt_park at) { }
#endif

#endif /* KVT_PARK_H */
