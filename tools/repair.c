// SPDX-License-Identifier: GPL-2.0
/*
 * Repair: a copy of a superblock that is damaged, or cannot be read, is written anew
 * from the other copy on its device.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/random.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"
#include "repair.h"

/* The copy beside the one that counts. */
static unsigned int other_copy(const struct devset *ds)
{
	return (ds->set.number + 1) % KVTREE_LOG_SUPER_COPIES;
}

/**
 * repair_needed() - count the copies of superblocks that do not count
 * @ds: loaded
 *
 * Return: how many devices have one; the other one of each is sound
 */
unsigned int repair_needed(const struct devset *ds)
{
	unsigned int n = 0, i;

	for (i = 0; i < ds->set.nr_devs; i++)
		n += !ds->set.dev[i].valid[other_copy(ds)];
	return n;
}

/**
 * repair_show() - say which copies are damaged
 * @ds: loaded
 * @out: where to
 * @what: what is said of each, behind its name
 */
void repair_show(const struct devset *ds, FILE *out, const char *what)
{
	unsigned int i;

	for (i = 0; i < ds->set.nr_devs; i++)
		if (!ds->set.dev[i].valid[other_copy(ds)])
			fprintf(out, "%s: copy %u of the superblock %s\n",
				ds->dev[ds->set.dev[i].slot].path, other_copy(ds), what);
}

/* A file behind a loop device is not protected by O_EXCL. */
static int refuse_used(const struct devset *ds)
{
	unsigned int i;

	for (i = 0; i < ds->set.nr_devs; i++) {
		const struct blockdev *dev = &ds->dev[i];

		if (dev->is_block || !inuse_by_loop(dev))
			continue;
		warn("%s: it is behind a loop device: name that", dev->path);
		return -EBUSY;
	}
	return 0;
}

static struct kvtree_log_super without_number(const struct kvtree_log_super *super)
{
	struct kvtree_log_super same = *super;

	same.number = 0;
	same.write_id = 0;
	same.crc = 0;
	return same;
}

/*
 * The number and the write_id of what is written: those that other devices have in that
 * place, if it says the same there.  If not, a number higher than the one that counts: also
 * where that one is lost, this one says the same.
 */
static void choose_number(const struct devset *ds, struct kvtree_log_super *like)
{
	const struct kvt_log_set *set = &ds->set;
	unsigned int copy = other_copy(ds), i;
	uint64_t id;

	for (i = 0; i < set->nr_devs; i++) {
		const struct kvtree_log_super *super = &set->dev[i].copy[copy];
		struct kvtree_log_super is = without_number(super);
		struct kvtree_log_super wanted = without_number(set->dev[i].super);

		if (!set->dev[i].valid[copy] || memcmp(&is, &wanted, sizeof(is)))
			continue;
		like->number = super->number;
		like->write_id = super->write_id;
		return;
	}
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		die("no random numbers: %m");
	like->number = cpu_to_le64(set->number + 1);
	like->write_id = id;
}

static int rewrite(const struct blockdev *dev, struct kvtree_log_super *super)
{
	uint64_t at = kvt_log_super_block(le64_to_cpu(super->number)) * KVTREE_LOG_BLOCK;
	struct kvtree_log_super is;
	int err;

	kvt_log_super_seal(super);
	err = blockdev_write(dev, super, sizeof(*super), at);
	if (!err && fsync(dev->fd)) {
		err = -errno;
		warn("%s: cannot write: %s", dev->path, strerror(-err));
	}
	if (err)
		return err;
	/* From the device, and not from what was cached of it. */
	posix_fadvise(dev->fd, 0, 0, POSIX_FADV_DONTNEED);
	err = blockdev_read(dev, &is, sizeof(is), at);
	if (!err && memcmp(&is, super, sizeof(is))) {
		warn("%s: it does not keep what is written", dev->path);
		err = -EIO;
	}
	return err;
}

/**
 * repair() - rewrite the copies that are damaged
 * @ds: loaded, opened to be written
 *
 * The copies that count are not touched.  When this is interrupted the store is as it was.
 *
 * Return: 0 or a negative errno, which was said
 */
int repair(struct devset *ds)
{
	struct kvtree_log_super like, super;
	unsigned int i;
	int err;

	err = refuse_used(ds);
	choose_number(ds, &like);
	for (i = 0; !err && i < ds->set.nr_devs; i++) {
		if (ds->set.dev[i].valid[other_copy(ds)])
			continue;
		super = *ds->set.dev[i].super;
		super.number = like.number;
		super.write_id = like.write_id;
		err = rewrite(&ds->dev[ds->set.dev[i].slot], &super);
	}
	return err;
}
