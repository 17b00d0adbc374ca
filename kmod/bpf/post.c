// SPDX-License-Identifier: GPL-2.0
/*
 * Posts: writes by BPF programs in contexts where they cannot write, since they may
 * have interrupted a writer.  A ring for each CPU takes them to a worker.
 *
 * Several programs may write to a ring at once, each having interrupted the one before.
 * A program reserves a place with one atomic operation, fills it, and marks it ready.
 * The worker runs the posts up to the first place that is not ready, clears their places
 * and frees them.  The program that makes that place ready wakes the worker again.
 *
 *	tail                          head
 *	| ready | ready | taken | ready | 0 0 0 ...
 *
 * All stores share the rings, so this worker waits for no store.  A post that would have
 * to wait moves to its store's own queue.  To keep their order, so do all later posts for
 * that store until the queue is empty.  The queue has a worker that may wait, and a bound
 * above which posts are dropped.
 */
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/btf.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "bpf.h"
#include "compat.h"
#include "core/ctx.h"
#include "core/store.h"
#include "core/write.h"

#define POST_RING	(128 * 1024ul)

/* Counts of stores' bytes in a ring; more stores than this share counts. */
#define POST_SHARES	64

/* Bytes of posts that may wait for a store. */
#define POST_LATE	(256 * 1024)

enum post_state {
	POST_TAKEN,		/* not ready; 0, as in a cleared ring */
	POST_READY,
	POST_PAD,		/* nothing, up to the end of the ring */
};

/* The header of a place; a pad has only this. */
struct post_head {
	u32 size;		/* bytes of the place */
	u32 state;
};

struct post {
	struct post_head head;
	u64 store;		/* id; the store may be gone */
	u64 arg;
	u64 version;
	u32 generation;		/* of the binding */
	u16 flags;
	u16 key_len;
	u16 val_len;
	u8 opcode;
	u8 col;
	u8 share;		/* the store's */
	u8 data[] __aligned(8);	/* key, then value */
};

/* A post in its store's queue. */
struct late_post {
	struct list_head list;
	u32 size;
	u64 post[];		/* as it was in the ring */
};

struct post_ring {
	atomic_long_t head;	/* bytes ever reserved */
	unsigned long tail;	/* bytes ever freed */
	struct irq_work kick;
	struct work_struct work;
	u8 *mem;
	atomic_t shares[POST_SHARES];	/* bytes of posts, by store */
} ____cacheline_aligned_in_smp;

/* Every place ends with the ring, or leaves room for a pad after it. */
static_assert(sizeof(struct post_head) == 8);
static_assert(BPF_KVT_POST_MAX <= U16_MAX && POST_SHARES <= U8_MAX);
static_assert(sizeof_field(struct post, col) == sizeof_field(struct kvtree_op, col));
/* A ring has room for posts of several stores. */
static_assert(POST_RING > 16 * (sizeof(struct post) + BPF_KVT_KEY_MAX + BPF_KVT_POST_MAX));

static DEFINE_MUTEX(posts_lock);
static struct workqueue_struct *posts_wq;	/* for rings' workers, which do not wait */
static struct workqueue_struct *posts_late_wq;	/* for stores' workers */
static struct post_ring *post_rings;	/* by CPU; set once */

/* The store that the program posted to, entered, or NULL: it is gone. */
static struct kvt_store *post_enter(const struct post *post)
{
	struct kvt_store *store;

	rcu_read_lock();
	store = kvt_store_by_id(post->store);
	if (store && !kvt_store_enter(store))
		store = NULL;
	rcu_read_unlock();
	return store;
}

static struct kvt_bpf_write post_load(const struct post *post)
{
	return (struct kvt_bpf_write) {
		.op = {
			.opcode = post->opcode,
			.col = post->col,
			.flags = post->flags,
			.key_len = post->key_len,
			.val_len = post->val_len,
			.version = post->version,
			.arg = post->arg,
		},
		.key = { .data = post->data, .len = post->key_len },
		.val = post->data + post->key_len,
	};
}

/*
 * A post needs the rights of the moment of posting; the binding may have ended since then.  But if
 * the owner has meanwhile forbidden programs to use the store, the post is not made, even if
 * programs may use it again.
 */
static int post_make(struct kvt_op_ctx *ctx, const struct post *post)
{
	struct kvt_bpf_write write = post_load(post);

	if (post->generation != kvt_bindings_generation(ctx->store))
		return -EPERM;
	return kvt_bpf_write(ctx, &write);
}

