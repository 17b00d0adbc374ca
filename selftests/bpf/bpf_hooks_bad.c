// SPDX-License-Identifier: GPL-2.0
/*
 * Hooks that the kernel must refuse to load, and the module, which stays while one is
 * attached.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "bpf_hooks_bad.skel.h"

#define PIN_DIR	"/sys/fs/bpf"
#define PIN	PIN_DIR "/kvtree-test-bad"

/* What must be said, so that a hook is not refused for another reason. */
static const struct {
	const char *name;
	const char *why;
	const char *why_7;	/* in the words of 7.x, if these are others */
} rejected[] = {
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

/* What came of a program. */
static struct verdict {
	bool asked;
	int err;
	char log[1 << 14];
} verdicts[NR(rejected) + 1];

static struct verdict *verdict_of(const char *name)
{
	unsigned int i;

	for (i = 0; i < NR(rejected); i++)
		if (!strcmp(rejected[i].name, name))
			break;
	return &verdicts[i];
}

/*
 * libbpf is about to load a program, all relocated.  Reading the kernel's types takes it
 * seconds here, so all programs are in one object: each is shown to the verifier now,
 * and a harmless one loaded in its place.
 */
static int show_to_verifier(struct bpf_program *prog, struct bpf_prog_load_opts *opts,
			    long flags)
{
	static const struct bpf_insn harmless[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct verdict *v = verdict_of(bpf_program__name(prog));
	struct bpf_prog_load_opts own = *opts;

	own.log_buf = v->log;
	own.log_size = sizeof(v->log);
	own.log_level = 1;
	own.prog_flags |= flags;
	v->asked = true;
	v->err = bpf_prog_load(bpf_program__type(prog), bpf_program__name(prog), "GPL",
			       bpf_program__insns(prog), bpf_program__insn_cnt(prog), &own);
	if (v->err >= 0)
		close(v->err);
	opts->func_info_cnt = 0;
	opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, (struct bpf_insn *)harmless, NR(harmless));
}

static void show_all(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, hook, .prog_prepare_load_fn = show_to_verifier);
	LIBBPF_OPTS(libbpf_prog_handler_opts, sleeping, .cookie = BPF_F_SLEEPABLE,
		    .prog_prepare_load_fn = show_to_verifier);
	struct bpf_hooks_bad *skel;
	int id[3], i;

	id[0] = libbpf_register_prog_handler("struct_ops+", BPF_PROG_TYPE_STRUCT_OPS, 0, &hook);
	id[1] = libbpf_register_prog_handler("struct_ops.s+", BPF_PROG_TYPE_STRUCT_OPS, 0,
					     &sleeping);
	id[2] = libbpf_register_prog_handler("xdp", BPF_PROG_TYPE_XDP, 0, &hook);
	kvt_bpf_quiet();
	skel = bpf_hooks_bad__open();
	KVT_CHECK(skel);
	if (bpf_hooks_bad__load(skel))
		printf("# %s", kvt_bpf_log());
	bpf_hooks_bad__destroy(skel);
	for (i = 0; i < NR(id); i++)
		libbpf_unregister_prog_handler(id[i]);
}

TEST(hooks_that_misbehave_are_refused)
{
	const struct verdict *v;
	unsigned int i;

	show_all();
	v = verdict_of("good");
	EXPECT_LE(0, v->err) {
		TH_LOG("%s", v->log);
	}
	for (i = 0; i < NR(rejected); i++) {
		v = &verdicts[i];
		EXPECT_TRUE(v->asked && v->err < 0) {
			TH_LOG("%s was not refused", rejected[i].name);
		}
		EXPECT_TRUE(strstr(v->log, rejected[i].why) ||
			    (rejected[i].why_7 && strstr(v->log, rejected[i].why_7))) {
			TH_LOG("%s: %s", rejected[i].name, v->log);
		}
	}
}

static int module_delete(void)
{
	return syscall(SYS_delete_module, "kvtree", O_NONBLOCK) ? -errno : 0;
}

static bool device_there(void *arg)
{
	struct stat st;

	return !stat(KVT_DEV, &st);
}

/* Attach to the store "default" and keep nothing but the pin. */
static int pin_and_leave(void *arg)
{
	struct bpf_hooks_bad *skel = bpf_hooks_bad__open();
	struct bpf_program *prog;
	struct bpf_link *link;
	int dev = kvt_open();
	struct bpf_map *map;
	__u64 store;

	KVT_CHECK(skel && dev >= 0);
	KVT_CHECK(kvt_bpf_access(dev, true) == 0);
	KVT_CHECK(kvt_bpf_handle(dev, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &store) == 0);
	skel->struct_ops.v_good->store = store;
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
	int fd, tries;

	if (!module)
		SKIP(return, "KVTREE_MODULE does not say where the module is");
	mount("bpf", PIN_DIR, "bpf", 0, NULL);
	unlink(PIN);
	ASSERT_EQ(0, kvt_run(pin_and_leave, NULL));
	/* Nobody has it open, nothing but the hook needs it. */
	kvt_sleep_ms(1000);
	EXPECT_EQ(-EAGAIN, module_delete());
	ASSERT_EQ(0, unlink(PIN));
	/* What a link holds is freed a little later. */
	for (tries = 0; module_delete() && tries < 500; tries++)
		kvt_sleep_ms(20);
	EXPECT_LT(tries, 500);
	fd = open(module, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, syscall(SYS_finit_module, fd, "", 0));
	close(fd);
	EXPECT_TRUE(kvt_eventually(device_there, NULL));
}

TEST_HARNESS_MAIN
