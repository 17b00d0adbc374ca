// SPDX-License-Identifier: GPL-2.0
/*
 * Machines that sleep: from the time when a hibernation image may be taken until the
 * machine is awake, nothing is written to a durable store's devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define SIZE		132	/* MiB: more than the least */
#define TRACING		"/sys/kernel/tracing/"
#define BIO_QUEUE	TRACING "events/block/block_bio_queue/"
#define WORK_END	TRACING "events/workqueue/workqueue_execute_end/enable"
#define TEST_DELAY	"/sys/module/suspend/parameters/pm_test_delay"
#define FREEZE_TIMEOUT	"/sys/power/pm_freeze_timeout"
/* Of 20 s a busy machine may need more. */
#define FREEZE_SECONDS	90
#define WRITERS		4
#define ROUNDS		3
/* Until the kernel has run a work in a certain moment. */
#define ROUNDS_MAX	10

static bool set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool good;

	if (fd < 0)
		return false;
	good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return good;
}

/* A durable store on a machine that is about to pretend to sleep. */
struct sleeper {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk;
	char idle_ms[16];
};

static bool can_sleep(void)
{
	return !access("/sys/power/pm_test", W_OK) && !access(TRACING "events/power", F_OK);
}

/* Only requests to the disk are traced: others might push them out of the buffer. */
static void trace_begin(const struct kvt_disk *disk)
{
	char filter[64];
	struct stat st;

	KVT_CHECK(!stat(disk->path, &st));
	/* The kernel's own number of a device. */
	snprintf(filter, sizeof(filter), "dev == %u",
		 major(st.st_rdev) << 20 | minor(st.st_rdev));
	KVT_CHECK(set(BIO_QUEUE "filter", filter));
	KVT_CHECK(set(TRACING "events/power/suspend_resume/enable", "1"));
	KVT_CHECK(set(BIO_QUEUE "enable", "1"));
}

static void trace_end(void)
{
	set(WORK_END, "0");
	set(BIO_QUEUE "enable", "0");
	set(BIO_QUEUE "filter", "0");
	set(TRACING "events/power/suspend_resume/enable", "0");
}

/* @latency: of each request to the disk, ns; NULL: none. */
static void sleeper_begin(struct sleeper *s, const char *latency)
{
	s->dev = kvt_open();
	KVT_CHECK(s->dev >= 0);
	snprintf(s->name, sizeof(s->name), "sleep-%d", getpid());
	kvt_null_make(&s->disk, "kvtsleep", SIZE);
	if (latency)
		KVT_CHECK(kvt_null_try(&s->disk, "irqmode", "2") &&
			  kvt_null_try(&s->disk, "completion_nsec", latency));
	kvt_null_start(&s->disk);
	KVT_CHECK(kvt_format(&s->disk, 1) == 0);
	KVT_CHECK(kvt_attach(s->dev, s->name, &s->disk, 1, 0) == 0);
	s->fd = kvt_store(s->dev, s->name, RW);
	KVT_CHECK(s->fd >= 0);
	/* Only the tests cause writes. */
	kvt_set_param(KVT_IDLE_MS, "0", s->idle_ms, sizeof(s->idle_ms));
	/* All but to suspend the devices, and for one second. */
	KVT_CHECK(set("/sys/power/pm_test", "freezer"));
	KVT_CHECK(set(TEST_DELAY, "1"));
	KVT_CHECK(set(FREEZE_TIMEOUT, "90000"));
	trace_begin(&s->disk);
}

static void sleeper_end(struct sleeper *s)
{
	trace_end();
	set(FREEZE_TIMEOUT, "20000");
	set(TEST_DELAY, "5");
	set("/sys/power/pm_test", "none");
	kvt_set_param(KVT_IDLE_MS, s->idle_ms, NULL, 0);
	close(s->fd);
	kvt_detach(s->dev, s->name);
	kvt_null_remove(&s->disk);
	close(s->dev);
}

FIXTURE(sleeping) {
	struct sleeper s;
};

