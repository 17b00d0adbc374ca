// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of keys and their marks, what a checkpoint plans to write of them, and what it frees.
 *
 * Keys consist of few different bytes after a prefix that many of them share, so that ranges
 * differ beyond their first eight bytes.  Marks are compared with marks made without searches:
 * bits for each range, and all of them if it is marked as a whole.
 */
#include <linux/bitmap.h>
#include <linux/ctype.h>
#include <linux/slab.h>

#include "lib.h"
#include "log/checkpoint.h"

#define LG_RANGES	40
#define LG_KEYS		60
#define LG_ROUNDS	(60 / KT_SLOWER + 1)
/* The most bytes that keys begin with in common; they have three more at most. */
#define LG_SAME		12
#define LG_KEY_MAX	(LG_SAME + 4)

struct lg_key {
	u32 len;
	u8 data[LG_KEY_MAX];
};

/* The expected marks of some ranges. */
struct lg_marks {
	DECLARE_BITMAP(bits, KVT_COVER_BITS);
} __aligned(sizeof(long));

struct lg {
	struct kunit *test;
	struct kt_rnd rnd;
	struct kvtree_log_super super;
	struct kvt_image image;
	struct lg_marks want[LG_RANGES];
	struct lg_marks later[LG_RANGES];
	struct lg_key keys[LG_KEYS];
};

static void lg_free(void *arg)
{
	struct lg *lg = arg;

	if (kvt_image_ranges(&lg->image))
		kvt_image_exit(&lg->image);
}

static struct lg *lg_new(struct kunit *test)
{
	struct lg *lg = kunit_kzalloc(test, sizeof(*lg), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, lg);
	lg->test = test;
	lg->rnd = kt_rnd(test);
	lg->image.seed = kvt_log_key_seed(&lg->super);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lg_free, lg));
	return lg;
}

/* @least to LG_SAME bytes of a shared prefix, and a few more. */
static struct lg_key lg_key(struct lg *lg, u32 least)
{
	static const u8 few[] = { 0, 1, 'a', 0xff };
	struct lg_key key = { .len = least + kt_rnd_below(&lg->rnd, LG_SAME + 1 - least) };
	u32 more = kt_rnd_below(&lg->rnd, 4);

	memset(key.data, 'a', key.len);
	/* What is behind a key must not matter. */
	memset(key.data + key.len, 0xff, sizeof(key.data) - key.len);
	while (more--)
		key.data[key.len++] = few[kt_rnd_below(&lg->rnd, sizeof(few))];
	return key;
}

/* Whether a range begins at a key or before it. */
static bool lg_before(const struct kvt_log_range *range, const u8 *key, u32 len)
{
	return kvt_log_key_cmp(range->key, range->key_len, key, len) <= 0;
}

/* The range of a key, found by a linear search. */
static u32 lg_find(const struct kvt_log_directory *dir, const struct lg_key *key)
{
	u32 i = 0;

	while (i + 1 < dir->nr && lg_before(dir->range[i + 1], key->data, key->len))
		i++;
	return i;
}

static const struct kvt_log_directory *lg_dir(const struct lg *lg)
{
	return &kvt_image_ranges(&lg->image)->dir;
}

static unsigned long *lg_marks(const struct lg *lg)
{
	return rcu_dereference_protected(kvt_image_ranges(&lg->image)->marks, true);
}

static struct kvt_log_directory lg_begin(struct lg *lg)
{
	struct kvt_log_directory dir = { .room = LG_RANGES };

