// SPDX-License-Identifier: GPL-2.0
/*
 * get: look a key up.
 */
#include <inttypes.h>
#include <unistd.h>

#include "tool.h"

/* Options without a letter. */
enum { OPT_PRINT_VERSION = 256 };

struct get {
	const char *key;
	const char *file;
	bool print_version;
	bool all_cols;
	bool number;
	bool want[KVTREE_COLS_MAX];
	uint16_t ids[KVTREE_COLS_MAX];
	size_t nids;
	struct bytes k;
};

static error_t parse_get(int key, char *arg, struct argp_state *state)
{
	struct get *get = state->input;

	switch (key) {
	case 'c':
		arg_columns(state, get->want, arg);
		return 0;
	case 'A':
		get->all_cols = true;
		return 0;
	case OPT_PRINT_VERSION:
		get->print_version = true;
		return 0;
	case 'N':
		get->number = true;
		return 0;
	case 'f':
		get->file = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (get->key)
			argp_error(state, "too many arguments: get takes one KEY");
		get->key = arg;
		return 0;
	case ARGP_KEY_END:
		if (!get->key)
			argp_usage(state);
		get->k = arg_bytes(state, "key", get->key);
		get->nids = column_ids(get->want, get->ids);
		if (get->nids && get->all_cols)
			argp_error(state, "--col and --all-cols exclude each other");
		if (get->file && (tool.json || get->print_version))
			argp_error(state, "--file takes the value alone");
		if (get->number && (get->file || get->all_cols || get->print_version ||
				    get->nids > 1))
			argp_error(state, "--number prints one number: a value, or one column");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "col", .key = 'c', .arg = "ID,...",
	  .doc = "Print this column (0..255), or if repeated, several as lines ID=VALUE" },
	{ .name = "all-cols", .key = 'A', .doc = "Print every column, on lines ID=VALUE" },
	{ .name = "number", .key = 'N',
	  .doc = "Print the number that add has stored, in decimal" },
	{ .name = "print-version", .key = OPT_PRINT_VERSION,
	  .doc = "Print the version instead of the value" },
	{ .name = "file", .key = 'f', .arg = "FILE",
	  .doc = "Write the value to a file, byte for byte" },
	{ 0 }
};

/* Print the value as it is, on a terminal or with --hex with a newline. */
static void print_value(FILE *out, const void *data, size_t len)
{
	if (tool.hex) {
		put_hex(out, data, len);
		putc('\n', out);
		return;
	}
	fwrite(data, 1, len, out);
	if (isatty(fileno(out)) && (!len || ((const char *)data)[len - 1] != '\n'))
		putc('\n', out);
}

static void print_columns(FILE *out, const struct kvtree_columns *cols)
{
	size_t i;

	for (i = 0; i < cols->nr; i++) {
		if (cols->col[i].len == KVTREE_COL_ABSENT)
			continue;
		put_column(out, &cols->col[i]);
		putc('\n', out);
	}
}

/* The number as add stores it: 8 bytes, little-endian, signed. */
static int print_number(const struct get *get, const struct bytes *value, uint64_t version)
{
	const unsigned char *at = (const unsigned char *)value->data;
	uint64_t n = 0;
	json_t *obj;
	int i;

	if (value->len != sizeof(n)) {
		warn("get: it is not a number: it has %zu byte%s instead of 8", value->len,
		     plural(value->len));
		return STATUS_ERROR;
	}
	for (i = sizeof(n) - 1; i >= 0; i--)
		n = n << 8 | at[i];
	if (!tool.json) {
		printf("%" PRId64 "\n", (int64_t)n);
		return STATUS_OK;
	}
	obj = json_new();
	json_add_bytes(obj, "key", get->k.data, get->k.len);
	json_add(obj, "found", json_true());
	json_add_u64(obj, "version", version);
	json_add(obj, "number", json_integer((int64_t)n));
	json_print(obj);
	return STATUS_OK;
}

/* The value, or the single column of it, that was requested. */
static struct bytes only_value(const struct bytes *value, const struct kvtree_columns *cols)
{
	if (!cols)
		return *value;
	return (struct bytes){ .data = (char *)cols->col[0].data, .len = cols->col[0].len };
}

static int print(const struct get *get, const struct bytes *value,
		 const struct kvtree_columns *cols, uint64_t version)
{
	struct bytes only;
	struct outfile file;
	json_t *obj;

	if (cols && get->nids == 1 && cols->col[0].len == KVTREE_COL_ABSENT &&
	    (get->number || !(tool.json || get->print_version))) {
		warn("get: the value has no column %u", get->ids[0]);
		return STATUS_NOT;
	}
	if (get->number) {
		only = only_value(value, cols);
		return print_number(get, &only, version);
	}
	if (tool.json) {
		obj = json_new();
		json_add_bytes(obj, "key", get->k.data, get->k.len);
		json_add(obj, "found", json_true());
		json_add_u64(obj, "version", version);
		if (cols)
			json_add_columns(obj, cols);
		else if (!get->print_version)
			json_add_bytes(obj, "value", value->data, value->len);
		json_print(obj);
		return STATUS_OK;
	}
	if (get->print_version) {
		printf("%" PRIu64 "\n", version);
		return STATUS_OK;
	}
	outfile_open(&file, get->file);
	if (cols && get->nids != 1) {
		print_columns(file.out, cols);
	} else {
		only = only_value(value, cols);
		print_value(file.out, only.data, only.len);
	}
	outfile_commit(&file);
	return STATUS_OK;
}

int cmd_get(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_get,
		.args_doc = "KEY",
		.doc = "Print the value of a key.\n"
		       "\vThe value is printed byte for byte, and on a terminal a newline.\n"
		       "If the key does not exist, the exit status is 1.",
		.children = common_options,
	};
	struct kvtree_columns *cols = NULL;
	struct bytes value = { 0 };
	struct get get = { 0 };
	uint64_t version = 0;
	struct kvtree *kv;
	int err, status;
	void *data = NULL;
	json_t *obj;

	parse(&argp, argc, argv, &get);
	kv = open_store(KVTREE_OPEN_READ);
	if (get.nids || get.all_cols) {
		err = kvtree_get_cols(kv, kvtree_slice(get.k.data, get.k.len),
				      get.nids ? get.ids : NULL, get.nids, &cols);
		if (!err)
			version = cols->version;
	} else {
		err = kvtree_get(kv, kvtree_slice(get.k.data, get.k.len), &data, &value.len,
				 &version);
		value.data = data;
	}
	kvtree_close(kv);
	if (tool.json && err == -ENOENT) {
		obj = json_new();
		json_add_bytes(obj, "key", get.k.data, get.k.len);
		json_add(obj, "found", json_false());
		json_print(obj);
	}
	status = err ? report(err, "get", &get.k) : print(&get, &value, cols, version);
	free(data);
	free(cols);
	return status;
}
