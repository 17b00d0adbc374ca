/* SPDX-License-Identifier: GPL-2.0 */
/* Two pages of memory: the first is present, an access to the second faults. */
#ifndef KVT_TEST_PLACE_H
#define KVT_TEST_PLACE_H

#include <stddef.h>
#include <unistd.h>

#define KVT_PAGE	((size_t)sysconf(_SC_PAGESIZE))
#define KVT_PAGE_MAX	65536		/* on any machine */

/* Why an access to the second page faults. */
enum kvt_absence {
	KVT_HOLE,		/* missing until the test fills it: userfaultfd */
	KVT_GONE,		/* in the page cache, but not mapped */
	KVT_COPIED,		/* mapped read-only: copied on write */
};

struct kvt_place {
	enum kvt_absence absence;
	char *mem;
	int uffd;
	char later[KVT_PAGE_MAX];	/* content of a hole once it is filled */
};

/* Store `data`, its first `first` bytes on the first page.  Returns its address. */
void *kvt_place_make(struct kvt_place *p, enum kvt_absence absence, const void *data,
		     size_t len, size_t first);
void kvt_place_end(struct kvt_place *p);

/* Wait until a thread touches the hole and blocks. */
void kvt_hole_wait(const struct kvt_place *p);
/* Fill the hole, which wakes the threads that wait for it. */
void kvt_hole_fill(const struct kvt_place *p);
/* Make it a hole again. */
void kvt_hole_empty(const struct kvt_place *p);

#endif /* KVT_TEST_PLACE_H */
