// SPDX-License-Identifier: GPL-2.0
/*
 * A cache for memcached.  The program at ingress answers gets by UDP; the one at egress stores
 * memcached's answers; both notice changes of keys.
 *
 * README.rst argues why no answer is older than a change that was acknowledged.
 */
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "cache.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(store);			/* to read and to write */
const volatile __be32 addresses[ADDRESSES_MAX];	/* of memcached */
const volatile __u32 nr_addresses;
const volatile __be16 port;
const volatile __u32 user;		/* owner of memcached's sockets */
const volatile __u64 lifetime_ns;
const volatile __u64 ns_per_kib;	/* of answers to an address that is not proved */
const volatile __u64 client_ns_per_kib;	/* ... to one that a client has proved */

__u64 bucket_seq[BUCKETS];		/* count changes */
__u64 global_seq;
__u64 no_fill_until;
__u64 counters[COUNTERS];

/*
 * Loop sums start with this variable: because the verifier does not know that it is 0, it does
 * not verify every iteration with another number.
 */
__u32 nothing;

/* The header of every answer of memcached: request id, sequence number, datagrams, reserved. */
struct frame {
	__be16 id, seq, total, reserved;
};

struct headers {
	__u16 pad;			/* aligns the other fields */
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct frame frame;
};

#define HEADERS		(sizeof(struct headers) - offsetof(struct headers, eth))

/* Data read by a program, too large for its stack: the text of a packet in entry.payload. */
struct scratch {
	struct bpf_kvt_req req;
	__u8 key[KEY_ROOM];		/* follows the request */
	struct entry entry;
};

/* Bytes of the request with its key. */
#define REQUEST		(sizeof(struct bpf_kvt_req) + KEY_ROOM)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);		/* ingress, and egress, which may interrupt it */
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASKED_MAX);
	__type(key, struct asker);
	__type(value, struct asked);
} asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CONNS_MAX);
	__type(key, struct conn_id);
	__type(value, struct conn);
} conns SEC(".maps");

/*
 * Connections that the server has accepted and the client has not used yet.  Anybody can create
 * more than fit: the oldest are dropped.
 */
struct opening {
	__u32 next_in, next_out;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPENING_MAX);
	__type(key, struct conn_id);
	__type(value, struct opening);
} opening SEC(".maps");

/* When all answers sent to an address are paid for, if a client has proved the address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SOURCES_MAX);
	__type(key, __be32);
	__type(value, __u64);
} proved SEC(".maps");

/* The same for other addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SOURCES_MAX);
	__type(key, __be32);
	__type(value, __u64);
} paid SEC(".maps");

static __always_inline void count(enum counter c)
{
	__sync_fetch_and_add(&counters[c], 1);
}

/* Is it an address of memcached? */
static __always_inline int served(__be32 addr)
{
	__u32 i;

	for (i = 0; i < ADDRESSES_MAX; i++)
		if (i < nr_addresses && addresses[i] == addr)
			return 1;
	return 0;
}

/* Invalidate everything that was stored or requested before. */
static __always_inline void flush(void)
{
	__sync_fetch_and_add(&global_seq, 1);
	count(FLUSH);
}

static __always_inline void change(__u32 bucket)
{
	if (bucket >= BUCKETS)
		return;
	__sync_fetch_and_add(&bucket_seq[bucket], 1);
	count(CHANGE);
}

static __always_inline __u64 bucket_now(__u32 bucket)
{
	return *(volatile __u64 *)&bucket_seq[bucket % BUCKETS];
}

static __always_inline __u64 global_now(void)
{
	return *(volatile __u64 *)&global_seq;
}

/*
 * Text
 */

/* FNV-1a. */
static __always_inline __u32 hash(const __u8 *key, __u32 len)
{
	__u32 h = 2166136261u ^ nothing;
	int i;

	bpf_for(i, 0, (int)len) {
		if (i >= (int)KEY_MAX)
			break;
		h = (h ^ key[i]) * 16777619u;
	}
	return h;
}

static __always_inline __u32 bucket_of(__u32 h)
{
	return (h ^ h >> 16) % BUCKETS;
}

