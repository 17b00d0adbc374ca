// SPDX-License-Identifier: GPL-2.0
/* Recovery in a program: see recovery.h. */
#include <stddef.h>

#include "recovery.h"

static struct kvt_recovery *recovery_of(struct kvt_log_visit *visit)
{
	return (struct kvt_recovery *)((char *)visit - offsetof(struct kvt_recovery, visit));
}

static int visit_segment(struct kvt_log_visit *visit, u32 dev, const struct kvt_log_pos *pos,
			 u64 generation, enum kvtree_log_kind kind)
{
	struct kvt_recovery *rec = recovery_of(visit);

	if (rec->seen[dev][pos->segment])
		return 0;
	rec->seen[dev][pos->segment] = 1;
	rec->segments++;
	return kvt_log_segment_check(rec->set, dev, generation, pos, kind);
}

static int visit_extent(struct kvt_log_visit *visit, const struct kvt_log_extent *extent)
{
	struct kvt_recovery *rec = recovery_of(visit);
	int verdict = kvt_log_extent_check(&rec->reader, extent);

	rec->extents++;
	if (rec->progress)
		rec->progress(rec);
	return verdict;
}

static int visit_epoch(struct kvt_log_visit *visit)
{
	struct kvt_recovery *rec = recovery_of(visit);

	if (rec->epoch)
		rec->epoch(rec);
	return 0;
}

static int recovery_begin(struct kvt_recovery *rec)
{
	u32 i;

	rec->visit.segment = visit_segment;
	rec->visit.extent = visit_extent;
	rec->visit.epoch = visit_epoch;
	for (i = 0; i < rec->set->nr_devs; i++) {
		rec->seen[i] = calloc(1, le32_to_cpu(rec->set->dev[i].super->nr_segments));
		if (!rec->seen[i])
			return -ENOMEM;
	}
	return kvt_log_reader_init(&rec->reader, rec->set);
}

static void recovery_end(struct kvt_recovery *rec)
{
	u32 i;

	for (i = 0; i < rec->set->nr_devs; i++)
		free(rec->seen[i]);
	kvt_log_reader_exit(&rec->reader);
}

/**
 * kvt_recovery_run() - read everything that a recovery restores
 * @rec: the caller's fields are filled in
 * @found: from kvt_log_find(); the epoch to restore may be an earlier one
 *
 * Return: 0, or a negative errno; -EBADMSG: something is damaged.
 */
int kvt_recovery_run(struct kvt_recovery *rec, const struct kvt_log_found *found)
{
	int err = recovery_begin(rec);

	if (!err)
		err = kvt_log_visit_all(rec->set, found, &rec->visit);
	recovery_end(rec);
	return err;
}
