// SPDX-License-Identifier: GPL-2.0
/*
 * Disks in memory that fail on demand: /dev/kvtfault0 and so on.
 *
 * Each request may end with any status of the block layer, in particular with those that
 * become other errnos than EIO.  Requests can be held, and data that was not flushed can
 * be lost, as in a power failure.  Unloading the module loses the contents of all disks.
 *
 * /sys/block/kvtfaultN/fault/ has
 *	statuses	the names of all statuses, one on each line
 *	fail		"STATUS OPS FIRST COUNT [SECTOR SECTORS]": from now on, of the
 *			requests of type OPS (letters: r, w, f: flushes, d: discards) that
 *			touch one of the sectors, COUNT end with STATUS, beginning with the
 *			FIRST-th.  They transfer nothing.  COUNT 0: none.
 *			STATUS "hold": they are held
 *	counted		requests that matched "fail", since it was written
 *	failed		how many of them ended with STATUS, or were held
 *	hold		1: hold all requests; 0: execute them, subject to "fail"
 *	held		how many are held
 *	cache		"keep": from now on track what is not flushed; "lose": undo all that is
 *			not; "lose SECTOR SECTORS": the same, except for these; "flush";
 *			"drop": as "keep", and a flush that fails loses it; "stale": as "keep",
 *			and what a failed flush should have made stable is lost with the
 *			cache, despite later flushes, unless it is written again
 *	mb		size of the disk in MiB
 *	reset		1: as when the module was loaded: zeros, nothing fails, nothing is held
 *
 * Discarded sectors are zeros at once, and losing the cache never restores them.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/xarray.h>

#define DISKS_MAX	8

static unsigned int disks = 3;
module_param(disks, uint, 0444);
MODULE_PARM_DESC(disks, "how many disks");

static unsigned int disk_mb = 132;
module_param(disk_mb, uint, 0444);
MODULE_PARM_DESC(disk_mb, "MiB of each");

static const struct {
	const char *name;
	blk_status_t status;
} statuses[] = {
	{ "notsupp", BLK_STS_NOTSUPP },
	{ "timeout", BLK_STS_TIMEOUT },
	{ "nospc", BLK_STS_NOSPC },
	{ "transport", BLK_STS_TRANSPORT },
	{ "target", BLK_STS_TARGET },
	{ "resv-conflict", BLK_STS_RESV_CONFLICT },
	{ "medium", BLK_STS_MEDIUM },
	{ "protection", BLK_STS_PROTECTION },
	{ "resource", BLK_STS_RESOURCE },
	{ "ioerr", BLK_STS_IOERR },
	{ "dm-requeue", BLK_STS_DM_REQUEUE },
	{ "again", BLK_STS_AGAIN },
	{ "dev-resource", BLK_STS_DEV_RESOURCE },
	{ "zone-open-resource", BLK_STS_ZONE_OPEN_RESOURCE },
	{ "zone-active-resource", BLK_STS_ZONE_ACTIVE_RESOURCE },
	{ "offline", BLK_STS_OFFLINE },
	{ "duration-limit", BLK_STS_DURATION_LIMIT },
	{ "inval", BLK_STS_INVAL },
};

enum {
	OP_READ		= BIT(0),
	OP_WRITE	= BIT(1),
	OP_FLUSH	= BIT(2),
	OP_DISCARD	= BIT(3),
};

static const char op_letters[] = "rwfd";

/* The requests that fail, and how. */
struct rule {
	bool hold;			/* hold them instead */
	blk_status_t status;
	unsigned int ops;
	u64 first;
	u64 count;
	u64 sector;
	u64 sectors;
};

/* A page as of the end of the last flush. */
struct undo {
	struct list_head list;
	pgoff_t index;
	u8 data[PAGE_SIZE];
};

struct fault_disk {
	struct gendisk *disk;
	struct mutex lock;		/* of all that follows */
	struct xarray pages;		/* page frames; none: zeros */
	struct rule rule;
	u64 counted;
	u64 failed;
	bool hold;
	struct bio_list held;
	bool keep;			/* what is needed to undo unflushed writes */
	bool drop;			/* a flush that fails loses it */
	bool stale;			/* a flush that fails makes the next ones lie */
	struct list_head undos;		/* the latest first */
	struct list_head lost;		/* of flushes that have failed */
};

