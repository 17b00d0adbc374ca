// SPDX-License-Identifier: GPL-2.0
/*
 * The kfuncs, called from C: this also tests them on kernels that cannot run BPF
 * programs.
 */
#include <linux/bpf.h>
#include <linux/delay.h>
#include <linux/filter.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/unaligned.h>

#include "api/run.h"
#include "base/waiter.h"
#include "bpf/bpf.h"
#include "bpf/cursor.h"
#include "bpf_call.h"
#include "core/binding.h"
#include "core/hook.h"
#include "core/store.h"
#include "core/stores.h"
#include "core/write.h"
#include "lib.h"
#include "thread.h"

#define STORE	"kunit-bpf"
#define OTHER	"kunit-bpf-other"

#define CAN_READ	KVTREE_OPEN_READ
#define CAN_WRITE	KVTREE_OPEN_WRITE

struct env {
	struct kvt_store *store;
	struct bpf_kvt_store *read, *write, *both;
};

/* Indexed by what their bindings allow; the last is for another store. */
static struct call_map maps[KVTREE_OPEN_READ + KVTREE_OPEN_WRITE + 1];
#define MAP_OTHER	maps[KVTREE_OPEN_READ + KVTREE_OPEN_WRITE]

static struct bpf_kvt_store *env_bind(struct kunit *test, struct kvt_store *store,
				      unsigned int access)
{
	struct call_map *m = &maps[access - 1];

	m->map.id = access;
	KUNIT_ASSERT_EQ(test, 0, call_bind(m, store, access));
	return &m->value;
}

static struct env env_open(struct kunit *test)
{
	const struct kvtree_store_create args = { .name = STORE };
	struct env env = { };

	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	env.store = kvt_store_find(STORE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(env.store));
	KUNIT_ASSERT_EQ(test, 0, kvt_bpf_prepare());
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(env.store));
	env.read = env_bind(test, env.store, CAN_READ);
	env.write = env_bind(test, env.store, CAN_WRITE);
	env.both = env_bind(test, env.store, CAN_READ | CAN_WRITE);
	return env;
}

static void env_close(struct env *env)
{
	kvt_store_destroy(STORE);
	kvt_store_put(env->store);
}

/* For cases that stop early. */
static void bpf_exit(struct kunit *test)
{
	struct kvt_store *store = kvt_store_find(STORE);

	WRITE_ONCE(kvt_park_hook, NULL);
	kvt_store_destroy(OTHER);
	if (IS_ERR(store))
		return;
	kvt_store_destroy(STORE);
	kvt_store_put(store);
}

static u64 stat(const struct env *env, enum kvtree_stat id)
{
	return kvt_stats_read(&env->store->stats, id);
}

#define CALL_OF(map, ...)	((struct call) { .store = (map), ##__VA_ARGS__ })

/* Keys and values that are string literals. */
#define GET(call, key, val)	call_get(call, key, sizeof(key) - 1, val, sizeof(val))
#define PUT(call, key, val)	call_put(call, key, sizeof(key) - 1, val, sizeof(val) - 1)

static void what_is_put_is_got_with_its_version(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	u64 version;
	char val[8];

	KUNIT_EXPECT_EQ(test, -ENOENT, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, -ENOENT, call_exists(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "a", "one"));
	version = call.version;
	KUNIT_EXPECT_NE(test, 0, version);
	call.version = 0;
	KUNIT_EXPECT_EQ(test, 3, GET(&call, "a", val));
	KUNIT_EXPECT_MEMEQ(test, val, "one", 3);
	KUNIT_EXPECT_EQ(test, version, call.version);
	KUNIT_EXPECT_EQ(test, 3, call.val_len);
	call.version = 0;
	KUNIT_EXPECT_EQ(test, 0, call_exists(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, version, call.version);
	/* Empty keys and empty values are valid. */
	KUNIT_EXPECT_EQ(test, 0, call_put(&call, "", 0, "", 0));
	KUNIT_EXPECT_EQ(test, 0, call_get(&call, "", 0, val, sizeof(val)));
	KUNIT_EXPECT_EQ(test, 7, stat(&env, KVTREE_STAT_BPF));
	KUNIT_EXPECT_EQ(test, 5, stat(&env, KVTREE_STAT_GET));
	KUNIT_EXPECT_EQ(test, 2, stat(&env, KVTREE_STAT_GET_MISS));
	env_close(&env);
}

static void what_does_not_fit_is_measured_and_not_copied(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	char val[4] = "....", key[4] = "....";

	KUNIT_ASSERT_EQ(test, 0, PUT(&call, "key-6b", "value"));
	call.version = 0;
	KUNIT_EXPECT_EQ(test, -EMSGSIZE, GET(&call, "key-6b", val));
	KUNIT_EXPECT_EQ(test, 5, call.val_len);
	KUNIT_EXPECT_NE(test, 0, call.version);
	KUNIT_EXPECT_EQ(test, -EMSGSIZE, call_ceil(&call, key, sizeof(key), val, 0));
	KUNIT_EXPECT_EQ(test, 6, call.key_len);
	KUNIT_EXPECT_EQ(test, 5, call.val_len);
	KUNIT_EXPECT_MEMEQ(test, val, "....", 4);
	KUNIT_EXPECT_MEMEQ(test, key, "....", 4);
	env_close(&env);
}

static void columns_are_read_and_written_one_by_one_or_all(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	struct bpf_kvt_col *desc;
	u8 *big, *val;

	big = kunit_kmalloc(test, 5000, GFP_KERNEL);
	val = kunit_kzalloc(test, 6000, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, big);
	KUNIT_ASSERT_NOT_NULL(test, val);
	memset(big, 'b', 5000);
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "k", "zero"));
	/* So long that it gets a block of its own. */
	call.flags = BPF_KVT_COL;
	call.col = 7;
	KUNIT_EXPECT_EQ(test, 0, call_put(&call, "k", 1, big, 5000));
	call.flags = 0;
	KUNIT_EXPECT_EQ(test, 5000, call_get(&call, "k", 1, val, 6000));
	KUNIT_EXPECT_MEMEQ(test, val, big, 5000);
	call.col = 3;
	KUNIT_EXPECT_EQ(test, 0, call_get(&call, "k", 1, val, 6000));
	KUNIT_EXPECT_EQ(test, BPF_KVT_ABSENT, call.val_len);
	call.col = 0;
	call.flags = BPF_KVT_ALL_COLS;
	KUNIT_EXPECT_EQ(test, -EMSGSIZE, call_get(&call, "k", 1, val, 5019));
	KUNIT_EXPECT_EQ(test, 5020, call.val_len);
	KUNIT_EXPECT_EQ(test, 5020, call_get(&call, "k", 1, val, 5020));
	KUNIT_EXPECT_EQ(test, 2, call.ncols);
	desc = (struct bpf_kvt_col *)val;
	KUNIT_EXPECT_EQ(test, 0, desc[0].id);
	KUNIT_EXPECT_EQ(test, 4, desc[0].len);
	KUNIT_EXPECT_EQ(test, 7, desc[1].id);
	KUNIT_EXPECT_EQ(test, 5000, desc[1].len);
	KUNIT_EXPECT_MEMEQ(test, val + 16, "zero", 4);
	KUNIT_EXPECT_MEMEQ(test, val + 20, big, 5000);
	env_close(&env);
}

