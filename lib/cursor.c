// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Cursors.
 *
 * A cursor's range is the half-open interval [low, high) of keys; a prefix is
 * turned into such an interval when the cursor is made.  Directions in this
 * file are UP (towards greater keys) and DOWN; only the calls of the API know
 * that a reverse cursor's "next" means DOWN.
 *
 * A window holds the records of one scan, in the direction of that scan.  A
 * step inside the window changes the position; a step out of it starts a new
 * scan at the cursor's key, in the direction of the step, into a second window.
 * The windows are swapped only when the scan returned records, so an error
 * leaves the cursor where it was.
 */
#include <stdlib.h>

#include "internal.h"

#define WINDOW_FIRST	4096u	/* bytes of the first read */
#define WINDOW_MAX	65536u	/* it doubles up to here */
#define WINDOW_LIMIT	(1u << 30)

enum dir { UP, DOWN };

struct window {
	char *mem;
	size_t size;		/* bytes at mem */
	uint32_t *at;		/* where each record starts */
	size_t at_room;		/* elements at `at` */
	size_t nr;		/* records */
	uint32_t mark;		/* where the mark of a filtered scan starts ... */
	bool marked;		/* ... if there is one */
	enum dir dir;
	bool last;		/* no record follows it in dir */
};

struct kvtree_cursor {
	const struct kvtree *kv;
	unsigned int flags;
	unsigned int max_records;
	unsigned int filter;
	size_t max_bytes;	/* of a window, unless one record is longer */
	size_t next_bytes;	/* size of the next window */

	char *low;		/* the range; low_len 0: no lower bound */
	size_t low_len;
	char *high;		/* NULL: no upper bound */
	size_t high_len;
	bool nothing;		/* no key can be in the range */

	uint16_t *cols;
	size_t ncols;
	struct kvtree_columns *found;	/* columns of the record, if any are read */

	enum { BELOW, ON, ABOVE } where; /* all records, a record, all records */
	struct window *win;	/* ON: the window around the record */
	struct window *spare;
	size_t pos;		/* ON: the record, of win */
	struct window window[2];
};

static int compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
	size_t len = a_len < b_len ? a_len : b_len;
	int diff = len ? memcmp(a, b, len) : 0;

	if (diff)
		return diff;
	return a_len < b_len ? -1 : a_len > b_len;
}

/*
 * Copy the record header out.  The kernel aligns it to 8 bytes, but the check
 * must also be safe for a damaged one.
 */
static struct kvtree_rec header(const struct window *w, size_t n)
{
	struct kvtree_rec rec;

	memcpy(&rec, w->mem + w->at[n], sizeof(rec));
	return rec;
}

/* The key at which a filtered scan stopped, after the last record. */
static const char *mark_key(const struct window *w, size_t *len)
{
	struct kvtree_rec rec;

	memcpy(&rec, w->mem + w->mark, sizeof(rec));
	*len = rec.key_len;
	return w->mem + w->mark + rec.hdr_len;
}

static const char *rec_key(const struct window *w, size_t n, size_t *len)
{
	struct kvtree_rec rec = header(w, n);

	*len = rec.key_len;
	return w->mem + w->at[n] + rec.hdr_len;
}

static const char *rec_value(const struct window *w, size_t n, size_t *len)
{
	struct kvtree_rec rec = header(w, n);

	*len = rec.val_len;
	return w->mem + w->at[n] + rec.hdr_len + rec.key_len;
}

static bool reads_cols(const struct kvtree_cursor *c)
{
	return c->found;
}

/* Check the column descriptors of a record, and their lengths. */
static bool cols_sound(const struct kvtree_rec *rec, const char *val)
{
	size_t need = rec->ncols * sizeof(struct kvtree_col), i;
	struct kvtree_col desc;

	if (rec->ncols > KVTREE_COLS_MAX || need > rec->val_len)
		return false;
	for (i = 0; i < rec->ncols; i++) {
		memcpy(&desc, val + i * sizeof(desc), sizeof(desc));
		if (desc.len > rec->val_len - need)
			return false;
		need += desc.len;
	}
	return true;
}

