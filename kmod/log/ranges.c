// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges, and marks for what has changed in them.
 *
 * A checkpoint must know in which ranges keys have changed since the last one; for most changed
 * keys it also knows a few bits of a hash.  Writers do not mark anything.  The streams' workers
 * (and the committer, which may write a stream) have all records in the buffers: before one of them
 * writes a buffer, it marks the keys that the records change.  So a change is published before it
 * is marked, and marked before it is durable.
 *
 * A checkpoint of epoch S takes the marks: it gives the ranges fresh ones and waits for a grace
 * period, since workers set marks under RCU.  All changes up to S were durable before, so they are
 * in the marks that it has taken, and in the index, which it reads.  Keys marked afterwards are for
 * the next checkpoint.  When the checkpoint takes effect, its new ranges replace the old ones.
 * After another grace period no worker marks the old ranges any more.  Their marks are then added
 * to all new ranges that may have those keys; a key's hash is the same in any range.
 *
 * To find a key's range, the eight bytes after what all ranges begin with are compared as numbers;
 * the other bytes are compared only if these are equal.  The first range begins with no bytes.
 */
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/mem.h"
#include "ranges.h"

/* Compare the beginning of a key with what all ranges but the first begin with. */
static int same_cmp(const struct kvt_ranges *ranges, const u8 *key, u32 len)
{
	const struct kvt_log_range *last = ranges->dir.range[ranges->dir.nr - 1];

	return memcmp(key, last->key, min(len, ranges->same)) ?: len < ranges->same ? -1 : 0;
}

/* The last range with at most this number.  Without branches, as none could be predicted. */
static u32 number_find(const struct kvt_ranges *ranges, u64 number)
{
	u32 low = 0, nr = ranges->dir.nr, half;

	for (; nr > 1; nr -= half) {
		half = nr / 2;
		low += half & -(u32)(ranges->number[low + half] <= number);
	}
	return low;
}

/* Of the first @nr ranges, the last one that begins at or before a key. */
static u32 key_find(const struct kvt_ranges *ranges, u32 nr, const u8 *key, u32 len)
{
	u32 low = 0, mid;

	while (nr - low > 1) {
		const struct kvt_log_range *range;

		mid = low + (nr - low) / 2;
		range = ranges->dir.range[mid];
		if (kvt_log_key_cmp(range->key, range->key_len, key, len) <= 0)
			low = mid;
		else
			nr = mid;
	}
	return low;
}

/* Find a key's range: the last one that begins at or before the key. */
static u32 ranges_find(const struct kvt_ranges *ranges, const u8 *key, u32 len)
{
	int cmp = same_cmp(ranges, key, len);
	u64 number;
	u32 found;

	if (unlikely(cmp))
		return cmp < 0 ? 0 : ranges->dir.nr - 1;
	number = kvt_key_number(key, len, ranges->same, 0);
	found = number_find(ranges, number);
	if (likely(ranges->number[found] < number))
		return found;
	return key_find(ranges, found + 1, key, len);
}

static bool mark_has_bits(unsigned long mark)
{
	return mark != KVT_MARK_NONE && mark != KVT_MARK_WHOLE;
}

static unsigned long *marks_alloc(u32 nr)
{
	return kvcalloc(nr, sizeof(unsigned long), GFP_KERNEL);
}

static void marks_free(unsigned long *marks, u32 nr)
{
	u32 i;

	for (i = 0; marks && i < nr; i++) {
		if (mark_has_bits(marks[i]))
			kfree(kvt_mark_bits(marks[i]));
		cond_resched();
	}
	kvfree(marks);
}

/*
 * Set a mark that is KVT_MARK_NONE to @bits, or to KVT_MARK_WHOLE if there was no memory for them.
 * Returns the mark's value now: another worker may have set it first.
 */
static unsigned long mark_make(unsigned long *mark, unsigned long *bits)
{
	unsigned long made = bits ? (unsigned long)bits : KVT_MARK_WHOLE;
	unsigned long was = cmpxchg(mark, KVT_MARK_NONE, made);

	if (was == KVT_MARK_NONE)
		return made;
	kfree(bits);
	return was;
}

