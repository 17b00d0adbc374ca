// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Print features of the library, the kernel module and the kernel.
 *
 * Shown in: kvtree_info(3), kvtree_version(3)
 *
 * Prints:
 *	libkvtree ..., kernel module ...
 *	keys of up to 4096 bytes, values of up to 1048576
 *	scans: yes
 *	io_uring: ...
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct kvtree_info info;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (!err)
		err = kvtree_info(kv, &info, sizeof(info));
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("libkvtree %s, kernel module %s\n", kvtree_version(),
	       info.version);
	printf("keys of up to %u bytes, values of up to %u\n",
	       info.key_max, info.value_max);
	printf("scans: %s\n",
	       info.ops & (1ull << KVTREE_OP_SCAN) ? "yes" : "no");
	printf("io_uring: %s\n",
	       info.features & KVTREE_FEAT_URING ? "yes" : "no");
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
