// SPDX-License-Identifier: GPL-2.0
/*
 * A session lives as long as anything refers to it: a descriptor, a copy of
 * one, or a message in transit.  It pins the module as long as it lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

FIXTURE(life) {
	struct kvt_env env;
	int fd;
};

FIXTURE_SETUP(life)
{
	kvt_env_init(&self->env, "life", 0, 0);
	self->fd = self->env.fd;
}

FIXTURE_TEARDOWN(life)
{
	kvt_env_exit(&self->env);
}

static int use_and_close(void *arg)
{
	int fd = *(int *)arg;

	KVT_CHECK(kvt_has(fd, STR("parent"), STR("1")));
	KVT_CHECK(kvt_put(fd, STR("child"), STR("2"), NULL) == 0);
	close(fd);
	KVT_CHECK(kvt_put(fd, STR("child"), STR("3"), NULL) == -EBADF);
	return 0;
}

TEST_F(life, fork_shares_the_session)
{
	ASSERT_EQ(0, kvt_put(self->fd, STR("parent"), STR("1"), NULL));
	EXPECT_EQ(0, kvt_run(use_and_close, &self->fd));
	EXPECT_TRUE(kvt_has(self->fd, STR("child"), STR("2")));
}

static int use_after_parent(void *arg)
{
	int *pipes = arg, fd = pipes[2];
	char c;

	close(pipes[1]);
	/* The parent has closed its own by now. */
	KVT_CHECK(read(pipes[0], &c, 1) == 0);
	KVT_CHECK(kvt_put(fd, STR("child"), STR("2"), NULL) == 0);
	return 0;
}

TEST_F(life, child_keeps_the_session_that_its_parent_closed)
{
	int pipes[3], pid;

	ASSERT_EQ(0, pipe(pipes));
	pipes[2] = kvt_store(self->env.dev, self->env.name, RW);
	ASSERT_LE(0, pipes[2]);
	pid = kvt_fork(use_after_parent, pipes);
	close(pipes[2]);
	close(pipes[1]);
	close(pipes[0]);
	EXPECT_EQ(0, kvt_wait(pid));
	EXPECT_TRUE(kvt_has(self->fd, STR("child"), STR("2")));
}

TEST_F(life, dup_is_the_same_session)
{
	int fd = kvt_store(self->env.dev, self->env.name, RW), copy;

	ASSERT_LE(0, fd);
	copy = dup(fd);
	ASSERT_LE(0, copy);
	EXPECT_EQ(0, kvt_put(copy, STR("k"), STR("v"), NULL));
	close(fd);
	EXPECT_TRUE(kvt_has(copy, STR("k"), STR("v")));
	/* dup() copies clear the flag, as of any file. */
	EXPECT_EQ(0, fcntl(copy, F_GETFD) & FD_CLOEXEC);
	close(copy);
	EXPECT_EQ(-EBADF, kvt_put(copy, STR("k"), STR("v"), NULL));
}

static int exec_test(void *arg)
{
	char script[64];

	snprintf(script, sizeof(script), "test -e /proc/self/fd/%d", *(int *)arg);
	execl("/bin/sh", "sh", "-c", script, NULL);
	return 99;
}

TEST_F(life, exec_closes_a_session_unless_told_otherwise)
{
	EXPECT_EQ(1, kvt_run(exec_test, &self->fd));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFD, 0));
	EXPECT_EQ(0, kvt_run(exec_test, &self->fd));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFD, FD_CLOEXEC));
}

/* Opens a session, sends it and is gone. */
static int send_and_exit(void *arg)
{
	struct kvt_env *env = arg;
	int fd = kvt_store(env->dev, env->name, RW);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_put(fd, STR("sender"), STR("1"), NULL) == 0);
	kvt_send_fd(env->fd, fd);
	return 0;
}

