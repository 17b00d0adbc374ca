// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Give a session to another process, over a Unix socket. That process may use
 * the store through it, whatever its own rights: the child could have dropped its
 * privileges.
 *
 * Shown in: kvtree_fd(3), kvtree_from_fd(3)
 *
 * Prints:
 *	the child got "for my child"
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A message with room for one descriptor, and for the byte it needs. */
struct parcel {
	char byte;
	struct iovec iov;
	struct msghdr msg;
	union {
		struct cmsghdr align;
		char data[CMSG_SPACE(sizeof(int))];
	} control;
};

static struct msghdr *wrap(struct parcel *parcel)
{
	memset(parcel, 0, sizeof(*parcel));
	parcel->iov.iov_base = &parcel->byte;
	parcel->iov.iov_len = 1;
	parcel->msg.msg_iov = &parcel->iov;
	parcel->msg.msg_iovlen = 1;
	parcel->msg.msg_control = &parcel->control;
	parcel->msg.msg_controllen = sizeof(parcel->control);
	return &parcel->msg;
}

static void send_fd(int socket, int fd)
{
	struct parcel parcel;
	struct msghdr *msg = wrap(&parcel);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	if (sendmsg(socket, msg, 0) != 1)
		err(EXIT_FAILURE, "sendmsg");
}

static int receive_fd(int socket)
{
	struct parcel parcel;
	struct msghdr *msg = wrap(&parcel);
	int fd;

	if (recvmsg(socket, msg, MSG_CMSG_CLOEXEC) != 1 ||
	    !CMSG_FIRSTHDR(msg))
		err(EXIT_FAILURE, "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(msg)), sizeof(fd));
	return fd;
}

static void child(int socket)
{
	struct kvtree *kv;
	void *val;
	int error;

	error = kvtree_from_fd(receive_fd(socket), &kv);
	if (!error)
		error = kvtree_get(kv, kvtree_str("note"), &val, NULL,
				   NULL);
	if (error)
		errx(EXIT_FAILURE, "child: %s", kvtree_strerror(error));
	printf("the child got \"%s\"\n", (char *)val);
	free(val);
	kvtree_close(kv);
	exit(EXIT_SUCCESS);
}

int main(void)
{
	int sockets[2], status, error;
	struct kvtree *kv;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		err(EXIT_FAILURE, "socketpair");
	pid = fork();
	if (pid < 0)
		err(EXIT_FAILURE, "fork");
	if (!pid)
		child(sockets[1]);

	error = kvtree_open(NULL, 0, &kv);
	if (!error)
		error = kvtree_put(kv, kvtree_str("note"),
				   kvtree_str("for my child"), 0, NULL);
	if (error)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(error));
	send_fd(sockets[0], kvtree_fd(kv));
	waitpid(pid, &status, 0);
	kvtree_del(kv, kvtree_str("note"), 0, NULL);
	kvtree_close(kv);
	return WEXITSTATUS(status);
}
