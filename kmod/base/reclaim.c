// SPDX-License-Identifier: GPL-2.0
/* Memory that readers may still hold, and the worker that frees it. */
#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "reclaim.h"
#include "stats.h"
#include "trace.h"

static unsigned int reclaim_batch = 256;
module_param(reclaim_batch, uint, 0644);
MODULE_PARM_DESC(reclaim_batch, "objects to free before rescheduling");

static unsigned int reclaim_interval_ms = 10;
module_param(reclaim_interval_ms, uint, 0644);
MODULE_PARM_DESC(reclaim_interval_ms, "ms to collect retired memory before a grace period");

/* Bytes that a CPU counts by itself before it touches the shared counter. */
#define KVT_RECLAIM_PENDING	(64 * 1024)

/* Writers begin to help at this fraction of the bound. */
#define KVT_RECLAIM_HELP	16

enum {
	KVT_RECLAIM_IDLE,	/* nothing queued; the first object retired queues gather */
	KVT_RECLAIM_GATHER,	/* gather is queued */
	KVT_RECLAIM_FREE,	/* garbage waits for its grace period or is being freed */
};

static bool reclaim_over(const struct kvt_reclaim *reclaim)
{
	return atomic64_read(&reclaim->waiting) > reclaim->limit;
}

static unsigned long reclaim_delay(const struct kvt_reclaim *reclaim)
{
	if (atomic64_read(&reclaim->waiting) > (s64)(reclaim->bound / 2))
		return 0;
	return msecs_to_jiffies(READ_ONCE(reclaim_interval_ms));
}

static void reclaim_raise_max(struct kvt_reclaim *reclaim, s64 waiting)
{
	s64 max = READ_ONCE(reclaim->waiting_max);

	while (waiting > max && !try_cmpxchg(&reclaim->waiting_max, &max, waiting))
		;
}

static struct kvt_bag *reclaim_bag(unsigned long word)
{
	return (struct kvt_bag *)(word & ~KVT_BAG_EMPTY);
}

static bool reclaim_has_bag(unsigned long word)
{
	return word && !(word & KVT_BAG_EMPTY);
}

/* Take a CPU's garbage.  Returns whether there was any. */
static bool reclaim_take_cpu(struct kvt_reclaim_cpu *cpu)
{
	unsigned long bag = READ_ONCE(cpu->bag);
	bool any = false;
	int type;

	for (type = 0; type < KVT_GARBAGE_NR; type++) {
		if (llist_empty(&cpu->list[type]))
			continue;
		cpu->garbage[type] = llist_del_all(&cpu->list[type]);
		any = true;
	}
	if (!llist_empty(&cpu->bags))
		cpu->gathered = llist_del_all(&cpu->bags);
	/* If a writer takes the bag first, it puts it back. */
	if (reclaim_has_bag(bag) && cmpxchg(&cpu->bag, bag, 0) == bag) {
		reclaim_bag(bag)->link.next = cpu->gathered;
		cpu->gathered = &reclaim_bag(bag)->link;
	}
	return any || cpu->gathered;
}

/* Take the garbage of all CPUs.  Returns whether there was any. */
static bool reclaim_take(struct kvt_reclaim *reclaim)
{
	bool any = false;
	int i;

	for_each_possible_cpu(i)
		any |= reclaim_take_cpu(per_cpu_ptr(reclaim->cpu, i));
	return any;
}

static bool reclaim_cpu_empty(const struct kvt_reclaim_cpu *cpu)
{
	int type;

	for (type = 0; type < KVT_GARBAGE_NR; type++)
		if (!llist_empty(&cpu->list[type]))
			return false;
	return llist_empty(&cpu->bags) && !reclaim_has_bag(READ_ONCE(cpu->bag));
}

static bool reclaim_empty(const struct kvt_reclaim *reclaim)
{
	int i;

	for_each_possible_cpu(i)
		if (!reclaim_cpu_empty(per_cpu_ptr(reclaim->cpu, i)))
			return false;
	return true;
}

