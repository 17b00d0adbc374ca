// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer: bytes become operations on an index and on a model, which must
 * agree after each.  Only the freeing of memory is concurrent: the engine's
 * worker is disabled, and sweeps are among the operations.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../kmod/bwtree/tree.h"
#include "../../../kmod/masstree/tree.h"
#include "../../../kmod/tests/lib.h"
#include "../shim/kunit.h"
#include "model.h"

/* More keys than this take long and show nothing new. */
#define KEYS_MAX	4000
#define BATCH_MAX	40
#define RECENT		16
/* Inputs between two looks for lost memory. */
#define INPUTS		2000

#define check(cond)	BUG_ON(!(cond))

/* The rest of the input, with zeros after its end. */
struct input {
	const u8 *at;
	const u8 *end;
};

static struct kunit test = { .name = "fuzz" };
/* The engines; an input says which it is for. */
static struct subject {
	const struct kvt_index_ops *ops;
	u32 page_size;
	struct kt *kt;
	struct kvt_index_env env;
	struct kt_cursor cursor;
} subjects[] = {
	{ &kvt_masstree_ops },
	/* Pages of about four entries. */
	{ &kvt_bwtree_ops, 100 },
};

static struct kt *kt;
static struct kt_cursor cursor;
static struct model model;

/* Keys */

/* A key in memory of exactly its length. */
struct key {
	u8 *data;
	u32 len;
};

static struct key recent[RECENT];
static unsigned int nr_recent;

static u8 next_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static unsigned int next_below(struct input *in, unsigned int n)
{
	return next_byte(in) % n;
}

static struct key *new_key(u32 len)
{
	struct key *key = &recent[nr_recent++ % RECENT];

	free(key->data);
	key->data = malloc(len);
	check(key->data);
	key->len = len;
	return key;
}

static struct key *copy_key(const struct key *from, u32 len)
{
	const struct key old = *from;
	u8 *data = malloc(old.len);
	struct key *key;

	/* The new key may get the place of the old one. */
	check(data);
	if (old.len)
		memcpy(data, old.data, old.len);
	key = new_key(len);
	if (len)
		memset(key->data, 0, len);
	if (min(len, old.len))
		memcpy(key->data, data, min(len, old.len));
	free(data);
	return key;
}

/* Bytes as they come. */
static struct key *raw_key(struct input *in)
{
	struct key *key = new_key(next_below(in, 28));
	u32 i;

	for (i = 0; i < key->len; i++)
		key->data[i] = next_byte(in);
	return key;
}

/* A long run of one byte and a short end: keys that share layers. */
static struct key *deep_key(struct input *in)
{
	static const u16 lengths[] = { 7, 8, 9, 16, 24, 40, 120, 500, 2040, KVTREE_KEY_MAX - 8 };
	u32 prefix = lengths[next_below(in, ARRAY_SIZE(lengths))];
	u8 fill = 'a' + next_below(in, 2);
	struct key *key = new_key(prefix + next_below(in, 9));
	u32 i;

	memset(key->data, fill, prefix);
	for (i = prefix; i < key->len; i++)
		key->data[i] = next_byte(in);
	return key;
}

/* A key of before, with another end. */
static struct key *near_key(struct input *in, const struct key *old)
{
	struct key *key;

	switch (next_below(in, 5)) {
	case 0:
		return copy_key(old, old->len ? old->len - 1 : 0);
	case 1:
		return copy_key(old, old->len - old->len % 8);
	case 2:
		if (old->len == KVTREE_KEY_MAX)
			return copy_key(old, old->len);
		key = copy_key(old, old->len + 1);
		key->data[key->len - 1] = next_byte(in);
		return key;
	case 3:
		key = copy_key(old, old->len);
		if (key->len)
			key->data[next_byte(in) % key->len]++;
		return key;
	default:
		key = copy_key(old, old->len);
		if (key->len)
			key->data[key->len - 1]--;
		return key;
	}
}

/* The @i-th of those that exist, in memory that stays when it goes. */
static struct kvt_key present_key(unsigned int i)
{
	const struct kvt_key *key = &model.entry[i].key;
	struct key *copy = new_key(key->len);

	memcpy(copy->data, key->data, key->len);
	return KT_BYTES(copy->data, copy->len);
}

