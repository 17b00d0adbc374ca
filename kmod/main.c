// SPDX-License-Identifier: GPL-2.0
/* Module init and exit. */
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "api/chardev.h"
#include "api/wait.h"
#include "base/index.h"
#include "base/mem.h"
#include "bpf/bpf.h"
#include "compat.h"
#include "core/debugfs.h"
#include "core/default_store.h"
#include "core/stores.h"
#include "log/log.h"

#define CREATE_TRACE_POINTS
#include "base/trace.h"

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
	err = kvt_default_store_init();
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
	kvt_default_store_start();
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
	kvt_default_store_exit();
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
/* For an initramfs, whose tools find what a module needs, but not what it asks for. */
MODULE_WEAKDEP("kvtree_bwtree");
