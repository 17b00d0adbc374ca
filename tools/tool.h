/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations shared by the files of the kvtree tool.
 *
 * A command is one function: it parses its arguments with argp, opens its
 * store, does its work through libkvtree and returns an exit status.
 */
#ifndef KVTREE_TOOL_H
#define KVTREE_TOOL_H

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <kvtree.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Exit statuses; kvtree(1) and "kvtree help" list them. */
enum {
	STATUS_OK	= 0,
	STATUS_NOT	= 1,	/* not found, or a condition did not hold */
	STATUS_USAGE	= 2,
	STATUS_ERROR	= 3,
};

/* Values of the options of every command. */
struct tool {
	const char *store;	/* NULL: the default store */
	bool store_given;	/* by an option */
	bool json;
	bool hex;
	bool escape;
};

extern struct tool tool;

/* kvtree.c: the commands */
size_t command_count(void);
const char *command_name(size_t i);
int run_arguments(int argc, char **argv);

/* args.c: options and arguments that several commands have */
extern const struct argp_child common_options[];
extern const struct argp_child store_options[];
extern const struct argp_child set_options[];

/* Options that describe a store. */
struct store_args {
	struct kvtree_store_create *store;
	bool given;		/* any of them */
	uint32_t set;		/* KVTREE_SET_*: settings that can be changed later */
};

/* The plural ending of a word after a number. */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

struct bytes {
	char *data;
	size_t len;
};

struct bytes arg_bytes(struct argp_state *state, const char *what, const char *arg);
int number_base(const char *digits);
unsigned long long arg_number(struct argp_state *state, const char *what,
			      const char *arg, unsigned long long max);
unsigned long long arg_size(struct argp_state *state, const char *what, const char *arg);
uint32_t arg_owner(struct argp_state *state, bool group, const char *arg);
uint32_t arg_mode(struct argp_state *state, const char *arg);
uint16_t arg_column(struct argp_state *state, const char *arg);
void arg_columns(struct argp_state *state, bool want[KVTREE_COLS_MAX], char *arg);
size_t column_ids(const bool want[KVTREE_COLS_MAX], uint16_t ids[KVTREE_COLS_MAX]);
bool size_of(const char *text, unsigned long long *size);
bool owner_of(bool group, const char *text, uint32_t *id);
const char *owner_name(bool group, uint32_t id);
bool mode_of(const char *text, uint32_t *mode);
void arg_store_name(struct argp_state *state, char name[KVTREE_NAME_MAX], const char *arg);
bool store_name_allowed(const char *name);
bool say_store_wrong(const char *what, const struct kvtree_store_create *store);
int parse(const struct argp *argp, int argc, char **argv, void *input);
struct bytes file_bytes(const char *path);

/* session.c: stores and messages about failures */
struct kvtree *open_store(unsigned int flags);
struct kvtree *open_store_any(void);
bool store_info(const struct kvtree *kv, const char *name, struct kvtree_store_info *si);
void put_flags(FILE *out, const struct kvtree_store_info *si);
const char *reason(int err);
int report(int err, const char *what, const struct bytes *key);
void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...);
void __attribute__((format(printf, 1, 2))) warn(const char *fmt, ...);
void *alloc(void *old, size_t size);

/* hook.c: filters and validators of a store */
const char *hook_kind(const struct kvtree_bpf_hook *hook);
bool hook_find(const struct kvtree *kv, const char *which, unsigned int kind,
	       struct kvtree_bpf_hook *hook);

/* text.c: bytes as text */
void put_text(FILE *out, const void *data, size_t len);
void put_hex(FILE *out, const void *data, size_t len);
void put_bytes(FILE *out, const void *data, size_t len);
void put_column(FILE *out, const struct kvtree_column *col);
const char *take_text(char *text, size_t *len);
const char *take_hex(char *text, size_t *len);

/* json.c: JSON output */
void json_add(json_t *obj, const char *name, json_t *value);
void json_add_bytes(json_t *obj, const char *name, const void *data, size_t len);
void json_add_columns(json_t *obj, const struct kvtree_columns *cols);
void json_add_u64(json_t *obj, const char *name, uint64_t n);
void json_add_store(json_t *obj, const struct kvtree_store_info *si);
json_t *json_new(void);
void json_print(json_t *obj);

/* outfile.c: output files of commands */
struct outfile {
	FILE *out;
	const char *path;	/* as the user wrote it; NULL: standard output */
	char *final;		/* the final path; NULL: write to the file directly */
	char *part;		/* the temporary file */
	bool unnamed;		/* it has no name yet */
};

void outfile_open(struct outfile *f, const char *path);
void outfile_commit(struct outfile *f);
void outfile_drop(struct outfile *f);

/* progress.c: progress of a long command */
struct progress {
	bool on;
	const char *verb;
	const char *unit;	/* NULL: records */
	uint64_t total;		/* of `now`; 0: not known */
	double start;
	double drawn;
};

void progress_start(struct progress *p, const char *verb, bool on, uint64_t total);
void progress_show(struct progress *p, uint64_t now, uint64_t records, uint64_t bytes);
double progress_end(struct progress *p, const char *done, uint64_t records, uint64_t bytes);

/* teardown.c: destroying and detaching a store */
int teardown(const struct kvtree *kv, int (*call)(const struct kvtree *kv, const char *name),
	     const char *what, const char *name);

/* dumpfile.c: the format that dump writes and load reads */
struct record {
	char *key;
	size_t key_len;
	size_t ncols;
	struct kvtree_column col[KVTREE_COLS_MAX];
};

struct dumpfile {
	FILE *file;
	bool tsv;
	bool json;		/* lines of JSON, detected by the first byte */
	int first;		/* bytes that dumpfile_begin() has already read */
	size_t first_len;
	json_t *object;		/* of the line */
	char *decoded;		/* decoded hexadecimal strings */
	char *line;
	size_t room;
	uint64_t line_nr;
	uint64_t records;
	uint64_t bytes;		/* read */
	bool ended;
	char error[256];	/* error message for the line */
};

int dumpfile_begin(struct dumpfile *f);
int dumpfile_read(struct dumpfile *f, struct record *rec);
void dumpfile_end(struct dumpfile *f);
int __attribute__((format(printf, 2, 3))) dumpfile_bad(struct dumpfile *f, const char *fmt, ...);
void dumpfile_write_first(FILE *out);
void dumpfile_write(FILE *out, const char *key, size_t key_len,
		    const struct kvtree_columns *cols);
void dumpfile_write_last(FILE *out, uint64_t records);

/* jsonlines.c: records as scan prints them with --json */
int jsonlines_read(struct dumpfile *f, struct record *rec, size_t len);

/* cmd_*.c */
int cmd_add(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_bpf(int argc, char **argv);
int cmd_cas(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_del(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_format(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_scan(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_store_create(int argc, char **argv);
int cmd_store_set(int argc, char **argv);
int cmd_store_destroy(int argc, char **argv);
int cmd_store_list(int argc, char **argv);
int cmd_sync(int argc, char **argv);

#endif /* KVTREE_TOOL_H */
