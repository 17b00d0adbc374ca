// SPDX-License-Identifier: GPL-2.0
/*
 * Latency of puts: a thread on each CPU puts 30-byte keys with 200-byte values for a
 * while.  Other maps are measured for comparison, one of which does nothing and shows
 * the machine's own delays.  Then again with a reader that does not end, so that nothing
 * can be freed meanwhile.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bench.h"

#define NAMES		10000
/* Buckets per power of two. */
#define STEPS		16u
#define BUCKETS		(40 * STEPS)
#define THREADS		2
#define LONG_NS		NSEC_PER_MSEC

/* The reader begins this long after the puts. */
#define HOLD_AFTER_MS	100
/* Turns without a reader for each turn with one, which takes longer. */
#define TURNS_PER_HOLD	6

static uint latency_seconds = 60;
module_param(latency_seconds, uint, 0444);
MODULE_PARM_DESC(latency_seconds, "for how long latencies of puts are measured, of each map; 0: not");

static uint hold_ms = 2000;
module_param(hold_ms, uint, 0444);
MODULE_PARM_DESC(hold_ms, "for how long a reader holds an old value while puts are measured");

static bool latency_peers = true;
module_param(latency_peers, bool, 0444);
MODULE_PARM_DESC(latency_peers, "also of what kvtree is compared with");

struct measured {
	const char *title;
	const struct bench_names *names;
	bool held;		/* by a reader */
};

static const struct measured all[] = {
	{ "empty", &bench_names_empty },
	{ "kvtree", &bench_names_kvtree },
	{ "rhashtable", &bench_names_rhashtable },
	{ "kvtree_held", &bench_names_kvtree, .held = true },
};

struct histogram {
	u64 bucket[BUCKETS];
	u64 count;
	u64 longer;	/* than LONG_NS */
	u64 max;
	u64 waiting_max;	/* bytes that waited to be freed */
};

/* A writing or reading thread. */
struct timed {
	const struct bench_names *names;
	struct histogram *histogram;
	struct completion done;
	u64 state;
	u64 until;
	int err;
};

static unsigned int bucket_of(u64 ns)
{
	unsigned int power;

	if (ns < STEPS)
		return ns;
	power = ilog2(ns) - ilog2(STEPS);
	return min_t(unsigned int, (power + 1) * STEPS + (ns >> power) - STEPS, BUCKETS - 1);
}

/* The longest time that the bucket counts. */
static u64 bucket_end(unsigned int bucket)
{
	unsigned int power = bucket / STEPS;

	if (!power)
		return bucket;
	return ((u64)(bucket % STEPS + STEPS + 1) << (power - 1)) - 1;
}

static void histogram_add(struct histogram *h, u64 ns)
{
	h->bucket[bucket_of(ns)]++;
	h->count++;
	h->longer += ns > LONG_NS;
	h->max = max(h->max, ns);
}

static void histogram_merge(struct histogram *to, const struct histogram *from)
{
	unsigned int i;

	for (i = 0; i < BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
	to->longer += from->longer;
	to->max = max(to->max, from->max);
	to->waiting_max = max(to->waiting_max, from->waiting_max);
}

/* @share: how many of 10000 are shorter. */
static u64 percentile(const struct histogram *h, unsigned int share)
{
	u64 seen = 0, want = div_u64(h->count * share, 10000);
	unsigned int i;

	for (i = 0; i < BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen > want)
			break;
	}
	return min(bucket_end(i), h->max);
}

static int put_some(struct timed *t)
{
	u8 key[BENCH_NAME_LEN + 1], data[BENCH_NAME_DATA] = { 0 };
	u64 before, after = 0;

	while (after < t->until) {
		snprintf(key, sizeof(key), "%030u", bench_below(&t->state, NAMES));
		before = ktime_get_ns();
		t->err = t->names->put(key, data);
		after = ktime_get_ns();
		if (t->err)
			return t->err;
		histogram_add(t->histogram, after - before);
		/* Not timed: yielding the CPU is not part of a put. */
		if (!(t->histogram->count % 64))
			cond_resched();
	}
	return 0;
}

static int put_thread(void *arg)
{
	struct timed *t = arg;

	put_some(t);
	complete(&t->done);
	return 0;
}

static int hold_thread(void *arg)
{
	struct timed *t = arg;
	u8 key[BENCH_NAME_LEN + 1];

	msleep(HOLD_AFTER_MS);
	snprintf(key, sizeof(key), "%030u", 0);
	t->err = t->names->hold(key, (u64)hold_ms * NSEC_PER_MSEC);
	complete(&t->done);
	return 0;
}

