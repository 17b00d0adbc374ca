/* SPDX-License-Identifier: GPL-2.0 */
/* Damaged copies of superblocks: check finds and rewrites them. */
#ifndef KVTREE_TOOL_REPAIR_H
#define KVTREE_TOOL_REPAIR_H

#include <stdio.h>

struct devset;

unsigned int repair_needed(const struct devset *ds);
void repair_show(const struct devset *ds, FILE *out, const char *what);
int repair_allowed(const struct devset *ds);
int repair(struct devset *ds);

#endif /* KVTREE_TOOL_REPAIR_H */
