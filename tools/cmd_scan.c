// SPDX-License-Identifier: GPL-2.0
/*
 * scan: list a range of keys.
 */
#include "tool.h"

/* Options without a letter. */
enum { OPT_START = 256, OPT_END };

struct scan {
	const char *prefix, *start, *end, *filter;
	uint64_t limit;
	bool limited;
	struct kvtree_cursor_opts opts;
	bool want[KVTREE_COLS_MAX];
	uint16_t ids[KVTREE_COLS_MAX];
};

static void bound(struct argp_state *state, const char *what, const char *arg,
		  const void **data, size_t *len)
{
	struct bytes b;

	if (!arg)
		return;
	b = arg_bytes(state, what, arg);
	*data = b.data;
	*len = b.len;
}

static void finish(struct argp_state *state, struct scan *scan)
{
	struct kvtree_cursor_opts *opts = &scan->opts;

	bound(state, "--prefix", scan->prefix, &opts->prefix, &opts->prefix_len);
	bound(state, "--start", scan->start, &opts->start, &opts->start_len);
	bound(state, "--end", scan->end, &opts->end, &opts->end_len);
	opts->ncols = column_ids(scan->want, scan->ids);
	if (opts->ncols)
		opts->cols = scan->ids;
	if (!!opts->ncols + !!(opts->flags & KVTREE_CURSOR_ALL_COLS) +
	    !!(opts->flags & KVTREE_CURSOR_KEYS_ONLY) > 1)
		argp_error(state, "--keys-only, --col and --all-cols exclude each other");
}

static error_t parse_scan(int key, char *arg, struct argp_state *state)
{
	struct scan *scan = state->input;

	switch (key) {
	case 'p':
		scan->prefix = arg;
		return 0;
	case OPT_START:
		scan->start = arg;
		return 0;
	case OPT_END:
		scan->opts.flags |= KVTREE_CURSOR_END;
		scan->end = arg;
		return 0;
	case 'r':
		scan->opts.flags |= KVTREE_CURSOR_REVERSE;
		return 0;
	case 'k':
		scan->opts.flags |= KVTREE_CURSOR_KEYS_ONLY;
		return 0;
	case 'A':
		scan->opts.flags |= KVTREE_CURSOR_ALL_COLS;
		return 0;
	case 'c':
		arg_columns(state, scan->want, arg);
		return 0;
	case 'F':
		scan->filter = arg;
		return 0;
	case 'l':
		scan->limit = arg_number(state, "--limit", arg, UINT64_MAX);
		scan->limited = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "scan takes no arguments: --prefix %s or --start %s?", arg, arg);
		return 0;
	case ARGP_KEY_END:
		finish(state, scan);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "prefix", .key = 'p', .arg = "PREFIX", .doc = "Only keys that begin with this" },
	{ .name = "start", .key = OPT_START, .arg = "KEY",
	  .doc = "Only this key and greater ones" },
	{ .name = "end", .key = OPT_END, .arg = "KEY", .doc = "Only keys below this one" },
	{ .name = "reverse", .key = 'r', .doc = "In descending order" },
	{ .name = "limit", .key = 'l', .arg = "N", .doc = "Not more than N records" },
	{ .name = "keys-only", .key = 'k', .doc = "Print no values" },
	{ .name = "col", .key = 'c', .arg = "ID,...",
	  .doc = "Print these columns, as ID=VALUE; may be repeated" },
	{ .name = "all-cols", .key = 'A', .doc = "Print every column, as ID=VALUE" },
	{ .name = "filter", .key = 'F', .arg = "NAME|ID",
	  .doc = "Only records that this filter selects: see kvtree bpf list" },
	{ 0 }
};

static void print_json(const struct kvtree_cursor *c)
{
	const struct kvtree_columns *cols = kvtree_cursor_columns(c);
	size_t key_len, len;
	const void *key = kvtree_cursor_key(c, &key_len), *val = kvtree_cursor_value(c, &len);
	json_t *obj = json_new();

	json_add_bytes(obj, "key", key, key_len);
	if (cols)
		json_add_columns(obj, cols);
	else if (val)
		json_add_bytes(obj, "value", val, len);
	json_add_u64(obj, "version", kvtree_cursor_version(c));
	json_print(obj);
}

static void print(const struct kvtree_cursor *c)
{
	const struct kvtree_columns *cols = kvtree_cursor_columns(c);
	size_t key_len, len, i;
	const void *key = kvtree_cursor_key(c, &key_len), *val = kvtree_cursor_value(c, &len);

	put_bytes(stdout, key, key_len);
	if (cols) {
		for (i = 0; i < cols->nr; i++) {
			putchar('\t');
			put_column(stdout, &cols->col[i]);
		}
	} else if (val) {
		putchar('\t');
		put_bytes(stdout, val, len);
	}
	putchar('\n');
}

int cmd_scan(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_scan,
		.doc = "List records in the order of their keys, compared byte by byte.\n"
		       "\vEach record is a line: the key, a tab, the value. Backslashes, and bytes\n"
		       "that cannot be printed, come as \\\\, \\t, \\n, \\r and \\xHH (--hex prints all\n"
		       "bytes in hexadecimal). The range is the same with --reverse: from below\n"
		       "--end down to --start. Finding nothing is not an error.",
		.children = common_options,
	};
	struct scan scan = { .opts.size = sizeof(scan.opts) };
	struct kvtree_bpf_hook hook = { 0 };
	struct kvtree_cursor *c;
	struct kvtree *kv;
	uint64_t n = 0;
	int err;

	parse(&argp, argc, argv, &scan);
	if (scan.limited && scan.limit < UINT32_MAX)
		scan.opts.max_records = (unsigned int)scan.limit;
	kv = open_store(KVTREE_OPEN_READ);
	if (scan.filter && !hook_find(kv, scan.filter, KVTREE_HOOK_FILTER, &hook)) {
		kvtree_close(kv);
		return STATUS_NOT;
	}
	scan.opts.filter = hook.id;
	err = kvtree_cursor_open(kv, &scan.opts, &c);
	if (err) {
		kvtree_close(kv);
		return report(err, "scan", NULL);
	}
	while (!scan.limited || n < scan.limit) {
		err = kvtree_cursor_next(c);
		if (err)
			break;
		if (tool.json)
			print_json(c);
		else
			print(c);
		n++;
		/* The reader is gone (SIGPIPE is ignored), or the disk is full. */
		if (ferror(stdout))
			break;
	}
	kvtree_cursor_close(c);
	kvtree_close(kv);
	return err && err != -ENOENT ? report(err, "scan", NULL) : STATUS_OK;
}
