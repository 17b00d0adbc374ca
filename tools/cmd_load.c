// SPDX-License-Identifier: GPL-2.0
/*
 * load: store all records of a file.
 *
 * Records are collected in an operation list, which is run when it is long
 * enough.  A record is one operation that puts the whole value: after a load the
 * columns are exactly those in the file, and a concurrent reader sees the old
 * value or the file's.
 */
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define BATCH_OPS	1024		/* run the list after this many operations */
#define BATCH_BYTES	(1u << 20)	/* or this many bytes */
#define COMPLAIN_MAX	10		/* errors to print with --keep-going */

/* Options without a letter. */
enum { OPT_TSV = 256, OPT_KEEP_GOING };

struct load {
	const char *path;
	bool tsv;
	bool keep_going;
	bool progress;

	struct dumpfile in;
	struct kvtree *kv;
	struct kvtree_ops *ops;
	size_t bytes;				/* in the list */
	uint64_t line[BATCH_OPS];		/* line of each operation */
	uint64_t stored;			/* records */
	uint64_t failed;
};

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
	struct load *load = state->input;

	switch (key) {
	case OPT_TSV:
		load->tsv = true;
		return 0;
	case OPT_KEEP_GOING:
		load->keep_going = true;
		return 0;
	case 'P':
		load->progress = true;
		return 0;
	case ARGP_KEY_ARG:
		if (load->path)
			argp_error(state, "too many arguments: load takes one FILE");
		load->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!load->path)
			argp_error(state, "missing FILE: give one, or - for standard input");
		if ((tool.hex || tool.escape) && !load->tsv)
			argp_error(state, "--hex and --escape need --tsv");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "tsv", .key = OPT_TSV,
	  .doc = "The file has lines KEY<tab>VALUE" },
	{ .name = "keep-going", .key = OPT_KEEP_GOING,
	  .doc = "Skip records that cannot be stored, instead of stopping at the first one" },
	{ .name = "progress", .key = 'P',
	  .doc = "Show progress even if standard error is not a terminal" },
	{ 0 }
};

static void __attribute__((format(printf, 3, 4)))
complain(struct load *load, uint64_t line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	load->failed++;
	if (load->failed > (load->keep_going ? COMPLAIN_MAX : 1))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	warn("load: %s:%" PRIu64 ": %s", load->path, line, text);
	if (load->keep_going && load->failed == COMPLAIN_MAX)
		warn("load: more errors are counted, but not shown");
}

/*
 * Run the list, and check the result of each record.
 * Return: false to stop
 */
static bool run(struct load *load)
{
	size_t i, done;
	int err, res;

	if (!kvtree_ops_count(load->ops))
		return true;
	err = kvtree_ops_run(load->ops, load->kv);
	done = kvtree_ops_done(load->ops);
	for (i = 0; i < done; i++) {
		res = kvtree_ops_result(load->ops, i);
		if (res < 0)
			complain(load, load->line[i], "%s", reason(res));
		else
			load->stored++;
	}
	if (err) {
		complain(load, load->line[done], "%s", reason(err));
		return false;
	}
	kvtree_ops_clear(load->ops);
	load->bytes = 0;
	return !load->failed || load->keep_going;
}

/*
 * Add a record to the list.
 * Return: 0 or a negative errno, with the list unchanged
 */
static int add(struct load *load, const struct record *rec)
{
	size_t i;
	int n;

	/* A put without columns stores only column 0, at less cost. */
	if (rec->ncols == 1 && !rec->col[0].id)
		n = kvtree_ops_put(load->ops, kvtree_slice(rec->key, rec->key_len),
				   kvtree_slice(rec->col[0].data, rec->col[0].len), 0);
	else
		n = kvtree_ops_put_cols(load->ops, kvtree_slice(rec->key, rec->key_len), rec->col,
					rec->ncols, KVTREE_F_WHOLE);
	if (n < 0)
		return n;
	load->line[n] = load->in.line_nr;
	load->bytes += rec->key_len;
	for (i = 0; i < rec->ncols; i++)
		load->bytes += rec->col[i].len;
	return 0;
}

