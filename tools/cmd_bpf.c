// SPDX-License-Identifier: GPL-2.0
/*
 * bpf: let BPF programs use the store, and let the store call BPF programs.
 */
#include <inttypes.h>

#include "bpf.h"

struct bpf;

/* Options without a letter. */
enum { OPT_READ = 256, OPT_WRITE, OPT_MAP, OPT_NAME, OPT_PIN };

struct action {
	const char *name;
	const char *takes;	/* an argument, or NULL */
	int (*run)(const struct bpf *bpf);
	bool access;		/* takes --read and --write */
	unsigned int attaches;	/* KVTREE_HOOK_*: takes --map, --name and --pin */
};

struct bpf {
	const struct action *action;
	const char *arg;
	unsigned int access;
	const char *map, *name, *pin;
};

static const struct action *find_action(const char *name);

static void check(struct argp_state *state, const struct bpf *bpf)
{
	const struct action *action = bpf->action;

	if (!action)
		argp_usage(state);
	if (bpf->access && !action->access)
		argp_error(state, "--read and --write are for bind");
	if ((bpf->map || bpf->name || bpf->pin) && !action->attaches)
		argp_error(state, "--map, --name and --pin are for attach-filter and %s",
			   "attach-validator");
	if (action->takes && !bpf->arg)
		argp_error(state, "%s takes a %s", action->name, action->takes);
}

static void take(struct argp_state *state, struct bpf *bpf, const char *arg)
{
	if (!bpf->action) {
		bpf->action = find_action(arg);
		if (!bpf->action)
			argp_error(state, "unknown action '%s': see kvtree help bpf", arg);
	} else if (bpf->action->takes && !bpf->arg) {
		bpf->arg = arg;
	} else {
		argp_error(state, "too many arguments: --store %s?", arg);
	}
}

static error_t parse_bpf(int key, char *arg, struct argp_state *state)
{
	struct bpf *bpf = state->input;

	switch (key) {
	case OPT_READ:
		bpf->access |= KVTREE_OPEN_READ;
		return 0;
	case OPT_WRITE:
		bpf->access |= KVTREE_OPEN_WRITE;
		return 0;
	case OPT_MAP:
		bpf->map = arg;
		return 0;
	case OPT_NAME:
		bpf->name = arg;
		return 0;
	case OPT_PIN:
		bpf->pin = arg;
		return 0;
	case ARGP_KEY_ARG:
		take(state, bpf, arg);
		return 0;
	case ARGP_KEY_END:
		check(state, bpf);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "read", .key = OPT_READ, .doc = "bind: programs may read (the default)" },
	{ .name = "write", .key = OPT_WRITE, .doc = "bind: programs may write" },
	{ .name = "map", .key = OPT_MAP, .arg = "NAME",
	  .doc = "attach-*: the variable of FILE, if there are several" },
	{ .name = "name", .key = OPT_NAME, .arg = "NAME",
	  .doc = "attach-*: use this name instead of FILE's" },
	{ .name = "pin", .key = OPT_PIN, .arg = "PATH",
	  .doc = "attach-*: where the link is pinned (" PIN_DIR "/STORE:NAME)" },
	{ 0 }
};

static int bind_map(const struct bpf *bpf)
{
	return map_bind(bpf->arg, bpf->access ? bpf->access : KVTREE_OPEN_READ);
}

static int unbind_map(const struct bpf *bpf)
{
	return map_unbind(bpf->arg);
}

static int set_access(bool on)
{
	struct kvtree *kv = open_store_any();
	int err;

	err = kvtree_bpf_allow(kv, on);
	kvtree_close(kv);
	if (err == -EOPNOTSUPP) {
		warn("bpf: not supported: kernel and module need BTF, and the kernel a JIT");
		return STATUS_ERROR;
	}
	if (err == -EPERM) {
		warn("bpf: only the store's owner may allow or forbid programs");
		return STATUS_ERROR;
	}
	return report(err, "bpf", NULL);
}

static int allow(const struct bpf *bpf)
{
	(void)bpf;
	return set_access(true);
}

static int forbid(const struct bpf *bpf)
{
	(void)bpf;
	return set_access(false);
}

static int attach(const struct bpf *bpf)
{
	const struct hook_attach args = {
		.kind = bpf->action->attaches,
		.file = bpf->arg,
		.map = bpf->map,
		.name = bpf->name,
		.pin = bpf->pin,
	};

	return hook_attach(&args);
}

static int detach(const struct bpf *bpf)
{
	return hook_detach(bpf->arg);
}

static void print_hook(const struct kvtree_bpf_hook *hook, json_t *hooks)
{
	char *pin = hook_pin(hook->link_id);
	json_t *obj;

	if (hooks) {
		obj = json_object();
		json_add_u64(obj, "id", hook->id);
		json_add(obj, "kind", json_string(hook_kind(hook)));
		json_add(obj, "name", json_string(hook->name));
		json_add_u64(obj, "link", hook->link_id);
		json_add_u64(obj, "calls", hook->calls);
		json_add_u64(obj, "refused", hook->refused);
		json_add(obj, "pin", pin ? json_string(pin) : json_null());
		json_array_append_new(hooks, obj);
	} else {
		printf("%-9s %5u  %-15s link %u, %" PRIu64 " calls, %" PRIu64 " refused%s%s\n",
		       hook_kind(hook), hook->id, *hook->name ? hook->name : "-", hook->link_id,
		       (uint64_t)hook->calls, (uint64_t)hook->refused, pin ? ", " : "",
		       pin ? pin : "");
	}
	free(pin);
}

