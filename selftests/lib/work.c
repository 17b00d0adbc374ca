// SPDX-License-Identifier: GPL-2.0
/* Operations with their memory; see work.h. */
#include <errno.h>
#include <string.h>

#include "kvt_test.h"
#include "work.h"

const char *const kvt_form_names[KVT_FORMS] = {
	"inline", "inline, out", "by pointer", "batch"
};

void kvt_work_init(struct kvt_work *w)
{
	memset(w, 0, sizeof(*w));
	memset(w->val, 0xa5, sizeof(w->val));
	w->op.result = 1234;
}

void kvt_work_key(struct kvt_work *w, const char *key, size_t len, bool in_op)
{
	w->op.key_len = len;
	if (in_op && len <= KVTREE_KEY_INLINE) {
		w->op.flags |= KVTREE_F_KEY_INLINE;
		memcpy(w->op.key_inline, key, len);
		return;
	}
	KVT_CHECK(len <= sizeof(w->key));
	memcpy(w->key, key, len);
	w->op.key = kvt_ptr(w->key);
}

bool kvt_returns_version(int result)
{
	return result >= 0 || result == -ENOENT || result == -EEXIST || result == -EMSGSIZE ||
	       result == -ECANCELED;
}

bool kvt_same_op(const struct kvtree_op *a, const struct kvtree_op *b)
{
	bool same = a->opcode == b->opcode && a->col == b->col && a->flags == b->flags &&
		    a->key_len == b->key_len && a->ncols == b->ncols &&
		    a->val_len == b->val_len && a->result == b->result &&
		    a->reserved == b->reserved;

	if (a->opcode == KVTREE_OP_ADD)
		same = same && a->arg == b->arg;
	if (a->flags & KVTREE_F_KEY_INLINE)
		same = same && !memcmp(a->key_inline, b->key_inline, KVTREE_KEY_INLINE);
	if (kvt_returns_version(a->result))
		same = same && a->version == b->version;
	return same;
}

static bool same_scan(const struct kvtree_scan *a, const struct kvtree_scan *b)
{
	return a->flags == b->flags && a->limit == b->limit && a->end_len == b->end_len &&
	       a->prefix_len == b->prefix_len && a->ncols == b->ncols &&
	       a->count == b->count && a->out_flags == b->out_flags;
}

bool kvt_same_memory(const struct kvt_work *a, const struct kvt_work *b)
{
	return !memcmp(a->val, b->val, sizeof(a->val)) &&
	       !memcmp(a->cols, b->cols, sizeof(a->cols)) &&
	       !memcmp(a->ids, b->ids, sizeof(a->ids)) &&
	       !memcmp(a->key, b->key, sizeof(a->key)) &&
	       !memcmp(a->end, b->end, sizeof(a->end)) && same_scan(&a->scan, &b->scan);
}

bool kvt_way_has(const struct kvt_way *way, enum kvt_form form)
{
	return form > KVT_INLINE_OUT ||
	       way->ring.flags & (IORING_SETUP_SQE128 | IORING_SETUP_SQE_MIXED);
}

struct io_uring_sqe *kvt_way_queue(struct kvt_way *way, enum kvt_form form,
				   struct kvtree_op *op, __u64 data)
{
	struct io_uring_sqe *sqe;

	sqe = form <= KVT_INLINE_OUT ? kvt_ring_sqe128(&way->ring) : kvt_ring_sqe(&way->ring);
	switch (form) {
	case KVT_INLINE:
	case KVT_INLINE_OUT:
		kvt_sqe_inline(sqe, way->fd, op, form == KVT_INLINE ? NULL : op, data);
		if (way->ring.flags & IORING_SETUP_SQE_MIXED)
			sqe->opcode = KVT_OP_URING_CMD128;
		break;
	case KVT_BY_POINTER:
		kvt_sqe_op(sqe, way->fd, op, data);
		break;
	default:
		kvt_sqe_batch(sqe, way->fd, op, 1, data);
	}
	sqe->flags = way->sqe_flags;
	return sqe;
}

int kvt_way_result(enum kvt_form form, const struct kvtree_op *op, const struct kvt_cqe *cqe)
{
	if (form != KVT_IN_BATCH || cqe->res < 0)
		return cqe->res;
	KVT_CHECK(cqe->res == 1);
	return op->result;
}

int kvt_way_exec(struct kvt_way *way, enum kvt_form form, struct kvtree_op *op,
		 struct kvt_cqe *cqe)
{
	struct kvt_cqe own, more;

	cqe = cqe ?: &own;
	kvt_way_queue(way, form, op, 7);
	kvt_ring_wait(&way->ring, cqe);
	KVT_CHECK(cqe->data == 7);
	KVT_CHECK(!kvt_ring_peek(&way->ring, &more));
	return kvt_way_result(form, op, cqe);
}
