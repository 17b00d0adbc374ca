// SPDX-License-Identifier: GPL-2.0
/*
 * Decide about packets by the rules in a store.
 *
 * The rule that applies belongs to the longest prefix that contains the packet's source
 * and has a range that contains the packet's port.  It is found by lookups of the last
 * key that is not greater than (address, length, port), where address is the source cut
 * to that length, at first the full length.  The record found belongs to one of these:
 *
 * - a prefix of the source: no longer prefix has rules.  If the port is in the record's
 *   range, this is the rule.  If the range begins above the port, another range of the
 *   same prefix may contain it: look up (the prefix, port).  Otherwise the prefix has no
 *   range with this port, and the search continues below the prefix.
 *
 * - another prefix: a prefix of the source before it in the order contains it, too, so
 *   that prefix is no longer than the common part of both addresses.  Look up the source
 *   cut to this length.
 *
 * The length decreases at least with every other lookup.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "firewall.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(rules);			/* for reading */
BPF_KVT_STORE(counts);			/* for reading and writing */

const volatile __u8 no_rule = FW_PASS;	/* action for a packet without a rule */
const volatile bool counting = true;

/* When not counting: why the last packet was decided without a rule, FW_* or 0. */
__u8 reason;

#define STEPS		(2 * 128 + 2)
/* Attempts to decide by rules that do not change meanwhile. */
#define TRIES		8

#define IPV6_HEADERS	8	/* extension headers in a row */
#define VLAN_TAGS	2
#define ENOENT		2

#define IP_MF		0x2000
#define IP_OFFSET	0x1fff
#define IP6_OFFSET	0xfff8

/* A packet's source and destination. */
struct packet {
	__u64 hi, lo;		/* the source; for IPv4 the upper half of hi */
	__u16 port;		/* or the field used instead */
	__u8 version;		/* of IP, 0: another protocol */
	__u8 protocol;		/* FW_* */
};

enum found {
	FOUND_NOTHING,		/* no rule */
	FOUND_RULE,
	FOUND_ERROR,
};

struct verdict {
	enum found found;
	__u8 action;
	union fw_key key;	/* of the rule */
};

struct search {
	struct {
		struct bpf_kvt_req req;
		union fw_key key;	/* key to look up, then the key found */
	} ask;
	struct packet packet;
	enum found found;
	__u8 action;
	__u8 len;
	__u8 below;		/* look for keys below all of this prefix */
};

static __always_inline __u64 high_bits(__u32 n)
{
	return n ? ~0ull << (64 - n) : 0;
}

/* The first n of 128 bits. */
static __always_inline __u64 cut_hi(__u64 hi, __u32 n)
{
	return n >= 64 ? hi : hi & high_bits(n);
}

static __always_inline __u64 cut_lo(__u64 lo, __u32 n)
{
	return n >= 128 ? lo : n <= 64 ? 0 : lo & high_bits(n - 64);
}

/* The number of leading bits that two words have in common. */
static __always_inline __u32 common_bits(__u64 a, __u64 b)
{
	__u64 differ = a ^ b;
	__u32 n = 0;

	if (!differ)
		return 64;
	if (!(differ >> 32)) {
		n += 32;
		differ <<= 32;
	}
	if (!(differ >> 48)) {
		n += 16;
		differ <<= 16;
	}
	if (!(differ >> 56)) {
		n += 8;
		differ <<= 8;
	}
	if (!(differ >> 60)) {
		n += 4;
		differ <<= 4;
	}
	if (!(differ >> 62)) {
		n += 2;
		differ <<= 2;
	}
	return n + !(differ >> 63);
}

static __always_inline void write_key(struct search *s)
{
	const struct packet *p = &s->packet;
	union fw_key *key = &s->ask.key;
	__u64 hi = cut_hi(p->hi, s->len);
	__u16 first = s->below ? 0 : p->port;

	if (p->version == 4) {
		key->v4 = (struct fw_key4) {
			.table = FW_TABLE(4, p->protocol),
			.net = bpf_htonl(hi >> 32), .len = s->len, .first = bpf_htons(first),
		};
		s->ask.req.key_len = sizeof(key->v4);
		return;
	}
	key->v6.table = FW_TABLE(6, p->protocol);
	key->v6.net[0] = bpf_cpu_to_be64(hi);
	key->v6.net[1] = bpf_cpu_to_be64(cut_lo(p->lo, s->len));
	key->v6.len = s->len;
	key->v6.first = bpf_htons(first);
	s->ask.req.key_len = sizeof(key->v6);
}

