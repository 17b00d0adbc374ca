// SPDX-License-Identifier: GPL-2.0
/* firewall - an XDP firewall with rules that are records of a kvtree store */
#include "tool.h"

static const struct command commands[] = {
	{ "add", "add rules", cmd_add },
	{ "del", "remove rules", cmd_del },
	{ "change", "change a rule's action or ports, atomically", cmd_change },
	{ "list", "show the rules, in the order of their keys", cmd_list },
	{ "stats", "show the counters of each rule and of the program", cmd_stats },
	{ "load", "filter the packets of an interface", cmd_load },
	{ "unload", "stop filtering", cmd_unload },
	{ "check", "ask the program about packets that are not sent", cmd_check },
};

int main(int argc, char **argv)
{
	return run_command(commands, ARRAY_SIZE(commands),
			   "Decide which packets may enter, by rules that change at any time.\n"
			   "\nA rule is an action, a protocol, a prefix and ports: \"drop tcp\n"
			   "10.0.0.0/8 1-1023\" drops packets from that prefix to these ports.\n"
			   "Of the rules that match a packet the one with the longest prefix\n"
			   "counts.\v", argc, argv);
}
