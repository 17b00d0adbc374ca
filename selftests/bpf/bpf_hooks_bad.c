// SPDX-License-Identifier: GPL-2.0
/*
 * Hooks that the kernel must refuse to load, and one that pins the module while it is
 * attached.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "reject.h"
#include "bpf_hooks_bad.skel.h"

#define PIN_DIR	"/sys/fs/bpf"
#define PIN	PIN_DIR "/kvtree-test-bad"

static const struct kvt_reject rejected[] = {
	{ .name = "puts", .why = "is not allowed" },
	{ .name = "cas", .why = "is not allowed" },
	{ .name = "adds", .why = "is not allowed" },
	{ .name = "removes", .why = "is not allowed" },
	{ .name = "posts", .why = "is not allowed" },
	{ .name = "iterates", .why = "is not allowed" },
	{ .name = "writes_to_the_record", .why = "only read is supported" },
	{ .name = "reads_behind_the_record", .why = "access beyond struct bpf_kvt_record" },
	{ .name = "copies_too_much", .why = "leads to invalid memory access" },
	{ .name = "copies_without_a_bound", .why = "leads to invalid memory access",
	  .why_7 = "unbounded memory access" },
	{ .name = "makes_a_record_up", .why = "must point to scalar",
	  .why_7 = "is fp expected STRUCT bpf_kvt_record" },
	{ .name = "record_plus_8", .why = "expected pointer to STRUCT bpf_kvt_record",
	  .why_7 = "dereference of modified" },
	{ .name = "sleeps", .why = "attach to unsupported member" },
	{ .name = "never_ends", .why = "infinite loop",
	  .why_7 = "too large" },
	{ .name = "record_in_xdp", .why = "is not allowed" },
};

static void show_all(void)
{
	static const struct kvt_section sections[] = {
		{ .name = "struct_ops+", .type = BPF_PROG_TYPE_STRUCT_OPS },
		{ .name = "struct_ops.s+", .type = BPF_PROG_TYPE_STRUCT_OPS,
		  .flags = BPF_F_SLEEPABLE },
		{ .name = "xdp", .type = BPF_PROG_TYPE_XDP },
	};
	struct bpf_hooks_bad *skel;

	kvt_show_begin(sections, NR(sections));
	skel = bpf_hooks_bad__open();
	KVT_CHECK(skel);
	if (bpf_hooks_bad__load(skel))
		printf("# %s", kvt_bpf_log());
	bpf_hooks_bad__destroy(skel);
	kvt_show_end();
}

TEST(hooks_that_misbehave_are_refused)
{
	unsigned int i;

	show_all();
	EXPECT_TRUE(kvt_accepted("good"));
	for (i = 0; i < NR(rejected); i++)
		EXPECT_TRUE(kvt_rejected(&rejected[i]));
}

/* Attach to the store "default" and keep nothing but the pin. */
static int pin_and_leave(void *arg)
{
	struct bpf_hooks_bad *skel = bpf_hooks_bad__open();
	struct bpf_program *prog;
	struct bpf_link *link;
	int dev = kvt_open();
	struct bpf_map *map;

	KVT_CHECK(skel && dev >= 0);
	KVT_CHECK(kvt_bpf_access(dev, true) == 0);
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, prog == skel->progs.good);
	bpf_object__for_each_map(map, skel->obj)
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			bpf_map__set_autocreate(map, map == skel->maps.v_good);
	KVT_CHECK(bpf_hooks_bad__load(skel) == 0);
	link = bpf_map__attach_struct_ops(skel->maps.v_good);
	KVT_CHECK(link);
	KVT_CHECK(bpf_link__pin(link, PIN) == 0);
	return 0;
}

TEST(the_module_stays_while_a_hook_is_attached)
{
	const char *module = getenv("KVTREE_MODULE");

	if (!module)
		SKIP(return, "KVTREE_MODULE does not say where the module is");
	kvt_module_alone();
	mount("bpf", PIN_DIR, "bpf", 0, NULL);
	unlink(PIN);
	ASSERT_EQ(0, kvt_run(pin_and_leave, NULL));
	/* No session is open: only the hook pins it. */
	kvt_sleep_ms(1000);
	EXPECT_EQ(-EAGAIN, kvt_module_delete());
	ASSERT_EQ(0, unlink(PIN));
	kvt_module_reload(module);
}

TEST_HARNESS_MAIN
