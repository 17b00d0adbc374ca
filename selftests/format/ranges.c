// SPDX-License-Identifier: GPL-2.0
/* Ranges with a history: see ranges.h. */
#include "build.h"
#include "mutate.h"
#include "ranges.h"

#define KEYS	64u
#define ROUNDS	14u
#define PIECES	(KEYS * ROUNDS)
#define BITS	(8 * KVTREE_LOG_COVER_BYTES)

const char *const fmt_fault_names[FMT_FAULTS] = {
	[FMT_SOUND] = "nothing",
	[FMT_FIRST_IS_DELTA] = "the first piece is a delta",
	[FMT_SECOND_IS_BASE] = "the second piece is a base",
	[FMT_NO_SUCH_DEVICE] = "no such device",
	[FMT_NO_SUCH_SEGMENT] = "no such segment",
	[FMT_IN_THE_HEADER] = "records in the chunk's header",
	[FMT_BEHIND_THE_SEGMENT] = "records behind the segment",
	[FMT_NOT_ALIGNED] = "records are not aligned",
	[FMT_TOO_LONG] = "records longer than a chunk",
	[FMT_COLUMNS_IN_RECORDS] = "columns outside between records",
	[FMT_COLUMNS_TOO_LONG] = "columns outside behind the chunk",
	[FMT_UNKNOWN_FLAG] = "an unknown flag",
	[FMT_NO_COVER_BITS] = "a delta with no bits",
	[FMT_TOO_MANY_COVER_BITS] = "a delta with too many bits",
	[FMT_COVER_BITS_OF_BASE] = "a base with bits",
	[FMT_OTHER_GENERATION] = "another generation",
	[FMT_OTHER_CHUNK] = "another chunk",
	[FMT_ONE_RECORD_LESS] = "one record less",
	[FMT_RANGE_TWICE] = "a range twice",
	[FMT_NO_FIRST_RANGE] = "no range has the first key",
	[FMT_TOO_MANY_PIECES] = "too many pieces",
	[FMT_HALF_A_PIECE] = "half a piece",
	[FMT_RANGE_WITH_COLUMNS] = "a range with columns",
	[FMT_VALUE_IN_DIRECTORY] = "a value in the directory",
	[FMT_NO_COVER] = "a delta without a cover",
	[FMT_COVER_IN_BASE] = "a base with a cover",
	[FMT_COVER_TWICE] = "a second cover",
	[FMT_COVER_WITH_KEY] = "a cover with a key",
	[FMT_COVER_NOT_ASCENDING] = "a cover that does not ascend",
	[FMT_COVER_TOO_HIGH] = "a cover of bits that do not exist",
	[FMT_COVER_MAP_TOO_HIGH] = "a map of bits that do not exist",
	[FMT_COVER_ODD] = "a cover with half a number",
	[FMT_COVER_TOO_LONG] = "a cover that is too long",
	[FMT_KEY_NOT_COVERED] = "a key that is not covered",
	[FMT_REMOVAL_IN_PIECE] = "a removal in a piece",
};

struct key {
	u8 bytes[32];
	u32 len;
	u32 bit;
	u64 version;
	bool there;
};

struct range {
	u8 low[33];
	u32 low_len;
	u32 from;			/* its first key */
	u32 pieces;
	struct kvt_log_piece *piece[KVTREE_LOG_PIECES_MAX];
	bool mark[BITS];
	bool marked;
};

struct ranges {
	struct fmt_build build;
	u64 row;
	u64 version;
	struct key key[KEYS];
	struct range range[KEYS];
	u32 nr;
	struct kvt_log_piece piece[PIECES];
	u32 pieces;
	enum fmt_fault fault;		/* that is still to be made */
	u8 value[32 << 10];
	struct kvt_log_col cols[4];
};

static bool one_in(struct ranges *r, u32 n)
{
	return !fmt_below(&r->row, n);
}