static void changes_hold_to_their_conditions(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	u64 version;
	__le64 n;

	call.flags = BPF_KVT_REPLACE;
	KUNIT_EXPECT_EQ(test, -ENOENT, PUT(&call, "a", "x"));
	call.flags = BPF_KVT_CREATE;
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "a", "x"));
	KUNIT_EXPECT_EQ(test, -EEXIST, PUT(&call, "a", "x"));
	version = call.version;
	call.flags = 0;
	call.version = version + 1;
	KUNIT_EXPECT_EQ(test, -ECANCELED, call_cas(&call, "a", 1, "y", 1));
	KUNIT_EXPECT_EQ(test, version, call.version);
	KUNIT_EXPECT_EQ(test, 0, call_cas(&call, "a", 1, "y", 1));
	KUNIT_EXPECT_GT(test, call.version, version);
	version = call.version;
	call.flags = BPF_KVT_VERSION;
	call.version = version - 1;
	KUNIT_EXPECT_EQ(test, -ECANCELED, call_remove(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, version, call.version);
	KUNIT_EXPECT_EQ(test, 0, call_remove(&call, "a", 1));
	call.flags = 0;
	KUNIT_EXPECT_EQ(test, -ENOENT, call_remove(&call, "a", 1));
	call.version = 0;
	KUNIT_EXPECT_EQ(test, 0, call_cas(&call, "a", 1, "z", 1));
	KUNIT_EXPECT_GT(test, call.version, version);

	call.arg = 5;
	KUNIT_EXPECT_EQ(test, -EINVAL, call_add(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, 0, call_add(&call, "n", 1));
	KUNIT_EXPECT_EQ(test, 0, call.arg);
	call.arg = -2;
	KUNIT_EXPECT_EQ(test, 0, call_add(&call, "n", 1));
	KUNIT_EXPECT_EQ(test, 5, call.arg);
	KUNIT_EXPECT_EQ(test, 8, call_get(&call, "n", 1, &n, sizeof(n)));
	KUNIT_EXPECT_EQ(test, 3, le64_to_cpu(n));
	env_close(&env);
}

static void malformed_calls_are_refused(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call, good = CALL_OF(env.both);
	u8 *buf = kunit_kzalloc(test, BPF_KVT_VALUE_MAX + 1, GFP_KERNEL);
	unsigned int bit;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (bit = 0; bit < 32; bit++) {
		call = CALL_OF(env.both, .flags = 1u << bit);
		if (call.flags != BPF_KVT_ALL_COLS)
			KUNIT_EXPECT_EQ(test, -EINVAL, call_get(&call, buf, 1, buf, 1));
		KUNIT_EXPECT_EQ(test, -EINVAL, call_exists(&call, buf, 1));
		call.key_len = 1;
		if (call.flags != BPF_KVT_ALL_COLS)
			KUNIT_EXPECT_EQ(test, -EINVAL, call_lpm(&call, buf, 1, buf, 1));
		if (call.flags != BPF_KVT_VERSION && call.flags != BPF_KVT_SYNC)
			KUNIT_EXPECT_EQ(test, -EINVAL, call_remove(&call, buf, 1));
	}
	call = CALL_OF(env.both, .reserved = 1);
	KUNIT_EXPECT_EQ(test, -EINVAL, call_get(&call, buf, 1, buf, 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, call_put(&call, buf, 1, buf, 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, call_post(&call, buf, 1, buf, 1));
	call = CALL_OF(env.both, .col = 256);
	KUNIT_EXPECT_EQ(test, -EINVAL, call_get(&call, buf, 1, buf, 1));
	call = CALL_OF(env.both, .col = 1);
	KUNIT_EXPECT_EQ(test, -EINVAL, call_put(&call, buf, 1, buf, 1));
	call = CALL_OF(env.both, .flags = BPF_KVT_CREATE | BPF_KVT_REPLACE);
	KUNIT_EXPECT_EQ(test, -EINVAL, call_put(&call, buf, 1, buf, 1));
	call = CALL_OF(env.both, .flags = BPF_KVT_SYNC);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, call_put(&call, buf, 1, buf, 1));
	call = CALL_OF(env.both, .flags = BPF_KVT_POST_ADD | BPF_KVT_POST_REMOVE);
	KUNIT_EXPECT_EQ(test, -EINVAL, call_post(&call, buf, 1, buf, 0));

	call = good;
	KUNIT_EXPECT_EQ(test, -E2BIG, call_get(&call, buf, KVTREE_KEY_MAX + 1, buf, 1));
	KUNIT_EXPECT_EQ(test, -E2BIG, call_put(&call, buf, BPF_KVT_KEY_MAX + 1, buf, 1));
	KUNIT_EXPECT_EQ(test, -E2BIG, call_put(&call, buf, 1, buf, BPF_KVT_VALUE_MAX + 1));
	KUNIT_EXPECT_EQ(test, -E2BIG, call_post(&call, buf, 1, buf, BPF_KVT_POST_MAX + 1));
	KUNIT_EXPECT_EQ(test, -E2BIG, call_post(&call, buf, BPF_KVT_KEY_MAX + 1, buf, 1));
	call.key_len = 2;
	KUNIT_EXPECT_EQ(test, -EINVAL, call_ceil(&call, buf, 1, buf, 1));
	call.key_len = KVTREE_KEY_MAX + 1;
	KUNIT_EXPECT_EQ(test, -E2BIG, call_floor(&call, buf, 5000, buf, 1));
	call.key_len = BPF_KVT_KEY_MAX + 1;
	KUNIT_EXPECT_EQ(test, -E2BIG, call_lpm(&call, buf, 5000, buf, 1));
	KUNIT_EXPECT_EQ(test, 0, kvt_store_stat(env.store, KVTREE_STAT_KEYS));
	env_close(&env);
}

/* Request and key share one piece of memory, and the call must stay inside it. */
static void a_request_ends_where_its_memory_does(struct kunit *test)
{
	struct env env = env_open(test);
	struct call_req *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct bpf_iter_kvt it;
	u32 size = sizeof(r->req);
	char val[8];

	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_get(env.both, r, size - 1, val, sizeof(val)));
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_put(env.both, r, 0, val, sizeof(val)));
	r->req.key_len = 3;
	memcpy(r->key, "abcd", 4);
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_put(env.both, r, size + 2, "x", 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_post(env.both, r, size + 2, "x", 1));
	KUNIT_EXPECT_EQ(test, 0, bpf_kvt_put(env.both, r, size + 4, "x", 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_exists(env.both, r, size + 2));
	KUNIT_EXPECT_EQ(test, 0, bpf_kvt_exists(env.both, r, size + 3));
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_ceil(env.both, r, size + 2, val, sizeof(val)));
	/* The key that is found needs more room than the one asked for. */
	r->req.key_len = 1;
	KUNIT_EXPECT_EQ(test, -EMSGSIZE, bpf_kvt_ceil(env.both, r, size + 2, val, sizeof(val)));
	KUNIT_EXPECT_EQ(test, 3, r->req.key_len);
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_lpm(env.both, r, size + 2, val, sizeof(val)));
	r->req.key_len = U32_MAX;
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_remove(env.both, r, sizeof(*r)));
	r->req.key_len = 3;
	r->req.flags = BPF_KVT_RANGE;
	r->req.end_len = 2;
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_iter_kvt_new(&it, env.both, r, size + 4));
	bpf_iter_kvt_destroy(&it);
	r->req.end_len = U32_MAX;
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_iter_kvt_new(&it, env.both, r, sizeof(*r)));
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	r->req = (struct bpf_kvt_req) { .reserved2 = 1ULL << 63 };
	KUNIT_EXPECT_EQ(test, -EINVAL, bpf_kvt_exists(env.both, r, size));
	KUNIT_EXPECT_EQ(test, 1, kvt_store_stat(env.store, KVTREE_STAT_KEYS));
	env_close(&env);
}

static void bindings_allow_what_they_are_for_until_they_end(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.read);
	char val[8];

	KUNIT_EXPECT_EQ(test, -EACCES, PUT(&call, "a", "x"));
	KUNIT_EXPECT_EQ(test, -EACCES, call_add(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, -EACCES, call_post(&call, "a", 1, "x", 1));
	call = CALL_OF(env.write);
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "a", "x"));
	KUNIT_EXPECT_EQ(test, -EACCES, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, -EACCES, call_exists(&call, "a", 1));
	KUNIT_EXPECT_EQ(test, -EACCES, call_ceil(&call, val, sizeof(val), val, 8));
	/* It returns the old value, so it needs read access. */
	KUNIT_EXPECT_EQ(test, -EACCES, call_add(&call, "a", 1));
	/* Pointers to unbound memory, and into a bound map. */
	call = CALL_OF(NULL);
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	call = CALL_OF(&MAP_OTHER.value);
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	call = CALL_OF((void *)env.read + 1);
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));

	KUNIT_EXPECT_EQ(test, 0, kvt_bindings_allow(env.store));
	call = CALL_OF(env.read);
	KUNIT_EXPECT_EQ(test, 1, GET(&call, "a", val));
	kvt_bindings_forbid(env.store);
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, -EPERM, call_bind(&maps[0], env.store, CAN_READ));
	KUNIT_EXPECT_EQ(test, 0, kvt_bindings_allow(env.store));
	/* Ended bindings do not come back. */
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, 0, call_bind(&maps[0], env.store, CAN_READ));
	KUNIT_EXPECT_EQ(test, 1, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, 1, atomic64_read(&maps[1].map.refcnt));

	KUNIT_EXPECT_EQ(test, 0, kvt_store_destroy(STORE));
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, -ESTALE, PUT(&call, "a", "x"));
	KUNIT_EXPECT_EQ(test, -ESTALE, kvt_bindings_allow(env.store));
	KUNIT_EXPECT_EQ(test, -ESTALE, call_bind(&maps[0], env.store, CAN_READ));
	KUNIT_EXPECT_EQ(test, 1, atomic64_read(&maps[0].map.refcnt) - 1);
	kvt_store_put(env.store);
}

