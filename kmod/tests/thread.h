/* SPDX-License-Identifier: GPL-2.0 */
/* Threads of tests, each bound to a CPU, and how long one of them waits for another. */
#ifndef KVT_TESTS_THREAD_H
#define KVT_TESTS_THREAD_H

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/processor.h>

struct task_struct;

struct kt_thread {
	struct task_struct *task;
	struct completion done;
	int (*fn)(void *arg);
	void *arg;
};

int kt_thread_init(struct kt_thread *thread, int cpu, int (*fn)(void *arg), void *arg);
void kt_thread_start(struct kt_thread *thread);
int kt_thread_join(struct kt_thread *thread);

/*
 * How many turns of a millisecond to wait for an event that may never come.  No kernel reports
 * its CPU as stuck before that, and a busy machine needs less for an event that does come.
 */
#define KT_TURNS_MAX	60000u

/* How long a thread has waited busily, on a CPU that it may not have had all the time. */
struct kt_patience {
	u64 seen;		/* ns: when it looked last */
	u64 spent;
};

/* A longer gap means that another thread had the CPU: it counts for no more than this. */
#define KT_GAP_NS	(10 * NSEC_PER_MSEC)

static inline bool kt_patience_ends(struct kt_patience *p, u64 ms)
{
	u64 now = ktime_get_mono_fast_ns();

	if (p->seen)
		p->spent += min_t(u64, now - p->seen, KT_GAP_NS);
	p->seen = now;
	return p->spent > ms * NSEC_PER_MSEC;
}

/*
 * Wait busily for something that another CPU does: until the expression is true.  False: it never
 * was.  A count of udelay() would be no wait: a busy machine calibrates that wrongly.
 */
#define kt_await_ms(event, ms) ({						\
	struct kt_patience patience_ = { };					\
	bool come_;								\
										\
	while (!(come_ = (event)) && !kt_patience_ends(&patience_, ms))		\
		cpu_relax();							\
	come_;									\
})

#define kt_await(event)	kt_await_ms(event, KT_TURNS_MAX)

/* Be busy for a time in which another CPU does what cannot be seen. */
static inline void kt_linger(u64 ms)
{
	kt_await_ms(false, ms);
}

#endif /* KVT_TESTS_THREAD_H */
