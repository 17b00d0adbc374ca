/* SPDX-License-Identifier: GPL-2.0 */
/* A session: an open file of /dev/kvtree, with a store and access rights to it. */
#ifndef KVT_API_SESSION_H
#define KVT_API_SESSION_H

#include <linux/cache.h>
#include <linux/types.h>

#include "core/store.h"
#include "run.h"
#include "scratch.h"
#include "wait.h"

struct kvt_session {
	/* Set once. */
	struct kvt_store *store;	/* NULL: there was no default store when it was opened */
	unsigned int access;		/* KVTREE_OPEN_* */

	/* Written by operations, so not in the line that all of them read. */
	struct kvt_scratch scratch ____cacheline_aligned_in_smp;
	struct kvt_waits waits;		/* commands of io_uring */
};

struct kvt_session *kvt_session_new(struct kvt_store *store, unsigned int access);
void kvt_session_free(struct kvt_session *session);

/**
 * kvt_session_enter() - enter the session's store
 * @session: the session
 *
 * Context: any.
 *
 * Return: true, and kvt_session_leave() must follow; false if the store was destroyed or
 * there never was one.
 */
static inline bool kvt_session_enter(const struct kvt_session *session)
{
	return session->store && kvt_store_enter(session->store);
}

/**
 * kvt_session_leave() - end of kvt_session_enter()
 * @session: the session
 *
 * Context: any.
 */
static inline void kvt_session_leave(const struct kvt_session *session)
{
	kvt_store_leave(session->store);
}

/**
 * kvt_session_enter_rcu() - enter the session's store for a short time
 * @session: the session
 *
 * Context: any.
 *
 * Return: true, under rcu_read_lock(), and kvt_session_leave_rcu() must follow;
 * false if the store was destroyed or there never was one.
 */
static inline bool kvt_session_enter_rcu(const struct kvt_session *session)
{
	return session->store && kvt_store_enter_rcu(session->store);
}

/**
 * kvt_session_leave_rcu() - end of kvt_session_enter_rcu()
 * @session: the session
 *
 * Context: any.
 */
static inline void kvt_session_leave_rcu(const struct kvt_session *session)
{
	kvt_store_leave_rcu(session->store);
}

/**
 * kvt_session_ctx() - the context of a session's operations that may sleep
 * @session: the session
 *
 * Return: a context.
 */
static inline struct kvt_op_ctx kvt_session_ctx(struct kvt_session *session)
{
	return (struct kvt_op_ctx) {
		.store = session->store,
		.access = session->access,
		.gfp = KVT_GFP_PROCESS,
		.waits = true,
		.interruptible = true,
		.scratch = &session->scratch,
	};
}

#endif /* KVT_API_SESSION_H */
