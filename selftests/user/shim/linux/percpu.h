/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data per CPU are data per thread: each thread has a slot of its own as long
 * as it lives.  A slot is a piece of memory with the data of all allocations; a
 * pointer leads to slot 0, and the same offset to another slot.
 */
#ifndef SHIM_PERCPU_H
#define SHIM_PERCPU_H

#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/types.h>

#define SHIM_SLOT_SIZE	(64ul << 10)

extern __thread unsigned long shim_slot_offset;

void *shim_percpu_alloc(size_t size);
void free_percpu(void *ptr);

#define alloc_percpu(type)	((type *)shim_percpu_alloc(sizeof(type)))

#define shim_at_offset(ptr, off)	((typeof(ptr))((unsigned long)(ptr) + (off)))
#define per_cpu_ptr(ptr, cpu)		shim_at_offset(ptr, (cpu) * SHIM_SLOT_SIZE)
#define raw_cpu_ptr(ptr)		shim_at_offset(ptr, shim_slot_offset)
#define this_cpu_ptr(ptr)		raw_cpu_ptr(ptr)

/* Only this thread writes there, but others may read. */
#define this_cpu_add(var, n)					\
do {								\
	typeof(&(var)) slot_ = raw_cpu_ptr(&(var));		\
								\
	WRITE_ONCE(*slot_, *slot_ + (n));			\
} while (0)
#define this_cpu_inc(var)	this_cpu_add(var, 1)

/* What is not allocated. */
#define DECLARE_PER_CPU(type, name)	extern __thread type name
#define DEFINE_PER_CPU(type, name)	__thread type name
#define __this_cpu_inc(var)	((void)((var)++))
#define __this_cpu_dec(var)	((void)((var)--))
#define this_cpu_read(var)	(var)
#define __this_cpu_write(var, n)	((void)((var) = (n)))

#endif /* SHIM_PERCPU_H */
