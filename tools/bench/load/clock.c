// SPDX-License-Identifier: GPL-2.0
/*
 * The clock.
 */
#include <time.h>

#include "bench_load.h"

#define NS	1000000000ull

/**
 * now_ns() - the time
 *
 * Return: ns since some moment, the same for all processes
 */
uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

/**
 * sleep_until_ns() - wait for a time
 * @when: the time
 */
void sleep_until_ns(uint64_t when)
{
	struct timespec ts = { .tv_sec = (time_t)(when / NS), .tv_nsec = (long)(when % NS) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}
