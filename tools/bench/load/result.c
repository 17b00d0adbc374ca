// SPDX-License-Identifier: GPL-2.0
/*
 * The figures of a workload in one way, for all runs together.
 */
#include "bench_load.h"

/**
 * result_init() - initialize a result
 * @res: set up
 * @plan: the plan
 * @w: the workload
 * @s: the way
 */
void result_init(struct result *res, const struct plan *plan, const struct workload *w,
		 const struct series *s)
{
	*res = (struct result){
		.workload = w, .series = s,
		.throughput = alloc(NULL, plan->runs * sizeof(*res->throughput)),
		.latency = alloc(NULL, KINDS * sizeof(*res->latency)),
		.all = alloc(NULL, sizeof(*res->all)),
	};
	memset(res->latency, 0, KINDS * sizeof(*res->latency));
	memset(res->all, 0, sizeof(*res->all));
}

/**
 * result_free() - free a result's memory
 * @res: the result
 */
void result_free(struct result *res)
{
	free(res->throughput);
	free(res->latency);
	free(res->all);
}

static void add_tally(struct result *res, const struct tally *t)
{
	int i;

	for (i = 0; i < KINDS; i++) {
		histogram_merge(&res->latency[i], &t->latency[i]);
		histogram_merge(res->all, &t->latency[i]);
	}
	for (i = 0; i < VERDICTS; i++)
		res->verdict[i] += t->verdict[i];
	res->records += t->records;
	if (!res->error)
		res->error = t->error;
}

/**
 * result_add() - add a run
 * @res: the result
 * @shared: the results of the clients
 * @clients: their number
 * @before: the store's counters at the start
 * @after: and at the end
 */
void result_add(struct result *res, const struct shared *shared, unsigned int clients,
		const uint64_t *before, const uint64_t *after)
{
	uint64_t begin = UINT64_MAX, end = 0, operations = 0;
	double seconds;
	unsigned int i;

	for (i = 0; i < clients; i++) {
		const struct tally *t = &shared->tally[i];

		add_tally(res, t);
		operations += t->done;
		begin = t->begin < begin ? t->begin : begin;
		end = t->end > end ? t->end : end;
	}
	/* A coarse clock may show no time at all. */
	seconds = (double)(end > begin ? end - begin : 1) / 1e9;
	res->throughput[res->runs++] = (double)operations / seconds;
	res->operations += operations;
	res->seconds += seconds;
	for (i = 0; i < KVTREE_STAT_NR; i++)
		if (!kvtree_stat_is_gauge(i))
			res->counter[i] += after[i] - before[i];
}

/**
 * result_spread() - throughput of the slowest, the median and the fastest run
 * @res: the result
 *
 * Return: operations per second
 */
struct spread result_spread(const struct result *res)
{
	return spread_of(res->throughput, res->runs);
}

/**
 * result_errors() - failed or wrong operations
 * @res: the result
 *
 * Return: their number
 */
uint64_t result_errors(const struct result *res)
{
	return res->verdict[VERDICT_FAILED] + res->verdict[VERDICT_MISS] +
	       res->verdict[VERDICT_WRONG];
}
