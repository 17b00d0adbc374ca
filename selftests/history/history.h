/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A history: the operations of several processes on a store, their results, and which of
 * the calls overlapped.  check/ decides whether some sequential order of the operations
 * explains every result.
 */
#ifndef KVT_HISTORY_H
#define KVT_HISTORY_H

#include <stdbool.h>

#include "lib/kvt_test.h"

enum history_op {
	HISTORY_GET,
	HISTORY_PUT,
	HISTORY_CREATE,		/* a put with KVTREE_F_CREATE */
	HISTORY_CAS,
	HISTORY_ADD,
	HISTORY_REMOVE,
	HISTORY_REMOVE_AT,	/* a remove with KVTREE_F_VERSION */
	HISTORY_SCAN,		/* becomes a HISTORY_GET of each key */
	HISTORY_OPS
};

/*
 * An operation on one key, in the format of the file: 64 bytes, in the machine's byte order.
 * @call and @ret are ticks of one clock for all processes; no two are equal.
 */
struct event {
	__u64 call;
	__u64 ret;
	__u64 expected;		/* CAS, REMOVE_AT: the version asked for */
	__u64 version;		/* found, made or removed */
	__u64 given;		/* put, CAS: the value; ADD: what to add */
	__u64 found;		/* GET: the value; ADD: the number before */
	__u32 round;
	__u16 key;
	__u8 op;
	__u8 door;
	__s32 result;		/* 0 or a negative errno */
	__u32 worker;
};

_Static_assert(sizeof(struct event) == 64, "struct event");

/*
 * A value says how long it is by its two lowest bits: the number, once or repeated.  Only
 * the first class can be added to.
 */
#define VALUE_MAX	5000
#define VALUE_CLASSES	3

size_t value_len(__u64 value);
/* Copies @value to @buf, which has room for VALUE_MAX bytes; returns its length. */
size_t value_fill(void *buf, __u64 value);
/* The number that @len bytes at @buf repeat; ends the process if they are torn. */
__u64 value_read(const void *buf, size_t len);

/* Keys differ between rounds; within one they share prefixes, slices and leaves. */
#define ROUND_KEYS	8
#define KEY_ROOM	64

size_t key_fill(void *buf, __u32 round, unsigned int key);
/* The number of @key in the round, or -1. */
int key_number(const void *buf, size_t len, __u32 round);

/* All processes have one. */
__u64 history_tick(void);

/* A way into the module. */
#define DOOR_DEPTH	8

struct door {
	const char *name;
	__u64 ops;			/* bits: which enum history_op it offers */
	unsigned int depth;		/* operations under way at once, at most DOOR_DEPTH */
	unsigned int classes;		/* of values */
	/* The store has been made, or attached again; no process runs.  @fd: a session on it. */
	void (*prepare)(int fd);
	/* In each process. */
	void (*open)(int fd);
	/* Executes @nr operations, and fills in their results. */
	void (*run)(struct event *event, unsigned int nr);
};

/* NULL-terminated; the programs link different ones. */
extern const struct door *const doors[];
extern const struct door door_ioctl, door_batch, door_uring, door_syscall, door_xdp;

/* An operation of @event, its buffers at @room, and back. */
struct room {
	char key[KEY_ROOM];
	char val[VALUE_MAX];
};

struct kvtree_op event_op(const struct event *event, struct room *room);
void event_done(struct event *event, const struct kvtree_op *op, const struct room *room);

/* The results of a scan of the round's keys, in either direction, one for each key. */
void scan_round(int fd, __u32 round, bool reverse, struct event *event);

/* A process's part of a round: at most @nr events; returns how many there are. */
struct work {
	const struct door *door;
	__u32 round;
	__u32 worker;
	unsigned int nr;	/* operations */
	bool sync;		/* an answer counts when a SYNC after it has succeeded */
	__u64 seed;
};

unsigned int work_run(const struct work *work, int fd, struct event *event);
/* Neighbors come and go, so that nodes split, merge and are emptied; no events. */
void work_churn(const struct work *work, int fd);

#endif /* KVT_HISTORY_H */
