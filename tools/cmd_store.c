// SPDX-License-Identifier: GPL-2.0
/*
 * store create, store set, store list, store destroy.
 */
#include <inttypes.h>
#include <unistd.h>

#include "tool.h"

struct create {
	const char *name;
	struct kvtree_store_create args;
	struct store_args options;
};

static error_t parse_create(int key, char *arg, struct argp_state *state)
{
	struct create *create = state->input;
	struct kvtree_store_create *args = &create->args;

	switch (key) {
	case ARGP_KEY_INIT:
		create->options.store = args;
		state->child_inputs[0] = &create->options;
		return 0;
	case 'B':
		args->flags |= KVTREE_STORE_BPF;
		return 0;
	case ARGP_KEY_ARG:
		if (create->name)
			argp_error(state, "too many arguments: store create takes one NAME");
		arg_store_name(state, args->name, arg);
		create->name = arg;
		return 0;
	case ARGP_KEY_END:
		if (!create->name)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option create_options[] = {
	{ .name = "bpf", .key = 'B', .doc = "BPF programs may use it" },
	{ 0 }
};

int cmd_store_create(int argc, char **argv)
{
	const struct argp argp = {
		.options = create_options,
		.parser = parse_create,
		.args_doc = "NAME",
		.doc = "Create a store.\n"
		       "\vNeeds root. A name consists of letters, digits, dots, hyphens and\n"
		       "underscores. The store lives until it is destroyed or the module unloaded.",
		.children = store_options,
	};
	struct create create = { .args = { .mode = 0600, .uid = getuid(), .gid = getgid() } };
	struct kvtree *kv;
	struct bytes name;
	json_t *obj;
	int err;

	parse(&argp, argc, argv, &create);
	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	err = kvtree_store_create(kv, &create.args, sizeof(create.args));
	kvtree_close(kv);
	name = (struct bytes){ .data = create.args.name, .len = strlen(create.args.name) };
	if (err == -EINVAL && say_store_wrong("store create", &create.args))
		return STATUS_ERROR;
	if (err == -EDQUOT) {
		warn("store create '%s': not even an empty store fits the limit", create.name);
		return STATUS_ERROR;
	}
	if (err == -EOPNOTSUPP) {
		warn("store create '%s': BPF programs cannot use kvtree on this kernel",
		     create.name);
		return STATUS_ERROR;
	}
	if (!err && tool.json) {
		obj = json_new();
		json_add(obj, "created", json_string(create.name));
		json_print(obj);
	}
	return report(err, "store create", &name);
}

struct set {
	const char *name;
	struct kvtree_store_create to;
	struct store_args options;
};

static error_t parse_set(int key, char *arg, struct argp_state *state)
{
	struct set *set = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		set->options.store = &set->to;
		state->child_inputs[0] = &set->options;
		return 0;
	case ARGP_KEY_ARG:
		if (set->name)
			argp_error(state, "too many arguments: store set takes one NAME");
		arg_store_name(state, set->to.name, arg);
		set->name = arg;
		return 0;
	case ARGP_KEY_END:
		if (!set->name)
			argp_usage(state);
		if (!set->options.set)
			argp_error(state, "nothing to set: name a mode, owner, group or limit");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int set_store(const struct set *set)
{
	struct kvtree_store_set args = {
		.set = set->options.set,
		.mode = set->to.mode,
		.uid = set->to.uid,
		.gid = set->to.gid,
		.limit_bytes = set->to.limit_bytes,
		.limit_keys = set->to.limit_keys,
	};
	struct kvtree *kv = open_store(KVTREE_OPEN_READ);
	int err;

	memcpy(args.name, set->to.name, sizeof(args.name));
	err = kvtree_store_set(kv, &args, sizeof(args));
	kvtree_close(kv);
	return err;
}

int cmd_store_set(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_set,
		.args_doc = "NAME",
		.doc = "Change the mode, owner or limits of a store while it is used.\n"
		       "\vNeeds root; the store's owner may change the mode. Open sessions keep\n"
		       "their access. A store over its new limits takes no data until it shrinks.\n"
		       "A durable store keeps the settings until it is detached.",
		.children = set_options,
	};
	struct set set = { 0 };
	struct bytes name;
	json_t *obj;
	int err;

	parse(&argp, argc, argv, &set);
	tool.store = NULL;
	err = set_store(&set);
	if (err == -EPERM && set.options.set == KVTREE_SET_MODE) {
		warn("store set '%s': only its owner and root may change the mode", set.name);
		return STATUS_ERROR;
	}
	if (!err && tool.json) {
		obj = json_new();
		json_add(obj, "set", json_string(set.name));
		json_print(obj);
	}
	name = (struct bytes){ .data = set.to.name, .len = strlen(set.to.name) };
	return report(err, "store set", &name);
}

static error_t parse_destroy(int key, char *arg, struct argp_state *state)
{
	const char **name = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*name)
			argp_error(state, "too many arguments: store destroy takes one NAME");
		*name = arg;
		return 0;
	case ARGP_KEY_END:
		if (!*name)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_store_destroy(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_destroy,
		.args_doc = "NAME",
		.doc = "Destroy a store and everything in it.\n"
		       "\vNeeds root. This cannot be undone. Programs that use it get errors.",
		.children = common_options,
	};
	struct kvtree_store_info si;
	const char *name = NULL;
	struct kvtree *kv;
	struct bytes key;
	json_t *obj;
	int err;

	parse(&argp, argc, argv, &name);
	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	err = teardown(kv, kvtree_store_destroy, "store destroy", name);
	if (err == -EBUSY && store_info(kv, name, &si) && si.flags & KVTREE_STORE_DURABLE) {
		warn("store destroy '%s': it is durable: detach it (kvtree store detach)", name);
		kvtree_close(kv);
		return STATUS_ERROR;
	}
	kvtree_close(kv);
	key = (struct bytes){ .data = (char *)name, .len = strlen(name) };
	if (!err && tool.json) {
		obj = json_new();
		json_add(obj, "destroyed", json_string(name));
		json_print(obj);
	}
	return report(err, "store destroy", &key);
}

static void print_limit(uint64_t limit)
{
	if (limit)
		printf(" %14" PRIu64, limit);
	else
		printf(" %14s", "-");
}

static void print_store(const struct kvtree_store_info *si)
{
	printf("%-20s %-10s %04o %-10s", si->name, si->engine, si->mode,
	       owner_name(false, si->uid));
	printf(" %-10s %12" PRIu64 " %14" PRIu64, owner_name(true, si->gid), (uint64_t)si->keys,
	       (uint64_t)si->bytes);
	print_limit(si->limit_keys);
	print_limit(si->limit_bytes);
	fputs("  ", stdout);
	put_flags(stdout, si);
	putchar('\n');
}

static error_t parse_list(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "store list takes no arguments: '%s'", arg);
	return 0;
}

int cmd_store_list(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_list,
		.doc = "List the stores, the oldest first.\n"
		       "\vFLAGS are durable, sync (every change waits for the devices), read-only,\n"
		       "attaching (it is being recovered), checkpointing (a checkpoint is being\n"
		       "written; with the percentage if it writes everything) and bpf (BPF\n"
		       "programs may use it).",
		.children = common_options,
	};
	struct kvtree_store_info si = { 0 };
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, NULL);
	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	if (!tool.json)
		printf("%-20s %-10s %4s %-10s %-10s %12s %14s %14s %14s  %s\n", "NAME", "ENGINE",
		       "MODE", "OWNER", "GROUP", "KEYS", "BYTES", "LIMIT-KEYS", "LIMIT-BYTES",
		       "FLAGS");
	while (!(err = kvtree_store_next(kv, &si, sizeof(si)))) {
		if (tool.json) {
			json_t *obj = json_new();

			json_add_store(obj, &si);
			json_print(obj);
		} else {
			print_store(&si);
		}
	}
	kvtree_close(kv);
	return err == -ENOENT ? STATUS_OK : report(err, "store list", NULL);
}
