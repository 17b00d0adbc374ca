// SPDX-License-Identifier: GPL-2.0
/* The directory of a checkpoint: its ranges, and where their pieces are. */
#include "format.h"

/**
 * kvt_log_range_alloc() - make a range
 * @key: the lowest key
 * @key_len: its bytes
 * @nr_pieces: how many pieces it has, KVTREE_LOG_PIECES_MAX at most; they are zeros
 *
 * Return: the range, to be freed with kvt_env_free(); or NULL: no memory.
 */
struct kvt_log_range *kvt_log_range_alloc(const u8 *key, u32 key_len, u32 nr_pieces)
{
	struct kvt_log_range *range;
	size_t size = sizeof(*range) + nr_pieces * sizeof(range->piece[0]);

	range = kvt_env_alloc(size + key_len);
	if (!range)
		return NULL;
	range->key = (u8 *)range + size;
	range->key_len = key_len;
	range->nr_pieces = nr_pieces;
	memcpy(range->key, key, key_len);
	return range;
}
KVT_EXPORT_FOR_TESTS(kvt_log_range_alloc);

/**
 * kvt_log_directory_free() - free a directory's ranges
 * @dir: empty afterwards
 */
void kvt_log_directory_free(struct kvt_log_directory *dir)
{
	u32 i;

	for (i = 0; i < dir->nr; i++) {
		kvt_env_free(dir->range[i]);
		kvt_env_rest();
	}
	kvt_env_free(dir->range);
	*dir = (struct kvt_log_directory) {};
}
KVT_EXPORT_FOR_TESTS(kvt_log_directory_free);

/**
 * kvt_log_directory_find() - find the range of a key
 * @dir: loaded, and not empty
 * @key: the key
 * @len: its bytes
 *
 * Return: its index.
 */
u32 kvt_log_directory_find(const struct kvt_log_directory *dir, const u8 *key, u32 len)
{
	u32 from = 0, to = dir->nr, mid;

	/* Range @from begins at or before the key, range @to after it. */
	while (to - from > 1) {
		mid = from + (to - from) / 2;
		if (kvt_log_key_cmp(dir->range[mid]->key, dir->range[mid]->key_len, key, len) > 0)
			to = mid;
		else
			from = mid;
	}
	return from;
}
KVT_EXPORT_FOR_TESTS(kvt_log_directory_find);

/* Make room for more ranges. */
static int directory_grow(struct kvt_log_directory *dir)
{
	u32 room = max(2 * dir->room, 64U);
	struct kvt_log_range **range = kvt_env_alloc(room * sizeof(*range));

	if (!range)
		return -ENOMEM;
	if (dir->nr)
		memcpy(range, dir->range, dir->nr * sizeof(*range));
	kvt_env_free(dir->range);
	dir->range = range;
	dir->room = room;
	return 0;
}

/**
 * kvt_log_directory_add() - add a range at the end of a directory
 * @dir: the directory
 * @range: what kvt_log_range_alloc() returned, also NULL; freed if it cannot be added
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_directory_add(struct kvt_log_directory *dir, struct kvt_log_range *range)
{
	if (!range || (dir->nr == dir->room && directory_grow(dir))) {
		kvt_env_free(range);
		return -ENOMEM;
	}
	dir->range[dir->nr++] = range;
	return 0;
}

static int range_cmp(const void *a, const void *b)
{
	const struct kvt_log_range *x = *(struct kvt_log_range *const *)a;
	const struct kvt_log_range *y = *(struct kvt_log_range *const *)b;

	kvt_env_rest();
	return kvt_log_key_cmp(x->key, x->key_len, y->key, y->key_len);
}

/**
 * kvt_log_directory_sort() - put the ranges of a directory in ascending order
 * @dir: the directory
 */
void kvt_log_directory_sort(struct kvt_log_directory *dir)
{
	if (dir->nr)
		kvt_env_sort(dir->range, dir->nr, sizeof(*dir->range), range_cmp);
}

/* A directory that is being read. */
struct load {
	struct kvt_log_reader reader;	/* the first member: see load_range() */
	struct kvt_log_directory *dir;
};

