// SPDX-License-Identifier: GPL-2.0
/*
 * Requests: an operation for the kernel, the memory that it points to, and the check of its
 * result.
 */
#include "bench_load.h"

#define REC_ALIGN	8u	/* of the records of a scan */

const char * const verdict_names[VERDICTS] = {
	[VERDICT_RIGHT] = "right",
	[VERDICT_FAILED] = "failed",
	[VERDICT_MISS] = "missed",
	[VERDICT_WRONG] = "wrong",
};

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static size_t align(size_t n)
{
	return (n + REC_ALIGN - 1) & ~(size_t)(REC_ALIGN - 1);
}

/* Room for the result of a scan, or for a value. */
static size_t value_room(const struct shape *shape, unsigned int scan_max)
{
	size_t value = record_size(shape);
	size_t rec = sizeof(struct kvtree_rec) + record_key_room(shape) + value +
		     shape->fields * sizeof(struct kvtree_col);

	return align(scan_max ? scan_max * align(rec) : value);
}

/**
 * requests_new() - allocate requests, and the memory that they point to
 * @room: set up
 * @shape: the records
 * @nr: number of requests
 * @scan_max: maximum records of a scan; 0: no scans
 */
void requests_new(struct request_room *room, const struct shape *shape, unsigned int nr,
		  unsigned int scan_max)
{
	size_t key = align(record_key_room(shape));
	size_t cols = shape->fields * sizeof(struct kvtree_col);
	size_t value = value_room(shape, scan_max);
	uint16_t *ids = alloc(NULL, shape->fields * sizeof(*ids));
	unsigned int i;
	char *mem;

	mem = alloc(NULL, nr * (key + cols + value));
	/* Touch every page before the clock runs. */
	memset(mem, 0, nr * (key + cols + value));
	for (i = 0; i < shape->fields; i++)
		ids[i] = (uint16_t)i;
	*room = (struct request_room){
		.shape = shape, .ids = ids, .value_size = value, .mem = mem, .nr = nr,
		.request = alloc(NULL, nr * sizeof(struct request)),
	};
	memset(room->request, 0, nr * sizeof(struct request));
	for (i = 0; i < nr; i++, mem += key + cols + value) {
		room->request[i].slot = i;
		room->request[i].cols = (struct kvtree_col *)mem;
		room->request[i].key = mem + cols;
		room->request[i].value = mem + cols + key;
	}
}

/**
 * requests_free() - free requests
 * @room: the requests
 */
void requests_free(struct request_room *room)
{
	free(room->request);
	free(room->mem);
	free((void *)room->ids);
}

static void set_key(const struct shape *shape, struct request *r, struct kvtree_op *op)
{
	r->key_len = record_key(shape, r->number, r->key);
	op->key_len = (__u16)r->key_len;
	if (r->key_len > KVTREE_KEY_INLINE) {
		op->key = address(r->key);
		return;
	}
	op->flags |= KVTREE_F_KEY_INLINE;
	memcpy(op->key_inline, r->key, r->key_len);
}

/* Use all fields.  A record with one field is a value without columns. */
static void set_fields(const struct shape *shape, struct request *r, struct kvtree_op *op)
{
	unsigned int i;

	op->val = address(r->value);
	op->val_len = (__u32)record_size(shape);
	if (shape->fields == 1)
		return;
	op->flags |= KVTREE_F_COLS;
	op->arg = address(r->cols);
	op->ncols = (__u16)shape->fields;
	for (i = 0; i < shape->fields; i++)
		r->cols[i] = (struct kvtree_col){ .id = (__u16)i, .len = shape->field_size };
}

static void lay_out_read(const struct shape *shape, struct request *r, struct kvtree_op *op)
{
	op->opcode = KVTREE_OP_GET;
	set_fields(shape, r, op);
}

static void lay_out_insert(const struct shape *shape, struct request *r, struct kvtree_op *op)
{
	unsigned int i;

	op->opcode = KVTREE_OP_PUT;
	op->flags |= KVTREE_F_CREATE;
	set_fields(shape, r, op);
	for (i = 0; i < shape->fields; i++)
		record_fill(r->key, r->key_len, i, r->salt,
			    r->value + (size_t)i * shape->field_size, shape->field_size);
}

static void lay_out_update(const struct shape *shape, struct request *r, struct kvtree_op *op)
{
	op->opcode = KVTREE_OP_PUT;
	op->flags |= KVTREE_F_REPLACE;
	op->val = address(r->value);
	op->val_len = shape->field_size;
	record_fill(r->key, r->key_len, r->field, r->salt, r->value, shape->field_size);
	if (shape->fields == 1)
		return;
	op->flags |= KVTREE_F_COLS;
	op->arg = address(r->cols);
	op->ncols = 1;
	r->cols[0] = (struct kvtree_col){ .id = (__u16)r->field, .len = shape->field_size };
}

