/* SPDX-License-Identifier: GPL-2.0 */
/* How much is written at once, and so how much room has to be there for it. */
#ifndef KVT_LOG_SIZES_H
#define KVT_LOG_SIZES_H

#include <linux/minmax.h>
#include <linux/kvtree.h>
#include <linux/kvtree_format.h>

#define KVT_LOG_BUFS		4
#define KVT_LOG_BUF_BYTES	(256 * 1024)
/* Columns outside of the records of a stream's buffer, and when a buffer is full of them. */
#define KVT_LOG_OUTSIDE_MAX	1024
#define KVT_LOG_OUTSIDE_BYTES	(128 * 1024)
/* The largest piece of a checkpoint, but for the last value. */
#define KVT_LOG_PIECE_BYTES	(64 * 1024)
/* The largest chunk: a piece may have been added, and one more value. */
#define KVT_LOG_CHUNK_BYTES	(KVT_LOG_BUF_BYTES + KVT_LOG_OUTSIDE_BYTES +	\
				 KVT_LOG_PIECE_BYTES + KVTREE_VALUE_MAX +	\
				 KVTREE_COLS_MAX * 8 + KVTREE_LOG_BLOCK)

/* A record that has more is large: of its chunk all else is in KVT_LOG_CHUNK_SMALL bytes. */
#define KVT_LOG_RECORD_SMALL	(64 * 1024)
#define KVT_LOG_CHUNK_SMALL	(KVT_LOG_CHUNK_BYTES - KVTREE_VALUE_MAX + KVT_LOG_RECORD_SMALL)

/* Chunks that wait to be written: with so many bytes, no further buffer is opened. */
#define KVT_LOG_SEALED_BYTES	(KVT_LOG_BUFS * KVT_LOG_BUF_BYTES)

/* How far the streams of a device may be ahead of what is durable, in segments. */
#define KVT_LOG_AHEAD_MAX	7U

/* Workers that write a checkpoint. */
#define KVT_SAVERS_MAX		8
/* A buffer is written when it has so many bytes of records, or KVT_LOG_OUTSIDE_BYTES outside. */
#define KVT_SAVE_RECORDS_BYTES	(KVT_LOG_BUF_BYTES / 2)
/* So each extent has as much, but for the last one of each worker. */
#define KVT_SAVE_EXTENT_BYTES	min(KVT_SAVE_RECORDS_BYTES, KVT_LOG_OUTSIDE_BYTES)

#endif /* KVT_LOG_SIZES_H */
