// SPDX-License-Identifier: GPL-2.0
/*
 * A scan returns exactly the records of its range, in order, whatever the
 * flags, the columns, the limit and the size of the buffer.  The expected
 * result is computed from a sorted array.  kvt_scan_once() checks the layout
 * of every record.
 */
#include <errno.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define KEYS_MAX	512

struct entry {
	unsigned char key[64];
	__u32 key_len;
	__u64 version;
	/* Columns 0, 2 and 9, each maybe absent. */
	bool col[3];
};

static const int col_id[3] = { 0, 2, 9 };

FIXTURE(scan) {
	struct kvt_env env;
	int fd;
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

/* The contents of a column: length and bytes are derived from the key. */
static __u32 column(const struct entry *e, int col, unsigned char *out)
{
	__u32 len = (e->key_len * 7 + col_id[col]) % 23, i;

	for (i = 0; i < len; i++)
		out[i] = e->key_len + i * 3 + col_id[col] + (e->key_len ? e->key[0] : 0);
	return len;
}

static int put_entry(int fd, struct entry *e)
{
	struct kvtree_col cols[3];
	unsigned char val[128];
	__u32 len = 0;
	int i, n = 0;

	for (i = 0; i < 3; i++) {
		cols[n] = (struct kvtree_col){ .id = col_id[i], .len = KVTREE_COL_ABSENT };
		if (e->col[i]) {
			cols[n].len = column(e, i, val + len);
			len += cols[n].len;
		}
		n++;
	}
	return kvt_put_cols(fd, entry_key(e), cols, n, kvt_bytes(val, len), &e->version);
}

/* Keys with shared prefixes of 0, 8, 9, 16 and 40 bytes, zero bytes, prefixes of others. */
static void make_key(struct kvt_rand *rand, struct entry *e)
{
	static const int shared[] = { 0, 0, 8, 9, 16, 40 };
	int len = shared[kvt_rand_below(rand, NR(shared))];
	int more = kvt_rand_below(rand, 12), i;

	for (i = 0; i < len; i++)
		e->key[i] = "prefix\0s"[i % 8];
	for (i = 0; i < more; i++)
		e->key[len++] = "\0\1ab\xfe\xff"[kvt_rand_below(rand, 6)];
	e->key_len = len;
}

FIXTURE_SETUP(scan)
{
	struct kvt_rand rand;
	int i, j;

	kvt_env_init(&self->env, "scan", 0, 0);
	self->fd = self->env.fd;
	kvt_rand_init(&rand, 0);
	for (i = 0; i < 400; i++) {
		make_key(&rand, &self->entry[i]);
		for (j = 0; j < 3; j++)
			self->entry[i].col[j] = kvt_rand_below(&rand, 4) != 0;
	}
	qsort(self->entry, i, sizeof(self->entry[0]), compare_entries);
	for (j = 1, self->nr = 1; j < i; j++) {
		if (compare_entries(&self->entry[self->nr - 1], &self->entry[j]))
			self->entry[self->nr++] = self->entry[j];
	}
	ASSERT_LT(200, self->nr);
	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, put_entry(self->fd, &self->entry[i]));
}

FIXTURE_TEARDOWN(scan)
{
	kvt_env_exit(&self->env);
}

/*
 * The range by the words of linux/kvtree.h: the entries that a scan returns,
 * in its order.
 */
static int expect_range(const struct entry *entry, int nr, struct kvt_bytes start,
			const struct kvtree_scan *scan, const struct entry **out)
{
	struct kvt_bytes end = kvt_bytes((void *)(uintptr_t)scan->end, scan->end_len);
	bool reverse = scan->flags & KVTREE_SCAN_REVERSE;
	bool ends = scan->end_len || (scan->flags & KVTREE_SCAN_END);
	int i, n = 0;

	for (i = 0; i < nr; i++) {
		const struct entry *e = &entry[reverse ? nr - 1 - i : i];
		struct kvt_bytes key = entry_key(e);
		int cmp = kvt_cmp(key, start);

		if (reverse)
			cmp = -cmp;
		if (!(scan->flags & KVTREE_SCAN_LAST)) {
			if (cmp < 0)
				continue;
			if (cmp == 0 && (scan->flags & KVTREE_SCAN_AFTER))
				continue;
		}
		if (ends) {
			cmp = kvt_cmp(key, end);
			if (!cmp && !(scan->flags & KVTREE_SCAN_END_INCL))
				continue;
			if (reverse ? cmp < 0 : cmp > 0)
				continue;
		}
		if (scan->flags & KVTREE_SCAN_PREFIX) {
			if (key.len < scan->prefix_len ||
			    memcmp(key.data, start.data, scan->prefix_len))
				continue;
		}
		out[n++] = e;
	}
	return n;
}

