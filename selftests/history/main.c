// SPDX-License-Identifier: GPL-2.0
/*
 * history [OPTION...] FILE: let processes use a store at the same time, each through its own
 * interface ("door"), and write their operations and results to FILE.
 *
 *	--seconds N	how long (10), but four rounds at least
 *	--durable	the store is on two disks with caches, which fail, lose what was not
 *			flushed, and come back, in every round
 *	--ops N		operations of a process in a round (400)
 *	--seed N	other operations
 *
 * A round has keys of its own.  Its events are counted on standard output.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "history.h"
#include "lib/durable.h"

#define STORE		"history"
#define DISKS		2
#define DISK_MIB	136
#define WORKERS_MAX	8
#define EVENTS_MAX	(1u << 14)	/* of a process in a round */
/* This many have each kind of answer, however few a busy machine has time for. */
#define ROUNDS_LEAST	4

static struct {
	unsigned int seconds;
	unsigned int ops;
	__u64 seed;
	bool durable;
} options = { .seconds = 10, .ops = 400, .seed = 1 };

static struct shared {
	__u64 clock;
	unsigned int nr[WORKERS_MAX];
	struct event event[WORKERS_MAX][EVENTS_MAX];
} *shared;

static int dev;
static struct kvt_disk disks[DISKS];
static FILE *file;
static __u64 written;

__u64 history_tick(void)
{
	return __atomic_add_fetch(&shared->clock, 1, __ATOMIC_SEQ_CST);
}

static void disks_make(void)
{
	static const char *const name[DISKS] = { "kvthistory0", "kvthistory1" };
	int i;

	for (i = 0; i < DISKS; i++) {
		kvt_null_make(&disks[i], name[i], DISK_MIB + 8 * i);
		/* Unflushed data is lost by _stop(). */
		KVT_CHECK(kvt_null_try(&disks[i], "cache_size", "16"));
		kvt_null_start(&disks[i]);
	}
	KVT_CHECK(kvt_format(disks, DISKS) == 0);
	KVT_CHECK(kvt_attach(dev, STORE, disks, DISKS, 0) == 0);
}

/* The first one fails alone for a moment. */
static void disks_fail(void)
{
	int i;

	for (i = 0; i < DISKS; i++)
		kvt_null_fail(&disks[i], true);
}

/* The store as the doors find it: new, or attached again. */
static void prepare_doors(void)
{
	int fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	unsigned int i;

	KVT_CHECK(fd >= 0);
	for (i = 0; doors[i]; i++)
		if (doors[i]->prepare)
			doors[i]->prepare(fd);
	close(fd);
}

static void disks_return(void)
{
	int i;

	kvt_detach(dev, STORE);
	for (i = 0; i < DISKS; i++) {
		kvt_null_fail(&disks[i], false);
		kvt_null_stop(&disks[i]);
		kvt_null_start(&disks[i]);
	}
	KVT_CHECK(kvt_attach(dev, STORE, disks, DISKS, 0) == 0);
	prepare_doors();
}

static void disks_remove(void)
{
	int i;

	KVT_CHECK(kvt_detach(dev, STORE) == 0);
	for (i = 0; i < DISKS; i++)
		kvt_null_remove(&disks[i]);
}

static unsigned int count_doors(void)
{
	unsigned int nr = 0;

	while (doors[nr])
		nr++;
	return nr;
}

/* A process of the round. */
static int begin(const struct work *work, unsigned int slot)
{
	int pid = kvt_child(), fd;

	KVT_CHECK(pid >= 0);
	if (pid)
		return pid;
	fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(fd >= 0);
	if (work->door)
		shared->nr[slot] = work_run(work, fd, shared->event[slot]);
	else
		work_churn(work, fd);
	_exit(0);
}

static void write_events(unsigned int workers)
{
	unsigned int i;

	for (i = 0; i < workers; i++) {
		KVT_CHECK(fwrite(shared->event[i], sizeof(struct event), shared->nr[i], file) ==
			  shared->nr[i]);
		written += shared->nr[i];
		shared->nr[i] = 0;
	}
}

