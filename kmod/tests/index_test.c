// SPDX-License-Identifier: GPL-2.0
/*
 * What holds for every engine: the walk over an index visits every value, in order, and ends
 * where it is told to; and a killed writer ends.
 */
#include <linux/container_of.h>
#include <linux/sched/signal.h>
#include <linux/unaligned.h>

#include "lib.h"

#define WALK_KEYS	1000u

KT_ENGINES()

struct walk {
	struct kvt_walk walk;
	struct kt *kt;
	u32 seen;		/* values */
	u32 end;		/* the walk ends at this one; 0: it does not */
	u32 lost;		/* values seen under another key than the next one */
};

/* The upper half shares eight bytes: of a Masstree it is a layer. */
static struct kvt_key number_key(u8 *bytes, u32 n)
{
	u32 len = n < WALK_KEYS / 2 ? 0 : 8;

	memset(bytes, 'k', len);
	put_unaligned_be64(n, bytes + len);
	return KT_BYTES(bytes, len + 8);
}

static int walk_see(struct kvt_walk *w, const struct kvt_value *v)
{
	struct walk *walk = container_of(w, struct walk, walk);
	struct kvt_key key;
	u8 bytes[16];

	key = number_key(bytes, walk->seen);
	if (kt_check(v, &key, NULL))
		walk->lost++;
	walk->seen++;
	if (walk->end == walk->seen)
		return -ESTALE;
	return walk->seen % 3 == 1;
}

static int walk_act(struct kvt_walk *w, const struct kvt_key *key)
{
	return kt_del(container_of(w, struct walk, walk)->kt, key, NULL);
}

static void walk_open(struct kunit *test, struct walk *walk)
{
	struct kvt_key key;
	u8 bytes[16];
	u32 n;

	*walk = (struct walk) {
		.walk = { .see = walk_see, .act = walk_act },
		.kt = kt_open_pages(test, test->param_value, U64_MAX),
	};
	for (n = WALK_KEYS; n--;) {
		key = number_key(bytes, n);
		KUNIT_ASSERT_EQ(test, 0, kt_put(walk->kt, &key, NULL));
	}
}

/* The walk removes every third one. */
static void a_walk_sees_each_value_once_and_may_remove_it(struct kunit *test)
{
	struct walk walk;
	struct kvt_key key;
	u8 bytes[16];
	u32 n;

	walk_open(test, &walk);
	KUNIT_EXPECT_EQ(test, 0, kvt_index_walk(walk.kt->index, &walk.walk));
	KUNIT_EXPECT_EQ(test, WALK_KEYS, walk.seen);
	KUNIT_EXPECT_EQ(test, 0, walk.lost);
	for (n = 0; n < WALK_KEYS; n++) {
		key = number_key(bytes, n);
		KUNIT_EXPECT_EQ_MSG(test, n % 3 ? 0 : -ENOENT, kt_get(walk.kt, &key, NULL), "%u",
				    n);
	}
}

static void a_walk_ends_where_it_is_told(struct kunit *test)
{
	struct walk walk;

	walk_open(test, &walk);
	walk.end = 10;
	KUNIT_EXPECT_EQ(test, -ESTALE, kvt_index_walk(walk.kt->index, &walk.walk));
	KUNIT_EXPECT_EQ(test, 10, walk.seen);
	KUNIT_EXPECT_EQ(test, 0, walk.lost);
}

#ifdef __KERNEL__

/*
 * Put keys in order, so that soon one finds its node full.  A killed writer returns -EINTR
 * rather than retry, perhaps for ever.  A change that needs no retry is made.
 */
static void a_killed_writer_does_not_try_again(struct kunit *test)
{
	struct kt *kt = kt_open_pages(test, test->param_value, U64_MAX);
	struct kvt_key key;
	u8 bytes[16];
	int err = 0;
	u32 n;

	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	for (n = 0; n < WALK_KEYS && !err; n++) {
		key = number_key(bytes, n);
		err = kt_put(kt, &key, NULL);
	}
	KUNIT_EXPECT_EQ(test, -EINTR, err);
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_get(kt, &key, NULL));
	/* A put that may not sleep has few retries: the signal does not stop it. */
	KUNIT_EXPECT_EQ(test, 0, kt_put_gfp(kt, &key, GFP_NOWAIT, NULL));
	flush_signals(current);
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_EQ(test, n, kt_count(kt, false));
	KUNIT_EXPECT_EQ(test, 0, kt_put(kt, &key, NULL));
}

#endif

static struct kunit_case index_cases[] = {
	KT_CASE(a_walk_sees_each_value_once_and_may_remove_it),
	KT_CASE(a_walk_ends_where_it_is_told),
#ifdef __KERNEL__
	KT_CASE(a_killed_writer_does_not_try_again),
#endif
	{}
};

static struct kunit_suite index_suite = {
	.name = "kvtree_index",
	.test_cases = index_cases,
};

kunit_test_suite(index_suite);
