// SPDX-License-Identifier: GPL-2.0
/*
 * For the other end of a veth pair: it only accepts packets sent by XDP_TX if it has an XDP
 * program.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