/* What was freed since the last chance to reschedule. */
struct reclaim_batch {
	unsigned int objects;
	u64 bytes;
};

/* Wake throttled writers if little enough memory waits now. */
static void reclaim_wake_writers(struct kvt_reclaim *reclaim)
{
	/* Pairs with the barrier that a throttled writer passes before it looks again. */
	if (!reclaim_over(reclaim) && kvt_event_has_sleeper(&reclaim->freed))
		kvt_event_wake(&reclaim->freed);
}

static void reclaim_end_batch(struct kvt_reclaim *reclaim, struct reclaim_batch *batch)
{
	s64 waiting = atomic64_sub_return(batch->bytes, &reclaim->waiting);

	kvt_stat_inc(reclaim->stats, KVTREE_STAT_RECLAIM_BATCHES);
	trace_kvt_reclaim_batch(reclaim, batch->objects, batch->bytes,
				max_t(s64, waiting, 0));
	reclaim_wake_writers(reclaim);
	batch->objects = 0;
	batch->bytes = 0;
	cond_resched();
}

static void reclaim_free_list(struct kvt_reclaim *reclaim, struct llist_node *node,
			      kvt_free_fn free, struct reclaim_batch *batch)
{
	unsigned int limit = max(READ_ONCE(reclaim_batch), 1U);
	struct llist_node *next;

	for (; node; node = next) {
		next = node->next;
		batch->bytes += free(node);
		if (++batch->objects >= limit)
			reclaim_end_batch(reclaim, batch);
	}
}

/* Free values of a bag, at most @max, and an empty bag.  Returns whether the bag is gone. */
static bool reclaim_free_values(struct kvt_reclaim *reclaim, struct kvt_bag *bag,
				unsigned int max, struct reclaim_batch *batch)
{
	unsigned int nr = min(bag->nr - bag->freed, max);

	reclaim->free_values(&bag->value[bag->freed], nr);
	bag->freed += nr;
	batch->objects += nr;
	if (bag->freed < bag->nr)
		return false;
	batch->bytes += bag->bytes;
	kfree(bag);
	return true;
}

static void reclaim_free_bag(struct kvt_reclaim *reclaim, struct kvt_bag *bag,
			     struct reclaim_batch *batch)
{
	unsigned int limit = max(READ_ONCE(reclaim_batch), 1U);
	bool gone = false;

	while (!gone) {
		gone = reclaim_free_values(reclaim, bag, limit - min(batch->objects, limit - 1),
					   batch);
		if (batch->objects >= limit)
			reclaim_end_batch(reclaim, batch);
	}
}

/* Take a bag that is ready; NULL: writers that help have left none. */
static struct kvt_bag *reclaim_ready_bag(struct kvt_reclaim_cpu *cpu)
{
	struct llist_node *link;

	spin_lock(&cpu->ready_lock);
	link = cpu->ready;
	if (link)
		WRITE_ONCE(cpu->ready, link->next);
	spin_unlock(&cpu->ready_lock);
	return link ? llist_entry(link, struct kvt_bag, link) : NULL;
}

/*
 * Take a value of the first bag that is ready.  With the last value the caller also gets the
 * bag, which is no longer counted.  NULL: there is none, or another thread has the lock.
 */
static void *reclaim_ready_value(struct kvt_reclaim *reclaim, struct kvt_reclaim_cpu *cpu,
				 struct kvt_bag **empty)
{
	struct llist_node *link;
	struct kvt_bag *bag;
	void *value = NULL;

	*empty = NULL;
	if (!READ_ONCE(cpu->ready) || !spin_trylock(&cpu->ready_lock))
		return NULL;
	link = cpu->ready;
	if (link) {
		bag = llist_entry(link, struct kvt_bag, link);
		value = bag->value[bag->freed++];
		if (bag->freed == bag->nr) {
			WRITE_ONCE(cpu->ready, link->next);
			atomic64_sub(bag->bytes, &reclaim->waiting);
			*empty = bag;
		}
	}
	spin_unlock(&cpu->ready_lock);
	return value;
}

