/* SPDX-License-Identifier: GPL-2.0 */
/* BPF: the bpf command's use of libbpf. */
#ifndef KVTREE_TOOL_BPF_H
#define KVTREE_TOOL_BPF_H

#include "tool.h"

/* Where links are pinned. */
#define BPF_FS	"/sys/fs/bpf"
#define PIN_DIR	BPF_FS "/kvtree"

struct hook_attach {
	unsigned int kind;	/* KVTREE_HOOK_* */
	const char *file;
	const char *map;	/* NULL: the only one of its kind */
	const char *name;	/* NULL: from the file */
	const char *pin;	/* NULL: in PIN_DIR */
};

/* bpf_hook.c */
int hook_attach(const struct hook_attach *args);
int hook_detach(const char *which);
char *hook_pin(unsigned int link_id);

/* bpf_map.c */
int map_bind(const char *which, unsigned int access);
int map_unbind(const char *which);

/* bpf_prog.c: programs that call kvtree */
struct bpf_user {
	unsigned int id;
	const char *type;
	char name[32];
	char *kfuncs;		/* separated by blanks; free() */
};

int bpf_user_next(unsigned int *id, struct bpf_user *user);

#endif /* KVTREE_TOOL_BPF_H */
