// SPDX-License-Identifier: GPL-2.0
/* Value blocks: the memory they take, however they were made. */
#include <linux/slab.h>

#include "base/merge.h"
#include "lib.h"
#include "value.h"

static const struct kvt_mem mem = { .gfp = GFP_KERNEL };

#define MAX_COLS	12

/* Make and free a value; expect that its charge is what the allocator gave. */
static void expect_exact(struct kunit *test, const struct kvt_key *key, const u8 *data, u32 len)
{
	u64 before = kt_accounted();
	struct kvt_value *v = kt_value_of(key, data, len);

	KUNIT_ASSERT_NOT_NULL(test, v);
	if (kt_accounted())
		KUNIT_EXPECT_EQ_MSG(test, kvt_value_charge(v), kt_accounted() - before,
				    "key of %u, data of %u bytes", key->len, len);
	KUNIT_EXPECT_GE(test, kvt_value_charge(v), kvt_value_head_size(key->len) + len);
	kvt_value_free(v);
	KUNIT_EXPECT_EQ(test, before, kt_accounted());
}

static void values_take_what_they_are_charged(struct kunit *test)
{
	static const u32 key_lens[] = { 0, 8, 9, 60, 2000, KVTREE_KEY_MAX };
	u8 *data = kvcalloc(1, KVTREE_VALUE_MAX, GFP_KERNEL);
	u32 len, i;
	int d;

	KUNIT_ASSERT_NOT_NULL(test, data);
	for (i = 0; i < ARRAY_SIZE(key_lens); i++) {
		struct kvt_key key = KT_BYTES(data, key_lens[i]);

		for (len = 0; len < 300; len++)
			expect_exact(test, &key, data, len);
		/* Around powers of two, and around them less a blob's header. */
		for (len = 512; len <= KVTREE_VALUE_MAX; len *= 2)
			for (d = -32; d <= 8; d++)
				expect_exact(test, &key, data, min(len + d, KVTREE_VALUE_MAX));
	}
	kvfree(data);
}

#ifdef __KERNEL__
static void objects_have_the_size_that_is_charged(struct kunit *test)
{
	size_t size;
	void *p;

	for (size = 16; size <= PAGE_SIZE; size++) {
		p = kvt_mem_alloc(&mem, size);
		KUNIT_ASSERT_NOT_NULL(test, p);
		/* Rounded: KFENCE's objects have the size that was asked for. */
		KUNIT_EXPECT_EQ_MSG(test, kvt_mem_size(size), kvt_mem_size(ksize(p)),
				    "%zu bytes", size);
		kvt_mem_free(p, size);
	}
}
#endif

/* Merge edits into a value, which is freed, as a writer does. */
static struct kvt_value *merged(struct kunit *test, const struct kvt_key *key,
				struct kvt_value *old, struct kvt_column *edits, unsigned int nr)
{
	struct kvt_merge merge = { .old = old, .edits = edits, .nr = nr, .key_len = key->len };
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
	struct kvt_blob *spare;
	struct kvt_column col;
	struct kvt_value *v;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, 0, kvt_merge_plan(&merge));
	while (!kvt_merge_ready(&merge)) {
		KUNIT_ASSERT_EQ(test, 0, kvt_merge_give_blobs(&merge, edits, &mem));
		if (merge.old_lacks) {
			spare = kvt_blob_alloc(&mem, merge.old_lacks);
			KUNIT_ASSERT_NOT_NULL(test, spare);
			spare->retire.next = NULL;
			*merge.rest = &spare->retire;
		}
		KUNIT_ASSERT_EQ(test, 0, kvt_merge_plan(&merge));
	}
	KUNIT_EXPECT_TRUE(test, !*merge.rest);
	v = kvt_value_alloc(&mem, key, merge.size);
	KUNIT_ASSERT_NOT_NULL(test, v);
	kvt_merge_fill(&merge, v, kept);
	for (i = 0; old && i < kvt_value_ncols(old); i++) {
		kvt_value_column(old, i, &col);
		if (col.blob && !test_bit(col.id, kept))
			kvt_blob_put(col.blob);
	}
	kvt_value_free_shell(old);
	return v;
}

