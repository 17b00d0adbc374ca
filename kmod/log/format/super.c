// SPDX-License-Identifier: GPL-2.0
/* Superblocks: choose the copies to use, and check that the set of devices is complete. */
#include "format.h"

/**
 * kvt_log_say() - report in words what is wrong
 * @set: the devices
 * @fmt: as for printf()
 */
void kvt_log_say(struct kvt_log_set *set, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set->say(set, text);
}

static u32 seed_crc(const struct kvtree_log_super *super, u64 generation,
		    const struct kvt_log_pos *pos)
{
	struct kvtree_log_seed seed = {
		.generation = cpu_to_le64(generation),
		.sequence = cpu_to_le64(pos->sequence),
		.segment = cpu_to_le32(pos->segment),
		.block = cpu_to_le32(pos->block),
		.dev_index = super->dev_index,
	};

	memcpy(seed.uuid, super->uuid, sizeof(seed.uuid));
	return kvt_crc32c(~0U, &seed, sizeof(seed));
}

/**
 * kvt_log_crc() - the checksum of bytes at a place
 * @super: of the device
 * @generation: of the life
 * @pos: the position of the bytes
 * @data: the bytes
 * @len: how many
 *
 * Return: the checksum; kvt_crc32c() can add more bytes to it.
 */
u32 kvt_log_crc(const struct kvtree_log_super *super, u64 generation,
		const struct kvt_log_pos *pos, const void *data, size_t len)
{
	return kvt_crc32c(seed_crc(super, generation, pos), data, len);
}
KVT_EXPORT_FOR_TESTS(kvt_log_crc);

/**
 * kvt_log_crc_zero() - the checksum of bytes that contain it
 * @super: of the device
 * @generation: of the life
 * @pos: the position of the bytes
 * @data: the bytes
 * @len: how many
 * @crc_off: offset of the checksum in them; its 4 bytes are taken as 0
 *
 * Return: the checksum.
 */
u32 kvt_log_crc_zero(const struct kvtree_log_super *super, u64 generation,
		     const struct kvt_log_pos *pos, const void *data, size_t len,
		     size_t crc_off)
{
	static const u8 zero[4];
	u32 crc;

	crc = kvt_log_crc(super, generation, pos, data, crc_off);
	crc = kvt_crc32c(crc, zero, sizeof(zero));
	return kvt_crc32c(crc, (const u8 *)data + crc_off + 4, len - crc_off - 4);
}
KVT_EXPORT_FOR_TESTS(kvt_log_crc_zero);

static u32 super_crc(const struct kvtree_log_super *super)
{
	const struct kvt_log_pos pos = {
		.segment = ~0U,
		.block = le64_to_cpu(super->number) % KVTREE_LOG_SUPER_COPIES,
	};

	return kvt_log_crc_zero(super, 0, &pos, super, sizeof(*super),
				offsetof(struct kvtree_log_super, crc));
}

/**
 * kvt_log_super_seal() - set a superblock's checksum
 * @super: the superblock, complete but for that
 */
void kvt_log_super_seal(struct kvtree_log_super *super)
{
	super->crc = cpu_to_le32(super_crc(super));
}
KVT_EXPORT_FOR_TESTS(kvt_log_super_seal);

/**
 * kvt_log_super_block() - where a superblock is written
 * @number: the superblock's
 *
 * Return: a block of the device.
 */
u64 kvt_log_super_block(u64 number)
{
	return number % KVTREE_LOG_SUPER_COPIES * KVTREE_LOG_SUPER_STRIDE;
}
KVT_EXPORT_FOR_TESTS(kvt_log_super_block);

/**
 * kvt_log_super_sound() - whether a copy of the superblock is as it was written
 * @super: the copy, as it was read
 * @copy: which copy
 *
 * Return: true if it is; its contents may be wrong nevertheless.
 */
bool kvt_log_super_sound(const struct kvtree_log_super *super, u32 copy)
{
	return le64_to_cpu(super->magic) == KVTREE_LOG_SUPER_MAGIC &&
	       le64_to_cpu(super->number) % KVTREE_LOG_SUPER_COPIES == copy &&
	       le32_to_cpu(super->crc) == super_crc(super);
}

