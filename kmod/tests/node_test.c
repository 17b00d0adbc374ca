// SPDX-License-Identifier: GPL-2.0
/* Masstree's nodes: layout, permutation, slices, version word, search. */
#include <linux/slab.h>

#include "lib.h"
#include "masstree/tree.h"

/* Permutation, against an array of slot numbers: first those in use. */

struct perm_model {
	unsigned int size;
	u8 slot[MT_LEAF_WIDTH];
};

static void model_init(struct perm_model *model)
{
	unsigned int i;

	model->size = 0;
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		model->slot[i] = i;
}

static void model_move(struct perm_model *model, unsigned int from, unsigned int to)
{
	u8 slot = model->slot[from];
	unsigned int i;

	for (i = from; i > to; i--)
		model->slot[i] = model->slot[i - 1];
	for (i = from; i < to; i++)
		model->slot[i] = model->slot[i + 1];
	model->slot[to] = slot;
}

static void model_insert(struct perm_model *model, unsigned int at)
{
	model_move(model, model->size++, at);
}

static void model_remove(struct perm_model *model, unsigned int at)
{
	model_move(model, at, MT_LEAF_WIDTH - 1);
	model->size--;
	/* An empty leaf keeps nothing. */
	if (!model->size)
		model_init(model);
}

static bool model_same(const struct perm_model *model, u64 perm)
{
	unsigned int i;

	if (mt_perm_size(perm) != model->size)
		return false;
	for (i = 0; i < MT_LEAF_WIDTH; i++)
		if (mt_perm_slot(perm, i) != model->slot[i])
			return false;
	return true;
}

/* Random changes that end with @size slots in use. */
static u64 random_perm(struct kt_rnd *rnd, struct perm_model *model, unsigned int size)
{
	unsigned int i, at;
	u64 perm = MT_PERM_EMPTY;

	model_init(model);
	for (i = 0; i < 100 || model->size != size; i++) {
		bool grow = i < 100 ? kt_rnd_below(rnd, 2) : model->size < size;

		if (grow && model->size < MT_LEAF_WIDTH) {
			at = kt_rnd_below(rnd, model->size + 1);
			perm = mt_perm_insert(perm, at);
			model_insert(model, at);
		} else if (!grow && model->size) {
			at = kt_rnd_below(rnd, model->size);
			perm = mt_perm_remove(perm, at);
			model_remove(model, at);
		}
	}
	return perm;
}

static void permutation_insert_agrees_with_an_array_at_every_place(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int size, at, round;
	struct perm_model model, next;
	u64 perm;

	for (size = 0; size < MT_LEAF_WIDTH; size++) {
		for (round = 0; round < 50; round++) {
			perm = random_perm(&rnd, &model, size);
			KUNIT_ASSERT_TRUE(test, model_same(&model, perm));
			for (at = 0; at <= size; at++) {
				next = model;
				model_insert(&next, at);
				KUNIT_ASSERT_TRUE(test, model_same(&next,
								   mt_perm_insert(perm, at)));
			}
		}
	}
}

static void permutation_remove_agrees_with_an_array_at_every_place(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int size, at, round;
	struct perm_model model, next;
	u64 perm;

	for (size = 1; size <= MT_LEAF_WIDTH; size++) {
		for (round = 0; round < 50; round++) {
			perm = random_perm(&rnd, &model, size);
			KUNIT_ASSERT_TRUE(test, model_same(&model, perm));
			for (at = 0; at < size; at++) {
				next = model;
				model_remove(&next, at);
				KUNIT_ASSERT_TRUE(test, model_same(&next,
								   mt_perm_remove(perm, at)));
			}
		}
	}
}

/*
 * Reusing the slot of a removed key costs a version bump, so it is used last
 * among the free slots.
 */
static void a_removed_slot_is_reused_after_all_other_free_ones(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	unsigned int size, slot, i;
	struct perm_model model;
	u64 perm;

	for (size = 2; size <= MT_LEAF_WIDTH; size++) {
		perm = random_perm(&rnd, &model, size);
		slot = mt_perm_slot(perm, 0);
		perm = mt_perm_remove(perm, 0);
		for (i = mt_perm_size(perm); i < MT_LEAF_WIDTH - 1; i++) {
			perm = mt_perm_insert(perm, 0);
			KUNIT_EXPECT_NE(test, slot, mt_perm_slot(perm, 0));
		}
		perm = mt_perm_insert(perm, 0);
		KUNIT_EXPECT_EQ(test, slot, mt_perm_slot(perm, 0));
	}
}

