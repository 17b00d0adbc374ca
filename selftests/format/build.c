// SPDX-License-Identifier: GPL-2.0
/* Disks with ranges: see build.h. */
#include "build.h"
#include "mutate.h"

#define SEGMENTS	KVTREE_LOG_SEGMENTS_MIN
#define SEGMENT_BLOCKS	KVTREE_LOG_SEGMENT_MIN
#define BLOCKS		(KVTREE_LOG_DATA_START + SEGMENTS * SEGMENT_BLOCKS)
#define CHUNK_BYTES	((size_t)KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK)
/* Larger chunks are written before the next piece. */
#define CHUNK_FULL	(24u << 10)
#define INSIDE_MAX	2048u

static void build_super(struct kvtree_log_super *super, u32 dev, u32 nr, u64 seed)
{
	u32 i;

	super->magic = cpu_to_le64(KVTREE_LOG_SUPER_MAGIC);
	super->version = cpu_to_le32(KVTREE_LOG_VERSION);
	super->incompat = cpu_to_le64(KVTREE_LOG_RANGES);
	for (i = 0; i < sizeof(super->uuid); i++)
		super->uuid[i] = (u8)(fmt_random(&seed) >> 40);
	super->dev_index = cpu_to_le32(dev);
	super->nr_devs = cpu_to_le32(nr);
	super->nr_blocks = cpu_to_le64(BLOCKS);
	super->segment_blocks = cpu_to_le32(SEGMENT_BLOCKS);
	super->nr_segments = cpu_to_le32(SEGMENTS);
	super->write_id = cpu_to_le64(fmt_random(&seed));
}

static void chunk_begin(struct fmt_chunk *chunk)
{
	chunk->len = sizeof(struct kvtree_log_chunk);
	chunk->outside_len = 0;
	chunk->records = 0;
	chunk->pieces = 0;
}

void fmt_build_begin(struct fmt_build *build, struct fmt_disks *disks, u32 nr, u64 seed)
{
	u32 i;

	memset(build, 0, sizeof(*build));
	fmt_disks_make(disks, nr, BLOCKS);
	build->disks = disks;
	build->generation = 1;
	build->sequence = seed >> 16;
	for (i = 0; i < nr; i++) {
		struct fmt_build_dev *dev = &build->dev[i];

		build_super(&dev->super, i, nr, seed);
		dev->next.segment = (u32)(seed + i) % SEGMENTS;
		dev->chunk.data = fmt_alloc(NULL, CHUNK_BYTES);
		dev->chunk.outside = fmt_alloc(NULL, CHUNK_BYTES);
		chunk_begin(&dev->chunk);
	}
}

void fmt_build_life(struct fmt_build *build)
{
	u32 i;

	build->generation++;
	for (i = 0; i < build->disks->nr; i++)
		build->dev[i].next.block = 0;
}

static void build_write(struct fmt_build *build, u32 dev, const struct kvt_log_pos *pos,
			const void *data, size_t len)
{
	u64 block = kvt_log_pos_block(&build->dev[dev].super, pos);

	memcpy(fmt_block(build->disks, dev, block), data, len);
	memset(build->disks->written[dev] + block, 1, DIV_ROUND_UP(len, KVTREE_LOG_BLOCK));
}

/* Room for blocks, in the present segment or the next. */
static struct kvt_log_pos build_place(struct fmt_build *build, u32 dev, u32 blocks)
{
	struct kvt_log_pos *next = &build->dev[dev].next, pos;
	struct kvtree_log_segment head;

	if (!next->block || next->block + blocks > SEGMENT_BLOCKS) {
		next->segment = (next->segment + 1) % SEGMENTS;
		next->block = 0;
		next->sequence = ++build->sequence;
		kvt_log_segment_fill(&head, &build->dev[dev].super, build->generation, next,
				     KVTREE_LOG_KIND_CHECKPOINT, 0);
		build_write(build, dev, next, &head, sizeof(head));
		next->block = 1;
	}
	pos = *next;
	next->block += blocks;
	return pos;
}

void fmt_build_piece(struct fmt_build *build, struct kvt_log_piece *piece)
{
	struct fmt_chunk *chunk = &build->dev[piece->dev].chunk;

	if (chunk->len + chunk->outside_len > CHUNK_FULL || chunk->pieces == FMT_CHUNK_PIECES)
		fmt_build_flush(build, false);
	chunk->piece[chunk->pieces++] = piece;
	piece->generation = build->generation;
	piece->offset = chunk->len;
	piece->outside = chunk->outside_len;
}

