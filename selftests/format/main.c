// SPDX-License-Identifier: GPL-2.0
/*
 * format COMMAND [OPTION...] IMAGE...
 *
 *   show      what a recovery restores from the disks, in lines
 *   damage    damage in every place: it is detected, or does no harm
 *   fuzz      structures with other values and right checksums
 *   ranges    checkpoints of ranges, made at random; no images
 *   build     write such disks to the images
 */
#include <getopt.h>
#include "cmd.h"

static const struct {
	const char *name;
	int (*run)(const struct cmd_options *o);
} commands[] = {
	{ "show", cmd_show }, { "damage", cmd_damage }, { "fuzz", cmd_fuzz },
	{ "ranges", cmd_ranges }, { "build", cmd_build },
};

enum { STALE = 1, JOBS_, PLACES, EVERY, SEED };

static const struct option options[] = {
	{ "stale", required_argument, NULL, STALE },
	{ "jobs", required_argument, NULL, JOBS_ },
	{ "places", required_argument, NULL, PLACES },
	{ "every", required_argument, NULL, EVERY },
	{ "seed", required_argument, NULL, SEED },
	{ 0 }
};

static void parse(struct cmd_options *o, int argc, char **argv)
{
	u32 *const numbers[] = { [JOBS_] = &o->jobs, [PLACES] = &o->places, [EVERY] = &o->every };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == STALE && o->nr_stale < FMT_DISKS)
			o->stale[o->nr_stale++] = optarg;
		else if (c == SEED)
			o->seed = strtoull(optarg, NULL, 0);
		else if (c == JOBS_ || c == PLACES || c == EVERY)
			*numbers[c] = (u32)strtoul(optarg, NULL, 0);
		else
			exit(2);
	}
	o->paths = argv + optind;
	o->nr_paths = (u32)(argc - optind);
	if (!o->jobs || !o->every || (o->nr_stale && o->nr_stale != o->nr_paths))
		fmt_die("which disks?");
}

int main(int argc, char **argv)
{
	struct cmd_options o = { .jobs = 1, .places = 10000, .every = 1, .seed = 1 };
	size_t i;

	for (i = 0; argc > 1 && i < FMT_NR(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		parse(&o, argc - 1, argv + 1);
		/* Only one needs none. */
		if (!o.nr_paths && commands[i].run != cmd_ranges)
			fmt_die("which disks?");
		return commands[i].run(&o);
	}
	fmt_die("which command?");
}
