// SPDX-License-Identifier: GPL-2.0
/*
 * Destroy or detach a store, and print what blocks it.
 *
 * The call waits for the store's users.  If they take long, the kernel's log names them, and every
 * user who may end a store may read it: print its messages about this store meanwhile.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "tool.h"

#define KMSG		"/dev/kmsg"
#define RECORD_MAX	8192	/* what the kernel gives at once */

struct teardown {
	const struct kvtree *kv;
	const char *name;
	int (*call)(const struct kvtree *kv, const char *name);
	int err;
	int ended[2];		/* a pipe, closed at the end */
};

static void *teardown_call(void *arg)
{
	struct teardown *down = arg;

	down->err = down->call(down->kv, down->name);
	close(down->ended[1]);
	return NULL;
}

/* The last message printed. */
struct told {
	char why[128];
	bool again;		/* the same as before */
};

/* "PRIORITY,NUMBER,TIME,FLAGS;TEXT", and lines of properties. */
static void show_record(char *record, const char *what, const char *name, struct told *told)
{
	char *text = strchr(record, ';'), *of;

	if (!text || asprintf(&of, ";kvtree: store '%s'", name) < 0)
		return;
	strtok(text, "\n");
	if (!strncmp(text, of, strlen(of))) {
		text += strlen(of);
		/* The log repeats that the teardown waits, and then each user it waits for. */
		if (*text != ':') {
			told->again = !strncmp(told->why, text, sizeof(told->why) - 1);
			snprintf(told->why, sizeof(told->why), "%s", text);
		}
		if (!told->again)
			warn("%s '%s'%s%s", what, name, *text == ':' ? "" : ": it", text);
	}
	free(of);
}

static void show_log(int log, const char *what, const char *name, struct told *told)
{
	char record[RECORD_MAX + 1];
	ssize_t n;

	/* EPIPE: some records were overwritten before they were read. */
	while ((n = read(log, record, RECORD_MAX)) > 0 || (n < 0 && errno == EPIPE)) {
		if (n < 0)
			continue;
		record[n] = '\0';
		show_record(record, what, name, told);
	}
}

/* Watch the log until the call has ended. */
static void teardown_watch(const struct teardown *down, int log, const char *what)
{
	struct pollfd fds[2] = {
		{ .fd = down->ended[0], .events = POLLIN },
		{ .fd = log, .events = POLLIN },
	};
	struct told told = { .again = false };

	while (!fds[0].revents) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents & POLLIN)
			show_log(log, what, down->name, &told);
		else if (fds[1].revents)
			fds[1].fd = -1;
	}
	show_log(log, what, down->name, &told);
}

/**
 * teardown() - destroy or detach a store, and print what it waits for
 * @kv: any session
 * @call: kvtree_store_destroy() or kvtree_store_detach()
 * @what: the command, for messages
 * @name: the store's
 *
 * Return: as @call
 */
int teardown(const struct kvtree *kv, int (*call)(const struct kvtree *kv, const char *name),
	     const char *what, const char *name)
{
	int log = open(KMSG, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct teardown down = { .kv = kv, .name = name, .call = call };
	pthread_t thread;

	if (log < 0)
		return call(kv, name);
	lseek(log, 0, SEEK_END);
	if (pipe2(down.ended, O_CLOEXEC)) {
		close(log);
		return call(kv, name);
	}
	if (pthread_create(&thread, NULL, teardown_call, &down)) {
		teardown_call(&down);
	} else {
		teardown_watch(&down, log, what);
		pthread_join(thread, NULL);
	}
	close(down.ended[0]);
	close(log);
	return down.err;
}
