// SPDX-License-Identifier: GPL-2.0
/* See counters.h. */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "counters.h"

/* The group's leader; -1: no counters. */
static __thread int leader;
static __thread bool tried;

static int open_counter(uint64_t config, int group)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = config,
		.read_format = PERF_FORMAT_GROUP,
		.disabled = group < 0,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

static void open_all(void)
{
	tried = true;
	leader = open_counter(PERF_COUNT_HW_CPU_CYCLES, -1);
	if (leader >= 0 && open_counter(PERF_COUNT_HW_INSTRUCTIONS, leader) < 0) {
		close(leader);
		leader = -1;
	}
}

void counters_begin(void)
{
	if (!tried)
		open_all();
	if (leader < 0)
		return;
	ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

struct bench_counts counters_end(void)
{
	struct {
		uint64_t nr;
		struct bench_counts counts;
	} read_out;

	if (leader < 0)
		return (struct bench_counts) { 0 };
	ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	if (read(leader, &read_out, sizeof(read_out)) != sizeof(read_out))
		return (struct bench_counts) { 0 };
	return read_out.counts;
}
