// SPDX-License-Identifier: LGPL-2.1-only
/*
 * A scan in a ring, as a struct kvtree_op: up to ten records with keys that begin
 * with "bird/". The buffer holds the records one after the other.
 *
 * Shown in: kvtree_ring_op(3)
 *
 * Prints:
 *	bird/a: auk
 *	bird/b: booby
 *	that is all
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

static void print(const char *buf, uint32_t count)
{
	const struct kvtree_rec *rec;
	const char *key;

	for (; count; count--, buf += rec->rec_len) {
		rec = (const struct kvtree_rec *)buf;
		key = buf + rec->hdr_len;
		printf("%.*s: %.*s\n", rec->key_len, key,
		       (int)rec->val_len, key + rec->key_len);
	}
}

int main(void)
{
	static _Alignas(8) char buf[4096];
	char prefix[] = "bird/";
	struct kvtree_scan scan = {
		.flags = KVTREE_SCAN_PREFIX,
		.prefix_len = 5,
		.limit = 10,
	};
	struct kvtree_op op = {
		.opcode = KVTREE_OP_SCAN,
		.key = (uintptr_t)prefix,
		.key_len = 5,
		.val = (uintptr_t)buf,
		.val_len = sizeof(buf),
		.arg = (uintptr_t)&scan,
		.arg_size = sizeof(scan),
	};
	struct kvtree_event event;
	struct kvtree_ring *ring;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put(kv, kvtree_str("bird/a"),
				 kvtree_str("auk"), 0, NULL);
	if (!err)
		err = kvtree_put(kv, kvtree_str("bird/b"),
				 kvtree_str("booby"), 0, NULL);
	if (!err)
		err = kvtree_ring_open(kv, NULL, &ring);
	if (!err)
		err = kvtree_ring_op(ring, &op, kvtree_as_event(NULL));
	if (!err)
		err = kvtree_ring_wait(ring, &event, 1, 1, -1);
	if (err >= 0)
		err = event.result;
	if (err < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	print(buf, scan.count);
	if (scan.out_flags & KVTREE_SCAN_DONE)
		puts("that is all");
	kvtree_ring_close(ring);
	kvtree_del(kv, kvtree_str("bird/a"), 0, NULL);
	kvtree_del(kv, kvtree_str("bird/b"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
