/* SPDX-License-Identifier: GPL-2.0 */
/* A warning ends the program, so no test passes after one. */
#ifndef SHIM_BUG_H
#define SHIM_BUG_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/types.h>

void shim_bug(const char *file, int line, const char *what) __attribute__((__noreturn__));

#define WARN_ON(cond)					\
({							\
	bool warn_ = !!(cond);				\
							\
	if (unlikely(warn_))				\
		shim_bug(__FILE__, __LINE__, #cond);	\
	warn_;						\
})

#define WARN_ON_ONCE(cond)	WARN_ON(cond)
#define BUG_ON(cond)		((void)WARN_ON(cond))
#define BUG()			shim_bug(__FILE__, __LINE__, "BUG")

#endif /* SHIM_BUG_H */
