// SPDX-License-Identifier: GPL-2.0
/*
 * The cache for memcached, beside memcached alone: the same memcached, with the same
 * keys, reached over the same pair of veth interfaces from another network namespace.
 * In each round the cache's programs are attached, or not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "bench_bpf.h"

#define NETNS		"kvt-bench"
#define NEAR		"kvtbench0"
#define FAR		"kvtbench1"
#define SERVER		"10.212.0.1"
#define PORT		21212
#define KEY_LEN		16u
#define VALUE_LEN	64u
#define BATCH		32u	/* gets sent together */
#define CACHE_KEYS	10000u

struct get {
	struct {
		uint16_t id, seq, total, reserved;
	} frame;
	char text[4 + KEY_LEN + 2];
};

#define ANSWER_TEXT	(sizeof("VALUE  0 64\r\n\r\nEND\r\n") - 1 + KEY_LEN + VALUE_LEN)

static pid_t children[4];
static unsigned int nr_children;
static pid_t memcached;
static unsigned int nr_keys;
static cpu_set_t all_cpus;

static int near, far_netns, own_netns;		/* index; files */
static int cache_in = -1, cache_out = -1, pass = -1;
static struct bpf_tc_opts tc_opts;

static void stop_children(void)
{
	while (nr_children) {
		kill(children[--nr_children], SIGTERM);
		waitpid(children[nr_children], NULL, 0);
	}
	if (system("ip link del " NEAR " 2>/dev/null; ip netns del " NETNS " 2>/dev/null"))
		note("the network namespace could not be removed");
}

static void shell(const char *command)
{
	if (system(command))
		die("failed: %s", command);
}

static pid_t spawn(char *const argv[])
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[0], argv);
		fprintf(stderr, "bench-bpf: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	children[nr_children++] = pid;
	return pid;
}

static void enter(int netns)
{
	if (setns(netns, CLONE_NEWNET))
		die("setns: %s", strerror(errno));
}

static void network_make(void)
{
	shell("ip link del " NEAR " 2>/dev/null; ip netns del " NETNS " 2>/dev/null; true");
	shell("ip netns add " NETNS);
	shell("ip link add " NEAR " type veth peer name " FAR " netns " NETNS);
	shell("ip addr add " SERVER "/24 dev " NEAR " && ip link set " NEAR " up");
	shell("ip -n " NETNS " addr add 10.212.0.2/24 dev " FAR " && ip -n " NETNS
	      " link set " FAR " up");
	near = if_nametoindex(NEAR);
	own_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	far_netns = open("/run/netns/" NETNS, O_RDONLY | O_CLOEXEC);
	if (!near || own_netns < 0 || far_netns < 0)
		die("the network namespace cannot be opened");
}

