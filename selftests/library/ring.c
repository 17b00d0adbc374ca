// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of libkvtree: however an operation reaches the kernel, it completes once,
 * with the outcome of the call for a single key.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include "kselftest_harness.h"
#include "../../lib/kvtree.h"
#include "lib/kvt_test.h"

#define DEPTH		64
#define MIB		(1u << 20)

FIXTURE(ring) {
	struct kvt_env env;
	struct kvtree *kv;
	struct kvtree_ring *ring;
	unsigned int calls;	/* of callbacks, for those that only count */
};

FIXTURE_VARIANT(ring) {
	unsigned int flags;
	bool uring;
};

FIXTURE_VARIANT_ADD(ring, inside) { .flags = 0, .uring = true };
FIXTURE_VARIANT_ADD(ring, by_pointer) { .flags = KVTREE_RING_BY_POINTER, .uring = true };
FIXTURE_VARIANT_ADD(ring, sqpoll) { .flags = KVTREE_RING_SQPOLL, .uring = true };
FIXTURE_VARIANT_ADD(ring, system_calls) { .flags = KVTREE_RING_NO_URING, .uring = false };

static struct kvtree_ring *open_ring(struct kvtree *kv, unsigned int flags, unsigned int depth,
				     const struct iovec *buffers, unsigned int nr_buffers)
{
	struct kvtree_ring_opts opts = {
		.size = sizeof(opts),
		.flags = flags,
		.depth = depth,
		.buffers = buffers,
		.nr_buffers = nr_buffers,
		.idle_ms = 10,
	};
	struct kvtree_ring *ring;

	KVT_CHECK(kvtree_ring_open(kv, &opts, &ring) == 0);
	/* Io_uring and no fallback, or no io_uring at all. */
	KVT_CHECK(kvtree_ring_uses_uring(ring) == !(flags & KVTREE_RING_NO_URING));
	KVT_CHECK(kvtree_ring_pending(ring) == 0);
	return ring;
}

static struct kvtree *open_session(struct kvt_env *env)
{
	struct kvtree *kv;
	int fd;

	fd = kvt_store(env->dev, env->name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvtree_from_fd(fd, &kv) == 0);
	return kv;
}

static uint64_t counter(struct kvtree *kv, unsigned int id)
{
	uint64_t stats[KVTREE_STAT_NR];

	KVT_CHECK(kvtree_stat(kv, stats, KVTREE_STAT_NR) >= KVTREE_STAT_NR);
	return stats[id];
}

FIXTURE_SETUP(ring)
{
	kvt_env_init(&self->env, "ring", 0, 0);
	self->kv = open_session(&self->env);
	self->ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
}

FIXTURE_TEARDOWN(ring)
{
	kvtree_ring_close(self->ring);
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

/* The event of the only operation. */
static struct kvtree_event outcome(struct kvtree_ring *ring)
{
	struct kvtree_event ev[2];

	KVT_CHECK(kvtree_ring_wait(ring, ev, 2, 1, -1) == 1);
	KVT_CHECK(kvtree_ring_pending(ring) == 0);
	return ev[0];
}

/* All that is pending; events are expected to succeed.  Returns their number. */
static unsigned int finish(struct kvtree_ring *ring)
{
	struct kvtree_event ev[16];
	unsigned int nr = 0;
	int i, n;

	while (kvtree_ring_pending(ring)) {
		n = kvtree_ring_wait(ring, ev, NR(ev), 1, -1);
		KVT_CHECK(n >= 0 && n <= NR(ev));
		for (i = 0; i < n; i++)
			KVT_CHECK(ev[i].result >= 0);
		nr += n;
	}
	return nr;
}

static void count_call(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	(void)ring;
	KVT_CHECK(event->result >= 0);
	++*(unsigned int *)event->data;
}

static void count_canceled(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	(void)ring;
	KVT_CHECK(event->result == -ECANCELED);
	KVT_CHECK(event->version == 0);
	++*(unsigned int *)event->data;
}

/*
 * Whether the kernel's submitting threads are asleep, not just about to be: then they would
 * still find new submissions.  A thread's place of waiting is known once it is off its CPU.
 */
static bool submitters_sleep(void *arg)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	char thread[300], text[64];
	bool asleep = true;

	(void)arg;
	KVT_CHECK(tasks);
	while (asleep && (task = readdir(tasks))) {
		snprintf(thread, sizeof(thread), "self/task/%s", task->d_name);
		kvt_read_process(thread, "comm", text, sizeof(text));
		if (strncmp(text, "iou-sqp-", 8))
			continue;
		kvt_read_process(thread, "wchan", text, sizeof(text));
		asleep = text[0] && strcmp(text, "0");
	}
	closedir(tasks);
	return asleep;
}

TEST_F(ring, operations_end_as_the_calls_for_one_key_do)
{
	struct kvtree_ring *ring = self->ring;
	uint64_t before = counter(self->kv, KVTREE_STAT_URING), version;
	struct kvtree_event ev;
	char buf[16] = "untouched";
	int x, ops = 0;

	ASSERT_EQ(0, kvtree_ring_get(ring, kvtree_str("key"), buf, sizeof(buf),
				     kvtree_as_event(&x)));
	ev = outcome(ring);
	EXPECT_EQ(-ENOENT, ev.result);
	EXPECT_EQ(&x, ev.data);
	EXPECT_EQ(0, ev.version);
	EXPECT_EQ(NULL, ev.op);
	EXPECT_STREQ("untouched", buf);

	ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("key"), kvtree_str("value"), KVTREE_F_CREATE,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(0, ev.result);
	EXPECT_EQ(NULL, ev.data);
	EXPECT_EQ(kvt_version(self->env.fd, STR("key")), ev.version);
	version = ev.version;

	ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("key"), kvtree_str("other"), KVTREE_F_CREATE,
				     kvtree_as_event(&x)));
	EXPECT_EQ(-EEXIST, outcome(ring).result);
	ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("none"), kvtree_str("other"),
				     KVTREE_F_REPLACE, kvtree_as_event(&x)));
	EXPECT_EQ(-ENOENT, outcome(ring).result);

	ASSERT_EQ(0, kvtree_ring_get(ring, kvtree_str("key"), buf, sizeof(buf),
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(5, ev.result);
	EXPECT_EQ(version, ev.version);
	EXPECT_EQ(0, ev.len);
	EXPECT_EQ(0, memcmp(buf, "valueched", 9));

	ASSERT_EQ(0, kvtree_ring_cas(ring, kvtree_str("key"), kvtree_str("new"), 0, version + 1,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(-ECANCELED, ev.result);
	EXPECT_EQ(version, ev.version);
	ASSERT_EQ(0, kvtree_ring_cas(ring, kvtree_str("none"), kvtree_str("new"), 0, version,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(-ECANCELED, ev.result);
	EXPECT_EQ(0, ev.version);
	ASSERT_EQ(0, kvtree_ring_cas(ring, kvtree_str("key"), kvtree_str("new"), 0, version,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(0, ev.result);
	EXPECT_LT(version, ev.version);
	EXPECT_TRUE(kvt_has(self->env.fd, STR("key"), STR("new")));

	ASSERT_EQ(0, kvtree_ring_del(ring, kvtree_str("key"), KVTREE_F_VERSION, version,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-ECANCELED, outcome(ring).result);
	version = ev.version;
	ASSERT_EQ(0, kvtree_ring_del(ring, kvtree_str("key"), KVTREE_F_VERSION, version,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(0, ev.result);
	EXPECT_EQ(version, ev.version);
	ASSERT_EQ(0, kvtree_ring_del(ring, kvtree_str("key"), 0, 0, kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(-ENOENT, ev.result);
	EXPECT_EQ(0, ev.version);

	ASSERT_EQ(0, kvtree_ring_add(ring, kvtree_str("sum"), 7, 40, KVTREE_F_REPLACE,
				     kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(-ENOENT, ev.result);
	EXPECT_EQ(0, ev.sum);
	ASSERT_EQ(0, kvtree_ring_add(ring, kvtree_str("sum"), 7, 40, 0, kvtree_as_event(NULL)));
	EXPECT_EQ(40, outcome(ring).sum);
	ASSERT_EQ(0, kvtree_ring_add(ring, kvtree_str("sum"), 7, -42, 0, kvtree_as_event(NULL)));
	ev = outcome(ring);
	EXPECT_EQ(0, ev.result);
	EXPECT_EQ(-2, ev.sum);
	EXPECT_EQ(kvt_version(self->env.fd, STR("sum")), ev.version);

	ASSERT_EQ(0, kvtree_ring_sync(ring, kvtree_as_event(&x)));
	ev = outcome(ring);
	EXPECT_EQ(kvtree_sync(self->kv), ev.result);
	EXPECT_EQ(&x, ev.data);

	/* By the counter: io_uring served them all, or none of them. */
	ops = 15;
	EXPECT_EQ(variant->uring ? ops : 0, counter(self->kv, KVTREE_STAT_URING) - before);
}

TEST_F(ring, keys_and_values_of_every_size_arrive)
{
	static const __u32 key_len[] = { 0, 1, 8, 15, 16, 17, 100, KVTREE_KEY_MAX };
	static const __u32 val_len[] = { 0, 1, 64, 4096, 5000, KVTREE_VALUE_MAX };
	static unsigned char key[KVTREE_KEY_MAX], val[MIB], buf[MIB];
	struct kvtree_event ev;
	int i, j, k;

	for (i = 0; i < sizeof(val); i++)
		val[i] = i * 7 + i / 251;
	memset(key, 'k', sizeof(key));
	for (i = 0; i < NR(key_len); i++) {
		for (j = 0; j < NR(val_len); j++) {
			ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(key, key_len[i]),
						     kvtree_slice(val, val_len[j]), 0,
						     kvtree_as_event(NULL)));
			ASSERT_EQ(0, outcome(self->ring).result);
			ASSERT_TRUE(kvt_has(self->env.fd, kvt_bytes(key, key_len[i]),
					    kvt_bytes(val, val_len[j])));
			memset(buf, 0, val_len[j]);
			ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_slice(key, key_len[i]), buf,
						     sizeof(buf), kvtree_as_event(NULL)));
			ev = outcome(self->ring);
			ASSERT_EQ(val_len[j], ev.result);
			ASSERT_EQ(0, memcmp(buf, val, val_len[j]));
			for (k = 0; k < 3; k++)
				val[(k * 1000) % (val_len[j] + 1)]++;
		}
	}
}

TEST_F(ring, short_key_is_copied_when_it_is_queued)
{
	char key[KVTREE_KEY_INLINE + 1] = "0123456789abcdef";

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(key, KVTREE_KEY_INLINE),
				     kvtree_str("value"), 0, kvtree_as_event(NULL)));
	memset(key, 'x', sizeof(key));
	ASSERT_EQ(0, outcome(self->ring).result);
	EXPECT_TRUE(kvt_has(self->env.fd, STR("0123456789abcdef"), STR("value")));
}

TEST_F(ring, operation_that_cannot_be_laid_out_is_not_queued)
{
	static char key[1 << 17];
	char buf[8];

	EXPECT_EQ(-E2BIG, kvtree_ring_get(self->ring, kvtree_slice(key, sizeof(key)), buf, 8,
					  kvtree_as_event(NULL)));
	EXPECT_EQ(-EINVAL, kvtree_ring_put(self->ring, kvtree_str("k"), kvtree_str("v"),
					   KVTREE_F_COLS, kvtree_as_event(NULL)));
	EXPECT_EQ(-EINVAL, kvtree_ring_put(self->ring, kvtree_str("k"), kvtree_str("v"), 1 << 16,
					   kvtree_as_event(NULL)));
	EXPECT_EQ(-EINVAL, kvtree_ring_add(self->ring, kvtree_str("k"), 256, 1, 0,
					   kvtree_as_event(NULL)));
	EXPECT_EQ(-E2BIG, kvtree_ring_put(self->ring, kvtree_str("k"),
					  kvtree_slice("v", 1ull << 33), 0, kvtree_as_event(NULL)));
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
	EXPECT_EQ(0, kvtree_ring_submit(self->ring));
	EXPECT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1, -1));
}

TEST_F(ring, operation_that_the_kernel_refuses_has_its_own_error)
{
	static char key[KVTREE_KEY_MAX + 1];
	struct kvtree_op op = kvt_op(77, STR("k"));
	char buf[64];

	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_slice(key, sizeof(key)), buf, 8,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-E2BIG, outcome(self->ring).result);
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("k"), kvtree_slice("v", MIB + 1), 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-E2BIG, outcome(self->ring).result);
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("k"), kvtree_slice((void *)4096, 8), 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-EFAULT, outcome(self->ring).result);
	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_slice((void *)4096, 17), buf, 8,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-EFAULT, outcome(self->ring).result);
	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("k"), buf, 8, kvtree_as_event(NULL)));
	EXPECT_EQ(-ENOENT, outcome(self->ring).result);
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(NULL)));
	EXPECT_EQ(-EINVAL, outcome(self->ring).result);
	EXPECT_EQ(-EINVAL, op.result);
}

