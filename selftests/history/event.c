// SPDX-License-Identifier: GPL-2.0
/* Keys, values and operations of a history, and their results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"

static const size_t class_len[VALUE_CLASSES] = { 8, 24, VALUE_MAX };

size_t value_len(__u64 value)
{
	return class_len[value % 4];
}

size_t value_fill(void *buf, __u64 value)
{
	size_t len = value_len(value), at;

	for (at = 0; at < len; at += sizeof(value))
		memcpy((char *)buf + at, &value, sizeof(value));
	return len;
}

__u64 value_read(const void *buf, size_t len)
{
	__u64 value = 0, next;
	size_t at;

	KVT_CHECK(len >= sizeof(value));
	memcpy(&value, buf, sizeof(value));
	KVT_CHECK(value % 4 < VALUE_CLASSES && value_len(value) == len);
	for (at = sizeof(value); at < len; at += sizeof(value)) {
		memcpy(&next, (const char *)buf + at, sizeof(next));
		KVT_CHECK(next == value);
	}
	return value;
}

/*
 * Shapes of keys: neighbours in one leaf; equal suffixes after different slices, each in a
 * layer of its own; one chain of layers that most of the keys share.
 */
size_t key_fill(void *buf, __u32 round, unsigned int key)
{
	char *at = buf;

	at += sprintf(at, "r%06u", round % 1000000);
	*at++ = (char)('0' + round % 3);
	switch (round % 3) {
	case 0:
		*at++ = (char)key;
		break;
	case 1:
		memset(at, 'A' + (char)(key / 2 % 32), 8);
		at += 8;
		*at++ = key % 2 ? 'x' : 'y';
		break;
	default:
		memset(at, 'm', 24);
		at += 24;
		if (key % 4) {
			memcpy(at, "tail-", 5);
			at += 5;
		}
		*at++ = (char)key;
	}
	return (size_t)(at - (char *)buf);
}

int key_number(const void *buf, size_t len, __u32 round)
{
	char key[KEY_ROOM];
	int i;

	for (i = 0; i < ROUND_KEYS; i++)
		if (key_fill(key, round, i) == len && !memcmp(key, buf, len))
			return i;
	return -1;
}

static const __u8 opcode[HISTORY_OPS] = {
	[HISTORY_GET]		= KVTREE_OP_GET,
	[HISTORY_PUT]		= KVTREE_OP_PUT,
	[HISTORY_CREATE]	= KVTREE_OP_PUT,
	[HISTORY_CAS]		= KVTREE_OP_CAS,
	[HISTORY_ADD]		= KVTREE_OP_ADD,
	[HISTORY_REMOVE]	= KVTREE_OP_REMOVE,
	[HISTORY_REMOVE_AT]	= KVTREE_OP_REMOVE,
};

static const __u16 op_flags[HISTORY_OPS] = {
	[HISTORY_CREATE]	= KVTREE_F_CREATE,
	[HISTORY_REMOVE_AT]	= KVTREE_F_VERSION,
};

struct kvtree_op event_op(const struct event *event, struct room *room)
{
	size_t len = key_fill(room->key, event->round, event->key);
	struct kvtree_op op = kvt_op(opcode[event->op], kvt_bytes(room->key, len));

	op.flags |= op_flags[event->op];
	op.version = event->expected;
	switch (event->op) {
	case HISTORY_GET:
		op.val = kvt_ptr(room->val);
		op.val_len = sizeof(room->val);
		break;
	case HISTORY_PUT:
	case HISTORY_CREATE:
	case HISTORY_CAS:
		op.val = kvt_ptr(room->val);
		op.val_len = (__u32)value_fill(room->val, event->given);
		break;
	case HISTORY_ADD:
		op.arg = event->given;
		break;
	}
	return op;
}

void event_done(struct event *event, const struct kvtree_op *op, const struct room *room)
{
	event->result = op->result < 0 ? op->result : 0;
	event->version = op->version;
	if (op->result < 0)
		return;
	if (event->op == HISTORY_GET)
		event->found = value_read(room->val, (size_t)op->result);
	else if (event->op == HISTORY_ADD)
		event->found = op->arg;
}

void scan_round(int fd, __u32 round, bool reverse, struct event *event)
{
	struct kvtree_scan scan = { .prefix_len = 8, .flags = KVTREE_SCAN_PREFIX };
	struct kvt_list list = { 0 };
	char prefix[KEY_ROOM];
	int key;
	size_t i;

	for (key = 0; key < ROUND_KEYS; key++) {
		event[key].op = HISTORY_GET;
		event[key].key = (__u16)key;
		event[key].result = -ENOENT;
	}
	if (reverse)
		scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
	key_fill(prefix, round, 0);
	KVT_CHECK(kvt_scan_all(fd, kvt_bytes(prefix, 8), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i++) {
		key = key_number(list.rec[i].key.data, list.rec[i].key.len, round);
		if (key < 0)
			continue;
		event[key].result = 0;
		event[key].version = list.rec[i].version;
		event[key].found = value_read(list.rec[i].val.data, list.rec[i].val.len);
	}
	kvt_list_free(&list);
}
