/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_API_CHARDEV_H
#define KVT_API_CHARDEV_H

/* The store that a session on the device itself uses. */
#define KVT_DEFAULT_STORE	"default"

int kvt_chardev_init(void);
void kvt_chardev_exit(void);

#endif /* KVT_API_CHARDEV_H */