static struct kvt_key next_key(struct input *in)
{
	unsigned int how = next_byte(in);
	const struct key *old = &recent[how / 8 % RECENT];

	switch (how % 8) {
	case 0:
	case 1:
		old = raw_key(in);
		break;
	case 2:
		old = deep_key(in);
		break;
	case 3:
	case 4:
		old = near_key(in, old);
		break;
	default:
		break;	/* the same again */
	}
	return KT_BYTES(old->data, old->len);
}

/* Operations on a key */

static void expect_get(const struct kvt_key *key)
{
	const struct entry *e = model_find(&model, key);
	u64 version = 0;

	check(kt_get(kt, key, &version) == (e ? 0 : -ENOENT));
	check(!e || version == e->version);
}

/* A put may fail where it is made to.  Then nothing has changed. */
static void put(const struct kvt_key *key, gfp_t gfp, int excuse)
{
	const struct entry *e = model_find(&model, key);
	u64 version = 0;
	int err;

	if (!e && model.nr >= KEYS_MAX)
		return;
	err = kt_put_gfp(kt, key, gfp, &version);
	if (err) {
		check(err == excuse);
		return;
	}
	check(!e || version > e->version);
	model_put(&model, key, version);
}

static void del(const struct kvt_key *key)
{
	const struct entry *e = model_find(&model, key);
	u64 version = 0;

	check(kt_del(kt, key, &version) == (e ? 0 : -ENOENT));
	if (!e)
		return;
	check(version == e->version);
	model_del(&model, key);
}

static void do_put(struct input *in)
{
	const struct kvt_key key = next_key(in);

	put(&key, GFP_KERNEL, 0);
}

static void do_put_nowait(struct input *in)
{
	const struct kvt_key key = next_key(in);

	put(&key, GFP_NOWAIT, 0);
}

/* One of the allocations fails. */
static void do_put_without_memory(struct input *in)
{
	const struct kvt_key key = next_key(in);

	current->fail_nth = 1 + next_byte(in);
	put(&key, GFP_KERNEL, -ENOMEM);
	current->fail_nth = 0;
	expect_get(&key);
}

/* The limit is reached, or not. */
static void do_put_at_the_limit(struct input *in)
{
	const struct kvt_key key = next_key(in);
	struct kvt_pool *bytes = &kt->quota.bytes;

	/* CPUs give back what they have set aside. */
	kvt_quota_charge(&kt->quota, S64_MAX);
	bytes->limit = kvt_quota_bytes(&kt->quota) + 64 * next_below(in, 40);
	put(&key, GFP_KERNEL, -EDQUOT);
	bytes->limit = S64_MAX;
	expect_get(&key);
}

static void do_aborted_put(struct input *in)
{
	const struct kvt_key key = next_key(in);
	struct kt_change c;

	check(!kt_put_begin(kt, &c, &key, GFP_KERNEL));
	kt_abort(&c);
	expect_get(&key);
}

static void do_del(struct input *in)
{
	const struct kvt_key key = next_key(in);

	del(&key);
}

/* One that exists. */
static void do_del_present(struct input *in)
{
	unsigned int at = next_byte(in) * 256 + next_byte(in);
	struct kvt_key key;

	if (!model.nr)
		return;
	key = present_key(at % model.nr);
	del(&key);
}

static void do_get(struct input *in)
{
	const struct kvt_key key = next_key(in);

	expect_get(&key);
}

/* Many keys */

/* One of many keys: a number after a prefix. */
static struct kvt_key number_key(u32 prefix, u64 number)
{
	struct key *key = new_key(prefix + 8);

	memset(key->data, 'a', prefix);
	put_unaligned_be64(number, key->data + prefix);
	return KT_BYTES(key->data, key->len);
}

/* Numbers in steps up or down: full leaves, splits of inner nodes, emptied leaves. */
static void do_many(struct input *in, bool remove)
{
	u32 prefix = 8 * next_below(in, 4);
	u64 number = next_byte(in) << 8;
	s64 step = (s8)next_byte(in);
	unsigned int nr = 2 * next_byte(in);

	for (; nr; nr--, number += step) {
		const struct kvt_key key = number_key(prefix, number);

		if (remove)
			del(&key);
		else
			put(&key, GFP_KERNEL, 0);
	}
}

static void do_put_many(struct input *in)
{
	do_many(in, false);
}

static void do_del_many(struct input *in)
{
	do_many(in, true);
}

