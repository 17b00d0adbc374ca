// SPDX-License-Identifier: GPL-2.0
/*
 * Readers, scanners, writers and removers on both CPUs, with an oracle.
 *
 * Each key has one writer that inserts and removes it, and notes the key's state under
 * a sequence count.  A reader that finds the count even and unchanged knows which answer
 * the index owed it.  Some keys are never removed; all writers update them.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bwtree/tree.h"
#include "keys.h"
#include "masstree/tree.h"
#include "thread.h"

#define CC_WRITERS	4
#define CC_BATCH	24u
/* Use a set of keys for this long, or until all required events were seen. */
#define CC_RUN_MS	1200
#define CC_RUN_MAX_MS	300000
/* Steps that take longer do so for up to 2^16 ns, and 2^22 ns if it comes to that. */
#define CC_LONGER_MAX	6u
#define CC_LONGER_TIDES	8	/* after this many in vain */

/* Events that must have happened by the end. */
#define SEEN(stat)	BIT_ULL(KVTREE_STAT_##stat)
#define SEEN_ALWAYS	(SEEN(READ_RETRY) | SEEN(LOCK_CONTENDED) | SEEN(SPLIT_LEAF) | \
			 SEEN(ROOT_GROW) | SEEN(NODE_UNLINK))
/* Events that need two CPUs at the same place. */
#define SEEN_READING	(SEEN(READ_RETRY) | SEEN(READ_RESTART))
#define SEEN_MEETING	(SEEN_READING | SEEN(LOCK_CONTENDED))
#define SEEN_LAYERS	(SEEN(LAYER_CREATE) | SEEN(LAYER_COLLAPSE))
#define SEEN_PAGES	(SEEN(SPLIT_LEAF) | SEEN(SPLIT_INNER) | SEEN(ROOT_GROW) | \
			 SEEN(NODE_UNLINK) | SEEN(ROOT_SHRINK))
/* Bytes of a page with about four entries. */
#define CC_PAGE		100

struct cc_set {
	enum kt_kind kind;
	unsigned int nr;
	unsigned int block;	/* neighbours with the same writer */
	unsigned int stable;	/* keys that are never removed, ... */
	bool spread;		/* ... among the others; otherwise in one place */
	u64 seen;
	u32 page_size;		/* 0: a Masstree */
	bool tabled;		/* large enough for a table */
};

static const struct cc_set cc_sets[] = {
	{ KT_RANDOM_8, 700, 20, 30, true, SEEN(SPLIT_LEAF) | SEEN(NODE_UNLINK), 1000 },
	{ KT_RANDOM_8, 300, 12, 3, false, SEEN_PAGES, CC_PAGE },
	{ KT_RANDOM_8, 12, 3, 1, false, SEEN(SPLIT_LEAF) | SEEN(NODE_UNLINK), CC_PAGE },
	{ KT_SHARED_40, 80, 7, 1, false, SEEN_PAGES, CC_PAGE },
	{ KT_PREFIXES, 150, 5, 8, true, SEEN(SPLIT_LEAF) | SEEN(NODE_UNLINK), CC_PAGE },
	{ KT_BITS, 400, 6, 20, true, SEEN_PAGES & ~SEEN(ROOT_SHRINK), CC_PAGE },
	/* Several levels of inner nodes, led past by a table. */
	{ KT_RANDOM_8, 6000, 150, 60, true, SEEN_ALWAYS | SEEN(SPLIT_INNER), .tabled = true },
	{ KT_RANDOM_8, 700, 20, 30, true, SEEN_ALWAYS | SEEN(SPLIT_INNER) },
	/* With several, leaves of two inner nodes may keep some: no root would shrink. */
	{ KT_RANDOM_8, 300, 12, 1, false, SEEN_ALWAYS | SEEN(ROOT_SHRINK) },
	{ KT_RANDOM_8, 50, 5, 3, false, SEEN_ALWAYS },
	/* Now and then the layers keep one key, or none. */
	{ KT_SHARED_8, 300, 12, 1, false, SEEN_ALWAYS | SEEN_LAYERS | SEEN(ROOT_SHRINK) },
	{ KT_SHARED_16, 40, 5, 0, false, SEEN_ALWAYS | SEEN(LAYER_CREATE) | SEEN(LAYER_COLLECT) },
	{ KT_SHARED_40, 80, 7, 1, false, SEEN_ALWAYS | SEEN_LAYERS | SEEN(ROOT_SHRINK) },
	{ KT_ZEROS, 320, 12, 2, true, SEEN_ALWAYS | SEEN_LAYERS | SEEN(ROOT_SHRINK) },
	{ KT_PREFIXES, 150, 5, 8, true, SEEN_LAYERS | SEEN(LAYER_COLLECT) | SEEN(READ_RESTART) },
	{ KT_BITS, 400, 6, 20, true, SEEN_ALWAYS | SEEN_LAYERS | SEEN(LAYER_COLLECT) },
};