TEST_F(ring, value_that_does_not_fit_returns_its_length)
{
	static char val[5000];
	char long_key[41] = "a key that fits not into its operation..", buf[100];
	struct kvtree_op op;
	struct kvtree_event ev;
	int i;

	ASSERT_EQ(0, kvt_put(self->env.fd, STR("key"), kvt_bytes(val, 101), NULL));
	ASSERT_EQ(0, kvt_put(self->env.fd, kvt_bytes(long_key, 40), kvt_bytes(val, 5000), NULL));
	memset(buf, 'b', sizeof(buf));
	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("key"), buf, sizeof(buf),
				     kvtree_as_event(NULL)));
	ev = outcome(self->ring);
	EXPECT_EQ(-EMSGSIZE, ev.result);
	EXPECT_EQ(101, ev.len);
	EXPECT_EQ(kvt_version(self->env.fd, STR("key")), ev.version);

	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_slice(long_key, 40), buf, sizeof(buf),
				     kvtree_as_event(NULL)));
	ev = outcome(self->ring);
	EXPECT_EQ(-EMSGSIZE, ev.result);
	EXPECT_EQ(5000, ev.len);

	op = kvt_op(KVTREE_OP_GET, kvt_bytes(long_key, 40));
	op.val = kvt_ptr(buf);
	op.val_len = 1;
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(NULL)));
	ev = outcome(self->ring);
	EXPECT_EQ(-EMSGSIZE, ev.result);
	EXPECT_EQ(5000, ev.len);
	EXPECT_EQ(5000, op.val_len);

	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("key"), NULL, 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(101, outcome(self->ring).len);
	for (i = 0; i < sizeof(buf); i++)
		ASSERT_EQ('b', buf[i]);
}

/*
 * Many at once, against a model
 */

#define KEYS		200

struct record {
	uint64_t version;		/* 0: not there */
	unsigned char val[40];
	int len;
};

/* An operation under way, and its expected result. */
struct request {
	struct model *model;
	struct record *rec;
	struct record next;		/* what the record becomes */
	int opcode;
	int result;
	bool busy;
	char key[24];
	unsigned char buf[40];
};

struct model {
	struct kvt_rand rand;
	struct record rec[KEYS];
	struct request req[KEYS];	/* one for each key: they have no order */
	unsigned int completed;
};

static void check_request(struct kvtree_ring *ring, const struct kvtree_event *ev)
{
	struct request *req = ev->data;
	struct record *rec = req->rec;

	(void)ring;
	KVT_CHECK(req->busy);
	req->busy = false;
	req->model->completed++;
	KVT_CHECK(ev->result == req->result);
	switch (req->opcode) {
	case KVTREE_OP_GET:
		KVT_CHECK(ev->version == rec->version);
		KVT_CHECK(ev->result < 0 || !memcmp(req->buf, rec->val, rec->len));
		return;
	case KVTREE_OP_REMOVE:
		KVT_CHECK(ev->version == rec->version);
		rec->version = 0;
		return;
	}
	if (ev->result < 0) {
		KVT_CHECK(ev->version == rec->version);
		return;
	}
	KVT_CHECK(ev->version > rec->version);
	*rec = req->next;
	rec->version = ev->version;
}

static int queue_random(struct kvtree_ring *ring, struct model *m, struct request *req,
			kvtree_ring_fn fn)
{
	char *key = req->key;
	int len, i;

	/* Some of them are longer than the room in an operation. */
	len = sprintf(key, "key %ld", (long)(req - m->req));
	if ((req - m->req) % 3 == 0)
		len += sprintf(key + len, " is long");
	req->model = m;
	req->rec = &m->rec[req - m->req];
	req->result = 0;
	req->next = *req->rec;
	req->next.len = kvt_rand_below(&m->rand, sizeof(req->next.val) + 1);
	for (i = 0; i < req->next.len; i++)
		req->next.val[i] = kvt_rand_below(&m->rand, 256);
	req->busy = true;
	switch (kvt_rand_below(&m->rand, 5)) {
	case 0:
		req->opcode = KVTREE_OP_PUT;
		return kvtree_ring_put(ring, kvtree_slice(key, len),
				       kvtree_slice(req->next.val, req->next.len), 0,
				       kvtree_callback(fn, req));
	case 1:
		req->opcode = KVTREE_OP_CAS;
		i = kvt_rand_below(&m->rand, 2);
		req->result = i ? -ECANCELED : 0;
		return kvtree_ring_cas(ring, kvtree_slice(key, len),
				       kvtree_slice(req->next.val, req->next.len), 0,
				       req->rec->version + i, kvtree_callback(fn, req));
	case 2:
		req->opcode = KVTREE_OP_REMOVE;
		req->result = req->rec->version ? 0 : -ENOENT;
		return kvtree_ring_del(ring, kvtree_slice(key, len), 0, 0,
				       kvtree_callback(fn, req));
	}
	req->opcode = KVTREE_OP_GET;
	req->result = req->rec->version ? req->rec->len : -ENOENT;
	memset(req->buf, 0, sizeof(req->buf));
	return kvtree_ring_get(ring, kvtree_slice(key, len), req->buf, sizeof(req->buf),
			       kvtree_callback(fn, req));
}

