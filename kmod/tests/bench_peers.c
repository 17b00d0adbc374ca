// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own maps.  Each keeps a key's value in a block of memory.  As in
 * kvtree, a put replaces the block and frees the old one after a grace period.
 * Only the tree with locked readers changes the block in place.
 */
#include <linux/maple_tree.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/rhashtable.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "bench.h"

/* What pointers point to. */
struct block {
	u64 version;
	u64 value;
	struct rcu_head rcu;
};

static struct block *block_new(u64 value)
{
	struct block *b = kmalloc(sizeof(*b), GFP_KERNEL);

	if (b) {
		b->version = 1;
		b->value = value;
	}
	return b;
}

static bool block_read(const struct block *b, struct bench_found *found)
{
	if (!b)
		return false;
	found->version = b->version;
	found->value = b->value;
	return true;
}

/* rbtree */

struct rb_block {
	struct rb_node node;
	u64 key;
	u64 version;
	u64 value;
	struct rcu_head rcu;
};

static struct rb_root rb;
static DEFINE_SPINLOCK(rb_lock);
static seqcount_spinlock_t rb_seq = SEQCNT_SPINLOCK_ZERO(rb_seq, &rb_lock);

static int rb_open(void)
{
	rb = RB_ROOT;
	return 0;
}

static void rb_close(void)
{
	struct rb_block *b, *next;
	unsigned long nr = 0;

	rbtree_postorder_for_each_entry_safe(b, next, &rb, node) {
		kfree(b);
		if (!(++nr % 1024))
			cond_resched();
	}
	rcu_barrier();
}

static struct rb_block *rb_block_new(u64 key, u64 value)
{
	struct rb_block *b = kmalloc(sizeof(*b), GFP_KERNEL);

	if (b) {
		b->key = key;
		b->version = 1;
		b->value = value;
	}
	return b;
}

static int rb_cmp(const void *key, const struct rb_node *node)
{
	u64 a = *(const u64 *)key, b = rb_entry(node, struct rb_block, node)->key;

	return a < b ? -1 : a > b;
}

/* The block of the key, or NULL and the place where it has to be linked. */
static struct rb_block *rb_place(u64 key, struct rb_node ***link, struct rb_node **parent)
{
	struct rb_node **at = &rb.rb_node;
	int cmp;

	*parent = NULL;
	while (*at) {
		cmp = rb_cmp(&key, *at);
		if (!cmp)
			return rb_entry(*at, struct rb_block, node);
		*parent = *at;
		at = cmp < 0 ? &(*at)->rb_left : &(*at)->rb_right;
	}
	*link = at;
	return NULL;
}

/* Only a new key needs memory. */
static int rb_spin_put(u64 key, u64 value)
{
	struct rb_node **link, *parent;
	struct rb_block *b, *new = NULL;

again:
	spin_lock(&rb_lock);
	b = rb_place(key, &link, &parent);
	if (b) {
		b->version++;
		b->value = value;
	} else if (new) {
		rb_link_node(&new->node, parent, link);
		rb_insert_color(&new->node, &rb);
	}
	spin_unlock(&rb_lock);
	if (b || new)
		return 0;
	new = rb_block_new(key, value);
	if (new)
		goto again;
	return -ENOMEM;
}

static bool rb_spin_get(u64 key, struct bench_found *found)
{
	struct rb_node *node;

	spin_lock(&rb_lock);
	node = rb_find(&key, &rb, rb_cmp);
	if (node) {
		found->version = rb_entry(node, struct rb_block, node)->version;
		found->value = rb_entry(node, struct rb_block, node)->value;
	}
	spin_unlock(&rb_lock);
	return node;
}

