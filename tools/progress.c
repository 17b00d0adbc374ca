// SPDX-License-Identifier: GPL-2.0
/*
 * Progress of a long command: a line on standard error that is redrawn.
 */
#include <inttypes.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

#define REDRAW	0.1	/* seconds between two drawings */
#define BAR_MAX	40

static double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A number of bytes with a unit, in the caller's buffer. */
static const char *size_text(char *buf, size_t size, uint64_t bytes)
{
	static const char * const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double n = (double)bytes;
	size_t unit = 0;

	while (n >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		n /= 1024;
		unit++;
	}
	snprintf(buf, size, unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
	return buf;
}

static int columns(void)
{
	struct winsize ws;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) && ws.ws_col)
		return ws.ws_col;
	return 80;
}

/**
 * progress_start() - begin to show progress
 * @p: the progress
 * @verb: the command's work, such as "load"
 * @on: false: show nothing
 * @total: the total, 0 if not known
 */
void progress_start(struct progress *p, const char *verb, bool on, uint64_t total)
{
	p->on = on;
	p->verb = verb;
	p->total = total;
	p->start = now_seconds();
	p->drawn = p->start;
}

/**
 * progress_show() - show the progress; may be called often
 * @p: the progress
 * @now: the progress, in the unit of the total
 * @records: records done, or another unit
 * @bytes: bytes read or written; 0: not shown
 */
void progress_show(struct progress *p, uint64_t now, uint64_t records, uint64_t bytes)
{
	char line[160], size[32];
	double t, share;
	int len, room, fill;

	if (!p->on)
		return;
	t = now_seconds();
	if (t - p->drawn < REDRAW)
		return;
	p->drawn = t;
	len = snprintf(line, sizeof(line), "%s: %" PRIu64 " %s, %s%s%.0f/s", p->verb, records,
		       p->unit ? p->unit : "records",
		       bytes ? size_text(size, sizeof(size), bytes) : "", bytes ? ", " : "",
		       (double)records / (t - p->start));
	/* Return to the start of the line, and clear it. */
	fprintf(stderr, "\r\033[K%s", line);
	room = columns() - len - 10;
	if (p->total && room >= 5) {
		share = (double)now / (double)p->total;
		if (share > 1)
			share = 1;
		room = room > BAR_MAX ? BAR_MAX : room;
		fill = (int)(share * room);
		fprintf(stderr, " [%.*s%*s] %3.0f%%", fill,
			"########################################", room - fill, "",
			share * 100);
	}
	fflush(stderr);
}

/**
 * progress_end() - print the result
 * @p: the progress
 * @done: the word for the work done, such as "loaded"; NULL: only clear the line
 * @records: records done
 * @bytes: bytes read or written
 *
 * Return: how long it took, in seconds
 */
double progress_end(struct progress *p, const char *done, uint64_t records, uint64_t bytes)
{
	double took = now_seconds() - p->start;
	char size[32];

	/* If the command was quick, no line was drawn. */
	if (p->on && !done && p->drawn > p->start)
		fputs("\r\033[K", stderr);
	else if (p->on && done)
		fprintf(stderr, "\r\033[K%s %" PRIu64 " record%s, %s, in %.1f s\n", done, records,
			plural(records), size_text(size, sizeof(size), bytes), took);
	return took;
}