static void expect_same(struct kunit *test, const struct kvt_value *a, const struct kvt_value *b)
{
	struct kvt_column x, y;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, kvt_value_ncols(a), kvt_value_ncols(b));
	KUNIT_EXPECT_EQ(test, a->size, b->size);
	KUNIT_EXPECT_EQ(test, kvt_value_charge(a), kvt_value_charge(b));
	for (i = 0; i < kvt_value_ncols(a); i++) {
		kvt_value_column(a, i, &x);
		kvt_value_column(b, i, &y);
		KUNIT_ASSERT_EQ(test, x.id, y.id);
		KUNIT_ASSERT_EQ(test, x.len, y.len);
		KUNIT_EXPECT_EQ(test, !x.blob, !y.blob);
		KUNIT_EXPECT_EQ(test, 0, memcmp(x.data, y.data, x.len));
	}
}

/*
 * Write one value at once and another column by column, in any order, putting and removing
 * other columns in between.
 */
static void what_a_value_takes_does_not_depend_on_how_it_was_written(struct kunit *test)
{
	static const u32 most[] = { 12, 600, 1500, KVT_BLOB_MIN + 50 };
	static const struct kvt_key key = KT_KEY("a key of some length");
	struct kvt_column cols[MAX_COLS], edit, none;
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int round, i, n, at;
	struct kvt_value *a, *b;
	u64 before;
	u8 *data;

	data = kunit_kmalloc(test, 4 * KVT_BLOB_MIN, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, data);
	for (i = 0; i < 4 * KVT_BLOB_MIN; i++)
		data[i] = kt_rnd_below(&rnd, 256);
	before = kt_accounted();
	for (round = 0; round < 300; round++) {
		n = 1 + kt_rnd_below(&rnd, MAX_COLS);
		for (i = 0; i < n; i++)
			cols[i] = (struct kvt_column) {
				.id = 2 * i,
				.len = kt_rnd_below(&rnd, most[round % ARRAY_SIZE(most)]),
				.data = data + kt_rnd_below(&rnd, KVT_BLOB_MIN),
			};
		b = NULL;
		at = kt_rnd_below(&rnd, n);
		for (i = 0; i < n; i++) {
			/* Every column once, from somewhere on. */
			edit = cols[(at + i * (n % 5 ? 5 : 1)) % n];
			b = merged(test, &key, b, &edit, 1);
			edit = (struct kvt_column) { .id = 2 * i + 1, .data = data,
						     .len = kt_rnd_below(&rnd, KVT_BLOB_MIN) };
			b = merged(test, &key, b, &edit, 1);
			none = (struct kvt_column) { .id = 2 * i + 1,
						     .len = KVTREE_COL_ABSENT };
			b = merged(test, &key, b, &none, 1);
		}
		a = merged(test, &key, NULL, cols, n);
		expect_same(test, a, b);
		if (before)
			KUNIT_EXPECT_EQ(test, kvt_value_charge(a) + kvt_value_charge(b),
					kt_accounted() - before);
		kvt_value_free(a);
		kvt_value_free(b);
	}
	KUNIT_EXPECT_EQ(test, before, kt_accounted());
}

static struct kunit_case value_cases[] = {
	KUNIT_CASE(values_take_what_they_are_charged),
#ifdef __KERNEL__
	KUNIT_CASE(objects_have_the_size_that_is_charged),
#endif
	KUNIT_CASE(what_a_value_takes_does_not_depend_on_how_it_was_written),
	{}
};

static struct kunit_suite value_suite = {
	.name = "kvtree_value",
	.test_cases = value_cases,
};

kunit_test_suite(value_suite);
