// SPDX-License-Identifier: GPL-2.0
/* Bindings by the address of their map's value. */
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "binding.h"
#include "binding_table.h"
#include "compat.h"

#define TABLE_MIN	16

struct binding_table {
	u64 multiplier;		/* random and odd */
	unsigned int shift;	/* the upper bits of a product are the first slot */
	unsigned int mask;	/* slots - 1 */
	unsigned int used;	/* slots that are not empty */
	struct rcu_head rcu;
	const struct kvt_binding __rcu *slots[];
};

/* Takes the place of a binding that has ended.  No map's value has this address. */
static const struct kvt_binding ended = { .addr = &ended };

static struct binding_table __rcu *table_now;	/* NULL: there are no bindings */
static unsigned int table_live;			/* bindings in it */

static unsigned int table_first(const struct binding_table *table, const void *addr)
{
	return (uintptr_t)addr * table->multiplier >> table->shift;
}

/**
 * kvt_binding_table_find() - look an address up
 * @addr: of a map's value, or any other
 *
 * Context: under rcu_read_lock(), any context, including NMI.
 *
 * Return: the binding, valid until rcu_read_unlock(), or NULL.
 */
const struct kvt_binding *kvt_binding_table_find(const void *addr)
{
	const struct binding_table *table = rcu_dereference(table_now);
	const struct kvt_binding *binding;
	unsigned int slot;

	if (unlikely(!table))
		return NULL;
	slot = table_first(table, addr);
	while ((binding = rcu_dereference(table->slots[slot]))) {
		if (likely(binding->addr == addr))
			return binding;
		slot = (slot + 1) & table->mask;
	}
	return NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_binding_table_find);

#if IS_ENABLED(CONFIG_KUNIT)
/**
 * kvt_binding_table_steps() - how many slots kvt_binding_table_find() looks at
 * @addr: of a map's value that is bound
 *
 * Context: under rcu_read_lock().
 *
 * Return: at least 1.
 */
unsigned int kvt_binding_table_steps(const void *addr)
{
	const struct binding_table *table = rcu_dereference(table_now);
	unsigned int slot = table_first(table, addr), steps = 1;

	for (; rcu_dereference(table->slots[slot])->addr != addr; steps++)
		slot = (slot + 1) & table->mask;
	return steps;
}
KVT_EXPORT_FOR_TESTS(kvt_binding_table_steps);
#endif

/* The current table, for the caller that changes it; changes are serialized. */
static struct binding_table *table_own(void)
{
	return rcu_dereference_protected(table_now, true);
}

static const struct kvt_binding *table_slot(const struct binding_table *table, unsigned int slot)
{
	return rcu_dereference_protected(table->slots[slot], true);
}

static void table_put(struct binding_table *table, const struct kvt_binding *binding)
{
	unsigned int slot = table_first(table, binding->addr);

	while (table_slot(table, slot) && table_slot(table, slot) != &ended)
		slot = (slot + 1) & table->mask;
	table->used += !table_slot(table, slot);
	rcu_assign_pointer(table->slots[slot], binding);
}

/* Empty, with room for twice as many bindings. */
static struct binding_table *table_alloc(unsigned int bindings)
{
	unsigned int size = max(roundup_pow_of_two(4 * bindings), TABLE_MIN);
	struct binding_table *table;

	table = kvzalloc(struct_size(table, slots, size), GFP_KERNEL);
	if (!table)
		return NULL;
	table->multiplier = get_random_u64() | 1;
	table->shift = 64 - ilog2(size);
	table->mask = size - 1;
	return table;
}

static void table_publish(struct binding_table *table)
{
	struct binding_table *old = table_own();

	rcu_assign_pointer(table_now, table);
	if (old)
		kvfree_rcu(old, rcu);
}

/* A table with room for one more. */
static struct binding_table *table_with_room(void)
{
	struct binding_table *old = table_own(), *table;
	const struct kvt_binding *binding;
	unsigned int slot;

	if (old && old->used <= old->mask / 2)
		return old;
	table = table_alloc(table_live + 1);
	if (!table)
		return NULL;
	for (slot = 0; old && slot <= old->mask; slot++) {
		binding = table_slot(old, slot);
		if (binding && binding != &ended)
			table_put(table, binding);
	}
	table_publish(table);
	return table;
}

/**
 * kvt_binding_table_add() - let lookups find a binding
 * @binding: the binding; there is none at its address yet
 *
 * Context: process context, sleeps; one change at a time.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_binding_table_add(struct kvt_binding *binding)
{
	struct binding_table *table = table_with_room();

	if (!table)
		return -ENOMEM;
	table_put(table, binding);
	table_live++;
	return 0;
}

/**
 * kvt_binding_table_remove() - hide a binding from lookups
 * @binding: the binding; readers may use it until the end of an RCU grace period
 *
 * Context: process context; one change at a time.
 */
void kvt_binding_table_remove(const struct kvt_binding *binding)
{
	struct binding_table *table = table_own();
	unsigned int slot = table_first(table, binding->addr);

	while (table_slot(table, slot) != binding)
		slot = (slot + 1) & table->mask;
	rcu_assign_pointer(table->slots[slot], &ended);
	if (!--table_live)
		table_publish(NULL);
}
