// SPDX-License-Identifier: GPL-2.0
/* The header of a segment. */
#include "format.h"

/**
 * kvt_log_segment_fill() - make a segment's header
 * @head: filled
 * @super: of the device
 * @generation: of the life
 * @pos: the segment and its sequence; block 0
 * @kind: what it will hold
 * @stream: of its first chunk; 0 if it has no chunks of streams
 */
void kvt_log_segment_fill(struct kvtree_log_segment *head, const struct kvtree_log_super *super,
			  u64 generation, const struct kvt_log_pos *pos,
			  enum kvtree_log_kind kind, u32 stream)
{
	memset(head, 0, sizeof(*head));
	head->magic = cpu_to_le64(KVTREE_LOG_SEGMENT_MAGIC);
	head->kind = cpu_to_le32(kind);
	head->generation = cpu_to_le64(generation);
	head->sequence = cpu_to_le64(pos->sequence);
	head->segment = cpu_to_le32(pos->segment);
	head->stream = cpu_to_le32(stream);
	memcpy(head->uuid, super->uuid, sizeof(head->uuid));
	head->crc = cpu_to_le32(kvt_log_crc_zero(super, generation, pos, head, sizeof(*head),
						 offsetof(struct kvtree_log_segment, crc)));
}
KVT_EXPORT_FOR_TESTS(kvt_log_segment_fill);

/**
 * kvt_log_segment_sound() - read a segment's header and check it
 * @set: the devices
 * @dev: index of the device
 * @generation: of the life that used it
 * @pos: a place in it
 * @kind: what it should hold
 *
 * Nothing is reported: whether a wrong header is an error depends on the epoch.
 *
 * Return: KVT_LOG_SOUND, KVT_LOG_DAMAGED, -EIO or -ENOMEM.
 */
int kvt_log_segment_sound(struct kvt_log_set *set, u32 dev, u64 generation,
			  const struct kvt_log_pos *pos, enum kvtree_log_kind kind)
{
	const struct kvtree_log_super *super = set->dev[dev].super;
	struct kvt_log_pos at = { .sequence = pos->sequence, .segment = pos->segment };
	struct kvtree_log_segment *head;
	int verdict;

	head = kvt_env_alloc(sizeof(*head));
	if (!head)
		return -ENOMEM;
	verdict = set->read(set, set->dev[dev].slot, kvt_log_pos_block(super, &at), 1, head);
	if (!verdict && (le64_to_cpu(head->magic) != KVTREE_LOG_SEGMENT_MAGIC ||
			 le32_to_cpu(head->kind) != kind ||
			 le64_to_cpu(head->sequence) != at.sequence ||
			 le32_to_cpu(head->crc) !=
			 kvt_log_crc_zero(super, generation, &at, head, sizeof(*head),
					  offsetof(struct kvtree_log_segment, crc))))
		verdict = KVT_LOG_DAMAGED;
	kvt_env_free(head);
	return verdict;
}

/**
 * kvt_log_segment_check() - check the header of something's segment, and report damage
 * @set: the devices
 * @in: something in the segment, with its life and epoch
 * @kind: what the segment should hold
 *
 * Return: as kvt_log_segment_sound().
 */
int kvt_log_segment_check(struct kvt_log_set *set, const struct kvt_log_extent *in,
			  enum kvtree_log_kind kind)
{
	int verdict = kvt_log_segment_sound(set, in->dev, in->generation, &in->pos, kind);

	if (verdict != KVT_LOG_DAMAGED && verdict != -EIO)
		return verdict;
	kvt_log_say(set, "device %u, segment %u: its header %s", in->dev + 1, in->pos.segment,
		    verdict == -EIO ? "cannot be read" : "is damaged");
	if (!in->saved)
		kvt_log_say(set, "device %u: it has a part of epoch %llu", in->dev + 1,
			    (unsigned long long)in->epoch);
	return verdict;
}
