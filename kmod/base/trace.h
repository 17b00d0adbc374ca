/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the slow paths.  None is on the path of an operation that
 * neither changes the structure of an index nor waits.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvtree

#if !defined(KVT_BASE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KVT_BASE_TRACE_H

#include <linux/tracepoint.h>

/* height 0 is a leaf; left and right are the entries of the two halves. */
TRACE_EVENT(kvt_split,
	TP_PROTO(const void *index, unsigned int height, unsigned int left,
		 unsigned int right),
	TP_ARGS(index, height, left, right),
	TP_STRUCT__entry(
		__field(const void *, index)
		__field(unsigned int, height)
		__field(unsigned int, left)
		__field(unsigned int, right)
	),
	TP_fast_assign(
		__entry->index = index;
		__entry->height = height;
		__entry->left = left;
		__entry->right = right;
	),
	TP_printk("index=%p height=%u left=%u right=%u", __entry->index,
		  __entry->height, __entry->left, __entry->right)
);

/* An empty leaf was removed, with height ancestors that had no other child. */
TRACE_EVENT(kvt_unlink,
	TP_PROTO(const void *index, unsigned int height),
	TP_ARGS(index, height),
	TP_STRUCT__entry(
		__field(const void *, index)
		__field(unsigned int, height)
	),
	TP_fast_assign(
		__entry->index = index;
		__entry->height = height;
	),
	TP_printk("index=%p height=%u", __entry->index, __entry->height)
);

/* A layer's root was replaced; height is the new root's. */
TRACE_EVENT(kvt_root,
	TP_PROTO(const void *index, unsigned int height, bool grow),
	TP_ARGS(index, height, grow),
	TP_STRUCT__entry(
		__field(const void *, index)
		__field(unsigned int, height)
		__field(bool, grow)
	),
	TP_fast_assign(
		__entry->index = index;
		__entry->height = height;
		__entry->grow = grow;
	),
	TP_printk("index=%p height=%u %s", __entry->index, __entry->height,
		  __entry->grow ? "grow" : "shrink")
);

/* depth: layers above; layers: how many were made or removed at once. */
DECLARE_EVENT_CLASS(kvt_layer,
	TP_PROTO(const void *index, unsigned int depth, unsigned int layers),
	TP_ARGS(index, depth, layers),
	TP_STRUCT__entry(
		__field(const void *, index)
		__field(unsigned int, depth)
		__field(unsigned int, layers)
	),
	TP_fast_assign(
		__entry->index = index;
		__entry->depth = depth;
		__entry->layers = layers;
	),
	TP_printk("index=%p depth=%u layers=%u", __entry->index,
		  __entry->depth, __entry->layers)
);

DEFINE_EVENT(kvt_layer, kvt_layer_create,
	TP_PROTO(const void *index, unsigned int depth, unsigned int layers),
	TP_ARGS(index, depth, layers)
);

DEFINE_EVENT(kvt_layer, kvt_layer_collect,
	TP_PROTO(const void *index, unsigned int depth, unsigned int layers),
	TP_ARGS(index, depth, layers)
);

DEFINE_EVENT(kvt_layer, kvt_layer_collapse,
	TP_PROTO(const void *index, unsigned int depth, unsigned int layers),
	TP_ARGS(index, depth, layers)
);

/* The worker freed a batch; waiting: bytes that still wait. */
TRACE_EVENT(kvt_reclaim_batch,
	TP_PROTO(const void *reclaim, unsigned int objects, u64 bytes, u64 waiting),
	TP_ARGS(reclaim, objects, bytes, waiting),
	TP_STRUCT__entry(
		__field(const void *, reclaim)
		__field(unsigned int, objects)
		__field(u64, bytes)
		__field(u64, waiting)
	),
	TP_fast_assign(
		__entry->reclaim = reclaim;
		__entry->objects = objects;
		__entry->bytes = bytes;
		__entry->waiting = waiting;
	),
	TP_printk("reclaim=%p objects=%u bytes=%llu waiting=%llu",
		  __entry->reclaim, __entry->objects, __entry->bytes,
		  __entry->waiting)
);

/* A writer has to wait: more than bound bytes wait for a grace period. */
TRACE_EVENT(kvt_throttle,
	TP_PROTO(const void *reclaim, u64 waiting, u64 bound),
	TP_ARGS(reclaim, waiting, bound),
	TP_STRUCT__entry(
		__field(const void *, reclaim)
		__field(u64, waiting)
		__field(u64, bound)
	),
	TP_fast_assign(
		__entry->reclaim = reclaim;
		__entry->waiting = waiting;
		__entry->bound = bound;
	),
	TP_printk("reclaim=%p waiting=%llu bound=%llu", __entry->reclaim,
		  __entry->waiting, __entry->bound)
);

DECLARE_EVENT_CLASS(kvt_store,
	TP_PROTO(u64 id, const char *name),
	TP_ARGS(id, name),
	TP_STRUCT__entry(
		__field(u64, id)
		__string(name, name)
	),
	TP_fast_assign(
		__entry->id = id;
		__assign_str(name);
	),
	TP_printk("id=%llu name=%s", __entry->id, __get_str(name))
);

DEFINE_EVENT(kvt_store, kvt_store_create,
	TP_PROTO(u64 id, const char *name),
	TP_ARGS(id, name)
);

DEFINE_EVENT(kvt_store, kvt_store_destroy,
	TP_PROTO(u64 id, const char *name),
	TP_ARGS(id, name)
);

#endif /* KVT_BASE_TRACE_H */

/* In the include path -I$(src) of kmod/Kbuild. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH base
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