/* Whether the fault is to be made now: once. */
static bool fault(struct ranges *r, enum fmt_fault fault)
{
	if (r->fault != fault)
		return false;
	r->fault = FMT_SOUND;
	return true;
}

static int key_cmp(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	return kvt_log_key_cmp(x->bytes, x->len, y->bytes, y->len);
}

/* Different ones: each has its number. */
static void keys_make(struct ranges *r)
{
	u32 seed = kvt_log_key_seed(&r->build.dev[0].super), i, j;
	/* They differ only where they end, or already at the beginning. */
	bool alike = one_in(r, 3);

	for (i = 0; i < KEYS; i++) {
		struct key *key = &r->key[i];

		key->len = 2 + fmt_below(&r->row, sizeof(key->bytes) - 2);
		for (j = 0; j < key->len; j++)
			key->bytes[j] = alike ? 127 : (u8)fmt_below(&r->row, 3) * 127;
		key->bytes[alike ? key->len - 1 : 1] = (u8)i;
	}
	qsort(r->key, KEYS, sizeof(r->key[0]), key_cmp);
	for (i = 0; i < KEYS; i++)
		r->key[i].bit = kvt_log_key_hash(seed, r->key[i].bytes, r->key[i].len);
}

/* A key's present value; the same each time. */
static struct kvt_log_entry value_make(struct ranges *r, const struct key *key)
{
	static const u32 lens[] = { 0, 1, 7, 8, 40, 200, 2048, 2049, 5000 };
	struct kvt_log_entry entry = {
		.type = KVTREE_LOG_PUT, .key = key->bytes, .key_len = (u16)key->len,
		.version = key->version, .cols = r->cols,
	};
	u64 row = key->version;
	u32 i, j, at = 0;

	entry.ncols = 1 + fmt_below(&row, FMT_NR(r->cols));
	entry.plain = entry.ncols == 1;
	for (i = 0; i < entry.ncols; i++) {
		struct kvt_log_col *col = &r->cols[i];
		u32 most = fmt_below(&row, 4) ? 5 : FMT_NR(lens);

		col->id = entry.plain ? 0 : (u16)(i * 20 + fmt_below(&row, 20));
		col->len = lens[fmt_below(&row, most)];
		col->data = r->value + at;
		for (j = 0; j < col->len; j++)
			r->value[at + j] = (u8)(key->version + j * j);
		at += col->len;
	}
	return entry;
}

static u32 range_end(const struct ranges *r, u32 i)
{
	return i + 1 < r->nr ? r->range[i + 1].from : KEYS;
}

static struct range *range_of(struct ranges *r, u32 key)
{
	u32 i = 0;

	while (key >= range_end(r, i))
		i++;
	return &r->range[i];
}

static void change_keys(struct ranges *r)
{
	u32 nr = fmt_below(&r->row, KEYS / 2), i;
	struct range *range;
	struct key *key;

	while (nr--) {
		i = fmt_below(&r->row, KEYS);
		key = &r->key[i];
		key->there = !key->there || one_in(r, 2);
		key->version = ++r->version;
		range = range_of(r, i);
		range->mark[key->bit] = true;
		range->marked = true;
	}
}

/* Both then have all pieces, but only their own keys of each. */
static void cut_range(struct ranges *r)
{
	u32 i = fmt_below(&r->row, r->nr), nr = range_end(r, i) - r->range[i].from, at;
	struct range *next;

	if (nr < 2)
		return;
	at = r->range[i].from + 1 + fmt_below(&r->row, nr - 1);
	memmove(&r->range[i + 1], &r->range[i], (r->nr++ - i) * sizeof(r->range[0]));
	next = &r->range[i + 1];
	next->from = at;
	/* From the key on, or from just after the key before it. */
	if (one_in(r, 2)) {
		next->low_len = r->key[at].len;
		memcpy(next->low, r->key[at].bytes, next->low_len);
		return;
	}
	next->low_len = r->key[at - 1].len + 1;
	memcpy(next->low, r->key[at - 1].bytes, next->low_len);
	next->low[next->low_len - 1] = 0;
}

