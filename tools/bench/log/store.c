// SPDX-License-Identifier: GPL-2.0
/* kvtree stores: create, fill and read them. */
#include <stdio.h>
#include <sys/ioctl.h>

#include <kvtree.h>

#include "bench_log.h"

static void open_session(struct store *store, const char *name)
{
	int err = kvtree_open(name, 0, &store->kv);

	if (err)
		die("store %s: %s", name, kvtree_strerror(err));
	snprintf(store->name, sizeof(store->name), "%s", name);
	store->fd = kvtree_fd(store->kv);
}

/* An ioctl on /dev/kvtree itself. */
static void control(const char *name, unsigned long request, void *args)
{
	struct kvtree *any;
	int err = kvtree_open(NULL, 0, &any);

	if (!err && ioctl(kvtree_fd(any), request, args))
		err = -errno;
	if (err)
		die("store %s: %s (see dmesg)", name, kvtree_strerror(err));
	kvtree_close(any);
}

/**
 * store_format() - format a device
 * @o: contains the tool's path
 * @device: its path; its data is lost
 */
void store_format(const struct options *o, const char *device)
{
	command("'%s' store format --force %s", o->tool, device);
}

/**
 * store_create() - create a volatile store
 * @store: filled in
 * @name: its name
 */
void store_create(struct store *store, const char *name)
{
	struct kvtree_store_create args = { .mode = 0600 };

	snprintf(args.name, sizeof(args.name), "%s", name);
	control(name, KVTREE_IOC_STORE_CREATE, &args);
	open_session(store, name);
}

/**
 * store_attach() - attach the store on a device
 * @store: filled in
 * @name: its name
 * @engine: its engine, or "" for the default
 * @device: its path
 */
void store_attach(struct store *store, const char *name, const char *engine, const char *device)
{
	uint64_t path = (uintptr_t)device;
	struct kvtree_store_create create = { .mode = 0600 };
	struct kvtree_store_attach args = {
		.store = (uintptr_t)&create,
		.store_size = sizeof(create),
		.devices = (uintptr_t)&path,
		.nr_devices = 1,
	};

	snprintf(create.name, sizeof(create.name), "%s", name);
	snprintf(create.engine, sizeof(create.engine), "%s", engine);
	control(name, KVTREE_IOC_STORE_ATTACH, &args);
	open_session(store, name);
	store->engine = engine;
	store->device = device;
}

/**
 * store_detach() - detach a durable store
 * @store: the store
 */
void store_detach(struct store *store)
{
	struct kvtree_store_detach args = { 0 };

	kvtree_close(store->kv);
	snprintf(args.name, sizeof(args.name), "%s", store->name);
	control(store->name, KVTREE_IOC_STORE_DETACH, &args);
}

/**
 * store_reattach() - detach a durable store and attach it again
 * @store: the store
 *
 * Return: the seconds that attaching took
 */
double store_reattach(struct store *store)
{
	char name[sizeof(store->name)];
	double start;

	snprintf(name, sizeof(name), "%s", store->name);
	store_detach(store);
	command("sync; echo 1 >/proc/sys/vm/drop_caches");
	start = seconds_now();
	store_attach(store, name, store->engine, store->device);
	return seconds_now() - start;
}

/**
 * store_destroy() - destroy a volatile store
 * @store: the store
 */
void store_destroy(struct store *store)
{
	struct kvtree_store_destroy args = { 0 };

	kvtree_close(store->kv);
	snprintf(args.name, sizeof(args.name), "%s", store->name);
	control(store->name, KVTREE_IOC_STORE_DESTROY, &args);
}

/**
 * store_checkpoint() - write a checkpoint
 * @store: the store
 */
void store_checkpoint(const struct store *store)
{
	struct kvtree_checkpoint args = { 0 };

	if (ioctl(store->fd, KVTREE_IOC_CHECKPOINT, &args))
		die("checkpoint: %s", kvtree_strerror(errno));
}

/**
 * store_sync() - wait until everything is durable
 * @store: the store
 */
void store_sync(const struct store *store)
{
	int err = kvtree_sync(store->kv);

	if (err)
		die("sync: %s", kvtree_strerror(err));
}

/**
 * store_checkpoints() - how many checkpoints there were
 * @store: the store
 *
 * Return: those since it was attached, of which nothing more is written
 */
uint64_t store_checkpoints(const struct store *store)
{
	uint64_t values[KVTREE_STAT_LOG_CHECKPOINTS + 1];
	int known = kvtree_stat(store->kv, values, KVTREE_STAT_LOG_CHECKPOINTS + 1);

	if (known <= KVTREE_STAT_LOG_CHECKPOINTS)
		die("stat: %s", kvtree_strerror(known));
	return values[KVTREE_STAT_LOG_CHECKPOINTS];
}

