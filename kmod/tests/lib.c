// SPDX-License-Identifier: GPL-2.0
/* What the KUnit suites share: see lib.h. */
#include <linux/err.h>
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/umh.h>
#include <linux/unaligned.h>

#include "lib.h"

/* Extra rise of the floor by a removal, so that the floor is written rarely. */
#define KT_FLOOR_SPARE	4096

/* Values not freed yet, the bytes they take, and indexes that may hold some. */
static atomic_long_t kt_values;
static atomic_long_t kt_value_bytes;
static atomic_t kt_indexes;
/* The free function of the module under test. */
static kvt_free_values_fn kt_real_free;

/* Whether the engine has made this block of a cell.  Those of kt_value_new() are larger. */
static bool kt_was_cell(const struct kvt_value *value)
{
	size_t size = kvt_value_head_size(value->key_len) + KVT_CELL_MAX;

	return kvt_value_fits_cell(value) && value->room == kvt_mem_size(size);
}

static void kt_uncount(const struct kvt_value *value)
{
	if (kt_was_cell(value))
		return;
	atomic_long_dec(&kt_values);
	atomic_long_sub(kvt_value_charge(value), &kt_value_bytes);
}

/* The low bits of a bag's entries say how to free them. */
static void kt_counting_free(void **values, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		kt_uncount((void *)((unsigned long)values[i] & ~7ul));
	kt_real_free(values, nr);
}

static void kt_value_drop(struct kvt_value *value)
{
	if (!value)
		return;
	kt_uncount(value);
	kvt_value_free(value);
}

static u64 kt_hash(const struct kvt_key *key, u64 version)
{
	u32 low = jhash(key->data, key->len, lower_32_bits(version));
	u32 high = jhash(key->data, key->len, ~upper_32_bits(version));

	return hash_64((u64)high << 32 | low, 64);
}

/* The data of a key's value: the version, then words derived from key and version. */
static u32 kt_value_len(const struct kvt_key *key)
{
	return 8 + 8 * (1 + kt_hash(key, 0) % 4);
}

/**
 * kt_value_new() - memory for a value of a key
 * @key: the key
 * @gfp: how to allocate
 *
 * Return: a value to be given to kt_value_fill(), or NULL.
 */
struct kvt_value *kt_value_new(const struct kvt_key *key, gfp_t gfp)
{
	const struct kvt_mem mem = { .gfp = gfp };
	struct kvt_value *value;
	u8 *data;

	value = kvt_value_alloc_whole(&mem, key, kt_value_len(key), &data);
	if (value)
		kt_value_adopt(value);
	return value;
}

/**
 * kt_value_adopt() - count a value that did not come from kt_value_new()
 * @value: to be retired
 */
void kt_value_adopt(const struct kvt_value *value)
{
	atomic_long_inc(&kt_values);
	atomic_long_add(kvt_value_charge(value), &kt_value_bytes);
}

/**
 * kt_value_fill() - make a value that kt_value_ok() accepts
 * @value: of kt_value_new(), not published
 * @key: its key
 * @version: its version
 */
void kt_value_fill(struct kvt_value *value, const struct kvt_key *key, u64 version)
{
	u8 *data = (u8 *)value + kvt_value_head_size(key->len);
	u64 word = kt_hash(key, version);
	u32 i;

	value->version = version;
	put_unaligned(version, (u64 *)data);
	for (i = 8; i < kt_value_len(key); i += 8)
		put_unaligned(word + i, (u64 *)(data + i));
}

/* Bytes of a cell's data, the first ones of the hash; one more than fits: no column. */
static u32 kt_cell_len(u64 hash)
{
	return (hash >> 8) % (KVT_CELL_MAX + 2);
}

/* Whether a value has what kt_cell_make() gives to a cell. */
static bool kt_cell_ok(const struct kvt_value *value, const struct kvt_key *key)
{
	u64 hash = kt_hash(key, value->version);
	u32 len;

	if (kt_cell_len(hash) > KVT_CELL_MAX || !kvt_value_plain(value))
		return kt_cell_len(hash) > KVT_CELL_MAX && !kvt_value_ncols(value);
	return !memcmp(kvt_value_plain_data(value, &len), &hash, kt_cell_len(hash)) &&
	       len == kt_cell_len(hash);
}

/**
 * kt_value_ok() - is a value one of a key's?
 * @value: what was found, under RCU
 * @key: what was asked for
 *
 * Return: whether its key, its version and its data belong together.
 */
