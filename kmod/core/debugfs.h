/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_CORE_DEBUGFS_H
#define KVT_CORE_DEBUGFS_H

struct dentry;
struct kvt_store;

void kvt_debugfs_init(void);
void kvt_debugfs_exit(void);
struct dentry *kvt_debugfs_add(struct kvt_store *store);
void kvt_debugfs_remove(struct dentry *dir);

#endif /* KVT_CORE_DEBUGFS_H */
