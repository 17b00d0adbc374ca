// SPDX-License-Identifier: GPL-2.0
/* Scenes: see scene.h. */
#include <linux/ktime.h>
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/unaligned.h>

#include "masstree/tree.h"
#include "scene.h"
#include "thread.h"

/*
 * Numbers identify keys.  The i-th number of a scene and up to 255 between it and
 * the next are keys of eight bytes; a pair has the slice of a number and more
 * bytes; the others are in a layer that no change touches; short ones have no
 * prefix and are in the first layer.
 */
#define SCENE_ID(i, off)	((i) << 8 | (off))
#define SCENE_PAIR(c)		(1u << 24 | (c))
#define SCENE_OTHER(c)		(2u << 24 | (c))
#define SCENE_PREFIX		(3u << 24)
#define SCENE_SHORT(c)		(4u << 24 | (c))

/* Keys of a full leaf, and of full leaves under a full inner node. */
#define LEAF	((u32)MT_LEAF_WIDTH)
#define INNER	((MT_INNER_WIDTH + 1) * LEAF)

/* Bytes after the slice that the keys of a pair share. */
#define SCENE_PAIR_COMMON	16

/*
 * A safeguard: a held change continues after this time, before a kernel reports its CPU as
 * stuck.  A program is not watched, and may get little CPU time.
 */
#ifdef __KERNEL__
#define SCENE_HELD_MAX_MS	KT_TURNS_MAX
#else
#define SCENE_HELD_MAX_MS	300000
#endif

const u32 scene_prefixes[SCENE_PREFIXES] = { 0, 16 };

/* Keys */

static void scene_make_key(const struct scene *scene, u32 id, struct scene_key *k)
{
	u32 len = scene->prefix_len;
	u64 number = SCENE_ID((id >> 8) + 1, id & 255);

	memset(k->data, 'p', len);
	if (id >> 24 == 1)
		number = SCENE_ID(scene->pair_at + 1, 0);
	if (id >> 24 == 4) {
		len = 0;
	} else if (id >> 24 == 2) {
		memcpy(k->data, "otherlyr", 8);
		len = 8;
	} else if (id != SCENE_PREFIX) {
		put_unaligned_be64(number, k->data + len);
		len += 8;
	}
	if (id >> 24 == 1) {
		memset(k->data + len, 'x', SCENE_PAIR_COMMON);
		len += SCENE_PAIR_COMMON;
	}
	if (id >> 24 == 1 || id >> 24 == 2 || id >> 24 == 4)
		k->data[len++] = id & 255;
	k->id = id;
	k->key = (struct kvt_key) { .data = k->data, .len = len };
}

/* The key of an id, made if the scene does not know it. */
static struct scene_key *scene_key(struct scene *scene, u32 id)
{
	struct scene_key *k;
	unsigned int i;

	for (i = 0; i < scene->nr; i++)
		if (scene->keys[i].id == id)
			return &scene->keys[i];
	if (WARN_ON(scene->nr == SCENE_KEYS)) {
		scene->err = -E2BIG;
		return &scene->keys[0];
	}
	k = &scene->keys[scene->nr++];
	scene_make_key(scene, id, k);
	return k;
}

static void scene_put(struct scene *scene, u32 id)
{
	struct scene_key *k = scene_key(scene, id);

	scene->err = scene->err ?: kt_put(scene->kt, &k->key, NULL);
	/* The overtaken thread reads it: see scene_state(). */
	WRITE_ONCE(k->state, SCENE_STABLE);
}

static void scene_del(struct scene *scene, u32 id)
{
	struct scene_key *k = scene_key(scene, id);

	scene->err = scene->err ?: kt_del(scene->kt, &k->key, NULL);
	k->state = SCENE_ABSENT;
}

/* Plans */

static void scene_fill(struct scene *scene, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		scene_put(scene, SCENE_ID(i, 0));
}

/* Numbers @from to @to - 1, from the last to the first. */
static void scene_fill_down(struct scene *scene, unsigned int from, unsigned int to)
{
	while (to-- > from)
		scene_put(scene, SCENE_ID(to, 0));
}

static void scene_drain(struct scene *scene, unsigned int from, unsigned int to)
{
	for (; from < to; from++)
		scene_del(scene, SCENE_ID(from, 0));
}

static void scene_will(struct scene *scene, enum scene_act act, u32 id, u32 near)
{
	scene->act = act;
	scene->act_id = id;
	scene->near = near;
}

/* The leaf has room, in slots that were never used. */
static void scene_build_insert(struct scene *scene)
{
	scene_fill(scene, 5);
	scene_will(scene, SCENE_PUT, SCENE_ID(2, 100), 2);
}