/* In the other namespace; or in this one, where the cache does not see the packets. */
static int client_socket(int type, int netns)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	/* Datagrams may be lost. */
	struct timeval timeout = { .tv_sec = type == SOCK_DGRAM ? 1 : 60 };
	int fd, err, i, size = 1 << 20;

	inet_pton(AF_INET, SERVER, &addr.sin_addr);
	enter(netns);
	for (i = 0; i < 300; i++) {
		fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
		err = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
		if (!err)
			break;
		close(fd);
		usleep(100000);
	}
	enter(own_netns);
	if (err)
		die("memcached cannot be reached: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static void key_text(char *to, unsigned int key)
{
	char text[KEY_LEN + 1];

	snprintf(text, sizeof(text), "key:%012u", key);
	memcpy(to, text, KEY_LEN);
}

/* The value is the key, repeated. */
static void value_text(char *to, unsigned int key)
{
	unsigned int i;

	for (i = 0; i < VALUE_LEN; i += KEY_LEN)
		key_text(to + i, key);
}

static void answer_text(char *to, unsigned int key)
{
	memcpy(to, "VALUE ", 6);
	key_text(to + 6, key);
	memcpy(to + 6 + KEY_LEN, " 0 64\r\n", 7);
	value_text(to + 13 + KEY_LEN, key);
	memcpy(to + 13 + KEY_LEN + VALUE_LEN, "\r\nEND\r\n", 7);
}

static void fill_memcached(int tcp)
{
	char line[256], data[VALUE_LEN + 1] = "", key[KEY_LEN + 1] = "";
	FILE *f = fdopen(dup(tcp), "r+");
	unsigned int i;

	for (i = 0; f && i < nr_keys; i++) {
		key_text(key, i);
		value_text(data, i);
		fprintf(f, "set %s 0 0 %u\r\n%s\r\n", key, VALUE_LEN, data);
		fflush(f);
		if (!fgets(line, sizeof(line), f) || strcmp(line, "STORED\r\n"))
			die("memcached does not store");
	}
	if (f)
		fclose(f);
}

/* The number of gets that memcached itself has answered. */
static unsigned long long memcached_gets(int tcp)
{
	unsigned long long gets = 0;
	FILE *f = fdopen(dup(tcp), "r+");
	char line[256] = "";

	if (!f)
		die("out of memory");
	fputs("stats\r\n", f);
	fflush(f);
	while (strncmp(line, "END", 3) && fgets(line, sizeof(line), f))
		sscanf(line, "STAT cmd_get %llu", &gets);
	fclose(f);
	return gets;
}

/* Id of the first get of a batch.  Ids are reused late, because answers may be late. */
static unsigned int first_id;

static struct get gets[BATCH];
static unsigned int asked_keys[BATCH];

static void send_batch(int udp, const unsigned int *keys)
{
	struct mmsghdr msgs[BATCH] = { 0 };
	struct iovec iov[BATCH];
	unsigned int i;
	int sent = 0, n;

	first_id += BATCH;
	for (i = 0; i < BATCH; i++) {
		gets[i].frame.id = htons((uint16_t)(first_id + i));
		gets[i].frame.seq = 0;
		gets[i].frame.total = htons(1);
		memcpy(gets[i].text, "get ", 4);
		key_text(gets[i].text + 4, keys[i]);
		memcpy(gets[i].text + 4 + KEY_LEN, "\r\n", 2);
		iov[i] = (struct iovec) { &gets[i], sizeof(gets[i]) };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	while (sent < (int)BATCH) {
		n = sendmmsg(udp, msgs + sent, BATCH - sent, 0);
		if (n < 0)
			die("sendmmsg: %s", strerror(errno));
		sent += n;
	}
}

/* Count the answers; each must be right. */
static unsigned int receive_batch(int udp, const unsigned int *keys)
{
	static char room[BATCH][256];
	struct mmsghdr msgs[BATCH] = { 0 };
	struct iovec iov[BATCH];
	char want[ANSWER_TEXT];
	unsigned int got = 0, at;
	uint16_t id;
	int i, n;

	for (i = 0; i < (int)BATCH; i++) {
		iov[i] = (struct iovec) { room[i], sizeof(room[i]) };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	while (got < BATCH) {
		n = recvmmsg(udp, msgs, BATCH - got, MSG_WAITFORONE, NULL);
		if (n <= 0)
			break;		/* some were lost */
		for (i = 0; i < n; i++) {
			memcpy(&id, room[i], sizeof(id));
			at = (uint16_t)(ntohs(id) - first_id);
			if (at >= BATCH)
				continue;	/* late */
			answer_text(want, keys[at]);
			if (msgs[i].msg_len != 8 + ANSWER_TEXT ||
			    memcmp(room[i] + 8, want, ANSWER_TEXT))
				die("a wrong answer to a get");
			got++;
		}
	}
	return got;
}

static uint64_t lcg = 1;

struct run {
	unsigned long long answers, lost;
	double seconds;
};

static struct run run_gets(int udp, double seconds)
{
	struct run r = { 0 };
	double start = seconds_now();
	unsigned int i, got;

	do {
		for (i = 0; i < BATCH; i++) {
			lcg = lcg * 6364136223846793005ull + 1442695040888963407ull;
			asked_keys[i] = (lcg >> 32) * nr_keys >> 32;
		}
		send_batch(udp, asked_keys);
		got = receive_batch(udp, asked_keys);
		r.answers += got;
		r.lost += BATCH - got;
		r.seconds = seconds_now() - start;
	} while (r.seconds < seconds);
	return r;
}

/* Get every key once, so that the cache, if any, has it. */
static void warm(int udp)
{
	unsigned int keys[BATCH], i, key;

	for (key = 0; key < nr_keys; key += BATCH) {
		for (i = 0; i < BATCH; i++)
			keys[i] = (key + i) % nr_keys;
		send_batch(udp, keys);
		receive_batch(udp, keys);
	}
}

static int attached(int index)
{
	__u32 id = 0;
	int fd;

	if (bpf_xdp_query_id(index, 0, &id) || !id)
		return -1;
	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		die("a program cannot be opened");
	return fd;
}

/* Wait until the cache's programs are attached, and open them. */
static void find_programs(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = near, .attach_point = BPF_TC_EGRESS);
	int i;

	for (i = 0; i < 600 && (cache_in < 0 || pass < 0); i++) {
		usleep(100000);
		if (cache_in < 0)
			cache_in = attached(near);
		if (pass < 0) {
			enter(far_netns);
			pass = attached(if_nametoindex(FAR));
			enter(own_netns);
		}
	}
	tc_opts = (struct bpf_tc_opts) { .sz = sizeof(tc_opts), .handle = 1, .priority = 1 };
	/* The kernel chooses the priority, counting down from here. */
	for (i = 49152; i > 49140 && !tc_opts.prog_id; i--) {
		tc_opts.priority = i;
		if (bpf_tc_query(&hook, &tc_opts))
			tc_opts.prog_id = 0;
	}
	cache_out = tc_opts.prog_id ? (int)bpf_prog_get_fd_by_id(tc_opts.prog_id) : -1;
	if (cache_in < 0 || pass < 0 || cache_out < 0)
		die("the cache is not attached");
}

/* Attach or detach the cache. */
static void attach(bool on)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = near, .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = tc_opts.handle, .priority = tc_opts.priority);
	static bool is_on = true;
	int err;

	if (on == is_on)
		return;
	is_on = on;
	if (on)
		opts.prog_fd = cache_out;
	err = on ? bpf_tc_attach(&hook, &opts) : bpf_tc_detach(&hook, &opts);
	if (!err)
		err = bpf_xdp_attach(near, on ? cache_in : -1, 0, NULL);
	enter(far_netns);
	if (!err)
		err = bpf_xdp_attach(if_nametoindex(FAR), on ? pass : -1, 0, NULL);
	enter(own_netns);
	if (err)
		die("the cache cannot be attached or taken away: %s", strerror(-err));
}

