// SPDX-License-Identifier: GPL-2.0
/*
 * The numbers of records that are inserted, for all processes.
 *
 * Each insert takes the next number.  A record is asked for only when it and all
 * records before it are there: so a record that is not found was lost.  Inserts
 * complete in any order; which of them have is kept in a window that moves on.
 */
#include <sched.h>

#include "bench_load.h"

/**
 * inserts_begin() - begin to count
 * @ins: the counter
 * @records: records that are there, above 0
 *
 * Context: nobody else uses it.
 */
void inserts_begin(struct inserts *ins, uint64_t records)
{
	memset(ins, 0, sizeof(*ins));
	ins->next = records;
	ins->last = records - 1;
}

/**
 * inserts_last() - the newest record that may be asked for
 * @ins: the counter
 *
 * Return: its number
 */
uint64_t inserts_last(const struct inserts *ins)
{
	return atomic_load(&ins->last);
}

/**
 * inserts_crowded() - tell whether to wait before another number is taken
 * @ins: the counter
 *
 * Somebody's insert is under way since half a window.  That may be one of the
 * caller's own: it has to see all of these to their end before it waits.  The
 * other half is for those who looked at the same time.
 *
 * Return: true to wait
 */
bool inserts_crowded(const struct inserts *ins)
{
	uint64_t last = inserts_last(ins);

	return atomic_load(&ins->next) - last > INSERTS_WINDOW / 2;
}

/**
 * inserts_take() - a number for an insert
 * @ins: the counter, not crowded
 *
 * Return: the number
 */
uint64_t inserts_take(struct inserts *ins)
{
	return atomic_fetch_add(&ins->next, 1);
}

/* Move on over what is there.  Called by one at a time. */
static void move_on(struct inserts *ins)
{
	uint64_t last = inserts_last(ins);

	while (atomic_exchange(&ins->there[(last + 1) % INSERTS_WINDOW], 0))
		atomic_store(&ins->last, ++last);
}

/**
 * inserts_done() - an insert has completed
 * @ins: the counter
 * @number: its number
 */
void inserts_done(struct inserts *ins, uint64_t number)
{
	atomic_store(&ins->there[number % INSERTS_WINDOW], 1);
	/*
	 * Whoever moves on up to the record before may have looked at this place
	 * too early.  One of the two sees the other: each stores before it looks.
	 */
	while (inserts_last(ins) + 1 == number) {
		if (atomic_exchange(&ins->busy, true)) {
			sched_yield();
			continue;
		}
		move_on(ins);
		atomic_store(&ins->busy, false);
	}
}
