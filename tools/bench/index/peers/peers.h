/* SPDX-License-Identifier: GPL-2.0 */
/* The C interface of src/lib.rs. */
#ifndef KVT_BENCH_PEERS_H
#define KVT_BENCH_PEERS_H

#include "../subject.h"

/* A process uses one of them. */
enum peer { PEER_SKIPLIST, PEER_TREEINDEX, PEER_CONGEE };

void peer_open(uint32_t peer, bool fixed, bool wide);
void peer_clear(void);
void peer_put(const uint8_t *data, uint32_t len, const union bench_value *value);
bool peer_get(const uint8_t *data, uint32_t len, union bench_value *value);
bool peer_remove(const uint8_t *data, uint32_t len);
bool peer_put_column(const uint8_t *data, uint32_t len, uint32_t column, uint32_t to);
uint32_t peer_scan(const uint8_t *data, uint32_t len, uint32_t nr, struct bench_scan *out);

#endif /* KVT_BENCH_PEERS_H */
