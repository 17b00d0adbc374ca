/* SPDX-License-Identifier: GPL-2.0 */
/* Read in a program everything that the module's recovery restores from the devices of a store. */
#ifndef KVT_FORMAT_RECOVERY_H
#define KVT_FORMAT_RECOVERY_H

#include "../../kmod/log/format/format.h"

struct kvt_recovery {
	/* The caller's; all else begins as zeros. */
	struct kvt_log_set *set;	/* loaded */
	struct kvt_log_reader reader;	/* entry(): gets each record, older ones of a key too */
	void (*progress)(struct kvt_recovery *rec);	/* after each extent; or NULL */
	/* After each epoch, see kvt_log_visit_all(); or NULL. */
	void (*epoch)(struct kvt_recovery *rec);
	/* Of kvt_recovery_run(). */
	u64 segments;
	u64 extents;
	struct kvt_log_visit visit;
	u8 *seen[KVTREE_LOG_DEVS_MAX];	/* segments whose header was read */
};

int kvt_recovery_run(struct kvt_recovery *rec, const struct kvt_log_found *found);

#endif /* KVT_FORMAT_RECOVERY_H */
