// SPDX-License-Identifier: GPL-2.0
/*
 * A connection to a server.  One system call sends several requests, and one reads
 * as much of the answers as has arrived.  It uses no client library, because the
 * library's time would count as the server's.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"

#define BUFFER	(128u << 10)	/* more than any group of requests sent together */

static struct conn *conn_new(int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		die("out of memory");
	c->fd = fd;
	c->out = malloc(BUFFER);
	c->in = malloc(BUFFER);
	if (!c->out || !c->in)
		die("out of memory");
	return c;
}

/* The server may need some time to start. */
static struct conn *conn_to(int family, const void *addr, socklen_t len, const char *what)
{
	unsigned int tries;
	int fd;

	for (tries = 0; tries < 500; tries++) {
		fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			die("socket: %s", strerror(errno));
		if (!connect(fd, addr, len))
			return conn_new(fd);
		close(fd);
		usleep(20000);
	}
	die("cannot connect to %s: %s", what, strerror(errno));
}

/**
 * conn_unix() - connect to a Unix socket
 * @path: its path
 *
 * Return: the connection
 */
struct conn *conn_unix(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		die("%s: too long for a socket's path", path);
	strcpy(addr.sun_path, path);
	return conn_to(AF_UNIX, &addr, sizeof(addr), path);
}

/**
 * conn_tcp() - connect to a port of this machine
 * @port: the port
 *
 * Return: the connection
 */
struct conn *conn_tcp(unsigned int port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct conn *c = conn_to(AF_INET, &addr, sizeof(addr), "the loopback interface");
	int one = 1;

	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return c;
}

/**
 * conn_close() - close and free a connection
 * @c: the connection
 */
void conn_close(struct conn *c)
{
	close(c->fd);
	free(c->out);
	free(c->in);
	free(c);
}

/**
 * conn_room() - get room for the next request
 * @c: the connection
 * @len: maximum bytes needed
 *
 * The caller adds the request's length to @c->out_len.
 *
 * Return: where to write it
 */
char *conn_room(struct conn *c, size_t len)
{
	if (c->out_len + len > BUFFER)
		die("too many requests to be sent together");
	return c->out + c->out_len;
}

/**
 * conn_send() - send all requests
 * @c: the connection
 */
void conn_send(struct conn *c)
{
	size_t at = 0;
	ssize_t n;

	while (at < c->out_len) {
		n = write(c->fd, c->out + at, c->out_len - at);
		if (n < 0 && errno != EINTR)
			die("sending to the server: %s", strerror(errno));
		if (n > 0)
			at += n;
	}
	c->out_len = 0;
}

static void conn_read(struct conn *c)
{
	ssize_t n;

	do {
		n = read(c->fd, c->in + c->in_len, BUFFER - c->in_len);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		die("reading from the server: %s", strerror(errno));
	if (!n)
		die("the server has closed the connection");
	c->in_len += n;
}

/* Move the remaining bytes to the front. */
static void conn_compact(struct conn *c)
{
	c->in_len -= c->in_at;
	memmove(c->in, c->in + c->in_at, c->in_len);
	c->in_at = 0;
}

/**
 * conn_take() - wait for bytes and take them
 * @c: the connection
 * @len: how many
 *
 * Return: the bytes, valid until the next call
 */
const char *conn_take(struct conn *c, size_t len)
{
	const char *p;

	if (c->in_at + len > BUFFER || c->in_at == c->in_len)
		conn_compact(c);
	while (c->in_len - c->in_at < len)
		conn_read(c);
	p = c->in + c->in_at;
	c->in_at += len;
	return p;
}

/**
 * conn_expect() - take an answer, and exit if it differs
 * @c: the connection
 * @text: the expected answer
 * @len: bytes at @text
 *
 * An error may be shorter than @text, so this compares as soon as anything arrives.
 */
void conn_expect(struct conn *c, const char *text, size_t len)
{
	size_t have;

	if (c->in_at == c->in_len) {
		conn_compact(c);
		conn_read(c);
	}
	have = c->in_len - c->in_at;
	if (memcmp(c->in + c->in_at, text, have < len ? have : len))
		die("the server answered \"%.*s\"", (int)have, c->in + c->in_at);
	if (memcmp(conn_take(c, len), text, len))
		die("the server answered something else than \"%.*s\"", (int)len, text);
}
