// SPDX-License-Identifier: GPL-2.0
/*
 * Every kfunc in every type of program that may call it, and the rights that a call
 * for a store needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "call.h"
#include "bpf_kfuncs.skel.h"

#define RW	KVT_RW

/* How a program is made to run. */
enum how {
	HOW_TEST_RUN,
	HOW_TRACED_RUN,		/* the same, attached to a function that a test run calls */
	HOW_GETPGID,		/* attached; the test calls getpgid() */
	HOW_CLOCK,		/* attached to a software event */
};

struct type {
	const char *name;
	enum how how;
	bool changes;
};

static const struct type types[] = {
	{ "in_xdp", HOW_TEST_RUN, true },
	{ "in_tc", HOW_TEST_RUN, true },
	{ "in_action", HOW_TEST_RUN, true },
	{ "in_syscall", HOW_TEST_RUN, true },
	{ "in_cgroup", HOW_TEST_RUN, false },
	{ "in_fentry", HOW_TRACED_RUN, false },
	{ "in_fentry_sleepable", HOW_TRACED_RUN, false },
	{ "in_kprobe", HOW_GETPGID, false },
	{ "in_tracepoint", HOW_GETPGID, false },
	{ "in_lsm", HOW_GETPGID, false },
	{ "in_perf_event", HOW_CLOCK, false },
};

static struct bpf_kfuncs *skel;

FIXTURE(kfuncs) {
	struct kvt_bpf_env env;
	int other;		/* the map that is not bound to its store */
	struct call *call;
	const struct type *type;
	struct bpf_program *prog;
	struct bpf_link *link;
	int perf;
};

FIXTURE_VARIANT(kfuncs) {
	int type;
};

FIXTURE_VARIANT_ADD(kfuncs, xdp) { .type = 0 };
FIXTURE_VARIANT_ADD(kfuncs, tc) { .type = 1 };
FIXTURE_VARIANT_ADD(kfuncs, action) { .type = 2 };
FIXTURE_VARIANT_ADD(kfuncs, syscall) { .type = 3 };
FIXTURE_VARIANT_ADD(kfuncs, cgroup) { .type = 4 };
FIXTURE_VARIANT_ADD(kfuncs, fentry) { .type = 5 };
FIXTURE_VARIANT_ADD(kfuncs, fentry_sleepable) { .type = 6 };
FIXTURE_VARIANT_ADD(kfuncs, kprobe) { .type = 7 };
FIXTURE_VARIANT_ADD(kfuncs, tracepoint) { .type = 8 };
FIXTURE_VARIANT_ADD(kfuncs, lsm) { .type = 9 };
FIXTURE_VARIANT_ADD(kfuncs, perf_event) { .type = 10 };

/* An event of this CPU's clock, some thousand times a second. */
static int clock_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 100000,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

FIXTURE_SETUP(kfuncs)
{
	kvt_bpf_env_init(&self->env, "bpf-kfuncs", 0);
	self->type = &types[variant->type];
	self->perf = -1;
	self->prog = bpf_object__find_program_by_name(skel->obj, self->type->name);
	self->call = &skel->bss->call;
	kvt_bpf_env_bind(&self->env, skel->maps.rodata_to_read, KVTREE_OPEN_READ);
	kvt_bpf_env_bind(&self->env, skel->maps.rodata_to_write, KVTREE_OPEN_WRITE);
	kvt_bpf_env_bind(&self->env, skel->maps.rodata_to_both, RW);
	self->other = bpf_map__fd(skel->maps.rodata_to_other);
	if (self->type->how == HOW_GETPGID || self->type->how == HOW_TRACED_RUN) {
		self->link = bpf_program__attach(self->prog);
		ASSERT_NE(NULL, self->link) {
			TH_LOG("%s", kvt_bpf_log());
		}
	} else if (self->type->how == HOW_CLOCK) {
		self->perf = clock_event();
		ASSERT_LE(0, self->perf);
		self->link = bpf_program__attach_perf_event(self->prog, self->perf);
		ASSERT_NE(NULL, self->link);
	}
}

FIXTURE_TEARDOWN(kfuncs)
{
	bpf_link__destroy(self->link);
	kvt_bpf_env_exit(&self->env);
}

