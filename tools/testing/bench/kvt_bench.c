// SPDX-License-Identifier: GPL-2.0
/*
 * kvt-bench: how fast the index is, as a program, beside others.  Subjects take
 * turns in every round, so that what disturbs the machine disturbs all of them.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "report.h"

static const struct subject *const all_subjects[] = {
	&subject_kvtree, &subject_kvtree_4k, &subject_lmdb,
};

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define NR_SUBJECTS		ARRAY_SIZE(all_subjects)

static struct {
	uint64_t nr_keys;
	uint64_t nr_ops;
	unsigned int rounds;
	unsigned int workloads;		/* bits: enum bench_keys */
	unsigned int subjects;		/* bits */
	const char *json;
} opt = { .nr_keys = 1000000, .rounds = 5 };

#define OPTION(letter, opt_name, opt_arg, text) \
	{ .name = opt_name, .key = letter, .arg = opt_arg, .doc = text }

static const struct argp_option options[] = {
	OPTION('k', "keys", "N", "how many keys (1000000)"),
	OPTION('n', "ops", "N",
	       "gets, and keys scanned, in a round (as many as keys, up to 2000000)"),
	OPTION('r', "rounds", "N", "rounds (5)"),
	OPTION('w', "workload", "NAME",
	       "W1: 8 random bytes; W2: decimal numbers; W3: 40 bytes, 32 in common; "
	       "W6: ascending. May be given more than once (W1)"),
	OPTION('s', "subject", "NAME",
	       "kvtree, kvtree_4k (small pages) or lmdb. May be given more than once (all)"),
	OPTION('j', "json", "FILE", "write the results there, too"),
	{ .name = NULL }
};

static uint64_t number(const char *arg, uint64_t max, struct argp_state *state)
{
	char *end;
	double n = strtod(arg, &end);

	if (*end || end == arg || n < 1 || n > max)
		argp_error(state, "'%s' is not a number from 1 to %llu", arg,
			   (unsigned long long)max);
	return n;
}

static unsigned int workload(const char *arg, struct argp_state *state)
{
	unsigned int i;

	for (i = 0; i < KEYS_NR; i++)
		if (!strcmp(arg, bench_keys_names[i]))
			return 1u << i;
	argp_error(state, "there is no workload '%s'", arg);
	return 0;
}

static unsigned int subject(const char *arg, struct argp_state *state)
{
	unsigned int i;

	for (i = 0; i < NR_SUBJECTS; i++)
		if (!strcmp(arg, all_subjects[i]->name))
			return 1u << i;
	argp_error(state, "there is no subject '%s'", arg);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'k':
		opt.nr_keys = number(arg, 1u << 31, state);
		break;
	case 'n':
		opt.nr_ops = number(arg, 1ull << 40, state);
		break;
	case 'r':
		opt.rounds = number(arg, ROUNDS_MAX, state);
		break;
	case 'w':
		opt.workloads |= workload(arg, state);
		break;
	case 's':
		opt.subjects |= subject(arg, state);
		break;
	case 'j':
		opt.json = arg;
		break;
	case ARGP_KEY_END:
		opt.workloads = opt.workloads ?: 1u << KEYS_RANDOM_8;
		opt.subjects = opt.subjects ?: (1u << NR_SUBJECTS) - 1;
		if (!opt.nr_ops)
			opt.nr_ops = opt.nr_keys < 2000000 ? opt.nr_keys : 2000000;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options, .parser = parse,
	.doc = "Measure the index in a program, beside others.",
};

static struct row rows[KEYS_NR * NR_SUBJECTS * PHASE_NR];
static unsigned int nr_rows;

static struct row *find_row(const char *name, const struct request *r)
{
	struct row *row;

	for (row = rows; row < rows + nr_rows; row++)
		if (!strcmp(row->subject, name) && row->keys == r->keys && row->phase == r->phase)
			return row;
	nr_rows++;
	*row = (struct row) {
		.subject = name, .keys = r->keys, .phase = r->phase, .nr_keys = r->nr_keys,
	};
	return row;
}

static void measure(struct child *c, struct request *r)
{
	const char *name = c->subject->name;
	struct answer a = { .wrong = false };
	struct row *row;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s %s %s", bench_keys_names[r->keys], name,
			phase_names[r->phase]);
	if (!child_ask(c, r, &a) || a.wrong) {
		fprintf(stderr, "\nkvt-bench: %s, %s: %s\n", name, phase_names[r->phase],
			a.wrong ? "wrong answers" : "ended early");
		exit(1);
	}
	if (!a.done)
		return;
	row = find_row(name, r);
	row->rate[row->nr++] = a.ops * 1e9 / a.cpu_ns;
	if (r->phase == PHASE_INSERT)
		row->memory = a.memory;
}

static void run_round(struct child *children, unsigned int nr, enum bench_keys keys,
		      unsigned int round)
{
	struct request r = {
		.keys = keys, .nr_keys = opt.nr_keys, .nr_ops = opt.nr_ops, .seed = round + 1,
	};
	unsigned int i;

	for (r.phase = 0; r.phase < PHASE_NR; r.phase++)
		for (i = 0; i < nr; i++)
			measure(&children[i], &r);
}

static void run_workload(enum bench_keys keys)
{
	struct child children[NR_SUBJECTS];
	unsigned int i, round, nr = 0;

	for (i = 0; i < NR_SUBJECTS; i++) {
		if (!(opt.subjects & 1u << i))
			continue;
		if (child_start(&children[nr++], all_subjects[i])) {
			perror("kvt-bench");
			exit(1);
		}
	}
	for (round = 0; round < opt.rounds; round++)
		run_round(children, nr, keys, round);
	for (i = 0; i < nr; i++)
		child_stop(&children[i]);
}

int main(int argc, char **argv)
{
	enum bench_keys keys;
	unsigned int i;
	int err = 0;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (keys = 0; keys < KEYS_NR; keys++)
		if (opt.workloads & 1u << keys)
			run_workload(keys);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	for (i = 0; i < nr_rows; i++)
		report_sort(&rows[i]);
	report_table(rows, nr_rows);
	if (opt.json)
		err = report_json(rows, nr_rows, opt.json);
	if (err)
		fprintf(stderr, "kvt-bench: %s: %s\n", opt.json, strerror(err));
	return !!err;
}
