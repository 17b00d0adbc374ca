// SPDX-License-Identifier: GPL-2.0
/*
 * What was measured, as a table and as JSON, and how it compares.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include <jansson.h>

#include "bench.h"

#define NOTHING_CALL	"kvtree ioctl that does nothing"

/*
 * How often the rate of one system is that of the other.  Names begin with the
 * workload, but for `plain`, which is the name for gets.
 */
struct comparison {
	const char *name;
	const char *plain;
	const char *sys, *beside;
	double at_least, at_most;	/* for gets; 0: none */
};

static const struct comparison comparisons[] = {
	{ "ioctl_vs_redis", NULL, "kvtree ioctl", "redis unix", 40, 0 },
	{ "batch64_vs_redis_p64", NULL, "kvtree batch 64", "redis unix, -P 64", 8, 0 },
	{ "uring64_vs_redis_p64", NULL, "kvtree io_uring 64, inline", "redis unix, -P 64", 8, 0 },
	{ "uring_batch64_vs_redis_p64", NULL, "kvtree io_uring batch 64", "redis unix, -P 64",
	  0, 0 },
	{ "uring64_vs_ioctl", "uring64_vs_ioctl", "kvtree io_uring 64, inline", "kvtree ioctl",
	  1.1, 0 },
	{ "uring64_pointer_vs_ioctl", "uring64_pointer_vs_ioctl", "kvtree io_uring 64, pointer",
	  "kvtree ioctl", 0, 0 },
	{ "uring_batch64_vs_ioctl", "uring_batch64_vs_ioctl", "kvtree io_uring batch 64",
	  "kvtree ioctl", 3, 0 },
	/* The other way round: these are times. */
	{ "ioctl_vs_empty_ioctl", NULL, NOTHING_CALL, "kvtree ioctl", 0, 3 },
	{ "ioctl_vs_redis_tcp", NULL, "kvtree ioctl", "redis tcp", 0, 0 },
	{ "ioctl_vs_memcached", NULL, "kvtree ioctl", "memcached unix", 0, 0 },
	{ "ioctl_vs_memcached_tcp", NULL, "kvtree ioctl", "memcached tcp", 0, 0 },
	{ "batch64_vs_memcached_m64", NULL, "kvtree batch 64", "memcached unix, multi 64", 0, 0 },
	{ "uring64_vs_memcached_m64", NULL, "kvtree io_uring 64, inline",
	  "memcached unix, multi 64", 0, 0 },
};

bool lane_icount;

struct ratio {
	char name[64];
	double value;
	double at_least, at_most;
};

/**
 * lane_name() - where this runs
 *
 * The hypervisor says so itself.
 *
 * Return: a string that lives for ever
 */
const char *lane_name(void)
{
	unsigned int id[4] = { 0 };

#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 31)))
		return "not a virtual machine";
	__cpuid(0x40000000, id[3], id[0], id[1], id[2]);
#endif
	if (!memcmp(id, "TCGTCGTCGTCG", 12))
		return lane_icount ? "emulated (QEMU TCG), 1 ns for each instruction" :
				     "emulated (QEMU TCG)";
	if (!memcmp(id, "KVMKVMKVM", 9))
		return "virtual machine (KVM)";
	return "unknown kind of machine";
}

static const struct cell *find(const struct cells *cells, enum workload w, const char *sys)
{
	unsigned int i;

	if (!strcmp(sys, NOTHING_CALL))
		w = EMPTY;
	for (i = 0; i < cells->nr; i++)
		if (cells->all[i].workload == w && !strcmp(cells->all[i].sys->name, sys))
			return &cells->all[i];
	return NULL;
}

/* False if not both were measured with this workload. */
static bool compare(const struct cells *cells, enum workload w, const struct comparison *c,
		    struct ratio *ratio)
{
	const struct cell *sys = find(cells, w, c->sys), *beside = find(cells, w, c->beside);

	if (!sys || !beside || (sys->workload == EMPTY && w > PLAIN_PUT))
		return false;
	*ratio = (struct ratio) { .value = cell_median(sys) / cell_median(beside) };
	if (w == PLAIN_GET) {
		ratio->at_least = c->at_least;
		ratio->at_most = c->at_most;
	}
	if (w == PLAIN_GET && c->plain)
		strcpy(ratio->name, c->plain);
	else
		snprintf(ratio->name, sizeof(ratio->name), "%s_%s", workload_name(w), c->name);
	return true;
}