/* Hide from the compiler what the verifier cannot see. */
static __always_inline __u8 at(const __u8 *text, __u32 i)
{
	barrier_var(i);
	return text[i & (PAYLOAD_ROOM - 1)];
}

/* Copy the word at @i to @key: its length, or 0 if there is none or it is too long. */
static __always_inline __u32 copy_word(const __u8 *text, __u32 i, __u32 len, __u8 *key)
{
	__u32 n = 0;
	__u8 c;
	int k;

	bpf_for(k, 0, (int)KEY_MAX + 1) {
		c = i + k < len ? at(text, i + k) : 0;
		if (c <= ' ') {
			n = k;
			break;
		}
		key[k & (KEY_ROOM - 1)] = c;
	}
	return i + n < len ? n : 0;
}

/* Parse a number at @i: where it ends, or 0 if there is none. */
static __always_inline __u32 read_number(const __u8 *text, __u32 i, __u32 len, __u32 *number)
{
	__u32 n = nothing, end = 0;
	__u8 c;
	int k;

	/* Flags may use all 32 bits; overflowing values are not used. */
	bpf_for(k, 0, 11) {
		c = i + k < len ? at(text, i + k) : ' ';
		if (c < '0' || c > '9') {
			end = k ? i + k : 0;
			break;
		}
		n = n * 10 + c - '0';
	}
	*number = n;
	return end;
}

/* Does the text end with a line break, and contain no other? */
static __always_inline int one_line(const __u8 *text, __u32 len)
{
	int i;

	if (len < 2 || len > 512 || at(text, len - 1) != '\n')
		return 0;
	bpf_for(i, 0, 512) {
		if (i + 1 >= (int)len)
			break;
		if (at(text, i) == '\n')
			return 0;
	}
	return 1;
}

static __always_inline int begins(const __u8 *text, const char *word, __u32 len)
{
	__u32 i;

	for (i = 0; i < len; i++)
		if (text[i] != word[i])
			return 0;
	return 1;
}

#define BEGINS(text, word)	begins(text, word, sizeof(word) - 1)

/*
 * Is the text the complete answer to a get of one key, "VALUE key flags bytes\r\n", data,
 * "\r\nEND\r\n"?  Copies the key, and returns its length, or 0.
 */
static __always_inline __u32 read_answer(const __u8 *text, __u32 len, __u8 *key)
{
	__u32 key_len, i, flags, bytes;

	if (len < sizeof("VALUE k 0 0\r\n\r\nEND\r\n") - 1 || !BEGINS(text, "VALUE "))
		return 0;
	key_len = copy_word(text, 6, len, key);
	if (!key_len)
		return 0;
	i = read_number(text, 6 + key_len + 1, len, &flags);
	if (!i || at(text, i) != ' ')
		return 0;
	i = read_number(text, i + 1, len, &bytes);
	if (!i || bytes > PAYLOAD_MAX || i + 2 + bytes + 7 != len)
		return 0;
	if (at(text, i) != '\r' || at(text, i + 1) != '\n')
		return 0;
	i = len - 7;
	return at(text, i) == '\r' && at(text, i + 1) == '\n' && at(text, i + 2) == 'E' &&
	       at(text, i + 3) == 'N' && at(text, i + 4) == 'D' ? key_len : 0;
}

/*
 * Changes by TCP.
 */

enum request { OTHER, READ, CHANGE_KEY };

/*
 * Parse the request of a segment, if it is one complete request that has an answer: for other
 * requests it is not known when they were executed.
 */