/*
 * Until the processes have asked and been told so much, or the first is done.  An emulated
 * machine does little in any given time.
 */
static void wait_ticks(__u64 ticks, int first)
{
	__u64 end = __atomic_load_n(&shared->clock, __ATOMIC_RELAXED) + ticks;
	siginfo_t done = { 0 };

	while (!done.si_pid && __atomic_load_n(&shared->clock, __ATOMIC_RELAXED) < end) {
		usleep(200);
		KVT_CHECK(waitid(P_PID, (id_t)first, &done, WEXITED | WNOHANG | WNOWAIT) == 0);
	}
}

/*
 * One process for each door, two for the first, and one that churns.  They work until they
 * are done, or until the disks fail.
 */
static void part(__u32 round, unsigned int ops, bool crash, struct kvt_rand *rand)
{
	unsigned int nr = count_doors() + 2, i, last = nr - 1;
	int pid[WORKERS_MAX];

	for (i = 0; i < nr; i++) {
		struct work work = {
			.door = i == last ? NULL : doors[i % count_doors()],
			.round = round,
			.worker = crash ? i : WORKERS_MAX + i,
			.nr = i == last ? 4 * ops : ops,
			.sync = options.durable,
			.seed = kvt_rand(rand),
		};

		pid[i] = begin(&work, i);
	}
	if (crash) {
		wait_ticks(1 + kvt_rand_below(rand, last * ops), pid[0]);
		disks_fail();
	}
	for (i = 0; i < nr; i++)
		KVT_CHECK(kvt_wait(pid[i]) == 0);
	write_events(last);
}

/* The keys of the round are not needed any more. */
static void clean(void)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	int fd = kvt_store(dev, STORE, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	struct kvt_list list = { 0 };
	size_t i;

	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i++)
		KVT_CHECK(kvt_remove(fd, list.rec[i].key) == 0);
	kvt_list_free(&list);
	close(fd);
}

static void run_round(__u32 round, struct kvt_rand *rand)
{
	part(round, options.ops, options.durable, rand);
	if (options.durable) {
		disks_return();
		part(round, options.ops / 4, false, rand);
	}
	clean();
}

static void prepare(void)
{
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	if (options.durable)
		disks_make();
	else
		KVT_CHECK(kvt_create(dev, STORE, 0600, 0, 0) == 0);
	prepare_doors();
	shared = kvt_map_shared(sizeof(*shared));
}

static const char help[] =
	"usage: history [--seconds N] [--durable] [--ops N] [--seed N] FILE\n";

static bool parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "durable", no_argument, NULL, 'd' },
		{ "ops", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 'r' },
		{ },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		switch (c) {
		case 's':
			options.seconds = (unsigned int)atoi(optarg);
			break;
		case 'd':
			options.durable = true;
			break;
		case 'o':
			options.ops = (unsigned int)atoi(optarg);
			break;
		case 'r':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		default:
			return false;
		}
	}
	return optind == argc - 1 && options.ops <= EVENTS_MAX;
}

int main(int argc, char **argv)
{
	struct kvt_rand rand;
	__u32 round = 0;
	time_t end;

	if (!parse(argc, argv)) {
		fputs(help, stderr);
		return 2;
	}
	file = fopen(argv[optind], "we");
	if (!file) {
		perror(argv[optind]);
		return 1;
	}
	rand.state = options.seed;
	prepare();
	end = time(NULL) + options.seconds;
	do {
		run_round(round++, &rand);
	} while (time(NULL) < end || round < ROUNDS_LEAST);
	KVT_CHECK(fclose(file) == 0);
	if (options.durable)
		disks_remove();
	else
		KVT_CHECK(kvt_destroy(dev, STORE) == 0);
	printf("%llu events in %u rounds\n", (unsigned long long)written, round);
	return 0;
}
