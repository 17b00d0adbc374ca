// SPDX-License-Identifier: GPL-2.0
/*
 * Network block devices of this machine, served by this process.  Their contents are
 * in memory, and all their writes are recorded in one common order.
 *
 * A flush covers writes that were answered before it.  To detect writers that do not wait
 * for the answers, some writes are delayed until no request has come for a while: they are
 * recorded and answered after the flushes that came meanwhile.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nbd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../lib/kvt_test.h"
#include "crash.h"
#include "disks.h"

#define REQUEST_MAX	((size_t)32 << 20)
/* One of this many writes is kept back, and for how long. */
#define HELD_EVERY	8
#define HELD_MS		1

/* A write that was not answered. */
struct held {
	struct held *next;
	struct nbd_request req;
	char data[];
};

struct disk {
	struct crash_nbd *nbd;
	uint32_t index;
	int fd;			/* of the device */
	int sock[2];		/* the kernel's end, and ours */
	char *data;
	struct held *held;
	uint64_t row;		/* of random numbers */
	pthread_t device;	/* in the ioctl for as long as the device exists */
	pthread_t server;
};

struct crash_nbd {
	uint32_t nr;
	size_t bytes;
	size_t less;		/* from disk to disk */
	struct crash_recorder *recorder;
	struct disk disk[CRASH_DISKS];
};

static bool receive(int fd, void *to, size_t len)
{
	ssize_t n;

	for (; len; to = (char *)to + n, len -= (size_t)n) {
		n = read(fd, to, len);
		if (n <= 0)
			return false;
	}
	return true;
}

static void reply(int fd, const void *data, size_t len)
{
	ssize_t n;

	for (; len; data = (const char *)data + n, len -= (size_t)n) {
		n = write(fd, data, len);
		if (n <= 0)
			crash_die("nbd: no reply could be sent");
	}
}

static uint32_t type_of(const struct nbd_request *req)
{
	return be32toh(req->type) & 0xffff;
}

/* Record it first: acknowledged writes come before it in the record. */
static void execute(struct disk *disk, const struct nbd_request *req, const char *buf)
{
	uint64_t from = be64toh(req->from);
	uint32_t len = be32toh(req->len), type = type_of(req);
	struct nbd_reply answer = { .magic = htobe32(NBD_REPLY_MAGIC) };
	struct crash_entry entry = {
		.disk = disk->index,
		.sector = from / CRASH_SECTOR,
		.sectors = len / CRASH_SECTOR,
		.data = buf,
	};

	memcpy(&answer.cookie, &req->cookie, sizeof(answer.cookie));
	if (type == NBD_CMD_WRITE) {
		entry.type = CRASH_WRITE;
		memcpy(disk->data + from, buf, len);
	} else if (type == NBD_CMD_TRIM) {
		entry.type = CRASH_DISCARD;
		memset(disk->data + from, 0, len);
	} else if (type == NBD_CMD_FLUSH) {
		entry.type = CRASH_FLUSH;
		entry.sector = 0;
		entry.sectors = 0;
	}
	if (type != NBD_CMD_READ)
		crash_recorder_add(disk->nbd->recorder, &entry);
	reply(disk->sock[1], &answer, sizeof(answer));
	if (type == NBD_CMD_READ)
		reply(disk->sock[1], disk->data + from, len);
}

static void hold(struct disk *disk, const struct nbd_request *req, const char *data)
{
	uint32_t len = be32toh(req->len);
	struct held *held = malloc(sizeof(*held) + len);

	KVT_CHECK(held);
	held->req = *req;
	memcpy(held->data, data, len);
	held->next = disk->held;
	disk->held = held;
}

/* The last one first. */
static void release(struct disk *disk)
{
	struct held *held;

	while ((held = disk->held)) {
		disk->held = held->next;
		execute(disk, &held->req, held->data);
		free(held);
	}
}

static void serve(struct disk *disk, const struct nbd_request *req, char *buf)
{
	uint32_t len = be32toh(req->len), type = type_of(req);

	if (len > REQUEST_MAX && type != NBD_CMD_TRIM)
		crash_die("nbd: a request of %u bytes", len);
	if (type == NBD_CMD_WRITE && !receive(disk->sock[1], buf, len))
		crash_die("nbd: a write without data");
	disk->row = crash_mix(disk->row);
	if (type == NBD_CMD_WRITE && !(disk->row >> 32 & (HELD_EVERY - 1)))
		hold(disk, req, buf);
	else
		execute(disk, req, buf);
}