/* The leaf's only free slot is that of a removed key. */
static void scene_build_reuse(struct scene *scene)
{
	scene_fill(scene, LEAF);
	scene->gone_id = SCENE_ID(7, 0);
	scene_will(scene, SCENE_PUT, SCENE_ID(3, 100), 3);
}

static void scene_build_remove(struct scene *scene)
{
	scene_fill(scene, 5);
	scene_will(scene, SCENE_DEL, SCENE_ID(2, 0), 3);
}

/* A full leaf with full neighbours; its parent has room. */
static void scene_build_split(struct scene *scene)
{
	scene_fill(scene, 3 * LEAF);
	scene_will(scene, SCENE_PUT, SCENE_ID(17, 100), 17);
}

/* The key goes to the part that stays. */
static void scene_build_split_high(struct scene *scene)
{
	scene_fill(scene, 3 * LEAF);
	scene_will(scene, SCENE_PUT, SCENE_ID(27, 100), 17);
}

/* The last leaf is full, and a key is put after its last one. */
static void scene_build_split_up(struct scene *scene)
{
	scene_fill(scene, 2 * LEAF);
	scene_will(scene, SCENE_PUT, SCENE_ID(2 * LEAF, 0), 2 * LEAF - 1);
}

/* The first leaf is full, and a key is put before its first one. */
static void scene_build_split_down(struct scene *scene)
{
	scene_fill_down(scene, 1, 2 * LEAF + 1);
	scene_will(scene, SCENE_PUT, SCENE_ID(0, 0), 1);
}

/* The root is a full leaf. */
static void scene_build_split_root(struct scene *scene)
{
	scene_fill(scene, LEAF);
	scene_will(scene, SCENE_PUT, SCENE_ID(7, 100), 7);
}

/* The root is a full inner node, with a full leaf in the middle. */
static void scene_build_split_inner(struct scene *scene)
{
	scene_fill(scene, INNER);
	scene_will(scene, SCENE_PUT, SCENE_ID(110, 100), 110);
}

/* The last leaf holds one key. */
static void scene_build_unlink_last(struct scene *scene)
{
	scene_fill(scene, 2 * LEAF + 1);
	scene_will(scene, SCENE_DEL, SCENE_ID(2 * LEAF, 0), 2 * LEAF - 1);
}

/* The first leaf holds one key. */
static void scene_build_unlink_first(struct scene *scene)
{
	scene_fill_down(scene, 0, 2 * LEAF + 1);
	scene_will(scene, SCENE_DEL, SCENE_ID(0, 0), 1);
}

/* A leaf in the middle holds one key. */
static void scene_build_unlink_middle(struct scene *scene)
{
	scene_fill(scene, 3 * LEAF);
	scene_drain(scene, LEAF, 2 * LEAF - 1);
	scene_will(scene, SCENE_DEL, SCENE_ID(2 * LEAF - 1, 0), 2 * LEAF);
}

/*
 * Two inner nodes below the root.  The first leaf of the second holds one key,
 * and its range goes to the right.
 */
static void scene_build_unlink_to_right(struct scene *scene)
{
	scene_fill(scene, INNER + LEAF + 1);
	scene_drain(scene, INNER, INNER + LEAF - 1);
	scene_will(scene, SCENE_DEL, SCENE_ID(INNER + LEAF - 1, 0), INNER - 1);
}

/* The only leaf of the second inner node holds one key: both nodes are removed. */
static void scene_build_unlink_above(struct scene *scene)
{
	scene_fill(scene, INNER + 1);
	scene_will(scene, SCENE_DEL, SCENE_ID(INNER, 0), INNER - 1);
}

static void scene_use_pair(struct scene *scene, u32 at)
{
	scene->pair_at = at;
	scene->pair = true;
}

/* A key is longer than its slice; another one with this slice is put. */
static void scene_build_layer(struct scene *scene)
{
	scene_use_pair(scene, 2);
	scene_fill(scene, 5);
	scene_put(scene, SCENE_PAIR('a'));
	scene_will(scene, SCENE_PUT, SCENE_PAIR('b'), 2);
}

/* Layers with one key left, which is removed. */
static void scene_build_collect(struct scene *scene)
{
	scene_use_pair(scene, 2);
	scene_fill(scene, 5);
	scene_put(scene, SCENE_PAIR('a'));
	scene_put(scene, SCENE_PAIR('b'));
	scene_del(scene, SCENE_PAIR('a'));
	scene_will(scene, SCENE_DEL, SCENE_PAIR('b'), 2);
}

