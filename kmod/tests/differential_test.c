// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on an index and on a model, which must agree.  The model is
 * a sorted array of all keys that can occur, with a bit and a version for each.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>

#include "keys.h"

static uint ops = 1300000 / KT_SLOWER;
module_param(ops, uint, 0444);
MODULE_PARM_DESC(ops, "random operations of the differential test, over all sets of keys");

#define MAX_KEYS	6000
#define MAX_BATCH	40
#define MAX_RECORDS	60

struct model {
	struct kunit *test;
	struct kt *kt;
	struct kt_rnd rnd;
	struct kt_keys *keys;
	unsigned long *present;		/* bitmap */
	u64 *version;			/* the last of each key, also of a removed one */
	struct kt_cursor cur;
	u8 *buf;			/* for a key that is not one of the set */
	struct kvt_lookup lookups[MAX_BATCH];
	struct kvt_cell cells[MAX_BATCH];
	struct kvt_key sorted[KT_SORTED_MAX];
	unsigned int at[KT_SORTED_MAX];
	u64 versions[KT_SORTED_MAX];
	unsigned int op;
};

/* Percentages of puts and removals, in turn. */
static const struct phase {
	u8 put, del;
} phases[] = { { 50, 10 }, { 30, 30 }, { 10, 55 }, { 35, 35 } };

#define PHASE_OPS	5000

static void expect(struct model *m, s64 want, s64 got)
{
	KUNIT_ASSERT_EQ_MSG(m->test, want, got, "operation %u", m->op);
}

/* A key in the set, or near one. */
static struct kvt_key any_key(struct model *m)
{
	const struct kvt_key *key = &m->keys->key[kt_rnd_below(&m->rnd, m->keys->nr)];
	u32 len = key->len;

	if (kt_rnd_below(&m->rnd, 2))
		return *key;
	if (len)
		memcpy(m->buf, key->data, len);
	switch (kt_rnd_below(&m->rnd, 4)) {
	case 0:
		len = kt_rnd_below(&m->rnd, len + 1);
		break;
	case 1:
		len -= len % 8;
		break;
	case 2:
		if (len < KVTREE_KEY_MAX)
			m->buf[len++] = kt_rnd_below(&m->rnd, 2) * 255;
		break;
	default:
		if (len)
			m->buf[len - 1]++;
	}
	return KT_BYTES(m->buf, len);
}

/* The number in the set, or the set's size. */
static unsigned int model_find(const struct model *m, const struct kvt_key *key)
{
	unsigned int i = kt_keys_below(m->keys, key);

	return i < kt_keys_upto(m->keys, key) ? i : m->keys->nr;
}

static bool model_has(const struct model *m, unsigned int i)
{
	return i < m->keys->nr && test_bit(i, m->present);
}

static void do_put(struct model *m)
{
	unsigned int i = kt_rnd_below(&m->rnd, m->keys->nr);
	u64 version = 0;

	expect(m, 0, kt_put(m->kt, &m->keys->key[i], &version));
	KUNIT_ASSERT_GT_MSG(m->test, version, m->version[i], "operation %u", m->op);
	m->version[i] = version;
	__set_bit(i, m->present);
}

/* Several keys of the set, most of them adjacent; some may be there. */
static void do_insert_sorted(struct model *m)
{
	unsigned int i = kt_rnd_below(&m->rnd, m->keys->nr), nr, done;
	unsigned int skip = kt_rnd_below(&m->rnd, 3);

	for (nr = 0; nr < KT_SORTED_MAX && i < m->keys->nr; i++) {
		/* At most half of those there. */
		if (model_has(m, i) && kt_rnd_below(&m->rnd, 2))
			continue;
		m->at[nr] = i;
		m->sorted[nr++] = m->keys->key[i];
		if (skip && !kt_rnd_below(&m->rnd, 4))
			i += kt_rnd_below(&m->rnd, 4 * skip);
	}
	expect(m, 0, kt_insert_sorted(m->kt, m->sorted, nr, m->versions, &done));
	expect(m, nr, done);
	while (nr--) {
		KUNIT_ASSERT_GT_MSG(m->test, m->versions[nr], m->version[m->at[nr]],
				    "operation %u", m->op);
		m->version[m->at[nr]] = m->versions[nr];
		__set_bit(m->at[nr], m->present);
	}
}

static void do_aborted_put(struct model *m)
{
	const struct kvt_key key = any_key(m);
	struct kt_change c;

	expect(m, 0, kt_put_begin(m->kt, &c, &key, GFP_KERNEL));
	kt_abort(&c);
}

static void remove_key(struct model *m, unsigned int i)
{
	u64 version = 0;

	if (!model_has(m, i)) {
		expect(m, -ENOENT, kt_del(m->kt, &m->keys->key[i], NULL));
		return;
	}
	expect(m, 0, kt_del(m->kt, &m->keys->key[i], &version));
	expect(m, m->version[i], version);
	__clear_bit(i, m->present);
}

