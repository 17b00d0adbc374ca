/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of the program, and their options. */
#ifndef FORMAT_CMD_H
#define FORMAT_CMD_H

#include "disks.h"

struct cmd_options {
	char *stale[FMT_DISKS];		/* the same disks, earlier */
	char **paths;
	u32 nr_stale;
	u32 nr_paths;
	u32 jobs;
	u32 places;			/* chosen at random */
	u32 every;			/* of the bytes that are damaged one by one */
	u64 seed;
};

int cmd_show(const struct cmd_options *o);
int cmd_damage(const struct cmd_options *o);
int cmd_fuzz(const struct cmd_options *o);
int cmd_ranges(const struct cmd_options *o);
int cmd_build(const struct cmd_options *o);

#endif /* FORMAT_CMD_H */