bool kt_value_ok(const struct kvt_value *value, const struct kvt_key *key)
{
	const u8 *data = (const u8 *)value + kvt_value_head_size(key->len);
	u32 i, len = kt_value_len(key);
	u64 word;

	if (value->key_len != key->len)
		return false;
	if (!kvt_value_is_cell(value) && key->len > KVT_KEY_HEAD &&
	    memcmp(kvt_value_suffix(value, KVT_KEY_HEAD), key->data + KVT_KEY_HEAD,
		   key->len - KVT_KEY_HEAD))
		return false;
	if (kvt_value_fits_cell(value))
		return kt_cell_ok(value, key);
	if (!kvt_value_plain(value) || value->size != kvt_value_head_size(key->len) + len)
		return false;
	if (get_unaligned((u64 *)data) != value->version)
		return false;
	word = kt_hash(key, value->version);
	for (i = 8; i < len; i += 8)
		if (get_unaligned((u64 *)(data + i)) != word + i)
			return false;
	return true;
}

/* Index */

static bool kt_init(struct kt *kt, u64 limit)
{
	kt->wq = alloc_workqueue("kvt_kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!kt->wq)
		return false;
	if (kvt_stats_init(&kt->stats))
		goto no_stats;
	if (kvt_quota_init(&kt->quota, limit, U64_MAX))
		goto no_quota;
	if (kvt_reclaim_init(&kt->reclaim, kt->wq, &kt->stats, 64 << 20))
		goto no_reclaim;
	kvt_value_setup_reclaim(&kt->reclaim);
	kt_real_free = kt->reclaim.free_values;
	kt->reclaim.free_values = kt_counting_free;
	return true;

no_reclaim:
	kvt_quota_exit(&kt->quota);
no_quota:
	kvt_stats_exit(&kt->stats);
no_stats:
	destroy_workqueue(kt->wq);
	return false;
}

static void kt_exit(struct kt *kt)
{
	kvt_reclaim_exit(&kt->reclaim);
	KUNIT_EXPECT_EQ(kt->test, 0, atomic64_read(&kt->reclaim.waiting));
	KUNIT_EXPECT_EQ(kt->test, 0, kvt_quota_bytes(&kt->quota));
	kvt_quota_exit(&kt->quota);
	kvt_stats_exit(&kt->stats);
	destroy_workqueue(kt->wq);
	kfree(kt);
}

/**
 * kt_unaccounted() - bytes that are charged to the store but to no memory cgroup
 * @kt: the only index
 *
 * Return: bytes, also less than 0; in kernels 0.
 */
s64 kt_unaccounted(struct kt *kt)
{
	if (!kt_accounted())
		return 0;
	kt_flush(kt);
	return kvt_quota_bytes(&kt->quota) + atomic_long_read(&kt_value_bytes) - kt_accounted();
}

/**
 * kt_leave() - set the limit so that this much may still be charged
 * @kt: the index
 * @bytes: what is left, with nothing set aside by a CPU
 */
void kt_leave(struct kt *kt, s64 bytes)
{
	WRITE_ONCE(kt->quota.bytes.limit, S64_MAX);
	kvt_quota_charge(&kt->quota, S64_MAX);
	WRITE_ONCE(kt->quota.bytes.limit, kvt_quota_bytes(&kt->quota) + bytes);
}

/*
 * Expect the charge to equal the allocations, for the only index.  A Bw-tree has records
 * that are not charged (bwtree/memory.c).
 */
static void kt_audit(struct kt *kt)
{
	if (kt->ops == &kvt_masstree_ops && atomic_read(&kt_indexes) == 1)
		KUNIT_EXPECT_EQ(kt->test, 0, kt_unaccounted(kt));
}

/* Of all values, only blocks that the engine has made are charged to the limit here. */
static void kt_uncharge(struct kt *kt, u64 bytes)
{
	kvt_quota_uncharge(&kt->quota, bytes);
	kvt_stat_add(&kt->stats, KVTREE_STAT_VALUE_BYTES, -(s64)bytes);
}

/* Destroy the index and expect that nothing of it is left. */
static void kt_release(void *arg)
{
	struct kt *kt = arg;

	synchronize_rcu();
	if (kt->ops->stop)
		kt->ops->stop(kt->index);
	kt_audit(kt);
	kt->ops->destroy(kt->index);
	kt_uncharge(kt, kt_stat(kt, KVTREE_STAT_VALUE_BYTES));
	KUNIT_EXPECT_EQ(kt->test, 0, kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	KUNIT_EXPECT_EQ(kt->test, 0, kt_stat(kt, KVTREE_STAT_LEAF_BYTES));
	KUNIT_EXPECT_EQ(kt->test, 0, kt_stat(kt, KVTREE_STAT_INNER_NODES));
	KUNIT_EXPECT_EQ(kt->test, 0, kt_stat(kt, KVTREE_STAT_INNER_BYTES));
	rcu_barrier();
	if (atomic_dec_and_test(&kt_indexes)) {
		struct kunit *test = kt->test;

		kt_exit(kt);
		KUNIT_EXPECT_EQ_MSG(test, 0, atomic_long_read(&kt_values), "values leaked");
		atomic_long_set(&kt_values, 0);
		return;
	}
	kt_exit(kt);
}

/**
 * kt_open_pages() - make an index, with pages of a given size
 * @test: ends if that fails; frees the index at its end
 * @engine: the engine
 * @limit: bytes that its nodes may take, U64_MAX for any
 *
 * Return: the index.
 */
struct kt *kt_open_pages(struct kunit *test, const struct kt_engine *engine, u64 limit)
{
	const struct kvt_index_ops *ops = engine->ops;
	struct kt *kt = kzalloc(sizeof(*kt), GFP_KERNEL);
	struct kvt_index_env env;

	KUNIT_ASSERT_NOT_NULL(test, kt);
	kt->test = test;
	kt->ops = ops;
	if (!kt_init(kt, limit)) {
		kfree(kt);
		KUNIT_FAIL_AND_ABORT(test, "no memory for an index");
	}
	env = (struct kvt_index_env) {
		.quota = &kt->quota,
		.reclaim = &kt->reclaim,
		.stats = &kt->stats,
		.wq = kt->wq,
		.slow_wq = kt->wq,
		.page_size = engine->page_size,
	};
	kt->index = ops->create(&env);
	if (IS_ERR(kt->index)) {
		int err = PTR_ERR(kt->index);

		kt_exit(kt);
		KUNIT_FAIL_AND_ABORT(test, "create: error %d", err);
	}
	atomic_inc(&kt_indexes);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, kt_release, kt));
	return kt;
}

