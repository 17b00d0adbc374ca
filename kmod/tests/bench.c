// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree_bench: the index beside the kernel's own maps, in the kernel.
 *
 * It measures while it is loaded and prints a line for each map, workload and
 * round: "kvtree_bench: WORKLOAD MAP THREADS KEYS OPERATIONS/S".  The maps take
 * turns.  A round's rate is the median of many short runs, so that runs disturbed
 * by other work of the machine do not matter.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "bench.h"
#include "compat.h"

/* Operations in a short run. */
#define RUN	1000u

static uint keys = 1000000;
module_param(keys, uint, 0444);
MODULE_PARM_DESC(keys, "in each map; 0: only latencies are measured");

static uint rounds = 5;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "of which each gives a result");

static uint ops = 500000;
module_param(ops, uint, 0444);
MODULE_PARM_DESC(ops, "gets and puts in a round");

static const struct bench_map *const maps[] = {
	&bench_kvtree, &bench_rbtree_spin, &bench_rbtree_rcu, &bench_maple, &bench_rhashtable,
	&bench_xarray,
};

static u64 *times;	/* of the short runs */

/* Some maps need dense keys, so all maps are also measured with these. */
static bool dense;

static u64 key_of(u32 n)
{
	/* The factor is coprime to @keys: each number below @keys comes once, in no order. */
	return dense ? (u64)n * 7919 % keys : splitmix64(n + 1);
}

static int insert_run(const struct bench_map *map, u32 from, u64 *state)
{
	u32 n;
	int err = 0;

	for (n = from; n < from + RUN && !err; n++)
		err = map->put(key_of(n), n);
	return err;
}

static int put_run(const struct bench_map *map, u32 from, u64 *state)
{
	u32 i, n;
	int err = 0;

	for (i = 0; i < RUN && !err; i++) {
		n = bench_below(state, keys);
		err = map->put(key_of(n), n);
	}
	return err;
}

static int get_run(const struct bench_map *map, u32 from, u64 *state)
{
	struct bench_found found = { 0 };
	bool good = true;
	u32 i, n;

	for (i = 0; i < RUN; i++) {
		n = bench_below(state, keys);
		good &= map->get(key_of(n), &found);
		good &= found.value == n && found.version;
	}
	return good ? 0 : -EILSEQ;
}

enum { INSERT, GET, PUT, WORKLOADS };

static const struct {
	const char *name[2];	/* keys anywhere, dense keys */
	int (*run)(const struct bench_map *map, u32 from, u64 *state);
} workloads[WORKLOADS] = {
	[INSERT] = { { "insert_uml", "insert_dense_uml" }, insert_run },
	[GET]	 = { { "get_uml", "get_dense_uml" }, get_run },
	[PUT]	 = { { "put_uml", "put_dense_uml" }, put_run },
};

static int cmp_times(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int measure(const struct bench_map *map, unsigned int workload, unsigned int round)
{
	u32 i, nr = (workload == INSERT ? keys : ops) / RUN;
	u64 state = round + 1, before;
	int err;

	for (i = 0; i < nr; i++) {
		before = ktime_get_ns();
		err = workloads[workload].run(map, i * RUN, &state);
		times[i] = ktime_get_ns() - before;
		if (err) {
			pr_err("kvtree_bench: %s: %s: error %d\n", map->name,
			       workloads[workload].name[dense], err);
			return err;
		}
		cond_resched();
	}
	sort(times, nr, sizeof(*times), cmp_times, NULL);
	pr_info("kvtree_bench: %s %s 1 %u %llu\n", workloads[workload].name[dense], map->name,
		keys, div64_u64((u64)RUN * NSEC_PER_SEC, max(times[nr / 2], 1ull)));
	return 0;
}

/* Run all workloads of one map, then free its memory for the next. */
static int run_map(const struct bench_map *map, unsigned int round)
{
	unsigned int w;
	int err = map->open();

	if (err)
		return err;
	for (w = 0; w < WORKLOADS && !err; w++)
		err = measure(map, w, round);
	map->close();
	return err;
}

static int run_all(void)
{
	unsigned int round, i;
	int err = 0;

	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 2 * ARRAY_SIZE(maps) && !err; i++) {
			const struct bench_map *map = maps[i % ARRAY_SIZE(maps)];

			dense = i >= ARRAY_SIZE(maps);
			if (dense || !map->dense_only)
				err = run_map(map, round);
		}
	}
	return err;
}

static int bench_rates(void)
{
	int err;

	keys = keys / RUN * RUN;
	ops = ops / RUN * RUN;
	if (!keys || !ops || keys % 7919 == 0)
		return -EINVAL;
	times = kvcalloc(max(keys, ops) / RUN, sizeof(*times), GFP_KERNEL);
	if (!times)
		return -ENOMEM;
	err = run_all();
	kvfree(times);
	return err;
}

static int __init bench_init(void)
{
	int err = keys ? bench_rates() : 0;

	return err ?: bench_latency();
}

static void __exit bench_exit(void)
{
}

module_init(bench_init);
module_exit(bench_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("kvtree beside the kernel's own maps");
KVT_IMPORT();
KVT_IMPORT_FOR_TESTS();
