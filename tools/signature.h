/* SPDX-License-Identifier: GPL-2.0 */
/* Signatures of other formats on a device: file systems, partition tables, parts of RAIDs. */
#ifndef KVTREE_TOOL_SIGNATURE_H
#define KVTREE_TOOL_SIGNATURE_H

#include <stdbool.h>

#include "kvtree.h"

struct signatures {
	char *list;	/* text for messages; NULL: nothing found, or not known */
	bool part;	/* one of them belongs to a device made of several */
	int err;	/* -EIO: the search was incomplete; or 0 */
};

void signatures_find(struct signatures *found, int fd, const struct kvtree_device *device);
void signatures_beside(struct signatures *found, const char *path,
		       const struct kvtree_device *device);
void signatures_free(struct signatures *found);

#endif /* KVTREE_TOOL_SIGNATURE_H */