/* Sectors that are not zeros, although those of all superblocks are. */
static u32 sectors_written(const char *block)
{
	static const char zeros[KVTREE_LOG_SECTOR];
	u32 nr = 0, at;

	for (at = KVTREE_LOG_ZEROS_FROM; at < KVTREE_LOG_BLOCK; at += KVTREE_LOG_SECTOR)
		nr += !!memcmp(block + at, zeros, sizeof(zeros));
	return nr;
}

/* Whether another format's data was written over the first copy. */
static bool super_taken(const struct kvtree_log_super *super)
{
	static const struct kvtree_log_mark marks[] = KVTREE_LOG_MARKS;
	const char *block = (const char *)super;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(marks); i++)
		if (!memcmp(block + marks[i].offset, marks[i].mark, marks[i].bytes))
			return true;
	return sectors_written(block) > 1;
}

/* Check the contents of a sound superblock: the device may have been forged. */
static bool super_sane(const struct kvtree_log_super *super, u64 size)
{
	u32 segment_blocks = le32_to_cpu(super->segment_blocks);
	u32 nr_segments = le32_to_cpu(super->nr_segments);
	u64 nr_blocks = le64_to_cpu(super->nr_blocks);
	u32 nr_lives = le32_to_cpu(super->nr_lives);
	u32 nr_devs = le32_to_cpu(super->nr_devs);

	return nr_devs && nr_devs <= KVTREE_LOG_DEVS_MAX &&
	       le32_to_cpu(super->dev_index) < nr_devs &&
	       segment_blocks >= KVTREE_LOG_SEGMENT_MIN &&
	       segment_blocks <= KVTREE_LOG_SEGMENT_MAX &&
	       nr_segments >= KVTREE_LOG_SEGMENTS_MIN &&
	       nr_segments <= KVTREE_LOG_SEGMENTS_MAX && nr_blocks <= size &&
	       nr_blocks >= KVTREE_LOG_DATA_START &&
	       (nr_blocks - KVTREE_LOG_DATA_START) / segment_blocks >= nr_segments &&
	       nr_lives <= KVTREE_LOG_LIVES_MAX &&
	       le64_to_cpu(super->version_lease) < KVT_LOG_NUMBER_MAX &&
	       le64_to_cpu(super->number) < KVT_LOG_NUMBER_MAX &&
	       le64_to_cpu(super->generation) < KVT_LOG_NUMBER_MAX &&
	       le64_to_cpu(super->checkpoint.epoch) < KVT_LOG_NUMBER_MAX;
}

static int super_features(struct kvt_log_set *set, const struct kvtree_log_super *super)
{
	if (le32_to_cpu(super->version) == KVTREE_LOG_VERSION &&
	    !(le64_to_cpu(super->incompat) & ~KVT_LOG_INCOMPAT) && !super->ro_compat)
		return 0;
	kvt_log_say(set, "the format is newer than this program: version %u, features %llx %llx",
		    le32_to_cpu(super->version),
		    (unsigned long long)le64_to_cpu(super->ro_compat),
		    (unsigned long long)le64_to_cpu(super->incompat));
	return -EOPNOTSUPP;
}

/*
 * Read both copies.  One sound copy is enough: if the device cannot read the other one, treat that
 * as damaged.  But if no copy is sound, one that cannot be read might have been.
 */
static int super_read(struct kvt_log_set *set, struct kvt_log_dev_super *dev, u32 slot)
{
	bool found = false, sane = true, taken = false;
	u32 copy;
	int err;

	for (copy = 0; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		struct kvtree_log_super *super = &dev->copy[copy];

		err = set->read(set, slot, kvt_log_super_block(copy), 1, super);
		if (err == -EIO) {
			kvt_log_say(set, "device %u: copy %u of the superblock cannot be read",
				    slot + 1, copy);
			dev->unread = true;
			continue;
		}
		if (err)
			return err;
		if (!kvt_log_super_sound(super, copy)) {
			taken |= !copy && super_taken(super);
			continue;
		}
		err = super_features(set, super);
		if (err)
			return err;
		found = true;
		dev->valid[copy] = super_sane(super, set->size[slot]);
		sane &= dev->valid[copy];
	}
	dev->slot = slot;
	if (found && taken && !set->mend) {
		kvt_log_say(set, "device %u: something else was written over its first superblock",
			    slot + 1);
		return -EINVAL;
	}
	if (found && sane)
		return 0;
	if (found)
		kvt_log_say(set, "device %u has shrunk, or its superblock is wrong",
			    slot + 1);
	else if (!dev->unread)
		kvt_log_say(set, "device %u has no superblock of kvtree", slot + 1);
	if (dev->unread)
		return -EIO;
	return found ? -EBADMSG : -EINVAL;
}

