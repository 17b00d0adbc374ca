/* SPDX-License-Identifier: GPL-2.0 */
/* What others have written on a device: file systems, partition tables, parts of RAIDs. */
#ifndef KVTREE_TOOL_SIGNATURE_H
#define KVTREE_TOOL_SIGNATURE_H

#include <stdbool.h>

#include "kvtree.h"

struct signatures {
	char *list;	/* words for people; NULL: there is nothing, or it is not known */
	bool part;	/* one of them is of what is made of several devices */
	int err;	/* -EIO: not everything could be looked for; or 0 */
};

void signatures_find(struct signatures *found, int fd, const struct kvtree_device *device);
void signatures_beside(struct signatures *found, const char *path,
		       const struct kvtree_device *device);
void signatures_free(struct signatures *found);

#endif /* KVTREE_TOOL_SIGNATURE_H */
