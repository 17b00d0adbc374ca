// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that must be rejected, each for one reason.  Those named `good...` lack
 * only that reason and must load.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <kvtree.bpf.h>

char _license[] SEC("license") = "GPL";

const char in_rodata[8] = "constant";
__u64 in_data[8];

BPF_KVT_STORE(store);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__type(value, struct bpf_kvt_store);
} some_map SEC(".maps");

/* The used parts of the kernel's declarations. */
struct bpf_map {
	__u32 id;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_map {
	void *meta;
	struct bpf_map *map;
};

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* In a map that a program may write to. */
struct bpf_kvt_store writable __attribute__((section(".data.writable")));

/* Room for a key of 8 bytes. */
struct ask {
	struct bpf_kvt_req req;
	char key[8];
};

SEC("?xdp")
int good_get(struct xdp_md *ctx)
{
	struct ask ask = {};
	char val[8];

	return bpf_kvt_get(&store, &ask, sizeof(ask), val, sizeof(val));
}

SEC("?xdp")
int key_longer_than_its_memory(struct xdp_md *ctx)
{
	struct ask ask = {};
	char val[8];

	return bpf_kvt_get(&store, &ask, 512, val, sizeof(val));
}

SEC("?xdp")
int value_longer_than_its_memory(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_get(&store, &ask, sizeof(ask), in_data, sizeof(in_data) + 1);
}

SEC("?xdp")
int size_without_a_bound(struct xdp_md *ctx)
{
	return bpf_kvt_get(&store, in_data, *(volatile __u32 *)in_data, in_data, 8);
}

/* Memory that a kfunc gets must be writable. */
SEC("?xdp")
int key_in_constants(struct xdp_md *ctx)
{
	char val[8];

	return bpf_kvt_get(&store, (void *)in_rodata, sizeof(in_rodata), val, sizeof(val));
}

SEC("?xdp")
int request_null(struct xdp_md *ctx)
{
	return bpf_kvt_exists(&store, NULL, 8);
}

SEC("?xdp")
int request_in_packet_not_checked(struct xdp_md *ctx)
{
	return bpf_kvt_exists(&store, (void *)(long)ctx->data, 8);
}

SEC("?xdp")
int good_request_in_packet(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 8 > end)
		return 0;
	return bpf_kvt_exists(&store, data, 8);
}

/* Packets that are only read */

struct packet {
	char bytes[64];
};

#define FITS(packet, end)	((void *)((packet) + 1) <= (void *)(long)(end))

SEC("?tc")
int good_request_in_packet_of_tc(struct __sk_buff *skb)
{
	struct packet *packet = (void *)(long)skb->data;

	if (!FITS(packet, skb->data_end))
		return 0;
	return bpf_kvt_exists(&store, packet, sizeof(*packet)) && 0;
}

SEC("?cgroup_skb/egress")
int request_in_packet_of_cgroup(struct __sk_buff *skb)
{
	struct packet *packet = (void *)(long)skb->data;

	if (!FITS(packet, skb->data_end))
		return 0;
	return bpf_kvt_exists(&store, packet, sizeof(*packet)) && 0;
}

/* As a program calls it that does not use the header, which would show the write. */
SEC("?cgroup_skb/egress")
int value_in_packet_of_cgroup(struct __sk_buff *skb)
{
	struct packet *packet = (void *)(long)skb->data;
	struct ask ask = {};

	if (!FITS(packet, skb->data_end))
		return 0;
	return (bpf_kvt_get)(&store, &ask, sizeof(ask), packet, sizeof(*packet)) && 0;
}

SEC("?cgroup_skb/egress")
int key_in_packet_of_cgroup(struct __sk_buff *skb)
{
	struct packet *packet = (void *)(long)skb->data;
	const union bpf_kvt_rec *rec;
	struct ask ask = {};
	int err = 0;

	if (!FITS(packet, skb->data_end))
		return 0;
	bpf_kvt_for_each(it, rec, err, &store, &ask, sizeof(ask))
		(bpf_kvt_iter_key)(&it, packet, sizeof(*packet));
	return err && 0;
}

SEC("?sockops")
int value_in_packet_of_sock_ops(struct bpf_sock_ops *ops)
{
	struct packet *packet = (void *)(long)ops->skb_data;
	struct ask ask = {};

	if (!FITS(packet, ops->skb_data_end))
		return 0;
	return (bpf_kvt_get)(&store, &ask, sizeof(ask), packet, sizeof(*packet)) && 0;
}

/* Without a pointer to the packet. */
SEC("?cgroup_skb/egress")
int good_get_in_cgroup(struct __sk_buff *skb)
{
	struct ask ask = {};
	char val[8];

	if (bpf_skb_load_bytes(skb, 0, ask.key, sizeof(ask.key)))
		return 0;
	return bpf_kvt_get(&store, &ask, sizeof(ask), val, sizeof(val)) && 0;
}

/* It is only read. */
SEC("?cgroup_skb/egress")
int good_post_of_packet_in_cgroup(struct __sk_buff *skb)
{
	struct packet *packet = (void *)(long)skb->data;
	struct ask ask = {};

	if (!FITS(packet, skb->data_end))
		return 0;
	return bpf_kvt_post(&store, &ask, sizeof(ask), packet, sizeof(*packet)) && 0;
}