	dir.range = kvmalloc_array(LG_RANGES, sizeof(*dir.range), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(lg->test, dir.range);
	return dir;
}

/* Insert a range unless one begins there. */
static void lg_insert(struct lg *lg, struct kvt_log_directory *dir, struct kvt_log_range *range)
{
	u32 i = dir->nr;

	while (i && !lg_before(dir->range[i - 1], range->key, range->key_len)) {
		dir->range[i] = dir->range[i - 1];
		i--;
	}
	KUNIT_ASSERT_TRUE(lg->test, !i || kvt_log_key_cmp(dir->range[i - 1]->key,
							  dir->range[i - 1]->key_len,
							  range->key, range->key_len));
	dir->range[i] = range;
	dir->nr++;
}

static bool lg_has(const struct kvt_log_directory *dir, const struct lg_key *key)
{
	const struct kvt_log_range *range;

	if (!dir->nr)
		return false;
	range = dir->range[lg_find(dir, key)];
	return !kvt_log_key_cmp(range->key, range->key_len, key->data, key->len);
}

static void lg_add(struct lg *lg, struct kvt_log_directory *dir, const struct lg_key *key)
{
	struct kvt_log_range *range;

	if (lg_has(dir, key))
		return;
	range = kvt_log_range_alloc(key->data, key->len, 0);
	KUNIT_ASSERT_NOT_NULL(lg->test, range);
	lg_insert(lg, dir, range);
}

/* Try to add this many ranges; all begin with some number of the same bytes, which may be none. */
static void lg_fill(struct lg *lg, struct kvt_log_directory *dir, u32 nr)
{
	u32 least = kt_rnd_below(&lg->rnd, LG_SAME + 1) * kt_rnd_below(&lg->rnd, 2);
	struct lg_key key = {};

	lg_add(lg, dir, &key);
	while (nr-- && dir->nr < LG_RANGES) {
		key = lg_key(lg, least);
		lg_add(lg, dir, &key);
	}
}

/* Replace the image by one with random ranges. */
static void lg_image(struct lg *lg)
{
	struct kvt_log_directory dir = lg_begin(lg);

	/* Often few. */
	lg_fill(lg, &dir, kt_rnd_below(&lg->rnd, 1 + kt_rnd_below(&lg->rnd, LG_RANGES + 1)));
	if (kvt_image_ranges(&lg->image))
		kvt_image_exit(&lg->image);
	KUNIT_ASSERT_EQ(lg->test, 0, kvt_image_init(&lg->image, &dir));
	memset(lg->want, 0, sizeof(lg->want));
	memset(lg->later, 0, sizeof(lg->later));
}

static u32 lg_bit(const struct lg *lg, const struct lg_key *key)
{
	return kvt_log_key_hash(lg->image.seed, key->data, key->len);
}

/* Mark a key, and note its range. */
static void lg_mark(struct lg *lg, const struct lg_key *key, struct lg_marks *want)
{
	kvt_image_mark(&lg->image, key->data, key->len);
	__set_bit(lg_bit(lg, key), want[lg_find(lg_dir(lg), key)].bits);
}

static void lg_mark_many(struct lg *lg, struct lg_marks *want, u32 nr)
{
	struct lg_key key;

	while (nr--) {
		key = lg_key(lg, 0);
		lg_mark(lg, &key, want);
	}
}

/* Mark a whole range that has no marks so far. */
static void lg_mark_whole(struct lg *lg, u32 i, struct lg_marks *want)
{
	if (bitmap_empty(want[i].bits, KVT_COVER_BITS))
		lg_marks(lg)[i] = KVT_MARK_WHOLE;
	bitmap_fill(want[i].bits, KVT_COVER_BITS);
}

static bool lg_same(unsigned long mark, const struct lg_marks *want)
{
	if (mark == KVT_MARK_NONE)
		return bitmap_empty(want->bits, KVT_COVER_BITS);
	if (mark == KVT_MARK_WHOLE)
		return bitmap_full(want->bits, KVT_COVER_BITS);
	return !bitmap_empty(want->bits, KVT_COVER_BITS) &&
	       bitmap_equal(kvt_mark_bits(mark), want->bits, KVT_COVER_BITS);
}

static void lg_check(struct lg *lg, const unsigned long *marks, const struct lg_marks *want)
{
	u32 nr = lg_dir(lg)->nr, i;

	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE_MSG(lg->test, lg_same(marks[i], &want[i]),
				      "range %u of %u: %lx, %u bits instead of %u", i, nr, marks[i],
				      marks[i] > KVT_MARK_WHOLE ?
				      bitmap_weight(kvt_mark_bits(marks[i]), KVT_COVER_BITS) : 0,
				      bitmap_weight(want[i].bits, KVT_COVER_BITS));
}

static void a_key_is_marked_in_its_range(struct kunit *test)
{
	struct lg *lg = lg_new(test);
	struct lg_key key;
	u32 round, i;

	for (round = 0; round < 4 * LG_ROUNDS; round++) {
		lg_image(lg);
		lg_mark_many(lg, lg->want, LG_KEYS);
		lg_check(lg, lg_marks(lg), lg->want);
		/* And at the beginnings of ranges. */
		for (i = 0; i < lg_dir(lg)->nr; i++) {
			key.len = lg_dir(lg)->range[i]->key_len;
			memcpy(key.data, lg_dir(lg)->range[i]->key, key.len);
			lg_mark(lg, &key, lg->want);
		}
		lg_check(lg, lg_marks(lg), lg->want);
	}
}

static void what_is_marked_later_is_not_taken(struct kunit *test)
{
	struct lg *lg = lg_new(test);
	unsigned long *taken;

	lg_image(lg);
	lg_mark_many(lg, lg->want, LG_KEYS);
	taken = kvt_image_take(&lg->image);
	KUNIT_ASSERT_NOT_NULL(test, taken);
	lg_check(lg, lg_marks(lg), lg->later);
	lg_mark_many(lg, lg->later, LG_KEYS);
	lg_check(lg, taken, lg->want);
	lg_check(lg, lg_marks(lg), lg->later);
	kvt_image_give(&lg->image, taken);
}

/* Mark nothing, bits, or all of a range. */
static void lg_mark_some(struct lg *lg, u32 i, u32 how, struct lg_marks *want)
{
	const struct kvt_log_range *range = lg_dir(lg)->range[i];
	struct lg_key key = { .len = range->key_len };

	memcpy(key.data, range->key, range->key_len);
	if (how == 1)
		lg_mark(lg, &key, want);
	else if (how == 2)
		lg_mark_whole(lg, i, want);
}

static void marks_given_back_are_set_again(struct kunit *test)
{
	struct lg *lg = lg_new(test);
	unsigned long *taken;
	u32 round, i;

	for (round = 0; round < LG_ROUNDS; round++) {
		lg_image(lg);
		for (i = 0; i < lg_dir(lg)->nr; i++)
			lg_mark_some(lg, i, i % 3, lg->want);
		taken = kvt_image_take(&lg->image);
		KUNIT_ASSERT_NOT_NULL(test, taken);
		for (i = 0; i < lg_dir(lg)->nr; i++)
			lg_mark_some(lg, i, i / 3 % 3, lg->later);
		/* Mark other bits than those taken. */
		for (i = 0; i < 10; i++) {
			struct lg_key key = lg_key(lg, 0);

			if (!bitmap_full(lg->later[lg_find(lg_dir(lg), &key)].bits, KVT_COVER_BITS))
				lg_mark(lg, &key, lg->later);
		}
		kvt_image_give(&lg->image, taken);
		for (i = 0; i < lg_dir(lg)->nr; i++)
			bitmap_or(lg->want[i].bits, lg->want[i].bits, lg->later[i].bits,
				  KVT_COVER_BITS);
		lg_check(lg, lg_marks(lg), lg->want);
	}
}

/* Whether some key may be in both of two ranges. */
static bool lg_overlap(const struct kvt_log_directory *a, u32 i,
		       const struct kvt_log_directory *b, u32 j)
{
	const struct kvt_log_range *x = a->range[i], *y = b->range[j];

	if (i + 1 < a->nr && lg_before(a->range[i + 1], y->key, y->key_len))
		return false;
	return j + 1 == b->nr || !lg_before(b->range[j + 1], x->key, x->key_len);
}

/* Some of the present ranges, and others. */
static struct kvt_ranges *lg_next(struct lg *lg)
{
	const struct kvt_log_directory *old = lg_dir(lg);
	struct kvt_log_directory dir = lg_begin(lg);
	u32 keep = kt_rnd_below(&lg->rnd, 5), i;
	struct kvt_ranges *ranges;

