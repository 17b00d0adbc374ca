// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree-memcached: attach the cache to interfaces, and remove it at the end.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
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
#define BATCH		1024u	/* elements of a map read at once */
#define ELEMENT_MAX	64u	/* bytes in a key or a value of a map that is swept */
#define VISITS		20000u	/* entries checked per second */

struct iface {
	const char *name;
	unsigned int index;
	bool xdp, tc;			/* attached */
	bool hook;			/* created for it */
	__u32 handle, priority;		/* of the tc filter */
};

struct options {
	struct iface ifaces[IFACES_MAX];
	unsigned int nr;
	struct in_addr addresses[ADDRESSES_MAX];
	unsigned int nr_addresses;
	unsigned int port;
	unsigned int lifetime_ms;
	unsigned int stats_ms;
	double idle_s;
	double limit_mib;
	double rate_kib;
	double client_rate_kib;
	bool user_given;
	unsigned int user;		/* owner of memcached's sockets */
	const char *store;
	__u32 mode;			/* XDP_FLAGS_* */
	bool json;
	bool pass;			/* only attach a program that lets packets pass */
};

static volatile sig_atomic_t stop;

/* Counters of the last sweep of the maps and the store. */
static struct {
	unsigned int asked, conns;
	unsigned long long evicted;
} gauges;

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
	.idle_s = 3600,
	.limit_mib = 256,
	.rate_kib = 64,
	.client_rate_kib = 100 * 1024,
	.store = "memcached-cache",
	.mode = 0,
};

static void detach_tc(const struct iface *i)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = i->index, .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = i->handle, .priority = i->priority);

	if (i->tc)
		bpf_tc_detach(&hook, &opts);
	/* Remove the hook with all its filters. */
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	if (i->hook)
		bpf_tc_hook_destroy(&hook);
}

/* Detach first the programs that answer, then those that notice changes. */
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

static bool is_served(__u32 addr)
{
	unsigned int i;

	for (i = 0; i < o.nr_addresses; i++)
		if (addr == o.addresses[i].s_addr)
			return true;
	/* The wildcard address. */
	return !addr;
}

/*
 * BPF programs see users as numbered in the network's user namespace; everything else here uses
 * this process's numbers.
 */
static void check_users(void)
{
	int net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int owner = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
	struct stat theirs, ours;

	if (owner < 0 || fstat(owner, &theirs) || stat("/proc/self/ns/user", &ours))
		die("cannot determine the user namespace of this network: %s", strerror(errno));
	if (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev)
		die("this network belongs to another user namespace, with other user numbers");
	close(owner);
	close(net);
}

/* Find the only user with a socket at memcached's UDP address. */
static void find_user(void)
{
	FILE *f = fopen("/proc/net/udp", "re");
	unsigned int addr, port, user;
	bool found = false;
	char line[256];

	if (!f)
		die("/proc/net/udp: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*u: %8x:%4x %*x:%*x %*x %*x:%*x %*x:%*x %*x %u", &addr, &port,
			   &user) != 3 || port != o.port || !is_served(addr))
			continue;
		if (found && user != o.user)
			die("users %u and %u have sockets at UDP port %u: select one with --user",
			    o.user, user, port);
		o.user = user;
		found = true;
	}
	fclose(f);
	if (!found)
		die("there is no socket at UDP port %u: start memcached first, or give --user",
		    o.port);
}

static struct kvtree *open_store(void)
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
	/* Entries of an earlier process may be outdated: changes since then were not seen. */
	kvtree_store_destroy(kv, args.name);
	err = kvtree_store_create(kv, &args, sizeof(args));
	if (err)
		die("cannot create the store %s: %s", o.store, kvtree_strerror(err));
	kvtree_close(kv);
	err = kvtree_open(o.store, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &kv);
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

	/* Attach programs that notice changes everywhere before those that answer. */
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		attach_tc(i, bpf_program__fd(skel->progs.cache_out));
	for (i = o.ifaces; i < o.ifaces + o.nr; i++)
		attach_xdp(i, bpf_program__fd(skel->progs.cache_in));
}

