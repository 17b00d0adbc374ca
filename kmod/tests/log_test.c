// SPDX-License-Identifier: GPL-2.0
/* The log: records, what a recovery restores, and the order in which it replays. */
#include <linux/completion.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "base/merge.h"
#include "lib.h"
#include "log_disk.h"
#include "thread.h"
#include "value.h"

/* Records: encoding and decoding values */

/* Column lengths around the limits of formats. */
static const u32 lengths[] = {
	0, 1, 7, 8, 9, 255, 256, KVT_BLOB_MIN - 1, KVT_BLOB_MIN, KVT_BLOB_MIN + 1, 4096, 70000,
	KVTREE_VALUE_MAX,
};

/* A chunk being written or read, and its values. */
struct rt {
	struct kunit *test;
	struct kvt_log_reader reader;
	struct kvt_log_set set;
	u8 *chunk;
	u32 used;
	u32 outside_len;
	struct kvt_blob *outside[KVTREE_COLS_MAX];
	u32 nr_outside;
	struct kvt_key key;
	const struct kvt_value *value;	/* of the one record; NULL: it is a removal */
	u64 version;
	u32 entries;
};

#define RT_CHUNK	((size_t)KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK)

static int rt_entry(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct rt *rt = container_of(reader, struct rt, reader);
	struct kvt_column col;
	u32 i;

	rt->entries++;
	KUNIT_EXPECT_EQ(rt->test, rt->value ? KVTREE_LOG_PUT : KVTREE_LOG_REMOVE, entry->type);
	KUNIT_EXPECT_EQ(rt->test, rt->version, entry->version);
	KUNIT_ASSERT_EQ(rt->test, rt->key.len, entry->key_len);
	KUNIT_EXPECT_MEMEQ(rt->test, rt->key.data, entry->key, entry->key_len);
	if (!rt->value)
		return 0;
	KUNIT_EXPECT_EQ(rt->test, kvt_value_plain(rt->value), entry->plain);
	KUNIT_ASSERT_EQ(rt->test, kvt_value_ncols(rt->value), entry->ncols);
	for (i = 0; i < entry->ncols; i++) {
		kvt_value_column(rt->value, i, &col);
		KUNIT_EXPECT_EQ(rt->test, col.id, entry->cols[i].id);
		KUNIT_ASSERT_EQ(rt->test, col.len, entry->cols[i].len);
		KUNIT_EXPECT_EQ(rt->test, 0, memcmp(col.data, entry->cols[i].data, col.len));
	}
	return 0;
}

static void rt_free(void *arg)
{
	struct rt *rt = arg;

	vfree(rt->chunk);
}

static struct rt *rt_new(struct kunit *test)
{
	struct rt *rt = kunit_kzalloc(test, sizeof(*rt), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rt);
	rt->test = test;
	rt->reader.entry = rt_entry;
	rt->reader.set = &rt->set;
	rt->set.version_end = KVT_LOG_NUMBER_MAX;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, rt_free, rt));
	rt->chunk = vzalloc(RT_CHUNK);
	KUNIT_ASSERT_NOT_NULL(test, rt->chunk);
	return rt;
}

static struct kvtree_log_chunk *rt_head(struct rt *rt)
{
	return (void *)rt->chunk;
}

static struct kvtree_log_record *rt_record(struct rt *rt)
{
	return (void *)(rt->chunk + sizeof(struct kvtree_log_chunk));
}

/* A chunk of one record. */
static void rt_encode(struct rt *rt, const struct kvt_key *key, u64 version,
		      const struct kvt_value *v)
{
	struct kvt_log_size size = kvt_log_size(key->len, v);
	u32 at, i;

	rt->key = *key;
	rt->value = v;
	rt->version = version;
	memset(rt->chunk, 0xee, 2 * KVTREE_LOG_BLOCK);
	kvt_log_encode((u8 *)rt_record(rt), &size, key, version, v, rt->outside);
	KUNIT_EXPECT_EQ(rt->test, 0, size.len % 8);
	rt->used = sizeof(struct kvtree_log_chunk) + size.len;
	at = ALIGN(rt->used, KVTREE_LOG_BLOCK);
	for (i = 0; i < size.nr_outside; i++) {
		memcpy(rt->chunk + at, rt->outside[i]->data, rt->outside[i]->len);
		at += ALIGN(rt->outside[i]->len, 8);
		kvt_blob_put(rt->outside[i]);
	}
	KUNIT_EXPECT_EQ(rt->test, size.outside_len, at - ALIGN(rt->used, KVTREE_LOG_BLOCK));
	rt->outside_len = size.outside_len;
	rt->nr_outside = size.nr_outside;
	rt_head(rt)->records_len = cpu_to_le32(rt->used);
	rt_head(rt)->outside_len = cpu_to_le32(rt->outside_len);
}

static u32 rt_blocks(const struct rt *rt)
{
	return (ALIGN(rt->used, KVTREE_LOG_BLOCK) + ALIGN(rt->outside_len, KVTREE_LOG_BLOCK)) /
	       KVTREE_LOG_BLOCK;
}

static int rt_parse(struct rt *rt)
{
	rt->entries = 0;
	return kvt_log_chunk_parse(&rt->reader, rt->chunk, rt_blocks(rt), KVT_LOG_CHANGES);
}

static u8 *random_bytes(struct kunit *test, struct kt_rnd *rnd, u32 len)
{
	u8 *bytes = kunit_kzalloc(test, len + 1, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	for (i = 0; i < len; i++)
		bytes[i] = kt_rnd_u64(rnd) >> 32;
	return bytes;
}

static void plain_values_come_back_as_they_were(struct kunit *test)
{
	static const u32 key_lens[] = { 0, 1, 8, 9, 512, KVTREE_KEY_MAX };
	struct kt_rnd rnd = kt_rnd(test);
	u8 *bytes = random_bytes(test, &rnd, KVTREE_VALUE_MAX);
	struct rt *rt = rt_new(test);
	struct kvt_value *v;
	u32 i, k;

	for (k = 0; k < ARRAY_SIZE(key_lens); k++) {
		struct kvt_key key = KT_BYTES(bytes + k, key_lens[k]);

		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			v = kt_value_of(&key, bytes, lengths[i]);
			KUNIT_ASSERT_NOT_NULL(test, v);
			rt_encode(rt, &key, 1 + i, v);
			KUNIT_EXPECT_EQ(test, KVT_LOG_SOUND, rt_parse(rt));
			KUNIT_EXPECT_EQ(test, 1, rt->entries);
			kvt_value_free(v);
		}
		rt_encode(rt, &key, 77, NULL);
		KUNIT_EXPECT_EQ(test, KVT_LOG_SOUND, rt_parse(rt));
		KUNIT_EXPECT_EQ(test, 1, rt->entries);
	}
}

/* The maximum of columns, every third of them longer than a block. */
static void columns_come_back_as_they_were(struct kunit *test)
{
	static const struct kvt_key key = KT_KEY("columns");
	static const u32 counts[] = { 0, 1, 2, 30, KVTREE_COLS_MAX };
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kt_rnd rnd = kt_rnd(test);
	u8 *bytes = random_bytes(test, &rnd, 4 * KVT_BLOB_MIN);
	struct kvt_column *edits;
	struct rt *rt = rt_new(test);
	struct kvt_value *v;
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
	u32 i, c;

	edits = kunit_kcalloc(test, KVTREE_COLS_MAX, sizeof(*edits), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, edits);
	for (c = 0; c < ARRAY_SIZE(counts); c++) {
		struct kvt_merge merge = { .edits = edits, .nr = counts[c], .key_len = key.len };

		for (i = 0; i < counts[c]; i++) {
			edits[i] = (struct kvt_column) {
				.id = i * KVTREE_COLS_MAX / counts[c],
				.len = i % 3 ? kt_rnd_below(&rnd, 12) :
				       KVT_BLOB_MIN + 1 + kt_rnd_below(&rnd, KVT_BLOB_MIN),
				.data = bytes + i,
			};
			if (!(i % 3))
				KUNIT_ASSERT_EQ(test, 0, kvt_blob_move(&mem, &edits[i]));
		}
		KUNIT_ASSERT_EQ(test, 0, kvt_merge_plan(&merge));
		KUNIT_ASSERT_TRUE(test, kvt_merge_ready(&merge));
		v = kvt_value_alloc(&mem, &key, merge.size);
		KUNIT_ASSERT_NOT_NULL(test, v);
		kvt_merge_fill(&merge, v, kept);
		rt_encode(rt, &key, 9, v);
		KUNIT_EXPECT_EQ(test, DIV_ROUND_UP(counts[c], 3), rt->nr_outside);
		KUNIT_EXPECT_EQ(test, KVT_LOG_SOUND, rt_parse(rt));
		KUNIT_EXPECT_EQ(test, 1, rt->entries);
		kvt_value_free(v);
	}
}