	for (i = 0; i < old->nr; i++)
		if (kt_rnd_below(&lg->rnd, 4) < keep)
			lg_insert(lg, &dir, old->range[i]);
	lg_fill(lg, &dir, kt_rnd_below(&lg->rnd, LG_RANGES));
	ranges = kvt_ranges_make(&dir);
	KUNIT_ASSERT_NOT_NULL(lg->test, ranges);
	return ranges;
}

/* The marks that new ranges should get from @later, which was marked in the present ones. */
static void lg_move(struct lg *lg, const struct kvt_log_directory *to)
{
	u32 i, j;

	memset(lg->want, 0, sizeof(lg->want));
	for (i = 0; i < lg_dir(lg)->nr; i++)
		for (j = 0; j < to->nr; j++)
			if (lg_overlap(lg_dir(lg), i, to, j))
				bitmap_or(lg->want[j].bits, lg->want[j].bits, lg->later[i].bits,
					  KVT_COVER_BITS);
}

static void late_marks_go_to_all_ranges_that_may_have_the_keys(struct kunit *test)
{
	struct lg *lg = lg_new(test);
	struct kvt_ranges *next;
	unsigned long *taken;
	u32 round, i;

	lg_image(lg);
	for (round = 0; round < LG_ROUNDS; round++) {
		memset(lg->later, 0, sizeof(lg->later));
		taken = kvt_image_take(&lg->image);
		KUNIT_ASSERT_NOT_NULL(test, taken);
		for (i = 0; i < lg_dir(lg)->nr; i++)
			if (!kt_rnd_below(&lg->rnd, 10))
				lg_mark_whole(lg, i, lg->later);
		for (i = 0; i < LG_KEYS / 8; i++) {
			struct lg_key key = lg_key(lg, 0);

			if (!bitmap_full(lg->later[lg_find(lg_dir(lg), &key)].bits, KVT_COVER_BITS))
				lg_mark(lg, &key, lg->later);
		}
		next = lg_next(lg);
		lg_move(lg, &next->dir);
		kvt_image_replace(&lg->image, next, taken);
		lg_check(lg, lg_marks(lg), lg->want);
	}
}

/*
 * Ranges to plan a job for, one letter each:
 *	.  unchanged			,  and small		o  and empty
 *	;  and just too large to be small
 *	d  some keys changed		h  with as many deltas as just fit
 *	s  with seven pieces		f  with fifteen
 *	g  with deltas beyond half	b  too many keys
 *	e  empty			w  all of it changed
 * and the planned jobs: . nothing, D a delta, B begins a base, b continues it.
 */
static const struct lp {
	const char *ranges;
	const char *jobs;
} lg_plans[] = {
	{ "...", "..." },
	{ ",o;", "..." },
	{ "d", "D" },
	{ "ddd", "DDD" },
	{ "h", "D" },
	{ "s", "D" },
	{ "f", "B" },
	{ "g", "B" },
	{ "b", "B" },
	{ "e", "B" },
	{ "w", "B" },
	{ ".f.g.b.e.w.", ".B.B.B.B.B." },
	{ "fgbew", "Bbbbb" },
	{ ".d,d.", ".D.D." },
	{ ",w", "Bb" },
	{ "w,", "Bb" },
	{ "ow", "Bb" },
	{ ";w;", ".B." },
	{ ".,o,w,o,.", ".Bbbbbbb." },
	{ "w.w", "B.B" },
	{ "w,w", "Bbb" },
	{ "w,.,w", "Bb.Bb" },
	{ "w,d,w", "BbDBb" },
	{ "dwd", "DBD" },
	{ ",,d,,w", "..DBbb" },
};

/* The letters that are segments, and of these, the one that has more than bases. */
#define LP_SEGMENTS	128
#define LP_MIXED	'z'

/* A plan under test, with its own ranges and marks. */
struct lp_saved {
	struct kunit *test;
	struct kvt_log *log;
	struct kvt_live costs[16];
	struct kvt_log_directory old;
	struct kvt_saved saved;
};

static void lp_free(void *arg)
{
	struct lp_saved *lp = arg;

	kvfree(lp->saved.jobs);
	kvfree(lp->saved.left);
	kvt_log_directory_free(&lp->old);
	kvfree(lp->log);
}

/* A log with two devices: the first one has larger segments. */
static void lp_log(struct lp_saved *lp)
{
	struct kunit *test = lp->test;
	struct kvtree_log_super *super;
	struct kvt_part *part;
	u32 i, j;

	lp->log = kvzalloc(sizeof(*lp->log), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lp->log);
	lp->log->space.devs = &lp->log->devs;
	lp->log->space.shares = 2;
	lp->log->devs.nr = 2;
	for (i = 0; i < 2; i++) {
		part = &lp->log->space.part[i];
		part->segs.nr = LP_SEGMENTS;
		part->segs.nr_free = LP_SEGMENTS;
		part->share = 1;
		part->space = &lp->log->space;
		part->dev = &lp->log->devs.dev[i];
		super = kunit_kzalloc(test, sizeof(*super), GFP_KERNEL);
		part->segs.seg = kunit_kcalloc(test, LP_SEGMENTS, sizeof(*part->segs.seg),
					       GFP_KERNEL);
		KUNIT_ASSERT_TRUE(test, super && part->segs.seg);
		super->segment_blocks = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN * (2 - i));
		part->dev->super = super;
		for (j = 0; j < LP_SEGMENTS; j++)
			part->segs.seg[j].base = j != LP_MIXED;
	}
	lp->saved.log = lp->log;
	lp->saved.costs = lp->costs;
}

