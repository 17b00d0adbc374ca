/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs that look keys up share with whoever runs them. */
#ifndef BENCH_BPF_LOOKUP_H
#define BENCH_BPF_LOOKUP_H

#define KEY_MAX		64u
#define KEYS_MAX	(1u << 17)
/* Lookups in a run of a program. */
#define LOOKUPS		64

/* A key to look up, or a prefix: whole ones have the size of the map's keys. */
struct probe {
	__u8 data[KEY_MAX];
};

/* As BPF_MAP_TYPE_LPM_TRIE wants it. */
struct trie_key {
	__u32 bits;
	__u8 data[KEY_MAX];
};

#endif /* BENCH_BPF_LOOKUP_H */
