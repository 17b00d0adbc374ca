// SPDX-License-Identifier: GPL-2.0
/*
 * Permissions: owner, group and mode guard a store as they guard a file, only the
 * administrator of the initial user namespace creates and destroys stores, and the
 * rights of a session are fixed when it is opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define RD	KVTREE_OPEN_READ
#define WR	KVTREE_OPEN_WRITE
#define RW	(RD | WR)

/* Users and groups that nothing on the machine belongs to. */
#define OWNER	54321
#define GROUP	54322
#define NOBODY	65534

#define set_mode(value)	(&(struct kvtree_store_set){ .set = KVTREE_SET_MODE, .mode = (value) })

FIXTURE(perms) {
	int dev;
	char name[KVTREE_NAME_MAX];
};

FIXTURE_SETUP(perms)
{
	if (getuid())
		SKIP(return, "needs root");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "perms-%d", getpid());
	/* Children become other users and must still reach the device. */
	ASSERT_EQ(0, prctl(PR_SET_DUMPABLE, 1));
}

FIXTURE_TEARDOWN(perms)
{
	kvt_destroy(self->dev, self->name);
	close(self->dev);
}

/* Can a session read and write?  RD, WR, both or none; never half. */
static unsigned int can(int fd)
{
	struct kvtree_scan scan = {};
	struct kvt_list list = {};
	unsigned int granted = 0;
	char buf[64];
	int ret;

	ret = kvt_get(fd, STR("no such key"), buf, sizeof(buf), NULL);
	KVT_CHECK(ret == -ENOENT || ret == -EACCES);
	if (ret == -ENOENT)
		granted |= RD;
	ret = kvt_scan_once(fd, STR("no such key"), &scan, 256, &list, NULL);
	KVT_CHECK(ret == (granted & RD ? 0 : -EACCES));

	ret = kvt_remove(fd, STR("no such key"));
	KVT_CHECK(ret == -ENOENT || ret == -EACCES);
	if (ret == -ENOENT)
		granted |= WR;
	ret = kvt_put_flags(fd, STR("no such key"), STR("v"), KVTREE_F_REPLACE);
	KVT_CHECK(ret == (granted & WR ? -ENOENT : -EACCES));
	return granted;
}

/* A user that opens a store.  The answer: which of RD and WR are granted. */
struct opener {
	__u32 uid;
	__u32 gid;
	__u32 extra;		/* a supplementary group, 0 for none */
	const char *name;
	unsigned int want;
};

static int open_as(void *arg)
{
	const struct opener *user = arg;
	gid_t extra = user->extra;
	unsigned int got = 0, want;
	int dev, fd;

	KVT_CHECK(setgroups(extra ? 1 : 0, &extra) == 0);
	KVT_CHECK(setresgid(user->gid, user->gid, user->gid) == 0);
	KVT_CHECK(setresuid(user->uid, user->uid, user->uid) == 0);
	/* The device opens for everybody. */
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	for (want = RD; want <= RW; want++) {
		fd = kvt_store(dev, user->name, want);
		KVT_CHECK(fd >= 0 || fd == -EACCES);
		if (fd < 0)
			continue;
		/* Exactly what was asked for is granted. */
		KVT_CHECK(can(fd) == want);
		close(fd);
		got |= want;
		KVT_CHECK(want != RW || got == RW);
	}
	return got << 4 | 8;
}

static unsigned int allowed(const char *name, __u32 uid, __u32 gid, __u32 extra)
{
	struct opener user = { .uid = uid, .gid = gid, .extra = extra, .name = name };
	int status = kvt_run(open_as, &user);

	/* Any other bit pattern is a failed check. */
	KVT_CHECK((status & ~0x30) == 8);
	return status >> 4;
}

