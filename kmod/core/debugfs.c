// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/kvtree/<store>/: a store and its counters, as text.
 *
 * A read makes the text inside the store, and copies it to the reader outside of it, since the
 * page fault may take for ever.  So removing the files must not wait for reads: an open file
 * keeps struct kvt_store, as a session does, and debugfs guards only open().
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

#include "base/index.h"
#include "base/waiter.h"
#include "debugfs.h"
#include "log/log.h"
#include "store.h"

static struct dentry *kvt_debugfs;

static const char *const stat_names[KVTREE_STAT_NR] = {
	[KVTREE_STAT_KEYS]		= "keys",
	[KVTREE_STAT_BYTES]		= "bytes",
	[KVTREE_STAT_GET]		= "get",
	[KVTREE_STAT_GET_MISS]		= "get_miss",
	[KVTREE_STAT_PUT]		= "put",
	[KVTREE_STAT_CAS]		= "cas",
	[KVTREE_STAT_CAS_FAIL]		= "cas_fail",
	[KVTREE_STAT_REMOVE]		= "remove",
	[KVTREE_STAT_ADD]		= "add",
	[KVTREE_STAT_SCAN]		= "scan",
	[KVTREE_STAT_SCAN_RECORDS]	= "scan_records",
	[KVTREE_STAT_ERROR]		= "error",
	[KVTREE_STAT_BATCH]		= "batch",
	[KVTREE_STAT_GET_INTERLEAVED]	= "get_interleaved",
	[KVTREE_STAT_READ_RETRY]	= "read_retry",
	[KVTREE_STAT_READ_RESTART]	= "read_restart",
	[KVTREE_STAT_READ_BUSY]		= "read_busy",
	[KVTREE_STAT_LOCK_CONTENDED]	= "lock_contended",
	[KVTREE_STAT_SPLIT_LEAF]	= "split_leaf",
	[KVTREE_STAT_SPLIT_INNER]	= "split_inner",
	[KVTREE_STAT_ROOT_GROW]		= "root_grow",
	[KVTREE_STAT_LAYER_CREATE]	= "layer_create",
	[KVTREE_STAT_LAYER_COLLECT]	= "layer_collect",
	[KVTREE_STAT_LAYER_COLLAPSE]	= "layer_collapse",
	[KVTREE_STAT_NODE_UNLINK]	= "node_unlink",
	[KVTREE_STAT_ROOT_SHRINK]	= "root_shrink",
	[KVTREE_STAT_LAYERS]		= "layers",
	[KVTREE_STAT_LEAF_NODES]	= "leaf_nodes",
	[KVTREE_STAT_LEAF_BYTES]	= "leaf_bytes",
	[KVTREE_STAT_INNER_NODES]	= "inner_nodes",
	[KVTREE_STAT_INNER_BYTES]	= "inner_bytes",
	[KVTREE_STAT_VALUES]		= "values",
	[KVTREE_STAT_VALUE_BYTES]	= "value_bytes",
	[KVTREE_STAT_WAITING_BYTES]	= "waiting_bytes",
	[KVTREE_STAT_WAITING_MAX]	= "waiting_max",
	[KVTREE_STAT_WAITING_STALL]	= "waiting_stall",
	[KVTREE_STAT_RECLAIM_BATCHES]	= "reclaim_batches",
	[KVTREE_STAT_URING]		= "uring",
	[KVTREE_STAT_URING_PUNT]	= "uring_punt",
	[KVTREE_STAT_URING_WAIT]	= "uring_wait",
	[KVTREE_STAT_URING_CANCEL]	= "uring_cancel",
	[KVTREE_STAT_BPF]		= "bpf",
	[KVTREE_STAT_BPF_BUSY]		= "bpf_busy",
	[KVTREE_STAT_BPF_POST]		= "bpf_post",
	[KVTREE_STAT_BPF_POST_DROP]	= "bpf_post_drop",
	[KVTREE_STAT_BPF_POST_FAIL]	= "bpf_post_fail",
	[KVTREE_STAT_LOG_EPOCH]		= "log_epoch",
	[KVTREE_STAT_LOG_DURABLE]	= "log_durable",
	[KVTREE_STAT_LOG_EPOCHS]	= "log_epochs",
	[KVTREE_STAT_LOG_BYTES]		= "log_bytes",
	[KVTREE_STAT_LOG_FLUSHES]	= "log_flushes",
	[KVTREE_STAT_LOG_SYNC]		= "log_sync",
	[KVTREE_STAT_LOG_STALL]		= "log_stall",
	[KVTREE_STAT_LOG_FULL]		= "log_full",
	[KVTREE_STAT_LOG_CHECKPOINTS]	= "log_checkpoints",
	[KVTREE_STAT_LOG_LIVE_BYTES]	= "log_live_bytes",
	[KVTREE_STAT_LOG_CAPACITY]	= "log_capacity",
	[KVTREE_STAT_LOG_FREE_BYTES]	= "log_free_bytes",
	[KVTREE_STAT_LOG_ERROR]		= "log_error",
	[KVTREE_STAT_URING_WAKE]	= "uring_wake",
	[KVTREE_STAT_LOG_LIVE_MAX]	= "log_live_max",
	[KVTREE_STAT_LOG_RECORD_BYTES]	= "log_record_bytes",
	[KVTREE_STAT_LOG_CHECKPOINT_BYTES] = "log_checkpoint_bytes",
	[KVTREE_STAT_LOG_CHECKPOINTS_FULL] = "log_checkpoints_full",
	[KVTREE_STAT_LOG_IMAGE_BYTES]	= "log_image_bytes",
	[KVTREE_STAT_LOG_RANGES]	= "log_ranges",
	[KVTREE_STAT_LOG_PIECES]	= "log_pieces",
};