/* Slices */

/* A key in an allocation of exactly its size, for KASAN to watch its end. */
static u8 *exact_key(struct kunit *test, struct kt_rnd *rnd, u32 len)
{
	u8 *key = kunit_kmalloc(test, len, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, key);
	for (i = 0; i < len; i++)
		key[i] = kt_rnd_below(rnd, 3) ? kt_rnd_u64(rnd) : 0;
	return key;
}

static u64 slice_bytewise(const u8 *key, u32 len, u32 off)
{
	u64 slice = 0;
	u32 i;

	for (i = off; i < off + MT_SLICE; i++)
		slice = slice << 8 | (i < len ? key[i] : 0);
	return slice;
}

static void slices_are_big_endian_and_read_nothing_behind_the_key(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	u32 len, off, round;
	u8 *key;

	for (len = 0; len <= 3 * MT_SLICE + 1; len++) {
		for (round = 0; round < 20; round++) {
			key = exact_key(test, &rnd, len);
			for (off = 0; off <= len; off += MT_SLICE) {
				KUNIT_EXPECT_EQ(test, slice_bytewise(key, len, off),
						mt_slice(key, len, off));
				KUNIT_EXPECT_EQ(test, min(len - off, MT_RANK_LONG),
						mt_rank(len, off));
			}
			kunit_kfree(test, key);
		}
	}
}

/* A random key of at most a slice, of few different bytes. */
static struct kvt_key short_key(struct kt_rnd *rnd, u8 *bytes)
{
	static const u8 alphabet[] = { 0, 1, 0x7f, 0x80, 0xff };
	u32 i, len = kt_rnd_below(rnd, MT_SLICE + 1);

	for (i = 0; i < len; i++)
		bytes[i] = alphabet[kt_rnd_below(rnd, ARRAY_SIZE(alphabet))];
	return KT_BYTES(bytes, len);
}

static int sign(int n)
{
	return (n > 0) - (n < 0);
}

static void slice_and_rank_order_keys_as_their_bytes_do(struct kunit *test)
{
	struct kt_rnd rnd = kt_rnd(test);
	u8 bytes_a[MT_SLICE], bytes_b[MT_SLICE];
	unsigned int round;

	for (round = 0; round < 100000; round++) {
		struct kvt_key a = short_key(&rnd, bytes_a);
		struct kvt_key b = short_key(&rnd, bytes_b);
		u64 slice_a = mt_slice(a.data, a.len, 0), slice_b = mt_slice(b.data, b.len, 0);
		int order = (slice_a > slice_b) - (slice_a < slice_b);

		if (!order)
			order = (int)mt_rank(a.len, 0) - (int)mt_rank(b.len, 0);
		KUNIT_ASSERT_EQ(test, sign(kt_key_cmp(&a, &b)), sign(order));
	}
}

/* Version word */

static u64 unlocked_after(struct mt_node *node, u64 version, u64 dirty)
{
	struct mt_lock_class *class = mt_class_of(node);

	node->version = version;
	mt_hold();
	mt_lock(node, class, 0);
	mt_mark(node, dirty);
	mt_unlock(node, class);
	mt_release();
	return node->version;
}

static void counters_wrap_without_touching_the_flags(struct kunit *test)
{
	const u64 flags = MT_VINSERT - 1;
	static const u64 dirts[] = { MT_INSERTING, MT_SPLITTING, MT_DIRTY };
	static const u64 keeps[] = { MT_LEAF, MT_LEAF | MT_DELETED };
	static const u64 counts[] = {
		0, MT_VSPLIT - MT_VINSERT, ~(MT_VSPLIT - 1), ~(MT_VINSERT - 1),
	};
	struct mt_leaf *leaf = kunit_kzalloc(test, sizeof(*leaf), GFP_KERNEL);
	unsigned int i, j, k;

	KUNIT_ASSERT_NOT_NULL(test, leaf);
	for (i = 0; i < ARRAY_SIZE(dirts); i++) {
		for (j = 0; j < ARRAY_SIZE(keeps); j++) {
			for (k = 0; k < ARRAY_SIZE(counts); k++) {
				u64 before = counts[k] | keeps[j];
				u64 after = unlocked_after(&leaf->node, before, dirts[i]);

				KUNIT_EXPECT_EQ(test, keeps[j], after & flags);
				KUNIT_EXPECT_NE(test, before, after);
				KUNIT_EXPECT_TRUE(test, mt_changed(&leaf->node, before));
			}
		}
	}
}

