/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Durable stores: block devices of a test's own (loop devices over memory), their
 * contents, and the calls that attach them.
 */
#ifndef KVT_TEST_DURABLE_H
#define KVT_TEST_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/kvtree.h>
#include <linux/kvtree_format.h>

#define KVT_MIB		(1ul << 20)

struct kvt_disk {
	char path[48];		/* of its node */
	size_t bytes;
	int memory;		/* a memfd with its contents */
	int fd;
};

/* They end the process if they fail. */
void kvt_disk_make(struct kvt_disk *disk, size_t mib, unsigned int block);
void kvt_disk_remove(struct kvt_disk *disk);

/* Its whole contents, and how to restore them when nobody has it open. */
void *kvt_disk_image(const struct kvt_disk *disk);
/* Of the copies of its superblock, the one that was written last. */
const struct kvtree_log_super *kvt_image_super(const void *image);
void kvt_disk_free(const struct kvt_disk *disk, void *image);
void kvt_disk_restore(const struct kvt_disk *disk, const void *image);
void kvt_disk_write(const struct kvt_disk *disk, const void *data, size_t len, size_t at);

/*
 * The same for several disks.  @fd: the store that they are attached to, or -1: the images are of
 * one moment, although a checkpoint may be under way.  Earlier images are freed; NULL: none.
 */
void kvt_disks_image(const struct kvt_disk *disk, int nr, int fd, void **image);
/* The i-th part of an image that was ever written to.  Returns whether there is one. */
bool kvt_image_part(const struct kvt_disk *disk, const void *image, size_t i, off_t *at,
		    off_t *end);
void kvt_disks_restore(const struct kvt_disk *disk, int nr, void *const *image);
/* Records of the checkpoint that counts. */
__u64 kvt_disks_records(const struct kvt_disk *disk, int nr);

void kvt_disk_resize(struct kvt_disk *disk, size_t mib);

/*
 * Disks of null_blk.  Attributes are set between _make() and _start(); the contents
 * survive _stop().  kvt_null_fail() makes all writes and reads fail.
 */
void kvt_null_make(struct kvt_disk *disk, const char *name, size_t mib);
bool kvt_null_try(const struct kvt_disk *disk, const char *attribute, const char *value);
void kvt_null_start(struct kvt_disk *disk);
void kvt_null_stop(struct kvt_disk *disk);
void kvt_null_remove(struct kvt_disk *disk);
void kvt_null_fail(const struct kvt_disk *disk, bool fails);

/* kvtree store format, check, the same with --repair, probe; the exit status. */
int kvt_format(const struct kvt_disk *disk, int nr);
int kvt_check_disks(const struct kvt_disk *disk, int nr);
int kvt_repair_disks(const struct kvt_disk *disk, int nr);
int kvt_probe_disk(const struct kvt_disk *disk);

/* How a store is attached: its name, the devices and the pointers are filled in. */
struct kvt_attach_how {
	struct kvtree_store_create store;
	struct kvtree_store_attach args;
};

int kvt_attach_how(int fd, const char *name, const struct kvt_disk *disk, int nr,
		   struct kvt_attach_how *how);
int kvt_attach(int fd, const char *name, const struct kvt_disk *disk, int nr, __u32 flags);
int kvt_detach(int fd, const char *name);
/* The same, and open the store to read and write, or close it before; @how: NULL: plain. */
int kvt_attach_open(int dev, const char *name, const struct kvt_disk *disk, int nr,
		    struct kvt_attach_how *how, int *fd);
int kvt_close_detach(int dev, const char *name, int *fd);
int kvt_checkpoint(int fd);

/*
 * Parameters of the module, for kvt_set_param(): the delay of commits that nobody waits for, the
 * idle time before an empty commit, the number of threads that write a checkpoint, the bytes of a
 * range, and the bits that record changes in one.
 */
#define KVT_EPOCH_MS	"/sys/module/kvtree/parameters/log_epoch_ms"
#define KVT_IDLE_MS	"/sys/module/kvtree/parameters/log_idle_ms"
#define KVT_SAVERS	"/sys/module/kvtree/parameters/log_savers"
#define KVT_STEP_SEGMENTS	"/sys/module/kvtree/parameters/log_step_segments"
#define KVT_RANGE_BYTES	"/sys/module/kvtree/parameters/log_range_bytes"
#define KVT_COVER_BITS	"/sys/module/kvtree/parameters/log_cover_bits"

/* No store commits an empty epoch after its last one, until the program ends. */
void kvt_never_idle(void);
int kvt_sync(int fd);

/* An epoch of a store, and whether it is durable: for kvt_eventually(). */
struct kvt_epoch {
	int fd;
	__u64 epoch;
};

bool kvt_epoch_is_durable(void *arg);

/* KVTREE_STAT_LOG_LIVE_BYTES as it should be: the store goes through all that it has. */
__u64 kvt_recount(const char *name);

#endif /* KVT_TEST_DURABLE_H */
