// SPDX-License-Identifier: GPL-2.0
/* Cells: small values in the leaves of a Masstree. */
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "lib.h"
#include "masstree/tree.h"

#define LEAF		((u32)MT_LEAF_WIDTH)
#define DATA		0x8877665544332211ull

static struct kt *open_masstree(struct kunit *test, enum kt_cells cells)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);

	kt->cells = cells;
	return kt;
}

/* The first bytes of a word, in the layout of a cell. */
static u64 head_of(u64 data, u32 len)
{
	u64 head = 0;

	memcpy(&head, &data, len);
	return head;
}

/* Put a cell.  Returns the result of begin(), or -EOPNOTSUPP if the place takes no cell. */
static int put_cell_gfp(struct kt *kt, const struct kvt_key *key, u64 version, u32 len,
			u64 data, gfp_t gfp)
{
	struct kvt_change change = {
		.index = kt->index, .key = *key, .gfp = gfp | __GFP_ACCOUNT,
		.may_insert = true, .wants_cell = true,
	};
	struct kvt_cell cell;
	int err;

	err = kt->ops->begin(&change);
	if (!err && change.takes_cell) {
		kt->ops->commit(&change, kvt_cell_init(&cell, key->len, len, version,
						       head_of(data, len)));
	} else if (!err) {
		kt->ops->abort(&change);
		err = -EOPNOTSUPP;
	}
	kt->ops->finish(&change);
	return err;
}

static int put_cell(struct kt *kt, const struct kvt_key *key, u64 version, u32 len, u64 data)
{
	return put_cell_gfp(kt, key, version, len, data, GFP_KERNEL);
}

static void expect_cell(struct kunit *test, const struct kvt_value *v, u32 key_len, u32 len,
			u64 version)
{
	const u8 *data;
	u32 have = 99;

	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(v));
	KUNIT_EXPECT_TRUE(test, kvt_value_is_cell(v));
	KUNIT_EXPECT_TRUE(test, kvt_value_plain(v));
	KUNIT_EXPECT_EQ(test, version, v->version);
	KUNIT_EXPECT_EQ(test, key_len, v->key_len);
	data = kvt_value_plain_data(v, &have);
	KUNIT_EXPECT_EQ(test, len, have);
	KUNIT_EXPECT_EQ(test, 0, memcmp(data, &(u64){ DATA + version }, len));
}

/* Expect that a scan finds exactly this record. */
static void expect_scan(struct kunit *test, struct kt *kt, u32 key_len, u32 len, u64 version,
			bool reverse)
{
	struct kt_cursor cur;
	struct kvt_pair pair;

	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	kt_cursor_set(&cur, &KT_BYTES(NULL, 0), reverse ? KVT_PAST : KVT_AT, reverse);
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, 1, kt->ops->iter_next(cur.iter, &pair, 1));
	expect_cell(test, pair.value, key_len, len, version);
	KUNIT_EXPECT_EQ(test, key_len, cur.iter->len);
	KUNIT_EXPECT_EQ(test, 0, kt->ops->iter_next(cur.iter, &pair, 1));
	rcu_read_unlock();
	kt_cursor_exit(&cur);
}

/* Read one key in every way. */
static void expect_one(struct kunit *test, struct kt *kt, const struct kvt_key *key, u32 len,
		       u64 version)
{
	static const u8 longer[KVT_KEY_HEAD + 2];
	struct kvt_lookup lookup = { .key = *key };
	struct kvt_cell cell;

	rcu_read_lock();
	expect_cell(test, kt->ops->get(kt->index, key, &cell), key->len, len, version);
	kt->ops->get_batch(kt->index, &lookup, &cell, 1);
	expect_cell(test, lookup.value, key->len, len, version);
	expect_cell(test, kt->ops->get_prefix(kt->index, key, &cell), key->len, len, version);
	expect_cell(test, kt->ops->get_prefix(kt->index, &KT_BYTES(longer, sizeof(longer)), &cell),
		    key->len, len, version);
	rcu_read_unlock();
	expect_scan(test, kt, key->len, len, version, false);
	expect_scan(test, kt, key->len, len, version, true);
}

