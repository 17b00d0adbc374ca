// SPDX-License-Identifier: GPL-2.0
/*
 * The index with value blocks, without a store around it: the part of an operation between
 * its validation and its result.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../../../kmod/base/index.h"
#include "../../../kmod/base/merge.h"
#include "../../../kmod/base/quota.h"
#include "../../../kmod/base/reclaim.h"
#include "../../../kmod/base/stats.h"
#include "../../../kmod/base/value.h"
#include "arena.h"
#include "memory.h"
#include "subject.h"

static const struct kvt_index_ops *ops = &kvt_masstree_ops;
static const struct bench_config *config;
static struct kvt_index_env env;

static struct kvt_index *kv_index;

static struct kvt_quota quota;
static struct kvt_stats stats;
static struct kvt_reclaim reclaim;

/* A thread's own state. */
static __thread struct kvt_iter *iter;
static __thread u64 version;
/* Bytes of the values allocated by this thread, minus those it retired. */
static __thread s64 value_bytes;
static s64 all_value_bytes;

static void make_index(void)
{
	kv_index = ops->create(&env);
	BUG_ON(IS_ERR(kv_index));
}

static void kv_init(const struct bench_config *c)
{
	config = c;
	memory_pages(c->small_pages);
	arena_init(!c->small_pages);
	BUG_ON(kvt_mem_init() || kvt_masstree_init());
	env = (struct kvt_index_env) {
		.quota = &quota,
		.reclaim = &reclaim,
		.stats = &stats,
		.wq = alloc_workqueue("kvt_bench", 0, 0),
	};
	env.slow_wq = env.wq;
	BUG_ON(!env.wq || kvt_stats_init(&stats) || kvt_quota_init(&quota, U64_MAX, U64_MAX) ||
	       kvt_reclaim_init(&reclaim, env.wq, &stats, 64 << 20));
	kvt_value_setup_reclaim(&reclaim);
	make_index();
	shim_rcu_offline();
}

static void bw_init(const struct bench_config *c)
{
	ops = &kvt_bwtree_ops;
	kv_init(c);
}

static void kv_enter(void)
{
	shim_thread_begin();
	iter = kzalloc(ops->iter_size, GFP_KERNEL);
	BUG_ON(!iter);
	shim_rcu_offline();
}

static void kv_begin(void)
{
	shim_rcu_online();
}

static void kv_end(void)
{
	shim_rcu_offline();
	__atomic_fetch_add(&all_value_bytes, value_bytes, __ATOMIC_RELAXED);
	value_bytes = 0;
}

static void kv_clear(void)
{
	shim_rcu_online();
	synchronize_rcu();
	ops->destroy(kv_index);
	all_value_bytes = 0;
	make_index();
	shim_rcu_offline();
}

static struct kvt_value *new_number(const struct kvt_mem *mem, const struct kvt_key *key,
				    const union bench_value *value, struct kvt_cell *cell)
{
	struct kvt_value *v;
	u8 *data;

	v = kvt_value_make_whole(mem, key, config->value_len ?: sizeof(value->number), &data,
				 kvt_index_may_cell(kv_index, key->len) ? cell : NULL);
	BUG_ON(!v);
	if (config->value_len)
		memset(data, 'v', config->value_len);
	memcpy(data, &value->number, sizeof(value->number));
	return v;
}

static struct kvt_column edit(const union bench_value *value, unsigned int column)
{
	return (struct kvt_column) {
		.id = column,
		.len = sizeof(value->column[0]),
		.data = (const u8 *)&value->column[column],
	};
}

/* Every value with all columns has this size. */
static struct kvt_value *new_columns(const struct kvt_mem *mem, const struct kvt_key *key,
				     const union bench_value *value)
{
	struct kvt_column edits[BENCH_COLS];
	struct kvt_merge merge = { .edits = edits, .nr = BENCH_COLS, .key_len = key->len };
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
	struct kvt_value *v;
	unsigned int i;

	for (i = 0; i < BENCH_COLS; i++)
		edits[i] = edit(value, i);
	BUG_ON(kvt_merge_plan(&merge));
	v = kvt_value_alloc(mem, key, merge.size);
	BUG_ON(!v);
	kvt_merge_fill(&merge, v, kept);
	return v;
}

/* Lock the place of a key, and prepare a bag for its old value, if any. */
static struct kvt_bag *begin(struct kvt_change *change)
{
	struct kvt_bag *bag;

	BUG_ON(ops->begin(change));
	if (!kvt_value_has_block(change->old))
		return NULL;
	bag = kvt_bag_take(&reclaim);
	if (likely(bag))
		return bag;
	ops->abort(change);
	bag = kvt_bag_new(GFP_KERNEL);
	BUG_ON(ops->begin(change));
	return bag;
}

/* Returns false if another thread was first: begin() must be called again. */
static bool commit(struct kvt_change *change, struct kvt_bag *bag, struct kvt_value *v)
{
	bool done;

	if (v)
		v->version = change->old ? change->old->version + 1 : ++version;
	done = !ops->commit(change, v);
	if (done && v)
		value_bytes += kvt_value_charge(v);
	if (done && change->old)
		value_bytes -= kvt_value_charge(change->old);
	if (done && kvt_value_has_block(change->old))
		kvt_value_retire(&reclaim, bag, change->old, NULL);
	else
		kvt_bag_put(&reclaim, bag);
	return done;
}