/* Does a record have what the scan asked for of this entry? */
static bool same_record(const struct kvt_rec *rec, const struct entry *e,
			const struct kvtree_scan *scan)
{
	const __u16 *ids = (const void *)(uintptr_t)scan->cols;
	const unsigned char *val = rec->val.data;
	struct kvtree_col table[3];
	unsigned char want[128];
	__u32 len = 0;
	int i, j, n = 0;

	if (kvt_cmp(rec->key, entry_key(e)) || rec->version != e->version)
		return false;
	if (scan->flags & KVTREE_SCAN_KEYS_ONLY)
		return !rec->val.len;
	if (!scan->ncols && !(scan->flags & KVTREE_SCAN_ALL_COLS)) {
		len = e->col[0] ? column(e, 0, want) : 0;
		return !rec->ncols && !(rec->flags & KVTREE_REC_COLS) &&
		       rec->val.len == len && !memcmp(val, want, len);
	}
	for (i = 0; i < 3; i++) {
		bool asked = scan->flags & KVTREE_SCAN_ALL_COLS;

		for (j = 0; j < scan->ncols; j++)
			asked |= ids[j] == col_id[i];
		if (!e->col[i] || !asked)
			continue;
		table[n].id = col_id[i];
		table[n].reserved = 0;
		table[n].len = column(e, i, want + len);
		len += table[n++].len;
	}
	return rec->ncols == n && rec->val.len == n * sizeof(table[0]) + len &&
	       !memcmp(val, table, n * sizeof(table[0])) &&
	       !memcmp(val + n * sizeof(table[0]), want, len);
}

static bool same_list(const struct kvt_list *list, const struct entry **want, int nr,
		      const struct kvtree_scan *scan)
{
	int i;

	if (list->nr != (size_t)nr) {
		fprintf(stderr, "# %zu records, %d expected\n", list->nr, nr);
		return false;
	}
	for (i = 0; i < nr; i++) {
		if (!same_record(&list->rec[i], want[i], scan)) {
			fprintf(stderr, "# record %d of %d is not the one expected\n", i, nr);
			return false;
		}
	}
	return true;
}

TEST_F(scan, forward_and_reverse_return_every_key_in_order)
{
	const struct entry *want[KEYS_MAX];
	struct kvtree_scan scan = {};
	struct kvt_list list = {};
	int n;

	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 20, &list));
	n = expect_range(self->entry, self->nr, STR(""), &scan, want);
	ASSERT_EQ(self->nr, n);
	EXPECT_TRUE(same_list(&list, want, n, &scan));
	/* All of it fits: one call, which says that it was all. */
	EXPECT_EQ(1, list.calls);
	kvt_list_free(&list);

	scan.flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 20, &list));
	n = expect_range(self->entry, self->nr, STR(""), &scan, want);
	ASSERT_EQ(self->nr, n);
	EXPECT_TRUE(same_list(&list, want, n, &scan));
	EXPECT_EQ(1, list.calls);
	kvt_list_free(&list);
}