static void a_map_is_bound_to_one_store_at_a_time(struct kunit *test)
{
	const struct kvtree_store_create args = { .name = OTHER };
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	struct kvtree_bpf_binding info = {};
	struct kvt_store *other;
	char val[8];

	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	other = kvt_store_find(OTHER);
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(other));
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "a", "x"));
	KUNIT_EXPECT_EQ(test, -EBUSY, call_bind(&maps[2], other, CAN_READ));
	KUNIT_EXPECT_EQ(test, -EBUSY, call_bind(&maps[2], env.store, CAN_READ));
	/* A store cannot end another store's bindings. */
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_unbind(other, maps[2].map.id));
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_bindings_list(other, &info));
	KUNIT_EXPECT_EQ(test, 1, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, 0, kvt_unbind(env.store, maps[2].map.id));
	KUNIT_EXPECT_EQ(test, -ESTALE, GET(&call, "a", val));
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_unbind(env.store, maps[2].map.id));
	KUNIT_EXPECT_EQ(test, 0, call_bind(&maps[2], other, CAN_READ));
	KUNIT_EXPECT_EQ(test, -ENOENT, GET(&call, "a", val));

	KUNIT_EXPECT_EQ(test, 0, kvt_bindings_list(env.store, &info));
	KUNIT_EXPECT_EQ(test, CAN_READ, info.map_id);
	KUNIT_EXPECT_EQ(test, CAN_READ, info.access);
	info.after = info.map_id;
	KUNIT_EXPECT_EQ(test, 0, kvt_bindings_list(env.store, &info));
	KUNIT_EXPECT_EQ(test, CAN_WRITE, info.access);
	info.after = info.map_id;
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_bindings_list(env.store, &info));
	kvt_store_destroy(OTHER);
	kvt_store_put(other);
	env_close(&env);
}

/* Keys in order, and what ordered lookups should find among them. */
#define ORDERED		400
#define ORDERED_LEN	20

struct ordered {
	unsigned int nr;
	struct {
		u8 data[ORDERED_LEN];
		u32 len;
	} key[ORDERED];
};

/* Use few different bytes, so that many keys share prefixes. */
static u32 ordered_random(struct kt_rnd *rnd, u8 *data)
{
	static const u8 letters[] = { 0, 'a', 'b', 0xff };
	u32 i, len = kt_rnd_below(rnd, ORDERED_LEN + 1);

	for (i = 0; i < len; i++)
		data[i] = letters[kt_rnd_below(rnd, i < 8 ? 2 : sizeof(letters))];
	return len;
}

static struct kvt_key ordered_key(const struct ordered *o, unsigned int i)
{
	return KT_BYTES(o->key[i].data, o->key[i].len);
}

/* The number of keys that are smaller, or not greater. */
static unsigned int ordered_below(const struct ordered *o, const struct kvt_key *key, bool equal)
{
	unsigned int i;
	int cmp;

	for (i = 0; i < o->nr; i++) {
		const struct kvt_key k = ordered_key(o, i);

		cmp = kt_key_cmp(&k, key);
		if (cmp > 0 || (!cmp && !equal))
			break;
	}
	return i;
}

static struct ordered *ordered_open(struct kunit *test, struct kt_rnd *rnd, const struct env *env)
{
	struct ordered *o = kunit_kzalloc(test, sizeof(*o), GFP_KERNEL);
	struct call call = CALL_OF(env->write);
	struct kvt_key key;
	u8 data[ORDERED_LEN];
	unsigned int at;

	KUNIT_ASSERT_NOT_NULL(test, o);
	while (o->nr < ORDERED) {
		key = KT_BYTES(data, ordered_random(rnd, data));
		at = ordered_below(o, &key, false);
		if (at != ordered_below(o, &key, true))
			continue;
		memmove(&o->key[at + 1], &o->key[at], (o->nr - at) * sizeof(o->key[0]));
		memcpy(o->key[at].data, data, key.len);
		o->key[at].len = key.len;
		o->nr++;
		KUNIT_ASSERT_EQ(test, 0, call_put(&call, data, key.len, data, key.len));
	}
	return o;
}

/* A lookup should have found this key; each value equals its key. */
static void ordered_expect(struct kunit *test, const struct ordered *o, int want, int ret,
			   const struct call *call, const u8 *key, const u8 *val)
{
	struct kvt_key k;

	if (want < 0 || want >= o->nr) {
		KUNIT_EXPECT_EQ(test, -ENOENT, ret);
		return;
	}
	k = ordered_key(o, want);
	KUNIT_ASSERT_EQ(test, k.len, ret);
	KUNIT_ASSERT_EQ(test, k.len, call->key_len);
	KUNIT_EXPECT_MEMEQ(test, key, k.data, k.len);
	KUNIT_EXPECT_MEMEQ(test, val, k.data, k.len);
}

static void the_nearest_keys_are_found(struct kunit *test)
{
	struct env env = env_open(test);
	struct kt_rnd rnd = kt_rnd(test);
	struct ordered *o = ordered_open(test, &rnd, &env);
	u8 ask[ORDERED_LEN], key[ORDERED_LEN], val[ORDERED_LEN];
	struct call call;
	unsigned int i, at;
	struct kvt_key k;
	int ret;

	for (i = 0; i < 4000; i++) {
		bool after = i & 1, floor = i & 2;

		k = KT_BYTES(ask, ordered_random(&rnd, ask));
		memcpy(key, ask, k.len);
		call = CALL_OF(env.read, .key_len = k.len, .flags = after ? BPF_KVT_AFTER : 0);
		if (floor) {
			ret = call_floor(&call, key, sizeof(key), val, sizeof(val));
			at = ordered_below(o, &k, !after) - 1;
		} else {
			ret = call_ceil(&call, key, sizeof(key), val, sizeof(val));
			at = ordered_below(o, &k, after);
		}
		ordered_expect(test, o, at, ret, &call, key, val);
	}
	env_close(&env);
}

static int ordered_longest(const struct ordered *o, const struct kvt_key *key)
{
	int i, best = -1;

	for (i = 0; i < o->nr; i++) {
		if (o->key[i].len > key->len || memcmp(o->key[i].data, key->data, o->key[i].len))
			continue;
		if (best < 0 || o->key[i].len > o->key[best].len)
			best = i;
	}
	return best;
}

static void the_longest_prefix_is_found(struct kunit *test)
{
	struct env env = env_open(test);
	struct kt_rnd rnd = kt_rnd(test);
	struct ordered *o = ordered_open(test, &rnd, &env);
	struct call call = CALL_OF(env.write);
	u8 ask[ORDERED_LEN], key[ORDERED_LEN], val[ORDERED_LEN];
	unsigned int i, found = 0;
	struct kvt_key k;
	int ret;

	/* Otherwise the empty key would be a prefix of all. */
	call_remove(&call, key, 0);
	if (!o->key[0].len)
		memmove(&o->key[0], &o->key[1], --o->nr * sizeof(o->key[0]));
	for (i = 0; i < 4000; i++) {
		k = KT_BYTES(ask, ordered_random(&rnd, ask));
		memcpy(key, ask, k.len);
		call = CALL_OF(env.read, .key_len = k.len);
		ret = call_lpm(&call, key, sizeof(key), val, sizeof(val));
		found += ret >= 0;
		ordered_expect(test, o, ordered_longest(o, &k), ret, &call, key, val);
	}
	KUNIT_EXPECT_NE(test, 0, found);
	KUNIT_EXPECT_NE(test, 4000, found);
	env_close(&env);
}

