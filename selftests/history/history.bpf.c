// SPDX-License-Identifier: GPL-2.0
/* Programs that execute operations of a history: one may sleep between them, one may not. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "door.h"

char _license[] SEC("license") = "GPL";

extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

BPF_KVT_STORE(store);

static __always_inline void make_call(struct door_call *call)
{
	struct {
		struct bpf_kvt_req req;
		char key[DOOR_KEY];
	} ask = { {
		.version = call->version,
		.flags = call->flags,
		.key_len = call->key_len,
		.arg = call->arg,
	} };
	/* The verifier wants to see how long it is. */
	int small = call->val_len == 8;

	if (!call->key_len || call->key_len > DOOR_KEY)
		return;
	__builtin_memcpy(ask.key, call->key, DOOR_KEY);
	switch (call->op) {
	case DOOR_GET:
		call->ret = bpf_kvt_get(&store, &ask, sizeof(ask), call->val, DOOR_VAL);
		break;
	case DOOR_PUT:
		call->ret = small ? bpf_kvt_put(&store, &ask, sizeof(ask), call->val, 8) :
				    bpf_kvt_put(&store, &ask, sizeof(ask), call->val, DOOR_VAL);
		break;
	case DOOR_CAS:
		call->ret = small ? bpf_kvt_cas(&store, &ask, sizeof(ask), call->val, 8) :
				    bpf_kvt_cas(&store, &ask, sizeof(ask), call->val, DOOR_VAL);
		break;
	case DOOR_ADD:
		call->ret = bpf_kvt_add(&store, &ask, sizeof(ask));
		break;
	case DOOR_REMOVE:
		call->ret = bpf_kvt_remove(&store, &ask, sizeof(ask));
		break;
	}
	call->version = ask.req.version;
	call->val_len = ask.req.val_len;
	call->arg = ask.req.arg;
}

SEC("syscall")
int in_syscall(struct door_call *ctx)
{
	struct door_call call;

	__builtin_memcpy(&call, ctx, sizeof(call));
	bpf_rcu_read_lock();
	make_call(&call);
	bpf_rcu_read_unlock();
	__builtin_memcpy(ctx, &call, sizeof(call));
	return 0;
}

SEC("xdp")
int in_xdp(struct xdp_md *ctx)
{
	struct door_call call;

	if (bpf_xdp_load_bytes(ctx, 0, &call, sizeof(call)))
		return XDP_DROP;
	make_call(&call);
	return bpf_xdp_store_bytes(ctx, 0, &call, sizeof(call)) ? XDP_DROP : XDP_PASS;
}
