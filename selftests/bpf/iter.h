/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BPF_ITER_H
#define KVT_BPF_ITER_H

/* A request of a test to a program to loop over numeric keys, in the program's .bss. */
struct loop {
	__u32 keys;		/* it or a thread adds keys up to this number, not included */
	__u32 stop;		/* the loop ends after this many records */
	__u32 seen;		/* records */
	__u32 last;		/* the key of the last one, where the next loop continues */
	__s32 err;		/* its status, LOOP_LEFT if it was left */
};

#define LOOP_LEFT	1

#endif /* KVT_BPF_ITER_H */
