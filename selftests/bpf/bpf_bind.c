// SPDX-License-Identifier: GPL-2.0
/* Maps bound to stores: which maps can be, for how long, and which users may bind them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "bind.h"
#include "bpf_bind.skel.h"

#define RD	KVTREE_OPEN_READ

static struct bpf_bind *skel;

/* Two stores, each with its number under the key "k", and the programs' map. */
FIXTURE(bind) {
	struct kvt_bpf_env env[BIND_STORES];
	struct bind *b;
	int map;
};

FIXTURE_SETUP(bind)
{
	static const char *const names[BIND_STORES] = { "bpf-bind-0", "bpf-bind-1" };
	__u32 i;

	for (i = 0; i < BIND_STORES; i++) {
		kvt_bpf_env_init(&self->env[i], names[i], 0);
		ASSERT_EQ(0, kvt_put(self->env[i].env.fd, STR("k"), kvt_bytes(&i, sizeof(i)),
				     NULL));
	}
	self->b = &skel->bss->bind;
	memset(self->b, 0, sizeof(*self->b));
	self->map = bpf_map__fd(skel->maps.rodata_store);
}

FIXTURE_TEARDOWN(bind)
{
	unsigned int i;

	for (i = 0; i < BIND_STORES; i++)
		kvt_bpf_env_exit(&self->env[i]);
}

static int run_get(void)
{
	return kvt_bpf_run(bpf_program__fd(skel->progs.get), 1);
}

TEST_F(bind, a_copy_of_the_map_is_worth_nothing)
{
	ASSERT_EQ(0, kvt_bpf_bind(self->env[0].env.fd, self->map, RD));
	ASSERT_EQ(0, run_get());
	EXPECT_EQ(1, self->b->got[0]);
	ASSERT_EQ(0, kvt_bpf_run(bpf_program__fd(skel->progs.get_by_copy), 1));
	EXPECT_EQ(-ESTALE, self->b->by_copy);
	EXPECT_EQ(-ESTALE, self->b->by_part);
}

/* A program that sees another's call has its pointer, but not to call kvtree with. */
TEST(a_traced_call_gives_nothing_away)
{
	struct bpf_bind *thief = bpf_bind__open();
	struct bpf_program *prog;

	ASSERT_NE(NULL, thief);
	bpf_object__for_each_program(prog, thief->obj)
		bpf_program__set_autoload(prog, prog == thief->progs.steal);
	kvt_bpf_quiet();
	EXPECT_NE(0, bpf_bind__load(thief));
	EXPECT_NE(NULL, strstr(kvt_bpf_log(), "const string")) {
		TH_LOG("%s", kvt_bpf_log());
	}
	bpf_bind__destroy(thief);
}

static int map_of(enum bpf_map_type type, __u32 value, __u32 entries, __u64 flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);

	return bpf_map_create(type, "kvt_test", 4, value, entries, &opts);
}

TEST_F(bind, other_maps_are_refused)
{
	struct {
		int fd, err;
	} other[] = {
		{ map_of(BPF_MAP_TYPE_HASH, 8, 1, BPF_F_RDONLY_PROG), -EINVAL },
		{ map_of(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 1, BPF_F_RDONLY_PROG), -EINVAL },
		{ map_of(BPF_MAP_TYPE_ARRAY, 8, 2, BPF_F_RDONLY_PROG), -EINVAL },
		{ map_of(BPF_MAP_TYPE_ARRAY, 7, 1, BPF_F_RDONLY_PROG), -EINVAL },
		{ map_of(BPF_MAP_TYPE_ARRAY, KVTREE_BPF_MAP_MAX + 1, 1, BPF_F_RDONLY_PROG),
		  -EINVAL },
		{ map_of(BPF_MAP_TYPE_ARRAY, 8, 1, 0), -EINVAL },
		{ map_of(BPF_MAP_TYPE_ARRAY, 8, 1, BPF_F_RDONLY | BPF_F_RDONLY_PROG), -EACCES },
		{ dup(bpf_program__fd(skel->progs.get)), -EINVAL },
		{ dup(self->env[0].env.fd), -EINVAL },
	};
	int fd = self->env[0].env.fd, ok;
	unsigned int i;

	ok = map_of(BPF_MAP_TYPE_ARRAY, KVTREE_BPF_MAP_MAX, 1, BPF_F_RDONLY_PROG);
	for (i = 0; i < NR(other); i++) {
		ASSERT_LE(0, other[i].fd);
		EXPECT_EQ(other[i].err, kvt_bpf_bind(fd, other[i].fd, RD)) {
			TH_LOG("map %u", i);
		}
		close(other[i].fd);
	}
	EXPECT_EQ(-EBADF, kvt_bpf_bind(fd, -1, RD));
	EXPECT_EQ(0, kvt_bpf_bind(fd, ok, RD));
	close(ok);
}

