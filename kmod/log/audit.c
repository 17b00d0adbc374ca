// SPDX-License-Identifier: GPL-2.0
/* An audit of checkpoints: the devices and the index have the same keys that are not marked. */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/value.h"
#include "life.h"

struct audit {
	struct kvt_log_reader reader;
	const struct kvt_image *image;
	const struct kvt_ranges *ranges;
	struct kvt_iter *iter;
	unsigned long mark;		/* of the range */
	u64 nr;				/* number of its keys that are not marked, ... */
	u64 versions;			/* ... and the sum of their versions */
};

static bool audit_counts(const struct audit *audit, const u8 *key, u32 len)
{
	if (audit->mark == KVT_MARK_NONE)
		return true;
	return audit->mark != KVT_MARK_WHOLE &&
	       !test_bit(kvt_log_key_hash(audit->image->seed, key, len),
			 kvt_mark_bits(audit->mark));
}

static int audit_entry(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct audit *audit = container_of(reader, struct audit, reader);

	if (audit_counts(audit, entry->key, entry->key_len)) {
		audit->nr++;
		audit->versions += entry->version;
	}
	return 0;
}

/* Subtract the index's keys from those counted on the devices. */
static void audit_index(struct audit *audit, u32 i)
{
	const struct kvt_log_directory *dir = &audit->ranges->dir;
	const struct kvt_log_range *low = dir->range[i];
	const struct kvt_log_range *high = i + 1 < dir->nr ? dir->range[i + 1] : NULL;
	struct kvt_iter *iter = audit->iter;
	struct kvt_value *v;

	kvt_iter_seek(iter, low->key, low->key_len);
	do {
		rcu_read_lock();
		v = kvt_iter_one(iter);
		if (!IS_ERR_OR_NULL(v) && high &&
		    kvt_iter_cmp(iter, high->key, high->key_len) >= 0)
			v = NULL;
		if (!IS_ERR_OR_NULL(v) && audit_counts(audit, iter->key, iter->len)) {
			audit->nr--;
			audit->versions -= v->version;
		}
		rcu_read_unlock();
		iter->index->ops->iter_rest(iter);
		cond_resched();
	} while (v);
}

static int audit_range(struct audit *audit, u32 i)
{
	const struct kvt_log_directory *dir = &audit->ranges->dir;
	int verdict = KVT_LOG_SOUND;

	audit->mark = rcu_dereference_protected(audit->ranges->marks, true)[i];
	audit->nr = 0;
	audit->versions = 0;
	if (dir->range[i]->nr_pieces)
		verdict = kvt_log_range_read(&audit->reader, dir, i, dir->nr);
	if (verdict)
		return verdict;
	audit_index(audit, i);
	WARN(audit->nr || audit->versions,
	     "kvtree: range %u of %u differs from the index: by %lld keys, versions by %lld\n",
	     i, dir->nr, audit->nr, audit->versions);
	return 0;
}

/**
 * kvt_image_audit() - check that the checkpoint has all keys that have not changed since
 * @log: the log; all of it is durable, and its store does not change
 *
 * With KVT_AUDITS, each detach does this.
 *
 * Context: process context, sleeps.
 */
void kvt_image_audit(struct kvt_log *log)
{
	struct kvt_index *index = log->state.env.index;
	struct audit *audit;
	u32 i;

	if (!KVT_AUDITS || log->state.error)
		return;
	audit = kvzalloc(sizeof(*audit), GFP_KERNEL);
	if (!audit)
		return;
	audit->reader.entry = audit_entry;
	audit->image = &log->image;
	audit->ranges = kvt_image_ranges(&log->image);
	/* Versions have grown since the attach: accept all of them. */
	log->devs.set.version_end = KVT_LOG_NUMBER_MAX;
	audit->iter = kvzalloc(index->ops->iter_size, GFP_KERNEL);
	if (audit->iter && !kvt_log_reader_init(&audit->reader, &log->devs.set)) {
		audit->iter->index = index;
		for (i = 0; i < audit->ranges->dir.nr; i++)
			if (audit_range(audit, i))
				break;
	}
	kvt_log_reader_exit(&audit->reader);
	kvfree(audit->iter);
	kvfree(audit);
}