static void only_a_split_changes_the_split_counter(struct kunit *test)
{
	struct mt_leaf *leaf = kunit_kzalloc(test, sizeof(*leaf), GFP_KERNEL);
	const u64 v = MT_LEAF | 5 * MT_VINSERT | 7 * MT_VSPLIT;

	KUNIT_ASSERT_NOT_NULL(test, leaf);
	KUNIT_EXPECT_EQ(test, v, unlocked_after(&leaf->node, v, 0));
	KUNIT_EXPECT_EQ(test, v + MT_VINSERT, unlocked_after(&leaf->node, v, MT_INSERTING));
	KUNIT_EXPECT_EQ(test, v + MT_VSPLIT, unlocked_after(&leaf->node, v, MT_SPLITTING));
}

static void a_lock_alone_is_no_change_to_readers(struct kunit *test)
{
	struct mt_leaf *leaf = kunit_kzalloc(test, sizeof(*leaf), GFP_KERNEL);
	bool locked, dirty;

	KUNIT_ASSERT_NOT_NULL(test, leaf);
	leaf->node.version = MT_LEAF;
	mt_hold();
	mt_lock(&leaf->node, &mt_class_leaf, 0);
	locked = mt_changed(&leaf->node, MT_LEAF);
	mt_mark(&leaf->node, MT_INSERTING);
	dirty = mt_changed(&leaf->node, MT_LEAF);
	mt_unlock(&leaf->node, &mt_class_leaf);
	mt_release();
	KUNIT_EXPECT_FALSE(test, locked);
	KUNIT_EXPECT_TRUE(test, dirty);
}

/* Search */

/* Keys of one slice, one for each rank, between two others. */
static void fill_leaf(struct mt_leaf *leaf, u64 slice)
{
	unsigned int i, n = 0;

	leaf->perm = MT_PERM_EMPTY;
	mt_leaf_fill(leaf, n++, slice + 1, 3, 0, 0);
	/* In reverse, each inserted at the front, so that slots and order differ. */
	for (i = 0; i <= MT_RANK_LONG; i++)
		mt_leaf_fill(leaf, n++, slice, MT_RANK_LONG - i, 0, 0);
	mt_leaf_fill(leaf, n++, slice - 1, MT_RANK_LONG, 0, 0);
	for (i = 0; i < n; i++)
		leaf->perm = mt_perm_insert(leaf->perm, 0);
}

static void search_distinguishes_all_ten_lengths_of_a_slice(struct kunit *test)
{
	struct mt_leaf *leaf = kunit_kzalloc(test, sizeof(*leaf), GFP_KERNEL);
	const u64 slice = 0x6161616100000000ull;
	unsigned int at;
	u32 rank;

	KUNIT_ASSERT_NOT_NULL(test, leaf);
	fill_leaf(leaf, slice);
	for (rank = 0; rank <= MT_RANK_LONG; rank++) {
		KUNIT_EXPECT_EQ(test, 10 - rank, mt_leaf_place(leaf, leaf->perm, slice, rank,
							       &at));
		KUNIT_EXPECT_EQ(test, 1 + rank, at);
	}
	KUNIT_EXPECT_EQ(test, -1, mt_leaf_place(leaf, leaf->perm, slice - 1, 8, &at));
	KUNIT_EXPECT_EQ(test, 0, at);
	KUNIT_EXPECT_EQ(test, -1, mt_leaf_place(leaf, leaf->perm, slice + 1, 2, &at));
	KUNIT_EXPECT_EQ(test, 11, at);
	KUNIT_EXPECT_EQ(test, -1, mt_leaf_place(leaf, leaf->perm, ~0ull, 0, &at));
	KUNIT_EXPECT_EQ(test, 12, at);
}

