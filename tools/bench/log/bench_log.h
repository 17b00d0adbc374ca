/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations shared by the files of bench-log.
 *
 * A pair is two block devices of the same kind: one for a kvtree store, the other for a file
 * system with the peers' files.  A system puts values under random keys, a number of them at
 * once; a put is complete when it is acknowledged.
 */
#ifndef BENCH_LOG_H
#define BENCH_LOG_H

#include <errno.h>

#include "../common.h"

#define VALUE_LEN	100u
#define DEPTH_MAX	256u	/* maximum puts in progress */
#define GROUP_MAX	128u	/* maximum puts sent at once */

struct options {
	struct plan plan;
	const char *tool;	/* kvtree */
	const char *only;	/* put, life or ranges; "": all */
	uint32_t load;		/* keys of a store to be recovered */
	uint32_t records;	/* of the store for comparing checkpoints */
};

struct pair {
	const char *name;
	const char *store, *files;	/* the devices */
	bool first;			/* its ratios have targets */
};

/*
 * data.c: which keys, and values
 */
struct draw {
	uint64_t state;
};

extern uint32_t nr_keys;
extern uint32_t value_len;	/* of kvtree's values, at most VALUE_LEN */

uint32_t draw_key(struct draw *draw);
uint32_t key_scattered(uint32_t i, uint32_t n);
void value_make(char *value, uint32_t nr, uint64_t count);
bool value_right(const char *value, size_t len, uint32_t nr);

/*
 * disk.c: block devices
 */
void disk_mount(const struct pair *pair);
void disk_unmount(void);
const char *disk_folder(void);
uint64_t disk_written(const char *device);

/* Ends the program on failure. */
void command(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Systems
 */
struct system {
	const char *name;
	unsigned int depth;
	/* Puts until that time, and returns how many. */
	uint64_t (*run)(struct system *sys, double until);
	void (*stop)(struct system *sys);
	void *client;
	struct draw draw;
	uint64_t count;		/* puts so far */
	struct row *row;
};

/* All systems on a pair. */
struct systems {
	struct system *all[64];
	unsigned int nr;
};

/* Numbers of puts in progress. */
#define NR_DEPTHS	3
extern const unsigned int depths[NR_DEPTHS];

/* How to send and await a group of puts, given by the number of its first put. */
struct window {
	void (*send)(struct system *sys, unsigned int first, uint64_t count);
	void (*await)(struct system *sys, unsigned int first);
};

unsigned int group_size(const struct system *sys);
uint64_t window_run(const struct window *w, struct system *sys, double until);

void systems_add(struct systems *s, const struct system *template);
void systems_add_depths(struct systems *s, const struct system *template);

void kvtree_start(struct systems *s, const struct options *o, const struct pair *pair);
void kvtree_stop(void);
void lmdb_start(struct systems *s);
void rocksdb_start(struct systems *s);
void redis_start(struct systems *s);

/*
 * store.c: stores
 */
struct store {
	char name[32];
	const char *engine, *device;	/* of a durable one */
	struct kvtree *kv;
	int fd;
};

#define BATCH		64u	/* puts of a batch */
#define REPLAY_NEVER	UINT32_MAX

void store_format(const struct options *o, const char *device);
void store_create(struct store *store, const char *name);
void store_attach(struct store *store, const char *name, const char *engine, const char *device);
void store_detach(struct store *store);
double store_reattach(struct store *store);
void store_destroy(struct store *store);
void store_checkpoint(const struct store *store);
void store_sync(const struct store *store);
uint64_t store_checkpoints(const struct store *store);
void store_expect_log(const struct store *store);
uint32_t store_replay_mb(uint32_t mb);
void store_put(const struct store *store, const uint32_t *keys, unsigned int nr, uint64_t count);
uint64_t store_load(const struct store *store, uint32_t first, uint32_t end, uint64_t count);
void store_check(const struct store *store, uint32_t keys);

struct kvtree_op;

void op_make(struct kvtree_op *op, char *value, uint32_t key, uint64_t count, bool sync);
void op_run(const struct store *store, struct kvtree_op *op);
void ops_run(const struct store *store, struct kvtree_op *ops, unsigned int nr);

/*
 * put.c, life.c and ranges.c: measure, and add to the report
 */
void put_measure(const struct options *o, const struct pair *pair);
void life_measure(const struct options *o, const struct pair *pair);
void ranges_measure(const struct options *o, const struct pair *pair);

/* Adds the pair's name to the ratio's, except for the first pair. */
void pair_ratio(const struct pair *pair, const char *name, double value, double at_least,
		double at_most);
const char *pair_text(const struct pair *pair, const char *text);

#endif /* BENCH_LOG_H */
