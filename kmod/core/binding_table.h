/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bindings by the address of their map's value.
 *
 * A hash table with open addressing, never more than half full.  Readers can interrupt a
 * change, in an NMI for instance, so they neither wait nor start again: they go from one
 * slot to the next until they find the address or an empty slot.  (rhashtable is not
 * suitable.  While it is resized, an entry that is being moved leads a reader into another
 * chain, and the reader starts again until the worker continues, which it may have
 * interrupted.)
 *
 * An address's first slot depends on a random number, so that a user cannot choose maps
 * that share one.
 */
#ifndef KVT_CORE_BINDING_TABLE_H
#define KVT_CORE_BINDING_TABLE_H

struct kvt_binding;

const struct kvt_binding *kvt_binding_table_find(const void *addr);
int kvt_binding_table_add(struct kvt_binding *binding);
void kvt_binding_table_remove(const struct kvt_binding *binding);
unsigned int kvt_binding_table_steps(const void *addr);

#endif /* KVT_CORE_BINDING_TABLE_H */
