// SPDX-License-Identifier: GPL-2.0
/*
 * Cursors of libkvtree visit exactly the records of their range, in both
 * directions, wherever they turn and however many records they read ahead.
 * The expected position is computed from a sorted array.
 */
#include <errno.h>
#include "kselftest_harness.h"
#include "../../lib/kvtree.h"
#include "lib/kvt_test.h"

#define KEYS_MAX	400
#define KEY_ROOM	48

struct entry {
	unsigned char key[KEY_ROOM];
	__u32 key_len;
};

FIXTURE(cursor) {
	struct kvt_env env;
	struct kvtree *kv;
	struct entry entry[KEYS_MAX];
	int nr;
};

static struct kvt_bytes entry_key(const struct entry *e)
{
	return kvt_bytes(e->key, e->key_len);
}

static int compare_entries(const void *a, const void *b)
{
	return kvt_cmp(entry_key(a), entry_key(b));
}

/* Keys with shared prefixes, prefixes of others, and 0x00 and 0xff at their ends. */
static void make_key(struct kvt_rand *rand, struct entry *e)
{
	static const int shared[] = { 0, 0, 7, 8, 16, 40 };
	int len = shared[kvt_rand_below(rand, NR(shared))];
	int more = kvt_rand_below(rand, 7);

	memset(e->key, 'p', len);
	while (more--)
		e->key[len++] = "\0\1p\xfe\xff"[kvt_rand_below(rand, 5)];
	e->key_len = len;
}

FIXTURE_SETUP(cursor)
{
	struct kvtree_col cols[2] = { { .id = 0, .len = 3 }, { .id = 7 } };
	struct kvt_rand rand;
	int i, fd;

	kvt_env_init(&self->env, "cursor", 0, 0);
	fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvtree_from_fd(fd, &self->kv));
	kvt_rand_init(&rand, 0);
	for (i = 0; i < KEYS_MAX; i++)
		make_key(&rand, &self->entry[i]);
	qsort(self->entry, i, sizeof(self->entry[0]), compare_entries);
	for (i = 1, self->nr = 1; i < KEYS_MAX; i++) {
		if (compare_entries(&self->entry[self->nr - 1], &self->entry[i]))
			self->entry[self->nr++] = self->entry[i];
	}
	ASSERT_LT(200, self->nr);
	/* Column 7 is the key once more. */
	for (i = 0; i < self->nr; i++) {
		const struct entry *e = &self->entry[i];
		unsigned char val[3 + KEY_ROOM] = "abc";

		memcpy(val + 3, e->key, e->key_len);
		cols[1].len = e->key_len;
		ASSERT_EQ(0, kvt_put_cols(self->env.fd, entry_key(e), cols, 2,
					  kvt_bytes(val, 3 + e->key_len), NULL));
	}
}