/**
 * kt_open_engine() - make an index
 * @test: ends if that fails; frees the index at its end
 * @ops: the engine
 * @limit: bytes that its nodes may take, U64_MAX for any
 *
 * Return: the index.
 */
struct kt *kt_open_engine(struct kunit *test, const struct kvt_index_ops *ops, u64 limit)
{
	const struct kt_engine engine = { .ops = ops };

	return kt_open_pages(test, &engine, limit);
}

/**
 * kt_open() - make an index of the engine that is the case's parameter
 * @test: a case of KT_CASE()
 *
 * Return: the index.
 */
struct kt *kt_open(struct kunit *test)
{
	const struct kt_engine *engine = test->param_value;

	return kt_open_pages(test, engine, U64_MAX);
}

/**
 * kt_close() - free an index before the test ends, and look for leaks
 * @kt: the index
 */
void kt_close(struct kt *kt)
{
	kunit_release_action(kt->test, kt_release, kt);
}

/**
 * kt_flush() - wait until what was retired is freed
 * @kt: the index; nobody changes it meanwhile
 */
void kt_flush(struct kt *kt)
{
	while (kvt_reclaim_waiting(&kt->reclaim)) {
		rcu_barrier();
		schedule_timeout_uninterruptible(1);
	}
}

/**
 * kt_settle() - let the engine's worker do all its work
 * @kt: the index; nobody changes it meanwhile
 */
void kt_settle(struct kt *kt)
{
	kt->ops->sweep(kt->index);
	kt_flush(kt);
}

/* Changes */

static void kt_raise_floor(struct kt *kt, u64 version)
{
	s64 floor = atomic64_read(&kt->floor);

	while ((u64)floor < version)
		if (atomic64_try_cmpxchg(&kt->floor, &floor, version + KT_FLOOR_SPARE))
			break;
}

/* Free what a change has not used. */
static void kt_drop(struct kt_change *c)
{
	kvt_bag_put(&c->kt->reclaim, c->bag);
	kt_value_drop(c->value);
}

static int kt_begin(struct kt *kt, struct kt_change *c, const struct kvt_key *key, gfp_t gfp)
{
	int err = -ENOMEM;

	c->kt = kt;
	c->change = (struct kvt_change) {
		.index = kt->index,
		.key = *key,
		.gfp = gfp | __GFP_ACCOUNT,
		.may_insert = c->value,
		.removes = !c->value,
		.wants_cell = c->value && kt->cells != KT_CELLS_NONE,
	};
	c->bag = kvt_bag_get(&kt->reclaim, gfp);
	if (c->bag)
		err = kt->ops->begin(&c->change);
	if (err) {
		kt->ops->finish(&c->change);
		kt_drop(c);
	}
	return err;
}

