/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints without probes.  A probe might run for long and read what the caller has
 * locked, so the caller must hold nothing.
 */
#include <linux/sched.h>
#include <linux/types.h>

#undef TRACE_EVENT
#undef DECLARE_EVENT_CLASS
#undef DEFINE_EVENT
#undef TP_PROTO

#undef SHIM_TRACE
#ifdef SHIM_BENCH
#define SHIM_TRACE()		do { } while (0)
#else
#define SHIM_TRACE()		WARN_ON(current->preempt_count)
#endif

#define TP_PROTO(args...)	args
#define TRACE_EVENT(name, proto, ...) \
	static inline void trace_##name(proto) { SHIM_TRACE(); }
#define DECLARE_EVENT_CLASS(name, ...)
#define DEFINE_EVENT(class, name, proto, ...) \
	static inline void trace_##name(proto) { SHIM_TRACE(); }