static __always_inline enum request read_request(const __u8 *text, __u32 len, __u32 all,
						 __u8 *key, __u32 *bucket)
{
	__u32 verb = 0, n, i, bytes;
	int k, data;

	if (len < 8)
		return OTHER;
	if (BEGINS(text, "get ") || BEGINS(text, "gets "))
		return all == len && one_line(text, len) ? READ : OTHER;
	data = BEGINS(text, "set ") || BEGINS(text, "add ") || BEGINS(text, "cas ") ||
	       BEGINS(text, "replace ") || BEGINS(text, "append ") || BEGINS(text, "prepend ");
	if (!data && !BEGINS(text, "delete ") && !BEGINS(text, "incr ") &&
	    !BEGINS(text, "decr ") && !BEGINS(text, "touch "))
		return OTHER;
	bpf_for(k, 0, 8) {
		if (at(text, k) == ' ') {
			verb = k;
			break;
		}
	}
	n = copy_word(text, verb + 1, len, key);
	if (!n)
		return OTHER;
	*bucket = bucket_of(hash(key, n));
	i = verb + 1 + n;
	if (data) {
		/* flags, exptime, bytes; exptime may be less than 0 */
		i = read_number(text, i + 1, len, &bytes);
		if (!i)
			return OTHER;
		if (at(text, i + 1) == '-')
			i++;
		i = read_number(text, i + 1, len, &bytes);
		if (!i)
			return OTHER;
		i = read_number(text, i + 1, len, &bytes);
		if (!i)
			return OTHER;
		if (BEGINS(text, "cas ")) {
			/* its version */
			bpf_for(k, 0, 24) {
				if (at(text, i + k) == '\r') {
					i += k;
					break;
				}
			}
		}
		/* "noreply" is no line break. */
		if (at(text, i) != '\r' || at(text, i + 1) != '\n')
			return OTHER;
		return i + 2 + bytes + 2 == all ? CHANGE_KEY : OTHER;
	}
	/* The same for noreply: no number ends with its last letter. */
	if (all != len || !one_line(text, len) || at(text, len - 3) == 'y')
		return OTHER;
	return CHANGE_KEY;
}

struct segment {
	struct conn_id id;
	__u32 seq, ack_seq;
	__u32 at;		/* of its data in the packet */
	__u32 len;
	__u8 syn, fin, rst, ack;
};

static __always_inline int same_conn(const struct conn *conn, const struct conn_id *id)
{
	return conn->id.addr == id->addr && conn->id.server == id->server &&
	       conn->id.port == id->port;
}

/* Record a request.  Returns the bucket that it changes, or BUCKETS. */
static __always_inline __u32 note_request(struct conn *conn, const struct segment *s,
					  enum request what, __u32 bucket)
{
	int again = (__s32)(s->seq + s->len - conn->next_in) <= 0;

	if (conn->loose || (again && !conn->waiting))
		return BUCKETS;
	/*
	 * A repeated segment should be identical.  Otherwise one of the two was damaged, and only
	 * TCP knows which.
	 */
	if (what == OTHER || s->seq != (again ? conn->seq : conn->next_in) ||
	    (again ? bucket != conn->bucket : conn->waiting)) {
		conn->loose = 1;
		return BUCKETS;
	}
	conn->bucket = bucket;
	conn->seq = s->seq;
	conn->next_in = s->seq + s->len;
	conn->waiting = 1;
	return bucket;
}

static __always_inline void request_in(struct conn *conn, const struct segment *s,
				       struct scratch *scratch, __u32 len)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 bucket = BUCKETS;
	enum request what;

	what = read_request(scratch->entry.payload, len, s->len, scratch->key, &bucket);
	if (what != CHANGE_KEY)
		bucket = BUCKETS;
	bpf_spin_lock(&conn->lock);
	if (same_conn(conn, &s->id)) {
		conn->when = now;
		bucket = note_request(conn, s, what, bucket);
	}
	bpf_spin_unlock(&conn->lock);
	change(bucket);
}

/* The effect of a segment from memcached on stored answers. */
enum meaning {
	NOTHING_NEW,		/* sent before */
	ANSWER,			/* to the pending request: its bucket may have changed */
	ANYTHING,
};

/* Record an answer, which may be a whole line, or the complete answer to a get. */
static __always_inline enum meaning note_answer(struct conn *conn, const struct segment *s,
						int line, int values, __u32 *bucket)
{
	if (conn->loose)
		return ANYTHING;
	if ((__s32)(s->seq + s->len - conn->next_out) <= 0)
		return NOTHING_NEW;
	*bucket = conn->bucket;
	if (!conn->waiting || s->seq != conn->next_out ||
	    !(conn->bucket < BUCKETS ? line : values)) {
		conn->loose = 1;
		return ANYTHING;
	}
	conn->waiting = 0;
	conn->next_out = s->seq + s->len;
	return ANSWER;
}

