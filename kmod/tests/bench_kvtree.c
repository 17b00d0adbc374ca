// SPDX-License-Identifier: GPL-2.0
/* The index with value blocks, as a store uses it. */
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/unaligned.h>
#include <linux/workqueue.h>

#include "base/index.h"
#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "base/value.h"
#include "bench.h"
#include "compat.h"
#include "value.h"

#define WAITING_MAX	(64 << 20)

static const struct kvt_index_ops *const ops = &kvt_masstree_ops;

static struct {
	struct kvt_index *index;
	struct kvt_stats stats;
	struct kvt_quota quota;
	struct kvt_reclaim reclaim;
	struct workqueue_struct *wq;
} kv;

static int kv_lend(struct kvt_index_env *env)
{
	int err = kvt_stats_init(&kv.stats);

	if (err)
		return err;
	err = kvt_quota_init(&kv.quota, U64_MAX, U64_MAX);
	if (err)
		goto no_quota;
	err = kvt_reclaim_init(&kv.reclaim, kv.wq, &kv.stats, WAITING_MAX);
	if (err)
		goto no_reclaim;
	kvt_value_setup_reclaim(&kv.reclaim);
	*env = (struct kvt_index_env) {
		.quota = &kv.quota, .reclaim = &kv.reclaim, .stats = &kv.stats, .wq = kv.wq,
		.slow_wq = kv.wq,
	};
	return 0;

no_reclaim:
	kvt_quota_exit(&kv.quota);
no_quota:
	kvt_stats_exit(&kv.stats);
	return err;
}

static void kv_take_back(void)
{
	kvt_reclaim_exit(&kv.reclaim);
	kvt_quota_exit(&kv.quota);
	kvt_stats_exit(&kv.stats);
	destroy_workqueue(kv.wq);
}

static int kv_open(void)
{
	struct kvt_index_env env;
	int err;

	kv.wq = alloc_workqueue("kvt_bench", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!kv.wq)
		return -ENOMEM;
	err = kv_lend(&env);
	if (err) {
		destroy_workqueue(kv.wq);
		return err;
	}
	kv.index = ops->create(&env);
	if (!IS_ERR(kv.index))
		return 0;
	kv_take_back();
	return PTR_ERR(kv.index);
}

static void kv_close(void)
{
	synchronize_rcu();
	ops->destroy(kv.index);
	rcu_barrier();
	kv_take_back();
}

/* Hold the place of a key, and have a bag for its old value. */
static int kv_begin(struct kvt_change *change, struct kvt_bag **bag)
{
	int err = ops->begin(change);

	if (err || !kvt_value_has_block(change->old))
		return err;
	*bag = kvt_bag_take(&kv.reclaim);
	if (likely(*bag))
		return 0;
	ops->abort(change);
	*bag = kvt_bag_new(GFP_KERNEL);
	/* Nothing is removed meanwhile. */
	return ops->begin(change);
}

static int kv_write(const struct kvt_key *key, const void *data, u32 len)
{
	struct kvt_change change = {
		.index = kv.index, .key = *key, .gfp = GFP_KERNEL, .may_insert = true,
	};
	const struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvt_bag *bag = NULL;
	struct kvt_cell cell;
	struct kvt_value *v;
	u8 *to;
	int err;

	v = kvt_value_make_whole(&mem, key, len, &to, &cell);
	if (!v)
		return -ENOMEM;
	memcpy(to, data, len);
	change.wants_cell = kvt_value_is_cell(v);
	err = kvt_reclaim_throttle(&kv.reclaim, true);
	if (!err)
		err = kv_begin(&change, &bag);
	if (err) {
		kvt_bag_put(&kv.reclaim, bag);
		kvt_value_free(v);
		return err;
	}
	v->version = change.old ? change.old->version + 1 : 1;
	/* All keys are so short, or none: all leaves take cells. */
	if (WARN_ON(kvt_value_is_cell(v) && !change.takes_cell)) {
		ops->abort(&change);
		ops->finish(&change);
		kvt_bag_put(&kv.reclaim, bag);
		return -EOPNOTSUPP;
	}
	/* An engine with locks has no other result. */
	WARN_ON(ops->commit(&change, v));
	if (kvt_value_has_block(change.old))
		kvt_value_retire(&kv.reclaim, bag, change.old, NULL);
	ops->finish(&change);
	return 0;
}

static int kv_put(u64 number, u64 value)
{
	u8 bytes[8];
	const struct kvt_key key = { bytes, sizeof(bytes) };

	put_unaligned_be64(number, bytes);
	return kv_write(&key, &value, sizeof(value));
}

static bool kv_get(u64 number, struct bench_found *found)
{
	const struct kvt_value *v;
	const u8 *data;
	u8 bytes[8];
	const struct kvt_key key = { bytes, sizeof(bytes) };
	struct kvt_cell cell;
	u32 len;

	put_unaligned_be64(number, bytes);
	rcu_read_lock();
	v = ops->get(kv.index, &key, &cell);
	if (!IS_ERR_OR_NULL(v)) {
		data = kvt_value_plain_data(v, &len);
		found->value = get_unaligned((const u64 *)data);
		found->version = v->version;
	}
	rcu_read_unlock();
	return !IS_ERR_OR_NULL(v);
}

static int kv_put_name(const u8 *name, const u8 *data)
{
	const struct kvt_key key = { name, BENCH_NAME_LEN };

	return kv_write(&key, data, BENCH_NAME_DATA);
}

const struct bench_map bench_kvtree = {
	.name = "kvtree", .open = kv_open, .close = kv_close, .put = kv_put, .get = kv_get,
};

/* A reader keeps seeing the value that it has found. */
static int kv_hold(const u8 *name, u64 ns)
{
	const struct kvt_key key = { name, BENCH_NAME_LEN };
	u64 version, until = ktime_get_ns() + ns;
	u8 data[BENCH_NAME_DATA];
	const struct kvt_value *v;
	struct kvt_cell cell;
	u32 len;
	int err;

	rcu_read_lock();
	v = ops->get(kv.index, &key, &cell);
	err = PTR_ERR_OR_ZERO(v) ?: v ? 0 : -ENOENT;
	if (!err) {
		version = v->version;
		memcpy(data, kvt_value_plain_data(v, &len), sizeof(data));
		while (ktime_get_ns() < until)
			cpu_relax();
		if (v->version != version ||
		    memcmp(data, kvt_value_plain_data(v, &len), sizeof(data)))
			err = -EILSEQ;
	}
	rcu_read_unlock();
	return err;
}

static u64 kv_waiting_max(void)
{
	return kvt_reclaim_waiting_max(&kv.reclaim);
}

const struct bench_names bench_names_kvtree = {
	.name = "kvtree", .open = kv_open, .close = kv_close, .put = kv_put_name,
	.hold = kv_hold, .waiting_max = kv_waiting_max, .waiting_bound = WAITING_MAX,
};
