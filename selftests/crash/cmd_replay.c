// SPDX-License-Identifier: GPL-2.0
/*
 * replay: crash at every flush of a record and at other points; recover each crash by
 * the module's source and judge it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"
#include "crash.h"
#include "replay.h"

/* Shared by the processes. */
struct counts {
	uint64_t points;
	uint64_t lost;		/* points at which unflushed writes were lost */
	uint64_t writes;	/* that were */
	uint64_t behind;	/* points at which an epoch that was begun was dropped */
	uint64_t checked;	/* by "kvtree store check" as well */
	uint64_t lives;		/* that a superblock had at most */
	uint64_t failed;
};

static void count(uint64_t *n, uint64_t more)
{
	__atomic_fetch_add(n, more, __ATOMIC_RELAXED);
}

static void count_most(uint64_t *n, uint64_t nr)
{
	uint64_t most = __atomic_load_n(n, __ATOMIC_RELAXED);

	while (most < nr && !__atomic_compare_exchange_n(n, &most, nr, false, __ATOMIC_RELAXED,
							 __ATOMIC_RELAXED))
		;
}

/* A number that "kvtree --json store check" has printed. */
static uint64_t json_number(const char *json, const char *name)
{
	char pattern[40];
	const char *at;

	snprintf(pattern, sizeof(pattern), "\"%s\":", name);
	at = strstr(json, pattern);
	return at ? strtoull(at + strlen(pattern), NULL, 10) : UINT64_MAX;
}

/* Whether "kvtree store check" comes to the same conclusion. */
static bool check_agrees(const struct crash_image *image, const struct crash_state *state,
			 const char *dir, char *text, size_t len)
{
	char name[CRASH_DISKS][256], *paths[CRASH_DISKS], command[1600], json[4000] = "";
	uint64_t keys = 0;
	FILE *tool;
	int status;
	uint32_t i;

	snprintf(command, sizeof(command), "kvtree --json store check");
	for (i = 0; i < image->nr; i++) {
		snprintf(name[i], sizeof(name[i]), "%s/check-%d-%u.img", dir, getpid(), i);
		paths[i] = name[i];
		strcat(command, " ");
		strcat(command, name[i]);
	}
	crash_image_save(image, paths);
	strcat(command, " 2>&1");
	tool = popen(command, "r");
	if (!tool || fread(json, 1, sizeof(json) - 1, tool) == 0)
		json[0] = '\0';
	status = tool ? pclose(tool) : -1;
	for (i = 0; i < image->nr; i++)
		unlink(name[i]);
	for (i = 0; i < CRASH_KEYS; i++)
		keys += state->value[i].present;
	if (state->error ? status != 0 : !status && json_number(json, "epoch") == state->epoch &&
	    json_number(json, "keys") == keys && json_number(json, "records") == state->records)
		return true;
	snprintf(text, len, "kvtree store check does not agree (%lu keys, epoch %lu): %s", keys,
		 state->epoch, json);
	return false;
}

static void fail(struct crash_replay *r, const struct crash_point *point,
		 const struct cmd_options *o, const char *text, uint64_t failed)
{
	static const char *const names[] = {
		"all", "none", "some", "one", "all but one", "sectors", "garbage",
	};

	if (failed < 10)
		printf("# %s: entry %" PRIu64 " of %" PRIu64 ", lost: %s, seed %" PRIx64 ": %s\n",
		       o->record, point->entry, r->record.entries, names[point->loss],
		       point->seed, text);
	fflush(stdout);
}

static void try_point(struct crash_replay *r, const struct crash_point *point,
		      const struct cmd_options *o, struct counts *counts, bool check)
{
	static struct crash_state state;
	char text[1400];
	uint32_t lost;
	bool good;

	lost = crash_image_lose(&r->image, point->loss, point->seed);
	crash_recover(&r->image, &state);
	good = crash_replay_judge(r, &state, text, sizeof(text));
	if (good && check) {
		good = check_agrees(&r->image, &state, o->dir, text, sizeof(text));
		count(&counts->checked, 1);
	}
	crash_image_restore(&r->image);
	count(&counts->points, 1);
	count(&counts->lost, !!lost);
	count(&counts->writes, lost);
	count(&counts->behind, state.seen > state.epoch);
	count_most(&counts->lives, state.lives);
	if (good)
		return;
	fail(r, point, o, text, counts->failed);
	count(&counts->failed, 1);
}

/* Every @jobs-th point. */
static void replay_part(const struct cmd_options *o, uint32_t part, struct counts *counts)
{
	struct crash_replay r, first;
	struct crash_point *points;
	uint32_t nr, i = 0, every;

	crash_replay_open(&r, o->record, o->oracle, o->paths);
	if (o->first) {
		crash_replay_open(&first, o->first, o->first_oracle, NULL);
		crash_replay_to_crash(&first, o->seed);
		crash_replay_follow(&r, &first);
	}
	points = crash_points(&r.record, true, o->points, o->seed, &nr);
	every = o->check ? nr / o->check + 1 : 0;
	crash_record_rewind(&r.record);
	do {
		for (; i < nr && points[i].entry < r.record.nr + 1; i++) {
			if (i % o->jobs == part)
				try_point(&r, &points[i], o, counts,
					  every && i % every == every / 2);
		}
		if (!crash_replay_next(&r))
			break;
		crash_replay_step(&r);
	} while (true);
}

int cmd_replay(const struct cmd_options *o)
{
	struct counts *counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, rc = 0;
	uint32_t i;

	for (i = 0; i < o->jobs; i++) {
		fflush(stdout);
		if (!fork()) {
			replay_part(o, i, counts);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		rc |= status;
	printf("%" PRIu64 " points, %" PRIu64 " lost unflushed writes (%" PRIu64 " writes), %"
	       PRIu64 " dropped an epoch that was begun, %" PRIu64 " lives at most, %" PRIu64
	       " also by kvtree store check, %" PRIu64 " failed\n", counts->points, counts->lost,
	       counts->writes, counts->behind, counts->lives, counts->checked, counts->failed);
	return rc || counts->failed || !counts->points;
}
