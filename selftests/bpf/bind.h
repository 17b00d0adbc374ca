/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BPF_BIND_H
#define KVT_BPF_BIND_H

#define BIND_STORES	2

struct bind {
	__u64 got[BIND_STORES];	/* the key of one store, and of the other */
	__u64 stale;		/* the map was bound to none */
	__u64 wrong;
	__s32 by_copy;
	__s32 by_part;
};

#endif /* KVT_BPF_BIND_H */