/* Faults of damaged or forged chunks, each applied alone to a sound one. */
static void refuse(struct rt *rt, int err)
{
	KUNIT_EXPECT_EQ(rt->test, err, rt_parse(rt));
	KUNIT_EXPECT_EQ(rt->test, 0, rt->entries);
}

static void rt_plain(struct rt *rt)
{
	static const struct kvt_key key = KT_KEY("a key of 16 byte");
	static const u8 data[40];
	struct kvt_value *v = kt_value_of(&key, data, sizeof(data));

	KUNIT_ASSERT_NOT_NULL(rt->test, v);
	rt_encode(rt, &key, 5, v);
	kvt_value_free(v);
	rt->value = NULL;
}

static void records_beyond_the_limits_are_refused(struct kunit *test)
{
	struct rt *rt = rt_new(test);

#define REFUSED(err, set) do {			\
	rt_plain(rt);				\
	set;					\
	refuse(rt, err);			\
} while (0)
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->len = 0);
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->len = cpu_to_le32(rt->used));
	REFUSED(KVT_LOG_DAMAGED, le32_add_cpu(&rt_record(rt)->len, -4));
	REFUSED(KVT_LOG_DAMAGED, le32_add_cpu(&rt_record(rt)->len, 8));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->len = cpu_to_le32(~0U - 7));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->key_len = cpu_to_le16(57));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->key_len = cpu_to_le16(0xffff));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->value = cpu_to_le32(41));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->value = cpu_to_le32(~0U));
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->version = 0);
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->version = cpu_to_le64(KVT_LOG_NUMBER_MAX));
	REFUSED(KVT_LOG_DAMAGED, rt->set.version_end = 5);
	rt->set.version_end = KVT_LOG_NUMBER_MAX;
	REFUSED(KVT_LOG_NEWER, rt_record(rt)->type = 0);
	REFUSED(KVT_LOG_NEWER, rt_record(rt)->type = KVTREE_LOG_REMOVE + 1);
	REFUSED(KVT_LOG_NEWER, rt_record(rt)->type = KVTREE_LOG_SKIPPABLE - 1);
	REFUSED(KVT_LOG_SOUND, rt_record(rt)->type = KVTREE_LOG_SKIPPABLE);
	REFUSED(KVT_LOG_SOUND, rt_record(rt)->type = 255);
	REFUSED(KVT_LOG_DAMAGED, rt_head(rt)->records_len = cpu_to_le32(31));
	REFUSED(KVT_LOG_DAMAGED, rt_head(rt)->records_len = cpu_to_le32(KVTREE_LOG_BLOCK + 1));
	REFUSED(KVT_LOG_DAMAGED, rt_head(rt)->outside_len = cpu_to_le32(8));
	REFUSED(KVT_LOG_DAMAGED, rt_head(rt)->outside_len = cpu_to_le32(~0U));
	/* 40 columns, and no room for their table. */
	REFUSED(KVT_LOG_DAMAGED, rt_record(rt)->flags = KVTREE_LOG_COLUMNS);
#undef REFUSED
}

/* A key of which nothing but the value's length is too large. */
static void a_value_beyond_the_limit_is_refused(struct kunit *test)
{
	struct kvtree_log_record *rec;
	struct rt *rt = rt_new(test);
	u32 len = sizeof(*rec) + KVTREE_VALUE_MAX + 8;

	rt_plain(rt);
	rec = rt_record(rt);
	rt->used = sizeof(struct kvtree_log_chunk) + len;
	rt_head(rt)->records_len = cpu_to_le32(rt->used);
	rec->len = cpu_to_le32(len);
	rec->key_len = 0;
	rec->value = cpu_to_le32(KVTREE_VALUE_MAX + 1);
	refuse(rt, KVT_LOG_DAMAGED);
}

/* Columns by hand: a table of two, followed by 8 bytes of data. */
static struct kvtree_log_column *rt_columns(struct rt *rt)
{
	struct kvtree_log_record *rec = rt_record(rt);
	struct kvtree_log_column *col = (void *)(rec + 1);

	rt_plain(rt);
	rec->flags = KVTREE_LOG_COLUMNS;
	rec->key_len = 0;
	rec->value = cpu_to_le32(2);
	memset(col, 0, 2 * sizeof(*col));
	col[0].id = cpu_to_le16(3);
	col[0].len = cpu_to_le32(4);
	col[1].id = cpu_to_le16(255);
	col[1].len = cpu_to_le32(4);
	return col;
}

static int rt_count(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	container_of(reader, struct rt, reader)->entries++;
	return 0;
}

static void columns_beyond_the_limits_are_refused(struct kunit *test)
{
	struct kvtree_log_column *col;
	struct rt *rt = rt_new(test);

	rt->reader.entry = rt_count;
	col = rt_columns(rt);
	KUNIT_EXPECT_EQ(test, KVT_LOG_SOUND, rt_parse(rt));
	KUNIT_EXPECT_EQ(test, 1, rt->entries);
#define REFUSED(set) do {			\
	col = rt_columns(rt);			\
	set;					\
	refuse(rt, KVT_LOG_DAMAGED);			\
} while (0)
	REFUSED(col[1].id = cpu_to_le16(256));
	REFUSED(col[1].id = col[0].id);
	REFUSED(col[1].id = cpu_to_le16(2));
	REFUSED(col[1].len = cpu_to_le32(1000));
	REFUSED(col[0].len = cpu_to_le32(~0U));
	REFUSED(col[0].len = col[1].len = cpu_to_le32(0x80000000));
	REFUSED(rt_record(rt)->value = cpu_to_le32(8));
	REFUSED(rt_record(rt)->value = cpu_to_le32(KVTREE_COLS_MAX + 1));
	REFUSED(rt_record(rt)->value = cpu_to_le32(0x20000001));
	REFUSED(col[1].flags = cpu_to_le16(KVTREE_LOG_OUTSIDE));
	REFUSED(col[1].flags = cpu_to_le16(KVTREE_LOG_OUTSIDE);
		col[1].len = cpu_to_le32(KVTREE_VALUE_MAX + 1));
#undef REFUSED
}

/* Restoring */

static const struct ld_record first[] = { { "a", 1, "one" }, { "b", 2, "two" } };
static const struct ld_record second[] = { { "a", 3, "three" } };
static const struct ld_record third[] = { { "b", 2, NULL }, { "c", 4, "four" } };

/* What a recovery has visited. */
struct visited {
	struct kunit *test;
	struct kvt_log_sink sink;
	struct kvt_log_reader *reader;	/* reads the extents; NULL: do not read them */
	u32 extents;
	u64 last;
	u32 epochs;			/* number of ends seen */
	u64 begun;			/* the log's epoch that is being visited */
	u32 segments;
	DECLARE_BITMAP(seen, LD_DISKS * LD_SEGMENTS);
	bool ended;
};

static void visited_segment(struct kvt_log_sink *sink, u32 dev, u32 segment,
			    enum kvtree_log_kind kind)
{
	struct visited *v = container_of(sink, struct visited, sink);

	v->segments++;
	KUNIT_EXPECT_FALSE(v->test, __test_and_set_bit(dev * LD_SEGMENTS + segment, v->seen));
}

static int visited_extent(struct kvt_log_sink *sink, const struct kvt_log_extent *extent)
{
	struct visited *v = container_of(sink, struct visited, sink);

	v->extents++;
	v->last = max(v->last, extent->epoch);
	KUNIT_EXPECT_TRUE(v->test, test_bit(extent->dev * LD_SEGMENTS + extent->pos.segment,
					    v->seen));
	/* An epoch ends before the next one begins, and the checkpoint before all epochs. */
	if (extent->saved)
		KUNIT_EXPECT_EQ(v->test, 0, v->epochs);
	else if (v->begun)
		KUNIT_EXPECT_EQ(v->test, v->begun, extent->epoch);
	v->begun = extent->saved ? 0 : extent->epoch;
	return v->reader ? kvt_log_extent_check(v->reader, extent) : 0;
}

static bool visited_due(struct kvt_log_sink *sink)
{
	struct visited *v = container_of(sink, struct visited, sink);

	v->epochs++;
	v->begun = 0;
	return false;
}

static int visited_bury(struct kvt_log_sink *sink)
{
	struct visited *v = container_of(sink, struct visited, sink);

	KUNIT_EXPECT_EQ(v->test, 0, v->begun);
	KUNIT_EXPECT_FALSE(v->test, v->ended);
	v->ended = true;
	return 0;
}