TEST_F(scan, empty_ranges_are_done_at_once)
{
	static const struct {
		__u32 flags;
		__u16 prefix;
		const char *end;
	} empty[] = {
		{ KVTREE_SCAN_END, 0, "" },
		{ KVTREE_SCAN_PREFIX, 6, NULL },
		{ 0, 0, "absent" },
		{ KVTREE_SCAN_PREFIX | KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST, 6, NULL },
		{ KVTREE_SCAN_REVERSE, 0, "z" },
	};
	struct kvt_list list = {};
	size_t i;

	for (i = 0; i < NR(empty); i++) {
		struct kvtree_scan scan = {
			.flags = empty[i].flags,
			.prefix_len = empty[i].prefix,
			.end_len = empty[i].end ? strlen(empty[i].end) : 0,
		};

		if (scan.end_len)
			scan.end = kvt_ptr(empty[i].end);
		ASSERT_EQ(0, kvt_scan_once(self->fd, STR("absent"), &scan, 4096, &list, NULL));
		EXPECT_EQ(0, list.nr);
		EXPECT_TRUE(list.done);
		/* Nothing to copy needs no room. */
		ASSERT_EQ(0, kvt_scan_once(self->fd, STR("absent"), &scan, 0, &list, NULL));
		EXPECT_TRUE(list.done);
	}
	kvt_list_free(&list);
}

