// SPDX-License-Identifier: GPL-2.0
/* A FUSE file whose server does not answer reads; see silent.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kvt_test.h"
#include "silent.h"

#define SILENT_INO	2
#define SILENT_NAME	"file"
/* What the kernel wants a server to be able to take, and its header. */
#define REQUEST_ROOM	(FUSE_MIN_READ_BUFFER + 4096)

static void reply(struct kvt_silent *s, unsigned long long unique, int err, const void *data,
		  size_t len)
{
	struct fuse_out_header head = {
		.len = sizeof(head) + len,
		.error = err,
		.unique = unique,
	};
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)data, len } };
	ssize_t n = writev(s->fuse, iov, len ? 2 : 1);

	/* ENOENT: who asked was interrupted; ENODEV: the file is broken. */
	KVT_CHECK(n == head.len || errno == ENOENT || errno == ENODEV);
}

static void reply_init(struct kvt_silent *s, const struct fuse_in_header *in)
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

static struct fuse_attr attr_of(const struct kvt_silent *s, __u64 ino)
{
	return (struct fuse_attr) {
		.ino = ino,
		.size = ino == SILENT_INO ? s->len : 0,
		.mode = ino == SILENT_INO ? S_IFREG | 0600 : S_IFDIR | 0700,
		.nlink = 1,
		.blksize = sysconf(_SC_PAGESIZE),
	};
}

static void reply_lookup(struct kvt_silent *s, const struct fuse_in_header *in)
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

static void reply_zeros(struct kvt_silent *s, const struct kvt_silent_request *request)
{
	void *zeros = calloc(1, request->size);

	KVT_CHECK(zeros);
	reply(s, request->unique, 0, zeros, request->size);
	free(zeros);
}

/* One that is not left without an answer. */
static void reply_request(struct kvt_silent *s, const struct kvt_silent_request *request)
{
	struct fuse_write_out out = { .size = request->size };

	if (s->state == KVT_SILENT_BROKEN)
		reply(s, request->unique, -EIO, NULL, 0);
	else if (request->writes)
		reply(s, request->unique, 0, &out, sizeof(out));
	else
		reply_zeros(s, request);
}

static void take_request(struct kvt_silent *s, const struct fuse_in_header *in)
{
	struct kvt_silent_request request = {
		.unique = in->unique,
		.writes = in->opcode == FUSE_WRITE,
	};

	if (request.writes)
		request.size = ((const struct fuse_write_in *)(in + 1))->size;
	else
		request.size = ((const struct fuse_read_in *)(in + 1))->size;
	pthread_mutex_lock(&s->lock);
	if (s->state == KVT_SILENT_SILENT) {
		KVT_CHECK(s->nr < KVT_SILENT_PAGES);
		s->requests[s->nr++] = request;
		pthread_cond_broadcast(&s->asked);
	} else {
		reply_request(s, &request);
	}
	pthread_mutex_unlock(&s->lock);
}

static void serve(struct kvt_silent *s, const struct fuse_in_header *in)
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
		take_request(s, in);
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

/* It can be canceled where it waits for a request. */
static void *server(void *arg)
{
	static __thread __u64 request[REQUEST_ROOM / sizeof(__u64)];
	struct kvt_silent *s = arg;
	ssize_t n;

	for (;;) {
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		n = read(s->fuse, request, sizeof(request));
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		/* Unmounted, or ended by kvt_silent_break(). */
		if (n < 0 && (errno == ENODEV || errno == ECONNABORTED))
			return NULL;
		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			serve(s, (const void *)request);
		else
			KVT_CHECK(n < 0 && (errno == EINTR || errno == ENOENT));
	}
}

/* Returns a descriptor, or -1: there is no FUSE. */
static int fuse_open(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0 && system("modprobe -q fuse") == 0)
		fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	return fd;
}

/* Returns a mount that has no place in the file system, so that nothing is left of it. */
static int silent_mount(const struct kvt_silent *s)
{
	int fs = fsopen("fuse", FSOPEN_CLOEXEC), mnt;
	char text[16];

	KVT_CHECK(fs >= 0);
	snprintf(text, sizeof(text), "%d", s->fuse);
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
	int mnt;

	KVT_CHECK(pages <= KVT_SILENT_PAGES);
	memset(s, 0, sizeof(*s));
	s->len = pages * sysconf(_SC_PAGESIZE);
	s->fuse = fuse_open();
	if (s->fuse < 0)
		return false;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->asked, NULL);
	mnt = silent_mount(s);
	KVT_CHECK(pthread_create(&s->server, NULL, server, s) == 0);
	s->file = openat(mnt, SILENT_NAME, O_RDWR | O_CLOEXEC);
	KVT_CHECK(s->file >= 0);
	close(mnt);
	s->mem = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->file, 0);
	KVT_CHECK(s->mem != MAP_FAILED);
	return true;
}

void kvt_silent_wait(struct kvt_silent *s, unsigned int nr)
{
	pthread_mutex_lock(&s->lock);
	while (s->nr < nr)
		pthread_cond_wait(&s->asked, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void silent_set(struct kvt_silent *s, enum kvt_silent_state state)
{
	pthread_mutex_lock(&s->lock);
	s->state = state;
	while (state != KVT_SILENT_SILENT && s->nr)
		reply_request(s, &s->requests[--s->nr]);
	pthread_mutex_unlock(&s->lock);
}

char *kvt_silent_write(struct kvt_silent *s, const void *data, size_t len)
{
	size_t page = sysconf(_SC_PAGESIZE);

	silent_set(s, KVT_SILENT_ANSWERS);
	s->shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
	KVT_CHECK(s->shared != MAP_FAILED);
	/* It is read, so that only a write will not be answered, whoever begins it. */
	(void)*(volatile char *)s->shared;
	silent_set(s, KVT_SILENT_SILENT);
	memcpy(s->shared, data, len);
	KVT_CHECK(sync_file_range(s->file, 0, page, SYNC_FILE_RANGE_WRITE) == 0);
	kvt_silent_wait(s, 1);
	return s->shared;
}

void kvt_silent_answer(struct kvt_silent *s)
{
	silent_set(s, KVT_SILENT_ANSWERS);
}

void kvt_silent_break(struct kvt_silent *s)
{
	silent_set(s, KVT_SILENT_BROKEN);
}

void kvt_silent_end(struct kvt_silent *s)
{
	kvt_silent_break(s);
	KVT_CHECK(munmap(s->mem, s->len) == 0);
	KVT_CHECK(!s->shared || munmap(s->shared, sysconf(_SC_PAGESIZE)) == 0);
	close(s->file);
	KVT_CHECK(pthread_cancel(s->server) == 0);
	KVT_CHECK(pthread_join(s->server, NULL) == 0);
	close(s->fuse);
	pthread_cond_destroy(&s->asked);
	pthread_mutex_destroy(&s->lock);
}
