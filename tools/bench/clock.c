// SPDX-License-Identifier: GPL-2.0
/*
 * The clock.
 */
#include <errno.h>
#include <time.h>

#include "clock.h"

#define NS	1000000000ull

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

/**
 * now_ns() - the time
 *
 * Return: ns since a fixed time, the same for all processes
 */
uint64_t now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/**
 * cpu_ns() - CPU time of this process
 *
 * Return: ns of all threads
 */
uint64_t cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/**
 * seconds_now() - the time
 *
 * Return: now_ns() in seconds
 */
double seconds_now(void)
{
	return (double)now_ns() / NS;
}

/**
 * sleep_until_ns() - wait for a time
 * @when: the time, as of now_ns()
 */
void sleep_until_ns(uint64_t when)
{
	struct timespec ts = { .tv_sec = (time_t)(when / NS), .tv_nsec = (long)(when % NS) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}