/**
 * kt_put_begin() - hold the place of a key to give it a new value
 * @kt: the index
 * @c: the change
 * @key: the key, to stay until the change ends
 * @gfp: for value and nodes
 *
 * After 0 one of kt_commit() and kt_abort() must follow, nothing that sleeps
 * between them.
 *
 * Return: 0 or an error of begin().
 */
int kt_put_begin(struct kt *kt, struct kt_change *c, const struct kvt_key *key, gfp_t gfp)
{
	c->value = kt_value_new(key, gfp);
	if (!c->value)
		return -ENOMEM;
	return kt_begin(kt, c, key, gfp);
}

/**
 * kt_del_begin() - hold the place of a key to remove it
 * @kt: the index
 * @c: the change
 * @key: the key, to stay until the change ends
 * @gfp: for nodes, should an engine need some
 *
 * Return: 0, -ENOENT with nothing held, or an error of begin().
 */
int kt_del_begin(struct kt *kt, struct kt_change *c, const struct kvt_key *key, gfp_t gfp)
{
	int err;

	c->value = NULL;
	err = kt_begin(kt, c, key, gfp);
	if (err || c->change.old)
		return err;
	kt_abort(c);
	return -ENOENT;
}

/* Make a value in a cell, which the engine takes; NULL: it should not be one. */
static struct kvt_value *kt_cell_make(const struct kt *kt, const struct kvt_key *key, u64 version,
				      struct kvt_cell *cell)
{
	u64 hash = kt_hash(key, version);

	if (kt->cells == KT_CELLS_NONE || (kt->cells == KT_CELLS_SOME && hash % 4 == 0))
		return NULL;
	if (kt_cell_len(hash) > KVT_CELL_MAX)
		return kvt_cell_init_empty(cell, key->len, version);
	return kvt_cell_init(cell, key->len, kt_cell_len(hash), version, hash);
}

/* The value to commit: sometimes a cell, if the place takes one. */
static struct kvt_value *kt_choose(struct kt_change *c, u64 version)
{
	struct kvt_value *cell = NULL;

	if (c->change.takes_cell)
		cell = kt_cell_make(c->kt, &c->change.key, version, &c->cell);
	return cell ?: c->value;
}

/* Once: -EAGAIN if another writer was first and begin() has to be called again. */
static int kt_try_commit(struct kt_change *c, u64 *version)
{
	struct kvt_value *new = NULL, *old = c->change.old;
	struct kt *kt = c->kt;
	u64 v = old ? old->version : 0;
	int err;

	if (c->value) {
		/* Pairs with kt_raise_floor(): read after what begin() found. */
		v = max_t(u64, v, atomic64_read_acquire(&kt->floor)) + 1;
		new = kt_choose(c, v);
		if (new == c->value)
			kt_value_fill(new, &c->change.key, v);
	} else {
		kt_raise_floor(kt, v);
	}
	/* As by kvt_log_reserve(), until kvt_log_publish(). */
	preempt_disable();
	err = kt->ops->commit(&c->change, new);
	preempt_enable();
	if (err)
		return err;
	if (version)
		*version = v;
	if (kvt_value_has_block(old)) {
		if (kt_was_cell(old))
			kt_uncharge(kt, kvt_value_charge(old));
		kvt_value_retire(&kt->reclaim, c->bag, old, NULL);
		c->bag = NULL;
	}
	if (new == c->value)
		c->value = NULL;
	return 0;
}

/**
 * kt_commit() - end a change with success
 * @c: the change
 * @version: of the new value, or of the one that was removed
 *
 * Return: 0, or an error if an engine that holds no lock had to begin again.
 */
int kt_commit(struct kt_change *c, u64 *version)
{
	struct kt *kt = c->kt;
	int err;

	while ((err = kt_try_commit(c, version)) == -EAGAIN) {
		err = kt->ops->begin(&c->change);
		if (err)
			break;
		if (!c->value && !c->change.old) {
			kt->ops->abort(&c->change);
			err = -ENOENT;
			break;
		}
	}
	kt->ops->finish(&c->change);
	kt_drop(c);
	return err;
}

/**
 * kt_abort() - end a change without changing anything
 * @c: the change
 */