/* Wait for a request, but not for long while writes are held. */
static bool next_request(struct disk *disk, struct nbd_request *req)
{
	struct pollfd fd = { .fd = disk->sock[1], .events = POLLIN };

	while (disk->held && poll(&fd, 1, HELD_MS) <= 0)
		release(disk);
	return receive(disk->sock[1], req, sizeof(*req)) && type_of(req) != NBD_CMD_DISC;
}

static void *server_run(void *arg)
{
	struct disk *disk = arg;
	char *buf = malloc(REQUEST_MAX);
	struct nbd_request req;
	struct held *held;

	while (next_request(disk, &req))
		serve(disk, &req, buf);
	/* Whom it was to be answered to has gone. */
	while ((held = disk->held)) {
		disk->held = held->next;
		free(held);
	}
	free(buf);
	return NULL;
}

static void *device_run(void *arg)
{
	struct disk *disk = arg;

	ioctl(disk->fd, NBD_DO_IT);
	return NULL;
}

void crash_nbd_path(uint32_t i, char *path, size_t len)
{
	snprintf(path, len, "/dev/nbd%u", i);
}

static size_t disk_bytes(const struct disk *disk)
{
	return disk->nbd->bytes - disk->index * disk->nbd->less;
}

static bool has_size(void *arg)
{
	struct disk *disk = arg;
	char path[64], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/block/nbd%u/size", disk->index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strtoull(text, NULL, 10) == disk_bytes(disk) / CRASH_SECTOR;
}

static void disk_begin(struct disk *disk, const struct crash_image *base)
{
	size_t bytes = disk_bytes(disk), at;
	char path[32];

	crash_nbd_path(disk->index, path, sizeof(path));
	disk->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	KVT_CHECK(disk->data != MAP_FAILED);
	for (at = 0; base && at < bytes; at += 4096)
		if (base->written[disk->index][at / 4096])
			memcpy(disk->data + at, base->disk[disk->index] + at, 4096);
	KVT_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, disk->sock));
	disk->fd = open(path, O_RDWR | O_CLOEXEC);
	if (disk->fd < 0)
		crash_die("%s: %m", path);
	if (ioctl(disk->fd, NBD_SET_BLKSIZE, (unsigned long)CRASH_SECTOR) ||
	    ioctl(disk->fd, NBD_SET_SIZE_BLOCKS, bytes / CRASH_SECTOR) ||
	    ioctl(disk->fd, NBD_CLEAR_SOCK) ||
	    ioctl(disk->fd, NBD_SET_SOCK, disk->sock[0]) ||
	    ioctl(disk->fd, NBD_SET_FLAGS, (unsigned long)(NBD_FLAG_HAS_FLAGS |
		  NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_TRIM)))
		crash_die("%s: %m", path);
	KVT_CHECK(!pthread_create(&disk->server, NULL, server_run, disk));
	KVT_CHECK(!pthread_create(&disk->device, NULL, device_run, disk));
	KVT_CHECK(kvt_eventually(has_size, disk));
}

struct crash_nbd *crash_nbd_begin(uint32_t nr, size_t bytes, size_t less,
				  const struct crash_image *base, struct crash_recorder *recorder)
{
	struct crash_nbd *nbd = calloc(1, sizeof(*nbd));
	uint32_t i;

	if (access("/sys/module/nbd", F_OK) && system("modprobe nbd"))
		crash_die("there is no nbd");
	nbd->nr = nr;
	nbd->bytes = bytes;
	nbd->less = less;
	nbd->recorder = recorder;
	for (i = 0; i < nr; i++) {
		nbd->disk[i].nbd = nbd;
		nbd->disk[i].index = i;
		nbd->disk[i].row = i;
		disk_begin(&nbd->disk[i], base);
	}
	return nbd;
}

void crash_nbd_end(struct crash_nbd *nbd)
{
	uint32_t i;

	for (i = 0; i < nbd->nr; i++) {
		struct disk *disk = &nbd->disk[i];

		ioctl(disk->fd, NBD_DISCONNECT);
		shutdown(disk->sock[1], SHUT_RDWR);
		pthread_join(disk->server, NULL);
		pthread_join(disk->device, NULL);
		ioctl(disk->fd, NBD_CLEAR_SOCK);
		close(disk->fd);
		close(disk->sock[0]);
		close(disk->sock[1]);
		munmap(disk->data, disk_bytes(disk));
	}
	free(nbd);
}