static void cells_are_read_as_they_were_put(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	static const u8 zeros[KVT_KEY_HEAD];
	u64 version = 0;
	u32 key_len, len;

	for (key_len = 0; key_len <= KVT_KEY_HEAD; key_len++) {
		struct kvt_key key = KT_BYTES(zeros, key_len);

		for (len = 0; len <= KVT_CELL_MAX; len++) {
			/* From the smallest version to the largest. */
			version = len == KVT_CELL_MAX ? KVT_CELL_VERSION_END - 1 : version + 1;
			KUNIT_ASSERT_EQ(test, 0,
					put_cell(kt, &key, version, len, DATA + version));
			expect_one(test, kt, &key, len, version);
		}
		version = 0;
		KUNIT_EXPECT_EQ(test, 0, kt_del(kt, &key, NULL));
	}
}

static void values_of_keys_that_continue_after_a_leaf_have_blocks(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);

	KUNIT_EXPECT_EQ(test, 0, put_cell(kt, &KT_KEY("12345678"), 1, 8, DATA));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, put_cell(kt, &KT_KEY("123456789"), 1, 8, DATA));
	/* In a small layer as well, where they end. */
	KUNIT_EXPECT_EQ(test, 0, kt_put(kt, &KT_KEY("123456789"), NULL));
	KUNIT_EXPECT_EQ(test, 0, kt_put(kt, &KT_KEY("12345678a"), NULL));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LAYERS));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, put_cell(kt, &KT_KEY("12345678b"), 1, 8, DATA));
}

#define LAYER_KEYS	(3 * LEAF)

/* The nth key of those that have @prefix bytes in common: its last bytes, one to eight, differ. */
static struct kvt_key layer_key(u8 *bytes, u32 prefix, u32 i)
{
	memset(bytes, 'p', prefix);
	put_unaligned_be64((u64)(i + 1) << 56 | i, bytes + prefix);
	return KT_BYTES(bytes, prefix + 1 + i % 8);
}

static u32 layer_fill(struct kt *kt, u8 *bytes, u32 prefix)
{
	struct kvt_key key;
	u32 i, cells = 0;
	struct kvt_cell room;
	struct kvt_value *v;

	for (i = 0; i < LAYER_KEYS; i++) {
		key = layer_key(bytes, prefix, i);
		KUNIT_ASSERT_EQ(kt->test, 0, kt_put(kt, &key, NULL));
	}
	for (i = 0; i < LAYER_KEYS; i++) {
		key = layer_key(bytes, prefix, i);
		rcu_read_lock();
		v = kt->ops->get(kt->index, &key, &room);
		if (!IS_ERR_OR_NULL(v) && kvt_value_is_cell(v))
			cells++;
		rcu_read_unlock();
	}
	return cells;
}

static u8 *layer_bytes(struct kunit *test)
{
	u8 *bytes = kunit_kzalloc(test, KVTREE_KEY_MAX + 8, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	return bytes;
}

/* Looked up alone and in a batch, as a prefix of a longer key, and in scans, which verify all. */
static void long_keys_have_cells_where_they_end(struct kunit *test)
{
	static const u32 prefixes[] = { 8, 16, 40, KVTREE_KEY_MAX - 8 };
	u8 *bytes = layer_bytes(test);
	struct kvt_lookup lookup;
	struct kvt_cell cell;
	struct kvt_key key;
	struct kt *kt;
	u32 p, i;

	for (p = 0; p < ARRAY_SIZE(prefixes); p++) {
		kt = open_masstree(test, KT_CELLS_ALL);
		KUNIT_EXPECT_GT(test, layer_fill(kt, bytes, prefixes[p]), LEAF);
		for (i = 0; i < LAYER_KEYS; i++) {
			key = layer_key(bytes, prefixes[p], i);
			KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &key, NULL));
			lookup = (struct kvt_lookup) { .key = key };
			rcu_read_lock();
			kt->ops->get_batch(kt->index, &lookup, &cell, 1);
			KUNIT_EXPECT_EQ(test, 0, kt_check(lookup.value, &key, NULL));
			KUNIT_EXPECT_EQ(test, key.len, kt_get_prefix_rcu(kt, &key, NULL));
			if (key.len % 8) {
				key.len++;
				bytes[key.len - 1] = 0xff;
				KUNIT_EXPECT_EQ(test, key.len - 1,
						kt_get_prefix_rcu(kt, &key, NULL));
			}
			rcu_read_unlock();
		}
		KUNIT_EXPECT_EQ(test, LAYER_KEYS, kt_count(kt, false));
		KUNIT_EXPECT_EQ(test, LAYER_KEYS, kt_count(kt, true));
	}
}

