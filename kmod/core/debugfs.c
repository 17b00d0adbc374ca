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
#define KVT_COUNTER(name, ...)	name
#include <kvtree_counters.h>
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
