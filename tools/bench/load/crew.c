// SPDX-License-Identifier: GPL-2.0
/*
 * A crew: the processes and threads that run a workload in one way.
 *
 * The parent starts them, lets them begin at the same time, watches, and adds up their results.
 * Processes and the parent share memory for these.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_load.h"

#define POLL_NS		5000000ull	/* polling interval of the parent */

struct member {
	const struct crew *crew;
	unsigned int number;
	pthread_t thread;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/**
 * crew_catch_signals() - let signals end a run properly
 */
void crew_catch_signals(void)
{
	struct sigaction act = { .sa_handler = on_signal };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

/**
 * crew_interrupted() - whether a signal arrived
 *
 * Return: true if so
 */
bool crew_interrupted(void)
{
	return interrupted;
}

static size_t shared_size(unsigned int clients)
{
	return sizeof(struct shared) + clients * sizeof(struct tally);
}

/**
 * crew_shared() - allocate memory for results
 * @clients: their number
 *
 * Return: the memory, shared with children
 */
struct shared *crew_shared(unsigned int clients)
{
	void *p = mmap(NULL, shared_size(clients), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("out of memory");
	return p;
}

static void *member_main(void *arg)
{
	const struct member *m = arg;

	client_run(m->crew, m->number);
	return NULL;
}

/* The main function of a process of the crew. */
static void __attribute__((noreturn)) process_main(const struct crew *crew, unsigned int first)
{
	unsigned int i, threads = crew->plan->threads;
	struct member *m = alloc(NULL, threads * sizeof(*m));
	int err;

	/* The parent decides when to stop, also after ^C. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < threads; i++) {
		m[i] = (struct member){ .crew = crew, .number = first + i };
		err = pthread_create(&m[i].thread, NULL, member_main, &m[i]);
		if (err)
			die("cannot start a thread: %s", strerror(err));
	}
	for (i = 0; i < threads; i++)
		pthread_join(m[i].thread, NULL);
	if (crew->trace && fflush(crew->trace))
		atomic_store(&crew->shared->fatal, -errno);
	_exit(STATUS_OK);
}

static void kill_all(const pid_t *pid, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (pid[i])
			kill(pid[i], SIGKILL);
}

/*
 * Check which processes have ended.
 * Return: how many are left
 */
static unsigned int look(pid_t *pid, unsigned int nr)
{
	unsigned int i, left = 0;
	int status;

	for (i = 0; i < nr; i++) {
		if (!pid[i])
			continue;
		if (waitpid(pid[i], &status, WNOHANG) != pid[i]) {
			left++;
			continue;
		}
		pid[i] = 0;
		/* Others may wait for a part of this one's work. */
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			kill_all(pid, nr);
			die("a process of the bench ended: %s",
			    WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "see above");
		}
	}
	return left;
}

static void start(const struct crew *crew, pid_t *pid)
{
	unsigned int i;

	/* Otherwise each child would print the buffered output again. */
	fflush(NULL);
	for (i = 0; i < crew->plan->processes; i++) {
		pid[i] = fork();
		if (!pid[i])
			process_main(crew, i * crew->plan->threads);
		if (pid[i] < 0) {
			pid[i] = 0;
			kill_all(pid, i);
			die("cannot start a process: %m");
		}
	}
}

static void tick(struct shared *shared)
{
	sleep_until_ns(now_ns() + POLL_NS);
	if (interrupted)
		atomic_store(&shared->stop, true);
}

static void counters(const struct target *target, uint64_t *values)
{
	int ret;

	memset(values, 0, KVTREE_STAT_NR * sizeof(*values));
	if (!target->kv)
		return;
	ret = kvtree_stat(target->kv, values, KVTREE_STAT_NR);
	if (ret < 0)
		die("cannot read the counters of the store: %s", reason(ret));
}

static uint64_t done(const struct shared *shared, unsigned int clients)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < clients; i++)
		sum += shared->tally[i].done;
	return sum;
}

static void prepare(const struct crew *crew, unsigned int clients)
{
	struct shared *shared = crew->shared;

	memset(shared, 0, shared_size(clients));
	inserts_begin(&shared->inserts, crew->plan->shape.records);
	crew->target->inserts = &shared->inserts;
	if (sem_init(&shared->go, 1, 0))
		die("cannot make a semaphore: %m");
}

/* Watch until all have ended. */
static void watch(const struct crew *crew, pid_t *pid, struct progress *progress)
{
	const struct plan *plan = crew->plan;
	uint64_t end = now_ns() + (uint64_t)(plan->seconds * 1e9);
	uint64_t now, n;

	while (look(pid, plan->processes)) {
		tick(crew->shared);
		now = now_ns();
		if (plan->seconds && now >= end)
			atomic_store(&crew->shared->stop, true);
		n = done(crew->shared, plan_clients(plan));
		progress_show(progress, n, n, 0);
	}
}

static void fail(const struct crew *crew, int err)
{
	const struct series *s = crew->series;

	if (err == -EPERM && s->driver == &driver_uring)
		die("--via %s: not allowed here (see the sysctl kernel.io_uring_disabled)",
		    s->name);
	die("%s by %s: %s", crew->workload->name, s->name, reason(err));
}

/**
 * crew_run() - run a workload in one way, once
 * @crew: the workload and the way
 * @res: the results are added here
 * @progress: to show progress
 *
 * Afterwards the store is unchanged: records that were inserted are removed.
 */
void crew_run(struct crew *crew, struct result *res, struct progress *progress)
{
	uint64_t before[KVTREE_STAT_NR], after[KVTREE_STAT_NR];
	unsigned int i, clients = plan_clients(crew->plan);
	struct shared *shared = crew->shared;
	pid_t *pid = alloc(NULL, crew->plan->processes * sizeof(*pid));

	prepare(crew, clients);
	start(crew, pid);
	while (shared->ready < clients && look(pid, crew->plan->processes))
		tick(shared);
	counters(crew->target, before);
	for (i = 0; i < clients; i++)
		sem_post(&shared->go);
	watch(crew, pid, progress);
	free(pid);
	sem_destroy(&shared->go);
	if (shared->fatal)
		fail(crew, shared->fatal);
	counters(crew->target, after);
	target_forget_inserts(crew->target);
	if (!interrupted)
		result_add(res, shared, clients, before, after);
}