/* Iterate over a range and expect the keys with the numbers @low to @high. */
static void range_expect(struct kunit *test, const struct ordered *o, struct call *call,
			 u8 *key, u32 len, int low, int high)
{
	bool reverse = call->flags & BPF_KVT_REVERSE;
	int at = reverse ? high - 1 : low, step = reverse ? -1 : 1;
	const union bpf_kvt_rec *rec;
	struct bpf_iter_kvt it;
	u8 got[ORDERED_LEN];

	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, 0, call_iter(&it, call, key, len));
	KUNIT_EXPECT_EQ(test, -ENOENT, bpf_kvt_iter_key(&it, got, sizeof(got)));
	while ((rec = bpf_iter_kvt_next(&it))) {
		struct kvt_key k;

		if (at < low || at >= high) {
			KUNIT_FAIL(test, "a record too many");
			break;
		}
		k = ordered_key(o, at);
		KUNIT_EXPECT_EQ(test, k.len, rec->key_len);
		KUNIT_EXPECT_EQ(test, k.len, rec->val_len);
		KUNIT_EXPECT_NE(test, 0, rec->version);
		if (k.len)
			KUNIT_EXPECT_EQ(test, -EMSGSIZE, bpf_kvt_iter_key(&it, got, k.len - 1));
		KUNIT_EXPECT_EQ(test, k.len, bpf_kvt_iter_key(&it, got, k.len));
		KUNIT_EXPECT_MEMEQ(test, got, k.data, k.len);
		KUNIT_EXPECT_EQ(test, k.len, bpf_kvt_iter_val(&it, got, k.len));
		KUNIT_EXPECT_MEMEQ(test, got, k.data, k.len);
		at += step;
	}
	KUNIT_EXPECT_EQ(test, 0, bpf_iter_kvt_status(&it));
	KUNIT_EXPECT_EQ(test, -ENOENT, bpf_kvt_iter_key(&it, got, sizeof(got)));
	KUNIT_EXPECT_NULL(test, bpf_iter_kvt_next(&it));
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ_MSG(test, reverse ? low - 1 : high, at, "records are missing");
}

static void iterators_go_through_ranges_in_both_directions(struct kunit *test)
{
	struct env env = env_open(test);
	struct kt_rnd rnd = kt_rnd(test);
	struct ordered *o = ordered_open(test, &rnd, &env);
	u8 a[2 * ORDERED_LEN], b[ORDERED_LEN];
	struct call call;
	unsigned int i;

	for (i = 0; i < 2000; i++) {
		bool reverse = i & 1, after = i & 2, incl = i & 4;
		struct kvt_key from = KT_BYTES(a, ordered_random(&rnd, a));
		struct kvt_key to = KT_BYTES(b, ordered_random(&rnd, b));
		int low, high;

		if (kt_key_cmp(&from, &to) * (reverse ? -1 : 1) > 0)
			continue;
		memcpy(a + from.len, b, to.len);
		call = CALL_OF(env.read, .key_len = from.len,
			       .flags = BPF_KVT_RANGE | (reverse ? BPF_KVT_REVERSE : 0) |
					(after ? BPF_KVT_AFTER : 0) |
					(incl ? BPF_KVT_END_INCL : 0));
		if (reverse) {
			low = ordered_below(o, &to, !incl);
			high = ordered_below(o, &from, !after);
		} else {
			low = ordered_below(o, &from, after);
			high = ordered_below(o, &to, incl);
		}
		range_expect(test, o, &call, a, from.len + to.len, low, max(low, high));
	}
	call = CALL_OF(env.read);
	range_expect(test, o, &call, a, 0, 0, o->nr);
	call = CALL_OF(env.read, .flags = BPF_KVT_REVERSE | BPF_KVT_LAST);
	range_expect(test, o, &call, a, 0, 0, o->nr);
	env_close(&env);
}

static void iterators_go_through_all_with_a_prefix(struct kunit *test)
{
	struct env env = env_open(test);
	struct kt_rnd rnd = kt_rnd(test);
	struct ordered *o = ordered_open(test, &rnd, &env);
	u8 a[ORDERED_LEN];
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		struct kvt_key prefix = KT_BYTES(a, ordered_random(&rnd, a));
		struct call call = CALL_OF(env.read, .flags = BPF_KVT_PREFIX |
					   (i & 1 ? BPF_KVT_REVERSE : 0));
		int low = ordered_below(o, &prefix, false), high;

		for (high = low; high < o->nr; high++)
			if (o->key[high].len < prefix.len ||
			    memcmp(o->key[high].data, a, prefix.len))
				break;
		range_expect(test, o, &call, a, prefix.len, low, high);
	}
	env_close(&env);
}

static void expect_record(struct kunit *test, struct bpf_iter_kvt *it, const char *key,
			  const char *val)
{
	const union bpf_kvt_rec *rec = bpf_iter_kvt_next(it);
	char got[8];

	KUNIT_EXPECT_EQ_MSG(test, !key, !rec, "%s", key ?: "the end");
	if (!key || !rec)
		return;
	KUNIT_EXPECT_EQ(test, strlen(key), bpf_kvt_iter_key(it, got, sizeof(got)));
	KUNIT_EXPECT_MEMEQ(test, got, key, strlen(key));
	KUNIT_EXPECT_EQ(test, strlen(val), bpf_kvt_iter_val(it, got, sizeof(got)));
	KUNIT_EXPECT_MEMEQ(test, got, val, strlen(val));
}

static void a_loop_meets_what_it_has_left_of_the_store(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	struct bpf_iter_kvt it;
	char key[2] = "a";

	for (; key[0] <= 'f'; key[0]++)
		KUNIT_ASSERT_EQ(test, 0, call_put(&call, key, 1, "old", 3));
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, 0, call_iter(&it, &call, key, 0));
	expect_record(test, &it, "a", "old");
	expect_record(test, &it, "b", "old");
	KUNIT_EXPECT_EQ(test, 0, call_remove(&call, "c", 1));
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "d", "new"));
	expect_record(test, &it, "d", "new");
	KUNIT_EXPECT_EQ(test, 0, PUT(&call, "e", "new"));
	KUNIT_EXPECT_EQ(test, 0, call_remove(&call, "f", 1));
	expect_record(test, &it, "e", "new");
	expect_record(test, &it, NULL, NULL);
	KUNIT_EXPECT_EQ(test, 0, bpf_iter_kvt_status(&it));
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	env_close(&env);
}

/* Iterate, and put a new key after each record.  Returns the records seen, at most @stop. */
static unsigned int extend(struct kunit *test, struct call *call, struct bpf_iter_kvt *it,
			   unsigned int stop)
{
	unsigned int n = 0;
	__be32 key;

	KUNIT_EXPECT_EQ(test, 0, call_iter(it, call, "", 0));
	while (n < stop && bpf_iter_kvt_next(it)) {
		key = cpu_to_be32(++n);
		KUNIT_EXPECT_EQ(test, 0, call_put(call, &key, sizeof(key), "", 0));
	}
	return n;
}

static void a_loop_ends_though_its_range_grows(struct kunit *test)
{
	const unsigned int was = kvt_bpf_iter_max, most = 1000;
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	struct bpf_iter_kvt it;
	__be32 key = 0;

	KUNIT_EXPECT_EQ(test, 0, call_put(&call, &key, sizeof(key), "", 0));
	WRITE_ONCE(kvt_bpf_iter_max, most);
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, most, extend(test, &call, &it, 3 * most));
	KUNIT_EXPECT_NULL(test, bpf_iter_kvt_next(&it));
	KUNIT_EXPECT_EQ(test, -ELOOP, bpf_iter_kvt_status(&it));
	KUNIT_EXPECT_EQ(test, -ENOENT, bpf_kvt_iter_key(&it, &key, sizeof(key)));
	bpf_iter_kvt_destroy(&it);
	/* Returning the maximum is no error. */
	KUNIT_EXPECT_EQ(test, 0, call_remove(&call, "\0\0\0\0", 4));
	KUNIT_EXPECT_EQ(test, 0, call_iter(&it, &call, "", 0));
	while (bpf_iter_kvt_next(&it))
		;
	KUNIT_EXPECT_EQ(test, 0, bpf_iter_kvt_status(&it));
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	WRITE_ONCE(kvt_bpf_iter_max, was);
	env_close(&env);
}