static void cc_desc(const struct cc_set *set, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s_%u_%s", set->page_size ? "bwtree" : "masstree",
		 set->nr, kt_kind_names[set->kind]);
}

KUNIT_ARRAY_PARAM(cc, cc_sets, cc_desc);

struct cc_key {
	u32 seq;		/* odd while the key's writer changes it */
	bool present;
	bool stable;
	u64 version;		/* of the value; of a stable key the newest known */
};

struct cc {
	struct kt *kt;
	struct kt_keys *keys;
	const struct cc_set *set;
	struct cc_key *key;
	unsigned int tide;	/* enum cc_way */
	bool tabled;		/* there was a table */
	bool stop;
	/* The first error. */
	atomic_t failed;
	const char *wrong;
	unsigned int wrong_key;
	s64 wrong_result;
};

/* A thread: its step function, and what it has seen. */
struct cc_worker {
	struct cc *cc;
	int (*go)(struct cc_worker *w);
	unsigned int nr;		/* of the writer */
	bool reverse;
	struct kt_thread thread;
	struct kt_rnd rnd;
	struct kt_cursor cur;
	u64 *version;			/* newest version seen of each key */
	struct cc_key *before;		/* by key: what was known when a call began */
	bool *met;			/* scan: keys found */
	s64 last;			/* scan: key found last */
	u64 done;			/* how many times it ran */
};

static void cc_fail(struct cc *cc, const char *wrong, unsigned int key, s64 result)
{
	if (atomic_xchg(&cc->failed, 1))
		return;
	cc->wrong = wrong;
	cc->wrong_key = key;
	cc->wrong_result = result;
	WRITE_ONCE(cc->stop, true);
}

/* The oracle */

static struct cc_key cc_known(const struct cc *cc, unsigned int i)
{
	const struct cc_key *k = &cc->key[i];
	struct cc_key known;

	known.seq = smp_load_acquire(&k->seq);	/* pairs with cc_leave() */
	known.present = READ_ONCE(k->present);
	known.stable = k->stable;
	known.version = smp_load_acquire(&k->version);	/* pairs with cc_update() */
	return known;
}

/* Is the known state still current? */
static bool cc_still(const struct cc *cc, unsigned int i, const struct cc_key *before)
{
	smp_rmb();	/* the lookup, before the count again; pairs with cc_enter() */
	return !(before->seq & 1) && READ_ONCE(cc->key[i].seq) == before->seq;
}

static void cc_enter(struct cc_key *k)
{
	WRITE_ONCE(k->seq, k->seq + 1);
	smp_wmb();	/* the count, before the change; pairs with cc_still() */
}

static void cc_leave(struct cc_key *k, bool present, u64 version)
{
	WRITE_ONCE(k->present, present);
	WRITE_ONCE(k->version, version);
	smp_store_release(&k->seq, k->seq + 1);	/* pairs with cc_known() */
}

/* Check the result of a lookup: whether the key is present, and its version. */
static void cc_judge(struct cc_worker *w, unsigned int i, const struct cc_key *before, bool found,
		     u64 version)
{
	bool still = cc_still(w->cc, i, before);

	if (found && version < w->version[i])
		cc_fail(w->cc, "a version went back", i, version - w->version[i]);
	if (found)
		w->version[i] = version;
	if (before->stable && !found)
		cc_fail(w->cc, "a key that is never removed was not found", i, 0);
	if (before->stable && found && version < before->version)
		cc_fail(w->cc, "an update was lost", i, version - before->version);
	if (before->stable || !still)
		return;
	if (found != before->present)
		cc_fail(w->cc, found ? "a removed key was found" : "a key was not found", i, 0);
	else if (found && version != before->version)
		cc_fail(w->cc, "not the present version", i, version - before->version);
}

