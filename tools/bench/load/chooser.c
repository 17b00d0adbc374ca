// SPDX-License-Identifier: GPL-2.0
/*
 * Choose the next operation and its record, like YCSB.
 */
#include "bench_load.h"

#define SCATTERED_RANKS	10000000000ull	/* YCSB draws one of these before hashing */

/*
 * The maximum number of records at the end.  A rank is hashed to one of them, and drawn
 * again while that record does not exist: so inserts do not change which records are popular.
 */
static uint64_t universe(const struct plan *plan, const struct workload *w)
{
	double inserts = (double)(plan->operations + plan->warmup) * w->share[KIND_INSERT];

	return plan->shape.records + (uint64_t)(2 * inserts);
}

/**
 * chooser_init() - prepare to choose
 * @ch: set up
 * @plan: the user's plan
 * @w: the workload
 * @ins: the existing records
 * @client: number of the client; each has its own sequences
 */
void chooser_init(struct chooser *ch, const struct plan *plan, const struct workload *w,
		  struct inserts *ins, unsigned int client)
{
	ch->workload = w;
	ch->shape = &plan->shape;
	ch->inserts = ins;
	ch->universe = universe(plan, w);
	rng_seed(&ch->kinds, plan->seed, client, 0);
	rng_seed(&ch->keys, plan->seed, client, 1);
	rng_seed(&ch->details, plan->seed, client, 2);
	if (w->distribution == DIST_ZIPFIAN)
		zipf_init(&ch->zipf, SCATTERED_RANKS, plan->theta);
	else if (w->distribution == DIST_LATEST)
		zipf_init(&ch->zipf, plan->shape.records, plan->theta);
}

/**
 * chooser_kind() - choose the next operation
 * @ch: the chooser
 *
 * Return: the operation
 */
enum kind chooser_kind(struct chooser *ch)
{
	double u = rng_unit(&ch->kinds);
	int kind, last = 0;

	for (kind = 0; kind < KINDS; kind++) {
		if (!ch->workload->share[kind])
			continue;
		last = kind;
		u -= ch->workload->share[kind];
		if (u < 0)
			break;
	}
	return (enum kind)last;
}

static uint64_t scattered(struct chooser *ch, uint64_t last)
{
	uint64_t number;

	do {
		number = fnv64(zipf_next(&ch->zipf, &ch->keys)) % ch->universe;
	} while (number > last);
	return number;
}

/**
 * chooser_record() - choose the next record
 * @ch: the chooser
 *
 * Return: the number of an existing record
 */
uint64_t chooser_record(struct chooser *ch)
{
	uint64_t last = inserts_last(ch->inserts);

	switch (ch->workload->distribution) {
	case DIST_ZIPFIAN:
		return scattered(ch, last);
	case DIST_LATEST:
		zipf_grow(&ch->zipf, last + 1);
		return last - zipf_next(&ch->zipf, &ch->keys);
	default:
		return rng_below(&ch->keys, ch->shape->records);
	}
}