/* Leave only the last key, whose value is a cell, in a layer.  Returns its version. */
static u64 leave_one_cell(struct kt *kt, u8 *bytes, u32 prefix)
{
	struct kvt_key key;
	u64 version = 0;
	u32 i;

	KUNIT_EXPECT_GT(kt->test, layer_fill(kt, bytes, prefix), 0);
	KUNIT_EXPECT_EQ(kt->test, prefix / 8, kt_stat(kt, KVTREE_STAT_LAYERS));
	for (i = 0; i + 1 < LAYER_KEYS; i++) {
		key = layer_key(bytes, prefix, i);
		KUNIT_ASSERT_EQ(kt->test, 0, kt_del(kt, &key, NULL));
	}
	key = layer_key(bytes, prefix, i);
	KUNIT_EXPECT_EQ(kt->test, 0, kt_get(kt, &key, &version));
	return version;
}

/* Its value gets a block in the layer above. */
static void a_layer_of_one_cell_collapses(struct kunit *test)
{
	static const u32 prefixes[] = { 8, 40, KVTREE_KEY_MAX - 8 };
	u8 *bytes = layer_bytes(test);
	u64 before, after;
	struct kvt_key key;
	struct kt *kt;
	u32 p;

	for (p = 0; p < ARRAY_SIZE(prefixes); p++) {
		kt = open_masstree(test, KT_CELLS_ALL);
		before = leave_one_cell(kt, bytes, prefixes[p]);
		kt->ops->sweep(kt->index);
		KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_LAYERS));
		KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
		KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_VALUE_BYTES), 0);
		key = layer_key(bytes, prefixes[p], LAYER_KEYS - 1);
		KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &key, &after));
		KUNIT_EXPECT_EQ(test, before, after);
		KUNIT_EXPECT_EQ(test, 1, kt_count(kt, false));
		KUNIT_EXPECT_EQ(test, 0, kt_put(kt, &key, NULL));
		KUNIT_EXPECT_EQ(test, 0, kt_del(kt, &key, NULL));
	}
}

static void run_worker(struct kt *kt)
{
	struct mt_tree *tree = mt_tree(kt->index);

	/* It need not wait until it may sweep. */
	tree->sweep_due = jiffies;
	enable_delayed_work(&tree->check_work);
	queue_delayed_work(kt->wq, &tree->check_work, 0);
	flush_delayed_work(&tree->check_work);
	disable_delayed_work_sync(&tree->check_work);
}

/* There is no room for the block.  Later there is, and the worker remembers the layer. */
static void a_layer_of_one_cell_stays_at_the_limit(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	u8 *bytes = layer_bytes(test);
	struct kvt_key key;
	u64 before, after;

	disable_delayed_work_sync(&mt_tree(kt->index)->check_work);
	before = leave_one_cell(kt, bytes, 8);
	kvt_quota_limit(&kt->quota, 1, U64_MAX);
	run_worker(kt);
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LAYERS));
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_VALUE_BYTES));
	key = layer_key(bytes, 8, LAYER_KEYS - 1);
	KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &key, &after));
	KUNIT_EXPECT_EQ(test, before, after);
	kvt_quota_limit(&kt->quota, U64_MAX, U64_MAX);
	run_worker(kt);
	KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_LAYERS));
	KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &key, &after));
	KUNIT_EXPECT_EQ(test, before, after);
}

/* A full leaf, and no room below the limit. */
static void cells_are_replaced_where_there_is_no_memory(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	u64 version;
	u8 i;

	for (i = 0; i < LEAF; i++)
		KUNIT_ASSERT_EQ(test, 0, put_cell(kt, &KT_BYTES(&i, 1), 1, 8, DATA));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	kt_leave(kt, 0);
	for (version = 2; version < 5; version++)
		for (i = 0; i < LEAF; i++)
			KUNIT_EXPECT_EQ(test, 0,
					put_cell(kt, &KT_BYTES(&i, 1), version, version, DATA));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, 0, atomic64_read(&kt->reclaim.waiting));
	KUNIT_EXPECT_EQ(test, -EDQUOT, put_cell(kt, &KT_BYTES(&i, 1), 1, 8, DATA));
}

/* Twelve bytes, beginning with a number of four. */
static void number_to(u8 *bytes, u32 i)
{
	memset(bytes, 0, 12);
	put_unaligned_be64((u64)i << 32, bytes);
}

