// SPDX-License-Identifier: GPL-2.0
/* Loops over a range that grows as fast as they iterate. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <kvtree.bpf.h>

#include "iter.h"

char _license[] SEC("license") = "GPL";

struct loop loop;

BPF_KVT_STORE(store);

extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

struct ask {
	struct bpf_kvt_req req;
	__be32 number;
	__u32 reserved;
};

#define ASK(n)	((struct ask){ { .key_len = sizeof(__u32) }, bpf_htonl(n) })

static __always_inline int append(__u32 n)
{
	struct ask ask = ASK(n);

	return bpf_kvt_put(&store, &ask, sizeof(ask), &n, sizeof(n));
}

/* Wait until another thread has added it, but not for ever. */
static __always_inline int await(__u32 n)
{
	int i, err = -1;

	bpf_for(i, 0, 1 << 16) {
		struct ask ask = ASK(n);

		err = bpf_kvt_exists(&store, &ask, sizeof(ask));
		if (!err)
			break;
	}
	return err;
}

static __always_inline void go_on(int alone)
{
	struct ask from = ASK(loop.last);
	const union bpf_kvt_rec *rec;
	int err = LOOP_LEFT;
	__be32 key;

	from.req.flags = BPF_KVT_AFTER;
	loop.seen = 0;
	bpf_kvt_for_each(it, rec, err, &store, &from, sizeof(from)) {
		if (bpf_kvt_iter_key(&it, &key, sizeof(key)) != sizeof(key))
			break;
		loop.last = bpf_ntohl(key);
		if (++loop.seen >= loop.stop)
			break;
		if (loop.last + 1 >= loop.keys)
			continue;
		if (alone ? append(loop.last + 1) : await(loop.last + 1))
			break;
	}
	loop.err = err;
}

SEC("xdp")
int extend(struct xdp_md *ctx)
{
	go_on(1);
	return XDP_PASS;
}

SEC("syscall")
int follow(void *ctx)
{
	bpf_rcu_read_lock();
	go_on(0);
	bpf_rcu_read_unlock();
	return 0;
}
