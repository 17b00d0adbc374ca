// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that call kvtree.
 *
 * The kernel shows that a program calls kfuncs, but not which.  The kfuncs named in
 * the program's types (BTF) are those that its object file calls.
 */
#include <unistd.h>

#include "bpf.h"

#ifdef HAVE_LIBBPF

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

/* Whether one of the program's instructions calls a kfunc. */
static bool calls_kfunc(int fd, const struct bpf_prog_info *known)
{
	struct bpf_prog_info info = { .xlated_prog_len = known->xlated_prog_len };
	__u32 len = sizeof(info), i;
	struct bpf_insn *insns;
	bool found = false;

	insns = calloc(1, known->xlated_prog_len + sizeof(*insns));
	if (!insns)
		die("out of memory");
	info.xlated_prog_insns = (uintptr_t)insns;
	if (!bpf_obj_get_info_by_fd(fd, &info, &len))
		for (i = 0; i < info.xlated_prog_len / sizeof(*insns) && !found; i++)
			found = insns[i].code == (BPF_JMP | BPF_CALL) &&
				insns[i].src_reg == BPF_PSEUDO_KFUNC_CALL;
	free(insns);
	return found;
}

static bool is_kfunc_name(const char *name)
{
	return !strncmp(name, "bpf_kvt_", 8) || !strncmp(name, "bpf_iter_kvt_", 13);
}

/* The kfuncs that a program's types name, or NULL if there are none. */
static char *named_kfuncs(unsigned int btf_id)
{
	struct btf *btf = btf__load_from_kernel_by_id(btf_id);
	const struct btf_type *type;
	const char *name;
	char *list = NULL;
	size_t len = 0;
	unsigned int i;

	for (i = 1; btf && i < btf__type_cnt(btf); i++) {
		type = btf__type_by_id(btf, i);
		name = btf__name_by_offset(btf, type->name_off);
		if (!btf_is_func(type) || !is_kfunc_name(name))
			continue;
		list = alloc(list, len + strlen(name) + 2);
		len += sprintf(list + len, "%s%s", len ? " " : "", name);
	}
	btf__free(btf);
	return list;
}

static bool describe(unsigned int id, struct bpf_user *user)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);

	user->kfuncs = NULL;
	/* The program may have been unloaded meanwhile. */
	if (fd < 0)
		return false;
	if (!bpf_obj_get_info_by_fd(fd, &info, &len) && info.btf_id && calls_kfunc(fd, &info))
		user->kfuncs = named_kfuncs(info.btf_id);
	close(fd);
	if (!user->kfuncs)
		return false;
	user->id = id;
	user->type = libbpf_bpf_prog_type_str(info.type);
	snprintf(user->name, sizeof(user->name), "%s", info.name);
	return true;
}

/**
 * bpf_user_next() - go through the programs that call kvtree
 * @id: 0 at first, then the value from the previous call
 * @user: filled in
 *
 * Return: 0, -ENOENT: there are no more, or another negative errno
 */
int bpf_user_next(unsigned int *id, struct bpf_user *user)
{
	int err;

	/* Suppress libbpf's warnings about a program's types. */
	libbpf_set_print(NULL);
	do {
		err = bpf_prog_get_next_id(*id, id);
	} while (!err && !describe(*id, user));
	return err;
}

#else /* !HAVE_LIBBPF */

int bpf_user_next(unsigned int *id, struct bpf_user *user)
{
	(void)id;
	(void)user;
	return -EOPNOTSUPP;
}

#endif /* HAVE_LIBBPF */