FIXTURE_SETUP(sleeping)
{
	if (!can_sleep())
		SKIP(return, "the kernel cannot pretend to sleep");
	sleeper_begin(&self->s, NULL);
}

FIXTURE_TEARDOWN(sleeping)
{
	sleeper_end(&self->s);
}

/*
 * Whether the machine has slept, soon after a put of @i in the store @fd, if there is one.  An
 * event that would wake it keeps it from that, and is no reason to fail; what does not freeze in
 * all that time is.
 */
static bool fall_asleep_after(int fd, __u32 i)
{
	__u32 key = 1;
	time_t begin;
	int tries;

	for (tries = 0; tries < 10; tries++) {
		begin = time(NULL);
		KVT_CHECK(fd < 0 || kvt_put(fd, kvt_bytes(&key, sizeof(key)),
					    kvt_bytes(&i, sizeof(i)), NULL) == 0);
		if (set("/sys/power/state", "freeze"))
			return true;
		if (errno != EBUSY || time(NULL) - begin >= FREEZE_SECONDS)
			break;
	}
	return false;
}

static bool fall_asleep(void)
{
	return fall_asleep_after(-1, 0);
}

/* What the trace says of processes when the machine falls asleep, and when it wakes. */
#define FREEZE	"suspend_resume: freeze_processes"
#define THAW	"suspend_resume: thaw_processes"

/* Have each line of the trace seen. */
static void trace_walk(void (*see)(void *arg, const char *line), void *arg)
{
	char line[512];
	FILE *f;

	f = fopen(TRACING "trace", "re");
	KVT_CHECK(f);
	while (fgets(line, sizeof(line), f))
		see(arg, line);
	fclose(f);
}

/* Requests to a disk while processes were frozen, and how often they were. */
struct frozen {
	char device[32];
	bool frozen;
	bool thawed;
	int requests;
	int sleeps;
};

/* If a process could not be frozen, all are thawed before the freezing ends. */
static void frozen_see(void *arg, const char *line)
{
	struct frozen *f = arg;

	if (strstr(line, FREEZE)) {
		f->frozen = strstr(line, " end") && !f->thawed;
		f->sleeps += f->frozen;
		f->thawed = false;
	} else if (strstr(line, THAW)) {
		f->frozen = false;
		f->thawed = true;
	} else if (f->frozen && strstr(line, f->device)) {
		printf("# %s", line);
		f->requests++;
	}
}

/* How many requests to a disk the trace has while processes were frozen. */
static int trace_frozen(const struct kvt_disk *disk, int *sleeps)
{
	struct frozen f = {};
	struct stat st;

	KVT_CHECK(!stat(disk->path, &st));
	snprintf(f.device, sizeof(f.device), "block_bio_queue: %u,%u ", major(st.st_rdev),
		 minor(st.st_rdev));
	trace_walk(frozen_see, &f);
	*sleeps = f.sleeps;
	return f.requests;
}

/* A change made just before would be committed in the middle of the sleep. */
TEST_F(sleeping, nothing_is_committed)
{
	int sleeps;
	__u32 i;

	ASSERT_TRUE(set(KVT_EPOCH_MS, "200"));
	set(TRACING "trace", "\n");
	for (i = 0; i < ROUNDS; i++)
		ASSERT_TRUE(fall_asleep_after(self->s.fd, i));
	ASSERT_TRUE(set(KVT_EPOCH_MS, "10"));
	EXPECT_EQ(0, kvt_sync(self->s.fd));
	EXPECT_EQ(0, trace_frozen(&self->s.disk, &sleeps));
	EXPECT_EQ(ROUNDS, sleeps);
	EXPECT_EQ(0, kvt_stat(self->s.fd, KVTREE_STAT_LOG_ERROR));
}

/* Whether the work that commits the empty epoch has run while the log was asleep. */
struct proof {
	bool asleep;
	bool ran;
	bool came;
};

