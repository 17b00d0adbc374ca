// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that look up keys in a hash map, in a trie, and in kvtree.  They are loaded
 * once for each key size; for the verifier, `key_len` is a constant.
 *
 * With the same `seed`, all choose the same keys.  They add up the values found.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "lookup.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(exact_store);
BPF_KVT_STORE(prefix_store);
const volatile __u32 key_len = KEY_MAX;
const volatile __u32 nr_probes = 1;

struct probe exact[KEYS_MAX];	/* keys that are in the hash map */
struct probe covered[KEYS_MAX];	/* keys, most with a prefix in the trie */

__u64 seed;
__u64 found, sum;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, KEY_MAX);
	__uint(value_size, sizeof(__u64));
} hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct trie_key));
	__uint(value_size, sizeof(__u64));
	__uint(map_flags, BPF_F_NO_PREALLOC);
} trie SEC(".maps");

enum what { NOTHING, HASH, GET, NOTHING_PREFIX, TRIE, LPM };

/* Knuth's multiplicative generator: its high bits are random enough. */
static __always_inline __u32 choose(void)
{
	__u32 at;

	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	at = (seed >> 32) * nr_probes >> 32;
	barrier_var(at);
	return at & (KEYS_MAX - 1);
}

static __always_inline void copy_key(__u8 *to, const struct probe *from)
{
	__builtin_memcpy(to, from->data, 8);
	if (key_len >= 16)
		__builtin_memcpy(to + 8, from->data + 8, 8);
	if (key_len >= 64)
		__builtin_memcpy(to + 16, from->data + 16, 48);
}

static __always_inline void add(const __u64 *value)
{
	if (!value)
		return;
	found++;
	sum += *value;
}

static __always_inline void in_hash(const struct probe *probe)
{
	__u8 key[KEY_MAX] = {};

	copy_key(key, probe);
	add(bpf_map_lookup_elem(&hash, key));
}

static __always_inline void in_trie(const struct probe *probe)
{
	struct trie_key key = { .bits = key_len * 8 };

	copy_key(key.data, probe);
	add(bpf_map_lookup_elem(&trie, &key));
}

static __always_inline void in_kvtree(const struct probe *probe, enum what what)
{
	struct {
		struct bpf_kvt_req req;
		__u8 key[KEY_MAX];
	} ask = { .req.key_len = key_len };
	__u64 value;
	int len;

	copy_key(ask.key, probe);
	if (what == GET)
		len = bpf_kvt_get(&exact_store, &ask, sizeof(ask), &value, sizeof(value));
	else
		len = bpf_kvt_lpm(&prefix_store, &ask, sizeof(ask), &value, sizeof(value));
	add(len == sizeof(value) ? &value : 0);
}

/* The common work of all programs, to be subtracted. */
static __always_inline void in_nothing(const struct probe *probe)
{
	__u8 key[KEY_MAX] = {};
	const __u64 *value = (void *)key;

	copy_key(key, probe);
	barrier_var(value);
	add(value);
}

static __always_inline int run(enum what what)
{
	const struct probe *probes = what >= NOTHING_PREFIX ? covered : exact;
	const struct probe *probe;
	int i;

	bpf_for(i, 0, LOOKUPS) {
		probe = &probes[choose()];
		switch (what) {
		case HASH:
			in_hash(probe);
			break;
		case TRIE:
			in_trie(probe);
			break;
		case GET:
		case LPM:
			in_kvtree(probe, what);
			break;
		default:
			in_nothing(probe);
		}
	}
	return XDP_PASS;
}

#define PROGRAM(name, what)		\
	SEC("xdp")			\
	int name(struct xdp_md *ctx)	\
	{				\
		return run(what);	\
	}

PROGRAM(look_nothing, NOTHING)
PROGRAM(look_hash, HASH)
PROGRAM(look_kvtree, GET)
PROGRAM(look_nothing_prefix, NOTHING_PREFIX)
PROGRAM(look_trie, TRIE)
PROGRAM(look_kvtree_prefix, LPM)
