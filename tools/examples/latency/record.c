// SPDX-License-Identifier: GPL-2.0
/* Recording: the programs are attached while this runs. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "latency.skel.h"

#define LIMIT	(64ull << 20)

struct record {
	uint64_t pid;
	uint64_t seconds;
	uint64_t limit_mib;
	bool all;
	bool json;
	char **command;
};

static error_t parse_record(int key, char *arg, struct argp_state *state)
{
	struct record *record = state->input;

	switch (key) {
	case 'a':
		record->all = true;
		return 0;
	case 'j':
		record->json = true;
		return 0;
	case 'p':
		if (!parse_number(arg, INT32_MAX, &record->pid) || !record->pid)
			argp_error(state, "--pid '%s': not a process", arg);
		return 0;
	case 's':
		if (!parse_number(arg, UINT32_MAX, &record->seconds) || !record->seconds)
			argp_error(state, "--seconds '%s': not a number above 0", arg);
		return 0;
	case 'l':
		if (!parse_number(arg, UINT32_MAX, &record->limit_mib) || !record->limit_mib)
			argp_error(state, "--limit '%s': not a number above 0", arg);
		return 0;
	case ARGP_KEY_ARG:
		/* The rest is the command. */
		record->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (record->command && record->seconds)
			argp_error(state, "either --seconds or a command");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/*
 * The offset from the CPU's clock to the time of day.  An interruption between reading the two
 * clocks adds to the offset: take the smallest difference of a few tries.
 */
static uint64_t clock_offset(void)
{
	uint64_t before, day, after, offset = 0, closest = UINT64_MAX;
	int i;

	for (i = 0; i < 32; i++) {
		before = now(CLOCK_MONOTONIC);
		day = now(CLOCK_REALTIME);
		after = now(CLOCK_MONOTONIC);
		if (after - before < closest) {
			closest = after - before;
			offset = day - before;
		}
	}
	return offset;
}

static struct latency *load(const struct record *record, struct kvtree *kv)
{
	struct latency *skel;

	program_begin();
	skel = latency__open();
	program_check(skel ? 0 : -errno, "cannot open the programs");
	skel->rodata->clock_offset = clock_offset();
	skel->rodata->only_pid = (uint32_t)record->pid;
	skel->rodata->not_pid = (uint32_t)getpid();
	skel->rodata->all_kinds = record->all;
	program_check(latency__load(skel), "cannot load the programs");
	store_bind(kv, skel->maps.rodata_store, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	program_check(latency__attach(skel), "cannot attach the programs");
	return skel;
}

/* Run the command, and return its exit status. */
static int run(char **command)
{
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		die("fork: %m");
	if (!pid) {
		execvp(command[0], command);
		warn("%s: %m", command[0]);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("wait: %m");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void wait_for_signal(uint64_t seconds)
{
	struct timespec ts = { .tv_sec = (time_t)seconds };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "latency: recording%s\n", seconds ? "" : "; ^C ends it");
	sigtimedwait(&set, NULL, seconds ? &ts : NULL);
}

/* Posts that the worker has finished, successfully or not. */
static uint64_t made(struct kvtree *kv)
{
	return store_counter(kv, KVTREE_STAT_PUT) + store_counter(kv, KVTREE_STAT_BPF_POST_FAIL);
}

/*
 * Wait until the worker has made all posted changes.  If another program writes to the store,
 * this may end early, and the report may miss some calls.
 */
static void wait_for_worker(struct kvtree *kv, uint64_t made_before, uint64_t posted_before)
{
	uint64_t end = now(CLOCK_MONOTONIC) + 10000000000ull;

	while (made(kv) - made_before <
	       store_counter(kv, KVTREE_STAT_BPF_POST) - posted_before &&
	       now(CLOCK_MONOTONIC) < end)
		usleep(1000);
}

static void report(const struct lat_counts *counts, uint64_t failed, bool json)
{
	json_t *obj;

	if (json) {
		obj = json_object();
		json_put(obj, "calls", json_integer((json_int_t)(counts->posted + counts->dropped +
								 counts->missed)));
		json_put(obj, "recorded", json_integer((json_int_t)(counts->posted - failed)));
		json_put(obj, "dropped", json_integer((json_int_t)counts->dropped));
		json_put(obj, "missed", json_integer((json_int_t)counts->missed));
		json_put(obj, "failed", json_integer((json_int_t)failed));
		json_print(obj);
		return;
	}
	printf("%llu calls recorded", counts->posted - failed);
	if (counts->dropped)
		printf(", %llu dropped: the queue was full", counts->dropped);
	if (counts->missed)
		printf(", %llu missed", counts->missed);
	if (failed)
		printf(", %" PRIu64 " not stored: is the store full? (clear empties it)", failed);
	putchar('\n');
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ .name = "pid", .key = 'p', .arg = "PID", .doc = "Only this process" },
		{ .name = "all", .key = 'a',
		  .doc = "Also sockets, pipes, devices and other files, not only regular files" },
		{ .name = "seconds", .key = 's', .arg = "N", .doc = "Stop after N seconds" },
		{ .name = "limit", .key = 'l', .arg = "MIB",
		  .doc = "Memory limit of the store, if it is created now (64 MiB)" },
		{ .name = "json", .key = 'j', .doc = "Print JSON" },
		{ 0 }
	};
	const struct argp argp = {
		.options = options,
		.parser = parse_record,
		.args_doc = "[COMMAND [ARG...]]",
		.doc = "Record reads and writes of all processes while a command runs, or until\n"
		       "^C.\n"
		       "\vEach call is a record in the store \"latency\". Calls that could not be\n"
		       "recorded are reported. The exit status is the command's.",
	};
	struct record record = { .limit_mib = LIMIT >> 20 };
	uint64_t made_before, posted_before, failed_before;
	struct lat_counts counts;
	struct latency *skel;
	struct kvtree *kv;
	int status = STATUS_OK;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &record);
	kv = store_make(STORE, record.limit_mib << 20);
	made_before = made(kv);
	posted_before = store_counter(kv, KVTREE_STAT_BPF_POST);
	failed_before = store_counter(kv, KVTREE_STAT_BPF_POST_FAIL);
	skel = load(&record, kv);
	if (record.command)
		status = run(record.command);
	else
		wait_for_signal(record.seconds);
	latency__detach(skel);
	counts = skel->bss->counts;
	latency__destroy(skel);
	wait_for_worker(kv, made_before, posted_before);
	report(&counts, store_counter(kv, KVTREE_STAT_BPF_POST_FAIL) - failed_before, record.json);
	kvtree_close(kv);
	return status;
}
