// SPDX-License-Identifier: GPL-2.0
/* The hooks of the park points, for tests. */
#include "compat.h"
#include "park.h"

#ifdef KVT_PARK
void (*kvt_park_hook)(enum kvt_park at);
KVT_EXPORT(kvt_park_hook);
void (*kvt_park_loose_hook)(enum kvt_park at);
KVT_EXPORT(kvt_park_loose_hook);
#endif
