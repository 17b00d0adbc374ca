// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups with known answers, while other threads split and empty the nodes around.
 *
 * Keys are big-endian numbers after a prefix; the values are the same numbers.
 * Multiples of STEP are always present, others come and go.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <kvtree.bpf.h>

#include "oracle.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(store);

struct oracle oracle;

struct ask {
	struct bpf_kvt_req req;
	char prefix[4];
	__u32 number;
};

#define KEY_LEN		8

static __always_inline void ask_for(struct ask *ask, __u32 n)
{
	*ask = (struct ask){ { .key_len = KEY_LEN }, "key", bpf_htonl(n) };
}

static __always_inline void judge(int ret, int right)
{
	if (ret == -16 /* EBUSY */)
		__sync_fetch_and_add(&oracle.busy, 1);
	else if (!right)
		__sync_fetch_and_add(&oracle.wrong, 1);
	__sync_fetch_and_add(&oracle.lookups, 1);
}

/* A number that exists is found, with its own value. */
static __always_inline void look_get(__u32 n)
{
	__u32 val = ~0u;
	struct ask ask;
	int ret;

	ask_for(&ask, n);
	ret = bpf_kvt_get(&store, &ask, sizeof(ask), &val, sizeof(val));
	judge(ret, ret == sizeof(val) && val == n && ask.req.version);
}

/* Between two present keys, the key found must lie between them. */
static __always_inline void look_near(__u32 n)
{
	__u32 val = ~0u, found;
	struct ask ask;
	int ret;

	ask_for(&ask, n + 1);
	ret = bpf_kvt_ceil(&store, &ask, sizeof(ask), &val, sizeof(val));
	found = bpf_ntohl(ask.number);
	judge(ret, ret == sizeof(val) && val == found && found > n && found <= n + STEP);
	ask_for(&ask, n + STEP - 1);
	ret = bpf_kvt_floor(&store, &ask, sizeof(ask), &val, sizeof(val));
	found = bpf_ntohl(ask.number);
	judge(ret, ret == sizeof(val) && val == found && found >= n && found < n + STEP);
}

/* A few in a row come in order, and none that exists is left out. */
static __always_inline void look_range(__u32 n)
{
	__u32 next = n, val, seen = 0, key[2];
	const union bpf_kvt_rec *rec;
	int err = 0, right = 1;
	struct ask ask;

	ask_for(&ask, n);
	bpf_kvt_for_each(it, rec, err, &store, &ask, sizeof(ask)) {
		if (seen++ == 2 * STEP)
			break;
		if (bpf_kvt_iter_key(&it, key, sizeof(key)) != KEY_LEN ||
		    bpf_kvt_iter_val(&it, &val, sizeof(val)) != sizeof(val) ||
		    val != bpf_ntohl(key[1]) || val > next) {
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
