/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A place in memory of which a part is not at hand: two pages, the first of which
 * is there.
 */
#ifndef KVT_TEST_PLACE_H
#define KVT_TEST_PLACE_H

#include <stddef.h>

#define KVT_PAGE	4096

/* What is the matter with the second page. */
enum kvt_absence {
	KVT_HOLE,		/* it comes when the test says so: userfaultfd */
	KVT_GONE,		/* in the page cache, and not mapped */
	KVT_COPIED,		/* mapped to be read, to be copied before it is written */
};

struct kvt_place {
	enum kvt_absence absence;
	char *mem;
	int uffd;
	char later[KVT_PAGE];	/* what a hole will have in it */
};

/* Puts `data` there, its `first` bytes on the first page; returns where. */
void *kvt_place_make(struct kvt_place *p, enum kvt_absence absence, const void *data,
		     size_t len, size_t first);
void kvt_place_end(struct kvt_place *p);

/* Until somebody touches the hole, who waits from then on. */
void kvt_hole_wait(const struct kvt_place *p);
/* Let it have what it is to have in it, and who waits go on. */
void kvt_hole_fill(const struct kvt_place *p);
/* Make it a hole again. */
void kvt_hole_empty(const struct kvt_place *p);

#endif /* KVT_TEST_PLACE_H */
