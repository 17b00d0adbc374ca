// SPDX-License-Identifier: GPL-2.0
/* Disks in memory: see log_disk.h. */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "log_disk.h"

static struct ld *ld_of(struct kvt_log_set *set)
{
	return container_of(set, struct ld, set);
}

static int ld_read(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	struct ld *ld = ld_of(set);
	u32 i;

	if (block + nr > LD_BLOCKS)
		return -EIO;
	if (!slot && ld->unreadable_err && ld->unreadable >= block && ld->unreadable < block + nr)
		return ld->unreadable_err;
	for (i = 0; i < nr; i++, buf += KVTREE_LOG_BLOCK) {
		if (ld->block[slot][block + i])
			memcpy(buf, ld->block[slot][block + i], KVTREE_LOG_BLOCK);
		else
			memset(buf, 0, KVTREE_LOG_BLOCK);
	}
	return 0;
}

static void ld_say(struct kvt_log_set *set, const char *text)
{
	strscpy(ld_of(set)->said, text);
}

/* A block, to be changed. */
u8 *ld_block(struct ld *ld, u32 disk, u64 block)
{
	u8 **at = &ld->block[disk][block];

	if (!*at)
		*at = kunit_kzalloc(ld->test, KVTREE_LOG_BLOCK, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(ld->test, *at);
	return *at;
}

void ld_damage(struct ld *ld, u32 disk, u64 block, u32 at)
{
	ld_block(ld, disk, block)[at] ^= 0x10;
}

void ld_unreadable(struct ld *ld, u64 block, int err)
{
	ld->unreadable = block;
	ld->unreadable_err = err;
}

void ld_write_supers(struct ld *ld)
{
	u64 number;
	u32 i;

	for (i = 0; i < ld->set.nr_given; i++) {
		for (number = 1; number <= KVTREE_LOG_SUPER_COPIES; number++) {
			ld->super[i]->number = cpu_to_le64(number);
			kvt_log_super_seal(ld->super[i]);
			memcpy(ld_block(ld, i, kvt_log_super_block(number)), ld->super[i],
			       KVTREE_LOG_BLOCK);
		}
	}
}

void ld_end_life(struct ld *ld, u64 epoch)
{
	u32 i;

	for (i = 0; i < ld->set.nr_given; i++)
		ld->super[i]->lives[0].last_epoch = cpu_to_le64(epoch);
	ld_write_supers(ld);
}

static struct kvtree_log_super *ld_super(struct ld *ld, u32 disk, u32 nr)
{
	struct kvtree_log_super *super = kunit_kzalloc(ld->test, sizeof(*super), GFP_KERNEL);
	const struct kvt_log_pos commit = { .sequence = 1, .segment = LD_COMMIT, .block = 1 };

	KUNIT_ASSERT_NOT_NULL(ld->test, super);
	super->magic = cpu_to_le64(KVTREE_LOG_SUPER_MAGIC);
	super->version = cpu_to_le32(KVTREE_LOG_VERSION);
	memset(super->uuid, 0x5a, sizeof(super->uuid));
	super->dev_index = cpu_to_le32(disk);
	super->nr_devs = cpu_to_le32(nr);
	super->nr_blocks = cpu_to_le64(LD_BLOCKS);
	super->segment_blocks = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN);
	super->nr_segments = cpu_to_le32(LD_SEGMENTS);
	super->incompat = cpu_to_le64(KVTREE_LOG_SPARSE);
	super->write_id = cpu_to_le64(7);
	super->generation = cpu_to_le64(LD_GENERATION);
	super->version_lease = cpu_to_le64(1000);
	super->nr_lives = cpu_to_le32(1);
	super->lives[0].generation = cpu_to_le64(LD_GENERATION);
	super->lives[0].first_epoch = cpu_to_le64(1);
	kvt_log_pos_store(&super->lives[0].commit, &commit);
	return super;
}

static struct kvt_log_pos ld_segment(struct ld *ld, u32 disk, u32 segment,
				     enum kvtree_log_kind kind)
{
	struct kvt_log_pos pos = { .sequence = segment + 1, .segment = segment };
	u64 block = kvt_log_pos_block(ld->super[disk], &pos);

	kvt_log_segment_fill((void *)ld_block(ld, disk, block), ld->super[disk], LD_GENERATION,
			     &pos, kind, 0);
	pos.block = 1;
	return pos;
}

static void ld_free(void *arg)
{
	struct ld *ld = arg;
	u32 i;

	kvt_log_set_free(&ld->set);
	for (i = 0; i < LD_DISKS; i++)
		vfree(ld->block[i]);
}

