// SPDX-License-Identifier: GPL-2.0
/* Recovery in a program: see recover.h. */
#include <stdarg.h>

#include "../../kmod/log/format/format.h"
#include "crash.h"
#include "recover.h"

/* The newest record of a key. */
struct newest {
	bool there;
	bool removed;
	u64 version;
	u32 ncols;
	struct { u16 id; u32 len; } col[CRASH_COLS + 1];
	u8 *data;
	size_t room;
};

struct recovery {
	struct kvt_log_set set;
	struct kvt_log_sink sink;
	struct kvt_log_reader reader;
	const struct crash_image *image;
	struct crash_state *state;
	bool removes;			/* the present epoch has removals */
	u64 forgotten[CRASH_KEYS];	/* versions that were removed, in epochs before */
};

#define recovery_of(ptr, member) \
	((struct recovery *)((char *)(ptr) - offsetof(struct recovery, member)))

/* They keep their memory from one recovery to the next. */
static struct newest newest[CRASH_KEYS];

static int image_read(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	const struct crash_image *image = recovery_of(set, set)->image;

	if ((block + nr) * KVTREE_LOG_BLOCK > image->bytes)
		return -EIO;
	memcpy(buf, image->disk[slot] + block * KVTREE_LOG_BLOCK, (size_t)nr * KVTREE_LOG_BLOCK);
	return 0;
}

static void image_say(struct kvt_log_set *set, const char *text)
{
	struct crash_state *state = recovery_of(set, set)->state;

	snprintf(state->text, sizeof(state->text), "%s", text);
}

/* No operation has written this. */
__attribute__((format(printf, 2, 3)))
static void wrong(struct crash_state *state, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(state->text, sizeof(state->text), format, args);
	va_end(args);
	state->wrong = true;
}

bool crash_state_column(struct crash_state *state, uint32_t key, uint16_t id,
			const void *data, uint32_t len)
{
	struct crash_value *value = &state->value[key];
	struct crash_col *col = &value->col[value->ncols];

	if (key % 8 == 0 && id == CRASH_ADD_COL && len == 8 && !value->ncols) {
		value->number = true;
		memcpy(&value->sum, data, 8);
		value->sum = le64toh(value->sum);
		return true;
	}
	if (value->number || value->ncols == CRASH_COLS ||
	    !crash_data_parse(data, len, key, id, &col->op)) {
		wrong(state, "key %u, version %lu: column %u, %u bytes, was written by nobody", key,
		      value->version, id, len);
		return false;
	}
	col->id = id;
	col->len = len;
	value->ncols++;
	return true;
}

/* Drop tombstones after each epoch: the module does so when there are many. */
static int forget(struct kvt_log_sink *sink)
{
	struct recovery *r = recovery_of(sink, sink);
	u32 i;

	for (i = 0; r->removes && i < CRASH_KEYS; i++) {
		if (!newest[i].there || !newest[i].removed)
			continue;
		newest[i].there = false;
		r->forgotten[i] = newest[i].version;
	}
	r->removes = false;
	return 0;
}

static int keep(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct recovery *r = recovery_of(reader, reader);
	int key = crash_key_parse(entry->key, entry->key_len);
	bool removed = entry->type == KVTREE_LOG_REMOVE;
	struct newest *n;
	size_t size = 0;
	u32 i;

	if (key < 0 || entry->ncols > CRASH_COLS + 1) {
		wrong(r->state, "a key that nobody has put");
		return 0;
	}
	n = &newest[key];
	if (!removed && entry->version <= r->forgotten[key])
		wrong(r->state, "key %d: a later epoch puts what was removed before", key);
	r->removes |= removed;
	if (n->there && !kvt_log_newer(entry->version, removed, n->version, n->removed))
		return 0;
	n->there = true;
	n->removed = removed;
	n->version = entry->version;
	n->ncols = entry->ncols;
	for (i = 0; i < entry->ncols; i++)
		size += entry->cols[i].len;
	if (size > n->room) {
		n->room = size * 2;
		n->data = realloc(n->data, n->room);
		if (!n->data)
			return -ENOMEM;
	}
	for (i = 0, size = 0; i < entry->ncols; i++) {
		n->col[i].id = entry->cols[i].id;
		n->col[i].len = entry->cols[i].len;
		memcpy(n->data + size, entry->cols[i].data, entry->cols[i].len);
		size += entry->cols[i].len;
	}
	return 0;
}

static int keep_extent(struct kvt_log_sink *sink, const struct kvt_log_extent *extent)
{
	return kvt_log_extent_check(&recovery_of(sink, sink)->reader, extent);
}

static int keep_ranges(struct kvt_log_sink *sink, u32 first, u32 end)
{
	int verdict = KVT_LOG_SOUND;

	for (; !verdict && first < end; first++)
		verdict = kvt_log_range_read(&recovery_of(sink, sink)->reader, &sink->dir, first,
					     end);
	return verdict;
}

static void fill(struct crash_state *state)
{
	uint32_t key, i;
	size_t at;

	for (key = 0; key < CRASH_KEYS; key++) {
		const struct newest *n = &newest[key];

		if (!n->there)
			continue;
		state->value[key].present = true;
		state->value[key].version = n->version;
		for (i = 0, at = 0; i < n->ncols; at += n->col[i].len, i++)
			if (!crash_state_column(state, key, n->col[i].id, n->data + at,
						n->col[i].len))
				return;
	}
}

void crash_recover(const struct crash_image *image, struct crash_state *state)
{
	struct recovery r = {
		.sink = { .extent = keep_extent, .ranges = keep_ranges, .bury = forget },
		.reader.entry = keep,
		.set = { .read = image_read, .say = image_say, .nr_given = image->nr },
		.image = image,
		.state = state,
	};
	struct kvt_log_found found;
	int err;
	u32 i;

	memset(state, 0, sizeof(*state));
	for (i = 0; i < CRASH_KEYS; i++)
		newest[i].there = false;
	for (i = 0; i < image->nr; i++)
		r.set.size[i] = image->bytes / KVTREE_LOG_BLOCK;
	err = kvt_log_set_load(&r.set);
	if (!err)
		err = kvt_log_find(&r.set, &found);
	if (!err)
		err = kvt_log_reader_init(&r.reader, &r.set);
	if (!err)
		err = kvt_log_recover(&r.set, &found, &r.sink);
	kvt_log_directory_free(&r.sink.dir);
	kvt_log_reader_exit(&r.reader);
	state->error = err;
	if (!err) {
		state->epoch = found.epoch;
		state->seen = found.seen;
		state->lease = found.version_lease;
		state->records = r.reader.records;
		state->lives = le32_to_cpu(r.set.dev[0].super->nr_lives);
		fill(state);
	}
	kvt_log_set_free(&r.set);
}
