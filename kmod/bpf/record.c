// SPDX-License-Identifier: GPL-2.0
/* Kfuncs for hooks to read their record. */
#include <linux/btf.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "base/value.h"
#include "bpf.h"
#include "compat.h"
#include "core/hook.h"

static const struct kvt_hook_record *hook_record(const struct bpf_kvt_record *rec)
{
	return container_of(rec, struct kvt_hook_record, rec);
}

static int record_copy(const u8 *from, u32 len, u32 off, void *buf, u32 room)
{
	u32 n = off < len ? min(len - off, room) : 0;

	memcpy(buf, from + off, n);
	return n;
}

static int record_column(const struct bpf_kvt_record *rec, u32 id, struct kvt_column *col)
{
	if (id >= KVTREE_COLS_MAX)
		return -EINVAL;
	return kvt_value_find(hook_record(rec)->value, id, col) ? 0 : -ENOENT;
}

__bpf_kfunc_start_defs();

/**
 * bpf_kvt_record_key() - copy bytes of a record's key
 * @rec: the record
 * @off: the first of them
 * @buf: where they go
 * @buf__sz: room there
 *
 * Context: the hook that was given @rec.
 *
 * Return: bytes copied.
 */
__bpf_kfunc int bpf_kvt_record_key(const struct bpf_kvt_record *rec, u32 off, void *buf,
				   u32 buf__sz)
{
	return record_copy(hook_record(rec)->key, rec->key_len, off, buf, buf__sz);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_record_key);

/**
 * bpf_kvt_record_column() - copy bytes of a column
 * @rec: the record
 * @col: which column
 * @off: the first of them
 * @buf: where they go
 * @buf__sz: room there
 *
 * Context: the hook that was given @rec.
 *
 * Return: bytes copied, -ENOENT or -EINVAL.
 */
__bpf_kfunc int bpf_kvt_record_column(const struct bpf_kvt_record *rec, u32 col, u32 off,
				      void *buf, u32 buf__sz)
{
	struct kvt_column column = {};
	int err = record_column(rec, col, &column);

	return err ?: record_copy(column.data, column.len, off, buf, buf__sz);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_record_column);

/**
 * bpf_kvt_record_column_len() - bytes of a column
 * @rec: the record
 * @col: which column
 *
 * Context: the hook that was given @rec.
 *
 * Return: bytes, -ENOENT or -EINVAL.
 */
__bpf_kfunc int bpf_kvt_record_column_len(const struct bpf_kvt_record *rec, u32 col)
{
	struct kvt_column column = {};

	return record_column(rec, col, &column) ?: column.len;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_record_column_len);

__bpf_kfunc_end_defs();
