/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that set the kernel's switches: there is nothing to be set here. */
#ifndef SHIM_UMH_H
#define SHIM_UMH_H

#define UMH_WAIT_PROC	2

static inline int call_usermodehelper(const char *path, char **argv, char **envp, int wait)
{
	return 0;
}

#endif /* SHIM_UMH_H */