static struct fault_disk *fault_disks[DISKS_MAX];
static int fault_major;

static unsigned int bio_ops(const struct bio *bio)
{
	unsigned int ops = 0;

	if (op_is_discard(bio->bi_opf))
		return OP_DISCARD;
	if (bio->bi_opf & (REQ_PREFLUSH | REQ_FUA))
		ops |= OP_FLUSH;
	if (bio_sectors(bio))
		ops |= op_is_write(bio->bi_opf) ? OP_WRITE : OP_READ;
	return ops;
}

static bool rule_means(const struct rule *rule, const struct bio *bio)
{
	u64 at = bio->bi_iter.bi_sector;

	if (!(rule->ops & bio_ops(bio)))
		return false;
	return !rule->sectors || (at < rule->sector + rule->sectors &&
				  rule->sector < at + bio_sectors(bio));
}

/* Whether to fail or hold a request. */
static bool fault_strikes(struct fault_disk *fd, const struct bio *bio)
{
	const struct rule *rule = &fd->rule;

	if (!rule_means(rule, bio))
		return false;
	fd->counted++;
	if (fd->counted < rule->first || fd->counted - rule->first >= rule->count)
		return false;
	fd->failed++;
	return true;
}

static struct page *fault_page(struct fault_disk *fd, pgoff_t index)
{
	struct page *page = xa_load(&fd->pages, index);

	if (page)
		return page;
	page = alloc_page(GFP_NOIO | __GFP_ZERO);
	if (page && xa_err(xa_store(&fd->pages, index, page, GFP_NOIO))) {
		__free_page(page);
		page = NULL;
	}
	return page;
}

static int undo_note(struct fault_disk *fd, pgoff_t index, struct page *page)
{
	struct undo *undo;

	if (!fd->keep)
		return 0;
	undo = kmalloc(sizeof(*undo), GFP_NOIO);
	if (!undo)
		return -ENOMEM;
	undo->index = index;
	memcpy_from_page(undo->data, page, 0, PAGE_SIZE);
	list_add(&undo->list, &fd->undos);
	return 0;
}

static void undos_free(struct list_head *undos)
{
	struct undo *undo, *next;

	list_for_each_entry_safe(undo, next, undos, list)
		kfree(undo);
	INIT_LIST_HEAD(undos);
}

/* Take a page as stable. */
static void lost_forget(struct fault_disk *fd, pgoff_t index)
{
	struct undo *undo, *next;

	list_for_each_entry_safe(undo, next, &fd->lost, list) {
		if (undo->index != index)
			continue;
		list_del(&undo->list);
		kfree(undo);
	}
}

/* Make everything stable that was written since the last flush. */
static void cache_flush(struct fault_disk *fd)
{
	struct undo *undo;

	if (!list_empty(&fd->lost))
		list_for_each_entry(undo, &fd->undos, list)
			lost_forget(fd, undo->index);
	undos_free(&fd->undos);
}

/* Reset to the state after loading; under the lock, or without other users. */
static void fault_clear(struct fault_disk *fd)
{
	struct page *page;
	pgoff_t index;

	undos_free(&fd->undos);
	undos_free(&fd->lost);
	xa_for_each(&fd->pages, index, page)
		__free_page(page);
	xa_destroy(&fd->pages);
	fd->rule = (struct rule){};
	fd->counted = 0;
	fd->failed = 0;
	fd->keep = false;
	fd->drop = false;
	fd->stale = false;
}

static void undos_do(struct fault_disk *fd, struct list_head *undos, pgoff_t kept, pgoff_t nr)
{
	struct undo *undo;

	list_for_each_entry(undo, undos, list)
		if (undo->index - kept >= nr)
			memcpy_to_page(xa_load(&fd->pages, undo->index), 0, undo->data, PAGE_SIZE);
	undos_free(undos);
}