static int ld_visit(struct ld *ld, struct kvt_log_found *found, struct kvt_log_reader *reader)
{
	struct visited v = {
		.test = ld->test,
		.sink = { .segment = visited_segment, .extent = visited_extent,
			  .due = visited_due, .bury = visited_bury },
		.reader = reader,
	};
	int err;

	kvt_log_set_free(&ld->set);
	err = kvt_log_set_load(&ld->set);
	if (!err)
		err = kvt_log_find(&ld->set, found);
	if (!err)
		err = kvt_log_recover(&ld->set, found, &v.sink);
	KUNIT_EXPECT_LE(ld->test, v.last, err ? v.last : found->epoch);
	KUNIT_EXPECT_EQ(ld->test, !err, v.ended);
	KUNIT_EXPECT_EQ(ld->test, v.segments, v.sink.segments);
	ld->epochs = v.epochs;
	return err ?: v.extents;
}

/* Recover.  Returns the number of extents, or an error. */
static int ld_recover(struct ld *ld, struct kvt_log_found *found)
{
	return ld_visit(ld, found, NULL);
}

/* Recover, and read the extents. */
static int ld_restore(struct ld *ld, struct kvt_log_found *found)
{
	struct kvt_log_reader *reader = kzalloc(sizeof(*reader), GFP_KERNEL);
	int err;

	KUNIT_ASSERT_NOT_NULL(ld->test, reader);
	err = kvt_log_reader_init(reader, &ld->set) ?: ld_visit(ld, found, reader);
	kvt_log_reader_exit(reader);
	kfree(reader);
	return err;
}

/* Epochs 1 to 3, each with an extent on the first disk. */
static struct ld *ld_three(struct kunit *test, u32 nr, struct kvt_log_extent *e)
{
	struct ld *ld = ld_new(test, nr);
	u32 i, epoch;

	ld_add_extent(ld, 0, 1, first, ARRAY_SIZE(first), &e[0]);
	ld_add_extent(ld, 0, 2, second, ARRAY_SIZE(second), &e[1]);
	ld_add_extent(ld, 0, 3, third, ARRAY_SIZE(third), &e[2]);
	for (epoch = 1; epoch <= 3; epoch++) {
		ld_add_trailer(ld, 0, epoch, &e[epoch - 1], 1);
		for (i = 1; i < nr; i++)
			if (epoch < 3)
				ld_add_trailer(ld, i, epoch, NULL, 0);
	}
	return ld;
}

/* Any disk's part of an epoch is visited before any part of the next epoch: see ld_visit(). */
static void disks_are_read_epoch_by_epoch(struct kunit *test)
{
	struct ld *ld = ld_new(test, LD_DISKS);
	struct kvt_log_found found;
	struct kvt_log_extent e;
	u32 i, epoch;

	for (epoch = 1; epoch <= 4; epoch++) {
		for (i = 0; i < LD_DISKS; i++) {
			ld_add_extent(ld, i, epoch, first, ARRAY_SIZE(first), &e);
			ld_add_trailer(ld, i, epoch, &e, 1);
		}
	}
	KUNIT_EXPECT_EQ(test, 4 * LD_DISKS, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 4, found.epoch);
	KUNIT_EXPECT_EQ(test, 4, ld->epochs);
}

static void an_epoch_counts_only_if_it_is_complete(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[4];
	struct ld *ld = ld_three(test, 1, e);

	/* The extent of a stream that is ahead: no trailer names it. */
	ld_add_extent(ld, 0, 4, first, ARRAY_SIZE(first), &e[3]);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, found.epoch);
	KUNIT_EXPECT_EQ(test, 1003, found.version_lease);
}

static void the_last_epoch_is_dropped_if_a_part_of_it_is_missing(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[2].pos), 40);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
	KUNIT_EXPECT_EQ(test, 3, found.seen);
}

static void a_type_that_is_damaged_is_not_a_newer_format(struct kunit *test)
{
	u32 at = sizeof(struct kvtree_log_chunk) + offsetof(struct kvtree_log_record, type);
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[2].pos), at);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
}

static void an_epoch_before_the_last_two_is_damaged_and_not_dropped(struct kunit *test)
{
	struct kvt_log_pos pos = { .segment = LD_COMMIT, .block = 1 };
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 100);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 is damaged"));
}

/* Anything written after an epoch, even if incomplete, proves that the epoch was durable. */
static void a_part_of_a_commit_record_proves_the_epoch_before(struct kunit *test)
{
	struct kvt_log_pos pos = { .segment = LD_COMMIT, .block = 3 };
	struct kvtree_log_trailer *t;
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	t = (void *)ld_block(ld, 0, kvt_log_pos_block(ld->super[0], &pos));
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 100);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
	KUNIT_EXPECT_EQ(test, 3, found.seen);
	KUNIT_EXPECT_TRUE(test, found.open);
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 3 is not complete"));
	/* The first versions did not write a checksum of the header. */
	t->head_crc = 0;
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, found.seen);
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[1].pos), 40);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	/* Nor may the record of that one be missing. */
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[1].pos), 40);
	pos.block = 2;
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 0);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 2 is damaged"));
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 0);
	/* Remains of an incomplete attach prove nothing. */
	t->next.sequence = cpu_to_le64(99);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.seen);
	/* If the life has an end, nothing after it is looked for. */
	ld_end_life(ld, 2);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_FALSE(test, found.open);
}

/* An epoch is complete on all devices before any of them gets a part of the next. */
static void a_part_of_a_commit_record_proves_the_epoch_on_all_disks(struct kunit *test)
{
	struct kvt_log_pos pos = { .segment = LD_COMMIT, .block = 3 };
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);

	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 100);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
	KUNIT_EXPECT_EQ(test, 3, found.seen);
	pos.block = 2;
	ld_damage(ld, 1, kvt_log_pos_block(ld->super[1], &pos), 0);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 3 was begun"));
}

/* An idle store logs empty epochs for this reason. */
static void an_epoch_before_an_empty_one_is_damaged_and_not_dropped(struct kunit *test)
{
	struct kvt_log_pos pos = { .segment = LD_COMMIT };
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld_add_trailer(ld, 0, 4, NULL, 0);
	KUNIT_EXPECT_EQ(test, 3, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 4, found.epoch);
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[2].pos), 40);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &e[2].pos), 40);
	pos.block = 3;
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 0);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 3 is damaged"));
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 0);
	/* Nothing of the empty one can be missing. */
	pos.block = 4;
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 0);
	KUNIT_EXPECT_EQ(test, 3, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, found.epoch);
}

static void an_epoch_counts_when_all_disks_have_it(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);

	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
	ld_add_trailer(ld, 1, 3, NULL, 0);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, found.epoch);
}

/* Write an epoch with an extent on each of some disks; @devices: a bit for each. */
static void ld_add_epoch(struct ld *ld, u64 epoch, u8 devices)
{
	struct kvt_log_extent e;
	u32 i;

	ld->devices = devices;
	for (i = 0; i < LD_DISKS; i++) {
		if (!(devices & BIT(i)))
			continue;
		ld_add_extent(ld, i, epoch, first, ARRAY_SIZE(first), &e);
		ld_add_trailer(ld, i, epoch, &e, 1);
	}
}

/* The block of the n-th commit record of a disk. */
static u64 ld_trailer(const struct ld *ld, u32 disk, u32 n)
{
	const struct kvt_log_pos pos = { .segment = LD_COMMIT, .block = n };

	return kvt_log_pos_block(ld->super[disk], &pos);
}

/* Epochs 1 to 6; the last two are on one disk each, and the others on all pairs. */
static struct ld *ld_sparse(struct kunit *test)
{
	struct ld *ld = ld_new(test, LD_DISKS);

	ld_add_epoch(ld, 1, BIT(0) | BIT(1));
	ld_add_epoch(ld, 2, BIT(1) | BIT(2));
	ld_add_epoch(ld, 3, BIT(2) | BIT(0));
	ld_add_epoch(ld, 4, BIT(0) | BIT(1));
	ld_add_epoch(ld, 5, BIT(1));
	ld_add_epoch(ld, 6, BIT(2));
	return ld;
}

static void an_epoch_counts_when_all_disks_of_it_have_it(struct kunit *test)
{
	struct ld *ld = ld_sparse(test);
	struct kvt_log_found found;

	KUNIT_EXPECT_EQ(test, 10, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 6, found.epoch);
	KUNIT_EXPECT_EQ(test, 6, ld->epochs);
	/* One of the disks lacks it, the other has it: there was a crash. */
	ld->devices = BIT(0) | BIT(1);
	ld_add_trailer(ld, 0, 7, NULL, 0);
	KUNIT_EXPECT_EQ(test, 10, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 6, found.epoch);
	KUNIT_EXPECT_EQ(test, 7, found.seen);
	KUNIT_EXPECT_EQ(test, 1007, found.version_lease);
	ld_add_trailer(ld, 1, 7, NULL, 0);
	KUNIT_EXPECT_EQ(test, 10, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 7, found.epoch);
}

