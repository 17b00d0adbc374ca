// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Let BPF programs read the store, and tell by which number, and which it calls.
 *
 * Shown in: kvtree_bpf_allow(3), kvtree_bpf_handle(3), kvtree_bpf_hook_next(3)
 *
 * Prints:
 *	...
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct kvtree_bpf_hook hook = { 0 };
	struct kvtree *kv;
	uint64_t handle;
	int err;

	err = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (!err)
		err = kvtree_bpf_allow(kv, 1);
	if (err == -EOPNOTSUPP) {
		puts("this kernel has nothing for BPF programs to call");
		return EXIT_SUCCESS;
	}
	if (!err)
		err = kvtree_bpf_handle(kv, KVTREE_OPEN_READ, &handle);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("handle %#" PRIx64 "\n", handle);
	while (!kvtree_bpf_hook_next(kv, &hook, sizeof(hook)))
		printf("hook %u: %s\n", hook.id, hook.name);

	/* No more: the handle leads nowhere from now on. */
	kvtree_bpf_allow(kv, 0);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