static const struct kvtree_log_super *dev_any(const struct kvt_log_dev_super *dev)
{
	return dev->valid[0] ? &dev->copy[0] : &dev->copy[1];
}

/*
 * Copy the label, with all but printable ASCII replaced: the device may come from an untrusted
 * source.
 */
static void label_text(const struct kvtree_log_super *super, char *text)
{
	size_t i;

	for (i = 0; i < sizeof(super->label); i++) {
		u8 c = super->label[i];

		text[i] = !c || (c >= ' ' && c <= '~') ? c : '?';
	}
	text[sizeof(super->label) - 1] = '\0';
}

/* Sort the devices by index; check that each is there once, and that all are of one store. */
static int set_sort(struct kvt_log_set *set, const struct kvt_log_dev_super *read)
{
	const struct kvtree_log_super *first = dev_any(&read[0]), *super;
	bool there[KVTREE_LOG_DEVS_MAX] = {};
	char label[sizeof(first->label)];
	int err = 0;
	u32 i, index;

	set->nr_devs = le32_to_cpu(first->nr_devs);
	for (i = 0; i < set->nr_given; i++) {
		super = dev_any(&read[i]);
		if (memcmp(super->uuid, first->uuid, sizeof(super->uuid)) ||
		    super->nr_devs != first->nr_devs) {
			kvt_log_say(set, "device %u belongs to another store than device 1", i + 1);
			return -EXDEV;
		}
		index = le32_to_cpu(super->dev_index);
		if (there[index]) {
			kvt_log_say(set, "device %u is given twice, or is a copy", i + 1);
			return -EXDEV;
		}
		there[index] = true;
		set->dev[index] = read[i];
	}
	label_text(first, label);
	for (i = 0; i < set->nr_devs; i++) {
		if (there[i])
			continue;
		kvt_log_say(set, "device %u of the %u of the store '%s' is missing", i + 1,
			    set->nr_devs, label);
		err = -ENODEV;
	}
	return err;
}

/* The newer one of a device's valid copies. */
static const struct kvtree_log_super *dev_newer(const struct kvt_log_dev_super *dev)
{
	if (!dev->valid[0] || !dev->valid[1])
		return dev_any(dev);
	return &dev->copy[le64_to_cpu(dev->copy[1].number) > le64_to_cpu(dev->copy[0].number)];
}

/* The newer copy that was written with @write_id, or NULL.  Both such copies are the same. */
static const struct kvtree_log_super *dev_copy(const struct kvt_log_dev_super *dev,
					       __le64 write_id)
{
	const struct kvtree_log_super *newer = dev_newer(dev);
	u32 older = newer == &dev->copy[0];

	if (newer->write_id == write_id)
		return newer;
	return dev->valid[older] && dev->copy[older].write_id == write_id ? &dev->copy[older] :
									      NULL;
}

/* Whether the superblocks that one change has written to two devices agree. */
static bool super_agrees(const struct kvtree_log_super *a, const struct kvtree_log_super *b)
{
	return !memcmp(a->uuid, b->uuid, sizeof(a->uuid)) && a->nr_devs == b->nr_devs &&
	       a->nr_lives == b->nr_lives && a->generation == b->generation &&
	       a->version_lease == b->version_lease &&
	       a->incompat == b->incompat &&
	       a->checkpoint.epoch == b->checkpoint.epoch;
}