static struct lp_saved *lp_new(struct kunit *test, u32 nr)
{
	struct lp_saved *lp = kunit_kzalloc(test, sizeof(*lp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, lp);
	lp->test = test;
	lp->saved.old = &lp->old;
	lp->saved.marks = kunit_kcalloc(test, nr, sizeof(unsigned long), GFP_KERNEL);
	lp->old.range = kvmalloc_array(nr, sizeof(*lp->old.range), GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lp_free, lp));
	KUNIT_ASSERT_TRUE(test, lp->saved.marks && lp->old.range);
	lp_log(lp);
	return lp;
}

static void lp_plan_step(struct lp_saved *lp, unsigned long *todo, u64 room)
{
	kvfree(lp->saved.jobs);
	kvfree(lp->saved.left);
	lp->saved.left = NULL;
	lp->saved.nr_jobs = 0;
	lp->saved.todo = todo;
	KUNIT_ASSERT_EQ(lp->test, 0, kvt_plan(&lp->saved, room));
}

static void lp_plan(struct lp_saved *lp, bool full)
{
	DECLARE_BITMAP(all, 16);

	bitmap_fill(all, 16);
	lp_plan_step(lp, full ? all : NULL, U64_MAX);
}

/* Bytes of a range. */
static u32 lp_bytes(struct kunit *test)
{
	struct lp_saved *lp = lp_new(test, 1);

	lp_plan(lp, false);
	return lp->saved.range_bytes;
}

/* Add a range with a base, which has records of 64 bytes, and deltas. */
static struct kvt_log_range *lp_add(struct lp_saved *lp, u32 nr_pieces, u32 base, u32 delta)
{
	u8 key[] = { lp->old.nr >> 8, lp->old.nr };
	struct kvt_log_range *range;
	u32 i;

