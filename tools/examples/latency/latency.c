// SPDX-License-Identifier: GPL-2.0
/* latency - record how long reads and writes of files take, in a kvtree store */
#include "tool.h"

static const struct command commands[] = {
	{ "record", "record calls, while a command runs or until ^C", cmd_record },
	{ "files", "show a summary of each file", cmd_files },
	{ "calls", "show each call, in the order of files and time", cmd_calls },
	{ "slowest", "show the slowest calls", cmd_slowest },
	{ "histogram", "show a histogram of the durations", cmd_histogram },
	{ "clear", "delete all records", cmd_clear },
};

int main(int argc, char **argv)
{
	return run_command(commands, ARRAY_SIZE(commands),
			   "Record how long reads and writes of files take, and show it by file\n"
			   "and time.\v", argc, argv);
}
