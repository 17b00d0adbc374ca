/* SPDX-License-Identifier: GPL-2.0 */
/* What others have written on a device: file systems, partition tables, parts of RAIDs. */
#ifndef KVTREE_TOOL_SIGNATURE_H
#define KVTREE_TOOL_SIGNATURE_H

#include "kvtree.h"

char *signature_find(int fd, const struct kvtree_device *device, int *err);
char *signature_beside(const char *path, const struct kvtree_device *device);

#endif /* KVTREE_TOOL_SIGNATURE_H */