struct ld *ld_new(struct kunit *test, u32 nr)
{
	struct ld *ld = kunit_kzalloc(test, sizeof(*ld), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, ld);
	ld->test = test;
	ld->set.read = ld_read;
	ld->set.say = ld_say;
	ld->set.nr_given = nr;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, ld_free, ld));
	for (i = 0; i < nr; i++) {
		ld->set.size[i] = LD_BLOCKS;
		ld->block[i] = vzalloc(array_size(LD_BLOCKS, sizeof(*ld->block[i])));
		KUNIT_ASSERT_NOT_NULL(test, ld->block[i]);
		ld->super[i] = ld_super(ld, i, nr);
		ld->commit[i] = ld_segment(ld, i, LD_COMMIT, KVTREE_LOG_KIND_COMMIT);
		ld->stream[i] = ld_segment(ld, i, LD_STREAM, KVTREE_LOG_KIND_STREAM);
		ld_segment(ld, i, LD_AHEAD, KVTREE_LOG_KIND_COMMIT);
	}
	ld_write_supers(ld);
	return ld;
}

static u32 ld_record(u8 *to, const struct ld_record *from)
{
	u32 key_len = strlen(from->key), value_len = from->value ? strlen(from->value) : 0;
	struct kvtree_log_record *rec = (void *)to;
	u32 len = ALIGN(sizeof(*rec) + key_len + value_len, 8);

	rec->len = cpu_to_le32(len);
	rec->type = from->value ? KVTREE_LOG_PUT : KVTREE_LOG_REMOVE;
	rec->key_len = cpu_to_le16(key_len);
	rec->version = cpu_to_le64(from->version);
	rec->value = cpu_to_le32(value_len);
	memcpy(to + sizeof(*rec), from->key, key_len);
	if (from->value)
		memcpy(to + sizeof(*rec) + key_len, from->value, value_len);
	return len;
}

void ld_add_extent(struct ld *ld, u32 disk, u64 epoch, const struct ld_record *records, u32 nr,
		   struct kvt_log_extent *extent)
{
	struct kvt_log_pos *pos = &ld->stream[disk];
	u8 *block = ld_block(ld, disk, kvt_log_pos_block(ld->super[disk], pos));
	struct kvtree_log_chunk *head = (void *)block;
	u32 used = sizeof(*head), i;

	for (i = 0; i < nr; i++)
		used += ld_record(block + used, &records[i]);
	head->magic = cpu_to_le32(KVTREE_LOG_CHUNK_MAGIC);
	head->blocks = cpu_to_le32(1);
	head->records_len = cpu_to_le32(used);
	head->epoch = cpu_to_le64(epoch);
	head->nr_records = cpu_to_le32(nr);
	*extent = (struct kvt_log_extent) {
		.pos = *pos, .dev = disk, .blocks = 1, .generation = LD_GENERATION,
		.epoch = epoch,
		.crc = kvt_log_crc(ld->super[disk], LD_GENERATION, pos, block, KVTREE_LOG_BLOCK),
	};
	pos->block++;
}

void ld_add_trailer(struct ld *ld, u32 disk, u64 epoch, const struct kvt_log_extent *extents,
		    u32 nr)
{
	const struct kvt_log_pos ahead = {
		.sequence = LD_AHEAD + 1, .segment = LD_AHEAD, .block = 1,
	};
	struct kvt_log_pos at = ld->commit[disk], *next = &ld->commit[disk];
	u64 block = kvt_log_pos_block(ld->super[disk], &at);
	struct kvtree_log_trailer *t;
	u32 blocks, i;

	blocks = DIV_ROUND_UP(sizeof(*t) + nr * sizeof(t->extents[0]),
			      KVTREE_LOG_BLOCK);
	t = kunit_kzalloc(ld->test, blocks * KVTREE_LOG_BLOCK, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(ld->test, t);
	next->block += blocks;
	t->magic = cpu_to_le64(KVTREE_LOG_TRAILER_MAGIC);
	t->blocks = cpu_to_le32(blocks);
	t->epoch = cpu_to_le64(epoch);
	t->generation = cpu_to_le64(LD_GENERATION);
	t->version_lease = cpu_to_le64(1000 + epoch);
	kvt_log_pos_store(&t->next, next);
	kvt_log_pos_store(&t->ahead, &ahead);
	t->nr_extents = cpu_to_le32(nr);
	t->dev_index = cpu_to_le32(disk);
	t->devices = ld->devices;
	for (i = 0; i < nr; i++) {
		kvt_log_pos_store(&t->extents[i].pos, &extents[i].pos);
		t->extents[i].blocks = cpu_to_le32(extents[i].blocks);
		t->extents[i].crc = cpu_to_le32(extents[i].crc);
	}
	t->head_crc = cpu_to_le32(kvt_log_trailer_head_crc(ld->super[disk], LD_GENERATION, &at,
							   t));
	t->crc = cpu_to_le32(kvt_log_crc_zero(ld->super[disk], LD_GENERATION, &at, t,
					      blocks * KVTREE_LOG_BLOCK,
					      offsetof(struct kvtree_log_trailer, crc)));
	for (i = 0; i < blocks; i++)
		memcpy(ld_block(ld, disk, block + i), (u8 *)t + i * KVTREE_LOG_BLOCK,
		       KVTREE_LOG_BLOCK);
}
