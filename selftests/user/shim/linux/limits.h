/* SPDX-License-Identifier: GPL-2.0 */
/* The C library includes this one, too. */
#include_next <linux/limits.h>
