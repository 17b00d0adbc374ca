// SPDX-License-Identifier: GPL-2.0
/*
 * Filters and validators of a store.
 */
#include "tool.h"

/**
 * hook_kind() - the kind of a hook
 * @hook: the hook
 *
 * Return: a word
 */
const char *hook_kind(const struct kvtree_bpf_hook *hook)
{
	switch (hook->kind) {
	case KVTREE_HOOK_FILTER:
		return "filter";
	case KVTREE_HOOK_VALIDATOR:
		return "validator";
	default:
		return "unknown";
	}
}

/**
 * hook_find() - find a hook of a store; prints a message if there is none
 * @kv: the session
 * @which: its name or its id
 * @kind: KVTREE_HOOK_*, or 0 for any
 * @hook: filled in
 *
 * Return: whether there is one
 */
bool hook_find(const struct kvtree *kv, const char *which, unsigned int kind,
	       struct kvtree_bpf_hook *hook)
{
	bool number = *which && strspn(which, "0123456789") == strlen(which);
	int err;

	memset(hook, 0, sizeof(*hook));
	while (!(err = kvtree_bpf_hook_next(kv, hook, sizeof(*hook)))) {
		if (kind && hook->kind != kind)
			continue;
		if (number ? hook->id == strtoul(which, NULL, 10) : !strcmp(hook->name, which))
			return true;
	}
	if (err == -ENOENT)
		warn("the store has no %s '%s': see kvtree bpf list",
		     kind == KVTREE_HOOK_FILTER ? "filter" : "filter or validator", which);
	else
		report(err, "bpf", NULL);
	return false;
}
