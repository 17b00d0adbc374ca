/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/gfp_types.h>