/* Check the record at an offset, and copy its header out. */
static int record_read(const struct window *w, size_t len, size_t off, struct kvtree_rec *rec)
{
	if (len - off < sizeof(*rec))
		return -EBADMSG;
	memcpy(rec, w->mem + off, sizeof(*rec));
	if (rec->rec_len > len - off || rec->hdr_len < sizeof(*rec) ||
	    (size_t)rec->hdr_len + rec->key_len + rec->val_len > rec->rec_len)
		return -EBADMSG;
	return 0;
}

/* A mark may follow the records of a filtered scan. */
static int window_mark(struct kvtree_cursor *c, struct window *w, size_t len, size_t off)
{
	struct kvtree_rec rec;

	w->marked = false;
	if (!c->filter || off == len)
		return 0;
	if (record_read(w, len, off, &rec) || !(rec.flags & KVTREE_REC_MARK))
		return -EBADMSG;
	w->mark = (uint32_t)off;
	w->marked = true;
	return 0;
}

/*
 * Find the records in a window.  Check what the kernel wrote first: a damaged
 * length must not lead out of the buffer.
 */
static int window_index(struct kvtree_cursor *c, struct window *w, size_t len,
			size_t nr)
{
	struct kvtree_rec rec;
	size_t off = 0, n;
	uint32_t *at;

	if (nr > len / sizeof(rec))
		return -EBADMSG;
	if (nr > w->at_room) {
		at = realloc(w->at, nr * sizeof(*at));
		if (!at)
			return -ENOMEM;
		w->at = at;
		w->at_room = nr;
	}
	for (n = 0; n < nr; n++) {
		if (record_read(w, len, off, &rec))
			return -EBADMSG;
		if (reads_cols(c) &&
		    !cols_sound(&rec, w->mem + off + rec.hdr_len + rec.key_len))
			return -EBADMSG;
		w->at[n] = (uint32_t)off;
		off += rec.rec_len;
	}
	w->nr = nr;
	return window_mark(c, w, len, off);
}

static int window_grow(struct window *w, size_t size)
{
	char *mem;

	if (size <= w->size)
		return 0;
	/* The old content is not needed: avoid the copy of realloc(). */
	mem = malloc(size);
	if (!mem)
		return -ENOMEM;
	free(w->mem);
	w->mem = mem;
	w->size = size;
	return 0;
}

/* Describe a scan in a direction. */
static void scan_init(const struct kvtree_cursor *c, enum dir dir, unsigned int how,
		      struct kvtree_scan *scan)
{
	memset(scan, 0, sizeof(*scan));
	scan->flags = how;
	scan->limit = c->max_records;
	scan->filter_id = c->filter;
	if (dir == DOWN) {
		scan->flags |= KVTREE_SCAN_REVERSE;
		if (c->low_len) {
			scan->flags |= KVTREE_SCAN_END_INCL;
			scan->end = kvt_ptr(c->low);
			scan->end_len = (__u16)c->low_len;
		}
	} else if (c->high) {
		scan->flags |= KVTREE_SCAN_END;
		scan->end = kvt_ptr(c->high);
		scan->end_len = (__u16)c->high_len;
	}
	if (c->flags & KVTREE_CURSOR_KEYS_ONLY) {
		scan->flags |= KVTREE_SCAN_KEYS_ONLY;
	} else if (c->flags & KVTREE_CURSOR_ALL_COLS) {
		scan->flags |= KVTREE_SCAN_ALL_COLS;
	} else if (c->ncols) {
		scan->cols = kvt_ptr(c->cols);
		scan->ncols = (__u16)c->ncols;
	}
}

/*
 * One scan into the spare window, which may find nothing.
 * how: KVTREE_SCAN_AFTER, KVTREE_SCAN_LAST or 0
 */
