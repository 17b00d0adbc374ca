// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that interrupt a writer on the same CPU: in a timer interrupt, in an
 * NMI, and, by kprobes, inside the very functions that change nodes.  They must
 * find the right value or give up, and all of them must end.
 */
#include <arpa/inet.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "contexts.h"
#include "bpf_contexts.skel.h"

/* The CPU that the writer is bound to. */
#define CPU	1

/* Functions of the module that change nodes, while nodes are locked. */
static const char * const changers[] = {
	"mt_insert_split", "mt_commit", "mt_unlink_leaf",
};

#define PROBES_PER_FUNCTION	4

static const char * const from_names[FROM_NR] = {
	[FROM_HARDIRQ] = "hardirq",
	[FROM_NMI] = "NMI",
	[FROM_PROBE] = "a kprobe by int3",
	[FROM_ENTRY] = "a kprobe otherwise",
};

FIXTURE(contexts) {
	struct kvt_bpf_env env;
	struct kvt_bpf_env sums;
	struct bpf_contexts *skel;
	struct contexts *contexts;
	pthread_t writer;
	bool stop;
	__u64 rounds;
};

static int put(int fd, __u32 n)
{
	__u32 key = htonl(n);

	return kvt_put(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&n, sizeof(n)), NULL);
}

static int del(int fd, __u32 n)
{
	__u32 key = htonl(n);

	return kvt_remove(fd, kvt_bytes(&key, sizeof(key)));
}

/* Insert all odd numbers, and remove them: leaves and inner nodes split, and go. */
static void *write_odd(void *arg)
{
	struct _test_data_contexts *self = arg;
	int fd = self->env.env.fd;
	__u32 n;

	kvt_run_on(CPU);
	self->contexts->writer = gettid();
	while (!__atomic_load_n(&self->stop, __ATOMIC_RELAXED)) {
		for (n = 1; n < 2 * STABLE; n += 2) {
			self->contexts->next = n;
			KVT_CHECK(put(fd, n) == 0);
		}
		for (n = 1; n < 2 * STABLE; n += 2) {
			self->contexts->next = n;
			KVT_CHECK(del(fd, n) == 0);
		}
		__atomic_fetch_add(&self->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/*
 * In kernels with a preempt count of 8 bytes, the fields for interrupts are 8 bits
 * higher, above the nesting depth of disabled interrupts.
 */
static void set_masks(struct bpf_contexts *skel)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id, shift = 0;

	KVT_CHECK(btf);
	id = btf__find_by_name_kind(btf, "__preempt_count", BTF_KIND_VAR);
	if (id > 0 && btf__resolve_size(btf, id) == 8)
		shift = 8;
	btf__free(btf);
	skel->rodata->hardirq_mask = 0x000f0000u << shift;
	skel->rodata->nmi_mask = 0x00f00000u << shift;
}

/*
 * Every even number exists: two to a leaf's key, so that the odd ones split
 * each leaf; more than one level of inner nodes.
 */
FIXTURE_SETUP(contexts)
{
	__u32 n;

	kvt_bpf_env_init(&self->env, "bpf-contexts", 0);
	kvt_bpf_env_init(&self->sums, "bpf-contexts-sums", 0);
	for (n = 0; n < 2 * STABLE; n += 2)
		ASSERT_EQ(0, put(self->env.env.fd, n));
	self->skel = bpf_contexts__open();
	ASSERT_NE(NULL, self->skel);
	set_masks(self->skel);
	ASSERT_EQ(0, bpf_contexts__load(self->skel)) {
		TH_LOG("%s", kvt_bpf_log());
	}
	kvt_bpf_env_bind(&self->env, self->skel->maps.rodata_store, KVTREE_OPEN_READ);
	kvt_bpf_env_bind(&self->sums, self->skel->maps.rodata_sums, KVTREE_OPEN_WRITE);
	self->contexts = &self->skel->bss->contexts;
	kvt_run_on(!CPU);
}

/*
 * Programs are attached before and detached after: kprobes come and go when every
 * task has slept, and this one does not.
 */
static void writer_start(struct _test_data_contexts *self)
{
	KVT_CHECK(pthread_create(&self->writer, NULL, write_odd, self) == 0);
}

static void writer_stop(struct _test_data_contexts *self)
{
	__atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
	pthread_join(self->writer, NULL);
}

FIXTURE_TEARDOWN(contexts)
{
	bpf_contexts__destroy(self->skel);
	kvt_bpf_env_exit(&self->env);
	kvt_bpf_env_exit(&self->sums);
}

static void report(struct __test_metadata *_metadata, const struct count *count, int from)
{
	TH_LOG("%llu calls from %s, %llu ended in EBUSY", count->calls, from_names[from],
	       count->busy);
	EXPECT_EQ(0, count->wrong);
}

struct posts {
	int fd;
	char name;
	__u64 want;
};

static bool posts_made(void *arg)
{
	struct posts *posts = arg;
	__u64 n = 0;

	kvt_get(posts->fd, kvt_bytes(&posts->name, 1), &n, sizeof(n), NULL);
	return n == posts->want;
}

/* Exactly the posts that succeeded were executed. */
static void expect_posts(struct __test_metadata *_metadata, struct _test_data_contexts *self,
			 char name, __u64 want)
{
	struct posts posts = { self->sums.env.fd, name, want };

	EXPECT_TRUE(kvt_eventually(posts_made, &posts));
	EXPECT_LT(0, want);
}

/* However long it takes: what never comes is the end of the test's own time. */
static void wait_for(const volatile __u64 *calls, __u64 want)
{
	while (*calls < want)
		kvt_sleep_ms(20);
}

TEST_F(contexts, in_the_interrupt_of_its_clock)
{
	struct count *count = &self->contexts->from[FROM_HARDIRQ];
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 200000,
	};
	struct bpf_link *link;
	int perf;

	perf = syscall(SYS_perf_event_open, &attr, -1, CPU, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, perf);
	link = bpf_program__attach_perf_event(self->skel->progs.on_clock, perf);
	ASSERT_NE(NULL, link);
	writer_start(self);
	wait_for(&count->calls, 10000);
	writer_stop(self);
	bpf_link__destroy(link);
	report(_metadata, count, FROM_HARDIRQ);
	EXPECT_EQ(0, count->elsewhere);
	expect_posts(_metadata, self, 'h', count->posts);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(write(fd, text, strlen(text)) == strlen(text));
	close(fd);
}

/* A backtrace of all CPUs: the others are asked for it by an NMI. */
TEST_F(contexts, in_an_nmi)
{
	struct count *count = &self->contexts->from[FROM_NMI];
	struct bpf_link *link;
	unsigned int i;

	link = bpf_program__attach(self->skel->progs.on_backtrace);
	ASSERT_NE(NULL, link) {
		TH_LOG("%s", kvt_bpf_log());
	}
	writer_start(self);
	for (i = 0; i < 30 || !count->posts; i++) {
		write_file("/proc/sysrq-trigger", "l");
		kvt_sleep_ms(10);
	}
	writer_stop(self);
	bpf_link__destroy(link);
	report(_metadata, count, FROM_NMI);
	expect_posts(_metadata, self, 'n', count->posts);
}

/* Bytes of a function: up to the next symbol.  0 if there is none of that name. */
static size_t function_size(const char *name)
{
	unsigned long at = 0, next = ~0ul, addr;
	char line[256], symbol[128];
	FILE *f;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		f = fopen("/proc/kallsyms", "r");
		KVT_CHECK(f);
		while (fgets(line, sizeof(line), f)) {
			if (sscanf(line, "%lx %*c %127s", &addr, symbol) != 2)
				continue;
			if (!pass && !strcmp(symbol, name) && strstr(line, "[kvtree]"))
				at = addr;
			else if (pass && addr > at && addr < next)
				next = addr;
		}
		fclose(f);
	}
	return at ? next - at : 0;
}

