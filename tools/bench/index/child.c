// SPDX-License-Identifier: GPL-2.0
/* See child.h. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

static void serve(int from, int to)
{
	struct request r;
	struct answer a;

	while (read(from, &r, sizeof(r)) == sizeof(r)) {
		a = phase_run(&r);
		if (write(to, &a, sizeof(a)) != sizeof(a))
			return;
	}
}

int child_start(struct child *c, unsigned int threads)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		return -1;
	c->pid = fork();
	if (c->pid < 0)
		return -1;
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(there[1]);
		close(back[0]);
		phase_init(c->subject, &c->config, threads);
		serve(there[0], back[1]);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	c->to = there[1];
	c->from = back[0];
	return 0;
}

bool child_ask(const struct child *c, const struct request *r, struct answer *a)
{
	return write(c->to, r, sizeof(*r)) == sizeof(*r) &&
	       read(c->from, a, sizeof(*a)) == sizeof(*a);
}

void child_stop(struct child *c)
{
	close(c->to);
	close(c->from);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}
