/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_CRC32C_H
#define SHIM_CRC32C_H

#include <linux/types.h>

/* Not implemented: the engines compute none. */
u32 crc32c(u32 crc, const void *data, size_t len);

#endif /* SHIM_CRC32C_H */