/* Also an epoch on one disk alone, of which no other disk has heard, and the disk's last one. */
static void the_last_epoch_may_be_on_one_disk(struct kunit *test)
{
	struct ld *ld = ld_sparse(test);
	struct kvt_log_pos extent = { .segment = LD_STREAM, .block = 3 };
	u64 block = kvt_log_pos_block(ld->super[2], &extent);
	struct kvt_log_found found;

	ld_damage(ld, 2, block, 40);
	KUNIT_EXPECT_EQ(test, 9, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 5, found.epoch);
	KUNIT_EXPECT_EQ(test, 6, found.seen);
	ld_damage(ld, 2, block, 40);
	/* Its commit record is torn. */
	ld_damage(ld, 2, ld_trailer(ld, 2, 3), 100);
	KUNIT_EXPECT_EQ(test, 9, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 5, found.epoch);
	KUNIT_EXPECT_EQ(test, 6, found.seen);
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 6 is not complete"));
	/* That proves the epoch before, on another disk. */
	ld_damage(ld, 1, ld_trailer(ld, 1, 4), 100);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	ld_damage(ld, 1, ld_trailer(ld, 1, 4), 100);
	/* A header that is not sound does not say which epoch was begun. */
	ld_damage(ld, 2, ld_trailer(ld, 2, 3), offsetof(struct kvtree_log_trailer, epoch));
	KUNIT_EXPECT_EQ(test, 9, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 5, found.epoch);
	KUNIT_EXPECT_EQ(test, 5, found.seen);
	/* There is nothing of it. */
	ld_damage(ld, 2, ld_trailer(ld, 2, 3), 0);
	KUNIT_EXPECT_EQ(test, 9, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 5, found.epoch);
	KUNIT_EXPECT_EQ(test, 5, found.seen);
}

/* A disk's last commit record is missing: other disks have later epochs, or name it. */
static void a_commit_record_that_others_prove_is_not_dropped(struct kunit *test)
{
	static const struct { u32 disk, n; u64 epoch; } lost[] = {
		{ 0, 1, 1 }, { 1, 1, 1 }, { 1, 2, 2 }, { 2, 1, 2 }, { 2, 2, 3 }, { 0, 2, 3 },
		{ 0, 3, 4 }, { 1, 3, 4 }, { 1, 4, 5 },
	};
	struct ld *ld = ld_sparse(test);
	struct kvt_log_found found;
	char text[32];
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(lost); i++) {
		/* With all that follows it on the disk, so that only other disks know. */
		for (j = lost[i].n; j <= 4; j++)
			ld_damage(ld, lost[i].disk, ld_trailer(ld, lost[i].disk, j), 0);
		KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
		snprintf(text, sizeof(text), "epoch %llu was durable", lost[i].epoch);
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(ld->said, text), "%u: \"%s\"", i,
					  ld->said);
		/* The life may have an end. */
		ld_end_life(ld, 6);
		KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
		ld_end_life(ld, 0);
		for (j = lost[i].n; j <= 4; j++)
			ld_damage(ld, lost[i].disk, ld_trailer(ld, lost[i].disk, j), 0);
	}
	KUNIT_EXPECT_EQ(test, 10, ld_restore(ld, &found));
}

/* What was read ahead on a disk, and belongs to a later epoch, need not be there. */
static void only_disks_of_an_epoch_have_to_be_readable(struct kunit *test)
{
	struct ld *ld = ld_sparse(test);
	struct kvt_log_found found;
	u64 until;

	/* Of epochs 1, 3 and 4. */
	ld_unreadable(ld, ld_trailer(ld, 0, 2), -EIO);
	for (until = 1; until <= 6; until++) {
		ld->set.until = until;
		KUNIT_EXPECT_EQ(test, until < 3 ? 2 * (int)until : -EIO, ld_restore(ld, &found));
	}
	ld_unreadable(ld, 0, 0);
	ld_damage(ld, 1, ld_trailer(ld, 1, 3), 100);
	for (until = 1; until <= 6; until++) {
		ld->set.until = until;
		KUNIT_EXPECT_EQ(test, until < 4 ? 2 * (int)until : -EBADMSG,
				ld_restore(ld, &found));
	}
	/* A life that ends with epoch 3. */
	ld->set.until = 0;
	ld_end_life(ld, 3);
	KUNIT_EXPECT_EQ(test, 6, ld_restore(ld, &found));
}

/* A disk that has no part of a life: its place for commit records may have another use. */
static void a_disk_without_epochs_needs_no_segment(struct kunit *test)
{
	struct ld *ld = ld_new(test, 2);
	struct kvt_log_found found;

	ld_add_epoch(ld, 1, BIT(1));
	ld_add_epoch(ld, 2, BIT(1));
	memset(ld_block(ld, 0, ld_trailer(ld, 0, 0)), 0x5a, KVTREE_LOG_BLOCK);
	memset(ld_block(ld, 0, ld_trailer(ld, 0, 1)), 0x5a, KVTREE_LOG_BLOCK);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, found.epoch);
	/* If the end of the life is not known, a later commit record might be there. */
	ld_unreadable(ld, ld_trailer(ld, 0, 1), -EIO);
	KUNIT_EXPECT_EQ(test, -EIO, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 3 cannot be read"));
	ld_end_life(ld, 2);
	KUNIT_EXPECT_EQ(test, 2, ld_restore(ld, &found));
}

static void commit_records_name_the_same_disks(struct kunit *test)
{
	static const struct { u8 devices; const char *said; } wrong[] = {
		{ BIT(0) | BIT(1) | BIT(2), "do not agree" }, { 0, "do not agree" },
		{ BIT(0), "is wrong" }, { BIT(1) | BIT(3), "is wrong" }, { BIT(7), "is wrong" },
	};
	struct kvt_log_found found;
	struct ld *ld;
	u32 i, dev;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		ld = ld_new(test, LD_DISKS);
		ld->devices = BIT(0) | BIT(1);
		ld_add_trailer(ld, 0, 1, NULL, 0);
		ld->devices = wrong[i].devices;
		ld_add_trailer(ld, 1, 1, NULL, 0);
		KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(ld->said, wrong[i].said), "%u: \"%s\"", i,
					  ld->said);
	}
	/* Earlier versions must know. */
	ld = ld_sparse(test);
	for (dev = 0; dev < LD_DISKS; dev++)
		ld->super[dev]->incompat = 0;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "is wrong"));
}

/* The first commit record of a life may be the last one in its segment. */
static void a_life_goes_on_in_the_next_segment(struct kunit *test)
{
	const struct kvt_log_pos ahead = {
		.sequence = LD_AHEAD + 1, .segment = LD_AHEAD, .block = 1,
	};
	struct ld *ld = ld_new(test, 1);
	struct kvt_log_found found;

	kvt_log_pos_store(&ld->super[0]->ahead, &ahead);
	ld->super[0]->ahead_generation = ld->super[0]->lives[0].generation;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, 0, ld_restore(ld, &found));
	ld->commit[0] = ahead;
	ld_add_trailer(ld, 0, 2, NULL, 0);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 is damaged"));
	/* An earlier version has begun this life, and left what it does not know. */
	ld->super[0]->ahead_generation = 0;
	ld_write_supers(ld);
	ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &ahead), -EIO);
	KUNIT_EXPECT_EQ(test, 0, ld_restore(ld, &found));
}

static void recovery_requires_all_that_was_durable_at_a_checkpoint(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld->super[0]->checkpoint.epoch = 0;
	ld->super[0]->checkpoint.met = cpu_to_le32(3);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
	ld->super[0]->checkpoint.met = cpu_to_le32(4);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 4 was durable"));
}

/* An ordinary epoch may never have been written, but a carried one must be there. */
static void an_epoch_that_was_carried_must_exist(struct kunit *test)
{
	struct kvt_log_pos pos = { .segment = LD_COMMIT, .block = 1 };
	struct kvt_log_found found;
	struct ld *ld = ld_new(test, 1);

	KUNIT_EXPECT_EQ(test, 0, ld_recover(ld, &found));
	ld->super[0]->lives[0].flags = cpu_to_le32(KVTREE_LOG_LIFE_CARRIED);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 was durable"));
	ld_add_trailer(ld, 0, 1, NULL, 0);
	KUNIT_EXPECT_EQ(test, 0, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 1, found.epoch);
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &pos), 100);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	/* Also if this epoch is asked for. */
	ld->set.until = 1;
	ld->said[0] = '\0';
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 was durable"));
}