void kt_abort(struct kt_change *c)
{
	c->kt->ops->abort(&c->change);
	c->kt->ops->finish(&c->change);
	kt_drop(c);
}

/**
 * kt_put_gfp() - give a key a new value
 * @kt: the index
 * @key: the key
 * @gfp: for value and nodes
 * @version: set to the new version, or NULL
 *
 * Return: 0, -ENOMEM, -EDQUOT or -EBUSY.
 */
int kt_put_gfp(struct kt *kt, const struct kvt_key *key, gfp_t gfp, u64 *version)
{
	struct kt_change c;
	int err;

	err = kt_put_begin(kt, &c, key, gfp);
	return err ?: kt_commit(&c, version);
}

/**
 * kt_put() - give a key a new value; may sleep
 * @kt: the index
 * @key: the key
 * @version: set to the new version, or NULL
 *
 * Return: 0, -ENOMEM or -EDQUOT.
 */
int kt_put(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	int err;

	err = kvt_reclaim_throttle(&kt->reclaim, true);
	return err ?: kt_put_gfp(kt, key, GFP_KERNEL, version);
}

/* Values for keys that are inserted together. */
struct kt_sorted {
	struct kvt_insert inserts[KT_SORTED_MAX];
	struct kvt_cell cells[KT_SORTED_MAX];
	unsigned int nr;
};

static int kt_sorted_add(struct kt *kt, struct kt_sorted *s, const struct kvt_key *key, u64 version)
{
	struct kvt_insert *insert = &s->inserts[s->nr];

	*insert = (struct kvt_insert) { .key = *key };
	if (kvt_index_may_cell(kt->index, key->len))
		insert->value = kt_cell_make(kt, key, version, &s->cells[s->nr]);
	if (!insert->value) {
		insert->value = kt_value_new(key, GFP_KERNEL);
		if (!insert->value)
			return -ENOMEM;
		kt_value_fill(insert->value, key, version);
	}
	s->nr++;
	return 0;
}

/* Free a value that was not inserted, unless it is a cell. */
static void kt_sorted_drop(const struct kvt_insert *insert)
{
	if (kvt_value_has_block(insert->value))
		kt_value_drop(insert->value);
}

/* As the engine inserts no more of the others, put this key. */
static int kt_sorted_put(struct kt *kt, struct kt_sorted *s, unsigned int i, u64 *version)
{
	const struct kvt_key *key = &s->inserts[i].key;
	struct kt_change c = { .value = kt_value_new(key, GFP_KERNEL) };
	int err = -ENOMEM;

	if (c.value)
		err = kt_begin(kt, &c, key, GFP_KERNEL);
	return err ?: kt_commit(&c, version);
}

static int kt_sorted_run(struct kt *kt, struct kt_sorted *s, unsigned int *done, u64 *versions)
{
	unsigned int n;
	int err;

	while (*done < s->nr) {
		err = kvt_reclaim_throttle(&kt->reclaim, true);
		if (err)
			return err;
		n = kt->ops->insert_sorted(kt->index, &s->inserts[*done], s->nr - *done,
					   GFP_KERNEL | __GFP_ACCOUNT);
		*done += n;
		atomic64_add(n, &kt->sorted);
		if (*done == s->nr)
			break;
		err = kt_sorted_put(kt, s, *done, versions ? &versions[*done] : NULL);
		if (err)
			return err;
		kt_sorted_drop(&s->inserts[(*done)++]);
	}
	return 0;
}

/**
 * kt_insert_sorted() - give keys new values together
 * @kt: the index
 * @keys: the keys, in order
 * @nr: how many, at most KT_SORTED_MAX
 * @versions: set to the new versions, or NULL
 * @done: set to how many keys have one
 *
 * Keys that exist are changed one by one.
 *
 * Return: 0 or -ENOMEM.
 */
int kt_insert_sorted(struct kt *kt, const struct kvt_key *keys, unsigned int nr, u64 *versions,
		     unsigned int *done)
{
	struct kt_sorted *s = kzalloc(sizeof(*s), GFP_KERNEL);
	/* As for a key that begin() has not found. */
	u64 version = atomic64_read_acquire(&kt->floor) + 1;
	int err = s ? 0 : -ENOMEM;
	unsigned int i;

	*done = 0;
	for (i = 0; !err && i < nr; i++) {
		if (versions)
			versions[i] = version;
		err = kt_sorted_add(kt, s, &keys[i], version);
	}
	if (!err)
		err = kt_sorted_run(kt, s, done, versions);
	for (i = *done; s && i < s->nr; i++)
		kt_sorted_drop(&s->inserts[i]);
	kfree(s);
	return err;
}

