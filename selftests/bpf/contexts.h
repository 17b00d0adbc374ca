/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BPF_CONTEXTS_H
#define KVT_BPF_CONTEXTS_H

/* Even keys are always present. */
#define STABLE		2000

/* Where a call came from. */
enum from {
	FROM_HARDIRQ,		/* the CPU's clock */
	FROM_NMI,		/* of a backtrace */
	FROM_PROBE,		/* in the module's own code, by int3: like an NMI */
	FROM_ENTRY,		/* ... at the beginning of a function */
	FROM_NR
};

struct count {
	__u64 calls;		/* that came from there, to look something up */
	__u64 busy;		/* of those, gave up */
	__u64 wrong;		/* of those, had a wrong answer */
	__u64 elsewhere;	/* programs that ran, but not in that context */
	__u64 posts;
};

struct contexts {
	__u32 next;		/* the number that the writer is about to change */
	__u32 writer;		/* its thread */
	struct count from[FROM_NR];
};

#endif /* KVT_BPF_CONTEXTS_H */
