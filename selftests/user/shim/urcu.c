// SPDX-License-Identifier: GPL-2.0
/* liburcu: see urcu.h. */
#ifdef SHIM_BENCH
#include <urcu/urcu-qsbr.h>
#define URCU(name)	urcu_qsbr_##name
#else
#include <urcu/urcu-memb.h>
#define URCU(name)	urcu_memb_##name
#endif

#include "urcu.h"

void shim_urcu_register(void)
{
	URCU(register_thread)();
}

void shim_urcu_unregister(void)
{
	URCU(unregister_thread)();
}

void shim_urcu_read_lock(void)
{
	URCU(read_lock)();
}

void shim_urcu_read_unlock(void)
{
	URCU(read_unlock)();
}

#ifdef SHIM_BENCH
void shim_urcu_offline(void)
{
	urcu_qsbr_thread_offline();
}

void shim_urcu_online(void)
{
	urcu_qsbr_thread_online();
}

void shim_urcu_quiescent(void)
{
	urcu_qsbr_quiescent_state();
}
#else
void shim_urcu_offline(void) { }
void shim_urcu_online(void) { }
void shim_urcu_quiescent(void) { }
#endif

void shim_urcu_synchronize(void)
{
	URCU(synchronize_rcu)();
}