/* A map's id is not enough: only root can open the map by it. */
static int bind_by_id(void *arg)
{
	struct kvt_bpf_env *env = arg;
	struct kvtree_bpf_binding binding = { 0 };
	struct bpf_get_fd_by_id_opts opts = { .sz = sizeof(opts), .open_flags = BPF_F_RDONLY };
	int fd;

	KVT_CHECK(kvt_bpf_binding(env->env.fd, &binding) == 0);
	fd = bpf_map_get_fd_by_id_opts(binding.map_id, &opts);
	KVT_CHECK(fd >= 0);
	/* A read-only file of the map is not enough to bind it. */
	KVT_CHECK(kvt_bpf_bind(env->env.fd, fd, 0) == -EACCES);
	KVT_CHECK(kvt_bpf_bind(env->env.fd, binding.map_id, 0) < 0);
	kvt_drop(65534, 65534);
	KVT_CHECK(bpf_map_get_fd_by_id(binding.map_id) == -EPERM);
	return 0;
}

TEST_F(bind, a_maps_id_is_no_right_to_it)
{
	ASSERT_EQ(0, kvt_bpf_bind(self->env[0].env.fd, self->map, RD));
	EXPECT_EQ(0, kvt_run(bind_by_id, &self->env[0]));
	ASSERT_EQ(0, run_get());
	EXPECT_EQ(1, self->b->got[0]);
}

TEST_F(bind, a_map_is_bound_to_one_store_at_a_time)
{
	int fd = self->env[0].env.fd, other = self->env[1].env.fd;
	struct kvtree_bpf_binding binding = { 0 };

	EXPECT_EQ(-ENOENT, kvt_bpf_bind(fd, self->map, 0));
	ASSERT_EQ(0, kvt_bpf_bind(fd, self->map, RD));
	EXPECT_EQ(-EBUSY, kvt_bpf_bind(fd, self->map, KVT_RW));
	EXPECT_EQ(-EBUSY, kvt_bpf_bind(other, self->map, RD));
	EXPECT_EQ(-ENOENT, kvt_bpf_bind(other, self->map, 0));
	ASSERT_EQ(0, kvt_bpf_binding(fd, &binding));
	EXPECT_EQ(kvt_bpf_map_id(self->map), binding.map_id);
	EXPECT_EQ(RD, binding.access);
	EXPECT_STREQ(".rodata.store", binding.name);
	EXPECT_EQ(-ENOENT, kvt_bpf_binding(fd, &binding));
	binding.map_id = 0;
	EXPECT_EQ(-ENOENT, kvt_bpf_binding(other, &binding));
	ASSERT_EQ(0, kvt_bpf_bind(fd, self->map, 0));
	ASSERT_EQ(0, kvt_bpf_bind(other, self->map, RD));
	ASSERT_EQ(0, run_get());
	EXPECT_EQ(0, self->b->got[0]);
	EXPECT_EQ(1, self->b->got[1]);
}

static bool map_is_gone(void *arg)
{
	int fd = bpf_map_get_fd_by_id(*(__u32 *)arg);

	if (fd >= 0)
		close(fd);
	return fd == -ENOENT;
}

