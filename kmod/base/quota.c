// SPDX-License-Identifier: GPL-2.0
/* Limits of a store: bytes and keys, each a pool that CPUs draw from. */
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "park.h"
#include "quota.h"

/* What a CPU takes ahead when the limit is far. */
#define KVT_BATCH_BYTES	(64 * 1024)
#define KVT_BATCH_KEYS	256

/*
 * The limit of a pool without one.  During a recovery, a worker may give back what another one has
 * yet to charge.  Then more than the limit is left: that must not overflow.
 */
#define KVT_LIMIT_NONE	(S64_MAX / 2)

/* Set the limit, which charges may be reading. */
static void pool_limit(struct kvt_pool *pool, u64 limit)
{
	WRITE_ONCE(pool->limit, min_t(u64, limit, KVT_LIMIT_NONE));
}

static int pool_init(struct kvt_pool *pool, u64 limit, s64 batch)
{
	pool->cpu = alloc_percpu(struct kvt_pool_cpu);
	if (!pool->cpu)
		return -ENOMEM;
	pool_limit(pool, limit);
	pool->batch = batch;
	pool->over = false;
	atomic64_set(&pool->taken, 0);
	return 0;
}

static void pool_exit(struct kvt_pool *pool)
{
	free_percpu(pool->cpu);
	pool->cpu = NULL;
}

/* Take n, or nothing if there is less. */
static bool stock_take(struct kvt_pool_cpu *cpu, s64 n)
{
	s64 have = atomic64_read(&cpu->stock);

	do {
		if (have < n)
			return false;
	} while (!atomic64_try_cmpxchg(&cpu->stock, &have, have - n));
	return true;
}

/*
 * Take n from the shared pool, and something ahead if the limit is far: at the
 * limit all CPUs together hold at most half of what is left.  Returns how much
 * was taken ahead, or -EDQUOT.
 */
static s64 pool_take(struct kvt_pool *pool, s64 n)
{
	s64 taken = atomic64_read(&pool->taken);
	s64 left, ahead;

	do {
		left = READ_ONCE(pool->limit) - taken;
		if (left < n)
			return -EDQUOT;
		ahead = min(pool->batch, (left - n) / (2 * num_possible_cpus()));
	} while (!atomic64_try_cmpxchg(&pool->taken, &taken, taken + n + ahead));
	return ahead;
}

/* Bring the stocks of all CPUs back to the pool.  Returns how much that was. */
static s64 pool_drain(struct kvt_pool *pool)
{
	struct kvt_pool_cpu *stock;
	s64 sum = 0, n;
	int cpu;

	for_each_possible_cpu(cpu) {
		stock = per_cpu_ptr(pool->cpu, cpu);
		if (!atomic64_read(&stock->stock))
			continue;
		/* At once: charges are refused while it is in neither place. */
		n = atomic64_xchg(&stock->stock, 0);
		atomic64_sub(n, &pool->taken);
		sum += n;
	}
	return sum;
}

/* Take n from the shared pool, and put what was taken ahead into this CPU's stock. */
static int pool_draw(struct kvt_pool *pool, struct kvt_pool_cpu *cpu, s64 n)
{
	s64 ahead;

	/* kvt_quota_limit() waits for this read section before it drains the stocks. */
	rcu_read_lock();
	ahead = pool_take(pool, n);
	if (ahead > 0) {
		kvt_park_loose(KVT_PARK_QUOTA_AHEAD);
		atomic64_add(ahead, &cpu->stock);
	}
	if (ahead >= 0 && READ_ONCE(pool->over))
		WRITE_ONCE(pool->over, false);
	rcu_read_unlock();
	return min(ahead, 0);
}

static int pool_charge(struct kvt_pool *pool, s64 n)
{
	/* Moving to another CPU now only makes the line less local. */
	struct kvt_pool_cpu *cpu = raw_cpu_ptr(pool->cpu);
	int err;

	/* Over the limit, what was given back must not be charged again. */
	if (!READ_ONCE(pool->over) && stock_take(cpu, n))
		return 0;
	err = pool_draw(pool, cpu, n);
	if (err && pool_drain(pool))
		err = pool_draw(pool, cpu, n);
	return err;
}

static void pool_uncharge(struct kvt_pool *pool, s64 n)
{
	struct kvt_pool_cpu *cpu = raw_cpu_ptr(pool->cpu);
	s64 have = atomic64_add_return(n, &cpu->stock);

	if (have > 2 * pool->batch && stock_take(cpu, have - pool->batch))
		atomic64_sub(have - pool->batch, &pool->taken);
}