static void proof_see(void *arg, const char *line)
{
	struct proof *p = arg;

	if (strstr(line, FREEZE) && strstr(line, " begin")) {
		p->asleep = true;
		p->ran = false;
	} else if (strstr(line, THAW) && strstr(line, " end")) {
		p->came |= p->ran;
		p->asleep = false;
		p->ran = false;
	} else if (p->asleep && strstr(line, "workqueue_execute_end: ") &&
		   strstr(line, "kvt_idle_work")) {
		p->ran = true;
	}
}

/*
 * Whether it has run, to its end, when the log was asleep already, or still: before processes are
 * frozen, or when they are thawed.
 */
static bool trace_proof_came_asleep(void)
{
	struct proof p = {};

	trace_walk(proof_see, &p);
	return p.came;
}

/*
 * The empty epoch after the last one is due during the sleep, and committed after it.  Its work
 * often runs when processes are thawed but the log is still asleep, and does nothing: then only a
 * later run can commit it.
 */
TEST_F(sleeping, last_epoch_is_proved_afterwards)
{
	struct kvt_epoch e = { self->s.fd };
	__u32 i, key = 1;
	bool came = false;
	int sleeps;

	ASSERT_TRUE(set(KVT_IDLE_MS, "2000"));
	ASSERT_TRUE(set(TEST_DELAY, "3"));
	ASSERT_TRUE(set(WORK_END, "1"));
	for (i = 0; i < ROUNDS_MAX && !came; i++) {
		e.epoch = kvt_stat(self->s.fd, KVTREE_STAT_LOG_EPOCH) + 1;
		set(TRACING "trace", "\n");
		ASSERT_EQ(0, kvt_put_flags(self->s.fd, kvt_bytes(&key, sizeof(key)),
					   kvt_bytes(&i, sizeof(i)), KVTREE_F_SYNC));
		ASSERT_TRUE(fall_asleep());
		came = trace_proof_came_asleep();
		ASSERT_TRUE(kvt_eventually(kvt_epoch_is_durable, &e));
		EXPECT_EQ(0, trace_frozen(&self->s.disk, &sleeps));
		EXPECT_EQ(1, sleeps);
	}
	EXPECT_EQ(0, kvt_stat(self->s.fd, KVTREE_STAT_LOG_ERROR));
	if (!came)
		SKIP(return, "the work has never run while the log was asleep");
}

/* Each waits for something else when it is frozen: a commit, room, a checkpoint. */
struct writer {
	pthread_t thread;
	int fd;
	__u32 key;
	int stop;
	int err;
};

static void *writer_thread(void *arg)
{
	static const char value[200000];
	struct writer *w = arg;

	while (!w->err && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		if (w->key == 0)
			w->err = kvt_checkpoint(w->fd);
		else
			w->err = kvt_put_flags(w->fd, kvt_bytes(&w->key, sizeof(w->key)),
					       kvt_bytes(value, w->key % 2 ? 100 : sizeof(value)),
					       w->key % 2 ? KVTREE_F_SYNC : 0);
	}
	return NULL;
}

TEST_F(sleeping, nothing_is_written_under_load)
{
	struct writer w[WRITERS];
	int i, sleeps;

	set(TRACING "trace", "\n");
	for (i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ .fd = self->s.fd, .key = i };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, writer_thread, &w[i]));
	}
	for (i = 0; i < ROUNDS; i++) {
		kvt_sleep_ms(100);
		EXPECT_TRUE(fall_asleep());
	}
	for (i = 0; i < WRITERS; i++)
		__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < WRITERS; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(0, w[i].err);
	}
	EXPECT_EQ(0, trace_frozen(&self->s.disk, &sleeps));
	EXPECT_EQ(ROUNDS, sleeps);
	EXPECT_EQ(0, kvt_stat(self->s.fd, KVTREE_STAT_LOG_ERROR));
}

/* Requests under way continue for a while. */
FIXTURE(slow) {
	struct sleeper s;
};

FIXTURE_SETUP(slow)
{
	if (!can_sleep())
		SKIP(return, "the kernel cannot pretend to sleep");
	sleeper_begin(&self->s, "300000000");
}