static void do_del(struct model *m)
{
	unsigned int i = kt_rnd_below(&m->rnd, m->keys->nr);

	/* Most of the time a present one. */
	if (kt_rnd_below(&m->rnd, 8))
		i = find_next_bit_wrap(m->present, m->keys->nr, i);
	if (i < m->keys->nr)
		remove_key(m, i);
}

static void do_get(struct model *m)
{
	const struct kvt_key key = any_key(m);
	unsigned int i = model_find(m, &key);
	u64 version = 0;

	expect(m, model_has(m, i) ? 0 : -ENOENT, kt_get(m->kt, &key, &version));
	if (model_has(m, i))
		expect(m, m->version[i], version);
}

static void do_get_prefix(struct model *m)
{
	const struct kvt_key key = any_key(m);
	struct kvt_key prefix = key;
	u64 version = 0;
	unsigned int i;

	while (!model_has(m, i = model_find(m, &prefix)) && prefix.len)
		prefix.len--;
	if (!model_has(m, i)) {
		expect(m, -ENOENT, kt_get_prefix(m->kt, &key, NULL));
		return;
	}
	expect(m, prefix.len, kt_get_prefix(m->kt, &key, &version));
	expect(m, m->version[i], version);
}

static void do_get_batch(struct model *m)
{
	unsigned int i, nr = 1 + kt_rnd_below(&m->rnd, MAX_BATCH);
	unsigned int at[MAX_BATCH];
	u64 version[MAX_BATCH];
	int err[MAX_BATCH];

	for (i = 0; i < nr; i++) {
		at[i] = kt_rnd_below(&m->rnd, m->keys->nr);
		m->lookups[i].key = m->keys->key[at[i]];
	}
	rcu_read_lock();
	m->kt->ops->get_batch(m->kt->index, m->lookups, m->cells, nr);
	for (i = 0; i < nr; i++)
		err[i] = kt_check(m->lookups[i].value, &m->lookups[i].key, &version[i]);
	rcu_read_unlock();
	for (i = 0; i < nr; i++) {
		expect(m, model_has(m, at[i]) ? 0 : -ENOENT, err[i]);
		if (model_has(m, at[i]))
			expect(m, m->version[at[i]], version[i]);
	}
}

/* The number of keys of the set left of a position. */
static unsigned int left_of(const struct model *m, const struct kvt_key *key,
			    enum kvt_bound bound, bool reverse)
{
	if (bound == KVT_PAST)
		return kt_keys_past(m->keys, key);
	if (bound == KVT_AT)
		return reverse ? kt_keys_upto(m->keys, key) : kt_keys_below(m->keys, key);
	return reverse ? kt_keys_below(m->keys, key) : kt_keys_upto(m->keys, key);
}

/* The model's next key; @i is the number of keys left of the position. */
static unsigned int model_next(const struct model *m, unsigned int i, bool reverse)
{
	if (!reverse)
		return find_next_bit(m->present, m->keys->nr, i);
	if (!i)
		return m->keys->nr;
	/* find_last_bit() returns its size if there is none. */
	return find_last_bit(m->present, i) < i ? find_last_bit(m->present, i) : m->keys->nr;
}

/* Expect that the cursor's record is the model's next one. */
static bool record_agrees(struct model *m, unsigned int i)
{
	const struct kvt_key key = kt_cursor_key(&m->cur);

	return i < m->keys->nr && !kt_key_cmp(&key, &m->keys->key[i]) &&
	       m->cur.version == m->version[i];
}

struct walk {
	struct model *m;
	unsigned int left;		/* keys left of the position */
	unsigned int records;		/* still to be read */
	bool reverse;
	bool wrong;
};

static int walk_one(struct kt_cursor *cur, void *arg)
{
	struct walk *w = arg;
	unsigned int i = model_next(w->m, w->left, w->reverse);

	w->wrong = !record_agrees(w->m, i);
	w->left = w->reverse ? i : i + 1;
	return w->wrong || !--w->records;
}

static void walk(struct model *m, struct walk *w, unsigned int burst)
{
	int ret = kt_scan(&m->cur, burst, walk_one, w);

	KUNIT_ASSERT_GE_MSG(m->test, ret, 0, "operation %u", m->op);
	KUNIT_ASSERT_FALSE_MSG(m->test, w->wrong, "operation %u, scan %s, key %u is not next",
			       m->op, w->reverse ? "backward" : "forward", w->left);
	if (ret)
		return;
	/* The end.  It stays the end. */
	expect(m, m->keys->nr, model_next(m, w->left, w->reverse));
	expect(m, -ENOENT, kt_cursor_next(&m->cur));
}