/* The key's leaf is the only child of an inner node. */
static void scene_build_collect_inner(struct scene *scene)
{
	unsigned int i;

	scene_use_pair(scene, 2);
	scene_fill(scene, 5);
	for (i = 0; i <= LEAF; i++)
		scene_put(scene, SCENE_PAIR('a' + i));
	for (i = 0; i < LEAF; i++)
		scene_del(scene, SCENE_PAIR('a' + i));
	scene_will(scene, SCENE_DEL, SCENE_PAIR('a' + LEAF), 2);
}

/* The layers are all that a leaf holds; it is not a root. */
static void scene_build_collect_unlink(struct scene *scene)
{
	scene_use_pair(scene, LEAF);
	scene_fill(scene, LEAF);
	scene_put(scene, SCENE_PAIR('a'));
	scene_put(scene, SCENE_PAIR('b'));
	scene_del(scene, SCENE_PAIR('b'));
	scene_will(scene, SCENE_DEL, SCENE_PAIR('a'), LEAF - 1);
}

/* Layers with one key left. */
static void scene_build_collapse(struct scene *scene)
{
	scene_use_pair(scene, 2);
	scene_fill(scene, 5);
	scene_put(scene, SCENE_PAIR('a'));
	scene_put(scene, SCENE_PAIR('b'));
	scene_del(scene, SCENE_PAIR('a'));
	scene_will(scene, SCENE_SWEEP, SCENE_PAIR('b'), 2);
}

/* A root with one child left. */
static void scene_build_shrink(struct scene *scene)
{
	scene_fill(scene, LEAF + 1);
	scene_drain(scene, LEAF, LEAF + 1);
	scene_will(scene, SCENE_SWEEP, SCENE_ID(LEAF, 0), 7);
}

static void scene_build_update(struct scene *scene, enum kt_cells before, enum kt_cells after)
{
	scene->kt->cells = before;
	scene_fill(scene, 5);
	scene_put(scene, SCENE_SHORT('a'));
	scene_put(scene, SCENE_SHORT('s'));
	scene_put(scene, SCENE_SHORT('z'));
	scene->kt->cells = after;
	scene_will(scene, SCENE_UPDATE, SCENE_SHORT('s'), 2);
}

/* A key's value is a cell, before and after. */
static void scene_build_cell(struct scene *scene)
{
	scene_build_update(scene, KT_CELLS_ALL, KT_CELLS_ALL);
}

/* A block is replaced by a cell. */
static void scene_build_block_to_cell(struct scene *scene)
{
	scene_build_update(scene, KT_CELLS_NONE, KT_CELLS_ALL);
}

/* A cell is replaced by a block. */
static void scene_build_cell_to_block(struct scene *scene)
{
	scene_build_update(scene, KT_CELLS_ALL, KT_CELLS_NONE);
}

#define AT(point)	BIT_ULL(KVT_PARK_##point)
#define AT_CELL		(AT(CELL_BUSY) | AT(CELL_WRITTEN))
#define AT_SPLIT	(AT(SPLIT_MARKED) | AT(SPLIT_BUILT) | AT(SPLIT_LINKED) | AT(SPLIT_SHRUNK))
#define AT_ROOT		(AT(SPLIT_ROOT) | AT(SPLIT_ROOT_PUBLISHED))
#define AT_UNLINK	(AT(UNLINK_LOCKED) | AT(UNLINK_LISTED) | AT(UNLINK_PARENT) | \
			 AT(UNLINK_MARKED))
#define AT_COLLECT	(AT(STEM_LOCKED) | AT(COLLECT_LOCKED) | AT(COLLECT_EMPTIED) | \
			 AT(COLLECT_REMOVED) | AT(COLLECT_MARKED))
#define AT_COLLAPSE	(AT(STEM_LOCKED) | AT(COLLAPSE_LOCKED) | AT(COLLAPSE_PUBLISHED) | \
			 AT(COLLAPSE_MARKED))