static bool nothing_is_bound(void *arg)
{
	struct kvtree_bpf_binding binding = { 0 };

	return kvt_bpf_binding(*(int *)arg, &binding) == -ENOENT;
}

/* A binding does not keep its map, and then no longer counts. */
TEST_F(bind, a_binding_ends_with_the_last_reference_to_its_map)
{
	int fd = self->env[0].env.fd, map = kvt_bpf_map(), outer, key = 0;
	struct kvtree_bpf_binding binding = { 0 };
	struct bpf_map_create_opts opts = { .sz = sizeof(opts), .inner_map_fd = map };
	__u32 id = kvt_bpf_map_id(map);

	ASSERT_EQ(0, kvt_bpf_bind(fd, map, RD));
	/* Another map has it. */
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "kvt_outer", 4, 4, 1, &opts);
	ASSERT_LE(0, outer);
	ASSERT_EQ(0, bpf_map_update_elem(outer, &key, &map, 0));
	close(map);
	EXPECT_EQ(0, kvt_bpf_binding(fd, &binding));
	EXPECT_EQ(id, binding.map_id);
	ASSERT_EQ(0, bpf_map_delete_elem(outer, &key));
	EXPECT_TRUE(kvt_eventually(nothing_is_bound, &fd));
	EXPECT_TRUE(kvt_eventually(map_is_gone, &id));
	close(outer);
}

static void allow_files(unsigned int nr)
{
	const struct rlimit files = { nr, nr };

	KVT_CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
}

TEST_F(bind, bindings_have_a_maximum)
{
	int fd = self->env[0].env.fd, map[KVTREE_BPF_BINDINGS_MAX + 1];
	unsigned int i;

	allow_files(2 * KVTREE_BPF_BINDINGS_MAX);
	for (i = 0; i < KVTREE_BPF_BINDINGS_MAX; i++) {
		map[i] = kvt_bpf_map();
		ASSERT_EQ(0, kvt_bpf_bind(fd, map[i], RD));
	}
	map[i] = kvt_bpf_map();
	EXPECT_EQ(-ENOSPC, kvt_bpf_bind(fd, map[i], RD));
	/* Another store has its own room. */
	EXPECT_EQ(0, kvt_bpf_bind(self->env[1].env.fd, map[i], RD));
	EXPECT_EQ(0, kvt_bpf_bind(self->env[1].env.fd, map[i], 0));
	close(map[0]);
	EXPECT_EQ(0, kvt_bpf_bind(fd, map[i], RD));
	while (i)
		close(map[i--]);
}

/* A user that binds as many maps as possible, from maps[first] on, with a session of root. */
struct user {
	uid_t uid;
	int fd;
	const int *maps;
	unsigned int first;
	unsigned int *bound;
};

static int bind_as_user(void *arg)
{
	struct user *user = arg;
	unsigned int i = user->first;
	int err;

	kvt_drop(user->uid, user->uid);
	do {
		err = kvt_bpf_bind(user->fd, user->maps[i], RD);
	} while (!err && ++i < KVTREE_BPF_BINDINGS_MAX);
	KVT_CHECK(err == -ENOSPC);
	*user->bound = i - user->first;
	return 0;
}

