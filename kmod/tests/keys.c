// SPDX-License-Identifier: GPL-2.0
/* Sets of keys that are hard on an index: see keys.h. */
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/unaligned.h>

#include "keys.h"

const char *const kt_kind_names[KT_KINDS] = {
	[KT_RANDOM_8]	= "random_8_bytes",
	[KT_DECIMAL]	= "decimal_numbers",
	[KT_SHARED_8]	= "shared_prefix_of_8",
	[KT_SHARED_9]	= "shared_prefix_of_9",
	[KT_SHARED_16]	= "shared_prefix_of_16",
	[KT_SHARED_40]	= "shared_prefix_of_40",
	[KT_SHARED_4084] = "shared_prefix_of_4084",
	[KT_ZEROS]	= "mostly_zero_bytes",
	[KT_PREFIXES]	= "prefixes_of_each_other",
	[KT_BITS]	= "lengths_0_to_24_of_bytes_0_and_1",
};

/* The source of the long keys of KT_PREFIXES and of the shared prefixes. */
static u8 trunk_byte(u32 trunk, u32 i)
{
	return 'a' + trunk + i % 7;
}

static u32 make_shared(struct kt_rnd *rnd, u8 *to, u32 prefix)
{
	u32 i, len = prefix + kt_rnd_below(rnd, 13);

	for (i = 0; i < len; i++)
		to[i] = i < prefix ? trunk_byte(0, i) : kt_rnd_below(rnd, 4) * 85;
	return len;
}

static u32 make_chosen(struct kt_rnd *rnd, u8 *to, u32 len, const u8 *bytes, u32 nr_bytes)
{
	u32 i;

	for (i = 0; i < len; i++)
		to[i] = bytes[kt_rnd_below(rnd, nr_bytes)];
	return len;
}

static u32 make_prefix(struct kt_rnd *rnd, u8 *to)
{
	u32 i, trunk = kt_rnd_below(rnd, 16), len = kt_rnd_below(rnd, 100);

	for (i = 0; i < len; i++)
		to[i] = trunk_byte(trunk, i);
	return len;
}

/* Make one key.  Returns its length. */
static u32 make_key(struct kt_rnd *rnd, enum kt_kind kind, u8 *to)
{
	static const u8 zeros[] = { 0, 0, 0, 0, 0, 1, 0xff };
	static const u8 bits[] = { 0, 1 };

	switch (kind) {
	case KT_RANDOM_8:
		put_unaligned_be64(kt_rnd_u64(rnd), to);
		return 8;
	case KT_DECIMAL:
		return sprintf(to, "%u", kt_rnd_below(rnd, 10u << kt_rnd_below(rnd, 28)));
	case KT_SHARED_8:
		return make_shared(rnd, to, 8);
	case KT_SHARED_9:
		return make_shared(rnd, to, 9);
	case KT_SHARED_16:
		return make_shared(rnd, to, 16);
	case KT_SHARED_40:
		return make_shared(rnd, to, 40);
	case KT_SHARED_4084:
		return make_shared(rnd, to, 4084);
	case KT_ZEROS:
		return make_chosen(rnd, to, kt_rnd_below(rnd, 21), zeros, ARRAY_SIZE(zeros));
	case KT_PREFIXES:
		return make_prefix(rnd, to);
	default:
		return make_chosen(rnd, to, kt_rnd_below(rnd, 25), bits, ARRAY_SIZE(bits));
	}
}

static void keys_free(void *arg)
{
	struct kt_keys *keys = arg;
	unsigned int i;

	for (i = 0; i < keys->nr; i++)
		kfree(keys->key[i].data);
	kvfree(keys->key);
	kfree(keys);
}

static int cmp_keys(const void *a, const void *b)
{
	return kt_key_cmp(a, b);
}

static void drop_doubles(struct kt_keys *keys)
{
	unsigned int i, nr = 0;

	for (i = 0; i < keys->nr; i++) {
		if (nr && !kt_key_cmp(&keys->key[nr - 1], &keys->key[i]))
			kfree(keys->key[i].data);
		else
			keys->key[nr++] = keys->key[i];
	}
	keys->nr = nr;
}

static void add_key(struct kunit *test, struct kt_keys *keys, const u8 *from, u32 len)
{
	u8 *data = kmemdup(from, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	keys->key[keys->nr++] = KT_BYTES(data, len);
}

/**
 * kt_keys_make() - make a set of keys
 * @test: frees it at its end
 * @rnd: random numbers
 * @kind: what keys
 * @nr: how many, at most: there may be fewer different ones
 *
 * Return: the set.
 */
struct kt_keys *kt_keys_make(struct kunit *test, struct kt_rnd *rnd, enum kt_kind kind,
			     unsigned int nr)
{
	struct kt_keys *keys = kzalloc(sizeof(*keys), GFP_KERNEL);
	u8 *buf = kunit_kmalloc(test, KVTREE_KEY_MAX, GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, keys);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, keys_free, keys));
	KUNIT_ASSERT_NOT_NULL(test, buf);
	keys->key = kvcalloc(nr, sizeof(*keys->key), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, keys->key);
	for (i = 0; i < nr; i++)
		add_key(test, keys, buf, make_key(rnd, kind, buf));
	sort(keys->key, keys->nr, sizeof(*keys->key), cmp_keys, NULL);
	drop_doubles(keys);
	kunit_kfree(test, buf);
	return keys;
}

/* Whether @in_set sorts before a position that depends on @key. */
typedef bool (*before_fn)(const struct kvt_key *in_set, const struct kvt_key *key);

static bool is_below(const struct kvt_key *in_set, const struct kvt_key *key)
{
	return kt_key_cmp(in_set, key) < 0;
}

static bool is_upto(const struct kvt_key *in_set, const struct kvt_key *key)
{
	return kt_key_cmp(in_set, key) <= 0;
}

static bool is_upto_or_inside(const struct kvt_key *in_set, const struct kvt_key *key)
{
	const struct kvt_key cut = { .data = in_set->data, .len = min(in_set->len, key->len) };

	return kt_key_cmp(&cut, key) <= 0;
}

static unsigned int count(const struct kt_keys *keys, const struct kvt_key *key, before_fn before)
{
	unsigned int low = 0, high = keys->nr, mid;

	while (low < high) {
		mid = (low + high) / 2;
		if (before(&keys->key[mid], key))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

unsigned int kt_keys_below(const struct kt_keys *keys, const struct kvt_key *key)
{
	return count(keys, key, is_below);
}

unsigned int kt_keys_upto(const struct kt_keys *keys, const struct kvt_key *key)
{
	return count(keys, key, is_upto);
}

unsigned int kt_keys_past(const struct kt_keys *keys, const struct kvt_key *key)
{
	return count(keys, key, is_upto_or_inside);
}