/* Whether all devices have the superblock of one change, in one copy or the other. */
static bool set_has(const struct kvt_log_set *set, const struct kvtree_log_super *like)
{
	const struct kvtree_log_super *super;
	u32 i;

	for (i = 0; i < set->nr_devs; i++) {
		super = dev_copy(&set->dev[i], like->write_id);
		if (!super || !super_agrees(super, like) || le32_to_cpu(super->dev_index) != i)
			return false;
	}
	return true;
}

/* Use the superblocks of @like's change.  @other: the first device's other copy, or NULL. */
static void set_take(struct kvt_log_set *set, const struct kvtree_log_super *like,
		     const struct kvtree_log_super *other)
{
	u32 i;

	set->number = 0;
	set->previous = other && other->write_id != like->write_id && set_has(set, other);
	for (i = 0; i < set->nr_devs; i++) {
		set->dev[i].super = dev_copy(&set->dev[i], like->write_id);
		set->number = max(set->number, le64_to_cpu(set->dev[i].super->number));
	}
	for (i = 0; i < set->nr_devs; i++)
		if (le64_to_cpu(set->dev[i].super->number) != set->number)
			set->previous = false;
}

/* Whether any copy could not be read, so that there may be more superblocks. */
static bool set_unread(const struct kvt_log_set *set)
{
	u32 i;

	for (i = 0; i < set->nr_devs; i++)
		if (set->dev[i].unread)
			return true;
	return false;
}

static int set_choose(struct kvt_log_set *set)
{
	const struct kvt_log_dev_super *dev = &set->dev[0];
	const struct kvtree_log_super *newer = dev_newer(dev), *other;
	u32 older = newer == &dev->copy[0];

	other = dev->valid[older] ? &dev->copy[older] : NULL;
	if (set_has(set, newer)) {
		set_take(set, newer, other);
		return 0;
	}
	if (other && set_has(set, other)) {
		set_take(set, other, NULL);
		return 0;
	}
	kvt_log_say(set, "the devices have no superblock in common");
	return set_unread(set) ? -EIO : -EBADMSG;
}

/**
 * kvt_log_set_load() - read the superblocks
 * @set: the caller's part filled; kvt_log_set_free() must follow, whatever is
 *	returned
 *
 * Return: 0; -EINVAL: not formatted, or in use for something else by now; -EXDEV: devices of
 * different stores; -ENODEV: devices are missing; -EOPNOTSUPP: a newer format; -EBADMSG: damaged;
 * -EIO: a copy cannot be read, and the others do not suffice; -ENOMEM.
 */
int kvt_log_set_load(struct kvt_log_set *set)
{
	struct kvt_log_dev_super *read;
	int err = 0;
	u32 i;

	set->dev = kvt_env_alloc(KVTREE_LOG_DEVS_MAX * sizeof(*set->dev));
	read = kvt_env_alloc(KVTREE_LOG_DEVS_MAX * sizeof(*read));
	if (!set->dev || !read)
		err = -ENOMEM;
	for (i = 0; !err && i < set->nr_given; i++)
		err = super_read(set, &read[i], i);
	if (!err)
		err = set_sort(set, read);
	if (!err)
		err = set_choose(set);
	kvt_env_free(read);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_log_set_load);

/**
 * kvt_log_set_free() - free the superblocks
 * @set: of kvt_log_set_load()
 */
void kvt_log_set_free(struct kvt_log_set *set)
{
	kvt_env_free(set->dev);
	set->dev = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_log_set_free);

/**
 * kvt_log_set_lives() - how many lives the superblocks list
 * @set: loaded
 *
 * Return: their number, which is the same on all devices.
 */
u32 kvt_log_set_lives(const struct kvt_log_set *set)
{
	return le32_to_cpu(set->dev[0].super->nr_lives);
}

/**
 * kvt_log_set_life() - get a life from a device's superblock
 * @set: loaded
 * @dev: index of the device
 * @i: which life, less than kvt_log_set_lives()
 *
 * Return: the life, with that device's positions.
 */
const struct kvtree_log_life *kvt_log_set_life(const struct kvt_log_set *set, u32 dev, u32 i)
{
	return &set->dev[dev].super->lives[i];
}
