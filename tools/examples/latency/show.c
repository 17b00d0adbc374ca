// SPDX-License-Identifier: GPL-2.0
/* Show records in several ways. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

#define BARS	50

static const char * const ops[] = { [LAT_READ] = "read", [LAT_WRITE] = "write" };

static const char *op_name(const struct lat_call *call)
{
	return ops[call->op == LAT_WRITE ? LAT_WRITE : LAT_READ];
}

static void file_id(uint32_t dev, uint64_t ino, char *text, size_t size)
{
	snprintf(text, size, "%u:%u:%" PRIu64, dev >> 20, dev & 0xfffff, ino);
}

static json_t *json_file(uint32_t dev, uint64_t ino, const char *name)
{
	json_t *obj = json_object(), *text = json_string(name);
	char id[48];

	file_id(dev, ino, id, sizeof(id));
	json_put(obj, "file", json_string(id));
	/* Names may contain any bytes. */
	json_put(obj, "name", text ? text : json_null());
	return obj;
}

static void json_number(json_t *obj, const char *name, uint64_t n)
{
	json_put(obj, name, json_integer((json_int_t)n));
}

/* Sums for all calls of a file. */
struct sum {
	uint32_t dev;
	uint64_t ino;
	char name[LAT_NAME];
	uint64_t calls[2];
	uint64_t bytes[2];
	uint64_t ns;
	uint64_t max;
};

struct sums {
	struct sum *sum;
	size_t nr;
	size_t room;
};

/* The calls of a file are adjacent. */
static void sum_up(const struct seen *seen, void *arg)
{
	unsigned int op = seen->call.op == LAT_WRITE;
	struct sums *sums = arg;
	struct sum *sum = sums->nr ? &sums->sum[sums->nr - 1] : NULL;

	if (!sum || sum->dev != seen->dev || sum->ino != seen->ino) {
		if (sums->nr == sums->room) {
			sums->room = sums->room ? 2 * sums->room : 64;
			sums->sum = alloc(sums->sum, sums->room * sizeof(*sum));
		}
		sum = &sums->sum[sums->nr++];
		*sum = (struct sum){ .dev = seen->dev, .ino = seen->ino };
		strcpy(sum->name, seen->name);
	}
	sum->calls[op]++;
	if (seen->call.result > 0)
		sum->bytes[op] += (uint64_t)seen->call.result;
	sum->ns += seen->call.ns;
	if (seen->call.ns > sum->max)
		sum->max = seen->call.ns;
}

static int more_time(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static void show_sum(const struct sum *sum, bool json)
{
	uint64_t calls = sum->calls[0] + sum->calls[1];
	char id[48];
	json_t *obj;

	if (json) {
		obj = json_file(sum->dev, sum->ino, sum->name);
		json_number(obj, "reads", sum->calls[LAT_READ]);
		json_number(obj, "writes", sum->calls[LAT_WRITE]);
		json_number(obj, "bytes_read", sum->bytes[LAT_READ]);
		json_number(obj, "bytes_written", sum->bytes[LAT_WRITE]);
		json_number(obj, "total_ns", sum->ns);
		json_number(obj, "max_ns", sum->max);
		json_print(obj);
		return;
	}
	file_id(sum->dev, sum->ino, id, sizeof(id));
	printf("%8" PRIu64 " %8" PRIu64 " %12" PRIu64 " %12" PRIu64, sum->calls[LAT_READ],
	       sum->calls[LAT_WRITE], sum->bytes[LAT_READ], sum->bytes[LAT_WRITE]);
	printf(" %10.3f %10.3f %10.3f  %s %s\n", (double)sum->ns / 1e6,
	       (double)sum->ns / (double)calls / 1e3, (double)sum->max / 1e3, id, sum->name);
}

int cmd_files(int argc, char **argv)
{
	const struct argp argp = {
		.options = walk_options,
		.parser = parse_walk,
		.args_doc = "[FILE]",
		.doc = "Show a summary of each file; first the one that took most time.\n"
		       "\vA file is shown as MAJOR:MINOR:INODE and the last part of its path when\n"
		       "it was first recorded. FILE is a path or such numbers.",
	};
	struct sums sums = { 0 };
	struct walk which = { 0 };
	size_t i;

	argp_parse(&argp, argc, argv, 0, NULL, &which);
	walk(&which, sum_up, &sums);
	if (sums.nr)
		qsort(sums.sum, sums.nr, sizeof(*sums.sum), more_time);
	if (!which.json)
		printf("%8s %8s %12s %12s %10s %10s %10s  %s\n", "reads", "writes", "bytes read",
		       "written", "total/ms", "mean/us", "max/us", "file");
	for (i = 0; i < sums.nr; i++)
		show_sum(&sums.sum[i], which.json);
	free(sums.sum);
	walk_warn();
	return STATUS_OK;
}

static void show_call(const struct seen *seen, bool json)
{
	time_t seconds = (time_t)(seen->time / 1000000000);
	char comm[sizeof(seen->call.comm) + 1] = "", when[32], id[48], at[32];
	struct tm tm;
	json_t *obj;

	memcpy(comm, seen->call.comm, sizeof(seen->call.comm));
	snprintf(when, sizeof(when), "%" PRIu64 ".%09" PRIu64, seen->time / 1000000000,
		 seen->time % 1000000000);
	if (json) {
		obj = json_file(seen->dev, seen->ino, seen->name);
		/* As a string: readers may convert numbers to doubles and lose digits. */
		json_put(obj, "time", json_string(when));
		json_put(obj, "call", json_string(op_name(&seen->call)));
		json_number(obj, "ns", seen->call.ns);
		json_put(obj, "result", json_integer(seen->call.result));
		json_number(obj, "pid", seen->call.pid);
		json_put(obj, "command", json_string(comm));
		json_print(obj);
		return;
	}
	file_id(seen->dev, seen->ino, id, sizeof(id));
	localtime_r(&seconds, &tm);
	strftime(at, sizeof(at), "%F %T", &tm);
	printf("%s.%06" PRIu64 " %-5s %10.3f us %8" PRId64 "  %7u %-15s %s %s\n", at,
	       seen->time % 1000000000 / 1000, op_name(&seen->call), (double)seen->call.ns / 1e3,
	       (int64_t)seen->call.result, seen->call.pid, comm, id, seen->name);
}

static void show_each(const struct seen *seen, void *arg)
{
	const struct walk *which = arg;

	show_call(seen, which->json);
}

int cmd_calls(int argc, char **argv)
{
	const struct argp argp = {
		.options = walk_options,
		.parser = parse_walk,
		.args_doc = "[FILE]",
		.doc = "Show each call: when it ended, how long it took, its result, process.",
	};
	struct walk which = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &which);
	walk(&which, show_each, &which);
	return STATUS_OK;
}

