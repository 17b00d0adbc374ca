// SPDX-License-Identifier: GPL-2.0
/* Operations by BPF programs, in the two contexts that may write. */
#include <errno.h>
#include <string.h>

#include "bpf/lib.h"
#include "history.h"
#include "door.h"
#include "history.skel.h"

static struct history *skel;

/* For both programs.  They stay loaded; a binding ends with its store. */
static void bpf_prepare(int fd)
{
	if (!skel) {
		skel = history__open();
		KVT_CHECK(skel);
		KVT_CHECK(history__load(skel) == 0);
	}
	KVT_CHECK(kvt_bpf_access(fd, true) == 0);
	KVT_CHECK(kvt_bpf_bind(fd, bpf_map__fd(skel->maps.rodata_store), KVT_RW) == 0);
}

static void bpf_open(int fd)
{
}

static const struct {
	__u32 op;
	__u32 flags;
} bpf_ops[HISTORY_OPS] = {
	[HISTORY_GET]		= { DOOR_GET },
	[HISTORY_PUT]		= { DOOR_PUT },
	[HISTORY_CREATE]	= { DOOR_PUT, BPF_KVT_CREATE },
	[HISTORY_CAS]		= { DOOR_CAS },
	[HISTORY_ADD]		= { DOOR_ADD },
	[HISTORY_REMOVE]	= { DOOR_REMOVE },
	[HISTORY_REMOVE_AT]	= { DOOR_REMOVE, BPF_KVT_VERSION },
};

static void bpf_run_one(const struct bpf_program *prog, bool packet, struct event *event)
{
	struct door_call call = {
		.op = bpf_ops[event->op].op,
		.flags = bpf_ops[event->op].flags,
		.val_len = sizeof(event->given),
		.version = event->expected,
		.arg = event->given,
	}, back;
	struct bpf_test_run_opts opts = { .sz = sizeof(opts) };
	char buf[VALUE_MAX];

	call.key_len = (__u32)key_fill(call.key, event->round, event->key);
	if (call.op == DOOR_PUT || call.op == DOOR_CAS) {
		call.val_len = (__u32)value_fill(buf, event->given);
		memcpy(call.val, buf, call.val_len);
	}
	back = call;
	if (packet) {
		opts.data_in = &call;
		opts.data_out = &back;
		opts.data_size_in = sizeof(call);
		opts.data_size_out = sizeof(call);
		opts.repeat = 1;
	} else {
		opts.ctx_in = &back;
		opts.ctx_size_in = sizeof(back);
	}
	event->call = history_tick();
	KVT_CHECK(bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) == 0);
	event->ret = history_tick();
	KVT_CHECK(!packet || opts.retval == 2 /* XDP_PASS */);

	event->version = back.version;
	event->result = back.ret < 0 ? back.ret : 0;
	if (event->op == HISTORY_GET && event->result == 0) {
		/* What another door has put may be longer than the program's buffer. */
		if (back.val_len > DOOR_VAL)
			event->result = -EMSGSIZE;
		else
			event->found = value_read(back.val, back.val_len);
	} else if (event->op == HISTORY_ADD) {
		event->found = back.arg;
	}
}

static void syscall_run(struct event *event, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		bpf_run_one(skel->progs.in_syscall, false, &event[i]);
}

static void xdp_run(struct event *event, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		bpf_run_one(skel->progs.in_xdp, true, &event[i]);
}

#define BPF_OPS	(((1u << HISTORY_OPS) - 1) & ~(1u << HISTORY_SCAN))

const struct door door_syscall = {
	.name = "syscall",
	.ops = BPF_OPS,
	.depth = 1,
	.classes = 2,
	.prepare = bpf_prepare,
	.open = bpf_open,
	.run = syscall_run,
};

const struct door door_xdp = {
	.name = "xdp",
	.ops = BPF_OPS,
	.depth = 1,
	.classes = 2,
	.open = bpf_open,
	.run = xdp_run,
};
