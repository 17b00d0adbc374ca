// SPDX-License-Identifier: GPL-2.0
/* crash COMMAND OPTION... [FILE...]: see crash.sh, which runs them. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../lib/kvt_test.h"
#include "cmd.h"
#include "crash.h"

void crash_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "crash: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(2);
}

void crash_file_save(const char *path, const void *data, size_t len)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(data, 1, len, file) != len || fclose(file))
		crash_die("%s: cannot be written: %m", path);
}

void *crash_file_load(const char *path, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *data = MAP_FAILED;

	if (fd >= 0)
		data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED || lseek(fd, 0, SEEK_END) < (off_t)len)
		crash_die("%s: cannot be read: %m", path);
	close(fd);
	return data;
}

static const struct {
	const char *name;
	int (*run)(const struct cmd_options *o);
} commands[] = {
	{ "record", cmd_record }, { "replay", cmd_replay }, { "attach", cmd_attach },
	{ "image", cmd_image }, { "drive", cmd_drive }, { "judge", cmd_judge },
};

enum {
	RECORD, ORACLE, FIRST, FIRST_ORACLE, STATE, DIR_,
	POINTS, CHECK, JOBS_, LIFE, WORKERS, CPUS, OPS, CHECKPOINT,
	NBD, LESS, LIVES, MIB, SEED, FORMAT, COMPARE, CACHED,
};

static const struct option options[] = {
	{ "record", required_argument, NULL, RECORD },
	{ "oracle", required_argument, NULL, ORACLE },
	{ "first", required_argument, NULL, FIRST },
	{ "first-oracle", required_argument, NULL, FIRST_ORACLE },
	{ "state", required_argument, NULL, STATE },
	{ "dir", required_argument, NULL, DIR_ },
	{ "points", required_argument, NULL, POINTS },
	{ "check", required_argument, NULL, CHECK },
	{ "jobs", required_argument, NULL, JOBS_ },
	{ "life", required_argument, NULL, LIFE },
	{ "lives", required_argument, NULL, LIVES },
	{ "workers", required_argument, NULL, WORKERS },
	{ "cpus", required_argument, NULL, CPUS },
	{ "ops", required_argument, NULL, OPS },
	{ "checkpoint", required_argument, NULL, CHECKPOINT },
	{ "nbd", required_argument, NULL, NBD },
	{ "mib", required_argument, NULL, MIB },
	{ "less", required_argument, NULL, LESS },
	{ "seed", required_argument, NULL, SEED },
	{ "format", no_argument, NULL, FORMAT },
	{ "compare", no_argument, NULL, COMPARE },
	{ "cached", no_argument, NULL, CACHED },
	{ 0 }
};

static void parse(struct cmd_options *o, int argc, char **argv)
{
	uint32_t *const numbers[] = {
		[POINTS] = &o->points, [CHECK] = &o->check, [JOBS_] = &o->jobs, [LIFE] = &o->life,
		[WORKERS] = &o->workers, [CPUS] = &o->cpus, [OPS] = &o->ops,
		[CHECKPOINT] = &o->checkpoint, [NBD] = &o->nbd, [LESS] = &o->less,
		[LIVES] = &o->lives, [MIB] = &o->mib,
	};
	const char **const texts[] = {
		[RECORD] = &o->record, [ORACLE] = &o->oracle, [STATE] = &o->state, [DIR_] = &o->dir,
		[FIRST] = &o->first, [FIRST_ORACLE] = &o->first_oracle,
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c <= DIR_)
			*texts[c] = optarg;
		else if (c <= MIB)
			*numbers[c] = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == SEED)
			o->seed = strtoull(optarg, NULL, 0);
		else if (c == FORMAT)
			o->format = true;
		else if (c == COMPARE)
			o->compare = true;
		else if (c == CACHED)
			o->cached = true;
		else
			exit(2);
	}
	o->paths = argv + optind;
	o->nr_paths = (uint32_t)(argc - optind);
}

int main(int argc, char **argv)
{
	struct cmd_options o = {
		.jobs = 1, .life = 1, .lives = 1, .workers = 4, .cpus = 2, .ops = 1000, .mib = 272,
		.seed = 1,
		.dir = ".",
	};
	size_t i;

	for (i = 0; argc > 1 && i < NR(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		parse(&o, argc - 1, argv + 1);
		return commands[i].run(&o);
	}
	crash_die("which command?");
}
