// SPDX-License-Identifier: GPL-2.0
/* A value that is copied right into a packet. */
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <kvtree.bpf.h>

#include "packet.h"

char _license[] SEC("license") = "GPL";

struct packet packet;

BPF_KVT_STORE(store);

SEC("tcx/ingress")
int answer(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct {
		struct bpf_kvt_req req;
		char key[8];
	} ask = { { .key_len = 6 }, "answer" };
	struct datagram *d = data;

	if ((void *)(d + 1) > end)
		return TCX_NEXT;
	if (d->eth.h_proto != bpf_htons(ETH_P_IP) || d->ip.protocol != IPPROTO_UDP ||
	    d->udp.dest != packet.port)
		return TCX_NEXT;
	packet.ret = bpf_kvt_get(&store, &ask, sizeof(ask), d->payload, sizeof(d->payload));
	packet.answers++;
	return TCX_NEXT;
}