static int rb_rcu_put(u64 key, u64 value)
{
	struct rb_block *old, *new = rb_block_new(key, value);
	struct rb_node **link, *parent;

	if (!new)
		return -ENOMEM;
	spin_lock(&rb_lock);
	old = rb_place(key, &link, &parent);
	write_seqcount_begin(&rb_seq);
	if (old) {
		new->version = old->version + 1;
		rb_replace_node_rcu(&old->node, &new->node, &rb);
	} else {
		rb_link_node_rcu(&new->node, parent, link);
		rb_insert_color(&new->node, &rb);
	}
	write_seqcount_end(&rb_seq);
	spin_unlock(&rb_lock);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

static bool rb_rcu_get(u64 key, struct bench_found *found)
{
	struct rb_node *node;
	unsigned int seq;

	rcu_read_lock();
	do {
		seq = read_seqcount_begin(&rb_seq);
		node = rb_find_rcu(&key, &rb, rb_cmp);
		/* A node found is right; one not found may have been moved. */
	} while (!node && read_seqcount_retry(&rb_seq, seq));
	if (node) {
		found->version = rb_entry(node, struct rb_block, node)->version;
		found->value = rb_entry(node, struct rb_block, node)->value;
	}
	rcu_read_unlock();
	return node;
}

const struct bench_map bench_rbtree_spin = {
	.name = "rbtree_spin", .open = rb_open, .close = rb_close,
	.put = rb_spin_put, .get = rb_spin_get,
};

const struct bench_map bench_rbtree_rcu = {
	.name = "rbtree_rcu", .open = rb_open, .close = rb_close,
	.put = rb_rcu_put, .get = rb_rcu_get,
};

/* Maple tree */

static struct maple_tree maple;
/* mas_store() returns what it replaced only afterwards. */
static u64 maple_version;

static int maple_open(void)
{
	mt_init_flags(&maple, MT_FLAGS_USE_RCU);
	return 0;
}

static void maple_close(void)
{
	MA_STATE(mas, &maple, 0, 0);
	struct block *b;
	unsigned long nr = 0;

	mas_for_each(&mas, b, ULONG_MAX) {
		kfree(b);
		if (++nr % 1024)
			continue;
		mas_pause(&mas);
		cond_resched();
	}
	/* There are no more readers: free nodes at once. */
	mt_clear_in_rcu(&maple);
	mtree_destroy(&maple);
	rcu_barrier();
}

/* It allocates without sleeping, since it holds the tree's lock. */
static int maple_put(u64 key, u64 value)
{
	MA_STATE(mas, &maple, key, key);
	struct block *old, *new = block_new(value);
	int err;

	if (!new)
		return -ENOMEM;
	mas_lock(&mas);
	new->version = ++maple_version;
	old = mas_store(&mas, new);
	err = mas_is_err(&mas) ? xa_err(mas.node) : 0;
	mas_unlock(&mas);
	mas_destroy(&mas);
	if (err)
		kfree(new);
	else if (old)
		kfree_rcu(old, rcu);
	return err;
}

static bool maple_get(u64 key, struct bench_found *found)
{
	bool there;

	rcu_read_lock();
	there = block_read(mtree_load(&maple, key), found);
	rcu_read_unlock();
	return there;
}

const struct bench_map bench_maple = {
	.name = "maple", .open = maple_open, .close = maple_close,
	.put = maple_put, .get = maple_get,
};

/* XArray */

static DEFINE_XARRAY(xarray);

static int xarray_open(void)
{
	return 0;
}

static void xarray_close(void)
{
	unsigned long key, nr = 0;
	struct block *b;

	xa_for_each(&xarray, key, b) {
		kfree(b);
		if (!(++nr % 1024))
			cond_resched();
	}
	xa_destroy(&xarray);
	rcu_barrier();
}

static int xarray_put(u64 key, u64 value)
{
	struct block *old, *new = block_new(value);
	XA_STATE(xas, &xarray, key);

	if (!new)
		return -ENOMEM;
	do {
		xas_lock(&xas);
		old = xas_load(&xas);
		if (old)
			new->version = old->version + 1;
		xas_store(&xas, new);
		xas_unlock(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	if (xas_error(&xas))
		kfree(new);
	else if (old)
		kfree_rcu(old, rcu);
	return xas_error(&xas);
}

static bool xarray_get(u64 key, struct bench_found *found)
{
	bool there;

	rcu_read_lock();
	there = block_read(xa_load(&xarray, key), found);
	rcu_read_unlock();
	return there;
}

const struct bench_map bench_xarray = {
	.name = "xarray", .dense_only = true, .open = xarray_open, .close = xarray_close,
	.put = xarray_put, .get = xarray_get,
};

/* rhashtable */

struct rh_block {
	struct rhash_head node;
	u64 key;
	u64 version;
	u64 value;
	struct rcu_head rcu;
};

static const struct rhashtable_params rh_params = {
	.key_len = sizeof(u64),
	.key_offset = offsetof(struct rh_block, key),
	.head_offset = offsetof(struct rh_block, node),
};

static struct rhashtable rh;

static void rh_free(void *block, void *unused)
{
	kfree(block);
}

static int rh_open(void)
{
	return rhashtable_init(&rh, &rh_params);
}

static void rh_close(void)
{
	rhashtable_free_and_destroy(&rh, rh_free, NULL);
	rcu_barrier();
}

/* If two replace the same block at once, one has to retry. */
static int rh_replace(struct rhashtable *ht, struct rhash_head *old, struct rhash_head *new,
		      const struct rhashtable_params params)
{
	int err = old ? rhashtable_replace_fast(ht, old, new, params) :
			rhashtable_insert_fast(ht, new, params);

	return err == -ENOENT || err == -EEXIST ? -EAGAIN : err;
}

static int rh_put(u64 key, u64 value)
{
	struct rh_block *old, *new = kmalloc(sizeof(*new), GFP_KERNEL);
	int err;

	if (!new)
		return -ENOMEM;
	new->key = key;
	new->value = value;
	rcu_read_lock();
	do {
		old = rhashtable_lookup(&rh, &key, rh_params);
		new->version = old ? old->version + 1 : 1;
		err = rh_replace(&rh, old ? &old->node : NULL, &new->node, rh_params);
	} while (err == -EAGAIN);
	rcu_read_unlock();
	if (err)
		kfree(new);
	else if (old)
		kfree_rcu(old, rcu);
	return err;
}

static bool rh_get(u64 key, struct bench_found *found)
{
	const struct rh_block *b;

	rcu_read_lock();
	b = rhashtable_lookup(&rh, &key, rh_params);
	if (b) {
		found->version = b->version;
		found->value = b->value;
	}
	rcu_read_unlock();
	return b;
}

const struct bench_map bench_rhashtable = {
	.name = "rhashtable", .open = rh_open, .close = rh_close, .put = rh_put, .get = rh_get,
};

/* rhashtable with keys of bytes */

struct name_block {
	struct rhash_head node;
	u64 version;
	struct rcu_head rcu;
	u8 key[BENCH_NAME_LEN];
	u8 data[BENCH_NAME_DATA];
};

static const struct rhashtable_params name_params = {
	.key_len = BENCH_NAME_LEN,
	.key_offset = offsetof(struct name_block, key),
	.head_offset = offsetof(struct name_block, node),
};

static int names_open(void)
{
	return rhashtable_init(&rh, &name_params);
}

static int names_put(const u8 *key, const u8 *data)
{
	struct name_block *old, *new = kmalloc(sizeof(*new), GFP_KERNEL);
	int err;

	if (!new)
		return -ENOMEM;
	memcpy(new->key, key, sizeof(new->key));
	memcpy(new->data, data, sizeof(new->data));
	rcu_read_lock();
	do {
		old = rhashtable_lookup(&rh, key, name_params);
		new->version = old ? old->version + 1 : 1;
		err = rh_replace(&rh, old ? &old->node : NULL, &new->node, name_params);
	} while (err == -EAGAIN);
	rcu_read_unlock();
	if (err)
		kfree(new);
	else if (old)
		kfree_rcu(old, rcu);
	return err;
}

const struct bench_names bench_names_rhashtable = {
	.name = "rhashtable", .open = names_open, .close = rh_close, .put = names_put,
};

/* An empty map, for the machine's own delays. */

static int empty_open(void)
{
	return 0;
}

static void empty_close(void)
{
}

static int empty_put(const u8 *key, const u8 *data)
{
	return 0;
}

const struct bench_names bench_names_empty = {
	.name = "empty", .open = empty_open, .close = empty_close, .put = empty_put,
};