/* The prefix of the key found: its length, and how much of it matches the source. */
static __always_inline void read_key(const struct search *s, __u32 *len, __u32 *common,
				     __u16 *first)
{
	const struct packet *p = &s->packet;
	const union fw_key *key = &s->ask.key;

	if (p->version == 4) {
		*len = key->v4.len;
		*first = bpf_ntohs(key->v4.first);
		*common = common_bits(p->hi, (__u64)bpf_ntohl(key->v4.net) << 32);
		if (*common > 32)
			*common = 32;
		return;
	}
	*len = key->v6.len;
	*first = bpf_ntohs(key->v6.first);
	*common = common_bits(p->hi, bpf_be64_to_cpu(key->v6.net[0]));
	if (*common == 64)
		*common += common_bits(p->lo, bpf_be64_to_cpu(key->v6.net[1]));
}

/* One lookup.  Returns 1 when the search is over. */
static long step(__u32 index, struct search *s)
{
	__u8 table = FW_TABLE(s->packet.version, s->packet.protocol);
	struct fw_rule rule = { 0 };
	__u32 size, len, common;
	__u16 first;
	int ret;

	write_key(s);
	size = s->ask.req.key_len;
	s->ask.req.flags = s->below ? BPF_KVT_AFTER : 0;
	ret = bpf_kvt_floor(&rules, &s->ask, sizeof(s->ask), &rule, sizeof(rule));
	if (ret == -ENOENT || (ret >= 0 && s->ask.key.table != table)) {
		s->found = FOUND_NOTHING;
		return 1;
	}
	/* Not a rule: leave the packet undecided rather than decide wrongly. */
	if (ret != sizeof(rule) || s->ask.req.key_len != size)
		return 1;
	read_key(s, &len, &common, &first);
	if (common < len) {
		s->len = common;
		s->below = 0;
		return 0;
	}
	if (first <= s->packet.port && s->packet.port <= bpf_ntohs(rule.last)) {
		s->action = rule.action;
		s->found = FOUND_RULE;
		return 1;
	}
	s->len = len;
	s->below = first <= s->packet.port;
	return 0;
}

static __always_inline __u64 rules_version(void)
{
	struct {
		struct bpf_kvt_req req;
		char key[8];
	} ask = { { .key_len = sizeof(FW_VERSION) - 1 }, FW_VERSION };
	int ret;

	ret = bpf_kvt_exists(&rules, &ask, sizeof(ask));
	/* Without any rules there is no version.  Return a new value for every error. */
	return !ret ? ask.req.version : ret == -ENOENT ? 0 : bpf_ktime_get_ns();
}

/*
 * Rules change one record at a time, followed by the version.  If the version is the same
 * before and after the search, at most one record has changed meanwhile, and the search has
 * seen it before or after the change: the packet is decided by the rules of one moment.
 */
static long try_search(__u32 index, struct search *s)
{
	__u64 version = rules_version();

	s->len = s->packet.version == 4 ? 32 : 128;
	s->below = 0;
	s->found = FOUND_ERROR;
	bpf_loop(STEPS, step, s, 0);
	if (s->found != FOUND_ERROR && version == rules_version())
		return 1;
	s->found = FOUND_ERROR;
	return 0;
}

/*
 * This and read_packet() are not static, so that the kernel verifies them once and not for
 * every path on which a packet can reach them.
 */
__noinline int decide(const struct packet *packet, struct verdict *verdict)
{
	struct search s = {};

	if (!packet || !verdict)
		return 0;
	s.packet = *packet;
	bpf_loop(TRIES, try_search, &s, 0);
	verdict->found = s.found;
	verdict->action = s.action;
	verdict->key = s.ask.key;
	return 0;
}

/* The counters to increment, and their key. */
struct counted {
	struct bpf_kvt_req req;
	union fw_counter key;
};

static __always_inline void add(struct counted *c, __u16 col, __u64 n)
{
	c->req.col = col;
	c->req.arg = n;
	/* The store counts failures. */
	bpf_kvt_add(&counts, c, sizeof(*c));
}

static __always_inline void count_packet(struct counted *c, __u32 size, __u64 bytes)
{
	c->req.key_len = size;
	add(c, 0, 1);
	add(c, 1, bytes);
}

static __always_inline void count_other(__u8 why, __u64 bytes)
{
	struct counted c = {};

	c.key.other.why = why;
	c.key.other.cpu = bpf_htons(bpf_get_smp_processor_id());
	count_packet(&c, sizeof(c.key.other), bytes);
}

static __always_inline void count_rule(__u8 version, const union fw_key *key, __u64 bytes)
{
	__u16 cpu = bpf_htons(bpf_get_smp_processor_id());
	struct counted c = {};

	if (version == 4) {
		c.key.v4.rule = key->v4;
		c.key.v4.cpu = cpu;
		count_packet(&c, sizeof(c.key.v4), bytes);
	} else {
		c.key.v6.rule = key->v6;
		c.key.v6.cpu = cpu;
		count_packet(&c, sizeof(c.key.v6), bytes);
	}
}

/*
 * @left: remaining bytes according to IP.  The frame may be longer, but the receiver ignores
 * the rest, so it must not affect the decision.
 */
