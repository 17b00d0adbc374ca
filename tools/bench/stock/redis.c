// SPDX-License-Identifier: GPL-2.0
/*
 * A redis-server that keeps everything in memory.  Plain values are strings.  MYCSB's values are
 * hashes with a field for each column; HVALS, which returns all values of a hash, is the cheapest
 * command to read them: in the order in which the fields were created.
 */
#include <stdio.h>
#include <string.h>

#include "bench_stock.h"

/* The longest request: a put of a value. */
#define REQUEST_MAX	(64 + KEY_MAX + VALUE_LEN)

#define FIELD_REPLY	"$4\r\n"
#define FIELD_REPLY_LEN	(sizeof(FIELD_REPLY) - 1)

struct redis {
	struct conn *conns[2];		/* for the databases of the plain keys and of MYCSB */
	struct contents *contents;	/* of the server */
};

/* "$LENGTH\r\nKEY\r\n" */
static char *put_key(char *p, const struct key *key)
{
	*p++ = '$';
	if (key->len >= 10)
		*p++ = '0' + key->len / 10;
	*p++ = '0' + key->len % 10;
	p = PUT_TEXT(p, "\r\n");
	p = put_bytes(p, key->data, key->len);
	return PUT_TEXT(p, "\r\n");
}

static char *put_set(char *p, const struct key *key, const void *value)
{
	p = PUT_TEXT(p, "*3\r\n$3\r\nSET\r\n");
	p = put_key(p, key);
	p = PUT_TEXT(p, "$64\r\n");
	p = put_bytes(p, value, VALUE_LEN);
	return PUT_TEXT(p, "\r\n");
}

static char *put_request(char *p, struct contents *c, const struct request *r)
{
	const struct key *key = request_key(r);

	switch (r->kind) {
	case GET:
		p = PUT_TEXT(p, "*2\r\n$3\r\nGET\r\n");
		return put_key(p, key);
	case PUT:
		return put_set(p, key, contents_put(c, r));
	case GET_COLS:
		p = PUT_TEXT(p, "*2\r\n$5\r\nHVALS\r\n");
		return put_key(p, key);
	default:
		p = PUT_TEXT(p, "*4\r\n$4\r\nHSET\r\n");
		p = put_key(p, key);
		p = PUT_TEXT(p, "$1\r\n");
		*p++ = '0' + r->col;
		p = PUT_TEXT(p, "\r\n$4\r\n");
		p = put_bytes(p, contents_put(c, r), COL_LEN);
		return PUT_TEXT(p, "\r\n");
	}
}

static bool cols_right(struct redis *redis, uint32_t key, unsigned int slack)
{
	const char *reply;
	unsigned int col;

	for (col = 0; col < COLS; col++) {
		reply = conn_take(redis->conns[1], FIELD_REPLY_LEN + COL_LEN + 2);
		if (memcmp(reply, FIELD_REPLY, FIELD_REPLY_LEN) ||
		    !contents_check_col(redis->contents, key, col, reply + FIELD_REPLY_LEN,
					slack))
			return false;
	}
	return true;
}

static void check_reply(struct redis *redis, const struct request *r, unsigned int depth)
{
	struct conn *conn = redis->conns[is_cols(r)];
	bool right = true;

	switch (r->kind) {
	case GET:
		conn_expect(conn, "$64\r\n", 5);
		right = contents_check(redis->contents, r->key, conn_take(conn, VALUE_LEN + 2),
				       depth - 1);
		break;
	case PUT:
		conn_expect(conn, "+OK\r\n", 5);
		break;
	case GET_COLS:
		conn_expect(conn, "*10\r\n", 5);
		right = cols_right(redis, r->key, depth - 1);
		break;
	default:
		conn_expect(conn, ":0\r\n", 4);
		break;
	}
	if (!right)
		die("redis: a wrong value for the key of number %u", r->key);
}

static void run(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct redis *redis = sys->client;
	struct conn *conn = redis->conns[is_cols(reqs)];
	unsigned int at, i;
	char *p;

	for (at = 0; at < n; at += sys->depth) {
		for (i = 0; i < sys->depth; i++) {
			p = conn_room(conn, REQUEST_MAX);
			conn->out_len += put_request(p, redis->contents, &reqs[at + i]) - p;
		}
		conn_send(conn);
		for (i = 0; i < sys->depth; i++)
			check_reply(redis, &reqs[at + i], sys->depth);
	}
}

