// SPDX-License-Identifier: GPL-2.0
/*
 * Attach and detach hooks with libbpf.
 */
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf.h"

#ifdef HAVE_LIBBPF

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

/* libbpf's messages, to be shown on failure: they include the verifier's. */
static char *messages;
static size_t messages_len;

static int keep_message(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *text;
	int len;

	if (level == LIBBPF_DEBUG)
		return 0;
	len = vasprintf(&text, fmt, ap);
	if (len < 0)
		return 0;
	messages = alloc(messages, messages_len + len + 1);
	memcpy(messages + messages_len, text, len + 1);
	messages_len += len;
	free(text);
	return 0;
}

static void show_messages(void)
{
	if (messages)
		fputs(messages, stderr);
}

static const char *type_name(unsigned int kind)
{
	return kind == KVTREE_HOOK_FILTER ? "bpf_kvt_filter" : "bpf_kvt_validator";
}

static const char *kind_name(unsigned int kind)
{
	return kind == KVTREE_HOOK_FILTER ? "filter" : "validator";
}

/* The type of a map's content, if the map is a struct_ops of the object. */
static const struct btf_type *map_type(const struct bpf_object *obj, const struct bpf_map *map)
{
	if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
		return NULL;
	return btf__type_by_id(bpf_object__btf(obj), bpf_map__btf_value_type_id(map));
}

static bool is_kind(const struct bpf_object *obj, const struct bpf_map *map, unsigned int kind)
{
	const struct btf_type *type = map_type(obj, map);

	return type && !strcmp(btf__name_by_offset(bpf_object__btf(obj), type->name_off),
			       type_name(kind));
}

/* The selected map, or NULL after printing a message. */
static struct bpf_map *find_map(struct bpf_object *obj, const struct hook_attach *args)
{
	struct bpf_map *map, *found = NULL;

	bpf_object__for_each_map(map, obj) {
		if (!is_kind(obj, map, args->kind) ||
		    (args->map && strcmp(bpf_map__name(map), args->map)))
			continue;
		if (found) {
			warn("bpf: %s has several: select one with --map (%s, %s, ...)", args->file,
			     bpf_map__name(found), bpf_map__name(map));
			return NULL;
		}
		found = map;
	}
	if (!found)
		warn("bpf: %s has no %s%s%s: no variable of struct %s in .struct_ops.link",
		     args->file, kind_name(args->kind), args->map ? " called " : "",
		     args->map ? args->map : "", type_name(args->kind));
	return found;
}

/* The address of a member in the map's structure, or NULL. */
static void *map_member(struct bpf_object *obj, struct bpf_map *map, const char *name, size_t len)
{
	const struct btf_type *type = map_type(obj, map);
	struct btf_member *m = btf_members(type);
	char *data;
	size_t size;
	int i;

	data = bpf_map__initial_value(map, &size);
	for (i = 0; data && i < btf_vlen(type); i++, m++) {
		if (strcmp(btf__name_by_offset(bpf_object__btf(obj), m->name_off), name))
			continue;
		return m->offset / 8 + len <= size ? data + m->offset / 8 : NULL;
	}
	return NULL;
}

/* Whether the store's owner lets programs use it; prints a message if not. */
static bool store_is_open(void)
{
	struct kvtree *kv = open_store_any();
	struct kvtree_store_info info;
	int err;

	err = kvtree_store_self(kv, &info, sizeof(info));
	kvtree_close(kv);
	if (err)
		report(err, "bpf", NULL);
	else if (!(info.flags & KVTREE_STORE_BPF))
		warn("bpf: programs may not use the store: see kvtree bpf allow");
	return !err && info.flags & KVTREE_STORE_BPF;
}

static const char *store_name(void)
{
	return tool.store ? tool.store : "default";
}