const struct scene_plan scene_plans[] = {
	{ "insert", AT(LOCKED) | AT(INSERT_WRITTEN), scene_build_insert },
	{ "reuse", AT(INSERT_REUSE) | AT(INSERT_WRITTEN), scene_build_reuse },
	{ "cell", AT_CELL, scene_build_cell },
	{ "block_to_cell", AT_CELL, scene_build_block_to_cell },
	{ "cell_to_block", AT(LOCKED), scene_build_cell_to_block },
	{ "remove", AT(REMOVE_UNLISTED), scene_build_remove },
	{ "split", AT(LOCKED) | AT_SPLIT | AT(SPLIT_PARENT), scene_build_split },
	{ "split_high", AT_SPLIT | AT(SPLIT_PARENT), scene_build_split_high },
	{ "split_up", AT_SPLIT | AT(SPLIT_PARENT), scene_build_split_up },
	{ "split_down", AT_SPLIT | AT(SPLIT_PARENT), scene_build_split_down },
	{ "split_root", AT(LOCKED) | AT_SPLIT | AT_ROOT, scene_build_split_root },
	{ "split_inner", AT(SPLIT_INNER_MARKED) | AT(SPLIT_INNER_MOVED) | AT_ROOT,
	  scene_build_split_inner },
	{ "unlink_last", AT_UNLINK, scene_build_unlink_last },
	{ "unlink_first", AT_UNLINK, scene_build_unlink_first },
	{ "unlink_middle", AT_UNLINK, scene_build_unlink_middle },
	{ "unlink_to_right", AT_UNLINK, scene_build_unlink_to_right },
	{ "unlink_above", AT_UNLINK, scene_build_unlink_above },
	{ "layer", AT(LAYER_BUILT) | AT(LAYER_PUBLISHED), scene_build_layer },
	{ "collect", AT_COLLECT, scene_build_collect },
	{ "collect_unlink", AT_COLLECT | AT_UNLINK, scene_build_collect_unlink },
	{ "collect_inner", AT_COLLECT, scene_build_collect_inner },
	{ "collapse", AT_COLLAPSE, scene_build_collapse },
	{ "shrink", AT(SHRINK_LOCKED) | AT(SHRINK_BESIDE) | AT(SHRINK_PUBLISHED) |
	  AT(SHRINK_MARKED), scene_build_shrink },
};

const unsigned int scene_nr_plans = ARRAY_SIZE(scene_plans);

/**
 * scene_may_wait() - may readers have to wait for the change?
 * @scene: the scene
 * @at: the point where the change is held
 *
 * Return: false: all nodes that are locked can be read.
 */
bool scene_may_wait(const struct scene *scene, enum kvt_park at)
{
	const u64 dirty = AT(INSERT_REUSE) | AT_CELL | AT_SPLIT | AT(SPLIT_INNER_MARKED) |
			  AT(SPLIT_INNER_MOVED) | AT(SPLIT_PARENT) | AT_ROOT |
			  AT(UNLINK_LISTED) | AT(UNLINK_PARENT) | AT(UNLINK_MARKED);

	return dirty & BIT_ULL(at) || scene->plan->build == scene_build_reuse;
}

/* Opening and closing */

static void scene_add_loose(struct scene *scene, u32 id)
{
	scene_key(scene, id)->loose = true;
}

/* Keys not present yet: to be put, or to be looked up in vain. */
static void scene_add_strangers(struct scene *scene)
{
	if (scene->gone_id != SCENE_NONE)
		scene_add_loose(scene, scene->gone_id);
	scene_add_loose(scene, scene->act_id);
	scene_add_loose(scene, scene->act_id + 1);
	scene_add_loose(scene, SCENE_ID(scene->near, 4));
	scene_add_loose(scene, SCENE_ID(scene->near, 5));
	scene_add_loose(scene, SCENE_PAIR('m'));
	scene_key(scene, SCENE_ID(scene->near, 3));
	scene_key(scene, SCENE_PAIR('l'));
	scene_key(scene, SCENE_PREFIX);
	if (scene->prefix_len)
		scene_key(scene, SCENE_OTHER('c'));
}

static int scene_cmp(const void *a, const void *b)
{
	return kt_key_cmp(&(*(struct scene_key **)a)->key, &(*(struct scene_key **)b)->key);
}

static void scene_sort(struct scene *scene)
{
	unsigned int i;

	for (i = 0; i < scene->nr; i++)
		scene->sorted[i] = &scene->keys[i];
	sort(scene->sorted, scene->nr, sizeof(scene->sorted[0]), scene_cmp, NULL);
}

/*
 * Keep the worker out, however long building takes: a sweep does its work instead.
 */
static void scene_stop_worker(struct scene *scene)
{
	disable_delayed_work_sync(&mt_tree(scene->kt->index)->check_work);
}

static void scene_free(struct scene *scene)
{
	scene->kt->cells = KT_CELLS_SOME;
	enable_delayed_work(&mt_tree(scene->kt->index)->check_work);
	kt_cursor_exit(&scene->cur);
	kfree(scene);
}

/**
 * scene_open() - build a scene
 * @kt: an empty Masstree, used only by the scene until scene_close()
 * @plan: which
 * @prefix_len: bytes that its keys share
 *
 * Return: the scene, or NULL.
 */
struct scene *scene_open(struct kt *kt, const struct scene_plan *plan, u32 prefix_len)
{
	struct scene *scene = kzalloc(sizeof(*scene), GFP_KERNEL);