static int window_scan(struct kvtree_cursor *c, enum dir dir, struct kvtree_slice from,
		       unsigned int how)
{
	struct window *w = c->spare;
	size_t size = c->next_bytes;
	struct kvtree_scan scan;
	struct kvtree_op op;
	int ret;

	for (;;) {
		ret = window_grow(w, size);
		if (ret)
			return ret;
		scan_init(c, dir, how, &scan);
		ret = kvtree_op_scan(&op, from, &scan, w->mem, size);
		if (ret)
			return ret;
		ret = kvt_run_one(c->kv, &op);
		if (ret != -EMSGSIZE)
			break;
		/* The first record alone is longer than the window. */
		if (op.val_len <= size || op.val_len > WINDOW_LIMIT)
			return -EBADMSG;
		size = op.val_len;
	}
	if (ret < 0)
		return ret;
	if ((size_t)ret > size)
		return -EBADMSG;
	w->dir = dir;
	w->last = scan.out_flags & KVTREE_SCAN_DONE;
	return window_index(c, w, (size_t)ret, scan.count);
}

/*
 * Read records into the spare window, and make it the current one if there are
 * any.  If a filter has rejected all records of a scan, continue after its mark.
 * how: as window_scan()
 * Return: 0; -ENOENT if there are none, with the cursor unchanged; an error
 */
static int window_read(struct kvtree_cursor *c, enum dir dir, struct kvtree_slice from,
		       unsigned int how)
{
	char key[KVTREE_KEY_MAX];
	const char *mark;
	struct window *w;
	int err;

	if (c->nothing)
		return -ENOENT;
	err = window_scan(c, dir, from, how);
	while (!err && !c->spare->nr && c->spare->marked) {
		mark = mark_key(c->spare, &from.len);
		if (from.len > sizeof(key))
			return -EBADMSG;
		from.data = memcpy(key, mark, from.len);
		err = window_scan(c, dir, from, KVTREE_SCAN_AFTER);
	}
	if (err)
		return err;
	w = c->spare;
	if (!w->nr)
		return -ENOENT;
	c->spare = c->win;
	c->win = w;
	c->pos = 0;
	c->where = ON;
	if (c->next_bytes < c->max_bytes) {
		c->next_bytes *= 2;
		if (c->next_bytes > c->max_bytes)
			c->next_bytes = c->max_bytes;
	}
	return 0;
}

/* After a jump, nothing is known about how far the caller will read. */
static void start_small(struct kvtree_cursor *c)
{
	c->next_bytes = c->max_bytes < WINDOW_FIRST ? c->max_bytes : WINDOW_FIRST;
}

/* Go to the range's first record in a direction. */
static int enter(struct kvtree_cursor *c, enum dir dir)
{
	int err;

	start_small(c);
	if (dir == UP)
		err = window_read(c, UP, kvtree_slice(c->low, c->low_len), 0);
	else if (c->high)
		err = window_read(c, DOWN, kvtree_slice(c->high, c->high_len),
				  KVTREE_SCAN_AFTER);
	else
		err = window_read(c, DOWN, kvtree_slice(NULL, 0), KVTREE_SCAN_LAST);
	if (err == -ENOENT)
		c->where = dir == UP ? ABOVE : BELOW;
	return err;
}

static int step(struct kvtree_cursor *c, enum dir dir)
{
	const char *key;
	size_t len;
	int err;

	if (c->where == (dir == UP ? ABOVE : BELOW))
		return -ENOENT;
	if (c->where != ON)
		return enter(c, dir);
	if (c->win->dir != dir) {
		if (c->pos) {
			c->pos--;
			return 0;
		}
	} else if (c->pos + 1 < c->win->nr) {
		c->pos++;
		return 0;
	} else if (c->win->last) {
		c->where = dir == UP ? ABOVE : BELOW;
		return -ENOENT;
	}
	/* Leave the window in the direction in which it was read, or backwards. */
	if (c->win->dir == dir && c->win->marked)
		key = mark_key(c->win, &len);
	else
		key = rec_key(c->win, c->pos, &len);
	err = window_read(c, dir, kvtree_slice(key, len), KVTREE_SCAN_AFTER);
	if (err == -ENOENT)
		c->where = dir == UP ? ABOVE : BELOW;
	return err;
}

static enum dir forward(const struct kvtree_cursor *c)
{
	return c->flags & KVTREE_CURSOR_REVERSE ? DOWN : UP;
}

