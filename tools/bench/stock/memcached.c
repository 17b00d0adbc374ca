// SPDX-License-Identifier: GPL-2.0
/*
 * memcached, by its text protocol: one get of many keys, or many sets sent together.  A server
 * listens either on a Unix socket or on TCP, so there are two.  It has no columns, and so no MYCSB.
 */
#include <stdio.h>
#include <string.h>

#include "bench_stock.h"

#define REQUEST_MAX	(64 + KEY_LEN + VALUE_LEN)
#define HEAD_LEN	(sizeof("VALUE ") - 1 + KEY_LEN + sizeof(" 0 64\r\n") - 1)

struct memcached {
	struct conn *conn;
	struct contents contents;
};

static char *put_set(char *p, const struct key *key, const void *value)
{
	p = PUT_TEXT(p, "set ");
	p = put_bytes(p, key->data, KEY_LEN);
	p = PUT_TEXT(p, " 0 0 64\r\n");
	p = put_bytes(p, value, VALUE_LEN);
	return PUT_TEXT(p, "\r\n");
}

static char *put_get(char *p, const struct request *reqs, unsigned int n)
{
	unsigned int i;

	p = PUT_TEXT(p, "get");
	for (i = 0; i < n; i++) {
		*p++ = ' ';
		p = put_bytes(p, plain_keys[reqs[i].key].data, KEY_LEN);
	}
	return PUT_TEXT(p, "\r\n");
}

static void check_value(struct memcached *m, const struct request *r)
{
	char head[HEAD_LEN], *p = head;

	p = PUT_TEXT(p, "VALUE ");
	p = put_bytes(p, plain_keys[r->key].data, KEY_LEN);
	PUT_TEXT(p, " 0 64\r\n");
	conn_expect(m->conn, head, sizeof(head));
	if (!contents_check(&m->contents, r->key, conn_take(m->conn, VALUE_LEN + 2), 0))
		die("memcached: a wrong value for the key of number %u", r->key);
}

static void run_gets(struct memcached *m, const struct request *reqs, unsigned int n)
{
	char *p = conn_room(m->conn, n * REQUEST_MAX);
	unsigned int i;

	m->conn->out_len += put_get(p, reqs, n) - p;
	conn_send(m->conn);
	for (i = 0; i < n; i++)
		check_value(m, &reqs[i]);
	conn_expect(m->conn, "END\r\n", 5);
}

static void run_sets(struct memcached *m, const struct request *reqs, unsigned int n)
{
	unsigned int i;
	char *p;

	for (i = 0; i < n; i++) {
		p = conn_room(m->conn, REQUEST_MAX);
		m->conn->out_len += put_set(p, &plain_keys[reqs[i].key],
					    contents_put(&m->contents, &reqs[i])) - p;
	}
	conn_send(m->conn);
	for (i = 0; i < n; i++)
		conn_expect(m->conn, "STORED\r\n", 8);
}

static void run(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct memcached *m = sys->client;
	unsigned int at;

	for (at = 0; at < n; at += sys->depth) {
		if (reqs[at].kind == GET)
			run_gets(m, &reqs[at], sys->depth);
		else
			run_sets(m, &reqs[at], sys->depth);
	}
}

static void load(struct memcached *m)
{
	uint32_t first, i, end;
	char *p;

	for (first = 0; first < nr_keys; first = end) {
		end = first + DEPTH_MAX < nr_keys ? first + DEPTH_MAX : nr_keys;
		for (i = first; i < end; i++) {
			p = conn_room(m->conn, REQUEST_MAX);
			m->conn->out_len += put_set(p, &plain_keys[i],
						    m->contents.values[i]) - p;
		}
		conn_send(m->conn);
		for (i = first; i < end; i++)
			conn_expect(m->conn, "STORED\r\n", 8);
	}
}

static struct memcached *memcached_new(struct conn *conn)
{
	struct memcached *m = calloc(1, sizeof(*m));

	if (!m)
		die("out of memory");
	m->conn = conn;
	contents_init(&m->contents);
	load(m);
	return m;
}

/* One thread serves one client.  memcached needs an option to run as root. */
static struct memcached *start_unix(void)
{
	struct memcached *m;
	char *path;

	if (asprintf(&path, "%s/memcached", work_dir) < 0)
		die("out of memory");
	server_start("memcached", (char *[]) {
		"memcached", "-u", "root", "-s", path, "-m", "256", "-t", "1", NULL });
	m = memcached_new(conn_unix(path));
	free(path);
	return m;
}

static struct memcached *start_tcp(void)
{
	unsigned int port = server_free_port();
	char text[16];

	snprintf(text, sizeof(text), "%u", port);
	server_start("memcached", (char *[]) {
		"memcached", "-u", "root", "-l", "127.0.0.1", "-p", text, "-U", "0",
		"-m", "256", "-t", "1", NULL });
	return memcached_new(conn_tcp(port));
}

/**
 * memcached_start() - start memcached and load it
 * @s: gets its systems
 */
void memcached_start(struct systems *s)
{
	static const struct system systems[] = {
		{ "memcached unix", 1, ON_PLAIN, 64, run },
		{ "memcached unix, multi 64", 64, ON_PLAIN, 256, run },
		{ "memcached tcp", 1, ON_PLAIN, 64, run },
		{ "memcached tcp, multi 64", 64, ON_PLAIN, 256, run },
	};
	struct memcached *clients[] = { start_unix(), start_tcp() };
	struct system sys;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		sys = systems[i];
		sys.client = clients[i / 2];
		systems_add(s, &sys);
	}
}
