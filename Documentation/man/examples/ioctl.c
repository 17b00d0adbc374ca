// SPDX-License-Identifier: GPL-2.0
/*
 * Store a value, look it up and remove it in one system call.
 *
 * Shown in: kvtree(4)
 *
 * Prints:
 *	3 executed, got "world"
 */
#include <err.h>
#include <fcntl.h>
#include <linux/kvtree.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

int main(void)
{
	char key[] = "hello", val[] = "world", buf[64];
	struct kvtree_op op[3] = {
		{
			/* A short key fits into its operation. */
			.opcode = KVTREE_OP_PUT,
			.flags = KVTREE_F_KEY_INLINE,
			.key_len = 5,
			.val = (uintptr_t)val,
			.val_len = 5,
		}, {
			.opcode = KVTREE_OP_GET,
			.key = (uintptr_t)key,
			.key_len = 5,
			.val = (uintptr_t)buf,
			.val_len = sizeof(buf),
		}, {
			.opcode = KVTREE_OP_REMOVE,
			.key = (uintptr_t)key,
			.key_len = 5,
		},
	};
	struct kvtree_batch batch = {
		.ops = (uintptr_t)op,
		.nr = 3,
		.op_size = sizeof(op[0]),
	};
	int fd = open("/dev/kvtree", O_RDWR | O_CLOEXEC);

	memcpy(op[0].key_inline, key, 5);
	if (fd < 0 || ioctl(fd, KVTREE_IOC_BATCH, &batch))
		err(EXIT_FAILURE, "/dev/kvtree");
	if (op[1].result < 0)
		errx(EXIT_FAILURE, "get: %s", strerror(-op[1].result));
	printf("%u executed, got \"%.*s\"\n", batch.done, op[1].result,
	       buf);
	return EXIT_SUCCESS;
}
