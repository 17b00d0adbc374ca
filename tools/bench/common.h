/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by bench-stock, bench-bpf and bench-log: options, rows and ratios, keys,
 * servers and connections to them.
 *
 * A row is one system under one workload, with a number for each round. Every round
 * measures all rows of a comparison, one after the other, so that other load on the
 * machine affects all of them. Round 0 is a warm-up and does not count.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "clock.h"
#include "options.h"
#include "random.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/*
 * plan.c
 */
struct plan {
	unsigned int rounds;
	double seconds;		/* for a row in a round */
	unsigned int keys, keys_max;
	const char *json;	/* file for the results */
	bool quick;		/* check answers, not speed */
	bool icount;		/* the clock counts instructions */
};

/* For argp's children; its input is a struct plan with the defaults. */
extern const struct argp plan_argp;

/*
 * say.c
 */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void progress(const struct plan *plan, const char *what, unsigned int round);

/*
 * report.c
 */
struct row;

struct row *row_new(const struct plan *plan, const char *workload, const char *system,
		    const char *unit);
void row_title(struct row *row, const char *title);
void row_threads(struct row *row, unsigned int threads);
void row_set(struct row *row, unsigned int round, double value);
void row_count(struct row *row, const char *name, uint64_t value);
double row_median(struct row *row);
double row_ratio(struct row *row, struct row *beside);

/* A number and its targets, a least and a most; 0: none. */
void ratio_add(const char *name, double value, double at_least, double at_most);

void report_add_line(const char *line);
int report_end(const struct plan *plan);

/*
 * data.c
 */
#define KEY_LEN		16u

void key_make(char *key, uint32_t nr);

/*
 * server.c and conn.c: servers and connections to them
 */
enum place { PLACE_OTHER, PLACE_SAME, PLACE_FREE };

extern enum place server_place;
extern char work_dir[];		/* for sockets */

void servers_init(void);
unsigned int server_start(const char *program, char *const argv[]);
void server_stop(unsigned int id);
unsigned int server_free_port(void);
void server_version(const char *program, char *version, size_t size);
void pin_client(void);

struct conn {
	int fd;
	char *out, *in;
	size_t out_len;		/* bytes to send */
	size_t in_at, in_len;	/* bytes received, and not taken from in_at on */
};

struct conn *conn_unix(const char *path);
struct conn *conn_tcp(unsigned int port);
void conn_close(struct conn *c);
char *conn_room(struct conn *c, size_t len);
void conn_send(struct conn *c);
const char *conn_take(struct conn *c, size_t len);
void conn_expect(struct conn *c, const char *text, size_t len);

static inline char *put_bytes(char *to, const void *from, size_t len)
{
	return (char *)__builtin_memcpy(to, from, len) + len;
}

#define PUT_TEXT(to, text)	put_bytes(to, text, sizeof(text) - 1)

#endif /* BENCH_COMMON_H */
