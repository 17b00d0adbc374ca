/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SCAN: the records of a range of keys, into one buffer (kvt_scan()) or into a
 * series of buffers (kvt_scan_begin(), kvt_scan_fill(), kvt_scan_end()).
 */
#ifndef KVT_API_SCAN_H
#define KVT_API_SCAN_H

#include <linux/types.h>

struct kvt_key;
struct kvt_op_ctx;
struct kvt_scan;
struct kvtree_op;

struct kvt_scan *kvt_scan_begin(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
				const struct kvt_key *key);
int kvt_scan_rest(const struct kvt_scan *scan);
int kvt_scan_fill(struct kvt_scan *scan, u64 val, u32 room);
u32 kvt_scan_need(const struct kvt_scan *scan);
int kvt_scan_skip(struct kvt_scan *scan);
bool kvt_scan_ended(const struct kvt_scan *scan);
int kvt_scan_report(const struct kvt_scan *scan, u64 arg);
void kvt_scan_end(struct kvt_scan *scan);

int kvt_scan(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);

#endif /* KVT_API_SCAN_H */
