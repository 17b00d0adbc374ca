/* SPDX-License-Identifier: GPL-2.0 */
/* /etc/kvtree/stores: the durable stores of this machine, and their devices. */
#ifndef KVTREE_TOOL_STORES_H
#define KVTREE_TOOL_STORES_H

#include <sys/types.h>

#include "tool.h"

#define STORES_FILE	"/etc/kvtree/stores"

/* A line of it. */
struct store_line {
	unsigned int nr;			/* of the line */
	struct kvtree_store_create store;
	uint32_t flags;				/* KVTREE_ATTACH_* */
	bool noauto;
	bool by_uuid;
	uint8_t uuid[16];
	unsigned int nr_paths;			/* if it is not by_uuid */
	char *paths[KVTREE_DEVICES_MAX];
};

struct stores {
	const char *file;
	struct store_line *line;
	size_t nr;
	unsigned int bad;			/* invalid lines */
	bool quiet;				/* print no messages */
};

int stores_read(struct stores *stores, const char *file, bool quiet);
void stores_free(struct stores *stores);
const struct store_line *stores_find(const struct stores *stores, const char *name);

/* devices.c: block devices of stores */
struct device_set {
	unsigned int nr;
	char *paths[KVTREE_DEVICES_MAX];	/* by index; NULL: missing */
};

void uuid_text(char text[37], const uint8_t uuid[16]);
bool uuid_parse(const char *text, uint8_t uuid[16]);
bool devices_foreign(const char *path, const struct kvtree_device *device, const char *prefix);
int devices_each(int (*each)(const char *path, const struct kvtree_device *device, int err,
			     void *arg), void *arg);
int devices_find(struct device_set *set, const struct store_line *line, bool quiet);
bool devices_has(const struct store_line *line, const struct kvtree_device *device, dev_t rdev,
		 const char *links);
bool devices_complete(const struct store_line *line, const struct kvtree_device *device);
void devices_free(struct device_set *set);

#endif /* KVTREE_TOOL_STORES_H */
