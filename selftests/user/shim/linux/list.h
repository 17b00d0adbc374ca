/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LIST_H
#define SHIM_LIST_H

#include <linux/compiler.h>
#include <linux/container_of.h>

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list_head *node, struct list_head *list)
{
	node->next = list;
	node->prev = list->prev;
	WRITE_ONCE(list->prev->next, node);	/* others may ask whether it is empty */
	list->prev = node;
}

static inline void list_del_init(struct list_head *node)
{
	node->next->prev = node->prev;
	WRITE_ONCE(node->prev->next, node->next);
	INIT_LIST_HEAD(node);
}

static inline void list_replace_init(struct list_head *old, struct list_head *node)
{
	list_add_tail(node, old);
	list_del_init(old);
}

#endif /* SHIM_LIST_H */
