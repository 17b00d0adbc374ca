// SPDX-License-Identifier: GPL-2.0
/*
 * del: remove keys.
 */
#include <inttypes.h>

#include "tool.h"

/* Options without a letter. */
enum { OPT_IF_VERSION = 256 };

struct del {
	char **args;
	int nr;
	const char *version_text;
	uint64_t version;
	struct bytes *keys;
};

static error_t parse_del(int key, char *arg, struct argp_state *state)
{
	struct del *del = state->input;
	int i;

	switch (key) {
	case OPT_IF_VERSION:
		del->version_text = arg;
		return 0;
	case ARGP_KEY_ARGS:
		del->args = state->argv + state->next;
		del->nr = state->argc - state->next;
		return 0;
	case ARGP_KEY_END:
		if (!del->nr)
			argp_usage(state);
		if (del->version_text) {
			if (del->nr > 1)
				argp_error(state, "--if-version takes one KEY");
			del->version = arg_number(state, "version", del->version_text,
						  UINT64_MAX);
		}
		del->keys = alloc(NULL, (size_t)del->nr * sizeof(*del->keys));
		for (i = 0; i < del->nr; i++)
			del->keys[i] = arg_bytes(state, "key", del->args[i]);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "if-version", .key = OPT_IF_VERSION, .arg = "VERSION",
	  .doc = "Only if the key has this version" },
	{ 0 }
};

static int answer(const struct bytes *key, int err, uint64_t version)
{
	json_t *obj;

	if (tool.json && (err >= 0 || err == -ENOENT || err == -ECANCELED)) {
		obj = json_new();
		json_add_bytes(obj, "key", key->data, key->len);
		json_add(obj, "deleted", json_boolean(err >= 0));
		if (err != -ENOENT)
			json_add_u64(obj, "version", version);
		json_print(obj);
	}
	if (err == -ECANCELED && version) {
		warn("del: the key has version %" PRIu64, version);
		return STATUS_NOT;
	}
	return report(err == -ECANCELED ? -ENOENT : err, "del", key);
}

int cmd_del(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_del,
		.args_doc = "KEY...",
		.doc = "Remove keys.\n"
		       "\vPrints nothing. All keys that exist are removed; if one does not, the\n"
		       "exit status is 1.",
		.children = common_options,
	};
	int err, i, one, status = STATUS_OK;
	struct del del = { 0 };
	struct kvtree_ops *ops;
	struct kvtree *kv;

	parse(&argp, argc, argv, &del);
	kv = open_store(KVTREE_OPEN_WRITE);
	if (kvtree_ops_new(&ops))
		die("out of memory");
	for (i = 0; i < del.nr; i++) {
		err = kvtree_ops_del(ops, kvtree_slice(del.keys[i].data, del.keys[i].len),
				     del.version_text ? KVTREE_F_VERSION : 0, del.version);
		if (err < 0) {
			status = report(err, "del", &del.keys[i]);
			goto out;
		}
	}
	err = kvtree_ops_run(ops, kv);
	for (i = 0; i < (int)kvtree_ops_done(ops); i++) {
		one = answer(&del.keys[i], kvtree_ops_result(ops, (size_t)i),
			     kvtree_ops_version(ops, (size_t)i));
		if (one > status)
			status = one;
	}
	if (err)
		status = report(err, "del", NULL);
out:
	kvtree_ops_free(ops);
	kvtree_close(kv);
	free(del.keys);
	return status;
}
