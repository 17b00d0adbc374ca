/* SPDX-License-Identifier: GPL-2.0 */
/* Notes: a writer logs a change, publishes it in the index, and then completes its record. */
#ifndef KVT_LOG_NOTE_H
#define KVT_LOG_NOTE_H

#include "live.h"

struct kvt_key;
struct kvt_log;
struct kvt_log_buf;
struct kvt_value;
struct kvtree_log_record;

/* A change between kvt_log_reserve() and kvt_log_publish(). */
struct kvt_log_note {
	struct kvt_log *log;
	struct kvt_log_buf *buf;
	struct kvtree_log_record *record;
	u64 epoch;
	struct kvt_live live;	/* what the change adds to the live bytes */
};

/* stream.c */
int kvt_log_reserve(struct kvt_log *log, struct kvt_log_note *note, const struct kvt_key *key,
		    const struct kvt_value *old, const struct kvt_value *new);
void kvt_log_publish(struct kvt_log_note *note, bool published);

#endif /* KVT_LOG_NOTE_H */
