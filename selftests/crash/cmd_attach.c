// SPDX-License-Identifier: GPL-2.0
/*
 * attach: let the running kernel recover crashes at points of a record, scan each store
 * and judge it; with --compare, this program recovers the same crash first.
 * image: write one such crash to files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include "../lib/durable.h"
#include "../lib/kvt_test.h"
#include "cmd.h"
#include "crash.h"
#include "drive.h"
#include "replay.h"

#define STORE	"crash"

/* Disks to attach: those that were named, or loop devices over memory. */
struct targets {
	uint32_t nr;
	bool loop;
	struct kvt_disk disk[CRASH_DISKS];
};

static void targets_begin(struct targets *t, const struct cmd_options *o,
			  const struct crash_image *image)
{
	uint32_t i;

	memset(t, 0, sizeof(*t));
	t->nr = image->nr;
	t->loop = !o->nr_paths;
	if (!t->loop && o->nr_paths != t->nr)
		crash_die("the record is of %u disks", t->nr);
	for (i = 0; i < t->nr; i++) {
		if (t->loop)
			kvt_disk_make(&t->disk[i], image->bytes >> 20, 512);
		else
			snprintf(t->disk[i].path, sizeof(t->disk[i].path), "%s", o->paths[i]);
	}
}

static void targets_end(struct targets *t)
{
	uint32_t i;

	for (i = 0; t->loop && i < t->nr; i++)
		kvt_disk_remove(&t->disk[i]);
}

static void loop_fill(const struct kvt_disk *disk, const struct crash_image *image, uint32_t i)
{
	size_t at;
	char *to;

	KVT_CHECK(!fallocate(disk->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			     (off_t)disk->bytes));
	to = mmap(NULL, disk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, disk->memory, 0);
	KVT_CHECK(to != MAP_FAILED);
	for (at = 0; at < disk->bytes; at += 4096)
		if (image->written[i][at / 4096])
			memcpy(to + at, image->disk[i] + at, 4096);
	munmap(to, disk->bytes);
}

static void targets_fill(struct targets *t, const struct crash_image *image)
{
	char *paths[CRASH_DISKS];
	uint32_t i;

	for (i = 0; i < t->nr; i++) {
		paths[i] = t->disk[i].path;
		if (t->loop)
			loop_fill(&t->disk[i], image, i);
	}
	if (!t->loop)
		crash_image_save(image, paths);
}

static bool same_state(const struct crash_state *a, const struct crash_state *b, char *text,
		       size_t len)
{
	uint32_t key;

	for (key = 0; key < CRASH_KEYS; key++) {
		if (a->value[key].version == b->value[key].version &&
		    a->value[key].ncols == b->value[key].ncols &&
		    a->value[key].sum == b->value[key].sum &&
		    !memcmp(a->value[key].col, b->value[key].col,
			    a->value[key].ncols * sizeof(a->value[key].col[0])))
			continue;
		snprintf(text, len, "key %u: the kernel has version %lu, the program %lu", key,
			 a->value[key].version, b->value[key].version);
		return false;
	}
	return true;
}

/* Attach, read, judge, detach. */
static bool attach_judge(struct crash_replay *r, struct targets *t, bool compare, char *text,
			 size_t len)
{
	static struct crash_state kernel, program;
	int dev = kvt_open(), fd, err;
	uint64_t version;
	bool good;

	KVT_CHECK(dev >= 0);
	if (compare)
		crash_recover(&r->image, &program);
	targets_fill(t, &r->image);
	err = kvt_attach(dev, STORE, t->disk, (int)t->nr, 0);
	if (err) {
		memset(&kernel, 0, sizeof(kernel));
		kernel.error = err;
		close(dev);
		snprintf(kernel.text, sizeof(kernel.text), "attach");
		return (!compare || program.error == err) &&
		       crash_replay_judge(r, &kernel, text, len);
	}
	fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(fd >= 0);
	crash_drive_scan(fd, &kernel);
	good = crash_replay_judge(r, &kernel, text, len) &&
	       (!compare || same_state(&kernel, &program, text, len));
	version = crash_drive_version(fd);
	if (good && version <= crash_version_seen(r->history, &r->promise)) {
		snprintf(text, len, "version %lu is given out, %lu was seen before", version,
			 crash_version_seen(r->history, &r->promise));
		good = false;
	}
	if (good && kvt_stat(fd, KVTREE_STAT_LOG_LIVE_BYTES) != kvt_recount(STORE)) {
		snprintf(text, len, "%llu bytes are counted, and there are %llu",
			 kvt_stat(fd, KVTREE_STAT_LOG_LIVE_BYTES), kvt_recount(STORE));
		good = false;
	}
	close(fd);
	KVT_CHECK(kvt_detach(dev, STORE) == 0);
	close(dev);
	return good;
}

int cmd_attach(const struct cmd_options *o)
{
	uint32_t nr, i = 0, lost = 0, failed = 0;
	struct crash_point *points;
	struct crash_replay r;
	struct targets t;
	char text[1400];

	crash_replay_open(&r, o->record, o->oracle, NULL);
	points = crash_points(&r.record, false, o->points, o->seed, &nr);
	targets_begin(&t, o, &r.image);
	crash_record_rewind(&r.record);
	do {
		for (; i < nr && points[i].entry < r.record.nr + 1; i++) {
			lost += !!crash_image_lose(&r.image, points[i].loss, points[i].seed);
			if (!attach_judge(&r, &t, o->compare, text, sizeof(text))) {
				printf("# %s: entry %lu, seed %lx: %s\n", o->record,
				       points[i].entry, points[i].seed, text);
				failed++;
			}
			crash_image_restore(&r.image);
		}
		if (!crash_replay_next(&r))
			break;
		crash_replay_step(&r);
	} while (true);
	targets_end(&t);
	printf("%u points attached, %u lost unflushed writes, %u failed\n", nr, lost, failed);
	return failed || !nr;
}

/* Unflushed data is lost, or, with --cached, in the disks' caches. */
int cmd_image(const struct cmd_options *o)
{
	struct crash_replay r;

	crash_replay_open(&r, o->record, o->oracle, NULL);
	if (o->nr_paths != r.image.nr)
		crash_die("the record is of %u disks", r.image.nr);
	crash_replay_to_crash(&r, o->seed);
	if (o->cached)
		crash_image_keep(&r.image);
	printf("entry %lu of %lu: %u writes lost\n", r.record.nr, r.record.entries,
	       crash_image_lose(&r.image, CRASH_LOSE_SECTORS, o->seed));
	crash_image_save(&r.image, o->paths);
	return 0;
}