static bool fill_map(struct bpf_object *obj, struct bpf_map *map, const struct hook_attach *args)
{
	char *store = map_member(obj, map, "store", KVTREE_NAME_MAX);
	char *name = map_member(obj, map, "name", KVTREE_HOOK_NAME_MAX);

	if (!store || !name) {
		warn("bpf: %s was built with another kvtree.bpf.h", args->file);
		return false;
	}
	snprintf(store, KVTREE_NAME_MAX, "%s", store_name());
	if (!args->name)
		return true;
	if (strlen(args->name) >= KVTREE_HOOK_NAME_MAX) {
		warn("bpf: a name has at most %u bytes", KVTREE_HOOK_NAME_MAX - 1);
		return false;
	}
	memset(name, 0, KVTREE_HOOK_NAME_MAX);
	strcpy(name, args->name);
	return true;
}

static int say_load_failed(const char *file, int err)
{
	show_messages();
	if (err == -EPERM || err == -EACCES)
		warn("bpf: cannot load %s: it was refused (see above), or this needs root",
		     file);
	else
		warn("bpf: cannot load %s: %s", file, strerror(-err));
	return STATUS_ERROR;
}

static int say_attach_failed(unsigned int kind, int err)
{
	switch (err) {
	case -EPERM:
		warn("bpf: only the store's owner may attach a %s", kind_name(kind));
		break;
	case -EACCES:
		warn("bpf: attaching a %s needs permission to %s the store", kind_name(kind),
		     kind == KVTREE_HOOK_VALIDATOR ? "read and write" : "read");
		break;
	case -EEXIST:
		warn("bpf: the store has %s: see kvtree bpf list, and kvtree bpf detach",
		     kind == KVTREE_HOOK_VALIDATOR ? "a validator" : "a hook of this name");
		break;
	case -EINVAL:
		warn("bpf: the name may have letters, digits, '.', '_' and '-', and does not %s",
		     "begin with a digit; or there is no program");
		break;
	case -EOPNOTSUPP:
		warn("bpf: the variable has to be in the section .struct_ops.link");
		break;
	default:
		show_messages();
		warn("bpf: cannot attach: %s", strerror(-err));
	}
	return STATUS_ERROR;
}

