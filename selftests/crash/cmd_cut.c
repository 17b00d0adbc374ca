// SPDX-License-Identifier: GPL-2.0
/*
 * Power cuts of a whole machine.
 *
 * drive: inside the machine: attach a store and change it until the end, writing each
 * result immediately, past all caches, to a disk of its own.
 * judge: outside, after the machine was killed: recover the store's disks and judge the
 * result.  It is kept, since the next life begins with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../lib/durable.h"
#include "../lib/kvt_test.h"
#include "cmd.h"
#include "crash.h"
#include "drive.h"
#include "judge.h"

#define STORE	"crash"
#define SECTOR	4096u

/* The state that the last life has left. */
struct left {
	uint64_t formatted;
	uint64_t floor;		/* versions that a client may have seen */
	struct crash_value value[CRASH_KEYS];
};

static int journal = -1;

/* Write a part of the oracle, in whole sectors. */
static void journal_write(const struct crash_oracle *oracle, const void *from, size_t len)
{
	size_t at = (size_t)((const char *)from - (const char *)oracle);
	size_t begin = at / SECTOR * SECTOR, end = (at + len + SECTOR - 1) / SECTOR * SECTOR;

	if (pwrite(journal, (const char *)oracle + begin, end - begin, (off_t)begin) !=
	    (ssize_t)(end - begin))
		crash_die("the journal cannot be written: %m");
}

static void journal_phase(struct crash_oracle *oracle, enum crash_phase phase)
{
	oracle->head.phase = phase;
	journal_write(oracle, &oracle->head, sizeof(oracle->head));
}

static void journal_result(struct crash_drive *drive, const struct crash_op *op,
			   const struct crash_result *result)
{
	uint32_t worker = result->op >> 32 & 0xff, place = result->op & 0xffffffff;

	(void)op;
	journal_write(drive->oracle, &drive->oracle->result[worker][place], sizeof(*result));
}

static struct crash_oracle *journal_open(const struct cmd_options *o)
{
	struct crash_oracle *oracle;

	oracle = mmap(NULL, sizeof(*oracle), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	journal = open(o->oracle, O_RDWR | O_DIRECT | O_SYNC | O_CLOEXEC);
	if (oracle == MAP_FAILED || journal < 0)
		crash_die("%s: %m", o->oracle);
	oracle->head.magic = CRASH_ORACLE_MAGIC;
	oracle->head.life = o->life;
	oracle->head.workers = o->workers;
	return oracle;
}

static void drive_format(const struct cmd_options *o)
{
	char command[600] = "kvtree store format --force";
	uint32_t i;

	for (i = 0; i < o->nr_paths; i++) {
		strcat(command, " ");
		strcat(command, o->paths[i]);
	}
	if (system(command))
		crash_die("failed: %s", command);
}

int cmd_drive(const struct cmd_options *o)
{
	struct crash_oracle *oracle = journal_open(o);
	struct crash_drive drive = {
		.oracle = oracle, .cpus = o->cpus, .ops = o->ops,
		.checkpoint_every = o->checkpoint, .done = journal_result,
	};
	struct kvt_disk disk[CRASH_DISKS];
	static struct crash_state state;
	int dev = kvt_open();
	uint32_t i;

	KVT_CHECK(dev >= 0);
	for (i = 0; i < o->nr_paths; i++)
		snprintf(disk[i].path, sizeof(disk[i].path), "%s", o->paths[i]);
	if (o->format)
		drive_format(o);
	journal_phase(oracle, CRASH_FORMATTED);
	KVT_CHECK(kvt_attach(dev, STORE, disk, (int)o->nr_paths, 0) == 0);
	drive.fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(drive.fd >= 0);
	crash_drive_scan(drive.fd, &state);
	KVT_CHECK(!state.wrong);
	memcpy(oracle->base, state.value, sizeof(oracle->base));
	journal_write(oracle, oracle->base, sizeof(oracle->base));
	journal_phase(oracle, CRASH_ATTACHED);
	printf("lane: attached\n");
	fflush(stdout);
	crash_drive_run(&drive);
	close(drive.fd);
	KVT_CHECK(kvt_detach(dev, STORE) == 0);
	close(dev);
	journal_phase(oracle, CRASH_DETACHED);
	return 0;
}

static bool same_value(const struct crash_value *a, const struct crash_value *b)
{
	return a->present == b->present && a->version == b->version && a->sum == b->sum &&
	       a->ncols == b->ncols && !memcmp(a->col, b->col, a->ncols * sizeof(a->col[0]));
}

static bool same_values(const struct crash_value *a, const struct crash_value *b,
			const char *what)
{
	uint32_t key;

	for (key = 0; key < CRASH_KEYS; key++) {
		if (same_value(&a[key], &b[key]))
			continue;
		printf("# %s: key %u has version %" PRIu64 ", before it had %" PRIu64 "\n", what,
		       key, a[key].version, b[key].version);
		return false;
	}
	return true;
}

/* It did not come so far that it changed anything. */
static bool judge_before(const struct crash_state *state, const struct left *left, bool format)
{
	if (state->error) {
		printf("# before it was attached: %s (%s)\n", state->text,
		       strerror(-state->error));
		return format && (state->error == -EINVAL || state->error == -ENODEV ||
				  state->error == -EXDEV || state->error == -EBADMSG);
	}
	return same_values(state->value, left->value, "before it was attached");
}

static bool judge_life(const struct crash_oracle *oracle, const struct crash_state *state,
		       struct left *left)
{
	struct crash_promise promise = { 0 };
	struct crash_history *history;
	char text[1400];
	bool good;

