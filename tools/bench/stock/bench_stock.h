/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations shared by the files of bench-stock.
 *
 * A service (kvtree, a redis-server, a memcached) holds the same keys with the same values.  A
 * system is one way to send requests to a service: it sends `depth` of them together, waits for all
 * answers, and compares every byte with the last value stored.  A cell is a workload on a system,
 * measured once in each round.
 */
#ifndef BENCH_STOCK_H
#define BENCH_STOCK_H

#include <errno.h>

#include "../common.h"

#define DEPTH_MAX	64u	/* requests sent together */
#define KEY_MAX		24u	/* maximum bytes in a key of MYCSB */
#define VALUE_LEN	64u
#define COLS		10u	/* columns in a value of MYCSB, ... */
#define COL_LEN		4u	/* bytes in each */

/*
 * data.c: keys, requests, and what a service must hold
 */

/* Plain and MYCSB requests use two different sets of keys of a service. */
enum kind {
	NOTHING,	/* a call that does nothing */
	GET,
	PUT,
	GET_COLS,	/* all columns */
	PUT_COL,	/* one of them */
};

struct request {
	uint32_t key;
	uint8_t kind;
	uint8_t col;
};

struct key {
	uint8_t len;
	char data[KEY_MAX];
};

enum workload {
	EMPTY,
	PLAIN_GET,
	PLAIN_PUT,
	MYCSB_A,
	MYCSB_B,
	MYCSB_C,
	WORKLOADS
};

/* The last value of every key of a service. */
struct contents {
	uint64_t (*values)[VALUE_LEN / 8];	/* the last word counts puts */
	uint32_t (*cols)[COLS];			/* puts add one */
};

extern uint32_t nr_keys;
extern struct key *plain_keys;
extern struct key *col_keys;

void data_init(uint32_t keys);
const char *workload_name(enum workload w);
void workload_fill(enum workload w, uint64_t seed, struct request *reqs, unsigned int n);
void contents_init(struct contents *c);

/* Also selects one of two stores, sessions or connections for a request. */
static inline bool is_cols(const struct request *r)
{
	return r->kind >= GET_COLS;
}

static inline const struct key *request_key(const struct request *r)
{
	return is_cols(r) ? &col_keys[r->key] : &plain_keys[r->key];
}

/* The value for a put, which counts as stored from now on. */
static inline const void *contents_put(struct contents *c, const struct request *r)
{
	if (is_cols(r)) {
		c->cols[r->key][r->col]++;
		return &c->cols[r->key][r->col];
	}
	c->values[r->key][VALUE_LEN / 8 - 1]++;
	return c->values[r->key];
}

/*
 * Whether a get's answer is right, ignoring the last `slack` puts, which were sent together with
 * it.  The two kinds have separate functions, because memcpy() of a constant size is cheap.
 */
static inline bool contents_check(const struct contents *c, uint32_t key, const void *answer,
				  unsigned int slack)
{
	const uint64_t *want = c->values[key];
	uint64_t got[VALUE_LEN / 8], diff = 0;
	unsigned int i;

	__builtin_memcpy(got, answer, sizeof(got));
	for (i = 0; i < VALUE_LEN / 8 - 1; i++)
		diff |= got[i] ^ want[i];
	return !diff && want[i] - got[i] <= slack;
}

static inline bool contents_check_col(const struct contents *c, uint32_t key, unsigned int col,
				      const void *answer, unsigned int slack)
{
	uint32_t got;

	__builtin_memcpy(&got, answer, sizeof(got));
	return c->cols[key][col] - got <= slack;
}

/*
 * Systems
 */
struct system {
	const char *name;
	unsigned int depth;
	unsigned int workloads;		/* bits: those that it can run */
	unsigned int span;		/* requests between readings of the clock */
	/* Runs n requests, a multiple of the depth; ends the program on failure. */
	void (*run)(struct system *sys, const struct request *reqs, unsigned int n);
	void *client;
	uint64_t commands;		/* io_uring commands sent, for uring_served() */
};

#define ON(workload)	(1u << (workload))
#define ON_PLAIN	(ON(PLAIN_GET) | ON(PLAIN_PUT))
#define ON_MYCSB	(ON(MYCSB_A) | ON(MYCSB_B) | ON(MYCSB_C))

/* All systems, in the order of the table. */
struct systems {
	struct system **all;
	unsigned int nr;
};

void systems_add(struct systems *s, const struct system *template);

/* Each adds its systems, with the keys loaded. */
void kvtree_start(struct systems *s);
void redis_start(struct systems *s);
void memcached_start(struct systems *s);

/* kvtree.c and uring.c */
struct kvtree_client;
struct kvtree_op;

const int *kvtree_client_fds(const struct kvtree_client *c);
void kvtree_fill(struct kvtree_client *c, unsigned int slot, const struct request *r,
		 struct kvtree_op *op);
void kvtree_check(struct kvtree_client *c, unsigned int slot, const struct request *r,
		  int result, unsigned int depth);
uint64_t kvtree_uring_commands(void);
void uring_start(struct systems *s, struct kvtree_client *c);

/*
 * measure.c: rounds
 */
struct cell {
	enum workload workload;
	struct system *sys;
	struct row *row;
};

struct cells {
	struct cell *all;
	unsigned int nr;
};

void measure(const struct plan *plan, const struct systems *s, struct cells *cells);
void check_all(const struct systems *s);

/* compare.c */
void compare_all(const struct cells *cells);

#endif /* BENCH_STOCK_H */