/* Ask the filter about a program of this type with these instructions. */
static int refuse(struct kunit *test, enum bpf_prog_type type, struct bpf_insn insn,
		  struct bpf_insn other)
{
	struct bpf_prog *prog = kunit_kzalloc(test, bpf_prog_size(3), GFP_KERNEL);
	struct bpf_prog_aux *aux = kunit_kzalloc(test, sizeof(*aux), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, prog);
	KUNIT_ASSERT_NOT_NULL(test, aux);
	prog->type = type;
	prog->aux = aux;
	prog->len = 3;
	prog->insnsi[0] = BPF_EXIT_INSN();
	prog->insnsi[1] = insn;
	prog->insnsi[2] = other;
	/* For a program that replaces a function of another one. */
	aux->saved_dst_prog_type = BPF_PROG_TYPE_CGROUP_SKB;
	return kvt_bpf_refuse_packets(prog, 0);
}

#define LOAD(size, type, field)	BPF_LDX_MEM(size, BPF_REG_2, BPF_REG_6, offsetof(type, field))

static void programs_with_packets_that_they_only_read_are_known(struct kunit *test)
{
	const struct bpf_insn data = LOAD(BPF_W, struct __sk_buff, data);
	const struct bpf_insn end = LOAD(BPF_W, struct __sk_buff, data_end);
	const struct bpf_insn mark = LOAD(BPF_W, struct __sk_buff, mark);
	const struct bpf_insn skb_data = LOAD(BPF_DW, struct bpf_sock_ops, skb_data);
	const struct bpf_insn skb_end = LOAD(BPF_DW, struct bpf_sock_ops, skb_data_end);

	KUNIT_EXPECT_EQ(test, -EACCES, refuse(test, BPF_PROG_TYPE_CGROUP_SKB, data, end));
	KUNIT_EXPECT_EQ(test, -EACCES, refuse(test, BPF_PROG_TYPE_CGROUP_SKB, end, data));
	KUNIT_EXPECT_EQ(test, -EACCES, refuse(test, BPF_PROG_TYPE_EXT, data, end));
	KUNIT_EXPECT_EQ(test, -EACCES, refuse(test, BPF_PROG_TYPE_SOCK_OPS, skb_data, skb_end));
	/* Fields of other structures may be at one of the places. */
	KUNIT_EXPECT_EQ(test, 0, refuse(test, BPF_PROG_TYPE_CGROUP_SKB, data, mark));
	KUNIT_EXPECT_EQ(test, 0, refuse(test, BPF_PROG_TYPE_CGROUP_SKB, mark, end));
	KUNIT_EXPECT_EQ(test, 0, refuse(test, BPF_PROG_TYPE_EXT, data, mark));
	KUNIT_EXPECT_EQ(test, 0, refuse(test, BPF_PROG_TYPE_SOCK_OPS, skb_data, mark));
	/* Its memory is its own. */
	KUNIT_EXPECT_EQ(test, 0, refuse(test, BPF_PROG_TYPE_CGROUP_SOCKOPT, data, end));
}

/* Expect the record of a one-letter key, or of one of maximal length. */
static void expect_cursor(struct kunit *test, struct kvt_cursor *cursor, char first, u32 len)
{
	struct kvt_value *v = kvt_cursor_next(cursor);

	KUNIT_EXPECT_FALSE_MSG(test, IS_ERR_OR_NULL(v), "%c: %ld", first, PTR_ERR(v));
	KUNIT_EXPECT_EQ(test, len, cursor->iter.len);
	KUNIT_EXPECT_EQ(test, first, cursor->iter.key[0]);
}

/* Anybody with write access can put such keys between those of others. */
static void cursors_pass_keys_that_share_all_but_their_ends(struct kunit *test)
{
	const struct kt_engine *engine = test->param_value;
	struct kt *kt = kt_open_pages(test, engine, U64_MAX);
	struct kvt_cursor *cursor;
	struct kvt_key key;
	u8 *data;
	char c;

	data = kunit_kmalloc(test, KVTREE_KEY_MAX, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, data);
	key = KT_BYTES(data, KVTREE_KEY_MAX);
	KUNIT_ASSERT_EQ(test, 0, kvt_cursors_prepare());
	for (c = 'a'; c <= 'z'; c++) {
		memset(data, c, KVTREE_KEY_MAX);
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(&c, 1), NULL));
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &key, NULL));
		data[KVTREE_KEY_MAX - 1]++;
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &key, NULL));
	}
	cursor = kvt_cursor_get((const struct kvt_store *)kt);
	KUNIT_ASSERT_NOT_NULL(test, cursor);
	rcu_read_lock();
	kvt_cursor_seek(cursor, kt->index, "", 0, KVT_AT, false);
	for (c = 'a'; c <= 'z'; c++) {
		expect_cursor(test, cursor, c, 1);
		expect_cursor(test, cursor, c, KVTREE_KEY_MAX);
		expect_cursor(test, cursor, c, KVTREE_KEY_MAX);
	}
	KUNIT_EXPECT_NULL(test, kvt_cursor_next(cursor));
	/* From a position at or between keys, find the next one on either side. */
	for (c = 'b'; c < 'z'; c++) {
		memset(data, c, KVTREE_KEY_MAX);
		data[KVTREE_KEY_MAX - 1]++;
		kvt_cursor_seek(cursor, kt->index, data, KVTREE_KEY_MAX, KVT_AFTER, false);
		expect_cursor(test, cursor, c + 1, 1);
		kvt_cursor_seek(cursor, kt->index, data, KVTREE_KEY_MAX - 1, KVT_AT, true);
		expect_cursor(test, cursor, c, 1);
		expect_cursor(test, cursor, c - 1, KVTREE_KEY_MAX);
	}
	rcu_read_unlock();
	kvt_cursor_put(cursor);
}

static void cursors_are_limited_and_reusable(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	/* Cursors do not look into their stores. */
	const struct kvt_store *stores = (const struct kvt_store *)&call;
	struct kvt_cursor *cursors[64];
	unsigned int i, n = 0;
	struct bpf_iter_kvt it;
	u8 key[8];

	KUNIT_ASSERT_EQ(test, 0, PUT(&call, "a", "x"));
	preempt_disable();
	while (n < ARRAY_SIZE(cursors) && (cursors[n] = kvt_cursor_get(stores + n)))
		n++;
	KUNIT_EXPECT_EQ(test, -EBUSY, call_ceil(&call, key, sizeof(key), key, 8));
	rcu_read_lock();
	KUNIT_EXPECT_EQ(test, -EBUSY, call_iter(&it, &call, key, 0));
	KUNIT_EXPECT_NULL(test, bpf_iter_kvt_next(&it));
	KUNIT_EXPECT_EQ(test, -EBUSY, bpf_iter_kvt_status(&it));
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	for (i = 0; i < n; i++)
		kvt_cursor_put(cursors[i]);
	for (i = 0; i < n && (cursors[i] = kvt_cursor_get(stores + i)); i++)
		;
	KUNIT_EXPECT_EQ(test, n, i);
	while (i)
		kvt_cursor_put(cursors[--i]);
	/* Iterators return their cursors, even if they are left early. */
	for (i = 0; i < 100; i++) {
		rcu_read_lock();
		KUNIT_EXPECT_EQ(test, 0, call_iter(&it, &call, key, 0));
		if (i & 1)
			KUNIT_EXPECT_NOT_NULL(test, bpf_iter_kvt_next(&it));
		bpf_iter_kvt_destroy(&it);
		rcu_read_unlock();
		call.key_len = 0;
		KUNIT_EXPECT_EQ(test, 1, call_ceil(&call, key, sizeof(key), key, 8));
	}
	preempt_enable();
	KUNIT_EXPECT_LT(test, n, ARRAY_SIZE(cursors));
	KUNIT_EXPECT_GT(test, n, 4);
	env_close(&env);
}