/* Count a post that was made, or cannot be made. */
static void post_end(struct kvt_store *store, const struct post *post, int err)
{
	kvt_bpf_write_count(&store->stats, post->opcode, err);
	if (!kvt_op_is_answer(err))
		kvt_stat_inc(&store->stats, KVTREE_STAT_BPF_POST_FAIL);
}

/* Append a post.  Returns whether there is room. */
static bool late_add(struct kvt_late_posts *late, struct late_post *entry)
{
	bool fits;

	spin_lock(&late->lock);
	fits = entry->size <= POST_LATE - late->bytes;
	if (fits) {
		list_add_tail(&entry->list, &late->posts);
		WRITE_ONCE(late->bytes, late->bytes + entry->size);
	}
	spin_unlock(&late->lock);
	return fits;
}

/* Append a post to its store's queue, or drop it.  Inside the store. */
static void post_delay(struct kvt_store *store, const struct post *post)
{
	struct kvt_late_posts *late = &store->late_posts;
	struct mem_cgroup *memcg;
	struct late_post *entry;
	u32 size = post->head.size;
	bool fits = false;

	memcg = set_active_memcg(store->memcg);
	entry = kmalloc(sizeof(*entry) + size, KVT_GFP_NOWAIT | __GFP_ACCOUNT);
	set_active_memcg(memcg);
	if (entry) {
		entry->size = size;
		memcpy(entry->post, post, size);
		fits = late_add(late, entry);
	}
	if (fits) {
		queue_work(posts_late_wq, &late->work);
		return;
	}
	kfree(entry);
	kvt_stat_inc(&store->stats, KVTREE_STAT_BPF_POST_DROP);
}

/* The first post of a store's queue.  It stays there until it is made, ahead of later posts. */
static struct late_post *late_first(struct kvt_late_posts *late)
{
	struct late_post *entry;

	spin_lock(&late->lock);
	entry = list_first_entry_or_null(&late->posts, struct late_post, list);
	spin_unlock(&late->lock);
	return entry;
}

static void late_remove(struct kvt_late_posts *late, struct late_post *entry)
{
	spin_lock(&late->lock);
	list_del(&entry->list);
	/* A thread that reads 0 here sees the effects of all these posts: pairs with post_run(). */
	smp_store_release(&late->bytes, late->bytes - entry->size);
	spin_unlock(&late->lock);
	kfree(entry);
}

static int late_make(struct kvt_op_ctx *ctx, const struct post *post)
{
	int err;

	do {
		err = kvt_write_admit(ctx) ?: post_make(ctx, post);
		if (err != -EAGAIN)
			return err;
		err = kvt_write_wait(ctx);
	} while (!err);
	return err;
}

/* Make a post that may wait. */
static void late_run(struct kvt_store *store, const struct post *post)
{
	struct kvt_op_ctx ctx = { .gfp = KVT_GFP_PROCESS, .waits = true, .store = store };

	if (!kvt_store_enter(store)) {
		post_end(store, post, -ESTALE);
		return;
	}
	post_end(store, post, late_make(&ctx, post));
	kvt_store_leave(store);
}

static void late_work(struct work_struct *work)
{
	struct kvt_late_posts *late = container_of(work, struct kvt_late_posts, work);
	struct kvt_store *store = container_of(late, struct kvt_store, late_posts);
	struct late_post *entry;

	while ((entry = late_first(late))) {
		late_run(store, (const struct post *)entry->post);
		late_remove(late, entry);
		cond_resched();
	}
}

/* Make a post without waiting for anything. */
static void post_run(const struct post *post)
{
	struct kvt_op_ctx ctx = { .gfp = KVT_GFP_NOWAIT, .store = post_enter(post) };
	int err = -EAGAIN;

	if (!ctx.store)
		return;
	/* Pairs with late_remove(). */
	if (!smp_load_acquire(&ctx.store->late_posts.bytes))
		err = post_make(&ctx, post);
	if (kvt_op_blocked(&ctx, err))
		post_delay(ctx.store, post);
	else
		post_end(ctx.store, post, err);
	kvt_store_leave(ctx.store);
}

/* Make all posts that are ready.  One worker per ring, for all stores. */
static void posts_work(struct work_struct *work)
{
	struct post_ring *ring = container_of(work, struct post_ring, work);
	struct post *post;
	u32 state, size;

	for (;;) {
		post = (struct post *)(ring->mem + ring->tail % POST_RING);
		/* Pairs with post_ready(). */
		state = smp_load_acquire(&post->head.state);
		if (state == POST_TAKEN)
			return;
		if (state == POST_READY)
			post_run(post);
		size = post->head.size;
		if (state == POST_READY)
			atomic_sub(size, &ring->shares[post->share]);
		memset(post, 0, size);
		/* The place is cleared before it is taken again: pairs with post_take(). */
		smp_store_release(&ring->tail, ring->tail + size);
		cond_resched();
	}
}

