// SPDX-License-Identifier: GPL-2.0
/*
 * check: read the devices of a store as recovery does, without the module.
 */
#include <inttypes.h>
#include <search.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"
#include "../kmod/log/format/format.h"
#include "repair.h"

/* Options without a letter. */
enum { OPT_PRINT = 256, OPT_REPAIR };

struct check {
	char *paths[KVTREE_LOG_DEVS_MAX];
	unsigned int nr;
	bool print;
	bool repair;
	bool yes;
	uint64_t until;
};

static error_t parse_check(int key, char *arg, struct argp_state *state)
{
	struct check *check = state->input;

	switch (key) {
	case OPT_PRINT:
		check->print = true;
		return 0;
	case OPT_REPAIR:
		check->repair = true;
		return 0;
	case 'U':
		check->until = arg_number(state, "--until", arg, UINT64_MAX);
		return 0;
	case 'y':
		check->yes = true;
		return 0;
	case ARGP_KEY_ARG:
		if (check->nr == KVTREE_LOG_DEVS_MAX)
			argp_error(state, "a store has at most %u devices", KVTREE_LOG_DEVS_MAX);
		check->paths[check->nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!check->nr)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option check_options[] = {
	{ .name = "print", .key = OPT_PRINT,
	  .doc = "Print what an attach would restore, in the format of kvtree dump" },
	{ .name = "repair", .key = OPT_REPAIR,
	  .doc = "Rewrite a damaged copy of a superblock from the other one, after asking" },
	{ .name = "until", .key = 'U', .arg = "EPOCH",
	  .doc = "The state at the end of that epoch (the last one)" },
	{ .name = "yes", .key = 'y', .doc = "Do not ask" },
	{ 0 }
};

/* The newest record of a key. */
struct item {
	const char *key;
	size_t key_len;
	uint64_t version;
	bool removed;
	bool listed;			/* on the pass's list of removals */
	struct item *next;		/* in that list */
	size_t ncols;
	struct kvtree_column *col;	/* followed by their data */
};

/* A pass over everything that recovery restores. */
struct pass {
	struct kvt_log_sink sink;
	struct kvt_log_reader reader;
	struct devset *ds;
	bool print;
	void *items;			/* of tsearch() */
	struct item *removals;		/* of this epoch; some may have been stored again */
	uint64_t keys;
	uint64_t bytes;			/* of keys and values */
	uint64_t image_segments;	/* that the checkpoint uses */
	struct progress progress;
};

static int item_cmp(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	size_t len = x->key_len < y->key_len ? x->key_len : y->key_len;
	int cmp = memcmp(x->key, y->key, len);

	return cmp ? cmp : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

static void item_free(void *item)
{
	free(((struct item *)item)->col);
	free(item);
}

/* A key's item; a new one is older than any record.  NULL: out of memory. */
static struct item *item_of(struct pass *pass, const void *key, size_t key_len)
{
	struct item *it = alloc(NULL, sizeof(*it) + key_len), **found;

	*it = (struct item) { .key = (char *)(it + 1), .key_len = key_len };
	memcpy(it + 1, key, key_len);
	found = tsearch(it, &pass->items, item_cmp);
	if (found && *found == it)
		return it;
	free(it);
	return found ? *found : NULL;
}

static void item_fill(struct item *it, const struct kvt_log_entry *entry)
{
	size_t cols = entry->ncols * sizeof(*it->col), size = cols, i;
	char *at;

	for (i = 0; i < entry->ncols; i++)
		size += entry->cols[i].len;
	it->version = entry->version;
	it->removed = entry->type == KVTREE_LOG_REMOVE;
	it->ncols = entry->ncols;
	it->col = alloc(it->col, size + 1);
	at = (char *)it->col + cols;
	for (i = 0; i < entry->ncols; i++) {
		it->col[i] = (struct kvtree_column) {
			.id = entry->cols[i].id, .data = at, .len = entry->cols[i].len,
		};
		memcpy(at, entry->cols[i].data, entry->cols[i].len);
		at += entry->cols[i].len;
	}
}

static int check_entry(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct pass *pass = (struct pass *)((char *)reader - offsetof(struct pass, reader));
	struct item *it = item_of(pass, entry->key, entry->key_len);

	if (!it)
		return -ENOMEM;
	if (!kvt_log_newer(entry->version, entry->type == KVTREE_LOG_REMOVE,
			   it->version, it->removed))
		return 0;
	item_fill(it, entry);
	if (it->removed && !it->listed) {
		it->listed = true;
		it->next = pass->removals;
		pass->removals = it;
	}
	return 0;
}

/* Free removed items: nothing restores them. */
static int bury(struct kvt_log_sink *sink)
{
	struct pass *pass = (struct pass *)((char *)sink - offsetof(struct pass, sink));
	struct item *it;

	while ((it = pass->removals)) {
		pass->removals = it->next;
		it->listed = false;
		if (!it->removed)
			continue;
		tdelete(it, &pass->items, item_cmp);
		item_free(it);
	}
	return 0;
}

static int check_extent(struct kvt_log_sink *sink, const struct kvt_log_extent *extent)
{
	struct pass *pass = (struct pass *)((char *)sink - offsetof(struct pass, sink));
	int verdict = kvt_log_extent_check(&pass->reader, extent);

	progress_show(&pass->progress, 0, pass->reader.records, pass->reader.bytes);
	return verdict;
}

static int check_ranges(struct kvt_log_sink *sink, u32 first, u32 end)
{
	struct pass *pass = (struct pass *)((char *)sink - offsetof(struct pass, sink));
	int verdict = KVT_LOG_SOUND;

	for (; !verdict && first < end; first++) {
		verdict = kvt_log_range_read(&pass->reader, &sink->dir, first, end);
		progress_show(&pass->progress, 0, pass->reader.records, pass->reader.bytes);
	}
	return verdict;
}

static void check_segment(struct kvt_log_sink *sink, u32 dev, u32 segment,
			  enum kvtree_log_kind kind)
{
	struct pass *pass = (struct pass *)((char *)sink - offsetof(struct pass, sink));

	(void)dev;
	(void)segment;
	pass->image_segments += kind == KVTREE_LOG_KIND_CHECKPOINT;
}

/* Count a restored item, and print it with --print. */
static void see(const void *node, VISIT visit, void *closure)
{
	const struct item *it = *(const struct item *const *)node;
	struct pass *pass = closure;
	size_t i;

	if (visit != postorder && visit != leaf)
		return;
	pass->keys++;
	pass->bytes += it->key_len;
	for (i = 0; i < it->ncols; i++)
		pass->bytes += it->col[i].len;
	if (pass->print)
		dumpfile_write(stdout, it->key, it->key_len,
			       &(struct kvtree_columns) { .nr = it->ncols, .col = it->col });
}

static void see_all(struct pass *pass)
{
	if (pass->print)
		dumpfile_write_first(stdout);
	twalk_r(pass->items, see, pass);
	if (pass->print)
		dumpfile_write_last(stdout, pass->keys);
}

/* The earliest epoch for --until; 0: none, or unknown. */
static uint64_t first_epoch(const struct kvt_log_found *found)
{
	return found->first <= found->epoch ? found->first : 0;
}

/* What a crash, or later damage, may have lost. */
static const char *dropped(const struct pass *pass, const struct kvt_log_found *found)
{
	if (found->seen > found->epoch)
		return " (the next one is incomplete and dropped)";
	if (found->open && !pass->ds->set.until)
		return " (the last one found: the store was not detached)";
	return "";
}

/* What the checkpoint consists of.  One of an earlier version has no ranges. */
struct image {
	uint64_t ranges;		/* that have pieces */
	uint64_t pieces;
	uint64_t deltas;		/* of these, the ones with only some of a range's keys */
	uint64_t bytes;
};

static struct image image_count(const struct kvt_log_directory *dir)
{
	struct image image = { 0 };
	const struct kvt_log_piece *piece;
	u32 i, j;

	for (i = 0; i < dir->nr; i++) {
		image.ranges += !!dir->range[i]->nr_pieces;
		for (j = 0; j < dir->range[i]->nr_pieces; j++) {
			piece = &dir->range[i]->piece[j];
			image.pieces++;
			image.deltas += piece->delta;
			image.bytes += kvt_log_piece_bytes(piece);
		}
	}
	return image;
}

static void show_image(const struct pass *pass, uint64_t epoch)
{
	struct image image = image_count(&pass->sink.dir);

	printf("  %-12s %" PRIu64, "checkpoint", epoch);
	if (pass->image_segments)
		printf(", %" PRIu64 " segment%s", pass->image_segments,
		       plural(pass->image_segments));
	putchar('\n');
	if (image.ranges)
		printf("  %-12s %" PRIu64 " in %" PRIu64 " piece%s (%" PRIu64 " delta%s), %" PRIu64
		       " bytes\n", "ranges", image.ranges, image.pieces,
		       plural(image.pieces), image.deltas, plural(image.deltas), image.bytes);
}

static void json_add_image(json_t *obj, const struct pass *pass)
{
	struct image image = image_count(&pass->sink.dir);

	json_add_u64(obj, "checkpoint_segments", pass->image_segments);
	json_add_u64(obj, "checkpoint_ranges", image.ranges);
	json_add_u64(obj, "checkpoint_pieces", image.pieces);
	json_add_u64(obj, "checkpoint_deltas", image.deltas);
	json_add_u64(obj, "checkpoint_piece_bytes", image.bytes);
}

static void show(const struct pass *pass, const struct kvt_log_found *found)
{
	const struct kvtree_log_super *super = pass->ds->set.dev[0].super;
	const char *label = (const char *)super->label;
	size_t len = strnlen(label, sizeof(super->label));
	json_t *obj;

	if (tool.json) {
		obj = json_new();
		json_add_bytes(obj, "label", label, len);
		json_add_u64(obj, "devices", pass->ds->set.nr_devs);
		json_add_u64(obj, "epoch", found->epoch);
		json_add_u64(obj, "first_epoch", first_epoch(found));
		json_add_u64(obj, "lost_epochs", found->seen - found->epoch);
		json_add(obj, "detached", json_boolean(!found->open));
		json_add_u64(obj, "checkpoint_epoch", le64_to_cpu(super->checkpoint.epoch));
		json_add_image(obj, pass);
		json_add_u64(obj, "damaged_superblocks", repair_needed(pass->ds));
		json_add_u64(obj, "segments", pass->sink.segments);
		json_add_u64(obj, "records", pass->reader.records);
		json_add_u64(obj, "keys", pass->keys);
		json_add_u64(obj, "bytes", pass->bytes);
		json_print(obj);
		return;
	}
	fputs("store '", stdout);
	put_text(stdout, label, len);
	printf("', %u device%s: sound\n", pass->ds->set.nr_devs,
	       pass->ds->set.nr_devs > 1 ? "s" : "");
	printf("  %-12s %" PRIu64 "%s\n", "epoch", (uint64_t)found->epoch, dropped(pass, found));
	if (first_epoch(found))
		printf("  %-12s %" PRIu64 " to %" PRIu64 "\n", "with --until",
		       first_epoch(found), (uint64_t)found->epoch);
	show_image(pass, le64_to_cpu(super->checkpoint.epoch));
	printf("  %-12s %" PRIu64 " in %" PRIu64 " segments\n", "records",
	       (uint64_t)pass->reader.records, (uint64_t)pass->sink.segments);
	printf("  %-12s %" PRIu64 ", %" PRIu64 " bytes of keys and values\n", "keys",
	       pass->keys, pass->bytes);
}

/* Ask the user, if there is a terminal. */
static bool agreed(bool yes)
{
	char line[16] = "";

	if (yes)
		return true;
	if (!isatty(STDIN_FILENO)) {
		warn("check: nothing is written: no terminal to ask on (--yes)");
		return false;
	}
	fprintf(stderr, "Write? [y/N] ");
	if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
		return true;
	warn("check: nothing is written");
	return false;
}

/* Repair what can be repaired, and check again. */
static int repair_set(struct devset *ds, bool yes)
{
	int err;

	err = repair_allowed(ds);
	if (err)
		return err;
	if (!repair_needed(ds)) {
		warn("check: there is nothing to repair");
		return 0;
	}
	repair_show(ds, stderr, "is damaged: it will be rewritten from the other one");
	if (!agreed(yes))
		return -ECANCELED;
	err = repair(ds);
	if (err)
		return err;
	kvt_log_set_free(&ds->set);
	return kvt_log_set_load(&ds->set);
}

static int check_set(struct devset *ds, const struct check *check)
{
	struct pass pass = {
		.sink = { .segment = check_segment, .extent = check_extent, .ranges = check_ranges,
			  .bury = bury },
		.reader.entry = check_entry,
		.ds = ds,
		.print = check->print,
	};
	struct kvt_log_found found;
	int err;

	ds->set.until = check->until;
	/* Ignore what overwrote a copy: also to print the store that it had. */
	ds->set.mend = check->repair || check->print;
	err = kvt_log_set_load(&ds->set);
	if (!err && check->repair)
		err = repair_set(ds, check->yes);
	else if (!err)
		repair_show(ds, stderr, "is damaged, the other one is not: see --repair");
	if (!err)
		err = kvt_log_find(&ds->set, &found);
	if (err)
		return err;
	progress_start(&pass.progress, "check", !tool.json && isatty(STDERR_FILENO), 0);
	err = kvt_log_reader_init(&pass.reader, &ds->set);
	if (!err)
		err = kvt_log_recover(&ds->set, &found, &pass.sink);
	progress_end(&pass.progress, NULL, 0, 0);
	if (!err) {
		see_all(&pass);
		if (!pass.print)
			show(&pass, &found);
	}
	kvt_log_directory_free(&pass.sink.dir);
	kvt_log_reader_exit(&pass.reader);
	tdestroy(pass.items, item_free);
	return err;
}

int cmd_check(int argc, char **argv)
{
	const struct argp argp = {
		.options = check_options,
		.parser = parse_check,
		.args_doc = "DEVICE...",
		.doc = "Check the devices of a durable store.\n"
		       "\vReads them as attach does, and writes nothing unless asked to repair. It needs\n"
		       "no module. The store should not be attached meanwhile. Files with the devices'\n"
		       "content work as well.",
		.children = common_options,
	};
	struct check check = { 0 };
	struct devset ds;
	bool opened;
	int err;

	parse(&argp, argc, argv, &check);
	err = devset_open(&ds, check.paths, check.nr, check.repair);
	opened = !err;
	if (!err)
		err = check_set(&ds, &check);
	devset_close(&ds);
	if (err && opened && err != -ECANCELED)
		warn("check: the store cannot be restored: %s",
		     err == -EBADMSG ? "something is damaged" :
		     err == -EINVAL ? "there is none, or it was overwritten (see --repair)" :
		     strerror(-err));
	return err ? STATUS_ERROR : STATUS_OK;
}