/* No matter how deep its loops are nested. */
static void one_store_leaves_cursors_to_others(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	struct bpf_iter_kvt it[17];
	struct kvt_cursor *other;
	unsigned int n, round;
	u8 key[8];

	KUNIT_ASSERT_EQ(test, 0, PUT(&call, "a", "x"));
	preempt_disable();
	/* Returned cursors no longer count. */
	for (round = 0; round < 3; round++) {
		rcu_read_lock();
		for (n = 0; n < ARRAY_SIZE(it); n++)
			if (call_iter(&it[n], &call, key, 0))
				break;
		other = kvt_cursor_get((const struct kvt_store *)&call);
		KUNIT_EXPECT_NOT_NULL(test, other);
		KUNIT_EXPECT_EQ(test, -EBUSY, call_ceil(&call, key, sizeof(key), key, 8));
		if (other)
			kvt_cursor_put(other);
		KUNIT_EXPECT_EQ(test, 8, n);
		for (n++; n; n--)
			bpf_iter_kvt_destroy(&it[n - 1]);
		rcu_read_unlock();
	}
	preempt_enable();
	env_close(&env);
}

static void two_stores_leave_cursors_to_others(struct kunit *test)
{
	/* Cursors do not look into their stores. */
	const struct kvt_store *stores = (const struct kvt_store *)test;
	struct kvt_cursor *cursors[32], *other;
	unsigned int i, n = 0;

	KUNIT_ASSERT_EQ(test, 0, kvt_cursors_prepare());
	preempt_disable();
	for (i = 0; i < 2; i++)
		while (n < ARRAY_SIZE(cursors) && (cursors[n] = kvt_cursor_get(stores + i)))
			n++;
	other = kvt_cursor_get(stores + 2);
	KUNIT_EXPECT_NOT_NULL(test, other);
	if (other)
		kvt_cursor_put(other);
	while (n--)
		kvt_cursor_put(cursors[n]);
	preempt_enable();
}

/* Called under rcu_read_lock(), so that nothing is freed.  Returns the error of the last put. */
static int put_until_refused(const struct env *env, u8 *val)
{
	struct call call = CALL_OF(env->write);
	unsigned int i;
	int err = 0;

	for (i = 0; i < 4096 && !err; i++)
		err = call_put(&call, "k", 1, val, BPF_KVT_VALUE_MAX);
	return err;
}

static void over_the_garbage_bound_a_change_does_not_wait(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.write);
	u8 *val = kunit_kzalloc(test, BPF_KVT_VALUE_MAX, GFP_KERNEL);
	unsigned int i;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, val);
	/* Nothing is freed meanwhile.  The bound is 64 MiB by default. */
	rcu_read_lock();
	err = put_until_refused(&env, val);
	rcu_read_unlock();
	/* On small machines allocations fail before that. */
	KUNIT_EXPECT_TRUE_MSG(test, err == -EAGAIN || err == -ENOMEM, "%d", err);
	for (i = 0; i < KT_TURNS_MAX / 20 && err; i++) {
		msleep(20);
		err = call_put(&call, "k", 1, val, 1);
	}
	KUNIT_EXPECT_EQ(test, 0, err);
	env_close(&env);
}

/* In a hard interrupt */

static struct {
	struct env *env;
	struct irq_work work;
	bool done;
	bool hard;
	unsigned int nr;		/* keys that are always present */
	unsigned int reads, busy, wrong;
	int put, post;
} irq;

static void irq_run(void)
{
	irq.done = false;
	irq_work_queue(&irq.work);
	/* Pairs with the end of the functions below. */
	kt_await(smp_load_acquire(&irq.done));
}

static void irq_write_fn(struct irq_work *work)
{
	struct call call = CALL_OF(irq.env->both);

	irq.hard = in_hardirq();
	irq.put = PUT(&call, "irq", "x");
	call = CALL_OF(irq.env->both);
	irq.post = call_post(&call, "post", 4, "late", 4);
	smp_store_release(&irq.done, true);	/* pairs with irq_run() */
}

static void from_interrupts_changes_are_refused_and_posts_are_made(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call = CALL_OF(env.both);
	char val[8];

	irq.env = &env;
	irq.work = IRQ_WORK_INIT_HARD(irq_write_fn);
	irq_run();
	KUNIT_EXPECT_TRUE(test, irq.hard);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, irq.put);
	KUNIT_EXPECT_EQ(test, 0, irq.post);
	irq_work_sync(&irq.work);
	kvt_posts_flush();
	KUNIT_EXPECT_EQ(test, -ENOENT, GET(&call, "irq", val));
	KUNIT_EXPECT_EQ(test, 4, GET(&call, "post", val));
	KUNIT_EXPECT_MEMEQ(test, val, "late", 4);
	KUNIT_EXPECT_EQ(test, 1, stat(&env, KVTREE_STAT_BPF_POST));
	env_close(&env);
}

/* A put that waits for memory to be freed, and is named as a waiter meanwhile. */
static int waiter_run(void *arg)
{
	struct env *env = arg;
	const struct kvt_op_ctx ctx = {
		.store = env->store, .gfp = KVT_GFP_PROCESS, .waits = true,
	};
	struct kvt_bpf_write write = { .op.opcode = KVTREE_OP_ADD, .key = KT_KEY("n") };
	int err;

	do {
		err = kvt_write_admit(&ctx) ?: kvt_bpf_write(&ctx, &write);
	} while (err == -EAGAIN && !kvt_write_wait(&ctx));
	return err;
}

static void a_task_that_waits_in_a_store_is_named(struct kunit *test)
{
	struct env env = env_open(test);
	u8 *val = kunit_kzalloc(test, BPF_KVT_VALUE_MAX, GFP_KERNEL);
	struct kvt_waiters waiters = {};
	struct kt_thread thread;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, val);
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&thread, 1, waiter_run, &env));
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	rcu_read_lock();
	err = put_until_refused(&env, val);
	kt_thread_start(&thread);
	kt_await(({ kvt_store_waiters(env.store, &waiters); waiters.nr; }));
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, -EAGAIN, err);
	KUNIT_EXPECT_EQ(test, 1, waiters.nr);
	KUNIT_EXPECT_EQ(test, 0, waiters.more);
	KUNIT_EXPECT_EQ(test, task_pid_nr(thread.task), waiters.waiter[0].pid);
	KUNIT_EXPECT_STREQ(test, thread.task->comm, waiters.waiter[0].comm);
	KUNIT_EXPECT_STREQ(test, "memory to be freed", waiters.waiter[0].what);
	KUNIT_EXPECT_FALSE(test, waiters.waiter[0].command);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&thread));
	kvt_store_waiters(env.store, &waiters);
	KUNIT_EXPECT_EQ(test, 0, waiters.nr);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	env_close(&env);
}

/* The store's validator: holds posts that were queued. */
static struct {
	const struct kvt_late_posts *posts;
	u32 want;		/* the first when no more bytes are queued; 0: none */
	bool held;
	bool go;
} late;

static int hold_late(struct bpf_kvt_record *rec)
{
	u32 want = READ_ONCE(late.want);

	if (!want || READ_ONCE(late.posts->bytes) > want)
		return 1;
	late.want = 0;
	WRITE_ONCE(late.held, true);
	kt_await(READ_ONCE(late.go));
	return 1;
}

/* The store's worker is executing a post, and is held there until late.go. */
static void expect_held(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < KT_TURNS_MAX / 20 && !READ_ONCE(late.held); i++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, late.held);
}

static bool other_has(u64 number)
{
	struct call call = CALL_OF(&MAP_OTHER.value);
	u64 last;

	return call_get(&call, "last", 4, &last, sizeof(last)) == sizeof(last) && last == number;
}

/*
 * Make a store with changes that have to wait, because nothing that was replaced is
 * freed, and another store.
 */