static void kv_put(struct bench_key_ref key, const union bench_value *value)
{
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvt_change change = {
		.index = kv_index,
		.key = { key.data, key.len },
		.gfp = GFP_KERNEL,
		.may_insert = true,
	};
	struct kvt_value *v, *placed;
	struct kvt_cell cell;
	struct kvt_bag *bag;

	v = config->wide ? new_columns(&mem, &change.key, value) :
			   new_number(&mem, &change.key, value, &cell);
	change.wants_cell = kvt_value_fits_cell(v);
	do {
		bag = begin(&change);
		placed = kvt_value_placed(&change, v, &cell);
		if (unlikely(!placed)) {
			ops->abort(&change);
			kvt_bag_put(&reclaim, bag);
			v = kvt_value_of_cell(&mem, &change.key, v);
			BUG_ON(!v);
			bag = begin(&change);
			placed = kvt_value_placed(&change, v, &cell);
		}
	} while (!commit(&change, bag, placed));
	if (placed != v)
		kvt_value_free_shell(v);
	ops->finish(&change);
}

/* Copies the other columns while the key's place is locked. */
static bool kv_put_column(struct bench_key_ref key, unsigned int column, uint32_t to)
{
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvt_change change = {
		.index = kv_index,
		.key = { key.data, key.len },
		.gfp = GFP_KERNEL,
	};
	struct kvt_column one = { .id = column, .len = sizeof(to), .data = (const u8 *)&to };
	struct kvt_merge merge = { .edits = &one, .nr = 1, .key_len = key.len };
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
	struct kvt_bag *bag;
	struct kvt_value *v;
	bool found;

	v = kvt_value_alloc(&mem, &change.key, kvt_value_head_size(key.len) +
			    BENCH_COLS * (KVT_VALUE_ENTRY + sizeof(to)));
	BUG_ON(!v);
	do {
		bag = begin(&change);
		found = change.old;
		if (!found) {
			ops->abort(&change);
			kvt_bag_put(&reclaim, bag);
			kvt_value_free(v);
			break;
		}
		merge.old = change.old;
		BUG_ON(kvt_merge_plan(&merge) || merge.size > v->size);
		kvt_merge_fill(&merge, v, kept);
	} while (!commit(&change, bag, v));
	ops->finish(&change);
	return found;
}

static bool kv_remove(struct bench_key_ref key)
{
	struct kvt_change change = {
		.index = kv_index,
		.key = { key.data, key.len },
		.gfp = GFP_KERNEL,
	};
	struct kvt_bag *bag;
	bool found;

	do {
		bag = begin(&change);
		found = change.old;
		if (!found) {
			ops->abort(&change);
			kvt_bag_put(&reclaim, bag);
			break;
		}
	} while (!commit(&change, bag, NULL));
	ops->finish(&change);
	return found;
}

/* A get also returns the version. */
static __thread u64 copied_version;

static inline bool copy_number(const struct kvt_value *v, uint64_t *number)
{
	u32 len;

	if (IS_ERR_OR_NULL(v))
		return false;
	/* The only column, and too short to be a blob. */
	memcpy(number, kvt_value_plain_data(v, &len), sizeof(*number));
	WRITE_ONCE(copied_version, v->version);
	return true;
}

static inline bool copy_long(const struct kvt_value *v, uint64_t *number)
{
	static __thread u8 copy[BENCH_VALUE_MAX];
	struct kvt_column col;

	if (!copy_number(v, number))
		return false;
	kvt_value_column(v, 0, &col);
	memcpy(copy, col.data, min_t(size_t, col.len, sizeof(copy)));
	asm volatile("" : : "r" (copy) : "memory");
	return true;
}

static bool copy_columns(const struct kvt_value *v, union bench_value *value)
{
	struct kvt_column col;
	unsigned int i;

	if (IS_ERR_OR_NULL(v) || kvt_value_ncols(v) != BENCH_COLS)
		return false;
	for (i = 0; i < BENCH_COLS; i++) {
		kvt_value_column(v, i, &col);
		memcpy(&value->column[i], col.data, sizeof(value->column[i]));
	}
	WRITE_ONCE(copied_version, v->version);
	return true;
}

static bool copy_first(const struct kvt_value *v, uint64_t *to)
{
	struct kvt_column col;

	if (IS_ERR_OR_NULL(v))
		return false;
	kvt_value_column(v, 0, &col);
	*to = 0;
	memcpy(to, col.data, sizeof(u32));
	WRITE_ONCE(copied_version, v->version);
	return true;
}

static bool kv_get(struct bench_key_ref key, union bench_value *value)
{
	const struct kvt_key k = { key.data, key.len };
	const struct kvt_value *v;
	struct kvt_cell cell;
	bool found;

	rcu_read_lock();
	v = ops->get(kv_index, &k, &cell);
	if (config->wide)
		found = copy_columns(v, value);
	else if (config->value_len)
		found = copy_long(v, &value->number);
	else
		found = copy_number(v, &value->number);
	rcu_read_unlock();
	return found;
}

