// SPDX-License-Identifier: GPL-2.0
/*
 * Sleep of the machine: write nothing from when an image of its memory is made until it resumes.
 *
 * When a hibernating kernel has made the image, it goes on for a while to write it.  The resumed
 * kernel would not know what the log wrote in that time: a checkpoint, for example, would free
 * segments that the superblock in the resumed kernel's memory still needs.
 *
 * Commits and checkpoints are works on a freezable queue, which the kernel freezes after the
 * processes; the work that makes a detached store durable is on another such queue.  The kernel
 * waits for a running commit: the streams' works go on, but write only what the commit needs.  A
 * running checkpoint may take long, so it is given up when the kernel announces the sleep, and
 * made later.  Processes that wait for any of these are frozen while they wait.
 */
#include <linux/suspend.h>

#include "life.h"

static LIST_HEAD(lives);
static DEFINE_MUTEX(lives_lock);

/**
 * kvt_sleep_add() - make a log resume its work after the machine's sleep
 * @life: of the log, which has its streams
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
 * kvt_sleep_remove() - end of kvt_sleep_add(), when a log is closed
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

/* Start what was not done because of the sleep. */
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
 * kvt_sleep_init() - register to be notified when the machine sleeps
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
