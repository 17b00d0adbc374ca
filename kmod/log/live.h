/* SPDX-License-Identifier: GPL-2.0 */
/* What is live, in bytes of records, and how large records are. */
#ifndef KVT_LOG_LIVE_H
#define KVT_LOG_LIVE_H

#include <linux/compiler.h>

#include "sizes.h"

/*
 * A chunk that does not fit the rest of a segment begins the next one.  So as much of each segment
 * may be lost as a chunk has.  That is little but for chunks that end with a large record.  What
 * these have more is counted, so that a few of them do not make each segment of a store smaller.
 */
struct kvt_live {
	s64 bytes;
	s64 large;	/* of these: what records have beyond KVT_LOG_RECORD_SMALL */
};

/* A record of so many bytes, columns outside of it included. */
static inline struct kvt_live kvt_live_record(u64 bytes)
{
	return (struct kvt_live) {
		.bytes = bytes,
		.large = bytes > KVT_LOG_RECORD_SMALL ? bytes - KVT_LOG_RECORD_SMALL : 0,
	};
}

static inline struct kvt_live kvt_live_less(struct kvt_live a, struct kvt_live b)
{
	return (struct kvt_live) { .bytes = a.bytes - b.bytes, .large = a.large - b.large };
}

static inline struct kvt_live kvt_live_most(struct kvt_live a, struct kvt_live b)
{
	return (struct kvt_live) {
		.bytes = max(a.bytes, b.bytes), .large = max(a.large, b.large),
	};
}

/* What is read without a lock. */
static inline void kvt_live_set(struct kvt_live *to, struct kvt_live live)
{
	WRITE_ONCE(to->bytes, live.bytes);
	WRITE_ONCE(to->large, live.large);
}

static inline struct kvt_live kvt_live_get(const struct kvt_live *from)
{
	return (struct kvt_live) {
		.bytes = READ_ONCE(from->bytes), .large = READ_ONCE(from->large),
	};
}

#endif /* KVT_LOG_LIVE_H */