static enum dir backward(const struct kvtree_cursor *c)
{
	return c->flags & KVTREE_CURSOR_REVERSE ? UP : DOWN;
}

KVTREE_API int kvtree_cursor_next(struct kvtree_cursor *c)
{
	return step(c, forward(c));
}

KVTREE_API int kvtree_cursor_prev(struct kvtree_cursor *c)
{
	return step(c, backward(c));
}

KVTREE_API int kvtree_cursor_first(struct kvtree_cursor *c)
{
	return enter(c, forward(c));
}

KVTREE_API int kvtree_cursor_last(struct kvtree_cursor *c)
{
	return enter(c, backward(c));
}

KVTREE_API int kvtree_cursor_seek(struct kvtree_cursor *c, struct kvtree_slice key)
{
	enum dir dir = forward(c);
	bool under, over;
	int err;

	if (key.len > KVTREE_KEY_MAX)
		return -E2BIG;
	under = compare(key.data, key.len, c->low, c->low_len) < 0;
	over = c->high && compare(key.data, key.len, c->high, c->high_len) >= 0;
	if (dir == UP ? under : over)
		return enter(c, dir);
	start_small(c);
	if (dir == UP ? over : under)
		err = -ENOENT;
	else
		err = window_read(c, dir, key, 0);
	if (err == -ENOENT)
		c->where = dir == UP ? ABOVE : BELOW;
	return err;
}

KVTREE_API const void *kvtree_cursor_key(const struct kvtree_cursor *c,
					 size_t *len)
{
	const char *key;
	size_t n;

	if (c->where != ON)
		return NULL;
	key = rec_key(c->win, c->pos, &n);
	if (len)
		*len = n;
	return key;
}

KVTREE_API const void *kvtree_cursor_value(const struct kvtree_cursor *c,
					   size_t *len)
{
	const char *val;
	size_t n;

	if (c->where != ON || reads_cols(c) || c->flags & KVTREE_CURSOR_KEYS_ONLY)
		return NULL;
	val = rec_value(c->win, c->pos, &n);
	if (len)
		*len = n;
	return val;
}

KVTREE_API const struct kvtree_columns *
kvtree_cursor_columns(const struct kvtree_cursor *c)
{
	struct kvtree_col desc[KVTREE_COLS_MAX];
	struct kvtree_rec rec;
	const char *val;
	size_t len;

	if (c->where != ON || !reads_cols(c))
		return NULL;
	rec = header(c->win, c->pos);
	val = rec_value(c->win, c->pos, &len);
	len = rec.ncols * sizeof(desc[0]);
	memcpy(desc, val, len);
	kvt_cols_scatter(c->found->col, desc, rec.ncols, val + len);
	c->found->nr = rec.ncols;
	c->found->version = rec.version;
	return c->found;
}

KVTREE_API uint64_t kvtree_cursor_version(const struct kvtree_cursor *c)
{
	return c->where == ON ? header(c->win, c->pos).version : 0;
}

static char *copy(const void *p, size_t len)
{
	char *new = malloc(len + 1);	/* never 0, which may return NULL */

	if (new && len)
		memcpy(new, p, len);
	return new;
}

/*
 * The least key above all keys that begin with a prefix: increment the last byte
 * that is not 0xff, and cut off the rest.  A prefix without such a byte has no
 * such key.
 * Return: its length, 0 if there is none
 */
static size_t prefix_end(char *key, size_t len)
{
	while (len && (unsigned char)key[len - 1] == 0xff)
		len--;
	if (len)
		key[len - 1]++;
	return len;
}

static int set_range(struct kvtree_cursor *c, const struct kvtree_cursor_opts *o)
{
	size_t len;
	char *end;

	c->low_len = o->start_len;
	c->low = copy(o->start, o->start_len);
	if (o->prefix_len &&
	    compare(o->prefix, o->prefix_len, o->start, o->start_len) > 0) {
		free(c->low);
		c->low_len = o->prefix_len;
		c->low = copy(o->prefix, o->prefix_len);
	}
	if (!c->low)
		return -ENOMEM;
	if (o->end_len || o->flags & KVTREE_CURSOR_END) {
		c->high_len = o->end_len;
		c->high = copy(o->end, o->end_len);
		if (!c->high)
			return -ENOMEM;
	}
	if (o->prefix_len) {
		end = copy(o->prefix, o->prefix_len);
		if (!end)
			return -ENOMEM;
		len = prefix_end(end, o->prefix_len);
		if (len && (!c->high || compare(end, len, c->high, c->high_len) < 0)) {
			free(c->high);
			c->high = end;
			c->high_len = len;
		} else {
			free(end);
		}
	}
	c->nothing = c->high &&
		     compare(c->low, c->low_len, c->high, c->high_len) >= 0;
	return 0;
}