static unsigned int link_id(int fd)
{
	struct bpf_link_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/* BPF's file system allows no dots in names. */
static char *default_pin(const struct kvtree_bpf_hook *hook)
{
	char number[16], *path, *c;

	snprintf(number, sizeof(number), "%u", hook->id);
	if (asprintf(&path, PIN_DIR "/%s:%s", store_name(),
		     *hook->name ? hook->name : number) < 0)
		die("out of memory");
	for (c = path + sizeof(PIN_DIR); *c; c++)
		if (*c == '.')
			*c = '_';
	return path;
}

/* The hook that was attached last, by its link. */
static bool find_link(unsigned int id, struct kvtree_bpf_hook *hook)
{
	struct kvtree *kv = open_store_any();
	int err;

	memset(hook, 0, sizeof(*hook));
	do {
		err = kvtree_bpf_hook_next(kv, hook, sizeof(*hook));
	} while (!err && hook->link_id != id);
	kvtree_close(kv);
	if (err)
		warn("bpf: it has already been detached");
	return !err;
}

static int pin_link(struct bpf_link *link, const char *path)
{
	int err;

	mkdir(PIN_DIR, 0755);
	err = bpf_link__pin(link, path);
	if (!err)
		return STATUS_OK;
	if (err == -EEXIST)
		warn("bpf: %s already exists: choose another path with --pin", path);
	else
		warn("bpf: cannot pin to %s: %s; is %s mounted (mount -t bpf none %s)?", path,
		     strerror(-err), BPF_FS, BPF_FS);
	return STATUS_ERROR;
}

static void print_attached(const struct kvtree_bpf_hook *hook, const char *pin)
{
	json_t *obj;

	if (!tool.json) {
		printf("%s %u%s%s, pinned to %s\n", hook_kind(hook), hook->id,
		       *hook->name ? " " : "", hook->name, pin);
		return;
	}
	obj = json_new();
	json_add_u64(obj, "id", hook->id);
	json_add(obj, "kind", json_string(hook_kind(hook)));
	json_add(obj, "name", json_string(hook->name));
	json_add_u64(obj, "link", hook->link_id);
	json_add(obj, "pin", json_string(pin));
	json_print(obj);
}

static int keep_link(struct bpf_link *link, const struct hook_attach *args)
{
	struct kvtree_bpf_hook hook;
	char *pin;
	int status;

	if (!find_link(link_id(bpf_link__fd(link)), &hook))
		return STATUS_ERROR;
	pin = args->pin ? strdup(args->pin) : default_pin(&hook);
	status = pin_link(link, pin);
	if (status == STATUS_OK)
		print_attached(&hook, pin);
	free(pin);
	return status;
}

static int attach_object(struct bpf_object *obj, const struct hook_attach *args)
{
	struct bpf_map *map = find_map(obj, args);
	struct bpf_link *link;
	int err, status;

	if (!map)
		return STATUS_ERROR;
	if (!store_is_open() || !fill_map(obj, map, args))
		return STATUS_ERROR;
	err = bpf_object__load(obj);
	if (err)
		return say_load_failed(args->file, err);
	link = bpf_map__attach_struct_ops(map);
	if (!link)
		return say_attach_failed(args->kind, -errno);
	status = keep_link(link, args);
	/* Without a pin, the link ends here. */
	bpf_link__destroy(link);
	return status;
}

/**
 * hook_attach() - attach a filter or a validator of an object file to the store
 * @args: the hook
 *
 * Return: the exit status
 */
int hook_attach(const struct hook_attach *args)
{
	struct bpf_object *obj;
	int status;

	libbpf_set_print(keep_message);
	obj = bpf_object__open_file(args->file, NULL);
	if (!obj) {
		status = errno;
		show_messages();
		warn("bpf: cannot open %s: %s: it must be built by clang -g -target bpf",
		     args->file, strerror(status));
		return STATUS_ERROR;
	}
	status = attach_object(obj, args);
	bpf_object__close(obj);
	return status;
}

/**
 * hook_pin() - where a link is pinned
 * @id: the link's
 *
 * Return: the path, to be freed, or NULL if it is not in PIN_DIR or may not be read
 */
char *hook_pin(unsigned int id)
{
	DIR *dir = opendir(PIN_DIR);
	struct dirent *entry;
	char *path = NULL;
	int fd, found = 0;

	while (dir && !found && (entry = readdir(dir))) {
		if (asprintf(&path, PIN_DIR "/%s", entry->d_name) < 0)
			die("out of memory");
		fd = bpf_obj_get(path);
		found = fd >= 0 && link_id(fd) == id;
		if (fd >= 0)
			close(fd);
		if (!found)
			free(path);
	}
	if (dir)
		closedir(dir);
	return found ? path : NULL;
}

static int detach_link(unsigned int id)
{
	char *pin = hook_pin(id);
	int fd = bpf_link_get_fd_by_id(id), err;

	err = fd < 0 ? fd : bpf_link_detach(fd);
	if (fd >= 0)
		close(fd);
	if (err == -EPERM)
		warn("bpf: detaching needs root");
	else if (err)
		warn("bpf: cannot detach: %s", strerror(-err));
	else if (pin && unlink(pin))
		warn("bpf: it is detached, but %s cannot be removed: %s", pin, strerror(errno));
	free(pin);
	return err ? STATUS_ERROR : STATUS_OK;
}

/**
 * hook_detach() - detach a filter or validator of the store, and remove its pin
 * @which: its name or id
 *
 * Return: the exit status
 */
int hook_detach(const char *which)
{
	struct kvtree *kv = open_store_any();
	struct kvtree_bpf_hook hook;
	bool found = hook_find(kv, which, 0, &hook);

	kvtree_close(kv);
	return found ? detach_link(hook.link_id) : STATUS_NOT;
}

#else /* !HAVE_LIBBPF */

static int say_no_libbpf(void)
{
	warn("bpf: this needs libbpf 1.4 or later, which kvtree was built without: %s",
	     "install it (Debian: libbpf-dev) and build kvtree again");
	return STATUS_ERROR;
}

int hook_attach(const struct hook_attach *args)
{
	(void)args;
	return say_no_libbpf();
}

int hook_detach(const char *which)
{
	(void)which;
	return say_no_libbpf();
}

char *hook_pin(unsigned int id)
{
	(void)id;
	return NULL;
}

#endif /* HAVE_LIBBPF */
