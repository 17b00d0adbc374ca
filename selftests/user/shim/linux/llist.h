/* SPDX-License-Identifier: GPL-2.0 */
/* Lists with many producers and one consumer; the last added comes first. */
#ifndef SHIM_LLIST_H
#define SHIM_LLIST_H

#include <linux/atomic.h>
#include <linux/container_of.h>

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

static inline void init_llist_head(struct llist_head *head)
{
	head->first = NULL;
}

static inline bool llist_empty(const struct llist_head *head)
{
	return !READ_ONCE(head->first);
}

/* The link is a plain store, as it is in the kernel. */
static inline bool llist_add_batch(struct llist_node *from, struct llist_node *to,
				   struct llist_head *head)
{
	struct llist_node *first = READ_ONCE(head->first);

	do {
		to->next = first;
	} while (!try_cmpxchg(&head->first, &first, from));
	return !first;
}

static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	return llist_add_batch(node, node, head);
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	return xchg(&head->first, NULL);
}

#define llist_entry(node, type, member)	container_of(node, type, member)

/* The entry of a node, or NULL. */
#define shim_llist_entry(node, type, member)				\
({									\
	struct llist_node *node_ = (node);				\
									\
	node_ ? llist_entry(node_, type, member) : NULL;		\
})

#define llist_for_each_entry_safe(pos, n, node, member)			\
	for (pos = shim_llist_entry(node, typeof(*pos), member);	\
	     pos && (n = shim_llist_entry(pos->member.next, typeof(*n), member), true); \
	     pos = n)

#endif /* SHIM_LLIST_H */
