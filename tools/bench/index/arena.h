/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_BENCH_ARENA_H
#define KVT_BENCH_ARENA_H

#include <linux/types.h>

/* Call this first.  @huge: use huge pages. */
void arena_init(bool huge);
/* Bytes of all slabs, and of the objects allocated by this thread. */
unsigned long arena_bytes(void);
unsigned long arena_live_bytes(void);

#endif /* KVT_BENCH_ARENA_H */
