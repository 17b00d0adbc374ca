// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups whose answer is known, while others split and empty the nodes around.
 *
 * Keys are numbers, big end first, behind a prefix; their values are the numbers
 * again.  Multiples of STEP are there throughout, others come and go.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <kvtree.bpf.h>

#include "oracle.h"

char _license[] SEC("license") = "GPL";

const volatile __u64 store;

struct oracle oracle;

struct key {
	char prefix[4];
	__u32 number;
};

static __always_inline void judge(int ret, int right)
{
	if (ret == -16 /* EBUSY */)
		__sync_fetch_and_add(&oracle.busy, 1);
	else if (!right)
		__sync_fetch_and_add(&oracle.wrong, 1);
	__sync_fetch_and_add(&oracle.lookups, 1);
}

/* A number that is there is found, with its own value. */
static __always_inline void look_get(__u32 n)
{
	struct bpf_kvt_ref ref = { .store = store };
	struct key key = { "key", bpf_htonl(n) };
	__u32 val = ~0u;
	int ret;

	ret = bpf_kvt_get(&ref, &key, sizeof(key), &val, sizeof(val));
	judge(ret, ret == sizeof(val) && val == n && ref.version);
}

/* Between two that are there, what is found lies between them. */
static __always_inline void look_near(__u32 n)
{
	struct bpf_kvt_ref ref = { .store = store, .key_len = sizeof(struct key) };
	struct key key = { "key", bpf_htonl(n + 1) };
	__u32 val = ~0u, found;
	int ret;

	ret = bpf_kvt_ceil(&ref, &key, sizeof(key), &val, sizeof(val));
	found = bpf_ntohl(key.number);
	judge(ret, ret == sizeof(val) && val == found && found > n && found <= n + STEP);
	ref.key_len = sizeof(struct key);
	key.number = bpf_htonl(n + STEP - 1);
	ret = bpf_kvt_floor(&ref, &key, sizeof(key), &val, sizeof(val));
	found = bpf_ntohl(key.number);
	judge(ret, ret == sizeof(val) && val == found && found >= n && found < n + STEP);
}

/* A few in a row come in order, and none that is there is left out. */
static __always_inline void look_range(__u32 n)
{
	struct bpf_kvt_ref ref = { .store = store };
	struct key key = { "key", bpf_htonl(n) };
	const union bpf_kvt_rec *rec;
	__u32 next = n, val, seen = 0;
	int err = 0, right = 1;

	bpf_kvt_for_each(it, rec, err, &ref, &key, sizeof(key)) {
		if (seen++ == 2 * STEP)
			break;
		if (bpf_kvt_iter_key(&it, &key, sizeof(key)) != sizeof(key) ||
		    bpf_kvt_iter_val(&it, &val, sizeof(val)) != sizeof(val) ||
		    val != bpf_ntohl(key.number) || val > next) {
			right = 0;
			break;
		}
		if (val == next)
			next += STEP;
	}
	judge(err, right && !err);
}

SEC("xdp")
int look(struct xdp_md *ctx)
{
	__u32 n = bpf_get_prandom_u32() % (KEYS - 1) * STEP;

	look_get(n);
	look_near(n);
	if (n % (8 * STEP) == 0 && n < (KEYS - 4 * STEP) * STEP)
		look_range(n);
	return XDP_PASS;
}
