// SPDX-License-Identifier: GPL-2.0
/* Sessions. */
#include <linux/slab.h>

#include "session.h"

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
 * @session: the session, after all its operations
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
