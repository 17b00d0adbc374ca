// SPDX-License-Identifier: GPL-2.0
/*
 * attach, detach, sync, checkpoint: durable stores.
 */
#include <inttypes.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "inuse.h"
#include "signature.h"
#include "stores.h"

/* Options without a letter. */
enum { OPT_CONFIG = 256, OPT_READ_ONLY, OPT_WAIT };

struct attach {
	const char *name;
	struct kvtree_store_create store;
	struct kvtree_store_attach args;	/* its pointers are set for each call */
	uint64_t paths[KVTREE_DEVICES_MAX];
	struct store_args options;
	const char *config;	/* NULL: none was given */
	unsigned int wait;	/* seconds, for devices of the file */
	bool all;
	bool progress;
};

/* Reject options that would be ignored. */
static void refuse_options(const struct attach *attach, struct argp_state *state)
{
	if (attach->args.nr_devices && (attach->config || attach->wait))
		argp_error(state, "%s: --config and --wait are for stores in the file",
			   "devices are named here");
	if (!attach->args.nr_devices &&
	    (attach->options.given || attach->args.flags & KVTREE_ATTACH_SYNC))
		argp_error(state, "%s: these options need the names of the devices",
			   "the line of the file says how to attach a store");
}

static error_t parse_attach(int key, char *arg, struct argp_state *state)
{
	struct attach *attach = state->input;
	struct kvtree_store_create *store = &attach->store;

	switch (key) {
	case ARGP_KEY_INIT:
		attach->options.store = store;
		state->child_inputs[0] = &attach->options;
		return 0;
	case 'S':
		attach->args.flags |= KVTREE_ATTACH_SYNC;
		return 0;
	case 'a':
		attach->all = true;
		return 0;
	case OPT_CONFIG:
		attach->config = arg;
		return 0;
	case 'P':
		attach->progress = true;
		return 0;
	case OPT_WAIT:
		attach->wait = (unsigned int)arg_number(state, "--wait", arg, 86400);
		return 0;
	case OPT_READ_ONLY:
		attach->args.flags |= KVTREE_ATTACH_READ_ONLY;
		return 0;
	case 'U':
		attach->args.until = arg_number(state, "--until", arg, UINT64_MAX);
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
		if (attach->all == !!attach->name)
			argp_usage(state);
		refuse_options(attach, state);
		if (attach->args.until && !(attach->args.flags & KVTREE_ATTACH_READ_ONLY))
			argp_error(state, "--until needs --read-only");
		if (attach->args.until && attach->all)
			argp_error(state, "--until is for one store");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option attach_options[] = {
	{ .name = "all", .key = 'a',
	  .doc = "All stores of the file except those with \"noauto\"" },
	{ .name = "config", .key = OPT_CONFIG, .arg = "FILE",
	  .doc = "The file with the stores (" STORES_FILE ")" },
	{ .name = "progress", .key = 'P',
	  .doc = "Show progress (if standard error is a terminal)" },
	{ .name = "read-only", .key = OPT_READ_ONLY,
	  .doc = "Write nothing to the devices, and refuse changes" },
	{ .name = "sync", .key = 'S',
	  .doc = "Make every change wait for the devices (only changes that request it)" },
	{ .name = "until", .key = 'U', .arg = "EPOCH",
	  .doc = "Restore the state at the end of that epoch, with --read-only (the last one)" },
	{ .name = "wait", .key = OPT_WAIT, .arg = "SECONDS",
	  .doc = "Wait this long for missing devices of the file's stores (0)" },
	{ 0 }
};

static const char *attach_reason(int err)
{
	switch (err) {
	case -EINVAL:
		return "a device is not formatted (kvtree store format)";
	case -EBUSY:
		return "a device is in use";
	case -ENOENT:
		return "no such device";
	case -ENOTBLK:
		return "it is not a block device";
	case -EXDEV:
		return "the devices belong to different stores, or one is given twice";
	case -ENODEV:
		return "devices of the store are missing (dmesg says which)";
	case -EBADMSG:
		return "the devices are damaged (dmesg says where; see kvtree store check)";
	case -EACCES:
	case -EROFS:
		return "a device is read-only (--read-only)";
	case -ERANGE:
		return "that epoch cannot be restored (dmesg says why)";
	case -EOPNOTSUPP:
		return "the format is newer than the module";
	case -ENOTTY:
		return "the module does not support durable stores";
	default:
		return reason(err);
	}
}

/* A device holds no store. */
static void say_no_store(const char *name, const char *path)
{
	const struct kvtree_device none = { .flags = KVTREE_DEVICE_DAMAGED };
	struct signatures found;

	signatures_beside(&found, path, &none);
	if (found.list)
		warn("attach '%s': %s holds %s, not a kvtree store", name, path, found.list);
	else
		warn("attach '%s': %s is not formatted, or not any more (%s)", name, path,
		     "kvtree store check --repair, kvtree store format");
	signatures_free(&found);
}

static void say_failed(const struct attach *attach, int err)
{
	const char *name = attach->store.name, *path;
	struct kvtree_device device;
	unsigned int i;

	for (i = 0; err == -EINVAL && i < attach->args.nr_devices; i++) {
		path = (const char *)(uintptr_t)attach->paths[i];
		if (kvtree_probe(path, &device, sizeof(device)) == -ENODATA) {
			say_no_store(name, path);
			return;
		}
	}
	if (err != -EINVAL || !say_store_wrong("attach", &attach->store))
		warn("attach '%s': %s", name, attach_reason(err));
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
			printf("attached '%s'%s: %" PRIu64 " key%s\n", name,
			       si.flags & KVTREE_STORE_READ_ONLY ? " read-only" : "",
			       (uint64_t)si.keys, plural(si.keys));
		}
	}
	kvtree_close(kv);
}