static void lay_out_scan(const struct request_room *room, struct request *r,
			 struct kvtree_op *op)
{
	op->opcode = KVTREE_OP_SCAN;
	op->val = address(r->value);
	op->val_len = (__u32)room->value_size;
	op->arg = address(&r->scan);
	op->arg_size = sizeof(r->scan);
	r->scan = (struct kvtree_scan){ .limit = r->limit };
	if (room->shape->fields > 1) {
		r->scan.cols = address(room->ids);
		r->scan.ncols = (__u16)room->shape->fields;
	}
}

/**
 * request_lay_out() - lay out the operation of a request
 * @room: the requests
 * @r: the request; kind, number and the other fields for the kind are set
 * @op: the operation
 */
void request_lay_out(const struct request_room *room, struct request *r, struct kvtree_op *op)
{
	memset(op, 0, sizeof(*op));
	set_key(room->shape, r, op);
	switch (r->kind) {
	case KIND_INSERT:
		lay_out_insert(room->shape, r, op);
		break;
	case KIND_UPDATE:
		lay_out_update(room->shape, r, op);
		break;
	case KIND_SCAN:
		lay_out_scan(room, r, op);
		break;
	default:
		if (r->second)
			lay_out_update(room->shape, r, op);
		else
			lay_out_read(room->shape, r, op);
	}
}

/* Whether all fields were written for this key. */
static bool fields_right(const struct shape *shape, const char *key, size_t key_len,
			 const char *data)
{
	unsigned int i;

	for (i = 0; i < shape->fields; i++, data += shape->field_size)
		if (!record_right(key, key_len, i, data, shape->field_size))
			return false;
	return true;
}

static bool cols_right(const struct shape *shape, const struct kvtree_col *cols)
{
	unsigned int i;

	for (i = 0; i < shape->fields; i++)
		if (cols[i].id != i || cols[i].len != shape->field_size)
			return false;
	return true;
}

static enum verdict judge_read(const struct shape *shape, const struct request *r, bool check)
{
	if ((size_t)r->result != record_size(shape))
		return VERDICT_WRONG;
	if (!check)
		return VERDICT_RIGHT;
	if (shape->fields > 1 && !cols_right(shape, r->cols))
		return VERDICT_WRONG;
	return fields_right(shape, r->key, r->key_len, r->value) ? VERDICT_RIGHT : VERDICT_WRONG;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int diff = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return diff ? diff : (a_len > b_len) - (a_len < b_len);
}

/* Whether a record of a scan was written for its key. */
static bool rec_right(const struct shape *shape, const struct kvtree_rec *rec)
{
	const char *key = (const char *)rec + rec->hdr_len;
	size_t cols = rec->ncols * sizeof(struct kvtree_col);
	struct kvtree_col col[KVTREE_COLS_MAX];

	if (shape->fields > 1) {
		if (!(rec->flags & KVTREE_REC_COLS) || rec->ncols != shape->fields)
			return false;
		memcpy(col, key + rec->key_len, cols);
		if (!cols_right(shape, col))
			return false;
	}
	return rec->val_len == cols + record_size(shape) &&
	       fields_right(shape, key, rec->key_len, key + rec->key_len + cols);
}

static bool recs_right(const struct shape *shape, const struct request *r)
{
	const char *at = r->value, *key = NULL, *before;
	const struct kvtree_rec *rec;
	size_t len = 0, before_len;
	unsigned int i;

	for (i = 0; i < r->scan.count; i++, at += rec->rec_len) {
		before = key;
		before_len = len;
		rec = (const struct kvtree_rec *)at;
		key = at + rec->hdr_len;
		len = rec->key_len;
		if (before && compare(before, before_len, key, len) >= 0)
			return false;
		if (!rec_right(shape, rec))
			return false;
	}
	return at == r->value + r->result;
}

static enum verdict judge_scan(const struct shape *shape, const struct request *r, bool check)
{
	const struct kvtree_rec *first = (const struct kvtree_rec *)r->value;

	if (r->scan.count > r->limit)
		return VERDICT_WRONG;
	/* The start key exists. */
	if (!r->scan.count ||
	    compare(r->value + first->hdr_len, first->key_len, r->key, r->key_len))
		return VERDICT_MISS;
	return !check || recs_right(shape, r) ? VERDICT_RIGHT : VERDICT_WRONG;
}

/**
 * request_judge() - check the result of a request
 * @room: the requests
 * @r: the request; result is set
 * @check: check all data, not only whether it was found
 *
 * Return: the verdict
 */
enum verdict request_judge(const struct request_room *room, const struct request *r, bool check)
{
	if (r->result == -ENOENT)
		return VERDICT_MISS;
	if (r->result < 0)
		return VERDICT_FAILED;
	if (r->kind == KIND_SCAN)
		return judge_scan(room->shape, r, check);
	if (r->kind == KIND_READ || (r->kind == KIND_RMW && !r->second))
		return judge_read(room->shape, r, check);
	return VERDICT_RIGHT;
}
