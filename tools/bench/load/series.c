// SPDX-License-Identifier: GPL-2.0
/*
 * Series: a driver and how it is used, written NAME[:DEPTH][:pointer][:sqpoll].
 */
#include "bench_load.h"

static const struct driver * const drivers[] = {
	&driver_ioctl, &driver_batch, &driver_uring, &driver_none,
};

static const struct driver *find(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		if (strlen(drivers[i]->name) == len && !memcmp(drivers[i]->name, name, len))
			return drivers[i];
	return NULL;
}

static bool is(const char *word, const char *text, size_t len)
{
	return strlen(word) == len && !memcmp(word, text, len);
}

/* Parse a number of operations; 0 if invalid. */
static unsigned int depth_of(const char *text, size_t len)
{
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || n > DEPTH_MAX)
			return 0;
		n = 10 * n + (unsigned int)(text[i] - '0');
	}
	return n <= DEPTH_MAX ? n : 0;
}

static const char *parse_word(struct series *s, const char *word, size_t len)
{
	if (is("sqpoll", word, len) || is("pointer", word, len)) {
		if (s->driver != &driver_uring)
			return "sqpoll and pointer are for uring";
		s->flags |= *word == 's' ? SERIES_SQPOLL : SERIES_BY_POINTER;
		return NULL;
	}
	if (!s->driver->deep)
		return "ioctl and none have no depth";
	s->depth = depth_of(word, len);
	return s->depth ? NULL : "a depth is a number from 1 to 4096";
}

/**
 * series_parse() - parse a way to the kernel
 * @s: set up; to be finished by series_finish()
 * @text: what the user wrote
 * @len: bytes at @text
 *
 * Return: NULL, or an error message
 */
const char *series_parse(struct series *s, const char *text, size_t len)
{
	const char *end = text + len, *colon, *bad = NULL;

	*s = (struct series){ 0 };
	colon = memchr(text, ':', len);
	s->driver = find(text, colon ? (size_t)(colon - text) : len);
	if (!s->driver)
		return "use ioctl, batch, uring or none";
	while (colon && !bad) {
		text = colon + 1;
		colon = memchr(text, ':', (size_t)(end - text));
		bad = parse_word(s, text, (size_t)((colon ? colon : end) - text));
	}
	return bad;
}

/**
 * series_finish() - apply the options for all series
 * @s: the series
 * @depth: for series without their own
 * @flags: SERIES_*, for uring
 */
void series_finish(struct series *s, unsigned int depth, unsigned int flags)
{
	if (!s->driver->deep)
		s->depth = 1;
	else if (!s->depth)
		s->depth = depth;
	if (s->driver == &driver_uring)
		s->flags |= flags;
	snprintf(s->name, sizeof(s->name), s->driver->deep ? "%s %u%s%s" : "%s",
		 s->driver->name, s->depth, s->flags & SERIES_BY_POINTER ? " pointer" : "",
		 s->flags & SERIES_SQPOLL ? " sqpoll" : "");
}
