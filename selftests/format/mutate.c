// SPDX-License-Identifier: GPL-2.0
/* Other values in fields: see mutate.h. */
#include "mutate.h"

static u32 take(struct fmt_bytes *bytes, u32 n)
{
	u32 value = 0;

	while (n--)
		value = value << 8 | (bytes->at < bytes->end ? *bytes->at++ : 0);
	return value;
}

/* Values that limits may be wrong for. */
static u64 draw_value(struct fmt_bytes *bytes, u64 was)
{
	static const u64 values[] = {
		0, 1, 2, 7, 8, 31, 32, 255, 256, 4095, 4096, 4097, 65535, 65536, 1 << 20,
		(1 << 20) + 8, 1023, 1024, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8,
		1ull << 61, (1ull << 62) - 1, 1ull << 62, 1ull << 63, ~0ull, ~0ull - 7,
	};
	u32 what = take(bytes, 1);

	if (what < 3 * FMT_NR(values))
		return values[what % FMT_NR(values)];
	if (what < 120)
		return was + (what - 100);
	if (what < 160)
		return was ^ 1ull << take(bytes, 1) % 64;
	if (what < 200)
		return take(bytes, 2);
	return (u64)take(bytes, 4) << 32 | take(bytes, 4);
}

/* An offset in a structure, more often near its beginning. */
static u32 draw_offset(struct fmt_bytes *bytes, u32 size)
{
	u32 what = take(bytes, 1);

	if (what < 200)
		return what % min(size, 128U);
	if (what < 230)
		return take(bytes, 1) * 4 % size;
	return take(bytes, 3) % size;
}

static void put_number(struct fmt_disks *disks, const struct fmt_place *place, u32 off,
		       u32 width, struct fmt_bytes *bytes)
{
	u64 at = fmt_place_at(place) + off;
	__le64 raw = 0;

	memcpy(&raw, disks->data[place->disk] + at, width);
	raw = cpu_to_le64(draw_value(bytes, le64_to_cpu(raw)));
	fmt_disks_put(disks, place->disk, at, &raw, width);
}

/* Copy something from elsewhere: an extent, a position, a life. */
static void put_copy(const struct fmt_map *map, struct fmt_disks *disks,
		     const struct fmt_place *place, u32 off, struct fmt_bytes *bytes)
{
	const struct fmt_place *from = &map->place[take(bytes, 2) % map->nr];
	u32 len = 8u << take(bytes, 1) % 4, at, size = from->bytes;

	at = draw_offset(bytes, size) & ~7u;
	len = min(len, min(size - at, place->bytes - off));
	fmt_disks_put(disks, place->disk, fmt_place_at(place) + off,
		      disks->data[from->disk] + fmt_place_at(from) + at, len);
}

/* The superblock's copies say the same, unless only one is to be changed. */
static void follow_super(const struct fmt_map *map, struct fmt_disks *disks, u32 i, u32 off)
{
	const struct fmt_place *place = &map->place[i], *other;
	u32 j;

	for (j = 0; j < map->nr; j++) {
		other = &map->place[j];
		if (other->kind != FMT_SUPER || other->block == place->block ||
		    other->dev != place->dev)
			continue;
		off &= ~7u;
		if (off == offsetof(struct kvtree_log_super, number))
			continue;
		fmt_disks_put(disks, other->disk, other->block * KVTREE_LOG_BLOCK + off,
			      fmt_block(disks, place->disk, place->block) + off, 8);
		fmt_map_seal(map, disks, j);
	}
}

void fmt_mutate(const struct fmt_map *map, struct fmt_disks *disks, struct fmt_bytes *bytes)
{
	while (bytes->end - bytes->at >= 4) {
		u32 i = take(bytes, 2) % map->nr, how = take(bytes, 1);
		const struct fmt_place *place = &map->place[i];
		u32 width = 1u << how % 4;
		u32 off = draw_offset(bytes, place->bytes);

		off &= ~(width - 1);
		if (how < 208)
			put_number(disks, place, off, width, bytes);
		else
			put_copy(map, disks, place, off & ~7u, bytes);
		fmt_map_seal(map, disks, i);
		if (place->kind == FMT_SUPER && how & 16)
			follow_super(map, disks, i, off);
	}
}

void fmt_mutate_seed(const struct fmt_map *map, struct fmt_disks *disks, u64 seed)
{
	struct fmt_bytes bytes;
	u8 raw[FMT_MUTATE_BYTES];
	u32 i;

	for (i = 0; i < sizeof(raw); i++)
		raw[i] = (u8)(fmt_random(&seed) >> 40);
	bytes.at = raw;
	bytes.end = raw + 10 + fmt_below(&seed, sizeof(raw) - 10);
	fmt_mutate(map, disks, &bytes);
}

bool fmt_found_sane(const struct kvt_log_found *found)
{
	const u64 max = 1ull << 62;

	return found->epoch < max && found->generation < max &&
	       found->version_lease < max - (1ull << 40);
}