static void mark_bit(unsigned long *mark, u32 bit)
{
	unsigned long now = READ_ONCE(*mark);
	unsigned long *bits;

	if (now == KVT_MARK_NONE) {
		bits = kzalloc(KVTREE_LOG_COVER_BYTES, GFP_NOWAIT | __GFP_NOWARN);
		if (bits)
			__set_bit(bit, bits);
		now = mark_make(mark, bits);
	}
	/* The bits of a range that changes often are mostly set already: do not write to them. */
	if (mark_has_bits(now) && !test_bit(bit, kvt_mark_bits(now)))
		set_bit(bit, kvt_mark_bits(now));
}

static void mark_bits(unsigned long *mark, const unsigned long *bits)
{
	unsigned long now = READ_ONCE(*mark);
	u32 bit;

	if (now == KVT_MARK_NONE)
		now = mark_make(mark, kmemdup(bits, KVTREE_LOG_COVER_BYTES, GFP_KERNEL));
	if (mark_has_bits(now))
		for_each_set_bit(bit, bits, KVT_COVER_BITS)
			set_bit(bit, kvt_mark_bits(now));
}

static void mark_whole(unsigned long *mark)
{
	unsigned long was = cmpxchg(mark, KVT_MARK_NONE, KVT_MARK_WHOLE);
	u32 i;

	/* Keep the bitmap: other workers may be about to set bits in it. */
	for (i = 0; mark_has_bits(was) && i < BITS_TO_LONGS(KVT_COVER_BITS); i++)
		WRITE_ONCE(kvt_mark_bits(was)[i], ~0UL);
}

/* Add a mark to another one, to which workers may add at the same time. */
static void mark_add(unsigned long *mark, unsigned long more)
{
	if (more == KVT_MARK_WHOLE)
		mark_whole(mark);
	else if (more != KVT_MARK_NONE)
		mark_bits(mark, kvt_mark_bits(more));
}

/* The size of a range's record in a directory if it gets one more piece. */
static u32 range_bytes(const struct kvt_log_range *range)
{
	return kvt_log_record_size(range->key_len, (range->nr_pieces + 1) *
				   sizeof(struct kvtree_log_piece));
}

/* How many bytes the lowest keys of all ranges but the first have in common; they are sorted. */
static u32 directory_same(const struct kvt_log_directory *dir)
{
	const struct kvt_log_range *last = dir->range[dir->nr - 1], *first;
	u32 same = 0;

	if (dir->nr == 1)
		return 0;
	first = dir->range[1];
	while (same < min(first->key_len, last->key_len) && first->key[same] == last->key[same])
		same++;
	return same;
}

/**
 * kvt_ranges_make() - make ranges from a directory, with nothing marked
 * @dir: the directory; on success the ranges take over its contents
 *
 * Context: process context, may sleep.
 *
 * Return: the ranges, or NULL if there is no memory; the caller keeps @dir then.
 */
struct kvt_ranges *kvt_ranges_make(const struct kvt_log_directory *dir)
{
	struct kvt_ranges *ranges = kzalloc(sizeof(*ranges), GFP_KERNEL);
	u32 i;

	if (!ranges)
		return NULL;
	ranges->number = kvmalloc_array(dir->nr, sizeof(*ranges->number), GFP_KERNEL);
	RCU_INIT_POINTER(ranges->marks, (unsigned long __force __rcu *)marks_alloc(dir->nr));
	if (!ranges->number || !rcu_access_pointer(ranges->marks)) {
		kvt_ranges_free(ranges);
		return NULL;
	}
	ranges->same = directory_same(dir);
	for (i = 0; i < dir->nr; i++) {
		ranges->number[i] = kvt_key_number(dir->range[i]->key, dir->range[i]->key_len,
						   ranges->same, 0);
		ranges->nr_used += !!dir->range[i]->nr_pieces;
		ranges->nr_pieces += dir->range[i]->nr_pieces;
		ranges->bytes += range_bytes(dir->range[i]);
		cond_resched();
	}
	ranges->dir = *dir;
	return ranges;
}
KVT_EXPORT_FOR_TESTS(kvt_ranges_make);