	range = kvt_log_range_alloc(key, lp->old.nr ? sizeof(key) : 0, nr_pieces);
	KUNIT_ASSERT_NOT_NULL(lp->test, range);
	for (i = 0; i < nr_pieces; i++) {
		range->piece[i].len = i ? delta : base / 2;
		range->piece[i].outside_len = i ? 0 : base - base / 2;
		range->piece[i].records = i ? 1 : base / 64;
		range->piece[i].delta = i;
	}
	lp->old.range[lp->old.nr++] = range;
	return range;
}

/* Mark this many keys of the last range as changed. */
static void lp_change(struct lp_saved *lp, u32 nr)
{
	unsigned long *bits = kunit_kzalloc(lp->test, KVTREE_LOG_COVER_BYTES, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(lp->test, bits);
	bitmap_set(bits, 1, nr);
	lp->saved.marks[lp->old.nr - 1] = (unsigned long)bits;
}

static u32 lp_pieces(char what)
{
	switch (what) {
	case 'o':
	case 'e':
		return 0;
	case 'h':
	case 'g':
		return 2;
	case 's':
		return 7;
	case 'f':
		return 15;
	default:
		return 1;
	}
}

static void lp_range(struct lp_saved *lp, char what, u32 bytes)
{
	u32 small = what == ',' ? bytes / 8 : what == ';' ? bytes / 4 : bytes;
	u32 delta = what == 'g' ? bytes / 2 : what == 'h' ? bytes / 2 - 64 : 8;

	lp_add(lp, lp_pieces(what), small, delta);
	if (what == 'w')
		lp->saved.marks[lp->old.nr - 1] = KVT_MARK_WHOLE;
	else if (isalpha(what) && what != 'o')
		lp_change(lp, what == 'b' ? bytes / 128 + 1 : 1);
}

/* What the plan does with each range. */
static void lp_jobs(const struct lp_saved *lp, char *jobs)
{
	const struct kvt_job *job;
	u32 i;

	memset(jobs, '.', lp->old.nr);
	jobs[lp->old.nr] = 0;
	for (i = 0; i < lp->saved.nr_jobs; i++) {
		job = &lp->saved.jobs[i];
		memset(jobs + job->first, 'b', job->end - job->first);
		jobs[job->first] = job->delta_max ? 'D' : 'B';
	}
}

static void what_is_written_of_each_range_is_as_little_as_may_be(struct kunit *test)
{
	u32 bytes = lp_bytes(test), i, j;
	struct lp_saved *lp;
	char jobs[16];

	for (i = 0; i < ARRAY_SIZE(lg_plans); i++) {
		const char *ranges = lg_plans[i].ranges;

		lp = lp_new(test, strlen(ranges));
		for (j = 0; ranges[j]; j++)
			lp_range(lp, ranges[j], bytes);
		lp_plan(lp, false);
		lp_jobs(lp, jobs);
		KUNIT_EXPECT_STREQ_MSG(test, jobs, lg_plans[i].jobs, "of %s", ranges);
		lp_plan(lp, true);
		KUNIT_EXPECT_EQ(test, 1, lp->saved.nr_jobs);
		KUNIT_EXPECT_EQ(test, 0, lp->saved.jobs[0].first);
		KUNIT_EXPECT_EQ(test, strlen(ranges), lp->saved.jobs[0].end);
		KUNIT_EXPECT_EQ(test, 0, lp->saved.jobs[0].delta_max);
	}
}

/*
 * Ranges: a letter is the segment of the base, on the first device, and the range is small if it is
 * a capital; a digit is a smaller segment, on the second device; '-' and '+' have no base.  There
 * is room for some ranges of full size.
 */
static const struct lp_step {
	const char *ranges;
	u32 room;
	const char *jobs;
	const char *costs;	/* of each range, in full ranges; '.': as much as was written */
	const char *todo;	/* 'x': the range must be written; NULL: all must */
	bool tight;		/* there is no room for more than is freed */
} lg_steps[] = {
	{ "aabbbc", 1, ".....B" },
	{ "aabbbc", 3, "Bb...B" },
	{ "aabbbc", 5, "Bb...B" },
	{ "aabbbc", 6, "Bbbbbb" },
	{ "babab", 2, ".B.B." },
	{ "bbaaa", 0, "Bb..." },
	{ "+ab+", 1, ".B.." },
	{ "+ab+", 2, "Bbbb" },
	{ "a+a", 1, "B.B" },
	{ "a-a", 1, "Bbb" },
	{ "-ab-", 1, "Bb.." },
	{ "aBbbb", 1, "B...." },
	{ "aBbbb", 2, "Bb..." },
	{ "bbBBa", 2, "..Bbb" },
	{ "bBBBBBBBBBa", 2, "..Bbbbbbbbb" },
	{ "abBbb", 2, "B...." },
	{ "+ab+", 3, ".Bb.", "2..2" },
	{ "+ab+", 6, "Bbbb", "2..2" },
	{ "aab", 2, "..B" },
	{ "aab", 2, "Bb.", "..3" },
	{ "aab", 2, "..B", "3.." },
	{ "aab", 2, "Bb.", "003" },
	{ "aaabb", 2, "...Bb", .todo = "x..xx" },
	{ "aaabb", 3, "B..Bb", .todo = "x..xx" },
	{ "aaa+b", 2, "B...B", "...4.", "x..xx" },
	/* A larger segment is worth more; one that others use as well is worth nothing. */
	{ "1a", 1, ".B", "12" },
	{ "1a1", 2, ".B.", "1.1" },
	{ "1a", 3, "Bb", "12" },
	{ "za", 1, ".B", "12" },
	{ "za+", 1, ".B.", "129" },
	/* Devices take turns. */
	{ "ab12", 2, "B.B.", "1212" },
	/*
	 * If there is no room for what frees nothing, what shares its segment is written as well.
	 */
	{ "aab", 1, "B..", .todo = "x.." },
	{ "aab", 1, "Bb.", .todo = "x..", .tight = true },
	{ "aba", 1, "B.B", .todo = "x..", .tight = true },
	{ "aab", 1, "..B", .todo = "x.x" },
	{ "aaab", 1, "...B", .todo = "x..x", .tight = true },
	{ "aab2", 2, "Bb..", .todo = "x...", .tight = true },
	{ "zza", 1, "B..", .todo = "x..", .tight = true },
	{ "+zz", 2, "Bb.", .todo = "xx.", .tight = true },
};

static void lp_step_ranges(struct lp_saved *lp, const struct lp_step *step, u32 bytes)
{
	struct kvt_log_range *range;
	u32 i, size;
	char what;

	for (i = 0; step->ranges[i]; i++) {
		what = step->ranges[i];
		size = isupper(what) ? bytes / 8 : bytes;
		range = lp_add(lp, isalnum(what), size, 0);
		if (range->nr_pieces) {
			range->piece[0].dev = !!isdigit(what);
			range->piece[0].pos.segment = tolower(what);
			lp->costs[i].bytes = size;
		}
		if (step->costs && isdigit(step->costs[i]))
			lp->costs[i].bytes = (step->costs[i] - '0') * bytes;
		if (what == '+')
			lp->saved.marks[i] = KVT_MARK_WHOLE;
	}
}

/* Make the step's plan.  Returns whether it leaves something to later steps. */
static bool lp_step_plan(struct lp_saved *lp, const struct lp_step *step, u32 bytes, char *jobs)
{
	DECLARE_BITMAP(todo, 16);
	bool left = false;
	u32 i;

	bitmap_zero(todo, 16);
	for (i = 0; step->tight && i < lp->log->devs.nr; i++)
		lp->log->space.part[i].segs.nr_free = 0;
	for (i = 0; i < lp->old.nr; i++)
		__assign_bit(i, todo, !step->todo || step->todo[i] == 'x');
	lp_plan_step(lp, todo, step->room * bytes);
	lp_jobs(lp, jobs);
	for (i = 0; i < lp->old.nr; i++)
		left |= test_bit(i, todo) && jobs[i] == '.';
	return left;
}

/* Segments become free as early as possible, and what was written takes little room until then. */
static void a_step_writes_what_frees_segments_at_the_least_cost(struct kunit *test)
{
	u32 bytes = lp_bytes(test), i;
	struct lp_saved *lp;
	char jobs[16];
	bool left;

	for (i = 0; i < ARRAY_SIZE(lg_steps); i++) {
		const struct lp_step *step = &lg_steps[i];

		lp = lp_new(test, strlen(step->ranges));
		lp_step_ranges(lp, step, bytes);
		left = lp_step_plan(lp, step, bytes, jobs);
		KUNIT_EXPECT_STREQ_MSG(test, jobs, step->jobs, "row %u: of %s, room for %u", i,
				       step->ranges, step->room);
		KUNIT_EXPECT_EQ(test, left, !!lp->saved.left);
	}
}

static void deltas_have_half_of_their_base_at_most(struct kunit *test)
{
	u32 bytes = lp_bytes(test);
	struct lp_saved *lp = lp_new(test, 3);

	lp_add(lp, 1, bytes, 0);
	lp_change(lp, 1);
	lp_add(lp, 3, bytes, bytes / 8);
	lp_change(lp, 1);
	lp_add(lp, 1, 8 * bytes, 0);
	lp_change(lp, 1);
	lp_plan(lp, false);
	KUNIT_ASSERT_EQ(test, 3, lp->saved.nr_jobs);
	KUNIT_EXPECT_EQ(test, bytes / 2, lp->saved.jobs[0].delta_max);
	KUNIT_EXPECT_EQ(test, bytes / 4, lp->saved.jobs[1].delta_max);
	/* No piece has more than a range should have. */
	KUNIT_EXPECT_EQ(test, bytes, lp->saved.jobs[2].delta_max);
}

/* Otherwise ranges made together would be rewritten together. */
static void how_many_pieces_are_many_differs(struct kunit *test)
{
	u32 bytes = lp_bytes(test), nr = 128, deltas = 0, i;
	struct lp_saved *lp = lp_new(test, nr);

	for (i = 0; i < nr; i++) {
		lp_add(lp, 12, bytes, 8);
		lp_change(lp, 1);
	}
	lp_plan(lp, false);
	for (i = 0; i < lp->saved.nr_jobs; i++)
		deltas += !!lp->saved.jobs[i].delta_max;
	KUNIT_EXPECT_LT(test, nr / 8, deltas);
	KUNIT_EXPECT_GT(test, nr - nr / 8, deltas);
}

static void segs_free(void *arg)
{
	kvt_segs_exit(arg);
}

/* Callers rely on what a checkpoint announces that it will free. */
static void a_checkpoint_frees_as_much_as_it_reports(struct kunit *test)
{
	struct kvt_seg_table *segs = kunit_kzalloc(test, sizeof(*segs), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, segs);
	KUNIT_ASSERT_EQ(test, 0, kvt_segs_init(segs, 8));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, segs_free, segs));
	kvt_segs_mark(segs, 0, KVT_SEG_CHECKPOINT, 0);
	kvt_segs_mark(segs, 1, KVT_SEG_CHECKPOINT, 0);
	kvt_segs_mark(segs, 2, KVT_SEG_LOG, 5);
	kvt_segs_mark(segs, 3, KVT_SEG_LOG, 6);
	kvt_segs_save_begin(segs, 5, true);
	KUNIT_EXPECT_EQ(test, 1, segs->useless);
	kvt_segs_mark(segs, 4, KVT_SEG_NEW, 0);
	segs->seg[0].kept = true;
	segs->seg[4].kept = true;
	kvt_segs_step_end(segs, 5, true, true);
	KUNIT_EXPECT_EQ(test, 2, segs->useless);
	KUNIT_EXPECT_EQ(test, KVT_SEG_CHECKPOINT, segs->seg[0].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_USELESS, segs->seg[1].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_USELESS, segs->seg[2].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_LOG, segs->seg[3].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_CHECKPOINT, segs->seg[4].state);
	/* A failed checkpoint frees what it has taken, and nothing else. */
	kvt_segs_save_begin(segs, 6, false);
	kvt_segs_mark(segs, 5, KVT_SEG_NEW, 0);
	kvt_segs_step_end(segs, 6, false, true);
	KUNIT_EXPECT_EQ(test, 1, segs->useless);
	KUNIT_EXPECT_EQ(test, KVT_SEG_CHECKPOINT, segs->seg[0].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_LOG, segs->seg[3].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_CHECKPOINT, segs->seg[4].state);
	KUNIT_EXPECT_EQ(test, KVT_SEG_USELESS, segs->seg[5].state);
}