TEST_F(ring, everything_at_once_agrees_with_a_model)
{
	struct model *m = calloc(1, sizeof(*m));
	unsigned int total = 20000, queued = 0;
	uint64_t before = counter(self->kv, KVTREE_STAT_URING);
	struct kvtree_event ev[20];
	struct request *req;
	int i, n;

	ASSERT_NE(NULL, m);
	kvt_rand_init(&m->rand, 0);
	while (m->completed < total) {
		while (queued < total && kvtree_ring_pending(self->ring) < DEPTH) {
			req = &m->req[kvt_rand_below(&m->rand, KEYS)];
			if (req->busy)
				continue;
			/* As a callback or as an event. */
			ASSERT_EQ(0, queue_random(self->ring, m, req, queued % 3 ? NULL :
						  check_request));
			queued++;
			if (!kvt_rand_below(&m->rand, 30))
				break;
		}
		if (kvt_rand_below(&m->rand, 2))
			ASSERT_LE(0, kvtree_ring_submit(self->ring));
		n = kvtree_ring_wait(self->ring, ev, 1 + kvt_rand_below(&m->rand, NR(ev)),
				     kvt_rand_below(&m->rand, NR(ev)), -1);
		ASSERT_LE(0, n);
		for (i = 0; i < n; i++)
			check_request(self->ring, &ev[i]);
	}
	EXPECT_EQ(total, queued);
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
	EXPECT_EQ(variant->uring ? total : 0, counter(self->kv, KVTREE_STAT_URING) - before);
	free(m);
}

/*
 * Callbacks, depth, room for events
 */

struct chain {
	kvtree_ring_fn fn;
	unsigned int left;
	unsigned int calls;
	int64_t sum;
};

static void add_once_more(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	struct chain *c = event->data;

	KVT_CHECK(event->result == 0);
	KVT_CHECK(!event->op);
	/* One at a time: the sum says that none is lost, none comes twice. */
	KVT_CHECK(event->sum == c->sum + 3);
	c->sum = event->sum;
	c->calls++;
	/* The place of the one that has completed is free. */
	if (--c->left)
		KVT_CHECK(kvtree_ring_add(ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
					  kvtree_callback(c->fn, c)) == 0);
}

TEST_F(ring, callback_may_queue_the_next)
{
	struct chain chain[DEPTH] = {};
	struct chain *c;
	int i;

	for (i = 0; i < DEPTH; i++) {
		c = &chain[i];
		c->fn = add_once_more;
		c->left = 2 + 10 * i;
		ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
					     kvtree_callback(add_once_more, c)));
	}
	while (kvtree_ring_pending(self->ring))
		ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1, -1));
	for (i = 0; i < DEPTH; i++) {
		EXPECT_EQ(0, chain[i].left);
		EXPECT_EQ(2 + 10 * i, chain[i].calls);
	}
}

static void add_and_submit(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	add_once_more(ring, event);
	KVT_CHECK(kvtree_ring_submit(ring) >= 0);
}

/* What completes meanwhile is for the next time: the caller has its turn. */
TEST_F(ring, callback_that_submits_does_not_keep_the_wait)
{
	struct chain chain = { .left = 1000, .fn = add_and_submit }, *c = &chain;

	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
				     kvtree_callback(chain.fn, c)));
	ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1, -1));
	EXPECT_LT(0, chain.left);
	while (chain.left)
		ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1, -1));
	EXPECT_EQ(3000, chain.sum);
}

TEST_F(ring, callbacks_alone_bring_a_chain_to_its_end)
{
	struct chain chain = { .fn = add_once_more, .left = 1000 }, *c = &chain;

	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
				     kvtree_callback(add_once_more, c)));
	/* Completions by callbacks count. */
	ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1000, -1));
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
	EXPECT_EQ(3000, chain.sum);
}

TEST_F(ring, pending_operations_are_limited_by_the_depth)
{
	char buf[8];
	int i;

	for (i = 0; i < DEPTH; i++) {
		ASSERT_EQ(i, kvtree_ring_pending(self->ring));
		ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4), kvtree_str("value"),
					     0, kvtree_as_event(NULL)));
	}
	EXPECT_EQ(-EAGAIN, kvtree_ring_put(self->ring, kvtree_str("k"), kvtree_str("v"), 0,
					   kvtree_as_event(NULL)));
	EXPECT_EQ(DEPTH, kvtree_ring_submit(self->ring));
	EXPECT_EQ(0, kvtree_ring_submit(self->ring));
	/* Until the event has been returned it has its place. */
	EXPECT_EQ(-EAGAIN, kvtree_ring_get(self->ring, kvtree_str("k"), buf, 8,
					   kvtree_as_event(NULL)));
	EXPECT_EQ(DEPTH, finish(self->ring));
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
	EXPECT_EQ(DEPTH, counter(self->kv, KVTREE_STAT_KEYS));
}

TEST_F(ring, ring_of_one_operation_works)
{
	struct kvtree_ring *ring = open_ring(self->kv, variant->flags, 1, NULL, 0);
	struct chain chain = { .fn = add_once_more, .left = 100 }, *c = &chain;

	ASSERT_EQ(0, kvtree_ring_add(ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
				     kvtree_callback(add_once_more, c)));
	EXPECT_EQ(-EAGAIN, kvtree_ring_sync(ring, kvtree_as_event(NULL)));
	ASSERT_EQ(0, kvtree_ring_wait(ring, NULL, 0, 100, -1));
	EXPECT_EQ(300, chain.sum);
	kvtree_ring_close(ring);
}

TEST_F(ring, events_that_do_not_fit_are_returned_next_time)
{
	struct kvtree_event ev[3];
	char seen[DEPTH] = {};
	unsigned int calls = 0, events = 0;
	int i, n;

	for (i = 0; i < DEPTH; i++) {
		ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4), kvtree_str("value"),
					     0, i % 4 ? kvtree_as_event(&seen[i]) :
							kvtree_callback(count_call, &calls)));
	}
	while (kvtree_ring_pending(self->ring)) {
		n = kvtree_ring_wait(self->ring, ev, NR(ev), DEPTH, -1);
		ASSERT_LE(0, n);
		ASSERT_GE(NR(ev), n);
		for (i = 0; i < n; i++)
			++*(char *)ev[i].data;
		events += n;
	}
	EXPECT_EQ(DEPTH / 4, calls);
	EXPECT_EQ(DEPTH - DEPTH / 4, events);
	for (i = 0; i < DEPTH; i++)
		EXPECT_EQ(i % 4 ? 1 : 0, seen[i]);
}

/*
 * Operations that the caller lays out, and lists of them
 */

TEST_F(ring, columns_and_scans_come_back_in_their_operations)
{
	struct kvtree_col put[2] = { { .id = 1, .len = 3 }, { .id = 200, .len = 2 } };
	struct kvtree_col get[3] = { { .id = 1 }, { .id = 5 }, { .id = 200 } };
	struct kvtree_scan scan = { .limit = 10 };
	struct kvtree_op op, scan_op;
	struct kvtree_event ev;
	const struct kvtree_rec *rec;
	char buf[300] = "";

	op = kvt_op(KVTREE_OP_PUT, STR("key"));
	op.flags |= KVTREE_F_COLS;
	op.arg = kvt_ptr(put);
	op.ncols = 2;
	op.val = kvt_ptr("onetw");
	op.val_len = 5;
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(&put)));
	ev = outcome(self->ring);
	ASSERT_EQ(0, ev.result);
	EXPECT_EQ(&op, ev.op);
	EXPECT_EQ(&put, ev.data);
	EXPECT_EQ(ev.version, op.version);
	EXPECT_LT(0, op.version);

	op = kvt_op(KVTREE_OP_GET, STR("key"));
	op.flags |= KVTREE_F_COLS;
	op.arg = kvt_ptr(get);
	op.ncols = 3;
	op.val = kvt_ptr(buf);
	op.val_len = sizeof(buf);
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(NULL)));
	ASSERT_EQ(5, outcome(self->ring).result);
	EXPECT_EQ(5, op.result);
	EXPECT_EQ(3, get[0].len);
	EXPECT_EQ(KVTREE_COL_ABSENT, get[1].len);
	EXPECT_EQ(2, get[2].len);
	EXPECT_EQ(0, memcmp(buf, "onetw", 5));

	scan_op = kvt_op(KVTREE_OP_SCAN, STR(""));
	scan.flags = KVTREE_SCAN_ALL_COLS;
	scan_op.arg = kvt_ptr(&scan);
	scan_op.val = kvt_ptr(buf);
	scan_op.val_len = sizeof(buf);
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &scan_op, kvtree_as_event(NULL)));
	ev = outcome(self->ring);
	ASSERT_LT(0, ev.result);
	EXPECT_EQ(1, scan.count);
	EXPECT_EQ(KVTREE_SCAN_DONE, scan.out_flags);
	rec = (const struct kvtree_rec *)buf;
	EXPECT_EQ(ev.result, rec->rec_len);
	EXPECT_EQ(0, memcmp(buf + rec->hdr_len, "key", 3));

	op = kvt_op(KVTREE_OP_ADD, STR("number"));
	op.arg = 5;
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(NULL)));
	ASSERT_EQ(5, outcome(self->ring).sum);
	op.arg = 6;
	ASSERT_EQ(0, kvtree_ring_op(self->ring, &op, kvtree_as_event(NULL)));
	EXPECT_EQ(11, outcome(self->ring).sum);
	EXPECT_EQ(5, op.arg);
}

