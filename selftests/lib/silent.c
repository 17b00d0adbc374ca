// SPDX-License-Identifier: GPL-2.0
/*
 * A FUSE file with a server that does not answer reads; see silent.h.
 *
 * The server is a process of its own, which executes the test's program.  A thread would share
 * the test's memory: its read() would wait for the memory's lock, behind a thread that unmaps
 * something, which in turn waits for a fault on the file.  A child that executes nothing would
 * hold what the test maps and has opened.  The test sends it orders through a socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kvt_test.h"
#include "silent.h"

#define SILENT_INO	2
#define SILENT_NAME	"file"
/* What the kernel wants a server to be able to take, and its header. */
#define REQUEST_ROOM	(FUSE_MIN_READ_BUFFER + 4096)

/* In the environment of the server: its descriptors, and the file's length. */
#define SERVER_ENV	"KVT_SILENT_SERVER"

enum state {
	SILENT,
	ANSWERS,
	BROKEN,
};

/* An order of the test: it is echoed once this many requests are unanswered. */
struct order {
	enum state state;
	unsigned int nr;
};

struct request {
	unsigned long long unique;
	unsigned int size;
	bool writes;
};

struct server {
	int fuse;
	int test;		/* orders */
	size_t len;
	enum state state;
	bool ordered;
	struct order order;	/* not echoed yet, if ordered */
	unsigned int nr;	/* reads and writes without an answer */
	struct request requests[KVT_SILENT_PAGES];
};

static void reply(struct server *s, unsigned long long unique, int err, const void *data,
		  size_t len)
{
	struct fuse_out_header head = {
		.len = sizeof(head) + len,
		.error = err,
		.unique = unique,
	};
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)data, len } };
	ssize_t n = writev(s->fuse, iov, len ? 2 : 1);

	/* ENOENT: the request was interrupted; ENODEV: the file is broken. */
	KVT_CHECK(n == head.len || errno == ENOENT || errno == ENODEV);
}

static void reply_init(struct server *s, const struct fuse_in_header *in)
{
	const struct fuse_init_in *init = (const void *)(in + 1);
	/*
	 * Pages are read ahead, one at a time, because such reads do not keep the
	 * thread from being killed.
	 */
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = init->minor < FUSE_KERNEL_MINOR_VERSION ? init->minor :
			 FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = sysconf(_SC_PAGESIZE),
		.flags = FUSE_ASYNC_READ,
		.max_background = KVT_SILENT_PAGES,
		.congestion_threshold = KVT_SILENT_PAGES,
		.max_write = 4096,
	};

	KVT_CHECK(init->major == FUSE_KERNEL_VERSION);
	reply(s, in->unique, 0, &out, sizeof(out));
}

static struct fuse_attr attr_of(const struct server *s, __u64 ino)
{
	return (struct fuse_attr) {
		.ino = ino,
		.size = ino == SILENT_INO ? s->len : 0,
		.mode = ino == SILENT_INO ? S_IFREG | 0600 : S_IFDIR | 0700,
		.nlink = 1,
		.blksize = sysconf(_SC_PAGESIZE),
	};
}

static void reply_lookup(struct server *s, const struct fuse_in_header *in)
{
	struct fuse_entry_out out = {
		.nodeid = SILENT_INO,
		.attr = attr_of(s, SILENT_INO),
		.attr_valid = 1 << 30,
		.entry_valid = 1 << 30,
	};

	if (strcmp((const char *)(in + 1), SILENT_NAME))
		reply(s, in->unique, -ENOENT, NULL, 0);
	else
		reply(s, in->unique, 0, &out, sizeof(out));
}

static void reply_zeros(struct server *s, const struct request *request)
{
	void *zeros = calloc(1, request->size);

	KVT_CHECK(zeros);
	reply(s, request->unique, 0, zeros, request->size);
	free(zeros);
}

/* One that is not left without an answer. */
static void reply_request(struct server *s, const struct request *request)
{
	struct fuse_write_out out = { .size = request->size };

	if (s->state == BROKEN)
		reply(s, request->unique, -EIO, NULL, 0);
	else if (request->writes)
		reply(s, request->unique, 0, &out, sizeof(out));
	else
		reply_zeros(s, request);
}