/* Readers */

static int cc_get_stranger(struct cc_worker *w, unsigned int i)
{
	const struct kt_keys *keys = w->cc->keys;
	const struct kvt_key *near = &keys->key[i];
	struct kvt_key key = { .data = w->cur.iter->key };
	int err;

	/* Add or drop one byte. */
	memcpy(w->cur.iter->key, near->data, near->len);
	w->cur.iter->key[near->len] = kt_rnd_below(&w->rnd, 256);
	key.len = kt_rnd_below(&w->rnd, 2) || !near->len ? near->len + 1 : near->len - 1;
	if (kt_keys_below(keys, &key) != kt_keys_upto(keys, &key))
		return 0;
	err = kt_get(w->cc->kt, &key, NULL);
	if (err != -ENOENT)
		cc_fail(w->cc, "a key of no one was found", i, err);
	return 0;
}

static int cc_get(struct cc_worker *w)
{
	unsigned int i = kt_rnd_below(&w->rnd, w->cc->keys->nr);
	struct cc_key before = cc_known(w->cc, i);
	u64 version = 0;
	int err;

	if (!kt_rnd_below(&w->rnd, 8))
		return cc_get_stranger(w, i);
	err = kt_get(w->cc->kt, &w->cc->keys->key[i], &version);
	if (err && err != -ENOENT)
		cc_fail(w->cc, "a lookup failed", i, err);
	cc_judge(w, i, &before, !err, version);
	return 0;
}

static bool cc_begins_with(const struct kvt_key *key, const struct kvt_key *prefix)
{
	return prefix->len <= key->len && !memcmp(prefix->data, key->data, prefix->len);
}

/*
 * In order, a key's prefixes are before it, with other keys that share them in between.
 * No longer prefix than the one found was present, unless a writer has touched it meanwhile.
 */
static void cc_judge_prefixes(struct cc_worker *w, unsigned int i, s64 found, u64 version)
{
	const struct kvt_key *key = &w->cc->keys->key[i], *prefix;
	unsigned int j;

	for (j = i + 1; j--;) {
		prefix = &w->cc->keys->key[j];
		if (!cc_begins_with(key, prefix) || prefix->len < found)
			continue;
		cc_judge(w, j, &w->before[j], prefix->len == found,
			 prefix->len == found ? version : 0);
		if (prefix->len == found)
			return;
	}
	if (found != -ENOENT)
		cc_fail(w->cc, "a prefix of no one was found", i, found);
}

static int cc_get_prefix(struct cc_worker *w)
{
	unsigned int j, i = kt_rnd_below(&w->rnd, w->cc->keys->nr);
	u64 version = 0;
	s64 found;

	for (j = 0; j <= i; j++)
		w->before[j] = cc_known(w->cc, j);
	found = kt_get_prefix(w->cc->kt, &w->cc->keys->key[i], &version);
	if (found < 0 && found != -ENOENT)
		cc_fail(w->cc, "a lookup of a prefix failed", i, found);
	cc_judge_prefixes(w, i, found, version);
	return 0;
}

static void cc_judge_batch(struct cc_worker *w, const struct kvt_lookup *lookups,
			   const unsigned int *which, unsigned int nr)
{
	unsigned int i;
	u64 version;
	int err;

	for (i = 0; i < nr; i++) {
		version = 0;
		err = kt_check(lookups[i].value, &lookups[i].key, &version);
		if (err == -EBUSY)
			continue;
		if (err && err != -ENOENT)
			cc_fail(w->cc, "a lookup in a batch failed", which[i], err);
		cc_judge(w, which[i], &w->before[which[i]], !err, version);
	}
}

static int cc_get_batch(struct cc_worker *w)
{
	unsigned int keys = w->cc->keys->nr, first = kt_rnd_below(&w->rnd, keys);
	unsigned int i, nr = 1 + kt_rnd_below(&w->rnd, min(CC_BATCH, keys));
	const struct kvt_index_ops *ops = w->cc->kt->ops;
	struct kvt_lookup lookups[CC_BATCH];
	struct kvt_cell cells[CC_BATCH];
	unsigned int which[CC_BATCH];

	/* Use each key once: the lookups of a batch have no order among themselves. */
	for (i = 0; i < nr; i++) {
		which[i] = (first + i) % keys;
		w->before[which[i]] = cc_known(w->cc, which[i]);
		lookups[i].key = w->cc->keys->key[which[i]];
	}
	rcu_read_lock();
	ops->get_batch(w->cc->kt->index, lookups, cells, nr);
	cc_judge_batch(w, lookups, which, nr);
	rcu_read_unlock();
	return 0;
}

