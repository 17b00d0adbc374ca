// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree-memcached: attach the cache to interfaces, and take it away at the end.
 */
#include <argp.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>
#include <kvtree.h>
#include <linux/kvtree.h>

#include "cache.h"
#include "cache.skel.h"
#include "pass.skel.h"

#define IFACES_MAX	16
#define PROGRAM		"kvtree-memcached"

struct iface {
	const char *name;
	unsigned int index;
	bool xdp, tc;			/* attached */
	bool hook;			/* made for it */
	__u32 handle, priority;		/* of what is attached to tc */
};

struct options {
	struct iface ifaces[IFACES_MAX];
	unsigned int nr;
	unsigned int port;
	unsigned int lifetime_ms;
	unsigned int stats_ms;
	double limit_mib;
	const char *store;
	__u32 mode;			/* XDP_FLAGS_* */
	bool json;
	bool pass;			/* nothing but a program that lets packets pass */
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void vsay(const char *fmt, va_list args)
{
	fputs(PROGRAM ": ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

static void say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsay(fmt, args);
	va_end(args);
}

static struct options o = {
	.port = 11211,
	.lifetime_ms = 1000,
	.limit_mib = 256,
	.store = "memcached-cache",
	.mode = 0,
};

static void detach_tc(const struct iface *i)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = i->index, .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = i->handle, .priority = i->priority);

	if (i->tc)
		bpf_tc_detach(&hook, &opts);
	/* With all that is in it. */
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	if (i->hook)
		bpf_tc_hook_destroy(&hook);
}

/* First what answers, then what notices changes. */
static void detach(void)
{
	struct iface *i;

	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		if (i->xdp)
			bpf_xdp_detach(i->index, o.mode, NULL);
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		detach_tc(i);
}

static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsay(fmt, args);
	va_end(args);
	detach();
	exit(3);
}

static struct kvtree *open_store(uint64_t *handle)
{
	struct kvtree_store_create args = {
		.mode = 0600,
		.flags = KVTREE_STORE_BPF,
		.limit_bytes = o.limit_mib * 1024 * 1024,
	};
	struct kvtree *kv;
	int err;

	if (strlen(o.store) >= sizeof(args.name))
		die("the store's name is too long");
	strcpy(args.name, o.store);
	err = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (err)
		die("/dev/kvtree: %s: is the module loaded?", kvtree_strerror(err));
	/* What an earlier one has left is older than changes that nobody has seen. */
	kvtree_store_destroy(kv, args.name);
	err = kvtree_store_create(kv, &args, sizeof(args));
	if (err)
		die("cannot create the store %s: %s", o.store, kvtree_strerror(err));
	kvtree_close(kv);
	err = kvtree_open(o.store, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &kv);
	if (!err)
		err = kvtree_bpf_handle(kv, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, handle);
	if (err)
		die("cannot open the store %s: %s", o.store, kvtree_strerror(err));
	return kv;
}

static void attach_xdp(struct iface *i, int fd)
{
	int err;

	err = bpf_xdp_attach(i->index, fd, o.mode | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (err)
		die("%s: XDP: %s%s", i->name, strerror(-err),
		    err == -EBUSY || err == -EEXIST ? ": another program is attached there" : "");
	i->xdp = true;
}

static void attach_tc(struct iface *i, int fd)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = i->index, .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = fd);
	int err;

	err = bpf_tc_hook_create(&hook);
	if (err && err != -EEXIST)
		die("%s: tc: %s", i->name, strerror(-err));
	i->hook = !err;
	err = bpf_tc_attach(&hook, &opts);
	if (err)
		die("%s: tc: %s", i->name, strerror(-err));
	i->tc = true;
	i->handle = opts.handle;
	i->priority = opts.priority;
}

static void attach(const struct cache *skel)
{
	struct iface *i;

	/* What notices changes, everywhere, before what answers. */
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		attach_tc(i, bpf_program__fd(skel->progs.cache_out));
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		attach_xdp(i, bpf_program__fd(skel->progs.cache_in));
}

/* Forget who has asked and got no answer, if this was long ago. */
static void sweep(const struct cache *skel)
{
	int fd = bpf_map__fd(skel->maps.asked);
	struct asker key, next, *from = NULL;
	struct {
		__u32 lock, issued, answered;
		struct asker asker;
		__u32 bucket, key_hash;
		__u64 bucket_seq, global_seq, when;
		__u32 shared;
	} asked;
	struct timespec ts;
	__u64 now;

	_Static_assert(sizeof(asked) == 64, "as in cache.bpf.c");
	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	while (!bpf_map_get_next_key(fd, from, &next)) {
		/* The one before may go now that the next is known. */
		if (from && !bpf_map_lookup_elem(fd, from, &asked) &&
		    asked.when + 2 * ANSWER_NS < now)
			bpf_map_delete_elem(fd, from);
		key = next;
		from = &key;
	}
}