static void segs_expect(struct kunit *test, const struct kvt_seg_table *segs, const char *states)
{
	static const char names[] = { '.', 'l', 'c', 'n', 'u' };
	char now[9];
	u32 i;

	for (i = 0; i < 8; i++)
		now[i] = names[segs->seg[i].state];
	now[8] = 0;
	KUNIT_EXPECT_STREQ(test, states, now);
}

/* A step but the last frees only what its directory has replaced. */
static void a_step_frees_no_log_and_nothing_that_is_needed(struct kunit *test)
{
	struct kvt_seg_table *segs = kunit_kzalloc(test, sizeof(*segs), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, segs);
	KUNIT_ASSERT_EQ(test, 0, kvt_segs_init(segs, 8));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, segs_free, segs));
	for (i = 0; i < 3; i++)
		kvt_segs_mark(segs, i, KVT_SEG_CHECKPOINT, 0);
	kvt_segs_mark(segs, 3, KVT_SEG_LOG, 5);
	kvt_segs_save_begin(segs, 5, true);
	KUNIT_EXPECT_EQ(test, 1, segs->useless);
	/* It writes bases to 4 and a directory to 5, and frees 0. */
	kvt_segs_mark(segs, 4, KVT_SEG_NEW, 0);
	kvt_segs_mark(segs, 5, KVT_SEG_NEW, 0);
	for (i = 1; i < 6; i++)
		segs->seg[i].kept = i != 3;
	kvt_segs_step_end(segs, 5, true, false);
	segs_expect(test, segs, "ucclcc..");
	/* The rest of what there was is freed at the end. */
	KUNIT_EXPECT_EQ(test, 1, segs->useless);
	KUNIT_EXPECT_TRUE(test, segs->saving);
	/* The next step fails. */
	kvt_segs_mark(segs, 6, KVT_SEG_NEW, 0);
	kvt_segs_step_end(segs, 5, false, true);
	segs_expect(test, segs, "ucclccu.");
	KUNIT_EXPECT_FALSE(test, segs->saving);
	/* Another checkpoint, in one step. */
	kvt_segs_save_begin(segs, 5, true);
	kvt_segs_mark(segs, 7, KVT_SEG_NEW, 0);
	segs->seg[7].kept = true;
	kvt_segs_step_end(segs, 5, true, true);
	segs_expect(test, segs, "uuuuuuuc");
}

