/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BPF_ORACLE_H
#define KVT_BPF_ORACLE_H

/* The number of keys that are always present, and their distance. */
#define KEYS	1000
#define STEP	64

struct oracle {
	__u64 lookups;
	__u64 busy;
	__u64 wrong;
};

#endif /* KVT_BPF_ORACLE_H */