void fmt_build_piece_end(struct fmt_build *build, struct kvt_log_piece *piece)
{
	const struct fmt_chunk *chunk = &build->dev[piece->dev].chunk;

	piece->len = chunk->len - piece->offset;
	piece->outside_len = chunk->outside_len - piece->outside;
}

static void put_zeros(u8 *to, u32 *len)
{
	while (*len % 8)
		to[(*len)++] = 0;
}

static void put_columns(struct fmt_chunk *chunk, const struct kvt_log_entry *entry)
{
	struct kvtree_log_column col;
	u32 i;

	for (i = 0; i < entry->ncols; i++) {
		col.id = cpu_to_le16(entry->cols[i].id);
		col.flags = cpu_to_le16(entry->cols[i].len > INSIDE_MAX ? KVTREE_LOG_OUTSIDE : 0);
		col.len = cpu_to_le32(entry->cols[i].len);
		memcpy(chunk->data + chunk->len, &col, sizeof(col));
		chunk->len += sizeof(col);
	}
	for (i = 0; i < entry->ncols; i++) {
		bool outside = entry->cols[i].len > INSIDE_MAX;
		u32 *len = outside ? &chunk->outside_len : &chunk->len;
		u8 *to = outside ? chunk->outside : chunk->data;

		memcpy(to + *len, entry->cols[i].data, entry->cols[i].len);
		*len += entry->cols[i].len;
		if (outside)
			put_zeros(to, len);
	}
}

void fmt_build_record(struct fmt_build *build, u32 dev, const struct kvt_log_entry *entry)
{
	struct fmt_chunk *chunk = &build->dev[dev].chunk;
	struct kvtree_log_record record = {
		.type = entry->type,
		.flags = entry->plain ? 0 : KVTREE_LOG_COLUMNS,
		.key_len = cpu_to_le16(entry->key_len),
		.version = cpu_to_le64(entry->version),
		.value = cpu_to_le32(entry->plain ? entry->cols[0].len : entry->ncols),
	};
	u32 begin = chunk->len;

	chunk->len += sizeof(record);
	memcpy(chunk->data + chunk->len, entry->key, entry->key_len);
	chunk->len += entry->key_len;
	if (entry->plain) {
		memcpy(chunk->data + chunk->len, entry->cols[0].data, entry->cols[0].len);
		chunk->len += entry->cols[0].len;
	} else {
		put_columns(chunk, entry);
	}
	put_zeros(chunk->data, &chunk->len);
	record.len = cpu_to_le32(chunk->len - begin);
	memcpy(chunk->data + begin, &record, sizeof(record));
	chunk->records++;
}

/* The chunk's pieces are complete now, but for its place. */
static void seal_pieces(const struct fmt_build_dev *dev, const struct kvt_log_pos *pos,
			u32 outside)
{
	const struct fmt_chunk *chunk = &dev->chunk;
	struct kvt_log_piece *piece;
	u32 i;

	for (i = 0; i < chunk->pieces; i++) {
		piece = chunk->piece[i];
		piece->pos = *pos;
		piece->outside += outside;
		piece->crc = kvt_log_piece_crc_begin(&dev->super, piece);
		piece->crc = kvt_crc32c(piece->crc, chunk->data + piece->offset, piece->len);
		piece->crc = kvt_crc32c(piece->crc, chunk->data + piece->outside,
					piece->outside_len);
	}
}

/* List what was written to a place. */
static void add_extent(struct fmt_build *build, u32 i, const struct kvt_log_pos *pos, u32 blocks)
{
	struct fmt_build_dev *dev = &build->dev[i];
	struct kvtree_log_extent *extent = &dev->extent[dev->extents++];
	const u8 *data = fmt_block(build->disks, i, kvt_log_pos_block(&dev->super, pos));

	kvt_log_pos_store(&extent->pos, pos);
	extent->blocks = cpu_to_le32(blocks);
	extent->crc = cpu_to_le32(kvt_log_crc(&dev->super, build->generation, pos, data,
					      (size_t)blocks * KVTREE_LOG_BLOCK));
}

