/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs and whoever loads them share. */
#ifndef CACHE_H
#define CACHE_H

#define KEY_MAX		250u	/* bytes in a key of memcached */
#define KEY_ROOM	256u
#define PAYLOAD_MAX	1400u	/* bytes of an answer behind the frame header */
#define PAYLOAD_ROOM	2048u
#define BUCKETS		4096u	/* a change makes all keys of its bucket invalid */
#define ASKED_MAX	65536u	/* requests that memcached has not answered yet */
#define CONNS_MAX	16384u

/* Within this time memcached answers a request, or never does. */
#define ANSWER_NS	(10ull * 1000 * 1000 * 1000)

/* What the store holds of a key: an answer, ready to be sent. */
struct entry {
	__u64 bucket_seq;	/* both as they were when memcached was asked: */
	__u64 global_seq;	/* if they are no more, the answer may be wrong */
	__u64 until;		/* in nanoseconds since boot */
	__u32 csum;		/* of the payload */
	__u32 len;
	__u8 payload[PAYLOAD_ROOM];
};

#define ENTRY_HEAD	32u

enum counter {
	HIT,			/* answered from the store */
	MISS,			/* gets that were passed on */
	STALE,			/* ... whose answer was there, but invalid or too old */
	NO_ROOM,		/* ... whose answer did not fit into the packet */
	FILL,			/* answers that were stored */
	NO_FILL,		/* ... that were not, as a change may have been meanwhile */
	CHANGE,			/* changes of one key that were seen */
	FLUSH,			/* times that everything became invalid */
	COUNTERS
};

/* A get that was passed on: who asked. */
struct asker {
	__u32 addr;
	__u16 port;
	__u16 id;		/* of the frame header */
};

struct conn_id {
	__u32 addr;
	__u16 port;
	__u16 zero;
};

#endif /* CACHE_H */
