// SPDX-License-Identifier: GPL-2.0
/*
 * format: prepare devices for a durable store.
 */
#include <inttypes.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blockdev.h"
#include "signature.h"
#include "stores.h"

/* Divide a device into about this many segments, if it is large enough. */
#define SEGMENTS_WANTED	512u

/*
 * A checkpoint's table fits into one segment and describes about this many: a device can have no
 * more with live records.  Four fifths of a device's segments can have them.
 */
#define SEGMENTS_LIVE	5040u
#define SEGMENTS_USED	(SEGMENTS_LIVE / 4 * 5)

/*
 * Bytes at the beginning and at the end to be overwritten with zeros.  The log is between them:
 * a signature at the end of a device, such as a RAID's, cannot be data of users.
 */
#define WIPED		(1u << 20)

/* Options without a letter. */
enum { OPT_FORCE = 256, OPT_REFORMAT, OPT_SEGMENT };

struct format {
	char *paths[KVTREE_LOG_DEVS_MAX];
	unsigned int nr;
	const char *label;
	uint64_t segment;	/* bytes; 0: chosen by size */
	bool image;		/* accept regular files */
	bool reformat;		/* an old store may be overwritten */
	bool force;		/* anything may be overwritten */
};

static error_t parse_format(int key, char *arg, struct argp_state *state)
{
	struct format *f = state->input;

	switch (key) {
	case OPT_FORCE:
		f->force = true;
		return 0;
	case 'i':
		f->image = true;
		return 0;
	case OPT_REFORMAT:
		f->reformat = true;
		return 0;
	case 'L':
		if (strlen(arg) >= KVTREE_NAME_MAX)
			argp_error(state, "a label has at most %u bytes", KVTREE_NAME_MAX - 1);
		f->label = arg;
		return 0;
	case OPT_SEGMENT:
		f->segment = arg_size(state, "--segment", arg);
		if (f->segment & (f->segment - 1) ||
		    f->segment < (uint64_t)KVTREE_LOG_SEGMENT_MIN * KVTREE_LOG_BLOCK ||
		    f->segment > (uint64_t)KVTREE_LOG_SEGMENT_MAX * KVTREE_LOG_BLOCK)
			argp_error(state, "a segment is a power of two from 4M to 256M");
		return 0;
	case ARGP_KEY_ARG:
		if (f->nr == KVTREE_LOG_DEVS_MAX)
			argp_error(state, "a store has at most %u devices", KVTREE_LOG_DEVS_MAX);
		f->paths[f->nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!f->nr)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option format_options[] = {
	{ .name = "force", .key = OPT_FORCE,
	  .doc = "Overwrite other data on a device (a device in use is always refused)" },
	{ .name = "image", .key = 'i',
	  .doc = "Format regular files of the final size instead of devices" },
	{ .name = "label", .key = 'L', .arg = "NAME",
	  .doc = "Record this name on the devices; attaching by another name changes it" },
	{ .name = "reformat", .key = OPT_REFORMAT,
	  .doc = "Overwrite a kvtree store that is not attached" },
	{ .name = "segment", .key = OPT_SEGMENT, .arg = "N",
	  .doc = "Bytes of a segment, a power of two from 4M to 256M (chosen by size)" },
	{ 0 }
};

/* Whether the device holds a store, whole or damaged: one valid copy is enough. */
static int find_store(const struct blockdev *dev, struct kvtree_log_super *super)
{
	uint64_t number;
	int err = 0;

	for (number = 1; !err && number <= KVTREE_LOG_SUPER_COPIES; number++) {
		err = blockdev_read(dev, super, sizeof(*super),
				    kvt_log_super_block(number) * KVTREE_LOG_BLOCK);
		if (!err && le64_to_cpu(super->magic) == KVTREE_LOG_SUPER_MAGIC)
			return 1;
	}
	return err;
}

static int refuse_store(const struct format *f, const struct blockdev *dev)
{
	struct kvtree_log_super super;
	int found = find_store(dev, &super);
	char *label;
	size_t len;
	FILE *out;

	if (found <= 0 || f->reformat)
		return found < 0 ? found : 0;
	out = open_memstream(&label, &len);
	if (!out)
		die("out of memory");
	put_text(out, super.label, strnlen((const char *)super.label, sizeof(super.label)));
	if (fclose(out))
		die("out of memory");
	warn("%s: it holds the kvtree store '%s': --reformat overwrites it", dev->path, label);
	free(label);
	return -EEXIST;
}

/* Refuse a file system, a partition table, a part of a RAID and the like. */
static int refuse_signed(const struct blockdev *dev)
{
	struct signatures found;
	int err;

	signatures_find(&found, dev->fd, NULL);
	err = found.list ? -EEXIST : found.err;
	if (found.list)
		warn("%s: it holds %s: --force overwrites that", dev->path, found.list);
	else if (err)
		warn("%s: cannot read its content", dev->path);
	signatures_free(&found);
	return err;
}

/* A file may hold data without a known signature. */
static int refuse_data(const struct blockdev *dev)
{
	char *data = alloc(NULL, WIPED);
	int err;

	err = blockdev_read(dev, data, WIPED, 0);
	if (!err && (*data || memcmp(data, data + 1, WIPED - 1)))
		err = -EEXIST;
	if (!err)
		err = blockdev_read(dev, data, WIPED, dev->bytes - WIPED);
	if (!err && (*data || memcmp(data, data + 1, WIPED - 1)))
		err = -EEXIST;
	if (err == -EEXIST)
		warn("%s: it is a file with data: --force overwrites it", dev->path);
	free(data);
	return err;
}

/* Users of a device open it exclusively, but users of a file do not. */
static int refuse_file(const struct format *f, const struct blockdev *dev)
{
	if (!f->image) {
		warn("%s: it is a file, not a block device: use --image to format it",
		     dev->path);
		return -ENOTBLK;
	}
	return inuse_by_loop(dev) ? -EBUSY : 0;
}

/* Whether it holds anything that may still be needed. */
static int refuse_content(const struct format *f, const struct blockdev *dev)
{
	struct kvtree_log_super super;
	int err;

	err = refuse_store(f, dev);
	if (!err)
		err = refuse_signed(dev);
	if (!err && !dev->is_block && !(f->reformat && find_store(dev, &super) > 0))
		err = refuse_data(dev);
	return err;
}

/* Wipe both ends, so that neither kvtree nor other tools find old data. */
static int wipe(const struct blockdev *dev)
{
	char *zeros = calloc(1, WIPED);
	int err;

	if (!zeros)
		die("out of memory");
	err = blockdev_write(dev, zeros, WIPED, 0);
	/* Partition tables and RAIDs also have metadata at the end. */
	if (!err)
		err = blockdev_write(dev, zeros, WIPED, dev->bytes - WIPED);
	free(zeros);
	return err;
}

static uint32_t segment_blocks(const struct format *f, uint64_t blocks)
{
	uint32_t n = KVTREE_LOG_SEGMENT_MIN;

	if (f->segment)
		return (uint32_t)(f->segment / KVTREE_LOG_BLOCK);
	while (n < KVTREE_LOG_SEGMENT_MAX / 4 && blocks / n > SEGMENTS_WANTED)
		n *= 2;
	while (n < KVTREE_LOG_SEGMENT_MAX && blocks / n > SEGMENTS_USED)
		n *= 2;
	return n;
}

/* A very large device may not be usable completely. */
static void tell_limit(const char *path, const struct kvtree_log_super *super)
{
	uint64_t size = le32_to_cpu(super->segment_blocks);

	if (le32_to_cpu(super->nr_segments) > SEGMENTS_USED)
		warn("%s: with segments of %" PRIu64 " MiB a store can have at most %" PRIu64
		     " GiB there", path, size * KVTREE_LOG_BLOCK >> 20,
		     size * SEGMENTS_LIVE * KVTREE_LOG_BLOCK >> 30);
}

static int fill(const struct format *f, const struct blockdev *dev, uint32_t index,
		struct kvtree_log_super *super)
{
	const uint64_t others = KVTREE_LOG_DATA_START + WIPED / KVTREE_LOG_BLOCK;
	uint64_t blocks = dev->bytes / KVTREE_LOG_BLOCK, n;
	uint32_t size = segment_blocks(f, blocks);

	n = (blocks > others ? blocks - others : 0) / size;
	if (n < KVTREE_LOG_SEGMENTS_MIN) {
		warn("%s: too small: it needs at least %" PRIu64 " MiB", dev->path,
		     ((uint64_t)size * KVTREE_LOG_SEGMENTS_MIN + others) * KVTREE_LOG_BLOCK >> 20);
		return -ENOSPC;
	}
	if (n > KVTREE_LOG_SEGMENTS_MAX)
		n = KVTREE_LOG_SEGMENTS_MAX;
	super->dev_index = cpu_to_le32(index);
	super->nr_blocks = cpu_to_le64(KVTREE_LOG_DATA_START + n * size);
	super->segment_blocks = cpu_to_le32(size);
	super->nr_segments = cpu_to_le32((uint32_t)n);
	return 0;
}

static void first_super(const struct format *f, struct kvtree_log_super *super)
{
	uint64_t id;

	memset(super, 0, sizeof(*super));
	if (getrandom(super->uuid, sizeof(super->uuid), 0) != sizeof(super->uuid) ||
	    getrandom(&id, sizeof(id), 0) != sizeof(id))
		die("no random numbers: %m");
	/* A UUID of version 4. */
	super->uuid[6] = (super->uuid[6] & 0x0f) | 0x40;
	super->uuid[8] = (super->uuid[8] & 0x3f) | 0x80;
	super->magic = cpu_to_le64(KVTREE_LOG_SUPER_MAGIC);
	super->version = cpu_to_le32(KVTREE_LOG_VERSION);
	super->nr_devs = cpu_to_le32(f->nr);
	super->write_id = id;
	super->formatted = cpu_to_le64((uint64_t)time(NULL));
	super->version_lease = cpu_to_le64(1);
	if (f->label)
		memcpy(super->label, f->label, strlen(f->label));
}

/* Write both copies.  The set is complete when the last device has them. */
static int write_supers(const struct blockdev *dev, struct kvtree_log_super *super)
{
	uint64_t number;
	int err = 0;

	for (number = 1; !err && number <= KVTREE_LOG_SUPER_COPIES; number++) {
		super->number = cpu_to_le64(number);
		kvt_log_super_seal(super);
		err = blockdev_write(dev, super, sizeof(*super),
				     kvt_log_super_block(number) * KVTREE_LOG_BLOCK);
		if (!err && fsync(dev->fd)) {
			warn("%s: cannot write: %m", dev->path);
			err = -errno;
		}
	}
	return err;
}

static bool given_before(const struct format *f, unsigned int n)
{
	struct stat st, other;
	unsigned int i;

	if (stat(f->paths[n], &st))
		return false;
	for (i = 0; i < n; i++) {
		if (stat(f->paths[i], &other))
			continue;
		if (S_ISBLK(st.st_mode) ? S_ISBLK(other.st_mode) && st.st_rdev == other.st_rdev :
		    st.st_dev == other.st_dev && st.st_ino == other.st_ino)
			return true;
	}
	return false;
}

/* Check that a device may be formatted and is large enough. */
static int look(const struct format *f, struct blockdev *dev, unsigned int n,
		struct kvtree_log_super *super)
{
	int err;

	if (given_before(f, n)) {
		warn("%s: it is given twice", f->paths[n]);
		return -EINVAL;
	}
	err = blockdev_open(dev, f->paths[n], true);
	if (!err && !dev->is_block)
		err = refuse_file(f, dev);
	if (!err)
		err = fill(f, dev, n, super);
	if (!err && !f->force)
		err = refuse_content(f, dev);
	if (!err)
		tell_limit(f->paths[n], super);
	return err;
}

static void show(const struct format *f, const struct kvtree_log_super *super,
		 const struct blockdev *dev)
{
	uint64_t bytes = 0;
	char uuid[37];
	unsigned int i;
	json_t *obj;

	uuid_text(uuid, super->uuid);
	for (i = 0; i < f->nr; i++)
		bytes += dev[i].bytes;
	if (tool.json) {
		obj = json_new();
		json_add(obj, "uuid", json_string(uuid));
		json_add_u64(obj, "devices", f->nr);
		json_add_u64(obj, "bytes", bytes);
		json_print(obj);
		return;
	}
	printf("%s: %u device%s, %" PRIu64 " MiB, segments of %u MiB\n", uuid, f->nr,
	       f->nr > 1 ? "s" : "", bytes >> 20,
	       le32_to_cpu(super->segment_blocks) / (1024 * 1024 / KVTREE_LOG_BLOCK));
}

int cmd_format(int argc, char **argv)
{
	const struct argp argp = {
		.options = format_options,
		.parser = parse_format,
		.args_doc = "DEVICE...",
		.doc = "Make block devices ready for a durable store.\n"
		       "\vAll data on them is lost. A store has one to eight devices, all\n"
		       "of which are needed to attach it. A device with a file system, a partition\n"
		       "table, another store or the like on it is refused unless an option says\n"
		       "that it may be overwritten. One that is mounted, attached or otherwise in\n"
		       "use is always refused.",
		.children = common_options,
	};
	struct blockdev dev[KVTREE_LOG_DEVS_MAX];
	struct kvtree_log_super super;
	struct format f = { 0 };
	unsigned int i;
	int err = 0;

	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		dev[i].fd = -1;
	parse(&argp, argc, argv, &f);
	first_super(&f, &super);
	/* Check all devices before writing to any. */
	for (i = 0; !err && i < f.nr; i++)
		err = look(&f, &dev[i], i, &super);
	for (i = 0; !err && i < f.nr; i++)
		err = wipe(&dev[i]);
	for (i = 0; !err && i < f.nr; i++) {
		err = fill(&f, &dev[i], i, &super);
		if (!err)
			err = write_supers(&dev[i], &super);
	}
	if (!err)
		show(&f, &super, dev);
	for (i = 0; i < f.nr; i++)
		blockdev_close(&dev[i]);
	return err ? STATUS_ERROR : STATUS_OK;
}
