/* SPDX-License-Identifier: GPL-2.0 */
/* These headers have the interfaces of this kernel. */
#ifndef SHIM_VERSION_H
#define SHIM_VERSION_H

#define KERNEL_VERSION(a, b, c)	((a) << 16 | (b) << 8 | (c))
#define LINUX_VERSION_CODE	KERNEL_VERSION(7, 3, 0)

#endif /* SHIM_VERSION_H */
