// SPDX-License-Identifier: GPL-2.0
/* The state of a log: its initialization, and the failure that ends all writing. */
#include <linux/printk.h>

#include "compat.h"
#include "state.h"

bool kvt_log_asleep;

DECLARE_WAIT_QUEUE_HEAD(kvt_log_awake);

/**
 * kvt_log_state_init() - initialize a log's events
 * @state: of a log
 */
void kvt_log_state_init(struct kvt_log_state *state)
{
	kvt_event_init(&state->durable_event, "changes to be durable");
	kvt_event_init(&state->space_event, "room in the log");
	kvt_event_init(&state->checkpoint_event, "a checkpoint");
}
KVT_EXPORT_FOR_TESTS(kvt_log_state_init);

/**
 * kvt_log_fail() - stop all writing to a log
 * @state: of the log
 * @err: why
 * @what: why, in words
 *
 * The store is read-only from now on, and waiters are woken.  Only the first call has an effect.
 *
 * Context: process context, may sleep.
 */
void kvt_log_fail(struct kvt_log_state *state, int err, const char *what)
{
	if (cmpxchg(&state->error, 0, err))
		return;
	pr_err("kvtree: store '%s' is read-only from now on: %s (error %d)\n", state->env.name,
	       what, err);
	kvt_event_wake(&state->durable_event);
	kvt_event_wake(&state->space_event);
}

/**
 * kvt_log_wait_awake() - wait until the machine is awake
 *
 * Context: process context, sleeps; the caller may be frozen, and must hold no locks.
 *
 * Return: 0 or -EINTR: a fatal signal came.
 */
int kvt_log_wait_awake(void)
{
	int err = kvt_log_wait_event(kvt_log_awake, !READ_ONCE(kvt_log_asleep));

	return err ? -EINTR : 0;
}
