// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Let the BPF programs with a map read the store, and list the programs that the
 * store calls.
 *
 * Shown in: kvtree_bpf_allow(3), kvtree_bpf_bind(3), kvtree_bpf_unbind(3),
 * kvtree_bpf_unbind_id(3), kvtree_bpf_binding_next(3), kvtree_bpf_hook_next(3)
 *
 * Prints:
 *	...
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What BPF_KVT_STORE() declares, and libbpf makes with the program. */
static int make_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(__u32),
		.value_size = sizeof(__u64),
		.max_entries = 1,
		.map_flags = BPF_F_RDONLY_PROG,
		.map_name = "rules",
	};

	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

int main(void)
{
	struct kvtree_bpf_binding binding = { 0 };
	struct kvtree_bpf_hook hook = { 0 };
	struct kvtree *kv;
	int map, ret;

	ret = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (!ret)
		ret = kvtree_bpf_allow(kv, 1);
	if (ret == -EOPNOTSUPP) {
		puts("this kernel has nothing for BPF programs to call");
		return EXIT_SUCCESS;
	}
	if (ret)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(ret));
	map = make_map();
	if (map < 0)
		err(EXIT_FAILURE, "a map");
	if (kvtree_bpf_bind(kv, map, KVTREE_OPEN_READ))
		errx(EXIT_FAILURE, "cannot bind it");
	while (!kvtree_bpf_binding_next(kv, &binding, sizeof(binding)))
		printf("map %u: %s\n", binding.map_id, binding.name);
	while (!kvtree_bpf_hook_next(kv, &hook, sizeof(hook)))
		printf("hook %u: %s\n", hook.id, hook.name);

	/* No more: programs that have the map get ESTALE from now on. */
	kvtree_bpf_unbind(kv, map);
	/* The owner ends what other users have bound, too. */
	memset(&binding, 0, sizeof(binding));
	while (!kvtree_bpf_binding_next(kv, &binding, sizeof(binding)))
		kvtree_bpf_unbind_id(kv, binding.map_id);
	kvtree_bpf_allow(kv, 0);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