/* CPU time of all threads of memcached, in seconds. */
static double memcached_seconds(void)
{
	unsigned long long ns, sum = 0;
	char path[320];
	struct dirent *e;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", memcached);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", memcached, e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%llu", &ns) == 1)
			sum += ns;
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return (double)sum / 1e9;
}

static double programs_seconds(void)
{
	struct bpf_prog_info info;
	int fds[] = { cache_in, cache_out };
	unsigned long long sum = 0;
	unsigned int i;
	__u32 len;

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (!bpf_prog_get_info_by_fd(fds[i], &info, &len))
			sum += info.run_time_ns;
	}
	return (double)sum / 1e9;
}

struct side {
	struct row *rate, *cpu, *lost;
	bool on;
};

static void measure_side(const struct plan *plan, struct side *side, int udp, int tcp,
			 unsigned int round)
{
	double cpu;
	unsigned long long before;
	struct run r;
	int stats;

	attach(side->on);
	if (side->on)
		warm(udp);
	run_gets(udp, plan->seconds / 10);
	before = memcached_gets(tcp);
	r = run_gets(udp, plan->seconds);
	before = memcached_gets(tcp) - before;
	if (side->on && before > r.answers / 100)
		die("of %llu gets %llu were not answered by the cache", r.answers, before);
	row_set(side->rate, round, (double)r.answers / r.seconds);
	row_set(side->lost, round, 1e6 * (double)r.lost / (double)(r.answers + r.lost));
	/* Measuring the run time of programs takes time itself. */
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	cpu = memcached_seconds() + programs_seconds();
	r = run_gets(udp, plan->seconds / 2);
	cpu = memcached_seconds() + programs_seconds() - cpu;
	close(stats);
	row_set(side->cpu, round, cpu / (double)r.answers * 1e9);
	if (!side->on)
		attach(true);
}

static void start(const char *cache_program)
{
	char port[8];
	char *const server[] = {
		"memcached", "-u", "root", "-l", SERVER, "-p", port, "-U", port, NULL
	};
	char *const cache[] = {
		(char *)cache_program, "--address", SERVER, "--port", port,
		"--lifetime", "3600000", "--user", "root", "--client-rate", "1000000", NEAR, NULL
	};
	char *const peer[] = {
		"ip", "netns", "exec", NETNS, (char *)cache_program, "--pass", FAR, NULL
	};

	sched_getaffinity(getppid(), sizeof(all_cpus), &all_cpus);
	snprintf(port, sizeof(port), "%d", PORT);
	network_make();
	atexit(stop_children);
	memcached = spawn(server);
	spawn(peer);
	spawn(cache);
	find_programs();
}

/**
 * cache_measure() - measure the cache for memcached
 * @plan: the plan
 * @cache: the example's program
 */
void cache_measure(const struct plan *plan, const char *cache)
{
	const char *gets = "gets by UDP, 16-byte keys, 64-byte values", *plain = "memcached";
	const char *cpu = "time of the serving side for a get", *with = "memcached behind XDP";
	const char *lost = "gets that were lost";
	struct side sides[] = {
		{ .rate = row_new(plan, gets, plain, "gets/s") },
		{ .rate = row_new(plan, gets, with, "gets/s"), .on = true },
	};
	unsigned int round, i;
	int tcp, udp, stats;

	for (i = 0; i < 2; i++)
		sides[i].cpu = row_new(plan, cpu, i ? with : plain, "ns");
	for (i = 0; i < 2; i++)
		sides[i].lost = row_new(plan, lost, i ? with : plain, "of a million");
	nr_keys = plan->keys < CACHE_KEYS ? plan->keys : CACHE_KEYS;
	start(cache);
	tcp = client_socket(SOCK_STREAM, far_netns);
	stats = client_socket(SOCK_STREAM, own_netns);
	udp = client_socket(SOCK_DGRAM, far_netns);
	fill_memcached(tcp);
	for (round = 0; round <= plan->rounds; round++) {
		progress(plan, "cache", round);
		for (i = 0; i < 2; i++)
			measure_side(plan, &sides[i], udp, stats, round);
	}
	progress(plan, "cache", round);
	ratio_add("xdp_cache_vs_memcached", row_median(sides[1].rate) / row_median(sides[0].rate),
		  2, 0);
	ratio_add("xdp_cache_cpu_vs_memcached",
		  row_median(sides[1].cpu) / row_median(sides[0].cpu), 0, 0);
}