/*
 * A writer helps by freeing one value on its CPU, as it retires one and allocates one.  So the
 * allocator's own stock neither grows nor shrinks; if it did, one operation in a hundred would
 * take long.  Returns whether there was a value.
 *
 * A preempted writer may run again only much later.  So after it has released the lock, no other
 * thread depends on it: the worker also wakes the writers, at the end of its cycle.
 */
static bool reclaim_help(struct kvt_reclaim *reclaim)
{
	struct kvt_bag *empty;
	void *value;

	/* Moving to another CPU now only makes the values less local. */
	value = reclaim_ready_value(reclaim, raw_cpu_ptr(reclaim->cpu), &empty);
	if (!value)
		return false;
	reclaim->free_values(&value, 1);
	if (empty)
		reclaim_wake_writers(reclaim);
	kfree(empty);
	return true;
}

static void reclaim_free_cpu(struct kvt_reclaim *reclaim, struct kvt_reclaim_cpu *cpu,
			     struct reclaim_batch *batch)
{
	struct kvt_bag *bag;
	int type;

	while ((bag = reclaim_ready_bag(cpu)))
		reclaim_free_bag(reclaim, bag, batch);
	for (type = 0; type < KVT_GARBAGE_NR; type++) {
		reclaim_free_list(reclaim, cpu->garbage[type], reclaim->free[type], batch);
		cpu->garbage[type] = NULL;
	}
}

/* Let writers free values of the bags that were gathered on a CPU. */
static void reclaim_make_ready(struct kvt_reclaim_cpu *cpu)
{
	spin_lock(&cpu->ready_lock);
	WRITE_ONCE(cpu->ready, cpu->gathered);
	spin_unlock(&cpu->ready_lock);
	cpu->gathered = NULL;
}

/* Free what reclaim_take() took, after its grace period. */
static void reclaim_free_garbage(struct kvt_reclaim *reclaim)
{
	struct reclaim_batch batch = {};
	int i;

	for_each_possible_cpu(i)
		reclaim_make_ready(per_cpu_ptr(reclaim->cpu, i));
	for_each_possible_cpu(i)
		reclaim_free_cpu(reclaim, per_cpu_ptr(reclaim->cpu, i), &batch);
	if (batch.objects)
		reclaim_end_batch(reclaim, &batch);
	else
		reclaim_wake_writers(reclaim);
}

static void reclaim_gather_work(struct work_struct *work)
{
	struct kvt_reclaim *reclaim =
		container_of(to_delayed_work(work), struct kvt_reclaim, gather);

	/* A caller that met the bound may have queued this during KVT_RECLAIM_FREE. */
	if (atomic_cmpxchg(&reclaim->state, KVT_RECLAIM_GATHER, KVT_RECLAIM_FREE) !=
	    KVT_RECLAIM_GATHER)
		return;
	reclaim_raise_max(reclaim, kvt_reclaim_waiting(reclaim));
	if (reclaim_take(reclaim)) {
		queue_rcu_work(reclaim->wq, &reclaim->free_work);
		return;
	}
	atomic_set(&reclaim->state, KVT_RECLAIM_IDLE);
	/*
	 * Pairs with the full barrier of llist_add() and cmpxchg() before
	 * reclaim_wake(): either that sees IDLE and queues this work, or this sees
	 * the list or the bag.
	 */
	smp_mb();
	if (!reclaim_empty(reclaim) &&
	    atomic_cmpxchg(&reclaim->state, KVT_RECLAIM_IDLE, KVT_RECLAIM_GATHER) ==
	    KVT_RECLAIM_IDLE)
		queue_delayed_work(reclaim->wq, &reclaim->gather, reclaim_delay(reclaim));
}

static void reclaim_free_work(struct work_struct *work)
{
	struct kvt_reclaim *reclaim =
		container_of(to_rcu_work(work), struct kvt_reclaim, free_work);

	reclaim_free_garbage(reclaim);
	atomic_set(&reclaim->state, KVT_RECLAIM_GATHER);
	queue_delayed_work(reclaim->wq, &reclaim->gather, reclaim_delay(reclaim));
}

