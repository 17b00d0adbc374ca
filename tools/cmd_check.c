// SPDX-License-Identifier: GPL-2.0
/*
 * check: read the devices of a store as recovery does, without the module.
 */
#include <inttypes.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"
#include "format/recovery.h"
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
	  .doc = "The store as it was at the end of that epoch (the last one)" },
	{ .name = "yes", .key = 'y', .doc = "Do not ask" },
	{ 0 }
};

/* Bytes of records that are forgotten soon enough, however few keys there are. */
#define FRESH_MIN	((size_t)4 << 20)

/* The newest of what was read of a key. */
struct item {
	char *key;
	size_t key_len;
	size_t bytes;			/* that it takes */
	uint64_t version;
	bool removed;
	size_t ncols;
	struct kvtree_column *col;	/* their data follow */
};

/* A pass over all that a recovery restores. */
struct pass {
	struct kvt_recovery rec;
	struct devset *ds;
	struct item *items;
	size_t nr;
	size_t room;
	size_t kept;			/* bytes of those that were there at the last burial */
	size_t fresh;			/* bytes of what was read since */
	struct progress progress;
};

static int item_cmp(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	size_t len = x->key_len < y->key_len ? x->key_len : y->key_len;
	int cmp = memcmp(x->key, y->key, len);

	if (cmp)
		return cmp;
	if (x->key_len != y->key_len)
		return x->key_len < y->key_len ? -1 : 1;
	/* The one that counts comes first. */
	return kvt_log_newer(y->version, y->removed, x->version, x->removed) -
	       kvt_log_newer(x->version, x->removed, y->version, y->removed);
}

/* Keep the newest of each key. */
static void squeeze(struct pass *pass)
{
	size_t i, to = 0;

	if (!pass->nr)
		return;
	qsort(pass->items, pass->nr, sizeof(*pass->items), item_cmp);
	for (i = 0; i < pass->nr; i++) {
		struct item *it = &pass->items[i], *last = to ? &pass->items[to - 1] : NULL;

		if (last && last->key_len == it->key_len &&
		    !memcmp(last->key, it->key, it->key_len)) {
			free(it->key);
			continue;
		}
		pass->items[to++] = *it;
	}
	pass->nr = to;
}

/* Forget older versions and removed keys: nothing brings them back. */
static void bury(struct pass *pass)
{
	size_t i, to = 0;

	squeeze(pass);
	pass->kept = 0;
	pass->fresh = 0;
	for (i = 0; i < pass->nr; i++) {
		if (pass->items[i].removed) {
			free(pass->items[i].key);
			continue;
		}
		pass->kept += pass->items[i].bytes;
		pass->items[to++] = pass->items[i];
	}
	pass->nr = to;
}

/* When as much was read as there is, so that it takes memory and time for what is there. */
static void check_epoch(struct kvt_recovery *rec)
{
	struct pass *pass = (struct pass *)((char *)rec - offsetof(struct pass, rec));

	if (pass->fresh > FRESH_MIN && pass->fresh > pass->kept)
		bury(pass);
}

static struct item *item_new(struct pass *pass)
{
	if (pass->nr == pass->room) {
		squeeze(pass);
		if (pass->nr * 2 > pass->room || !pass->room) {
			pass->room = pass->room ? pass->room * 2 : 1024;
			pass->items = alloc(pass->items, pass->room * sizeof(*pass->items));
		}
	}
	return &pass->items[pass->nr++];
}

static int check_entry(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct pass *pass = (struct pass *)((char *)reader - offsetof(struct pass, rec.reader));
	size_t cols = entry->ncols * sizeof(struct kvtree_column), size, i;
	struct item *it = item_new(pass);
	char *at;

	size = ALIGN((size_t)entry->key_len, 8) + cols;
	for (i = 0; i < entry->ncols; i++)
		size += entry->cols[i].len;
	it->key = alloc(NULL, size);
	it->bytes = size + sizeof(*it);
	pass->fresh += it->bytes;
	it->key_len = entry->key_len;
	it->version = entry->version;
	it->removed = entry->type == KVTREE_LOG_REMOVE;
	it->ncols = entry->ncols;
	memcpy(it->key, entry->key, entry->key_len);
	it->col = (struct kvtree_column *)(it->key + ALIGN((size_t)entry->key_len, 8));
	at = (char *)it->col + cols;
	for (i = 0; i < entry->ncols; i++) {
		memset(&it->col[i], 0, sizeof(it->col[i]));
		it->col[i].id = entry->cols[i].id;
		it->col[i].data = at;
		it->col[i].len = entry->cols[i].len;
		memcpy(at, entry->cols[i].data, entry->cols[i].len);
		at += entry->cols[i].len;
	}
	return 0;
}

