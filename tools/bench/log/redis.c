// SPDX-License-Identifier: GPL-2.0
/*
 * Redis with an append-only file.  The server reads at most 16 KiB of a connection at once: so
 * there are as many connections as needed for the server to read all puts of a group before it
 * writes its file.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_log.h"

#define PIPELINE	64u
#define CONNS		(DEPTH_MAX / PIPELINE)
#define REQUEST_MAX	(64 + KEY_LEN + VALUE_LEN)

struct client {
	unsigned int server;
	struct conn *conns[CONNS];
};

static void send_set(struct conn *conn, uint32_t nr, uint64_t count)
{
	char *p = conn_room(conn, REQUEST_MAX), *start = p;

	p = PUT_TEXT(p, "*3\r\n$3\r\nSET\r\n$16\r\n");
	key_make(p, nr);
	p = PUT_TEXT(p + KEY_LEN, "\r\n$100\r\n");
	value_make(p, nr, count);
	p = PUT_TEXT(p + VALUE_LEN, "\r\n");
	conn->out_len += p - start;
}

static void send_group(struct system *sys, unsigned int first, uint64_t count)
{
	struct client *c = sys->client;
	unsigned int i, nr = group_size(sys);

	for (i = 0; i < nr; i++)
		send_set(c->conns[(first + i) / PIPELINE], draw_key(&sys->draw), count + i);
	for (i = 0; i < nr; i += PIPELINE)
		conn_send(c->conns[(first + i) / PIPELINE]);
}

static void await_group(struct system *sys, unsigned int first)
{
	struct client *c = sys->client;
	unsigned int i;

	for (i = 0; i < group_size(sys); i++)
		conn_expect(c->conns[(first + i) / PIPELINE], "+OK\r\n", 5);
}

static const struct window redis_window = { .send = send_group, .await = await_group };

static uint64_t run(struct system *sys, double until)
{
	return window_run(&redis_window, sys, until);
}

static void load(struct client *c)
{
	struct conn *conn = c->conns[0];
	uint32_t at, i, nr;

	for (at = 0; at < nr_keys; at += nr) {
		nr = nr_keys - at < PIPELINE ? nr_keys - at : PIPELINE;
		for (i = 0; i < nr; i++)
			send_set(conn, at + i, 0);
		conn_send(conn);
		for (i = 0; i < nr; i++)
			conn_expect(conn, "+OK\r\n", 5);
	}
}

static void stop(struct system *sys)
{
	struct client *c = sys->client;
	unsigned int i;

	for (i = 0; i < CONNS; i++)
		conn_close(c->conns[i]);
	server_stop(c->server);
	free(c);
}

static struct client *start(const char *folder, const char *when)
{
	struct client *c = calloc(1, sizeof(*c));
	char path[128], dir[128], log[160];
	unsigned int i;

	if (!c)
		die("out of memory");
	snprintf(path, sizeof(path), "%s/%s", work_dir, folder);
	snprintf(dir, sizeof(dir), "%s/%s", disk_folder(), folder);
	snprintf(log, sizeof(log), "%s/log", dir);
	unlink(path);
	mkdir(dir, 0700);
	c->server = server_start("redis-server", (char *[]) {
		"redis-server", "--port", "0", "--unixsocket", path, "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", (char *)when,
		"--auto-aof-rewrite-percentage", "0", "--loglevel", "warning",
		"--logfile", log, NULL });
	for (i = 0; i < CONNS; i++)
		c->conns[i] = conn_unix(path);
	load(c);
	return c;
}

static void add(struct systems *s, const char *name, struct client *c)
{
	systems_add_depths(s, &(struct system) {
		.name = name, .run = run, .client = c, .stop = stop });
}

/**
 * redis_start() - add redis-server
 * @s: gets the systems
 */
void redis_start(struct systems *s)
{
	add(s, "redis AOF everysec", start("redis-everysec", "everysec"));
	add(s, "redis AOF always", start("redis-always", "always"));
}
