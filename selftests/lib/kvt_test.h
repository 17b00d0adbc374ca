/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the test programs: thin wrappers around the calls of /dev/kvtree.
 * They add no retries and no checks of their own unless their comment says so,
 * because the programs test the kernel's interface itself.
 */
#ifndef KVT_TEST_H
#define KVT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <linux/kvtree.h>

#define KVT_DEV		"/dev/kvtree"

/*
 * Of the harness, which is included before.  Emulated machines and kernels full
 * of checks take their time; the limit is there for what never ends.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	900

/* Every argument is evaluated once; the array is one of the caller's. */
#define NR(array)	(sizeof(array) / sizeof((array)[0]))

/*
 * kvt_check() ends the process with exit status 1.  For threads, forked
 * children and helpers, where the harness's ASSERT_* cannot be used.
 */
#define KVT_CHECK(cond)	kvt_check(!!(cond), #cond, __FILE__, __LINE__)

void kvt_check(bool ok, const char *what, const char *file, int line);
/* If it is not NULL: called before, and before a test that takes too long is killed. */
extern void (*kvt_check_failed)(void);

/* A run of bytes: a key or a value. */
struct kvt_bytes {
	const void *data;
	__u32 len;
};

#define STR(s)		((struct kvt_bytes){ (s), sizeof(s) - 1 })

static inline struct kvt_bytes kvt_bytes(const void *data, size_t len)
{
	return (struct kvt_bytes){ data, len };
}

static inline __u64 kvt_ptr(const void *p)
{
	return (uintptr_t)p;
}

/* Order of the index: bytes as unsigned numbers, then length. */
int kvt_cmp(struct kvt_bytes a, struct kvt_bytes b);

/* Calls.  All return 0 or more, or a negative errno. */
int kvt_open(void);
int kvt_ioctl(int fd, unsigned long cmd, void *arg);

/* One KVTREE_IOC_BATCH; *done (may be NULL) is what came back, ~0 if nothing did. */
int kvt_batch(int fd, void *ops, __u32 nr, __u32 *done);
/* All of them, where io_uring has something for this thread to do, which ends a batch early. */
int kvt_batch_all(int fd, struct kvtree_op *ops, __u32 nr);
/* A batch of one: the operation's result, or the error of the call. */
int kvt_exec(int fd, struct kvtree_op *op);

/* An operation, all zeros but for its code and key, and the size of a scan. */
struct kvtree_op kvt_op(int opcode, struct kvt_bytes key);

int kvt_get(int fd, struct kvt_bytes key, void *val, __u32 len, __u64 *version);
/* The version of a key, 0 if it does not exist. */
__u64 kvt_version(int fd, struct kvt_bytes key);
bool kvt_has(int fd, struct kvt_bytes key, struct kvt_bytes val);
int kvt_put(int fd, struct kvt_bytes key, struct kvt_bytes val, __u64 *version);
int kvt_put_flags(int fd, struct kvt_bytes key, struct kvt_bytes val, int flags);
int kvt_put_cols(int fd, struct kvt_bytes key, const struct kvtree_col *cols, int ncols,
		 struct kvt_bytes val, __u64 *version);
int kvt_get_cols(int fd, struct kvt_bytes key, struct kvtree_col *cols, int ncols,
		 void *val, __u32 len);
int kvt_cas(int fd, struct kvt_bytes key, struct kvt_bytes val, __u64 *version);
int kvt_remove(int fd, struct kvt_bytes key);
int kvt_add(int fd, struct kvt_bytes key, int col, __u64 by, __u64 *before);

/* Stores */
int kvt_create(int fd, const char *name, __u32 mode, __u64 limit_bytes, __u64 limit_keys);
int kvt_create_as(int fd, const char *name, __u32 mode, __u32 uid, __u32 gid);
/* Change what @set names. */
int kvt_set(int fd, const char *name, const struct kvtree_store_set *set);
int kvt_store(int fd, const char *name, __u32 flags);
int kvt_destroy(int fd, const char *name);
int kvt_self(int fd, struct kvtree_store_info *info);
int kvt_find(int fd, const char *name, struct kvtree_store_info *info);
/*
 * Whether the session's store is a Masstree, in which the nodes that there are follow
 * from the order of changes alone, and keys with a common prefix make layers.
 */
bool kvt_is_masstree(int fd);
/* A counter that an engine alone has; 0 if it has not. */
__u64 kvt_engine_stat(int fd, const char *name);
/* Exactly KVTREE_STAT_NR counters. */
int kvt_stats(int fd, __u64 *values);
/* One of them, and KVTREE_FEAT_*; they end the process if they fail. */
__u64 kvt_stat(int fd, int id);
/* The number of the module's open files; -1: the kernel does not count them. */
int kvt_module_users(void);
/* Whether there are *(int *)arg: for kvt_eventually(). */
bool kvt_module_users_are(void *arg);
__u64 kvt_features(int fd);

/* The kernel's taint flags of warnings and crashes; 0 without /proc. */
unsigned long kvt_taint(void);

/* A store of a test's own. */
struct kvt_env {
	int dev;		/* a session on the default store */
	int fd;			/* one on the store */
	char name[KVTREE_NAME_MAX];
	unsigned long taint;	/* of the kernel, when the test began */
};

/*
 * Both end the process if they fail; kvt_env_exit() also if the kernel warned
 * since.
 */