static u64 leaves_with_cells(struct kt *kt)
{
	u64 plain = kt_stat(kt, KVTREE_STAT_LEAF_NODES) * sizeof(struct mt_leaf);

	return (kt_stat(kt, KVTREE_STAT_LEAF_BYTES) - plain) / MT_CELLS_BYTES;
}

/* Leaves of long keys are smaller, without room for cells; splits for cells make room. */
static void leaves_have_room_for_cells_where_there_are_some(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	struct kvt_key key;
	u64 leaves, took = 0;
	u8 bytes[12];
	u32 i;

	for (i = 0; i < 20 * LEAF; i++) {
		number_to(bytes, i);
		key = KT_BYTES(bytes, sizeof(bytes));
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &key, NULL));
	}
	KUNIT_EXPECT_EQ(test, 1, leaves_with_cells(kt));
	leaves = kt_stat(kt, KVTREE_STAT_LEAF_NODES);
	for (i = 0; i < 20 * LEAF; i++) {
		number_to(bytes, i);
		key = KT_BYTES(bytes, 4);
		if (!put_cell(kt, &key, 1, 4, i))
			took++;
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &key, NULL));
	}
	KUNIT_EXPECT_GT(test, kt_stat(kt, KVTREE_STAT_LEAF_NODES), leaves);
	/* All new leaves, and the first. */
	KUNIT_EXPECT_EQ(test, kt_stat(kt, KVTREE_STAT_LEAF_NODES) - leaves + 1,
			leaves_with_cells(kt));
	KUNIT_EXPECT_GT(test, took, 0);
	for (i = 0; i < 20 * LEAF; i++) {
		number_to(bytes, i);
		KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &KT_BYTES(bytes, 4), NULL));
		KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &KT_BYTES(bytes, sizeof(bytes)), NULL));
	}
}

/* The right half of a split has cells, even if the split is for a key with a block. */
static void a_split_for_a_block_takes_cells_along(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	u8 bytes[12];
	u32 i;

	for (i = 0; i < LEAF; i++) {
		number_to(bytes, i);
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(bytes, 4), NULL));
	}
	number_to(bytes, 3);
	KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(bytes, sizeof(bytes)), NULL));
	KUNIT_EXPECT_EQ(test, 2, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(test, 2, leaves_with_cells(kt));
	for (i = 0; i < LEAF; i++) {
		number_to(bytes, i);
		KUNIT_EXPECT_EQ(test, 0, kt_get(kt, &KT_BYTES(bytes, 4), NULL));
	}
}

/* Readers that changes overtake */

static struct {
	struct kt *kt;
	struct kvt_key key;
	unsigned int skip;	/* how often to pass the point before */
	unsigned int passed;	/* how often it happened */
	struct kt_cursor cur;
} hooked;

static void clear_hooks(void *unused)
{
	WRITE_ONCE(kvt_park_hook, NULL);
	WRITE_ONCE(kvt_park_loose_hook, NULL);
}

/* Give the key another value in the middle of a read of it. */
static void replace(enum kvt_park at)
{
	if (at != KVT_PARK_READ_DATA || hooked.passed || hooked.skip--)
		return;
	hooked.passed++;
	if (kt_put_gfp(hooked.kt, &hooked.key, GFP_NOWAIT, NULL))
		hooked.passed = 1000;
}

static const char letters[] = "abcdefgh";

/* Keys "a" to "h", all of which have cells. */
static struct kt *open_keys(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	char c;

	for (c = 'a'; c <= 'h'; c++)
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(&c, 1), NULL));
	return kt;
}

/* Replace one of the letters when the data of the nth cell is about to be read. */
static void hook_replacements(struct kunit *test, struct kt *kt, unsigned int letter,
			      unsigned int nth)
{
	hooked.kt = kt;
	hooked.key = KT_BYTES(&letters[letter], 1);
	hooked.skip = nth;
	hooked.passed = 0;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_hooks, NULL));
	WRITE_ONCE(kvt_park_loose_hook, replace);
}

static void unhook(struct kunit *test)
{
	kunit_release_action(test, clear_hooks, NULL);
}

static int read_one(struct kt *kt, const struct kvt_key *key, bool batch)
{
	struct kvt_lookup lookup = { .key = *key };
	struct kvt_cell cell;

	if (!batch)
		return kt_get_rcu(kt, key, NULL);
	kt->ops->get_batch(kt->index, &lookup, &cell, 1);
	return kt_check(lookup.value, key, NULL);
}