TEST_F(ring, list_of_any_length_is_executed_in_order)
{
	const size_t nr = 2 * KVTREE_BATCH_MAX + 1000;
	struct kvtree_column cols[2] = {
		{ .id = 3, .len = 8 }, { .id = 4, .len = 2, .data = "xy" },
	};
	const struct kvtree_columns *found;
	struct kvtree_ops *ops;
	struct kvtree_event ev;
	uint64_t i;

	ASSERT_EQ(0, kvtree_ops_new(&ops));
	/* Each number is the result of the operations before. */
	for (i = 0; i < nr; i++)
		ASSERT_EQ(i, kvtree_ops_add(ops, kvtree_str("number"), 0, 2, 0));
	ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops, kvtree_as_event(ops)));
	ev = outcome(self->ring);
	EXPECT_EQ(0, ev.result);
	EXPECT_EQ(ops, ev.data);
	EXPECT_EQ(NULL, ev.op);
	ASSERT_EQ(nr, kvtree_ops_done(ops));
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, kvtree_ops_result(ops, i));
		ASSERT_EQ(2 * (i + 1), kvtree_ops_sum(ops, i));
	}

	kvtree_ops_clear(ops);
	for (i = 0; i < 1000; i++) {
		cols[0].data = &i;
		ASSERT_LE(0, kvtree_ops_put_cols(ops, kvtree_slice(&i, 8), cols, 2, 0));
		ASSERT_LE(0, kvtree_ops_get_cols(ops, kvtree_slice(&i, 8), NULL, 0, 100));
		ASSERT_LE(0, kvtree_ops_get(ops, kvtree_str("none"), NULL, 100));
	}
	ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops, kvtree_as_event(NULL)));
	ASSERT_EQ(0, outcome(self->ring).result);
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(0, kvtree_ops_result(ops, 3 * i));
		found = kvtree_ops_columns(ops, 3 * i + 1);
		ASSERT_NE(NULL, found);
		ASSERT_EQ(2, found->nr);
		ASSERT_EQ(kvtree_ops_version(ops, 3 * i), found->version);
		ASSERT_EQ(0, memcmp(found->col[0].data, &i, 8));
		ASSERT_EQ(-ENOENT, kvtree_ops_result(ops, 3 * i + 2));
	}

	/* Additions continue from there. */
	ASSERT_EQ(3000, kvtree_ops_add(ops, kvtree_str("number"), 0, 1, 0));
	ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops, kvtree_as_event(NULL)));
	ASSERT_EQ(0, outcome(self->ring).result);
	EXPECT_EQ(2 * nr + 1, kvtree_ops_sum(ops, 3000));
	EXPECT_EQ(variant->uring, counter(self->kv, KVTREE_STAT_URING) > 0);
	kvtree_ops_free(ops);
}

TEST_F(ring, list_without_anything_to_do_completes)
{
	struct kvtree_ops *ops;

	ASSERT_EQ(0, kvtree_ops_new(&ops));
	ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops, kvtree_callback(count_call, &self->calls)));
	ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 1, -1));
	EXPECT_EQ(1, self->calls);
	ASSERT_EQ(0, kvtree_ops_add(ops, kvtree_str("number"), 0, 1, 0));
	ASSERT_EQ(0, kvtree_ops_run(ops, self->kv));
	ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops, kvtree_as_event(NULL)));
	EXPECT_EQ(0, outcome(self->ring).result);
	EXPECT_EQ(1, kvtree_ops_sum(ops, 0));
	kvtree_ops_free(ops);
}

TEST_F(ring, lists_and_operations_go_side_by_side)
{
	const int nr = 5000;
	struct kvtree_ops *ops[4];
	struct kvtree_event ev;
	char buf[4][8];
	int i, j;

	for (i = 0; i < NR(ops); i++) {
		ASSERT_EQ(0, kvtree_ops_new(&ops[i]));
		for (j = 0; j < nr; j++)
			ASSERT_EQ(j, kvtree_ops_add(ops[i], kvtree_slice(&i, 4), 0, 1, 0));
		ASSERT_EQ(0, kvtree_ring_ops(self->ring, ops[i], kvtree_as_event(ops[i])));
		ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("none"), buf[i], 8,
					     kvtree_as_event(NULL)));
	}
	for (i = 0; i < 2 * NR(ops); i++) {
		ASSERT_EQ(1, kvtree_ring_wait(self->ring, &ev, 1, 1, -1));
		ASSERT_EQ(ev.data ? 0 : -ENOENT, ev.result);
	}
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
	for (i = 0; i < NR(ops); i++) {
		ASSERT_EQ(nr, kvtree_ops_done(ops[i]));
		EXPECT_EQ(nr, kvtree_ops_sum(ops[i], nr - 1));
		kvtree_ops_free(ops[i]);
	}
}

/*
 * Canceling and closing
 */

TEST_F(ring, canceled_before_it_is_submitted_changes_nothing)
{
	unsigned int canceled = 0, calls = 0;
	struct kvtree_event ev;
	int i;

	for (i = 0; i < 30; i++) {
		ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4), kvtree_str("value"),
					     0, kvtree_callback(i % 3 ? count_canceled : count_call,
								i % 3 ? &canceled : &calls)));
	}
	EXPECT_EQ(0, kvtree_ring_cancel(self->ring, &ev));
	EXPECT_EQ(20, kvtree_ring_cancel(self->ring, &canceled));
	EXPECT_EQ(0, kvtree_ring_cancel(self->ring, &canceled));
	EXPECT_EQ(30, kvtree_ring_pending(self->ring));
	EXPECT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 30, -1));
	EXPECT_EQ(20, canceled);
	EXPECT_EQ(10, calls);
	EXPECT_EQ(10, counter(self->kv, KVTREE_STAT_KEYS));

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(&calls)));
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(2, kvtree_ring_cancel(self->ring, NULL));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(1, kvtree_ring_wait(self->ring, &ev, 1, 1, -1));
		EXPECT_EQ(-ECANCELED, ev.result);
		EXPECT_EQ(0, ev.version);
	}
	EXPECT_EQ(0, kvt_version(self->env.fd, STR("key")));
}

TEST_F(ring, cancel_leaves_what_has_completed)
{
	struct kvtree_event ev[DEPTH];
	int i, n, canceled, count = 0;

	for (i = 0; i < DEPTH; i++)
		ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4), kvtree_str("value"),
					     0, kvtree_as_event(NULL)));
	ASSERT_EQ(DEPTH, kvtree_ring_submit(self->ring));
	canceled = kvtree_ring_cancel(self->ring, NULL);
	ASSERT_LE(0, canceled);
	EXPECT_EQ(DEPTH, kvtree_ring_pending(self->ring));
	n = kvtree_ring_wait(self->ring, ev, DEPTH, DEPTH, -1);
	ASSERT_EQ(DEPTH, n);
	for (i = 0; i < n; i++) {
		EXPECT_TRUE(ev[i].result == 0 || ev[i].result == -ECANCELED);
		count += ev[i].result == -ECANCELED;
	}
	EXPECT_EQ(canceled, count);
	EXPECT_EQ(DEPTH - canceled, counter(self->kv, KVTREE_STAT_KEYS));
}

/* In a ring that is being closed. */
static void queue_in_vain(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	KVT_CHECK(event->result == -ECANCELED);
	KVT_CHECK(kvtree_ring_put(ring, kvtree_str("k"), kvtree_str("v"), 0,
				  kvtree_callback(queue_in_vain, event->data)) == -ECANCELED);
	++*(unsigned int *)event->data;
}