static void posts_kick(struct irq_work *kick)
{
	queue_work(posts_wq, &container_of(kick, struct post_ring, kick)->work);
}

static void post_ready(struct post_head *head, u32 size, u32 state)
{
	head->size = size;
	smp_store_release(&head->state, state);	/* pairs with posts_work() */
}

/*
 * Reserve a place; NULL: there is no room.  A store may use as much of a ring as it leaves
 * free: one store gets half of it, another one half of the rest.
 */
static struct post *post_take(struct post_ring *ring, u32 size, atomic_t *share)
{
	unsigned long at, pad, tail, free, shared = atomic_add_return(size, share);
	long head = atomic_long_read(&ring->head);

	do {
		tail = smp_load_acquire(&ring->tail);	/* pairs with posts_work() */
		at = (unsigned long)head % POST_RING;
		pad = at + size > POST_RING ? POST_RING - at : 0;
		free = POST_RING - ((unsigned long)head - tail);
		if (pad + size > free || shared > free) {
			atomic_sub(size, share);
			return NULL;
		}
	} while (!atomic_long_try_cmpxchg(&ring->head, &head, head + pad + size));
	if (!pad)
		return (struct post *)(ring->mem + at);
	post_ready((struct post_head *)(ring->mem + at), pad, POST_PAD);
	return (struct post *)ring->mem;
}

static int post_write(const struct kvt_bpf_write *write, const struct kvt_binding *binding)
{
	const struct kvtree_op *op = &write->op;
	u32 size = ALIGN(sizeof(struct post) + op->key_len + op->val_len, 8);
	u16 share = binding->store->id % POST_SHARES;
	struct post_ring *ring;
	struct post *post;

	/*
	 * The rings were made before the binding, and are read after it.  The address of
	 * post_rings does not depend on the binding, so without a barrier a processor may
	 * read post_rings first, and find NULL.  Pairs with kvt_binding_table_add(), which
	 * publishes the binding after kvt_posts_prepare() has set post_rings.
	 */
	smp_rmb();
	/* After a migration another CPU's ring does as well. */
	ring = &READ_ONCE(post_rings)[raw_smp_processor_id()];
	post = post_take(ring, size, &ring->shares[share]);
	if (!post)
		return -ENOSPC;
	post->store = binding->store->id;
	post->generation = binding->generation;
	post->opcode = op->opcode;
	post->col = op->col;
	post->flags = op->flags;
	post->key_len = op->key_len;
	post->val_len = op->val_len;
	post->version = op->version;
	post->arg = op->arg;
	post->share = share;
	memcpy(post->data, write->key.data, op->key_len);
	memcpy(post->data + op->key_len, write->val, op->val_len);
	post_ready(&post->head, size, POST_READY);
	irq_work_queue(&ring->kick);
	return 0;
}

#define POST_FLAGS	(BPF_KVT_POST_ADD | BPF_KVT_POST_REMOVE)

/* Check a post: two flags select its operation. */
static int post_check(struct kvt_bpf_write *write, const struct kvt_bpf_ask *ask)
{
	switch (ask->flags & POST_FLAGS) {
	case 0:
		write->op.opcode = KVTREE_OP_PUT;
		break;
	case BPF_KVT_POST_ADD:
		write->op.opcode = KVTREE_OP_ADD;
		break;
	case BPF_KVT_POST_REMOVE:
		write->op.opcode = KVTREE_OP_REMOVE;
		break;
	default:
		return -EINVAL;
	}
	if (write->op.val_len > BPF_KVT_POST_MAX)
		return -E2BIG;
	write->key.data = ask->key;
	return kvt_bpf_write_check(write, ask);
}

/* Under rcu_read_lock(). */
static int post_queue(const struct kvt_bpf_write *write, const struct kvt_binding *binding)
{
	struct kvt_stats *stats = &binding->store->stats;
	int err;

	kvt_stat_inc(stats, KVTREE_STAT_BPF);
	err = post_write(write, binding);
	kvt_stat_inc(stats, err ? KVTREE_STAT_BPF_POST_DROP : KVTREE_STAT_BPF_POST);
	return err;
}

__bpf_kfunc_start_defs();

