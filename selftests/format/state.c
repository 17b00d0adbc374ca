// SPDX-License-Identifier: GPL-2.0
/* A recovery: see state.h. */
#include <stdint.h>
#include "../../kmod/log/format/format.h"
#include "map.h"
#include "state.h"

struct recovery {
	struct kvt_log_set set;
	struct kvt_log_sink sink;
	struct kvt_log_reader reader;
	const struct fmt_disks *disks;
	struct fmt_state *state;
	bool keep_data;
	bool in_range;
	u32 range;
	u32 before;			/* items, when the range was begun */
};

#define recovery_of(ptr, member) \
	((struct recovery *)((char *)(ptr) - offsetof(struct recovery, member)))

/* FNV-1a of 64-bit words, with the remaining bytes as one more. */
u64 fmt_hash(u64 hash, const void *data, size_t len)
{
	const u8 *p = data;
	u64 word;

	hash ^= len;
	for (; len; p += min(len, sizeof(word)), len -= min(len, sizeof(word))) {
		word = 0;
		memcpy(&word, p, min(len, sizeof(word)));
		hash = (hash ^ le64_to_cpu(word)) * 0x100000001b3ull;
		hash ^= hash >> 29;
	}
	return hash;
}

/* The same on every machine. */
static u64 hash_number(u64 hash, u64 number)
{
	__le64 raw = cpu_to_le64(number);

	return fmt_hash(hash, &raw, sizeof(raw));
}

static int read_blocks(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	const struct recovery *r = recovery_of(set, set);
	const struct fmt_disks *disks = r->disks;
	struct fmt_state *state = r->state;

	/* The module must not even try to. */
	if (slot >= disks->nr || block > disks->blocks[slot] ||
	    nr > disks->blocks[slot] - block)
		fmt_die("it reads %u blocks from block %llu on, behind the end", nr,
			(unsigned long long)block);
	state->reads += r->in_range;
	if (state->bad_block && slot == state->bad_disk && block <= state->bad_block &&
	    state->bad_block < block + nr) {
		/* Anything may be there then. */
		memset(buf, 0xa5, (size_t)nr * KVTREE_LOG_BLOCK);
		state->bad_reads += r->in_range;
		return -EIO;
	}
	memcpy(buf, fmt_block(disks, slot, block), (size_t)nr * KVTREE_LOG_BLOCK);
	return 0;
}

static void say(struct kvt_log_set *set, const char *text)
{
	struct fmt_state *state = recovery_of(set, set)->state;

	snprintf(state->text, sizeof(state->text), "%s", text);
}

/* An offset, since the memory may move while it grows. */
static size_t memory_take(struct fmt_state *state, size_t len)
{
	size_t at = state->memory_used;

	len = ALIGN(len, sizeof(u64));
	if (len >= state->memory_room - at) {
		state->memory_room = (at + len) * 2;
		state->memory = fmt_alloc(state->memory, state->memory_room);
	}
	state->memory_used += len;
	return at;
}

static size_t keep_columns(struct fmt_state *state, const struct kvt_log_entry *entry,
			   bool keep_data)
{
	size_t at = memory_take(state, entry->ncols * sizeof(struct fmt_col)), data;
	struct fmt_col *to;
	u32 i;

	for (i = 0; i < entry->ncols; i++) {
		const struct kvt_log_col *from = &entry->cols[i];

		data = keep_data ? memory_take(state, from->len) : 0;
		if (keep_data)
			memcpy(state->memory + data, from->data, from->len);
		to = (struct fmt_col *)(state->memory + at) + i;
		to->id = from->id;
		to->len = from->len;
		to->hash = fmt_hash(FMT_HASH, from->data, from->len);
		to->data = (const u8 *)(uintptr_t)data;
	}
	return at;
}