/* A call in progress, and the thread that waits for it. */
struct call {
	const struct kvtree *kv;
	const struct attach *attach;	/* of an attach */
	uint64_t before;		/* bytes that checkpoints had written before this one */
	int (*run)(const struct call *call);
	void (*show)(const struct call *call, struct progress *progress);
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool over;
	int err;
};

static int call_attach(const struct call *call)
{
	struct kvtree_store_attach args = call->attach->args;

	args.store = (uintptr_t)&call->attach->store;
	args.store_size = sizeof(call->attach->store);
	args.devices = (uintptr_t)call->attach->paths;
	return kvtree_store_attach(call->kv, &args, sizeof(args));
}

static void *call_thread(void *arg)
{
	struct call *call = arg;
	int err = call->run(call);

	pthread_mutex_lock(&call->lock);
	call->over = true;
	call->err = err;
	pthread_cond_signal(&call->ended);
	pthread_mutex_unlock(&call->lock);
	return NULL;
}

/* Show the number of keys recovered so far. */
static void show_recovered(const struct call *call, struct progress *progress)
{
	struct kvtree_store_info si = { 0 };

	while (!kvtree_store_next(call->kv, &si, sizeof(si))) {
		if (!(si.flags & KVTREE_STORE_ATTACHING) ||
		    strcmp(si.name, call->attach->store.name))
			continue;
		progress_show(progress, si.keys, si.keys, si.bytes);
		break;
	}
}

static void call_wait(struct call *call, const char *verb, const char *unit)
{
	struct progress progress = { .unit = unit };
	struct timespec until;

	progress_start(&progress, verb, true, 0);
	pthread_mutex_lock(&call->lock);
	while (!call->over) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 100 * 1000 * 1000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&call->ended, &call->lock, &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&call->lock);
		call->show(call, &progress);
		pthread_mutex_lock(&call->lock);
	}
	pthread_mutex_unlock(&call->lock);
	progress_end(&progress, NULL, 0, 0);
}