static int set_columns(struct kvtree_cursor *c, const struct kvtree_cursor_opts *o)
{
	size_t nr = o->ncols;

	if (c->flags & KVTREE_CURSOR_ALL_COLS)
		nr = KVTREE_COLS_MAX;
	else if (!o->cols)
		return 0;
	c->ncols = o->ncols;
	c->cols = (uint16_t *)copy(o->cols, o->ncols * sizeof(*o->cols));
	c->found = malloc(sizeof(*c->found) + nr * sizeof(*c->found->col));
	if (!c->cols || !c->found)
		return -ENOMEM;
	c->found->col = (struct kvtree_column *)(c->found + 1);
	return 0;
}

/* The program may have been compiled with a smaller or larger structure than the library. */
static int read_opts(struct kvtree_cursor_opts *o,
		     const struct kvtree_cursor_opts *user)
{
	const unsigned int known = KVTREE_CURSOR_REVERSE |
		KVTREE_CURSOR_KEYS_ONLY | KVTREE_CURSOR_ALL_COLS | KVTREE_CURSOR_END;
	size_t i;

	memset(o, 0, sizeof(*o));
	if (!user)
		return 0;
	if (user->size < offsetof(struct kvtree_cursor_opts, buffer) ||
	    user->size > 4096)
		return -EINVAL;
	for (i = sizeof(*o); i < user->size; i++)
		if (((const char *)user)[i])
			return -E2BIG;
	memcpy(o, user, user->size < sizeof(*o) ? user->size : sizeof(*o));
	if (o->flags & ~known || o->buffer > WINDOW_LIMIT || o->reserved)
		return -EINVAL;
	if (!o->end && o->end_len)
		return -EINVAL;
	if (o->start_len > KVTREE_KEY_MAX || o->end_len > KVTREE_KEY_MAX ||
	    o->prefix_len > KVTREE_KEY_MAX || o->ncols > KVTREE_COLS_MAX)
		return -E2BIG;
	if (!!o->cols + !!(o->flags & KVTREE_CURSOR_ALL_COLS) +
	    !!(o->flags & KVTREE_CURSOR_KEYS_ONLY) > 1 || (o->ncols && !o->cols) ||
	    (o->cols && !o->ncols))
		return -EINVAL;
	return 0;
}

KVTREE_API int kvtree_cursor_open(const struct kvtree *kv,
				  const struct kvtree_cursor_opts *opts,
				  struct kvtree_cursor **cursor)
{
	struct kvtree_cursor_opts o;
	struct kvtree_cursor *c;
	int err;

	*cursor = NULL;
	err = read_opts(&o, opts);
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->kv = kv;
	c->flags = o.flags;
	c->max_records = o.max_records;
	c->filter = o.filter;
	c->max_bytes = o.buffer ? o.buffer : WINDOW_MAX;
	c->win = &c->window[0];
	c->spare = &c->window[1];
	c->where = forward(c) == UP ? BELOW : ABOVE;
	start_small(c);
	err = set_range(c, &o);
	if (!err)
		err = set_columns(c, &o);
	if (err) {
		kvtree_cursor_close(c);
		return err;
	}
	*cursor = c;
	return 0;
}

KVTREE_API void kvtree_cursor_close(struct kvtree_cursor *c)
{
	int i;

	if (!c)
		return;
	for (i = 0; i < 2; i++) {
		free(c->window[i].mem);
		free(c->window[i].at);
	}
	free(c->low);
	free(c->high);
	free(c->cols);
	free(c->found);
	free(c);
}