/* Calls fn for each ratio there is. */
static void each_ratio(const struct cells *cells, void (*fn)(const struct ratio *r, void *arg),
		       void *arg)
{
	struct ratio ratio;
	enum workload w;
	unsigned int i;

	for (w = PLAIN_GET; w < WORKLOADS; w++)
		for (i = 0; i < ARRAY_SIZE(comparisons); i++)
			if (compare(cells, w, &comparisons[i], &ratio))
				fn(&ratio, arg);
}

static bool missed(const struct ratio *r)
{
	return r->value < r->at_least || (r->at_most && r->value > r->at_most);
}

static void print_ratio(const struct ratio *r, void *arg)
{
	const bool *bounds = arg;

	printf("  %-34s %9.2f", r->name, r->value);
	if (*bounds && r->at_least)
		printf("   to be at least %g", r->at_least);
	if (*bounds && r->at_most)
		printf("   to be at most %g", r->at_most);
	puts(*bounds && missed(r) ? ": MISSED" : "");
}

static void print_title(enum workload w)
{
	static const char * const titles[] = {
		[EMPTY] = "a call that does nothing",
		[PLAIN_GET] = "gets, 16-byte keys, 64-byte values, uniform",
		[PLAIN_PUT] = "puts, 16-byte keys, 64-byte values, uniform",
		[MYCSB_A] = "MYCSB A: half gets of 10 columns, half puts of one, Zipf",
		[MYCSB_B] = "MYCSB B: 95 % gets of 10 columns, 5 % puts of one, Zipf",
		[MYCSB_C] = "MYCSB C: gets of 10 columns, Zipf",
	};

	printf("\n%s; %s\n", titles[w], lane_name());
	printf("  %-34s %12s %12s %12s %10s\n", "", "per second", "min", "max", "us each");
}

static void print_versions(void)
{
	static const char * const programs[] = { "redis-server", "memcached" };
	char version[128];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(programs); i++) {
		server_version(programs[i], version, sizeof(version));
		puts(version);
	}
}

/**
 * report_print() - print tables
 * @cells: what was measured
 * @bounds: whether to say which ratios are to be reached
 */
void report_print(const struct cells *cells, bool bounds)
{
	enum workload w = WORKLOADS;
	const struct cell *c;
	struct utsname uts;
	unsigned int i;

	uname(&uts);
	printf("Linux %s, %s; %u keys, one client, medians of %u rounds\n", uts.release,
	       lane_name(), nr_keys, cells->all[0].runs);
	print_versions();
	for (i = 0; i < cells->nr; i++) {
		c = &cells->all[i];
		if (c->workload != w)
			print_title(c->workload);
		w = c->workload;
		printf("  %-34s %12.0f %12.0f %12.0f %10.2f\n", c->sys->name, cell_median(c),
		       c->rates[0], c->rates[c->runs - 1], 1e6 / cell_median(c));
	}
	printf("\nratios; %s\n", lane_name());
	each_ratio(cells, print_ratio, &bounds);
	fflush(stdout);
}

static json_t *row(const struct cell *c)
{
	json_t *row;

	row = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:i, s:s, s:s}",
			"workload", workload_name(c->workload),
			"system", c->sys->name,
			"threads", 1,
			"median", cell_median(c),
			"min", c->rates[0],
			"max", c->rates[c->runs - 1],
			"runs", c->runs,
			"unit", "operations/s",
			"lane", lane_name());
	if (c->uring)
		json_object_set_new(row, "uring_commands", json_integer(c->uring));
	return row;
}

static void add_ratio(const struct ratio *r, void *arg)
{
	json_object_set_new(arg, r->name, json_real(r->value));
}

/**
 * report_write() - write everything as JSON
 * @cells: what was measured
 * @path: of the file
 */
void report_write(const struct cells *cells, const char *path)
{
	json_t *ratios = json_object(), *rows = json_array();
	json_t *all = json_pack("{s:o, s:o}", "ratios", ratios, "rows", rows);
	unsigned int i;

	if (!all)
		die("out of memory");
	each_ratio(cells, add_ratio, ratios);
	for (i = 0; i < cells->nr; i++)
		json_array_append_new(rows, row(&cells->all[i]));
	if (json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)))
		die("%s: cannot be written", path);
	json_decref(all);
}

static void count_missed(const struct ratio *r, void *arg)
{
	bool *ok = arg;

	if (!missed(r))
		return;
	note("%s is %.2f, and was to be at %s %g", r->name, r->value,
	     r->at_least ? "least" : "most", r->at_least ?: r->at_most);
	*ok = false;
}

/**
 * report_bounds() - say what is not as good as it is to be
 * @cells: what was measured
 *
 * Return: whether everything is
 */
bool report_bounds(const struct cells *cells)
{
	bool ok = true;

	each_ratio(cells, count_missed, &ok);
	return ok;
}
