// SPDX-License-Identifier: GPL-2.0
/* Sessions. */
#include <linux/errno.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "session.h"

/* Its rescuer keeps many sessions from delaying the reclaim of memory. */
struct workqueue_struct *kvt_sessions_wq;

/**
 * kvt_sessions_init() - prepare to make sessions
 *
 * Context: module init.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_sessions_init(void)
{
	int err = kvt_waits_prepare();

	if (err)
		return err;
	kvt_sessions_wq = alloc_workqueue("kvtree_sessions", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (kvt_sessions_wq)
		return 0;
	kvt_waits_end();
	return -ENOMEM;
}

/**
 * kvt_sessions_exit() - end of kvt_sessions_init()
 *
 * Context: module exit, sleeps.  No session is left.
 */
void kvt_sessions_exit(void)
{
	destroy_workqueue(kvt_sessions_wq);
	kvt_waits_end();
}

/**
 * kvt_session_new() - make a session
 * @store: its store, or NULL; the reference is taken over if it succeeds
 * @access: KVTREE_OPEN_*
 *
 * Context: process context, may sleep.
 *
 * Return: the session, or NULL.
 */
struct kvt_session *kvt_session_new(struct kvt_store *store, unsigned int access)
{
	struct kvt_session *session = kzalloc(sizeof(*session), GFP_KERNEL_ACCOUNT);

	if (!session)
		return NULL;
	session->store = store;
	session->access = access;
	kvt_waits_init(&session->waits);
	return session;
}

/**
 * kvt_session_free() - end a session
 * @session: the session, whose operations have ended
 *
 * Context: process context, may sleep.
 */
void kvt_session_free(struct kvt_session *session)
{
	kvt_waits_exit(&session->waits);
	kvt_scratch_exit(&session->scratch);
	kvt_store_put(session->store);
	kfree(session);
}
