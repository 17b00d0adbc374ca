/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_CORE_ENGINE_H
#define KVT_CORE_ENGINE_H

#include <linux/types.h>

struct kvt_index_ops;

const struct kvt_index_ops *kvt_engine_find(const char *name);
bool kvt_engine_has_pages(const struct kvt_index_ops *ops, u32 size);
size_t kvt_engine_iter_size(void);

#endif /* KVT_CORE_ENGINE_H */