/* Neighbours. */
static void do_del_range(struct input *in)
{
	const struct kvt_key key = next_key(in);
	unsigned int from = model_below(&model, &key), nr = next_byte(in);

	while (nr-- && from < model.nr) {
		const struct kvt_key gone = present_key(from);

		del(&gone);
	}
}

static void do_get_prefix(struct input *in)
{
	const struct kvt_key key = next_key(in);
	struct kvt_key prefix = key;
	const struct entry *e;
	u64 version = 0;
	s64 found;

	while (!(e = model_find(&model, &prefix)) && prefix.len)
		prefix.len--;
	found = kt_get_prefix(kt, &key, &version);
	check(found == (e ? (s64)prefix.len : -ENOENT));
	check(!e || version == e->version);
}

static void do_get_batch(struct input *in)
{
	unsigned int i, nr = 1 + next_below(in, BATCH_MAX);
	struct kvt_lookup lookups[BATCH_MAX];
	struct kvt_cell cells[BATCH_MAX];
	struct kvt_key keys[BATCH_MAX];

	/* Present ones, in steps, and one that is made up. */
	for (i = 0; i < nr; i++) {
		keys[i] = KT_KEY("nobody's");
		if (model.nr)
			keys[i] = model.entry[i * 7919u % model.nr].key;
	}
	keys[nr / 2] = next_key(in);
	for (i = 0; i < nr; i++)
		lookups[i].key = keys[i];
	rcu_read_lock();
	kt->ops->get_batch(kt->index, lookups, cells, nr);
	for (i = 0; i < nr; i++) {
		const struct entry *e = model_find(&model, &keys[i]);
		u64 version = 0;

		check(kt_check(lookups[i].value, &keys[i], &version) == (e ? 0 : -ENOENT));
		check(!e || version == e->version);
	}
	rcu_read_unlock();
}

/* Scans */

struct walk {
	unsigned int at;	/* keys of the model to the left of the position */
	unsigned int records;	/* still to be read */
	bool reverse;
};

static int walk_one(struct kt_cursor *cur, void *arg)
{
	const struct kvt_key key = kt_cursor_key(cur);
	struct walk *w = arg;
	struct entry *e;

	check(w->reverse ? w->at > 0 : w->at < model.nr);
	if (w->reverse)
		w->at--;
	e = &model.entry[w->at];
	if (!w->reverse)
		w->at++;
	check(!kt_key_cmp(&key, &e->key) && cur->version == e->version);
	return !--w->records;
}

static void walk(struct walk w, unsigned int burst)
{
	int ret = kt_scan(&cursor, burst, walk_one, &w);

	check(ret >= 0);
	/* It came to the end, and so did the model. */
	check(ret || w.at == (w.reverse ? 0 : model.nr));
}

static unsigned int left_of(const struct kvt_key *key, enum kvt_bound bound, bool reverse)
{
	if (bound == KVT_PAST)
		return model_past(&model, key);
	if (bound == KVT_AT)
		return reverse ? model_upto(&model, key) : model_below(&model, key);
	return reverse ? model_below(&model, key) : model_upto(&model, key);
}

/* From a key on; with one record it is an ordered lookup. */
static void do_scan(struct input *in)
{
	const struct kvt_key key = next_key(in);
	enum kvt_bound bound = next_below(in, 3);
	unsigned int burst = 1 + next_below(in, 20);
	struct walk w = { .records = 1 + next_below(in, 30), .reverse = next_below(in, 2) };

	w.at = left_of(&key, bound, w.reverse);
	kt_cursor_set(&cursor, &key, bound, w.reverse);
	walk(w, burst);
}

/* Two keys are put and removed while a cursor rests between two records. */
static void do_scan_beside_changes(struct input *in)
{
	const struct kvt_key first = next_key(in);
	struct walk w = { .records = UINT_MAX, .reverse = next_below(in, 2) };
	unsigned int i;
	int err;

	kt_cursor_set(&cursor, &first, KVT_AT, w.reverse);
	for (i = 0; i < 20; i++) {
		struct kvt_key key;
		struct entry *e;

		if (i % 4 == 1)
			do_put(in);
		if (i % 4 == 3)
			do_del_present(in);
		key = KT_BYTES(cursor.iter->key, cursor.iter->len);
		w.at = left_of(&key, cursor.iter->bound, w.reverse);
		err = kt_cursor_next(&cursor);
		if (w.reverse ? !w.at : w.at == model.nr) {
			check(err == -ENOENT);
			return;
		}
		check(!err);
		e = &model.entry[w.reverse ? w.at - 1 : w.at];
		key = kt_cursor_key(&cursor);
		check(!kt_key_cmp(&key, &e->key) && cursor.version == e->version);
	}
}