static void a_store_that_stalls_delays_no_posts_for_others(struct kunit *test)
{
	const struct kvtree_store_create args = { .name = OTHER };
	struct kvt_hook_args args_hook = {
		.kind = KVTREE_HOOK_VALIDATOR, .name = "late", .call = hold_late,
	};
	struct env env = env_open(test);
	u8 *val = kunit_kzalloc(test, BPF_KVT_VALUE_MAX, GFP_KERNEL);
	struct call call;
	struct kvt_store *other;
	u64 last = 0, dropped = 0, n;
	u32 owner;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, val);
	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	other = kvt_store_find(OTHER);
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(other));
	KUNIT_ASSERT_EQ(test, 0, call_bind(&MAP_OTHER, other, CAN_READ | CAN_WRITE));
	memset(&late, 0, sizeof(late));
	late.posts = &env.store->late_posts;
	args_hook.store = STORE;
	args_hook.owner = &owner;
	KUNIT_ASSERT_EQ(test, 0, kvt_hook_attach(&args_hook));
	rcu_read_lock();
	err = put_until_refused(&env, val);
	KUNIT_EXPECT_EQ(test, -EAGAIN, err);
	/* Post more than may wait for it, alternating with posts for the other store. */
	for (n = 1; n <= 200; n++) {
		*(u64 *)val = n;
		call = CALL_OF(env.write);
		KUNIT_EXPECT_EQ(test, 0, call_post(&call, "last", 4, val, BPF_KVT_POST_MAX));
		call = CALL_OF(&MAP_OTHER.value);
		KUNIT_EXPECT_EQ(test, 0, call_post(&call, "last", 4, val, 8));
		/* The worker is on another CPU, or nowhere. */
		if (!kt_await(other_has(n)))
			break;
	}
	/* Once one is executed there is room for another. */
	WRITE_ONCE(late.want, READ_ONCE(late.posts->bytes) - 1);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ_MSG(test, 201, n, "the post for the other store was not made");
	dropped = stat(&env, KVTREE_STAT_BPF_POST_DROP);
	KUNIT_EXPECT_LT(test, 0, dropped);
	KUNIT_EXPECT_EQ(test, 200, stat(&env, KVTREE_STAT_BPF_POST));
	/* Waiting posts are executed when possible, before later ones. */
	expect_held(test);
	call = CALL_OF(env.write);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "last", 4, &n, sizeof(n)));
	msleep(50);
	WRITE_ONCE(late.go, true);
	kvt_posts_flush();
	call = CALL_OF(env.read);
	KUNIT_EXPECT_EQ(test, sizeof(last), call_get(&call, "last", 4, &last, sizeof(last)));
	KUNIT_EXPECT_EQ(test, n, last);
	KUNIT_EXPECT_EQ(test, dropped, stat(&env, KVTREE_STAT_BPF_POST_DROP));
	KUNIT_EXPECT_EQ(test, 0, stat(&env, KVTREE_STAT_BPF_POST_FAIL));
	kvt_hook_detach(&owner);
	KUNIT_EXPECT_EQ(test, 0, kvt_store_stat(other, KVTREE_STAT_BPF_POST_DROP));
	KUNIT_EXPECT_EQ(test, 0, kvt_store_stat(other, KVTREE_STAT_BPF_POST_FAIL));
	kvt_store_destroy(OTHER);
	kvt_store_put(other);
	env_close(&env);
}

/* Post a key; it is to wait in the store's queue. */
static void post_late(struct kunit *test, const struct env *env, const char *key)
{
	u32 before = READ_ONCE(late.posts->bytes);
	struct call call = CALL_OF(env->write);

	KUNIT_EXPECT_EQ(test, 0, call_post(&call, key, 5, "x", 1));
	/* The ring's worker is on another CPU. */
	KUNIT_EXPECT_TRUE(test, kt_await(READ_ONCE(late.posts->bytes) > before));
}

static void posts_that_wait_for_a_store_are_not_made_once_forbidden(struct kunit *test)
{
	struct kvt_hook_args args = {
		.kind = KVTREE_HOOK_VALIDATOR, .name = "late", .store = STORE,
		.call = hold_late,
	};
	struct env env = env_open(test);
	u8 *val = kunit_kzalloc(test, BPF_KVT_VALUE_MAX, GFP_KERNEL);
	struct call call;
	u32 owner;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, val);
	memset(&late, 0, sizeof(late));
	late.posts = &env.store->late_posts;
	args.owner = &owner;
	KUNIT_ASSERT_EQ(test, 0, kvt_hook_attach(&args));
	rcu_read_lock();
	err = put_until_refused(&env, val);
	KUNIT_EXPECT_EQ(test, -EAGAIN, err);
	post_late(test, &env, "first");
	post_late(test, &env, "other");
	WRITE_ONCE(late.want, U32_MAX);
	rcu_read_unlock();
	expect_held(test);
	/* One is being executed, the other waits. */
	kvt_bindings_forbid(env.store);
	KUNIT_EXPECT_EQ(test, 0, kvt_bindings_allow(env.store));
	WRITE_ONCE(late.go, true);
	kvt_posts_flush();
	env.read = env_bind(test, env.store, CAN_READ);
	call = CALL_OF(env.read);
	KUNIT_EXPECT_EQ(test, 0, call_exists(&call, "first", 5));
	KUNIT_EXPECT_EQ(test, -ENOENT, call_exists(&call, "other", 5));
	KUNIT_EXPECT_EQ(test, 2, stat(&env, KVTREE_STAT_BPF_POST));
	KUNIT_EXPECT_EQ(test, 1, stat(&env, KVTREE_STAT_BPF_POST_FAIL));
	kvt_hook_detach(&owner);
	env_close(&env);
}

/* Make as many posts as there is room for.  The worker does not run. */
static unsigned int post_all(struct bpf_kvt_store *map, u8 *val)
{
	struct call call;
	unsigned int n = 0;

	do {
		call = CALL_OF(map);
	} while (!call_post(&call, "k", 1, val, BPF_KVT_POST_MAX) && ++n < 1000);
	return n;
}

static struct call_map other_maps[2];

static void stores_that_post_leave_room_to_others(struct kunit *test)
{
	struct kvtree_store_create args = { };
	struct env env = env_open(test);
	u8 *val = kunit_kzalloc(test, BPF_KVT_POST_MAX, GFP_KERNEL);
	struct kvt_store *others[2];
	unsigned int i, again, posted[3];
	unsigned long flags;

	KUNIT_ASSERT_NOT_NULL(test, val);
	for (i = 0; i < 2; i++) {
		sprintf(args.name, OTHER "-%u", i);
		KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
		others[i] = kvt_store_find(args.name);
		KUNIT_ASSERT_FALSE(test, IS_ERR(others[i]));
		KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(others[i]));
		KUNIT_ASSERT_EQ(test, 0, call_bind(&other_maps[i], others[i], CAN_WRITE));
	}
	kvt_posts_flush();
	local_irq_save(flags);
	posted[0] = post_all(env.write, val);
	posted[1] = post_all(&other_maps[0].value, val);
	posted[2] = post_all(&other_maps[1].value, val);
	local_irq_restore(flags);
	kvt_posts_flush();
	local_irq_save(flags);
	again = post_all(&other_maps[1].value, val);
	local_irq_restore(flags);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_NE_MSG(test, 0, posted[i], "store %u", i);
	/* Executed posts no longer count.  One place may be lost at the end of the ring. */
	KUNIT_EXPECT_LT(test, 8, posted[0]);
	KUNIT_EXPECT_LE(test, posted[0], again + 1);
	for (i = 0; i < 2; i++) {
		kvt_store_destroy(others[i]->name);
		kvt_store_put(others[i]);
	}
	env_close(&env);
}