static void join_range(struct ranges *r, u32 i)
{
	r->nr--;
	memmove(&r->range[i + 1], &r->range[i + 2], (r->nr - i - 1) * sizeof(r->range[0]));
}

static struct kvt_log_piece *piece_begin(struct ranges *r, struct range *range)
{
	struct kvt_log_piece *piece = &r->piece[r->pieces++];

	piece->dev = fmt_below(&r->row, r->build.disks->nr);
	fmt_build_piece(&r->build, piece);
	range->piece[range->pieces++] = piece;
	return piece;
}

/* The keys of a range that exist, and of @cover if that is not NULL. */
static void put_values(struct ranges *r, u32 i, struct kvt_log_piece *piece, const bool *cover)
{
	const u32 mask = (1u << piece->cover_bits) - 1;
	struct kvt_log_entry entry;
	u32 k;

	for (k = r->range[i].from; k < range_end(r, i); k++) {
		if (!r->key[k].there)
			continue;
		if (cover && !cover[r->key[k].bit & mask] && !fault(r, FMT_KEY_NOT_COVERED))
			continue;
		entry = value_make(r, &r->key[k]);
		if (fault(r, FMT_REMOVAL_IN_PIECE))
			entry.type = KVTREE_LOG_REMOVE;
		fmt_build_record(&r->build, piece->dev, &entry);
		piece->records++;
	}
}

static void put_special(struct ranges *r, u32 dev, u8 type, const void *value, u32 len)
{
	struct kvt_log_col col = { .len = len, .data = value };
	struct kvt_log_entry entry = {
		.type = type, .key = (const u8 *)"key", .version = 1, .plain = true, .ncols = 1,
		.cols = &col,
	};

	if (fault(r, FMT_COVER_WITH_KEY))
		entry.key_len = 3;
	fmt_build_record(&r->build, dev, &entry);
}

static void put_cover_map(struct ranges *r, struct kvt_log_piece *piece, const bool *cover)
{
	u8 map[KVTREE_LOG_COVER_BYTES] = { 0 };
	u32 i;

	for (i = 0; i < 1u << piece->cover_bits; i++)
		map[i / 8] |= (u8)(cover[i] << i % 8);
	if (piece->cover_bits < KVTREE_LOG_COVER_BITS && fault(r, FMT_COVER_MAP_TOO_HIGH))
		map[sizeof(map) - 1] |= 0x80;
	put_special(r, piece->dev, KVTREE_LOG_COVER, map, sizeof(map));
}

static void put_cover_list(struct ranges *r, struct kvt_log_piece *piece, const bool *cover)
{
	__le16 list[KVTREE_LOG_COVER_BYTES];
	u32 i, nr = 0;

	for (i = 0; i < 1u << piece->cover_bits; i++)
		if (cover[i])
			list[nr++] = cpu_to_le16((u16)i);
	if (fault(r, FMT_COVER_NOT_ASCENDING))
		list[nr++] = list[0];
	else if (fault(r, FMT_COVER_TOO_HIGH))
		list[nr++] = cpu_to_le16((u16)(1u << piece->cover_bits));
	put_special(r, piece->dev, KVTREE_LOG_COVER, list,
		    nr * (u32)sizeof(list[0]) - fault(r, FMT_COVER_ODD));
}

static void put_cover(struct ranges *r, struct kvt_log_piece *piece, const bool *cover)
{
	static const u8 zeros[KVTREE_LOG_COVER_BYTES + 2];
	u32 i, nr = 0;

	for (i = 0; i < 1u << piece->cover_bits; i++)
		nr += cover[i];
	if (fault(r, FMT_NO_COVER))
		return;
	if (fault(r, FMT_COVER_TOO_LONG))
		put_special(r, piece->dev, KVTREE_LOG_COVER, zeros, sizeof(zeros));
	else if (nr * sizeof(__le16) >= KVTREE_LOG_COVER_BYTES || one_in(r, 3))
		put_cover_map(r, piece, cover);
	else
		put_cover_list(r, piece, cover);
	if (fault(r, FMT_COVER_TWICE))
		put_special(r, piece->dev, KVTREE_LOG_COVER, "", 0);
}

