// SPDX-License-Identifier: GPL-2.0
/*
 * attach, detach, sync, checkpoint: durable stores.
 */
#include <inttypes.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool.h"

struct attach {
	const char *name;
	struct kvtree_store_attach args;
	uint64_t paths[KVTREE_DEVICES_MAX];
};

static error_t parse_attach(int key, char *arg, struct argp_state *state)
{
	struct attach *attach = state->input;
	struct kvtree_store_create *store = &attach->args.store;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = store;
		return 0;
	case 'S':
		attach->args.flags |= KVTREE_ATTACH_SYNC;
		return 0;
	case ARGP_KEY_ARG:
		if (!attach->name) {
			arg_store_name(state, store->name, arg);
			attach->name = arg;
			return 0;
		}
		if (attach->args.nr_devices == KVTREE_DEVICES_MAX)
			argp_error(state, "a store has at most %u devices", KVTREE_DEVICES_MAX);
		attach->paths[attach->args.nr_devices++] = (uintptr_t)arg;
		return 0;
	case ARGP_KEY_END:
		if (!attach->args.nr_devices)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option attach_options[] = {
	{ .name = "sync", .key = 'S',
	  .doc = "Every change waits until it is on the devices (only those that ask for it)" },
	{ 0 }
};

/* An ioctl of the session; a negative errno if it fails. */
static int call(const struct kvtree *kv, unsigned long request, void *arg)
{
	return ioctl(kvtree_fd(kv), request, arg) < 0 ? -errno : 0;
}

static const char *attach_reason(int err)
{
	switch (err) {
	case -EINVAL:
		return "a device is not formatted (kvtree format), or no such name, engine or\n"
		       "page size";
	case -EBUSY:
		return "a device is in use";
	case -ENOENT:
		return "there is no such device";
	case -ENOTBLK:
		return "it is not a block device";
	case -EXDEV:
		return "the devices belong to different stores, or one is given twice";
	case -ENODEV:
		return "devices of the store are missing (dmesg says which)";
	case -EBADMSG:
		return "the devices are damaged (dmesg says where; see kvtree check)";
	case -EOPNOTSUPP:
		return "the format is newer than the module";
	case -ENOTTY:
		return "the module has no durable stores";
	default:
		return reason(err);
	}
}

static void show_attached(const char *name)
{
	struct kvtree_store_info si;
	struct kvtree *kv;
	json_t *obj;

	if (kvtree_open(name, KVTREE_OPEN_READ, &kv))
		return;
	if (!kvtree_store_self(kv, &si, sizeof(si))) {
		if (tool.json) {
			obj = json_new();
			json_add(obj, "attached", json_string(name));
			json_add_u64(obj, "keys", si.keys);
			json_print(obj);
		} else {
			printf("attached '%s': %" PRIu64 " keys\n", name, (uint64_t)si.keys);
		}
	}
	kvtree_close(kv);
}

int cmd_attach(int argc, char **argv)
{
	const struct argp argp = {
		.options = attach_options,
		.parser = parse_attach,
		.args_doc = "NAME DEVICE...",
		.doc = "Make a store of what stands on devices, and keep it there.\n"
		       "\vNeeds root. All devices of the store must be named, in any order. What was\n"
		       "durable when the store was last used is there again.",
		.children = store_options,
	};
	struct attach attach = { .args.store = { .mode = 0600, .uid = getuid(), .gid = getgid() } };
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, &attach);
	tool.store = NULL;
	attach.args.devices = (uintptr_t)attach.paths;
	kv = open_store(KVTREE_OPEN_READ);
	err = call(kv, KVTREE_IOC_STORE_ATTACH, &attach.args);
	kvtree_close(kv);
	if (err == -EEXIST) {
		warn("attach: there is a store '%s' already", attach.name);
		return STATUS_NOT;
	}
	if (err) {
		warn("attach '%s': %s", attach.name, attach_reason(err));
		return STATUS_ERROR;
	}
	show_attached(attach.name);
	return STATUS_OK;
}

static error_t parse_name(int key, char *arg, struct argp_state *state)
{
	const char **name = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*name)
			argp_error(state, "too many arguments: it takes one NAME");
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

/* What a command came to whose argument is a store. */
static int ended(int err, const char *what, const char *done, const char *name)
{
	struct bytes key = { .data = (char *)name, .len = strlen(name) };
	json_t *obj;

	if (err == -EOPNOTSUPP) {
		warn("%s '%s': the store is volatile: it has no devices", what, name);
		return STATUS_ERROR;
	}
	if (!err && tool.json) {
		obj = json_new();
		json_add(obj, done, json_string(name));
		json_print(obj);
	}
	return report(err, what, &key);
}

int cmd_detach(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_name,
		.args_doc = "NAME",
		.doc = "Bring a durable store to its devices and take it away.\n"
		       "\vNeeds root. Programs that have it open get errors. The devices keep it: see\n"
		       "kvtree attach.",
		.children = common_options,
	};
	struct kvtree_store_detach args = { .flags = 0 };
	const char *name = NULL;
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, &name);
	if (strlen(name) >= sizeof(args.name))
		return ended(-ENOENT, "detach", "detached", name);
	strcpy(args.name, name);
	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	err = call(kv, KVTREE_IOC_STORE_DETACH, &args);
	kvtree_close(kv);
	if (err == -EIO) {
		warn("detach '%s': the last changes could not be written (dmesg says why)", name);
		return STATUS_ERROR;
	}
	return ended(err, "detach", "detached", name);
}

/* A command on the store that is its argument. */
static int on_store(const struct argp *argp, int argc, char **argv,
		    int (*run)(const struct kvtree *kv), const char *what, const char *done)
{
	const char *name = NULL;
	struct kvtree *kv;
	int err;

	parse(argp, argc, argv, &name);
	tool.store = name;
	kv = open_store(KVTREE_OPEN_READ);
	err = run(kv);
	kvtree_close(kv);
	return ended(err, what, done, name);
}

int cmd_sync(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_name,
		.args_doc = "NAME",
		.doc = "Wait until all changes of a durable store are on its devices.",
		.children = common_options,
	};

	return on_store(&argp, argc, argv, kvtree_sync, "sync", "synced");
}

static int checkpoint_store(const struct kvtree *kv)
{
	struct kvtree_checkpoint args = { .flags = 0 };

	return call(kv, KVTREE_IOC_CHECKPOINT, &args);
}

int cmd_checkpoint(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_name,
		.args_doc = "NAME",
		.doc = "Write all of a durable store, so that attaching it takes less time.\n"
		       "\vNeeds root. Kvtree does so by itself before the log is full. Programs go on\n"
		       "using the store meanwhile.",
		.children = common_options,
	};

	return on_store(&argp, argc, argv, checkpoint_store, "checkpoint", "checkpointed");
}
