/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters are set on the command line: NAME=NUMBER. */
#ifndef SHIM_MODULEPARAM_H
#define SHIM_MODULEPARAM_H

#include <linux/types.h>

struct shim_param {
	const char *name;
	void *value;
	size_t size;
	struct shim_param *next;
};

void shim_param_register(struct shim_param *param);
/* Returns false if @arg does not set a parameter. */
bool shim_param_set(const char *arg);

#define module_param(name, type, mode)					\
static void __attribute__((__constructor__)) shim_param_##name(void)	\
{									\
	static struct shim_param param = { #name, &name, sizeof(name) };\
									\
	shim_param_register(&param);					\
}

#define MODULE_PARM_DESC(name, text)

#endif /* SHIM_MODULEPARAM_H */