static int load_pieces(const struct kvt_log_set *set, struct kvt_log_range *range, const u8 *from)
{
	struct kvtree_log_piece piece;
	u32 i;

	for (i = 0; i < range->nr_pieces; i++) {
		memcpy(&piece, from + i * sizeof(piece), sizeof(piece));
		if (!kvt_log_piece_sane(set, &piece, !i))
			return KVT_LOG_DAMAGED;
		kvt_log_piece_load(&range->piece[i], &piece);
	}
	return KVT_LOG_SOUND;
}

static int load_range(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct load *load = (struct load *)reader;
	struct kvt_log_directory *dir = load->dir;
	u32 nr = entry->cols[0].len / sizeof(struct kvtree_log_piece);
	struct kvt_log_range *range;

	if (!entry->plain || entry->cols[0].len % sizeof(struct kvtree_log_piece) ||
	    nr > KVTREE_LOG_PIECES_MAX || dir->nr == KVTREE_LOG_RANGES_MAX)
		return KVT_LOG_DAMAGED;
	if (kvt_env_killed())
		return -EINTR;
	range = kvt_log_range_alloc(entry->key, entry->key_len, nr);
	if (kvt_log_directory_add(dir, range))
		return -ENOMEM;
	return load_pieces(reader->set, range, entry->cols[0].data);
}

/*
 * Read an extent of a directory.  The header of its segment has one sequence number: so a forged
 * table cannot list the segment again under others, and have ranges loaded without end.
 */
static int load_extent(struct kvt_log_reader *reader, const struct kvt_log_extent *extent,
		       bool first_of_segment)
{
	int verdict = KVT_LOG_SOUND;

	if (first_of_segment)
		verdict = kvt_log_segment_check(reader->set, extent, KVTREE_LOG_KIND_CHECKPOINT);
	return verdict ?: kvt_log_extent_check(reader, extent);
}

static int load_device(struct kvt_log_reader *reader, u32 dev)
{
	struct kvtree_log_table *table;
	struct kvt_log_extent extent;
	u64 sequence = 0;
	int verdict;
	u32 i;

	verdict = kvt_log_table_read(reader->set, dev, &table);
	if (verdict || !table)
		return verdict;
	for (i = 0; !verdict && i < le64_to_cpu(table->nr_extents); i++) {
		kvt_log_table_extent(reader->set, dev, table, i, &extent);
		verdict = load_extent(reader, &extent, !i || extent.pos.sequence != sequence);
		sequence = extent.pos.sequence;
	}
	kvt_env_free(table);
	return verdict;
}

/* Whether each key is in exactly one range. */
static bool directory_sane(const struct kvt_log_directory *dir)
{
	u32 i;

	if (!dir->nr || dir->range[0]->key_len)
		return false;
	for (i = 1; i < dir->nr; i++)
		if (!range_cmp(&dir->range[i - 1], &dir->range[i]))
			return false;
	return true;
}

static int directory_read(struct kvt_log_set *set, struct kvt_log_directory *dir)
{
	struct load *load = kvt_env_alloc(sizeof(*load));
	int verdict;
	u32 dev;

	if (!load)
		return -ENOMEM;
	load->dir = dir;
	load->reader.entry = load_range;
	verdict = kvt_log_reader_init(&load->reader, set);
	for (dev = 0; !verdict && dev < set->nr_devs; dev++)
		verdict = load_device(&load->reader, dev);
	kvt_log_reader_exit(&load->reader);
	kvt_env_free(load);
	return verdict;
}

/**
 * kvt_log_directory_load() - read the directory of a store's checkpoint
 * @set: loaded, of a store that has ranges
 * @dir: empty; kvt_log_directory_free() must follow, whatever is returned
 *
 * The ranges and pieces are checked: they are possible.  The headers of the pieces' segments are
 * not read.
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED or KVT_LOG_NEWER, which was reported; -EIO; -ENOMEM.
 */
int kvt_log_directory_load(struct kvt_log_set *set, struct kvt_log_directory *dir)
{
	int verdict = directory_read(set, dir);

	if (verdict)
		return verdict;
	kvt_log_directory_sort(dir);
	if (directory_sane(dir))
		return KVT_LOG_SOUND;
	kvt_log_say(set, "the ranges of the checkpoint of epoch %llu are wrong",
		    (unsigned long long)le64_to_cpu(set->dev[0].super->checkpoint.epoch));
	return KVT_LOG_DAMAGED;
}
KVT_EXPORT_FOR_TESTS(kvt_log_directory_load);
