// SPDX-License-Identifier: GPL-2.0
/*
 * How long puts take: of 30-byte keys with 200-byte values, by a thread on each
 * CPU, for a while.  Beside others: one that does nothing shows what the machine
 * does by itself.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bench.h"

#define NAMES		10000
/* Each power of two has so many buckets. */
#define STEPS		16u
#define BUCKETS		(40 * STEPS)
#define THREADS		2
#define LONG_NS		NSEC_PER_MSEC

static uint latency_seconds = 10;
module_param(latency_seconds, uint, 0444);
MODULE_PARM_DESC(latency_seconds, "for how long latencies of puts are measured, of each map; 0: not");

struct histogram {
	u64 bucket[BUCKETS];
	u64 count;
	u64 longer;	/* than LONG_NS */
	u64 max;
};

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

/* The longest time that is counted there. */
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
}

/* @share: of 10000 that are shorter. */
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
		/* Not counted: it is not the put that takes the CPU away. */
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

static int start(struct timed *t, unsigned int cpu)
{
	struct task_struct *task = kthread_create(put_thread, t, "kvt_bench/%u", cpu);

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

/* A second of one. */
static int run_turn(const struct bench_names *names, struct histogram *to, u64 seed)
{
	struct timed *timed = kcalloc(THREADS, sizeof(*timed), GFP_KERNEL);
	unsigned int i, cpu = cpumask_first(cpu_online_mask), nr = 0;
	int err = timed ? 0 : -ENOMEM;

	for (i = 0; i < THREADS && !err; i++) {
		struct timed *t = &timed[i];

		*t = (struct timed) {
			.names = names, .state = seed * THREADS + i,
			.histogram = kzalloc(sizeof(*t->histogram), GFP_KERNEL),
			.until = ktime_get_ns() + NSEC_PER_SEC,
		};
		init_completion(&t->done);
		err = t->histogram ? start(t, cpu) : -ENOMEM;
		nr += !err;
		cpu = next_cpu(cpu);
	}
	for (i = 0; i < nr; i++) {
		wait_for_completion(&timed[i].done);
		histogram_merge(to, timed[i].histogram);
		err = err ?: timed[i].err;
	}
	for (i = 0; timed && i < THREADS; i++)
		kfree(timed[i].histogram);
	kfree(timed);
	return err;
}

static int run_one(const struct bench_names *names, struct histogram *to, u64 seed)
{
	int err = names->open();

	if (err)
		return err;
	err = run_turn(names, to, seed);
	names->close();
	return err;
}

static void print(const struct bench_names *names, const struct histogram *h)
{
	pr_info("kvtree_bench: latency %s count=%llu p50=%llu p99=%llu p999=%llu p9999=%llu max=%llu over_1ms=%llu\n",
		names->name, h->count, percentile(h, 5000), percentile(h, 9900),
		percentile(h, 9990), percentile(h, 9999), h->max, h->longer);
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
	static const struct bench_names *const all[] = {
		&bench_names_empty, &bench_names_kvtree, &bench_names_rhashtable,
	};
	struct histogram *h = kcalloc(ARRAY_SIZE(all), sizeof(*h), GFP_KERNEL);
	unsigned int i, turn;
	int err = h ? 0 : -ENOMEM;

	for (turn = 0; turn < latency_seconds && !err; turn++)
		for (i = 0; i < ARRAY_SIZE(all) && !err; i++)
			err = run_one(all[i], &h[i], turn + 1);
	for (i = 0; i < ARRAY_SIZE(all) && latency_seconds && !err; i++)
		print(all[i], &h[i]);
	kfree(h);
	return err;
}