static u64 pool_read(const struct kvt_pool *pool)
{
	s64 sum = atomic64_read(&pool->taken);
	int cpu;

	for_each_possible_cpu(cpu)
		sum -= atomic64_read(&per_cpu_ptr(pool->cpu, cpu)->stock);
	return max_t(s64, sum, 0);
}

/**
 * kvt_quota_init() - make the limits of a store
 * @quota: to be filled
 * @limit_bytes: bytes, U64_MAX for none
 * @limit_keys: keys, U64_MAX for none
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_quota_init(struct kvt_quota *quota, u64 limit_bytes, u64 limit_keys)
{
	int err;

	err = pool_init(&quota->bytes, limit_bytes, KVT_BATCH_BYTES);
	if (err)
		return err;
	err = pool_init(&quota->keys, limit_keys, KVT_BATCH_KEYS);
	if (err)
		pool_exit(&quota->bytes);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_quota_init);

/**
 * kvt_quota_limit() - set the limits of a store, which may be in use
 * @quota: the store's, which may be over them already
 * @limit_bytes: bytes, U64_MAX for none
 * @limit_keys: keys, U64_MAX for none
 *
 * Context: process context, sleeps.
 */
void kvt_quota_limit(struct kvt_quota *quota, u64 limit_bytes, u64 limit_keys)
{
	pool_limit(&quota->bytes, limit_bytes);
	pool_limit(&quota->keys, limit_keys);
	/* A charge that saw the old limit has put what it took ahead into a stock by then. */
	synchronize_rcu();
	/* Each charge draws from the pool, and is counted, until one is below the limit. */
	WRITE_ONCE(quota->bytes.over, true);
	WRITE_ONCE(quota->keys.over, true);
	pool_drain(&quota->bytes);
	pool_drain(&quota->keys);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_limit);

/**
 * kvt_quota_exit() - free the limits of a store
 * @quota: of kvt_quota_init(); no charge may follow
 *
 * Context: process context.
 */
void kvt_quota_exit(struct kvt_quota *quota)
{
	pool_exit(&quota->keys);
	pool_exit(&quota->bytes);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_exit);

/**
 * kvt_quota_charge() - charge live memory
 * @quota: the store's
 * @bytes: how much
 *
 * Context: any but NMI; under node locks too.
 *
 * Return: 0, or -EDQUOT and nothing is charged.
 */
int kvt_quota_charge(struct kvt_quota *quota, size_t bytes)
{
	return pool_charge(&quota->bytes, bytes);
}
KVT_EXPORT(kvt_quota_charge);

/**
 * kvt_quota_uncharge() - give live memory back
 * @quota: the store's
 * @bytes: how much
 *
 * Context: any but NMI; under node locks too.
 */
void kvt_quota_uncharge(struct kvt_quota *quota, size_t bytes)
{
	pool_uncharge(&quota->bytes, bytes);
}
KVT_EXPORT(kvt_quota_uncharge);

/**
 * kvt_quota_charge_keys() - charge keys
 * @quota: the store's
 * @nr: how many
 *
 * Context: any but NMI; under node locks too.
 *
 * Return: 0, or -EDQUOT and nothing is charged.
 */
int kvt_quota_charge_keys(struct kvt_quota *quota, u32 nr)
{
	return pool_charge(&quota->keys, nr);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_charge_keys);

/**
 * kvt_quota_uncharge_keys() - give keys back
 * @quota: the store's
 * @nr: how many
 *
 * Context: any but NMI; under node locks too.
 */
void kvt_quota_uncharge_keys(struct kvt_quota *quota, u32 nr)
{
	pool_uncharge(&quota->keys, nr);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_uncharge_keys);

/**
 * kvt_quota_bytes() - live memory charged
 * @quota: the store's
 *
 * Context: any.
 *
 * Return: bytes; exact if nothing is charged meanwhile.
 */
u64 kvt_quota_bytes(const struct kvt_quota *quota)
{
	return pool_read(&quota->bytes);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_bytes);

/**
 * kvt_quota_keys() - keys charged
 * @quota: the store's
 *
 * Context: any.
 *
 * Return: keys; exact if nothing is charged meanwhile.
 */
u64 kvt_quota_keys(const struct kvt_quota *quota)
{
	return pool_read(&quota->keys);
}
KVT_EXPORT_FOR_TESTS(kvt_quota_keys);