/* Otherwise a jump soon takes the place of an int3, and no probe is like an NMI. */
static void optimize_probes(bool on)
{
	write_file("/proc/sys/debug/kprobes-optimization", on ? "1" : "0");
}

/* Some places spread over a function; most offsets are in the middle of instructions. */
static unsigned int probe_function(struct bpf_program *prog, const char *name,
				   struct bpf_link **links)
{
	LIBBPF_OPTS(bpf_kprobe_opts, opts);
	size_t size = function_size(name), step;
	unsigned int nr = 0;

	if (!size)
		return 0;
	step = size / PROBES_PER_FUNCTION + 1;
	while (opts.offset < size && nr < PROBES_PER_FUNCTION) {
		links[nr] = bpf_program__attach_kprobe_opts(prog, name, &opts);
		if (links[nr]) {
			nr++;
			opts.offset += step;
		} else {
			opts.offset++;
		}
	}
	return nr;
}

TEST_F(contexts, within_what_changes_nodes)
{
	struct bpf_link *links[NR(changers) * PROBES_PER_FUNCTION];
	struct count *probe = &self->contexts->from[FROM_PROBE];
	struct count *entry = &self->contexts->from[FROM_ENTRY];
	unsigned int i, n, nr = 0;

	optimize_probes(false);
	for (i = 0; i < NR(changers); i++) {
		n = probe_function(self->skel->progs.on_probe, changers[i], links + nr);
		EXPECT_LT(0, n) {
			TH_LOG("no kprobe in %s", changers[i]);
		}
		nr += n;
	}
	writer_start(self);
	wait_for(&probe->calls, 4000);
	wait_for(&probe->busy, 1);
	writer_stop(self);
	while (nr)
		bpf_link__destroy(links[--nr]);
	optimize_probes(true);
	report(_metadata, probe, FROM_PROBE);
	report(_metadata, entry, FROM_ENTRY);
	EXPECT_EQ(probe->busy + entry->busy, kvt_stat(self->env.env.fd, KVTREE_STAT_BPF_BUSY));
	expect_posts(_metadata, self, 'p', probe->posts + entry->posts);
	EXPECT_EQ(STABLE, kvt_stat(self->env.env.fd, KVTREE_STAT_KEYS));
}

TEST_HARNESS_MAIN
