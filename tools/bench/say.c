// SPDX-License-Identifier: GPL-2.0
/* Messages, on standard error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"

static void say(const char *fmt, va_list args)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

/**
 * note() - print a message
 * @fmt: as for printf()
 */
void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
}

/**
 * die() - print an error and exit
 * @fmt: as for printf()
 */
void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	exit(3);
}

/**
 * progress() - show progress
 * @plan: for the number of rounds
 * @what: what is being measured
 * @round: the round that begins; one more than there are after the last
 */
void progress(const struct plan *plan, const char *what, unsigned int round)
{
	if (!isatty(STDERR_FILENO)) {
		if (round <= plan->rounds && (plan->rounds < 10 || !(round % 5)))
			note("%s: round %u of %u", what, round, plan->rounds);
		return;
	}
	fprintf(stderr, "\r\033[K");
	if (round <= plan->rounds)
		fprintf(stderr, "%s: round %u of %u", what, round, plan->rounds);
}
