// SPDX-License-Identifier: GPL-2.0
/* Programs that the verifier must reject: see reject.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reject.h"

static struct kvt_verdict *verdicts;
static int nr_verdicts;

static int handlers[12];
static int nr_handlers;

static struct kvt_verdict *verdict_new(const char *name)
{
	struct kvt_verdict *v;

	verdicts = realloc(verdicts, (nr_verdicts + 1) * sizeof(*verdicts));
	KVT_CHECK(verdicts);
	v = &verdicts[nr_verdicts++];
	v->name = strdup(name);
	v->log[0] = 0;
	return v;
}

static int show(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	static const struct bpf_insn harmless[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const struct kvt_section *section = (const void *)cookie;
	struct kvt_verdict *v = verdict_new(bpf_program__name(prog));
	struct bpf_prog_load_opts own = *opts;
	int fd;

	own.log_buf = v->log;
	own.log_size = sizeof(v->log);
	own.log_level = 1;
	own.prog_flags |= section->flags;
	own.expected_attach_type = bpf_program__expected_attach_type(prog);
	if (section->target)
		own.attach_btf_id = libbpf_find_vmlinux_btf_id(section->target, section->attach);
	opts->attach_btf_id = own.attach_btf_id;
	fd = bpf_prog_load(bpf_program__type(prog), bpf_program__name(prog), "GPL",
			   bpf_program__insns(prog), bpf_program__insn_cnt(prog), &own);
	v->err = fd < 0 ? fd : 0;
	if (fd >= 0)
		close(fd);
	/* Others may not. */
	if (section->type == BPF_PROG_TYPE_SYSCALL)
		opts->prog_flags |= BPF_F_SLEEPABLE;
	opts->func_info_cnt = 0;
	opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, (struct bpf_insn *)harmless, NR(harmless));
}

void kvt_show_begin(const struct kvt_section *sections, int nr)
{
	int i;

	KVT_CHECK(nr <= NR(handlers));
	for (i = 0; i < nr; i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = (long)&sections[i],
			    .prog_prepare_load_fn = show);
		handlers[i] = libbpf_register_prog_handler(sections[i].name, sections[i].type,
							   sections[i].attach, &opts);
		KVT_CHECK(handlers[i] > 0);
	}
	nr_handlers = nr;
	kvt_bpf_quiet();
}

void kvt_show_end(void)
{
	while (nr_handlers)
		libbpf_unregister_prog_handler(handlers[--nr_handlers]);
}

const struct kvt_verdict *kvt_verdict(const char *name)
{
	int i;

	for (i = 0; i < nr_verdicts; i++)
		if (!strcmp(verdicts[i].name, name))
			return &verdicts[i];
	return NULL;
}

bool kvt_rejected(const struct kvt_reject *what)
{
	const struct kvt_verdict *v = kvt_verdict(what->name);

	if (v && v->err && (strstr(v->log, what->why) ||
			    (what->why_7 && strstr(v->log, what->why_7))))
		return true;
	printf("# %s: %s\n", what->name,
	       !v ? "was not shown" : v->err ? v->log : "was not rejected");
	return false;
}

bool kvt_accepted(const char *name)
{
	const struct kvt_verdict *v = kvt_verdict(name);

	if (v && !v->err)
		return true;
	printf("# %s: %s\n", name, v ? v->log : "was not shown");
	return false;
}

static int module_delete(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? -errno : 0;
}

int kvt_module_delete(void)
{
	return module_delete("kvtree");
}

static bool device_there(void *arg)
{
	struct stat st;

	return !stat(KVT_DEV, &st);
}

static bool module_gone(void *name)
{
	int err = module_delete(name);

	return !err || err == -ENOENT;
}

void kvt_module_alone(void)
{
	KVT_CHECK(kvt_eventually(module_gone, "kvtree_bwtree"));
}

static void module_load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(syscall(SYS_finit_module, fd, "", 0) == 0);
	close(fd);
}

void kvt_module_reload(const char *path)
{
	char engine[PATH_MAX];

	/*
	 * Programs, and what a link holds, are freed a little later.  If the module stays, other
	 * tests have it; if it was removed too early, load it again.
	 */
	KVT_CHECK(kvt_eventually(module_gone, "kvtree"));
	module_load(path);
	snprintf(engine, sizeof(engine), "%.*s_bwtree.ko", (int)strlen(path) - 3, path);
	module_load(engine);
	KVT_CHECK(kvt_eventually(device_there, NULL));
}
