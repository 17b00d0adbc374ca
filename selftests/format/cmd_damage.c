// SPDX-License-Identifier: GPL-2.0
/*
 * damage: change each byte of superblocks, segment headers, commit records, tables and
 * directories, and bytes at random places of everything else.  Zero blocks, exchange them, and
 * replace them by earlier contents.  A recovery must restore exactly the original state, or
 * nothing, and report damage; never anything else.
 */
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"
#include "damage.h"
#include "mutate.h"

enum way { BYTES, RANDOM, ZEROED, SWAPPED, STALE, WAYS };

static const char *const way_names[WAYS] = {
	"each byte", "random bytes", "zeroed blocks", "swapped blocks", "stale blocks",
};

/* Shared by the processes. */
struct counts {
	u64 n[WAYS][FMT_KINDS + 1][FMT_OUTCOMES];	/* the last kind: what nothing reads */
};

struct damage {
	struct fmt_subject subject;
	struct fmt_disks stale;
	const struct cmd_options *o;
	struct counts *counts;
	u32 part;
	u64 turn;
};

/* Every @jobs-th is this process's. */
static bool my_turn(struct damage *d)
{
	return d->turn++ % d->o->jobs == d->part;
}

static void try(struct damage *d, enum way how, u32 kind, u32 disk, u64 at)
{
	enum fmt_outcome outcome = fmt_subject_try(&d->subject, how == SWAPPED ? 2 : 1);

	__atomic_fetch_add(&d->counts->n[how][kind][outcome], 1, __ATOMIC_RELAXED);
	if (outcome != FMT_WRONG || d->counts->n[how][kind][FMT_WRONG] > 5)
		return;
	printf("# %s: disk %u, block %" PRIu64 ", byte %" PRIu64 " (%s): WRONG, ", way_names[how],
	       disk + 1, (uint64_t)(at / KVTREE_LOG_BLOCK), (uint64_t)(at % KVTREE_LOG_BLOCK),
	       kind == FMT_KINDS ? "free" : fmt_kind_names[kind]);
	printf("error %d %s, epoch %" PRIu64 "\n", -d->subject.now.error, d->subject.now.text,
	       (uint64_t)d->subject.now.found.epoch);
	fflush(stdout);
}

static void change_byte(struct damage *d, u32 disk, u64 at, u64 *row)
{
	u8 byte = d->subject.disks.data[disk][at] ^ (u8)(1 + fmt_below(row, 255));

	fmt_disks_put(&d->subject.disks, disk, at, &byte, 1);
}

/* That may be many. */
static bool has_records(const struct fmt_place *place)
{
	return place->kind == FMT_EXTENT || place->kind == FMT_PIECE;
}

static void damage_bytes(struct damage *d, u64 *row)
{
	const struct fmt_map *map = &d->subject.map;
	u64 i, at, bytes;
	u32 p;

	for (p = 0; p < map->nr; p++) {
		if (has_records(&map->place[p]))
			continue;
		bytes = map->place[p].bytes;
		for (i = fmt_below(row, d->o->every); i < bytes; i += d->o->every) {
			if (!my_turn(d))
				continue;
			at = fmt_place_at(&map->place[p]) + i;
			change_byte(d, map->place[p].disk, at, row);
			try(d, BYTES, map->place[p].kind, map->place[p].disk, at);
		}
	}
}

/* The kind of a block's contents, of those that a recovery reads. */
static u32 kind_of(const struct fmt_map *map, u32 disk, u64 block)
{
	u32 i;

	for (i = 0; i < map->nr; i++)
		if (map->place[i].disk == disk && block >= map->place[i].block &&
		    block < map->place[i].block + map->place[i].blocks)
			return map->place[i].kind;
	return FMT_KINDS;
}

/* Most where something is read, some where something was written, and anywhere. */
static u64 draw_block(struct damage *d, u32 *disk, u64 *row)
{
	const struct fmt_map *map = &d->subject.map;
	u32 what = fmt_below(row, 10), i;
	u64 block;

	for (i = 0; i < 100000; i++) {
		if (what < 6) {
			const struct fmt_place *p = &map->place[fmt_below(row, map->nr)];

			*disk = p->disk;
			block = p->block + fmt_below(row, p->blocks);
			if (what > 4 || has_records(p))
				return block;
			continue;
		}
		*disk = fmt_below(row, d->subject.disks.nr);
		block = fmt_below(row, (u32)d->subject.disks.blocks[*disk]);
		if (what == 9 || d->subject.disks.written[*disk][block])
			return block;
	}
	return 0;
}

static void damage_random(struct damage *d, u64 *row)
{
	u32 i, disk = 0;
	u64 at;

	for (i = 0; i < d->o->places; i++) {
		at = draw_block(d, &disk, row) * KVTREE_LOG_BLOCK +
		     fmt_below(row, KVTREE_LOG_BLOCK);
		change_byte(d, disk, at, row);
		if (my_turn(d))
			try(d, RANDOM, kind_of(&d->subject.map, disk, at / KVTREE_LOG_BLOCK), disk,
			    at);
		fmt_disks_restore(&d->subject.disks);
	}
}

static void put_block(struct damage *d, u32 disk, u64 block, const u8 *data)
{
	fmt_disks_put(&d->subject.disks, disk, block * KVTREE_LOG_BLOCK, data, KVTREE_LOG_BLOCK);
}