/* The checkpoint's contents would be carried as the epoch of a life, and are too much for it. */
static void a_life_begins_behind_the_checkpoint(struct kunit *test)
{
	struct kvt_log_found found;
	struct ld *ld = ld_new(test, 1);

	ld_add_trailer(ld, 0, 1, NULL, 0);
	KUNIT_EXPECT_EQ(test, 0, ld_recover(ld, &found));
	ld->super[0]->checkpoint.epoch = cpu_to_le64(1);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "lists of lives are wrong"));
}

/* A checkpoint between lives has met no epoch, and only the following life says so. */
static void what_a_checkpoint_has_met_is_where_until_begins(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);
	struct kvtree_log_super *super = ld->super[0];
	struct kvt_log_pos commit = kvt_log_pos_load(&super->lives[0].commit);

	super->checkpoint.epoch = cpu_to_le64(1);
	super->lives[0].first_epoch = cpu_to_le64(2);
	commit.block = 2;
	kvt_log_pos_store(&super->lives[0].commit, &commit);
	ld->set.until = 2;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -ERANGE, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 0, found.first);
	super->checkpoint.met = cpu_to_le32(2);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -ERANGE, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, found.first);
	super->checkpoint.met = 0;
	super->lives[0].flags = cpu_to_le32(KVTREE_LOG_LIFE_MET_NONE);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, 1, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 1, found.first);
	/* Without a life there is only the checkpoint. */
	super->nr_lives = 0;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -ERANGE, ld_recover(ld, &found));
	ld->set.until = 1;
	KUNIT_EXPECT_EQ(test, 0, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 1, found.first);
}

/* For any errno of the device, even one that has a meaning in the log. */
static void what_cannot_be_read_is_an_error_and_not_an_end(struct kunit *test)
{
	static const int errnos[] = { -EIO, -ENODATA, -EBADMSG, -ENOSPC, -EOPNOTSUPP, -EINTR };
	struct kvt_log_pos commit = { .segment = LD_COMMIT, .block = 1 };
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(errnos); i++) {
		/* The first commit record, the last one, and the block after it. */
		for (commit.block = 1; commit.block <= 300; commit.block *= 2) {
			ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &commit), errnos[i]);
			KUNIT_EXPECT_EQ(test, errnos[i], ld_recover(ld, &found));
		}
		/* In the last epoch, which a crash may have left incomplete. */
		ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &e[2].pos), errnos[i]);
		KUNIT_EXPECT_EQ(test, errnos[i], ld_recover(ld, &found));
	}
	ld_unreadable(ld, 0, 0);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
}

static void ld_expect_said(struct ld *ld, const struct kvt_log_pos *pos, const char *what)
{
	struct kvt_log_found found;

	ld->said[0] = '\0';
	ld_unreadable(ld, kvt_log_pos_block(ld->super[0], pos), -EIO);
	KUNIT_EXPECT_EQ(ld->test, -EIO, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL_MSG(ld->test, strstr(ld->said, what), "\"%s\"", ld->said);
}

/* The epoch before it is the one to ask for. */
static void read_errors_name_the_epoch(struct kunit *test)
{
	struct kvt_log_pos commit = { .segment = LD_COMMIT };
	struct kvt_log_pos stream = { .segment = LD_STREAM };
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	commit.block = 1;
	ld_expect_said(ld, &commit, "epoch 1 cannot be read");
	commit.block = 3;
	ld_expect_said(ld, &commit, "epoch 3 cannot be read");
	commit.block = 5;
	ld_expect_said(ld, &commit, "epoch 4 may be in blocks that cannot be read");
	ld_expect_said(ld, &e[0].pos, "epoch 1 cannot be read");
	ld_expect_said(ld, &e[2].pos, "epoch 3 cannot be read");
	ld_expect_said(ld, &stream, "epoch 3 cannot be read");
	commit.block = 0;
	ld_expect_said(ld, &commit, "a part of epoch 1");
	ld_unreadable(ld, 0, 0);
	ld_damage(ld, 0, kvt_log_pos_block(ld->super[0], &commit), 8);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "a part of epoch 1"));
}

/* The chunk of an extent becomes longer, by nothing. */
static void ld_lengthen(struct ld *ld, struct kvt_log_extent *extent, u32 blocks)
{
	u64 block = kvt_log_pos_block(ld->super[0], &extent->pos);
	struct kvtree_log_chunk *head = (void *)ld_block(ld, 0, block);
	u32 i;

	head->blocks = cpu_to_le32(blocks);
	extent->blocks = blocks;
	extent->crc = kvt_log_crc(ld->super[0], LD_GENERATION, &extent->pos, head,
				  KVTREE_LOG_BLOCK);
	for (i = 1; i < blocks; i++)
		extent->crc = kvt_crc32c(extent->crc, ld_block(ld, 0, block + i),
					 KVTREE_LOG_BLOCK);
}

/* Extents that do not overlap, as many as have room in the segments. */
#define LONG_BLOCKS	1000
#define LONG_FIT	(LD_SEGMENTS * KVTREE_LOG_SEGMENT_MIN / LONG_BLOCKS)

/* Overlapping extents would have more bytes in total than the disk has room for. */
static void a_disk_has_no_more_records_than_room(struct kunit *test)
{
	struct kvt_log_extent *e = kunit_kcalloc(test, LONG_FIT + 1, sizeof(*e), GFP_KERNEL);
	struct kvt_log_found found;
	struct ld *ld = ld_new(test, 1);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	ld_add_extent(ld, 0, 1, first, ARRAY_SIZE(first), &e[0]);
	ld_lengthen(ld, &e[0], LONG_BLOCKS);
	for (i = 1; i <= LONG_FIT; i++)
		e[i] = e[0];
	ld_add_trailer(ld, 0, 1, e, LONG_FIT);
	ld_add_trailer(ld, 0, 2, NULL, 0);
	KUNIT_EXPECT_EQ(test, LONG_FIT, ld_restore(ld, &found));
	ld->commit[0].block = 1;
	ld_add_trailer(ld, 0, 1, e, LONG_FIT + 1);
	ld_add_trailer(ld, 0, 2, NULL, 0);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_restore(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 are more than fit"));
	/* The last extent is read to see whether it is complete. */
	ld->commit[0].block = 1;
	ld_add_trailer(ld, 0, 1, e, LONG_FIT + 1);
	memset(ld_block(ld, 0, kvt_log_pos_block(ld->super[0], &ld->commit[0])), 0,
	       KVTREE_LOG_BLOCK);
	ld->said[0] = '\0';
	KUNIT_EXPECT_EQ(test, 0, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "epoch 1 are more than fit"));
}

/* So many that a trailer takes two blocks. */
#define MANY	130

static void ld_add_many(struct ld *ld, u64 epoch, const struct kvt_log_extent *extent)
{
	struct kvt_log_extent *many;
	u32 i;

	many = kunit_kcalloc(ld->test, MANY, sizeof(*many), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(ld->test, many);
	for (i = 0; i < MANY; i++)
		many[i] = *extent;
	ld_add_trailer(ld, 0, epoch, many, MANY);
}

/* A life may have a known end: then nothing after it has to be readable. */
static void only_what_is_needed_has_to_be_readable(struct kunit *test)
{
	struct kvt_log_pos commit = { .segment = LD_COMMIT };
	struct kvt_log_extent e[3];
	struct kvt_log_found found;
	struct ld *ld = ld_three(test, 1, e);

	ld_add_many(ld, 4, &e[0]);
	KUNIT_ASSERT_EQ(test, 6, ld->commit[0].block);
	for (commit.block = 1; commit.block < 300; commit.block++) {
		ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &commit), -EIO);
		ld_end_life(ld, 4);
		KUNIT_EXPECT_EQ(test, commit.block < 6 ? -EIO : 3 + MANY, ld_recover(ld, &found));
		/* If it is not known, an earlier epoch can be asked for. */
		ld_end_life(ld, 0);
		KUNIT_EXPECT_EQ(test, -EIO, ld_recover(ld, &found));
		ld->set.until = 3;
		KUNIT_EXPECT_EQ(test, commit.block < 4 ? -EIO : 3, ld_recover(ld, &found));
		ld->set.until = 0;
	}
}

/* The next trailers of a disk go to the segment after this one. */
static void ld_go_ahead(struct ld *ld, u32 disk)
{
	ld->commit[disk] = (struct kvt_log_pos) {
		.sequence = LD_AHEAD + 1, .segment = LD_AHEAD, .block = 1,
	};
}

