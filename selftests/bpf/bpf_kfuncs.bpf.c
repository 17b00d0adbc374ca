// SPDX-License-Identifier: GPL-2.0
/* A program of each type, which makes the call described in `call`. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

#include "call.h"

char _license[] SEC("license") = "GPL";

struct call call;

BPF_KVT_STORE(to_read);
BPF_KVT_STORE(to_write);
BPF_KVT_STORE(to_both);
BPF_KVT_STORE(to_other);

/* A program that may sleep says when it reads what RCU protects. */
extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

static __always_inline int iterate(const struct bpf_kvt_store *store, __u32 size)
{
	const union bpf_kvt_rec *rec;
	__u32 n = 0, at;
	int err = 0;

	bpf_kvt_for_each(it, rec, err, store, &call.req, size) {
		at = n++;
		if (at >= CALL_SLOTS)
			break;
		if (bpf_kvt_iter_key(&it, &call.val[at * CALL_SLOT], CALL_SLOT) !=
		    (int)rec->key_len)
			return -1000;
	}
	return err ?: n;
}

static __always_inline void read_or_post(const struct bpf_kvt_store *store, __u32 size,
					 __u32 val_size)
{
	switch (call.op) {
	case CALL_GET:
		call.ret = bpf_kvt_get(store, &call.req, size, call.val, val_size);
		break;
	case CALL_EXISTS:
		call.ret = bpf_kvt_exists(store, &call.req, size);
		break;
	case CALL_CEIL:
		call.ret = bpf_kvt_ceil(store, &call.req, size, call.val, val_size);
		break;
	case CALL_FLOOR:
		call.ret = bpf_kvt_floor(store, &call.req, size, call.val, val_size);
		break;
	case CALL_LPM:
		call.ret = bpf_kvt_lpm(store, &call.req, size, call.val, val_size);
		break;
	case CALL_ITER:
		call.ret = iterate(store, size);
		break;
	case CALL_POST:
		call.ret = bpf_kvt_post(store, &call.req, size, call.val, val_size);
		break;
	}
}

static __always_inline void change(const struct bpf_kvt_store *store, __u32 size, __u32 val_size)
{
	switch (call.op) {
	case CALL_PUT:
		call.ret = bpf_kvt_put(store, &call.req, size, call.val, val_size);
		break;
	case CALL_CAS:
		call.ret = bpf_kvt_cas(store, &call.req, size, call.val, val_size);
		break;
	case CALL_ADD:
		call.ret = bpf_kvt_add(store, &call.req, size);
		break;
	case CALL_REMOVE:
		call.ret = bpf_kvt_remove(store, &call.req, size);
		break;
	}
}

static __always_inline const struct bpf_kvt_store *store_called(void)
{
	switch (call.map) {
	case CALL_READ:
		return &to_read;
	case CALL_WRITE:
		return &to_write;
	case CALL_BOTH:
		return &to_both;
	default:
		return &to_other;
	}
}

/* The verifier wants to see the sizes' bounds. */
static __always_inline void make_call(int may_change)
{
	__u32 key_size = call.key_size, val_size = call.val_size;
	const struct bpf_kvt_store *store = store_called();

	barrier_var(key_size);
	barrier_var(val_size);
	if (key_size > CALL_KEY || val_size > CALL_VAL)
		return;
	read_or_post(store, sizeof(call.req) + key_size, val_size);
	if (may_change)
		change(store, sizeof(call.req) + key_size, val_size);
	call.done++;
}

static __always_inline void traced(void)
{
	if (!call.pid || bpf_get_current_pid_tgid() >> 32 != call.pid)
		return;
	call.pid = 0;
	make_call(0);
}

SEC("xdp")
int in_xdp(struct xdp_md *ctx)
{
	make_call(1);
	return XDP_PASS;
}

SEC("tc")
int in_tc(struct __sk_buff *skb)
{
	make_call(1);
	return 0;
}

SEC("action")
int in_action(struct __sk_buff *skb)
{
	make_call(1);
	return 0;
}

SEC("syscall")
int in_syscall(void *ctx)
{
	bpf_rcu_read_lock();
	make_call(1);
	bpf_rcu_read_unlock();
	return 0;
}

SEC("cgroup_skb/egress")
int in_cgroup(struct __sk_buff *skb)
{
	make_call(0);
	return 1;
}

SEC("fentry/bpf_fentry_test1")
int in_fentry(void *ctx)
{
	traced();
	return 0;
}

SEC("fentry.s/bpf_fentry_test1")
int in_fentry_sleepable(void *ctx)
{
	bpf_rcu_read_lock();
	traced();
	bpf_rcu_read_unlock();
	return 0;
}

SEC("kprobe/__x64_sys_getpgid")
int in_kprobe(void *ctx)
{
	traced();
	return 0;
}

SEC("tp/syscalls/sys_enter_getpgid")
int in_tracepoint(void *ctx)
{
	traced();
	return 0;
}

SEC("lsm/task_getpgid")
int in_lsm(void *ctx)
{
	traced();
	return 0;
}

SEC("perf_event")
int in_perf_event(void *ctx)
{
	traced();
	return 0;
}