TEST_F(life, session_in_a_message_outlives_its_sender)
{
	struct kvt_env env = self->env;
	int sock[2], fd;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	env.fd = sock[0];
	ASSERT_EQ(0, kvt_run(send_and_exit, &env));
	fd = kvt_receive_fd(sock[1]);
	EXPECT_TRUE(kvt_has(fd, STR("sender"), STR("1")));
	EXPECT_EQ(0, kvt_put(fd, STR("receiver"), STR("2"), NULL));
	close(fd);
}

TEST_F(life, other_calls_on_a_session_are_refused)
{
	int fds[2] = { self->env.dev, self->fd }, i;
	struct epoll_event event = { .events = EPOLLIN };
	char buf[64] = {};
	int ep;

	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, ep);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, read(fds[i], buf, sizeof(buf)));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, write(fds[i], buf, sizeof(buf)));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, pread(fds[i], buf, sizeof(buf), 0));
		EXPECT_TRUE(errno == EINVAL || errno == ESPIPE);
		EXPECT_EQ(-1, lseek(fds[i], 0, SEEK_SET));
		EXPECT_EQ(ESPIPE, errno);
		EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[i], 0));
		EXPECT_EQ(ENODEV, errno);
		EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE,
					   fds[i], 0));
		EXPECT_EQ(ENODEV, errno);
		EXPECT_EQ(-1, ftruncate(fds[i], 0));
		EXPECT_EQ(-1, fsync(fds[i]));
		EXPECT_EQ(EINVAL, errno);
		/* Nothing to wait for. */
		EXPECT_EQ(-1, epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &event));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(-1, ioctl(fds[i], FIONREAD, buf));
		EXPECT_EQ(ENOTTY, errno);
	}
	close(ep);
}

/* It would have another access then. */
TEST_F(life, session_of_a_store_cannot_be_opened_again_by_its_link)
{
	char path[64];
	int fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ);

	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXPECT_EQ(-1, open(path, O_RDWR | O_CLOEXEC));
	EXPECT_EQ(ENXIO, errno);
	close(fd);
}

struct closer {
	int fd;
	int stop;
	int done;
};

