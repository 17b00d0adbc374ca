// SPDX-License-Identifier: GPL-2.0
/*
 * kvt-bench: measure the index in a program, and compare it with other maps.  Subjects take
 * turns in every step of every round, so that other load on the machine affects all of them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../options.h"
#include "child.h"
#include "report.h"

static const struct subject *const all_subjects[] = {
	&subject_kvtree, &subject_bwtree, &subject_lmdb, &subject_skiplist,
	&subject_congee, &subject_treeindex, &subject_stdmap, &subject_chase,
};

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define NR_SUBJECTS		ARRAY_SIZE(all_subjects)
/* With large pages and with small ones. */
#define CHILDREN_MAX		(2 * NR_SUBJECTS)
#define WORKLOADS_MAX		16
#define ROWS_MAX		2048

static struct {
	uint64_t nr_keys;
	uint64_t nr_ops;
	unsigned int rounds;
	unsigned int threads[THREADS_MAX];
	unsigned int nr_threads;
	const char *workloads[WORKLOADS_MAX];
	unsigned int nr_workloads;
	unsigned int subjects;		/* bits */
	bool huge, small;
	const char *json;
} opt = { .nr_keys = 1000000, .rounds = 5 };

#define OPTION(letter, opt_name, opt_arg, text) \
	{ .name = opt_name, .key = letter, .arg = opt_arg, .doc = text }

static const struct argp_option options[] = {
	OPTION('k', "keys", "N", "number of keys (1000000)"),
	OPTION('n', "ops", "N",
	       "operations, or pairs scanned, in a round (as many as keys, up to 2000000)"),
	OPTION('r', "rounds", "N", "rounds (5)"),
	OPTION('t', "threads", "N", "threads; repeatable (1 and 2)"),
	OPTION('w', "workload", "NAME",
	       "W1 to W11, see below; repeatable (all)"),
	OPTION('s', "subject", "NAME", "see below; repeatable (all)"),
	OPTION('p', "pages", "KIND", "huge or 4k; repeatable (both)"),
	OPTION('j', "json", "FILE", "write the results to FILE"),
	{ .name = NULL }
};

static bool is_workload(const char *name)
{
	const struct group *group;
	const struct step *step;

	for (group = groups; group->steps; group++)
		for (step = group->steps; step->name; step++)
			if (!strcmp(step->workload, name))
				return true;
	return false;
}

static void add_workload(const char *arg, struct argp_state *state)
{
	if (!is_workload(arg))
		argp_error(state, "unknown workload '%s'", arg);
	if (opt.nr_workloads == WORKLOADS_MAX)
		argp_error(state, "too many workloads");
	opt.workloads[opt.nr_workloads++] = arg;
}

static unsigned int subject(const char *arg, struct argp_state *state)
{
	unsigned int i;

	for (i = 0; i < NR_SUBJECTS; i++)
		if (!strcmp(arg, all_subjects[i]->name))
			return 1u << i;
	argp_error(state, "unknown subject '%s'", arg);
	return 0;
}

static void add_threads(unsigned int nr, struct argp_state *state)
{
	if (opt.nr_threads == THREADS_MAX)
		argp_error(state, "too many counts of threads");
	opt.threads[opt.nr_threads++] = nr;
}

static void add_pages(const char *arg, struct argp_state *state)
{
	if (!strcmp(arg, "huge"))
		opt.huge = true;
	else if (!strcmp(arg, "4k"))
		opt.small = true;
	else
		argp_error(state, "unknown pages '%s': use huge or 4k", arg);
}

