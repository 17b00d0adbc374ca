// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that programs may read, but not write.
 *
 * Most kfuncs write to memory of the program: a version, a key or a value.  For a pointer to a
 * packet the verifier checks only the bounds, not whether the program's type may write there
 * (check_kfunc_mem_size_reg(), in 7.3 check_mem_size_reg(), which end in check_packet_access()).
 * Programs at cgroups and of sockets see packets of others, which they may only read.
 *
 * The verifier asks a module about a program and a kfunc before it looks at the arguments, and
 * does not pass these.  But the program gets the packet's beginning and end only from its context,
 * the verifier accepts no other offsets into that than those of the two fields, and it accepts no
 * pointer to a packet that was not compared with the end.  So a program that lacks one of these
 * instructions passes no packet.  (Unless a global function gets it from another program: that may
 * write to it without any kfunc.)
 *
 * Other programs: packets of XDP are the program's own.  Those of tc may be shared, and are copied
 * if the verifier has seen the program write; kvtree.bpf.h shows it such a write.  The options of
 * cgroup/setsockopt are a copy, which the program may change.
 */
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/errno.h>
#include <linux/filter.h>
#include <linux/stddef.h>

#include "bpf.h"
#include "compat.h"

static bool prog_loads(const struct bpf_prog *prog, u8 size, s16 off)
{
	const struct bpf_insn *insn = prog->insnsi;
	u32 i;

	for (i = 0; i < prog->len; i++)
		if (BPF_CLASS(insn[i].code) == BPF_LDX && BPF_SIZE(insn[i].code) == size &&
		    insn[i].off == off)
			return true;
	return false;
}

/* Whether a program may have packets that it must not write.  @has: it has pointers to them. */
static bool prog_only_reads(const struct bpf_prog *prog, bool *has)
{
	switch (resolve_prog_type(prog)) {
	case BPF_PROG_TYPE_CGROUP_SKB:
		*has = prog_loads(prog, BPF_W, offsetof(struct __sk_buff, data)) &&
		       prog_loads(prog, BPF_W, offsetof(struct __sk_buff, data_end));
		return true;
	case BPF_PROG_TYPE_SOCK_OPS:
		*has = prog_loads(prog, BPF_DW, offsetof(struct bpf_sock_ops, skb_data)) &&
		       prog_loads(prog, BPF_DW, offsetof(struct bpf_sock_ops, skb_data_end));
		return true;
	default:
		return false;
	}
}

/**
 * kvt_bpf_refuse_packets() - whether a program might have a kfunc write to a packet
 * @prog: the program, before the verifier changes it
 * @kfunc_id: any kfunc that writes to the program's memory
 *
 * Context: called by the verifier, as the filter of a set of kfuncs.
 *
 * Return: 0, or -EACCES: the program may not write to its packets, and has pointers to them.
 */
int kvt_bpf_refuse_packets(const struct bpf_prog *prog, u32 kfunc_id)
{
	bool has;

	return prog_only_reads(prog, &has) && has ? -EACCES : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_bpf_refuse_packets);

/**
 * kvt_bpf_only_with_packets() - whether a program may have packets that it only reads
 * @prog: the program
 * @kfunc_id: any kfunc that writes nothing
 *
 * Context: called by the verifier, as the filter of a set of kfuncs.
 *
 * Return: 0, or -EACCES: kvt_bpf_refuse_packets() refuses the program nothing.
 */
int kvt_bpf_only_with_packets(const struct bpf_prog *prog, u32 kfunc_id)
{
	bool has;

	return prog_only_reads(prog, &has) ? 0 : -EACCES;
}