FIXTURE_TEARDOWN(cursor)
{
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

/*
 * A range and a position in it: entries in the cursor's order, and the index
 * of the present one, -1 before the first and nr after the last.
 */
struct model {
	const struct entry *at[KEYS_MAX];
	int nr, pos;
	bool reverse;
};

static bool in_range(struct kvt_bytes key, const struct kvtree_cursor_opts *o)
{
	if (o->start_len && kvt_cmp(key, kvt_bytes(o->start, o->start_len)) < 0)
		return false;
	if ((o->end_len || o->flags & KVTREE_CURSOR_END) &&
	    kvt_cmp(key, kvt_bytes(o->end, o->end_len)) >= 0)
		return false;
	return key.len >= o->prefix_len &&
	       (!o->prefix_len || !memcmp(key.data, o->prefix, o->prefix_len));
}

static void model_init(struct model *m, const struct entry *entry, int nr,
		       const struct kvtree_cursor_opts *o)
{
	int i;

	m->reverse = o->flags & KVTREE_CURSOR_REVERSE;
	m->nr = 0;
	m->pos = -1;
	for (i = 0; i < nr; i++) {
		const struct entry *e = &entry[m->reverse ? nr - 1 - i : i];

		if (in_range(entry_key(e), o))
			m->at[m->nr++] = e;
	}
}

static int model_go(struct model *m, int pos)
{
	m->pos = pos < 0 ? -1 : pos > m->nr ? m->nr : pos;
	return m->pos >= 0 && m->pos < m->nr ? 0 : -ENOENT;
}

static int model_seek(struct model *m, struct kvt_bytes key)
{
	int pos, cmp;

	for (pos = 0; pos < m->nr; pos++) {
		cmp = kvt_cmp(entry_key(m->at[pos]), key);
		if (m->reverse ? cmp <= 0 : cmp >= 0)
			break;
	}
	return model_go(m, pos);
}

/* Is the cursor at the model's position, and does it show that entry? */
static bool agrees(const struct kvtree_cursor *c, const struct model *m, unsigned int flags)
{
	const struct kvtree_columns *cols = kvtree_cursor_columns(c);
	size_t key_len = 0, len = 0;
	const void *key = kvtree_cursor_key(c, &key_len);
	const void *val = kvtree_cursor_value(c, &len);

	if (m->pos < 0 || m->pos == m->nr)
		return !key && !val && !cols && !kvtree_cursor_version(c);
	if (!key || kvt_cmp(kvt_bytes(key, key_len), entry_key(m->at[m->pos])))
		return false;
	if (!kvtree_cursor_version(c))
		return false;
	if (flags & KVTREE_CURSOR_KEYS_ONLY)
		return !val && !cols;
	if (!(flags & KVTREE_CURSOR_ALL_COLS))
		return val && !cols && len == 3 && !memcmp(val, "abc", 3);
	return !val && cols && cols->nr == 2 && cols->col[1].id == 7 &&
	       cols->col[1].len == key_len && !memcmp(cols->col[1].data, key, key_len);
}

/* A few steps one way, then something else, many times. */
static void walk(struct __test_metadata *_metadata, struct kvt_rand *rand,
		 struct kvtree_cursor *c, struct model *m, unsigned int flags)
{
	int turn, steps, want, ret;
	struct entry e;

	for (turn = 0; turn < 8; turn++) {
		switch (kvt_rand_below(rand, 5)) {
		case 0:
			want = model_go(m, 0);
			if (want)
				m->pos = m->nr;
			ret = kvtree_cursor_first(c);
			break;
		case 1:
			want = model_go(m, m->nr - 1);
			ret = kvtree_cursor_last(c);
			break;
		case 2:
			make_key(rand, &e);
			want = model_seek(m, entry_key(&e));
			ret = kvtree_cursor_seek(c, kvtree_slice(e.key, e.key_len));
			break;
		default:
			steps = kvt_rand_below(rand, 2 * m->nr + 3) - m->nr - 1;
			for (want = 0, ret = 0; steps && want == ret; steps += steps < 0 ? 1 : -1) {
				ASSERT_TRUE(agrees(c, m, flags));
				want = model_go(m, m->pos + (steps < 0 ? -1 : 1));
				ret = steps < 0 ? kvtree_cursor_prev(c) : kvtree_cursor_next(c);
			}
		}
		ASSERT_EQ(want, ret);
		ASSERT_TRUE(agrees(c, m, flags));
	}
}

TEST_F(cursor, random_walks_agree_with_a_sorted_array)
{
	static const unsigned int reads[] = { 0, KVTREE_CURSOR_KEYS_ONLY, KVTREE_CURSOR_ALL_COLS };
	struct kvtree_cursor *c;
	struct kvt_rand rand;
	struct model model;
	int round;

	kvt_rand_init(&rand, 1);
	for (round = 0; round < 400; round++) {
		struct entry start, end, prefix;
		struct kvtree_cursor_opts opts = {
			.size = sizeof(opts), .start = start.key, .end = end.key,
			.prefix = prefix.key, .flags = reads[kvt_rand_below(&rand, 3)],
		};

		make_key(&rand, &start);
		make_key(&rand, &end);
		make_key(&rand, &prefix);
		if (kvt_rand_below(&rand, 2))
			start = self->entry[kvt_rand_below(&rand, self->nr)];
		if (kvt_rand_below(&rand, 2))
			end = self->entry[kvt_rand_below(&rand, self->nr)];
		if (kvt_rand_below(&rand, 3))
			opts.start_len = start.key_len;
		if (kvt_rand_below(&rand, 3) == 0)
			opts.end_len = end.key_len;
		/* If there is none, this is the empty key, and none is below. */
		if (kvt_rand_below(&rand, 20) == 0)
			opts.flags |= KVTREE_CURSOR_END;
		if (kvt_rand_below(&rand, 3) == 0)
			opts.prefix_len = kvt_rand_below(&rand, prefix.key_len + 1);
		if (kvt_rand_below(&rand, 2))
			opts.flags |= KVTREE_CURSOR_REVERSE;
		if (kvt_rand_below(&rand, 2))
			opts.max_records = 1 + kvt_rand_below(&rand, 9);
		if (kvt_rand_below(&rand, 2))
			opts.buffer = 1 + kvt_rand_below(&rand, 600);
		model_init(&model, self->entry, self->nr, &opts);
		ASSERT_EQ(0, kvtree_cursor_open(self->kv, &opts, &c));
		walk(_metadata, &rand, c, &model, opts.flags);
		kvtree_cursor_close(c);
	}
}

/* The greatest keys below a bound of KVTREE_KEY_MAX bytes, or of few. */
TEST_F(cursor, range_begins_with_the_start_key_and_not_before)
{
	unsigned char key[KVTREE_KEY_MAX], below[KVTREE_KEY_MAX];
	static const __u32 lens[] = { 1, 8, 9, 100, KVTREE_KEY_MAX - 1, KVTREE_KEY_MAX };
	struct kvtree_cursor_opts opts = {
		.size = sizeof(opts), .flags = KVTREE_CURSOR_REVERSE, .start = key,
		.prefix = "q", .prefix_len = 1,
	};
	struct kvtree_cursor *c;
	size_t i, len;

	for (i = 0; i < NR(lens); i++) {
		memset(key, 'q', sizeof(key));
		memset(below, 'q', sizeof(below));
		/* Just below the start are keys with a smaller last byte, followed by 0xff. */
		memset(below + lens[i] - 1, 0xff, sizeof(below) - lens[i] + 1);
		below[lens[i] - 1] = 'q' - 1;
		opts.start_len = lens[i];
		ASSERT_EQ(0, kvtree_put(self->kv, kvtree_slice(key, lens[i]), kvtree_str(""),
					0, NULL));
		ASSERT_EQ(0, kvtree_put(self->kv, kvtree_slice(below, sizeof(below)),
					kvtree_str(""), 0, NULL));
		ASSERT_EQ(0, kvtree_put(self->kv, kvtree_slice(key, lens[i] - 1),
					kvtree_str(""), 0, NULL));
		ASSERT_EQ(0, kvtree_cursor_open(self->kv, &opts, &c));
		ASSERT_EQ(0, kvtree_cursor_last(c));
		ASSERT_NE(NULL, kvtree_cursor_key(c, &len));
		EXPECT_EQ(lens[i], len);
		EXPECT_EQ(-ENOENT, kvtree_cursor_next(c));
		EXPECT_EQ(0, kvtree_cursor_prev(c));
		/* Nor from there with a scan of its own. */
		EXPECT_EQ(0, kvtree_cursor_seek(c, kvtree_slice(key, lens[i])));
		EXPECT_EQ(-ENOENT, kvtree_cursor_next(c));
		EXPECT_EQ(-ENOENT, kvtree_cursor_seek(c, kvtree_slice(below, sizeof(below))));
		kvtree_cursor_close(c);
		ASSERT_EQ(0, kvtree_del(self->kv, kvtree_slice(key, lens[i]), 0, NULL));
		ASSERT_EQ(0, kvtree_del(self->kv, kvtree_slice(below, sizeof(below)), 0, NULL));
		ASSERT_EQ(0, kvtree_del(self->kv, kvtree_slice(key, lens[i] - 1), 0, NULL));
		/* The start key itself need not be there. */
		ASSERT_EQ(0, kvtree_cursor_open(self->kv, &opts, &c));
		EXPECT_EQ(-ENOENT, kvtree_cursor_next(c));
		kvtree_cursor_close(c);
	}
}

TEST_F(cursor, whole_put_of_columns_through_the_library)
{
	const struct kvtree_column first[] = {
		{ .id = 0, .len = 1, .data = "a" }, { .id = 3, .len = 2, .data = "bc" },
	};
	const struct kvtree_column next = { .id = 5, .len = 3, .data = "def" };
	struct kvtree_columns *found;
	struct kvtree_ops *ops;
	uint64_t version = 0;

	ASSERT_EQ(0, kvtree_cas_cols(self->kv, kvtree_str("new"), first, 2, KVTREE_F_WHOLE,
				     &version));
	ASSERT_EQ(0, kvtree_cas_cols(self->kv, kvtree_str("new"), &next, 1, KVTREE_F_WHOLE,
				     &version));
	ASSERT_EQ(0, kvtree_get_cols(self->kv, kvtree_str("new"), NULL, 0, &found));
	ASSERT_EQ(1, found->nr);
	EXPECT_EQ(5, found->col[0].id);
	EXPECT_EQ(version, found->version);
	free(found);

	ASSERT_EQ(0, kvtree_ops_new(&ops));
	ASSERT_EQ(0, kvtree_ops_put_cols(ops, kvtree_str("new"), first, 2, KVTREE_F_WHOLE));
	ASSERT_EQ(1, kvtree_ops_get_cols(ops, kvtree_str("new"), NULL, 0, 64));
	ASSERT_EQ(2, kvtree_ops_put_cols(ops, kvtree_str("new"), NULL, 0, KVTREE_F_WHOLE));
	ASSERT_EQ(3, kvtree_ops_get_cols(ops, kvtree_str("new"), NULL, 0, 64));
	/* Without columns there is nothing that could stay. */
	ASSERT_EQ(4, kvtree_ops_put(ops, kvtree_str("new"), kvtree_str("x"), KVTREE_F_WHOLE));
	ASSERT_EQ(0, kvtree_ops_run(ops, self->kv));
	EXPECT_EQ(0, kvtree_ops_result(ops, 0));
	EXPECT_EQ(2, kvtree_ops_columns(ops, 1)->nr);
	EXPECT_EQ(0, kvtree_ops_result(ops, 2));
	EXPECT_EQ(0, kvtree_ops_columns(ops, 3)->nr);
	EXPECT_EQ(-EINVAL, kvtree_ops_result(ops, 4));
	kvtree_ops_free(ops);
	EXPECT_EQ(0, kvtree_put_cols(self->kv, kvtree_str("new"), NULL, 0, KVTREE_F_WHOLE, NULL));
}

TEST_HARNESS_MAIN