/* Until then there is no room for what the next checkpoint writes in its place. */
static void a_segment_of_bases_counts_until_it_is_free(struct kunit *test)
{
	struct kvt_part *part = kunit_kzalloc(test, sizeof(*part), GFP_KERNEL);
	struct kvt_seg_table *segs = &part->segs;

	KUNIT_ASSERT_NOT_NULL(test, part);
	KUNIT_ASSERT_EQ(test, 0, kvt_segs_init(segs, 8));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, segs_free, segs));
	kvt_segs_mark(segs, 0, KVT_SEG_NEW, 0);
	kvt_segs_mark(segs, 1, KVT_SEG_CHECKPOINT, 0);
	kvt_segs_base(segs, 0, true);
	kvt_segs_base(segs, 0, true);
	KUNIT_EXPECT_EQ(test, 1, segs->nr_base);
	segs->seg[0].kept = true;
	kvt_segs_save_begin(segs, 5, true);
	kvt_segs_step_end(segs, 5, true, true);
	KUNIT_EXPECT_EQ(test, 1, segs->nr_base);
	kvt_segs_save_begin(segs, 5, true);
	kvt_segs_step_end(segs, 5, true, true);
	segs_expect(test, segs, "uu......");
	KUNIT_EXPECT_EQ(test, 1, segs->nr_base);
	kvt_segs_give(part, U32_MAX, false);
	KUNIT_EXPECT_EQ(test, 0, segs->nr_base);
	kvt_segs_mark(segs, 0, KVT_SEG_NEW, 0);
	KUNIT_EXPECT_EQ(test, 0, segs->nr_base);
	kvt_segs_base(segs, 0, true);
	kvt_segs_base(segs, 0, false);
	KUNIT_EXPECT_EQ(test, 0, segs->nr_base);
}