/* The limits hold, whatever is on a disk. */
static void check_entry(const struct kvt_log_entry *entry)
{
	u64 total = 0;
	u32 i;

	if (entry->key_len > KVTREE_KEY_MAX || entry->ncols > KVTREE_COLS_MAX ||
	    !entry->version || entry->version >= 1ULL << 62)
		fmt_die("a record beyond the limits");
	for (i = 0; i < entry->ncols; i++) {
		total += entry->cols[i].len;
		if (entry->cols[i].id >= KVTREE_COLS_MAX ||
		    (i && entry->cols[i].id <= entry->cols[i - 1].id))
			fmt_die("columns that are not in order");
	}
	/* A plain one may be cut by the index, which has the same limit. */
	if (total > KVTREE_VALUE_MAX)
		fmt_die("a value of %llu bytes", (unsigned long long)total);
}

void fmt_state_put(struct fmt_state *state, const struct kvt_log_entry *entry, bool keep_data)
{
	struct fmt_item *item;
	size_t key, col;

	key = memory_take(state, entry->key_len);
	memcpy(state->memory + key, entry->key, entry->key_len);
	col = keep_columns(state, entry, keep_data);
	if (state->nr_items == state->room) {
		state->room = state->room * 2 + 64;
		state->item = fmt_alloc(state->item, state->room * sizeof(*item));
	}
	item = &state->item[state->nr_items++];
	*item = (struct fmt_item) {
		.key = (const u8 *)(uintptr_t)key, .key_len = entry->key_len,
		.ncols = entry->ncols, .version = entry->version,
		.removed = entry->type == KVTREE_LOG_REMOVE,
		.col = (const struct fmt_col *)(uintptr_t)col,
	};
}

/* Whether the key comes after the one that was put last. */
static bool follows(const struct fmt_state *state, const struct kvt_log_entry *entry)
{
	const struct fmt_item *last = &state->item[state->nr_items - 1];

	return kvt_log_key_cmp(state->memory + (uintptr_t)last->key, last->key_len, entry->key,
			       entry->key_len) < 0;
}

static int keep(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct recovery *r = recovery_of(reader, reader);

	check_entry(entry);
	if (r->in_range && r->range != kvt_log_directory_find(&r->sink.dir, entry->key,
							      entry->key_len))
		r->state->astray = true;
	if (r->in_range && r->state->nr_items > r->before && !follows(r->state, entry))
		r->state->disorder = true;
	fmt_state_put(r->state, entry, r->keep_data);
	return 0;
}

static int keep_extent(struct kvt_log_sink *sink, const struct kvt_log_extent *extent)
{
	return kvt_log_extent_check(&recovery_of(sink, sink)->reader, extent);
}

static int keep_ranges(struct kvt_log_sink *sink, u32 first, u32 end)
{
	struct recovery *r = recovery_of(sink, sink);
	int verdict = KVT_LOG_SOUND;

	r->in_range = true;
	for (r->range = first; !verdict && r->range < end; r->range++) {
		r->before = r->state->nr_items;
		verdict = kvt_log_range_read(&r->reader, &sink->dir, r->range,
					     r->state->alone ? 0 : end);
	}
	r->in_range = false;
	return verdict;
}

static int item_cmp(const void *a, const void *b)
{
	const struct fmt_item *x = a, *y = b;
	int cmp = memcmp(x->key, y->key, min(x->key_len, y->key_len));

	if (cmp)
		return cmp;
	if (x->key_len != y->key_len)
		return x->key_len < y->key_len ? -1 : 1;
	/* The one that counts comes first. */
	return kvt_log_newer(y->version, y->removed, x->version, x->removed) -
	       kvt_log_newer(x->version, x->removed, y->version, y->removed);
}

static bool same_key(const struct fmt_item *a, const struct fmt_item *b)
{
	return a->key_len == b->key_len && !memcmp(a->key, b->key, a->key_len);
}

static bool same_columns(const struct fmt_item *a, const struct fmt_item *b)
{
	u32 i;

	if (a->ncols != b->ncols)
		return false;
	for (i = 0; i < a->ncols; i++)
		if (a->col[i].id != b->col[i].id || a->col[i].len != b->col[i].len ||
		    a->col[i].hash != b->col[i].hash)
			return false;
	return true;
}