/* After a crash the next segment is read as well, as far as it has data, and no further. */
static void a_bad_sector_in_an_empty_commit_segment_does_no_harm(struct kunit *test)
{
	struct kvt_log_pos ahead = { .segment = LD_AHEAD };
	struct kvt_log_extent e[3];
	struct kvt_log_found found;
	struct ld *ld = ld_three(test, 1, e);

	for (ahead.block = 1; ahead.block < 300; ahead.block++) {
		ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &ahead), -EIO);
		KUNIT_EXPECT_EQ(test, ahead.block == 1 ? -EIO : 3, ld_recover(ld, &found));
	}
	/* The first block suffices to see that it is left from another life. */
	ahead.block = 1;
	memset(ld_block(ld, 0, kvt_log_pos_block(ld->super[0], &ahead)), 0x5a, KVTREE_LOG_BLOCK);
	ahead.block = 2;
	ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &ahead), -EIO);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
	/* A later commit record is there: this is no end. */
	ld_go_ahead(ld, 0);
	ld_add_many(ld, 5, &e[0]);
	KUNIT_ASSERT_EQ(test, 3, ld->commit[0].block);
	for (ahead.block = 1; ahead.block < 300; ahead.block++) {
		ld_unreadable(ld, kvt_log_pos_block(ld->super[0], &ahead), -EIO);
		KUNIT_EXPECT_EQ(test, ahead.block < 3 ? -EIO : -EBADMSG, ld_recover(ld, &found));
	}
}

/* The unreadable copy might have been the right one. */
static void a_copy_that_cannot_be_read_is_an_error_if_the_other_is_wrong(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);

	ld->set.size[0]--;
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	ld_unreadable(ld, kvt_log_super_block(0), -EIO);
	KUNIT_EXPECT_EQ(test, -EIO, ld_recover(ld, &found));
	ld->set.size[0]++;
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
}

static void one_copy_of_the_superblock_is_enough(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);
	u32 copy;

	for (copy = 0; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		ld_unreadable(ld, kvt_log_super_block(copy), -EIO);
		KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
		KUNIT_EXPECT_EQ(test, 2, found.epoch);
		KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "cannot be read"));
		ld_damage(ld, 0, kvt_log_super_block(!copy), 200);
		KUNIT_EXPECT_EQ(test, -EIO, ld_recover(ld, &found));
		ld_damage(ld, 0, kvt_log_super_block(!copy), 200);
	}
}

/* Write superblock 3 of another change to one disk, as after a crash; @id is its write_id. */
static void ld_write_third(struct ld *ld, u32 disk, u64 id)
{
	struct kvtree_log_super *super = ld->super[disk];
	const u64 was = le64_to_cpu(super->write_id);

	super->number = cpu_to_le64(3);
	super->write_id = cpu_to_le64(id);
	kvt_log_super_seal(super);
	memcpy(ld_block(ld, disk, kvt_log_super_block(3)), super, KVTREE_LOG_BLOCK);
	super->write_id = cpu_to_le64(was);
}

/* Both copies of a change are equal: either one of each device suffices. */
static void opposite_copies_of_a_superblock_are_enough(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);
	u32 copy;

	for (copy = 0; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		ld_damage(ld, 0, kvt_log_super_block(copy), 200);
		ld_damage(ld, 1, kvt_log_super_block(!copy), 200);
		KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
		KUNIT_EXPECT_EQ(test, 2, ld->set.number);
		ld_damage(ld, 0, kvt_log_super_block(copy), 200);
		ld_damage(ld, 1, kvt_log_super_block(!copy), 200);
	}
}

/* Superblocks of different changes on different devices are not taken for one. */
static void superblocks_of_different_changes_are_not_mixed(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 2, e);

	ld_write_third(ld, 1, 8);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, ld->set.number);
	/* The same number from another attempt, with another id. */
	ld_write_third(ld, 0, 9);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 2, ld->set.number);
	ld_damage(ld, 0, kvt_log_super_block(2), 200);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	KUNIT_EXPECT_NOT_NULL(test, strstr(ld->said, "no superblock in common"));
	ld_damage(ld, 0, kvt_log_super_block(2), 200);
	/* The device's error, and not one in the data. */
	ld_unreadable(ld, kvt_log_super_block(2), -EIO);
	KUNIT_EXPECT_EQ(test, -EIO, ld_recover(ld, &found));
	ld_unreadable(ld, 0, 0);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	ld_damage(ld, 0, kvt_log_super_block(2), 200);
	ld_write_third(ld, 0, 8);
	KUNIT_EXPECT_EQ(test, 2, ld_recover(ld, &found));
	KUNIT_EXPECT_EQ(test, 3, ld->set.number);
}

/* Refuse to attach a store that could not be attached again. */
static void numbers_at_their_maximum_are_refused(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld->super[0]->generation = cpu_to_le64(KVT_LOG_NUMBER_MAX - 1);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	ld->super[0]->generation = cpu_to_le64(LD_GENERATION);
	/* The commit records have a lease of their own: it counts where there are none. */
	ld->super[0]->version_lease = cpu_to_le64(KVT_LOG_NUMBER_MAX - 1);
	ld->super[0]->nr_lives = 0;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	ld->super[0]->version_lease = cpu_to_le64(1);
	ld->super[0]->nr_lives = cpu_to_le32(1);
	/* A generation that the superblock does not know of. */
	ld->super[0]->generation = 0;
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	ld->super[0]->generation = cpu_to_le64(LD_GENERATION);
	ld_write_supers(ld);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
}

/* Disk 0 seems to have room for these segments, and claims to have them. */
static void ld_claim(struct ld *ld, u32 nr_segments)
{
	ld->super[0]->nr_segments = cpu_to_le32(nr_segments);
	ld->set.size[0] = KVTREE_LOG_DATA_START + (u64)nr_segments * KVTREE_LOG_SEGMENT_MIN;
	ld->super[0]->nr_blocks = cpu_to_le64(ld->set.size[0]);
	ld_write_supers(ld);
}

/* A sparse device may be of any size, and each segment takes memory. */
static void more_segments_than_a_device_may_have_are_refused(struct kunit *test)
{
	struct kvt_log_found found;
	struct kvt_log_extent e[3];
	struct ld *ld = ld_three(test, 1, e);

	ld_claim(ld, KVTREE_LOG_SEGMENTS_MAX + 1);
	KUNIT_EXPECT_EQ(test, -EBADMSG, ld_recover(ld, &found));
	ld_claim(ld, KVTREE_LOG_SEGMENTS_MAX);
	KUNIT_EXPECT_EQ(test, 3, ld_recover(ld, &found));
}

/* Replay */

struct replayed {
	struct kvt_life *life;
	struct kvt_log *log;
	struct kvt_replay *replay;
	struct kvt_quota quota;
	struct kvtree_log_super super;
};

static void replayed_free(void *arg)
{
	struct replayed *r = arg;

	if (r->replay)
		kvt_replay_exit(r->replay);
	kfree(r->replay);
	if (r->log)
		percpu_counter_destroy(&r->log->space.live);
	if (r->log)
		kvt_image_exit(&r->log->image);
	kvfree(r->life);
	kvt_quota_exit(&r->quota);
}

/* A log with an empty index, as far as a replay uses it. */
static struct replayed *replayed_new(struct kunit *test, struct kt *kt)
{
	struct replayed *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct kvt_log_directory dir = {};

	KUNIT_ASSERT_NOT_NULL(test, r);
	/* These values do not come from kt_value_new(). */
	kvt_value_setup_reclaim(&kt->reclaim);
	KUNIT_ASSERT_EQ(test, 0, kvt_quota_init(&r->quota, U64_MAX, U64_MAX));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, replayed_free, r));
	r->life = kvzalloc(sizeof(*r->life), GFP_KERNEL);
	r->replay = kzalloc(sizeof(*r->replay), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, r->life && r->replay);
	r->log = &r->life->checkpoints.commits.log;
	KUNIT_ASSERT_EQ(test, 0, percpu_counter_init(&r->log->space.live, 0, GFP_KERNEL));
	r->log->state.env = (struct kvt_log_env) {
		.index = kt->index, .quota = &r->quota, .reclaim = &kt->reclaim,
		.stats = &kt->stats,
	};
	r->log->image.seed = kvt_log_key_seed(&r->super);
	KUNIT_ASSERT_EQ(test, 0, kvt_image_init(&r->log->image, &dir));
	KUNIT_ASSERT_EQ(test, 0, kvt_replay_init(r->replay, r->log));
	return r;
}

/* The version of a key, and its value; 0: none. */
static u64 replayed_get(struct kt *kt, const char *name, char *value, size_t size)
{
	const struct kvt_key key = KT_BYTES(name, strlen(name));
	struct kvt_cell cell;
	struct kvt_value *v;
	u64 version = 0;
	const u8 *data;
	u32 len;

	rcu_read_lock();
	v = kt->ops->get(kt->index, &key, &cell);
	if (!IS_ERR_OR_NULL(v)) {
		version = v->version;
		data = kvt_value_plain_data(v, &len);
		snprintf(value, size, "%.*s", (int)len, (const char *)data);
	}
	rcu_read_unlock();
	return version;
}

