// SPDX-License-Identifier: GPL-2.0
/* The trees in which cancellations find commands (wait.h). */
#include <linux/rbtree.h>

#include "wait_internal.h"

/* Executed commands come last, so cancellations of pending ones do not look at them. */
static bool tree_before(const struct kvt_wait *wait, bool executed, u64 user_data, u64 seq)
{
	if (wait->executed != executed)
		return executed;
	return wait->user_data < user_data || (wait->user_data == user_data && wait->seq < seq);
}

static bool tree_less(struct rb_node *a, const struct rb_node *b)
{
	const struct kvt_wait *wait = rb_entry(b, struct kvt_wait, node);

	return tree_before(rb_entry(a, struct kvt_wait, node), wait->executed, wait->user_data,
			   wait->seq);
}

static int owner_cmp(const void *owner, const struct rb_node *node)
{
	const void *other = rb_entry(node, struct kvt_wait, owned)->owner;

	return owner < other ? -1 : owner > other;
}

static bool owner_less(struct rb_node *a, const struct rb_node *b)
{
	return owner_cmp(rb_entry(a, struct kvt_wait, owned)->owner, b) < 0;
}

static void tree_del(struct rb_root *tree, struct rb_node *node)
{
	if (RB_EMPTY_NODE(node))
		return;
	rb_erase(node, tree);
	RB_CLEAR_NODE(node);
}

/**
 * kvt_wait_list() - let cancellations find a command
 * @wait: the command, not listed yet
 *
 * Executed commands cannot be canceled: they are listed to report that.
 *
 * Context: under the lock.
 */
void kvt_wait_list(struct kvt_wait *wait)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);

	rb_add(&wait->node, &waits->tree, tree_less);
	if (!wait->executed)
		rb_add(&wait->owned, &waits->owned, owner_less);
}

/**
 * kvt_wait_unlist() - hide a command from cancellations
 * @wait: the command, which may be hidden already
 *
 * Context: under the lock.
 */
void kvt_wait_unlist(struct kvt_wait *wait)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);

	tree_del(&waits->tree, &wait->node);
	tree_del(&waits->owned, &wait->owned);
}

/**
 * kvt_wait_find() - the first command at or after a place
 * @waits: a session's
 * @executed: which kind
 * @user_data: where to begin
 * @seq: ... among those of that user_data
 *
 * Context: under the lock.
 *
 * Return: the command, or NULL.
 */
struct kvt_wait *kvt_wait_find(const struct kvt_waits *waits, bool executed, u64 user_data, u64 seq)
{
	struct rb_node *node = waits->tree.rb_node;
	struct kvt_wait *wait, *found = NULL;

	while (node) {
		wait = rb_entry(node, struct kvt_wait, node);
		if (tree_before(wait, executed, user_data, seq)) {
			node = node->rb_right;
		} else {
			found = wait;
			node = node->rb_left;
		}
	}
	return found && found->executed == executed ? found : NULL;
}

/**
 * kvt_wait_find_owned() - find an update that a process has submitted
 * @waits: a session's
 * @owner: the process's files
 *
 * Context: under the lock.
 *
 * Return: the oldest one that was not disowned (kvt_wait_disown()), or NULL.
 */
struct kvt_wait *kvt_wait_find_owned(const struct kvt_waits *waits, const void *owner)
{
	struct rb_node *node = rb_find_first(owner, &waits->owned, owner_cmp);

	return node ? rb_entry(node, struct kvt_wait, owned) : NULL;
}

/**
 * kvt_wait_disown() - hide an update from kvt_wait_find_owned()
 * @wait: the update's
 *
 * Context: under the lock.
 */
void kvt_wait_disown(struct kvt_wait *wait)
{
	tree_del(&kvt_wait_waits(wait)->owned, &wait->owned);
}