static void walk_all(void)
{
	const struct kvt_key empty = { };

	kt_cursor_set(&cursor, &empty, KVT_AT, false);
	walk((struct walk) { .records = UINT_MAX }, 16);
	kt_cursor_set(&cursor, &empty, KVT_PAST, true);
	walk((struct walk) { .at = model.nr, .records = UINT_MAX, .reverse = true }, 16);
}

static void do_sweep(struct input *in)
{
	kt->ops->sweep(kt->index);
	if (next_byte(in) & 1)
		walk_all();
}

static void (*const operations[])(struct input *in) = {
	do_put, do_put, do_put_nowait, do_put_without_memory, do_put_at_the_limit,
	do_aborted_put, do_del, do_del_present, do_get, do_put_many, do_del_many,
	do_del_range, do_get_batch, do_scan, do_scan_beside_changes, do_sweep, do_get_prefix,
};

/* Inputs */

static void forget_keys(void)
{
	unsigned int i;

	for (i = 0; i < RECENT; i++)
		free(recent[i].data);
	memset(recent, 0, sizeof(recent));
	nr_recent = 0;
}

/* All retired memory is freed by now.  Is anything left of the inputs so far? */
static void look_for_lost_memory(void)
{
	static long objects;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(subjects); i++) {
		kt_flush(subjects[i].kt);
		/* An empty one may be kept for the next change. */
		kfree(kvt_bag_take(&subjects[i].kt->reclaim));
	}
	check(!objects || objects == shim_objects());
	objects = shim_objects();
}

static void open_index(const struct subject *subject)
{
	kt = subject->kt;
	cursor = subject->cursor;
	kt->index = kt->ops->create(&subject->env);
	check(!IS_ERR(kt->index));
	if (kt->ops == &kvt_masstree_ops)
		disable_delayed_work_sync(&mt_tree(kt->index)->check_work);
	else
		disable_delayed_work_sync(&bw_tree(kt->index)->work);
	cursor.iter->index = kt->index;
}

/* Remove all keys: only what an empty index has may be left. */
static void empty_index(u64 layers)
{
	while (model.nr) {
		const struct kvt_key key = present_key(model.nr / 2);

		del(&key);
	}
	kt->ops->sweep(kt->index);
	check(kt_stat(kt, KVTREE_STAT_LEAF_NODES) == 1);
	check(!kt_stat(kt, KVTREE_STAT_INNER_NODES));
	check(kt_stat(kt, KVTREE_STAT_LAYERS) == layers);
}

static void close_index(void)
{
	kt->ops->destroy(kt->index);
	check(!kt_stat(kt, KVTREE_STAT_LEAF_NODES));
	check(!kt_stat(kt, KVTREE_STAT_INNER_NODES));
	check(!kvt_quota_bytes(&kt->quota));
	model_clear(&model);
	forget_keys();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct subject *s;

	check(!kvt_mem_init());
	check(!kvt_masstree_init());
	for (s = subjects; s < subjects + ARRAY_SIZE(subjects); s++) {
		s->kt = kt_open_engine(&test, s->ops, U64_MAX);
		check(!kt_cursor_init(s->kt, &s->cursor));
		s->env = s->kt->index->env;
		s->env.page_size = s->page_size;
		s->kt->ops->destroy(s->kt->index);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { .at = data, .end = data + size };
	u8 how = next_byte(&in);
	static unsigned int nr_inputs;
	u64 layers;

	if (!(nr_inputs++ % INPUTS))
		look_for_lost_memory();
	open_index(&subjects[(how & 6) == 2]);
	/* An index that is destroyed takes its layers along uncounted. */
	layers = kt_stat(kt, KVTREE_STAT_LAYERS);
	while (in.at < in.end)
		operations[next_below(&in, ARRAY_SIZE(operations))](&in);
	walk_all();
	if (how & 1)
		empty_index(layers);
	close_index();
	return 0;
}
