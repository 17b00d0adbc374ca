// SPDX-License-Identifier: GPL-2.0
/* Module parameters, from the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

static struct shim_param *params;

void shim_param_register(struct shim_param *param)
{
	param->next = params;
	params = param;
}

bool shim_param_set(const char *arg)
{
	const char *number = strchr(arg, '=');
	struct shim_param *p;
	unsigned long long n;
	char *end;

	if (!number)
		return false;
	for (p = params; p; p = p->next)
		if (strlen(p->name) == number - arg && !strncmp(p->name, arg, number - arg))
			break;
	if (!p)
		return false;
	n = strtoull(number + 1, &end, 0);
	if (*end || end == number + 1)
		return false;
	if (p->size == sizeof(u64))
		*(u64 *)p->value = n;
	else
		*(u32 *)p->value = n;
	return true;
}
