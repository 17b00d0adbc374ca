/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_API_CHARDEV_H
#define KVT_API_CHARDEV_H

int kvt_chardev_init(void);
void kvt_chardev_exit(void);

#endif /* KVT_API_CHARDEV_H */