static void do_walk(struct model *m)
{
	const struct kvt_key key = any_key(m);
	enum kvt_bound bound = kt_rnd_below(&m->rnd, 3);
	struct walk w = {
		.m = m,
		.records = 1 + kt_rnd_below(&m->rnd, MAX_RECORDS),
		.reverse = kt_rnd_below(&m->rnd, 2),
	};

	w.left = left_of(m, &key, bound, w.reverse);
	kt_cursor_set(&m->cur, &key, bound, w.reverse);
	walk(m, &w, 1 + kt_rnd_below(&m->rnd, 2) * kt_rnd_below(&m->rnd, MAX_RECORDS));
}

static void walk_all(struct model *m, bool reverse)
{
	const struct kvt_key empty = { };
	struct walk w = {
		.m = m,
		.left = reverse ? m->keys->nr : 0,
		.records = UINT_MAX,
		.reverse = reverse,
	};

	kt_cursor_set(&m->cur, &empty, reverse ? KVT_PAST : KVT_AT, reverse);
	walk(m, &w, 16);
}

static void do_one(struct model *m)
{
	const struct phase *phase = &phases[m->op / PHASE_OPS % ARRAY_SIZE(phases)];
	unsigned int dice = kt_rnd_below(&m->rnd, 100);

	if (dice < phase->put)
		do_put(m);
	else if (dice < phase->put + phase->del)
		do_del(m);
	else if (dice < 74)
		do_get(m);
	else if (dice < 80)
		do_get_prefix(m);
	else if (dice < 88)
		do_get_batch(m);
	else if (dice < 98)
		do_walk(m);
	else if (!kt_rnd_below(&m->rnd, 4))
		do_insert_sorted(m);
	else if (kt_rnd_below(&m->rnd, 50))
		do_aborted_put(m);
	else
		m->kt->ops->sweep(m->kt->index);
}

static void cursor_exit(void *cur)
{
	kt_cursor_exit(cur);
}

static struct model *model_make(struct kunit *test, const struct kt_engine *engine,
				enum kt_kind kind, unsigned int nr)
{
	struct model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->rnd = kt_rnd(test);
	m->keys = kt_keys_make(test, &m->rnd, kind, nr);
	m->present = kunit_kcalloc(test, BITS_TO_LONGS(nr), sizeof(long), GFP_KERNEL);
	m->version = kunit_kcalloc(test, nr, sizeof(u64), GFP_KERNEL);
	m->buf = kunit_kmalloc(test, KVTREE_KEY_MAX, GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, m->present && m->version && m->buf);
	m->kt = kt_open_pages(test, engine, U64_MAX);
	KUNIT_ASSERT_EQ(test, 0, kt_cursor_init(m->kt, &m->cur));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, cursor_exit, &m->cur));
	return m;
}

/* Remove all keys in random order: only what an empty index has may be left. */
static void remove_all(struct model *m)
{
	unsigned int i, nr = m->keys->nr;

	for (;;) {
		i = find_next_bit_wrap(m->present, nr, kt_rnd_below(&m->rnd, nr));
		if (i >= nr)
			break;
		remove_key(m, i);
		cond_resched();
	}
	expect(m, 0, kt_count(m->kt, false));
	expect(m, 0, kt_count(m->kt, true));
	kt_settle(m->kt);
	expect(m, 1, kt_stat(m->kt, KVTREE_STAT_LEAF_NODES));
	expect(m, 0, kt_stat(m->kt, KVTREE_STAT_INNER_NODES));
	expect(m, 0, kt_stat(m->kt, KVTREE_STAT_LAYERS));
}

static void run_model(struct kunit *test, const struct kt_engine *engine, enum kt_kind kind)
{
	/* Each of the layers that such a key has costs what a short key costs. */
	bool huge = kind == KT_SHARED_4084;
	unsigned int nr_ops = huge ? ops / KT_KINDS / 40 : ops / (KT_KINDS - 1);
	struct model *m = model_make(test, engine, kind, huge ? 300 : MAX_KEYS);

	for (m->op = 0; m->op < nr_ops; m->op++) {
		do_one(m);
		cond_resched();
	}
	walk_all(m, false);
	walk_all(m, true);
	remove_all(m);
	kunit_release_action(test, cursor_exit, &m->cur);
	kt_close(m->kt);
}

static void kind_desc(const char *const *name, char *desc)
{
	strscpy(desc, *name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kt_kind_names, kind_desc);

static void random_operations_agree_with_a_sorted_array(struct kunit *test)
{
	const char *const *name = test->param_value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kt_engines); i++)
		run_model(test, &kt_engines[i], name - kt_kind_names);
}

static struct kunit_case differential_cases[] = {
	KUNIT_CASE_PARAM_ATTR(random_operations_agree_with_a_sorted_array, kind_gen_params,
			      ((struct kunit_attributes) { .speed = KUNIT_SPEED_SLOW })),
	{}
};

static struct kunit_suite differential_suite = {
	.name = "kvtree_differential",
	.test_cases = differential_cases,
};

kunit_test_suite(differential_suite);
