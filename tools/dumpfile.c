// SPDX-License-Identifier: GPL-2.0
/*
 * The format that dump writes and load reads.
 *
 *	#kvtree-dump 1
 *	KEY<tab>0=VALUE
 *	KEY<tab>0=VALUE<tab>7=VALUE
 *	#end 2
 *
 * Text, a record on each line: the key, and after each tab a column, its id in
 * decimal, ascending.  A value that was stored without columns is column 0.
 * Keys and values are written as text.c describes, so that they contain no tab
 * and no newline, and all bytes are restored exactly; a key that begins with #
 * begins with \x23.  The first line names the format and its version.  The last
 * one has the number of records: a file without it is incomplete.
 * Other lines that begin with #, and empty lines, are ignored.
 *
 * Versions of values are not in the file: load assigns new ones.
 *
 * Another format that load reads, "tsv", has lines KEY<tab>VALUE of literal bytes,
 * or of bytes in the form of --hex or --escape; a line without a tab is a key with
 * an empty value.  Empty lines are ignored.
 *
 * A file that begins with { has a JSON object on each line, as "kvtree scan
 * --json" prints them: see jsonlines.c.
 */
#include <inttypes.h>

#include "tool.h"

#define FIRST_LINE	"#kvtree-dump "
#define LAST_LINE	"#end "
#define FORMAT_VERSION	1

/* The longest line: each byte of the key and of the columns as \xHH, or \u00HH in JSON. */
static size_t line_max(const struct dumpfile *f)
{
	size_t per_byte = f->json ? 6 : 4, per_column = f->json ? 64 : sizeof("\t255=");

	return per_byte * (KVTREE_KEY_MAX + KVTREE_VALUE_MAX) + per_column * KVTREE_COLS_MAX;
}

/**
 * dumpfile_bad() - record what is wrong with a line
 * @f: the file
 * @fmt: as for printf()
 *
 * Return: -EINVAL
 */
int dumpfile_bad(struct dumpfile *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->error, sizeof(f->error), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/*
 * Read a line, without its newline.
 * Return: 1, 0 at the end of the file, -EIO, or -EINVAL for a line that is too long
 * for any record, after reading to its end
 */
static int read_line(struct dumpfile *f, size_t *len)
{
	size_t n = 0, max;
	int c;

	if (!f->line_nr && !f->tsv) {
		c = getc_unlocked(f->file);
		f->json = c == '{';
		if (c != EOF)
			ungetc(c, f->file);
	}
	max = line_max(f);
	while ((c = getc_unlocked(f->file)) != EOF && c != '\n') {
		/* Leave room for a terminating zero. */
		if (n + 1 >= f->room && n < max) {
			f->room = f->room ? 2 * f->room : 4096;
			f->line = alloc(f->line, f->room);
		}
		if (n < max)
			f->line[n] = (char)c;
		n++;
	}
	if (ferror(f->file)) {
		dumpfile_bad(f, "cannot read: %s", strerror(errno));
		return -EIO;
	}
	if (c == EOF && !n)
		return 0;
	f->line_nr++;
	f->bytes += n + (c != EOF);
	if (n > max)
		return dumpfile_bad(f, "the line is too long: a record has at most %zu bytes", max);
	if (n)
		f->line[n] = '\0';
	*len = n;
	return 1;
}

static bool starts(const struct dumpfile *f, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(f->line, with, strlen(with));
}

/*
 * Parse the rest of a line as a number.
 * Return: false if it is not one
 */
static bool rest_number(const char *text, const char *end, uint64_t *n)
{
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &stop, 10);
	return !errno && stop == end;
}

/**
 * dumpfile_begin() - read the first line
 * @f: the file, with `file` and `tsv` set and the rest zero
 *
 * Return: 0, or a negative errno with f->error set
 */