/**
 * kvt_directory_discard() - free a directory, and its ranges that another one does not share
 * @dir: the directory; empty afterwards
 * @kept: the other directory, or NULL
 *
 * Context: process context, may sleep; the ranges to be freed are not in use.
 */
void kvt_directory_discard(struct kvt_log_directory *dir, const struct kvt_log_directory *kept)
{
	u32 i;

	for (i = 0; kept && i < dir->nr; i++) {
		const struct kvt_log_range *range = dir->range[i];
		u32 at = kvt_log_directory_find(kept, range->key, range->key_len);

		if (kept->range[at] == range)
			dir->range[i] = NULL;
		cond_resched();
	}
	kvt_log_directory_free(dir);
}

/**
 * kvt_ranges_free() - free ranges, and their directory
 * @ranges: of kvt_ranges_make(), or NULL; they are not in use
 *
 * Context: process context, may sleep.
 */
void kvt_ranges_free(struct kvt_ranges *ranges)
{
	if (!ranges)
		return;
	marks_free(rcu_dereference_protected(ranges->marks, true), ranges->dir.nr);
	kvfree(ranges->number);
	kvt_log_directory_free(&ranges->dir);
	kfree(ranges);
}

/**
 * kvt_image_init() - begin with the checkpoint that the devices have
 * @image: its seed is set
 * @dir: the checkpoint's directory; on success the image takes over its contents.  Empty: the
 *	checkpoint has no ranges, or there is none, and the next one must write everything
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM; the caller keeps the contents of @dir then.
 */
int kvt_image_init(struct kvt_image *image, struct kvt_log_directory *dir)
{
	bool none = !dir->nr;
	struct kvt_ranges *ranges;

	/* All keys are in one range. */
	if (none && kvt_log_directory_add(dir, kvt_log_range_alloc(NULL, 0, 0)))
		return -ENOMEM;
	ranges = kvt_ranges_make(dir);
	if (!ranges)
		return -ENOMEM;
	if (none)
		mark_whole(rcu_dereference_protected(ranges->marks, true));
	rcu_assign_pointer(image->ranges, ranges);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_image_init);

/**
 * kvt_image_exit() - free the ranges of an image
 * @image: the image, which is not in use
 *
 * Context: process context, may sleep.
 */
void kvt_image_exit(struct kvt_image *image)
{
	kvt_ranges_free(rcu_dereference_protected(image->ranges, true));
	RCU_INIT_POINTER(image->ranges, NULL);
	kvfree(image->todo);
	image->todo = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_image_exit);

/**
 * kvt_image_count() - count what the current checkpoint consists of
 * @image: the image
 *
 * Context: any.
 *
 * Return: the numbers of ranges that have pieces, and of these pieces.
 */
struct kvt_image_count kvt_image_count(const struct kvt_image *image)
{
	const struct kvt_ranges *ranges;
	struct kvt_image_count count;

	rcu_read_lock();
	ranges = rcu_dereference(image->ranges);
	count.ranges = ranges->nr_used;
	count.pieces = ranges->nr_pieces;
	rcu_read_unlock();
	return count;
}
KVT_EXPORT_FOR_TESTS(kvt_image_count);

/**
 * kvt_image_mark() - note that a key has changed
 * @image: the image
 * @key: the key
 * @len: its length
 *
 * Context: any that may take a spinlock.  The change is published, and not durable yet.
 */
void kvt_image_mark(struct kvt_image *image, const u8 *key, u32 len)
{
	const struct kvt_ranges *ranges;
	unsigned long *marks;

	rcu_read_lock();
	ranges = rcu_dereference(image->ranges);
	marks = rcu_dereference(ranges->marks);
	mark_bit(&marks[ranges_find(ranges, key, len)], kvt_log_key_hash(image->seed, key, len));
	rcu_read_unlock();
}
KVT_EXPORT_FOR_TESTS(kvt_image_mark);