/* The reader has the old version, and would read the new data. */
static void a_lookup_does_not_take_a_cell_that_changes(struct kunit *test)
{
	struct kt *kt = open_keys(test);
	unsigned int batch;

	for (batch = 0; batch < 2; batch++) {
		hook_replacements(test, kt, 3, 0);
		rcu_read_lock();
		KUNIT_EXPECT_EQ(test, 0, read_one(kt, &hooked.key, batch));
		rcu_read_unlock();
		unhook(test);
		KUNIT_EXPECT_EQ(test, 1, hooked.passed);
	}
}

static void a_prefix_lookup_does_not_take_a_cell_that_changes(struct kunit *test)
{
	struct kt *kt = open_keys(test);

	hook_replacements(test, kt, 3, 0);
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, 1, kt_get_prefix_rcu(kt, &KT_KEY("d and more"), NULL));
	rcu_read_unlock();
	unhook(test);
	KUNIT_EXPECT_EQ(test, 1, hooked.passed);
}

static void scan_while_one_changes(struct kunit *test, struct kt *kt, bool reverse)
{
	unsigned int found = 0;
	struct kt_cursor cur;
	int ret;

	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	kt_cursor_set(&cur, &KT_BYTES(NULL, 0), reverse ? KVT_PAST : KVT_AT, reverse);
	while ((ret = kt_cursor_next(&cur)) == 0)
		found++;
	KUNIT_EXPECT_EQ(test, -ENOENT, ret);
	KUNIT_EXPECT_EQ(test, 8, found);
	kt_cursor_exit(&cur);
}

/* For each cell of a leaf, when the cells are read one by one, and when they are read together. */
static void a_scan_does_not_take_a_cell_that_changes(struct kunit *test)
{
	struct kt *kt = open_keys(test);
	unsigned int at, reverse;

	for (at = 0; at < 8; at++) {
		for (reverse = 0; reverse < 2; reverse++) {
			hook_replacements(test, kt, at, reverse ? 7 - at : at);
			scan_while_one_changes(test, kt, reverse);
			unhook(test);
			KUNIT_EXPECT_EQ(test, 1, hooked.passed);
		}
	}
}

/* Another key takes the slot that is checked again, with the same version. */
static void move_and_fill(enum kvt_park at)
{
	static const struct kvt_key new = { .data = "a1", .len = 2 };

	if (at == KVT_PARK_READ_DATA && hooked.passed == 0 && !hooked.skip--) {
		hooked.passed = 1;
		if (put_cell_gfp(hooked.kt, &hooked.key, 2, 8, ~DATA, GFP_NOWAIT))
			hooked.passed = 1000;
	} else if ((at == KVT_PARK_READ_CHECK || at == KVT_PARK_SCAN_CHECK) &&
		   hooked.passed == 1) {
		hooked.passed = 2;
		if (put_cell_gfp(hooked.kt, &new, 1, 8, 0, GFP_NOWAIT))
			hooked.passed = 1000;
	}
}

enum cell_way {
	WAY_GET,
	WAY_BATCH,
	WAY_PREFIX,
	WAY_ITER,
	WAY_RUN,		/* after seven others */
	WAY_NR
};

/* The value of "h". */
static const struct kvt_value *read_h(struct kt *kt, enum cell_way how, struct kvt_pair *pairs,
				      struct kvt_lookup *lookup)
{
	struct kt_cursor *cur = &hooked.cur;
	int i, nr;

	switch (how) {
	case WAY_GET:
		return kt->ops->get(kt->index, &hooked.key, &pairs->cell);
	case WAY_BATCH:
		lookup->key = hooked.key;
		kt->ops->get_batch(kt->index, lookup, &pairs->cell, 1);
		return lookup->value;
	case WAY_PREFIX:
		return kt->ops->get_prefix(kt->index, &hooked.key, &pairs->cell);
	default:
		/* Begin between keys: a present key would be read for comparison. */
		kt_cursor_set(cur, how == WAY_ITER ? &KT_KEY("g~") : &KT_KEY("Z"), KVT_AT, false);
		while ((nr = kt->ops->iter_next(cur->iter, pairs, LEAF)) > 0 || nr == -EAGAIN)
			for (i = 0; i < nr; i++)
				if (pairs[i].head >> 56 == 'h')
					return pairs[i].value;
		return ERR_PTR(nr);
	}
}