/* It may take a while: show progress, if asked to. */
static int call_run(struct call *call, bool progress, const char *verb, const char *unit)
{
	pthread_t thread;

	if (!progress || pthread_create(&thread, NULL, call_thread, call))
		return call->run(call);
	call_wait(call, verb, unit);
	pthread_join(thread, NULL);
	return call->err;
}

static int attach_call(const struct kvtree *kv, const struct attach *attach)
{
	struct call call = {
		.kv = kv, .attach = attach, .run = call_attach, .show = show_recovered,
		.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER,
	};

	return call_run(&call, attach->progress, "attach", "keys");
}

#define PAUSE_NS	(100 * 1000 * 1000)

static void pause_a_moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}

/* A device in use may be mounted, or belong to another store; a free device may be a copy. */
static bool is_of_store(const char *path, const struct kvtree_store_info *si)
{
	struct kvtree_device device;

	return !inuse_free(path) && !kvtree_probe(path, &device, sizeof(device)) &&
	       !memcmp(device.uuid, si->uuid, sizeof(device.uuid));
}

static bool is_read_only(const struct kvtree_store_info *si)
{
	return si->flags & KVTREE_STORE_READ_ONLY;
}

/*
 * There is already a store of that name.  If it has these devices it is the requested store.
 * Waits while it is being recovered.
 *
 * Return: the exit status, or -1 if it has gone
 */
static int attached_already(const struct kvtree *kv, const struct attach *attach)
{
	const char *name = attach->store.name;
	struct kvtree_store_info si;
	unsigned int i;

	while (store_info(kv, name, &si) && si.flags & KVTREE_STORE_ATTACHING)
		pause_a_moment();
	if (strcmp(si.name, name)) {
		pause_a_moment();
		return -1;
	}
	if (!(si.flags & KVTREE_STORE_DURABLE)) {
		warn("attach: a volatile store '%s' already exists", name);
		return STATUS_ERROR;
	}
	for (i = 0; i < attach->args.nr_devices; i++) {
		if (is_of_store((const char *)(uintptr_t)attach->paths[i], &si))
			continue;
		warn("attach: a store '%s' with other devices already exists", name);
		return STATUS_ERROR;
	}
	if (is_read_only(&si) != !!(attach->args.flags & KVTREE_ATTACH_READ_ONLY)) {
		warn("attach: the store '%s' is already attached %s", name,
		     is_read_only(&si) ? "read-only" : "for writing");
		return STATUS_ERROR;
	}
	if (!attach->all)
		warn("attach: the store '%s' is already attached", name);
	return STATUS_NOT;
}

/*
 * The module would attach the devices even if something else is on them.  The devices of a line of
 * the file were checked when they were found.
 */
static bool is_foreign(const struct attach *attach)
{
	struct kvtree_device device;
	const char *path;
	unsigned int i;

	for (i = 0; i < attach->args.nr_devices; i++) {
		path = (const char *)(uintptr_t)attach->paths[i];
		if (!kvtree_probe(path, &device, sizeof(device)) &&
		    devices_foreign(path, &device, attach->store.name))
			return true;
	}
	return false;
}

static int attach_one(const struct attach *attach)
{
	const char *name = attach->store.name;
	struct kvtree *kv;
	int err, status = -1;

	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	do {
		err = attach_call(kv, attach);
		if (err == -EEXIST)
			status = attached_already(kv, attach);
	} while (err == -EEXIST && status < 0);
	kvtree_close(kv);
	if (err == -EEXIST)
		return status;
	if (err) {
		say_failed(attach, err);
		return STATUS_ERROR;
	}
	show_attached(name);
	return STATUS_OK;
}

/* Devices may still be appearing, and udev creates their links last. */
static int find_devices(struct device_set *set, const struct store_line *line, unsigned int wait)
{
	unsigned int left;
	int err;

	for (left = wait * (1000000000 / PAUSE_NS); left; left--) {
		err = devices_find(set, line, true);
		if (err != -ENODEV && err != -ENOENT)
			break;
		devices_free(set);
		pause_a_moment();
	}
	/* Try again to print what is missing. */
	if (wait && left)
		devices_free(set);
	return devices_find(set, line, false);
}