/* Scanners */

/* The place of the cursor's key among the keys, or -1. */
static s64 cc_index(const struct cc *cc, const struct kt_cursor *cur)
{
	const struct kvt_key key = kt_cursor_key(cur);
	unsigned int i = kt_keys_below(cc->keys, &key);

	if (i == cc->keys->nr || kt_key_cmp(&cc->keys->key[i], &key))
		return -1;
	return i;
}

static int cc_record(struct kt_cursor *cur, void *arg)
{
	struct cc_worker *w = arg;
	s64 i = cc_index(w->cc, cur);

	if (i < 0) {
		cc_fail(w->cc, "a scan found a key of no one", 0, cur->iter->len);
		return 1;
	}
	if (w->reverse ? i >= w->last : i <= w->last)
		cc_fail(w->cc, "a scan is not in order", i, w->last);
	w->last = i;
	w->met[i] = true;
	/* Judged at the end; but a version may be known to be older than the last. */
	if (cur->version < w->version[i])
		cc_fail(w->cc, "a scan found an older version", i, cur->version - w->version[i]);
	w->version[i] = cur->version;
	return READ_ONCE(w->cc->stop);
}

/* The scan has reached its end: it must contain keys @from to @to - 1. */
static void cc_judge_scan(struct cc_worker *w, unsigned int from, unsigned int to)
{
	unsigned int i;

	for (i = from; i < to; i++)
		cc_judge(w, i, &w->before[i], w->met[i], w->version[i]);
}

/* Scan from a random key, or from one end, to the other end. */
static int cc_scan(struct cc_worker *w)
{
	unsigned int i, nr = w->cc->keys->nr, start = w->reverse ? nr : 0;
	struct kvt_key key = { };
	enum kvt_bound bound = w->reverse ? KVT_PAST : KVT_AT;

	if (kt_rnd_below(&w->rnd, 2)) {
		start = kt_rnd_below(&w->rnd, nr);
		key = w->cc->keys->key[start];
		bound = kt_rnd_below(&w->rnd, 2) ? KVT_AT : KVT_AFTER;
		start += w->reverse ? bound == KVT_AT : bound == KVT_AFTER;
	}
	for (i = 0; i < nr; i++)
		w->before[i] = cc_known(w->cc, i);
	memset(w->met, 0, nr);
	w->last = w->reverse ? start : (s64)start - 1;
	kt_cursor_set(&w->cur, &key, bound, w->reverse);
	if (kt_scan(&w->cur, 1 + kt_rnd_below(&w->rnd, 40), cc_record, w))
		return 0;
	if (w->reverse)
		cc_judge_scan(w, 0, start);
	else
		cc_judge_scan(w, start, nr);
	return 0;
}

/* Writers */

static int cc_update(struct cc_worker *w, unsigned int i)
{
	struct cc_key *k = &w->cc->key[i];
	u64 version, known = READ_ONCE(k->version);
	int err;

	err = kt_put(w->cc->kt, &w->cc->keys->key[i], &version);
	if (err)
		return err;
	if (version <= known)
		cc_fail(w->cc, "an update did not raise the version", i, version - known);
	/* Pairs with cc_known(). */
	while (known < version && !try_cmpxchg_release(&k->version, &known, version))
		;
	return 0;
}

static int cc_insert(struct cc_worker *w, unsigned int i)
{
	struct cc_key *k = &w->cc->key[i];
	u64 version = 0;
	int err;

	cc_enter(k);
	err = kt_put(w->cc->kt, &w->cc->keys->key[i], &version);
	if (!err && version <= k->version)
		cc_fail(w->cc, "a version of a key came back", i, version - k->version);
	cc_leave(k, true, version);
	return err;
}