static __u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* A map with the time of last use in its values. */
struct aging {
	int fd;
	size_t key_size, value_size, when_at;
	__u64 age_ns;		/* maximum age */
	size_t answered_at;	/* of a __u32; 0: there is none */
	__u64 unanswered_ns;	/* maximum age if answered is 0 */
};

static bool too_old(const struct aging *a, const void *value, __u64 now)
{
	__u64 when, age = a->age_ns;
	__u32 answered = 1;

	memcpy(&when, (const char *)value + a->when_at, sizeof(when));
	if (a->answered_at)
		memcpy(&answered, (const char *)value + a->answered_at, sizeof(answered));
	if (!answered && a->unanswered_ns < age)
		age = a->unanswered_ns;
	return when + age < now;
}

/*
 * Remove elements that have not been used for long.  The kernel walks over the map's buckets, not
 * from key to key, so the walk ends even if keys are added and removed all the time.
 *
 * Return: the number of elements left
 */
static unsigned int sweep(const struct aging *a)
{
	static char keys[BATCH * ELEMENT_MAX], values[BATCH * ELEMENT_MAX], value[ELEMENT_MAX];
	__u64 now = monotonic_ns();
	unsigned int left = 0;
	__u32 from, next, n, i;
	bool first = true;
	int err;

	do {
		n = BATCH;
		err = bpf_map_lookup_batch(a->fd, first ? NULL : &from, &next, keys, values, &n,
					   NULL);
		if (err && err != -ENOENT)
			break;
		first = false;
		from = next;
		for (i = 0; i < n; i++) {
			const void *key = keys + i * a->key_size;

			left++;
			if (!too_old(a, values + i * a->value_size, now))
				continue;
			/* It may have been used meanwhile. */
			if (bpf_map_lookup_elem(a->fd, key, value) || !too_old(a, value, now))
				continue;
			bpf_map_delete_elem(a->fd, key);
			left--;
		}
	} while (!err && !stop);
	return left;
}

/* Remove gets that were never answered, and connections that ended unseen. */
static void sweep_maps(const struct cache *skel)
{
	const struct aging asked = {
		.fd = bpf_map__fd(skel->maps.asked),
		.key_size = sizeof(struct asker),
		.value_size = sizeof(struct asked),
		.when_at = offsetof(struct asked, when),
		.age_ns = 2 * ANSWER_NS,
	};
	const struct aging conns = {
		.fd = bpf_map__fd(skel->maps.conns),
		.key_size = sizeof(struct conn_id),
		.value_size = sizeof(struct conn),
		.when_at = offsetof(struct conn, when),
		.age_ns = o.idle_s * 1e9,
		.answered_at = offsetof(struct conn, answered),
		.unanswered_ns = UNANSWERED_NS,
	};

	_Static_assert(sizeof(struct asked) <= ELEMENT_MAX, "in sweep()");
	_Static_assert(sizeof(struct conn) <= ELEMENT_MAX, "in sweep()");
	gauges.asked = sweep(&asked);
	gauges.conns = sweep(&conns);
}

/* Whether an entry may still be used. */
static bool valid(const struct cache *skel, const void *value, size_t len, __u64 now)
{
	struct entry head;

	if (!value || len < ENTRY_HEAD)
		return false;
	memcpy(&head, value, ENTRY_HEAD);
	return head.until > now && head.global_seq == skel->bss->global_seq;
}

/* How many entries to remove, so that a quarter of the store is free again. */
static uint64_t excess(const struct kvtree *kv)
{
	uint64_t stat[KVTREE_STAT_NR] = { 0 };
	double bytes, limit = o.limit_mib * 1024 * 1024;

	if (kvtree_stat(kv, stat, KVTREE_STAT_NR) < 0)
		return 0;
	bytes = stat[KVTREE_STAT_BYTES];
	if (bytes < limit * 7 / 8)
		return 0;
	return stat[KVTREE_STAT_KEYS] * (1 - limit * 3 / 4 / bytes) + 1;
}

/*
 * Continue through the entries where the last round stopped, and remove those that are not used
 * any more; also others, while there are too many.  An entry that was stored again meanwhile has
 * another version, and stays.
 */
