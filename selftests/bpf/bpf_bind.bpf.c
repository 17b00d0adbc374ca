// SPDX-License-Identifier: GPL-2.0
/* Programs that use stores through maps that are bound and unbound meanwhile. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <kvtree.bpf.h>

#include "bind.h"

char _license[] SEC("license") = "GPL";

struct bind bind;

BPF_KVT_STORE(store);

/* Another map with the same content. */
BPF_KVT_STORE(copy);

struct ask {
	struct bpf_kvt_req req;
	char key[8];
};

static __always_inline int look(const struct bpf_kvt_store *s, __u32 *val)
{
	struct ask ask = { { .key_len = 1 }, "k" };

	return bpf_kvt_get(s, &ask, sizeof(ask), val, sizeof(*val));
}

SEC("xdp")
int get(struct xdp_md *ctx)
{
	__u32 val = 0;
	int ret;

	ret = look(&store, &val);
	if (ret == -116 /* ESTALE */)
		__sync_fetch_and_add(&bind.stale, 1);
	else if (ret == sizeof(val) && val < BIND_STORES)
		__sync_fetch_and_add(&bind.got[val], 1);
	else
		__sync_fetch_and_add(&bind.wrong, 1);
	return XDP_PASS;
}

SEC("xdp")
int get_by_copy(struct xdp_md *ctx)
{
	__u32 val = 0;

	bind.by_copy = look(&copy, &val);
	bind.by_part = look((void *)&store + 4, &val);
	return XDP_PASS;
}

/* Not loaded but to be refused: it would call kvtree by another program's pointer. */
SEC("?fentry/bpf_kvt_get")
int BPF_PROG(steal, struct bpf_kvt_store *theirs, void *req, __u32 size, void *val, __u32 room)
{
	struct ask ask = { { .key_len = 1 }, "k" };

	return bpf_kvt_post(theirs, &ask, sizeof(ask), &ask, 4) && 0;
}
