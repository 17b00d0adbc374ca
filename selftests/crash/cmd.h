/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of the program, and their options. */
#ifndef CRASH_CMD_H
#define CRASH_CMD_H

#include <stdbool.h>
#include <stdint.h>

struct cmd_options {
	const char *record;
	const char *oracle;
	const char *first;		/* record of the life before, and its oracle */
	const char *first_oracle;
	const char *state;
	const char *dir;
	char **paths;			/* arguments after the options, NULL-terminated */
	uint32_t nr_paths;
	uint32_t points;
	uint32_t check;
	uint32_t jobs;
	uint32_t life;
	uint32_t lives;			/* of the store that is recorded, this one included */
	uint32_t workers;
	uint32_t cpus;
	uint32_t ops;
	uint32_t checkpoint;
	uint32_t nbd;			/* disks; 0: one of dm-log-writes */
	uint32_t mib;
	uint32_t less;			/* MiB that each nbd disk is smaller than the last */
	uint64_t seed;
	bool format;
	bool compare;
	bool cached;
};

int cmd_record(const struct cmd_options *o);
int cmd_replay(const struct cmd_options *o);
int cmd_attach(const struct cmd_options *o);
int cmd_image(const struct cmd_options *o);
int cmd_drive(const struct cmd_options *o);
int cmd_judge(const struct cmd_options *o);

#endif /* CRASH_CMD_H */
