/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BPF_PACKET_H
#define KVT_BPF_PACKET_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define PAYLOAD		8

/* A datagram without options, as it is on the wire. */
struct datagram {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	char payload[PAYLOAD];
} __attribute__((packed));

/* In the program's .bss. */
struct packet {
	__be16 port;		/* which the program answers for */
	__u32 answers;
	__s32 ret;		/* the result of the call */
};

#endif /* KVT_BPF_PACKET_H */