TEST_F(scan, end_of_no_bytes_holds_with_or_without_a_pointer)
{
	struct kvt_list list = {};
	int ptr, reverse;

	for (ptr = 0; ptr < 2; ptr++) {
		for (reverse = 0; reverse < 2; reverse++) {
			struct kvtree_scan scan = {
				.flags = KVTREE_SCAN_END | KVTREE_SCAN_KEYS_ONLY,
				.end = ptr ? kvt_ptr("") : 0,
			};

			if (reverse)
				scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
			/* All keys but the empty one come after it. */
			EXPECT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 17, &list));
			EXPECT_EQ(reverse ? self->nr - !self->entry[0].key_len : 0, list.nr);
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, inclusive_end_is_in_the_range)
{
	struct kvtree_scan scan = {};
	struct kvt_list list = {};
	int reverse, i;

	for (i = 10; i < self->nr - 10; i += 7) {
		for (reverse = 0; reverse < 2; reverse++) {
			const struct entry *end = &self->entry[reverse ? i - 3 : i + 3];

			scan.flags = KVTREE_SCAN_END_INCL | KVTREE_SCAN_KEYS_ONLY;
			if (reverse)
				scan.flags |= KVTREE_SCAN_REVERSE;
			scan.end = kvt_ptr(end->key);
			scan.end_len = end->key_len;
			ASSERT_EQ(0, kvt_scan_all(self->fd, entry_key(&self->entry[i]), &scan, 120,
						  &list));
			ASSERT_EQ(4, list.nr);
			EXPECT_EQ(0, kvt_cmp(list.rec[3].key, entry_key(end)));
			kvt_list_free(&list);
			scan.flags &= ~KVTREE_SCAN_END_INCL;
			ASSERT_EQ(0, kvt_scan_all(self->fd, entry_key(&self->entry[i]), &scan, 120,
						  &list));
			ASSERT_EQ(3, list.nr);
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, inclusive_end_may_be_absent_empty_or_equal_to_start)
{
	static const struct {
		__u32 flags;
		const char *start, *end, *prefix;
		const char *want;	/* last characters of the keys */
	} table[] = {
		/* The end is there; is not; is the start; comes before it. */
		{ 0, "inc-a", "inc-d", NULL, "abd" },
		{ 0, "inc-a", "inc-c", NULL, "ab" },
		{ 0, "inc-b", "inc-b", NULL, "b" },
		{ 0, "inc-b", "inc-a", NULL, "" },
		{ 0, "inc-c", "inc-c", NULL, "" },
		{ KVTREE_SCAN_AFTER, "inc-b", "inc-b", NULL, "" },
		{ KVTREE_SCAN_AFTER, "inc-b", "inc-d", NULL, "d" },
		{ KVTREE_SCAN_REVERSE, "inc-d", "inc-a", NULL, "dba" },
		{ KVTREE_SCAN_REVERSE, "inc-d", "inc-", NULL, "dba" },
		{ KVTREE_SCAN_REVERSE, "inc-d", "inc-c", NULL, "d" },
		{ KVTREE_SCAN_REVERSE | KVTREE_SCAN_AFTER, "inc-d", "inc-b", NULL, "b" },
		/* A key with the end as a prefix comes after it. */
		{ 0, "inc-d", "inc-d", NULL, "d" },
		{ 0, "inc-d", "inc-dd", NULL, "dd" },
		/* The narrower of end and prefix holds. */
		{ KVTREE_SCAN_PREFIX, "inc-a", "inc-d", "inc-", "abd" },
		{ KVTREE_SCAN_PREFIX, "inc-a", "zzz", "inc-", "abdd" },
		{ KVTREE_SCAN_PREFIX, "inc-d", "inc-dd", "inc-d", "dd" },
		{ KVTREE_SCAN_PREFIX, "inc-d", "inc-d", "inc-d", "d" },
		{ KVTREE_SCAN_PREFIX | KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST, "inc-", "inc-b",
		  "inc-", "ddb" },
		{ KVTREE_SCAN_PREFIX | KVTREE_SCAN_REVERSE, "inc-b", "", "inc-", "ba" },
	};
	struct kvt_list list = {};
	__u32 limit, room;
	size_t i, j;

	ASSERT_EQ(0, kvt_put(self->fd, STR("inc-a"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("inc-b"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("inc-d"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("inc-dd"), STR(""), NULL));
	for (i = 0; i < NR(table); i++) {
		struct kvtree_scan scan = {
			.flags = table[i].flags | KVTREE_SCAN_END | KVTREE_SCAN_END_INCL,
			.end = kvt_ptr(table[i].end),
			.end_len = strlen(table[i].end),
			.prefix_len = table[i].prefix ? strlen(table[i].prefix) : 0,
		};
		struct kvt_bytes start = kvt_bytes(table[i].start, strlen(table[i].start));

		/* In one call, and resumed after every record. */
		for (limit = 0; limit < 2; limit++) {
			scan.limit = limit;
			room = limit ? 64 : 4096;
			ASSERT_EQ(0, kvt_scan_all(self->fd, start, &scan, room, &list));
			ASSERT_EQ(strlen(table[i].want), list.nr) {
				TH_LOG("scan %zu, limit %u", i, limit);
			}
			for (j = 0; j < list.nr; j++) {
				const char *key = list.rec[j].key.data;

				EXPECT_EQ(table[i].want[j], key[list.rec[j].key.len - 1]) {
					TH_LOG("scan %zu, limit %u, record %zu", i, limit, j);
				}
			}
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, inclusive_end_of_no_bytes_is_the_empty_key)
{
	struct kvt_list list = {};
	int reverse, there;

	for (there = 0; there < 2; there++) {
		kvt_remove(self->fd, STR(""));
		if (there)
			ASSERT_EQ(0, kvt_put(self->fd, STR(""), STR(""), NULL));
		for (reverse = 0; reverse < 2; reverse++) {
			struct kvtree_scan scan = {
				.flags = KVTREE_SCAN_END | KVTREE_SCAN_END_INCL |
					 KVTREE_SCAN_KEYS_ONLY,
			};

			if (reverse)
				scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
			ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 200, &list));
			EXPECT_EQ(reverse ? self->nr - !self->entry[0].key_len + there : there,
				  list.nr);
			if (there && list.nr)
				EXPECT_EQ(0, list.rec[list.nr - 1].key.len);
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, store_without_keys_is_scanned_in_no_time)
{
	static const __u32 flags[] = { 0, KVTREE_SCAN_REVERSE,
				       KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST,
				       KVTREE_SCAN_PREFIX };
	struct kvt_list list = {};
	int i;

	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, kvt_remove(self->fd, entry_key(&self->entry[i])));
	for (i = 0; i < (int)NR(flags); i++) {
		struct kvtree_scan scan = { .flags = flags[i] };

		ASSERT_EQ(0, kvt_scan_once(self->fd, STR(""), &scan, 4096, &list, NULL));
		EXPECT_EQ(0, list.nr);
		EXPECT_TRUE(list.done);
	}
	kvt_list_free(&list);
}

TEST_F(scan, record_that_does_not_fit_returns_what_it_needs)
{
	struct kvtree_scan scan = { .limit = 1 };
	struct kvt_list list = {};
	__u32 need, room;
	int i;

	for (i = 0; i < self->nr; i += 7) {
		struct kvt_bytes key = entry_key(&self->entry[i]);

		ASSERT_EQ(-EMSGSIZE, kvt_scan_once(self->fd, key, &scan, 0, &list, &need));
		ASSERT_LE(sizeof(struct kvtree_rec) + key.len, need);
		/* One byte less is not enough; the returned length is. */
		ASSERT_EQ(-EMSGSIZE, kvt_scan_once(self->fd, key, &scan, need - 1, &list, &room));
		ASSERT_EQ(need, room);
		ASSERT_LT(0, kvt_scan_once(self->fd, key, &scan, need, &list, NULL));
		ASSERT_EQ(1, list.nr);
		ASSERT_EQ(0, kvt_cmp(list.rec[0].key, key));
		kvt_list_free(&list);
	}
}

TEST_F(scan, limit_is_kept_exactly)
{
	static const __u32 limits[] = { 1, 2, 3, 13, 14, 15, 16, 64, 100 };
	struct kvt_list list = {};
	size_t i;

	for (i = 0; i < NR(limits); i++) {
		struct kvtree_scan scan = { .limit = limits[i] };

		ASSERT_LT(0, kvt_scan_once(self->fd, STR(""), &scan, 1 << 20, &list, NULL));
		EXPECT_EQ(limits[i], list.nr);
		EXPECT_EQ(limits[i], scan.count);
		/* There is more, and it does not say otherwise. */
		EXPECT_FALSE(list.done);
		kvt_list_free(&list);
	}
}

TEST_F(scan, limit_above_the_number_of_keys_is_no_limit)
{
	struct kvtree_scan scan = { .limit = ~0u };
	struct kvt_list list = {};

	ASSERT_LT(0, kvt_scan_once(self->fd, STR(""), &scan, 1 << 20, &list, NULL));
	EXPECT_EQ(self->nr, list.nr);
	EXPECT_TRUE(list.done);
	kvt_list_free(&list);
}

TEST_F(scan, after_leaves_out_the_start_key_and_nothing_else)
{
	const struct entry *want[KEYS_MAX];
	struct kvt_list list = {};
	int i, n, reverse;

	for (reverse = 0; reverse < 2; reverse++) {
		for (i = 0; i < self->nr; i += 5) {
			struct kvt_bytes key = entry_key(&self->entry[i]);
			struct kvtree_scan scan = {
				.flags = KVTREE_SCAN_AFTER | KVTREE_SCAN_KEYS_ONLY |
					 (reverse ? KVTREE_SCAN_REVERSE : 0),
				.limit = 20,
			};
			int ret = kvt_scan_once(self->fd, key, &scan, 65536, &list, NULL);

			ASSERT_LE(0, ret);
			n = expect_range(self->entry, self->nr, key, &scan, want);
			ASSERT_TRUE(same_list(&list, want, n > 20 ? 20 : n, &scan));
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, change_behind_the_cursor_does_not_disturb_it)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY, .limit = 10 };
	struct kvt_list list = {};
	struct kvt_bytes from = STR("");
	int i = 0;

	/* Remove each key as soon as it is returned, including the cursor's own. */
	for (;;) {
		ASSERT_LE(0, kvt_scan_once(self->fd, from, &scan, 65536, &list, NULL));
		while (i < (int)list.nr) {
			ASSERT_EQ(0, kvt_cmp(list.rec[i].key, entry_key(&self->entry[i])));
			ASSERT_EQ(0, kvt_remove(self->fd, list.rec[i].key));
			i++;
		}
		if (list.done)
			break;
		from = list.rec[i - 1].key;
		scan.flags |= KVTREE_SCAN_AFTER;
	}
	EXPECT_EQ(self->nr, i);
	kvt_list_free(&list);
}

TEST_F(scan, prefix_returns_exactly_the_keys_that_begin_with_it)
{
	const struct entry *want[KEYS_MAX];
	struct kvt_list list = {};
	int i, n, reverse;
	__u32 len;

	for (i = 0; i < self->nr; i += 9) {
		const struct entry *e = &self->entry[i];

		for (len = 0; len <= e->key_len; len += 1 + e->key_len / 6) {
			for (reverse = 0; reverse < 2; reverse++) {
				struct kvtree_scan scan = {
					.flags = KVTREE_SCAN_PREFIX | KVTREE_SCAN_KEYS_ONLY,
					.prefix_len = len,
				};

				if (reverse)
					scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
				ASSERT_EQ(0, kvt_scan_all(self->fd, kvt_bytes(e->key, len), &scan,
							  1 << 17, &list));
				n = expect_range(self->entry, self->nr, kvt_bytes(e->key, len),
						 &scan, want);
				ASSERT_TRUE(same_list(&list, want, n, &scan));
				kvt_list_free(&list);
			}
		}
	}
}

TEST_F(scan, key_that_is_a_prefix_of_the_prefix_is_outside)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 9 };
	struct kvt_list list = {};

	ASSERT_EQ(0, kvt_put(self->fd, STR("12345678"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("123456789"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("1234567890"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("12345678a"), STR(""), NULL));
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR("123456789"), &scan, 4096, &list));
	EXPECT_EQ(2, list.nr);
	kvt_list_free(&list);
	scan.flags |= KVTREE_SCAN_REVERSE;
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR("123456789"), &scan, 4096, &list));
	EXPECT_EQ(1, list.nr);
	kvt_list_free(&list);
	scan.flags |= KVTREE_SCAN_LAST;
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR("123456789"), &scan, 4096, &list));
	EXPECT_EQ(2, list.nr);
	kvt_list_free(&list);
}

TEST_F(scan, prefix_of_all_ones_has_an_end)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX };
	unsigned char ones[64];
	struct kvt_list list = {};
	int i;

	/* Incrementing such a prefix gives no key above its range. */
	memset(ones, 0xff, sizeof(ones));
	for (i = 1; i <= 64; i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(ones, i), STR(""), NULL));
	for (i = 1; i <= 64; i++) {
		scan.prefix_len = i;
		scan.flags = KVTREE_SCAN_PREFIX;
		ASSERT_EQ(0, kvt_scan_all(self->fd, kvt_bytes(ones, i), &scan, 1 << 16, &list));
		ASSERT_LE(65 - i, list.nr);
		ASSERT_EQ(64, list.rec[list.nr - 1].key.len);
		kvt_list_free(&list);
		scan.flags = KVTREE_SCAN_PREFIX | KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
		ASSERT_EQ(0, kvt_scan_all(self->fd, kvt_bytes(ones, i), &scan, 1 << 16, &list));
		ASSERT_LE(65 - i, list.nr);
		ASSERT_EQ(64, list.rec[0].key.len);
		kvt_list_free(&list);
	}
}