/* Nor does a call write to a structure of the kernel. */
SEC("?fentry/bpf_fentry_test1")
int value_in_a_task(__u64 *ctx)
{
	struct ask ask = {};

	return bpf_kvt_get(&store, &ask, sizeof(ask), bpf_get_current_task_btf(), 8) && 0;
}

/* Stores */

/* A number, wherever it was read. */
SEC("?xdp")
int store_is_a_number(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_exists((void *)in_data[0], &ask, sizeof(ask));
}

SEC("?xdp")
int store_null(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_exists(NULL, &ask, sizeof(ask));
}

SEC("?xdp")
int store_behind_its_map(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_exists(&store + 1, &ask, sizeof(ask));
}

SEC("?xdp")
int store_writable(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_exists(&writable, &ask, sizeof(ask));
}

SEC("?xdp")
int store_on_the_stack(struct xdp_md *ctx)
{
	struct bpf_kvt_store copy = {};
	struct ask ask = {};

	return bpf_kvt_exists(&copy, &ask, sizeof(ask));
}

/* The map may be frozen later. */
SEC("?xdp")
int store_looked_up(struct xdp_md *ctx)
{
	struct bpf_kvt_store *found;
	struct ask ask = {};
	__u32 zero = 0;

	found = bpf_map_lookup_elem(&some_map, &zero);
	return found ? bpf_kvt_exists(found, &ask, sizeof(ask)) : 0;
}

/* A map is not its value, even the right one. */
SEC("?xdp")
int store_is_a_map(struct xdp_md *ctx)
{
	struct ask ask = {};

	return bpf_kvt_exists((void *)&some_map, &ask, sizeof(ask));
}

/* Every map of the machine, one after the other, as a pointer that the kernel trusts. */
SEC("?iter/bpf_map")
int store_is_a_map_of_an_iterator(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;
	struct ask ask = {};

	if (map)
		bpf_kvt_post((void *)map, &ask, sizeof(ask), in_data, 0);
	return 0;
}

/* What another program calls kvtree with, or what was found in the kernel's memory. */
SEC("?fentry/bpf_fentry_test1")
int store_is_cast(__u64 *ctx)
{
	struct ask ask = {};
	void *found = bpf_rdonly_cast((void *)in_data[0], bpf_core_type_id_kernel(struct bpf_map));

	return bpf_kvt_post(found, &ask, sizeof(ask), in_data, 0) && 0;
}

/* What a function that others may call takes for memory; it is verified by itself. */
__noinline int post_to(struct bpf_kvt_store *found)
{
	struct ask ask = {};

	return found ? bpf_kvt_post(found, &ask, sizeof(ask), in_data, 0) && 0 : 0;
}

/* On 6.12 the verifier forgets on the way there that the pointer is only for reading. */
SEC("?fentry/bpf_fentry_test1")
int store_is_cast_by_a_function(__u64 *ctx)
{
	return post_to(bpf_rdonly_cast((void *)in_data[0],
				       bpf_core_type_id_kernel(struct bpf_map)));
}

/* Iterators */

SEC("?xdp")
int good_iterator(struct xdp_md *ctx)
{
	const union bpf_kvt_rec *rec;
	int n = 0;
	struct ask ask = {};

	bpf_for_each(kvt, rec, &store, &ask, sizeof(ask))
		n += rec->key_len;
	return n;
}

SEC("?xdp")
int iterator_not_destroyed(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
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
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
	bpf_iter_kvt_destroy(&it);
	return bpf_kvt_iter_key(&it, key, sizeof(key));
}

SEC("?xdp")
int record_may_be_null(struct xdp_md *ctx)
{
	struct bpf_iter_kvt it;
	int ret;
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
	ret = bpf_iter_kvt_next(&it)->key_len;
	bpf_iter_kvt_destroy(&it);
	return ret;
}

SEC("?xdp")
int record_is_read_only(struct xdp_md *ctx)
{
	union bpf_kvt_rec *rec;
	struct bpf_iter_kvt it;
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
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
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
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
	struct ask ask = {};

	bpf_iter_kvt_new(&it, &store, &ask, sizeof(ask));
	*(volatile __u64 *)&it = in_data[0];
	bpf_iter_kvt_destroy(&it);
	return 0;
}

SEC("?syscall")
int iterator_without_rcu(void *ctx)
{
	const union bpf_kvt_rec *rec;
	int n = 0;
	struct ask ask = {};

	bpf_for_each(kvt, rec, &store, &ask, sizeof(ask))
		n += rec->key_len;
	return n;
}

/* Changes, by programs that may run on top of a writer */

#define PUT_IN(section, name)						\
SEC("?" section)							\
int name(void *ctx)							\
{									\
	struct ask ask = {};						\
									\
	return bpf_kvt_put(&store, &ask, sizeof(ask), in_data, 8) && 0;		\
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
	struct ask ask = {};

	return bpf_kvt_cas(&store, &ask, sizeof(ask), in_data, 8);
}

SEC("?kprobe/do_nanosleep")
int add_in_kprobe(void *ctx)
{
	struct ask ask = {};

	return bpf_kvt_add(&store, &ask, sizeof(ask));
}

SEC("?kprobe/do_nanosleep")
int remove_in_kprobe(void *ctx)
{
	struct ask ask = {};

	return bpf_kvt_remove(&store, &ask, sizeof(ask));
}

/* Nothing is offered to these. */
SEC("?socket")
int get_in_socket_filter(struct __sk_buff *skb)
{
	struct ask ask = {};

	return bpf_kvt_exists(&store, &ask, sizeof(ask));
}