TEST_F(perms, mode_bits_decide_as_for_a_file)
{
	static const __u32 modes[] = {
		0600, 0640, 0644, 0660, 0666, 0000, 0400, 0200, 0066, 0606, 0604, 0462,
	};
	size_t i;

	for (i = 0; i < NR(modes); i++) {
		/* Of the three letters of a mode 4 is read and 2 is write. */
		static const unsigned int access[8] = { 0, 0, WR, WR, RD, RD, RW, RW };
		unsigned int user = access[modes[i] >> 6 & 7];
		unsigned int group = access[modes[i] >> 3 & 7];
		unsigned int other = access[modes[i] & 7];

		ASSERT_EQ(0, kvt_create_as(self->dev, self->name, modes[i], OWNER, GROUP));
		EXPECT_EQ(user, allowed(self->name, OWNER, NOBODY, 0)) {
			TH_LOG("owner of mode %o", modes[i]);
		}
		/* The owner's bits count alone, even in the group. */
		EXPECT_EQ(user, allowed(self->name, OWNER, GROUP, 0)) {
			TH_LOG("owner in the group, mode %o", modes[i]);
		}
		EXPECT_EQ(group, allowed(self->name, NOBODY, GROUP, 0)) {
			TH_LOG("group of mode %o", modes[i]);
		}
		EXPECT_EQ(group, allowed(self->name, NOBODY, NOBODY, GROUP)) {
			TH_LOG("supplementary group, mode %o", modes[i]);
		}
		EXPECT_EQ(other, allowed(self->name, NOBODY, NOBODY, 0)) {
			TH_LOG("others, mode %o", modes[i]);
		}
		/* Root passes through all of them. */
		EXPECT_EQ(RW, allowed(self->name, 0, 0, 0)) {
			TH_LOG("root, mode %o", modes[i]);
		}
		ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	}
}

static int default_as_nobody(void *arg)
{
	struct kvtree_op sync = kvt_op(KVTREE_OP_SYNC, kvt_bytes(NULL, 0));
	struct kvtree_bpf_bind bind = { .map_fd = -1, .access = RD };
	struct kvtree_bpf_binding binding = {};
	struct kvtree_bpf_unbind unbind = { .map_id = 1 };
	struct kvtree_bpf_access allow = { .allow = 1 };
	struct kvtree_engine_stat counter = {};
	struct kvtree_bpf_hook hook = {};
	__u64 stats[KVTREE_STAT_NR];
	struct kvtree_info info;
	int dev;

	(void)arg;
	kvt_drop(NOBODY, NOBODY);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(can(dev) == 0);
	KVT_CHECK(kvt_store(dev, "default", RD) == -EACCES);
	KVT_CHECK(kvt_store(dev, "default", WR) == -EACCES);
	KVT_CHECK(kvt_stats(dev, stats) == -EACCES);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_ENGINE_STAT, &counter) == -EACCES);
	KVT_CHECK(kvt_exec(dev, &sync) == -EACCES);
	KVT_CHECK(fsync(dev) == -1 && errno == EACCES);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_HOOK, &hook) == -EACCES);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_BINDING, &binding) == -EACCES);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_BIND, &bind) == -EACCES);
	bind.access = 0;
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_BIND, &bind) == -EACCES);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_UNBIND, &unbind) == -EPERM);
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_ACCESS, &allow) == -EPERM);
	allow.allow = 0;
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_BPF_ACCESS, &allow) == -EPERM);
	/* What concerns no store is for everybody. */
	KVT_CHECK(kvt_ioctl(dev, KVTREE_IOC_INFO, &info) == 0);
	return 0;
}

TEST_F(perms, default_store_is_for_root_alone)
{
	EXPECT_EQ(RW, can(self->dev));
	EXPECT_EQ(0, kvt_run(default_as_nobody, NULL));
}

TEST_F(perms, device_opened_to_read_does_not_write)
{
	int rd = open(KVT_DEV, O_RDONLY | O_CLOEXEC);
	int wr = open(KVT_DEV, O_WRONLY | O_CLOEXEC);

	ASSERT_LE(0, rd);
	ASSERT_LE(0, wr);
	EXPECT_EQ(RD, can(rd));
	EXPECT_EQ(WR, can(wr));
	close(rd);
	close(wr);
}

static int admin_as_nobody(void *arg)
{
	const char *name = arg;
	int dev;

	kvt_drop(NOBODY, NOBODY);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(kvt_create_as(dev, "not-mine", 0666, NOBODY, NOBODY) == -EPERM);
	/* Nor does it reveal whether a store exists. */
	KVT_CHECK(kvt_create_as(dev, name, 0666, NOBODY, NOBODY) == -EPERM);
	KVT_CHECK(kvt_destroy(dev, name) == -EPERM);
	KVT_CHECK(kvt_destroy(dev, "absent") == -EPERM);
	KVT_CHECK(kvt_destroy(dev, "default") == -EPERM);
	return 0;
}