/**
 * kt_del_gfp() - remove a key
 * @kt: the index
 * @key: the key
 * @gfp: for nodes, should an engine need some
 * @version: set to the version removed, or NULL
 *
 * Return: 0, -ENOENT, -ENOMEM, -EDQUOT or -EBUSY.
 */
int kt_del_gfp(struct kt *kt, const struct kvt_key *key, gfp_t gfp, u64 *version)
{
	struct kt_change c;
	int err;

	err = kt_del_begin(kt, &c, key, gfp);
	return err ?: kt_commit(&c, version);
}

/**
 * kt_del() - remove a key; may sleep
 * @kt: the index
 * @key: the key
 * @version: set to the version removed, or NULL
 *
 * Return: 0 or -ENOENT.
 */
int kt_del(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	int err;

	err = kvt_reclaim_throttle(&kt->reclaim, true);
	return err ?: kt_del_gfp(kt, key, GFP_KERNEL, version);
}

/* Lookups */

/**
 * kt_check() - judge what a lookup returned
 * @value: a value, NULL or an error
 * @key: what was asked for
 * @version: set if it is a value
 *
 * Context: under RCU.
 *
 * Return: 0, -ENOENT, the lookup's error, or -EILSEQ if the value is wrong.
 */
int kt_check(const struct kvt_value *value, const struct kvt_key *key, u64 *version)
{
	if (!value)
		return -ENOENT;
	if (IS_ERR(value))
		return PTR_ERR(value);
	if (!kt_value_ok(value, key))
		return -EILSEQ;
	if (version)
		*version = value->version;
	return 0;
}

/**
 * kt_get_rcu() - look a key up, once
 * @kt: the index
 * @key: the key
 * @version: set to the version found, or NULL
 *
 * Context: any, under RCU.
 *
 * Return: 0, -ENOENT, -EBUSY or -EILSEQ.
 */
int kt_get_rcu(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	struct kvt_cell cell;

	return kt_check(kt->ops->get(kt->index, key, &cell), key, version);
}

/**
 * kt_get() - look a key up, until there is an answer
 * @kt: the index
 * @key: the key
 * @version: set to the version found, or NULL
 *
 * Context: may sleep.
 *
 * Return: 0, -ENOENT or -EILSEQ.
 */
int kt_get(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	int err;

	for (;;) {
		rcu_read_lock();
		err = kt_get_rcu(kt, key, version);
		rcu_read_unlock();
		if (err != -EBUSY)
			return err;
		cond_resched();
	}
}

/**
 * kt_get_prefix_rcu() - look for the longest key that a key begins with, once
 * @kt: the index
 * @key: the key
 * @version: set to the version found, or NULL
 *
 * Context: any, under RCU.
 *
 * Return: bytes of the key found, -ENOENT, -EBUSY or -EILSEQ.
 */
s64 kt_get_prefix_rcu(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	struct kvt_cell cell;
	struct kvt_value *value = kt->ops->get_prefix(kt->index, key, &cell);
	struct kvt_key found = { .data = key->data };
	int err;

	if (!IS_ERR_OR_NULL(value))
		found.len = value->key_len;
	if (found.len > key->len)
		return -EILSEQ;
	err = kt_check(value, &found, version);
	return err ?: (s64)found.len;
}

/**
 * kt_get_prefix() - the same, until there is an answer
 * @kt: the index
 * @key: the key
 * @version: set to the version found, or NULL
 *
 * Context: may sleep.
 *
 * Return: bytes of the key found, -ENOENT or -EILSEQ.
 */
s64 kt_get_prefix(struct kt *kt, const struct kvt_key *key, u64 *version)
{
	s64 ret;

	for (;;) {
		rcu_read_lock();
		ret = kt_get_prefix_rcu(kt, key, version);
		rcu_read_unlock();
		if (ret != -EBUSY)
			return ret;
		cond_resched();
	}
}

/* Iteration */

/* Records that are asked for at once. */
#define KT_RUN		12u

/**
 * kt_cursor_init() - make a cursor, in front of the first key
 * @kt: the index
 * @cur: the cursor
 *
 * Return: 0 or -ENOMEM.
 */
int kt_cursor_init(struct kt *kt, struct kt_cursor *cur)
{
	const struct kvt_key first = { .data = NULL, .len = 0 };

	cur->kt = kt;
	cur->iter = kzalloc(kt->ops->iter_size, GFP_KERNEL);
	if (!cur->iter)
		return -ENOMEM;
	cur->iter->index = kt->index;
	kt_cursor_set(cur, &first, KVT_AT, false);
	return 0;
}

