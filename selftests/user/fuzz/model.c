// SPDX-License-Identifier: GPL-2.0
/* See model.h. */
#include <stdlib.h>

#include "model.h"

/* Whether @in sorts before a position that depends on @key. */
typedef bool (*before_fn)(const struct kvt_key *in, const struct kvt_key *key);

static bool is_below(const struct kvt_key *in, const struct kvt_key *key)
{
	return kt_key_cmp(in, key) < 0;
}

static bool is_upto(const struct kvt_key *in, const struct kvt_key *key)
{
	return kt_key_cmp(in, key) <= 0;
}

static bool is_upto_or_inside(const struct kvt_key *in, const struct kvt_key *key)
{
	const struct kvt_key cut = { .data = in->data, .len = min(in->len, key->len) };

	return kt_key_cmp(&cut, key) <= 0;
}

static unsigned int count(const struct model *m, const struct kvt_key *key, before_fn before)
{
	unsigned int low = 0, high = m->nr;

	while (low < high) {
		unsigned int mid = (low + high) / 2;

		if (before(&m->entry[mid].key, key))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

unsigned int model_below(const struct model *m, const struct kvt_key *key)
{
	return count(m, key, is_below);
}

unsigned int model_upto(const struct model *m, const struct kvt_key *key)
{
	return count(m, key, is_upto);
}

unsigned int model_past(const struct model *m, const struct kvt_key *key)
{
	return count(m, key, is_upto_or_inside);
}

struct entry *model_find(const struct model *m, const struct kvt_key *key)
{
	unsigned int i = model_below(m, key);

	return i < model_upto(m, key) ? &m->entry[i] : NULL;
}

static void make_room(struct model *m)
{
	if (m->nr < m->room)
		return;
	m->room = m->room ? 2 * m->room : 64;
	m->entry = realloc(m->entry, m->room * sizeof(*m->entry));
	BUG_ON(!m->entry);
}

void model_put(struct model *m, const struct kvt_key *key, u64 version)
{
	struct entry *e = model_find(m, key);
	unsigned int i = model_below(m, key);
	u8 *data;

	if (e) {
		e->version = version;
		return;
	}
	make_room(m);
	memmove(&m->entry[i + 1], &m->entry[i], (m->nr++ - i) * sizeof(*m->entry));
	data = malloc(key->len);
	BUG_ON(!data);
	if (key->len)
		memcpy(data, key->data, key->len);
	m->entry[i] = (struct entry) { .key = KT_BYTES(data, key->len), .version = version };
}

void model_del(struct model *m, const struct kvt_key *key)
{
	unsigned int i = model_below(m, key);

	free((void *)m->entry[i].key.data);
	memmove(&m->entry[i], &m->entry[i + 1], (--m->nr - i) * sizeof(*m->entry));
}

void model_clear(struct model *m)
{
	while (m->nr)
		free((void *)m->entry[--m->nr].key.data);
}