int dumpfile_begin(struct dumpfile *f)
{
	uint64_t version;
	size_t len = 0;
	int ret;

	if (f->tsv)
		return 0;
	ret = read_line(f, &len);
	if (ret < 0 && !f->json)
		return ret;
	if (f->json) {
		f->first = ret;
		f->first_len = len;
		return 0;
	}
	if (!ret || !starts(f, len, FIRST_LINE) ||
	    !rest_number(f->line + strlen(FIRST_LINE), f->line + len, &version)) {
		f->line_nr = 1;
		return dumpfile_bad(f, "not a kvtree dump, which begins with \"%s%d\" %s",
				    FIRST_LINE, FORMAT_VERSION, "(did you mean --tsv?)");
	}
	if (version != FORMAT_VERSION)
		return dumpfile_bad(f, "version %" PRIu64 " of the format is unknown: use %d",
				    version, FORMAT_VERSION);
	return 0;
}

static int key_too_long(struct dumpfile *f)
{
	return dumpfile_bad(f, "the key is too long: at most %u bytes", KVTREE_KEY_MAX);
}

/* Decode bytes in the form of --hex or --escape. */
static const char *take_bytes(char *text, size_t *len)
{
	return tool.hex ? take_hex(text, len) : tool.escape ? take_text(text, len) : NULL;
}

static int read_tsv(struct dumpfile *f, struct record *rec, size_t len)
{
	char *tab = memchr(f->line, '\t', len);
	size_t val_len = tab ? len - (size_t)(tab + 1 - f->line) : 0;
	const char *wrong;

	rec->key = f->line;
	rec->key_len = tab ? (size_t)(tab - f->line) : len;
	/* With --escape, a tab in a value is written as \t. */
	if (tool.escape && tab && memchr(tab + 1, '\t', val_len))
		return dumpfile_bad(f, "more than KEY and VALUE: use --json for columns");
	wrong = take_bytes(rec->key, &rec->key_len);
	if (!wrong && tab)
		wrong = take_bytes(tab + 1, &val_len);
	if (wrong)
		return dumpfile_bad(f, "%s", wrong);
	rec->ncols = 1;
	rec->col[0].id = 0;
	rec->col[0].data = tab ? tab + 1 : "";
	rec->col[0].len = (uint32_t)val_len;
	if (rec->key_len > KVTREE_KEY_MAX)
		return key_too_long(f);
	if (val_len > KVTREE_VALUE_MAX)
		return dumpfile_bad(f, "the value is too long: at most %u bytes", KVTREE_VALUE_MAX);
	return 1;
}

static int read_column(struct dumpfile *f, struct record *rec, char *text, size_t len)
{
	struct kvtree_column *col = &rec->col[rec->ncols];
	char *equals = memchr(text, '=', len);
	const char *wrong;
	uint64_t id;

	if (!equals || !rest_number(text, equals, &id))
		return dumpfile_bad(f, "a column that is not ID=VALUE");
	if (id >= KVTREE_COLS_MAX || (rec->ncols && id <= rec->col[rec->ncols - 1].id))
		return dumpfile_bad(f, "column %" PRIu64 ": ids go from 0 to %u and ascend", id,
				    KVTREE_COLS_MAX - 1);
	len -= (size_t)(equals + 1 - text);
	wrong = take_text(equals + 1, &len);
	if (wrong)
		return dumpfile_bad(f, "column %" PRIu64 ": %s", id, wrong);
	if (len > KVTREE_VALUE_MAX)
		return dumpfile_bad(f, "column %" PRIu64 " is too long: %s %u bytes", id,
				    "a value has at most", KVTREE_VALUE_MAX);
	col->id = (uint32_t)id;
	col->len = (uint32_t)len;
	col->data = equals + 1;
	rec->ncols++;
	return 0;
}

