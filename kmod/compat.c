// SPDX-License-Identifier: GPL-2.0
/* What compat.h declares. */
#include "compat.h"

struct crypto_shash *kvt_crc32c_shash;
