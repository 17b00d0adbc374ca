// SPDX-License-Identifier: GPL-2.0
/* Knobs of the kernel's fault injection: see knobs.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "knobs.h"
#include "kvt_test.h"

bool kvt_knob_try(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return done;
}

void kvt_knob(const char *attr, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), KVT_DEBUGFS "%s/%s", attr, name);
	KVT_CHECK(kvt_knob_try(path, value));
}

void kvt_knob_number(const char *attr, const char *name, __u64 value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", value);
	kvt_knob(attr, name, text);
}

long kvt_knob_read(const char *attr, const char *name)
{
	char path[128], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), KVT_DEBUGFS "%s/%s", attr, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	KVT_CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10);
}

void kvt_knobs_of_memory(void)
{
	static const char * const attrs[] = { "failslab", "fail_page_alloc" };
	size_t i;

	for (i = 0; i < NR(attrs); i++) {
		kvt_knob(attrs[i], "probability", "0");
		kvt_knob(attrs[i], "ignore-gfp-wait", "N");
		kvt_knob(attrs[i], "verbose", "0");
		kvt_knob(attrs[i], "interval", "1");
		kvt_knob(attrs[i], "space", "0");
	}
	kvt_knob("failslab", "cache-filter", "N");
	kvt_knob("fail_page_alloc", "ignore-gfp-highmem", "N");
	kvt_knob("fail_page_alloc", "min-order", "0");
}

void kvt_knob_range(const char *attr, __u64 start, __u64 end)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)start);
	kvt_knob(attr, "require-start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)end);
	kvt_knob(attr, "require-end", text);
	kvt_knob(attr, "stacktrace-depth", "32");
}

bool kvt_function_range(const char *name, __u64 *start, __u64 *end)
{
	unsigned long long at, next = ~0ULL, found = 0;
	char line[256], symbol[128];
	FILE *f;
	int pass;

	f = fopen("/proc/kallsyms", "re");
	KVT_CHECK(f);
	for (pass = 0; pass < 2; pass++) {
		rewind(f);
		while (fgets(line, sizeof(line), f)) {
			if (sscanf(line, "%llx %*c %127s", &at, symbol) != 2)
				continue;
			if (!pass && !strcmp(symbol, name))
				found = at;
			else if (pass && at > found && at < next)
				next = at;
		}
	}
	fclose(f);
	*start = found;
	*end = next;
	return found;
}
