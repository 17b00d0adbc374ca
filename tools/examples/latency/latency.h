/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of the store, for the BPF program and for the tool.
 *
 * A file's records follow each other: first its name, with the key (device, inode), and
 * then its calls, with keys that begin with the same bytes and continue with the time.  So
 * they are sorted by time, and an interval of time is one range of keys.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <linux/types.h>

struct lat_file {
	__be32 dev;		/* the kernel's number: major << 20 | minor */
	__be64 ino;
} __attribute__((packed));

struct lat_key {
	struct lat_file file;
	__be64 time;		/* of the call's end, nanoseconds since 1970 */
	__be16 cpu;		/* two CPUs may end a call at the same time */
} __attribute__((packed));

enum {
	LAT_READ,
	LAT_WRITE,
};

struct lat_call {
	__u64 ns;		/* how long it took */
	__s64 result;		/* bytes, or a negative errno */
	__u32 pid;
	__u8  op;		/* LAT_READ or LAT_WRITE */
	__u8  reserved[3];
	char  comm[16];
};

/* The value of a file's name: the last part of the path, without a zero byte. */
#define LAT_NAME	64

/* The outcome of the calls seen. */
struct lat_counts {
	__u64 posted;
	__u64 dropped;		/* not posted, because the queue was full */
	__u64 missed;		/* too many calls at once, or another error */
};

#endif /* LATENCY_H */