/* Offsets become pointers, and of each key the newest is left, if it is a value. */
void fmt_state_finish(struct fmt_state *state, bool keep_data)
{
	struct fmt_item *item, last = { .key_len = ~0U };
	u32 i, j, to = 0;

	for (i = 0; i < state->nr_items; i++) {
		struct fmt_col *col;

		item = &state->item[i];
		item->key = state->memory + (uintptr_t)item->key;
		col = (struct fmt_col *)(state->memory + (uintptr_t)item->col);
		item->col = col;
		for (j = 0; keep_data && j < item->ncols; j++)
			col[j].data = state->memory + (uintptr_t)col[j].data;
	}
	if (state->nr_items)
		qsort(state->item, state->nr_items, sizeof(*item), item_cmp);
	state->hash = 0;
	for (i = 0; i < state->nr_items; i++) {
		item = &state->item[i];
		if (item->version >= state->found.version_lease)
			fmt_die("a version that the lease excludes");
		if (same_key(item, &last)) {
			state->twice |= item->version == last.version && !last.removed &&
					!same_columns(item, &last);
			continue;
		}
		last = *item;
		if (item->removed)
			continue;
		state->hash = fmt_hash(state->hash, item->key, item->key_len);
		state->hash = hash_number(state->hash, item->version);
		for (j = 0; j < item->ncols; j++) {
			state->hash = hash_number(state->hash ^ item->col[j].id,
						  item->col[j].hash);
			state->hash += item->col[j].len;
		}
		state->item[to++] = last;
	}
	state->nr = to;
}

void fmt_state_begin(struct fmt_state *state)
{
	state->error = 0;
	state->reads = 0;
	state->bad_reads = 0;
	state->text[0] = '\0';
	state->nr_items = 0;
	state->memory_used = 0;
	state->records = 0;
	state->nr = 0;
	state->hash = 0;
	state->astray = false;
	state->disorder = false;
	state->twice = false;
	memset(&state->found, 0, sizeof(state->found));
}

static int recovery_run(struct recovery *r, u64 back, struct fmt_map *map)
{
	struct fmt_state *state = r->state;
	int err;

	err = kvt_log_set_load(&r->set);
	if (!err)
		err = kvt_log_find(&r->set, &state->found);
	if (err)
		return err;
	state->found.epoch -= back;
	err = kvt_log_reader_init(&r->reader, &r->set);
	if (state->merge_blocks)
		r->reader.merge_blocks = state->merge_blocks;
	if (state->ahead_blocks)
		r->reader.ahead_blocks = state->ahead_blocks;
	if (!err)
		err = kvt_log_recover(&r->set, &state->found, &r->sink);
	kvt_log_directory_free(&r->sink.dir);
	kvt_log_reader_exit(&r->reader);
	state->records = r->reader.records;
	if (!err && map)
		fmt_map_fill(map, &r->set, &state->found);
	return err;
}

void fmt_recover(const struct fmt_disks *disks, struct fmt_state *state, u64 back,
		 bool keep_data, struct fmt_map *map)
{
	struct recovery r = {
		.set = { .read = read_blocks, .say = say, .nr_given = disks->nr,
			 .until = disks->until },
		.sink = { .extent = keep_extent, .ranges = keep_ranges },
		.reader.entry = keep,
		.disks = disks,
		.state = state,
		.keep_data = keep_data,
	};
	u32 i;

	fmt_state_begin(state);
	for (i = 0; i < disks->nr; i++)
		r.set.size[i] = disks->blocks[i];
	state->error = recovery_run(&r, back, map);
	if (!state->error)
		fmt_state_finish(state, keep_data);
	kvt_log_set_free(&r.set);
}

void fmt_state_free(struct fmt_state *state)
{
	free(state->item);
	free(state->memory);
	memset(state, 0, sizeof(*state));
}

bool fmt_state_same(const struct fmt_state *a, const struct fmt_state *b)
{
	return !a->error && !b->error && a->nr == b->nr && a->hash == b->hash &&
	       a->found.epoch == b->found.epoch;
}
