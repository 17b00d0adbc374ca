// SPDX-License-Identifier: GPL-2.0
/* Module init and exit. */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "api/chardev.h"
#include "api/wait.h"
#include "base/index.h"
#include "base/mem.h"
#include "bpf/bpf.h"
#include "compat.h"
#include "core/debugfs.h"
#include "core/stores.h"
#include "log/log.h"

#define CREATE_TRACE_POINTS
#include "base/trace.h"

static unsigned int default_limit_mb = 1024;
module_param(default_limit_mb, uint, 0444);
MODULE_PARM_DESC(default_limit_mb, "MiB that the store 'default' may hold (0: no limit)");

static unsigned int default_uid;
module_param(default_uid, uint, 0444);
MODULE_PARM_DESC(default_uid, "owner of the store 'default'");

static unsigned int default_gid;
module_param(default_gid, uint, 0444);
MODULE_PARM_DESC(default_gid, "group of the store 'default'");

static unsigned int default_mode = 0600;
module_param(default_mode, uint, 0444);
MODULE_PARM_DESC(default_mode, "mode of the store 'default', for example 0660");

static int __init default_store_init(void)
{
	struct kvtree_store_create args = {
		.name = KVT_DEFAULT_STORE,
		.uid = default_uid,
		.gid = default_gid,
		.mode = default_mode,
		.limit_bytes = (u64)default_limit_mb << 20,
	};

	return kvt_store_create(&args);
}

static int __init kvt_init(void)
{
	int err;

	kvt_debugfs_init();
	err = kvt_mem_init();
	if (err)
		goto debugfs;
	err = kvt_masstree_init();
	if (err)
		goto value;
	err = kvt_logs_init();
	if (err)
		goto masstree;
	err = kvt_stores_init(&kvt_bpf_stores);
	if (err)
		goto logs;
	err = default_store_init();
	if (err)
		goto stores;
	err = kvt_waits_prepare();
	if (err)
		goto stores;
	err = kvt_bpf_init();
	if (err)
		goto waits;
	err = kvt_chardev_init();
	if (err)
		goto bpf;
	return 0;

bpf:
	kvt_bpf_exit();
waits:
	kvt_waits_end();
stores:
	kvt_stores_exit();
logs:
	kvt_logs_exit();
masstree:
	kvt_masstree_exit();
value:
	kvt_mem_exit();
debugfs:
	kvt_debugfs_exit();
	return err;
}

static void __exit kvt_exit(void)
{
	kvt_chardev_exit();
	kvt_bpf_exit();
	kvt_waits_end();
	kvt_stores_exit();
	kvt_logs_exit();
	kvt_debugfs_exit();
	/* Callbacks into the module's code may still be pending. */
	rcu_barrier();
	kvt_masstree_exit();
	kvt_mem_exit();
}

module_init(kvt_init);
module_exit(kvt_exit);

MODULE_DESCRIPTION("Ordered key-value index shared by processes and BPF programs");
MODULE_AUTHOR("kvtree contributors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
