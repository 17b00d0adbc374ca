/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the KUnit suites share: an index without a store around it, values that
 * can be checked, and operations on top of struct kvt_index_ops.
 *
 * Every value's data is derived from its key and version, so kt_value_ok() can
 * tell a correct value from one of another key, a freed one, or a torn one.
 *
 * Functions that return an int return 0 or an errno, and use no KUnit
 * expectations: they can be called from any thread.  -EILSEQ means that a
 * value was found that kt_value_ok() refuses.
 */
#ifndef KVT_TESTS_LIB_H
#define KVT_TESTS_LIB_H

#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "base/index.h"
#include "base/park.h"
#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "base/value.h"
#include "compat.h"
#include "splitmix64.h"

/* The engines that a case with an engine as its parameter runs for. */
static const struct kt_engine {
	const char *name;
	const struct kvt_index_ops *ops;
	u32 page_size;
} kt_engines[] __maybe_unused = {
	{ "masstree", &kvt_masstree_ops },
	{ "bwtree", &kvt_bwtree_ops },
	/* With as many levels as otherwise only very large trees have. */
	{ "bwtree_of_small_pages", &kvt_bwtree_ops, 100 },
};

static inline void kt_engine_desc(const struct kt_engine *engine, char *desc)
{
	strscpy(desc, engine->name, KUNIT_PARAM_DESC_SIZE);
}

/* Once in a suite's file, before the first KT_CASE(). */
#define KT_ENGINES()	KUNIT_ARRAY_PARAM(kt_engine, kt_engines, kt_engine_desc)
/* A case that runs once for each engine and calls kt_open(). */
#define KT_CASE(fn)	KUNIT_CASE_PARAM(fn, kt_engine_gen_params)
/*
 * A case that takes long where memory and locks are watched.  "make check" leaves it out there, so
 * it has to run in another of its lanes: see selftests/lanes/uml.sh.
 */
#define KT_CASE_LONG(fn)								\
	KUNIT_CASE_PARAM_ATTR(fn, NULL,							\
			      ((struct kunit_attributes) { .speed = KUNIT_SPEED_VERY_SLOW }))

/* Counts of operations, divided by this where memory and locks are watched. */
#ifdef CONFIG_KASAN
#define KT_SLOWER	8u
#else
#define KT_SLOWER	1u
#endif

/* A key from a string literal, and one from bytes. */
#define KT_KEY(literal)	KT_BYTES(literal, sizeof(literal) - 1)
#define KT_BYTES(bytes, nr)						\
	((struct kvt_key) { .data = (const u8 *)(bytes), .len = (nr) })

/* Which values of short keys are cells, where the engine takes them. */
enum kt_cells {
	KT_CELLS_SOME,		/* three of four */
	KT_CELLS_ALL,
	KT_CELLS_NONE,
};

/* An index, and what a store would provide to it. */
struct kt {
	struct kunit *test;
	const struct kvt_index_ops *ops;
	struct kvt_index *index;
	struct kvt_stats stats;
	struct kvt_quota quota;
	struct kvt_reclaim reclaim;
	struct workqueue_struct *wq;
	atomic64_t floor;		/* of versions, as a store has one */
	enum kt_cells cells;
	atomic64_t sorted;		/* keys that insert_sorted() has inserted */
};

/* Every lane's machine has two: without them, a case fails rather than test nothing. */
static inline void kt_need_two_cpus(struct kunit *test)
{
	KUNIT_ASSERT_TRUE_MSG(test, cpu_online(1), "needs two CPUs");
}

struct kt *kt_open(struct kunit *test);
struct kt *kt_open_engine(struct kunit *test, const struct kvt_index_ops *ops, u64 limit);
struct kt *kt_open_pages(struct kunit *test, const struct kt_engine *engine, u64 limit);
void kt_close(struct kt *kt);
void kt_flush(struct kt *kt);
void kt_settle(struct kt *kt);

/*
 * Bytes of accounted allocations, in programs; 0 in kernels, which do not count them
 * separately.
 */
static inline u64 kt_accounted(void)
{
#ifdef __KERNEL__
	return 0;
#else
	return shim_accounted();
#endif
}

s64 kt_unaccounted(struct kt *kt);
void kt_leave(struct kt *kt, s64 bytes);

