// SPDX-License-Identifier: GPL-2.0
/*
 * put and cas: store a value.
 */
#include <inttypes.h>

#include "tool.h"

/* Options without a letter. */
enum { OPT_REMOVE_COL = 256, OPT_WHOLE };

struct put {
	bool cas;
	const char *key;
	const char *version_text;
	const char *value_text;
	const char *file;
	unsigned int flags;
	struct bytes k, v;
	uint64_t version;
	/* Columns by id, and flags for those that were given. */
	struct kvtree_column col[KVTREE_COLS_MAX];
	bool given[KVTREE_COLS_MAX];
	size_t ncols;
};

static void give(struct argp_state *state, struct put *put, uint16_t id, const char *data,
		 uint32_t len)
{
	if (put->given[id])
		argp_error(state, "column %u is given twice", id);
	put->given[id] = true;
	put->col[id].id = id;
	put->col[id].data = data;
	put->col[id].len = len;
	put->ncols++;
}

static void give_column(struct argp_state *state, struct put *put, char *arg)
{
	char *equals = strchr(arg, '=');
	struct bytes b;
	uint16_t id;

	if (!equals)
		argp_error(state, "--col %s: it should be ID=VALUE", arg);
	*equals = '\0';
	id = arg_column(state, arg);
	b = arg_bytes(state, "value", equals + 1);
	give(state, put, id, b.data, (uint32_t)b.len);
}

/* Options may come in any order, --hex too: convert the arguments at the end. */
#define MAX_COL_ARGS	KVTREE_COLS_MAX
static char *col_arg[MAX_COL_ARGS];
static size_t col_args;

static void finish(struct argp_state *state, struct put *put)
{
	size_t i, n = 0;

	if (!put->key || (put->cas && !put->version_text))
		argp_usage(state);
	for (i = 0; i < col_args; i++)
		give_column(state, put, col_arg[i]);
	if (put->value_text && put->file)
		argp_error(state, "VALUE and --file exclude each other");
	if (put->ncols && (put->value_text || put->file))
		argp_error(state, "with columns there is no VALUE: give column 0 as --col 0=VALUE");
	if (!put->ncols && put->flags & KVTREE_F_WHOLE)
		argp_error(state, "--whole goes with --col: a VALUE replaces all columns");
	if (!put->ncols && !put->value_text && !put->file)
		argp_error(state, "missing VALUE: give one, or --file FILE, or --col ID=VALUE");
	put->k = arg_bytes(state, "key", put->key);
	if (put->value_text)
		put->v = arg_bytes(state, "value", put->value_text);
	if (put->cas)
		put->version = arg_number(state, "version", put->version_text, UINT64_MAX);
	for (i = 0; i < KVTREE_COLS_MAX; i++)
		if (put->given[i])
			put->col[n++] = put->col[i];
}

