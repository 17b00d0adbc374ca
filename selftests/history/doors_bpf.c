// SPDX-License-Identifier: GPL-2.0
#include "history.h"

const struct door *const doors[] = {
	&door_ioctl, &door_batch, &door_uring, &door_syscall, &door_xdp, NULL
};