/* Read and store records until the end or an error. */
static void load_all(struct load *load, struct progress *progress)
{
	struct record *rec = alloc(NULL, sizeof(*rec));
	bool go = true;
	int ret, err;

	while (go) {
		ret = dumpfile_read(&load->in, rec);
		if (!ret)
			break;
		err = ret > 0 ? add(load, rec) : 0;
		if (ret < 0)
			complain(load, load->in.line_nr, "%s", load->in.error);
		else if (err)
			complain(load, load->in.line_nr, "%s", reason(err));
		if ((ret < 0 || err) && (!load->keep_going || ret == -EIO))
			break;
		if (kvtree_ops_count(load->ops) == BATCH_OPS || load->bytes >= BATCH_BYTES) {
			go = run(load);
			progress_show(progress, load->in.bytes, load->stored, load->in.bytes);
		}
	}
	/* Store the records before a bad line, even if the line ends the load. */
	if (go)
		run(load);
	free(rec);
}

static int answer(const struct load *load, double seconds)
{
	json_t *obj;

	if (tool.json) {
		obj = json_new();
		json_add_u64(obj, "records", load->stored);
		json_add_u64(obj, "failed", load->failed);
		json_add_u64(obj, "bytes", load->in.bytes);
		json_add(obj, "seconds", json_real(seconds));
		json_print(obj);
	}
	if (!load->failed)
		return STATUS_OK;
	if (load->keep_going)
		warn("load: %" PRIu64 " record%s stored, %" PRIu64 " error%s", load->stored,
		     plural(load->stored), load->failed, plural(load->failed));
	else
		warn("load: stopped; %" PRIu64 " record%s stored; the file may be loaded again",
		     load->stored, plural(load->stored));
	return STATUS_ERROR;
}

int cmd_load(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_load,
		.args_doc = "FILE",
		.doc = "Store all records of a file: of dump, of JSON lines, or of KEY<tab>VALUE.\n"
		       "\vFILE - is standard input. \"kvtree help dump\" describes the format. A file\n"
		       "that begins with { has an object on each line, as \"kvtree scan --json\"\n"
		       "prints them. With --tsv there are no columns and no escapes (but --escape and\n"
		       "--hex read what scan prints), a line without a tab is a key with an empty\n"
		       "value, and empty lines are ignored.\n"
		       "\n"
		       "A record replaces the whole value of its key. An error is reported with\n"
		       "the number of its line, and the exit status is 3; records before that line\n"
		       "are stored, and some after it may be. Loading a file twice does no harm.",
		.children = common_options,
	};
	struct load *load = alloc(NULL, sizeof(*load));
	struct progress progress = { 0 };
	uint64_t total = 0;
	struct stat st;
	double took;
	int status;

	memset(load, 0, sizeof(*load));
	parse(&argp, argc, argv, load);
	load->in.tsv = load->tsv;
	load->in.file = strcmp(load->path, "-") ? fopen(load->path, "re") : stdin;
	if (!load->in.file)
		die("cannot open %s: %m", load->path);
	if (!fstat(fileno(load->in.file), &st) && S_ISREG(st.st_mode))
		total = (uint64_t)st.st_size;
	if (dumpfile_begin(&load->in))
		die("load: %s:%" PRIu64 ": %s", load->path, load->in.line_nr, load->in.error);
	load->kv = open_store(KVTREE_OPEN_WRITE);
	if (kvtree_ops_new(&load->ops))
		die("out of memory");
	progress_start(&progress, "load", load->progress || isatty(STDERR_FILENO), total);
	load_all(load, &progress);
	took = progress_end(&progress, "loaded", load->stored, load->in.bytes);
	status = answer(load, took);
	kvtree_ops_free(load->ops);
	kvtree_close(load->kv);
	if (load->in.file != stdin)
		fclose(load->in.file);
	dumpfile_end(&load->in);
	free(load);
	return status;
}