static void evict(const struct cache *skel, const struct kvtree *kv)
{
	static char hand[KEY_MAX];
	static size_t hand_len;
	uint64_t too_many = excess(kv), version;
	unsigned int visits = too_many ? UINT_MAX : VISITS;
	__u64 now = monotonic_ns();
	struct kvtree_cursor *c;
	const void *key, *value;
	size_t key_len, len;
	int err;

	if (kvtree_cursor_open(kv, NULL, &c))
		return;
	err = kvtree_cursor_seek(c, kvtree_slice(hand, hand_len));
	for (; !err && visits && !stop; visits--, err = kvtree_cursor_next(c)) {
		key = kvtree_cursor_key(c, &key_len);
		value = kvtree_cursor_value(c, &len);
		hand_len = key_len < sizeof(hand) ? key_len : sizeof(hand);
		memcpy(hand, key, hand_len);
		if (!too_many && valid(skel, value, len, now))
			continue;
		version = kvtree_cursor_version(c);
		if (kvtree_del(kv, kvtree_slice(key, key_len), KVTREE_F_VERSION, &version))
			continue;
		gauges.evicted++;
		if (too_many && !--too_many)
			break;
	}
	/* Start again after the end. */
	if (err)
		hand_len = 0;
	kvtree_cursor_close(c);
}