TEST_F(ring, close_drops_what_was_not_submitted_and_finishes_the_rest)
{
	struct kvtree_ring *ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	unsigned int dropped = 0, calls = 0, i;
	struct kvtree_ops *ops;

	ASSERT_EQ(0, kvtree_ops_new(&ops));
	for (i = 0; i < 20; i++)
		ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_slice(&i, 4), kvtree_str("value"), 0,
					     kvtree_callback(count_call, &calls)));
	for (; i < 25; i++)
		ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_slice(&i, 4), kvtree_str("value"), 0,
					     kvtree_as_event(NULL)));
	ASSERT_EQ(25, kvtree_ring_submit(ring));
	for (; i < 40; i++)
		ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_slice(&i, 4), kvtree_str("value"), 0,
					     kvtree_callback(queue_in_vain, &dropped)));
	ASSERT_EQ(0, kvtree_ops_put(ops, kvtree_str("list"), kvtree_str("value"), 0));
	ASSERT_EQ(0, kvtree_ring_ops(ring, ops, kvtree_callback(queue_in_vain, &dropped)));
	ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("last"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	kvtree_ring_close(ring);
	EXPECT_EQ(20, calls);
	EXPECT_EQ(16, dropped);
	EXPECT_EQ(0, kvtree_ops_done(ops));
	EXPECT_EQ(25, counter(self->kv, KVTREE_STAT_KEYS));
	kvtree_ops_free(ops);
	kvtree_ring_close(NULL);
}

/*
 * Event loops
 */

static bool readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

static void clear(int fd)
{
	uint64_t n;

	KVT_CHECK(read(fd, &n, 8) == 8 || errno == EAGAIN);
}

TEST_F(ring, eventfd_wakes_an_event_loop)
{
	struct kvtree_event ev[3];
	struct epoll_event ready;
	unsigned int events = 0, round;
	int fd, ep, i, n;

	fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, fd);
	EXPECT_EQ(fd, kvtree_ring_eventfd(self->ring));
	EXPECT_FALSE(readable(fd, 0));
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN }));
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 10; i++) {
			ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4),
						     kvtree_str("value"), 0,
						     kvtree_callback(i % 2 ? NULL : count_call,
								     &self->calls)));
		}
		ASSERT_EQ(10, kvtree_ring_submit(self->ring));
		/* As long as there is something to reap it says so. */
		while (kvtree_ring_pending(self->ring)) {
			ASSERT_EQ(1, epoll_wait(ep, &ready, 1, 60000));
			clear(fd);
			n = kvtree_ring_wait(self->ring, ev, NR(ev), 0, 0);
			ASSERT_LE(0, n);
			events += n;
		}
	}
	EXPECT_EQ(100, events);
	EXPECT_EQ(100, self->calls);
	close(ep);
}

TEST_F(ring, event_loop_need_not_submit_what_callbacks_queue)
{
	struct chain chain = { .fn = add_once_more, .left = 100 }, *c = &chain;
	int fd;

	fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_slice(&c, sizeof(c)), 0, 3, 0,
				     kvtree_callback(add_once_more, c)));
	ASSERT_EQ(1, kvtree_ring_submit(self->ring));
	while (chain.left) {
		ASSERT_TRUE(readable(fd, 60000));
		clear(fd);
		ASSERT_EQ(0, kvtree_ring_wait(self->ring, NULL, 0, 0, 0));
	}
	EXPECT_EQ(300, chain.sum);
}

static bool has_executed(void *arg)
{
	return counter(arg, KVTREE_STAT_URING);
}

TEST_F(ring, eventfd_knows_what_came_before_it)
{
	struct kvtree_event ev;
	int fd;

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	ASSERT_EQ(1, kvtree_ring_submit(self->ring));
	/* A thread that submits has completed it: it has a name once it has begun. */
	if (variant->flags & KVTREE_RING_SQPOLL)
		ASSERT_TRUE(kvt_eventually(has_executed, self->kv));
	ASSERT_TRUE(kvt_eventually(submitters_sleep, NULL));
	fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(readable(fd, 0));
	clear(fd);
	ASSERT_EQ(1, kvtree_ring_wait(self->ring, &ev, 1, 1, -1));
	EXPECT_EQ(0, ev.result);

	/* Canceled without the kernel's knowing. */
	clear(fd);
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	EXPECT_FALSE(readable(fd, 0));
	ASSERT_EQ(1, kvtree_ring_cancel(self->ring, NULL));
	EXPECT_TRUE(readable(fd, 0));
	EXPECT_EQ(-ECANCELED, outcome(self->ring).result);
}

/*
 * Registered buffers
 */

TEST_F(ring, registered_buffers_hold_what_other_memory_holds)
{
	const size_t size = 2 * MIB;
	unsigned char *mem = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Not in order, and with a hole between them. */
	struct iovec iov[3] = {
		{ mem + 2 * size, size }, { mem, size }, { mem + size, 4096 },
	};
	/* At the edges, inside, across two, partly or wholly outside. */
	const size_t at[] = {
		0, 1, size - 100, size - 1, size, size + 4000, size + 4096, 2 * size - 50,
		2 * size, 3 * size - MIB,
	};
	static const __u32 len[] = { 0, 1, 100, 5000, MIB };
	struct kvtree_scan scan = {};
	struct kvtree_ring *ring;
	struct kvtree_op op;
	unsigned char *buf;
	__u32 n, i, j, k;

	ASSERT_NE(MAP_FAILED, mem);
	ring = open_ring(self->kv, variant->flags, DEPTH, iov, NR(iov));
	for (i = 0; i < NR(at); i++) {
		for (j = 0; j < NR(len); j++) {
			n = len[j];
			if (at[i] + n > 3 * size)
				continue;
			for (k = 0; k < n; k++)
				mem[at[i] + k] = k * 31 + i + j;
			buf = mem + (at[i] + size + 4096) % (2 * size);
			ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("key"),
						     kvtree_slice(mem + at[i], n), 0,
						     kvtree_as_event(NULL)));
			ASSERT_EQ(0, outcome(ring).result);
			ASSERT_TRUE(kvt_has(self->env.fd, STR("key"), kvt_bytes(mem + at[i], n)));
			memset(buf, 0, n);
			ASSERT_EQ(0, kvtree_ring_get(ring, kvtree_str("key"), buf, n,
						     kvtree_as_event(NULL)));
			ASSERT_EQ(n, outcome(ring).result);
			ASSERT_TRUE(kvt_has(self->env.fd, STR("key"), kvt_bytes(buf, n)));
			if (!n)
				continue;
			ASSERT_EQ(0, kvtree_ring_get(ring, kvtree_str("key"), buf, n - 1,
						     kvtree_as_event(NULL)));
			ASSERT_EQ(n, outcome(ring).len);
		}
	}

	op = kvt_op(KVTREE_OP_SCAN, STR(""));
	op.arg = kvt_ptr(&scan);
	op.val = kvt_ptr(mem + 100);
	op.val_len = size - 100;
	ASSERT_EQ(0, kvtree_ring_op(ring, &op, kvtree_as_event(NULL)));
	ASSERT_LT(0, outcome(ring).result);
	EXPECT_EQ(1, scan.count);
	kvtree_ring_close(ring);
	munmap(mem, 3 * size);
}

/*
 * Threads and processes
 */

struct worker {
	struct kvtree *kv;
	unsigned int flags;
	int number;
};

#define ROUNDS	200

static void *work(void *arg)
{
	struct worker *w = arg;
	struct kvtree_ring *ring = open_ring(w->kv, w->flags, DEPTH, NULL, 0);
	unsigned int canceled = 0, calls = 0;
	int i, j, key[2] = { w->number };
	uint64_t expected = 0;

	for (i = 0; i < ROUNDS; i++) {
		for (j = 0; j < 10; j++) {
			key[1] = j;
			KVT_CHECK(kvtree_ring_add(ring, kvtree_slice(key, 8), 0, 1, 0,
						  kvtree_callback(count_call, &calls)) == 0);
		}
		KVT_CHECK(kvtree_ring_submit(ring) == 10);
		KVT_CHECK(kvtree_ring_add(ring, kvtree_slice(key, 8), 0, 1, 0,
					  kvtree_callback(count_canceled, &canceled)) == 0);
		/* Only operations of this ring. */
		KVT_CHECK(kvtree_ring_cancel(ring, &canceled) == 1);
		KVT_CHECK(finish(ring) == 0);
		expected += 10;
		KVT_CHECK(calls == expected);
	}
	KVT_CHECK(canceled == ROUNDS);
	kvtree_ring_close(ring);
	return NULL;
}

TEST_F(ring, threads_have_rings_of_their_own_on_one_session)
{
	struct worker worker[3];
	pthread_t thread[3];
	char buf[8];
	int i, j, key[2];

	for (i = 0; i < NR(thread); i++) {
		worker[i] = (struct worker){ self->kv, variant->flags, i };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, work, &worker[i]));
	}
	for (i = 0; i < NR(thread); i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	for (i = 0; i < NR(thread); i++) {
		for (j = 0; j < 10; j++) {
			key[0] = i;
			key[1] = j;
			ASSERT_EQ(8, kvt_get(self->env.fd, kvt_bytes(key, 8), buf, 8, NULL));
			ASSERT_EQ(ROUNDS, *(uint64_t *)buf);
		}
	}
}

struct closer {
	struct kvtree *kv;
	unsigned int flags;
	struct kvtree_ring *ring;
};

static void *close_and_go_on(void *arg)
{
	struct closer *c = arg;
	struct kvtree_ring *own = open_ring(c->kv, c->flags, 8, NULL, 0);

	kvtree_ring_close(c->ring);
	KVT_CHECK(kvtree_ring_put(own, kvtree_str("own"), kvtree_str("value"), 0,
				  kvtree_as_event(NULL)) == 0);
	KVT_CHECK(outcome(own).result == 0);
	kvtree_ring_close(own);
	return NULL;
}