TEST_F(perms, creating_and_destroying_is_for_the_administrator)
{
	struct kvtree_store_info info;

	/* Not even for the owner. */
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0666, NOBODY, NOBODY));
	EXPECT_EQ(0, kvt_run(admin_as_nobody, self->name));
	EXPECT_EQ(0, kvt_find(self->dev, self->name, &info));
}

/* Leave only one capability. */
static void keep_capability(int cap, __u32 uid)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	KVT_CHECK(setgroups(0, NULL) == 0);
	KVT_CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
	KVT_CHECK(setresgid(uid, uid, uid) == 0);
	KVT_CHECK(setresuid(uid, uid, uid) == 0);
	if (cap >= 0) {
		data[cap / 32].permitted = 1u << cap % 32;
		data[cap / 32].effective = 1u << cap % 32;
	}
	KVT_CHECK(syscall(SYS_capset, &head, data) == 0);
}

struct cap {
	const char *name;
	int cap;
	unsigned int want;
};

static int with_capability(void *arg)
{
	const struct cap *cap = arg;
	unsigned int got = 0, want;
	int dev, fd;

	keep_capability(cap->cap, NOBODY);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	for (want = RD; want <= RW; want++) {
		fd = kvt_store(dev, cap->name, want);
		KVT_CHECK(fd >= 0 || fd == -EACCES);
		if (fd < 0)
			continue;
		KVT_CHECK(can(fd) == want);
		got |= want;
		close(fd);
	}
	KVT_CHECK(got == cap->want);
	return 0;
}

static int admin_capability(void *arg)
{
	const char *name = arg;
	int dev;

	keep_capability(CAP_SYS_ADMIN, NOBODY);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	/* It makes and destroys stores, but does not look into them. */
	KVT_CHECK(kvt_create_as(dev, name, 0600, 0, 0) == 0);
	KVT_CHECK(kvt_store(dev, name, RD) == -EACCES);
	KVT_CHECK(kvt_destroy(dev, name) == 0);
	return 0;
}

TEST_F(perms, capabilities_give_what_they_give_for_files)
{
	struct cap cap = { .name = self->name };

	EXPECT_EQ(0, kvt_run(admin_capability, self->name));
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	cap.cap = -1;
	cap.want = 0;
	EXPECT_EQ(0, kvt_run(with_capability, &cap));
	cap.cap = CAP_DAC_OVERRIDE;
	cap.want = RW;
	EXPECT_EQ(0, kvt_run(with_capability, &cap));
	cap.cap = CAP_DAC_READ_SEARCH;
	cap.want = RD;
	EXPECT_EQ(0, kvt_run(with_capability, &cap));
	cap.cap = CAP_SYS_ADMIN;
	cap.want = 0;
	EXPECT_EQ(0, kvt_run(with_capability, &cap));
}

TEST_F(perms, session_has_the_access_that_it_asked_for)
{
	struct kvtree_store_info info;
	struct kvtree_engine_stat counter = {};
	__u64 stats[KVTREE_STAT_NR];
	struct kvtree_op ops[3];
	__u32 done;
	char buf[8];
	int rd, wr;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	rd = kvt_store(self->dev, self->name, RD);
	wr = kvt_store(self->dev, self->name, WR);
	ASSERT_LE(0, rd);
	ASSERT_LE(0, wr);
	EXPECT_EQ(RD, can(rd));
	EXPECT_EQ(WR, can(wr));
	ASSERT_EQ(0, kvt_put(wr, STR("k"), STR("v"), NULL));
	EXPECT_EQ(1, kvt_get(rd, STR("k"), buf, sizeof(buf), NULL));
	EXPECT_EQ(-EACCES, kvt_put(rd, STR("k"), STR("w"), NULL));
	EXPECT_EQ(-EACCES, kvt_remove(rd, STR("k")));
	EXPECT_EQ(-EACCES, kvt_add(rd, STR("n"), 0, 1, NULL));
	EXPECT_EQ(0, kvt_version(rd, STR("n")));
	EXPECT_EQ(-EACCES, kvt_get(wr, STR("k"), buf, sizeof(buf), NULL));
	/* An add returns the old value. */
	EXPECT_EQ(-EACCES, kvt_add(wr, STR("n"), 0, 1, NULL));
	EXPECT_EQ(0, kvt_version(rd, STR("n")));

	/* In a batch the one is refused and the others are not. */
	ops[0] = kvt_op(KVTREE_OP_GET, STR("k"));
	ops[0].val = kvt_ptr(buf);
	ops[0].val_len = sizeof(buf);
	ops[1] = kvt_op(KVTREE_OP_REMOVE, STR("k"));
	ops[2] = ops[0];
	ASSERT_EQ(0, kvt_batch(rd, ops, 3, &done));
	EXPECT_EQ(3, done);
	EXPECT_EQ(1, ops[0].result);
	EXPECT_EQ(-EACCES, ops[1].result);
	EXPECT_EQ(1, ops[2].result);

	EXPECT_EQ(0, kvt_self(rd, &info));
	EXPECT_EQ(0, kvt_stats(rd, stats));
	/* Either access lets counters be read, of which the engine has none. */
	EXPECT_EQ(-ENOENT, kvt_ioctl(rd, KVTREE_IOC_ENGINE_STAT, &counter));
	EXPECT_EQ(-ENOENT, kvt_ioctl(wr, KVTREE_IOC_ENGINE_STAT, &counter));
	close(rd);
	close(wr);
}

