/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of bench-bpf share.
 *
 * A row is what one system does under one workload, with a number for each round.
 * All rows of a comparison are measured in every round, one after the other; the
 * round before the first is not counted.
 */
#ifndef BENCH_BPF_H
#define BENCH_BPF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

struct plan {
	unsigned int rounds;
	double seconds;		/* for a row in a round */
	unsigned int keys;
	bool quick;		/* whether it works, and not how fast */
	bool icount;		/* the clock counts instructions */
	const char *cache;	/* the example's program */
};

/*
 * report.c: rows and ratios
 */
struct row;

struct row *row_new(const struct plan *plan, const char *workload, const char *system,
		    const char *unit);
void row_set(struct row *row, unsigned int round, double value);
double row_median(struct row *row);

/* A number that is to be at least or at most another; 0: no such bound. */
void ratio_add(const char *name, double value, double at_least, double at_most);

void report_print(const struct plan *plan);
void report_write(const char *path);
bool report_bounds(void);

/* lookup.c and cache.c: measure, and add to the report. */
void lookup_measure(const struct plan *plan);
void cache_measure(const struct plan *plan);

/* main.c */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress(const struct plan *plan, const char *what, unsigned int round);
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif /* BENCH_BPF_H */