TEST_F(scan, tiny_buffers_give_what_one_big_one_gives)
{
	static const __u32 rooms[] = { 0, 56, 64, 250, 1000, 4096, 20000 };
	static const __u16 ids[] = { 0, 1, 9 };
	const struct entry *want[KEYS_MAX];
	struct kvt_list list = {};
	size_t i;
	int n, kind;

	for (kind = 0; kind < 8; kind++) {
		struct kvtree_scan scan = { .flags = 0 };

		if (kind & 1)
			scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
		switch (kind >> 1) {
		case 1:
			scan.flags |= KVTREE_SCAN_KEYS_ONLY;
			break;
		case 2:
			scan.flags |= KVTREE_SCAN_ALL_COLS;
			break;
		case 3:
			scan.cols = kvt_ptr(ids);
			scan.ncols = NR(ids);
			break;
		}
		n = expect_range(self->entry, self->nr, STR(""), &scan, want);
		for (i = 0; i < NR(rooms); i++) {
			ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, rooms[i], &list));
			ASSERT_TRUE(same_list(&list, want, n, &scan)) {
				TH_LOG("kind %d, buffers of %u bytes", kind, rooms[i]);
			}
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, columns_of_a_record_are_those_asked_for)
{
	static const __u16 ids[] = { 0, 1, 2, 3, 9, 255 };
	const struct entry *want[KEYS_MAX];
	struct kvt_list list = {};
	int n, from, nr;

	for (from = 0; from < (int)NR(ids); from++) {
		for (nr = 1; nr <= (int)NR(ids) - from; nr++) {
			struct kvtree_scan scan = { .cols = kvt_ptr(ids + from), .ncols = nr };

			ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 17, &list));
			n = expect_range(self->entry, self->nr, STR(""), &scan, want);
			ASSERT_TRUE(same_list(&list, want, n, &scan));
			kvt_list_free(&list);
		}
	}
}

