/* SPDX-License-Identifier: GPL-2.0 */
/* Users of a block device. */
#ifndef KVTREE_TOOL_INUSE_H
#define KVTREE_TOOL_INUSE_H

#include <stdbool.h>

bool inuse_free(const char *path);
void inuse_warn(const char *path);
bool inuse_by_member(const char *name);

#endif /* KVTREE_TOOL_INUSE_H */