/* "HSET KEY 0 COLUMN 1 COLUMN ..." */
static char *put_hash(char *p, const struct contents *c, uint32_t key)
{
	unsigned int col;

	p = PUT_TEXT(p, "*22\r\n$4\r\nHSET\r\n");
	p = put_key(p, &col_keys[key]);
	for (col = 0; col < COLS; col++) {
		p = PUT_TEXT(p, "$1\r\n");
		*p++ = '0' + col;
		p = PUT_TEXT(p, "\r\n$4\r\n");
		p = put_bytes(p, &c->cols[key][col], COL_LEN);
		p = PUT_TEXT(p, "\r\n");
	}
	return p;
}

/* Send the requests for keys from `first` on, and wait for the answers. */
static void load_window(struct redis *redis, uint32_t first, uint32_t end)
{
	uint32_t i;

	conn_send(redis->conns[0]);
	conn_send(redis->conns[1]);
	for (i = first; i < end; i++) {
		conn_expect(redis->conns[0], "+OK\r\n", 5);
		conn_expect(redis->conns[1], ":10\r\n", 5);
	}
}

static void load(struct redis *redis)
{
	const struct contents *c = redis->contents;
	struct conn **conns = redis->conns;
	uint32_t first, i, end;
	char *p;

	for (first = 0; first < nr_keys; first = end) {
		end = first + DEPTH_MAX < nr_keys ? first + DEPTH_MAX : nr_keys;
		for (i = first; i < end; i++) {
			p = conn_room(conns[0], REQUEST_MAX);
			conns[0]->out_len += put_set(p, &plain_keys[i], c->values[i]) - p;
			p = conn_room(conns[1], REQUEST_MAX + COLS * 32);
			conns[1]->out_len += put_hash(p, c, i) - p;
		}
		load_window(redis, first, end);
	}
}

/* Switch to the second database. */
static struct conn *select_second(struct conn *conn)
{
	char *p = conn_room(conn, REQUEST_MAX);

	conn->out_len += PUT_TEXT(p, "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n") - p;
	conn_send(conn);
	conn_expect(conn, "+OK\r\n", 5);
	return conn;
}

/* Returns the port; sets *path to the Unix socket. */
static unsigned int start_server(char **path)
{
	unsigned int port = server_free_port();
	char port_text[16];

	snprintf(port_text, sizeof(port_text), "%u", port);
	if (asprintf(path, "%s/redis", work_dir) < 0)
		die("out of memory");
	server_start("redis-server", (char *[]) {
		"redis-server", "--bind", "127.0.0.1", "--port", port_text,
		"--unixsocket", *path, "--dir", work_dir,
		"--save", "", "--appendonly", "no", "--loglevel", "warning", NULL });
	return port;
}

/**
 * redis_start() - start a redis-server and load it
 * @s: gets its systems
 */
void redis_start(struct systems *s)
{
	static const struct system systems[] = {
		{ "redis unix", 1, ON_PLAIN | ON_MYCSB, 64, run },
		{ "redis unix, -P 64", 64, ON_PLAIN | ON_MYCSB, 256, run },
		{ "redis tcp", 1, ON_PLAIN, 64, run },
		{ "redis tcp, -P 64", 64, ON_PLAIN, 256, run },
	};
	struct contents *contents = calloc(1, sizeof(*contents));
	struct redis *clients = calloc(2, sizeof(*clients));
	struct system sys;
	unsigned int port, i;
	char *path;

	if (!contents || !clients)
		die("out of memory");
	contents_init(contents);
	port = start_server(&path);
	clients[0] = (struct redis) {
		{ conn_unix(path), select_second(conn_unix(path)) }, contents };
	clients[1] = (struct redis) { { conn_tcp(port) }, contents };
	free(path);
	load(&clients[0]);
	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		sys = systems[i];
		sys.client = &clients[i / 2];
		systems_add(s, &sys);
	}
}
