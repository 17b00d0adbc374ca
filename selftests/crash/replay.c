// SPDX-License-Identifier: GPL-2.0
/* Replaying a record: see replay.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "crash.h"
#include "replay.h"

void crash_replay_open(struct crash_replay *r, const char *record, const char *oracle,
		       char *const *base)
{
	char text[400];

	memset(r, 0, sizeof(*r));
	crash_record_open(&r->record, record);
	r->oracle = crash_file_load(oracle, sizeof(*r->oracle));
	r->history = crash_history_new(r->oracle, text, sizeof(text));
	if (!r->history)
		crash_die("%s: %s", oracle, text);
	if (base && base[0]) {
		crash_image_load(&r->image, base, r->record.disks);
		r->formatted = true;
	} else {
		crash_image_init(&r->image, r->record.disks,
				 r->record.disk_sectors * CRASH_SECTOR);
	}
}

void crash_replay_to_crash(struct crash_replay *r, uint64_t seed)
{
	uint64_t at = r->record.entries / 2 + crash_mix(seed) % (r->record.entries / 3);

	while (crash_replay_next(r) && (r->record.nr < at || r->entry.type != CRASH_FLUSH))
		crash_replay_step(r);
}

void crash_replay_follow(struct crash_replay *r, struct crash_replay *first)
{
	if (r->image.nr != first->image.nr || r->image.bytes != first->image.bytes)
		crash_die("the lives are of different disks");
	crash_image_exit(&r->image);
	r->image = first->image;
	r->first = first;
	r->formatted = true;
}

bool crash_replay_next(struct crash_replay *r)
{
	return crash_record_next(&r->record, &r->entry);
}

static void step_mark(struct crash_replay *r, const char *text)
{
	uint64_t op, epoch;

	sscanf(text, "life %u", &r->lives);
	if (!strcmp(text, "formatted"))
		r->formatted = true;
	if (!strcmp(text, "attached"))
		r->attached = true;
	if (!strcmp(text, "detached"))
		r->detached = true;
	if (sscanf(text, "ack %" SCNx64 " %" SCNu64, &op, &epoch) == 2) {
		crash_promise_ack(r->history, &r->promise, op);
		if (r->promise.epoch < epoch)
			r->promise.epoch = epoch;
	}
	if (r->detached)
		crash_promise_all(r->history, &r->promise);
}

void crash_replay_step(struct crash_replay *r)
{
	if (r->entry.type == CRASH_MARK)
		step_mark(r, r->entry.data);
	else
		crash_image_add(&r->image, &r->entry);
}

/* A device that is being formatted is not one yet, or is empty. */
static bool judge_unformatted(const struct crash_state *state)
{
	return state->error == -EINVAL || state->error == -ENODEV || state->error == -EXDEV ||
	       state->error == -EBADMSG;
}

/* Nothing but the number of lives, of which the last one's change may be there or not. */
static bool judge_lives(const struct crash_replay *r, const struct crash_state *state, char *text,
			size_t len)
{
	const struct crash_value *lives = &state->value[CRASH_LIVES_KEY];
	uint32_t key, others = 0;

	for (key = 0; key < CRASH_KEYS; key++)
		others += state->value[key].present && key != CRASH_LIVES_KEY;
	if (!state->error && !state->wrong && !others && lives->present == !!lives->sum &&
	    (lives->sum == r->lives || lives->sum == r->lives + 1))
		return true;
	snprintf(text, len, "after life %u: error %d, %" PRIu64 " lives and %u keys: %s", r->lives,
		 state->error, lives->sum, others, state->text);
	return false;
}

bool crash_replay_judge(struct crash_replay *r, const struct crash_state *state, char *text,
			size_t len)
{
	if (!r->formatted && judge_unformatted(state))
		return true;
	if (!r->attached && r->oracle->head.lives)
		return judge_lives(r, state, text, len);
	/* So far nothing that this life has found was reported to a client. */
	if (r->first && !r->attached && crash_replay_judge(r->first, state, text, len))
		return true;
	if (!crash_judge(r->history, &r->promise, state, text, len))
		return false;
	if (state->epoch && state->epoch < r->promise.epoch) {
		snprintf(text, len, "epoch %" PRIu64 " was restored, %" PRIu64 " was durable",
			 state->epoch, r->promise.epoch);
		return false;
	}
	if (state->lease && state->lease <= crash_version_seen(r->history, &r->promise)) {
		snprintf(text, len, "version %" PRIu64 " was given out, and the lease is %" PRIu64,
			 crash_version_seen(r->history, &r->promise), state->lease);
		return false;
	}
	return true;
}

static int point_cmp(const void *a, const void *b)
{
	const struct crash_point *x = a, *y = b;

	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

struct crash_point *crash_points(struct crash_record *record, bool flushes, uint32_t random,
				 uint64_t seed, uint32_t *nr)
{
	struct crash_point *points = malloc((record->entries * 3 + random) * sizeof(*points));
	struct crash_entry entry;
	uint64_t row = crash_mix(seed);
	uint32_t n = 0;

	crash_record_rewind(record);
	while (flushes && crash_record_next(record, &entry)) {
		if (entry.type != CRASH_FLUSH && !entry.fua)
			continue;
		row = crash_mix(row);
		points[n++] = (struct crash_point){ record->nr - 1, CRASH_LOSE_ALL, row };
		points[n++] = (struct crash_point){
			record->nr - 1, 1 + (row >> 32) % (CRASH_LOSS_NR - 1), row,
		};
		/* One write is missing where all else is there: a header, say. */
		row = crash_mix(row);
		points[n++] = (struct crash_point){ record->nr - 1, CRASH_LOSE_ONE, row };
	}
	crash_record_rewind(record);
	while (random--) {
		row = crash_mix(row);
		points[n++] = (struct crash_point){
			(row >> 20) % (record->entries + 1), (row >> 8) % CRASH_LOSS_NR, row,
		};
	}
	qsort(points, n, sizeof(*points), point_cmp);
	*nr = n;
	return points;
}