static int stats_show(struct seq_file *seq, struct kvt_store *store)
{
	struct kvtree_engine_stat stat = {};
	unsigned int id;

	for (id = 0; id < KVTREE_STAT_NR; id++)
		seq_printf(seq, "%s %llu\n", stat_names[id], kvt_store_stat(store, id));
	for (; !kvt_store_engine_stat(store, &stat); stat.nr++)
		seq_printf(seq, "%s %llu\n", stat.name, stat.value);
	return 0;
}

static int info_show(struct seq_file *seq, struct kvt_store *store)
{
	const struct kvt_settings settings = kvt_store_settings(store);

	seq_printf(seq, "id %llu\n", store->id);
	seq_printf(seq, "engine %s\n", store->index->ops->name);
	seq_printf(seq, "page_size %u\n", store->index->env.page_size);
	seq_printf(seq, "mode %04o\n", settings.mode);
	seq_printf(seq, "uid %u\n", from_kuid_munged(&init_user_ns, settings.uid));
	seq_printf(seq, "gid %u\n", from_kgid_munged(&init_user_ns, settings.gid));
	seq_printf(seq, "limit_bytes %llu\n", settings.limit_bytes);
	seq_printf(seq, "limit_keys %llu\n", settings.limit_keys);
	seq_printf(seq, "waiting_bound %llu\n", store->reclaim.bound);
	seq_printf(seq, "version_floor %llu\n", (u64)atomic64_read(&store->version_floor));
	return 0;
}

/* Called between two values of a recount; returns an errno to end it. */
static int recount_pause(void *store)
{
	if (kvt_store_dying(store))
		return -ESTALE;
	return fatal_signal_pending(current) ? -EINTR : 0;
}

/* Recount what is counted incrementally.  The results are equal if the store does not change. */
static int recount_show(struct seq_file *seq, struct kvt_store *store)
{
	struct kvt_live live = {};
	int err = 0;

	if (store->log)
		err = kvt_log_recount(store->log, recount_pause, store, &live);
	if (!err)
		seq_printf(seq, "%s %llu\n", stat_names[KVTREE_STAT_LOG_LIVE_BYTES],
			   live.bytes);
	return err;
}

