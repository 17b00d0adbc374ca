/* SPDX-License-Identifier: GPL-2.0 */
/* liburcu, kept apart from the rest: it defines names that the kernel also has. */
#ifndef SHIM_URCU_H
#define SHIM_URCU_H

void shim_urcu_register(void);
void shim_urcu_unregister(void);
void shim_urcu_read_lock(void);
void shim_urcu_read_unlock(void);
void shim_urcu_offline(void);
void shim_urcu_online(void);
void shim_urcu_quiescent(void);
void shim_urcu_synchronize(void);

#endif /* SHIM_URCU_H */
