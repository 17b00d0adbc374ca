// SPDX-License-Identifier: GPL-2.0
/* The XDP program, and the interfaces it is attached to. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"
#include "firewall.skel.h"

/**
 * firewall_load() - load the program
 * @no_rule: FW_PASS or FW_DROP: the action for packets that no rule matches
 * @counting: whether the program counts
 *
 * Exits on failure.
 *
 * Return: the program
 */
struct firewall *firewall_load(uint8_t no_rule, bool counting)
{
	struct kvtree *rules = store_make(RULES_STORE, 0);
	struct kvtree *counts = store_make(COUNTS_STORE, 0);
	struct firewall *skel;

	program_begin();
	skel = firewall__open();
	program_check(skel ? 0 : -errno, "cannot open the program");
	skel->rodata->no_rule = no_rule;
	skel->rodata->counting = counting;
	program_check(firewall__load(skel), "cannot load the program");
	store_bind(rules, skel->maps.rodata_rules, KVTREE_OPEN_READ);
	store_bind(counts, skel->maps.rodata_counts, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	kvtree_close(rules);
	kvtree_close(counts);
	return skel;
}

struct load {
	const char *interface;
	uint8_t no_rule;
	uint32_t flags;
};

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
	struct load *load = state->input;
	const char *wrong;

	switch (key) {
	case 'd':
		wrong = parse_action(arg, &load->no_rule);
		if (wrong)
			argp_error(state, "%s", wrong);
		return 0;
	case 'g':
		load->flags = XDP_FLAGS_SKB_MODE;
		return 0;
	case ARGP_KEY_ARG:
		if (load->interface)
			argp_error(state, "one interface at a time");
		load->interface = arg;
		if (strchr(arg, '/') || strlen(arg) >= IFNAMSIZ)
			argp_error(state, "'%s' is not an interface", arg);
		return 0;
	case ARGP_KEY_END:
		if (!load->interface)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Check before loading the program, which takes a moment. */
static unsigned int find_interface(const struct load *load)
{
	unsigned int index = if_nametoindex(load->interface);

	if (!index)
		die("no such interface: '%s'", load->interface);
	if (!access(pin_path("firewall", load->interface), F_OK))
		die("%s: already loaded: unload it with firewall unload %s", load->interface,
		    load->interface);
	return index;
}

static void attach(const struct load *load, unsigned int interface, int prog)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = load->flags);
	int link;

	link = bpf_link_create(prog, (int)interface, BPF_XDP, &opts);
	if (link == -EBUSY)
		die("%s: another XDP program is attached", load->interface);
	program_check(link < 0 ? link : 0, "cannot attach the program");
	if (bpf_obj_pin(link, pin_path("firewall", load->interface)))
		program_check(-errno, "cannot keep the program attached");
	close(link);
}

int cmd_load(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ .name = "default", .key = 'd', .arg = "ACTION",
		  .doc = "The action for packets that no rule matches (pass)" },
		{ .name = "generic", .key = 'g',
		  .doc = "Run outside of the driver, if it does not support XDP" },
		{ 0 }
	};
	const struct argp argp = {
		.options = options,
		.parser = parse_load,
		.args_doc = "INTERFACE",
		.doc = "Filter the incoming packets of an interface.\n"
		       "\vThe program stays attached until \"firewall unload\" or until the\n"
		       "interface is removed. Rules may be added before and after.",
	};
	struct load load = { .no_rule = FW_PASS };
	struct firewall *skel;
	unsigned int interface;

	argp_parse(&argp, argc, argv, 0, NULL, &load);
	interface = find_interface(&load);
	skel = firewall_load(load.no_rule, true);
	attach(&load, interface, bpf_program__fd(skel->progs.firewall));
	firewall__destroy(skel);
	return STATUS_OK;
}

int cmd_unload(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_load,
		.args_doc = "INTERFACE",
		.doc = "Remove the program from an interface. Rules and counters stay.",
	};
	struct load load = { 0 };
	const char *pin;
	int link;

	argp_parse(&argp, argc, argv, 0, NULL, &load);
	pin = pin_path("firewall", load.interface);
	link = bpf_obj_get(pin);
	if (link == -ENOENT) {
		warn("%s: the firewall is not loaded", load.interface);
		return STATUS_NOT;
	}
	program_check(link < 0 ? link : 0, "cannot open the link");
	/* The interface may have been removed. */
	bpf_link_detach(link);
	close(link);
	if (unlink(pin))
		die("cannot remove %s: %m", pin);
	return STATUS_OK;
}