#define HISTORY	5

/*
 * A key is put, replaced, removed, put again and removed again; another one ends with a
 * value; and one removal occurs twice, as after a checkpoint.
 */
static const struct ld_record history[HISTORY][2] = {
	{ { "x", 10, "first" }, { "y", 11, "old" } },
	{ { "x", 20, "second" }, { "y", 31, NULL } },
	{ { "x", 20, NULL }, { "y", 31, "gone" } },
	{ { "x", 40, "fourth" }, { "y", 41, "stays" } },
	{ { "x", 40, NULL }, { "y", 11, NULL } },
};

/* The nr-th permutation of HISTORY records. */
static void order_make(u32 *order, u32 nr)
{
	u32 i, j, left[HISTORY];

	for (i = 0; i < HISTORY; i++)
		left[i] = i;
	for (i = 0; i < HISTORY; i++) {
		j = nr % (HISTORY - i);
		nr /= HISTORY - i;
		order[i] = left[j];
		memmove(&left[j], &left[j + 1], (HISTORY - i - 1 - j) * sizeof(left[0]));
	}
}

static void the_newest_version_stays_in_whatever_order_records_come(struct kunit *test)
{
	static const struct ld_record last = { "y", 50, NULL };
	struct kt *kt = kt_open(test);
	struct replayed *r = replayed_new(test, kt);
	struct kvt_log_extent e[HISTORY], end;
	struct ld *ld = ld_new(test, 1);
	u32 nr, i, order[HISTORY];
	char value[20] = "";

	for (i = 0; i < HISTORY; i++)
		ld_add_extent(ld, 0, 1, history[i], 2, &e[i]);
	ld_add_extent(ld, 0, 1, &last, 1, &end);
	KUNIT_ASSERT_EQ(test, 0, kvt_log_set_load(&ld->set));
	ld->set.version_end = KVT_LOG_NUMBER_MAX;
	r->replay->reader.set = &ld->set;
	for (nr = 0; nr < 120; nr++) {
		r->replay->tombstones = 0;
		order_make(order, nr);
		for (i = 0; i < HISTORY; i++)
			KUNIT_EXPECT_EQ(test, 0, kvt_replay_extent(r->replay, &e[order[i]]));
		KUNIT_EXPECT_GT(test, r->replay->tombstones, 0);
		KUNIT_EXPECT_EQ(test, 0, kvt_replay_bury(r->replay));
		KUNIT_EXPECT_EQ(test, 0, replayed_get(kt, "x", value, sizeof(value)));
		KUNIT_EXPECT_EQ(test, 41, replayed_get(kt, "y", value, sizeof(value)));
		KUNIT_EXPECT_STREQ(test, "stays", value);
		KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_VALUES));
		/* Begin the next order with an empty index. */
		KUNIT_EXPECT_EQ(test, 0, kvt_replay_extent(r->replay, &end));
		KUNIT_EXPECT_EQ(test, 0, kvt_replay_bury(r->replay));
		KUNIT_EXPECT_EQ(test, 0, kt_stat(kt, KVTREE_STAT_VALUES));
		KUNIT_EXPECT_EQ(test, 0, percpu_counter_sum(&r->log->space.live));
		KUNIT_EXPECT_EQ(test, 0, kvt_quota_bytes(&r->quota));
	}
}

/* The attaching process is killed: nothing was removed, and nothing is lost. */
static void a_fatal_signal_ends_the_removal_of_tombstones(struct kunit *test)
{
	static const struct ld_record removal = { "x", 50, NULL };
	struct kt *kt = kt_open(test);
	struct replayed *r = replayed_new(test, kt);
	struct kvt_log_extent extent;
	struct ld *ld = ld_new(test, 1);
	char value[20] = "";

	ld_add_extent(ld, 0, 1, &removal, 1, &extent);
	KUNIT_ASSERT_EQ(test, 0, kvt_log_set_load(&ld->set));
	ld->set.version_end = KVT_LOG_NUMBER_MAX;
	r->replay->reader.set = &ld->set;
	KUNIT_EXPECT_EQ(test, 0, kvt_replay_extent(r->replay, &extent));
	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	KUNIT_EXPECT_EQ(test, -EINTR, kvt_replay_bury(r->replay));
	flush_signals(current);
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_NE(test, 0, replayed_get(kt, "x", value, sizeof(value)));
	KUNIT_EXPECT_EQ(test, 0, kvt_replay_bury(r->replay));
	KUNIT_EXPECT_EQ(test, 0, replayed_get(kt, "x", value, sizeof(value)));
}

/*
 * A restore.  A thread of its own walks the log; the workers that read extents are held
 * there.
 */
struct restoring {
	struct kvt_life *life;
	struct kvt_log *log;
	struct kt *kt;
	struct ld *ld;
	struct kt_thread thread;	/* while there is no task, nothing is held */
	struct completion more;		/* the others read */
	struct completion held;		/* the reader of @held_block waits */
	u64 held_block;
	u64 last_segment;		/* first block of the last segment to visit */
	u64 values;			/* values to be replayed before it; 0: read no extent */
	bool visits_last;
};

static struct restoring *restoring;

/* The thread has reached the last segment. */
static void restoring_visits_last(struct restoring *r)
{
	unsigned int i;

	if (r->values)
		complete_all(&r->more);
	for (i = 0; i < KT_TURNS_MAX && kt_stat(r->kt, KVTREE_STAT_VALUES) < r->values; i++)
		schedule_timeout_uninterruptible(1);
	WRITE_ONCE(r->visits_last, true);
}

static int restoring_read(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	struct restoring *r = restoring;
	struct kvt_log_set *disks = &r->ld->set;

	if (current == r->thread.task) {
		if (block == r->last_segment)
			restoring_visits_last(r);
	} else if (r->thread.task) {
		wait_for_completion(block == r->held_block ? &r->held : &r->more);
	}
	return disks->read(disks, slot, block, nr, buf);
}

static void restoring_say(struct kvt_log_set *set, const char *text)
{
}

static void restoring_free(void *arg)
{
	struct restoring *r = arg;

	kvt_log_set_free(&r->log->devs.set);
	kvt_log_queues_exit(r->log);
	kvfree(r->log->space.part[0].segs.seg);
	restoring = NULL;
}

static struct restoring *restoring_new(struct kunit *test, struct kt *kt)
{
	struct restoring *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct kvt_seg_table *segs;
	struct kvt_log *log;

	KUNIT_ASSERT_NOT_NULL(test, r);
	r->life = replayed_new(test, kt)->life;
	log = &r->life->checkpoints.commits.log;
	r->log = log;
	r->kt = kt;
	r->ld = ld_new(test, 1);
	init_completion(&r->more);
	init_completion(&r->held);
	restoring = r;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, restoring_free, r));
	log->state.env.name = "test";
	log->devs.set.read = restoring_read;
	log->devs.set.say = restoring_say;
	log->devs.set.nr_given = 1;
	log->devs.set.size[0] = LD_BLOCKS;
	segs = &log->space.part[0].segs;
	spin_lock_init(&segs->lock);
	segs->nr = LD_SEGMENTS;
	segs->nr_free = LD_SEGMENTS;
	segs->seg = kvcalloc(LD_SEGMENTS, sizeof(*segs->seg), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, segs->seg);
	KUNIT_ASSERT_EQ(test, 0, kvt_log_queues_init(log));
	return r;
}

/* The beginning of the present segment of extents, the last one. */
static u64 restoring_segment(const struct restoring *r)
{
	struct kvt_log_pos pos = r->ld->stream[0];

	pos.block = 0;
	return kvt_log_pos_block(r->ld->super[0], &pos);
}

static int restoring_run(void *arg)
{
	allow_signal(SIGKILL);
	return kvt_life_restore(arg);
}

/* Whether the thread waits for the workers, or has ended before they have. */
static bool restoring_waits(struct restoring *r)
{
	return completion_done(&r->thread.done) ||
	       (READ_ONCE(r->visits_last) && !task_is_running(r->thread.task));
}

/* Start the thread, and wait until it waits for the workers; it must not end before they do. */
static void restoring_start(struct restoring *r)
{
	struct kunit *test = r->ld->test;
	unsigned int i;

	r->last_segment = restoring_segment(r);
	KUNIT_ASSERT_EQ(test, 0, kvt_log_set_load(&r->log->devs.set));
	KUNIT_ASSERT_EQ(test, 0, kvt_log_find(&r->log->devs.set, &r->life->found));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&r->thread, 0, restoring_run, r->life));
	kt_thread_start(&r->thread);
	for (i = 0; i < KT_TURNS_MAX && !restoring_waits(r); i++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE_MSG(test, restoring_waits(r), "state %x, it has %s the last segment",
			      READ_ONCE(r->thread.task->__state),
			      READ_ONCE(r->visits_last) ? "visited" : "not visited");
	KUNIT_EXPECT_FALSE(test, completion_done(&r->thread.done));
}