static void print_numbers(const __u64 *counters, const uint64_t *stat)
{
	const struct {
		const char *name;
		unsigned long long n;
	} stats[] = {
		{ "hits", counters[HIT] }, { "misses", counters[MISS] },
		{ "stale", counters[STALE] }, { "no_room", counters[NO_ROOM] },
		{ "fills", counters[FILL] }, { "no_fills", counters[NO_FILL] },
		{ "changes", counters[CHANGE] }, { "flushes", counters[FLUSH] },
		{ "limited", counters[LIMITED] }, { "foreign", counters[FOREIGN] },
		{ "evicted", gauges.evicted },
		{ "asked", gauges.asked }, { "connections", gauges.conns },
		{ "keys", stat[KVTREE_STAT_KEYS] }, { "bytes", stat[KVTREE_STAT_BYTES] },
	};
	json_t *obj = json_object();
	unsigned int i;

	for (i = 0; i < sizeof(stats) / sizeof(*stats); i++) {
		if (o.json)
			json_object_set_new(obj, stats[i].name, json_integer(stats[i].n));
		else
			printf("%s%s %llu", i ? "  " : "", stats[i].name, stats[i].n);
	}
	if (o.json)
		json_dumpf(obj, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(obj);
	fflush(stdout);
}

static void print_stats(const struct cache *skel, const struct kvtree *kv)
{
	uint64_t stat[KVTREE_STAT_NR] = { 0 };

	kvtree_stat(kv, stat, KVTREE_STAT_NR);
	print_numbers(skel->bss->counters, stat);
}

static int run_cache(void)
{
	unsigned int passed = 0, tick = o.stats_ms ? o.stats_ms : 1000, swept = 0, i;
	struct cache *skel;
	struct kvtree *kv;
	int err;

	check_users();
	if (!o.user_given)
		find_user();
	kv = open_store();
	skel = cache__open();
	if (!skel)
		die("the programs cannot be opened");
	for (i = 0; i < o.nr_addresses; i++)
		skel->rodata->addresses[i] = o.addresses[i].s_addr;
	skel->rodata->nr_addresses = o.nr_addresses;
	skel->rodata->port = htons(o.port);
	skel->rodata->user = o.user;
	skel->rodata->ns_per_kib = 1e9 / o.rate_kib;
	skel->rodata->client_ns_per_kib = 1e9 / o.client_rate_kib;
	skel->rodata->lifetime_ns = o.lifetime_ms * 1000000ull;
	if (cache__load(skel))
		die("the programs cannot be loaded: see above");
	err = kvtree_bpf_bind(kv, bpf_map__fd(skel->maps.rodata_store),
			      KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	if (err)
		die("the programs cannot use the store: %s", kvtree_strerror(err));
	attach(skel);
	say("serving port %u from the store %s; ^C ends it", o.port, o.store);
	while (!stop) {
		usleep(tick * 1000);
		passed += tick;
		if (o.stats_ms)
			print_stats(skel, kv);
		if (passed - swept >= 1000) {
			sweep_maps(skel);
			evict(skel, kv);
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
		argp_error(state, "%s: need a number above 0 and up to %g, not '%s'", what,
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
		argp_failure(state, 2, 0, "no such interface: %s", name);
	o.nr++;
}

static void add_address(struct argp_state *state, const char *text)
{
	if (o.nr_addresses == ADDRESSES_MAX)
		argp_error(state, "more than %u addresses", ADDRESSES_MAX);
	if (inet_pton(AF_INET, text, &o.addresses[o.nr_addresses++]) != 1)
		argp_error(state, "--address: '%s' is not an IPv4 address", text);
}

static void set_user(struct argp_state *state, const char *arg)
{
	const struct passwd *pw = getpwnam(arg);
	unsigned long n;
	char *end;

	o.user_given = true;
	if (pw) {
		o.user = pw->pw_uid;
		return;
	}
	errno = 0;
	n = strtoul(arg, &end, 10);
	if (!isdigit((unsigned char)*arg) || *end || errno || n >= UINT_MAX)
		argp_error(state, "--user: no such user: '%s'", arg);
	o.user = n;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'a':
		add_address(state, arg);
		return 0;
	case 'p':
		o.port = number(state, "--port", arg, 65535);
		return 0;
	case 'l':
		o.lifetime_ms = number(state, "--lifetime", arg, 3600e3);
		return 0;
	case 'I':
		o.idle_s = number(state, "--idle", arg, 1e9);
		return 0;
	case 'm':
		o.limit_mib = number(state, "--memory", arg, 1e6);
		return 0;
	case 'r':
		o.rate_kib = number(state, "--rate", arg, 1e6);
		return 0;
	case 'c':
		o.client_rate_kib = number(state, "--client-rate", arg, 1e6);
		return 0;
	case 'u':
		set_user(state, arg);
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
	case ARGP_KEY_END:
		if (!o.nr_addresses && !o.pass)
			argp_error(state, "missing --address: memcached's address");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "address", .key = 'a', .arg = "ADDRESS",
	  .doc = "memcached's address; may be repeated" },
	{ .name = "port", .key = 'p', .arg = "PORT", .doc = "memcached's port (11211)" },
	{ .name = "user", .key = 'u', .arg = "USER",
	  .doc = "The owner of memcached's sockets (the only user at its UDP port)" },
	{ .name = "lifetime", .key = 'l', .arg = "MS",
	  .doc = "Maximum age of a stored answer (1000)" },
	{ .name = "idle", .key = 'I', .arg = "S",
	  .doc = "Forget connections without a request after this many seconds (3600)" },
	{ .name = "memory", .key = 'm', .arg = "MIB", .doc = "Limit of the store (256)" },
	{ .name = "rate", .key = 'r', .arg = "KIB",
	  .doc = "Answers per second to an address without a TCP connection (64)" },
	{ .name = "client-rate", .key = 'c', .arg = "KIB",
	  .doc = "Answers per second to an address with a TCP connection (102400)" },
	{ .name = "store", .key = 's', .arg = "NAME",
	  .doc = "Name of the store, which is recreated (memcached-cache)" },
	{ .name = "generic", .key = 'g',
	  .doc = "Generic XDP, for drivers without native support" },
	{ .name = "interval", .key = 'i', .arg = "MS", .doc = "Print counters at this interval" },
	{ .name = "json", .key = 'j', .doc = "Print counters as JSON" },
	{ .name = "pass", .key = 'P',
	  .doc = "Only pass all packets: for the other end of a veth pair" },
	{ 0 }
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "INTERFACE...",
	.doc = "Answer gets for memcached by UDP in XDP, from a kvtree store.\n"
	       "\vName all addresses and interfaces of memcached: changes made through others\n"
	       "are noticed only after the lifetime. Counters are printed at the\n"
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