static __always_inline void answer_out(struct conn *conn, const struct segment *s,
				       struct scratch *scratch, __u32 len)
{
	const __u8 *text = scratch->entry.payload;
	int line = 0, values = 0, whole = s->len == len;
	enum meaning meaning = ANYTHING;
	__u32 bucket = BUCKETS;

	if (!conn) {
		flush();
		return;
	}
	if (whole) {
		line = one_line(text, len);
		values = (len == 5 && BEGINS(text, "END\r\n")) ||
			 read_answer(text, len, scratch->key);
	}
	bpf_spin_lock(&conn->lock);
	if (same_conn(conn, &s->id)) {
		conn->answered = 1;
		meaning = note_answer(conn, s, line, values, &bucket);
	}
	bpf_spin_unlock(&conn->lock);
	if (meaning == ANYTHING)
		flush();
	else if (meaning == ANSWER)
		change(bucket);
}

/*
 * Find the connection of a received segment.  It is known from its first request on, which
 * acknowledges the server's answer to its SYN: only the client has seen that.
 */
static __always_inline struct conn *conn_in(const struct segment *s)
{
	struct conn *conn = bpf_map_lookup_elem(&conns, &s->id);
	struct conn new = { .bucket = BUCKETS, .id = s->id };
	struct opening *o;
	__u64 paid_for = 0;
	int confirms;

	if (conn)
		return conn;
	o = bpf_map_lookup_elem(&opening, &s->id);
	/* The server answers a reset if it accepts it: until then anybody may have sent it. */
	if (!o || s->rst)
		return NULL;
	confirms = s->ack && o->next_in == s->seq && o->next_out == s->ack_seq;
	/* An address that was already proved gets no new credit. */
	if (confirms)
		bpf_map_update_elem(&proved, &s->id.addr, &paid_for, BPF_NOEXIST);
	if (!s->len)
		return NULL;
	new.next_in = s->seq;
	new.next_out = s->ack_seq;
	new.when = bpf_ktime_get_ns();
	if (confirms)
		bpf_map_update_elem(&conns, &s->id, &new, BPF_NOEXIST);
	/* A connection with a missed first request is never orderly. */
	bpf_map_delete_elem(&opening, &s->id);
	return bpf_map_lookup_elem(&conns, &s->id);
}

/*
 * A reset ends a connection if it has the next expected sequence number, as in TCP itself (RFC
 * 5961): anybody can send other resets in the name of a client.  A connection that is not orderly
 * is treated like an unknown one: nothing is lost if it is forgotten for no reason.
 */
static __always_inline void reset_in(struct conn *conn, const struct segment *s)
{
	int ends;

	bpf_spin_lock(&conn->lock);
	ends = same_conn(conn, &s->id) && (conn->loose || s->seq == conn->next_in);
	bpf_spin_unlock(&conn->lock);
	if (ends)
		bpf_map_delete_elem(&conns, &s->id);
}

/* The server has accepted a connection: an earlier one has ended. */
static __always_inline void conn_opening(const struct segment *s)
{
	struct opening new = { .next_in = s->ack_seq, .next_out = s->seq + 1 };

	bpf_map_delete_elem(&conns, &s->id);
	bpf_map_update_elem(&opening, &s->id, &new, BPF_ANY);
}

/*
 * Gets by UDP.
 */

static __always_inline int same_asker(const struct asker *a, const struct asker *b)
{
	return a->addr == b->addr && a->server == b->server && a->port == b->port &&
	       a->id == b->id;
}

/*
 * Record a request to memcached, for one key or for something else.  Returns false if the packet
 * must not reach memcached.
 */