/* Undo all, except @nr pages from @kept on. */
static void cache_lose(struct fault_disk *fd, pgoff_t kept, pgoff_t nr)
{
	undos_do(fd, &fd->undos, kept, nr);
	undos_do(fd, &fd->lost, kept, nr);
}

static void undos_discard(struct list_head *undos, pgoff_t from, pgoff_t nr)
{
	struct undo *undo, *next;

	list_for_each_entry_safe(undo, next, undos, list) {
		if (undo->index - from >= nr)
			continue;
		list_del(&undo->list);
		kfree(undo);
	}
}

static void fault_discard(struct fault_disk *fd, const struct bio *bio)
{
	pgoff_t from = DIV_ROUND_UP_ULL(bio->bi_iter.bi_sector, PAGE_SECTORS), index;
	pgoff_t end = bio_end_sector(bio) >> PAGE_SECTORS_SHIFT;
	struct page *page;

	if (from >= end)
		return;
	undos_discard(&fd->undos, from, end - from);
	undos_discard(&fd->lost, from, end - from);
	xa_for_each_range(&fd->pages, index, page, from, end - 1) {
		xa_erase(&fd->pages, index);
		__free_page(page);
	}
}

/* Copy one piece, within one page on either side. */
static blk_status_t fault_copy(struct fault_disk *fd, struct bio *bio, struct bio_vec *bv)
{
	u64 at = (u64)bio->bi_iter.bi_sector << SECTOR_SHIFT;
	pgoff_t index = at >> PAGE_SHIFT;
	unsigned int off = at & ~PAGE_MASK;
	struct page *page;
	void *data;

	bv->bv_len = min_t(unsigned int, bv->bv_len, PAGE_SIZE - off);
	if (!op_is_write(bio->bi_opf)) {
		page = xa_load(&fd->pages, index);
		data = bvec_kmap_local(bv);
		if (page)
			memcpy_from_page(data, page, off, bv->bv_len);
		else
			memset(data, 0, bv->bv_len);
		kunmap_local(data);
		return BLK_STS_OK;
	}
	page = fault_page(fd, index);
	if (!page || undo_note(fd, index, page))
		return BLK_STS_RESOURCE;
	data = bvec_kmap_local(bv);
	memcpy_to_page(page, off, data, bv->bv_len);
	kunmap_local(data);
	return BLK_STS_OK;
}

static blk_status_t fault_transfer(struct fault_disk *fd, struct bio *bio)
{
	blk_status_t status = BLK_STS_OK;
	struct bio_vec bv;

	if (op_is_discard(bio->bi_opf)) {
		fault_discard(fd, bio);
		return BLK_STS_OK;
	}
	if (bio->bi_opf & REQ_PREFLUSH)
		cache_flush(fd);
	while (!status && bio->bi_iter.bi_size) {
		bv = bio_iter_iovec(bio, bio->bi_iter);
		status = fault_copy(fd, bio, &bv);
		bio_advance_iter(bio, &bio->bi_iter, bv.bv_len);
	}
	if (bio->bi_opf & REQ_FUA)
		cache_flush(fd);
	return status;
}

static blk_status_t fault_fail(struct fault_disk *fd, const struct bio *bio)
{
	if (bio_ops(bio) & OP_FLUSH) {
		if (fd->drop)
			cache_lose(fd, 0, 0);
		if (fd->stale)
			list_splice_init(&fd->undos, &fd->lost);
	}
	return fd->rule.status;
}

/* Under the lock. */
static void fault_end(struct fault_disk *fd, struct bio *bio)
{
	bool fails = !fd->rule.hold && fault_strikes(fd, bio);

	bio->bi_status = fails ? fault_fail(fd, bio) : fault_transfer(fd, bio);
	bio_endio(bio);
}

static void fault_submit_bio(struct bio *bio)
{
	struct fault_disk *fd = bio->bi_bdev->bd_disk->private_data;

	mutex_lock(&fd->lock);
	if (fd->hold || (fd->rule.hold && fault_strikes(fd, bio)))
		bio_list_add(&fd->held, bio);
	else
		fault_end(fd, bio);
	mutex_unlock(&fd->lock);
}

