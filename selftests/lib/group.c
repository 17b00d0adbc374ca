// SPDX-License-Identifier: GPL-2.0
/* Memory cgroups; see group.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group.h"
#include "kvt_test.h"

#define CGROUPS		"/sys/fs/cgroup"

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

bool kvt_group_make(struct kvt_group *g, const char *name)
{
	if (access(CGROUPS "/cgroup.procs", F_OK))
		mount("cgroup2", CGROUPS, "cgroup2", 0, NULL);
	if (!write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return false;
	snprintf(g->path, sizeof(g->path), CGROUPS "/kvtree-%s-%d", name, getpid());
	return mkdir(g->path, 0755) == 0;
}

void kvt_group_enter(const struct kvt_group *g)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/cgroup.procs", g->path);
	KVT_CHECK(write_file(path, "0"));
}

/* Read a file of the group. */
static void read_group(const struct kvt_group *g, const char *name, char *text, size_t size)
{
	char path[160];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", g->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	KVT_CHECK(fd >= 0);
	len = read(fd, text, size - 1);
	KVT_CHECK(len > 0);
	text[len] = '\0';
	close(fd);
}

long kvt_group_bytes(const struct kvt_group *g)
{
	char text[32];

	read_group(g, "memory.current", text, sizeof(text));
	return atol(text);
}

static void write_group(const struct kvt_group *g, const char *name, long bytes)
{
	char path[160], text[32] = "max";

	snprintf(path, sizeof(path), "%s/%s", g->path, name);
	if (bytes >= 0)
		snprintf(text, sizeof(text), "%ld", bytes);
	KVT_CHECK(write_file(path, text));
}

void kvt_group_limit(const struct kvt_group *g, long bytes)
{
	write_group(g, "memory.max", bytes);
}

void kvt_group_throttle(const struct kvt_group *g, long bytes)
{
	write_group(g, "memory.high", bytes);
}

long kvt_group_over(const struct kvt_group *g)
{
	char text[512], *max;

	read_group(g, "memory.events", text, sizeof(text));
	max = strstr(text, "\nmax ");
	KVT_CHECK(max);
	return atol(max + 5);
}

void kvt_group_end(const struct kvt_group *g)
{
	rmdir(g->path);
}
