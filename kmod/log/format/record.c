// SPDX-License-Identifier: GPL-2.0
/* Records, as they are read out of a chunk. */
#include "format.h"

/* A chunk that is being read. */
struct chunk {
	struct kvt_log_reader *reader;
	const u8 *data;
	u32 at;			/* the next record */
	u32 records_end;
	u32 outside;		/* the next column outside */
	u32 outside_end;
};

/* The data of a column that stands outside of its record. */
static const u8 *chunk_outside(struct chunk *chunk, u32 len)
{
	u32 size = ALIGN(len, 8);
	const u8 *data = chunk->data + chunk->outside;

	if (len > KVTREE_VALUE_MAX || size > chunk->outside_end - chunk->outside)
		return NULL;
	chunk->outside += size;
	return data;
}

/* The columns of a record: a table at @at, not aligned, then data, up to @end. */
static int chunk_columns(struct chunk *chunk, struct kvt_log_entry *entry, u32 at, u32 end)
{
	struct kvtree_log_column raw;
	u32 i, len, id, data;
	u64 total = 0;

	if (entry->ncols > KVTREE_COLS_MAX ||
	    entry->ncols * sizeof(raw) > end - at)
		return KVT_LOG_DAMAGED;
	data = at + entry->ncols * sizeof(raw);
	for (i = 0; i < entry->ncols; i++) {
		struct kvt_log_col *col = &entry->cols[i];

		memcpy(&raw, chunk->data + at + i * sizeof(raw), sizeof(raw));
		id = le16_to_cpu(raw.id);
		len = le32_to_cpu(raw.len);
		if (id >= KVTREE_COLS_MAX || (i && id <= entry->cols[i - 1].id))
			return KVT_LOG_DAMAGED;
		total += len;
		if (total > KVTREE_VALUE_MAX)
			return KVT_LOG_DAMAGED;
		col->id = id;
		col->len = len;
		if (le16_to_cpu(raw.flags) & KVTREE_LOG_OUTSIDE) {
			col->data = chunk_outside(chunk, len);
			if (!col->data)
				return KVT_LOG_DAMAGED;
			continue;
		}
		if (len > end - data)
			return KVT_LOG_DAMAGED;
		col->data = chunk->data + data;
		data += len;
	}
	return 0;
}

static int chunk_value(struct chunk *chunk, struct kvt_log_entry *entry, bool columns,
		       u32 value, u32 at, u32 end)
{
	entry->plain = !columns;
	if (columns) {
		entry->ncols = value;
		return chunk_columns(chunk, entry, at, end);
	}
	if (value > end - at || value > KVTREE_VALUE_MAX)
		return KVT_LOG_DAMAGED;
	entry->ncols = 1;
	entry->cols[0].id = 0;
	entry->cols[0].len = value;
	entry->cols[0].data = chunk->data + at;
	return 0;
}

/*
 * Read one record.  If it is sound, *@entry is filled; type 0: one to be skipped, whose columns
 * outside are there all the same.
 */
static int chunk_record(struct chunk *chunk, struct kvt_log_entry *entry)
{
	const struct kvtree_log_record *rec = (const void *)(chunk->data + chunk->at);
	u32 room = chunk->records_end - chunk->at;
	u32 len, at, end;
	int verdict = KVT_LOG_SOUND;

	if (room < sizeof(*rec))
		return KVT_LOG_DAMAGED;
	len = le32_to_cpu(rec->len);
	if (len < sizeof(*rec) || len > room || len % 8)
		return KVT_LOG_DAMAGED;
	at = chunk->at + sizeof(*rec);
	end = chunk->at + len;
	entry->type = rec->type;
	entry->key_len = le16_to_cpu(rec->key_len);
	entry->version = le64_to_cpu(rec->version);
	entry->group = le32_to_cpu(rec->group);
	entry->ncols = 0;
	if (entry->type != KVTREE_LOG_PUT && entry->type != KVTREE_LOG_REMOVE &&
	    entry->type < KVTREE_LOG_SKIPPABLE)
		return KVT_LOG_NEWER;
	if (entry->key_len > KVTREE_KEY_MAX || entry->key_len > end - at ||
	    !entry->version || entry->version >= chunk->reader->set->version_end)
		return KVT_LOG_DAMAGED;
	entry->key = chunk->data + at;
	at += entry->key_len;
	if (entry->type != KVTREE_LOG_REMOVE)
		verdict = chunk_value(chunk, entry, rec->flags & KVTREE_LOG_COLUMNS,
				      le32_to_cpu(rec->value), at, end);
	if (entry->type >= KVTREE_LOG_SKIPPABLE)
		entry->type = 0;
	chunk->at = end;
	return verdict;
}

static int chunk_begin(struct chunk *chunk, u32 blocks)
{
	const struct kvtree_log_chunk *head = (const void *)chunk->data;
	u32 size = blocks * KVTREE_LOG_BLOCK;
	u32 records_len = le32_to_cpu(head->records_len);
	u32 outside_len = le32_to_cpu(head->outside_len);

	if (records_len < sizeof(*head) || records_len > size)
		return KVT_LOG_DAMAGED;
	chunk->at = sizeof(*head);
	chunk->records_end = records_len;
	chunk->outside = ALIGN(records_len, KVTREE_LOG_BLOCK);
	if (outside_len > size - chunk->outside)
		return KVT_LOG_DAMAGED;
	chunk->outside_end = chunk->outside + outside_len;
	return 0;
}

/**
 * kvt_log_chunk_parse() - read the records of a chunk
 * @reader: whose columns are used, and which is given each record
 * @chunk: the chunk, aligned to 8 bytes
 * @blocks: its length
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED: it is not a chunk as it should be; KVT_LOG_NEWER: it
 * has a record of a newer format; or what @reader's entry() returned.
 */
int kvt_log_chunk_parse(struct kvt_log_reader *reader, const u8 *chunk, u32 blocks)
{
	struct chunk c = { .reader = reader, .data = chunk };
	struct kvt_log_entry entry = { .cols = reader->cols };
	int verdict;

	verdict = chunk_begin(&c, blocks);
	while (!verdict && c.at < c.records_end) {
		verdict = chunk_record(&c, &entry);
		if (verdict || !entry.type)
			continue;
		reader->records++;
		if (reader->entry)
			verdict = reader->entry(reader, &entry);
	}
	return verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_chunk_parse);