static void fault_release(struct fault_disk *fd)
{
	struct bio *bio;

	mutex_lock(&fd->lock);
	fd->hold = false;
	while ((bio = bio_list_pop(&fd->held)))
		fault_end(fd, bio);
	mutex_unlock(&fd->lock);
}

static const struct block_device_operations fault_fops = {
	.owner = THIS_MODULE,
	.submit_bio = fault_submit_bio,
};

/* Control */

static struct fault_disk *dev_fault(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

static ssize_t statuses_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	ssize_t len = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(statuses); i++)
		len += sysfs_emit_at(buf, len, "%s\n", statuses[i].name);
	return len;
}
static DEVICE_ATTR_RO(statuses);

static int rule_status(struct rule *rule, const char *name)
{
	size_t i;

	rule->hold = !strcmp(name, "hold");
	if (rule->hold)
		return 0;
	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (strcmp(name, statuses[i].name))
			continue;
		rule->status = statuses[i].status;
		return 0;
	}
	return -EINVAL;
}

static ssize_t fail_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t len)
{
	struct fault_disk *fd = dev_fault(dev);
	struct rule rule = {};
	char name[24], ops[8];
	const char *c, *op;
	int n;

	n = sscanf(buf, "%23s %7s %llu %llu %llu %llu", name, ops, &rule.first, &rule.count,
		   &rule.sector, &rule.sectors);
	if ((n != 4 && n != 6) || rule_status(&rule, name))
		return -EINVAL;
	for (c = ops; *c; c++) {
		op = strchr(op_letters, *c);
		if (!op)
			return -EINVAL;
		rule.ops |= BIT(op - op_letters);
	}
	mutex_lock(&fd->lock);
	fd->rule = rule;
	fd->counted = 0;
	fd->failed = 0;
	mutex_unlock(&fd->lock);
	return len;
}
static DEVICE_ATTR_WO(fail);

static ssize_t counted_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(dev_fault(dev)->counted));
}
static DEVICE_ATTR_RO(counted);

static ssize_t failed_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(dev_fault(dev)->failed));
}
static DEVICE_ATTR_RO(failed);

static ssize_t held_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct fault_disk *fd = dev_fault(dev);
	unsigned int n;

	mutex_lock(&fd->lock);
	n = bio_list_size(&fd->held);
	mutex_unlock(&fd->lock);
	return sysfs_emit(buf, "%u\n", n);
}
static DEVICE_ATTR_RO(held);

static ssize_t hold_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t len)
{
	struct fault_disk *fd = dev_fault(dev);
	bool hold;
	int err;

	err = kstrtobool(buf, &hold);
	if (err)
		return err;
	if (!hold) {
		fault_release(fd);
		return len;
	}
	mutex_lock(&fd->lock);
	fd->hold = true;
	mutex_unlock(&fd->lock);
	return len;
}
static DEVICE_ATTR_WO(hold);

static ssize_t cache_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	struct fault_disk *fd = dev_fault(dev);
	u64 sector = 0, sectors = 0;
	char what[8];
	int n;

	n = sscanf(buf, "%7s %llu %llu", what, &sector, &sectors);
	if (n != 1 && (n != 3 || strcmp(what, "lose")))
		return -EINVAL;
	mutex_lock(&fd->lock);
	if (!strcmp(what, "keep") || !strcmp(what, "drop") || !strcmp(what, "stale")) {
		fd->keep = true;
		fd->drop = *what == 'd';
		fd->stale = *what == 's';
	} else if (!strcmp(what, "lose")) {
		cache_lose(fd, sector >> PAGE_SECTORS_SHIFT, sectors >> PAGE_SECTORS_SHIFT);
	} else if (!strcmp(what, "flush")) {
		cache_flush(fd);
	} else {
		n = -EINVAL;
	}
	mutex_unlock(&fd->lock);
	return n < 0 ? n : len;
}
static DEVICE_ATTR_WO(cache);