static __always_inline int read_protocol(struct packet *p, __u8 protocol, void *at, void *end,
					 __u32 left)
{
	__be16 *ports = at;
	__u8 *type = at;

	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		if ((void *)(ports + 2) > end || left < 2 * sizeof(*ports))
			return -1;
		p->protocol = protocol == IPPROTO_TCP ? FW_TCP : FW_UDP;
		p->port = bpf_ntohs(ports[1]);
		return 0;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((void *)(type + 1) > end || !left)
			return -1;
		p->protocol = FW_ICMP;
		p->port = *type;
		return 0;
	default:
		p->protocol = FW_IP;
		p->port = protocol;
		return 0;
	}
}

/*
 * A later fragment has no port: decide by its protocol's number, which also identifies the other
 * fragments of the packet.
 */
static __always_inline int read_ip4(struct packet *p, struct iphdr *ip, void *end)
{
	__u32 size, all;

	if ((void *)(ip + 1) > end)
		return -1;
	size = ip->ihl * 4;
	all = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || size < sizeof(*ip) || all < size)
		return -1;
	p->version = 4;
	p->hi = (__u64)bpf_ntohl(ip->saddr) << 32;
	if (ip->frag_off & bpf_htons(IP_OFFSET)) {
		p->protocol = FW_IP;
		p->port = ip->protocol;
		return 0;
	}
	return read_protocol(p, ip->protocol, (void *)ip + size, end, all - size);
}

static __always_inline int read_ip6(struct packet *p, struct ipv6hdr *ip, void *end)
{
	__u8 next, *at = (void *)(ip + 1);
	__be64 source[2];
	__u32 size, left;
	int i;

	if ((void *)at > end || ip->version != 6)
		return -1;
	left = bpf_ntohs(ip->payload_len);
	__builtin_memcpy(source, &ip->saddr, sizeof(source));
	p->version = 6;
	p->hi = bpf_be64_to_cpu(source[0]);
	p->lo = bpf_be64_to_cpu(source[1]);
	/* A receiver may treat it as IPv4, but rules for IPv4 would not match it. */
	if (!p->hi && p->lo >> 32 == 0xffff)
		return -1;
	next = ip->nexthdr;
	/* Also parse the header after the last extension header. */
	for (i = 0; i <= IPV6_HEADERS; i++) {
		switch (next) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_AH:
		case IPPROTO_FRAGMENT:
			break;
		default:
			return read_protocol(p, next, at, end, left);
		}
		if (i == IPV6_HEADERS || (void *)(at + 8) > end)
			return -1;
		size = next == IPPROTO_FRAGMENT ? 8 :
		       next == IPPROTO_AH ? (at[1] + 2) * 4 : (at[1] + 1) * 8;
		if (size > left)
			return -1;
		left -= size;
		if (next == IPPROTO_FRAGMENT &&
		    *(__be16 *)(at + 2) & bpf_htons(IP6_OFFSET)) {
			/* The protocol is in the first fragment; this field may have any value. */
			p->protocol = FW_IP;
			p->port = IPPROTO_FRAGMENT;
			return 0;
		}
		next = at[0];
		at += size;
	}
	return -1;
}

struct vlan {
	__be16 id;
	__be16 proto;
};

static __always_inline bool is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

__noinline int read_packet(struct xdp_md *ctx, struct packet *p)
{
	void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = at;
	struct vlan *vlan;
	__be16 proto;
	int i;

	if (!p || (void *)(eth + 1) > end)
		return -1;
	proto = eth->h_proto;
	at = eth + 1;
	for (i = 0; i < VLAN_TAGS; i++) {
		if (!is_vlan(proto))
			break;
		vlan = at;
		if ((void *)(vlan + 1) > end)
			return -1;
		proto = vlan->proto;
		at = vlan + 1;
	}
	/* The kernel removes more tags: it must not see what follows them. */
	if (is_vlan(proto))
		return -1;
	if (proto == bpf_htons(ETH_P_IP))
		return read_ip4(p, at, end);
	if (proto == bpf_htons(ETH_P_IPV6))
		return read_ip6(p, at, end);
	return 0;
}

SEC("xdp")
int firewall(struct xdp_md *ctx)
{
	__u64 bytes = ctx->data_end - ctx->data;
	struct verdict verdict = {};
	struct packet packet = {};
	__u8 action = FW_DROP;
	__u8 why = 0;

	if (read_packet(ctx, &packet)) {
		why = FW_MALFORMED;
		goto count;
	}
	if (!packet.version)
		return XDP_PASS;
	decide(&packet, &verdict);
	if (verdict.found == FOUND_RULE) {
		action = verdict.action;
	} else if (verdict.found == FOUND_NOTHING) {
		why = FW_NO_RULE;
		action = no_rule;
	} else {
		why = FW_UNDECIDED;
	}
count:
	if (!counting)
		reason = why;
	else if (why)
		count_other(why, bytes);
	else
		count_rule(packet.version, &verdict.key, bytes);
	return action == FW_PASS ? XDP_PASS : XDP_DROP;
}
