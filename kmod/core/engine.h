/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_CORE_ENGINE_H
#define KVT_CORE_ENGINE_H

#include <linux/types.h>

struct kvt_index_ops;
struct module;

const struct kvt_index_ops *kvt_engine_get(const char *name);
const struct kvt_index_ops *kvt_engine_tryget(const char *name);
int kvt_engine_ask(const char *name);
void kvt_engine_put(const struct kvt_index_ops *ops);
bool kvt_engine_has_pages(const struct kvt_index_ops *ops, u32 size);

int __kvt_engine_register(const struct kvt_index_ops *ops, struct module *owner, u32 build);
void kvt_engine_unregister(const struct kvt_index_ops *ops);

/*
 * Called by the init of an engine's module.  An engine uses structures and inline functions of
 * kvtree.ko, so both must come from the same headers: kmod/Kbuild sums them up.
 */
#define kvt_engine_register(ops)	\
	__kvt_engine_register(ops, THIS_MODULE, KVT_ENGINE_BUILD)

#endif /* KVT_CORE_ENGINE_H */
