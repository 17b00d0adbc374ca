// SPDX-License-Identifier: GPL-2.0
/*
 * A client: the thread that measures.
 *
 * It keeps as many requests in progress as its series is deep.  A closed loop queues the
 * next request when there is room; an open loop (--rate) schedules a time for each one, and
 * measures from that time, even if it is late.
 */
#include <sched.h>

#include "bench_load.h"

#define NS	1e9

struct client {
	const struct crew *crew;
	const struct plan *plan;
	struct shared *shared;
	struct tally *tally;
	bool measure;			/* false while warming up */
	uint64_t left;			/* requests to be started */
	unsigned int nfree;
	unsigned int depth;
	struct request **free;		/* requests not in progress */
	struct request **done;
	double due;			/* open loop: the scheduled time of the next one */
	double interval;
	void *driver;
	struct kvtree *kv;
	struct chooser chooser;
	struct request_room room;
};

/* An error that belongs to no request: stop all clients. */
static void give_up(struct client *c, int err)
{
	int none = 0;

	atomic_compare_exchange_strong(&c->shared->fatal, &none, err);
	atomic_store(&c->shared->stop, true);
}

static bool stopped(const struct client *c)
{
	return atomic_load_explicit(&c->shared->stop, memory_order_relaxed);
}

static void trace(struct client *c, const struct request *r)
{
	FILE *out = c->crew->trace;
	char key[KVTREE_KEY_MAX];
	size_t len = record_key(&c->plan->shape, r->number, key);

	fprintf(out, "%s\t%.*s", kind_names[r->kind], (int)len, key);
	if (r->kind == KIND_SCAN)
		fprintf(out, "\t%u", r->limit);
	else if (r->kind == KIND_UPDATE || r->kind == KIND_RMW)
		fprintf(out, "\t%u", r->field);
	fputc('\n', out);
}

static void choose(struct client *c, struct request *r)
{
	struct chooser *ch = &c->chooser;

	r->kind = chooser_kind(ch);
	r->second = false;
	if (r->kind == KIND_INSERT)
		r->number = inserts_take(ch->inserts);
	else
		r->number = chooser_record(ch);
	if (r->kind == KIND_SCAN)
		r->limit = 1 + (unsigned int)rng_below(&ch->details, c->plan->scan_max);
	if (r->kind != KIND_READ && r->kind != KIND_SCAN) {
		r->field = (unsigned int)rng_below(&ch->details, c->plan->shape.fields);
		r->salt = (uint32_t)rng_next(&ch->details);
	}
	if (c->crew->trace && c->measure)
		trace(c, r);
}

static bool queue(struct client *c, struct request *r)
{
	const struct driver *d = c->crew->series->driver;
	int err;

	request_lay_out(&c->room, r, d->room(c->driver, r));
	if (!r->second)
		r->queued = c->interval ? (uint64_t)c->due : now_ns();
	err = d->queue(c->driver, r);
	if (err)
		give_up(c, err);
	return !err;
}

/* Queue requests that have room and are due. */
static void queue_all(struct client *c)
{
	while (c->nfree && c->left && !stopped(c)) {
		struct request *r = c->free[c->nfree - 1];

		if (c->interval && (double)now_ns() < c->due)
			break;
		if (inserts_crowded(c->chooser.inserts)) {
			if (c->nfree < c->depth)
				break;
			sched_yield();
			continue;
		}
		choose(c, r);
		if (!queue(c, r))
			break;
		c->nfree--;
		c->left--;
		c->due += c->interval;
	}
}

static void record(struct client *c, const struct request *r, enum verdict v, uint64_t now)
{
	struct tally *t = c->tally;

	if (v != VERDICT_RIGHT && !t->error && r->result < 0)
		t->error = r->result;
	/* Count errors also while warming up. */
	if (v != VERDICT_RIGHT || c->measure)
		t->verdict[v]++;
	if (!c->measure)
		return;
	if (r->kind == KIND_SCAN && v == VERDICT_RIGHT)
		t->records += r->scan.count;
	/* The first request of an open loop may be queued a little early. */
	histogram_add(&t->latency[r->kind], now > r->queued ? now - r->queued : 0);
	atomic_fetch_add_explicit(&t->done, 1, memory_order_relaxed);
}

