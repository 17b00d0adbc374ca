// SPDX-License-Identifier: GPL-2.0
/*
 * ranges: disks with ranges of a random history are restored correctly, and disks with a fault
 * in them are refused.
 *
 * build: write such disks to images, of the first seed from the given one that needs as many.
 */
#include <inttypes.h>
#include "cmd.h"
#include "damage.h"
#include "mutate.h"
#include "ranges.h"

/* The most reads that ranges may take, in percent of those without reading ahead. */
#define READS_PERCENT	70
/* The most reads ahead that one bad block may fail: of two pieces, in two parts of the ranges. */
#define BAD_READS	4

/*
 * Exactly each key once: no older piece returns keys that a newer one covers.  They are in order if
 * all pieces are read together.
 */
static bool is_right(const struct fmt_state *now, const struct fmt_state *want)
{
	return fmt_state_same(now, want) && now->nr_items == want->nr && !now->astray &&
	       (now->merge_blocks || !now->disorder);
}

static u64 sound_ranges(const struct cmd_options *o, u64 *keys)
{
	struct fmt_state now = { 0 }, want = { 0 };
	struct fmt_disks disks;
	u64 wrong = 0, i;

	*keys = 0;
	for (i = 0; i < o->places; i++) {
		fmt_ranges_make(&disks, o->seed + i, FMT_SOUND, &want);
		/* Often all pieces together, or else a few. */
		now.merge_blocks = i % 2 ? 1 + i / 2 % 32 : 0;
		fmt_recover(&disks, &now, 0, false, NULL);
		if (!is_right(&now, &want)) {
			printf("# seed %" PRIu64 ": %u keys of %u, %u records, error %d %s\n",
			       (uint64_t)(o->seed + i), now.nr, want.nr, now.nr_items, -now.error,
			       now.text);
			wrong++;
		}
		*keys += want.nr;
		fmt_disks_free(&disks);
	}
	fmt_state_free(&now);
	fmt_state_free(&want);
	return wrong;
}

/* Choose any block after the superblocks that something has been written to. */
static void break_block(const struct fmt_disks *disks, u64 *row, struct fmt_state *state)
{
	do {
		state->bad_disk = fmt_below(row, disks->nr);
		state->bad_block = KVTREE_LOG_DATA_START +
				   fmt_below(row, (u32)disks->blocks[state->bad_disk] -
						  KVTREE_LOG_DATA_START);
	} while (!disks->written[state->bad_disk][state->bad_block]);
}

/* Reads of ranges. */
struct reads {
	u64 ahead;	/* of disks that can be read */
	u64 alone;	/* of the same */
	u64 refused;	/* disks that cannot */
	u32 bad;	/* the most reads ahead that failed on any disks */
};

/* Recover twice, once without reading ahead.  Returns whether there is no other difference. */
static bool same_ahead(const struct fmt_disks *disks, struct fmt_state *now,
		       struct fmt_state *alone, struct reads *reads)
{
	alone->alone = true;
	alone->bad_disk = now->bad_disk;
	alone->bad_block = now->bad_block;
	fmt_recover(disks, now, 0, false, NULL);
	fmt_recover(disks, alone, 0, false, NULL);
	if (now->error != alone->error || strcmp(now->text, alone->text) ||
	    now->nr_items != alone->nr_items || now->hash != alone->hash) {
		printf("# %u items, error %d %s; alone: %u, %d %s\n", now->nr_items, -now->error,
		       now->text, alone->nr_items, -alone->error, alone->text);
		return false;
	}
	reads->bad = max(reads->bad, now->bad_reads - alone->bad_reads);
	if (now->error) {
		reads->refused++;
		return true;
	}
	reads->ahead += now->reads;
	reads->alone += alone->reads;
	return true;
}

/*
 * What is read ahead of a range changes nothing but the number of reads, even if a block there
 * cannot be read: as many records were read before, and the error is the same.
 */
static u64 ranges_ahead(const struct cmd_options *o, u32 ahead_blocks, bool broken,
			struct reads *reads)
{
	struct fmt_state now = { .ahead_blocks = ahead_blocks }, alone = { 0 }, want = { 0 };
	struct fmt_disks disks;
	u64 wrong = 0, seed;

	*reads = (struct reads) { 0 };
	for (seed = o->seed; seed < o->seed + o->places; seed++) {
		u64 row = seed;

		fmt_ranges_make(&disks, seed, FMT_SOUND, &want);
		if (broken)
			break_block(&disks, &row, &now);
		if (!same_ahead(&disks, &now, &alone, reads)) {
			printf("# seed %" PRIu64 "\n", (uint64_t)seed);
			wrong++;
		}
		fmt_disks_free(&disks);
	}
	printf("# %u: %" PRIu64 " reads, %" PRIu64 " alone; %" PRIu64 " of %u fail, %u more\n",
	       ahead_blocks, (uint64_t)reads->ahead, (uint64_t)reads->alone,
	       (uint64_t)reads->refused, o->places, reads->bad);
	fmt_state_free(&now);
	fmt_state_free(&alone);
	fmt_state_free(&want);
	return wrong;
}

static u64 all_ahead(const struct cmd_options *o)
{
	struct reads reads, few;
	u64 wrong = ranges_ahead(o, 0, false, &reads);

	wrong += ranges_ahead(o, 5, false, &few);
	return wrong + !!reads.refused + (reads.ahead * 100 > reads.alone * READS_PERCENT) +
	       (few.ahead <= reads.ahead || few.ahead >= few.alone);
}

