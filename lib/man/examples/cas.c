// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Compute a new value from the old one, without a lock: read, compute, and store if
 * the value has not changed meanwhile. Two processes do it 1000 times each, and no
 * change is lost.
 *
 * Shown in: kvtree_cas(3), kvtree_slice(3)
 *
 * Prints:
 *	2000
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int take_ticket(const struct kvtree *kv, int *ticket)
{
	uint64_t version;
	char buf[32];
	size_t len;
	int err, n;

	do {
		version = 0;	/* a key that does not exist */
		len = 0;
		err = kvtree_get_into(kv, kvtree_str("ticket"), buf,
				      sizeof(buf) - 1, &len, &version);
		if (err && err != -ENOENT)
			return err;
		buf[len] = '\0';
		*ticket = atoi(buf) + 1;
		n = snprintf(buf, sizeof(buf), "%d", *ticket);
		err = kvtree_cas(kv, kvtree_str("ticket"),
				 kvtree_slice(buf, n), 0, &version);
	} while (err == -ECANCELED);
	return err;
}

int main(void)
{
	int err, i, status = 0, ticket = 0;
	struct kvtree *kv;
	pid_t pid;

	err = kvtree_open(NULL, 0, &kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	pid = fork();	/* both processes may use the session */
	for (i = 0; i < 1000 && !err; i++)
		err = take_ticket(kv, &ticket);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	if (!pid)
		return EXIT_SUCCESS;
	waitpid(pid, &status, 0);
	err = take_ticket(kv, &ticket);
	if (err || status)
		return EXIT_FAILURE;
	printf("%d\n", ticket - 1);
	kvtree_del(kv, kvtree_str("ticket"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
