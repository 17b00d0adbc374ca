// SPDX-License-Identifier: GPL-2.0
/*
 * Bindings: how programs find them, how many of them users may make, and what happens to
 * posts when one ends.
 */
#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/preempt.h>

#include "bpf/bpf.h"
#include "bpf_call.h"
#include "core/binding.h"
#include "core/binding_table.h"
#include "core/hook.h"
#include "core/store.h"
#include "core/stores.h"
#include "lib.h"
#include "thread.h"

#define STORE	"kunit-binding"
#define OTHER	"kunit-binding-other"

#define CAN_READ	KVTREE_OPEN_READ
#define CAN_WRITE	KVTREE_OPEN_WRITE

#define CALL_OF(map, ...)	((struct call) { .store = (map), ##__VA_ARGS__ })

static struct kvt_store *store_make(struct kunit *test, const char *name)
{
	struct kvtree_store_create args = { };
	struct kvt_store *store;

	strscpy(args.name, name, sizeof(args.name));
	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	store = kvt_store_find(name);
	KUNIT_ASSERT_FALSE(test, IS_ERR(store));
	KUNIT_ASSERT_EQ(test, 0, kvt_bpf_prepare());
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(store));
	return store;
}

static void store_end(struct kvt_store *store)
{
	kvt_store_destroy(store->name);
	kvt_store_put(store);
}

/* For cases that stop early. */
static void binding_exit(struct kunit *test)
{
	kvt_store_destroy(OTHER);
	kvt_store_destroy(STORE);
}

static bool is_found(const void *addr, const struct kvt_store *store)
{
	const struct kvt_binding *binding;
	bool found;

	rcu_read_lock();
	binding = kvt_binding_table_find(addr);
	found = binding && binding->addr == addr && binding->store == store;
	rcu_read_unlock();
	return found;
}

#define MANY	KVTREE_BPF_BINDINGS_MAX

/* Bind and unbind many maps at random. */
static void each_bound_map_is_found_and_no_other(struct kunit *test)
{
	struct kvt_store *store = store_make(test, STORE);
	struct kt_rnd rnd = kt_rnd(test);
	struct call_map *maps = kvcalloc(MANY, sizeof(*maps), GFP_KERNEL);
	unsigned int i, n, wrong = 0;
	bool *bound = kunit_kcalloc(test, MANY, sizeof(*bound), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, maps);
	KUNIT_ASSERT_NOT_NULL(test, bound);
	for (n = 0; n < 20000 && !wrong; n++) {
		/* Use few maps at first, then all, then few again. */
		i = kt_rnd_below(&rnd, n < 5000 || n > 15000 ? 20 : MANY);
		maps[i].map.id = i + 1;
		if (bound[i])
			wrong += !!kvt_unbind(store, i + 1);
		else
			wrong += !!call_bind(&maps[i], store, CAN_READ);
		bound[i] = !bound[i];
		wrong += is_found(&maps[i].value, store) != bound[i];
		i = kt_rnd_below(&rnd, MANY);
		wrong += is_found(&maps[i].value, store) != bound[i];
	}
	for (i = 0; i < MANY; i++)
		wrong += is_found(&maps[i].value, store) != bound[i];
	KUNIT_EXPECT_EQ(test, 0, wrong);
	store_end(store);
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_FALSE(test, is_found(&maps[i].value, store));
	kvfree(maps);
}

#define CHOSEN		512
/* With half of the slots empty, a handful is normal. */
#define CHOSEN_STEPS	100

