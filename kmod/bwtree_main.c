// SPDX-License-Identifier: GPL-2.0
/*
 * Module init and exit of kvtree_bwtree.ko: the Bw-tree, where it is not part of kvtree.ko.
 *
 * Stores with this engine have references to the module.  When the last one is dropped, no thread
 * runs in the engine: the store had waited for its callers, a grace period, the engine's worker,
 * and for the reclaim, which calls the engine's functions that free records.  The engine has no
 * other callbacks.
 */
#include <linux/module.h>

#include "base/index.h"
#include "compat.h"
#include "core/engine.h"

static int __init bw_init(void)
{
	return kvt_engine_register(&kvt_bwtree_ops);
}

static void __exit bw_exit(void)
{
	kvt_engine_unregister(&kvt_bwtree_ops);
}

module_init(bw_init);
module_exit(bw_exit);

MODULE_DESCRIPTION("The Bw-tree, an engine of kvtree");
MODULE_AUTHOR("kvtree contributors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
MODULE_ALIAS("kvtree-engine-bwtree");
KVT_IMPORT();
