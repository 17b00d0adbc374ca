/* SPDX-License-Identifier: GPL-2.0 */
/* How much is written at once, which determines how much room must be kept for it. */
#ifndef KVT_LOG_SIZES_H
#define KVT_LOG_SIZES_H

#include <linux/minmax.h>
#include <linux/kvtree.h>
#include <linux/kvtree_format.h>

#define KVT_LOG_BUFS		4
#define KVT_LOG_BUF_BYTES	(256 * 1024)
/* Columns outside of the records of a stream's buffer, and their bytes that make it full. */
#define KVT_LOG_OUTSIDE_MAX	1024
#define KVT_LOG_OUTSIDE_BYTES	(128 * 1024)
/* The largest piece of a checkpoint, not counting its last value. */
#define KVT_LOG_PIECE_BYTES	(64 * 1024)
/* The largest chunk: a full buffer, to which a piece and one more value may have been added. */
#define KVT_LOG_CHUNK_BYTES	(KVT_LOG_BUF_BYTES + KVT_LOG_OUTSIDE_BYTES +	\
				 KVT_LOG_PIECE_BYTES + KVTREE_VALUE_MAX +	\
				 KVTREE_COLS_MAX * 8 + KVTREE_LOG_BLOCK)

/* Larger records are large: without their excess, no chunk exceeds KVT_LOG_CHUNK_SMALL bytes. */
#define KVT_LOG_RECORD_SMALL	(64 * 1024)
#define KVT_LOG_CHUNK_SMALL	(KVT_LOG_CHUNK_BYTES - KVTREE_VALUE_MAX + KVT_LOG_RECORD_SMALL)

/* No further buffer is opened while sealed ones have this many bytes. */
#define KVT_LOG_SEALED_BYTES	(KVT_LOG_BUFS * KVT_LOG_BUF_BYTES)

/* Segments that the streams of a device may fill with records that are not durable. */
#define KVT_LOG_AHEAD_MAX	7U

/* Workers that write a checkpoint. */
#define KVT_SAVERS_MAX		8
/* A worker writes a buffer with this many bytes of records, or KVT_LOG_OUTSIDE_BYTES outside. */
#define KVT_SAVE_RECORDS_BYTES	(KVT_LOG_BUF_BYTES / 2)
/* So each extent has at least this many, except the last one of each worker. */
#define KVT_SAVE_EXTENT_BYTES	min(KVT_SAVE_RECORDS_BYTES, KVT_LOG_OUTSIDE_BYTES)

#endif /* KVT_LOG_SIZES_H */