static void write_delta(struct ranges *r, u32 i)
{
	static const u8 bits[] = { 12, 12, 12, 8, 5, 3, 2, 1 };
	struct range *range = &r->range[i];
	struct kvt_log_piece *piece = piece_begin(r, range);
	bool cover[BITS] = { false };
	u32 bit, mask;

	piece->delta = true;
	piece->cover_bits = bits[fmt_below(&r->row, sizeof(bits))];
	mask = (1u << piece->cover_bits) - 1;
	for (bit = 0; bit < BITS; bit++)
		cover[bit & mask] |= range->mark[bit];
	/* More is right as well. */
	while (one_in(r, 2))
		cover[fmt_below(&r->row, mask + 1)] = true;
	put_cover(r, piece, cover);
	put_values(r, i, piece, cover);
	fmt_build_piece_end(&r->build, piece);
}

static void unmark(struct range *range)
{
	range->marked = false;
	memset(range->mark, 0, sizeof(range->mark));
}

static void write_base(struct ranges *r, u32 i)
{
	struct range *range = &r->range[i];
	struct kvt_log_piece *piece;
	u32 k, nr = 0;

	for (k = range->from; k < range_end(r, i); k++)
		nr += r->key[k].there;
	range->pieces = 0;
	if (!nr)
		return;
	piece = piece_begin(r, range);
	if (fault(r, FMT_COVER_IN_BASE))
		put_special(r, piece->dev, KVTREE_LOG_COVER, "", 0);
	put_values(r, i, piece, NULL);
	fmt_build_piece_end(&r->build, piece);
}

static void write_range(struct ranges *r, u32 i)
{
	struct range *range = &r->range[i];

	if (!range->marked && !one_in(r, 16))
		return;
	if (!range->marked || !range->pieces || range->pieces == KVTREE_LOG_PIECES_MAX ||
	    one_in(r, 8)) {
		if (i + 1 < r->nr && one_in(r, 4))
			join_range(r, i);
		write_base(r, i);
	} else {
		write_delta(r, i);
	}
	unmark(range);
}

static void write_round(struct ranges *r)
{
	u32 i;

	change_keys(r);
	while (one_in(r, 2))
		cut_range(r);
	for (i = 0; i < r->nr; i++)
		write_range(r, i);
	fmt_build_flush(&r->build, false);
	if (one_in(r, 2))
		fmt_build_life(&r->build);
}

/* All that there is, in order. */
static void write_all(struct ranges *r)
{
	u32 i;

	for (i = 0; i < r->nr; i++) {
		write_base(r, i);
		unmark(&r->range[i]);
	}
	fmt_build_flush(&r->build, false);
}

static void fault_delta(struct ranges *r, struct kvtree_log_piece *raw)
{
	if (fault(r, FMT_NO_COVER_BITS))
		raw->cover_bits = 0;
	else if (fault(r, FMT_TOO_MANY_COVER_BITS))
		raw->cover_bits = KVTREE_LOG_COVER_BITS + 1;
}

static void fault_outside(struct ranges *r, struct kvtree_log_piece *raw)
{
	if (fault(r, FMT_COLUMNS_IN_RECORDS))
		raw->outside = raw->offset;
	else if (fault(r, FMT_COLUMNS_TOO_LONG))
		raw->outside_len = cpu_to_le32(KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK);
}