static ssize_t mb_store(struct device *dev, struct device_attribute *attr, const char *buf,
			size_t len)
{
	unsigned int mb;
	int err;

	err = kstrtouint(buf, 0, &mb);
	if (err)
		return err;
	set_capacity_and_notify(dev_to_disk(dev), (sector_t)mb << (20 - SECTOR_SHIFT));
	return len;
}
static DEVICE_ATTR_WO(mb);

static ssize_t reset_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	struct fault_disk *fd = dev_fault(dev);
	bool reset;
	int err;

	err = kstrtobool(buf, &reset);
	if (err || !reset)
		return err ?: -EINVAL;
	fault_release(fd);
	mutex_lock(&fd->lock);
	fault_clear(fd);
	mutex_unlock(&fd->lock);
	set_capacity_and_notify(fd->disk, (sector_t)disk_mb << (20 - SECTOR_SHIFT));
	invalidate_bdev(fd->disk->part0);
	return len;
}
static DEVICE_ATTR_WO(reset);

static struct attribute *fault_attrs[] = {
	&dev_attr_statuses.attr,
	&dev_attr_fail.attr,
	&dev_attr_counted.attr,
	&dev_attr_failed.attr,
	&dev_attr_hold.attr,
	&dev_attr_held.attr,
	&dev_attr_cache.attr,
	&dev_attr_mb.attr,
	&dev_attr_reset.attr,
	NULL
};

static const struct attribute_group fault_group = {
	.name = "fault",
	.attrs = fault_attrs,
};

static const struct attribute_group *fault_groups[] = { &fault_group, NULL };

static void fault_disk_free(struct fault_disk *fd)
{
	fault_clear(fd);
	kfree(fd);
}

static int fault_disk_add(unsigned int i)
{
	struct queue_limits lim = {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.discard_granularity = PAGE_SIZE,
		.features = BLK_FEAT_WRITE_CACHE,
	};
	struct fault_disk *fd;
	int err;

	fd = kzalloc(sizeof(*fd), GFP_KERNEL);
	if (!fd)
		return -ENOMEM;
	mutex_init(&fd->lock);
	xa_init(&fd->pages);
	bio_list_init(&fd->held);
	INIT_LIST_HEAD(&fd->undos);
	INIT_LIST_HEAD(&fd->lost);
	fd->disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(fd->disk)) {
		err = PTR_ERR(fd->disk);
		kfree(fd);
		return err;
	}
	fd->disk->major = fault_major;
	fd->disk->first_minor = i;
	fd->disk->minors = 1;
	fd->disk->fops = &fault_fops;
	fd->disk->private_data = fd;
	snprintf(fd->disk->disk_name, DISK_NAME_LEN, "kvtfault%u", i);
	set_capacity(fd->disk, (sector_t)disk_mb << (20 - SECTOR_SHIFT));
	err = device_add_disk(NULL, fd->disk, fault_groups);
	if (err) {
		put_disk(fd->disk);
		kfree(fd);
		return err;
	}
	fault_disks[i] = fd;
	return 0;
}

static void fault_disks_remove(void)
{
	struct fault_disk *fd;
	unsigned int i;

	for (i = 0; i < DISKS_MAX; i++) {
		fd = fault_disks[i];
		if (!fd)
			continue;
		fault_release(fd);
		del_gendisk(fd->disk);
		put_disk(fd->disk);
		fault_disk_free(fd);
	}
	unregister_blkdev(fault_major, "kvtfault");
}

static int __init fault_init(void)
{
	unsigned int i;
	int err = 0;

	if (!disks || disks > DISKS_MAX || !disk_mb)
		return -EINVAL;
	fault_major = register_blkdev(0, "kvtfault");
	if (fault_major < 0)
		return fault_major;
	for (i = 0; !err && i < disks; i++)
		err = fault_disk_add(i);
	if (err)
		fault_disks_remove();
	return err;
}

static void __exit fault_exit(void)
{
	fault_disks_remove();
}

module_init(fault_init);
module_exit(fault_exit);
MODULE_DESCRIPTION("Disks in memory that fail as they are told");
MODULE_LICENSE("GPL");