/**
 * kvt_reclaim_init() - prepare to take retired memory
 * @reclaim: to be filled; the caller then sets @reclaim->free[] for each type
 *	that will be retired
 * @wq: where the worker runs
 * @stats: the store's
 * @bound: bytes that may wait before writers are made to
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_reclaim_init(struct kvt_reclaim *reclaim, struct workqueue_struct *wq,
		     struct kvt_stats *stats, u64 bound)
{
	int i;

	BUILD_BUG_ON(sizeof(struct kvt_bag) > 1024);

	memset(reclaim, 0, sizeof(*reclaim));
	reclaim->cpu = alloc_percpu(struct kvt_reclaim_cpu);
	if (!reclaim->cpu)
		return -ENOMEM;
	for_each_possible_cpu(i)
		spin_lock_init(&per_cpu_ptr(reclaim->cpu, i)->ready_lock);
	reclaim->wq = wq;
	reclaim->stats = stats;
	reclaim->bound = min_t(u64, bound, S64_MAX);
	reclaim->batch = min_t(u64, reclaim->bound / (8 * num_possible_cpus()),
			       KVT_RECLAIM_PENDING);
	/*
	 * Each CPU may have counted one batch by itself, and be about to add another.  A writer
	 * that has passed kvt_reclaim_throttle() may add more, once: see reclaim.h.
	 */
	reclaim->limit = reclaim->bound - 2 * num_possible_cpus() * reclaim->batch;
	reclaim->help = reclaim->bound / KVT_RECLAIM_HELP;
	kvt_event_init(&reclaim->freed, "memory to be freed");
	INIT_DELAYED_WORK(&reclaim->gather, reclaim_gather_work);
	INIT_RCU_WORK(&reclaim->free_work, reclaim_free_work);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_init);

/**
 * kvt_reclaim_exit() - free everything that was retired
 * @reclaim: of kvt_reclaim_init(); no thread may retire or wait any more
 *
 * Waits for readers.
 *
 * Context: process context, sleeps.  Not from a work item of the same queue.
 */
void kvt_reclaim_exit(struct kvt_reclaim *reclaim)
{
	int i;

	/* Disabled, because a cycle that has freed queues the next gather. */
	disable_delayed_work_sync(&reclaim->gather);
	flush_rcu_work(&reclaim->free_work);
	if (reclaim_take(reclaim)) {
		synchronize_rcu_expedited();
		reclaim_free_garbage(reclaim);
	}
	for_each_possible_cpu(i) {
		atomic64_add(atomic64_read(&per_cpu_ptr(reclaim->cpu, i)->pending),
			     &reclaim->waiting);
		kfree(reclaim_bag(per_cpu_ptr(reclaim->cpu, i)->bag));
	}
	free_percpu(reclaim->cpu);
	reclaim->cpu = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_exit);

/* Count bytes that wait. */
static void reclaim_count(struct kvt_reclaim *reclaim, size_t bytes)
{
	/* Moving to another CPU now only makes the line less local. */
	struct kvt_reclaim_cpu *cpu = raw_cpu_ptr(reclaim->cpu);
	s64 waiting;

	if (atomic64_add_return(bytes, &cpu->pending) <= reclaim->batch)
		return;
	waiting = atomic64_add_return(atomic64_xchg(&cpu->pending, 0), &reclaim->waiting);
	reclaim_raise_max(reclaim, waiting);
	if (waiting > (s64)(reclaim->bound / 2) &&
	    atomic_read(&reclaim->state) == KVT_RECLAIM_GATHER)
		mod_delayed_work(reclaim->wq, &reclaim->gather, 0);
}

/* Called after adding an object and a full barrier: see reclaim_gather_work(). */
static void reclaim_wake(struct kvt_reclaim *reclaim)
{
	if (atomic_read(&reclaim->state) == KVT_RECLAIM_IDLE &&
	    atomic_cmpxchg(&reclaim->state, KVT_RECLAIM_IDLE, KVT_RECLAIM_GATHER) ==
	    KVT_RECLAIM_IDLE)
		queue_delayed_work(reclaim->wq, &reclaim->gather, reclaim_delay(reclaim));
}

