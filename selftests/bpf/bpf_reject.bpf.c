// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that must not be loaded, each for one reason.  Those whose names begin
 * with `good` differ from them in that alone, and must.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

char _license[] SEC("license") = "GPL";

const char in_rodata[8] = "constant";
__u64 in_data[8];

SEC("?xdp")
int good_get(struct xdp_md *ctx)
{
	char key[8] = { 0 }, val[8];
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_get(&ref, key, sizeof(key), val, sizeof(val));
}

SEC("?xdp")
int key_longer_than_its_memory(struct xdp_md *ctx)
{
	char key[8] = { 0 }, val[8];
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_get(&ref, key, 512, val, sizeof(val));
}

SEC("?xdp")
int value_longer_than_its_memory(struct xdp_md *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_get(&ref, in_data, 8, in_data, sizeof(in_data) + 1);
}

SEC("?xdp")
int size_without_a_bound(struct xdp_md *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_get(&ref, in_data, *(volatile __u32 *)in_data, in_data, 8);
}

/* Memory that a kfunc gets must be writable. */
SEC("?xdp")
int key_in_constants(struct xdp_md *ctx)
{
	char val[8];
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_get(&ref, in_rodata, sizeof(in_rodata), val, sizeof(val));
}

SEC("?xdp")
int ref_too_small(struct xdp_md *ctx)
{
	return bpf_kvt_exists((void *)&in_data[4], in_data, 8);
}

SEC("?xdp")
int ref_null(struct xdp_md *ctx)
{
	return bpf_kvt_exists(NULL, in_data, 8);
}

SEC("?xdp")
int key_null(struct xdp_md *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_exists(&ref, NULL, 8);
}

SEC("?xdp")
int key_in_packet_not_checked(struct xdp_md *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_exists(&ref, (void *)(long)ctx->data, 8);
}

SEC("?xdp")
int good_key_in_packet(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_kvt_ref ref = { 0 };

	if (data + 8 > end)
		return 0;
	return bpf_kvt_exists(&ref, data, 8);
}

/* Iterators */

SEC("?xdp")
int good_iterator(struct xdp_md *ctx)
{
	const union bpf_kvt_rec *rec;
	int n = 0;
	struct bpf_kvt_ref ref = { 0 };

	bpf_for_each(kvt, rec, &ref, in_data, 8)
		n += rec->key_len;
	return n;
}

SEC("?xdp")
int iterator_not_destroyed(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	return 0;
}

SEC("?xdp")
int iterator_not_made(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;

	return !bpf_iter_kvt_next(&it);
}

SEC("?xdp")
int iterator_after_its_end(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	char key[8];
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	bpf_iter_kvt_destroy(&it);
	return bpf_kvt_iter_key(&it, key, sizeof(key));
}

SEC("?xdp")
int record_may_be_null(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	int ret;
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	ret = bpf_iter_kvt_next(&it)->key_len;
	bpf_iter_kvt_destroy(&it);
	return ret;
}

SEC("?xdp")
int record_is_read_only(struct xdp_md *ctx)
{
	union bpf_kvt_rec *rec;
	struct bpf_iter_kvt it;
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	rec = (union bpf_kvt_rec *)bpf_iter_kvt_next(&it);
	if (rec)
		rec->version = 1;
	bpf_iter_kvt_destroy(&it);
	return 0;
}

SEC("?xdp")
int record_ends(struct xdp_md *ctx)
{
	const union bpf_kvt_rec *rec;
	struct bpf_iter_kvt it;
	int ret = 0;
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	rec = bpf_iter_kvt_next(&it);
	if (rec)
		ret = rec->words[2];
	bpf_iter_kvt_destroy(&it);
	return ret;
}

SEC("?xdp")
int iterator_written_to(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	struct bpf_kvt_ref ref = { 0 };

	bpf_iter_kvt_new(&it, &ref, in_data, 8);
	*(volatile __u64 *)&it = in_data[0];
	bpf_iter_kvt_destroy(&it);
	return 0;
}

SEC("?syscall")
int iterator_without_rcu(void *ctx)
{
	const union bpf_kvt_rec *rec;
	int n = 0;
	struct bpf_kvt_ref ref = { 0 };

	bpf_for_each(kvt, rec, &ref, in_data, 8)
		n += rec->key_len;
	return n;
}

/* Changes, by programs that may run on top of a writer */

#define PUT_IN(section, name)						\
SEC("?" section)							\
int name(void *ctx)							\
{									\
	struct bpf_kvt_ref ref = { 0 };					\
									\
	return bpf_kvt_put(&ref, in_data, 8, in_data, 8) && 0;		\
}

PUT_IN("syscall", good_put_in_syscall)
PUT_IN("kprobe/do_nanosleep", put_in_kprobe)
PUT_IN("tp/syscalls/sys_enter_getpgid", put_in_tracepoint)
PUT_IN("perf_event", put_in_perf_event)
PUT_IN("fentry/bpf_fentry_test1", put_in_fentry)
PUT_IN("lsm/task_getpgid", put_in_lsm)
PUT_IN("cgroup_skb/egress", put_in_cgroup)

SEC("?kprobe/do_nanosleep")
int cas_in_kprobe(void *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_cas(&ref, in_data, 8, in_data, 8);
}

SEC("?kprobe/do_nanosleep")
int add_in_kprobe(void *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_add(&ref, in_data, 8);
}

SEC("?kprobe/do_nanosleep")
int remove_in_kprobe(void *ctx)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_remove(&ref, in_data, 8);
}

/* Nothing is offered to these. */
SEC("?socket")
int get_in_socket_filter(struct __sk_buff *skb)
{
	struct bpf_kvt_ref ref = { 0 };

	return bpf_kvt_exists(&ref, in_data, 8);
}
