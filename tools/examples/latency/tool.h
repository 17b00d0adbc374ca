/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LATENCY_TOOL_H
#define LATENCY_TOOL_H

#include "example.h"
#include "latency.h"

#define STORE	"latency"

/* A recorded call, and its file. */
struct seen {
	uint32_t dev;
	uint64_t ino;
	const char *name;	/* "" if it is not known */
	uint64_t time;
	struct lat_call call;
};

/* walk.c: the calls of a file or of all, in a stretch of time */
struct walk {
	const char *file;	/* NULL: all */
	uint64_t since;
	uint64_t until;		/* not included */
	bool json;
	uint64_t limit;		/* for the command's use */
};

extern const struct argp_option walk_options[];
error_t parse_walk(int key, char *arg, struct argp_state *state);
void walk(const struct walk *walk, void (*one)(const struct seen *seen, void *arg), void *arg);
void walk_warn(void);

/* record.c, show.c */
int cmd_record(int argc, char **argv);
int cmd_files(int argc, char **argv);
int cmd_calls(int argc, char **argv);
int cmd_slowest(int argc, char **argv);
int cmd_histogram(int argc, char **argv);
int cmd_clear(int argc, char **argv);

#endif /* LATENCY_TOOL_H */