static void read_h_while_its_slot_is_filled(struct kunit *test, enum cell_way how)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	struct kvt_lookup lookup;
	const struct kvt_value *v;
	struct kvt_pair *pairs;
	u64 data, version;
	u8 c;

	pairs = kunit_kcalloc(test, LEAF, sizeof(*pairs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pairs);
	for (c = 'a'; c < 'a' + LEAF; c++)
		KUNIT_ASSERT_EQ(test, 0, put_cell(kt, &KT_BYTES(&c, 1), 1, 8, DATA));
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &hooked.cur));
	hooked.kt = kt;
	hooked.key = KT_KEY("h");
	hooked.skip = how == WAY_RUN ? 7 : 0;
	hooked.passed = 0;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_hooks, NULL));
	WRITE_ONCE(kvt_park_loose_hook, move_and_fill);
	rcu_read_lock();
	v = read_h(kt, how, pairs, &lookup);
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(v));
	data = kvt_cell_data(v);
	version = v->version;
	rcu_read_unlock();
	unhook(test);
	kt_cursor_exit(&hooked.cur);
	KUNIT_EXPECT_EQ(test, 2, hooked.passed);
	KUNIT_EXPECT_EQ_MSG(test, version == 1 ? DATA : ~DATA, data, "way %u", how);
}

/* One of sixteen keys in a leaf gets a new value and moves, and a new key takes its slot. */
static void a_slot_that_another_key_has_got_is_not_taken_for_the_same(struct kunit *test)
{
	enum cell_way how;

	for (how = 0; how < WAY_NR; how++)
		read_h_while_its_slot_is_filled(test, how);
}

static int count_record(struct kt_cursor *cur, void *arg)
{
	++*(unsigned int *)arg;
	return 0;
}

static void a_run_does_not_take_a_cell_that_changes(struct kunit *test)
{
	struct kt *kt = open_keys(test);
	unsigned int at, found;
	struct kt_cursor cur;

	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(kt, &cur));
	for (at = 0; at < 8; at++) {
		kt_cursor_set(&cur, &KT_BYTES(NULL, 0), KVT_AT, false);
		hook_replacements(test, kt, at, at);
		found = 0;
		KUNIT_EXPECT_EQ(test, 0, kt_scan(&cur, 100, count_record, &found));
		KUNIT_EXPECT_EQ(test, 8, found);
		unhook(test);
		KUNIT_EXPECT_EQ(test, 1, hooked.passed);
	}
	kt_cursor_exit(&cur);
}

/* Readers on top of a writer */

static struct kvt_iter *hooked_iter;

static struct {
	struct kt *kt;
	enum kvt_park at;
	unsigned int met;
	int busy[3];		/* get, get_prefix, iterator, for the key that is written */
	int other[2];		/* get, get_prefix, for another key in its leaf */
	unsigned int before;	/* keys that the iterator returned first */
} top;

static void read_on_top(enum kvt_park at)
{
	struct kt_cursor cur;

	if (at != top.at)
		return;
	top.met++;
	rcu_read_lock();
	top.busy[0] = kt_get_rcu(top.kt, &KT_KEY("d"), NULL);
	top.busy[1] = kt_get_prefix_rcu(top.kt, &KT_KEY("d..."), NULL);
	top.other[0] = kt_get_rcu(top.kt, &KT_KEY("e"), NULL);
	top.other[1] = kt_get_prefix_rcu(top.kt, &KT_KEY("c..."), NULL);
	rcu_read_unlock();
	cur.kt = top.kt;
	cur.iter = hooked_iter;
	cur.iter->index = top.kt->index;
	kt_cursor_set(&cur, &KT_BYTES(NULL, 0), KVT_AT, false);
	rcu_read_lock();
	while (!(top.busy[2] = kt_cursor_next_rcu(&cur)))
		top.before++;
	rcu_read_unlock();
}