/* The steps of a checkpoint free segments without a discard.  Some are taken by later steps. */
static void what_was_freed_without_a_discard_is_discarded_later(struct kunit *test)
{
	struct kvt_part *part = kunit_kzalloc(test, sizeof(*part), GFP_KERNEL);
	struct kvt_seg_table *segs = &part->segs;
	struct kvt_log_pos pos;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, part);
	KUNIT_ASSERT_EQ(test, 0, kvt_segs_init(segs, 8));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, segs_free, segs));
	for (i = 1; i < 5; i++)
		kvt_segs_mark(segs, i, KVT_SEG_USELESS, 0);
	segs->useless = 4;
	segs->next = 2;
	kvt_segs_give(part, U32_MAX, false);
	segs_expect(test, segs, "........");
	KUNIT_EXPECT_EQ(test, 0, kvt_segs_take(segs, 0, KVT_SEG_LOG, &pos));
	kvt_segs_regain(segs, U32_MAX);
	segs_expect(test, segs, ".uluu...");
	KUNIT_EXPECT_EQ(test, 3, segs->useless);
	KUNIT_EXPECT_EQ(test, 4, segs->nr_free);
	/* One that was taken meanwhile is another one. */
	kvt_segs_mark(segs, 2, KVT_SEG_FREE, 0);
	kvt_segs_regain(segs, U32_MAX);
	segs_expect(test, segs, ".u.uu...");
}

static struct kunit_case log_ranges_cases[] = {
	KUNIT_CASE(a_key_is_marked_in_its_range),
	KUNIT_CASE(what_is_marked_later_is_not_taken),
	KUNIT_CASE(marks_given_back_are_set_again),
	KUNIT_CASE(late_marks_go_to_all_ranges_that_may_have_the_keys),
	KUNIT_CASE(what_is_written_of_each_range_is_as_little_as_may_be),
	KUNIT_CASE(a_step_writes_what_frees_segments_at_the_least_cost),
	KUNIT_CASE(deltas_have_half_of_their_base_at_most),
	KUNIT_CASE(how_many_pieces_are_many_differs),
	KUNIT_CASE(a_checkpoint_frees_as_much_as_it_reports),
	KUNIT_CASE(a_step_frees_no_log_and_nothing_that_is_needed),
	KUNIT_CASE(a_segment_of_bases_counts_until_it_is_free),
	KUNIT_CASE(what_was_freed_without_a_discard_is_discarded_later),
	{}
};

static struct kunit_suite log_ranges_suite = {
	.name = "kvtree_log_ranges",
	.test_cases = log_ranges_cases,
};

kunit_test_suite(log_ranges_suite);