/**
 * kvt_reclaim_retire() - hand over an object that is no longer reachable
 * @reclaim: the store's
 * @type: which free function it needs
 * @link: in the object; it must not be used otherwise any more
 * @bytes: its size, for the bound; the free function must return the same
 *
 * Context: any but NMI; not under a node lock.  Never sleeps, never allocates.
 */
void kvt_reclaim_retire(struct kvt_reclaim *reclaim, enum kvt_garbage type,
			struct llist_node *link, size_t bytes)
{
	/* Moving to another CPU now only makes the line less local. */
	struct kvt_reclaim_cpu *cpu = raw_cpu_ptr(reclaim->cpu);

	reclaim_count(reclaim, bytes);
	/* A link may overlay a word that readers still read: see mt_leaf_retire(). */
	data_race(llist_add(link, &cpu->list[type]));
	reclaim_wake(reclaim);
}
KVT_EXPORT(kvt_reclaim_retire);

/**
 * kvt_bag_is_there() - whether kvt_bag_take() is likely to find a bag
 * @reclaim: the store's
 *
 * Context: any.
 *
 * Return: true if this CPU has a bag.
 */
bool kvt_bag_is_there(const struct kvt_reclaim *reclaim)
{
	return READ_ONCE(raw_cpu_ptr(reclaim->cpu)->bag);
}

/**
 * kvt_bag_take() - get this CPU's bag
 * @reclaim: the store's
 *
 * It may hold values of other writers, which cannot be freed until it is given back.
 *
 * Context: any but NMI.  If other threads use the store, preemption stays off until the bag is
 * given back.
 *
 * Return: a bag with room for one value at least, to be given to
 * kvt_reclaim_retire_value() or kvt_bag_put(); NULL: there is none.
 */
struct kvt_bag *kvt_bag_take(struct kvt_reclaim *reclaim)
{
	/* Moving to another CPU now only makes the line less local. */
	struct kvt_reclaim_cpu *cpu = raw_cpu_ptr(reclaim->cpu);

	return READ_ONCE(cpu->bag) ? reclaim_bag(xchg(&cpu->bag, 0)) : NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_bag_take);

/**
 * kvt_bag_new() - make a bag
 * @gfp: how to allocate
 *
 * No cgroup is charged, and it does not fail if it may sleep: a removal makes room.
 *
 * Context: as @gfp says.
 *
 * Return: as kvt_bag_take(); NULL only if @gfp does not allow to sleep.
 */
struct kvt_bag *kvt_bag_new(gfp_t gfp)
{
	struct kvt_bag *bag;

	gfp &= ~__GFP_ACCOUNT;
	/* One or the other: an allocation that may fail calls no OOM killer. */
	if (gfpflags_allow_blocking(gfp))
		gfp = (gfp & ~(__GFP_RETRY_MAYFAIL | __GFP_NORETRY)) | __GFP_NOFAIL;
	bag = kmalloc(sizeof(*bag), gfp);
	if (bag) {
		bag->bytes = 0;
		bag->nr = 0;
		bag->freed = 0;
	}
	return bag;
}
KVT_EXPORT_FOR_TESTS(kvt_bag_new);

/**
 * kvt_bag_get() - get a bag, this CPU's or a new one
 * @reclaim: the store's
 * @gfp: how to allocate
 *
 * Context: as @gfp says; not NMI.
 *
 * Return: as kvt_bag_new().
 */
struct kvt_bag *kvt_bag_get(struct kvt_reclaim *reclaim, gfp_t gfp)
{
	return kvt_bag_take(reclaim) ?: kvt_bag_new(gfp);
}
KVT_EXPORT_FOR_TESTS(kvt_bag_get);

/**
 * kvt_bag_put() - give a bag back
 * @reclaim: the store's
 * @bag: the bag, or NULL
 *
 * Context: any but NMI, not under a node lock.
 */