static int attach_line(const struct attach *how, const struct store_line *line)
{
	struct attach attach = { .progress = how->progress, .all = how->all };
	struct device_set set;
	unsigned int i;
	int status;

	attach.store = line->store;
	attach.args.flags = line->flags | (how->args.flags & KVTREE_ATTACH_READ_ONLY);
	attach.args.until = how->args.until;
	if (find_devices(&set, line, how->wait)) {
		status = STATUS_ERROR;
	} else {
		for (i = 0; i < set.nr; i++)
			attach.paths[i] = (uintptr_t)set.paths[i];
		attach.args.nr_devices = set.nr;
		status = attach_one(&attach);
	}
	devices_free(&set);
	return status;
}

/* Attach all stores except those with noauto; skip attached ones. */
static int attach_all(const struct attach *attach, const struct stores *stores)
{
	int status = stores->bad ? STATUS_ERROR : STATUS_OK;
	const struct store_line *line;
	size_t i;

	for (i = 0; i < stores->nr; i++) {
		line = &stores->line[i];
		if (!line->noauto && attach_line(attach, line) > STATUS_NOT)
			status = STATUS_ERROR;
	}
	return status;
}

static int attach_lines(const struct attach *attach)
{
	const char *file = attach->config ? attach->config : STORES_FILE;
	const struct store_line *line;
	struct stores stores;
	int status;

	if (stores_read(&stores, file, false)) {
		status = STATUS_ERROR;
	} else if (attach->all) {
		status = attach_all(attach, &stores);
	} else {
		line = stores_find(&stores, attach->name);
		if (line) {
			status = attach_line(attach, line);
		} else {
			warn("attach: %s has no store '%s': name its devices", file,
			     attach->name);
			status = STATUS_ERROR;
		}
	}
	stores_free(&stores);
	return status;
}

int cmd_attach(int argc, char **argv)
{
	const struct argp argp = {
		.options = attach_options,
		.parser = parse_attach,
		.args_doc = "NAME DEVICE...\nNAME\n--all",
		.doc = "Recover a durable store from its devices.\n"
		       "\vNeeds root. Name all devices of the store, in any order. Everything that was\n"
		       "durable is restored, and later changes go to the devices. Without\n"
		       "devices, they and the options come from " STORES_FILE ":\n"
		       "see kvtree-stores(5).",
		.children = store_options,
	};
	struct attach attach = {
		.store = { .mode = 0600, .uid = getuid(), .gid = getgid() },
		.progress = isatty(STDERR_FILENO),
	};

	parse(&argp, argc, argv, &attach);
	if (!attach.args.nr_devices)
		return attach_lines(&attach);
	return is_foreign(&attach) ? STATUS_ERROR : attach_one(&attach);
}

