/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the programs that look keys up and their runner. */
#ifndef BENCH_BPF_LOOKUP_H
#define BENCH_BPF_LOOKUP_H

#define KEY_MAX		64u
#define KEYS_MAX	(1u << 17)
/* Lookups in a run of a program. */
#define LOOKUPS		64

/* A key or prefix to look up; whole keys have the size of the map's keys. */
struct probe {
	__u8 data[KEY_MAX];
};

/* The key format of BPF_MAP_TYPE_LPM_TRIE. */
struct trie_key {
	__u32 bits;
	__u8 data[KEY_MAX];
};

#endif /* BENCH_BPF_LOOKUP_H */
