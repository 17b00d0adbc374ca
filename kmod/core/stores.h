/* SPDX-License-Identifier: GPL-2.0 */
/* Making, attaching, describing, destroying and detaching stores. */
#ifndef KVT_CORE_STORES_H
#define KVT_CORE_STORES_H

#include <linux/types.h>
#include <linux/kvtree.h>

struct kvt_late_posts;
struct kvt_store;

/* Functions of the module's BPF part, which is above stores, for them. */
struct kvt_store_bpf {
	bool (*offered)(void);		/* whether programs can use stores */
	int (*prepare)(void);		/* allocate what programs need; may sleep */
	void (*late_init)(struct kvt_late_posts *late);
	void (*late_exit)(struct kvt_late_posts *late);
};

int kvt_stores_init(const struct kvt_store_bpf *bpf);
void kvt_stores_exit(void);

int kvt_store_create(const struct kvtree_store_create *args);
int kvt_store_create_loaded(const struct kvtree_store_create *args);
int kvt_store_attach(const struct kvtree_store_create *store,
		     const struct kvtree_store_attach *args, char *const *paths);
int kvt_store_destroy(const char *name);
int kvt_store_detach(const char *name);
int kvt_store_allow_bpf(struct kvt_store *store);
int kvt_store_list(struct kvtree_store_info *info);
int kvt_store_describe(struct kvt_store *store, struct kvtree_store_info *info);

#endif /* KVT_CORE_STORES_H */