static int read_record(struct dumpfile *f, struct record *rec, size_t len)
{
	char *p = f->line, *end = f->line + len, *tab;
	const char *wrong;
	int err;

	tab = memchr(p, '\t', len);
	if (!tab)
		return dumpfile_bad(f, "a record without a tab after its key");
	rec->key = p;
	rec->key_len = (size_t)(tab - p);
	wrong = take_text(p, &rec->key_len);
	if (wrong)
		return dumpfile_bad(f, "the key: %s", wrong);
	if (rec->key_len > KVTREE_KEY_MAX)
		return key_too_long(f);
	rec->ncols = 0;
	for (p = tab + 1; p < end; p = tab + 1) {
		tab = memchr(p, '\t', (size_t)(end - p));
		if (!tab)
			tab = end;
		err = read_column(f, rec, p, (size_t)(tab - p));
		if (err)
			return err;
	}
	return 1;
}

static int read_last(struct dumpfile *f, size_t len)
{
	uint64_t n;

	f->ended = true;
	if (!rest_number(f->line + strlen(LAST_LINE), f->line + len, &n))
		return dumpfile_bad(f, "\"%s\" without the number of records", LAST_LINE);
	if (n != f->records)
		return dumpfile_bad(f, "its last line says that it has %" PRIu64
				    " records, but it has %" PRIu64, n, f->records);
	return 0;
}

/**
 * dumpfile_read() - read a record
 * @f: the file
 * @rec: the record, in memory of @f, valid until the next call
 *
 * Return: 1, 0 at the end, or a negative errno with f->error set: -EINVAL for a
 * bad line, after which reading may continue
 */
int dumpfile_read(struct dumpfile *f, struct record *rec)
{
	size_t len;
	int ret;

	for (;;) {
		ret = f->first;
		len = f->first_len;
		if (!ret)
			ret = read_line(f, &len);
		f->first = 0;
		if (ret < 0) {
			f->records += ret == -EINVAL && *f->line != '#';
			return ret;
		}
		if (!ret)
			break;
		if (!len)
			continue;
		if (f->tsv) {
			f->records++;
			return read_tsv(f, rec, len);
		}
		if (f->json) {
			f->records++;
			return jsonlines_read(f, rec, len);
		}
		if (f->ended)
			return dumpfile_bad(f, "something after the last line");
		if (starts(f, len, LAST_LINE)) {
			ret = read_last(f, len);
			if (ret)
				return ret;
		} else if (f->line[0] != '#') {
			/* The last line counts bad records, too. */
			f->records++;
			return read_record(f, rec, len);
		}
	}
	if (f->tsv || f->json || f->ended)
		return 0;
	f->ended = true;
	return dumpfile_bad(f, "the file is incomplete: its last line should be \"%s%" PRIu64 "\"",
			    LAST_LINE, f->records);
}

/**
 * dumpfile_end() - free the file's memory
 * @f: the file
 */
void dumpfile_end(struct dumpfile *f)
{
	json_decref(f->object);
	free(f->decoded);
	free(f->line);
}

/**
 * dumpfile_write_first() - write the first line
 * @out: the output
 */
void dumpfile_write_first(FILE *out)
{
	fprintf(out, "%s%d\n", FIRST_LINE, FORMAT_VERSION);
}

/**
 * dumpfile_write() - write a record
 * @out: the output
 * @key: its key
 * @key_len: bytes at @key
 * @cols: its value
 */
void dumpfile_write(FILE *out, const char *key, size_t key_len,
		    const struct kvtree_columns *cols)
{
	size_t i;

	if (key_len && *key == '#') {
		fputs("\\x23", out);
		key++;
		key_len--;
	}
	put_text(out, key, key_len);
	/* Write the tab even without columns. */
	putc_unlocked('\t', out);
	for (i = 0; i < cols->nr; i++) {
		fprintf(out, i ? "\t%u=" : "%u=", cols->col[i].id);
		put_text(out, cols->col[i].data, cols->col[i].len);
	}
	putc_unlocked('\n', out);
}

/**
 * dumpfile_write_last() - write the last line
 * @out: the output
 * @records: records written
 */
void dumpfile_write_last(FILE *out, uint64_t records)
{
	fprintf(out, "%s%" PRIu64 "\n", LAST_LINE, records);
}