static void print_user(const struct bpf_user *user, json_t *users)
{
	json_t *obj;

	if (users) {
		obj = json_object();
		json_add_u64(obj, "id", user->id);
		json_add(obj, "type", json_string(user->type ? user->type : "unknown"));
		json_add(obj, "name", json_string(user->name));
		json_add(obj, "kfuncs", json_string(user->kfuncs));
		json_array_append_new(users, obj);
	} else {
		printf("program   %5u  %-15s %s: %s\n", user->id, user->name,
		       user->type ? user->type : "unknown", user->kfuncs);
	}
}

static void print_binding(const struct kvtree_bpf_binding *binding, json_t *maps)
{
	static const char *const access[] = { "", "read", "write", "read, write" };
	json_t *obj;

	if (maps) {
		obj = json_object();
		json_add_u64(obj, "id", binding->map_id);
		json_add(obj, "name", json_string(binding->name));
		json_add(obj, "read", json_boolean(binding->access & KVTREE_OPEN_READ));
		json_add(obj, "write", json_boolean(binding->access & KVTREE_OPEN_WRITE));
		json_array_append_new(maps, obj);
	} else {
		printf("map       %5u  %-15s %s\n", binding->map_id,
		       *binding->name ? binding->name : "-", access[binding->access & 3]);
	}
}

static int list_bindings(struct kvtree *kv, json_t *maps)
{
	struct kvtree_bpf_binding binding = { 0 };
	int err;

	while (!(err = kvtree_bpf_binding_next(kv, &binding, sizeof(binding))))
		print_binding(&binding, maps);
	return err == -ENOENT ? 0 : err;
}

static int list_hooks(struct kvtree *kv, json_t *hooks)
{
	struct kvtree_bpf_hook hook = { 0 };
	int err;

	while (!(err = kvtree_bpf_hook_next(kv, &hook, sizeof(hook))))
		print_hook(&hook, hooks);
	return err == -ENOENT ? 0 : err;
}

static int list_users(json_t *users)
{
	struct bpf_user user;
	unsigned int id = 0;
	int err;

	while (!(err = bpf_user_next(&id, &user))) {
		print_user(&user, users);
		free(user.kfuncs);
	}
	return err == -ENOENT ? 0 : err;
}

static int list(const struct bpf *bpf)
{
	json_t *hooks = tool.json ? json_array() : NULL, *users = tool.json ? json_array() : NULL;
	json_t *obj, *maps = tool.json ? json_array() : NULL;
	struct kvtree *kv = open_store_any();
	int err;

	(void)bpf;
	err = list_hooks(kv, hooks);
	if (!err)
		err = list_bindings(kv, maps);
	kvtree_close(kv);
	if (err)
		return report(err, "bpf", NULL);
	err = list_users(users);
	if (tool.json) {
		obj = json_new();
		json_add(obj, "hooks", hooks);
		json_add(obj, "maps", maps);
		json_add(obj, "programs", err ? json_null() : users);
		json_print(obj);
	}
	if (err == -EPERM)
		warn("bpf: only root can list the programs that call kvtree");
	else if (err == -EOPNOTSUPP)
		warn("bpf: listing the programs that call kvtree needs libbpf 1.4 or later");
	else if (err)
		return report(err, "bpf", NULL);
	return STATUS_OK;
}

static const struct action actions[] = {
	{ .name = "allow", .run = allow },
	{ .name = "forbid", .run = forbid },
	{ .name = "bind", .takes = "MAP", .run = bind_map, .access = true },
	{ .name = "unbind", .takes = "MAP", .run = unbind_map },
	{ .name = "attach-filter", .takes = "FILE", .run = attach,
	  .attaches = KVTREE_HOOK_FILTER },
	{ .name = "attach-validator", .takes = "FILE", .run = attach,
	  .attaches = KVTREE_HOOK_VALIDATOR },
	{ .name = "detach", .takes = "NAME or ID", .run = detach },
	{ .name = "list", .run = list },
};

static const struct action *find_action(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(actions); i++)
		if (!strcmp(actions[i].name, name))
			return &actions[i];
	return NULL;
}

static const char takes[] =
	"allow|forbid|list\nbind|unbind MAP\nattach-filter|attach-validator FILE\ndetach NAME|ID";

int cmd_bpf(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse_bpf,
		.args_doc = takes,
		.doc = "Let BPF programs use the store, or the store call BPF programs.\n"
		       "\vallow and forbid are for the store's owner; forbid ends all bindings of maps\n"
		       "and detaches filters and validators. bind lets the programs that have a MAP\n"
		       "use the store, to read, to write, or both: a map's id (bpftool map) or the\n"
		       "path where it is pinned. A binding lasts as long as the map is in use.\n"
		       "unbind ends it; the store's owner can use an id, and needs no map.\n\n"
		       "attach-filter and attach-validator load FILE, an object file from clang, with\n"
		       "libbpf and attach its hook: a filter, which kvtree scan --filter names, or the\n"
		       "store's validator, which checks every new value. The hook stays until\n"
		       "detach NAME (or ID), or until its pin is removed. list shows the store's\n"
		       "hooks, the maps bound to it, and all programs with an object file that\n"
		       "calls kvtree; bpftool prog shows the maps of a program.",
		.children = common_options,
	};
	struct bpf bpf = { 0 };

	parse(&argp, argc, argv, &bpf);
	return bpf.action->run(&bpf);
}