static int cc_remove(struct cc_worker *w, unsigned int i)
{
	struct cc_key *k = &w->cc->key[i];
	u64 version = 0;
	int err;

	cc_enter(k);
	err = kt_del(w->cc->kt, &w->cc->keys->key[i], &version);
	if (!err && version != k->version)
		cc_fail(w->cc, "another version was removed", i, version - k->version);
	cc_leave(k, false, k->version);
	return err;
}

enum cc_way {
	CC_FILL,
	CC_MIX,
	CC_DRAIN,
	CC_WAYS
};

static int cc_write(struct cc_worker *w, unsigned int i, enum cc_way way)
{
	struct cc *cc = w->cc;
	bool present;

	if (cc->key[i].stable)
		return cc_update(w, i);
	if (i / cc->set->block % CC_WRITERS != w->nr)
		return 0;
	present = cc->key[i].present;
	if (way == CC_MIX)
		way = kt_rnd_below(&w->rnd, 2) ? CC_FILL : CC_DRAIN;
	if (present && way == CC_DRAIN)
		return cc_remove(w, i);
	return way == CC_FILL ? cc_insert(w, i) : 0;
}

/* Use all keys once, from one end to the other, or, if some may be left out, in no order. */
static int cc_write_all(struct cc_worker *w)
{
	unsigned int i, at, nr = w->cc->keys->nr;
	enum cc_way way = READ_ONCE(w->cc->tide);
	unsigned int order = kt_rnd_below(&w->rnd, way == CC_DRAIN ? 2 : 3);
	int err = 0;

	for (i = 0; i < nr && !err && !READ_ONCE(w->cc->stop); i++) {
		at = order == 2 ? kt_rnd_below(&w->rnd, nr) : order ? nr - 1 - i : i;
		err = cc_write(w, at, way);
		cond_resched();
	}
	return err;
}

/* Run the engine's worker, more often than it runs by itself. */
static int cc_sweep(struct cc_worker *w)
{
	w->cc->kt->ops->sweep(w->cc->kt->index);
	if (w->cc->set->tabled && READ_ONCE(mt_tree(w->cc->kt->index)->table))
		w->cc->tabled = true;
	usleep_range(500, 3000);
	return 0;
}

/* Threads */

static int cc_work(void *arg)
{
	struct cc_worker *w = arg;
	int err = 0;

	while (!err && !READ_ONCE(w->cc->stop)) {
		err = w->go(w);
		WRITE_ONCE(w->done, w->done + 1);
		cond_resched();
	}
	if (err)
		cc_fail(w->cc, "a thread failed", 0, err);
	return err;
}

static void cc_add(struct kunit *test, struct cc *cc, struct cc_worker *w,
		   int (*go)(struct cc_worker *w), unsigned int nr, struct kt_rnd *rnd)
{
	unsigned int keys = cc->keys->nr;

	w->cc = cc;
	w->go = go;
	w->nr = nr;
	w->reverse = nr & 1;
	w->rnd.state = kt_rnd_u64(rnd);
	w->version = kunit_kcalloc(test, keys, sizeof(*w->version), GFP_KERNEL);
	w->before = kunit_kcalloc(test, keys, sizeof(*w->before), GFP_KERNEL);
	w->met = kunit_kcalloc(test, keys, sizeof(*w->met), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w->version);
	KUNIT_ASSERT_NOT_NULL(test, w->before);
	KUNIT_ASSERT_NOT_NULL(test, w->met);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(cc->kt, &w->cur));
}

static int (*const cc_crew[])(struct cc_worker *w) = {
	cc_write_all, cc_write_all, cc_write_all, cc_write_all,
	cc_get, cc_get_prefix, cc_get_batch, cc_scan, cc_scan, cc_sweep,
};

static void cc_start(struct cc *cc, struct cc_worker *crew)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(cc_crew); i++) {
		err = kt_thread_init(&crew[i].thread, i & 1, cc_work, &crew[i]);
		if (err)
			cc_fail(cc, "no thread", i, err);
		else
			kt_thread_start(&crew[i].thread);
	}
}

static void cc_join(struct kunit *test, struct cc *cc, struct cc_worker *crew)
{
	unsigned int i;

	WRITE_ONCE(cc->stop, true);
	for (i = 0; i < ARRAY_SIZE(cc_crew); i++) {
		if (!crew[i].thread.task)
			continue;
		kt_thread_join(&crew[i].thread);
		kt_cursor_exit(&crew[i].cur);
		KUNIT_EXPECT_NE_MSG(test, 0, crew[i].done, "thread %u did nothing", i);
	}
}

