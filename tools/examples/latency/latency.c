// SPDX-License-Identifier: GPL-2.0
/* latency - how long reads and writes of each file took, kept in a kvtree store */
#include "tool.h"

static const struct command commands[] = {
	{ "record", "record calls, while a command runs or until ^C", cmd_record },
	{ "files", "show what was recorded of each file", cmd_files },
	{ "calls", "show each call, in the order of files and time", cmd_calls },
	{ "slowest", "show the calls that took longest", cmd_slowest },
	{ "histogram", "show how many calls took how long", cmd_histogram },
	{ "clear", "forget what was recorded", cmd_clear },
};

int main(int argc, char **argv)
{
	return run_command(commands, ARRAY_SIZE(commands),
			   "Record how long reads and writes of files take, and look at it by file\n"
			   "and time.\v", argc, argv);
}