static void damage_zeroed(struct damage *d)
{
	static const u8 zeros[KVTREE_LOG_BLOCK];
	const struct fmt_map *map = &d->subject.map;
	const struct fmt_place *p;
	u32 i, b;

	for (i = 0; i < map->nr; i++) {
		p = &map->place[i];
		for (b = 0; b < p->blocks; b++) {
			if (!my_turn(d))
				continue;
			put_block(d, p->disk, p->block + b, zeros);
			try(d, ZEROED, p->kind, p->disk, (p->block + b) * KVTREE_LOG_BLOCK);
		}
	}
}

/* Two blocks, at least one of which is read. */
static void damage_swapped(struct damage *d, u64 *row)
{
	const struct fmt_map *map = &d->subject.map;
	u8 first[KVTREE_LOG_BLOCK], second[KVTREE_LOG_BLOCK];
	const struct fmt_place *p;
	u32 i, disk = 0;
	u64 from, to;

	for (i = 0; i < d->o->places / 4; i++) {
		p = &map->place[fmt_below(row, map->nr)];
		from = p->block + fmt_below(row, p->blocks);
		to = draw_block(d, &disk, row);
		if (!my_turn(d))
			continue;
		memcpy(first, fmt_block(&d->subject.disks, p->disk, from), sizeof(first));
		memcpy(second, fmt_block(&d->subject.disks, disk, to), sizeof(second));
		put_block(d, p->disk, from, second);
		put_block(d, disk, to, first);
		try(d, SWAPPED, p->kind, p->disk, from * KVTREE_LOG_BLOCK);
	}
}

/* Each block that is read, as it was; and some as another one was. */
static void damage_stale(struct damage *d, u64 *row)
{
	const struct fmt_map *map = &d->subject.map;
	const struct fmt_place *p;
	u32 i, b, disk;
	u64 block;

	for (i = 0; i < map->nr; i++) {
		p = &map->place[i];
		for (b = 0; b < p->blocks; b++) {
			if (!my_turn(d) || !d->stale.written[p->disk][p->block + b])
				continue;
			put_block(d, p->disk, p->block + b,
				  fmt_block(&d->stale, p->disk, p->block + b));
			try(d, STALE, p->kind, p->disk, (p->block + b) * KVTREE_LOG_BLOCK);
		}
	}
	for (i = 0; i < d->o->places / 4; i++) {
		p = &map->place[fmt_below(row, map->nr)];
		do {
			disk = fmt_below(row, d->stale.nr);
			block = fmt_below(row, (u32)d->stale.blocks[disk]);
		} while (!d->stale.written[disk][block]);
		if (!my_turn(d))
			continue;
		put_block(d, p->disk, p->block, fmt_block(&d->stale, disk, block));
		try(d, STALE, p->kind, p->disk, p->block * KVTREE_LOG_BLOCK);
	}
}

static void damage_part(struct damage *d)
{
	u64 row = d->o->seed;

	damage_bytes(d, &row);
	/* The others draw the same. */
	row = d->o->seed + 1;
	damage_random(d, &row);
	damage_zeroed(d);
	row = d->o->seed + 2;
	damage_swapped(d, &row);
	row = d->o->seed + 3;
	if (d->stale.nr)
		damage_stale(d, &row);
}

static u64 print_counts(const struct counts *counts, u64 seed)
{
	u64 sum[FMT_OUTCOMES] = { 0 };
	u32 way, kind, o;

	printf("seed %" PRIu64 "\n%-16s %-18s %9s %9s %9s %9s\n", (uint64_t)seed, "damage", "to",
	       "detected", "no effect", "dropped", "WRONG");
	for (way = 0; way < WAYS; way++) {
		for (kind = 0; kind <= FMT_KINDS; kind++) {
			const u64 *n = counts->n[way][kind];

			if (!(n[FMT_DETECTED] + n[FMT_SAME] + n[FMT_DROPPED] + n[FMT_WRONG]))
				continue;
			printf("%-16s %-18s", way_names[way],
			       kind == FMT_KINDS ? "nothing" : fmt_kind_names[kind]);
			for (o = 0; o < FMT_OUTCOMES; o++) {
				printf(" %9" PRIu64, (uint64_t)n[o]);
				sum[o] += n[o];
			}
			printf("\n");
		}
	}
	printf("%" PRIu64 " damaged: %" PRIu64 " detected, %" PRIu64 " without effect, %" PRIu64
	       " took the last epoch, %" PRIu64 " WRONG\n",
	       (uint64_t)(sum[0] + sum[1] + sum[2] + sum[3]), (uint64_t)sum[0], (uint64_t)sum[1],
	       (uint64_t)sum[2], (uint64_t)sum[3]);
	return sum[FMT_WRONG] || !sum[FMT_DETECTED] || !sum[FMT_SAME];
}

int cmd_damage(const struct cmd_options *o)
{
	struct damage d = { .o = o };
	int status, rc = 0;

	d.counts = mmap(NULL, sizeof(*d.counts), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d.counts == MAP_FAILED)
		fmt_die("out of memory");
	fmt_subject_open(&d.subject, o->paths, o->nr_paths);
	if (o->nr_stale)
		fmt_disks_load(&d.stale, o->stale, o->nr_stale);
	for (d.part = 0; d.part < o->jobs; d.part++) {
		fflush(stdout);
		if (!fork()) {
			damage_part(&d);
			fflush(stdout);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		rc |= status;
	if (rc)
		printf("# a recovery came to a bad end: status %x\n", rc);
	rc |= (int)print_counts(d.counts, o->seed);
	fmt_subject_close(&d.subject);
	if (o->nr_stale)
		fmt_disks_free(&d.stale);
	return rc ? 1 : 0;
}