static void posts_are_made_in_order_or_counted_as_dropped(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call;
	u64 made = 0, dropped = 0, last = 0;
	unsigned int round, i;
	unsigned long flags;
	u64 val[64];
	__le64 n;

	/* Values that look like posts: their remains in the ring must not be taken for such. */
	for (i = 0; i < ARRAY_SIZE(val); i++)
		val[i] = 0x0000000100000010;
	for (round = 0; round < 20; round++) {
		/* The worker is not woken until the ring is full. */
		local_irq_save(flags);
		for (i = 0; i < 400; i++) {
			u32 len = 8 + (i * (8 + 16 * round)) % (sizeof(val) - 8);
			int err;

			val[0] = last + 1;
			call = CALL_OF(env.write);
			err = call_post(&call, "last", 4, val, len);
			if (!err)
				last++;
			call = CALL_OF(env.write, .flags = BPF_KVT_POST_ADD, .arg = 1);
			if (!err)
				err = call_post(&call, "sum", 3, val, 0);
			made += !err;
			dropped += !!err;
			KUNIT_EXPECT_TRUE(test, !err || (err == -ENOSPC && i));
		}
		local_irq_restore(flags);
		kvt_posts_flush();
		call = CALL_OF(env.read);
		KUNIT_ASSERT_GE(test, call_get(&call, "last", 4, val, sizeof(val)), 8);
		KUNIT_EXPECT_EQ(test, last, val[0]);
		KUNIT_ASSERT_EQ(test, 8, call_get(&call, "sum", 3, &n, sizeof(n)));
		KUNIT_EXPECT_EQ(test, made, le64_to_cpu(n));
	}
	KUNIT_EXPECT_NE(test, 0, made);
	KUNIT_EXPECT_NE(test, 0, dropped);
	KUNIT_EXPECT_EQ(test, dropped, stat(&env, KVTREE_STAT_BPF_POST_DROP));
	KUNIT_EXPECT_EQ(test, made + last, stat(&env, KVTREE_STAT_BPF_POST));
	KUNIT_EXPECT_EQ(test, 0, stat(&env, KVTREE_STAT_BPF_POST_FAIL));
	kunit_info(test, "%llu posts made, %llu dropped", made + last, dropped);

	call = CALL_OF(env.write, .flags = BPF_KVT_POST_REMOVE);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "sum", 3, val, 0));
	/* Not a number. */
	call = CALL_OF(env.write);
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "last", 4, "word", 4));
	call.flags = BPF_KVT_POST_ADD;
	KUNIT_EXPECT_EQ(test, 0, call_post(&call, "last", 4, val, 0));
	kvt_posts_flush();
	call = CALL_OF(env.read);
	KUNIT_EXPECT_EQ(test, -ENOENT, call_exists(&call, "sum", 3));
	KUNIT_EXPECT_EQ(test, 1, stat(&env, KVTREE_STAT_BPF_POST_FAIL));
	env_close(&env);
}

/* Stable keys are even numbers; a writer inserts and removes odd ones. */
static void irq_key(u8 *key, u32 n)
{
	memcpy(key, "prefix--", 8);
	put_unaligned_be32(n, key + 8);
}

static void irq_note(int ret, bool right)
{
	irq.reads++;
	if (ret == -EBUSY)
		irq.busy++;
	else if (!right)
		irq.wrong++;
}

static void irq_read_fn(struct irq_work *work)
{
	u32 n = 2 * (irq.reads % irq.nr), got;
	const union bpf_kvt_rec *rec;
	struct call call = CALL_OF(irq.env->both);
	struct bpf_iter_kvt it;
	u8 key[12];
	int ret;

	irq.hard = in_hardirq();
	irq_key(key, n);
	ret = call_get(&call, key, sizeof(key), &got, sizeof(got));
	irq_note(ret, ret == 4 && got == n);
	call.key_len = sizeof(key);
	call.flags = 0;
	ret = call_ceil(&call, key, sizeof(key), &got, sizeof(got));
	irq_note(ret, ret == 4 && got == n);
	ret = call_lpm(&call, key, sizeof(key), &got, sizeof(got));
	irq_note(ret, ret == 4 && got == n);
	rcu_read_lock();
	call_iter(&it, &call, key, sizeof(key));
	rec = bpf_iter_kvt_next(&it);
	ret = rec ? bpf_kvt_iter_val(&it, &got, sizeof(got)) : bpf_iter_kvt_status(&it);
	irq_note(ret, ret == 4 && got == n);
	bpf_iter_kvt_destroy(&it);
	rcu_read_unlock();
	smp_store_release(&irq.done, true);	/* pairs with irq_run() */
}

static struct task_struct *irq_writer;

static void irq_hook(enum kvt_park at)
{
	if (current == irq_writer)
		irq_run();
}

static void on_top_of_a_writer_reads_are_right_or_give_up(struct kunit *test)
{
	struct env env = env_open(test);
	struct call call;
	u8 key[12];
	u32 i;

	memset(&irq, 0, sizeof(irq));
	irq.env = &env;
	irq.nr = 60;
	irq.work = IRQ_WORK_INIT_HARD(irq_read_fn);
	for (i = 0; i < 2 * irq.nr; i += 2) {
		irq_key(key, i);
		call = CALL_OF(env.write);
		KUNIT_ASSERT_EQ(test, 0, call_put(&call, key, sizeof(key), &i, sizeof(i)));
	}
	irq_writer = current;
	WRITE_ONCE(kvt_park_hook, irq_hook);
	for (i = 1; i < 2 * irq.nr; i += 2) {
		irq_key(key, i);
		call = CALL_OF(env.write);
		KUNIT_EXPECT_EQ(test, 0, call_put(&call, key, sizeof(key), &i, sizeof(i)));
	}
	for (i = 1; i < 2 * irq.nr; i += 2) {
		irq_key(key, i);
		call = CALL_OF(env.write);
		KUNIT_EXPECT_EQ(test, 0, call_remove(&call, key, sizeof(key)));
	}
	WRITE_ONCE(kvt_park_hook, NULL);
	synchronize_rcu();
	irq_work_sync(&irq.work);
	KUNIT_EXPECT_TRUE(test, irq.hard);
	KUNIT_EXPECT_EQ(test, 0, irq.wrong);
	KUNIT_EXPECT_NE(test, 0, irq.busy);
	KUNIT_EXPECT_GT(test, irq.reads, irq.busy);
	KUNIT_EXPECT_EQ(test, irq.busy, stat(&env, KVTREE_STAT_BPF_BUSY));
	kunit_info(test, "%u reads in interrupts, %u gave up", irq.reads, irq.busy);
	env_close(&env);
}

KT_ENGINES();

static struct kunit_case bpf_cases[] = {
	KUNIT_CASE(what_is_put_is_got_with_its_version),
	KUNIT_CASE(what_does_not_fit_is_measured_and_not_copied),
	KUNIT_CASE(columns_are_read_and_written_one_by_one_or_all),
	KUNIT_CASE(changes_hold_to_their_conditions),
	KUNIT_CASE(malformed_calls_are_refused),
	KUNIT_CASE(a_request_ends_where_its_memory_does),
	KUNIT_CASE(bindings_allow_what_they_are_for_until_they_end),
	KUNIT_CASE(a_map_is_bound_to_one_store_at_a_time),
	KUNIT_CASE(the_nearest_keys_are_found),
	KUNIT_CASE(the_longest_prefix_is_found),
	KUNIT_CASE(iterators_go_through_ranges_in_both_directions),
	KUNIT_CASE(iterators_go_through_all_with_a_prefix),
	KUNIT_CASE(a_loop_meets_what_it_has_left_of_the_store),
	KUNIT_CASE(a_loop_ends_though_its_range_grows),
	KUNIT_CASE(programs_with_packets_that_they_only_read_are_known),
	KT_CASE(cursors_pass_keys_that_share_all_but_their_ends),
	KUNIT_CASE(cursors_are_limited_and_reusable),
	KUNIT_CASE(one_store_leaves_cursors_to_others),
	KUNIT_CASE(two_stores_leave_cursors_to_others),
	KUNIT_CASE(over_the_garbage_bound_a_change_does_not_wait),
	KUNIT_CASE(from_interrupts_changes_are_refused_and_posts_are_made),
	KUNIT_CASE(a_task_that_waits_in_a_store_is_named),
	KUNIT_CASE(a_store_that_stalls_delays_no_posts_for_others),
	KUNIT_CASE(posts_that_wait_for_a_store_are_not_made_once_forbidden),
	KUNIT_CASE(stores_that_post_leave_room_to_others),
	KUNIT_CASE(posts_are_made_in_order_or_counted_as_dropped),
	KUNIT_CASE(on_top_of_a_writer_reads_are_right_or_give_up),
	{}
};

static struct kunit_suite bpf_suite = {
	.name = "kvt_bpf",
	.exit = bpf_exit,
	.test_cases = bpf_cases,
};

kunit_test_suite(bpf_suite);
