// SPDX-License-Identifier: GPL-2.0
/*
 * The command line of kvtree bench.
 */
#include <limits.h>
#include <math.h>

#include "../options.h"
#include "bench_load.h"

enum bench_option {
	OPT_SQPOLL = 256, OPT_BY_POINTER, OPT_FIELDS, OPT_FIELD_SIZE, OPT_VALUE_SIZE,
	OPT_KEY_SIZE, OPT_ORDERED, OPT_WARMUP, OPT_RUNS, OPT_RATE, OPT_DISTRIBUTION, OPT_THETA,
	OPT_SCAN_MAX, OPT_SEED, OPT_CHECK, OPT_LOAD, OPT_NO_LOAD, OPT_KEEP, OPT_TRACE, OPT_PLOT,
	OPT_PROCESSES, OPT_RECORDS,
	OPT_READ, OPT_UPDATE, OPT_INSERT, OPT_SCAN, OPT_RMW,
};

enum { GROUP_WHAT = 1, GROUP_HOW, GROUP_RECORDS, GROUP_OUTPUT };

static const struct argp_option options[] = {
	{ .doc = "Workloads:", .group = GROUP_WHAT },
	{ .name = "workload", .key = 'w', .arg = "A,B,...",
	  .doc = "Workloads of YCSB, A to F (all of them)" },
	{ .name = "read", .key = OPT_READ, .arg = "SHARE",
	  .doc = "Add a workload of your own: share of reads of all fields" },
	{ .name = "update", .key = OPT_UPDATE, .arg = "SHARE",
	  .doc = "Your own workload: share of writes of one field" },
	{ .name = "insert", .key = OPT_INSERT, .arg = "SHARE",
	  .doc = "Your own workload: share of new records" },
	{ .name = "scan", .key = OPT_SCAN, .arg = "SHARE",
	  .doc = "Your own workload: share of scans" },
	{ .name = "rmw", .key = OPT_RMW, .arg = "SHARE",
	  .doc = "Your own workload: share of a read and then a write of one record" },
	{ .name = "distribution", .key = OPT_DISTRIBUTION, .arg = "NAME",
	  .doc = "Choose records uniform, zipfian or latest (the workload's own)" },
	{ .name = "theta", .key = OPT_THETA, .arg = "X",
	  .doc = "Skew of zipfian and latest, between 0 and 1 (0.99)" },
	{ .name = "scan-max", .key = OPT_SCAN_MAX, .arg = "N",
	  .doc = "Scans ask for 1 to N records (100)" },
	{ .name = "operations", .key = 'n', .arg = "N",
	  .doc = "Operations of a run, of all threads together (100000, or no limit with --time)" },
	{ .name = "time", .key = 'T', .arg = "SECONDS", .doc = "End a run after this time" },
	{ .name = "warmup", .key = OPT_WARMUP, .arg = "N",
	  .doc = "Do not measure the first N operations of a run (0)" },
	{ .name = "runs", .key = OPT_RUNS, .arg = "N",
	  .doc = "Run everything N times and report the median (1)" },
	{ .name = "seed", .key = OPT_SEED, .arg = "N",
	  .doc = "Seed of the random operations and records (1)" },

	{ .doc = "Ways to submit:", .group = GROUP_HOW },
	{ .name = "via", .key = 'v', .arg = "WAY,WAY,...",
	  .doc = "ioctl, batch[:DEPTH], uring[:DEPTH][:pointer][:sqpoll], none (the first three)" },
	{ .name = "depth", .key = 'd', .arg = "N",
	  .doc = "Operations in a batch, or in progress on a ring, for each thread (64)" },
	{ .name = "sqpoll", .key = OPT_SQPOLL, .doc = "uring: let a kernel thread submit" },
	{ .name = "by-pointer", .key = OPT_BY_POINTER,
	  .doc = "uring: submit pointers to operations" },
	{ .name = "threads", .key = 't', .arg = "N", .doc = "Threads in each process (1)" },
	{ .name = "processes", .key = OPT_PROCESSES, .arg = "N", .doc = "Processes (1)" },
	{ .name = "rate", .key = OPT_RATE, .arg = "N",
	  .doc = "Start N operations per second, of all threads together (no limit)" },

	{ .doc = "Records:", .group = GROUP_RECORDS },
	{ .name = "records", .key = OPT_RECORDS, .arg = "N", .doc = "Records to load (10000)" },
	{ .name = "fields", .key = OPT_FIELDS, .arg = "N", .doc = "Columns of a record (10)" },
	{ .name = "field-size", .key = OPT_FIELD_SIZE, .arg = "BYTES",
	  .doc = "Bytes in each column (100)" },
	{ .name = "value-size", .key = OPT_VALUE_SIZE, .arg = "BYTES",
	  .doc = "Values without columns: --fields 1 --field-size BYTES" },
	{ .name = "key-size", .key = OPT_KEY_SIZE, .arg = "BYTES",
	  .doc = "Bytes in a key (\"user\" and a number of up to 19 digits)" },
	{ .name = "ordered", .key = OPT_ORDERED,
	  .doc = "Put the record's number into the key, not a hash of it" },
	{ .name = "load", .key = OPT_LOAD, .doc = "Load the records first (default)" },
	{ .name = "no-load", .key = OPT_NO_LOAD,
	  .doc = "Use the records that an earlier bench left with --keep" },
	{ .name = "keep", .key = OPT_KEEP, .doc = "Keep the store and its records" },

	{ .doc = "Output:", .group = GROUP_OUTPUT },
	{ .name = "check", .key = OPT_CHECK,
	  .doc = "Compare every byte read with what was stored" },
	{ .name = "plot", .key = OPT_PLOT, .arg = "FILE",
	  .doc = "Draw throughput and latency as SVG (needs Python)" },
	{ .name = "trace", .key = OPT_TRACE, .arg = "FILE",
	  .doc = "Write a line for each operation, with one thread" },
	{ .name = "progress", .key = 'P',
	  .doc = "Show progress even if standard error is not a terminal" },
	{ 0 }
};