/* The writer cannot end before them.  They give up at once, but read all else in the leaf. */
static void only_the_cell_that_is_written_is_busy(struct kunit *test)
{
	static const enum kvt_park points[] = { KVT_PARK_CELL_BUSY, KVT_PARK_CELL_WRITTEN };
	struct kt *kt = open_keys(test);
	unsigned int i;

	hooked_iter = kunit_kzalloc(test, kt->ops->iter_size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, hooked_iter);
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		memset(&top, 0, sizeof(top));
		top.kt = kt;
		top.at = points[i];
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_hooks, NULL));
		WRITE_ONCE(kvt_park_hook, read_on_top);
		KUNIT_EXPECT_EQ(test, 0, kt_put(kt, &KT_KEY("d"), NULL));
		unhook(test);
		KUNIT_EXPECT_EQ(test, 1, top.met);
		KUNIT_EXPECT_EQ(test, -EBUSY, top.busy[0]);
		KUNIT_EXPECT_EQ(test, -EBUSY, top.busy[1]);
		KUNIT_EXPECT_EQ(test, -EBUSY, top.busy[2]);
		KUNIT_EXPECT_EQ(test, 3, top.before);
		KUNIT_EXPECT_EQ(test, 0, top.other[0]);
		KUNIT_EXPECT_EQ(test, 1, top.other[1]);
	}
}

/* Put keys between two tries of a change: they share a slice with its key. */
static void fill_layer(enum kvt_park at)
{
	u8 bytes[12];
	u32 i;

	if (at != KVT_PARK_WRITE_FOUND || ++hooked.passed != 2)
		return;
	memset(bytes, 'k', sizeof(bytes));
	for (i = 0; i < LEAF; i++) {
		bytes[11] = 'A' + i;
		if (kt_put_gfp(hooked.kt, &KT_BYTES(bytes, sizeof(bytes)), GFP_NOWAIT, NULL))
			hooked.passed = 1000;
	}
}

/* The memory was for a leaf with cells, but now one without any splits, for a block. */
static void a_leaf_without_cells_splits_into_two(struct kunit *test)
{
	struct kt *kt = open_masstree(test, KT_CELLS_ALL);
	u64 leaves;
	u8 c;

	for (c = 'a'; c < 'a' + LEAF; c++)
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(&c, 1), NULL));
	kt->cells = KT_CELLS_NONE;
	hooked.kt = kt;
	hooked.passed = 0;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_hooks, NULL));
	WRITE_ONCE(kvt_park_loose_hook, fill_layer);
	KUNIT_EXPECT_EQ(test, 0, kt_put_gfp(kt, &KT_KEY("kkkkkkkkkkkz"), GFP_KERNEL, NULL));
	unhook(test);
	KUNIT_EXPECT_GE(test, hooked.passed, 2);
	KUNIT_EXPECT_LE(test, hooked.passed, 999);
	/* Two in the first layer, and two in the other. */
	leaves = kt_stat(kt, KVTREE_STAT_LEAF_NODES);
	KUNIT_EXPECT_GE(test, leaves, 4);
	KUNIT_EXPECT_EQ(test, 2, leaves_with_cells(kt));
	/* It verifies each key. */
	KUNIT_EXPECT_EQ(test, 2 * LEAF + 1, kt_count(kt, false));
}

static struct kunit_case cell_cases[] = {
	KUNIT_CASE(cells_are_read_as_they_were_put),
	KUNIT_CASE(values_of_keys_that_continue_after_a_leaf_have_blocks),
	KUNIT_CASE(long_keys_have_cells_where_they_end),
	KUNIT_CASE(a_layer_of_one_cell_collapses),
	KUNIT_CASE(a_layer_of_one_cell_stays_at_the_limit),
	KUNIT_CASE(cells_are_replaced_where_there_is_no_memory),
	KUNIT_CASE(leaves_have_room_for_cells_where_there_are_some),
	KUNIT_CASE(a_split_for_a_block_takes_cells_along),
	KUNIT_CASE(a_lookup_does_not_take_a_cell_that_changes),
	KUNIT_CASE(a_prefix_lookup_does_not_take_a_cell_that_changes),
	KUNIT_CASE(a_scan_does_not_take_a_cell_that_changes),
	KUNIT_CASE(a_run_does_not_take_a_cell_that_changes),
	KUNIT_CASE(a_slot_that_another_key_has_got_is_not_taken_for_the_same),
	KUNIT_CASE(only_the_cell_that_is_written_is_busy),
	KUNIT_CASE(a_leaf_without_cells_splits_into_two),
	{}
};

/* The module may be unloaded when no thread is in a hook any more. */
static void cell_end(struct kunit_suite *suite)
{
	synchronize_rcu();
}

static struct kunit_suite cell_suite = {
	.name = "kvtree_masstree_cells",
	.suite_exit = cell_end,
	.test_cases = cell_cases,
};

kunit_test_suite(cell_suite);
