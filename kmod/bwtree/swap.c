// SPDX-License-Identifier: GPL-2.0
/* What follows from the exchange of a record: see swap.h. */
#include <linux/workqueue.h>

#include "swap.h"

/**
 * bw_tidy_later() - tell the worker that there was a change
 * @tree: the tree
 *
 * Context: any but NMI.
 */
void bw_tidy_later(struct bw_tree *tree)
{
	if (!READ_ONCE(tree->busy)) {
		WRITE_ONCE(tree->busy, true);
		smp_mb();	/* pairs with bw_work() */
	}
	if (READ_ONCE(tree->asleep)) {
		WRITE_ONCE(tree->asleep, false);
		queue_delayed_work(tree->index.env.wq, &tree->work, BW_TIDY_DELAY);
	}
}