TEST_F(perms, sync_needs_a_session_that_may_write)
{
	struct kvtree_op sync = kvt_op(KVTREE_OP_SYNC, kvt_bytes(NULL, 0));
	int rd, wr;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	rd = kvt_store(self->dev, self->name, RD);
	wr = kvt_store(self->dev, self->name, WR);
	ASSERT_LE(0, rd);
	ASSERT_LE(0, wr);
	EXPECT_EQ(-EACCES, kvt_exec(rd, &sync));
	EXPECT_EQ(-1, fsync(rd));
	EXPECT_EQ(EACCES, errno);
	/* The store is volatile. */
	EXPECT_EQ(-EOPNOTSUPP, kvt_exec(wr, &sync));
	EXPECT_EQ(-1, fsync(wr));
	EXPECT_EQ(EINVAL, errno);
	close(rd);
	close(wr);
}

/* Without a map, but the access is looked at first. */
TEST_F(perms, maps_are_bound_for_the_access_that_the_session_has)
{
	static const unsigned int access[] = { RD, WR, RW };
	struct kvtree_bpf_bind args = { .map_fd = -1 };
	int fd;
	size_t i;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	for (i = 0; i < NR(access); i++) {
		fd = kvt_store(self->dev, self->name, access[i]);
		ASSERT_LE(0, fd);
		for (args.access = RD; args.access <= RW; args.access++)
			EXPECT_EQ(args.access & ~access[i] ? -EACCES : -EBADF,
				  kvt_ioctl(fd, KVTREE_IOC_BPF_BIND, &args));
		close(fd);
	}
}

static int unbind_as_user(void *arg)
{
	struct kvtree_bpf_unbind args = { .map_id = 1 };
	int fd = *(int *)arg;

	kvt_drop(NOBODY, NOBODY);
	return -kvt_ioctl(fd, KVTREE_IOC_BPF_UNBIND, &args);
}

/* No map is bound; only the owner learns that, others do not, whatever their rights. */
TEST_F(perms, the_owner_alone_ends_what_others_have_bound)
{
	int fd;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0666, 0, 0));
	fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, fd);
	EXPECT_EQ(EPERM, kvt_run(unbind_as_user, &fd));
	close(fd);
	ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0, NOBODY, 0));
	fd = kvt_store(self->dev, self->name, RD);
	ASSERT_LE(0, fd);
	EXPECT_EQ(ENOENT, kvt_run(unbind_as_user, &fd));
	close(fd);
}

/* CAS and conditional forms must not reveal to a writer what it may not read. */
TEST_F(perms, session_that_only_writes_learns_no_values)
{
	char secret[8];
	struct kvtree_op op;
	int wr;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	wr = kvt_store(self->dev, self->name, WR);
	ASSERT_LE(0, wr);
	memset(secret, 0x77, sizeof(secret));
	ASSERT_EQ(0, kvt_put(wr, STR("k"), kvt_bytes(secret, 8), NULL));
	op = kvt_op(KVTREE_OP_ADD, STR("k"));
	op.arg = 0;
	EXPECT_EQ(-EACCES, kvt_exec(wr, &op));
	EXPECT_EQ(0, op.arg);
	close(wr);
}

struct session {
	int fd;
	const char *name;
};