static void print_stats(const struct cache *skel, const struct kvtree *kv)
{
	static const char * const names[COUNTERS] = {
		[HIT] = "hits", [MISS] = "misses", [STALE] = "stale", [NO_ROOM] = "no_room",
		[FILL] = "fills", [NO_FILL] = "no_fills", [CHANGE] = "changes",
		[FLUSH] = "flushes",
	};
	uint64_t stat[KVTREE_STAT_NR] = { 0 };
	json_t *obj = json_object();
	unsigned int i;

	kvtree_stat(kv, stat, KVTREE_STAT_NR);
	for (i = 0; i < COUNTERS; i++)
		json_object_set_new(obj, names[i], json_integer(skel->bss->counters[i]));
	json_object_set_new(obj, "keys", json_integer(stat[KVTREE_STAT_KEYS]));
	json_object_set_new(obj, "bytes", json_integer(stat[KVTREE_STAT_BYTES]));
	if (o.json) {
		json_dumpf(obj, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		for (i = 0; i < COUNTERS; i++)
			printf("%s %llu  ", names[i],
			       (unsigned long long)skel->bss->counters[i]);
		printf("keys %llu  bytes %llu\n", (unsigned long long)stat[KVTREE_STAT_KEYS],
		       (unsigned long long)stat[KVTREE_STAT_BYTES]);
	}
	json_decref(obj);
	fflush(stdout);
}

static int run_cache(void)
{
	unsigned int passed = 0, tick = o.stats_ms ? o.stats_ms : 1000, swept = 0;
	struct cache *skel;
	struct kvtree *kv;
	uint64_t handle;

	kv = open_store(&handle);
	skel = cache__open();
	if (!skel)
		die("the programs cannot be opened");
	skel->rodata->store = handle;
	skel->rodata->port = htons(o.port);
	skel->rodata->lifetime_ns = o.lifetime_ms * 1000000ull;
	if (cache__load(skel))
		die("the programs cannot be loaded: see above");
	attach(skel);
	say("serving port %u from the store %s; ^C ends it", o.port, o.store);
	while (!stop) {
		usleep(tick * 1000);
		passed += tick;
		if (o.stats_ms)
			print_stats(skel, kv);
		if (passed - swept >= 1000) {
			sweep(skel);
			swept = passed;
		}
	}
	detach();
	print_stats(skel, kv);
	cache__destroy(skel);
	kvtree_close(kv);
	return 0;
}

static int run_pass(void)
{
	struct pass *skel = pass__open_and_load();
	struct iface *i;

	if (!skel)
		die("the program cannot be loaded: see above");
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		attach_xdp(i, bpf_program__fd(skel->progs.pass));
	say("letting packets pass; ^C ends it");
	while (!stop)
		pause();
	detach();
	pass__destroy(skel);
	return 0;
}

static double number(struct argp_state *state, const char *what, const char *arg, double max)
{
	char *end;
	double n = strtod(arg, &end);

	if (end == arg || *end || !(n > 0 && n <= max))
		argp_error(state, "%s: a number above 0 and up to %g is wanted, not '%s'", what,
			   max, arg);
	return n;
}

static void add_iface(struct argp_state *state, const char *name)
{
	struct iface *i = &o.ifaces[o.nr];

	if (o.nr == IFACES_MAX)
		argp_error(state, "more than %d interfaces", IFACES_MAX);
	i->name = name;
	i->index = if_nametoindex(name);
	if (!i->index)
		argp_failure(state, 2, 0, "there is no interface %s", name);
	o.nr++;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		o.port = number(state, "--port", arg, 65535);
		return 0;
	case 'l':
		o.lifetime_ms = number(state, "--lifetime", arg, 3600e3);
		return 0;
	case 'm':
		o.limit_mib = number(state, "--memory", arg, 1e6);
		return 0;
	case 's':
		o.store = arg;
		return 0;
	case 'g':
		o.mode = XDP_FLAGS_SKB_MODE;
		return 0;
	case 'i':
		o.stats_ms = number(state, "--interval", arg, 3600e3);
		return 0;
	case 'j':
		o.json = true;
		return 0;
	case 'P':
		o.pass = true;
		return 0;
	case ARGP_KEY_ARG:
		add_iface(state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "port", .key = 'p', .arg = "PORT", .doc = "memcached's port (11211)" },
	{ .name = "lifetime", .key = 'l', .arg = "MS",
	  .doc = "How long an answer is used without asking memcached again (1000)" },
	{ .name = "memory", .key = 'm', .arg = "MIB", .doc = "Limit of the store (256)" },
	{ .name = "store", .key = 's', .arg = "NAME",
	  .doc = "Name of the store, which is made anew (memcached-cache)" },
	{ .name = "generic", .key = 'g',
	  .doc = "Generic XDP, for drivers that have no other" },
	{ .name = "interval", .key = 'i', .arg = "MS", .doc = "Print counters so often" },
	{ .name = "json", .key = 'j', .doc = "Print counters as JSON" },
	{ .name = "pass", .key = 'P',
	  .doc = "Only let everything pass: for the other end of a veth pair" },
	{ 0 }
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "INTERFACE...",
	.doc = "Answer gets of memcached by UDP in XDP, out of a store of kvtree.\n"
	       "\vName all interfaces by which memcached can be reached, or what is changed\n"
	       "by another is noticed only after the lifetime. Counters are printed at the\n"
	       "end. Exit status: 0, 2 wrong usage, 3 an error.",
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return o.pass ? run_pass() : run_cache();
}