TEST_F(ring, ring_without_work_may_be_closed_by_any_thread)
{
	struct closer closer = { .kv = self->kv, .flags = variant->flags };
	pthread_t thread;

	closer.ring = open_ring(self->kv, variant->flags, 8, NULL, 0);
	ASSERT_EQ(0, kvtree_ring_put(closer.ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	ASSERT_EQ(0, outcome(closer.ring).result);
	ASSERT_EQ(0, pthread_create(&thread, NULL, close_and_go_on, &closer));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	/* Neither this thread's other ring nor that thread's own one is touched. */
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(0, outcome(self->ring).result);
}

TEST_F(ring, child_may_close_its_copy_of_a_ring)
{
	unsigned int i;
	int pid, fd;

	fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, fd);
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_slice(&i, 4), kvtree_str("value"),
					     0, kvtree_callback(count_call, &self->calls)));
		if (i == 4)
			ASSERT_EQ(5, kvtree_ring_submit(self->ring));
	}
	pid = kvt_child();
	if (!pid) {
		kvtree_ring_close(self->ring);
		/* The parent's are none of its business. */
		KVT_CHECK(self->calls == 0);
		self->ring = open_ring(self->kv, variant->flags, 8, NULL, 0);
		KVT_CHECK(kvtree_ring_put(self->ring, kvtree_str("child"), kvtree_str("value"), 0,
					  kvtree_as_event(NULL)) == 0);
		KVT_CHECK(outcome(self->ring).result == 0);
		kvtree_ring_close(self->ring);
		_exit(0);
	}
	ASSERT_EQ(0, kvt_wait(pid));
	EXPECT_EQ(0, finish(self->ring));
	EXPECT_EQ(10, self->calls);
	EXPECT_EQ(11, counter(self->kv, KVTREE_STAT_KEYS));
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_str("value"), 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(0, outcome(self->ring).result);
}

/*
 * How a ring is made
 */

TEST_F(ring, options_are_checked)
{
	struct {
		struct kvtree_ring_opts known;
		long more;
	} opts = { .known.flags = variant->flags };
	struct kvtree_ring *ring = NULL;

	EXPECT_EQ(-EINVAL, kvtree_ring_open(self->kv, &opts.known, &ring));
	opts.known.size = sizeof(opts);
	opts.more = 1;
	EXPECT_EQ(-E2BIG, kvtree_ring_open(self->kv, &opts.known, &ring));
	opts.more = 0;
	opts.known.depth = 32769;
	EXPECT_EQ(-E2BIG, kvtree_ring_open(self->kv, &opts.known, &ring));
	opts.known.depth = 0;
	opts.known.flags |= 1 << 3;
	EXPECT_EQ(-EINVAL, kvtree_ring_open(self->kv, &opts.known, &ring));
	opts.known.flags = variant->flags;
	opts.known.nr_buffers = 1;
	EXPECT_EQ(-EINVAL, kvtree_ring_open(self->kv, &opts.known, &ring));
	EXPECT_EQ(NULL, ring);
	opts.known.nr_buffers = 0;
	opts.known.depth = 32768;
	ASSERT_EQ(0, kvtree_ring_open(self->kv, &opts.known, &ring));
	EXPECT_EQ(variant->uring, kvtree_ring_uses_uring(ring));
	kvtree_ring_close(ring);
	ASSERT_EQ(0, kvtree_ring_open(self->kv, NULL, &ring));
	EXPECT_EQ(1, kvtree_ring_uses_uring(ring));
	kvtree_ring_close(ring);
}

/* No io_uring_setup() for this process from here on. */
static void forbid_uring(int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = NR(filter), .filter = filter };

	KVT_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	KVT_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

/*
 * A kernel that does not accept submissions
 */

/* Decides about this thread's io_uring_enter() with SQEs to submit. */
struct gate {
	int fd;			/* of the filter that asks */
	atomic_int refuse;	/* refuse this many, with EAGAIN */
	pthread_t thread;
};

static void *guard(void *arg)
{
	struct gate *gate = arg;
	struct seccomp_notif_resp resp;
	struct seccomp_notif req;

	for (;;) {
		memset(&req, 0, sizeof(req));
		if (ioctl(gate->fd, SECCOMP_IOCTL_NOTIF_RECV, &req))
			continue;
		resp = (struct seccomp_notif_resp){ .id = req.id };
		if (atomic_load(&gate->refuse)) {
			atomic_fetch_sub(&gate->refuse, 1);
			resp.error = -EAGAIN;
		} else {
			resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		}
		ioctl(gate->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
	return NULL;
}

static void gate_open(struct gate *gate)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = NR(filter), .filter = filter };

	atomic_init(&gate->refuse, 0);
	KVT_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	gate->fd = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
			   SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	KVT_CHECK(gate->fd >= 0);
	KVT_CHECK(!pthread_create(&gate->thread, NULL, guard, gate));
}

FIXTURE(refused) {
	struct kvt_env env;
	struct kvtree *kv;
	struct kvtree_ring *ring;
	struct gate gate;
};

FIXTURE_VARIANT(refused) {
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(refused, inside) { .flags = 0 };
FIXTURE_VARIANT_ADD(refused, by_pointer) { .flags = KVTREE_RING_BY_POINTER };

FIXTURE_SETUP(refused)
{
	kvt_env_init(&self->env, "refused", 0, 0);
	self->kv = open_session(&self->env);
	self->ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	gate_open(&self->gate);
}

FIXTURE_TEARDOWN(refused)
{
	kvtree_ring_close(self->ring);
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

TEST_F(refused, what_the_kernel_does_not_take_is_still_queued)
{
	struct kvtree_event ev[4];
	int i, x[6];

	atomic_store(&self->gate.refuse, 3);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
					     kvtree_as_event(&x[i])));
	EXPECT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	EXPECT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	EXPECT_EQ(-EAGAIN, kvtree_ring_wait(self->ring, ev, NR(ev), 1, 1000));
	EXPECT_EQ(3, kvtree_ring_pending(self->ring));
	EXPECT_EQ(0, atomic_load(&self->gate.refuse));
	EXPECT_EQ(0, kvt_version(self->env.fd, STR("sum")));

	/* Each once, in the order in which they were queued. */
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
				     kvtree_as_event(&x[3])));
	EXPECT_EQ(4, kvtree_ring_submit(self->ring));
	ASSERT_EQ(4, kvtree_ring_wait(self->ring, ev, NR(ev), 4, -1));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, ev[i].result);
		EXPECT_EQ(&x[i], ev[i].data);
		EXPECT_EQ(i + 1, ev[i].sum);
	}
	EXPECT_EQ(0, kvtree_ring_pending(self->ring));
}

TEST_F(refused, what_the_kernel_does_not_take_can_be_canceled)
{
	struct kvtree_event ev[4];
	int i, x[3];

	atomic_store(&self->gate.refuse, 1);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
					     kvtree_as_event(&x[i])));
	EXPECT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	EXPECT_EQ(1, kvtree_ring_cancel(self->ring, &x[1]));
	ASSERT_EQ(3, kvtree_ring_wait(self->ring, ev, NR(ev), 3, -1));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(ev[i].data == &x[1] ? -ECANCELED : 0, ev[i].result);
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(3, outcome(self->ring).sum);

	/* Closing does not submit operations that the kernel has not accepted. */
	atomic_store(&self->gate.refuse, 1);
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	kvtree_ring_close(self->ring);
	self->ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(4, outcome(self->ring).sum);
}

/*
 * A kernel that does not wake its thread.  The thread submits without a call that could
 * be refused, unless it sleeps.
 */

FIXTURE(asleep) {
	struct kvt_env env;
	struct kvtree *kv;
	struct kvtree_ring *ring;
	struct gate gate;
};

FIXTURE_SETUP(asleep)
{
	kvt_env_init(&self->env, "asleep", 0, 0);
	self->kv = open_session(&self->env);
	self->ring = open_ring(self->kv, KVTREE_RING_SQPOLL, 2, NULL, 0);
	gate_open(&self->gate);
}

