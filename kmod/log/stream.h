/* SPDX-License-Identifier: GPL-2.0 */
/* Streams: each CPU collects records in buffers, and a worker writes these. */
#ifndef KVT_LOG_STREAM_H
#define KVT_LOG_STREAM_H

#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "base/value.h"
#include "events.h"
#include "note.h"
#include "ranges.h"
#include "space.h"

struct kvt_blob;

struct kvt_log_buf {
	u8 *data;
	u32 used;		/* bytes, including the chunk's header */
	u32 nr_records;
	u64 epoch;		/* of all its records */
	bool marked;		/* the changed keys are marked: see ranges.c */
	atomic_t busy;		/* records that are not published yet */
	u32 nr_outside;
	u32 outside_len;	/* bytes */
	struct kvt_blob **outside;	/* columns stored outside of their records */
};

/* The bytes of a buffer's records: headers, keys, columns, also outside of them, and padding. */
static inline u32 kvt_buf_payload(const struct kvt_log_buf *buf)
{
	return buf->used - (u32)sizeof(struct kvtree_log_chunk) + buf->outside_len;
}

/* The most extents of a stream that are not listed in a trailer yet. */
#define KVT_LOG_EXTENTS		62

struct kvt_stream {
	raw_spinlock_t lock;	/* protects the fields up to buf */
	u32 first;		/* the oldest sealed buffer */
	u32 nr_sealed;		/* the buffer after these is open, if there is one */
	u32 sealed;		/* bytes of the sealed buffers' chunks */
	u64 max_version;	/* the highest version logged */
	struct kvt_log_buf buf[KVT_LOG_BUFS];

	struct kvt_log *log;
	struct kvt_part *part;	/* of the space, on the stream's device */
	u32 id;
	struct work_struct flush;	/* the stream's worker */
	struct mutex flush_lock;	/* held to write; protects the fields up to stage */
	struct kvt_log_buf *writing;	/* the oldest buffer, while it is being written */
	struct kvt_io io;	/* ... by this transfer */
	u8 *stage;		/* KVT_LOG_BUF_BYTES */
	struct mutex extents_lock;	/* protects the extents */
	u32 nr_extents;
	struct kvt_log_extent extent[KVT_LOG_EXTENTS];
} ____cacheline_aligned_in_smp;

/* The part of a log that writers use.  Higher layers embed it in structures of their own. */
struct kvt_log {
	u32 nr_streams;
	struct kvt_stream *streams;
	struct workqueue_struct *flush_wq;	/* of the streams' workers */
	struct kvt_log_state state;
	struct kvt_devs devs;
	struct kvt_space space;
	struct kvt_image image;
	/* Streams that may have records for a commit to list; a stream's lock protects its bit. */
	DECLARE_BITMAP(dirty, KVTREE_LOG_STREAMS_MAX) ____cacheline_aligned_in_smp;
};

/* encode.c */
struct kvt_log_size {
	u32 len;		/* bytes of the record */
	u32 nr_outside;
	u32 outside_len;	/* bytes, padding included */
};

static inline u64 kvt_log_size_bytes(const struct kvt_log_size *size)
{
	return size->len + size->outside_len;
}

struct kvt_log_size kvt_log_size_table(u32 key_len, const struct kvt_value *v);

/* The size of a record.  @v: the value; NULL: a removal. */
static inline struct kvt_log_size kvt_log_size(u32 key_len, const struct kvt_value *v)
{
	u32 len = 0;

	if (v && unlikely(!kvt_value_plain(v)))
		return kvt_log_size_table(key_len, v);
	if (v)
		kvt_value_plain_data(v, &len);
	return (struct kvt_log_size) { .len = kvt_log_record_size(key_len, len) };
}

/* The live bytes of a key and its value. */
static inline struct kvt_live kvt_log_live(u32 key_len, const struct kvt_value *v)
{
	struct kvt_log_size size = kvt_log_size(key_len, v);

	return kvt_live_record(kvt_log_size_bytes(&size));
}

struct kvtree_log_record *kvt_log_encode(u8 *to, const struct kvt_log_size *size,
					 const struct kvt_key *key, u64 version,
					 const struct kvt_value *v, struct kvt_blob **outside);
struct kvtree_log_record *kvt_log_record_begin(struct kvt_log_buf *buf, enum kvtree_log_type type,
					       u32 len);

/* chunk.c */
u32 kvt_chunk_blocks(const struct kvt_log_buf *buf);
int kvt_chunk_write(struct kvt_log_dev *dev, struct kvt_log_buf *buf, u32 stream,
		    const struct kvt_log_pos *pos, u8 *stage, struct kvt_log_extent *extent,
		    struct kvt_io *io);
void kvt_buf_reset(struct kvt_log_buf *buf);
int kvt_buf_init(struct kvt_log_buf *buf, u32 outside);
void kvt_buf_exit(struct kvt_log_buf *buf);

/* stream.c */
int kvt_streams_init(struct kvt_log *log);
void kvt_streams_exit(struct kvt_log *log);
bool kvt_stream_close(struct kvt_stream *s, u64 epoch);
bool kvt_stream_flush_begin(struct kvt_stream *s, u64 epoch);
void kvt_stream_flush_end(struct kvt_stream *s);
bool kvt_stream_behind(struct kvt_stream *s, u64 epoch);
void kvt_stream_clean(struct kvt_stream *s);

/* events.c */
void kvt_log_commit_later(struct kvt_log *log);

/* The stream of this CPU.  Avoid the modulo: cpu is normally below nr_streams. */
static inline struct kvt_stream *kvt_log_stream(const struct kvt_log *log)
{
	u32 cpu = raw_smp_processor_id();

	return &log->streams[likely(cpu < log->nr_streams) ? cpu : cpu % log->nr_streams];
}

/* Let a stream's worker write the sealed buffers.  Context: any but NMI. */
static inline void kvt_stream_start(struct kvt_stream *s)
{
	queue_work(s->log->flush_wq, &s->flush);
}

#endif /* KVT_LOG_STREAM_H */