/* Choose addresses that a publicly known hash puts into one bucket. */
static void chosen_addresses_do_not_slow_others(struct kunit *test)
{
	struct kvt_store *store = store_make(test, STORE);
	struct kt_rnd rnd = kt_rnd(test);
	struct call_map *maps = kvcalloc(CHOSEN, sizeof(*maps), GFP_KERNEL);
	u64 *chosen = kunit_kcalloc(test, CHOSEN, sizeof(*chosen), GFP_KERNEL);
	unsigned int i, most = 0;

	KUNIT_ASSERT_NOT_NULL(test, maps);
	KUNIT_ASSERT_NOT_NULL(test, chosen);
	for (i = 0; i < CHOSEN; i++) {
		do {
			chosen[i] = kt_rnd_u64(&rnd) & ~7ull;
		} while (hash_64(chosen[i], 11));
		atomic64_set(&maps[i].map.refcnt, 2);
		maps[i].map.id = i + 1;
		KUNIT_ASSERT_EQ(test, 0, kvt_bind(store, &maps[i].map, (void *)chosen[i],
						  CAN_READ));
	}
	rcu_read_lock();
	for (i = 0; i < CHOSEN; i++)
		most = max(most, kvt_binding_table_steps((void *)chosen[i]));
	rcu_read_unlock();
	kunit_info(test, "at most %u slots are looked at", most);
	KUNIT_EXPECT_LT(test, most, CHOSEN_STEPS);
	store_end(store);
	kvfree(maps);
}

/* A user other than the owner binds as many maps as possible. */
struct other_user {
	struct kvt_store *store;
	kuid_t uid;
	struct call_map *maps;
	unsigned int nr;	/* of bound maps, of all users */
};

static int user_bind(void *arg)
{
	struct other_user *user = arg;
	struct cred *cred = prepare_creds();
	int err = -ENOMEM;

	if (!cred)
		return err;
	cred->fsuid = user->uid;
	cap_clear(cred->cap_effective);
	commit_creds(cred);
	while (user->nr < MANY) {
		err = call_bind(&user->maps[user->nr], user->store, CAN_READ);
		if (err)
			break;
		user->nr++;
	}
	return err;
}

#define USERS	12	/* the last ones find no room */

static void users_leave_room_to_the_owner_however_many_they_are(struct kunit *test)
{
	struct kvt_store *store = store_make(test, STORE);
	struct call_map *maps = kvcalloc(MANY + 1, sizeof(*maps), GFP_KERNEL);
	struct other_user user = { .store = store, .maps = maps };
	unsigned int i, before, left;
	struct kt_thread thread;

	KUNIT_ASSERT_NOT_NULL(test, maps);
	for (i = 0; i <= MANY; i++)
		maps[i].map.id = i + 1;
	for (i = 0; i < USERS; i++) {
		before = user.nr;
		left = MANY - before;
		user.uid = KUIDT_INIT(54321 + i);
		KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&thread, 0, user_bind, &user));
		kt_thread_start(&thread);
		KUNIT_EXPECT_EQ(test, -ENOSPC, kt_thread_join(&thread));
		KUNIT_EXPECT_EQ(test, left / 2, user.nr - before);
	}
	KUNIT_EXPECT_EQ(test, MANY - 1, user.nr);
	for (i = user.nr; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, 0, call_bind(&maps[i], store, CAN_READ));
	KUNIT_EXPECT_EQ(test, -ENOSPC, call_bind(&maps[MANY], store, CAN_READ));
	store_end(store);
	kvfree(maps);
}

/* The other store's validator holds the ring's worker until hold.go. */
static struct {
	bool held;
	bool go;
} hold;

static int hold_worker(struct bpf_kvt_record *rec)
{
	WRITE_ONCE(hold.held, true);
	kt_await(READ_ONCE(hold.go));
	return 1;
}

static struct call_map to_write, to_read, to_hold;

static void bind_to_read(struct kunit *test, struct kvt_store *store)
{
	to_read.map.id = 2;
	KUNIT_ASSERT_EQ(test, 0, call_bind(&to_read, store, CAN_READ));
}