static int start(struct timed *t, int (*fn)(void *), unsigned int cpu)
{
	struct task_struct *task = kthread_create(fn, t, "kvt_bench/%u", cpu);

	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, cpu);
	wake_up_process(task);
	return 0;
}

static unsigned int next_cpu(unsigned int cpu)
{
	cpu = cpumask_next(cpu, cpu_online_mask);
	return cpu < nr_cpu_ids ? cpu : cpumask_first(cpu_online_mask);
}

static int await(struct timed *t)
{
	wait_for_completion(&t->done);
	return t->err;
}

/* Run the threads of a turn, and sum up their results. */
static int run_threads(const struct measured *m, struct timed *timed, struct histogram *to)
{
	unsigned int i, cpu = cpumask_first(cpu_online_mask), nr = 0, nr_all = THREADS + m->held;
	int err = 0, ended;

	for (i = 0; i < nr_all && !err; i++) {
		err = start(&timed[i], i < THREADS ? put_thread : hold_thread, cpu);
		nr += !err;
		cpu = next_cpu(cpu);
	}
	for (i = 0; i < nr; i++) {
		ended = await(&timed[i]);
		err = err ?: ended;
		if (i < THREADS)
			histogram_merge(to, timed[i].histogram);
	}
	if (m->names->waiting_max)
		to->waiting_max = max(to->waiting_max, m->names->waiting_max());
	return err;
}

/* One second, and as long as a reader holds its value. */
static int run_turn(const struct measured *m, struct histogram *to, u64 seed)
{
	u64 ms = MSEC_PER_SEC + (m->held ? hold_ms : 0);
	struct timed *timed = kcalloc(THREADS + 1, sizeof(*timed), GFP_KERNEL);
	struct histogram *h = kcalloc(THREADS, sizeof(*h), GFP_KERNEL);
	int err = timed && h ? 0 : -ENOMEM;
	unsigned int i;

	for (i = 0; i < THREADS + 1 && !err; i++) {
		timed[i] = (struct timed) {
			.names = m->names, .state = seed * THREADS + i,
			.histogram = i < THREADS ? &h[i] : NULL,
			.until = ktime_get_ns() + ms * NSEC_PER_MSEC,
		};
		init_completion(&timed[i].done);
	}
	if (!err)
		err = run_threads(m, timed, to);
	kfree(h);
	kfree(timed);
	return err;
}

/* Put all keys. */
static int fill(const struct bench_names *names)
{
	u8 key[BENCH_NAME_LEN + 1], data[BENCH_NAME_DATA] = { 0 };
	unsigned int i;
	int err = 0;

	for (i = 0; i < NAMES && !err; i++) {
		snprintf(key, sizeof(key), "%030u", i);
		err = names->put(key, data);
	}
	return err;
}

static int run_one(const struct measured *m, struct histogram *to, u64 seed)
{
	int err = m->names->open();

	if (err)
		return err;
	err = fill(m->names) ?: run_turn(m, to, seed);
	m->names->close();
	return err;
}

static void print(const struct measured *m, const struct histogram *h)
{
	pr_info("kvtree_bench: latency %s count=%llu p50=%llu p99=%llu p999=%llu p9999=%llu max=%llu over_1ms=%llu hold_ms=%u waiting_max=%llu waiting_bound=%llu\n",
		m->title, h->count, percentile(h, 5000), percentile(h, 9900),
		percentile(h, 9990), percentile(h, 9999), h->max, h->longer,
		m->held ? hold_ms : 0, h->waiting_max, m->names->waiting_bound);
}

static bool is_wanted(const struct measured *m, unsigned int turn)
{
	if (m->held)
		return hold_ms && turn % TURNS_PER_HOLD == 0;
	return latency_peers || m->names == &bench_names_kvtree;
}

/**
 * bench_latency() - measure and print
 *
 * The maps take turns of a second.
 *
 * Return: 0 or an errno.
 */
int bench_latency(void)
{
	struct histogram *h = kcalloc(ARRAY_SIZE(all), sizeof(*h), GFP_KERNEL);
	unsigned int i, turn;
	int err = h ? 0 : -ENOMEM;

	for (turn = 0; turn < latency_seconds && !err; turn++)
		for (i = 0; i < ARRAY_SIZE(all) && !err; i++)
			if (is_wanted(&all[i], turn))
				err = run_one(&all[i], &h[i], turn + 1);
	for (i = 0; i < ARRAY_SIZE(all) && latency_seconds && !err; i++)
		if (h[i].count)
			print(&all[i], &h[i]);
	kfree(h);
	return err;
}
