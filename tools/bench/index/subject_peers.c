// SPDX-License-Identifier: GPL-2.0
/* Maps from crates.io, built as a library by peers/. */
#include "memory.h"
#include "peers/peers.h"

static void open_peer(enum peer peer, const struct bench_config *config)
{
	memory_pages(config->small_pages);
	peer_open(peer, config->fixed, config->wide);
}

static void init_skiplist(const struct bench_config *config)
{
	open_peer(PEER_SKIPLIST, config);
}

static void init_treeindex(const struct bench_config *config)
{
	open_peer(PEER_TREEINDEX, config);
}

static void init_congee(const struct bench_config *config)
{
	open_peer(PEER_CONGEE, config);
}

static void pe_put(struct bench_key_ref key, const union bench_value *value)
{
	peer_put(key.data, key.len, value);
}

static bool pe_get(struct bench_key_ref key, union bench_value *value)
{
	return peer_get(key.data, key.len, value);
}

static bool pe_remove(struct bench_key_ref key)
{
	return peer_remove(key.data, key.len);
}

static bool pe_put_column(struct bench_key_ref key, unsigned int column, uint32_t to)
{
	return peer_put_column(key.data, key.len, column, to);
}

static unsigned int pe_scan(struct bench_key_ref key, unsigned int nr, struct bench_scan *out)
{
	return peer_scan(key.data, key.len, nr, out);
}

#define SUBJECT_PEER								\
	.clear = peer_clear, .memory = memory_of_malloc, .put = pe_put, .get = pe_get,	\
	.remove = pe_remove, .put_column = pe_put_column, .scan = pe_scan

const struct subject subject_skiplist = {
	.name = "skiplist", .init = init_skiplist, SUBJECT_PEER,
};

const struct subject subject_treeindex = {
	.name = "treeindex", .init = init_treeindex, SUBJECT_PEER,
};

const struct subject subject_congee = {
	.name = "congee", .fixed_only = true, .init = init_congee, SUBJECT_PEER,
};
