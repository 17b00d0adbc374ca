// SPDX-License-Identifier: GPL-2.0
/* Reading records. */
#include "format.h"

/* The data of a column that is stored outside of its record; NULL: it is damaged. */
static const u8 *record_outside(struct kvt_log_records *in, u32 len)
{
	u32 size = ALIGN(len, 8);
	const u8 *data = in->data + in->outside;

	if (len > KVTREE_VALUE_MAX || size > in->outside_end - in->outside)
		return NULL;
	in->outside += size;
	return data;
}

/* Read a record's columns: a table at @at, not aligned, and then data, up to @end. */
static int record_columns(struct kvt_log_records *in, struct kvt_log_entry *entry, u32 at, u32 end)
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

		memcpy(&raw, in->data + at + i * sizeof(raw), sizeof(raw));
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
			col->data = record_outside(in, len);
			if (!col->data)
				return KVT_LOG_DAMAGED;
			continue;
		}
		if (len > end - data)
			return KVT_LOG_DAMAGED;
		col->data = in->data + data;
		data += len;
	}
	return 0;
}

static int record_value(struct kvt_log_records *in, struct kvt_log_entry *entry, bool columns,
			u32 value, u32 at, u32 end)
{
	entry->plain = !columns;
	if (columns) {
		entry->ncols = value;
		return record_columns(in, entry, at, end);
	}
	if (value > end - at || value > KVTREE_VALUE_MAX)
		return KVT_LOG_DAMAGED;
	entry->ncols = 1;
	entry->cols[0].id = 0;
	entry->cols[0].len = value;
	entry->cols[0].data = in->data + at;
	return 0;
}

static bool type_known(const struct kvt_log_records *in, u8 type)
{
	return type >= KVTREE_LOG_SKIPPABLE || (type < 32 && in->types & 1U << type);
}

/* Only values have versions. */
static u64 version_end(const struct kvt_log_records *in)
{
	return in->types & KVT_LOG_CHANGES ? in->reader->set->version_end : 2;
}

/*
 * Read one record, and fill *@entry if it is sound.  Type 0 is a record to be skipped; it may have
 * columns outside nevertheless.
 */
static int record_parse(struct kvt_log_records *in, struct kvt_log_entry *entry)
{
	const struct kvtree_log_record *rec = (const void *)(in->data + in->at);
	u32 room = in->end - in->at;
	u32 len, at, end;
	int verdict = KVT_LOG_SOUND;

	if (room < sizeof(*rec))
		return KVT_LOG_DAMAGED;
	len = le32_to_cpu(rec->len);
	if (len < sizeof(*rec) || len > room || len % 8)
		return KVT_LOG_DAMAGED;
	at = in->at + sizeof(*rec);
	end = in->at + len;
	entry->type = rec->type;
	entry->key_len = le16_to_cpu(rec->key_len);
	entry->version = le64_to_cpu(rec->version);
	entry->group = le32_to_cpu(rec->group);
	entry->ncols = 0;
	if (!type_known(in, entry->type))
		return KVT_LOG_NEWER;
	if (entry->key_len > KVTREE_KEY_MAX || entry->key_len > end - at ||
	    !entry->version || entry->version >= version_end(in))
		return KVT_LOG_DAMAGED;
	entry->key = in->data + at;
	at += entry->key_len;
	if (entry->type != KVTREE_LOG_REMOVE)
		verdict = record_value(in, entry, rec->flags & KVTREE_LOG_COLUMNS,
				       le32_to_cpu(rec->value), at, end);
	if (entry->type >= KVTREE_LOG_SKIPPABLE)
		entry->type = 0;
	in->at = end;
	return verdict;
}

static int chunk_begin(struct kvt_log_records *in, u32 blocks)
{
	const struct kvtree_log_chunk *head = (const void *)in->data;
	u32 size = blocks * KVTREE_LOG_BLOCK;
	u32 records_len = le32_to_cpu(head->records_len);
	u32 outside_len = le32_to_cpu(head->outside_len);

	if (records_len < sizeof(*head) || records_len > size)
		return KVT_LOG_DAMAGED;
	in->at = sizeof(*head);
	in->end = records_len;
	in->outside = ALIGN(records_len, KVTREE_LOG_BLOCK);
	if (outside_len > size - in->outside)
		return KVT_LOG_DAMAGED;
	in->outside_end = in->outside + outside_len;
	return 0;
}

/**
 * kvt_log_records_next() - read the next record
 * @in: the records; advanced past this one
 * @entry: filled; its columns are in @in's reader
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_END: there is none; KVT_LOG_DAMAGED: it is malformed;
 * KVT_LOG_NEWER: it is of a newer format.
 */
int kvt_log_records_next(struct kvt_log_records *in, struct kvt_log_entry *entry)
{
	int verdict = KVT_LOG_SOUND;

	entry->type = 0;
	entry->cols = in->reader->cols;
	while (!verdict && !entry->type)
		verdict = in->at < in->end ? record_parse(in, entry) : KVT_LOG_END;
	return verdict;
}

/**
 * kvt_log_chunk_parse() - read the records of a chunk
 * @reader: its entry() is called for each record, with its columns
 * @chunk: the chunk, aligned to 8 bytes
 * @blocks: its length
 * @types: the types of records that may occur
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED: the chunk is malformed; KVT_LOG_NEWER: it has a record
 * of a newer format; or what @reader's entry() returned.
 */
int kvt_log_chunk_parse(struct kvt_log_reader *reader, const u8 *chunk, u32 blocks,
			enum kvt_log_types types)
{
	struct kvt_log_records in = { .reader = reader, .data = chunk, .types = types };
	struct kvt_log_entry entry;
	int verdict;

	verdict = chunk_begin(&in, blocks);
	while (!verdict) {
		verdict = kvt_log_records_next(&in, &entry);
		if (verdict)
			break;
		reader->records++;
		if (reader->entry)
			verdict = reader->entry(reader, &entry);
	}
	return verdict == KVT_LOG_END ? KVT_LOG_SOUND : verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_chunk_parse);