/*
 * Stay busy, so that a clock of this task's CPU time advances: for ten seconds of that time,
 * however long that takes on a busy CPU.
 */
static bool spin_until(const volatile __u32 *done, __u32 want)
{
	struct timespec now, start;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (*done != want && now.tv_sec < start.tv_sec + 10);
	return *done == want;
}

/* Those that have another key in its place when they return. */
static bool finds_key(int op)
{
	return op == CALL_CEIL || op == CALL_FLOOR || op == CALL_LPM;
}

/* Let the program make the call once.  Returns its result. */
static int make(struct __test_metadata *_metadata, struct _test_data_kfuncs *self, int op,
		struct kvt_bytes key, struct kvt_bytes val)
{
	struct call *call = self->call;
	__u32 want = call->done + 1;

	call->op = op;
	call->ret = 1000;
	call->key_size = key.len;
	if (!finds_key(op) && !call->req.end_len)
		call->req.key_len = key.len;
	call->val_size = val.len;
	memcpy(call->key, key.data, key.len);
	if (val.data)
		memcpy(call->val, val.data, val.len);
	call->pid = getpid();
	switch (self->type->how) {
	case HOW_TEST_RUN:
	case HOW_TRACED_RUN:
		EXPECT_EQ(0, kvt_bpf_run(bpf_program__fd(self->prog), 1));
		break;
	case HOW_GETPGID:
		EXPECT_LE(0, syscall(SYS_getpgid, getpid()));
		break;
	case HOW_CLOCK:
		EXPECT_TRUE(spin_until(&call->done, want));
		break;
	}
	call->pid = 0;
	EXPECT_EQ(want, call->done);
	return call->ret;
}

#define MAKE(op, key, val)	make(_metadata, self, op, key, val)
/* Room for a value of that many bytes. */
#define ROOM(n)			((struct kvt_bytes){ NULL, n })
/* Arguments of the next calls; a key without a length is as long as its room. */
#define ASK(which, ...)		\
	(self->call->map = (which), self->call->req = (struct bpf_kvt_req){ __VA_ARGS__ })

static bool posted(void *arg)
{
	struct kvt_bpf_env *env = arg;

	return kvt_has(env->env.fd, STR("later"), STR("on"));
}

TEST_F(kfuncs, every_lookup_finds_what_is_there)
{
	struct call *call = self->call;
	int fd = self->env.env.fd;
	__u64 version;

	ASSERT_EQ(0, kvt_put(fd, STR("b"), STR("beta"), &version));
	ASSERT_EQ(0, kvt_put(fd, STR("bcd"), STR("deep"), NULL));
	ASSERT_EQ(0, kvt_put(fd, STR("m"), STR("mu"), NULL));

	ASK(CALL_READ);
	EXPECT_EQ(4, MAKE(CALL_GET, STR("b"), ROOM(16)));
	EXPECT_EQ(0, memcmp(call->val, "beta", 4));
	EXPECT_EQ(version, call->req.version);
	EXPECT_EQ(-ENOENT, MAKE(CALL_GET, STR("c"), ROOM(16)));
	EXPECT_EQ(-EMSGSIZE, MAKE(CALL_GET, STR("b"), ROOM(3)));
	EXPECT_EQ(4, call->req.val_len);

	EXPECT_EQ(0, MAKE(CALL_EXISTS, STR("b"), ROOM(0)));
	EXPECT_EQ(-ENOENT, MAKE(CALL_EXISTS, STR("bc"), ROOM(0)));

	ASK(CALL_READ, .key_len = 1);
	EXPECT_EQ(2, MAKE(CALL_CEIL, STR("c\0\0\0"), ROOM(16)));
	EXPECT_EQ(1, call->req.key_len);
	EXPECT_EQ('m', call->key[0]);
	EXPECT_EQ(4, MAKE(CALL_FLOOR, STR("c\0\0\0"), ROOM(16)));
	EXPECT_EQ(3, call->req.key_len);
	EXPECT_EQ(0, memcmp(call->key, "bcd", 3));
	ASK(CALL_READ, .key_len = 4);
	EXPECT_EQ(4, MAKE(CALL_LPM, STR("bcx1"), ROOM(16)));
	EXPECT_EQ(1, call->req.key_len);
	EXPECT_EQ(0, memcmp(call->val, "beta", 4));
}

