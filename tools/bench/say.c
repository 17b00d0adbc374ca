// SPDX-License-Identifier: GPL-2.0
/* What is said to whoever runs it. */
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
 * note() - say something
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
 * die() - say why it cannot go on, and exit
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
 * progress() - show how far it is
 * @plan: how many rounds there are
 * @what: what is being measured
 * @round: which of them begins; one more than there are: done
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