static void fault_piece(struct ranges *r, struct kvtree_log_piece *raw)
{
	if (raw->flags & KVTREE_LOG_PIECE_DELTA)
		fault_delta(r, raw);
	else if (fault(r, FMT_COVER_BITS_OF_BASE))
		raw->cover_bits = 1;
	if (raw->outside_len)
		fault_outside(r, raw);
	if (fault(r, FMT_NO_SUCH_DEVICE))
		raw->dev = (u8)r->build.disks->nr;
	else if (fault(r, FMT_NO_SUCH_SEGMENT))
		raw->pos.segment = r->build.dev[raw->dev].super.nr_segments;
	else if (fault(r, FMT_IN_THE_HEADER))
		raw->offset = cpu_to_le32(sizeof(struct kvtree_log_chunk) - 8);
	else if (fault(r, FMT_BEHIND_THE_SEGMENT))
		raw->pos.block = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN - 1);
	else if (fault(r, FMT_NOT_ALIGNED))
		raw->offset = cpu_to_le32(le32_to_cpu(raw->offset) + 1);
	else if (fault(r, FMT_TOO_LONG))
		raw->len = cpu_to_le32(KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK);
	else if (fault(r, FMT_UNKNOWN_FLAG))
		raw->flags |= KVTREE_LOG_PIECE_DELTA << 1;
	else if (fault(r, FMT_OTHER_GENERATION))
		raw->generation = cpu_to_le64(le64_to_cpu(raw->generation) + 1);
	else if (fault(r, FMT_OTHER_CHUNK))
		raw->pos.block = cpu_to_le32(le32_to_cpu(raw->pos.block) + 1);
	else if (fault(r, FMT_ONE_RECORD_LESS))
		raw->records = cpu_to_le32(le32_to_cpu(raw->records) - 1);
}

static void fault_pieces(struct ranges *r, struct kvtree_log_piece *raw, u32 *nr)
{
	if (*nr > 1 && fault(r, FMT_FIRST_IS_DELTA))
		memmove(raw, raw + 1, --*nr * sizeof(*raw));
	else if (*nr > 1 && fault(r, FMT_SECOND_IS_BASE))
		raw[1] = raw[0];
	else if (*nr > 1 && fault(r, FMT_TOO_MANY_PIECES))
		while (*nr <= KVTREE_LOG_PIECES_MAX)
			raw[(*nr)++] = raw[1];
}

static void put_range(struct ranges *r, u32 dev, const struct range *range)
{
	struct kvtree_log_piece raw[KVTREE_LOG_PIECES_MAX + 1];
	struct kvt_log_col col = { .data = (const u8 *)raw };
	struct kvt_log_entry entry = {
		.type = KVTREE_LOG_RANGE, .key = range->low, .key_len = (u16)range->low_len,
		.version = 1, .plain = true, .ncols = 1, .cols = &col,
	};
	u32 i, nr = range->pieces;

	for (i = 0; i < nr; i++) {
		kvt_log_piece_store(&raw[i], range->piece[i]);
		fault_piece(r, &raw[i]);
	}
	fault_pieces(r, raw, &nr);
	col.len = nr * (u32)sizeof(raw[0]);
	if (nr && fault(r, FMT_HALF_A_PIECE))
		col.len -= sizeof(raw[0]) / 2;
	else if (fault(r, FMT_VALUE_IN_DIRECTORY))
		entry.type = KVTREE_LOG_PUT;
	else if (nr && fault(r, FMT_RANGE_WITH_COLUMNS))
		entry.plain = false;
	fmt_build_record(&r->build, dev, &entry);
}

/* In any order, and on any device. */
static void put_directory(struct ranges *r)
{
	bool done[KEYS] = { false };
	u32 left = r->nr, i;

	if (r->nr > 1 && fault(r, FMT_NO_FIRST_RANGE)) {
		done[0] = true;
		left--;
	}
	while (left) {
		i = fmt_below(&r->row, r->nr);
		if (done[i])
			continue;
		put_range(r, fmt_below(&r->row, r->build.disks->nr), &r->range[i]);
		if (fault(r, FMT_RANGE_TWICE))
			continue;
		done[i] = true;
		left--;
		if (one_in(r, 4))
			fmt_build_flush(&r->build, true);
	}
	fmt_build_flush(&r->build, true);
}