TEST_F(kfuncs, iterators_see_ranges_in_order)
{
	struct call *call = self->call;
	int fd = self->env.env.fd;

	ASSERT_EQ(0, kvt_put(fd, STR("b1"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(fd, STR("b2"), STR(""), NULL));
	ASSERT_EQ(0, kvt_put(fd, STR("c1"), STR(""), NULL));

	ASK(CALL_READ);
	EXPECT_EQ(3, MAKE(CALL_ITER, STR("a"), ROOM(0)));
	EXPECT_EQ(0, memcmp(call->val, "b1", 2));
	EXPECT_EQ(0, memcmp(call->val + 2 * CALL_SLOT, "c1", 2));
	ASK(CALL_READ, .flags = BPF_KVT_PREFIX | BPF_KVT_REVERSE);
	EXPECT_EQ(2, MAKE(CALL_ITER, STR("b"), ROOM(0)));
	EXPECT_EQ(0, memcmp(call->val, "b2", 2));
	ASK(CALL_READ, .flags = BPF_KVT_RANGE | BPF_KVT_AFTER, .key_len = 2,
	    .end_len = 2);
	EXPECT_EQ(1, MAKE(CALL_ITER, STR("b1c1"), ROOM(0)));
	EXPECT_EQ(0, memcmp(call->val, "b2", 2));
	ASK(CALL_READ, .flags = 1u << 31);
	EXPECT_EQ(-EINVAL, MAKE(CALL_ITER, STR("b"), ROOM(0)));
	ASK(CALL_OTHER);
	EXPECT_EQ(-ESTALE, MAKE(CALL_ITER, STR("b"), ROOM(0)));
}

TEST_F(kfuncs, posts_are_made_later)
{
	ASK(CALL_WRITE);
	EXPECT_EQ(0, MAKE(CALL_POST, STR("later"), STR("on")));
	EXPECT_TRUE(kvt_eventually(posted, &self->env));
	EXPECT_EQ(1, kvt_stat(self->env.env.fd, KVTREE_STAT_BPF_POST));
	ASK(CALL_READ);
	EXPECT_EQ(-EACCES, MAKE(CALL_POST, STR("later"), STR("on")));
}

TEST_F(kfuncs, changes_are_made_by_those_who_may)
{
	struct call *call = self->call;
	int fd = self->env.env.fd;
	__u64 version, n;

	/* A program of another type that tries is not loaded: see bpf_reject. */
	if (!self->type->changes)
		return;
	ASK(CALL_BOTH);
	EXPECT_EQ(0, MAKE(CALL_PUT, STR("k"), STR("one")));
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("one")));
	version = call->req.version;
	EXPECT_EQ(version, kvt_version(fd, STR("k")));
	ASK(CALL_BOTH, .version = version);
	EXPECT_EQ(0, MAKE(CALL_CAS, STR("k"), STR("two")));
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("two")));
	EXPECT_EQ(version + 1, call->req.version);
	ASK(CALL_BOTH, .version = version);
	EXPECT_EQ(-ECANCELED, MAKE(CALL_CAS, STR("k"), STR("three")));
	EXPECT_EQ(version + 1, call->req.version);
	ASK(CALL_BOTH, .arg = 3);
	EXPECT_EQ(0, MAKE(CALL_ADD, STR("n"), ROOM(0)));
	EXPECT_EQ(0, MAKE(CALL_ADD, STR("n"), ROOM(0)));
	EXPECT_EQ(3, call->req.arg);
	EXPECT_EQ(8, kvt_get(fd, STR("n"), &n, sizeof(n), NULL));
	EXPECT_EQ(3, n);
	EXPECT_EQ(0, MAKE(CALL_REMOVE, STR("k"), ROOM(0)));
	EXPECT_EQ(-ENOENT, MAKE(CALL_REMOVE, STR("k"), ROOM(0)));
	ASK(CALL_READ);
	EXPECT_EQ(-EACCES, MAKE(CALL_PUT, STR("k"), STR("x")));
}