static inline u64 kt_stat(const struct kt *kt, enum kvtree_stat id)
{
	return kvt_stats_read(&kt->stats, id);
}

/* Values */
struct kvt_value *kt_value_new(const struct kvt_key *key, gfp_t gfp);
void kt_value_adopt(const struct kvt_value *value);
void kt_value_fill(struct kvt_value *value, const struct kvt_key *key, u64 version);
bool kt_value_ok(const struct kvt_value *value, const struct kvt_key *key);

/* A change in steps, for tests that look between them. */
struct kt_change {
	struct kt *kt;
	struct kvt_change change;
	struct kvt_value *value;	/* to be committed; NULL: a removal */
	struct kvt_cell cell;		/* ... in its place, if the engine takes one */
	struct kvt_bag *bag;		/* for the value that is replaced */
};

int kt_put_begin(struct kt *kt, struct kt_change *c, const struct kvt_key *key, gfp_t gfp);
int kt_del_begin(struct kt *kt, struct kt_change *c, const struct kvt_key *key, gfp_t gfp);
int kt_commit(struct kt_change *c, u64 *version);
void kt_abort(struct kt_change *c);

/* Whole operations; @version may be NULL. */
int kt_put_gfp(struct kt *kt, const struct kvt_key *key, gfp_t gfp, u64 *version);
int kt_put(struct kt *kt, const struct kvt_key *key, u64 *version);
#define KT_SORTED_MAX	256u
int kt_insert_sorted(struct kt *kt, const struct kvt_key *keys, unsigned int nr, u64 *versions,
		     unsigned int *done);
int kt_del_gfp(struct kt *kt, const struct kvt_key *key, gfp_t gfp, u64 *version);
int kt_del(struct kt *kt, const struct kvt_key *key, u64 *version);
int kt_get(struct kt *kt, const struct kvt_key *key, u64 *version);
int kt_get_rcu(struct kt *kt, const struct kvt_key *key, u64 *version);
int kt_check(const struct kvt_value *value, const struct kvt_key *key, u64 *version);
s64 kt_get_prefix_rcu(struct kt *kt, const struct kvt_key *key, u64 *version);
s64 kt_get_prefix(struct kt *kt, const struct kvt_key *key, u64 *version);

/* Iteration */
struct kt_cursor {
	struct kt *kt;
	struct kvt_iter *iter;
	u64 version;			/* of the last record */
};

int kt_cursor_init(struct kt *kt, struct kt_cursor *cur);
void kt_cursor_exit(struct kt_cursor *cur);
void kt_cursor_set(struct kt_cursor *cur, const struct kvt_key *key, enum kvt_bound bound,
		   bool reverse);
int kt_cursor_next(struct kt_cursor *cur);
int kt_cursor_next_rcu(struct kt_cursor *cur);

static inline struct kvt_key kt_cursor_key(const struct kt_cursor *cur)
{
	return (struct kvt_key) { .data = cur->iter->key, .len = cur->iter->len };
}

/* Called under RCU for each record; a result other than 0 ends the scan. */
typedef int (*kt_record_fn)(struct kt_cursor *cur, void *arg);
int kt_scan(struct kt_cursor *cur, unsigned int burst, kt_record_fn fn, void *arg);
s64 kt_count(struct kt *kt, bool reverse);

int kt_key_cmp(const struct kvt_key *a, const struct kvt_key *b);

/* For hooks that act as another thread, which holds nothing. */
int kt_pause_holding(void);
void kt_go_on_holding(int held);

#ifdef CONFIG_FAILSLAB
/* For suites that make allocations fail; without these, only those that may not sleep do. */
int kt_failing_begin(struct kunit_suite *suite);
void kt_failing_end(struct kunit_suite *suite);
#endif

/* Repeatable numbers. */
struct kt_rnd {
	u64 state;
};

struct kt_rnd kt_rnd(struct kunit *test);

static inline u64 kt_rnd_u64(struct kt_rnd *rnd)
{
	return splitmix64(rnd->state += SPLITMIX64_STEP);
}

/* 0..n-1 */
static inline u32 kt_rnd_below(struct kt_rnd *rnd, u32 n)
{
	return (kt_rnd_u64(rnd) >> 32) * n >> 32;
}

#endif /* KVT_TESTS_LIB_H */
