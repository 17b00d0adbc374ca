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
/* The largest record, whose columns may be padded, and the padding of a chunk. */
#define KVT_LOG_RECORD_MOST	(sizeof(struct kvtree_log_record) + KVTREE_KEY_MAX +	\
				 KVTREE_COLS_MAX * 2 * sizeof(struct kvtree_log_column) + \
				 KVTREE_VALUE_MAX)
#define KVT_LOG_PADDING_MOST	(2 * KVTREE_LOG_BLOCK)
/* The largest chunk: a full buffer, to which one more record may have been added. */
#define KVT_LOG_CHUNK_BYTES	(KVT_LOG_BUF_BYTES + KVT_LOG_OUTSIDE_BYTES +	\
				 KVT_LOG_RECORD_MOST + KVT_LOG_PADDING_MOST)

/* No further buffer is opened while sealed ones have this many bytes. */
#define KVT_LOG_SEALED_BYTES	(KVT_LOG_BUFS * KVT_LOG_BUF_BYTES)

/* Segments that the streams of a device may fill with records that are not durable. */
#define KVT_LOG_AHEAD_MAX	7U

/* Workers that write a checkpoint. */
#define KVT_SAVERS_MAX		8
/* A worker writes a buffer with this many bytes.  So do all chunks have but each worker's last. */
#define KVT_SAVE_BYTES		(168 * 1024)
/* The largest chunk of a checkpoint: one more piece may have been added. */
#define KVT_SAVE_CHUNK_BYTES	(KVT_SAVE_BYTES + KVT_LOG_PIECE_BYTES +		\
				 KVT_LOG_RECORD_MOST + KVT_LOG_PADDING_MOST)
/* Larger records are large: without their excess, no such chunk exceeds KVT_SAVE_CHUNK_SMALL. */
#define KVT_LOG_RECORD_SMALL	(64 * 1024)
#define KVT_SAVE_CHUNK_SMALL	(KVT_SAVE_CHUNK_BYTES - KVT_LOG_RECORD_MOST + KVT_LOG_RECORD_SMALL)

#endif /* KVT_LOG_SIZES_H */
