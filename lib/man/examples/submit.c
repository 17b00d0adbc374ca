// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Submit operations that the program laid out itself: a put with the key in the
 * operation, and a get.
 *
 * Shown in: kvtree_submit(3)
 *
 * Prints:
 *	2 executed: 0, 5
 *	Osaka
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	char key[] = "city", val[] = "Osaka", buf[100];
	struct kvtree_op op[2] = {
		{
			.opcode = KVTREE_OP_PUT,
			.flags = KVTREE_F_KEY_INLINE,
			.key_len = 4,
			.val = (uintptr_t)val,
			.val_len = 5,
		}, {
			.opcode = KVTREE_OP_GET,
			.key = (uintptr_t)key,
			.key_len = 4,
			.val = (uintptr_t)buf,
			.val_len = sizeof(buf),
		},
	};
	struct kvtree *kv;
	size_t done;
	int err;

	memcpy(op[0].key_inline, key, 4);
	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_submit(kv, op, 2, &done);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("%zu executed: %d, %d\n", done, op[0].result,
	       op[1].result);
	if (op[1].result >= 0)
		printf("%.*s\n", op[1].result, buf);
	kvtree_del(kv, kvtree_slice(key, 4), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