static int session_after_setuid(void *arg)
{
	const struct session *s = arg;
	char buf[8];
	int dev;

	kvt_drop(NOBODY, NOBODY);
	/* It was opened by root, so its rights stay. */
	KVT_CHECK(can(s->fd) == RW);
	KVT_CHECK(kvt_get(s->fd, STR("k"), buf, sizeof(buf), NULL) == 1);
	/* A new one is another matter. */
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(kvt_store(dev, s->name, RD) == -EACCES);
	KVT_CHECK(kvt_store(s->fd, s->name, RD) == -EACCES);
	return 0;
}

TEST_F(perms, access_stays_what_it_was_at_open)
{
	struct session s = { .name = self->name };

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	s.fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, s.fd);
	ASSERT_EQ(0, kvt_put(s.fd, STR("k"), STR("v"), NULL));
	EXPECT_EQ(0, kvt_run(session_after_setuid, &s));
	close(s.fd);
}

static int open_then_become_root(void *arg)
{
	const char *name = arg;
	int dev, fd;

	(void)name;
	KVT_CHECK(seteuid(NOBODY) == 0);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(seteuid(0) == 0);
	/* A file opened with few rights keeps few, whatever the rights of its present user. */
	KVT_CHECK(can(dev) == 0);
	/* Whether a store may be opened depends on the present caller. */
	fd = kvt_store(dev, name, RW);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(can(fd) == RW);
	return 0;
}

TEST_F(perms, access_does_not_grow_with_its_user)
{
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	EXPECT_EQ(0, kvt_run(open_then_become_root, self->name));
}

TEST_F(perms, new_mode_and_owner_are_for_those_who_open_the_store_later)
{
	const struct kvtree_store_set owner = {
		.set = KVTREE_SET_UID | KVTREE_SET_GID, .uid = NOBODY, .gid = GROUP,
	};
	int fd;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, OWNER, OWNER));
	fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, fd);
	EXPECT_EQ(RW, allowed(self->name, OWNER, GROUP, 0));
	ASSERT_EQ(0, kvt_set(self->dev, self->name, set_mode(0240)));
	EXPECT_EQ(WR, allowed(self->name, OWNER, GROUP, 0));
	EXPECT_EQ(0, allowed(self->name, NOBODY, GROUP, 0));
	ASSERT_EQ(0, kvt_set(self->dev, self->name, &owner));
	EXPECT_EQ(WR, allowed(self->name, NOBODY, NOBODY, 0));
	EXPECT_EQ(RD, allowed(self->name, OWNER, GROUP, 0));
	EXPECT_EQ(RW, can(fd));
	ASSERT_EQ(0, kvt_set(self->dev, self->name, set_mode(0)));
	EXPECT_EQ(0, allowed(self->name, NOBODY, NOBODY, 0));
	EXPECT_EQ(RW, can(fd));
	close(fd);
}

struct setter {
	const char *name;
	__u32 uid;
	bool owns;
};

static int set_as(void *arg)
{
	static const struct kvtree_store_set others[] = {
		{ .set = KVTREE_SET_UID, .uid = OWNER },
		{ .set = KVTREE_SET_GID, .gid = OWNER },
		{ .set = KVTREE_SET_LIMIT_BYTES },
		{ .set = KVTREE_SET_LIMIT_KEYS },
		{ .set = KVTREE_SET_MODE | KVTREE_SET_LIMIT_KEYS, .mode = 0666 },
	};
	const struct setter *setter = arg;
	unsigned int i;
	int dev;

	kvt_drop(setter->uid, setter->uid);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	for (i = 0; i < NR(others); i++)
		KVT_CHECK(kvt_set(dev, setter->name, &others[i]) == -EPERM);
	KVT_CHECK(kvt_set(dev, setter->name, set_mode(0604)) == (setter->owns ? 0 : -EPERM));
	return 0;
}

TEST_F(perms, owner_sets_the_mode_and_nobody_else_anything)
{
	struct setter setter = { .name = self->name, .uid = NOBODY };
	struct kvtree_store_info info;

	/* Without any access, the owner still owns it. */
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0, OWNER, GROUP));
	EXPECT_EQ(0, kvt_run(set_as, &setter));
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(0, info.mode);
	setter.uid = OWNER;
	setter.owns = true;
	EXPECT_EQ(0, kvt_run(set_as, &setter));
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(0604, info.mode);
	EXPECT_EQ(OWNER, info.uid);
	EXPECT_EQ(GROUP, info.gid);
}