static int waiting_show(struct seq_file *seq, struct kvt_store *store)
{
	const struct kvt_waiter *waiter;
	struct kvt_waiters waiters;
	unsigned int i;

	kvt_store_waiters(store, &waiters);
	for (i = 0; i < waiters.nr; i++) {
		waiter = &waiters.waiter[i];
		seq_printf(seq, "%d %s %s %s\n", waiter->pid, waiter->command ? "command" : "call",
			   waiter->what, waiter->comm);
	}
	if (waiters.more)
		seq_printf(seq, "%u more\n", waiters.more);
	return 0;
}

static int file_show(struct seq_file *seq, int (*show)(struct seq_file *, struct kvt_store *))
{
	struct kvt_store *store = seq->private;
	int err;

	if (!kvt_store_enter(store))
		return -ESTALE;
	err = show(seq, store);
	kvt_store_leave(store);
	return err;
}

static int file_open(struct inode *inode, struct file *file,
		     int (*show)(struct seq_file *, void *))
{
	struct kvt_store *store = inode->i_private;
	int err;

	err = single_open(file, show, store);
	if (!err)
		kref_get(&store->ref);
	return err;
}

static int file_release(struct inode *inode, struct file *file)
{
	struct seq_file *seq = file->private_data;

	kvt_store_put(seq->private);
	return single_release(inode, file);
}

/* As DEFINE_SHOW_ATTRIBUTE(), for a function that shows a store from inside of it. */
#define DEFINE_STORE_FILE(name)						\
static int name##_file_show(struct seq_file *seq, void *unused)		\
{									\
	return file_show(seq, name##_show);				\
}									\
									\
static int name##_file_open(struct inode *inode, struct file *file)	\
{									\
	return file_open(inode, file, name##_file_show);		\
}									\
									\
static const struct file_operations name##_fops = {			\
	.owner = THIS_MODULE,						\
	.open = name##_file_open,					\
	.read = seq_read,						\
	.llseek = seq_lseek,						\
	.release = file_release,					\
}

DEFINE_STORE_FILE(stats);
DEFINE_STORE_FILE(info);
DEFINE_STORE_FILE(waiting);
DEFINE_STORE_FILE(recount);

/**
 * kvt_debugfs_add() - show a store
 * @store: the store, fully made
 *
 * Context: process context, sleeps.
 *
 * Return: its folder, for kvt_debugfs_remove(), which also takes an error pointer.
 */
struct dentry *kvt_debugfs_add(struct kvt_store *store)
{
	struct dentry *dir = debugfs_create_dir(store->name, kvt_debugfs);

	debugfs_create_file_unsafe("stats", 0400, dir, store, &stats_fops);
	debugfs_create_file_unsafe("info", 0400, dir, store, &info_fops);
	debugfs_create_file_unsafe("waiting", 0400, dir, store, &waiting_fops);
	debugfs_create_file_unsafe("recount", 0400, dir, store, &recount_fops);
	return dir;
}

/**
 * kvt_debugfs_remove() - stop showing a store
 * @dir: of kvt_debugfs_add()
 *
 * Waits for files that are being opened, not for reads.
 *
 * Context: process context, sleeps.
 */
void kvt_debugfs_remove(struct dentry *dir)
{
	debugfs_remove(dir);
}

/**
 * kvt_debugfs_init() - make the module's folder
 *
 * Context: module init.
 */
void kvt_debugfs_init(void)
{
	kvt_debugfs = debugfs_create_dir("kvtree", NULL);
}

/**
 * kvt_debugfs_exit() - remove the module's folder
 *
 * Context: module exit.
 */
void kvt_debugfs_exit(void)
{
	debugfs_remove(kvt_debugfs);
}
