// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that the verifier must reject, and what keeps the module while others
 * are loaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "bpf_reject.skel.h"

/* What the verifier must say, so that a program is not rejected for another reason. */
static const struct {
	const char *name;
	const char *why;
	const char *why_7;	/* in the words of 7.x, if these are others */
} rejected[] = {
	{ "key_longer_than_its_memory", "leads to invalid memory access" },
	{ "value_longer_than_its_memory", "leads to invalid memory access" },
	{ "size_without_a_bound", "unbounded memory access" },
	{ "key_in_constants", "leads to invalid memory access" },
	{ "ref_too_small", "invalid access to map value" },
	{ "ref_null", "NULL pointer passed to trusted arg", "requires a non-NULL value" },
	{ "key_null", "NULL pointer passed to trusted arg", "requires a non-NULL value" },
	{ "key_in_packet_not_checked", "invalid access to packet" },
	{ "iterator_not_destroyed", "Unreleased reference" },
	{ "iterator_not_made", "expected an initialized iter_kvt" },
	{ "iterator_after_its_end", "expected an initialized iter_kvt" },
	{ "record_may_be_null", "R0 invalid mem access" },
	{ "record_is_read_only", "cannot write into rdonly_mem" },
	{ "record_ends", "invalid access to memory" },
	{ "iterator_written_to", "expected an initialized iter_kvt" },
	{ "iterator_without_rcu", "expected an RCU CS", "requires RCU critical section" },
	{ "put_in_kprobe", "is not allowed" },
	{ "put_in_tracepoint", "is not allowed" },
	{ "put_in_perf_event", "is not allowed" },
	{ "put_in_fentry", "is not allowed" },
	{ "put_in_lsm", "is not allowed" },
	{ "put_in_cgroup", "is not allowed" },
	{ "cas_in_kprobe", "is not allowed" },
	{ "add_in_kprobe", "is not allowed" },
	{ "remove_in_kprobe", "is not allowed" },
	{ "get_in_socket_filter", "is not allowed" },
};

/* Load one program alone: 0 or an errno. */
static int load(const char *name)
{
	struct bpf_reject *skel = bpf_reject__open();
	struct bpf_program *prog;
	int err;

	KVT_CHECK(skel);
	prog = bpf_object__find_program_by_name(skel->obj, name);
	KVT_CHECK(prog);
	bpf_program__set_autoload(prog, true);
	kvt_bpf_quiet();
	err = bpf_reject__load(skel);
	bpf_reject__destroy(skel);
	return err;
}

TEST(what_is_well_formed_is_loaded)
{
	kvt_bpf_quiet();
	EXPECT_EQ(0, load("good_get")) {
		TH_LOG("%s", kvt_bpf_log());
	}
	EXPECT_EQ(0, load("good_key_in_packet"));
	EXPECT_EQ(0, load("good_iterator"));
	EXPECT_EQ(0, load("good_put_in_syscall"));
}

/* Whether the verifier gave a reason. */
static bool says(const char *why)
{
	return why && strstr(kvt_bpf_log(), why);
}

/* For each of them the library reads the kernel's types, which takes seconds here. */
static void refuse(struct __test_metadata *_metadata, unsigned int from, unsigned int to)
{
	unsigned int i;
	int err;

	for (i = from; i < to; i++) {
		err = load(rejected[i].name);
		EXPECT_GT(0, err) {
			TH_LOG("%s was loaded", rejected[i].name);
		}
		EXPECT_TRUE(says(rejected[i].why) || says(rejected[i].why_7)) {
			TH_LOG("%s: %s", rejected[i].name, kvt_bpf_log());
		}
	}
}

TEST(wrong_memory_is_refused)
{
	refuse(_metadata, 0, 8);
}

TEST(wrong_use_of_iterators_is_refused)
{
	refuse(_metadata, 8, 16);
}

TEST(changes_by_who_may_run_on_top_of_a_writer_are_refused)
{
	refuse(_metadata, 16, NR(rejected));
}

/*
 * The module stays as long as there are programs
 */
static int module_delete(void)
{
	return syscall(SYS_delete_module, "kvtree", O_NONBLOCK) ? -errno : 0;
}

static bool device_there(void *arg)
{
	struct stat st;

	return !stat(KVT_DEV, &st);
}

TEST(the_module_stays_while_a_program_is_loaded)
{
	const char *module = getenv("KVTREE_MODULE");
	struct bpf_reject *skel;
	int fd;

	if (!module)
		SKIP(return, "KVTREE_MODULE does not say where the module is");
	kvt_bpf_quiet();
	skel = bpf_reject__open();
	ASSERT_NE(NULL, skel);
	bpf_program__set_autoload(skel->progs.good_get, true);
	ASSERT_EQ(0, bpf_reject__load(skel));
	EXPECT_EQ(-EAGAIN, module_delete());
	/* It still works. */
	EXPECT_EQ(0, kvt_bpf_run(bpf_program__fd(skel->progs.good_get), 1));
	bpf_reject__destroy(skel);
	/* Programs are freed a little later. */
	for (fd = 0; module_delete() && fd < 500; fd++)
		kvt_sleep_ms(20);
	EXPECT_LT(fd, 500);
	fd = open(module, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, syscall(SYS_finit_module, fd, "", 0));
	close(fd);
	EXPECT_TRUE(kvt_eventually(device_there, NULL));
}

TEST_HARNESS_MAIN