FIXTURE_TEARDOWN(asleep)
{
	kvtree_ring_close(self->ring);
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

/*
 * Has this many calls refused, the first of which would submit an addition: it is in the
 * ring then, of a thread that sleeps.  Returns the sum that it is to make.
 */
static int64_t add_asleep(struct gate *gate, struct kvtree_ring *ring, int refuse)
{
	int64_t sum = 0;

	for (;;) {
		/* A thread that has just begun has no name yet, and is not seen. */
		KVT_CHECK(kvt_eventually(submitters_sleep, NULL));
		atomic_store(&gate->refuse, refuse);
		KVT_CHECK(kvtree_ring_add(ring, kvtree_str("sum"), 0, 1, 0,
					  kvtree_as_event(NULL)) == 0);
		if (kvtree_ring_submit(ring) == -EAGAIN)
			break;
		/* It was awake. */
		KVT_CHECK(atomic_exchange(&gate->refuse, 0) == refuse);
		sum = outcome(ring).sum;
	}
	KVT_CHECK(atomic_load(&gate->refuse) == refuse - 1);
	return sum + 1;
}

TEST_F(asleep, wait_wakes_it_again)
{
	struct kvtree_event ev[2];
	int64_t sum;

	sum = add_asleep(&self->gate, self->ring, 3);
	ASSERT_EQ(-EAGAIN, kvtree_ring_wait(self->ring, ev, NR(ev), 1, 1000));
	ASSERT_EQ(-EAGAIN, kvtree_ring_wait(self->ring, ev, NR(ev), 0, 0));
	EXPECT_EQ(0, atomic_load(&self->gate.refuse));
	EXPECT_EQ(1, kvtree_ring_pending(self->ring));
	EXPECT_EQ(sum - 1, counter(self->kv, KVTREE_STAT_URING));
	EXPECT_EQ(sum, outcome(self->ring).sum);
}

TEST_F(asleep, submit_wakes_it_again)
{
	struct pollfd pfd = { .events = POLLIN };
	int64_t sum;

	sum = add_asleep(&self->gate, self->ring, 2);
	pfd.fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, pfd.fd);
	EXPECT_EQ(8, read(pfd.fd, &(uint64_t){ 0 }, 8));
	ASSERT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	/* Nothing is queued that was not in the ring before. */
	EXPECT_EQ(0, kvtree_ring_submit(self->ring));
	EXPECT_EQ(1, poll(&pfd, 1, -1));
	EXPECT_EQ(sum, outcome(self->ring).sum);
}

TEST_F(asleep, cancel_does_not_wait_for_it_in_a_full_ring)
{
	struct kvtree_event ev[2];
	int64_t sum;

	sum = add_asleep(&self->gate, self->ring, 4);
	ASSERT_EQ(0, kvtree_ring_add(self->ring, kvtree_str("sum"), 0, 1, 0,
				     kvtree_as_event(NULL)));
	EXPECT_EQ(-EAGAIN, kvtree_ring_submit(self->ring));
	EXPECT_EQ(-EAGAIN, kvtree_ring_cancel(self->ring, NULL));
	EXPECT_EQ(0, atomic_load(&self->gate.refuse));
	EXPECT_EQ(2, kvtree_ring_pending(self->ring));
	ASSERT_EQ(2, kvtree_ring_wait(self->ring, ev, NR(ev), 2, -1));
	EXPECT_EQ(sum, ev[0].sum);
	EXPECT_EQ(sum + 1, ev[1].sum);
}

TEST_F(ring, process_that_may_not_use_io_uring_does_system_calls)
{
	static const int errors[] = { EPERM, EACCES, EINVAL };
	struct kvtree_ring_opts opts = { .size = sizeof(opts), .flags = variant->flags };
	struct kvtree_ring *ring;
	int i, pid;

	for (i = 0; i < NR(errors); i++) {
		pid = kvt_child();
		if (!pid) {
			forbid_uring(errors[i]);
			KVT_CHECK(kvtree_ring_open(self->kv, &opts, &ring) == 0);
			KVT_CHECK(kvtree_ring_uses_uring(ring) == 0);
			KVT_CHECK(kvtree_ring_put(ring, kvtree_str("key"), kvtree_slice(&i, 4), 0,
						  kvtree_as_event(NULL)) == 0);
			KVT_CHECK(outcome(ring).result == 0);
			kvtree_ring_close(ring);
			_exit(0);
		}
		ASSERT_EQ(0, kvt_wait(pid));
		EXPECT_TRUE(kvt_has(self->env.fd, STR("key"), kvt_bytes(&i, 4)));
	}
	EXPECT_EQ(0, counter(self->kv, KVTREE_STAT_URING));
}

/*
 * Operations that take their time: here by a page that is not there until the
 * test provides it.  Without io_uring the submission takes that time.
 */

FIXTURE(slow) {
	struct kvt_env env;
	struct kvtree *kv;
	struct kvtree_ring *ring;
	int uffd;
	char *page;
};

FIXTURE_VARIANT(slow) {
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(slow, inside) { .flags = 0 };
FIXTURE_VARIANT_ADD(slow, by_pointer) { .flags = KVTREE_RING_BY_POINTER };
FIXTURE_VARIANT_ADD(slow, sqpoll) { .flags = KVTREE_RING_SQPOLL };

FIXTURE_SETUP(slow)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	kvt_env_init(&self->env, "slow", 0, 0);
	self->kv = open_session(&self->env);
	self->ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	self->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	self->uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	ASSERT_LE(0, self->uffd);
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_API, &api));
	reg.range.start = kvt_ptr(self->page);
	reg.range.len = 4096;
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_REGISTER, &reg));
}

static void give_page(int uffd, void *page)
{
	struct uffdio_zeropage zero = { .range = { kvt_ptr(page), 4096 } };

	KVT_CHECK(ioctl(uffd, UFFDIO_ZEROPAGE, &zero) == 0);
}

FIXTURE_TEARDOWN(slow)
{
	kvtree_ring_close(self->ring);
	EXPECT_LT(0, counter(self->kv, KVTREE_STAT_URING));
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

TEST_F(slow, wait_ends_when_the_time_is_over)
{
	struct kvtree_event ev[2];
	uint64_t start;
	char buf[8];
	int err;

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_as_event(ev)));
	ASSERT_EQ(1, kvtree_ring_submit(self->ring));
	start = now_ms();
	EXPECT_EQ(-ETIME, kvtree_ring_wait(self->ring, ev, 2, 1, 30));
	EXPECT_LE(start + 30, now_ms());
	EXPECT_EQ(-ETIME, kvtree_ring_wait(self->ring, ev, 2, 1, 0));
	EXPECT_EQ(0, kvtree_ring_wait(self->ring, ev, 2, 0, -1));
	/* Others pass it; what has completed is returned when the time is over. */
	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("none"), buf, 8,
				     kvtree_as_event(NULL)));
	do {
		err = kvtree_ring_wait(self->ring, ev, 2, 2, 1000);
	} while (err == -ETIME);
	ASSERT_EQ(1, err);
	EXPECT_EQ(-ENOENT, ev[0].result);
	EXPECT_EQ(1, kvtree_ring_pending(self->ring));
	give_page(self->uffd, self->page);
	ASSERT_EQ(1, kvtree_ring_wait(self->ring, ev, 2, 1, -1));
	EXPECT_EQ(0, ev[0].result);
	EXPECT_EQ(&ev[0], ev[0].data);
}

TEST_F(slow, wait_ends_when_there_is_no_more_room)
{
	struct kvtree_event ev;
	char buf[8];

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_as_event(NULL)));
	ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("none"), buf, 8,
				     kvtree_as_event(NULL)));
	ASSERT_EQ(1, kvtree_ring_wait(self->ring, &ev, 1, 2, -1));
	EXPECT_EQ(-ENOENT, ev.result);
	give_page(self->uffd, self->page);
	EXPECT_EQ(0, outcome(self->ring).result);
}

static void on_alarm(int sig)
{
	(void)sig;
}

TEST_F(slow, signal_handler_ends_a_wait)
{
	struct itimerval it = { { 0, 20000 }, { 0, 20000 } }, none = {};
	static const int sa_flags[] = { 0, SA_RESTART };
	struct kvtree_event ev[2];
	char buf[8];
	int i, err;

	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_as_event(NULL)));
	for (i = 0; i < NR(sa_flags); i++) {
		struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = sa_flags[i] };

		ASSERT_EQ(0, sigaction(SIGALRM, &sa, NULL));
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &it, NULL));
		EXPECT_EQ(-EINTR, kvtree_ring_wait(self->ring, ev, 2, 1, -1));
		EXPECT_EQ(-EINTR, kvtree_ring_wait(self->ring, ev, 2, 1, 100000));
		/* Completions take precedence over the signal. */
		ASSERT_EQ(0, kvtree_ring_get(self->ring, kvtree_str("none"), buf, 8,
					     kvtree_as_event(NULL)));
		/* On a slow machine a signal may come before it has completed. */
		do {
			err = kvtree_ring_wait(self->ring, ev, 2, 2, -1);
		} while (err == -EINTR);
		EXPECT_EQ(1, err);
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &none, NULL));
	}
	give_page(self->uffd, self->page);
	EXPECT_EQ(0, outcome(self->ring).result);
}

TEST_F(slow, eventfd_is_signaled_by_what_completes_later)
{
	struct kvtree_event ev;
	int fd;

	fd = kvtree_ring_eventfd(self->ring);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_as_event(NULL)));
	ASSERT_EQ(1, kvtree_ring_submit(self->ring));
	ASSERT_EQ(0, kvtree_ring_wait(self->ring, &ev, 1, 0, 0));
	clear(fd);
	EXPECT_FALSE(readable(fd, 50));
	give_page(self->uffd, self->page);
	while (kvtree_ring_pending(self->ring)) {
		ASSERT_TRUE(readable(fd, 60000));
		clear(fd);
		ASSERT_LE(0, kvtree_ring_wait(self->ring, &ev, 1, 0, 0));
	}
	EXPECT_EQ(0, ev.result);
}