static error_t parse_put(int key, char *arg, struct argp_state *state)
{
	struct put *put = state->input;

	switch (key) {
	case 'c':
		if (col_args == MAX_COL_ARGS)
			argp_error(state, "a value has at most %u columns", KVTREE_COLS_MAX);
		col_arg[col_args++] = arg;
		return 0;
	case OPT_REMOVE_COL:
		give(state, put, arg_column(state, arg), NULL, KVTREE_COL_ABSENT);
		return 0;
	case OPT_WHOLE:
		put->flags |= KVTREE_F_WHOLE;
		return 0;
	case 'f':
		put->file = arg;
		return 0;
	case 'C':
		put->flags |= KVTREE_F_CREATE;
		return 0;
	case 'R':
		put->flags |= KVTREE_F_REPLACE;
		return 0;
	case ARGP_KEY_ARG:
		if (!put->key)
			put->key = arg;
		else if (put->cas && !put->version_text)
			put->version_text = arg;
		else if (!put->value_text)
			put->value_text = arg;
		else
			argp_error(state, "too many arguments: quote a value with spaces in it");
		return 0;
	case ARGP_KEY_END:
		if (put->flags & KVTREE_F_CREATE && put->flags & KVTREE_F_REPLACE)
			argp_error(state, "--create and --replace exclude each other");
		finish(state, put);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option put_options[] = {
	{ .name = "file", .key = 'f', .arg = "FILE",
	  .doc = "Store the content of this file; - is standard input" },
	{ .name = "col", .key = 'c', .arg = "ID=VALUE",
	  .doc = "Change this column (0..255) and leave the others; may be repeated" },
	{ .name = "remove-col", .key = OPT_REMOVE_COL, .arg = "ID",
	  .doc = "Remove this column; may be repeated" },
	{ .name = "whole", .key = OPT_WHOLE,
	  .doc = "With --col: remove all columns that are not named" },
	{ .name = "create", .key = 'C', .doc = "Only if the key does not exist" },
	{ .name = "replace", .key = 'R', .doc = "Only if the key exists" },
	{ 0 }
};

static const struct argp_option cas_options[] = {
	{ .name = "file", .key = 'f', .arg = "FILE",
	  .doc = "Store the content of this file; - is standard input" },
	{ .name = "col", .key = 'c', .arg = "ID=VALUE",
	  .doc = "Change this column (0..255) and leave the others; may be repeated" },
	{ .name = "remove-col", .key = OPT_REMOVE_COL, .arg = "ID",
	  .doc = "Remove this column; may be repeated" },
	{ .name = "whole", .key = OPT_WHOLE,
	  .doc = "With --col: remove all columns that are not named" },
	{ 0 }
};

static int mismatch(const struct put *put)
{
	fputs("kvtree: cas '", stderr);
	put_bytes(stderr, put->k.data, put->k.len);
	if (put->version)
		fprintf(stderr, "': it has version %" PRIu64 "\n", put->version);
	else
		fputs("': the key does not exist\n", stderr);
	return STATUS_NOT;
}

static void answer(const struct put *put, int err)
{
	json_t *obj = json_new();

	json_add_bytes(obj, "key", put->k.data, put->k.len);
	json_add(obj, "stored", json_boolean(!err));
	if (!err || err == -ECANCELED)
		json_add_u64(obj, "version", put->version);
	json_print(obj);
}

static int store(struct put *put)
{
	struct kvtree *kv;
	int err;

	if (put->file)
		put->v = file_bytes(put->file);
	kv = open_store(KVTREE_OPEN_WRITE);
	if (put->cas && put->ncols)
		err = kvtree_cas_cols(kv, kvtree_slice(put->k.data, put->k.len), put->col,
				      put->ncols, put->flags, &put->version);
	else if (put->cas)
		err = kvtree_cas(kv, kvtree_slice(put->k.data, put->k.len),
				 kvtree_slice(put->v.data, put->v.len), 0, &put->version);
	else if (put->ncols)
		err = kvtree_put_cols(kv, kvtree_slice(put->k.data, put->k.len), put->col,
				      put->ncols, put->flags, &put->version);
	else
		err = kvtree_put(kv, kvtree_slice(put->k.data, put->k.len),
				 kvtree_slice(put->v.data, put->v.len), put->flags, &put->version);
	kvtree_close(kv);
	if (put->file)
		free(put->v.data);
	if (tool.json && (!err || err == -ECANCELED || err == -EEXIST || err == -ENOENT))
		answer(put, err);
	if (err == -ECANCELED)
		return mismatch(put);
	return report(err, put->cas ? "cas" : "put", &put->k);
}

int cmd_put(int argc, char **argv)
{
	const struct argp argp = {
		.options = put_options,
		.parser = parse_put,
		.args_doc = "KEY VALUE\nKEY --file FILE\nKEY --col ID=VALUE...",
		.doc = "Store a value under a key.\n"
		       "\vPrints nothing. A VALUE replaces the whole old value, with all of its\n"
		       "columns; --col leaves the columns that it does not name, unless there is\n"
		       "--whole. Put -- before keys and values that begin with -.",
		.children = common_options,
	};
	struct put put = { 0 };

	parse(&argp, argc, argv, &put);
	return store(&put);
}

int cmd_cas(int argc, char **argv)
{
	const struct argp argp = {
		.options = cas_options,
		.parser = parse_put,
		.args_doc = "KEY VERSION VALUE\n"
			    "KEY VERSION --file FILE\n"
			    "KEY VERSION --col ID=VALUE...",
		.doc = "Store a value if nobody has changed it since it had this version.\n"
		       "\vVersion 0 means that the key does not exist. \"kvtree get --print-version\"\n"
		       "shows the version. If the key has another one, nothing is changed, the\n"
		       "message shows that version, and the exit status is 1.",
		.children = common_options,
	};
	struct put put = { .cas = true };

	parse(&argp, argc, argv, &put);
	return store(&put);
}