static int restoring_end(struct restoring *r)
{
	complete_all(&r->more);
	complete_all(&r->held);
	return kt_thread_join(&r->thread);
}

/* Far more than there are workers, and fewer than the queue's limit. */
#define RESTORED	60

/* Start a restore, until all is found and the workers have read nothing. */
static struct restoring *restoring_found(struct kunit *test, struct kt *kt)
{
	struct restoring *r = restoring_new(test, kt);
	struct ld_record record = { .value = "v" };
	struct kvt_log_extent *e;
	char name[8];
	u32 i;

	e = kunit_kcalloc(test, RESTORED, sizeof(*e), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, e);
	for (i = 0; i < RESTORED; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		record.key = name;
		record.version = i + 1;
		ld_add_extent(r->ld, 0, 1, &record, 1, &e[i]);
	}
	ld_add_trailer(r->ld, 0, 1, e, RESTORED);
	restoring_start(r);
	return r;
}

static void a_restore_ends_when_all_that_it_has_found_is_replayed(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	struct restoring *r = restoring_found(test, kt);

	KUNIT_EXPECT_EQ(test, 0, restoring_end(r));
	KUNIT_EXPECT_EQ(test, RESTORED, kt_stat(kt, KVTREE_STAT_VALUES));
}

/* It waits for the workers to complete their current extents, and what is queued is dropped. */
static void a_fatal_signal_ends_a_restore_that_has_found_all(struct kunit *test)
{
	struct kt *kt = kt_open(test);
	struct restoring *r = restoring_found(test, kt);
	unsigned int i;

	send_sig(SIGKILL, r->thread.task, 1);
	/* From now on no signal ends the wait. */
	for (i = 0; i < KT_TURNS_MAX; i++) {
		if (READ_ONCE(r->thread.task->__state) == TASK_UNINTERRUPTIBLE)
			break;
		schedule_timeout_uninterruptible(1);
	}
	KUNIT_EXPECT_EQ(test, -EINTR, restoring_end(r));
	KUNIT_EXPECT_LT(test, kt_stat(kt, KVTREE_STAT_VALUES), RESTORED);
}

/* Records of an extent; several have more bytes than a restore leaves. */
#define REMOVED		80
#define REMOVALS	3

/* Extents that remove keys; the first of them is "x". */
static void add_removals(struct ld *ld, struct kvt_log_extent *extents)
{
	struct ld_record *records;
	char (*name)[16];
	u32 i, j;

	records = kunit_kcalloc(ld->test, REMOVED, sizeof(*records), GFP_KERNEL);
	name = kunit_kcalloc(ld->test, REMOVED, sizeof(*name), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(ld->test, records && name);
	for (i = 0; i < REMOVALS; i++) {
		for (j = 0; j < REMOVED; j++) {
			snprintf(name[j], sizeof(name[j]), i || j ? "removed %u %u" : "x", i, j);
			records[j] = (struct ld_record) { name[j], 20, NULL };
		}
		ld_add_extent(ld, 0, 1, records, REMOVED, &extents[i]);
	}
}

/* Write further extents to another segment. */
static void ld_next_segment(struct ld *ld)
{
	struct kvt_log_pos pos = { .sequence = LD_AHEAD + 2, .segment = LD_AHEAD + 1 };
	u64 block = kvt_log_pos_block(ld->super[0], &pos);

	kvt_log_segment_fill((void *)ld_block(ld, 0, block), ld->super[0], LD_GENERATION, &pos,
			     KVTREE_LOG_KIND_STREAM, 0);
	pos.block = 1;
	ld->stream[0] = pos;
}

/*
 * A worker is held with a put that was later removed in the same epoch.  The others have replayed
 * the removals, so many that tombstones are removed at the end of the next epoch.
 */
static void tombstones_stay_while_older_records_are_replayed(struct kunit *test)
{
	static const struct ld_record old = { "x", 10, "old" }, last = { "z", 30, "last" };
	struct kt *kt = kt_open(test);
	struct restoring *r = restoring_new(test, kt);
	struct kvt_log_extent e[1 + REMOVALS], next;
	char value[20] = "";

	ld_add_extent(r->ld, 0, 1, &old, 1, &e[0]);
	r->held_block = kvt_log_pos_block(r->ld->super[0], &e[0].pos);
	add_removals(r->ld, &e[1]);
	ld_add_trailer(r->ld, 0, 1, e, ARRAY_SIZE(e));
	ld_next_segment(r->ld);
	ld_add_extent(r->ld, 0, 2, &last, 1, &next);
	ld_add_trailer(r->ld, 0, 2, &next, 1);
	r->values = REMOVED * REMOVALS;
	restoring_start(r);
	KUNIT_EXPECT_EQ(test, 0, restoring_end(r));
	KUNIT_EXPECT_EQ(test, 0, replayed_get(kt, "x", value, sizeof(value)));
	KUNIT_EXPECT_EQ(test, 30, replayed_get(kt, "z", value, sizeof(value)));
	KUNIT_EXPECT_EQ(test, 1, kt_stat(kt, KVTREE_STAT_VALUES));
}

KT_ENGINES();

static struct kunit_case log_cases[] = {
	KUNIT_CASE(plain_values_come_back_as_they_were),
	KUNIT_CASE(columns_come_back_as_they_were),
	KUNIT_CASE(records_beyond_the_limits_are_refused),
	KUNIT_CASE(a_value_beyond_the_limit_is_refused),
	KUNIT_CASE(columns_beyond_the_limits_are_refused),
	KUNIT_CASE(disks_are_read_epoch_by_epoch),
	KUNIT_CASE(an_epoch_counts_only_if_it_is_complete),
	KUNIT_CASE(the_last_epoch_is_dropped_if_a_part_of_it_is_missing),
	KUNIT_CASE(a_type_that_is_damaged_is_not_a_newer_format),
	KUNIT_CASE(an_epoch_before_the_last_two_is_damaged_and_not_dropped),
	KUNIT_CASE(a_part_of_a_commit_record_proves_the_epoch_before),
	KUNIT_CASE(a_part_of_a_commit_record_proves_the_epoch_on_all_disks),
	KUNIT_CASE(an_epoch_before_an_empty_one_is_damaged_and_not_dropped),
	KUNIT_CASE(an_epoch_counts_when_all_disks_have_it),
	KUNIT_CASE(an_epoch_counts_when_all_disks_of_it_have_it),
	KUNIT_CASE(the_last_epoch_may_be_on_one_disk),
	KUNIT_CASE(a_commit_record_that_others_prove_is_not_dropped),
	KUNIT_CASE(only_disks_of_an_epoch_have_to_be_readable),
	KUNIT_CASE(a_disk_without_epochs_needs_no_segment),
	KUNIT_CASE(commit_records_name_the_same_disks),
	KUNIT_CASE(a_life_goes_on_in_the_next_segment),
	KUNIT_CASE(recovery_requires_all_that_was_durable_at_a_checkpoint),
	KUNIT_CASE(an_epoch_that_was_carried_must_exist),
	KUNIT_CASE(a_life_begins_behind_the_checkpoint),
	KUNIT_CASE(what_a_checkpoint_has_met_is_where_until_begins),
	KUNIT_CASE(what_cannot_be_read_is_an_error_and_not_an_end),
	KUNIT_CASE(read_errors_name_the_epoch),
	KUNIT_CASE(a_disk_has_no_more_records_than_room),
	KUNIT_CASE(only_what_is_needed_has_to_be_readable),
	KUNIT_CASE(a_bad_sector_in_an_empty_commit_segment_does_no_harm),
	KUNIT_CASE(a_copy_that_cannot_be_read_is_an_error_if_the_other_is_wrong),
	KUNIT_CASE(one_copy_of_the_superblock_is_enough),
	KUNIT_CASE(opposite_copies_of_a_superblock_are_enough),
	KUNIT_CASE(superblocks_of_different_changes_are_not_mixed),
	KUNIT_CASE(numbers_at_their_maximum_are_refused),
	KUNIT_CASE(more_segments_than_a_device_may_have_are_refused),
	KT_CASE(the_newest_version_stays_in_whatever_order_records_come),
	KT_CASE(a_fatal_signal_ends_the_removal_of_tombstones),
	KT_CASE(a_restore_ends_when_all_that_it_has_found_is_replayed),
	KT_CASE(a_fatal_signal_ends_a_restore_that_has_found_all),
	KT_CASE(tombstones_stay_while_older_records_are_replayed),
	{}
};

static struct kunit_suite log_suite = {
	.name = "kvtree_log",
	.test_cases = log_cases,
};

kunit_test_suite(log_suite);
