/* SPDX-License-Identifier: GPL-2.0 */
/* What a recovery restores from devices in memory, by the module's own source. */
#ifndef FORMAT_STATE_H
#define FORMAT_STATE_H

#include "disks.h"

struct fmt_col {
	u16 id;
	u32 len;
	u64 hash;
	const u8 *data;		/* only if the data are kept */
};

/* The newest of a key. */
struct fmt_item {
	const u8 *key;
	u32 key_len;
	u32 ncols;
	u64 version;
	bool removed;
	const struct fmt_col *col;
};

struct fmt_state {
	/* Given. */
	u32 merge_blocks;	/* for pieces of a range that are read together; 0: all */
	u32 ahead_blocks;	/* that are read ahead; 0: the usual number */
	bool alone;		/* nothing is read of other ranges than the present one */
	u32 bad_disk;
	u64 bad_block;		/* which cannot be read there; 0: all can */
	/* What came of it. */
	u32 reads;		/* of ranges */
	u32 bad_reads;		/* those that failed */
	int error;		/* nothing is restored: a negative errno */
	char text[200];		/* what recovery said */
	struct kvt_log_found found;
	u64 records;
	u64 hash;		/* of all items */
	u32 nr;			/* keys that exist */
	bool astray;		/* a range gave out a key that is in another */
	bool disorder;		/* or one that does not come after the one before it */
	bool twice;		/* two values of a key have one version: either may count */
	/* Memory for the items, which the next recovery uses again. */
	struct fmt_item *item;
	u32 nr_items;
	u32 room;
	u8 *memory;
	size_t memory_used;
	size_t memory_room;
};

struct fmt_map;

/* A state made of records: begin, put each, finish.  @keep_data as for fmt_recover(). */
void fmt_state_begin(struct fmt_state *state);
void fmt_state_put(struct fmt_state *state, const struct kvt_log_entry *entry, bool keep_data);
void fmt_state_finish(struct fmt_state *state, bool keep_data);

/*
 * @back: restore this many epochs less than a recovery would.  @keep_data: of the columns.
 * @map: noted in it is where everything was found; may be NULL.
 */
void fmt_recover(const struct fmt_disks *disks, struct fmt_state *state, u64 back,
		 bool keep_data, struct fmt_map *map);
void fmt_state_free(struct fmt_state *state);
/* Whether two came to the same: the same keys, versions and columns. */
bool fmt_state_same(const struct fmt_state *a, const struct fmt_state *b);
/* Begins with FMT_HASH. */
u64 fmt_hash(u64 hash, const void *data, size_t len);

#define FMT_HASH	0xcbf29ce484222325ull

#endif /* FORMAT_STATE_H */