/**
 * kt_cursor_exit() - free what kt_cursor_init() allocated
 * @cur: the cursor
 */
void kt_cursor_exit(struct kt_cursor *cur)
{
	kfree(cur->iter);
}

/**
 * kt_cursor_set() - set the position of a cursor
 * @cur: the cursor
 * @key: relative to this key
 * @bound: what of it is still to come
 * @reverse: direction
 */
void kt_cursor_set(struct kt_cursor *cur, const struct kvt_key *key, enum kvt_bound bound,
		   bool reverse)
{
	cur->iter->reverse = reverse;
	cur->iter->bound = bound;
	cur->iter->len = key->len;
	if (key->len)
		memcpy(cur->iter->key, key->data, key->len);
	cur->kt->ops->iter_rest(cur->iter);
}

/**
 * kt_cursor_next_rcu() - the next record, if it takes bounded work
 * @cur: the cursor; its key becomes the record's
 *
 * Context: under RCU.
 *
 * Return: 0, -ENOENT at the end, -EAGAIN, -EBUSY or -EILSEQ.
 */
int kt_cursor_next_rcu(struct kt_cursor *cur)
{
	const struct kvt_value *value = kvt_iter_one(cur->iter);
	const struct kvt_key key = kt_cursor_key(cur);

	return kt_check(value, &key, &cur->version);
}

static int kt_first(struct kt_cursor *cur, void *arg)
{
	return 1;
}

/**
 * kt_cursor_next() - the next record
 * @cur: the cursor; its key becomes the record's
 *
 * Context: may sleep.
 *
 * Return: 0, -ENOENT at the end, or -EILSEQ.
 */
int kt_cursor_next(struct kt_cursor *cur)
{
	int ret = kt_scan(cur, 1, kt_first, NULL);

	if (ret == 1)
		return 0;
	return ret ?: -ENOENT;
}

/* Is the iterator's position the key of a pair? */
static bool kt_is_at(const struct kvt_iter *iter, const struct kvt_pair *pair)
{
	u32 len = pair->value->key_len, at = 0;
	bool cell = kvt_value_is_cell(pair->value);
	u8 head[KVT_KEY_HEAD];

	if (cell && len)
		at = (len - 1) / KVT_KEY_HEAD * KVT_KEY_HEAD;
	put_unaligned_be64(pair->head, head);
	return iter->len == len && !memcmp(iter->key + at, head, min(len - at, KVT_KEY_HEAD)) &&
	       (len <= KVT_KEY_HEAD || cell ||
		!memcmp(iter->key + KVT_KEY_HEAD, kvt_value_suffix(pair->value, KVT_KEY_HEAD),
			len - KVT_KEY_HEAD));
}

/* Some records at once.  *left: how many are still wanted. */
static int kt_run(struct kt_cursor *cur, unsigned int *left, kt_record_fn fn, void *arg)
{
	struct kvt_pair pairs[KT_RUN];
	struct kvt_iter *iter = cur->iter;
	struct kvt_key key;
	int i, nr, max = min(*left, KT_RUN), err = 0;

	nr = cur->kt->ops->iter_next(iter, pairs, max);
	if (nr <= 0)
		return nr ?: -ENOENT;
	if (nr > max || !kt_is_at(iter, &pairs[nr - 1]))
		return -EILSEQ;
	*left -= nr;
	for (i = 0; i < nr && !err; i++) {
		iter->len = kvt_pair_key(iter, &pairs[i], iter->key);
		key = kt_cursor_key(cur);
		err = kt_check(pairs[i].value, &key, &cur->version) ?: fn(cur, arg);
	}
	return err;
}

/**
 * kt_scan() - call a function for each record from the cursor's position on
 * @cur: the cursor
 * @burst: records per RCU read section
 * @fn: called under RCU; what it returns, if not 0, ends the scan
 * @arg: for it
 *
 * Context: may sleep.
 *
 * Return: 0 at the end, what @fn returned, or -EILSEQ.
 */
int kt_scan(struct kt_cursor *cur, unsigned int burst, kt_record_fn fn, void *arg)
{
	struct kvt_iter *iter = cur->iter;
	int err;

	do {
		unsigned int left = burst;

		rcu_read_lock();
		do {
			err = kt_run(cur, &left, fn, arg);
		} while (!err && left);
		cur->kt->ops->iter_rest(iter);
		rcu_read_unlock();
		cond_resched();
	} while (!err || err == -EAGAIN || err == -EBUSY);
	return err == -ENOENT ? 0 : err;
}

