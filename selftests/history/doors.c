// SPDX-License-Identifier: GPL-2.0
/* For kernels without a BPF compiler: User-Mode Linux. */
#include "history.h"

const struct door *const doors[] = { &door_ioctl, &door_batch, &door_uring, NULL };