/* The slowest calls, sorted. */
struct slowest {
	size_t nr;
	size_t room;
	struct {
		struct seen seen;
		char name[LAT_NAME];
	} *call;
};

static void keep_slow(const struct seen *seen, void *arg)
{
	struct slowest *slow = arg;
	size_t i;

	if (slow->nr == slow->room && slow->call[slow->nr - 1].seen.call.ns >= seen->call.ns)
		return;
	i = slow->nr < slow->room ? slow->nr++ : slow->nr - 1;
	for (; i && slow->call[i - 1].seen.call.ns < seen->call.ns; i--)
		slow->call[i] = slow->call[i - 1];
	slow->call[i].seen = *seen;
	strcpy(slow->call[i].name, seen->name);
}

static error_t parse_slowest(int key, char *arg, struct argp_state *state)
{
	struct walk *which = state->input;

	switch (key) {
	case 'n':
		if (!parse_number(arg, 10000, &which->limit) || !which->limit)
			argp_error(state, "--number '%s': not a number from 1 to 10000", arg);
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = which;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_slowest(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ .name = "number", .key = 'n', .arg = "N", .doc = "How many (10)" },
		{ 0 }
	};
	static const struct argp common = { .options = walk_options, .parser = parse_walk };
	static const struct argp_child children[] = { { .argp = &common }, { 0 } };
	const struct argp argp = {
		.options = options,
		.parser = parse_slowest,
		.args_doc = "[FILE]",
		.doc = "Show the slowest calls.",
		.children = children,
	};
	struct walk which = { .limit = 10 };
	struct slowest slow = { 0 };
	size_t i;

	argp_parse(&argp, argc, argv, 0, NULL, &which);
	slow.room = which.limit;
	slow.call = alloc(NULL, slow.room * sizeof(*slow.call));
	walk(&which, keep_slow, &slow);
	for (i = 0; i < slow.nr; i++) {
		slow.call[i].seen.name = slow.call[i].name;
		show_call(&slow.call[i].seen, which.json);
	}
	free(slow.call);
	return STATUS_OK;
}

/* Buckets by powers of two; the first has calls of less than 2 ns. */
static void count_bucket(const struct seen *seen, void *arg)
{
	uint64_t *buckets = arg;

	buckets[63 - __builtin_clzll(seen->call.ns | 1)]++;
}

static void show_bucket(unsigned int i, uint64_t n, uint64_t most, bool json)
{
	uint64_t from = i ? 1ull << i : 0, to = 2ull << i;
	json_t *obj;
	int bars;

	if (json) {
		obj = json_object();
		json_number(obj, "from_ns", from);
		json_number(obj, "below_ns", to);
		json_number(obj, "calls", n);
		json_print(obj);
		return;
	}
	bars = (int)((n * BARS + most - 1) / most);
	printf("%14.3f ... %14.3f us %10" PRIu64 " %.*s\n", (double)from / 1e3, (double)to / 1e3, n,
	       bars, "##################################################");
}

int cmd_histogram(int argc, char **argv)
{
	const struct argp argp = {
		.options = walk_options,
		.parser = parse_walk,
		.args_doc = "[FILE]",
		.doc = "Show a histogram of the durations of calls.",
	};
	uint64_t buckets[64] = { 0 }, most = 1;
	unsigned int i, first = 64, last = 0;
	struct walk which = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &which);
	walk(&which, count_bucket, buckets);
	for (i = 0; i < ARRAY_SIZE(buckets); i++) {
		if (!buckets[i])
			continue;
		if (first == 64)
			first = i;
		last = i;
		if (buckets[i] > most)
			most = buckets[i];
	}
	for (i = first; i <= last && first < 64; i++)
		show_bucket(i, buckets[i], most, which.json);
	return STATUS_OK;
}

int cmd_clear(int argc, char **argv)
{
	const struct argp argp = {
		.doc = "Delete all records by destroying the store.",
	};
	struct kvtree *kv;
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kv = store_open(STORE);
	if (!kv)
		return STATUS_OK;
	err = kvtree_store_destroy(kv, STORE);
	kvtree_close(kv);
	if (err)
		die("cannot destroy the store '%s': %s", STORE, kvtree_strerror(err));
	return STATUS_OK;
}
