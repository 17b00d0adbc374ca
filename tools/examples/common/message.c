// SPDX-License-Identifier: GPL-2.0
/* Messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "example.h"

static void say(const char *fmt, va_list ap)
{
	/* Flush first, so that messages follow earlier output, also in a log. */
	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

/**
 * warn() - print a message
 * @fmt: as for printf(), without the newline
 */
void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

/**
 * die() - print a message and exit with STATUS_ERROR
 * @fmt: as for printf(), without the newline
 */
void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(STATUS_ERROR);
}

/**
 * alloc() - realloc() that does not fail
 * @old: memory to enlarge, or NULL
 * @size: bytes
 *
 * Return: the memory
 */
void *alloc(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (!p)
		die("out of memory");
	return p;
}