/* Owner and mode are read consistently. */
static int open_again_and_again(void *arg)
{
	const struct setter *setter = arg;
	int dev, i, fd;

	kvt_drop(setter->uid, setter->uid);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	for (i = 0; i < 20000; i++) {
		fd = kvt_store(dev, setter->name, RD);
		KVT_CHECK(fd == -EACCES);
	}
	return 0;
}

TEST_F(perms, mode_is_never_that_of_another_owner)
{
	const struct kvtree_store_set sets[] = {
		/* Neither lets OWNER read. */
		{ .set = KVTREE_SET_UID | KVTREE_SET_MODE, .uid = OWNER, .mode = 0200 },
		{ .set = KVTREE_SET_UID | KVTREE_SET_MODE, .uid = NOBODY, .mode = 0600 },
	};
	struct setter setter = { .name = self->name, .uid = OWNER };
	struct kvt_process child = {};
	unsigned int i;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, NOBODY, NOBODY));
	child.pid = kvt_fork(open_again_and_again, &setter);
	for (i = 0; !kvt_has_ended(&child); i++)
		ASSERT_EQ(0, kvt_set(self->dev, self->name, &sets[i % 2]));
	EXPECT_EQ(0, child.status);
}

static int receive_and_use(void *arg)
{
	int fd;

	kvt_drop(NOBODY, NOBODY);
	fd = kvt_receive_fd(*(int *)arg);
	KVT_CHECK(can(fd) == RD);
	KVT_CHECK(kvt_has(fd, STR("k"), STR("v")));
	KVT_CHECK(kvt_put(fd, STR("k"), STR("w"), NULL) == -EACCES);
	return 0;
}

TEST_F(perms, passed_descriptor_carries_its_access_to_another_user)
{
	int sock[2], rw, rd, pid;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	rw = kvt_store(self->dev, self->name, RW);
	rd = kvt_store(self->dev, self->name, RD);
	ASSERT_LE(0, rw);
	ASSERT_LE(0, rd);
	ASSERT_EQ(0, kvt_put(rw, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = kvt_fork(receive_and_use, &sock[1]);
	kvt_send_fd(sock[0], rd);
	close(rd);
	EXPECT_EQ(0, kvt_wait(pid));
	EXPECT_TRUE(kvt_has(rw, STR("k"), STR("v")));
	close(rw);
}

TEST_F(perms, list_and_self_show_no_more_than_names_and_numbers)
{
	struct kvtree_store_info info;

	/* LIST shows the same to all users: it is not a secret. */
	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, OWNER, GROUP));
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(OWNER, info.uid);
	EXPECT_EQ(GROUP, info.gid);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

/* Root of its own user namespace, which maps to nobody outside. */
static int root_of_a_namespace(void *arg)
{
	const char *name = arg;
	char map[64];
	int dev;

	kvt_drop(NOBODY, NOBODY);
	KVT_CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	if (unshare(CLONE_NEWUSER))
		return KSFT_SKIP;
	if (!write_file("/proc/self/setgroups", "deny"))
		return KSFT_SKIP;
	snprintf(map, sizeof(map), "0 %d 1", NOBODY);
	if (!write_file("/proc/self/uid_map", map) || !write_file("/proc/self/gid_map", map))
		return KSFT_SKIP;
	KVT_CHECK(setresuid(0, 0, 0) == 0);
	KVT_CHECK(getuid() == 0);

	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(can(dev) == 0);
	KVT_CHECK(kvt_create_as(dev, "not-mine", 0600, 0, 0) == -EPERM);
	KVT_CHECK(kvt_destroy(dev, name) == -EPERM);
	KVT_CHECK(kvt_set(dev, name, set_mode(0666)) == -EPERM);
	/* Its CAP_DAC_OVERRIDE holds for nothing outside, its user id does not either. */
	KVT_CHECK(kvt_store(dev, name, RD) == -EACCES);
	KVT_CHECK(kvt_store(dev, "default", RD) == -EACCES);
	return 0;
}

TEST_F(perms, root_of_a_user_namespace_is_an_ordinary_user)
{
	int status;

	ASSERT_EQ(0, kvt_create_as(self->dev, self->name, 0600, 0, 0));
	status = kvt_run(root_of_a_namespace, self->name);
	if (status == KSFT_SKIP)
		SKIP(return, "no user namespaces");
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
