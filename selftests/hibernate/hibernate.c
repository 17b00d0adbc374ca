// SPDX-License-Identifier: GPL-2.0
/*
 * A durable store on a machine that hibernates and is resumed.
 *
 *	hibernate DEVICE
 *
 * Attaches a formatted device.  Threads write, another one makes checkpoints, and the machine
 * hibernates meanwhile.  The resumed kernel continues the same process, which checks that no
 * acknowledged write is lost, immediately and after attaching the store again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define WRITERS		3
#define KEYS		500	/* of each writer */
#define SOME		200	/* writes of each: before the machine hibernates, and after */
#define LEN		600	/* bytes of a value */
#define LONGEST		300	/* seconds for any to come further where it is emulated */

struct writer {
	pthread_t thread;
	int fd;
	__u32 id;		/* in keys and values */
	atomic_uint durable;	/* writes that were reported so */
};

static atomic_bool ends;
static atomic_uint checkpoints;
static int fd = -1;

/* A value that says which write it is of, all over. */
static void make_value(__u32 *value, __u32 id, __u32 nr)
{
	__u32 i;

	for (i = 0; i < LEN / sizeof(*value); i++)
		value[i] = nr ^ id << 24 ^ i * 0x9e3779b9;
}

static struct kvt_bytes make_key(char *key, size_t size, __u32 id, __u32 nr)
{
	return kvt_bytes(key, (size_t)snprintf(key, size, "writer %u key %u", id, nr % KEYS));
}

static void *write_on(void *arg)
{
	__u32 value[LEN / 4], nr;
	struct writer *w = arg;
	char key[32];

	for (nr = 0; !ends; nr++) {
		make_value(value, w->id, nr);
		KVT_CHECK(kvt_put_flags(w->fd, make_key(key, sizeof(key), w->id, nr),
					kvt_bytes(value, sizeof(value)), KVTREE_F_SYNC) == 0);
		w->durable = nr + 1;
	}
	return NULL;
}

static void *make_checkpoints(void *arg)
{
	(void)arg;
	while (!ends) {
		KVT_CHECK(kvt_checkpoint(fd) == 0);
		checkpoints++;
	}
	return NULL;
}

/* Every key has the last write of it that is durable; the writers have ended. */
static void check_all(const struct writer *w)
{
	__u32 value[LEN / 4], read[LEN / 4], nr, from;
	char key[32];

	from = w->durable > KEYS ? w->durable - KEYS : 0;
	for (nr = from; nr < w->durable; nr++) {
		make_value(value, w->id, nr);
		KVT_CHECK(kvt_get(fd, make_key(key, sizeof(key), w->id, nr), read, sizeof(read),
				  NULL) == sizeof(read));
		KVT_CHECK(!memcmp(value, read, sizeof(read)));
	}
}

static void hibernate(void)
{
	int power = open("/sys/power/state", O_WRONLY | O_CLOEXEC), tries = 10, slept;

	KVT_CHECK(power >= 0);
	/*
	 * The machine goes off in the middle of this, and is another when it returns.  The kernel
	 * gives up when something does not freeze within 20 seconds.
	 */
	do {
		slept = write(power, "disk", 4);
		if (slept < 0)
			printf("hibernate: not asleep: %s\n", strerror(errno));
	} while (slept < 0 && errno == EBUSY && --tries);
	KVT_CHECK(slept == 4);
	close(power);
}

/* The alarm ends the program if there is no progress. */
static void look_again(__u32 now, __u32 *last)
{
	if (now != *last)
		alarm(LONGEST);
	*last = now;
	kvt_sleep_ms(10);
}

/* Until all have come further. */
static void wait_for(const struct writer *writers, __u32 writes, __u32 saves)
{
	__u32 from[WRITERS], first = checkpoints, last, i;

	for (i = 0; i < WRITERS; i++)
		from[i] = writers[i].durable;
	for (i = 0; i < WRITERS; i++) {
		alarm(LONGEST);
		last = from[i];
		while (writers[i].durable - from[i] < writes)
			look_again(writers[i].durable, &last);
	}
	alarm(LONGEST);
	last = first;
	while (checkpoints - first < saves)
		look_again(checkpoints, &last);
	alarm(0);
}

int main(int argc, char **argv)
{
	struct writer writers[WRITERS] = {};
	struct kvt_disk disk = { .fd = -1 };
	pthread_t saver;
	__u64 digest;
	int dev, i;

	KVT_CHECK(argc == 2);
	setbuf(stdout, NULL);
	snprintf(disk.path, sizeof(disk.path), "%s", argv[1]);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	KVT_CHECK(kvt_format(&disk, 1) == 0);
	KVT_CHECK(kvt_attach_open(dev, "hibernate", &disk, 1, NULL, &fd) == 0);
	for (i = 0; i < WRITERS; i++) {
		writers[i].id = (__u32)i + 1;
		writers[i].fd = kvt_store(dev, "hibernate", RW);
		KVT_CHECK(writers[i].fd >= 0);
		KVT_CHECK(!pthread_create(&writers[i].thread, NULL, write_on, &writers[i]));
	}
	KVT_CHECK(!pthread_create(&saver, NULL, make_checkpoints, NULL));
	wait_for(writers, SOME, 2);
	printf("hibernate: going to sleep\n");
	hibernate();
	printf("hibernate: awake\n");
	wait_for(writers, SOME, 2);
	ends = true;
	for (i = 0; i < WRITERS; i++)
		KVT_CHECK(!pthread_join(writers[i].thread, NULL));
	KVT_CHECK(!pthread_join(saver, NULL));
	for (i = 0; i < WRITERS; i++) {
		check_all(&writers[i]);
		close(writers[i].fd);
	}
	KVT_CHECK(kvt_stat(fd, KVTREE_STAT_LOG_LIVE_BYTES) == kvt_recount("hibernate"));
	digest = kvt_digest(fd);
	KVT_CHECK(kvt_close_detach(dev, "hibernate", &fd) == 0);
	KVT_CHECK(kvt_check_disks(&disk, 1) == 0);
	KVT_CHECK(kvt_attach_open(dev, "hibernate", &disk, 1, NULL, &fd) == 0);
	for (i = 0; i < WRITERS; i++)
		check_all(&writers[i]);
	KVT_CHECK(kvt_digest(fd) == digest);
	KVT_CHECK(kvt_close_detach(dev, "hibernate", &fd) == 0);
	printf("hibernate: nothing is lost\n");
	return 0;
}