	if (!scene)
		return NULL;
	scene->kt = kt;
	scene->plan = plan;
	scene->prefix_len = prefix_len;
	scene->gone_id = SCENE_NONE;
	scene_stop_worker(scene);
	scene->err = kt_cursor_init(kt, &scene->cur);
	if (prefix_len) {
		scene_put(scene, SCENE_OTHER('a'));
		scene_put(scene, SCENE_OTHER('b'));
	}
	plan->build(scene);
	scene_add_strangers(scene);
	scene_sort(scene);
	if (!scene->err)
		return scene;
	scene_free(scene);
	return NULL;
}

/* Remove all keys.  A sweep then leaves nothing but an empty root. */
static int scene_empty(struct scene *scene)
{
	struct kt *kt = scene->kt;
	unsigned int i;

	for (i = 0; i < scene->nr; i++)
		if (scene->keys[i].state != SCENE_ABSENT)
			scene_del(scene, scene->keys[i].id);
	kt->ops->sweep(kt->index);
	if (!scene->err && (kt_stat(kt, KVTREE_STAT_LEAF_NODES) != 1 ||
			    kt_stat(kt, KVTREE_STAT_INNER_NODES) ||
			    kt_stat(kt, KVTREE_STAT_LAYERS)))
		scene->err = -ENOTEMPTY;
	return scene->err;
}

/**
 * scene_close() - remove a scene's keys and nodes
 * @scene: the scene, after its change
 *
 * Return: 0; -ENOTEMPTY: nodes are left in the empty tree; or another error.
 */
int scene_close(struct scene *scene)
{
	int err = scene_empty(scene);

	scene_free(scene);
	return err;
}

/* The change */

static int scene_do(void *arg)
{
	struct scene *scene = arg;
	struct scene_key *k = scene_key(scene, scene->act_id);
	int err = 0;

	if (scene->gone_id != SCENE_NONE)
		err = kt_del(scene->kt, &scene_key(scene, scene->gone_id)->key, NULL);
	if (err)
		return err;
	switch (scene->act) {
	case SCENE_PUT:
	case SCENE_UPDATE:
		return kt_put(scene->kt, &k->key, NULL);
	case SCENE_DEL:
		return kt_del(scene->kt, &k->key, NULL);
	default:
		scene->kt->ops->sweep(scene->kt->index);
		return 0;
	}
}

static void scene_begin(struct scene *scene)
{
	if (scene->gone_id != SCENE_NONE)
		scene_key(scene, scene->gone_id)->state = SCENE_EITHER;
	if (scene->act == SCENE_PUT || scene->act == SCENE_DEL)
		scene_key(scene, scene->act_id)->state = SCENE_EITHER;
}

static void scene_end(struct scene *scene)
{
	if (scene->gone_id != SCENE_NONE)
		scene_key(scene, scene->gone_id)->state = SCENE_ABSENT;
	if (scene->act == SCENE_PUT || scene->act == SCENE_DEL)
		scene_key(scene, scene->act_id)->state =
			scene->act == SCENE_PUT ? SCENE_STABLE : SCENE_ABSENT;
}

/* The thread that is held, and where. */
static struct {
	struct scene *scene;
	struct task_struct *task;
	enum kvt_park at;
	unsigned int skip;	/* how often it passes the point before */
	bool met;		/* the point was passed */
	bool held;		/* the thread waits there */
	bool go;		/* it may go on */
	bool done;		/* its change is complete */
	bool late;		/* it continued without permission */
	u64 until;		/* ns: when it continues by itself; 0: never */
	scene_visit visit;	/* called by the thread itself, instead of waiting */
	void *arg;
} scene_hold;

static void scene_wait(void)
{
	struct kt_patience patience = { };

	WRITE_ONCE(scene_hold.held, true);
	/* Pairs with the release in scene_hold_actor(). */
	while (!smp_load_acquire(&scene_hold.go)) {
		u64 until = READ_ONCE(scene_hold.until);

		if (until && ktime_get_mono_fast_ns() > until)
			break;
		if (kt_patience_ends(&patience, SCENE_HELD_MAX_MS)) {
			scene_hold.late = true;
			break;
		}
		cpu_relax();
	}
}

static void scene_hook(enum kvt_park at)
{
	if (at != scene_hold.at || current != scene_hold.task || scene_hold.met)
		return;
	if (scene_hold.skip) {
		scene_hold.skip--;
		return;
	}
	scene_hold.met = true;
	if (scene_hold.visit)
		scene_hold.visit(scene_hold.scene, scene_hold.arg);
	else
		scene_wait();
}

