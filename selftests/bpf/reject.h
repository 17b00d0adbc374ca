/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that the verifier must reject.
 *
 * To load an object, the library reads the kernel's types, which takes seconds on an
 * emulated machine.  So one object has many programs.  Each is passed to the verifier,
 * fully relocated, when the library is about to load it, and a harmless one is loaded
 * instead.
 */
#ifndef KVT_BPF_REJECT_H
#define KVT_BPF_REJECT_H

#include "lib.h"

/* What must be said, so that a program is not rejected for another reason. */
struct kvt_reject {
	const char *name;
	const char *why;
	const char *why_7;	/* in the words of 7.x, if these are others */
};

/* How programs of a section are loaded. */
struct kvt_section {
	const char *name;	/* as libbpf_register_prog_handler() wants it */
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
	long flags;		/* of BPF_PROG_LOAD, besides the library's */
	const char *target;	/* a function of the kernel to attach to, or NULL */
};

/* The outcome of a program. */
struct kvt_verdict {
	const char *name;
	int err;		/* 0: it was loaded */
	char log[1 << 14];
};

/* From here on programs of these sections are shown; up to 12 sections. */
void kvt_show_begin(const struct kvt_section *sections, int nr);
void kvt_show_end(void);

/* NULL if it was not shown. */
const struct kvt_verdict *kvt_verdict(const char *name);

/* Whether a program was rejected as it is to be; says if it was not. */
bool kvt_rejected(const struct kvt_reject *what);
bool kvt_accepted(const char *name);

/* delete_module(): 0 or an errno. */
int kvt_module_delete(void);

/* Unload the Bw-tree's module, which uses kvtree, once no store uses that. */
void kvt_module_alone(void);

/* Unload kvtree, once it is unused, and load it again, and the Bw-tree's module beside it. */
void kvt_module_reload(const char *path);

#endif /* KVT_BPF_REJECT_H */
