// SPDX-License-Identifier: GPL-2.0
/* Show rules and counters. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tool.h"

static bool as_json;
static bool reset;

static error_t parse_show(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'j':
		as_json = true;
		return 0;
	case 'r':
		reset = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': takes no arguments", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "json", .key = 'j', .doc = "Print JSON, an object per line" },
	{ 0 }
};

/* Counters are in the order of the rules: read both once, side by side. */
struct counts {
	struct kvtree *kv;
	struct kvtree_cursor *cursor;
	int err;		/* of the cursor; -ENOENT at the end */
	uint64_t packets;
	uint64_t bytes;
};

static void counts_open(struct counts *counts)
{
	static const uint16_t columns[] = { 0, 1 };
	struct kvtree_cursor_opts opts = {
		.size = sizeof(opts), .cols = columns, .ncols = ARRAY_SIZE(columns),
	};

	*counts = (struct counts){ .kv = store_make(COUNTS_STORE, 0) };
	counts->err = kvtree_cursor_open(counts->kv, &opts, &counts->cursor);
	if (!counts->err)
		counts->err = kvtree_cursor_next(counts->cursor);
}

static void counts_close(struct counts *counts)
{
	if (counts->err && counts->err != -ENOENT)
		die("cannot read the counters: %s", kvtree_strerror(counts->err));
	kvtree_cursor_close(counts->cursor);
	kvtree_close(counts->kv);
}

static void counts_add(struct counts *counts)
{
	const struct kvtree_columns *columns = kvtree_cursor_columns(counts->cursor);
	uint64_t n;
	size_t i;

	for (i = 0; i < columns->nr; i++) {
		if (columns->col[i].len != sizeof(n))
			continue;
		memcpy(&n, columns->col[i].data, sizeof(n));
		*(columns->col[i].id ? &counts->bytes : &counts->packets) += le64toh(n);
	}
}

/* Sum up the counters of all CPUs for a name, in ascending order of names. */
static void counts_sum(struct counts *counts, const void *name, size_t name_len)
{
	const void *key;
	size_t len;
	int order;

	counts->packets = 0;
	counts->bytes = 0;
	while (!counts->err) {
		key = kvtree_cursor_key(counts->cursor, &len);
		order = memcmp(key, name, len < name_len ? len : name_len);
		if (order > 0 || (!order && len < name_len))
			return;
		if (!order)
			counts_add(counts);
		counts->err = kvtree_cursor_next(counts->cursor);
	}
}

static void show_counts(const char *what, const struct counts *counts)
{
	printf("%12" PRIu64 " %14" PRIu64 "  %s\n", counts->packets, counts->bytes, what);
}

static void json_counts(json_t *obj, const struct counts *counts)
{
	json_put(obj, "packets", json_integer((json_int_t)counts->packets));
	json_put(obj, "bytes", json_integer((json_int_t)counts->bytes));
}

static void show_rule(const struct rule *rule, struct counts *counts)
{
	char text[RULE_TEXT];
	union fw_key key;
	json_t *obj;

	if (counts)
		counts_sum(counts, &key, rule_key(rule, &key));
	if (as_json) {
		obj = rule_json(rule);
		if (counts)
			json_counts(obj, counts);
		json_print(obj);
	} else if (counts) {
		show_counts(rule_text(rule, text), counts);
	} else {
		puts(rule_text(rule, text));
	}
}

static int show_rules(struct counts *counts)
{
	struct kvtree *kv = store_make(RULES_STORE, 0);
	struct kvtree_cursor *c = NULL;
	const void *key, *val;
	size_t key_len, len;
	struct rule rule;
	int err;

	err = kvtree_cursor_open(kv, NULL, &c);
	while (!err && !(err = kvtree_cursor_next(c))) {
		key = kvtree_cursor_key(c, &key_len);
		val = kvtree_cursor_value(c, &len);
		if (rule_read(key, key_len, val, len, &rule))
			show_rule(&rule, counts);
	}
	kvtree_cursor_close(c);
	kvtree_close(kv);
	if (err != -ENOENT)
		die("cannot read the rules: %s", kvtree_strerror(err));
	return STATUS_OK;
}

int cmd_list(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_show,
		.doc = "Show the rules, in the order of their keys, as \"add -\" reads them.",
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return show_rules(NULL);
}

static void show_others(struct counts *counts)
{
	static const char * const names[] = {
		[FW_NO_RULE] = "no_rule",
		[FW_MALFORMED] = "malformed",
		[FW_UNDECIDED] = "undecided",
	};
	json_t *obj;
	uint8_t why;

	for (why = FW_NO_RULE; why < ARRAY_SIZE(names); why++) {
		counts_sum(counts, &why, sizeof(why));
		if (as_json) {
			obj = json_object();
			json_put(obj, "other", json_string(names[why]));
			json_counts(obj, counts);
			json_print(obj);
		} else {
			show_counts(names[why], counts);
		}
	}
}

static void show_uncounted(const struct counts *counts)
{
	uint64_t n = store_counter(counts->kv, KVTREE_STAT_ERROR);
	json_t *obj;

	if (as_json) {
		obj = json_object();
		json_put(obj, "other", json_string("not_counted"));
		json_put(obj, "times", json_integer((json_int_t)n));
		json_print(obj);
	} else if (n) {
		printf("%12" PRIu64 " %14s  counting errors\n", n, "");
	}
}

/* Packets counted meanwhile start a new counter. */
static void counts_reset(const struct counts *counts)
{
	const void *key;
	size_t len;
	int err;

	err = kvtree_cursor_first(counts->cursor);
	while (!err) {
		key = kvtree_cursor_key(counts->cursor, &len);
		err = kvtree_del(counts->kv, kvtree_slice(key, len), 0, NULL);
		if (!err || err == -ENOENT)
			err = kvtree_cursor_next(counts->cursor);
	}
	if (err != -ENOENT)
		die("cannot reset the counters: %s", kvtree_strerror(err));
}

int cmd_stats(int argc, char **argv)
{
	static const struct argp_option more[] = {
		{ .name = "json", .key = 'j', .doc = "Print JSON, an object per line" },
		{ .name = "reset", .key = 'r', .doc = "Reset the counters to 0 afterwards" },
		{ 0 }
	};
	const struct argp argp = {
		.options = more,
		.parser = parse_show,
		.doc = "Show the packets and bytes that matched each rule.\n"
		       "\vno_rule: no rule matched. malformed: dropped, because the headers are\n"
		       "incomplete, or there are too many. undecided: dropped, because the rules\n"
		       "could not be read, or changed too often meanwhile.",
	};
	struct counts counts;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	counts_open(&counts);
	if (!as_json)
		printf("%12s %14s\n", "packets", "bytes");
	show_others(&counts);
	status = show_rules(&counts);
	show_uncounted(&counts);
	if (reset)
		counts_reset(&counts);
	counts_close(&counts);
	return status;
}
