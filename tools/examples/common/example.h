/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared code of the examples: stores for BPF programs, BPF programs that stay attached
 * after their loader has exited, and messages.
 *
 * Functions exit with STATUS_ERROR after printing a message, where documented.
 */
#ifndef KVT_EXAMPLE_H
#define KVT_EXAMPLE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <bpf/libbpf.h>
#include <jansson.h>
#include <kvtree.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Exit statuses, those of kvtree(1). */
enum {
	STATUS_OK	= 0,
	STATUS_NOT	= 1,	/* not found, or in conflict with existing data */
	STATUS_USAGE	= 2,
	STATUS_ERROR	= 3,
};

/* message.c */
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *alloc(void *old, size_t size);

/* store.c */
struct kvtree *store_make(const char *name, uint64_t limit_bytes);
struct kvtree *store_open(const char *name);
void store_bind(struct kvtree *kv, const struct bpf_map *map, unsigned int access);
uint64_t store_counter(struct kvtree *kv, unsigned int id);

/* program.c */
void program_begin(void);
void program_check(int err, const char *what);
const char *pin_path(const char *program, const char *name);

/* text.c */
bool parse_number(const char *text, uint64_t max, uint64_t *n);
void json_put(json_t *obj, const char *name, json_t *value);
void json_print(json_t *obj);

/* command.c */
struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

int run_command(const struct command *commands, size_t nr, const char *doc, int argc,
		char **argv);

#endif /* KVT_EXAMPLE_H */