static void set_defaults(struct argp_state *state)
{
	opt.subjects = opt.subjects ?: (1u << NR_SUBJECTS) - 1;
	if (!opt.huge && !opt.small) {
		opt.huge = true;
		opt.small = true;
	}
	if (!opt.nr_ops)
		opt.nr_ops = opt.nr_keys < 2000000 ? opt.nr_keys : 2000000;
	if (!opt.nr_threads) {
		add_threads(1, state);
		add_threads(2, state);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'k':
		/* Churn adds other keys. */
		opt.nr_keys = option_number(state, "--keys", arg, 1, 1u << 30);
		break;
	case 'n':
		opt.nr_ops = option_number(state, "--ops", arg, 1, 1u << 24);
		break;
	case 'r':
		opt.rounds = option_number(state, "--rounds", arg, 1, ROUNDS_MAX);
		break;
	case 't':
		add_threads(option_number(state, "--threads", arg, 1, THREADS_MAX), state);
		break;
	case 'w':
		add_workload(arg, state);
		break;
	case 's':
		opt.subjects |= subject(arg, state);
		break;
	case 'p':
		add_pages(arg, state);
		break;
	case 'j':
		opt.json = arg;
		break;
	case ARGP_KEY_END:
		set_defaults(state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* argp prints the text after the vertical tab below the options. */
static const char help[] =
	"Measure the index in a program, beside others.\vW1: keys of 8 random bytes\n"
	"W2: decimal numbers\n"
	"W3: 40 bytes, 32 in common\n"
	"W4: scans of 1 to 100 keys\n"
	"W5: gets and updates, with a Zipf distribution\n"
	"W6: ascending and descending inserts\n"
	"W7: inserts and removals\n"
	"W8: ten columns, MYCSB A, B, C and E\n"
	"W9: the synthetic mix of the paper on the Bw-tree\n"
	"W10, W11: like its other two: long values, hashes (kvtree, bwtree)\n"
	"\n"
	"Subjects are kvtree, bwtree, lmdb, skiplist, congee, treeindex, stdmap and chase.";

static const struct argp argp = {
	.options = options, .parser = parse,
	.doc = help,
};

static struct row rows[ROWS_MAX];
static unsigned int nr_rows;

static struct row *find_row(const struct child *c, const struct step *step, unsigned int threads)
{
	struct row *row;

	for (row = rows; row < rows + nr_rows; row++)
		if (row->subject == c->subject->name && row->step == step &&
		    row->threads == threads && row->small_pages == c->config.small_pages)
			return row;
	if (nr_rows++ == ROWS_MAX)
		abort();
	*row = (struct row) {
		.step = step, .subject = c->subject->name, .threads = threads,
		.small_pages = c->config.small_pages, .nr_keys = c->config.nr_keys,
	};
	return row;
}

static bool wanted(const struct step *step)
{
	unsigned int i;

	for (i = 0; i < opt.nr_workloads; i++)
		if (!strcmp(step->workload, opt.workloads[i]))
			return true;
	return !opt.nr_workloads;
}

static void __attribute__((__noreturn__)) fail(const struct child *c, const struct step *step,
					       const char *what, const char *of)
{
	fprintf(stderr, "\nkvt-bench: %s, %s: %s%s\n", c->subject->name, step->name, what, of);
	exit(1);
}

static void show(const struct child *c, const struct step *step, unsigned int round)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Kround %u of %u: %s %s", round + 1, opt.rounds,
			step->name, c->subject->name);
}

/* Run a step on all subjects in turn; they must find the same. */
static void run_step(struct child *children, unsigned int nr, const struct step *step,
		     unsigned int threads, unsigned int round)
{
	struct request r = {
		.phase = step->phase, .threads = threads, .nr_ops = opt.nr_ops, .seed = round + 1,
	};
	const struct child *c, *first = NULL;
	uint64_t found = 0;
	struct answer a;

	for (c = children; c < children + nr; c++) {
		show(c, step, round);
		if (!child_ask(c, &r, &a))
			fail(c, step, "ended early", "");
		if (!a.done)
			continue;
		if (a.wrong)
			fail(c, step, "wrong answers", "");
		if (first && a.found != found)
			fail(c, step, "found something else than ", first->subject->name);
		first = first ?: c;
		found = a.found;
		if (wanted(step))
			report_add(find_row(c, step, threads), &a);
	}
}

/* Later steps use the keys of the last insert. */
static void run_round(struct child *children, unsigned int nr, const struct group *group,
		      unsigned int round)
{
	const struct step *step;
	unsigned int i;

	for (step = group->steps; step->name; step++) {
		if (step->phase != PHASE_INSERT && !wanted(step))
			continue;
		for (i = 0; i < opt.nr_threads; i++)
			run_step(children, nr, step, opt.threads[i], round);
	}
}

static bool group_wanted(const struct group *group)
{
	const struct step *step;

	for (step = group->steps; step->name; step++)
		if (wanted(step))
			return true;
	return false;
}

static void start(struct child *c, const struct subject *s, const struct group *group, bool small)
{
	unsigned int i, threads = 1;

	for (i = 0; i < opt.nr_threads; i++)
		threads = opt.threads[i] > threads ? opt.threads[i] : threads;
	*c = (struct child) {
		.subject = s,
		.config = {
			.keys = group->keys, .nr_keys = opt.nr_keys, .wide = group->wide,
			.value_len = group->value_len,
			.fixed = bench_keys_fixed(group->keys), .small_pages = small,
		},
	};
	if (child_start(c, threads)) {
		perror("kvt-bench");
		exit(1);
	}
}

static unsigned int start_all(struct child *children, const struct group *group)
{
	unsigned int i, nr = 0;

	for (i = 0; i < NR_SUBJECTS; i++) {
		const struct subject *s = all_subjects[i];

		if (!(opt.subjects & 1u << i) ||
		    (s->fixed_only && !bench_keys_fixed(group->keys)) ||
		    (group->value_len && !s->long_values))
			continue;
		if (opt.huge)
			start(&children[nr++], s, group, false);
		if (opt.small)
			start(&children[nr++], s, group, true);
	}
	return nr;
}

static void run_group(const struct group *group)
{
	struct child children[CHILDREN_MAX];
	unsigned int i, round, nr = start_all(children, group);

	for (round = 0; round < opt.rounds; round++) {
		run_round(children, nr, group, round);
		if (!isatty(STDERR_FILENO))
			fprintf(stderr, "kvt-bench: %s: round %u of %u\n",
				group->steps->name, round + 1, opt.rounds);
	}
	for (i = 0; i < nr; i++)
		child_stop(&children[i]);
}

int main(int argc, char **argv)
{
	const struct group *group;
	int err = 0;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (group = groups; group->steps; group++)
		if (group_wanted(group))
			run_group(group);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	report_table(rows, nr_rows);
	if (opt.json)
		err = report_json(rows, nr_rows, opt.json);
	if (err)
		fprintf(stderr, "kvt-bench: %s: %s\n", opt.json, strerror(err));
	return !!err;
}
