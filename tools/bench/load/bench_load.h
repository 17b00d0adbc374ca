/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the files of kvtree bench.
 *
 * A plan lists what to measure: workloads, and the ways (series) to submit each of
 * them to the kernel.  A crew of processes and threads runs one workload in one way.
 * Each thread is a client: its chooser draws the next operation, and its driver
 * submits requests and waits for them.  Clients count in memory that all processes
 * share; a result sums up their counts, and reports show the results.
 */
#ifndef KVTREE_BENCH_LOAD_H
#define KVTREE_BENCH_LOAD_H

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "../../tool.h"
#include "../clock.h"
#include "../spread.h"
#include "../zipf.h"

/* histogram.c: how many operations took how long */
#define HISTOGRAM_BITS		8	/* precision of a duration: 1/256 */
#define HISTOGRAM_OCTAVES	32	/* up to 2^40 ns, 18 minutes */
#define HISTOGRAM_BUCKETS	((HISTOGRAM_OCTAVES + 1) << HISTOGRAM_BITS)

struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t min;
	uint64_t max;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *to, const struct histogram *from);
uint64_t histogram_percentile(const struct histogram *h, double percent);
double histogram_mean(const struct histogram *h);

/* workload.c: which operations, in which proportions, on which records */
enum kind {
	KIND_READ,
	KIND_UPDATE,
	KIND_INSERT,
	KIND_SCAN,
	KIND_RMW,
	KINDS
};

enum distribution {
	DIST_UNIFORM,
	DIST_ZIPFIAN,
	DIST_LATEST,
	DISTRIBUTIONS
};

struct workload {
	char name[16];
	double share[KINDS];		/* the sum is 1 */
	enum distribution distribution;
};

extern const char * const kind_names[KINDS];
extern const char * const distribution_names[DISTRIBUTIONS];

const struct workload *workload_find(const char *name, size_t len);
bool workload_scale(struct workload *w);
int distribution_find(const char *name);
const char *workload_text(const struct workload *w, char *buf, size_t size);

/* record.c: the records of a store, by number */
#define RECORD_PREFIX	"user"		/* of every key */
#define RECORD_DIGITS	20		/* maximum for a number without a key size */

struct shape {
	uint64_t records;		/* loaded: numbers 0..records-1 */
	unsigned int fields;		/* columns; 1: a value without columns */
	unsigned int field_size;
	unsigned int key_size;		/* 0: as long as needed */
	bool ordered;			/* keys ascend with the numbers */
};

uint64_t fnv64(uint64_t n);
size_t record_key_room(const struct shape *shape);
size_t record_size(const struct shape *shape);
unsigned int record_digits(const struct shape *shape);
size_t record_key(const struct shape *shape, uint64_t number, char *key);
void record_fill(const char *key, size_t key_len, unsigned int field, uint32_t salt,
		 char *data, size_t len);
bool record_right(const char *key, size_t key_len, unsigned int field, const char *data,
		  size_t len);

/* inserts.c: the numbers of records that are inserted, for all processes */
#define INSERTS_WINDOW	(1u << 18)	/* maximum inserts in progress */

struct inserts {
	_Atomic uint64_t next;		/* the number of the next insert */
	_Atomic uint64_t last;		/* this record and all before it exist */
	atomic_bool busy;
	_Atomic uint8_t there[INSERTS_WINDOW];
};

void inserts_begin(struct inserts *ins, uint64_t records);
bool inserts_crowded(const struct inserts *ins);
uint64_t inserts_take(struct inserts *ins);
void inserts_done(struct inserts *ins, uint64_t number);
uint64_t inserts_last(const struct inserts *ins);

/* chooser.c: which operation comes next, and on which record */
struct chooser {
	const struct workload *workload;
	const struct shape *shape;
	struct inserts *inserts;
	struct rng kinds;		/* separate sequences */
	struct rng keys;
	struct rng details;
	struct zipf zipf;
	uint64_t universe;		/* zipfian: records that may exist at the end */
};

struct plan;

void chooser_init(struct chooser *ch, const struct plan *plan, const struct workload *w,
		  struct inserts *ins, unsigned int client);
enum kind chooser_kind(struct chooser *ch);
uint64_t chooser_record(struct chooser *ch);

/* request.c: an operation, from when it is queued until it has completed */
enum verdict {
	VERDICT_RIGHT,
	VERDICT_FAILED,		/* the kernel returned an error */
	VERDICT_MISS,		/* an existing record was not found */
	VERDICT_WRONG,		/* the data found differs from the data stored */
	VERDICTS
};

struct request {
	unsigned int slot;
	enum kind kind;
	bool second;			/* the write of a read-modify-write */
	uint64_t number;		/* of the record */
	unsigned int field;		/* to be written */
	unsigned int limit;		/* of a scan */
	uint32_t salt;			/* of the data written */
	uint64_t queued;		/* the time, in ns */
	int result;			/* from the kernel */
	size_t key_len;
	char *key;
	char *value;
	struct kvtree_col *cols;
	struct kvtree_scan scan;
};

struct request_room {
	const struct shape *shape;
	const uint16_t *ids;		/* of all columns */
	size_t value_size;
	char *mem;
	struct request *request;
	unsigned int nr;
};

extern const char * const verdict_names[VERDICTS];

void requests_new(struct request_room *room, const struct shape *shape, unsigned int nr,
		  unsigned int scan_max);
void requests_free(struct request_room *room);
void request_lay_out(const struct request_room *room, struct request *r, struct kvtree_op *op);
enum verdict request_judge(const struct request_room *room, const struct request *r, bool check);

