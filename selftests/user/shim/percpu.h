/* SPDX-License-Identifier: GPL-2.0 */
/* Slots of data per CPU, one for each thread. */
#ifndef SHIM_PERCPU_SLOTS_H
#define SHIM_PERCPU_SLOTS_H

/* A slot for this thread. */
int shim_slot_take(void);
void shim_slot_give_back(int slot);

#endif /* SHIM_PERCPU_SLOTS_H */