FIXTURE_TEARDOWN(slow)
{
	set(KVT_SAVERS, "0");
	set(KVT_EPOCH_MS, "10");
	sleeper_end(&self->s);
}

/* Data that is written in many requests, one after the other. */
static void put_much(int fd)
{
	static const char value[100000];
	__u32 key;

	for (key = 0; key < 30; key++)
		KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)),
				  kvt_bytes(value, sizeof(value)), NULL) == 0);
}

/* It is being written to. */
struct writing {
	int fd;
	__u64 bytes;	/* before */
};

static bool is_writing(void *arg)
{
	const struct writing *w = arg;

	return kvt_stat(w->fd, KVTREE_STAT_LOG_BYTES) > w->bytes;
}

static bool is_detached(void *arg)
{
	const struct sleeper *s = arg;
	struct kvtree_store_info info;

	return kvt_find(s->dev, s->name, &info) == -ENOENT;
}

/*
 * The checkpoint is suspended until the machine is awake.  Its caller waits inside the store,
 * and the detaching process waits for that caller.
 */
TEST_F(slow, detach_that_waits_does_not_prevent_sleep)
{
	struct writing writing = { .fd = self->s.fd };
	int saver, detacher, sleeps;

	ASSERT_TRUE(set(KVT_SAVERS, "1"));
	put_much(self->s.fd);
	ASSERT_EQ(0, kvt_sync(self->s.fd));
	writing.bytes = kvt_stat(self->s.fd, KVTREE_STAT_LOG_BYTES);
	set(TRACING "trace", "\n");
	saver = kvt_child();
	if (!saver)
		_exit(kvt_checkpoint(self->s.fd) ? 1 : 0);
	ASSERT_TRUE(kvt_eventually(is_writing, &writing));
	detacher = kvt_child();
	if (!detacher)
		_exit(kvt_detach(self->s.dev, self->s.name) ? 1 : 0);
	ASSERT_TRUE(kvt_eventually(is_detached, &self->s));
	EXPECT_TRUE(fall_asleep());
	EXPECT_EQ(0, trace_frozen(&self->s.disk, &sleeps));
	EXPECT_EQ(1, sleeps);
	EXPECT_EQ(0, kvt_wait(saver));
	EXPECT_EQ(0, kvt_wait(detacher));
}

static bool is_attached(void *arg)
{
	struct sleeper *s = arg;

	return !kvt_attach(s->dev, s->name, &s->disk, 1, 0);
}

/* Nobody waits for its writes, and no frozen thread is left that would make them. */
TEST_F(slow, detach_that_was_killed_writes_nothing)
{
	__u32 key = 7, value = 8;
	int detacher, sleeps;

	ASSERT_TRUE(set(KVT_EPOCH_MS, "200"));
	ASSERT_EQ(0, kvt_put(self->s.fd, kvt_bytes(&key, sizeof(key)),
			     kvt_bytes(&value, sizeof(value)), NULL));
	close(self->s.fd);
	set(TRACING "trace", "\n");
	detacher = kvt_child();
	if (!detacher)
		_exit(kvt_detach(self->s.dev, self->s.name) ? 1 : 0);
	ASSERT_TRUE(kvt_eventually(is_detached, &self->s));
	kill(detacher, SIGKILL);
	EXPECT_EQ(detacher, waitpid(detacher, NULL, 0));
	EXPECT_TRUE(fall_asleep());
	EXPECT_EQ(0, trace_frozen(&self->s.disk, &sleeps));
	EXPECT_EQ(1, sleeps);
	ASSERT_TRUE(kvt_eventually(is_attached, &self->s));
	self->s.fd = kvt_store(self->s.dev, self->s.name, RW);
	ASSERT_LE(0, self->s.fd);
	EXPECT_TRUE(kvt_has(self->s.fd, kvt_bytes(&key, sizeof(key)),
			    kvt_bytes(&value, sizeof(value))));
}

TEST_HARNESS_MAIN
