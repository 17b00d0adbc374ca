/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Work: an operation together with the memory that it points to, so that two
 * executions can be compared byte by byte; and the ways to execute it.
 */
#ifndef KVT_TEST_WORK_H
#define KVT_TEST_WORK_H

#include <stdbool.h>
#include <linux/kvtree.h>

#include "uring.h"

struct kvt_work {
	struct kvtree_op op;
	struct kvtree_scan scan;
	struct kvtree_col cols[8];
	__u16 ids[4];
	char key[64];
	char end[16];
	unsigned char val[1024];
};

/* No operation yet; `val` and output fields hold garbage. */
void kvt_work_init(struct kvt_work *w);
/* Enter the key, in the operation itself if it is to be there and fits. */
void kvt_work_key(struct kvt_work *w, const char *key, size_t len, bool in_op);

/* Whether `version` says something after this result. */
bool kvt_returns_version(int result);
/* Whether outcomes are equal, except for pointers and undefined fields. */
bool kvt_same_op(const struct kvtree_op *a, const struct kvtree_op *b);
/* The same for what the operations point to. */
bool kvt_same_memory(const struct kvt_work *a, const struct kvt_work *b);

/* The forms of a command that executes one operation. */
enum kvt_form {
	KVT_INLINE,		/* KVTREE_URING_OP_INLINE */
	KVT_INLINE_OUT,		/* ... that is copied out */
	KVT_BY_POINTER,		/* KVTREE_URING_OP */
	KVT_IN_BATCH,		/* KVTREE_URING_BATCH of one */
	KVT_FORMS
};

extern const char *const kvt_form_names[KVT_FORMS];

/* How commands reach a session. */
struct kvt_way {
	struct kvt_ring ring;
	int fd;			/* of the session, or its index among registered files */
	unsigned int sqe_flags;	/* IOSQE_*, for every SQE */
};

/* Whether SQEs are long enough for a form. */
bool kvt_way_has(const struct kvt_way *way, enum kvt_form form);
/* Queue an operation; the caller may still change the SQE. */
struct io_uring_sqe *kvt_way_queue(struct kvt_way *way, enum kvt_form form,
				   struct kvtree_op *op, __u64 data);
/*
 * Execute one while no other is under way.  Returns its result, as the form reports
 * it, or that of the batch if it is an error; *cqe may be NULL.
 */
int kvt_way_exec(struct kvt_way *way, enum kvt_form form, struct kvtree_op *op,
		 struct kvt_cqe *cqe);
/* The result of an operation that has completed. */
int kvt_way_result(enum kvt_form form, const struct kvtree_op *op, const struct kvt_cqe *cqe);

#endif /* KVT_TEST_WORK_H */
