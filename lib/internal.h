/* SPDX-License-Identifier: LGPL-2.1-only */
/*
 * Declarations shared by the files of libkvtree.
 */
#ifndef KVTREE_INTERNAL_H
#define KVTREE_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kvtree.h"
#include "kvtree_uring.h"

/* Symbols are hidden (-fvisibility=hidden) unless they are part of the API. */
#define KVTREE_API	__attribute__((visibility("default")))

#define KVTREE_DEVICE	"/dev/kvtree"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/*
 * An ioctl's number contains the size of its structure.  Pass the size that the
 * program was compiled with: the kernel then reconciles the two layouts, and the
 * library may be older than both.
 */
static inline unsigned long kvt_ioc_sized(unsigned long request, size_t size)
{
	return _IOC(_IOC_DIR(request), _IOC_TYPE(request), _IOC_NR(request), size);
}

#define KVT_IOC_SIZE_MAX	((1u << _IOC_SIZEBITS) - 1)

struct kvtree {
	int fd;
};

/*
 * kvt_ptr() - a pointer for the kernel interface
 * @p: the pointer
 */
static inline __u64 kvt_ptr(const void *p)
{
	return (__u64)(uintptr_t)p;
}

int kvt_ioctl(const struct kvtree *kv, unsigned long request, void *arg);
int kvt_run_one(const struct kvtree *kv, struct kvtree_op *op);
int kvt_run_change(const struct kvtree *kv, struct kvtree_op *op, uint64_t *version);

size_t kvt_ops_rest(const struct kvtree_ops *ops, struct kvtree_op **op);
void kvt_ops_advance(struct kvtree_ops *ops, size_t nr);

/*
 * Convert a caller's array of columns to descriptors, and count the bytes of data
 * they describe.
 */
int kvt_cols_describe(struct kvtree_col *desc, const struct kvtree_column *cols,
		      size_t nr, size_t *bytes);
void kvt_cols_gather(void *data, const struct kvtree_column *cols, size_t nr);
int kvt_cols_ids(struct kvtree_col *desc, const uint16_t *ids, size_t nr);
void kvt_cols_scatter(struct kvtree_column *cols, const struct kvtree_col *desc,
		      size_t nr, const void *data);

#endif /* KVTREE_INTERNAL_H */
