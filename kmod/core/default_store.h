/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_CORE_DEFAULT_STORE_H
#define KVT_CORE_DEFAULT_STORE_H

/* What a session on the device itself uses. */
#define KVT_DEFAULT_STORE	"default"

int kvt_default_store_init(void);
void kvt_default_store_start(void);
void kvt_default_store_exit(void);
void kvt_default_store_retry(void);
int kvt_default_store_wait(void);

#endif /* KVT_CORE_DEFAULT_STORE_H */