TEST_F(scan, records_of_large_values_come_back_whole)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 4 };
	unsigned char *val = malloc(KVTREE_VALUE_MAX);
	struct kvt_list list = {};
	char key[] = "bigX";
	__u32 i, at;

	ASSERT_NE(NULL, val);
	for (i = 0; i < 4; i++) {
		memset(val, 'a' + i, KVTREE_VALUE_MAX);
		key[3] = 'a' + i;
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(key, 4),
				     kvt_bytes(val, KVTREE_VALUE_MAX >> i), NULL));
	}
	scan.prefix_len = 3;
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR("big"), &scan, 65536, &list));
	ASSERT_EQ(4, list.nr);
	for (i = 0; i < 4; i++) {
		const unsigned char *got = list.rec[i].val.data;

		ASSERT_EQ(KVTREE_VALUE_MAX >> i, list.rec[i].val.len);
		for (at = 0; at < list.rec[i].val.len; at += 4093)
			ASSERT_EQ('a' + i, got[at]);
	}
	kvt_list_free(&list);
	scan.flags |= KVTREE_SCAN_ALL_COLS;
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR("big"), &scan, 4 << 20, &list));
	EXPECT_EQ(4, list.nr);
	EXPECT_EQ(1, list.calls);
	kvt_list_free(&list);
	free(val);
}

