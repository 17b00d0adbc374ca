// SPDX-License-Identifier: GPL-2.0
/*
 * bpf: let BPF programs use the store.
 */
#include <inttypes.h>

#include "tool.h"

struct bpf {
	const char *what;
	unsigned int access;
};

static error_t parse_bpf(int key, char *arg, struct argp_state *state)
{
	struct bpf *bpf = state->input;

	switch (key) {
	case 'r':
		bpf->access |= KVTREE_OPEN_READ;
		return 0;
	case 'w':
		bpf->access |= KVTREE_OPEN_WRITE;
		return 0;
	case ARGP_KEY_ARG:
		if (bpf->what)
			argp_error(state, "too many arguments: --store %s?", arg);
		bpf->what = arg;
		if (strcmp(arg, "allow") && strcmp(arg, "forbid") && strcmp(arg, "handle"))
			argp_error(state, "'%s' is none of allow, forbid and handle", arg);
		return 0;
	case ARGP_KEY_END:
		if (!bpf->what)
			argp_usage(state);
		if (bpf->access && strcmp(bpf->what, "handle"))
			argp_error(state, "--read and --write are for handle");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "read", .key = 'r', .doc = "handle: that allows to read (the default)" },
	{ .name = "write", .key = 'w', .doc = "handle: that allows to write" },
	{ 0 }
};

static int print_handle(unsigned int access)
{
	struct kvtree *kv = open_store(access);
	uint64_t handle;
	char text[24];
	json_t *obj;
	int err;

	err = kvtree_bpf_handle(kv, access, &handle);
	kvtree_close(kv);
	if (err == -ENOENT) {
		warn("bpf: programs may not use the store: see kvtree bpf allow");
		return STATUS_NOT;
	}
	if (err)
		return report(err, "bpf", NULL);
	/* As a string: a number of 64 bits is too much for some that read JSON. */
	snprintf(text, sizeof(text), "0x%016" PRIx64, handle);
	if (!tool.json) {
		puts(text);
		return STATUS_OK;
	}
	obj = json_new();
	json_add(obj, "handle", json_string(text));
	json_print(obj);
	return STATUS_OK;
}

static int allow(bool on)
{
	struct kvtree *kv = open_store(KVTREE_OPEN_READ);
	int err;

	err = kvtree_bpf_allow(kv, on);
	kvtree_close(kv);
	if (err == -EOPNOTSUPP) {
		warn("bpf: not offered: kernel and module need BTF, and the kernel a JIT");
		return STATUS_ERROR;
	}
	if (err == -EPERM) {
		warn("bpf: only the store's owner may say who uses it");
		return STATUS_ERROR;
	}
	return report(err, "bpf", NULL);
}

int cmd_bpf(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_bpf,
		.args_doc = "allow|forbid|handle",
		.doc = "Let BPF programs use the store, or tell by which number they name it.\n"
		       "\vallow and forbid are for the store's owner; forbid makes all handles void.\n"
		       "handle prints the store's handle for reading, for writing, or for both.",
		.children = common_options,
	};
	struct bpf bpf = { 0 };

	parse(&argp, argc, argv, &bpf);
	if (!strcmp(bpf.what, "handle"))
		return print_handle(bpf.access ? bpf.access : KVTREE_OPEN_READ);
	return allow(!strcmp(bpf.what, "allow"));
}