/* A read that has failed is not tried again for each range that it was for. */
static u64 broken_ahead(const struct cmd_options *o)
{
	struct reads reads;
	u64 wrong = ranges_ahead(o, 0, true, &reads);

	return wrong + !reads.refused + (reads.refused == o->places) +
	       !reads.bad + (reads.bad > BAD_READS);
}

/* A fault, on the first disks that have a place for it. */
static bool fault_is_refused(u64 seed, enum fmt_fault fault)
{
	struct fmt_state now = { 0 }, want = { 0 };
	struct fmt_disks disks;
	bool refused;

	while (!fmt_ranges_make(&disks, seed, fault, &want)) {
		fmt_disks_free(&disks);
		seed++;
	}
	fmt_recover(&disks, &now, 0, false, NULL);
	refused = now.error && now.text[0];
	if (!refused)
		printf("# seed %" PRIu64 ", %s: error %d %s\n", (uint64_t)seed,
		       fmt_fault_names[fault], -now.error, now.text);
	fmt_disks_free(&disks);
	fmt_state_free(&now);
	fmt_state_free(&want);
	return refused;
}

static u64 wrong_ranges(const struct cmd_options *o)
{
	u64 wrong = 0;
	u32 fault, i;

	for (fault = FMT_SOUND + 1; fault < FMT_FAULTS; fault++)
		for (i = 0; i < 1 + o->places / 64; i++)
			wrong += !fault_is_refused(o->seed + i * 64, fault);
	return wrong;
}

/* What is repeated is refused, and for that reason. */
static bool repeated_is_refused(void (*make)(struct fmt_disks *disks), const char *reason)
{
	struct fmt_state now = { 0 };
	struct fmt_disks disks;
	bool refused;

	make(&disks);
	fmt_recover(&disks, &now, 0, false, NULL);
	refused = now.error && strstr(now.text, reason);
	if (!refused)
		printf("# not '%s': error %d %s\n", reason, -now.error, now.text);
	fmt_disks_free(&disks);
	fmt_state_free(&now);
	return refused;
}

static u64 damage_place(struct fmt_subject *subject, const struct fmt_place *place, u32 every,
			u64 *bytes)
{
	u64 at = fmt_place_at(place), wrong = 0;
	u32 i;
	u8 byte;

	for (i = 0; i < place->bytes; i++) {
		if ((*bytes)++ % every)
			continue;
		byte = subject->disks.data[place->disk][at + i] ^ (u8)(1 + i % 255);
		fmt_disks_put(&subject->disks, place->disk, at + i, &byte, 1);
		wrong += fmt_subject_try(subject, 1) != FMT_DETECTED;
	}
	return wrong;
}

/* Miss each byte of pieces and directories, or one in every N. */
static u64 damaged_ranges(const struct cmd_options *o)
{
	struct fmt_subject subject;
	struct fmt_state want = { 0 };
	struct fmt_disks disks;
	u64 wrong = 0, bytes = 0;
	u32 i;

	fmt_ranges_find(&disks, 2, o->seed, &want);
	fmt_subject_take(&subject, &disks);
	for (i = 0; i < subject.map.nr; i++)
		if (subject.map.place[i].kind == FMT_PIECE ||
		    subject.map.place[i].kind == FMT_DIRECTORY)
			wrong += damage_place(&subject, &subject.map.place[i], o->every, &bytes);
	printf("# %" PRIu64 " bytes, each %u. damaged, %" PRIu64 " not found\n", (uint64_t)bytes,
	       o->every, (uint64_t)wrong);
	fmt_subject_close(&subject);
	fmt_state_free(&want);
	return wrong;
}

static u64 result(u32 nr, const char *name, u64 wrong)
{
	printf("%sok %u %s\n", wrong ? "not " : "", nr, name);
	fflush(stdout);
	return wrong;
}

int cmd_ranges(const struct cmd_options *o)
{
	u64 keys, wrong;

	printf("KTAP version 1\n1..7\n");
	wrong = sound_ranges(o, &keys);
	printf("# %u stores, %" PRIu64 " keys\n", o->places, (uint64_t)keys);
	wrong = result(1, "ranges_are_restored_as_they_were_written", wrong);
	wrong += result(2, "wrong_ranges_are_refused", wrong_ranges(o));
	wrong += result(3, "no_more_is_read_than_the_device_has",
			!repeated_is_refused(fmt_ranges_make_repeated, "more than fit"));
	wrong += result(4, "a_directory_is_loaded_once",
			!repeated_is_refused(fmt_ranges_make_relisted, "header is damaged"));
	wrong += result(5, "damage_of_ranges_is_found", damaged_ranges(o));
	wrong += result(6, "ranges_are_read_ahead", all_ahead(o));
	wrong += result(7, "ranges_are_read_ahead_where_that_fails", broken_ahead(o));
	return !!wrong;
}

int cmd_build(const struct cmd_options *o)
{
	struct fmt_state want = { 0 };
	struct fmt_disks disks;
	u64 seed;

	seed = fmt_ranges_find(&disks, o->nr_paths, o->seed, &want);
	fmt_disks_save(&disks, o->paths);
	printf("seed %" PRIu64 ": %u keys\n", (uint64_t)seed, want.nr);
	fmt_disks_free(&disks);
	fmt_state_free(&want);
	return 0;
}
