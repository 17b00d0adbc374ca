// SPDX-License-Identifier: GPL-2.0
/*
 * The index with value blocks, without a store around it: what stands between
 * an operation's validation and its result.
 */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../../../kmod/index.h"
#include "../../../kmod/quota.h"
#include "../../../kmod/reclaim.h"
#include "../../../kmod/stats.h"
#include "../../../kmod/value.h"
#include "arena.h"
#include "subject.h"

static const struct kvt_index_ops *const ops = &kvt_masstree_ops;
static struct kvt_index *kv_index;
static struct kvt_index_env env;
static struct kvt_quota quota;
static struct kvt_stats stats;
static struct kvt_reclaim reclaim;
static struct kvt_iter *iter;
static u64 version;
static u64 value_bytes;

static void make_index(void)
{
	kv_index = ops->create(&env);
	BUG_ON(IS_ERR(kv_index));
	iter->index = kv_index;
}

static void kv_init(const struct subject *s)
{
	arena_init(!s->small_pages);
	BUG_ON(kvt_masstree_init());
	env = (struct kvt_index_env) {
		.quota = &quota,
		.reclaim = &reclaim,
		.stats = &stats,
		.wq = alloc_workqueue("kvt_bench", 0, 0),
	};
	BUG_ON(!env.wq || kvt_stats_init(&stats) || kvt_quota_init(&quota, U64_MAX, U64_MAX) ||
	       kvt_reclaim_init(&reclaim, env.wq, &stats, 64 << 20));
	kvt_value_setup_reclaim(&reclaim);
	iter = kzalloc(ops->iter_size, GFP_KERNEL);
	make_index();
}

static void kv_clear(void)
{
	synchronize_rcu();
	ops->destroy(kv_index);
	value_bytes = 0;
	make_index();
}

static void kv_insert(struct bench_key_ref key, uint64_t value)
{
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvt_change change = {
		.index = kv_index,
		.key = { key.data, key.len },
		.gfp = GFP_KERNEL,
		.may_insert = true,
	};
	struct kvt_value *v;
	u8 *data;

	v = kvt_value_alloc_whole(&mem, &change.key, sizeof(value), &data);
	memcpy(data, &value, sizeof(value));
	value_bytes += kvt_value_charge(v);
	BUG_ON(ops->begin(&change));
	v->version = change.old ? change.old->version + 1 : ++version;
	BUG_ON(ops->commit(&change, v));
	if (change.old) {
		value_bytes -= kvt_value_charge(change.old);
		kvt_value_retire(&reclaim, change.old, NULL);
	}
	ops->finish(&change);
}

/* What a get returns. */
static u64 copied_version;

static inline bool copy_out(const struct kvt_value *v, uint64_t *value)
{
	struct kvt_column col;

	if (IS_ERR_OR_NULL(v))
		return false;
	kvt_value_column(v, 0, &col);
	memcpy(value, col.data, sizeof(*value));
	WRITE_ONCE(copied_version, v->version);
	return true;
}

static bool kv_get(struct bench_key_ref key, uint64_t *value)
{
	const struct kvt_key k = { key.data, key.len };
	bool found;

	rcu_read_lock();
	found = copy_out(ops->get(kv_index, &k), value);
	rcu_read_unlock();
	return found;
}

static unsigned int kv_get_batch(const struct bench_key_ref *keys, uint64_t *values)
{
	struct kvt_lookup lookups[BATCH];
	unsigned int i, found = 0;

	for (i = 0; i < BATCH; i++)
		lookups[i].key = (struct kvt_key) { keys[i].data, keys[i].len };
	rcu_read_lock();
	ops->get_batch(kv_index, lookups, BATCH);
	for (i = 0; i < BATCH; i++)
		found += copy_out(lookups[i].value, &values[i]);
	rcu_read_unlock();
	return found;
}

static unsigned int kv_scan(struct bench_key_ref key, unsigned int nr)
{
	static u8 to[64];
	uint64_t value;
	unsigned int i;

	iter->reverse = false;
	iter->bound = KVT_AT;
	iter->len = key.len;
	memcpy(iter->key, key.data, key.len);
	ops->iter_rest(iter);
	rcu_read_lock();
	for (i = 0; i < nr; i++) {
		if (!copy_out(ops->iter_next(iter), &value))
			break;
		memcpy(to, iter->key, min_t(u32, iter->len, sizeof(to)));
		barrier();
	}
	rcu_read_unlock();
	return i;
}

static void kv_memory(struct bench_memory *m)
{
	m->nodes = kvt_stats_read(&stats, KVTREE_STAT_LEAF_BYTES) +
		   kvt_stats_read(&stats, KVTREE_STAT_INNER_BYTES);
	m->values = value_bytes;
	m->all = arena_bytes();
	m->slack = m->all - m->nodes - m->values;
}

static void kv_pause(void)
{
	cond_resched();
}

static void kv_idle(bool idle)
{
	if (idle)
		shim_rcu_offline();
	else
		shim_rcu_online();
}

#define SUBJECT_KVTREE							\
	.init = kv_init, .clear = kv_clear, .insert = kv_insert, .get = kv_get, \
	.get_batch = kv_get_batch, .scan = kv_scan, .memory = kv_memory,	\
	.pause = kv_pause, .idle = kv_idle

const struct subject subject_kvtree = { .name = "kvtree", SUBJECT_KVTREE };
const struct subject subject_kvtree_4k = {
	.name = "kvtree_4k", .small_pages = true, SUBJECT_KVTREE
};
