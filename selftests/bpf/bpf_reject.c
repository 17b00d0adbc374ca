// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that the verifier must reject, and loaded programs, which pin the module.
 */
#include <errno.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "reject.h"
#include "bpf_reject.skel.h"

static const struct kvt_reject rejected[] = {
	{ .name = "key_longer_than_its_memory", .why = "leads to invalid memory access" },
	{ .name = "value_longer_than_its_memory", .why = "leads to invalid memory access" },
	{ .name = "size_without_a_bound", .why = "unbounded memory access" },
	{ .name = "key_in_constants", .why = "leads to invalid memory access" },
	{ .name = "request_null", .why = "NULL pointer passed to trusted arg",
	  .why_7 = "requires a non-NULL value" },
	{ .name = "request_in_packet_not_checked", .why = "invalid access to packet" },
	{ .name = "request_in_packet_of_cgroup", .why = "is not allowed" },
	{ .name = "value_in_packet_of_cgroup", .why = "is not allowed" },
	{ .name = "key_in_packet_of_cgroup", .why = "is not allowed" },
	{ .name = "value_in_packet_of_sock_ops", .why = "is not allowed" },
	{ .name = "value_in_a_task", .why = "is not supported",
	  .why_7 = "only read is supported" },
	{ .name = "store_is_a_number", .why = "scalar", .why_7 = "const string" },
	{ .name = "store_null", .why = "NULL pointer passed to trusted arg",
	  .why_7 = "requires a non-NULL value" },
	{ .name = "store_behind_its_map", .why = "invalid access to map value" },
	{ .name = "store_writable", .why = "does not point to a readonly map" },
	{ .name = "store_on_the_stack", .why = "const string" },
	{ .name = "store_looked_up", .why = "does not point to a readonly map" },
	{ .name = "store_is_a_map", .why = "const string" },
	{ .name = "store_is_a_map_of_an_iterator", .why = "const string" },
	{ .name = "store_is_cast", .why = "const string" },
	{ .name = "store_is_cast_by_a_function", .why = "const string",
	  .why_7 = "only read is supported" },
	{ .name = "iterator_not_destroyed", .why = "Unreleased reference" },
	{ .name = "iterator_not_made", .why = "expected an initialized iter_kvt" },
	{ .name = "iterator_after_its_end", .why = "expected an initialized iter_kvt" },
	{ .name = "record_may_be_null", .why = "R0 invalid mem access" },
	{ .name = "record_is_read_only", .why = "cannot write into rdonly_mem" },
	{ .name = "record_ends", .why = "invalid access to memory" },
	{ .name = "iterator_written_to", .why = "expected an initialized iter_kvt" },
	{ .name = "iterator_without_rcu", .why = "expected an RCU CS",
	  .why_7 = "requires RCU critical section" },
	{ .name = "put_in_kprobe", .why = "is not allowed" },
	{ .name = "put_in_tracepoint", .why = "is not allowed" },
	{ .name = "put_in_perf_event", .why = "is not allowed" },
	{ .name = "put_in_fentry", .why = "is not allowed" },
	{ .name = "put_in_lsm", .why = "is not allowed" },
	{ .name = "put_in_cgroup", .why = "is not allowed" },
	{ .name = "cas_in_kprobe", .why = "is not allowed" },
	{ .name = "add_in_kprobe", .why = "is not allowed" },
	{ .name = "remove_in_kprobe", .why = "is not allowed" },
	{ .name = "get_in_socket_filter", .why = "is not allowed" },
};

static const struct kvt_section sections[] = {
	{ .name = "xdp", .type = BPF_PROG_TYPE_XDP, .attach = BPF_XDP },
	{ .name = "syscall", .type = BPF_PROG_TYPE_SYSCALL, .flags = BPF_F_SLEEPABLE },
	{ .name = "kprobe+", .type = BPF_PROG_TYPE_KPROBE },
	{ .name = "tp+", .type = BPF_PROG_TYPE_TRACEPOINT },
	{ .name = "perf_event", .type = BPF_PROG_TYPE_PERF_EVENT },
	{ .name = "fentry+", .type = BPF_PROG_TYPE_TRACING, .attach = BPF_TRACE_FENTRY,
	  .target = "bpf_fentry_test1" },
	{ .name = "iter+", .type = BPF_PROG_TYPE_TRACING, .attach = BPF_TRACE_ITER,
	  .target = "bpf_map" },
	{ .name = "lsm+", .type = BPF_PROG_TYPE_LSM, .attach = BPF_LSM_MAC,
	  .target = "task_getpgid" },
	{ .name = "cgroup_skb/egress", .type = BPF_PROG_TYPE_CGROUP_SKB,
	  .attach = BPF_CGROUP_INET_EGRESS },
	{ .name = "socket", .type = BPF_PROG_TYPE_SOCKET_FILTER },
	{ .name = "tc", .type = BPF_PROG_TYPE_SCHED_CLS },
	{ .name = "sockops", .type = BPF_PROG_TYPE_SOCK_OPS, .attach = BPF_CGROUP_SOCK_OPS },
};

static void show_all(void)
{
	struct bpf_reject *skel;
	struct bpf_program *prog;

	kvt_show_begin(sections, NR(sections));
	skel = bpf_reject__open();
	KVT_CHECK(skel);
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, true);
	if (bpf_reject__load(skel))
		printf("# %s", kvt_bpf_log());
	bpf_reject__destroy(skel);
	kvt_show_end();
}

TEST(what_is_well_formed_is_loaded_and_nothing_else)
{
	unsigned int i;

	show_all();
	EXPECT_TRUE(kvt_accepted("good_get"));
	EXPECT_TRUE(kvt_accepted("good_request_in_packet"));
	EXPECT_TRUE(kvt_accepted("good_request_in_packet_of_tc"));
	EXPECT_TRUE(kvt_accepted("good_get_in_cgroup"));
	EXPECT_TRUE(kvt_accepted("good_post_of_packet_in_cgroup"));
	EXPECT_TRUE(kvt_accepted("good_iterator"));
	EXPECT_TRUE(kvt_accepted("good_put_in_syscall"));
	for (i = 0; i < NR(rejected); i++)
		EXPECT_TRUE(kvt_rejected(&rejected[i]));
}

TEST(the_module_stays_while_a_program_is_loaded)
{
	const char *module = getenv("KVTREE_MODULE");
	struct bpf_reject *skel;

	if (!module)
		SKIP(return, "KVTREE_MODULE does not say where the module is");
	kvt_module_alone();
	kvt_bpf_quiet();
	skel = bpf_reject__open();
	ASSERT_NE(NULL, skel);
	bpf_program__set_autoload(skel->progs.good_get, true);
	ASSERT_EQ(0, bpf_reject__load(skel));
	EXPECT_EQ(-EAGAIN, kvt_module_delete());
	/* It still works. */
	EXPECT_EQ(0, kvt_bpf_run(bpf_program__fd(skel->progs.good_get), 1));
	bpf_reject__destroy(skel);
	kvt_module_reload(module);
}

TEST_HARNESS_MAIN