static void keep_or_reply(struct server *s, const struct fuse_in_header *in)
{
	struct request request = {
		.unique = in->unique,
		.writes = in->opcode == FUSE_WRITE,
	};

	if (request.writes)
		request.size = ((const struct fuse_write_in *)(in + 1))->size;
	else
		request.size = ((const struct fuse_read_in *)(in + 1))->size;
	if (s->state == SILENT) {
		KVT_CHECK(s->nr < KVT_SILENT_PAGES);
		s->requests[s->nr++] = request;
	} else {
		reply_request(s, &request);
	}
}

static void serve(struct server *s, const struct fuse_in_header *in)
{
	struct fuse_attr_out attr = { .attr_valid = 1 << 30, .attr = attr_of(s, in->nodeid) };
	struct fuse_open_out open = {};

	switch (in->opcode) {
	case FUSE_INIT:
		reply_init(s, in);
		break;
	case FUSE_LOOKUP:
		reply_lookup(s, in);
		break;
	case FUSE_GETATTR:
		reply(s, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		reply(s, in->unique, 0, &open, sizeof(open));
		break;
	case FUSE_READ:
	case FUSE_WRITE:
		keep_or_reply(s, in);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		reply(s, in->unique, 0, NULL, 0);
		break;
	default:
		reply(s, in->unique, -EOPNOTSUPP, NULL, 0);
	}
}

static void take_request(struct server *s)
{
	static __u64 request[REQUEST_ROOM / sizeof(__u64)];
	ssize_t n = read(s->fuse, request, sizeof(request));

	/* Unmounted. */
	if (n < 0 && (errno == ENODEV || errno == ECONNABORTED))
		exit(0);
	if (n >= (ssize_t)sizeof(struct fuse_in_header))
		serve(s, (const void *)request);
	else
		/* The request was interrupted, maybe before this read. */
		KVT_CHECK(n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOENT));
}

static void take_order(struct server *s)
{
	ssize_t n = read(s->test, &s->order, sizeof(s->order));

	/* The test has ended. */
	if (!n)
		exit(0);
	KVT_CHECK(n == sizeof(s->order));
	s->ordered = true;
	s->state = s->order.state;
	while (s->state != SILENT && s->nr)
		reply_request(s, &s->requests[--s->nr]);
}

static void tell_test(struct server *s)
{
	if (!s->ordered || s->nr < s->order.nr)
		return;
	s->ordered = false;
	KVT_CHECK(write(s->test, &s->order, sizeof(s->order)) == sizeof(s->order));
}

/* Instead of the program that has been executed for it. */
static void __attribute__((constructor)) server(void)
{
	const char *told = getenv(SERVER_ENV);
	struct pollfd fds[2] = {};
	static struct server s;

	if (!told)
		return;
	KVT_CHECK(sscanf(told, "%d %d %zu", &s.fuse, &s.test, &s.len) == 3);
	KVT_CHECK(prctl(PR_SET_NAME, "silent") == 0);
	fds[0] = (struct pollfd){ .fd = s.fuse, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = s.test, .events = POLLIN };
	for (;;) {
		KVT_CHECK(poll(fds, NR(fds), -1) > 0 || errno == EINTR);
		if (fds[0].revents)
			take_request(&s);
		if (fds[1].revents)
			take_order(&s);
		tell_test(&s);
	}
}

/* Become the server; with nothing of the test's but two descriptors. */
static void exec_server(int fuse, int test, size_t len)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %d %zu", fuse, test, len);
	KVT_CHECK(setenv(SERVER_ENV, text, 1) == 0);
	KVT_CHECK(close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
	KVT_CHECK(fcntl(fuse, F_SETFD, 0) == 0);
	KVT_CHECK(fcntl(test, F_SETFD, 0) == 0);
	execl("/proc/self/exe", "silent", NULL);
	KVT_CHECK(!"executed");
}

static void start_server(struct kvt_silent *s, int fuse)
{
	int ends[2];

	KVT_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	s->server = kvt_child();
	if (!s->server)
		exec_server(fuse, ends[1], s->len);
	s->orders = ends[0];
	close(ends[1]);
}

/* Returns a descriptor, or -1: there is no FUSE. */
static int fuse_open(void)
{
	int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK, fd = open("/dev/fuse", flags);

	if (fd < 0 && system("modprobe -q fuse") == 0)
		fd = open("/dev/fuse", flags);
	return fd;
}

