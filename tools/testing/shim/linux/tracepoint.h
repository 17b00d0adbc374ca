/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints that nobody listens to. */
#include <linux/types.h>

#undef TRACE_EVENT
#undef DECLARE_EVENT_CLASS
#undef DEFINE_EVENT
#undef TP_PROTO

#define TP_PROTO(args...)	args
#define TRACE_EVENT(name, proto, ...) \
	static inline void trace_##name(proto) { }
#define DECLARE_EVENT_CLASS(name, ...)
#define DEFINE_EVENT(class, name, proto, ...) \
	static inline void trace_##name(proto) { }
