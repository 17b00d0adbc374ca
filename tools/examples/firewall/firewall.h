/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What stands in the stores, for the BPF program and for the tool.
 *
 * A rule is one record: "of packets that come from this prefix, those to ports
 * first..last pass, or are dropped".  Its key is
 *
 *	table   network   length of the prefix   first port
 *	1 byte  4 or 16   1                      2
 *
 * all in network byte order, bits of the network beyond the prefix 0.  So rules are
 * in order by table (version of IP and protocol), then by network, then from the
 * shorter to the longer prefix, then by port.  A key of IPv4 has 8 bytes: the index
 * compares it as one machine word.
 *
 * Ranges of one prefix do not overlap.  The last port of a range, and what is to be
 * done, are its value: to change these is one put, which is atomic.
 *
 * The key FW_VERSION is put again after each change of one rule.  The version that
 * the index gave it tells the program whether something changed while it looked.
 */
#ifndef FIREWALL_H
#define FIREWALL_H

#include <linux/types.h>

/* Tables: 0x41 is TCP over IPv4. */
enum {
	FW_IP	= 0,	/* all other protocols, whose number takes the port's place */
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
 * The other store has counters: column 0 packets, column 1 bytes.  The key is that
 * of the rule, or one of these bytes, and then the CPU in 2 bytes: a CPU does not
 * wait for another one to count.
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