/* Settings to be resolved when all options are known. */
struct input {
	struct plan *plan;
	struct workload mix;
	int distribution;		/* -1: the workload's own */
	unsigned int depth;
	unsigned int series_flags;
};

static unsigned int arg_count(struct argp_state *state, const char *what, const char *arg,
			      unsigned int max)
{
	unsigned long long n = arg_number(state, what, arg, max);

	if (!n)
		argp_error(state, "%s: at least 1", what);
	return (unsigned int)n;
}

static void add_workload(struct argp_state *state, struct plan *plan, const struct workload *w)
{
	if (plan->nr_workloads == WORKLOADS_MAX)
		argp_error(state, "more than %u workloads", WORKLOADS_MAX);
	plan->workload[plan->nr_workloads++] = *w;
}

/* Calls one() for each part of a list. */
static void each(struct argp_state *state, struct plan *plan, const char *list,
		 void (*one)(struct argp_state *, struct plan *, const char *, size_t))
{
	size_t len;

	for (;; list += len + 1) {
		len = strcspn(list, ",");
		one(state, plan, list, len);
		if (!list[len])
			break;
	}
}

static void one_workload(struct argp_state *state, struct plan *plan, const char *name, size_t len)
{
	const struct workload *w = workload_find(name, len);

	if (!w)
		argp_error(state, "unknown workload '%.*s': use A to F", (int)len, name);
	add_workload(state, plan, w);
}

static void one_series(struct argp_state *state, struct plan *plan, const char *text, size_t len)
{
	const char *bad;

	if (plan->nr_series == SERIES_MAX)
		argp_error(state, "more than %u ways in --via", SERIES_MAX);
	bad = series_parse(&plan->series[plan->nr_series++], text, len);
	if (bad)
		argp_error(state, "--via '%.*s': %s", (int)len, text, bad);
	plan->series_chosen = true;
}