/* A multiple of the checksum's polynomial: added to a sequence, it changes no checksum. */
#define SAME_CRC	0x105ec76f1ull

void fmt_build_relist(struct fmt_build *build, u32 dev)
{
	const struct kvtree_log_extent *last =
		&build->dev[dev].extent[build->dev[dev].extents - 1];
	struct kvt_log_pos pos = kvt_log_pos_load(&last->pos);

	pos.sequence ^= SAME_CRC;
	add_extent(build, dev, &pos, le32_to_cpu(last->blocks));
}

static void chunk_write(struct fmt_build *build, u32 i, bool directory)
{
	struct fmt_build_dev *dev = &build->dev[i];
	struct fmt_chunk *chunk = &dev->chunk;
	u32 outside = ALIGN(chunk->len, KVTREE_LOG_BLOCK);
	u32 size = outside + ALIGN(chunk->outside_len, KVTREE_LOG_BLOCK);
	u32 blocks = size / KVTREE_LOG_BLOCK;
	struct kvtree_log_chunk head = {
		.magic = cpu_to_le32(KVTREE_LOG_CHUNK_MAGIC),
		.blocks = cpu_to_le32(blocks),
		.records_len = cpu_to_le32(chunk->len),
		.outside_len = cpu_to_le32(chunk->outside_len),
		.epoch = cpu_to_le64(FMT_BUILD_EPOCH),
		.nr_records = cpu_to_le32(chunk->records),
	};
	struct kvt_log_pos pos = build_place(build, i, blocks);

	memcpy(chunk->data, &head, sizeof(head));
	memset(chunk->data + chunk->len, 0, size - chunk->len);
	memcpy(chunk->data + outside, chunk->outside, chunk->outside_len);
	seal_pieces(dev, &pos, outside);
	build_write(build, i, &pos, chunk->data, size);
	if (directory)
		add_extent(build, i, &pos, blocks);
	chunk_begin(chunk);
}

void fmt_build_flush(struct fmt_build *build, bool directory)
{
	u32 i;

	for (i = 0; i < build->disks->nr; i++)
		if (build->dev[i].chunk.records)
			chunk_write(build, i, directory);
}

static void build_table(struct fmt_build *build, u32 i)
{
	struct fmt_build_dev *dev = &build->dev[i];
	struct kvtree_log_checkpoint *cp = &dev->super.checkpoint;
	union {
		struct kvtree_log_table table;
		u8 bytes[KVTREE_LOG_BLOCK];
	} t = { .bytes = { 0 } };
	struct kvt_log_pos pos;

	cp->epoch = cpu_to_le64(FMT_BUILD_EPOCH);
	cp->generation = cpu_to_le64(build->generation);
	if (!dev->extents)
		return;
	pos = build_place(build, i, 1);
	kvt_log_pos_store(&cp->table, &pos);
	cp->blocks = cpu_to_le32(1);
	t.table.magic = cpu_to_le64(KVTREE_LOG_TABLE_MAGIC);
	t.table.blocks = cpu_to_le32(1);
	t.table.epoch = cp->epoch;
	t.table.generation = cp->generation;
	t.table.nr_extents = cpu_to_le64(dev->extents);
	memcpy(t.table.extents, dev->extent, dev->extents * sizeof(dev->extent[0]));
	t.table.crc = cpu_to_le32(kvt_log_crc_zero(&dev->super, build->generation, &pos, &t,
						   sizeof(t),
						   offsetof(struct kvtree_log_table, crc)));
	build_write(build, i, &pos, &t, sizeof(t));
}

void fmt_build_end(struct fmt_build *build, u64 version_lease)
{
	struct kvtree_log_super *super;
	u64 number, block;
	u32 i;

	for (i = 0; i < build->disks->nr; i++) {
		build_table(build, i);
		super = &build->dev[i].super;
		super->generation = cpu_to_le64(build->generation);
		super->version_lease = cpu_to_le64(version_lease);
		for (number = 1; number <= KVTREE_LOG_SUPER_COPIES; number++) {
			super->number = cpu_to_le64(number);
			kvt_log_super_seal(super);
			block = kvt_log_super_block(number);
			memcpy(fmt_block(build->disks, i, block), super, sizeof(*super));
			build->disks->written[i][block] = 1;
		}
		free(build->dev[i].chunk.data);
		free(build->dev[i].chunk.outside);
	}
}
