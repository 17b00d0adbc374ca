// SPDX-License-Identifier: GPL-2.0
/*
 * The numbers of inserted records, for all processes.
 *
 * Each insert takes the next number.  Clients only use a record when it and all records before
 * it exist: so a record that is not found was lost.  Inserts complete in any order; a moving
 * window stores which have completed.
 */
#include <sched.h>

#include "bench_load.h"

/**
 * inserts_begin() - initialize the counter
 * @ins: the counter
 * @records: number of existing records, above 0
 *
 * Context: no concurrent use.
 */
void inserts_begin(struct inserts *ins, uint64_t records)
{
	memset(ins, 0, sizeof(*ins));
	ins->next = records;
	ins->last = records - 1;
}

/**
 * inserts_last() - the newest record that clients may use
 * @ins: the counter
 *
 * Return: its number
 */
uint64_t inserts_last(const struct inserts *ins)
{
	return atomic_load(&ins->last);
}

/**
 * inserts_crowded() - whether to wait before taking another number
 * @ins: the counter
 *
 * An insert has been in progress for half a window.  It may be one of the caller's own: the
 * caller must complete all of these before it waits.  The other half is for clients that
 * check at the same time.
 *
 * Return: true to wait
 */
bool inserts_crowded(const struct inserts *ins)
{
	uint64_t last = inserts_last(ins);

	return atomic_load(&ins->next) - last > INSERTS_WINDOW / 2;
}

/**
 * inserts_take() - take a number for an insert
 * @ins: the counter, not crowded
 *
 * Return: the number
 */
uint64_t inserts_take(struct inserts *ins)
{
	return atomic_fetch_add(&ins->next, 1);
}

/* Advance over completed inserts.  Called by one client at a time. */
static void move_on(struct inserts *ins)
{
	uint64_t last = inserts_last(ins);

	while (atomic_exchange(&ins->there[(last + 1) % INSERTS_WINDOW], 0))
		atomic_store(&ins->last, ++last);
}

/**
 * inserts_done() - record a completed insert
 * @ins: the counter
 * @number: its number
 */
void inserts_done(struct inserts *ins, uint64_t number)
{
	atomic_store(&ins->there[number % INSERTS_WINDOW], 1);
	/*
	 * A client that advances up to the previous record may have checked this place too
	 * early.  One of the two sees the other: each stores before it checks.
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