static void show_progress(struct kvt_recovery *rec)
{
	struct pass *pass = (struct pass *)((char *)rec - offsetof(struct pass, rec));

	progress_show(&pass->progress, 0, rec->reader.records, rec->reader.bytes);
}

static void pass_exit(struct pass *pass)
{
	size_t i;

	for (i = 0; i < pass->nr; i++)
		free(pass->items[i].key);
	free(pass->items);
}

static uint64_t restored(const struct pass *pass, uint64_t *bytes)
{
	size_t i, j;

	*bytes = 0;
	for (i = 0; i < pass->nr; i++) {
		*bytes += pass->items[i].key_len;
		for (j = 0; j < pass->items[i].ncols; j++)
			*bytes += pass->items[i].col[j].len;
	}
	return pass->nr;
}

static void print_items(const struct pass *pass)
{
	struct kvtree_columns cols;
	size_t i;

	dumpfile_write_first(stdout);
	for (i = 0; i < pass->nr; i++) {
		memset(&cols, 0, sizeof(cols));
		cols.nr = pass->items[i].ncols;
		cols.col = pass->items[i].col;
		dumpfile_write(stdout, pass->items[i].key, pass->items[i].key_len, &cols);
	}
	dumpfile_write_last(stdout, pass->nr);
}

/* The earliest epoch that can be asked for; 0: none, or it is not known. */
static uint64_t first_epoch(const struct kvt_log_found *found)
{
	return found->first <= found->epoch ? found->first : 0;
}

/* What a crash, or damage after it, may have taken. */
static const char *dropped(const struct pass *pass, const struct kvt_log_found *found)
{
	if (found->seen > found->epoch)
		return " (the next one was begun and is dropped)";
	if (found->open && !pass->ds->set.until)
		return " (the last one found: the store was not detached)";
	return "";
}

static void show(const struct pass *pass, const struct kvt_log_found *found)
{
	const struct kvtree_log_super *super = pass->ds->set.dev[0].super;
	const char *label = (const char *)super->label;
	size_t len = strnlen(label, sizeof(super->label));
	uint64_t bytes, keys = restored(pass, &bytes);
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
		json_add_u64(obj, "damaged_superblocks", repair_needed(pass->ds));
		json_add_u64(obj, "segments", pass->rec.segments);
		json_add_u64(obj, "records", pass->rec.reader.records);
		json_add_u64(obj, "keys", keys);
		json_add_u64(obj, "bytes", bytes);
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
	printf("  %-12s %" PRIu64 "\n", "checkpoint",
	       (uint64_t)le64_to_cpu(super->checkpoint.epoch));
	printf("  %-12s %" PRIu64 " in %" PRIu64 " segments\n", "records",
	       (uint64_t)pass->rec.reader.records, (uint64_t)pass->rec.segments);
	printf("  %-12s %" PRIu64 ", %" PRIu64 " bytes of keys and values\n", "keys", keys, bytes);
}

/* Whoever is asked, if anybody can be. */
static bool agreed(bool yes)
{
	char line[16] = "";

	if (yes)
		return true;
	if (!isatty(STDIN_FILENO)) {
		warn("check: nothing is written: nobody is there to be asked (--yes)");
		return false;
	}
	fprintf(stderr, "Write? [y/N] ");
	if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
		return true;
	warn("check: nothing is written");
	return false;
}

/* Mend what can be mended, and look again. */
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
	repair_show(ds, stderr, "is damaged: it will be written anew from the other one");
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
		.rec = { .set = &ds->set, .reader.entry = check_entry,
			 .progress = show_progress, .epoch = check_epoch },
		.ds = ds,
	};
	struct kvt_log_found found;
	int err;

	ds->set.until = check->until;
	/* What was there may be looked at without writing, too. */
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
	err = kvt_recovery_run(&pass.rec, &found);
	progress_end(&pass.progress, NULL, 0, 0);
	if (!err) {
		bury(&pass);
		if (check->print)
			print_items(&pass);
		else
			show(&pass, &found);
	}
	pass_exit(&pass);
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
		     err == -EINVAL ? "none is there, or not any more (see --repair)" :
		     strerror(-err));
	return err ? STATUS_ERROR : STATUS_OK;
}