struct kt_counter {
	struct kvt_key last;
	u8 key[KVTREE_KEY_MAX];
	bool reverse;
	s64 nr;
};

static int kt_count_one(struct kt_cursor *cur, void *arg)
{
	struct kt_counter *counter = arg;
	const struct kvt_key key = kt_cursor_key(cur);
	int cmp = counter->nr ? kt_key_cmp(&counter->last, &key) : -1;

	if (counter->nr && (counter->reverse ? cmp <= 0 : cmp >= 0))
		return -EBADMSG;
	memcpy(counter->key, key.data, key.len);
	counter->last.len = key.len;
	counter->nr++;
	return 0;
}

/**
 * kt_count() - scan the whole index
 * @kt: the index
 * @reverse: from the end
 *
 * Return: the number of records, -EBADMSG if they do not come in order,
 * -EILSEQ if one is wrong, or -ENOMEM.
 */
s64 kt_count(struct kt *kt, bool reverse)
{
	struct kt_counter *counter = kzalloc(sizeof(*counter), GFP_KERNEL);
	const struct kvt_key empty = { };
	struct kt_cursor cur;
	s64 ret = -ENOMEM;

	if (!counter || kt_cursor_init(kt, &cur))
		goto out;
	counter->last.data = counter->key;
	counter->reverse = reverse;
	kt_cursor_set(&cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	ret = kt_scan(&cur, 20, kt_count_one, counter) ?: counter->nr;
	kt_cursor_exit(&cur);
out:
	kfree(counter);
	return ret;
}

/**
 * kt_key_cmp() - compare two keys as the index orders them
 * @a: one
 * @b: the other
 *
 * Return: less than, equal to or greater than 0.
 */
int kt_key_cmp(const struct kvt_key *a, const struct kvt_key *b)
{
	u32 common = min(a->len, b->len);
	int diff = common ? memcmp(a->data, b->data, common) : 0;

	return diff ?: (int)a->len - (int)b->len;
}

/* Hooks */

/**
 * kt_pause_holding() - let a hook act as another thread, with preemption on
 *
 * The shim of the user lane ends a program that allocates while preemption is off.
 *
 * Return: for kt_go_on_holding().
 */
int kt_pause_holding(void)
{
#ifdef SHIM_PREEMPT_H
	return xchg(&current->preempt_count, 0);
#else
	return 0;
#endif
}

/**
 * kt_go_on_holding() - undo kt_pause_holding()
 * @held: what kt_pause_holding() returned
 */
void kt_go_on_holding(int held)
{
#ifdef SHIM_PREEMPT_H
	current->preempt_count = held;
#endif
}

/* Fault injection */

#ifdef CONFIG_FAILSLAB

/* The files can be written from user space only. */
static int kt_set_failslab(const char *wait, const char *verbose)
{
	char command[] =
		"cd /sys/kernel/debug/failslab && echo $0 >ignore-gfp-wait && echo $1 >verbose";
	char *argv[6] = { "/bin/sh", "-c", command, (char *)wait, (char *)verbose, NULL };
	char *envp[2] = { "PATH=/bin:/usr/bin", NULL };

	return call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC) ? -EIO : 0;
}

/**
 * kt_failing_begin() - let GFP_KERNEL allocations fail, without messages, from now on
 * @suite: the suite; its cases set current->fail_nth
 *
 * Return: 0 or -EIO.
 */
int kt_failing_begin(struct kunit_suite *suite)
{
	return kt_set_failslab("N", "0");
}

/**
 * kt_failing_end() - undo kt_failing_begin()
 * @suite: the suite, after its last case
 */
void kt_failing_end(struct kunit_suite *suite)
{
	kt_set_failslab("Y", "2");
}

#endif /* CONFIG_FAILSLAB */

/* Random numbers */

static ulong seed = 20120410;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of the random numbers of all tests");

/**
 * kt_rnd() - a sequence of random numbers
 * @test: the case; the seed is printed in its log
 *
 * Return: its state at the beginning, the same for each case.
 */
struct kt_rnd kt_rnd(struct kunit *test)
{
	kunit_info(test, "seed=%lu", seed);
	return (struct kt_rnd) { .state = seed };
}

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit suites of kvtree");
KVT_IMPORT();
KVT_IMPORT_FOR_TESTS();
