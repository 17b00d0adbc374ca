// SPDX-License-Identifier: GPL-2.0
/*
 * Misbehaving hooks, which must all be refused at load time, and a good one.  Each has
 * a map; the test loads one at a time.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <kvtree.bpf.h>

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} keeps SEC(".maps");

BPF_KVT_STORE(store);

/* Room for a key of 8 bytes. */
struct ask {
	struct bpf_kvt_req req;
	char key[8];
};

#define FILTER(prog)					\
	SEC(".struct_ops.link")				\
	struct bpf_kvt_filter f_##prog = { .match = (void *)prog, .store = "default" }
#define VALIDATOR(prog)					\
	SEC(".struct_ops.link")				\
	struct bpf_kvt_validator v_##prog = { .allow = (void *)prog, .store = "default" }

SEC("struct_ops/good")
int BPF_PROG(good, struct bpf_kvt_record *rec)
{
	struct ask ask = {};
	char val[8];

	if (bpf_kvt_record_key(rec, 0, ask.key, sizeof(ask.key)) < 0)
		return 0;
	return bpf_kvt_get(&store, &ask, sizeof(ask), val, sizeof(val)) >= 0;
}

VALIDATOR(good);

SEC("struct_ops/puts")
int BPF_PROG(puts, struct bpf_kvt_record *rec)
{
	struct ask ask = {};

	return !bpf_kvt_put(&store, &ask, sizeof(ask), ask.key, sizeof(ask.key));
}

VALIDATOR(puts);

SEC("struct_ops/cas")
int BPF_PROG(cas, struct bpf_kvt_record *rec)
{
	struct ask ask = {};

	return !bpf_kvt_cas(&store, &ask, sizeof(ask), ask.key, sizeof(ask.key));
}

VALIDATOR(cas);

SEC("struct_ops/adds")
int BPF_PROG(adds, struct bpf_kvt_record *rec)
{
	struct ask ask = {};

	return !bpf_kvt_add(&store, &ask, sizeof(ask));
}

FILTER(adds);

SEC("struct_ops/removes")
int BPF_PROG(removes, struct bpf_kvt_record *rec)
{
	struct ask ask = {};

	return !bpf_kvt_remove(&store, &ask, sizeof(ask));
}

FILTER(removes);

SEC("struct_ops/posts")
int BPF_PROG(posts, struct bpf_kvt_record *rec)
{
	struct ask ask = {};

	return !bpf_kvt_post(&store, &ask, sizeof(ask), ask.key, sizeof(ask.key));
}

VALIDATOR(posts);

/* As long as a store, for each of its records. */
SEC("struct_ops/iterates")
int BPF_PROG(iterates, struct bpf_kvt_record *rec)
{
	const union bpf_kvt_rec *r;
	struct ask ask = {};
	int err = 0;

	bpf_kvt_for_each(it, r, err, &store, &ask, sizeof(ask))
		;
	return !err;
}

FILTER(iterates);

SEC("struct_ops/writes_to_the_record")
int BPF_PROG(writes_to_the_record, struct bpf_kvt_record *rec)
{
	rec->key_len = 1;
	return 1;
}

VALIDATOR(writes_to_the_record);

SEC("struct_ops/reads_behind_the_record")
int BPF_PROG(reads_behind_the_record, struct bpf_kvt_record *rec)
{
	return *((__u64 *)(rec + 1)) != 0;
}

FILTER(reads_behind_the_record);

SEC("struct_ops/copies_too_much")
int BPF_PROG(copies_too_much, struct bpf_kvt_record *rec)
{
	char key[8];

	return bpf_kvt_record_key(rec, 0, key, sizeof(key) + 1) > 0;
}

FILTER(copies_too_much);

SEC("struct_ops/copies_without_a_bound")
int BPF_PROG(copies_without_a_bound, struct bpf_kvt_record *rec)
{
	char key[8];

	return bpf_kvt_record_key(rec, 0, key, rec->key_len) > 0;
}

VALIDATOR(copies_without_a_bound);

SEC("struct_ops/makes_a_record_up")
int BPF_PROG(makes_a_record_up, struct bpf_kvt_record *rec)
{
	struct bpf_kvt_record own = { .key_len = 8 };
	char key[8];

	return bpf_kvt_record_key(&own, 0, key, sizeof(key)) > 0;
}

FILTER(makes_a_record_up);

SEC("struct_ops/record_plus_8")
int BPF_PROG(record_plus_8, struct bpf_kvt_record *rec)
{
	char key[8];

	return bpf_kvt_record_key((void *)rec + 8, 0, key, sizeof(key)) > 0;
}

FILTER(record_plus_8);

SEC("struct_ops.s/sleeps")
int BPF_PROG(sleeps, struct bpf_kvt_record *rec)
{
	return 1;
}

VALIDATOR(sleeps);

SEC("struct_ops/never_ends")
int BPF_PROG(never_ends, struct bpf_kvt_record *rec)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&keeps, &zero);

	while (n && *n != 1)
		bpf_kvt_record_column_len(rec, 0);
	return 1;
}

FILTER(never_ends);

SEC("xdp")
int record_in_xdp(struct xdp_md *ctx)
{
	return bpf_kvt_record_column_len((void *)0, 0);
}
