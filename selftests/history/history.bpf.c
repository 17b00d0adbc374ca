// SPDX-License-Identifier: GPL-2.0
/* Operations of a history, made by programs: one that may sleep between them, one that may not. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "door.h"

char _license[] SEC("license") = "GPL";

extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

const volatile __u64 store;

static __always_inline void make_call(struct door_call *call)
{
	struct bpf_kvt_ref ref = {
		.store = store,
		.version = call->version,
		.flags = call->flags,
		.key_len = call->key_len,
		.arg = call->arg,
	};
	__u32 key_len = call->key_len;
	/* The verifier wants to see how long it is. */
	int small = call->val_len == 8;

	barrier_var(key_len);
	if (!key_len || key_len > DOOR_KEY)
		return;
	switch (call->op) {
	case DOOR_GET:
		call->ret = bpf_kvt_get(&ref, call->key, key_len, call->val, DOOR_VAL);
		break;
	case DOOR_PUT:
		call->ret = small ? bpf_kvt_put(&ref, call->key, key_len, call->val, 8) :
				    bpf_kvt_put(&ref, call->key, key_len, call->val, DOOR_VAL);
		break;
	case DOOR_CAS:
		call->ret = small ? bpf_kvt_cas(&ref, call->key, key_len, call->val, 8) :
				    bpf_kvt_cas(&ref, call->key, key_len, call->val, DOOR_VAL);
		break;
	case DOOR_ADD:
		call->ret = bpf_kvt_add(&ref, call->key, key_len);
		break;
	case DOOR_REMOVE:
		call->ret = bpf_kvt_remove(&ref, call->key, key_len);
		break;
	}
	call->version = ref.version;
	call->val_len = ref.val_len;
	call->arg = ref.arg;
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