TEST_F(slow, cancel_does_not_stop_what_is_executed)
{
	ASSERT_EQ(0, kvtree_ring_put(self->ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_as_event(&self->page)));
	ASSERT_EQ(1, kvtree_ring_submit(self->ring));
	EXPECT_EQ(0, kvtree_ring_cancel(self->ring, &self->page));
	EXPECT_EQ(0, kvtree_ring_cancel(self->ring, NULL));
	EXPECT_EQ(1, kvtree_ring_pending(self->ring));
	give_page(self->uffd, self->page);
	EXPECT_EQ(0, outcome(self->ring).result);
	EXPECT_LT(0, kvt_version(self->env.fd, STR("key")));
}

struct giver {
	int uffd;
	void *page;
};

static void *give_later(void *arg)
{
	struct giver *g = arg;

	kvt_sleep_ms(100);
	give_page(g->uffd, g->page);
	return NULL;
}

TEST_F(slow, close_waits_for_what_is_executed)
{
	struct kvtree_ring *ring = open_ring(self->kv, variant->flags, 4, NULL, 0);
	struct giver giver = { self->uffd, self->page };
	unsigned int calls = 0;
	pthread_t thread;

	ASSERT_EQ(0, kvtree_ring_put(ring, kvtree_str("key"), kvtree_slice(self->page, 64), 0,
				     kvtree_callback(count_call, &calls)));
	ASSERT_EQ(1, kvtree_ring_submit(ring));
	ASSERT_EQ(0, pthread_create(&thread, NULL, give_later, &giver));
	kvtree_ring_close(ring);
	EXPECT_EQ(1, calls);
	EXPECT_LT(0, kvt_version(self->env.fd, STR("key")));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/*
 * Operations that wait: for memory to be freed, here, as a store allows only so
 * much of it to wait for that.
 */

#define BIG	100000

FIXTURE(bound) {
	struct kvt_env env;
	struct kvtree *kv;
	struct kvtree_ring *ring;
	char *val;
};

FIXTURE_VARIANT(bound) {
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(bound, inside) { .flags = 0 };
FIXTURE_VARIANT_ADD(bound, by_pointer) { .flags = KVTREE_RING_BY_POINTER };
FIXTURE_VARIANT_ADD(bound, sqpoll) { .flags = KVTREE_RING_SQPOLL };

FIXTURE_SETUP(bound)
{
	char old[16];

	kvt_set_bound("1", old, sizeof(old));
	kvt_env_init(&self->env, "bound", 0, 0);
	kvt_set_bound(old, NULL, 0);
	self->kv = open_session(&self->env);
	self->ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	self->val = calloc(1, BIG);
	ASSERT_NE(NULL, self->val);
}

FIXTURE_TEARDOWN(bound)
{
	kvtree_ring_close(self->ring);
	kvtree_close(self->kv);
	free(self->val);
	kvt_env_exit(&self->env);
}

/* How often something happened, and the greatest version that was made. */
struct tally {
	unsigned int canceled;
	unsigned int stored;
	uint64_t version;
};

static void tally(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	struct tally *t = event->data;

	(void)ring;
	if (event->result == -ECANCELED) {
		KVT_CHECK(event->version == 0);
		t->canceled++;
		return;
	}
	KVT_CHECK(event->result == 0);
	if (event->version > t->version)
		t->version = event->version;
	t->stored++;
}

static void put_many(struct kvtree_ring *ring, const char *val, struct tally *t, int nr)
{
	while (nr--)
		KVT_CHECK(kvtree_ring_put(ring, kvtree_str("key"), kvtree_slice(val, BIG), 0,
					  kvtree_callback(tally, t)) == 0);
	KVT_CHECK(kvtree_ring_submit(ring) > 0);
}

TEST_F(bound, what_waits_completes_in_the_end)
{
	struct tally t = {};
	time_t end = 0;
	int i = 0;

	do {
		put_many(self->ring, self->val, &t, DEPTH);
		ASSERT_EQ(0, finish(self->ring));
		ASSERT_EQ(++i * DEPTH, t.stored);
		ASSERT_EQ(t.version, kvt_version(self->env.fd, STR("key")));
	} while (!counter(self->kv, KVTREE_STAT_URING_WAIT) && kvt_try_again(&end));
	EXPECT_LT(0, counter(self->kv, KVTREE_STAT_URING_WAIT));
	EXPECT_EQ(0, counter(self->kv, KVTREE_STAT_URING_CANCEL));
}

TEST_F(bound, canceled_while_it_waits_changes_nothing)
{
	struct tally t = {}, other = {};
	unsigned int i = 0, canceled = 0;
	time_t end = 0;
	int n;

	do {
		put_many(self->ring, self->val, &t, DEPTH / 2);
		put_many(self->ring, self->val, &other, DEPTH / 2);
		n = kvtree_ring_cancel(self->ring, &t);
		ASSERT_LE(0, n);
		canceled += n;
		ASSERT_EQ(0, finish(self->ring));
		ASSERT_EQ(canceled, t.canceled);
		ASSERT_EQ(0, other.canceled);
	} while (++i < 10 || (canceled < 50 && kvt_try_again(&end)));
	EXPECT_LT(0, canceled);
	EXPECT_EQ(i * DEPTH, t.stored + other.stored + canceled);
	EXPECT_EQ(canceled, counter(self->kv, KVTREE_STAT_URING_CANCEL));
	/* Stored as often as was said. */
	EXPECT_EQ(t.stored + other.stored, counter(self->kv, KVTREE_STAT_PUT));
	TH_LOG("%u of %u canceled", canceled, i * DEPTH);
}

static void tally_swap(struct kvtree_ring *ring, const struct kvtree_event *event)
{
	struct tally *t = event->data;

	(void)ring;
	KVT_CHECK(event->result == -ECANCELED);
	/* Found, but never the one that was asked for. */
	KVT_CHECK(event->version < 1ull << 40);
	if (event->version)
		t->stored++;
	else
		t->canceled++;
}

TEST_F(bound, canceled_swap_has_not_found_a_version)
{
	struct tally t = {}, swaps = {};
	unsigned int i = 0, j, canceled = 0;
	time_t end = 0;
	int n;

	do {
		put_many(self->ring, self->val, &t, DEPTH / 2);
		for (j = 0; j < DEPTH / 2; j++) {
			ASSERT_EQ(0, kvtree_ring_cas(self->ring, kvtree_str("key"),
						     kvtree_slice(self->val, BIG), 0, 1ull << 40,
						     kvtree_callback(tally_swap, &swaps)));
		}
		ASSERT_EQ(DEPTH / 2, kvtree_ring_submit(self->ring));
		n = kvtree_ring_cancel(self->ring, &swaps);
		ASSERT_LE(0, n);
		canceled += n;
		ASSERT_EQ(0, finish(self->ring));
		ASSERT_EQ(canceled, swaps.canceled);
	} while (++i < 10 || (canceled < 20 && kvt_try_again(&end)));
	EXPECT_LT(0, canceled);
	EXPECT_EQ(i * DEPTH / 2, swaps.stored + swaps.canceled);
	EXPECT_EQ(i * DEPTH / 2, t.stored);
}

TEST_F(bound, close_cancels_what_waits)
{
	struct kvtree_ring *ring;
	struct tally t = {};
	time_t end = 0;
	int i = 0;

	do {
		ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
		put_many(ring, self->val, &t, DEPTH);
		kvtree_ring_close(ring);
		ASSERT_EQ(++i * DEPTH, t.stored + t.canceled);
	} while (i < 10 || (!t.canceled && kvt_try_again(&end)));
	EXPECT_LT(0, t.canceled);
	TH_LOG("%u of %u canceled", t.canceled, i * DEPTH);
}

/* Two rings of one session: the operations of the other one stay. */
TEST_F(bound, cancel_does_not_reach_another_ring)
{
	struct kvtree_ring *ring = open_ring(self->kv, variant->flags, DEPTH, NULL, 0);
	struct tally t = {}, other = {};
	int i = 0, n, canceled = 0;
	time_t end = 0;

	do {
		put_many(ring, self->val, &other, DEPTH / 2);
		put_many(self->ring, self->val, &t, DEPTH / 2);
		n = kvtree_ring_cancel(self->ring, NULL);
		ASSERT_LE(0, n);
		canceled += n;
		ASSERT_EQ(0, finish(self->ring));
		ASSERT_EQ(0, finish(ring));
	} while (++i < 10 || (!canceled && kvt_try_again(&end)));
	EXPECT_LT(0, canceled);
	EXPECT_EQ(canceled, t.canceled);
	EXPECT_EQ(0, other.canceled);
	kvtree_ring_close(ring);
}

TEST_HARNESS_MAIN
