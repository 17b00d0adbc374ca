// SPDX-License-Identifier: GPL-2.0
/* Ask the program about packets that are built here and not sent. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

#include "tool.h"
#include "firewall.skel.h"

struct packet {
	struct ethhdr eth;
	union {
		struct {
			struct iphdr ip;
			uint8_t data[20];
		} v4;
		struct {
			struct ip6_hdr ip;
			uint8_t data[20];
		} v6;
	};
} __attribute__((packed));

static struct {
	uint8_t no_rule;
	bool json;
	int nr;
	char *words[4];
} options = { .no_rule = FW_PASS };

static uint8_t protocol_number(const struct rule *r)
{
	switch (r->protocol) {
	case FW_TCP:
		return IPPROTO_TCP;
	case FW_UDP:
		return IPPROTO_UDP;
	case FW_ICMP:
		return r->ip == 6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	default:
		return (uint8_t)r->first;
	}
}

/* TCP and UDP have the ports at the same offset. */
static void fill_data(const struct rule *r, uint8_t *data)
{
	uint16_t ports[2] = { htons(40000), htons(r->first) };

	if (r->protocol == FW_TCP || r->protocol == FW_UDP)
		memcpy(data, ports, sizeof(ports));
	else if (r->protocol == FW_ICMP)
		data[0] = (uint8_t)r->first;
}

/* Build a packet that matches a rule of one address and port. */
static size_t make_packet(const struct rule *r, struct packet *p)
{
	memset(p, 0, sizeof(*p));
	if (r->ip == 4) {
		p->eth.h_proto = htons(ETH_P_IP);
		p->v4.ip.version = 4;
		p->v4.ip.ihl = 5;
		p->v4.ip.tot_len = htons(sizeof(p->v4));
		p->v4.ip.protocol = protocol_number(r);
		memcpy(&p->v4.ip.saddr, r->net, sizeof(p->v4.ip.saddr));
		fill_data(r, p->v4.data);
		return sizeof(p->eth) + sizeof(p->v4);
	}
	p->eth.h_proto = htons(ETH_P_IPV6);
	p->v6.ip.ip6_vfc = 6 << 4;
	p->v6.ip.ip6_plen = htons(sizeof(p->v6.data));
	p->v6.ip.ip6_nxt = protocol_number(r);
	memcpy(&p->v6.ip.ip6_src, r->net, sizeof(p->v6.ip.ip6_src));
	fill_data(r, p->v6.data);
	return sizeof(p->eth) + sizeof(p->v6);
}

static const char *parse_packet(int nr, char **words, struct rule *r)
{
	const char *wrong;
	char any[] = "0";

	if (nr < 2 || nr > 3)
		return "a packet is PROTOCOL ADDRESS [PORT]";
	wrong = parse_what(words[0], words[1], nr > 2 ? words[2] : any, r);
	if (!wrong && (r->first != r->last || strchr(words[1], '/')))
		return "a packet has one address and one port";
	if (!wrong && r->protocol == FW_PROTOCOLS)
		return "a packet has one protocol";
	if (!wrong && r->first > 255 && r->protocol != FW_TCP && r->protocol != FW_UDP)
		return "types and protocols are numbers up to 255";
	return wrong;
}

/* Run the program on a packet; "undecided": dropped, see firewall.h. */
static const char *action_of(const struct firewall *skel, struct packet *packet, size_t size)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet, .data_size_in = (__u32)size,
		    .repeat = 1);
	int prog = bpf_program__fd(skel->progs.firewall);

	program_check(bpf_prog_test_run_opts(prog, &opts), "cannot run the program");
	if (skel->bss->reason == FW_UNDECIDED)
		return "undecided";
	return opts.retval == XDP_PASS ? "pass" : "drop";
}

static void answer(int nr, char **words, const char *action)
{
	json_t *obj;
	int i;

	if (options.json) {
		obj = json_object();
		json_put(obj, "protocol", json_string(words[0]));
		json_put(obj, "address", json_string(words[1]));
		if (nr > 2)
			json_put(obj, "port", json_integer(atoi(words[2])));
		json_put(obj, "action", json_string(action));
		json_print(obj);
		return;
	}
	fputs(action, stdout);
	for (i = 0; i < nr; i++)
		printf(" %s", words[i]);
	putchar('\n');
}

static const char *check(const struct firewall *skel, int nr, char **words)
{
	struct packet packet;
	const char *wrong;
	struct rule r;
	size_t size;

	wrong = parse_packet(nr, words, &r);
	if (wrong)
		return wrong;
	size = make_packet(&r, &packet);
	answer(nr, words, action_of(skel, &packet, size));
	return NULL;
}

static const char *check_lines(const struct firewall *skel)
{
	const char *wrong = NULL;
	char *line = NULL, *words[4];
	size_t size = 0;
	int nr;

	while (!wrong && getline(&line, &size, stdin) > 0) {
		nr = split_words(line, words, ARRAY_SIZE(words));
		if (nr)
			wrong = check(skel, nr, words);
		/* An empty line: the caller waits for the answers. */
		else
			fflush(stdout);
	}
	free(line);
	return wrong;
}

static error_t parse_check(int key, char *arg, struct argp_state *state)
{
	const char *wrong;

	switch (key) {
	case 'd':
		wrong = parse_action(arg, &options.no_rule);
		if (wrong)
			argp_error(state, "%s", wrong);
		return 0;
	case 'j':
		options.json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options.nr == ARRAY_SIZE(options.words))
			argp_error(state, "too many arguments");
		options.words[options.nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options.nr)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_check(int argc, char **argv)
{
	static const struct argp_option known[] = {
		{ .name = "default", .key = 'd', .arg = "ACTION",
		  .doc = "The action for packets that no rule matches (pass)" },
		{ .name = "json", .key = 'j', .doc = "Print JSON, an object per line" },
		{ 0 }
	};
	const struct argp argp = {
		.options = known,
		.parser = parse_check,
		.args_doc = "PROTOCOL ADDRESS [PORT]\n-",
		.doc = "Print the program's action for a packet from an address, or for those\n"
		       "of standard input, one a line.\n"
		       "\vThe kernel runs a copy of the program, without counting, on a packet\n"
		       "built for it. The firewall need not be loaded. Answers are written at\n"
		       "the end and after an empty line. \"undecided\" packets are dropped: the\n"
		       "rules could not be read, or kept changing.",
	};
	struct firewall *skel;
	const char *wrong;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	skel = firewall_load(options.no_rule, false);
	if (options.nr == 1 && !strcmp(options.words[0], "-"))
		wrong = check_lines(skel);
	else
		wrong = check(skel, options.nr, options.words);
	if (wrong)
		warn("%s", wrong);
	firewall__destroy(skel);
	return wrong ? STATUS_USAGE : STATUS_OK;
}