static __always_inline int ask(const struct asker *asker, __u32 h, int one_key)
{
	__u32 bucket = bucket_of(h);
	struct asked new = {
		.issued = 1,
		.asker = *asker,
		.bucket = bucket,
		.key_hash = h,
		.global_seq = global_now(),
		.bucket_seq = bucket_now(bucket),
		.when = bpf_ktime_get_ns(),
		.shared = !one_key,
	};
	struct asked *old;
	int err, same;

	err = bpf_map_update_elem(&asked, asker, &new, BPF_NOEXIST);
	if (!err)
		return 1;
	old = bpf_map_lookup_elem(&asked, asker);
	if (!old) {
		/* No room, or just removed: the requester of the answer cannot be known. */
		no_fill_until = new.when + ANSWER_NS;
		return 1;
	}
	bpf_spin_lock(&old->lock);
	same = same_asker(&old->asker, asker) && old->issued != old->answered;
	if (same) {
		old->issued++;
		old->shared = 1;
		old->when = new.when;
	}
	bpf_spin_unlock(&old->lock);
	return same;
}

/* Record an answer of memcached.  Returns whether it may be stored, and sets its numbers. */
static __always_inline int answered(const struct asker *asker, __u32 h, struct entry *entry)
{
	struct asked *a = bpf_map_lookup_elem(&asked, asker);
	int same, good, last;

	if (!a)
		return 0;
	bpf_spin_lock(&a->lock);
	same = same_asker(&a->asker, asker);
	if (same)
		a->answered++;
	last = same && a->answered == a->issued;
	good = same && !a->shared && a->key_hash == h;
	entry->bucket_seq = a->bucket_seq;
	entry->global_seq = a->global_seq;
	bpf_spin_unlock(&a->lock);
	if (last)
		bpf_map_delete_elem(&asked, asker);
	return good && entry->bucket_seq == bucket_now(bucket_of(h)) &&
	       entry->global_seq == global_now() && bpf_ktime_get_ns() > no_fill_until;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Make room for an answer: behind the packet or, for veth, before it. */
static __always_inline int resize(struct xdp_md *ctx, __u32 have, __u32 want)
{
	int more = (int)want - (int)have;

	return bpf_xdp_adjust_tail(ctx, more) && bpf_xdp_adjust_head(ctx, -more);
}

/*
 * Whether an address has had too many answers.  An answer is longer than its get, and the sender
 * of a get may forge its source address, even one of a client.
 */
static __always_inline int limited(__be32 addr, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns(), next = now, cost = client_ns_per_kib, *until;

	until = bpf_map_lookup_elem(&proved, &addr);
	if (!until) {
		cost = ns_per_kib;
		until = bpf_map_lookup_elem(&paid, &addr);
	}
	if (until && *until > now)
		next = *until;
	if (next > now + BURST_NS)
		return 1;
	next += bytes * cost / 1024;
	if (until)
		*until = next;
	else
		bpf_map_update_elem(&paid, &addr, &next, BPF_ANY);
	return 0;
}

/* Send an entry back to the requester. */
static __always_inline int reply(struct xdp_md *ctx, struct headers *h, const struct entry *entry,
				 __u32 have)
{
	__u32 len = entry->len, addr = h->ip.saddr;
	__u16 source = h->udp.source;
	__u8 mac[ETH_ALEN];
	__s64 sum;

	if (!len || len > PAYLOAD_MAX || resize(ctx, have, HEADERS + len))
		return -1;
	__builtin_memcpy(mac, h->eth.h_source, ETH_ALEN);
	__builtin_memcpy(h->eth.h_source, h->eth.h_dest, ETH_ALEN);
	__builtin_memcpy(h->eth.h_dest, mac, ETH_ALEN);
	h->ip.saddr = h->ip.daddr;
	h->ip.daddr = addr;
	h->ip.tos = 0;
	h->ip.ttl = 64;
	h->ip.tot_len = bpf_htons(HEADERS - sizeof(h->eth) + len);
	h->ip.check = 0;
	h->ip.check = fold(bpf_csum_diff(0, 0, (__be32 *)&h->ip, sizeof(h->ip), 0));
	h->udp.source = h->udp.dest;
	h->udp.dest = source;
	h->udp.len = bpf_htons(sizeof(h->udp) + sizeof(h->frame) + len);
	h->udp.check = 0;
	h->frame.seq = 0;
	h->frame.total = bpf_htons(1);
	h->frame.reserved = 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)&h->udp, sizeof(h->udp) + sizeof(h->frame),
			    entry->csum);
	sum = (__u64)(__u32)sum + h->ip.saddr + h->ip.daddr + h->udp.len +
	      bpf_htons(IPPROTO_UDP);
	h->udp.check = fold(sum) ?: 0xffff;
	if (bpf_xdp_store_bytes(ctx, 0, &h->eth, HEADERS) ||
	    bpf_xdp_store_bytes(ctx, HEADERS, (void *)entry->payload, len))
		return -1;
	return 0;
}

