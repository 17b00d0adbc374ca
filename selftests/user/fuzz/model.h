/* SPDX-License-Identifier: GPL-2.0 */
/* The model that the index is compared with: a sorted array of keys and versions. */
#ifndef KVT_FUZZ_MODEL_H
#define KVT_FUZZ_MODEL_H

#include "../../../kmod/tests/lib.h"

struct entry {
	struct kvt_key key;	/* in memory of its own, of exactly its length */
	u64 version;
};

struct model {
	struct entry *entry;
	unsigned int nr;
	unsigned int room;
};

/* How many keys are less than @key; or equal to it; or begin with it. */
unsigned int model_below(const struct model *m, const struct kvt_key *key);
unsigned int model_upto(const struct model *m, const struct kvt_key *key);
unsigned int model_past(const struct model *m, const struct kvt_key *key);

struct entry *model_find(const struct model *m, const struct kvt_key *key);
void model_put(struct model *m, const struct kvt_key *key, u64 version);
void model_del(struct model *m, const struct kvt_key *key);
void model_clear(struct model *m);

#endif /* KVT_FUZZ_MODEL_H */
