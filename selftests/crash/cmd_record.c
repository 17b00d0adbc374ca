// SPDX-License-Identifier: GPL-2.0
/*
 * record: run a life of a store on disks that record all writes, and record the results
 * that its workload gets.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../lib/kvt_test.h"
#include "cmd.h"
#include "crash.h"
#include "disks.h"
#include "drive.h"

#define STORE	"crash"

static struct crash_oracle *oracle_new(const struct cmd_options *o)
{
	struct crash_oracle *oracle = mmap(NULL, sizeof(*oracle), PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (oracle == MAP_FAILED)
		crash_die("out of memory");
	oracle->head.magic = CRASH_ORACLE_MAGIC;
	oracle->head.life = o->life;
	oracle->head.workers = o->workers;
	oracle->head.lives = o->lives - 1;
	return oracle;
}

static void acknowledge(struct crash_drive *drive, const struct crash_op *op,
			const struct crash_result *result)
{
	char text[80];

	if (result->result < 0 || (!op->sync && op->kind != CRASH_SYNC))
		return;
	snprintf(text, sizeof(text), "ack %" PRIx64 " %" PRIu64, op->id,
		 (uint64_t)kvt_stat(drive->fd, KVTREE_STAT_LOG_DURABLE));
	crash_disks_mark(drive->arg, text);
}

static void format_disks(const struct crash_disks *disks)
{
	char command[400] = "kvtree store format --force";
	uint32_t i;

	for (i = 0; i < disks->nr; i++) {
		strcat(command, " ");
		strcat(command, disks->disk[i].path);
	}
	if (system(command))
		crash_die("failed: %s", command);
}

/* Lives before the one with the workload: each makes one change, and says that it is durable. */
static void run_lives(const struct cmd_options *o, struct crash_disks *disks)
{
	char key[CRASH_KEY_BYTES], text[20];
	struct kvt_bytes bytes = kvt_bytes(key, crash_key_make(key, CRASH_LIVES_KEY));
	int dev = kvt_open(), fd;
	uint32_t i;

	KVT_CHECK(dev >= 0);
	for (i = 1; i < o->lives; i++) {
		KVT_CHECK(kvt_attach(dev, STORE, disks->disk, (int)disks->nr, 0) == 0);
		fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
		KVT_CHECK(fd >= 0);
		KVT_CHECK(kvt_add(fd, bytes, CRASH_ADD_COL, 1, NULL) >= 0 && kvt_sync(fd) == 0);
		snprintf(text, sizeof(text), "life %u", i);
		crash_disks_mark(disks, text);
		close(fd);
		KVT_CHECK(kvt_detach(dev, STORE) == 0);
	}
	close(dev);
}

static void run_life(const struct cmd_options *o, struct crash_disks *disks,
		     struct crash_oracle *oracle)
{
	struct crash_drive drive = {
		.oracle = oracle, .cpus = o->cpus, .ops = o->ops,
		.checkpoint_every = o->checkpoint, .done = acknowledge, .arg = disks,
	};
	static struct crash_state state;
	int dev = kvt_open();

	KVT_CHECK(dev >= 0);
	KVT_CHECK(kvt_attach(dev, STORE, disks->disk, (int)disks->nr, 0) == 0);
	drive.fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(drive.fd >= 0);
	crash_disks_mark(disks, "attached");
	crash_drive_scan(drive.fd, &state);
	KVT_CHECK(!state.wrong);
	memcpy(oracle->base, state.value, sizeof(oracle->base));
	oracle->head.phase = CRASH_ATTACHED;
	crash_drive_run(&drive);
	/* Crashes before, in and after the empty epoch at the end. */
	kvt_sleep_ms(200);
	printf("%lu commits, %lu checkpoints, %lu MiB written\n",
	       (unsigned long)kvt_stat(drive.fd, KVTREE_STAT_LOG_EPOCHS),
	       (unsigned long)kvt_stat(drive.fd, KVTREE_STAT_LOG_CHECKPOINTS),
	       (unsigned long)kvt_stat(drive.fd, KVTREE_STAT_LOG_BYTES) >> 20);
	close(drive.fd);
	KVT_CHECK(kvt_detach(dev, STORE) == 0);
	close(dev);
	oracle->head.phase = CRASH_DETACHED;
	crash_disks_mark(disks, "detached");
}

/* With paths: the disks begin as these images, and are not formatted. */
int cmd_record(const struct cmd_options *o)
{
	uint32_t nr = o->nbd ? o->nbd : 1;
	struct crash_oracle *oracle = oracle_new(o);
	struct crash_image base = { 0 };
	struct crash_disks disks;

	if (o->nr_paths)
		crash_image_load(&base, o->paths, nr);
	crash_disks_begin(&disks, o->nbd ? CRASH_DISKS_NBD : CRASH_DISKS_DM, nr,
			  o->nr_paths ? base.bytes : (size_t)o->mib << 20, (size_t)o->less << 20,
			  o->nr_paths ? &base : NULL);
	if (!o->nr_paths) {
		format_disks(&disks);
		crash_disks_mark(&disks, "formatted");
	}
	run_lives(o, &disks);
	run_life(o, &disks, oracle);
	crash_disks_end(&disks, o->record);
	crash_file_save(o->oracle, oracle, sizeof(*oracle));
	return 0;
}
