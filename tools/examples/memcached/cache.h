/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations shared by the programs and their loader. */
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
#define CONNS_MAX	16384u	/* connections known to be orderly, or not known yet */
#define OPENING_MAX	16384u	/* connections without a request yet */
#define SOURCES_MAX	16384u	/* addresses of clients */
#define ADDRESSES_MAX	16u	/* of memcached */

/* memcached answers a request within this time or never. */
#define ANSWER_NS	(10ull * 1000 * 1000 * 1000)

/* A connection that memcached has not answered within this time does not exist. */
#define UNANSWERED_NS	(2 * ANSWER_NS)

/* An address may receive the answers of this much time at once. */
#define BURST_NS	(1000ull * 1000 * 1000)

/* The value of a key: an answer, ready to be sent. */
struct entry {
	__u64 bucket_seq;	/* both from when memcached was asked: */
	__u64 global_seq;	/* if they have changed, the answer may be wrong */
	__u64 until;		/* in nanoseconds since boot */
	__u32 csum;		/* of the payload */
	__u32 len;
	__u8 payload[PAYLOAD_ROOM];
};

#define ENTRY_HEAD	32u

enum counter {
	HIT,			/* answered from the store */
	MISS,			/* gets passed on */
	STALE,			/* ... because the answer was invalid or too old */
	NO_ROOM,		/* ... because the answer did not fit into the packet */
	FILL,			/* answers stored */
	NO_FILL,		/* ... not stored, because of a possible change */
	CHANGE,			/* changes of one key */
	FLUSH,			/* invalidations of everything */
	LIMITED,		/* gets dropped after too many answers to the address */
	FOREIGN,		/* answers from memcached's address but another user */
	COUNTERS
};

/* A get that was passed on: its sender and receiver. */
struct asker {
	__be32 addr;
	__be32 server;
	__be16 port;
	__be16 id;		/* of the frame header */
};

struct asked {
	struct bpf_spin_lock lock;
	__u32 issued, answered;
	struct asker asker;		/* elements may be reused */
	__u32 bucket;
	__u32 key_hash;
	__u64 bucket_seq, global_seq;	/* before memcached was asked */
	__u64 when;
	__u32 shared;			/* two such gets were pending at once */
};

struct conn_id {
	__be32 addr;
	__be32 server;
	__be16 port;
	__u16 zero;
};

/* An orderly TCP connection: each request waits for the answer to the previous one. */
struct conn {
	struct bpf_spin_lock lock;
	struct conn_id id;		/* elements may be reused */
	__u64 when;			/* time of the last request */
	__u32 seq;			/* sequence numbers: of the request, ... */
	__u32 next_in;			/* ... of what comes and goes next */
	__u32 next_out;
	__u32 bucket;			/* changed by the request; BUCKETS: none */
	__u32 waiting;			/* for an answer */
	__u32 loose;			/* not orderly: it may change anything at any time */
	__u32 answered;			/* memcached has sent something */
};

#endif /* CACHE_H */