static void fill_want(struct ranges *r, struct fmt_state *want)
{
	struct kvt_log_entry entry;
	u32 k;

	fmt_state_begin(want);
	want->found.epoch = FMT_BUILD_EPOCH;
	want->found.version_lease = r->version + 2;
	for (k = 0; k < KEYS; k++) {
		if (!r->key[k].there)
			continue;
		entry = value_make(r, &r->key[k]);
		fmt_state_put(want, &entry, false);
	}
	fmt_state_finish(want, false);
}

bool fmt_ranges_make(struct fmt_disks *disks, u64 seed, enum fmt_fault fault,
		     struct fmt_state *want)
{
	struct ranges *r = fmt_alloc(NULL, sizeof(*r));
	bool made;
	u32 rounds;

	memset(r, 0, sizeof(*r));
	r->row = seed;
	fmt_build_begin(&r->build, disks, 1 + fmt_below(&r->row, 3), fmt_random(&r->row));
	keys_make(r);
	r->nr = 1;
	for (rounds = fmt_below(&r->row, ROUNDS); rounds--;) {
		/* The last write counts. */
		r->fault = rounds ? FMT_SOUND : fault;
		write_round(r);
		if (r->fault == FMT_SOUND && fault == FMT_SOUND && one_in(r, 4))
			write_all(r);
	}
	put_directory(r);
	fill_want(r, want);
	fmt_build_end(&r->build, r->version + 2);
	made = fault == FMT_SOUND || (r->version && r->fault == FMT_SOUND);
	free(r);
	return made;
}

u64 fmt_ranges_find(struct fmt_disks *disks, u32 nr, u64 seed, struct fmt_state *want)
{
	fmt_ranges_make(disks, seed, FMT_SOUND, want);
	while (disks->nr != nr || !want->nr) {
		fmt_disks_free(disks);
		fmt_ranges_make(disks, ++seed, FMT_SOUND, want);
	}
	return seed;
}

/* So often 3 MiB do not fit on a disk. */
#define REPEATED	80u

void fmt_ranges_make_repeated(struct fmt_disks *disks)
{
	struct ranges *r = fmt_alloc(NULL, sizeof(*r));
	u32 len = KVTREE_VALUE_MAX, i;
	struct kvt_log_col col = { .len = len, .data = fmt_alloc(NULL, len) };
	struct kvt_log_entry entry = {
		.type = KVTREE_LOG_PUT, .version = 1, .plain = true, .ncols = 1, .cols = &col,
		.key = (const u8 *)"abc",
	};
	struct kvt_log_piece *piece = &r->piece[0];

	memset(r, 0, sizeof(*r));
	memset((u8 *)col.data, 'x', len);
	fmt_build_begin(&r->build, disks, 1, 1);
	fmt_build_piece(&r->build, piece);
	while (piece->records++ < 3) {
		entry.key_len = (u16)piece->records;
		fmt_build_record(&r->build, 0, &entry);
	}
	piece->records--;
	fmt_build_piece_end(&r->build, piece);
	fmt_build_flush(&r->build, false);
	for (i = 0; i < REPEATED; i++) {
		struct range *range = &r->range[0];

		range->low[0] = (u8)i;
		range->low_len = !!i;
		range->pieces = 1;
		range->piece[0] = piece;
		put_range(r, 0, range);
	}
	fmt_build_flush(&r->build, true);
	fmt_build_end(&r->build, 2);
	free((void *)col.data);
	free(r);
}

void fmt_ranges_make_relisted(struct fmt_disks *disks)
{
	struct ranges *r = fmt_alloc(NULL, sizeof(*r));

	memset(r, 0, sizeof(*r));
	fmt_build_begin(&r->build, disks, 1, 1);
	put_range(r, 0, &r->range[0]);
	fmt_build_flush(&r->build, true);
	fmt_build_relist(&r->build, 0);
	fmt_build_end(&r->build, 2);
	free(r);
}