static unsigned int cc_longer;

/*
 * Now and then prolong a step of a change, so that more can happen meanwhile.  The clock ends
 * it: on a busy CPU, a number of turns would take seconds.
 */
static void cc_dawdle(enum kvt_park at)
{
	u64 start = ktime_get_mono_fast_ns();
	u32 r = (u32)start * 0x9e3779b1u >> 16;

	if (r & 15)
		return;
	while (ktime_get_mono_fast_ns() - start < (u64)r << READ_ONCE(cc_longer))
		cpu_relax();
}

/*
 * If the CPUs do not meet, double the length of the steps.  A guest's CPUs may hardly ever run
 * at the same time, but then one of them is soon stopped in such a step while the other runs.
 */
static void cc_dawdle_longer(void)
{
	WRITE_ONCE(cc_longer, min(cc_longer + 1, CC_LONGER_MAX));
}

static void cc_dawdle_end(void)
{
	WRITE_ONCE(kvt_park_hook, NULL);
	WRITE_ONCE(kvt_park_loose_hook, NULL);
}

static u64 cc_unseen(const struct cc *cc)
{
	u64 left = cc->set->seen;
	unsigned int i;

	for (i = 0; i < KVTREE_STAT_NR; i++)
		if (kt_stat(cc->kt, i))
			left &= ~BIT_ULL(i);
	return left;
}

/* Until each has gone through all keys from here on, and so has the engine's worker. */
static void cc_wait_for_all(struct cc *cc, struct cc_worker *crew)
{
	u64 mark[ARRAY_SIZE(cc_crew)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cc_crew); i++)
		mark[i] = READ_ONCE(crew[i].done) + 2;
	for (i = 0; i < ARRAY_SIZE(cc_crew); i++)
		while (READ_ONCE(crew[i].done) < mark[i] && !READ_ONCE(cc->stop))
			usleep_range(1000, 2000);
}

/*
 * Have all writers fill the tree, drain it, or do both.  A drained tree stays so until it is
 * swept: how much the worker finds there must not depend on how busy the CPUs are.
 */
static void cc_tide(struct cc *cc, struct cc_worker *crew, enum cc_way way)
{
	WRITE_ONCE(cc->tide, way);
	cc_wait_for_all(cc, crew);
	if (way == CC_DRAIN)
		cc_wait_for_all(cc, crew);
}

static void cc_run(struct kunit *test, struct cc *cc, struct cc_worker *crew)
{
	unsigned long start = jiffies;
	unsigned int tide = 0;
	bool late = false;

	WRITE_ONCE(cc_longer, 0);
	WRITE_ONCE(kvt_park_hook, cc_dawdle);
	if (cc->set->page_size)
		WRITE_ONCE(kvt_park_loose_hook, cc_dawdle);
	cc_start(cc, crew);
	while (!READ_ONCE(cc->stop) &&
	       (!late || (cc_unseen(cc) &&
			  time_before(jiffies, start + msecs_to_jiffies(CC_RUN_MAX_MS))))) {
		cc_tide(cc, crew, tide++ % CC_WAYS);
		if (late && cc_unseen(cc) & SEEN_MEETING && !(tide % CC_LONGER_TIDES))
			cc_dawdle_longer();
		late = time_after(jiffies, start + msecs_to_jiffies(CC_RUN_MS));
		/* Busy CPUs seldom meet: delay readers as well. */
		if (late && !cc->set->page_size)
			WRITE_ONCE(kvt_park_loose_hook,
				   cc_unseen(cc) & SEEN_READING ? cc_dawdle : NULL);
	}
	cc_join(test, cc, crew);
	cc_dawdle_end();
}

/* The end */

static void cc_expect_model(struct kunit *test, struct cc *cc)
{
	unsigned int i, nr = 0;
	u64 version;
	int err;

	for (i = 0; i < cc->keys->nr; i++) {
		version = 0;
		err = kt_get(cc->kt, &cc->keys->key[i], &version);
		KUNIT_EXPECT_EQ_MSG(test, cc->key[i].present ? 0 : -ENOENT, err, "key %u", i);
		if (!err)
			KUNIT_EXPECT_EQ_MSG(test, cc->key[i].version, version, "key %u", i);
		nr += cc->key[i].present;
	}
	KUNIT_EXPECT_EQ(test, nr, kt_count(cc->kt, false));
	KUNIT_EXPECT_EQ(test, nr, kt_count(cc->kt, true));
}