/* A lookup by slot agrees with the permutation. */
static void expect_found(struct kunit *test, const struct mt_leaf *leaf, u64 slice)
{
	unsigned int at;
	u32 rank;

	for (rank = 0; rank <= MT_RANK_LONG; rank++)
		KUNIT_EXPECT_EQ(test, mt_leaf_place(leaf, leaf->perm, slice, rank, &at),
				mt_leaf_find(leaf, leaf->perm, slice, rank));
}

static void find_passes_over_slots_that_keys_have_left(struct kunit *test)
{
	struct mt_leaf *leaf = kunit_kzalloc(test, sizeof(*leaf), GFP_KERNEL);
	const u64 slice = 0x6161616100000000ull;
	unsigned int removed, slot;

	KUNIT_ASSERT_NOT_NULL(test, leaf);
	fill_leaf(leaf, slice);
	expect_found(test, leaf, slice - 1);
	expect_found(test, leaf, slice);
	expect_found(test, leaf, slice + 1);
	expect_found(test, leaf, 0);
	for (removed = 0; removed < 5; removed++) {
		/* Remove every other key: its neighbours stay. */
		slot = mt_perm_slot(leaf->perm, 1 + removed);
		leaf->perm = mt_perm_remove(leaf->perm, 1 + removed);
		KUNIT_EXPECT_EQ(test, -1, mt_leaf_find(leaf, leaf->perm, slice,
						       mt_leaf_rank(leaf, slot)));
		expect_found(test, leaf, slice);
	}
	/* A key comes back, to a slot behind the one that it had left. */
	slot = mt_perm_slot(leaf->perm, mt_perm_size(leaf->perm));
	mt_leaf_fill(leaf, slot, slice, 0, 0, 0);
	leaf->perm = mt_perm_insert(leaf->perm, 1);
	KUNIT_EXPECT_EQ(test, (int)slot, mt_leaf_find(leaf, leaf->perm, slice, 0));
	expect_found(test, leaf, slice);
}

static void permutation_knows_its_slots(struct kunit *test)
{
	u64 perm = MT_PERM_EMPTY;
	unsigned int size, slot, i;

	for (size = 0; size <= MT_LEAF_WIDTH; size++) {
		KUNIT_EXPECT_EQ(test, size, mt_perm_size(perm));
		for (slot = 0; slot < MT_LEAF_WIDTH; slot++) {
			for (i = 0; i < size && mt_perm_slot(perm, i) != slot; i++)
				;
			KUNIT_EXPECT_EQ(test, i < size, mt_perm_has(perm, slot));
		}
		if (size < MT_LEAF_WIDTH)
			perm = mt_perm_insert(perm, size / 2);
	}
}

static void inner_search_takes_a_separator_to_the_right(struct kunit *test)
{
	struct mt_inner *inner = kunit_kzalloc(test, sizeof(*inner), GFP_KERNEL);
	unsigned int nkeys, i;

	KUNIT_ASSERT_NOT_NULL(test, inner);
	memset(inner->slice, 0xff, sizeof(inner->slice));
	for (nkeys = 0; nkeys <= MT_INNER_WIDTH; nkeys++) {
		if (nkeys)
			inner->slice[nkeys - 1] = 10 * nkeys;
		for (i = 0; i < nkeys; i++) {
			u64 slice = inner->slice[i];

			KUNIT_EXPECT_EQ(test, i, mt_inner_search(inner, nkeys, slice - 1));
			KUNIT_EXPECT_EQ(test, i + 1, mt_inner_search(inner, nkeys, slice));
		}
		KUNIT_EXPECT_EQ(test, 0, mt_inner_search(inner, nkeys, 0));
		KUNIT_EXPECT_EQ(test, nkeys, mt_inner_search(inner, nkeys, ~0ull));
	}
}

/* A few levels at the most. */
static void expect_padded(struct kunit *test, struct mt_node *node)
{
	struct mt_inner *inner;
	unsigned int i;

	if (mt_is_leaf(node))
		return;
	inner = mt_inner(node);
	for (i = inner->nkeys; i < MT_INNER_WIDTH; i++)
		KUNIT_EXPECT_EQ(test, ~0ull, inner->slice[i]);
	for (i = 0; i <= inner->nkeys; i++)
		expect_padded(test, inner->child[i]);
}

