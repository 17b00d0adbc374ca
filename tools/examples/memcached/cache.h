/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs and whoever loads them share. */
#ifndef CACHE_H
#define CACHE_H

#include <linux/bpf.h>
#include <linux/types.h>

#define KEY_MAX		250u	/* bytes in a key of memcached */
#define KEY_ROOM	256u
#define PAYLOAD_MAX	1400u	/* bytes of an answer behind the frame header */
#define PAYLOAD_ROOM	2048u
#define BUCKETS		4096u	/* a change makes all keys of its bucket invalid */
#define ASKED_MAX	65536u	/* requests that memcached has not answered yet */
#define CONNS_MAX	16384u	/* connections that are known to be orderly, or not yet */
#define OPENING_MAX	16384u	/* connections that the client has asked nothing by yet */
#define SOURCES_MAX	16384u	/* addresses of clients */
#define ADDRESSES_MAX	16u	/* that memcached is reached by */

/* Within this time memcached answers a request, or never does. */
#define ANSWER_NS	(10ull * 1000 * 1000 * 1000)

/* A connection that memcached has never answered is none after this time. */
#define UNANSWERED_NS	(2 * ANSWER_NS)

/* An address may get the answers of so long at once. */
#define BURST_NS	(1000ull * 1000 * 1000)

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
	LIMITED,		/* gets of an address that has had too many answers */
	FOREIGN,		/* answers from memcached's address, but not its user */
	COUNTERS
};

/* A get that was passed on: who asked, and whom. */
struct asker {
	__be32 addr;
	__be32 server;
	__be16 port;
	__be16 id;		/* of the frame header */
};

struct asked {
	struct bpf_spin_lock lock;
	__u32 issued, answered;
	struct asker asker;		/* an element may become another's */
	__u32 bucket;
	__u32 key_hash;
	__u64 bucket_seq, global_seq;	/* before memcached was asked */
	__u64 when;
	__u32 shared;			/* two such gets were under way at once */
};

struct conn_id {
	__be32 addr;
	__be32 server;
	__be16 port;
	__u16 zero;
};

/* A TCP connection of which each request waits for the answer to the one before. */
struct conn {
	struct bpf_spin_lock lock;
	struct conn_id id;		/* an element may become another's */
	__u64 when;			/* its last request came */
	__u32 seq;			/* sequence numbers: of the request, ... */
	__u32 next_in;			/* ... of what comes and goes next */
	__u32 next_out;
	__u32 bucket;			/* that the request changes; BUCKETS: none */
	__u32 waiting;			/* for an answer */
	__u32 loose;			/* it does not: anything may be changed at any time */
	__u32 answered;			/* memcached has said something */
};

#endif /* CACHE_H */
