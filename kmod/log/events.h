/* SPDX-License-Identifier: GPL-2.0 */
/* Events of a log: asking for commits, and waiting for durability and room. */
#ifndef KVT_LOG_EVENTS_H
#define KVT_LOG_EVENTS_H

#include <linux/types.h>

struct kvt_event;
struct kvt_log;
struct kvt_waiters;

/* events.c */
u64 kvt_log_dirty_epoch(const struct kvt_log *log);
int kvt_log_wait_space(struct kvt_log *log);
int kvt_log_sync(struct kvt_log *log, u64 epoch);
int kvt_log_synced(const struct kvt_log *log, u64 epoch);
void kvt_log_want(struct kvt_log *log, u64 epoch);
bool kvt_log_has_space(const struct kvt_log *log);
struct kvt_event *kvt_log_space_event(struct kvt_log *log);
struct kvt_event *kvt_log_durable_event(struct kvt_log *log);
void kvt_log_waiters(struct kvt_log *log, struct kvt_waiters *waiters);

#endif /* KVT_LOG_EVENTS_H */