static void cc_expect_emptied(struct kunit *test, struct cc *cc)
{
	struct kt *kt = cc->kt;
	unsigned int i;

	for (i = 0; i < cc->keys->nr; i++)
		if (cc->key[i].present)
			KUNIT_EXPECT_EQ(test, 0, kt_del(kt, &cc->keys->key[i], NULL));
	/* Not concurrently with the worker: each could wait for the other to do the rest. */
	if (cc->set->page_size)
		cancel_delayed_work_sync(&bw_tree(kt->index)->work);
	else
		cancel_delayed_work_sync(&mt_tree(kt->index)->check_work);
	kt_settle(kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_INNER_NODES));
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_LAYERS));
}

static bool cc_is_stable(const struct cc *cc, unsigned int i)
{
	unsigned int first = cc->keys->nr / 2;

	if (!cc->set->stable)
		return false;
	if (cc->set->spread)
		return !(i % (cc->keys->nr / cc->set->stable));
	return i >= first && i < first + cc->set->stable;
}

static struct cc *cc_make(struct kunit *test, struct kt_rnd *rnd)
{
	struct cc *cc = kunit_kzalloc(test, sizeof(*cc), GFP_KERNEL);
	struct kt_engine engine = { };
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, cc);
	cc->set = test->param_value;
	engine.ops = cc->set->page_size ? &kvt_bwtree_ops : &kvt_masstree_ops;
	engine.page_size = cc->set->page_size;
	cc->kt = kt_open_pages(test, &engine, U64_MAX);
	cc->keys = kt_keys_make(test, rnd, cc->set->kind, cc->set->nr);
	cc->key = kunit_kcalloc(test, cc->keys->nr, sizeof(*cc->key), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cc->key);
	for (i = 0; i < cc->keys->nr; i++) {
		cc->key[i].stable = cc_is_stable(cc, i);
		cc->key[i].present = cc->key[i].stable;
		if (cc->key[i].stable)
			KUNIT_ASSERT_EQ(test, 0, kt_put(cc->kt, &cc->keys->key[i],
							&cc->key[i].version));
	}
	return cc;
}

static void every_answer_is_one_that_the_writers_gave(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	struct cc_worker *crew;
	unsigned int i;
	struct cc *cc;

	kt_need_two_cpus(test);
	cc = cc_make(test, &rnd);
	crew = kunit_kcalloc(test, ARRAY_SIZE(cc_crew), sizeof(*crew), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, crew);
	for (i = 0; i < ARRAY_SIZE(cc_crew); i++)
		cc_add(test, cc, &crew[i], cc_crew[i], i, &rnd);
	cc_run(test, cc, crew);
	KUNIT_EXPECT_NULL_MSG(test, cc->wrong, "%s: key %u, %lld", cc->wrong, cc->wrong_key,
			      cc->wrong_result);
	KUNIT_EXPECT_EQ(test, cc->set->tabled, cc->tabled);
	KUNIT_EXPECT_EQ_MSG(test, 0, cc_unseen(cc), "did not happen: these statistics");
	if (cc->wrong)
		return;
	cc_expect_model(test, cc);
	cc_expect_emptied(test, cc);
}

/* The same few keys */

#define CC_DUEL_KEYS	4
#define CC_DUEL_WRITERS	4
#define CC_DUEL_ROUNDS	(40000 / KT_SLOWER)

/* A thread that inserts and removes keys regardless of the others. */
struct cc_duelist {
	struct kt *kt;
	struct kt_thread thread;
	struct kt_rnd rnd;
	unsigned int inserted[CC_DUEL_KEYS];
	unsigned int removed[CC_DUEL_KEYS];
	unsigned int updated;
	u64 version[CC_DUEL_KEYS];	/* of the value that it put last */
};

static int cc_duel_put(struct cc_duelist *d, unsigned int i, const struct kvt_key *key)
{
	struct kt_change c;
	u64 version;
	int err;

	err = kt_put_begin(d->kt, &c, key, GFP_KERNEL) ?: kt_commit(&c, &version);
	if (err)
		return err;
	if (c.change.old)
		d->updated++;
	else
		d->inserted[i]++;
	if (version <= d->version[i])
		return -EILSEQ;
	d->version[i] = version;
	return 0;
}