static error_t parse_what(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	struct plan *plan = in->plan;

	switch (key) {
	case 'w':
		each(state, plan, arg, one_workload);
		return 0;
	case OPT_READ:
	case OPT_UPDATE:
	case OPT_INSERT:
	case OPT_SCAN:
	case OPT_RMW:
		in->mix.share[key - OPT_READ] = option_number(state, "a share", arg, 0, 1e9);
		return 0;
	case OPT_DISTRIBUTION:
		in->distribution = distribution_find(arg);
		if (in->distribution < 0)
			argp_error(state, "'%s' is not one of uniform, zipfian, latest", arg);
		return 0;
	case OPT_THETA:
		plan->theta = option_number(state, "--theta", arg, 0, 1);
		if (plan->theta <= 0 || plan->theta >= 1)
			argp_error(state, "--theta is above 0 and below 1");
		return 0;
	case OPT_SCAN_MAX:
		plan->scan_max = arg_count(state, "--scan-max", arg, 100000);
		return 0;
	case 'n':
		plan->operations = arg_size(state, "--operations", arg);
		if (!plan->operations)
			argp_error(state, "--operations: at least 1");
		return 0;
	case 'T':
		plan->seconds = option_number(state, "--time", arg, 0, 1e6);
		if (!plan->seconds)
			argp_error(state, "--time: more than 0 seconds");
		return 0;
	case OPT_WARMUP:
		plan->warmup = arg_size(state, "--warmup", arg);
		return 0;
	case OPT_RUNS:
		plan->runs = arg_count(state, "--runs", arg, RUNS_MAX);
		return 0;
	case OPT_SEED:
		plan->seed = arg_number(state, "--seed", arg, ULLONG_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_how(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	struct plan *plan = in->plan;

	switch (key) {
	case 'v':
		each(state, plan, arg, one_series);
		return 0;
	case 'd':
		in->depth = arg_count(state, "--depth", arg, DEPTH_MAX);
		return 0;
	case OPT_SQPOLL:
		in->series_flags |= SERIES_SQPOLL;
		return 0;
	case OPT_BY_POINTER:
		in->series_flags |= SERIES_BY_POINTER;
		return 0;
	case 't':
		plan->threads = arg_count(state, "--threads", arg, CLIENTS_MAX);
		return 0;
	case OPT_PROCESSES:
		plan->processes = arg_count(state, "--processes", arg, CLIENTS_MAX);
		return 0;
	case OPT_RATE:
		plan->rate = option_number(state, "--rate", arg, 0, 1e9);
		if (!plan->rate)
			argp_error(state, "--rate: more than 0 operations per second");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_records(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	struct plan *plan = in->plan;
	struct shape *shape = &plan->shape;

	switch (key) {
	case OPT_RECORDS:
		shape->records = arg_size(state, "--records", arg);
		if (!shape->records || shape->records > UINT32_MAX)
			argp_error(state, "--records: from 1 to %u", UINT32_MAX);
		return 0;
	case OPT_FIELDS:
		shape->fields = arg_count(state, "--fields", arg, KVTREE_COLS_MAX);
		return 0;
	case OPT_FIELD_SIZE:
		shape->field_size = arg_count(state, "--field-size", arg, KVTREE_VALUE_MAX);
		return 0;
	case OPT_VALUE_SIZE:
		shape->fields = 1;
		shape->field_size = arg_count(state, "--value-size", arg, KVTREE_VALUE_MAX);
		return 0;
	case OPT_KEY_SIZE:
		shape->key_size = arg_count(state, "--key-size", arg, KVTREE_KEY_MAX);
		return 0;
	case OPT_ORDERED:
		shape->ordered = true;
		return 0;
	case OPT_LOAD:
	case OPT_NO_LOAD:
		plan->load = key == OPT_LOAD;
		return 0;
	case OPT_KEEP:
		plan->keep = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	struct plan *plan = in->plan;

	switch (key) {
	case OPT_CHECK:
		plan->check = true;
		return 0;
	case OPT_PLOT:
		plan->plot = arg;
		return 0;
	case OPT_TRACE:
		plan->trace = arg;
		return 0;
	case 'P':
		plan->progress = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Choose the workloads, including the user's own, and their distributions. */
static void settle_workloads(struct argp_state *state, struct input *in)
{
	struct plan *plan = in->plan;
	unsigned int i;

	if (workload_scale(&in->mix))
		add_workload(state, plan, &in->mix);
	if (!plan->nr_workloads)
		each(state, plan, "A,B,C,D,E,F", one_workload);
	for (i = 0; i < plan->nr_workloads && in->distribution >= 0; i++)
		plan->workload[i].distribution = (enum distribution)in->distribution;
}

static void settle_series(struct argp_state *state, struct input *in)
{
	struct plan *plan = in->plan;
	unsigned int i;

	if (!plan->nr_series) {
		each(state, plan, "ioctl,batch,uring", one_series);
		plan->series_chosen = false;
	}
	for (i = 0; i < plan->nr_series; i++)
		series_finish(&plan->series[i], in->depth, in->series_flags);
}

/* Whether the numbers of all future records fit into the keys. */
static bool keys_suffice(const struct plan *plan)
{
	double records = (double)plan->shape.records;

	if (!plan->shape.key_size)
		return true;
	if (plan_kind_used(plan, KIND_INSERT))
		records += (double)(plan->operations + plan->warmup);
	return plan->shape.key_size > sizeof(RECORD_PREFIX) - 1 &&
	       records <= pow(10, record_digits(&plan->shape));
}

static void settle(struct argp_state *state, struct input *in)
{
	struct plan *plan = in->plan;

	settle_workloads(state, in);
	settle_series(state, in);
	if (!plan->operations && !plan->seconds)
		plan->operations = 100000;
	if ((unsigned long)plan->threads * plan->processes > CLIENTS_MAX)
		argp_error(state, "more than %u threads in all processes", CLIENTS_MAX);
	if (record_size(&plan->shape) > KVTREE_VALUE_MAX)
		argp_error(state, "a record has at most %u bytes in all fields", KVTREE_VALUE_MAX);
	if (!keys_suffice(plan))
		argp_error(state, "--key-size %u: too short for \"%s\" and the number of a record",
			   plan->shape.key_size, RECORD_PREFIX);
	if (plan->trace && plan_clients(plan) > 1)
		argp_error(state, "--trace needs one thread and one process");
	if (!plan->load && !tool.store_given && !plan_is_dry(plan))
		argp_error(state, "--no-load needs --store, the store with the records");
}

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
	static error_t (* const parsers[])(int key, char *arg, struct argp_state *state) = {
		parse_what, parse_how, parse_records, parse_output,
	};
	size_t i;

	switch (key) {
	case ARGP_KEY_ARG:
		argp_error(state, "bench takes options only: '%s'", arg);
		return 0;
	case ARGP_KEY_END:
		settle(state, state->input);
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(parsers); i++)
		if (!parsers[i](key, arg, state))
			return 0;
	return ARGP_ERR_UNKNOWN;
}

/**
 * plan_parse() - read the arguments; exits on wrong usage
 * @plan: set up
 * @argc: number of arguments
 * @argv: the arguments
 */
void plan_parse(struct plan *plan, int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_bench,
		.doc = "Measure throughput and latency, with the workloads of YCSB.\n"
		       "\vThe records are loaded into a store that is created for the benchmark and\n"
		       "destroyed at the end; this needs root. With --store they are loaded into that\n"
		       "store, which must be empty, and removed at the end.\n"
		       "\n"
		       "ioctl makes a system call for each operation, batch one for several; uring\n"
		       "keeps several in progress on an io_uring; none executes nothing and measures\n"
		       "the benchmark itself.\n"
		       "\n"
		       "Latency is the time from queueing an operation until its completion; in a\n"
		       "batch or on a ring it covers several operations. With --rate it begins at the\n"
		       "scheduled time, even if the operation is queued late. Results of all reads\n"
		       "are checked; a missing record is an error, and the exit status is 3.\n"
		       "\n"
		       "Workloads: A 50% read, 50% update. B 95% read, 5% update. C 100% read.\n"
		       "D 95% read of the latest, 5% insert. E 95% scan, 5% insert. F 50% read,\n"
		       "50% read-modify-write.\n"
		       "\n"
		       "Examples:\n"
		       "  kvtree bench\n"
		       "  kvtree bench -w A,C -v ioctl,uring:16,uring:256 --runs 5 --plot a.svg\n"
		       "  kvtree bench --read 9 --update 1 --value-size 64 --key-size 16 --json",
		.children = common_options,
	};
	struct input in = {
		.plan = plan,
		.mix = { .name = "mix", .distribution = DIST_ZIPFIAN },
		.distribution = -1,
		.depth = DEPTH_DEFAULT,
	};

	*plan = (struct plan){
		.shape = { .records = 10000, .fields = 10, .field_size = 100 },
		.threads = 1, .processes = 1, .runs = 1, .scan_max = 100, .theta = 0.99,
		.seed = 1, .load = true,
	};
	parse(&argp, argc, argv, &in);
}

/**
 * plan_clients() - the number of threads
 * @plan: the plan
 *
 * Return: the threads of all processes
 */
unsigned int plan_clients(const struct plan *plan)
{
	return plan->threads * plan->processes;
}

/**
 * plan_is_dry() - whether nothing is executed
 * @plan: the plan
 *
 * Return: true if no store is needed
 */
bool plan_is_dry(const struct plan *plan)
{
	unsigned int i;

	for (i = 0; i < plan->nr_series; i++)
		if (!plan->series[i].driver->dry)
			return false;
	return true;
}

/**
 * plan_kind_used() - whether a kind of operation is used
 * @plan: the plan
 * @kind: the kind
 *
 * Return: true if a workload uses it
 */
bool plan_kind_used(const struct plan *plan, enum kind kind)
{
	unsigned int i;

	for (i = 0; i < plan->nr_workloads; i++)
		if (plan->workload[i].share[kind])
			return true;
	return false;
}