TEST_F(kfuncs, wrong_sizes_are_refused)
{
	char big[CALL_KEY] = { 0 };

	ASK(CALL_BOTH, .key_len = 9);
	EXPECT_EQ(-EINVAL, MAKE(CALL_CEIL, kvt_bytes(big, 8), ROOM(8)));
	ASK(CALL_BOTH, .key_len = 600);
	EXPECT_EQ(-E2BIG, MAKE(CALL_LPM, kvt_bytes(big, sizeof(big)), ROOM(8)));
	ASK(CALL_BOTH, .flags = BPF_KVT_PREFIX);
	EXPECT_EQ(-E2BIG, MAKE(CALL_ITER, kvt_bytes(big, sizeof(big)), ROOM(0)));
	ASK(CALL_BOTH, .reserved = 1);
	EXPECT_EQ(-EINVAL, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASK(CALL_BOTH);
	EXPECT_EQ(-E2BIG, MAKE(CALL_POST, kvt_bytes(big, 513), ROOM(8)));
	if (self->type->changes)
		EXPECT_EQ(-E2BIG, MAKE(CALL_PUT, kvt_bytes(big, 513), ROOM(8)));
	EXPECT_EQ(0, kvt_stat(self->env.env.fd, KVTREE_STAT_KEYS));
}

TEST_F(kfuncs, a_map_leads_to_its_store_alone_and_only_while_it_is_bound)
{
	int dev = self->env.env.dev, other;

	kvt_destroy(dev, "bpf-kfuncs-other");
	ASSERT_EQ(0, kvt_create(dev, "bpf-kfuncs-other", 0600, 0, 0));
	other = kvt_store(dev, "bpf-kfuncs-other", RW);
	ASSERT_LE(0, other);
	EXPECT_EQ(-EPERM, kvt_bpf_bind(other, self->other, RW));
	ASSERT_EQ(0, kvt_bpf_access(other, true));
	ASSERT_EQ(0, kvt_put(other, STR("k"), STR("there"), NULL));
	ASK(CALL_OTHER);
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASSERT_EQ(0, kvt_bpf_bind(other, self->other, RW));
	EXPECT_EQ(5, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASK(CALL_READ);
	EXPECT_EQ(-ENOENT, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASK(CALL_OTHER);
	EXPECT_EQ(0, kvt_bpf_bind(other, self->other, 0));
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASSERT_EQ(0, kvt_bpf_bind(other, self->other, KVTREE_OPEN_WRITE));
	EXPECT_EQ(-EACCES, MAKE(CALL_GET, STR("k"), ROOM(8)));
	EXPECT_EQ(0, kvt_bpf_access(other, false));
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASSERT_EQ(0, kvt_bpf_access(other, true));
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	ASSERT_EQ(0, kvt_bpf_bind(other, self->other, RW));
	EXPECT_EQ(5, MAKE(CALL_GET, STR("k"), ROOM(8)));
	EXPECT_EQ(0, kvt_destroy(dev, "bpf-kfuncs-other"));
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	EXPECT_EQ(-ESTALE, MAKE(CALL_POST, STR("k"), ROOM(8)));
	EXPECT_EQ(-ESTALE, kvt_bpf_access(other, true));
	EXPECT_EQ(-ESTALE, kvt_bpf_bind(other, self->other, RW));
	/* One of the same name is another one. */
	ASSERT_EQ(0, kvt_create(dev, "bpf-kfuncs-other", 0600, 0, 0));
	EXPECT_EQ(-ESTALE, MAKE(CALL_GET, STR("k"), ROOM(8)));
	EXPECT_EQ(0, kvt_destroy(dev, "bpf-kfuncs-other"));
	close(other);
}

/*
 * Rights to give programs access to a store
 */
static int as_nobody(void *arg)
{
	int dev, fd, map = bpf_map__fd(skel->maps.rodata_to_other);
	const char *name = arg;

	kvt_drop(65534, 65534);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	fd = kvt_store(dev, name, KVTREE_OPEN_READ);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_bpf_access(fd, true) == -EPERM);
	KVT_CHECK(kvt_bpf_access(fd, false) == -EPERM);
	KVT_CHECK(kvt_bpf_bind(fd, map, KVTREE_OPEN_WRITE) == -EACCES);
	KVT_CHECK(kvt_bpf_bind(fd, map, RW) == -EACCES);
	KVT_CHECK(kvt_bpf_bind(fd, map, KVTREE_OPEN_READ) == 0);
	KVT_CHECK(kvt_bpf_bind(fd, map, 0) == 0);
	return 0;
}

static int as_owner(void *arg)
{
	int dev, fd, map = bpf_map__fd(skel->maps.rodata_to_other);
	const char *name = arg;

	kvt_drop(65534, 65534);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	fd = kvt_store(dev, name, RW);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_bpf_access(fd, true) == 0);
	KVT_CHECK(kvt_bpf_bind(fd, map, RW) == 0);
	return 0;
}

TEST(the_owner_alone_lets_programs_in)
{
	const char *name = "bpf-kfuncs-owner";
	struct kvtree_store_info info;
	int dev = kvt_open(), fd;

	ASSERT_LE(0, dev);
	EXPECT_NE(0, kvt_features(dev) & KVTREE_FEAT_BPF);
	kvt_destroy(dev, name);
	ASSERT_EQ(0, kvt_create_as(dev, name, 0644, 0, 0));
	fd = kvt_store(dev, name, RW);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(0, info.flags);
	ASSERT_EQ(0, kvt_bpf_access(fd, true));
	ASSERT_EQ(0, kvt_self(fd, &info));
	EXPECT_EQ(KVTREE_STORE_BPF, info.flags);
	EXPECT_EQ(0, kvt_run(as_nobody, (void *)name));
	close(fd);
	EXPECT_EQ(0, kvt_destroy(dev, name));
	ASSERT_EQ(0, kvt_create_as(dev, name, 0600, 65534, 65534));
	EXPECT_EQ(0, kvt_run(as_owner, (void *)name));
	EXPECT_EQ(0, kvt_destroy(dev, name));
	close(dev);
}

TEST(malformed_requests_are_refused)
{
	struct kvtree_store_create create = { .name = "bpf-kfuncs-flag", .mode = 0600 };
	struct kvtree_bpf_access access = { .allow = 2 };
	int dev = kvt_open(), fd, map = kvt_bpf_map();
	struct kvtree_bpf_bind bind = { .map_fd = map };

	ASSERT_LE(0, dev);
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_BPF_ACCESS, &access));
	access = (struct kvtree_bpf_access){ .flags = 1 };
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_BPF_ACCESS, &access));
	access = (struct kvtree_bpf_access){ .reserved[2] = 1 };
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_BPF_ACCESS, &access));
	bind.access = 4;
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_BPF_BIND, &bind));
	bind = (struct kvtree_bpf_bind){ .map_fd = map, .access = 1, .reserved[2] = 1 };
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_BPF_BIND, &bind));
	EXPECT_EQ(-EFAULT, kvt_ioctl(dev, KVTREE_IOC_BPF_BIND, NULL));
	EXPECT_EQ(-EFAULT, kvt_ioctl(dev, KVTREE_IOC_BPF_BINDING, NULL));

	/* A store can be born with it. */
	kvt_destroy(dev, create.name);
	create.flags = ~KVTREE_STORE_BPF;
	EXPECT_EQ(-EINVAL, kvt_ioctl(dev, KVTREE_IOC_STORE_CREATE, &create));
	create.flags = KVTREE_STORE_BPF;
	ASSERT_EQ(0, kvt_ioctl(dev, KVTREE_IOC_STORE_CREATE, &create));
	fd = kvt_store(dev, create.name, RW);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, kvt_bpf_bind(fd, map, RW));
	EXPECT_EQ(-EBUSY, kvt_bpf_bind(fd, map, RW));
	close(map);
	close(fd);
	EXPECT_EQ(0, kvt_destroy(dev, create.name));
	close(dev);
}

/*
 * Reading the kernel's types takes long: the programs are loaded once, for all tests,
 * which run in children.
 */
int main(int argc, char **argv)
{
	kvt_bpf_quiet();
	skel = bpf_kfuncs__open_and_load();
	if (!skel)
		fprintf(stderr, "%s", kvt_bpf_log());
	KVT_CHECK(skel);
	return test_harness_run(argc, argv);
}