/* Parse a packet that gets one key, into scratch->key: the key's length, or 0. */
static __always_inline __u32 read_get(struct xdp_md *ctx, struct scratch *scratch, __u32 len)
{
	__u32 n;

	/* "get " key "\r\n" */
	if (len < 7 || len > 6 + KEY_MAX)
		return 0;
	if (bpf_xdp_load_bytes(ctx, HEADERS, scratch->entry.payload, len))
		return 0;
	if (!BEGINS(scratch->entry.payload, "get "))
		return 0;
	n = copy_word(scratch->entry.payload, 4, len, scratch->key);
	return n && n + 6 == len && at(scratch->entry.payload, len - 2) == '\r' &&
	       at(scratch->entry.payload, len - 1) == '\n' ? n : 0;
}

static __always_inline int udp_in(struct xdp_md *ctx, struct headers *h, struct scratch *scratch,
				  __u32 have)
{
	struct asker asker = { h->ip.saddr, h->ip.daddr, h->udp.source, h->frame.id };
	__u32 n, sum, len = bpf_ntohs(h->udp.len) - sizeof(h->udp) - sizeof(h->frame);
	struct entry *entry = &scratch->entry;
	int err;

	n = have == HEADERS + len ? read_get(ctx, scratch, len) : 0;
	if (!n || n > KEY_MAX || h->frame.seq || h->frame.total != bpf_htons(1))
		return ask(&asker, 0, 0) ? XDP_PASS : XDP_DROP;
	sum = hash(scratch->key, n);
	scratch->req = (struct bpf_kvt_req){ .key_len = n };
	err = bpf_kvt_get(&store, scratch, REQUEST, entry, sizeof(*entry));
	if (err > (int)ENTRY_HEAD) {
		if (entry->bucket_seq == bucket_now(bucket_of(sum)) &&
		    entry->global_seq == global_now() && bpf_ktime_get_ns() < entry->until) {
			if (limited(asker.addr, HEADERS + entry->len)) {
				count(LIMITED);
				return XDP_DROP;
			}
			if (!reply(ctx, h, entry, have)) {
				count(HIT);
				return XDP_TX;
			}
			count(NO_ROOM);
		} else {
			count(STALE);
		}
	}
	count(MISS);
	return ask(&asker, sum, 1) ? XDP_PASS : XDP_DROP;
}

/* Store an answer of memcached. */
static __always_inline void fill(struct scratch *scratch, __u32 n, __u32 len)
{
	struct entry *entry = &scratch->entry;
	__s64 sum = 0;
	int i;

	/* For the checksum: whole words, with zeros after the end. */
	bpf_for(i, 0, 4)
		scratch->entry.payload[(len + i) & (PAYLOAD_ROOM - 1)] = 0;
	bpf_for(i, 0, (int)PAYLOAD_MAX / 4 + 1) {
		if (i * 4 >= (int)len)
			break;
		sum += *(__u32 *)&scratch->entry.payload[i * 4 & (PAYLOAD_ROOM - 4)];
	}
	sum = (sum & 0xffffffff) + ((__u64)sum >> 32);
	entry->csum = (sum & 0xffffffff) + ((__u64)sum >> 32);
	entry->len = len;
	entry->until = bpf_ktime_get_ns() + lifetime_ns;
	scratch->req = (struct bpf_kvt_req){ .key_len = n };
	if (n && n <= KEY_MAX && len <= PAYLOAD_MAX &&
	    !bpf_kvt_put(&store, scratch, REQUEST, entry, ENTRY_HEAD + len))
		count(FILL);
}