/**
 * store_expect_log() - end the program if not everything is in the log
 * @store: a store that was formatted and filled; no log was too long
 */
void store_expect_log(const struct store *store)
{
	if (store_checkpoints(store))
		die("%s: too small for a log of all keys beside a checkpoint", store->device);
}

/**
 * store_replay_mb() - set the module's parameter log_replay_mb
 * @mb: a log of at least this many MiB asks for a checkpoint; REPLAY_NEVER: none does
 *
 * Return: what it was
 */
uint32_t store_replay_mb(uint32_t mb)
{
	const char *path = "/sys/module/kvtree/parameters/log_replay_mb";
	FILE *f = fopen(path, "r+");
	uint32_t was;

	if (!f || fscanf(f, "%u", &was) != 1)
		die("%s: cannot be read", path);
	rewind(f);
	if (fprintf(f, "%u", mb) < 0 || fclose(f))
		die("%s: cannot be written", path);
	return was;
}

/**
 * op_make() - lay out a put
 * @op: filled in
 * @value: VALUE_LEN bytes for its value, of which it has value_len
 * @key: number of the key
 * @count: distinguishes the value from others
 * @sync: acknowledge it only when it is durable
 */
void op_make(struct kvtree_op *op, char *value, uint32_t key, uint64_t count, bool sync)
{
	value_make(value, key, count);
	*op = (struct kvtree_op) {
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE | (sync ? KVTREE_F_SYNC : 0),
		.key_len = KEY_LEN,
		.val = (uintptr_t)value,
		.val_len = value_len,
	};
	key_make((char *)op->key_inline, key);
}

/**
 * op_run() - execute an operation by its own system call
 * @store: the store
 * @op: the operation
 */
void op_run(const struct store *store, struct kvtree_op *op)
{
	if (ioctl(store->fd, KVTREE_IOC_OP, op))
		die("kvtree: KVTREE_IOC_OP: %s", kvtree_strerror(errno));
	if (op->result < 0)
		die("kvtree: a put failed: %s", kvtree_strerror(op->result));
}

/**
 * ops_run() - execute operations by batches
 * @store: the store
 * @ops: the operations
 * @nr: their number
 */
void ops_run(const struct store *store, struct kvtree_op *ops, unsigned int nr)
{
	unsigned int i;
	size_t done;
	int err = kvtree_submit(store->kv, ops, nr, &done);

	for (i = 0; !err && i < nr; i++)
		err = ops[i].result < 0 ? ops[i].result : 0;
	if (err)
		die("kvtree: a batch: %s", kvtree_strerror(err));
}

/**
 * store_put() - put keys by a batch
 * @store: the store
 * @keys: their numbers
 * @nr: how many, at most BATCH
 * @count: for the values
 */
void store_put(const struct store *store, const uint32_t *keys, unsigned int nr, uint64_t count)
{
	static struct kvtree_op ops[BATCH];
	static char values[BATCH][VALUE_LEN];
	unsigned int i;

	for (i = 0; i < nr; i++)
		op_make(&ops[i], values[i], keys[i], count, false);
	ops_run(store, ops, nr);
}

/**
 * store_load() - put keys in batches, in scattered order
 * @store: the store
 * @first: the first key
 * @end: the number after the last key
 * @count: for the values
 *
 * Return: bytes of keys and values
 */
uint64_t store_load(const struct store *store, uint32_t first, uint32_t end, uint64_t count)
{
	uint32_t keys[BATCH], at, i, nr;

	for (at = first; at < end; at += nr) {
		nr = end - at < BATCH ? end - at : BATCH;
		for (i = 0; i < nr; i++)
			keys[i] = key_scattered(at + i, end);
		store_put(store, keys, nr, count);
	}
	return (uint64_t)(end - first) * (KEY_LEN + value_len);
}

/**
 * store_check() - read all keys; ends the program if a value is wrong
 * @store: the store
 * @keys: the number of keys
 */
void store_check(const struct store *store, uint32_t keys)
{
	static struct kvtree_op ops[BATCH];
	static char values[BATCH][VALUE_LEN];
	uint32_t at, i, nr;

	for (at = 0; at < keys; at += nr) {
		nr = keys - at < BATCH ? keys - at : BATCH;
		for (i = 0; i < nr; i++) {
			op_make(&ops[i], values[i], at + i, 0, false);
			ops[i].opcode = KVTREE_OP_GET;
		}
		ops_run(store, ops, nr);
		for (i = 0; i < nr; i++)
			if (!value_right(values[i], ops[i].result, at + i))
				die("kvtree: a wrong value for the key of number %u", at + i);
	}
}