static void keys_that_an_inner_node_has_not_are_greater_than_all(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	const unsigned int nr = 4096;
	unsigned int i;
	u8 key[8];

	/* In an order in which nodes split in the middle, then away from both ends. */
	for (i = 0; i < nr; i++) {
		put_unaligned_be64(i * 1597 % nr, key);
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(key, 8), NULL));
	}
	expect_padded(test, mt_root(mt_tree(kt->index)));
	for (i = 0; i < nr / 2; i++) {
		put_unaligned_be64(i % 2 ? i / 2 : nr - 1 - i / 2, key);
		KUNIT_ASSERT_EQ(test, 0, kt_del(kt, &KT_BYTES(key, 8), NULL));
	}
	expect_padded(test, mt_root(mt_tree(kt->index)));
}

/* Layout */

static void all_that_locates_a_key_is_in_the_first_line(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, offsetof(struct mt_leaf, node.version));
	KUNIT_EXPECT_LE(test, offsetofend(struct mt_leaf, lowkey), 64);
	KUNIT_EXPECT_EQ(test, 64, offsetof(struct mt_leaf, slice));
	KUNIT_EXPECT_EQ(test, 0, offsetof(struct mt_inner, node.version));
	KUNIT_EXPECT_LE(test, offsetof(struct mt_inner, slice[4]), 64);
	KUNIT_EXPECT_EQ(test, 320, sizeof(struct mt_leaf));
	KUNIT_EXPECT_EQ(test, 320, offsetof(struct mt_leaf, data));
	KUNIT_EXPECT_EQ(test, 448, sizeof(struct mt_leaf) + MT_CELLS_BYTES);
	KUNIT_EXPECT_EQ(test, 256, sizeof(struct mt_inner));
	KUNIT_EXPECT_LE(test, sizeof(struct kvt_value), 16);
}

static void nodes_begin_on_a_cache_line(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	struct mt_node *node;
	unsigned int i;
	u8 key[8];

	for (i = 0; i < 500; i++) {
		put_unaligned_be64(i, key);
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(key, 8), NULL));
	}
	node = mt_root(mt_tree(kt->index));
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED((unsigned long)node, SMP_CACHE_BYTES));
	while (!mt_is_leaf(node)) {
		for (i = 0; i <= mt_inner(node)->nkeys; i++)
			KUNIT_EXPECT_TRUE(test, IS_ALIGNED((unsigned long)mt_inner(node)->child[i],
							   SMP_CACHE_BYTES));
		node = mt_inner(node)->child[0];
	}
}

static struct kunit_case node_cases[] = {
	KUNIT_CASE(permutation_insert_agrees_with_an_array_at_every_place),
	KUNIT_CASE(permutation_remove_agrees_with_an_array_at_every_place),
	KUNIT_CASE(a_removed_slot_is_reused_after_all_other_free_ones),
	KUNIT_CASE(slices_are_big_endian_and_read_nothing_behind_the_key),
	KUNIT_CASE(slice_and_rank_order_keys_as_their_bytes_do),
	KUNIT_CASE(counters_wrap_without_touching_the_flags),
	KUNIT_CASE(only_a_split_changes_the_split_counter),
	KUNIT_CASE(a_lock_alone_is_no_change_to_readers),
	KUNIT_CASE(search_distinguishes_all_ten_lengths_of_a_slice),
	KUNIT_CASE(find_passes_over_slots_that_keys_have_left),
	KUNIT_CASE(permutation_knows_its_slots),
	KUNIT_CASE(inner_search_takes_a_separator_to_the_right),
	KUNIT_CASE(keys_that_an_inner_node_has_not_are_greater_than_all),
	KUNIT_CASE(all_that_locates_a_key_is_in_the_first_line),
	KUNIT_CASE(nodes_begin_on_a_cache_line),
	{}
};

static struct kunit_suite node_suite = {
	.name = "kvtree_masstree_node",
	.test_cases = node_cases,
};

kunit_test_suite(node_suite);
