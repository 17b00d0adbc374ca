// SPDX-License-Identifier: GPL-2.0
/* The hook of the park points, for tests. */
#include "compat.h"
#include "park.h"

#ifdef KVT_PARK
void (*kvt_park_hook)(enum kvt_park at);
KVT_EXPORT_FOR_TESTS(kvt_park_hook);
#endif
