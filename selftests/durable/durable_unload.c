// SPDX-License-Identifier: GPL-2.0
/*
 * Unload the module while a detached store lacks the memory to become durable: the module
 * waits for it.
 *
 * Needs the module for itself, since it removes it: lanes run it at their end.  Uses the
 * kernel's fault injection.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/knobs.h"
#include "lib/kvt_test.h"

#define SIZE		132		/* MiB: the least, and a bit */
#define NAME		"unload"
#define MODULE		"/sys/module/kvtree"
#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* Allocations that have failed; the knob counts downwards. */
#define FAILURES	1000000000

static const char * const attrs[] = { "failslab", "fail_page_alloc" };

/*
 * No checkpoint finds the memory to begin, and so none makes room in the log, or takes it from the
 * streams for a while: if they get none, there is none.
 */
static bool memory_fails(void)
{
	__u64 start, end;
	size_t i;

	if (access(KVT_DEBUGFS "failslab/require-start", F_OK) ||
	    !kvt_function_range("checkpoint_run", &start, &end))
		return false;
	kvt_knobs_of_memory();
	for (i = 0; i < NR(attrs); i++) {
		kvt_knob_range(attrs[i], start, end);
		kvt_knob_number(attrs[i], "times", FAILURES);
		kvt_knob(attrs[i], "probability", "100");
	}
	return true;
}

static void memory_is_back(void)
{
	size_t i;

	for (i = 0; i < NR(attrs); i++) {
		kvt_knob(attrs[i], "probability", "0");
		kvt_knob_range(attrs[i], 0, ~0ULL);
	}
}

static bool failed_again(void *arg)
{
	long *times = arg;

	return kvt_knob_read("failslab", "times") < *times;
}

/* Until it is killed: it waits for room. */
static int fill(void *arg)
{
	static char value[160000];
	int fd = *(int *)arg;
	__u32 key;

	for (key = 0;; key = (key + 1) % 8)
		KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)),
				  kvt_bytes(value, sizeof(value)), NULL) == 0);
	return 0;
}

static bool log_is_full(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_LOG_FULL) > 0;
}

static int detach(void *arg)
{
	return kvt_detach(*(int *)arg, NAME);
}

static bool is_detached(void *arg)
{
	struct kvtree_store_info info;

	return kvt_find(*(int *)arg, NAME, &info) == -ENOENT;
}

static int remove_module(void *name)
{
	/* The last user of the module may drop its reference a moment later. */
	while (syscall(SYS_delete_module, name, O_NONBLOCK)) {
		KVT_CHECK(errno == EWOULDBLOCK);
		kvt_sleep_ms(100);
	}
	return 0;
}

static bool module_ends(void *path)
{
	char state[16] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	if (read(fd, state, sizeof(state) - 1) < 0)
		state[0] = '\0';
	close(fd);
	return !strncmp(state, "going", 5);
}

/* Leave a store to be detached without a process that waits for it. */
static void leave_store(struct kvt_disk *disk)
{
	int dev = kvt_open(), fd, pid;

	KVT_CHECK(dev >= 0);
	KVT_CHECK(kvt_attach_open(dev, NAME, disk, 1, NULL, &fd) == 0);
	pid = kvt_fork(fill, &fd);
	KVT_CHECK(kvt_eventually(log_is_full, &fd));
	kill(pid, SIGKILL);
	KVT_CHECK(kvt_wait(pid) == 128 + SIGKILL);
	close(fd);
	pid = kvt_fork(detach, &dev);
	KVT_CHECK(kvt_eventually(is_detached, &dev));
	kill(pid, SIGKILL);
	KVT_CHECK(kvt_wait(pid) == 128 + SIGKILL);
	close(dev);
}

TEST(module_waits_for_a_store_that_waits_for_memory)
{
	struct kvt_process remover = {};
	bool again = true, ended;
	struct kvt_disk disk;
	long times;
	int i;

	if (!memory_fails())
		SKIP(return, "the kernel cannot select allocations by their caller");
	kvt_disk_make(&disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	leave_store(&disk);
	remover.pid = kvt_fork(remove_module, "kvtree");
	EXPECT_TRUE(kvt_eventually(module_ends, MODULE "/initstate"));
	/* It is tried again, again and again. */
	for (i = 0; again && i < 3; i++) {
		times = kvt_knob_read("failslab", "times");
		again = kvt_eventually(failed_again, &times);
	}
	EXPECT_TRUE(again);
	ended = kvt_has_ended(&remover);
	EXPECT_FALSE(ended);
	memory_is_back();
	EXPECT_TRUE(ended || kvt_eventually(kvt_has_ended, &remover));
	EXPECT_EQ(0, remover.status);
	EXPECT_NE(0, access(MODULE, F_OK));
	EXPECT_EQ(0, kvt_check_disks(&disk, 1));
	kvt_disk_remove(&disk);
}

TEST_HARNESS_MAIN
