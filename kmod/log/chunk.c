// SPDX-License-Identifier: GPL-2.0
/* Chunks: the form in which a buffer of records is written. */
#include <linux/vmalloc.h>

#include "base/value.h"
#include "stream.h"

/**
 * kvt_buf_reset() - empty a buffer
 * @buf: the buffer; it drops its references to blobs
 *
 * Context: process context, may sleep.
 */
void kvt_buf_reset(struct kvt_log_buf *buf)
{
	u32 i;

	for (i = 0; i < buf->nr_outside; i++)
		kvt_blob_put(buf->outside[i]);
	buf->nr_outside = 0;
	buf->outside_len = 0;
	buf->nr_records = 0;
	buf->marked = false;
	buf->used = sizeof(struct kvtree_log_chunk);
}

/**
 * kvt_buf_init() - make a buffer
 * @buf: zeros; kvt_buf_exit() must follow, whatever is returned
 * @outside: how many columns stored outside of their records it has room for
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_buf_init(struct kvt_log_buf *buf, u32 outside)
{
	buf->data = vzalloc(KVT_LOG_BUF_BYTES);
	buf->outside = kvcalloc(outside, sizeof(*buf->outside), GFP_KERNEL);
	kvt_buf_reset(buf);
	return buf->data && buf->outside ? 0 : -ENOMEM;
}

/**
 * kvt_buf_exit() - free a buffer
 * @buf: of kvt_buf_init(), or zeros
 *
 * Context: process context, may sleep.
 */
void kvt_buf_exit(struct kvt_log_buf *buf)
{
	if (buf->outside)
		kvt_buf_reset(buf);
	vfree(buf->data);
	kvfree(buf->outside);
}

static u32 records_size(const struct kvt_log_buf *buf)
{
	return ALIGN(buf->used, KVTREE_LOG_BLOCK);
}

/**
 * kvt_chunk_blocks() - the size of a buffer's chunk
 * @buf: the buffer
 *
 * Return: blocks.
 */
u32 kvt_chunk_blocks(const struct kvt_log_buf *buf)
{
	return (records_size(buf) + ALIGN(buf->outside_len, KVTREE_LOG_BLOCK)) / KVTREE_LOG_BLOCK;
}
KVT_EXPORT_FOR_TESTS(kvt_chunk_blocks);

/* Writes the columns that follow the records, one stage after the other. */
struct stage {
	struct kvt_log_dev *dev;
	u8 *buf;
	u32 used;
	u64 block;		/* where the stage will be written */
	u32 crc;
	int err;
};

static void stage_write(struct stage *stage)
{
	u32 size = ALIGN(stage->used, KVTREE_LOG_BLOCK);

	if (!size || stage->err)
		return;
	memset(stage->buf + stage->used, 0, size - stage->used);
	stage->crc = kvt_crc32c(stage->crc, stage->buf, size);
	stage->err = kvt_dev_write(stage->dev, stage->block, size / KVTREE_LOG_BLOCK, stage->buf);
	stage->block += size / KVTREE_LOG_BLOCK;
	stage->used = 0;
}

/* Add bytes to the stage, zeros if @data is NULL. */
static void stage_add(struct stage *stage, const u8 *data, u32 len)
{
	u32 n;

	while (len) {
		n = min_t(u32, len, KVT_LOG_BUF_BYTES - stage->used);
		if (data)
			memcpy(stage->buf + stage->used, data, n);
		else
			memset(stage->buf + stage->used, 0, n);
		data = data ? data + n : NULL;
		len -= n;
		stage->used += n;
		if (stage->used == KVT_LOG_BUF_BYTES)
			stage_write(stage);
	}
}

static void chunk_finish(struct kvt_log_buf *buf, u32 stream)
{
	struct kvtree_log_chunk head = {
		.magic = cpu_to_le32(KVTREE_LOG_CHUNK_MAGIC),
		.blocks = cpu_to_le32(kvt_chunk_blocks(buf)),
		.records_len = cpu_to_le32(buf->used),
		.outside_len = cpu_to_le32(buf->outside_len),
		.epoch = cpu_to_le64(buf->epoch),
		.stream = cpu_to_le32(stream),
		.nr_records = cpu_to_le32(buf->nr_records),
	};

	memcpy(buf->data, &head, sizeof(head));
	memset(buf->data + buf->used, 0, records_size(buf) - buf->used);
}

/**
 * kvt_chunk_write() - begin to write a buffer
 * @dev: the device
 * @buf: the buffer; all its records are complete, and stay until kvt_io_wait()
 * @stream: the stream that the chunk belongs to
 * @pos: where the chunk is written
 * @stage: KVT_LOG_BUF_BYTES of memory
 * @extent: the chunk is added to it; its blocks are 0 if it is new
 * @io: the records are written when kvt_io_wait() returns; the columns after them, on return
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or an error of the device.
 */
int kvt_chunk_write(struct kvt_log_dev *dev, struct kvt_log_buf *buf, u32 stream,
		    const struct kvt_log_pos *pos, u8 *stage, struct kvt_log_extent *extent,
		    struct kvt_io *io)
{
	u64 block = kvt_log_pos_block(dev->super, pos);
	u32 size = records_size(buf), i;
	struct stage s = { .dev = dev, .buf = stage, .block = block + size / KVTREE_LOG_BLOCK };

	chunk_finish(buf, stream);
	if (!extent->blocks) {
		extent->pos = *pos;
		extent->crc = kvt_log_crc(dev->super, dev->devs->generation, pos, "", 0);
		extent->stream = stream;
		extent->epoch = buf->epoch;
	}
	s.crc = kvt_crc32c(extent->crc, buf->data, size);
	kvt_dev_write_begin(dev, block, size / KVTREE_LOG_BLOCK, buf->data, io);
	for (i = 0; i < buf->nr_outside; i++) {
		u32 len = buf->outside[i]->len;

		stage_add(&s, buf->outside[i]->data, len);
		stage_add(&s, NULL, ALIGN(len, 8) - len);
	}
	stage_write(&s);
	extent->crc = s.crc;
	extent->blocks += kvt_chunk_blocks(buf);
	return s.err;
}
