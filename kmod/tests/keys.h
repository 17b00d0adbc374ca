/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets of keys that are hard on an index, each sorted and without duplicates.
 * Every key has an allocation of exactly its length, so that KASAN reports any
 * read beyond it.
 */
#ifndef KVT_TESTS_KEYS_H
#define KVT_TESTS_KEYS_H

#include "lib.h"

enum kt_kind {
	KT_RANDOM_8,		/* random, eight bytes */
	KT_DECIMAL,		/* decimal numbers without leading zeros */
	KT_SHARED_8,		/* eight bytes in common, then up to twelve random ones */
	KT_SHARED_9,
	KT_SHARED_16,
	KT_SHARED_40,
	KT_SHARED_4084,
	KT_ZEROS,		/* up to 20 bytes, most of them zero */
	KT_PREFIXES,		/* beginnings of a few long keys */
	KT_BITS,		/* each length from 0 to 24, of the bytes 0 and 1 */
	KT_KINDS
};

extern const char *const kt_kind_names[KT_KINDS];

struct kt_keys {
	unsigned int nr;
	struct kvt_key *key;
};

struct kt_keys *kt_keys_make(struct kunit *test, struct kt_rnd *rnd, enum kt_kind kind,
			     unsigned int nr);

/* How many keys of the set are ... */
/* ... less than @key, */
unsigned int kt_keys_below(const struct kt_keys *keys, const struct kvt_key *key);
/* ... less than or equal to @key, */
unsigned int kt_keys_upto(const struct kt_keys *keys, const struct kvt_key *key);
/* ... less than or equal to @key or begin with it. */
unsigned int kt_keys_past(const struct kt_keys *keys, const struct kvt_key *key);

#endif /* KVT_TESTS_KEYS_H */
