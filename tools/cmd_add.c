// SPDX-License-Identifier: GPL-2.0
/*
 * add: add to a number.
 */
#include <inttypes.h>

#include "tool.h"

struct add {
	const char *key;
	const char *delta_text;
	int64_t delta;
	uint16_t col;
	unsigned int flags;
	struct bytes k;
};

static int64_t delta(struct argp_state *state, const char *arg)
{
	const char *digits = arg + (*arg == '-' || *arg == '+');
	long long n;
	char *end;

	errno = 0;
	n = strtoll(arg, &end, number_base(digits));
	if (*digits < '0' || *digits > '9' || *end || errno)
		argp_error(state, "'%s' is not a number of 64 bits", arg);
	return n;
}

static error_t parse_add(int key, char *arg, struct argp_state *state)
{
	struct add *add = state->input;

	switch (key) {
	case 'c':
		add->col = arg_column(state, arg);
		return 0;
	case 'R':
		add->flags |= KVTREE_F_REPLACE;
		return 0;
	case ARGP_KEY_ARG:
		if (!add->key)
			add->key = arg;
		else if (!add->delta_text)
			add->delta_text = arg;
		else
			argp_error(state, "too many arguments: add takes a KEY and a NUMBER");
		return 0;
	case ARGP_KEY_END:
		if (!add->key)
			argp_usage(state);
		add->k = arg_bytes(state, "key", add->key);
		add->delta = add->delta_text ? delta(state, add->delta_text) : 1;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "col", .key = 'c', .arg = "ID", .doc = "The number is in this column (0)" },
	{ .name = "replace", .key = 'R', .doc = "Only if the key exists" },
	{ 0 }
};

int cmd_add(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_add,
		.args_doc = "KEY [NUMBER]",
		.doc = "Add NUMBER (1) to the number stored under a key, and print the sum.\n"
		       "\vThe number is stored as 8 bytes, little-endian, and printed with a sign.\n"
		       "A key that does not exist counts as 0.",
		.children = common_options,
	};
	struct add add = { 0 };
	char *last = argv[argc - 1];
	struct kvtree *kv;
	struct kvtree_sum sum;
	json_t *obj;
	int err;

	/* In "add KEY -5", -5 is the number, not an option; in "add -- -5" it is the key. */
	if (argc > 2 && strcmp(argv[argc - 2], "--") && last[0] == '-' &&
	    last[1] >= '0' && last[1] <= '9') {
		add.delta_text = last;
		argc--;
	}
	parse(&argp, argc, argv, &add);
	kv = open_store(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	err = kvtree_add(kv, kvtree_slice(add.k.data, add.k.len), add.col, add.delta, add.flags,
			 &sum);
	kvtree_close(kv);
	if (err == -EINVAL) {
		warn("add: this value is not a number: it is not 8 bytes long");
		return STATUS_ERROR;
	}
	if (err)
		return report(err, "add", &add.k);
	if (!tool.json) {
		printf("%" PRId64 "\n", sum.sum);
		return STATUS_OK;
	}
	obj = json_new();
	json_add_bytes(obj, "key", add.k.data, add.k.len);
	json_add(obj, "sum", json_integer(sum.sum));
	json_add_u64(obj, "version", sum.version);
	json_print(obj);
	return STATUS_OK;
}