static void scene_arm(struct scene *scene, enum kvt_park at, struct task_struct *task)
{
	memset(&scene_hold, 0, sizeof(scene_hold));
	scene_hold.scene = scene;
	scene_hold.at = at;
	scene_hold.task = task;
	WRITE_ONCE(kvt_park_hook, scene_hook);
	WRITE_ONCE(kvt_park_loose_hook, scene_hook);
}

static int scene_disarm(struct scene *scene, int err)
{
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	WRITE_ONCE(kvt_park_hook, NULL);
	if (!err && !scene_hold.met)
		return -ENODATA;
	return err ?: scene_hold.late ? -ETIME : 0;
}

/* A thread that is to be held. */
struct scene_actor {
	struct kt_thread thread;
	struct scene *scene;
	int (*fn)(void *scene);
};

static int scene_actor_run(void *arg)
{
	struct scene_actor *actor = arg;
	int err = actor->fn(actor->scene);

	/* Pairs with the acquire in scene_hold_actor(). */
	smp_store_release(&scene_hold.done, true);
	return err;
}

/* Let CPU 1 call @fn; call @visit when it passes the point for the nth time. */
static int scene_hold_actor(struct scene *scene, enum kvt_park at, unsigned int nth,
			    int (*fn)(void *scene), scene_visit visit, void *arg)
{
	struct scene_actor actor = { .scene = scene, .fn = fn };
	int err;

	err = kt_thread_init(&actor.thread, 1, scene_actor_run, &actor);
	if (err)
		return err;
	scene_arm(scene, at, actor.thread.task);
	scene_hold.skip = nth;
	kt_thread_start(&actor.thread);
	/* Pairs with the release in scene_actor_run(). */
	while (!READ_ONCE(scene_hold.held) && !smp_load_acquire(&scene_hold.done))
		usleep_range(10, 50);
	if (READ_ONCE(scene_hold.held))
		visit(scene, arg);
	smp_store_release(&scene_hold.go, true);	/* pairs with scene_wait() */
	return scene_disarm(scene, kt_thread_join(&actor.thread));
}

/**
 * scene_let_go_in() - let a held change continue by itself
 * @ms: after this time
 */
void scene_let_go_in(unsigned int ms)
{
	WRITE_ONCE(scene_hold.until, ktime_get_mono_fast_ns() + ms * NSEC_PER_MSEC);
}

/**
 * scene_held() - make a scene's change, held at a park point by CPU 1
 * @scene: the scene
 * @at: the point
 * @visit: called by this thread, on CPU 0, while the change is held
 * @arg: for @visit
 *
 * Return: 0; -ENODATA: the change did not reach the point; -ETIME: it was
 * held for so long that it continued; or its error.
 */
int scene_held(struct scene *scene, enum kvt_park at, scene_visit visit, void *arg)
{
	int err;

	scene_begin(scene);
	err = scene_hold_actor(scene, at, 0, scene_do, visit, arg);
	scene_end(scene);
	return err;
}

/**
 * scene_on_top() - make a scene's change, interrupted at a park point
 * @scene: the scene
 * @at: the point
 * @visit: called at the point, by the thread that makes the change
 * @arg: for @visit
 *
 * Return: as scene_held().
 */
int scene_on_top(struct scene *scene, enum kvt_park at, scene_visit visit, void *arg)
{
	int err;

	scene_begin(scene);
	scene_arm(scene, at, current);
	scene_hold.visit = visit;
	scene_hold.arg = arg;
	err = scene_disarm(scene, scene_do(scene));
	scene_end(scene);
	return err;
}

/* Readers: under RCU, any context, one at a time */

static void scene_wrong(struct scene_look *look, const char *wrong, const struct scene_key *k,
			int err)
{
	if (look->wrong)
		return;
	look->wrong = wrong;
	look->id = k ? k->id : U32_MAX;
	look->err = err;
}

static enum scene_state scene_state(const struct scene *scene, const struct scene_key *k)
{
	return scene->moving && k->loose ? SCENE_EITHER : READ_ONCE(k->state);
}

/* Judge what a lookup of a key returned. */
static void scene_judge(const struct scene *scene, struct scene_look *look, struct scene_key *k,
			const struct kvt_value *value)
{
	enum scene_state state = scene_state(scene, k);
	u64 version = 0;
	int err = kt_check(value, &k->key, &version);

	look->gets++;
	if (err == -EBUSY)
		look->busy++;
	else if (err == -ENOENT && state == SCENE_STABLE)
		scene_wrong(look, "a key that exists was not found", k, err);
	else if (!err && state == SCENE_ABSENT)
		scene_wrong(look, "a key that does not exist was found", k, err);
	else if (err && err != -ENOENT)
		scene_wrong(look, "a key's value is not its own", k, err);
	else if (!err && version < k->version)
		scene_wrong(look, "a key's version went back", k, err);
	if (!err)
		k->version = version;
}

