// SPDX-License-Identifier: GPL-2.0
/*
 * dump: write all records to a file.
 */
#include <unistd.h>

#include "tool.h"

#define READ_AHEAD	(1u << 20)

struct dump {
	const char *path;
	bool progress;
};

static error_t parse_dump(int key, char *arg, struct argp_state *state)
{
	struct dump *dump = state->input;

	switch (key) {
	case 'P':
		dump->progress = true;
		return 0;
	case ARGP_KEY_ARG:
		if (dump->path)
			argp_error(state, "too many arguments: dump takes one FILE");
		dump->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (dump->path && !strcmp(dump->path, "-"))
			dump->path = NULL;
		if (tool.json && !dump->path)
			argp_error(state,
				   "--json needs a FILE (kvtree scan --json prints records as JSON)");
		if (tool.hex)
			argp_error(state, "--hex: the format is fixed (but see kvtree scan --hex)");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "progress", .key = 'P',
	  .doc = "Show progress even if standard error is not a terminal" },
	{ 0 }
};

static void answer(uint64_t records, double seconds)
{
	json_t *obj = json_new();

	json_add_u64(obj, "records", records);
	json_add(obj, "seconds", json_real(seconds));
	json_print(obj);
}

/* The dump, and its progress. */
struct done {
	struct progress progress;
	uint64_t records;
	uint64_t bytes;
};

static int write_all(struct kvtree_cursor *c, FILE *out, struct done *done)
{
	const struct kvtree_columns *cols;
	const void *key;
	size_t len, i;
	int err;

	dumpfile_write_first(out);
	while (!(err = kvtree_cursor_next(c)) && !ferror(out)) {
		key = kvtree_cursor_key(c, &len);
		cols = kvtree_cursor_columns(c);
		dumpfile_write(out, key, len, cols);
		done->bytes += len;
		for (i = 0; i < cols->nr; i++)
			done->bytes += cols->col[i].len;
		done->records++;
		if (done->records % 256 == 0)
			progress_show(&done->progress, done->records, done->records,
				      done->bytes);
	}
	if (err && err != -ENOENT)
		return err;
	dumpfile_write_last(out, done->records);
	return 0;
}

int cmd_dump(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_dump,
		.args_doc = "[FILE]",
		.doc = "Write all records of the store to FILE, or to standard output.\n"
		       "\v\"kvtree load\" reads the file, into any store. One line per record:\n"
		       "\n"
		       "  KEY<tab>ID=VALUE[<tab>ID=VALUE...]\n"
		       "\n"
		       "where ID is a column (0 for a value without columns), and backslashes and\n"
		       "bytes that cannot be printed come as \\\\, \\t, \\n, \\r and \\xHH. The first line\n"
		       "is \"#kvtree-dump 1\", the last one \"#end\" and the number of records. Records\n"
		       "changed while the dump runs are in it with the old or the new value.\n"
		       "An existing FILE is replaced when the new one is on the disk.",
		.children = common_options,
	};
	struct kvtree_cursor_opts opts = {
		.size = sizeof(opts),
		.flags = KVTREE_CURSOR_ALL_COLS,
		.buffer = READ_AHEAD,
	};
	struct kvtree_store_info si = { 0 };
	struct dump dump = { 0 };
	struct done done = { 0 };
	struct kvtree_cursor *c;
	struct outfile file;
	struct kvtree *kv;
	double took;
	int err;

	parse(&argp, argc, argv, &dump);
	kv = open_store(KVTREE_OPEN_READ);
	outfile_open(&file, dump.path);
	/* It would clutter a terminal that shows the records. */
	if (isatty(STDERR_FILENO) && !isatty(fileno(file.out)))
		dump.progress = true;
	if (dump.progress)
		kvtree_store_self(kv, &si, sizeof(si));
	progress_start(&done.progress, "dump", dump.progress, si.keys);
	err = kvtree_cursor_open(kv, &opts, &c);
	if (!err) {
		err = write_all(c, file.out, &done);
		kvtree_cursor_close(c);
	}
	kvtree_close(kv);
	if (err) {
		report(err, "dump", NULL);
		die("dump: %s", file.part ? "no file was written" :
		    "the output is incomplete, and load will say so");
	}
	outfile_commit(&file);
	took = progress_end(&done.progress, "dumped", done.records, done.bytes);
	if (tool.json)
		answer(done.records, took);
	return STATUS_OK;
}