static void *use_until_closed(void *arg)
{
	struct closer *c = arg;
	char buf[8];
	int ret;

	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		ret = kvt_put(__atomic_load_n(&c->fd, __ATOMIC_ACQUIRE), STR("k"), STR("v"), NULL);
		KVT_CHECK(ret == 0 || ret == -EBADF);
		ret = kvt_get(__atomic_load_n(&c->fd, __ATOMIC_ACQUIRE), STR("k"), buf, 8, NULL);
		KVT_CHECK(ret == 1 || ret == -EBADF);
		__atomic_store_n(&c->done, c->done + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST_F(life, close_beside_a_call_in_another_thread)
{
	struct closer c = { .fd = -1 };
	pthread_t thread;
	int i, fd, before;

	ASSERT_EQ(0, kvt_put(self->fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_until_closed, &c));
	for (i = 0; i < 300; i++) {
		fd = kvt_store(self->env.dev, self->env.name, RW);
		ASSERT_LE(0, fd);
		__atomic_store_n(&c.fd, fd, __ATOMIC_RELEASE);
		before = __atomic_load_n(&c.done, __ATOMIC_ACQUIRE);
		while (i % 2 && __atomic_load_n(&c.done, __ATOMIC_ACQUIRE) == before)
			sched_yield();
		close(fd);
	}
	__atomic_store_n(&c.stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* When none is left of those of a program before, which a ring holds for a while; -1 as well. */
static int settled_users(void)
{
	int users = kvt_module_users(), i;

	for (i = 0; i < 20; i++) {
		kvt_sleep_ms(10);
		if (kvt_module_users_are(&users))
			continue;
		users = kvt_module_users();
		i = 0;
	}
	return users;
}

TEST_F(life, many_sessions_come_and_go)
{
	static int fds[400];
	int i, before = settled_users(), all = before < 0 ? before : before + 400;

	for (i = 0; i < 400; i++) {
		fds[i] = i % 2 ? kvt_store(self->env.dev, self->env.name, RW) : kvt_open();
		ASSERT_LE(0, fds[i]);
	}
	EXPECT_EQ(0, kvt_put(fds[399], STR("k"), STR("v"), NULL));
	EXPECT_TRUE(kvt_has(fds[1], STR("k"), STR("v")));
	EXPECT_EQ(all, kvt_module_users());
	for (i = 0; i < 400; i++)
		close(fds[i]);
	EXPECT_EQ(before, kvt_module_users());
}

static int open_and_exit(void *arg)
{
	struct kvt_env *env = arg;

	KVT_CHECK(kvt_store(env->dev, env->name, RW) >= 0);
	KVT_CHECK(kvt_open() >= 0);
	return 0;
}

TEST_F(life, sessions_end_with_their_process)
{
	int before = settled_users();

	if (before < 0)
		SKIP(return, "no count of the module's users");
	ASSERT_EQ(0, kvt_run(open_and_exit, &self->env));
	EXPECT_TRUE(kvt_eventually(kvt_module_users_are, &before));
}

/* What rmmod does.  Never with O_TRUNC, which would force it. */
static int remove_module(void)
{
	return syscall(SYS_delete_module, "kvtree", O_NONBLOCK) ? -errno : 0;
}

TEST(module_stays_while_a_session_is_open)
{
	char name[KVTREE_NAME_MAX];
	int dev, fd, sock[2], before;

	/* Nothing at all is tried unless what must refuse it is seen to count. */
	before = settled_users();
	if (before < 0)
		SKIP(return, "no count of the module's users");
	snprintf(name, sizeof(name), "stay-%d", getpid());
	dev = kvt_open();
	ASSERT_LE(0, dev);
	ASSERT_EQ(before + 1, kvt_module_users());
	EXPECT_EQ(-EWOULDBLOCK, remove_module());

	ASSERT_EQ(0, kvt_create(dev, name, 0600, 0, 0));
	fd = kvt_store(dev, name, RW);
	ASSERT_LE(0, fd);
	ASSERT_EQ(before + 2, kvt_module_users());
	/* A session of a store alone. */
	close(dev);
	ASSERT_EQ(before + 1, kvt_module_users());
	EXPECT_EQ(-EWOULDBLOCK, remove_module());
	/* A session referenced only by a message in transit. */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	kvt_send_fd(sock[0], fd);
	close(fd);
	ASSERT_EQ(before + 1, kvt_module_users());
	EXPECT_EQ(-EWOULDBLOCK, remove_module());
	fd = kvt_receive_fd(sock[1]);
	/* A session without its store, which is destroyed. */
	ASSERT_EQ(0, kvt_destroy(fd, name));
	ASSERT_EQ(before + 1, kvt_module_users());
	EXPECT_EQ(-EWOULDBLOCK, remove_module());
	EXPECT_EQ(-ESTALE, kvt_put(fd, STR("k"), STR("v"), NULL));
	close(fd);
	EXPECT_EQ(before, kvt_module_users());
}

/*
 * A cache of nodes that had others' objects in it would scatter them.  Caches that
 * were merged have one folder, and links to it by their names.
 */
TEST(caches_are_not_merged)
{
	static const char *const names[] = { "mt_leaf", "mt_cells", "mt_inner", "value_24" };
	char path[64];
	struct stat st;
	glob_t found;
	size_t i;

	if (access("/sys/kernel/slab", F_OK))
		SKIP(return, "the kernel does not tell of its caches");
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/slab/kvt_%s", names[i]);
		EXPECT_EQ(0, access(path, F_OK)) {
			TH_LOG("%s: %s", path, strerror(errno));
		}
	}
	ASSERT_EQ(0, glob("/sys/kernel/slab/kvt_*", 0, NULL, &found));
	for (i = 0; i < found.gl_pathc; i++) {
		ASSERT_EQ(0, lstat(found.gl_pathv[i], &st));
		EXPECT_TRUE(S_ISDIR(st.st_mode)) {
			TH_LOG("%s", found.gl_pathv[i]);
		}
	}
	globfree(&found);
}

TEST_HARNESS_MAIN
