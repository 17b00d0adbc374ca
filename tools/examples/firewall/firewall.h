/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of the stores, for the BPF program and for the tool.
 *
 * A rule is one record: "pass, or drop, packets from this prefix to ports first..last".
 * Its key is
 *
 *	table   network   length of the prefix   first port
 *	1 byte  4 or 16   1                      2
 *
 * all in network byte order, with 0 for bits of the network beyond the prefix.  So rules are
 * sorted by table (version of IP and protocol), then by network, then from shorter to longer
 * prefixes, then by port.  A key for IPv4 has 8 bytes, which the index compares as one machine
 * word.
 *
 * Ranges of one prefix do not overlap.  The value is the range's last port and the action:
 * changing these is one put, which is atomic.
 *
 * Each change of a rule is followed by a put of the key FW_VERSION.  The version of this key
 * tells the program whether rules changed during a search.
 */
#ifndef FIREWALL_H
#define FIREWALL_H

#include <linux/types.h>

/* Tables: 0x41 is TCP over IPv4. */
enum {
	FW_IP	= 0,	/* all other protocols; the number takes the port's place */
	FW_TCP	= 1,
	FW_UDP	= 2,
	FW_ICMP	= 3,	/* and ICMPv6; the type takes the port's place */
	FW_PROTOCOLS
};

#define FW_TABLE(ip_version, protocol)	((ip_version) << 4 | (protocol))

struct fw_key4 {
	__u8   table;
	__be32 net;
	__u8   len;
	__be16 first;
} __attribute__((packed));

struct fw_key6 {
	__u8   table;
	__be64 net[2];
	__u8   len;
	__be16 first;
} __attribute__((packed));

union fw_key {
	__u8 table;
	struct fw_key4 v4;
	struct fw_key6 v6;
};

enum {
	FW_DROP	= 0,
	FW_PASS	= 1,
};

struct fw_rule {
	__be16 last;
	__u8   action;		/* FW_DROP or FW_PASS */
	__u8   reserved;
};

/* Greater than the keys of all rules. */
#define FW_VERSION	"version"

/*
 * The other store has counters: packets in column 0, bytes in column 1.  The key is the rule's
 * key, or one of these bytes, followed by the CPU in 2 bytes, so that CPUs count independently.
 */
enum {
	FW_NO_RULE	= 1,	/* no rule matched */
	FW_MALFORMED	= 2,	/* dropped: not a whole packet, or too many headers */
	FW_UNDECIDED	= 3,	/* dropped: the rules could not be read, or changed all along */
};

union fw_counter {
	struct {
		__u8   why;
		__be16 cpu;
	} __attribute__((packed)) other;
	struct {
		struct fw_key4 rule;
		__be16 cpu;
	} __attribute__((packed)) v4;
	struct {
		struct fw_key6 rule;
		__be16 cpu;
	} __attribute__((packed)) v6;
};

#endif /* FIREWALL_H */