/* Call @end while a post for the store is in the ring.  Returns whether the post was executed. */
static bool is_made(struct kunit *test, struct kvt_store *store,
		    void (*end)(struct kvt_store *store))
{
	struct kvt_hook_args args = {
		.kind = KVTREE_HOOK_VALIDATOR, .name = "hold", .store = OTHER,
		.call = hold_worker,
	};
	struct kvt_store *other = store_make(test, OTHER);
	struct call call;
	u32 owner;
	bool made;
	u8 val;

	args.owner = &owner;
	memset(&hold, 0, sizeof(hold));
	to_write.map.id = 1;
	KUNIT_ASSERT_EQ(test, 0, kvt_hook_attach(&args));
	KUNIT_ASSERT_EQ(test, 0, call_bind(&to_hold, other, CAN_WRITE));
	KUNIT_ASSERT_EQ(test, 0, call_bind(&to_write, store, CAN_WRITE));
	bind_to_read(test, store);
	/* Both are in one ring.  Its worker is on another CPU. */
	preempt_disable();
	call = CALL_OF(&to_hold.value);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "k", 1, "x", 1));
	kt_await(READ_ONCE(hold.held));
	call = CALL_OF(&to_write.value);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "k", 1, "x", 1));
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, hold.held);
	end(store);
	call = CALL_OF(&to_write.value);
	KUNIT_EXPECT_EQ(test, -ESTALE, call_post(&call, "k", 1, "x", 1));
	WRITE_ONCE(hold.go, true);
	kvt_posts_flush();
	if (!is_found(&to_read.value, store)) {
		KUNIT_EXPECT_EQ(test, 0, kvt_bindings_allow(store));
		bind_to_read(test, store);
	}
	call = CALL_OF(&to_read.value);
	made = call_get(&call, "k", 1, &val, 1) == 1;
	kvt_hook_detach(&owner);
	store_end(other);
	return made;
}

static void unbind(struct kvt_store *store)
{
	kvt_unbind(store, to_write.map.id);
}

/* Make a store and call @end while a post waits: @made says if the post is to be executed. */
static struct kvt_store *post_over(struct kunit *test, void (*end)(struct kvt_store *store),
				   bool made)
{
	struct kvt_store *store = store_make(test, STORE);

	KUNIT_EXPECT_EQ(test, made, is_made(test, store, end));
	KUNIT_EXPECT_EQ(test, 1, kvt_store_stat(store, KVTREE_STAT_BPF_POST));
	KUNIT_EXPECT_EQ(test, !made, kvt_store_stat(store, KVTREE_STAT_BPF_POST_FAIL));
	return store;
}

static void a_post_is_made_though_its_binding_has_ended(struct kunit *test)
{
	store_end(post_over(test, unbind, true));
}

static void a_post_that_the_owner_forbids_is_counted(struct kunit *test)
{
	store_end(post_over(test, kvt_bindings_forbid, false));
}

static void forbid_and_allow(struct kvt_store *store)
{
	kvt_bindings_forbid(store);
	kvt_bindings_allow(store);
}

static void a_post_of_before_is_not_made_when_programs_are_allowed_again(struct kunit *test)
{
	struct kvt_store *store = post_over(test, forbid_and_allow, false);
	struct call call;
	u8 val;

	/* Maps bound since then can post. */
	KUNIT_EXPECT_EQ(test, 0, call_bind(&to_write, store, CAN_WRITE));
	call = CALL_OF(&to_write.value);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "k", 1, "x", 1));
	kvt_posts_flush();
	call = CALL_OF(&to_read.value);
	KUNIT_EXPECT_EQ(test, 1, call_get(&call, "k", 1, &val, 1));
	KUNIT_EXPECT_EQ(test, 1, kvt_store_stat(store, KVTREE_STAT_BPF_POST_FAIL));
	store_end(store);
}

static struct kunit_case binding_cases[] = {
	KUNIT_CASE(each_bound_map_is_found_and_no_other),
	KUNIT_CASE(chosen_addresses_do_not_slow_others),
	KUNIT_CASE(users_leave_room_to_the_owner_however_many_they_are),
	KUNIT_CASE(a_post_is_made_though_its_binding_has_ended),
	KUNIT_CASE(a_post_that_the_owner_forbids_is_counted),
	KUNIT_CASE(a_post_of_before_is_not_made_when_programs_are_allowed_again),
	{}
};

static struct kunit_suite binding_suite = {
	.name = "kvt_binding",
	.exit = binding_exit,
	.test_cases = binding_cases,
};

kunit_test_suite(binding_suite);
