// SPDX-License-Identifier: GPL-2.0
/* Lookups in every context that can interrupt a writer. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <kvtree.bpf.h>

#include "contexts.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(store);
BPF_KVT_STORE(sums);		/* another store, for posts */

struct contexts contexts;

/* The CPU's preempt count: a field before 6.15, a variable of its own since. */
struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

extern const struct pcpu_hot pcpu_hot __ksym __weak;
extern const int __preempt_count __ksym __weak;

/* Parts of the count. */
const volatile __u32 hardirq_mask;
const volatile __u32 nmi_mask;

static __always_inline __u32 preempt_count(void)
{
	if (bpf_ksym_exists(&pcpu_hot))
		return ((const struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	if (bpf_ksym_exists(&__preempt_count))
		return *(const int *)bpf_this_cpu_ptr(&__preempt_count);
	return 0;
}

static __always_inline void judge(struct count *count, int ret, int right)
{
	__sync_fetch_and_add(&count->calls, 1);
	if (ret == -16 /* EBUSY */)
		__sync_fetch_and_add(&count->busy, 1);
	else if (!right)
		__sync_fetch_and_add(&count->wrong, 1);
}

/* The even number next to the one being changed: mostly in the same leaf. */
static __always_inline void look(struct count *count)
{
	__u32 n = contexts.next & ~1u, val = ~0u;
	struct {
		struct bpf_kvt_req req;
		__u32 key[2];
	} ask = { { .key_len = 4 }, { bpf_htonl(n) } };
	int ret;

	ret = bpf_kvt_get(&store, &ask, sizeof(ask), &val, sizeof(val));
	judge(count, ret, ret == sizeof(val) && val == n);
	ret = bpf_kvt_ceil(&store, &ask, sizeof(ask), &val, sizeof(val));
	judge(count, ret, ret == sizeof(val) && val == n);
}

/* How often each of them ran is known in two ways. */
static __always_inline void post(struct count *count, char name)
{
	struct {
		struct bpf_kvt_req req;
		char key[8];
	} ask = { { .flags = BPF_KVT_POST_ADD, .arg = 1, .key_len = 1 }, { name } };

	if (!bpf_kvt_post(&sums, &ask, sizeof(ask), &name, 0))
		__sync_fetch_and_add(&count->posts, 1);
}

SEC("perf_event")
int on_clock(void *ctx)
{
	struct count *count = &contexts.from[FROM_HARDIRQ];

	if (!(preempt_count() & hardirq_mask)) {
		__sync_fetch_and_add(&count->elsewhere, 1);
		return 0;
	}
	look(count);
	post(count, 'h');
	return 0;
}

SEC("fentry/show_regs")
int on_backtrace(void *ctx)
{
	struct count *count = &contexts.from[FROM_NMI];

	if (!(preempt_count() & nmi_mask)) {
		__sync_fetch_and_add(&count->elsewhere, 1);
		return 0;
	}
	look(count);
	post(count, 'n');
	return 0;
}

/*
 * Attached to many places.  Only the writer runs it: for the worker that executes posts,
 * each post would cause another.
 */
SEC("kprobe")
int on_probe(void *ctx)
{
	struct count *count = &contexts.from[FROM_PROBE];

	if ((__u32)bpf_get_current_pid_tgid() != contexts.writer)
		return 0;
	if (!(preempt_count() & nmi_mask))
		count = &contexts.from[FROM_ENTRY];
	look(count);
	post(count, 'p');
	return 0;
}