/* Take the one argument of a command. */
static error_t take_name(const char **name, int key, char *arg, struct argp_state *state)
{
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

static error_t parse_name(int key, char *arg, struct argp_state *state)
{
	return take_name(state->input, key, arg, state);
}

/* Report the outcome of a command with a store as its argument. */
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

struct detach {
	const char *name;
	bool all;
};

static error_t parse_detach(int key, char *arg, struct argp_state *state)
{
	struct detach *detach = state->input;

	switch (key) {
	case 'a':
		detach->all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (detach->name)
			argp_error(state, "too many arguments: it takes one NAME");
		detach->name = arg;
		return 0;
	case ARGP_KEY_END:
		if (detach->all == !!detach->name)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option detach_options[] = {
	{ .name = "all", .key = 'a', .doc = "All durable stores" },
	{ 0 }
};

static int detach_one(const struct kvtree *kv, const char *name)
{
	int err = teardown(kv, kvtree_store_detach, "detach", name);

	if (err == -EIO) {
		warn("detach '%s': the last changes could not be written (dmesg says why)", name);
		return STATUS_ERROR;
	}
	return ended(err == -ENAMETOOLONG ? -ENOENT : err, "detach", "detached", name);
}

static int detach_all(const struct kvtree *kv)
{
	struct kvtree_store_info si = { 0 };
	int status = STATUS_OK;

	while (!kvtree_store_next(kv, &si, sizeof(si)))
		if (si.flags & KVTREE_STORE_DURABLE && detach_one(kv, si.name))
			status = STATUS_ERROR;
	return status;
}

int cmd_detach(int argc, char **argv)
{
	const struct argp argp = {
		.options = detach_options,
		.parser = parse_detach,
		.args_doc = "NAME\n--all",
		.doc = "Write a durable store to its devices and release them.\n"
		       "\vNeeds root. Programs that use it get errors. To attach it again, see\n"
		       "kvtree store attach.",
		.children = common_options,
	};
	struct detach detach = { 0 };
	struct kvtree *kv;
	int status;

	parse(&argp, argc, argv, &detach);
	tool.store = NULL;
	kv = open_store(KVTREE_OPEN_READ);
	status = detach.all ? detach_all(kv) : detach_one(kv, detach.name);
	kvtree_close(kv);
	return status;
}

int cmd_sync(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_name,
		.args_doc = "NAME",
		.doc = "Wait until all changes of a durable store are on its devices.",
		.children = common_options,
	};
	const char *name = NULL;
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, &name);
	tool.store = name;
	kv = open_store(KVTREE_OPEN_WRITE);
	err = kvtree_sync(kv);
	kvtree_close(kv);
	return ended(err, "sync", "synced", name);
}

struct saving {
	const char *name;
	bool progress;
};

static error_t parse_checkpoint(int key, char *arg, struct argp_state *state)
{
	struct saving *saving = state->input;

	if (key != 'P')
		return take_name(&saving->name, key, arg, state);
	saving->progress = true;
	return 0;
}

static const struct argp_option checkpoint_options[] = {
	{ .name = "progress", .key = 'P',
	  .doc = "Show progress (if standard error is a terminal)" },
	{ 0 }
};

static int call_checkpoint(const struct call *call)
{
	return kvtree_checkpoint(call->kv);
}

/* The bytes that checkpoints have written; 0: not known. */
static uint64_t saved_bytes(const struct kvtree *kv)
{
	uint64_t values[KVTREE_STAT_LOG_CHECKPOINT_BYTES + 1] = { 0 };

	kvtree_stat(kv, values, ARRAY_SIZE(values));
	return values[KVTREE_STAT_LOG_CHECKPOINT_BYTES];
}

/* Show how much is written, and in percent if that is known. */
static void show_saved(const struct call *call, struct progress *progress)
{
	struct kvtree_store_info si = { 0 };
	uint64_t bytes = saved_bytes(call->kv);

	/* Of a store that is being detached or destroyed, nothing is known any more. */
	if (bytes < call->before || kvtree_store_self(call->kv, &si, sizeof(si)))
		return;
	progress->total = si.progress ? 100 : 0;
	progress_show(progress, si.progress, (bytes - call->before) >> 20, 0);
}

int cmd_checkpoint(int argc, char **argv)
{
	const struct argp argp = {
		.options = checkpoint_options,
		.parser = parse_checkpoint,
		.args_doc = "NAME",
		.doc = "Write what has changed, so that attaching the store takes less time.\n"
		       "\vNeeds root. Programs can use the store meanwhile. Kvtree does it by\n"
		       "itself before the log is full.",
		.children = common_options,
	};
	struct saving saving = { .progress = isatty(STDERR_FILENO) };
	struct call call = {
		.run = call_checkpoint, .show = show_saved,
		.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER,
	};
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, &saving);
	tool.store = saving.name;
	kv = open_store(KVTREE_OPEN_READ);
	call.kv = kv;
	call.before = saved_bytes(kv);
	err = call_run(&call, saving.progress, "checkpoint", "MiB");
	kvtree_close(kv);
	return ended(err, "checkpoint", "checkpointed", saving.name);
}
