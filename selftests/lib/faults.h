/* SPDX-License-Identifier: GPL-2.0 */
/* Disks that fail on demand: see kmod/tests/fault_disk.c. */
#ifndef KVT_TEST_FAULTS_H
#define KVT_TEST_FAULTS_H

#include "durable.h"

/*
 * Load them; false if the lane has none.  They stay until the lane removes them: without
 * KASAN_VMALLOC, KASAN keeps the state of an unloaded module's memory.
 */
bool kvt_faults_load(void);
/* The nr-th of them, all zeros. */
void kvt_fault_disk(struct kvt_disk *disk, int nr);
void kvt_fault_resize(const struct kvt_disk *disk, size_t mib);
/* Partitions of a disk, of this many MiB each. */
void kvt_fault_partition(const struct kvt_disk *disk, struct kvt_disk *part, int nr, size_t mib);
void kvt_fault_departition(const struct kvt_disk *disk, int nr);
/* The name of the nr-th status of a block device, or NULL. */
const char *kvt_fault_status(int nr);

/* Of the requests of these kinds (letters of "rwfd"), @count from the @first on fail. */
void kvt_fault_fail(const struct kvt_disk *disk, const char *status, const char *ops,
		    __u64 first, __u64 count);
/* The same of those that touch some sectors. */
void kvt_fault_fail_at(const struct kvt_disk *disk, const char *status, const char *ops,
		       __u64 sector, __u64 sectors);
/* Requests of the kinds that were named last. */
__u64 kvt_fault_counted(const struct kvt_disk *disk);
/* No request fails.  How many did. */
__u64 kvt_fault_mend(const struct kvt_disk *disk);
void kvt_fault_hold(const struct kvt_disk *disk, bool hold);
/* Requests that wait. */
__u64 kvt_fault_held(const struct kvt_disk *disk);
void kvt_fault_cache(const struct kvt_disk *disk, const char *what);

/* A block of 4 KiB, when nobody has the disk open. */
void kvt_fault_read(const struct kvt_disk *disk, __u64 sector, void *block);
void kvt_fault_write(const struct kvt_disk *disk, __u64 sector, const void *block);

#endif /* KVT_TEST_FAULTS_H */