/* Returns a mount that has no place in the file system, so that nothing is left of it. */
static int silent_mount(int fuse)
{
	int fs = fsopen("fuse", FSOPEN_CLOEXEC), mnt;
	char text[16];

	KVT_CHECK(fs >= 0);
	snprintf(text, sizeof(text), "%d", fuse);
	KVT_CHECK(fsconfig(fs, FSCONFIG_SET_STRING, "fd", text, 0) == 0);
	KVT_CHECK(fsconfig(fs, FSCONFIG_SET_STRING, "rootmode", "40000", 0) == 0);
	KVT_CHECK(fsconfig(fs, FSCONFIG_SET_STRING, "user_id", "0", 0) == 0);
	KVT_CHECK(fsconfig(fs, FSCONFIG_SET_STRING, "group_id", "0", 0) == 0);
	KVT_CHECK(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0);
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	KVT_CHECK(mnt >= 0);
	close(fs);
	return mnt;
}

bool kvt_silent_make(struct kvt_silent *s, unsigned int pages)
{
	int fuse, mnt;

	KVT_CHECK(pages <= KVT_SILENT_PAGES);
	memset(s, 0, sizeof(*s));
	s->len = pages * sysconf(_SC_PAGESIZE);
	fuse = fuse_open();
	if (fuse < 0)
		return false;
	mnt = silent_mount(fuse);
	start_server(s, fuse);
	/* Without its server the file is broken. */
	close(fuse);
	s->file = openat(mnt, SILENT_NAME, O_RDWR | O_CLOEXEC);
	KVT_CHECK(s->file >= 0);
	close(mnt);
	s->mem = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->file, 0);
	KVT_CHECK(s->mem != MAP_FAILED);
	return true;
}

static void send_order(struct kvt_silent *s, const struct order *order)
{
	KVT_CHECK(write(s->orders, order, sizeof(*order)) == sizeof(*order));
}

/* The echo may be of an order that the test no longer waits for. */
static bool is_done(struct kvt_silent *s, const struct order *order, int ms)
{
	struct pollfd fd = { .fd = s->orders, .events = POLLIN };
	struct order done;

	do {
		if (!poll(&fd, 1, ms))
			return false;
		KVT_CHECK(read(s->orders, &done, sizeof(done)) == sizeof(done));
	} while (done.state != order->state || done.nr != order->nr);
	return true;
}

/* Returns when the server has taken it, and has this many requests without an answer. */
static void order(struct kvt_silent *s, enum state state, unsigned int nr)
{
	struct order order = { .state = state, .nr = nr };

	send_order(s, &order);
	is_done(s, &order, -1);
}

void kvt_silent_wait(struct kvt_silent *s, unsigned int nr)
{
	order(s, SILENT, nr);
}

char *kvt_silent_write(struct kvt_silent *s, const void *data, size_t len)
{
	const struct order written = { .state = SILENT, .nr = 1 };
	size_t page = sysconf(_SC_PAGESIZE);

	s->shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
	KVT_CHECK(s->shared != MAP_FAILED);
	/*
	 * The kernel may write the page as soon as it is dirty, before it has the rest of the data:
	 * answer that write, and make the page dirty again once all data is there.
	 */
	do {
		order(s, ANSWERS, 0);
		memcpy(s->shared, data, len);
		order(s, SILENT, 0);
		KVT_CHECK(sync_file_range(s->file, 0, page, SYNC_FILE_RANGE_WRITE) == 0);
		send_order(s, &written);
	} while (!is_done(s, &written, 1000));
	return s->shared;
}

void kvt_silent_answer(struct kvt_silent *s)
{
	order(s, ANSWERS, 0);
}

void kvt_silent_break(struct kvt_silent *s)
{
	order(s, BROKEN, 0);
}

void kvt_silent_end(struct kvt_silent *s)
{
	int ret;

	kvt_silent_break(s);
	KVT_CHECK(munmap(s->mem, s->len) == 0);
	KVT_CHECK(!s->shared || munmap(s->shared, sysconf(_SC_PAGESIZE)) == 0);
	close(s->file);
	/* It ends by itself if nobody else has the file. */
	KVT_CHECK(kill(s->server, SIGKILL) == 0);
	ret = kvt_wait(s->server);
	KVT_CHECK(ret == 0 || ret == 128 + SIGKILL);
	close(s->orders);
}
