// SPDX-License-Identifier: GPL-2.0
/*
 * Who pays for memory, and how much: what the kernel's memory cgroups count, beside what
 * a store says that it is charged.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define CGROUPS		"/sys/fs/cgroup"
#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* Each CPU keeps some charges and some counts for itself, and a process needs its own. */
#define SLACK		(3 << 20)

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

struct group {
	char path[128];
};

static bool group_make(struct group *g, const char *name)
{
	if (access(CGROUPS "/cgroup.procs", F_OK))
		mount("cgroup2", CGROUPS, "cgroup2", 0, NULL);
	if (!write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return false;
	snprintf(g->path, sizeof(g->path), CGROUPS "/kvtree-%s-%d", name, getpid());
	return mkdir(g->path, 0755) == 0;
}

static void group_enter(const struct group *g)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/cgroup.procs", g->path);
	KVT_CHECK(write_file(path, "0"));
}

static long group_bytes(const struct group *g)
{
	char path[160], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/memory.current", g->path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	KVT_CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return atol(text);
}

FIXTURE(memory) {
	struct group creator;
	struct group writer;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
	long before[2];		/* bytes of the groups, when the store was empty */
};

static int create(void *arg)
{
	FIXTURE_DATA(memory) *self = arg;

	group_enter(&self->creator);
	return kvt_create(self->dev, self->name, 0600, 0, 0);
}

FIXTURE_SETUP(memory)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	if (!group_make(&self->creator, "creator") || !group_make(&self->writer, "writer"))
		SKIP(return, "the kernel has no memory cgroups here");
	snprintf(self->name, sizeof(self->name), "test-memory-%d", getpid());
	ASSERT_EQ(0, kvt_run(create, self));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	self->before[0] = group_bytes(&self->creator);
	self->before[1] = group_bytes(&self->writer);
}

FIXTURE_TEARDOWN(memory)
{
	if (self->fd > 0) {
		close(self->fd);
		EXPECT_EQ(0, kvt_destroy(self->dev, self->name));
	}
	close(self->dev);
	rmdir(self->creator.path);
	rmdir(self->writer.path);
}

struct load {
	FIXTURE_DATA(memory) *self;
	const struct group *group;
	__u32 nr;
	__u32 len;
	bool columns;
};

/* Puts `nr` values of `len` bytes, each of them in four columns if it is to have such. */
static int put_load(void *arg)
{
	struct load *l = arg;
	struct kvtree_col cols[4];
	char *val = calloc(1, l->len);
	__u32 i;
	int err;

	KVT_CHECK(val);
	group_enter(l->group);
	for (i = 0; i < NR(cols); i++)
		cols[i] = (struct kvtree_col){ .id = i, .len = l->len / NR(cols) };
	for (i = 0; i < l->nr; i++) {
		if (l->columns)
			err = kvt_put_cols(l->self->fd, kvt_bytes(&i, 4), cols, NR(cols),
					   kvt_bytes(val, l->len), NULL);
		else
			err = kvt_put(l->self->fd, kvt_bytes(&i, 4), kvt_bytes(val, l->len), NULL);
		KVT_CHECK(err == 0);
	}
	free(val);
	return 0;
}

TEST_F(memory, is_paid_for_by_the_creators_group_whoever_writes)
{
	struct load load = { .self = self, .group = &self->writer, .nr = 3000, .len = 4000 };
	long bytes;

	ASSERT_EQ(0, kvt_run(put_load, &load));
	load.columns = true;
	ASSERT_EQ(0, kvt_run(put_load, &load));
	bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
	ASSERT_LT(3 * SLACK, bytes);
	EXPECT_LT(bytes - SLACK, group_bytes(&self->creator) - self->before[0]);
	EXPECT_GT(SLACK, group_bytes(&self->writer) - self->before[1]);
}

/* Sizes above those of which the slab allocator has objects. */
TEST_F(memory, of_large_values_is_what_they_are_charged)
{
	static const __u32 lens[] = { 9000, 20 << 10, 64 << 10, (1 << 20) - 100, 1 << 20 };
	struct load load = { .self = self, .group = &self->creator };
	long bytes, taken;
	int i;

	for (i = 0; i < NR(lens); i++) {
		load.len = lens[i];
		load.nr = (32 << 20) / lens[i];
		ASSERT_EQ(0, kvt_run(put_load, &load));
		bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
		/* What was replaced waits to be freed. */
		while (kvt_stat(self->fd, KVTREE_STAT_WAITING_BYTES))
			kvt_sleep_ms(10);
		taken = group_bytes(&self->creator) - self->before[0];
		EXPECT_LT(bytes - SLACK, taken);
		EXPECT_GT(bytes + SLACK, taken) {
			TH_LOG("values of %u bytes", lens[i]);
		}
	}
}

TEST_HARNESS_MAIN