static void scene_look_get(struct scene *scene, struct scene_look *look)
{
	struct kvt_cell cell;
	unsigned int i;

	for (i = 0; i < scene->nr; i++)
		scene_judge(scene, look, &scene->keys[i],
			    scene->kt->ops->get(scene->kt->index, &scene->keys[i].key, &cell));
}

#define SCENE_BATCH	20u

static void scene_look_batch(struct scene *scene, struct scene_look *look)
{
	struct kvt_lookup lookups[SCENE_BATCH];
	struct kvt_cell cells[SCENE_BATCH];
	unsigned int i, at, nr;

	for (at = 0; at < scene->nr; at += nr) {
		nr = min(scene->nr - at, SCENE_BATCH);
		for (i = 0; i < nr; i++)
			lookups[i].key = scene->keys[at + i].key;
		scene->kt->ops->get_batch(scene->kt->index, lookups, cells, nr);
		for (i = 0; i < nr; i++)
			scene_judge(scene, look, &scene->keys[at + i], lookups[i].value);
	}
}

static struct scene_key *scene_find(struct scene *scene, const struct kvt_key *key)
{
	unsigned int low = 0, high = scene->nr;

	while (low < high) {
		unsigned int mid = (low + high) / 2;
		int diff = kt_key_cmp(&scene->sorted[mid]->key, key);

		if (!diff)
			return scene->sorted[mid];
		if (diff < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* A record of a scan: a key of the scene, after the previous one. */
static void scene_look_record(struct scene *scene, struct scene_look *look,
			      struct scene_key **last)
{
	const struct kvt_key key = kt_cursor_key(&scene->cur);
	struct scene_key *k = scene_find(scene, &key);
	int diff;

	if (!k || scene_state(scene, k) == SCENE_ABSENT) {
		scene_wrong(look, "a scan found a key that does not exist", k, 0);
		return;
	}
	diff = *last ? kt_key_cmp(&(*last)->key, &key) : 0;
	if (*last && (scene->cur.iter->reverse ? diff <= 0 : diff >= 0))
		scene_wrong(look, "a scan is not in order", k, 0);
	if (scene->cur.version < k->version)
		scene_wrong(look, "a scan found an older version", k, 0);
	k->seen = true;
	k->version = scene->cur.version;
	*last = k;
}

/* Returns how the scan ended. */
static int scene_look_records(struct scene *scene, struct scene_look *look)
{
	struct scene_key *last = NULL;
	unsigned int calls;
	int err;

	/* More calls than there are positions: the scan goes in circles. */
	for (calls = 0; calls < 4 * SCENE_KEYS; calls++) {
		err = kt_cursor_next_rcu(&scene->cur);
		if (!err)
			scene_look_record(scene, look, &last);
		else if (err == -EAGAIN)
			scene->kt->ops->iter_rest(scene->cur.iter);
		else
			return err;
	}
	return -ELOOP;
}

static void scene_look_scan(struct scene *scene, struct scene_look *look, bool reverse)
{
	const struct kvt_key empty = { };
	unsigned int i;
	int err;

	for (i = 0; i < scene->nr; i++)
		scene->keys[i].seen = false;
	kt_cursor_set(&scene->cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	err = scene_look_records(scene, look);
	scene->kt->ops->iter_rest(scene->cur.iter);
	if (err == -EBUSY) {
		look->busy++;
		return;
	}
	if (err != -ENOENT) {
		scene_wrong(look, "a scan failed", NULL, err);
		return;
	}
	look->scans++;
	for (i = 0; i < scene->nr; i++)
		if (scene_state(scene, &scene->keys[i]) == SCENE_STABLE && !scene->keys[i].seen)
			scene_wrong(look, "a scan missed a key", &scene->keys[i], reverse);
}

/**
 * scene_look() - read all keys in every way
 * @scene: the scene
 * @look: results are added to it; cleared by the caller
 *
 * Context: any, one at a time.
 */
void scene_look(struct scene *scene, struct scene_look *look)
{
	rcu_read_lock();
	scene_look_get(scene, look);
	scene_look_batch(scene, look);
	scene_look_scan(scene, look, false);
	scene_look_scan(scene, look, true);
	rcu_read_unlock();
}

/**
 * scene_verify() - does the tree agree with the scene after its change?
 * @scene: the scene, which nobody changes any more
 * @look: what was wrong
 */
void scene_verify(struct scene *scene, struct scene_look *look)
{
	scene_look(scene, look);
	if (look->busy || look->scans != 2)
		scene_wrong(look, "a reader gave up without cause", NULL, 0);
}

/* Writers */

/**
 * scene_write_elsewhere() - change a layer that the scene's change is not about
 * @scene: a scene with a prefix, while its change is held
 *
 * It must go through, unless readers of that layer give up, too.
 *
 * Return: 0 or what went wrong.
 */
int scene_write_elsewhere(struct scene *scene)
{
	struct scene_key *old = scene_key(scene, SCENE_OTHER('a'));
	struct scene_key *new = scene_key(scene, SCENE_OTHER('c'));
	int err;

	rcu_read_lock();
	err = kt_get_rcu(scene->kt, &old->key, NULL);
	rcu_read_unlock();
	if (err == -EBUSY)
		return 0;
	err = err ?: kt_put_gfp(scene->kt, &old->key, GFP_NOWAIT, NULL);
	err = err ?: kt_put_gfp(scene->kt, &new->key, GFP_NOWAIT, NULL);
	if (!err)
		new->state = SCENE_STABLE;
	return err ?: kt_del(scene->kt, &new->key, NULL) ?:
	       kt_put_gfp(scene->kt, &new->key, GFP_NOWAIT, NULL);
}

/**
 * scene_write_near() - change the leaves that the scene's change has locked
 * @scene: the scene
 *
 * Return: 0 or what went wrong.
 */
int scene_write_near(struct scene *scene)
{
	/* Begin at the change itself: only the first writer meets it held. */
	scene_put(scene, scene->act_id + 1);
	scene_put(scene, SCENE_ID(scene->near, 0));
	if (scene->pair)
		scene_put(scene, SCENE_PAIR('m'));
	scene_put(scene, SCENE_ID(scene->near, 4));
	scene_put(scene, SCENE_ID(scene->near, 5));
	scene_del(scene, SCENE_ID(scene->near, 4));
	return scene->err;
}

/* Threads that are overtaken */

static void scene_look_at(struct scene *scene, struct scene_look *look, struct scene_key *k)
{
	struct kvt_cell cell;

	scene_judge(scene, look, k, scene->kt->ops->get(scene->kt->index, &k->key, &cell));
}

/* Look at the key that loses its slot to another, at loose keys, and at some others. */
static void scene_look_some(struct scene *scene, struct scene_look *look)
{
	unsigned int i, step = scene->nr / 7 + 1;

	if (scene->gone_id != SCENE_NONE)
		scene_look_at(scene, look, scene_key(scene, scene->gone_id));
	for (i = 0; i < scene->nr; i++)
		if (scene->sorted[i]->loose || i % step == step / 2)
			scene_look_at(scene, look, scene->sorted[i]);
}

static int scene_play(void *arg)
{
	struct scene *scene = arg;

	if (scene->role == SCENE_ROLE_ACT)
		return scene_do(scene);
	if (scene->role == SCENE_ROLE_WRITE)
		return scene_write_near(scene);
	rcu_read_lock();
	if (scene->role == SCENE_ROLE_GET)
		scene_look_some(scene, scene->look);
	else
		scene_look_scan(scene, scene->look, scene->role == SCENE_ROLE_SCAN_BACK);
	rcu_read_unlock();
	return 0;
}

/* Everything that the held thread does not do. */
static void scene_overtake(struct scene *scene, void *arg)
{
	int *err = arg;

	if (scene->role != SCENE_ROLE_ACT) {
		*err = scene_do(scene);
		scene_end(scene);
	}
	/* If a slot has got another key, a split would make readers retry. */
	if (!*err && scene->role != SCENE_ROLE_WRITE && scene->gone_id == SCENE_NONE)
		*err = scene_write_near(scene);
	scene->kt->ops->sweep(scene->kt->index);
}

/**
 * scene_overtaken() - hold a thread of CPU 1 while all else goes on
 * @scene: the scene
 * @at: the point where it is held: a loose one
 * @nth: when it passes it for the nth time, from 0
 * @role: what the thread does
 * @look: what it finds, if it reads
 *
 * Meanwhile the scene's change is made, and its leaves are changed again.
 *
 * Return: 0; -ENODATA: the thread did not reach the point that often, and was
 * not overtaken; or another error.
 */
int scene_overtaken(struct scene *scene, enum kvt_park at, unsigned int nth,
		    enum scene_role role, struct scene_look *look)
{
	int result = 0, err;

	scene->role = role;
	scene->look = look;
	scene->moving = true;
	err = scene_hold_actor(scene, at, nth, scene_play, scene_overtake, &result);
	scene->moving = false;
	if (role == SCENE_ROLE_ACT)
		scene_end(scene);
	return err ?: result;
}
