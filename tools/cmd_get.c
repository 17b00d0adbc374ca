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
	bool want[KVTREE_COLS_MAX];
	uint16_t ids[KVTREE_COLS_MAX];
	size_t nids;
	struct bytes k;
};

static error_t parse_get(int key, char *arg, struct argp_state *state)
{
	struct get *get = state->input;
	size_t i;

	switch (key) {
	case 'c':
		get->want[arg_column(state, arg)] = true;
		return 0;
	case 'A':
		get->all_cols = true;
		return 0;
	case OPT_PRINT_VERSION:
		get->print_version = true;
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
		for (i = 0; i < KVTREE_COLS_MAX; i++)
			if (get->want[i])
				get->ids[get->nids++] = (uint16_t)i;
		if (get->nids && get->all_cols)
			argp_error(state, "--col and --all-cols exclude each other");
		if (get->file && (tool.json || get->print_version))
			argp_error(state, "--file takes the value alone");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "col", .key = 'c', .arg = "ID",
	  .doc = "Print this column (0..255); with more than one, lines ID=VALUE" },
	{ .name = "all-cols", .key = 'A', .doc = "Print every column, on lines ID=VALUE" },
	{ .name = "print-version", .key = OPT_PRINT_VERSION,
	  .doc = "Print the version instead of the value" },
	{ .name = "file", .key = 'f', .arg = "FILE",
	  .doc = "Write the value to a file, byte for byte" },
	{ 0 }
};

/* The value as it is; a terminal gets a newline behind it, and --hex always. */
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

static int print(const struct get *get, const struct bytes *value,
		 const struct kvtree_columns *cols, uint64_t version)
{
	struct outfile file;
	json_t *obj;

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
	if (cols && get->nids == 1 && cols->col[0].len == KVTREE_COL_ABSENT) {
		warn("get: the value has no column %u", get->ids[0]);
		return STATUS_NOT;
	}
	outfile_open(&file, get->file);
	if (!cols)
		print_value(file.out, value->data, value->len);
	else if (get->nids != 1)
		print_columns(file.out, cols);
	else
		print_value(file.out, cols->col[0].data, cols->col[0].len);
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
		       "\vThe value is printed byte for byte; on a terminal a newline follows it.\n"
		       "If the key is not there, the exit status is 1.",
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
		err = kvtree_get_cols(kv, get.k.data, get.k.len, get.nids ? get.ids : NULL,
				      get.nids, &cols);
		if (!err)
			version = cols->version;
	} else {
		err = kvtree_get(kv, get.k.data, get.k.len, &data, &value.len, &version);
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