/* Without cells, only fetch.  Under rcu_read_lock(). */
static void look_up_batch(const struct bench_key_ref *keys, struct kvt_lookup *lookups,
			  struct kvt_cell *cells)
{
	unsigned int i;

	for (i = 0; i < BATCH; i++)
		lookups[i].key = (struct kvt_key) { keys[i].data, keys[i].len };
	ops->get_batch(kv_index, lookups, cells, BATCH);
}

static unsigned int kv_get_batch(const struct bench_key_ref *keys, uint64_t *values)
{
	struct kvt_lookup lookups[BATCH];
	struct kvt_cell cells[BATCH];
	unsigned int i, found = 0;

	rcu_read_lock();
	look_up_batch(keys, lookups, cells);
	for (i = 0; i < BATCH; i++)
		found += copy_number(lookups[i].value, &values[i]);
	rcu_read_unlock();
	return found;
}

/* As the device does it: it looks the keys up together, and then makes one change after another. */
static void kv_put_batch(const struct bench_key_ref *keys, const union bench_value *values)
{
	struct kvt_lookup lookups[BATCH];
	unsigned int i;

	rcu_read_lock();
	look_up_batch(keys, lookups, NULL);
	rcu_read_unlock();
	for (i = 0; i < BATCH; i++)
		kv_put(keys[i], &values[i]);
}

/* Pairs requested at once. */
#define RUN		16

static int next(struct kvt_pair *pairs, unsigned int max)
{
	int nr;

	/* Too much work without a result: repeat, as a store does. */
	while (nr = ops->iter_next(iter, pairs, max), unlikely(nr < 0)) {
		rcu_read_unlock();
		ops->iter_rest(iter);
		rcu_read_lock();
	}
	return nr;
}

static unsigned int kv_scan(struct bench_key_ref key, unsigned int nr, struct bench_scan *out)
{
	struct kvt_pair pairs[RUN];
	unsigned int i = 0;
	int j, some;

	iter->index = kv_index;
	iter->reverse = false;
	iter->bound = KVT_AT;
	iter->want = nr;
	iter->len = key.len;
	memcpy(iter->key, key.data, key.len);
	ops->iter_rest(iter);
	rcu_read_lock();
	while (i < nr && (some = next(pairs, min(nr - i, RUN)))) {
		for (j = 0; j < some; j++, i++) {
			const struct kvt_value *v = pairs[j].value;

			if (config->wide)
				copy_first(v, &out->value[i]);
			else
				copy_number(v, &out->value[i]);
			out->len[i] = kvt_pair_key(iter, &pairs[j], out->key[i]);
		}
	}
	rcu_read_unlock();
	return i;
}

static void kv_memory(struct bench_memory *m)
{
	m->nodes = kvt_stats_read(&stats, KVTREE_STAT_LEAF_BYTES) +
		   kvt_stats_read(&stats, KVTREE_STAT_INNER_BYTES);
	m->values = all_value_bytes;
	m->all = arena_bytes();
	m->slack = m->all - m->nodes - m->values;
}

/* The engine's counter with a name; 0 if it has none. */
static u64 engine_count(const char *name)
{
	unsigned int i;

	for (i = 0; i < ops->nr_stats; i++)
		if (!strcmp(ops->stats[i].name, name))
			return kvt_stats_read(&stats, KVT_STAT_ENGINE + i);
	return 0;
}

static void bw_swaps(struct bench_swaps *s)
{
	s->made[SWAP_UPDATE] = engine_count("bw_update");
	s->lost[SWAP_UPDATE] = engine_count("bw_update_fail");
	s->made[SWAP_CONSOLIDATE] = engine_count("bw_consolidate");
	s->lost[SWAP_CONSOLIDATE] = engine_count("bw_consolidate_fail");
	s->made[SWAP_SPLIT] = engine_count("bw_split");
	s->lost[SWAP_SPLIT] = engine_count("bw_split_fail");
	s->made[SWAP_POST] = engine_count("bw_post");
	s->lost[SWAP_POST] = engine_count("bw_post_fail");
}

const struct subject subject_kvtree = {
	.name = "kvtree", .init = kv_init, .enter = kv_enter, .begin = kv_begin, .end = kv_end,
	.pause = cond_resched, .clear = kv_clear, .memory = kv_memory, .put = kv_put,
	.get = kv_get, .get_batch = kv_get_batch, .scan = kv_scan, .remove = kv_remove,
	.put_batch = kv_put_batch, .put_column = kv_put_column, .long_values = true,
};

const struct subject subject_bwtree = {
	.name = "bwtree", .init = bw_init, .enter = kv_enter, .begin = kv_begin, .end = kv_end,
	.swaps = bw_swaps,
	.pause = cond_resched, .clear = kv_clear, .memory = kv_memory, .put = kv_put,
	.get = kv_get, .get_batch = kv_get_batch, .scan = kv_scan, .remove = kv_remove,
	.put_batch = kv_put_batch, .put_column = kv_put_column, .long_values = true,
};