TEST_F(bind, users_leave_room_to_others_and_the_owner_decides)
{
	const unsigned int max = KVTREE_BPF_BINDINGS_MAX;
	unsigned int *bound = mmap(NULL, sizeof(*bound), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int map[KVTREE_BPF_BINDINGS_MAX + 1], fd = self->env[0].env.fd;
	struct user user = { .uid = 54321, .fd = fd, .maps = map, .bound = bound };
	unsigned int i;

	ASSERT_NE(MAP_FAILED, bound);
	allow_files(2 * max);
	for (i = 0; i <= max; i++)
		map[i] = kvt_bpf_map();
	EXPECT_EQ(0, kvt_run(bind_as_user, &user));
	EXPECT_EQ(max / 2, *bound);
	user.uid++;
	user.first = max / 2;
	EXPECT_EQ(0, kvt_run(bind_as_user, &user));
	EXPECT_EQ(max / 4, *bound);
	/* The owner may have all the rest. */
	for (i = max / 2 + max / 4; i < max; i++)
		EXPECT_EQ(0, kvt_bpf_bind(fd, map[i], RD));
	EXPECT_EQ(-ENOSPC, kvt_bpf_bind(fd, map[max], RD));
	/* ... and ends what others have bound. */
	EXPECT_EQ(-ENOENT, kvt_bpf_unbind_id(fd, kvt_bpf_map_id(map[max])));
	EXPECT_EQ(-ENOENT, kvt_bpf_unbind_id(self->env[1].env.fd, kvt_bpf_map_id(map[0])));
	EXPECT_EQ(0, kvt_bpf_unbind_id(fd, kvt_bpf_map_id(map[0])));
	EXPECT_EQ(0, kvt_bpf_bind(fd, map[max], RD));
	for (i = 0; i <= max; i++)
		close(map[i]);
	munmap(bound, sizeof(*bound));
}

/* Programs run all the time. */
static void *run_all_the_time(void *arg)
{
	bool *stop = arg;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
		KVT_CHECK(kvt_bpf_run(bpf_program__fd(skel->progs.get), 1000) == 0);
	return NULL;
}

/* A number that programs count, and what it was. */
struct counted {
	const __u64 *now;
	__u64 before;
};

static bool has_grown(void *arg)
{
	struct counted *counted = arg;

	return __atomic_load_n(counted->now, __ATOMIC_RELAXED) > counted->before;
}

static bool grows(const __u64 *n)
{
	struct counted counted = { n, __atomic_load_n(n, __ATOMIC_RELAXED) };

	return kvt_eventually(has_grown, &counted);
}

TEST_F(bind, programs_see_the_store_that_is_bound_or_none)
{
	static const char *const names[BIND_STORES] = { "bpf-bind-0", "bpf-bind-1" };
	bool stop = false;
	pthread_t thread;
	unsigned int i;
	__u32 n;

	ASSERT_EQ(0, pthread_create(&thread, NULL, run_all_the_time, &stop));
	for (i = 0; i < 60; i++) {
		struct kvt_bpf_env *env = &self->env[i % BIND_STORES];

		n = i % BIND_STORES;
		EXPECT_EQ(0, kvt_bpf_bind(env->env.fd, self->map, RD));
		EXPECT_TRUE(grows(&self->b->got[n]));
		switch (i % 3) {
		case 0:
			EXPECT_EQ(0, kvt_bpf_bind(env->env.fd, self->map, 0));
			break;
		case 1:
			EXPECT_EQ(0, kvt_bpf_access(env->env.fd, false));
			EXPECT_EQ(0, kvt_bpf_access(env->env.fd, true));
			break;
		default:
			/* The store goes with all that is in it. */
			kvt_bpf_env_exit(env);
			kvt_bpf_env_init(env, names[n], 0);
			EXPECT_EQ(0, kvt_put(env->env.fd, STR("k"), kvt_bytes(&n, sizeof(n)),
					     NULL));
		}
	}
	EXPECT_TRUE(grows(&self->b->stale));
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TH_LOG("%llu from one, %llu from the other, %llu from none", self->b->got[0],
	       self->b->got[1], self->b->stale);
	EXPECT_EQ(0, self->b->wrong);
	/* The map is no longer bound to the store that was destroyed meanwhile. */
	memset(self->b, 0, sizeof(*self->b));
	ASSERT_EQ(0, run_get());
	EXPECT_EQ(1, self->b->stale);
}

int main(int argc, char **argv)
{
	kvt_bpf_quiet();
	skel = bpf_bind__open_and_load();
	if (!skel)
		fprintf(stderr, "%s", kvt_bpf_log());
	KVT_CHECK(skel);
	return test_harness_run(argc, argv);
}