static int cc_duel(void *arg)
{
	struct cc_duelist *d = arg;
	unsigned int n, i;
	int err = 0;

	for (n = 0; n < CC_DUEL_ROUNDS && !err; n++) {
		i = kt_rnd_below(&d->rnd, CC_DUEL_KEYS);
		if (kt_rnd_below(&d->rnd, 2)) {
			err = cc_duel_put(d, i, &KT_BYTES(&i, sizeof(i)));
		} else {
			err = kt_del(d->kt, &KT_BYTES(&i, sizeof(i)), NULL);
			d->removed[i] += !err;
			err = err == -ENOENT ? 0 : err;
		}
		cond_resched();
	}
	return err;
}

static void cc_duel_run(struct kunit *test, struct cc_duelist *d)
{
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int i;

	for (i = 0; i < CC_DUEL_WRITERS; i++) {
		d[i].kt = d[0].kt;
		d[i].rnd.state = kt_rnd_u64(&rnd);
		KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&d[i].thread, i & 1, cc_duel, &d[i]));
	}
	WRITE_ONCE(kvt_park_hook, cc_dawdle);
	WRITE_ONCE(kvt_park_loose_hook, cc_dawdle);
	for (i = 0; i < CC_DUEL_WRITERS; i++)
		kt_thread_start(&d[i].thread);
	for (i = 0; i < CC_DUEL_WRITERS; i++)
		KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&d[i].thread));
	cc_dawdle_end();
}

/* Have two writers been at the same node at the same time? */
static bool cc_duel_met(struct kt *kt)
{
	if (kt->ops == &kvt_bwtree_ops)
		return kvt_stats_read(&kt->stats, KVT_STAT_ENGINE + BW_NR_UPDATE_FAIL);
	return kt_stat(kt, KVTREE_STAT_LOCK_CONTENDED);
}

/*
 * A key is present if, by the results that its writers got, it was inserted once more often
 * than removed; and the versions that each writer gave to it increase.
 */
static void writers_of_the_same_few_keys_are_told_what_happened(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(CC_RUN_MAX_MS);
	struct cc_duelist *d;
	unsigned int i, j, updated = 0;
	int there;

	kt_need_two_cpus(test);
	d = kunit_kcalloc(test, CC_DUEL_WRITERS, sizeof(*d), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, d);
	d[0].kt = kt_open(test);
	WRITE_ONCE(cc_longer, 0);
	/* On a busy machine they may miss each other for a while. */
	do {
		cc_duel_run(test, d);
		cc_dawdle_longer();
	} while (!cc_duel_met(d->kt) && time_before(jiffies, end));
	for (i = 0; i < CC_DUEL_KEYS; i++) {
		for (there = 0, j = 0; j < CC_DUEL_WRITERS; j++) {
			KUNIT_EXPECT_NE(test, 0, d[j].inserted[i]);
			KUNIT_EXPECT_NE(test, 0, d[j].removed[i]);
			there += d[j].inserted[i] - d[j].removed[i];
			updated += d[j].updated;
		}
		KUNIT_EXPECT_EQ_MSG(test, there ? 0 : -ENOENT,
				    kt_get(d->kt, &KT_BYTES(&i, sizeof(i)), NULL),
				    "key %u: inserted %d times more than removed", i, there);
		KUNIT_EXPECT_TRUE(test, there == 0 || there == 1);
	}
	KUNIT_EXPECT_NE(test, 0, updated);
	KUNIT_EXPECT_TRUE(test, cc_duel_met(d->kt));
}

KT_ENGINES();

/* The module may be unloaded when no thread is in the hook any more. */
static void cc_end(struct kunit_suite *suite)
{
	synchronize_rcu();
}

static struct kunit_case cc_cases[] = {
	KUNIT_CASE_PARAM(every_answer_is_one_that_the_writers_gave, cc_gen_params),
	KT_CASE(writers_of_the_same_few_keys_are_told_what_happened),
	{}
};

static struct kunit_suite cc_suite = {
	.name = "kvt_concurrent",
	.suite_exit = cc_end,
	.test_cases = cc_cases,
};

kunit_test_suite(cc_suite);
