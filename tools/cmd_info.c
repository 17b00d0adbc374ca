// SPDX-License-Identifier: GPL-2.0
/*
 * info: show the module's version and limits, and the store.
 */
#include <inttypes.h>

#include "tool.h"

static const char * const op_names[] = {
	[KVTREE_OP_NOP] = "nop",
	[KVTREE_OP_GET] = "get",
	[KVTREE_OP_PUT] = "put",
	[KVTREE_OP_CAS] = "cas",
	[KVTREE_OP_REMOVE] = "remove",
	[KVTREE_OP_ADD] = "add",
	[KVTREE_OP_SCAN] = "scan",
	[KVTREE_OP_SYNC] = "sync",
};

/* Names of KVTREE_FEAT_*, by bit. */
static const char * const feature_names[] = {
	"compat", "op", "uring", "uring-fixed", "uring-multishot", "uring-iopoll",
	[8] = "bpf", [9] = "durable",
};

/* Print or add the names of the bits that are set, and the numbers of unknown ones. */
static void bits(json_t *array, uint64_t set, const char * const *names, size_t nr)
{
	char number[8];
	unsigned int i;

	for (i = 0; i < 64; i++) {
		const char *name = number;

		if (!(set >> i & 1))
			continue;
		if (i < nr && names[i])
			name = names[i];
		else
			snprintf(number, sizeof(number), "%u", i);
		if (array)
			json_add(array, NULL, json_string(name));
		else
			printf(" %s", name);
	}
}

static void print_json(const struct kvtree_info *info, const struct kvtree_store_info *si)
{
	json_t *obj = json_new(), *store = json_new(), *array;

	json_add(obj, "module", json_string(info->version));
	json_add(obj, "library", json_string(kvtree_version()));
	json_add_u64(obj, "abi", info->abi_version);
	json_add_u64(obj, "key_max", info->key_max);
	json_add_u64(obj, "value_max", info->value_max);
	json_add_u64(obj, "cols_max", info->cols_max);
	json_add_u64(obj, "batch_max", info->batch_max);
	array = json_array();
	bits(array, info->ops, op_names, ARRAY_SIZE(op_names));
	json_add(obj, "operations", array);
	array = json_array();
	bits(array, info->features, feature_names, ARRAY_SIZE(feature_names));
	json_add(obj, "features", array);
	json_add_store(store, si);
	json_add(obj, "store", store);
	json_print(obj);
}

static void print_limit(const char *what, uint64_t n, uint64_t limit)
{
	printf("  %-12s %" PRIu64, what, n);
	if (limit)
		printf(" of at most %" PRIu64, limit);
	putchar('\n');
}

static void print(const struct kvtree_info *info, const struct kvtree_store_info *si)
{
	printf("module %s, library %s, ABI %u\n", info->version, kvtree_version(),
	       info->abi_version);
	printf("  %-12s %u bytes\n", "key", info->key_max);
	printf("  %-12s %u bytes, %u columns\n", "value", info->value_max, info->cols_max);
	printf("  %-12s %u operations\n", "batch", info->batch_max);
	printf("  %-12s", "operations");
	bits(NULL, info->ops, op_names, ARRAY_SIZE(op_names));
	printf("\n  %-12s", "features");
	bits(NULL, info->features, feature_names, ARRAY_SIZE(feature_names));
	printf("\nstore %s\n", si->name);
	printf("  %-12s %s", "engine", si->engine);
	if (si->page_size)
		printf(", pages of %u bytes", si->page_size);
	putchar('\n');
	printf("  %-12s %04o, owner %s", "mode", si->mode, owner_name(false, si->uid));
	printf(", group %s\n  %-12s ", owner_name(true, si->gid), "flags");
	put_flags(stdout, si);
	putchar('\n');
	print_limit("keys", si->keys, si->limit_keys);
	print_limit("bytes", si->bytes, si->limit_bytes);
}

static error_t parse_info(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "info takes no arguments: --store %s?", arg);
	return 0;
}

int cmd_info(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_info,
		.doc = "Show the module's version and limits, and the store.",
		.children = common_options,
	};
	struct kvtree_store_info si;
	struct kvtree_info info;
	struct kvtree *kv;
	int err;

	parse(&argp, argc, argv, NULL);
	kv = open_store(KVTREE_OPEN_READ);
	err = kvtree_info(kv, &info, sizeof(info));
	if (!err)
		err = kvtree_store_self(kv, &si, sizeof(si));
	kvtree_close(kv);
	if (err)
		return report(err, "info", NULL);
	if (tool.json)
		print_json(&info, &si);
	else
		print(&info, &si);
	return STATUS_OK;
}