void kvt_bag_put(struct kvt_reclaim *reclaim, struct kvt_bag *bag)
{
	struct kvt_reclaim_cpu *cpu = raw_cpu_ptr(reclaim->cpu);

	if (!bag)
		return;
	if (!bag->nr) {
		if (cmpxchg(&cpu->bag, 0, (unsigned long)bag | KVT_BAG_EMPTY))
			kfree(bag);
		return;
	}
	if (bag->nr == KVT_BAG_VALUES || cmpxchg(&cpu->bag, 0, (unsigned long)bag))
		llist_add(&bag->link, &cpu->bags);
	reclaim_wake(reclaim);
}
KVT_EXPORT_FOR_TESTS(kvt_bag_put);

/**
 * kvt_reclaim_retire_value() - hand over a value that is no longer reachable
 * @reclaim: the store's
 * @bag: a bag with room, which is given back
 * @value: the argument for @reclaim->free_values
 * @bytes: its size, for the bound
 *
 * Context: any but NMI, not under a node lock.  Never sleeps, never allocates.
 */
void kvt_reclaim_retire_value(struct kvt_reclaim *reclaim, struct kvt_bag *bag, void *value,
			      size_t bytes)
{
	/* Count its place in the bag, too. */
	bytes += sizeof(bag->value[0]);
	bag->bytes += bytes;
	bag->value[bag->nr++] = value;
	reclaim_count(reclaim, bytes);
	kvt_bag_put(reclaim, bag);
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_retire_value);

/**
 * kvt_reclaim_throttle() - wait until less memory waits than the bound
 * @reclaim: the store's
 * @may_sleep: false: do not wait
 *
 * If the worker lags behind and @may_sleep is set, this also frees a value.
 *
 * Context: outside of RCU read sections and locks if @may_sleep.
 *
 * Return: 0, -EAGAIN if it would have to wait and may not, -EINTR after a fatal
 * signal.
 */
int kvt_reclaim_throttle(struct kvt_reclaim *reclaim, bool may_sleep)
{
	if (likely(atomic64_read(&reclaim->waiting) <= reclaim->help))
		return 0;
	if (!may_sleep)
		return reclaim_over(reclaim) ? -EAGAIN : 0;
	while (reclaim_help(reclaim) && reclaim_over(reclaim))
		;
	if (!reclaim_over(reclaim))
		return 0;
	kvt_stat_inc(reclaim->stats, KVTREE_STAT_WAITING_STALL);
	trace_kvt_throttle(reclaim, atomic64_read(&reclaim->waiting), reclaim->bound);
	/* prepare_to_wait() is the barrier that wq_has_sleeper() pairs with. */
	return wait_event_killable(reclaim->freed.head, !reclaim_over(reclaim)) ? -EINTR : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_throttle);

/**
 * kvt_reclaim_event() - the event that kvt_reclaim_throttle() waits for
 * @reclaim: the store's
 *
 * Context: any.
 *
 * Return: the event.
 */
struct kvt_event *kvt_reclaim_event(struct kvt_reclaim *reclaim)
{
	return &reclaim->freed;
}

/**
 * kvt_reclaim_waiting() - memory that waits for a grace period
 * @reclaim: the store's
 *
 * Context: any.
 *
 * Return: bytes; exact if nothing is retired meanwhile.
 */
u64 kvt_reclaim_waiting(const struct kvt_reclaim *reclaim)
{
	s64 sum = atomic64_read(&reclaim->waiting);
	int cpu;

	for_each_possible_cpu(cpu)
		sum += atomic64_read(&per_cpu_ptr(reclaim->cpu, cpu)->pending);
	return max_t(s64, sum, 0);
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_waiting);

/**
 * kvt_reclaim_waiting_max() - the most that ever waited
 * @reclaim: the store's
 *
 * Context: any.
 *
 * Return: bytes, without those that CPUs had not yet added up.
 */
u64 kvt_reclaim_waiting_max(const struct kvt_reclaim *reclaim)
{
	return READ_ONCE(reclaim->waiting_max);
}
KVT_EXPORT_FOR_TESTS(kvt_reclaim_waiting_max);