/**
 * bpf_kvt_post() - have a worker write
 * @store__str: the store
 * @req: flags, column, arg, version; and the key
 * @req__sz: bytes of it
 * @val: the value; nothing for an addition or a removal
 * @val__sz: bytes of it
 *
 * Context: any, including NMI.
 *
 * Return: 0: it is queued; or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_post(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			     void *val, u32 val__sz)
{
	struct kvt_bpf_write write = { .op.val_len = val__sz, .val = val };
	const struct kvt_binding *binding;
	struct kvt_bpf_ask ask;
	int err;

	err = kvt_bpf_ask(&ask, req, req__sz, KVT_BPF_WRITE_FLAGS | POST_FLAGS) ?:
	      post_check(&write, &ask);
	if (err)
		return err;
	rcu_read_lock();
	binding = kvt_binding_table_find(store__str);
	if (!binding)
		err = -ESTALE;
	else if (binding->access & KVTREE_OPEN_WRITE)
		/* An addition needs no right to read, since its result is not returned. */
		err = post_queue(&write, binding);
	else
		err = -EACCES;
	rcu_read_unlock();
	return err;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_post);

__bpf_kfunc_end_defs();

static void posts_free(struct post_ring *rings)
{
	int cpu;

	if (!rings)
		return;
	for_each_possible_cpu(cpu)
		kvfree(rings[cpu].mem);
	kvfree(rings);
}

static struct post_ring *posts_alloc(void)
{
	struct post_ring *rings, *ring;
	int cpu;

	rings = kvcalloc(nr_cpu_ids, sizeof(*rings), GFP_KERNEL);
	if (!rings)
		return NULL;
	for_each_possible_cpu(cpu) {
		ring = &rings[cpu];
		init_irq_work(&ring->kick, posts_kick);
		INIT_WORK(&ring->work, posts_work);
		ring->mem = kvmalloc_node(POST_RING, GFP_KERNEL | __GFP_ZERO, cpu_to_node(cpu));
		if (!ring->mem) {
			posts_free(rings);
			return NULL;
		}
	}
	return rings;
}

/**
 * kvt_posts_prepare() - allocate the rings, unless they exist
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_posts_prepare(void)
{
	struct post_ring *rings;
	int err = 0;

	mutex_lock(&posts_lock);
	if (!posts_wq)
		posts_wq = alloc_workqueue("kvtree_post", WQ_UNBOUND, 0);
	if (!posts_late_wq)
		posts_late_wq = alloc_workqueue("kvtree_post_late", WQ_UNBOUND, 0);
	if (!posts_wq || !posts_late_wq) {
		err = -ENOMEM;
	} else if (!post_rings) {
		rings = posts_alloc();
		/* Their content is read by dependent loads, or in kvt_posts_flush(). */
		smp_store_release(&post_rings, rings);
		err = rings ? 0 : -ENOMEM;
	}
	mutex_unlock(&posts_lock);
	return err;
}

/**
 * kvt_posts_flush() - wait until the rings' workers have handled all posts
 *
 * Context: process context, sleeps.
 */
void kvt_posts_flush(void)
{
	/* Pairs with kvt_posts_prepare(). */
	struct post_ring *rings = smp_load_acquire(&post_rings);
	int cpu;

	if (!rings)
		return;
	for_each_possible_cpu(cpu) {
		irq_work_sync(&rings[cpu].kick);
		flush_work(&rings[cpu].work);
	}
	flush_workqueue(posts_late_wq);
}
KVT_EXPORT_FOR_TESTS(kvt_posts_flush);

/**
 * kvt_posts_exit() - make the remaining posts, and free the rings
 *
 * Context: module exit: no program is left.
 */
void kvt_posts_exit(void)
{
	kvt_posts_flush();
	if (posts_wq)
		destroy_workqueue(posts_wq);
	if (posts_late_wq)
		destroy_workqueue(posts_late_wq);
	posts_free(post_rings);
}

/**
 * kvt_late_posts_init() - initialize a store's queue of posts
 * @late: the store's
 *
 * Context: any.
 */
void kvt_late_posts_init(struct kvt_late_posts *late)
{
	spin_lock_init(&late->lock);
	INIT_LIST_HEAD(&late->posts);
	late->bytes = 0;
	INIT_WORK(&late->work, late_work);
}

/**
 * kvt_late_posts_exit() - drop the posts waiting for a store
 * @late: the store's; no caller is inside the store, or can enter it
 *
 * Context: process context, sleeps.
 */
void kvt_late_posts_exit(struct kvt_late_posts *late)
{
	struct late_post *entry, *next;

	cancel_work_sync(&late->work);
	list_for_each_entry_safe(entry, next, &late->posts, list) {
		list_del(&entry->list);
		kfree(entry);
	}
}