TEST_F(scan, keys_of_4096_bytes_that_share_4095)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 64 };
	unsigned char key[KVTREE_KEY_MAX];
	struct kvt_list list = {};
	__u32 i, reverse;

	memset(key, 'L', sizeof(key));
	for (i = 0; i < 20; i++) {
		key[KVTREE_KEY_MAX - 1] = i * 11;
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(key, KVTREE_KEY_MAX),
				     kvt_bytes(&i, 4), NULL));
	}
	for (reverse = 0; reverse < 2; reverse++) {
		if (reverse)
			scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
		ASSERT_EQ(0, kvt_scan_all(self->fd, kvt_bytes(key, 64), &scan, 10000, &list));
		ASSERT_EQ(20, list.nr);
		for (i = 0; i < 20; i++) {
			const unsigned char *got = list.rec[i].key.data;

			ASSERT_EQ(KVTREE_KEY_MAX, list.rec[i].key.len);
			ASSERT_EQ((reverse ? 19 - i : i) * 11, got[KVTREE_KEY_MAX - 1]);
		}
		kvt_list_free(&list);
	}
	for (i = 0; i < 20; i++) {
		key[KVTREE_KEY_MAX - 1] = i * 11;
		ASSERT_EQ(0, kvt_remove(self->fd, kvt_bytes(key, KVTREE_KEY_MAX)));
	}
}