	if (!same_values(oracle->base, left->value, "what was attached"))
		return false;
	history = crash_history_new(oracle, text, sizeof(text));
	if (!history) {
		printf("# %s\n", text);
		return false;
	}
	crash_promise_all(history, &promise);
	good = crash_judge(history, &promise, state, text, sizeof(text));
	if (good && state->lease <= crash_version_seen(history, &promise)) {
		snprintf(text, sizeof(text), "version %" PRIu64 " was seen, the lease is %" PRIu64,
			 crash_version_seen(history, &promise), state->lease);
		good = false;
	}
	if (!good)
		printf("# %s\n", text);
	left->floor = crash_version_seen(history, &promise);
	crash_history_free(history);
	return good;
}

static uint64_t results(const struct crash_oracle *oracle)
{
	uint64_t n = 0;
	uint32_t w, i;

	for (w = 0; w < oracle->head.workers && w < CRASH_WORKERS; w++)
		for (i = 0; i < CRASH_RESULTS_MAX && oracle->result[w][i].done; i++)
			n++;
	return n;
}

/* The exit status is 3 if the disks are not formatted yet. */
int cmd_judge(const struct cmd_options *o)
{
	struct crash_oracle *oracle = crash_file_load(o->oracle, sizeof(*oracle));
	static const char *const phases[] = {
		"before the end of format", "before the end of attach", "in the load",
		"after detach",
	};
	struct crash_image image;
	struct crash_state state;
	struct left *left = calloc(1, sizeof(*left));
	uint32_t phase = CRASH_NOTHING;
	bool good;

	if (!access(o->state, F_OK))
		memcpy(left, crash_file_load(o->state, sizeof(*left)), sizeof(*left));
	crash_image_load(&image, o->paths, o->nr_paths);
	crash_recover(&image, &state);
	if (oracle->head.magic == CRASH_ORACLE_MAGIC && oracle->head.life == o->life)
		phase = oracle->head.phase;
	oracle->head.floor = left->floor;
	if (phase >= CRASH_FORMATTED)
		left->formatted = true;
	if (phase < CRASH_ATTACHED)
		good = judge_before(&state, left, !left->formatted);
	else
		good = judge_life(oracle, &state, left);
	printf("cut %s: %" PRIu64 " operations, epoch %" PRIu64 "%s: %s\n",
	       phases[phase < 4 ? phase : 0],
	       phase < CRASH_ATTACHED ? 0 : results(oracle), state.epoch,
	       state.seen > state.epoch ? " (another was begun)" : "", good ? "good" : "WRONG");
	memcpy(left->value, state.value, sizeof(left->value));
	crash_file_save(o->state, left, sizeof(*left));
	if (!good)
		return 1;
	return left->formatted || !state.error ? 0 : 3;
}
