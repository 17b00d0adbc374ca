// SPDX-License-Identifier: GPL-2.0
/* Making records from values. */
#include <linux/string.h>

#include "base/index.h"
#include "stream.h"

/**
 * kvt_log_size_table() - the size of a record of a value with a table of columns
 * @key_len: bytes of the key
 * @v: the value
 *
 * Context: any.
 *
 * Return: the sizes.
 */
struct kvt_log_size kvt_log_size_table(u32 key_len, const struct kvt_value *v)
{
	u32 n = kvt_value_ncols(v), len = n * sizeof(struct kvtree_log_column), i;
	struct kvt_log_size size = {};
	struct kvt_column col;

	for (i = 0; i < n; i++) {
		kvt_value_column(v, i, &col);
		if (col.blob) {
			size.nr_outside++;
			size.outside_len += ALIGN(col.len, 8);
		} else {
			len += col.len;
		}
	}
	size.len = kvt_log_record_size(key_len, len);
	return size;
}
KVT_EXPORT_FOR_TESTS(kvt_log_size_table);

static noinline void encode_table(u8 *at, const struct kvt_value *v, struct kvt_blob **outside)
{
	u32 n = kvt_value_ncols(v), i;
	u8 *data = at + n * sizeof(struct kvtree_log_column);
	struct kvt_column col;

	for (i = 0; i < n; i++, at += sizeof(struct kvtree_log_column)) {
		struct kvtree_log_column raw = {};

		kvt_value_column(v, i, &col);
		raw.id = cpu_to_le16(col.id);
		raw.len = cpu_to_le32(col.len);
		if (col.blob) {
			raw.flags = cpu_to_le16(KVTREE_LOG_OUTSIDE);
			kvt_blob_get(col.blob);
			*outside++ = col.blob;
		} else {
			memcpy(data, col.data, col.len);
			data += col.len;
		}
		memcpy(at, &raw, sizeof(raw));
	}
}

/**
 * kvt_log_encode() - make a record
 * @to: room for @size->len bytes, aligned to 8
 * @size: of kvt_log_size()
 * @key: the key
 * @version: of the value, or of the one that is removed
 * @v: the value; NULL: a removal
 * @outside: room for @size->nr_outside pointers to blobs; each gets a reference
 *
 * Context: any that @v is valid in; copies at most about 12 KiB.
 *
 * Return: the record.
 */
struct kvtree_log_record *kvt_log_encode(u8 *to, const struct kvt_log_size *size,
					 const struct kvt_key *key, u64 version,
					 const struct kvt_value *v, struct kvt_blob **outside)
{
	struct kvtree_log_record *rec = (struct kvtree_log_record *)to;
	u8 *at = to + sizeof(*rec);
	const u8 *data;
	u32 len;

	/* Zero the padding at the end; the bytes before it are overwritten. */
	*(u64 *)(to + size->len - sizeof(u64)) = 0;
	rec->len = cpu_to_le32(size->len);
	rec->type = v ? KVTREE_LOG_PUT : KVTREE_LOG_REMOVE;
	rec->flags = 0;
	rec->key_len = cpu_to_le16(key->len);
	rec->version = cpu_to_le64(version);
	rec->group = 0;
	rec->value = 0;
	memcpy(at, key->data, key->len);
	at += key->len;
	if (v && kvt_value_plain(v)) {
		data = kvt_value_plain_data(v, &len);
		rec->value = cpu_to_le32(len);
		memcpy(at, data, len);
	} else if (v) {
		rec->flags = KVTREE_LOG_COLUMNS;
		rec->value = cpu_to_le32(kvt_value_ncols(v));
		encode_table(at, v, outside);
	}
	return rec;
}
KVT_EXPORT_FOR_TESTS(kvt_log_encode);

/**
 * kvt_log_record_begin() - add a record that does not describe a change
 * @buf: the buffer, which has room for it
 * @type: of the record
 * @len: its bytes, of kvt_log_record_size()
 *
 * Context: any.
 *
 * Return: the record; its key and value are zeros.
 */
struct kvtree_log_record *kvt_log_record_begin(struct kvt_log_buf *buf, enum kvtree_log_type type,
					       u32 len)
{
	struct kvtree_log_record *rec = (struct kvtree_log_record *)(buf->data + buf->used);

	memset(rec, 0, len);
	rec->len = cpu_to_le32(len);
	rec->type = type;
	rec->version = cpu_to_le64(1);
	buf->used += len;
	buf->nr_records++;
	return rec;
}