TEST_F(scan, random_scans_agree_with_a_sorted_array)
{
	const struct entry *want[KEYS_MAX];
	struct kvt_list list = {};
	struct kvt_rand rand;
	int round, n;

	kvt_rand_init(&rand, 7);
	for (round = 0; round < 1000; round++) {
		struct entry start, end;
		struct kvtree_scan scan = {};
		struct kvt_bytes from;
		__u32 room = kvt_rand_below(&rand, 4) ? 8192 : 128;
		static const __u16 ids[] = { 2, 9 };

		/* Bounds that are keys, and bounds that are not. */
		make_key(&rand, &start);
		make_key(&rand, &end);
		if (kvt_rand_below(&rand, 2))
			start = self->entry[kvt_rand_below(&rand, self->nr)];
		if (kvt_rand_below(&rand, 2))
			end = self->entry[kvt_rand_below(&rand, self->nr)];
		from = entry_key(&start);
		if (kvt_rand_below(&rand, 2))
			scan.flags |= KVTREE_SCAN_REVERSE;
		if (kvt_rand_below(&rand, 2))
			scan.flags |= KVTREE_SCAN_AFTER;
		if (kvt_rand_below(&rand, 3) == 0) {
			scan.flags |= KVTREE_SCAN_PREFIX;
			scan.prefix_len = kvt_rand_below(&rand, from.len + 1);
		}
		if (kvt_rand_below(&rand, 3) == 0) {
			scan.flags |= KVTREE_SCAN_END;
			scan.end = end.key_len ? kvt_ptr(end.key) : 0;
			scan.end_len = end.key_len;
			if (kvt_rand_below(&rand, 2))
				scan.flags |= KVTREE_SCAN_END_INCL;
		}
		if ((scan.flags & KVTREE_SCAN_REVERSE) && kvt_rand_below(&rand, 4) == 0) {
			scan.flags |= KVTREE_SCAN_LAST;
			scan.flags &= ~KVTREE_SCAN_AFTER;
			from.len = scan.prefix_len;
		}
		switch (kvt_rand_below(&rand, 4)) {
		case 0:
			scan.flags |= KVTREE_SCAN_KEYS_ONLY;
			break;
		case 1:
			scan.flags |= KVTREE_SCAN_ALL_COLS;
			break;
		case 2:
			scan.cols = kvt_ptr(ids);
			scan.ncols = NR(ids);
			break;
		}
		if (kvt_rand_below(&rand, 2))
			scan.limit = 1 + kvt_rand_below(&rand, 50);
		ASSERT_EQ(0, kvt_scan_all(self->fd, from, &scan, room, &list));
		n = expect_range(self->entry, self->nr, from, &scan, want);
		ASSERT_TRUE(same_list(&list, want, n, &scan)) {
			TH_LOG("round %d: flags %x, prefix %u, limit %u", round, scan.flags,
			       scan.prefix_len, scan.limit);
		}
		kvt_list_free(&list);
		/* The index changes shape between scans. */
		if (round % 3 == 0) {
			int i = kvt_rand_below(&rand, self->nr);

			ASSERT_EQ(0, kvt_remove(self->fd, entry_key(&self->entry[i])));
			ASSERT_EQ(0, put_entry(self->fd, &self->entry[i]));
		}
	}
}

TEST_F(scan, scan_in_a_batch_sees_the_earlier_operations)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX, .prefix_len = 3 };
	struct kvtree_op ops[4] = {
		kvt_op(KVTREE_OP_PUT, STR("new-a")),
		kvt_op(KVTREE_OP_PUT, STR("new-b")),
		kvt_op(KVTREE_OP_REMOVE, STR("new-a")),
		kvt_op(KVTREE_OP_SCAN, STR("new")),
	};
	unsigned char buf[256] __attribute__((aligned(8)));
	const struct kvtree_rec *rec = (const void *)buf;
	__u32 done;

	ops[3].arg = kvt_ptr(&scan);
	ops[3].val = kvt_ptr(buf);
	ops[3].val_len = sizeof(buf);
	ASSERT_EQ(0, kvt_batch(self->fd, ops, 4, &done));
	ASSERT_EQ(4, done);
	ASSERT_EQ((int)rec->rec_len, ops[3].result);
	EXPECT_EQ(1, scan.count);
	EXPECT_EQ(KVTREE_SCAN_DONE, scan.out_flags);
	EXPECT_EQ(5, rec->key_len);
	EXPECT_EQ(ops[1].version, rec->version);
	EXPECT_EQ(0, memcmp(buf + rec->hdr_len, "new-b", 5));
}

TEST_HARNESS_MAIN