/*
 * Packets
 */

static __always_inline int segment_read(struct segment *s, const struct iphdr *ip,
					const struct tcphdr *tcp, __u32 off, int out)
{
	__u32 head = ip->ihl * 4 + tcp->doff * 4, total = bpf_ntohs(ip->tot_len);

	s->id.addr = out ? ip->daddr : ip->saddr;
	s->id.server = out ? ip->saddr : ip->daddr;
	s->id.port = out ? tcp->dest : tcp->source;
	s->id.zero = 0;
	s->seq = bpf_ntohl(tcp->seq);
	s->ack_seq = bpf_ntohl(tcp->ack_seq);
	s->at = off + head;
	s->len = total > head ? total - head : 0;
	s->syn = tcp->syn;
	s->fin = tcp->fin;
	s->rst = tcp->rst;
	s->ack = tcp->ack;
	return total >= head;
}

static __always_inline void tcp_in(struct xdp_md *ctx, const struct iphdr *ip,
				   struct scratch *scratch)
{
	struct tcphdr tcp;
	struct segment s;
	struct conn *conn;
	__u32 len;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct ethhdr) + sizeof(*ip), &tcp, sizeof(tcp)) ||
	    tcp.dest != port || !segment_read(&s, ip, &tcp, sizeof(struct ethhdr), 0))
		return;
	/* The kernel accepts no data with a SYN.  The answer shows whether it accepts the SYN. */
	if (s.syn)
		return;
	conn = conn_in(&s);
	if (!conn)
		return;
	/* The kernel does not accept data with a reset, either. */
	if (s.rst) {
		reset_in(conn, &s);
		return;
	}
	len = s.len < PAYLOAD_MAX ? s.len : PAYLOAD_MAX;
	if (!len)
		return;
	barrier_var(len);
	if (len > PAYLOAD_MAX || bpf_xdp_load_bytes(ctx, s.at, scratch->entry.payload, len))
		conn->loose = 1;
	else
		request_in(conn, &s, scratch, len);
}

SEC("xdp")
int cache_in(struct xdp_md *ctx)
{
	__u32 zero = 0, have = ctx->data_end - ctx->data;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct headers h;

	if (!scratch || bpf_xdp_load_bytes(ctx, 0, &h.eth, sizeof(h.eth) + sizeof(h.ip)) ||
	    h.eth.h_proto != bpf_htons(ETH_P_IP) || h.ip.ihl != 5 ||
	    h.ip.frag_off & bpf_htons(0x3fff) || !served(h.ip.daddr))
		return XDP_PASS;
	if (h.ip.protocol == IPPROTO_TCP) {
		tcp_in(ctx, &h.ip, scratch);
		return XDP_PASS;
	}
	if (h.ip.protocol != IPPROTO_UDP || bpf_xdp_load_bytes(ctx, 0, &h.eth, HEADERS) ||
	    h.udp.dest != port)
		return XDP_PASS;
	return udp_in(ctx, &h, scratch, have);
}

/* Read this many bytes of a packet, if the length is valid. */
static __always_inline int load_out(struct __sk_buff *skb, __u32 off, struct scratch *scratch,
				    __u32 len)
{
	barrier_var(len);
	if (!len)
		return 0;
	barrier_var(len);
	if (len > PAYLOAD_MAX)
		return 0;
	return !bpf_skb_load_bytes(skb, off, scratch->entry.payload, len);
}

/*
 * Whether memcached sent it.  Any user may bind a socket to the address and port of another one
 * that allows it (SO_REUSEADDR), as memcached does for UDP.
 */
static __always_inline int from_memcached(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk && bpf_get_socket_uid(skb) == user;
}

static __always_inline void udp_out(struct __sk_buff *skb, const struct iphdr *ip,
				    struct scratch *scratch)
{
	__u32 off = sizeof(struct ethhdr) + ip->ihl * 4, n, len;
	struct {
		struct udphdr udp;
		struct frame frame;
	} h;
	struct asker asker;
	int good;