void kvt_env_init(struct kvt_env *env, const char *name, __u64 limit_bytes, __u64 limit_keys);
void kvt_env_exit(struct kvt_env *env);

/* Set a parameter of the module, as text; its old value to @old, if that is not NULL. */
void kvt_set_param(const char *path, const char *text, char *old, size_t size);

/* The bound that new stores get of memory that waits to be freed, in MiB. */
#define KVT_BOUND	"/sys/module/kvtree/parameters/reclaim_bound_mb"

void kvt_set_bound(const char *text, char *old, size_t size);

/*
 * Scans
 */
struct kvt_rec {
	struct kvt_bytes key;
	struct kvt_bytes val;	/* with columns: the descriptors, then the data */
	__u64 version;
	__u16 ncols;
	__u16 flags;
};

struct kvt_list {
	struct kvt_rec *rec;
	size_t nr;
	size_t room;
	unsigned int calls;	/* scans that it took */
	bool done;		/* the last one said KVTREE_SCAN_DONE */
};

/*
 * One scan with a buffer of `room` bytes.  Checks every rule of the record's
 * layout and appends the records, and the mark of a scan with a filter, to the
 * list.  Returns the operation's result; *scan and *need (may be NULL: the val_len
 * that came back) are what the kernel left.
 */
int kvt_scan_once(int fd, struct kvt_bytes start, struct kvtree_scan *scan, __u32 room,
		  struct kvt_list *list, __u32 *need);
/*
 * A whole range, resumed until it is exhausted; the buffer grows for a record
 * that does not fit.  scan->limit is what one call may return.
 */
int kvt_scan_all(int fd, struct kvt_bytes start, const struct kvtree_scan *scan, __u32 room,
		 struct kvt_list *list);
void kvt_list_free(struct kvt_list *list);
/* A hash of every key, value and version of the store. */
__u64 kvt_digest(int fd);

/*
 * Randomness: the seed is KVT_SEED from the environment or a fixed one, and
 * is printed.
 */
struct kvt_rand {
	__u64 state;
};

void kvt_rand_init(struct kvt_rand *rand, __u64 salt);
__u64 kvt_rand(struct kvt_rand *rand);
__u32 kvt_rand_below(struct kvt_rand *rand, __u32 n);

/*
 * The kernel's fault injection: the n-th allocation (or the like) of this task fails.
 * _done() returns whether that happened, and disarms it.
 */
#define KVT_NTH		"/proc/thread-self/fail-nth"

int kvt_nth_open(void);
void kvt_nth_set(int nth, unsigned int n);
bool kvt_nth_done(int nth);

/* Memory and processes */

/*
 * Let this process pass addresses with a tag in the upper byte to system calls, as arm64
 * allows; false if it cannot.  Threads that are made later inherit this.
 */
bool kvt_allow_tags(void);
#define KVT_TAG		(1ull << 56)

/* `pages` pages followed by an inaccessible one; returns their end. */
char *kvt_map_guarded(size_t pages);
/* Shared with children forked later. */
void *kvt_map_shared(size_t bytes);
/* fork(); the child ends with its parent, so that a test that fails leaves none. */
int kvt_child(void);
/* Fork and run fn(arg); the child's exit status is what fn returns. */
int kvt_fork(int (*fn)(void *arg), void *arg);
/* A child; @status once it has ended, as for waitpid(). */
struct kvt_process {
	int pid;
	int status;
};

/* Whether it has: for kvt_eventually(). */
bool kvt_has_ended(void *process);
/* Read a file of /proc about "PID", or a thread, "PID/task/TID"; "" if there is none. */
void kvt_read_process(const char *process, const char *file, char *text, size_t size);
/* Whether one of a process's threads, of a name that begins so, waits, and no signal ends that. */
bool kvt_thread_blocks(int pid, const char *name);
/* Exit status of a child; 128 + n if signal n ended it. */
int kvt_wait(int pid);
/* The two together. */
int kvt_run(int (*fn)(void *arg), void *arg);
/* Pass a descriptor through a UNIX socket. */
void kvt_send_fd(int sock, int fd);
int kvt_receive_fd(int sock);
/* Become an ordinary user without capabilities. */
void kvt_drop(__u32 uid, __u32 gid);
void kvt_sleep_ms(unsigned int ms);
/* Have this thread, and those that it will start, run on a CPU. */
void kvt_run_on(int cpu);
/* n, or 1 / part of it in a kernel that watches its every lock and access. */
__u64 kvt_fewer(__u64 n, unsigned int part);
/*
 * Whether to leave out what this program does in another lane as well: in "make check", in such a
 * kernel.
 */
bool kvt_leave_out(void);
/*
 * For the harness: kill a test that takes too long.  In a lane's kernel, first write its
 * stacks to the console.  If it cannot be killed, end the program: later tests would hang
 * as well.
 */
void kvt_timed_out(const char *name, int pid);
/* Calls until(arg) every 10 ms until it is true; false after a minute. */
bool kvt_eventually(bool (*until)(void *arg), void *arg);
/*
 * Whether to go on with a loop until luck has it that something is seen: false 200 seconds
 * after the first call with this *end, which is 0 then.  Assert afterwards that it was seen.
 */
bool kvt_try_again(time_t *end);

#endif /* KVT_TEST_H */