/**
 * kvt_image_take() - take the marks, and replace them by fresh ones
 * @image: the image
 *
 * The marks returned include all changes that were durable before the call.
 *
 * Context: process context, sleeps; under checkpoint_lock, or the caller has the log to itself.
 *
 * Return: a mark for each range, to be passed to kvt_image_give() or kvt_image_replace(); or NULL
 * if there is no memory.
 */
unsigned long *kvt_image_take(struct kvt_image *image)
{
	struct kvt_ranges *ranges = rcu_dereference_protected(image->ranges, true);
	unsigned long *fresh = marks_alloc(ranges->dir.nr), *taken;

	if (!fresh)
		return NULL;
	taken = rcu_replace_pointer(ranges->marks, fresh, true);
	synchronize_rcu();
	return taken;
}
KVT_EXPORT_FOR_TESTS(kvt_image_take);

/**
 * kvt_image_give() - return marks after a checkpoint that failed
 * @image: the image
 * @taken: of kvt_image_take()
 *
 * Context: process context, sleeps; as kvt_image_take().
 */
void kvt_image_give(struct kvt_image *image, unsigned long *taken)
{
	struct kvt_ranges *ranges = rcu_dereference_protected(image->ranges, true);
	unsigned long *marks = rcu_dereference_protected(ranges->marks, true);
	u32 i;

	for (i = 0; i < ranges->dir.nr; i++) {
		mark_add(&marks[i], taken[i]);
		cond_resched();
	}
	marks_free(taken, ranges->dir.nr);
}
KVT_EXPORT_FOR_TESTS(kvt_image_give);

/* Whether all keys of a range are at or after the beginning of @high.  NULL: there is no @high. */
static bool range_after(const struct kvt_ranges *ranges, u32 i, const struct kvt_log_range *high)
{
	const struct kvt_log_range *range;

	if (i == ranges->dir.nr)
		return true;
	range = ranges->dir.range[i];
	return high && kvt_log_key_cmp(range->key, range->key_len, high->key, high->key_len) >= 0;
}

/* Add the marks of old ranges to each new range that may have those keys. */
static void marks_move(const struct kvt_ranges *from, struct kvt_ranges *to)
{
	unsigned long *old = rcu_dereference_protected(from->marks, true);
	unsigned long *new = rcu_dereference_protected(to->marks, true);
	const struct kvt_log_range *low, *high;
	u32 i, j;

	for (i = 0; i < from->dir.nr; i++) {
		if (old[i] == KVT_MARK_NONE)
			continue;
		low = from->dir.range[i];
		high = i + 1 < from->dir.nr ? from->dir.range[i + 1] : NULL;
		for (j = ranges_find(to, low->key, low->key_len); !range_after(to, j, high); j++)
			mark_add(&new[j], old[i]);
		cond_resched();
	}
}

/**
 * kvt_image_replace() - replace the ranges when a new checkpoint has taken effect
 * @image: the image
 * @ranges: those of the new checkpoint; they may share some with the old ones
 * @taken: of kvt_image_take(): the marks of what was written
 *
 * Context: process context, sleeps; as kvt_image_take().
 */
void kvt_image_replace(struct kvt_image *image, struct kvt_ranges *ranges, unsigned long *taken)
{
	struct kvt_ranges *old = rcu_replace_pointer(image->ranges, ranges, true);

	marks_free(taken, old->dir.nr);
	synchronize_rcu();
	marks_move(old, ranges);
	marks_free(rcu_dereference_protected(old->marks, true), old->dir.nr);
	RCU_INIT_POINTER(old->marks, NULL);
	kvt_directory_discard(&old->dir, &ranges->dir);
	kvt_ranges_free(old);
}
KVT_EXPORT_FOR_TESTS(kvt_image_replace);
