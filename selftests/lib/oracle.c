// SPDX-License-Identifier: GPL-2.0
/* Changes of a durable store on a disk that may fail: see oracle.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "kvt_test.h"
#include "oracle.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* The first and the last of the keys are acknowledged one by one, the others together. */
#define MIDDLE	(KVT_ORACLE_KEYS / 2)

int kvt_oracle_attach(struct kvt_oracle *o)
{
	int err = kvt_attach(o->dev, o->name, o->disk, o->nr, 0);

	if (!err) {
		o->fd = kvt_store(o->dev, o->name, RW);
		/* An allocation of this, too, may have been made to fail. */
		if (o->fd < 0)
			o->fd = kvt_store(o->dev, o->name, RW);
		KVT_CHECK(o->fd >= 0);
	}
	return err;
}

int kvt_oracle_detach(struct kvt_oracle *o)
{
	close(o->fd);
	o->fd = -1;
	return kvt_detach(o->dev, o->name);
}

int kvt_oracle_put(struct kvt_oracle *o, __u32 key, __u64 value, int flags)
{
	static char data[3000];

	memcpy(data, &value, sizeof(value));
	return kvt_put_flags(o->fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(data, sizeof(data)),
			     flags);
}

__u64 kvt_oracle_get(struct kvt_oracle *o, __u32 key)
{
	static char data[3000];
	__u64 value;

	if (kvt_get(o->fd, kvt_bytes(&key, sizeof(key)), data, sizeof(data), NULL) !=
	    (int)sizeof(data))
		return 0;
	memcpy(&value, data, sizeof(value));
	return value;
}

/* Keep the first error. */
static int first(int err, int next)
{
	return err ?: next;
}

int kvt_oracle_change_most(struct kvt_oracle *o)
{
	int err, i;

	o->tried = 1;
	err = kvt_oracle_put(o, 0, o->round, KVTREE_F_SYNC);
	if (err)
		return err;
	o->acked = 1;
	for (i = 1; !err && i < KVT_ORACLE_KEYS - 1; i++) {
		o->tried = i + 1;
		err = kvt_oracle_put(o, i, o->round, 0);
		if (i == MIDDLE)
			err = first(err, kvt_checkpoint(o->fd));
	}
	if (!err)
		err = kvt_sync(o->fd);
	if (!err)
		o->acked = KVT_ORACLE_KEYS - 1;
	return err;
}

int kvt_oracle_change_last(struct kvt_oracle *o)
{
	int err;

	o->tried = KVT_ORACLE_KEYS;
	err = kvt_oracle_put(o, KVT_ORACLE_KEYS - 1, o->round, KVTREE_F_SYNC);
	if (!err)
		o->acked = KVT_ORACLE_KEYS;
	return err;
}

int kvt_oracle_change(struct kvt_oracle *o)
{
	return kvt_oracle_change_most(o) ?: kvt_oracle_change_last(o);
}

void kvt_oracle_begin(struct kvt_oracle *o)
{
	int i;

	o->dev = kvt_open();
	KVT_CHECK(o->dev >= 0);
	o->fd = -1;
	snprintf(o->name, sizeof(o->name), "oracle-%d", getpid());
	KVT_CHECK(kvt_format(o->disk, o->nr) == 0);
	KVT_CHECK(kvt_oracle_attach(o) == 0);
	o->round = 1;
	o->before = 1;
	for (i = 0; i < KVT_ORACLE_KEYS; i++)
		KVT_CHECK(kvt_oracle_put(o, i, 1, 0) == 0);
	KVT_CHECK(kvt_oracle_detach(o) == 0);
}

void kvt_oracle_end(struct kvt_oracle *o)
{
	close(o->dev);
}

void kvt_oracle_judge(struct kvt_oracle *o)
{
	int i, has;

	KVT_CHECK(kvt_oracle_attach(o) == 0);
	for (has = 0; has < KVT_ORACLE_KEYS && kvt_oracle_get(o, has) == o->round; has++)
		;
	KVT_CHECK(has >= o->acked && has <= o->tried);
	for (i = has; i < KVT_ORACLE_KEYS; i++)
		KVT_CHECK(kvt_oracle_get(o, i) == o->before);
	KVT_CHECK(kvt_stat(o->fd, KVTREE_STAT_KEYS) == KVT_ORACLE_KEYS);
	KVT_CHECK(kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR) == 0);
	for (i = 0; i < KVT_ORACLE_KEYS; i++)
		KVT_CHECK(kvt_oracle_put(o, i, o->round, 0) == 0);
	/* No round is to begin one that nobody has asked for. */
	KVT_CHECK(kvt_checkpoint(o->fd) == 0);
	KVT_CHECK(kvt_oracle_detach(o) == 0);
	o->before = o->round;
}

void kvt_oracle_run(struct kvt_oracle *o, struct kvt_outcome *out)
{
	*out = (struct kvt_outcome){ 0 };
	o->round++;
	o->acked = 0;
	o->tried = 0;
	out->attached = kvt_oracle_attach(o);
	if (out->attached)
		return;
	out->changed = kvt_oracle_change(o);
	out->error = kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR);
	out->detached = kvt_oracle_detach(o);
}

bool kvt_outcome_told(const struct kvt_outcome *out)
{
	if (out->attached)
		return out->attached == -EIO;
	if (out->changed && out->changed != -EIO && out->changed != -EROFS)
		return false;
	if (out->error)
		return out->error == EIO && out->changed && out->detached == -EIO;
	return out->changed || out->detached;
}
