// SPDX-License-Identifier: GPL-2.0
/*
 * Sleep of the machine: nothing is written while an image of its memory is made, nor after.
 *
 * A kernel that hibernates goes on for a while when the image has been taken, to write
 * it.  What its log wrote then, the resumed kernel does not know of: a checkpoint would free
 * segments that the resumed kernel's superblock still needs.
 *
 * Commits and checkpoints are works of a queue that is frozen, after the processes, and
 * what makes a store durable that is detached is one of another such queue.  A commit that
 * runs is waited for: the streams' works go on, but write no more than it needs.  A
 * checkpoint that runs may take long: it is given up when the kernel says that it is about
 * to sleep, and made later.  Processes that wait for any of this are frozen where they wait.
 */
#include <linux/suspend.h>

#include "life.h"

static LIST_HEAD(lives);
static DEFINE_MUTEX(lives_lock);

/**
 * kvt_sleep_add() - have a log sleep with the machine
 * @life: of the log, its streams made
 *
 * Context: process context, sleeps.
 */
void kvt_sleep_add(struct kvt_life *life)
{
	mutex_lock(&lives_lock);
	list_add(&life->sleepers, &lives);
	mutex_unlock(&lives_lock);
}

/**
 * kvt_sleep_remove() - a log is closed
 * @life: after kvt_sleep_add(), or not
 *
 * Context: process context, sleeps.
 */
void kvt_sleep_remove(struct kvt_life *life)
{
	mutex_lock(&lives_lock);
	list_del_init(&life->sleepers);
	mutex_unlock(&lives_lock);
}

/* What was left undone. */
static void log_wake(struct kvt_commits *commits)
{
	struct kvt_log *log = &commits->log;
	u32 i;

	for (i = 0; i < log->nr_streams; i++)
		kvt_stream_start(&log->streams[i]);
	queue_delayed_work(log->state.wq, &log->state.checkpoint, 0);
	queue_delayed_work(log->state.wq, &commits->idle, 0);
}

static void sleep_end(void)
{
	struct kvt_life *life;

	WRITE_ONCE(kvt_log_asleep, false);
	mutex_lock(&lives_lock);
	list_for_each_entry(life, &lives, sleepers)
		log_wake(&life->checkpoints.commits);
	mutex_unlock(&lives_lock);
	wake_up_all(&kvt_log_awake);
}

static int sleep_notify(struct notifier_block *nb, unsigned long action, void *unused)
{
	switch (action) {
	case PM_HIBERNATION_PREPARE:
	case PM_SUSPEND_PREPARE:
	case PM_RESTORE_PREPARE:
		WRITE_ONCE(kvt_log_asleep, true);
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_SUSPEND:
	case PM_POST_RESTORE:
		sleep_end();
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block sleep_nb = {
	.notifier_call = sleep_notify,
};

/**
 * kvt_sleep_init() - be told when the machine sleeps
 *
 * Context: module init.
 *
 * Return: 0 or an error.
 */
int kvt_sleep_init(void)
{
	return register_pm_notifier(&sleep_nb);
}

/**
 * kvt_sleep_exit() - end of kvt_sleep_init()
 *
 * Context: module exit; no log is left.
 */
void kvt_sleep_exit(void)
{
	unregister_pm_notifier(&sleep_nb);
}