static void complete(struct client *c, struct request *r, uint64_t now)
{
	enum verdict verdict = VERDICT_RIGHT;

	if (!c->crew->series->driver->dry)
		verdict = request_judge(&c->room, r, c->plan->check);
	if (r->kind == KIND_RMW && !r->second && verdict == VERDICT_RIGHT) {
		r->second = true;
		queue(c, r);
		return;
	}
	if (r->kind == KIND_INSERT)
		inserts_done(c->chooser.inserts, r->number);
	record(c, r, verdict, now);
	c->free[c->nfree++] = r;
}

static void reap(struct client *c)
{
	uint64_t now;
	int i, n;

	n = c->crew->series->driver->reap(c->driver, c->done, c->depth);
	now = now_ns();
	if (n < 0)
		give_up(c, n);
	for (i = 0; i < n; i++)
		complete(c, c->done[i], now);
}

/* This client's share of a number of operations. */
static uint64_t part(const struct plan *plan, uint64_t all, unsigned int number)
{
	unsigned int clients = plan_clients(plan);

	return all / clients + (number < all % clients);
}

/* Start `left` requests, and wait until all have completed. */
static void loop(struct client *c)
{
	while (!c->shared->fatal) {
		queue_all(c);
		if (c->nfree < c->depth)
			reap(c);
		else if (!c->left || stopped(c))
			break;
		else if (c->interval)
			sleep_until_ns((uint64_t)c->due);
	}
}

static int open_client(struct client *c, const struct crew *crew, unsigned int number)
{
	const struct series *series = crew->series;
	unsigned int i;
	int err;

	*c = (struct client){
		.crew = crew, .plan = crew->plan, .shared = crew->shared,
		.tally = &crew->shared->tally[number],
		.depth = series->depth, .nfree = series->depth,
		.free = alloc(NULL, series->depth * sizeof(struct request *)),
		.done = alloc(NULL, series->depth * sizeof(struct request *)),
	};
	requests_new(&c->room, &crew->plan->shape, series->depth,
		     crew->workload->share[KIND_SCAN] ? crew->plan->scan_max : 0);
	for (i = 0; i < series->depth; i++)
		c->free[i] = &c->room.request[series->depth - 1 - i];
	chooser_init(&c->chooser, crew->plan, crew->workload, &crew->shared->inserts, number);
	if (!series->driver->dry) {
		err = kvtree_open(tool.store, 0, &c->kv);
		if (err)
			return err;
	}
	return series->driver->open(&c->driver, c->kv, series->depth, series->flags);
}

static void close_client(struct client *c)
{
	if (c->driver)
		c->crew->series->driver->close(c->driver);
	kvtree_close(c->kv);
	requests_free(&c->room);
	free(c->free);
	free(c->done);
}

static void warm_up(struct client *c, unsigned int number)
{
	c->left = part(c->plan, c->plan->warmup, number);
	loop(c);
}

static void measure(struct client *c, unsigned int number)
{
	const struct plan *plan = c->plan;
	unsigned int clients = plan_clients(plan);

	c->measure = true;
	c->left = plan->operations ? part(plan, plan->operations, number) : UINT64_MAX;
	c->tally->begin = now_ns();
	if (plan->rate) {
		/* Clients take turns. */
		c->interval = NS * clients / plan->rate;
		c->due = (double)c->tally->begin + NS * number / plan->rate;
	}
	loop(c);
	c->tally->end = now_ns();
}

/**
 * client_run() - execute a client's part of a run
 * @crew: the run
 * @number: number of the client
 *
 * Context: the client's thread.
 */
void client_run(const struct crew *crew, unsigned int number)
{
	struct client c;
	int err;

	err = open_client(&c, crew, number);
	if (err)
		give_up(&c, err);
	else
		warm_up(&c, number);
	atomic_fetch_add(&crew->shared->ready, 1);
	while (sem_wait(&crew->shared->go))
		;
	if (!err)
		measure(&c, number);
	close_client(&c);
}