	/* Count an answer in several datagrams once. */
	if (bpf_skb_load_bytes(skb, off, &h, sizeof(h)) || h.udp.source != port || h.frame.seq)
		return;
	asker = (struct asker) { ip->daddr, ip->saddr, h.udp.dest, h.frame.id };
	len = bpf_ntohs(h.udp.len) - sizeof(h);
	if (!load_out(skb, off + sizeof(h), scratch, len))
		len = 0;
	/* Other answers may acknowledge a change, whatever socket they come from. */
	if (!len || !(BEGINS(scratch->entry.payload, "VALUE ") ||
		      BEGINS(scratch->entry.payload, "END\r\n")))
		flush();
	/* For several keys, there is a datagram for each; the last one ends the answer. */
	else if (at(scratch->entry.payload, len - 4) != 'N' ||
		 at(scratch->entry.payload, len - 3) != 'D')
		return;
	if (!from_memcached(skb)) {
		count(FOREIGN);
		return;
	}
	n = len && h.frame.total == bpf_htons(1) ?
	    read_answer(scratch->entry.payload, len, scratch->key) : 0;
	if (n > KEY_MAX)
		n = 0;
	good = answered(&asker, n ? hash(scratch->key, n) : 0, &scratch->entry);
	if (n && good)
		fill(scratch, n, len);
	else if (n)
		count(NO_FILL);
}

static __always_inline void tcp_out(struct __sk_buff *skb, const struct iphdr *ip,
				    struct scratch *scratch)
{
	struct tcphdr tcp;
	struct segment s;
	struct conn *conn;
	__u32 len;

	if (bpf_skb_load_bytes(skb, sizeof(struct ethhdr) + ip->ihl * 4, &tcp, sizeof(tcp)) ||
	    tcp.source != port)
		return;
	/* Too long for the length according to IP. */
	if (!segment_read(&s, ip, &tcp, sizeof(struct ethhdr), 1)) {
		flush();
		return;
	}
	if (s.syn) {
		conn_opening(&s);
		return;
	}
	conn = bpf_map_lookup_elem(&conns, &s.id);
	len = s.len < PAYLOAD_MAX ? s.len : PAYLOAD_MAX;
	if (len) {
		if (!load_out(skb, s.at, scratch, len))
			len = 0;
		answer_out(conn, &s, scratch, len);
	}
	if (s.fin || s.rst) {
		if (conn && conn->waiting)
			flush();
		bpf_map_delete_elem(&conns, &s.id);
		bpf_map_delete_elem(&opening, &s.id);
	}
}

/* A packet of another protocol that leaves and may be from memcached. */
static __always_inline void other_out(struct __sk_buff *skb)
{
	__u8 protocol;
	__be16 source;

	/* IPv6, with no extension header before TCP or UDP. */
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes(skb, sizeof(struct ethhdr) + 6, &protocol, 1) ||
	    (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP))
		return;
	if (!bpf_skb_load_bytes(skb, sizeof(struct ethhdr) + 40, &source, 2) && source == port)
		flush();
}

SEC("tc")
int cache_out(struct __sk_buff *skb)
{
	__u32 one = 1;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &one);
	struct iphdr ip;

	/*
	 * Packets that came in by an interface are only forwarded or bridged, and may have any
	 * address: memcached has not sent them.
	 */
	if (!scratch || skb->ingress_ifindex)
		return TC_ACT_UNSPEC;
	if (skb->protocol != bpf_htons(ETH_P_IP) ||
	    bpf_skb_load_bytes(skb, sizeof(struct ethhdr), &ip, sizeof(ip))) {
		other_out(skb);
		return TC_ACT_UNSPEC;
	}
	if (ip.frag_off & bpf_htons(0x1fff) || !served(ip.saddr))
		return TC_ACT_UNSPEC;
	if (ip.protocol == IPPROTO_TCP)
		tcp_out(skb, &ip, scratch);
	else if (ip.protocol == IPPROTO_UDP)
		udp_out(skb, &ip, scratch);
	return TC_ACT_UNSPEC;
}