/* driver_*.c: ways to the kernel */
struct driver {
	const char *name;
	bool deep;			/* several requests at a time */
	bool dry;			/* needs no store */
	/* Returns 0 or a negative errno. */
	int (*open)(void **driver, struct kvtree *kv, unsigned int depth, unsigned int flags);
	void (*close)(void *driver);
	/* Returns where to lay out the operation. */
	struct kvtree_op *(*room)(void *driver, const struct request *r);
	/* Returns 0 or a negative errno. */
	int (*queue)(void *driver, struct request *r);
	/*
	 * Wait until at least one has completed.  Returns how many have, the first
	 * of them at done, with their results; or a negative errno.
	 */
	int (*reap)(void *driver, struct request **done, unsigned int nr);
};

extern const struct driver driver_ioctl;
extern const struct driver driver_batch;
extern const struct driver driver_uring;
extern const struct driver driver_none;

/* series.c: a driver and how it is used */
#define SERIES_SQPOLL		(1u << 0)
#define SERIES_BY_POINTER	(1u << 1)

#define DEPTH_MAX	KVTREE_BATCH_MAX
#define DEPTH_DEFAULT	64

struct series {
	const struct driver *driver;
	unsigned int depth;
	unsigned int flags;
	char name[48];
};

const char *series_parse(struct series *s, const char *text, size_t len);
void series_finish(struct series *s, unsigned int depth, unsigned int flags);

/* options.c: the command line */
#define WORKLOADS_MAX	16
#define SERIES_MAX	16
#define CLIENTS_MAX	256
#define RUNS_MAX	1000

struct plan {
	struct shape shape;
	struct workload workload[WORKLOADS_MAX];
	unsigned int nr_workloads;
	struct series series[SERIES_MAX];
	unsigned int nr_series;
	bool series_chosen;		/* by the user */
	uint64_t operations;		/* 0: as many as time allows */
	uint64_t warmup;		/* operations that are not measured */
	double seconds;			/* 0: until the operations are done */
	double rate;			/* operations per second; 0: no limit */
	unsigned int threads;		/* in each process */
	unsigned int processes;
	unsigned int runs;
	unsigned int scan_max;
	double theta;
	uint64_t seed;
	bool check;
	bool load;
	bool keep;
	bool progress;
	const char *trace;
	const char *plot;
};

void plan_parse(struct plan *plan, int argc, char **argv);
unsigned int plan_clients(const struct plan *plan);
bool plan_is_dry(const struct plan *plan);
bool plan_kind_used(const struct plan *plan, enum kind kind);

/* target.c: the store to be measured */
struct target {
	const struct plan *plan;
	struct kvtree *kv;		/* NULL: not needed */
	struct kvtree *admin;		/* a session that outlives the store */
	char name[KVTREE_NAME_MAX];
	bool own;			/* created here, to be destroyed */
	bool loaded;			/* loaded here, to be removed */
	double load_seconds;
	struct inserts *inserts;	/* of the run, or NULL */
};

void target_open(struct target *t, const struct plan *plan);
bool target_has_uring(const struct target *t);
void target_load(struct target *t);
void target_forget_inserts(struct target *t);
void target_end(void);

/* crew.c: processes and threads */
struct tally {
	uint64_t begin;			/* the time, in ns */
	uint64_t end;
	_Atomic uint64_t done;		/* while it runs */
	uint64_t records;		/* returned by scans */
	uint64_t verdict[VERDICTS];
	int error;			/* the first error */
	struct histogram latency[KINDS];
};

struct shared {
	struct inserts inserts;
	sem_t go;
	atomic_uint ready;		/* clients at the start */
	atomic_bool stop;
	_Atomic int fatal;		/* an errno that ended the run */
	struct tally tally[];		/* of each client */
};

struct crew {
	const struct plan *plan;
	const struct workload *workload;
	const struct series *series;
	struct shared *shared;
	struct target *target;
	FILE *trace;
};

/* client.c: a thread that measures */
void client_run(const struct crew *crew, unsigned int number);

/* result.c: the figures of a workload in one way */
struct result {
	const struct workload *workload;
	const struct series *series;
	unsigned int runs;
	double *throughput;		/* of each run */
	double seconds;			/* of all runs, as are the following */
	uint64_t operations;
	uint64_t records;
	uint64_t verdict[VERDICTS];
	int error;
	struct histogram *latency;	/* of each kind */
	struct histogram *all;		/* of all kinds */
	uint64_t counter[KVTREE_STAT_NR];
};

void result_init(struct result *res, const struct plan *plan, const struct workload *w,
		 const struct series *s);
void result_add(struct result *res, const struct shared *shared, unsigned int clients,
		const uint64_t *before, const uint64_t *after);
void result_free(struct result *res);
struct spread result_spread(const struct result *res);
uint64_t result_errors(const struct result *res);

/* crew.c */
struct shared *crew_shared(unsigned int clients);
void crew_run(struct crew *crew, struct result *res, struct progress *progress);
bool crew_interrupted(void);
void crew_catch_signals(void);

/* report_*.c, plot.c: output */
struct report {
	const struct plan *plan;
	const struct target *target;
	struct result *result;		/* sorted by workload */
	unsigned int nr;
};

/* The percentiles that reports show. */
#define PERCENTILES	6

extern const struct percentile {
	double percent;
	const char *name;
} percentiles[PERCENTILES];

const struct result *report_base(const struct report *rep, const struct result *res);
void report_text(const struct report *rep);
void report_json(const struct report *rep);
json_t *report_results(const struct report *rep, bool curves);
void plot_check(const char *path);
void plot_write(const struct report *rep);

#endif /* KVTREE_BENCH_LOAD_H */
