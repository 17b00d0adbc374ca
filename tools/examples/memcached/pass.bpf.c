// SPDX-License-Identifier: GPL-2.0
/*
 * For the other end of a veth pair: with a program there it takes packets that were
 * sent by XDP_TX.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
