/* SPDX-License-Identifier: GPL-2.0 */
/* Live bytes: the size of the records that a checkpoint of everything would write. */
#ifndef KVT_LOG_LIVE_H
#define KVT_LOG_LIVE_H

#include <linux/compiler.h>

#include "sizes.h"

/*
 * A chunk that does not fit into the rest of a segment goes to the next one, so each segment may
 * lose as many bytes as a chunk has.  That is little, except for chunks that end with a large
 * record.  The excess of large records is counted separately, so that a few of them do not reduce
 * what every segment of a store is taken to hold.
 */
struct kvt_live {
	s64 bytes;
	s64 large;	/* of these, the part of each record beyond KVT_LOG_RECORD_SMALL */
};

/* A record of @bytes, including the columns stored outside of it. */
static inline struct kvt_live kvt_live_record(u64 bytes)
{
	return (struct kvt_live) {
		.bytes = bytes,
		.large = bytes > KVT_LOG_RECORD_SMALL ? bytes - KVT_LOG_RECORD_SMALL : 0,
	};
}

static inline struct kvt_live kvt_live_sum(struct kvt_live a, struct kvt_live b)
{
	return (struct kvt_live) { .bytes = a.bytes + b.bytes, .large = a.large + b.large };
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

/* Set what others read without a lock. */
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
