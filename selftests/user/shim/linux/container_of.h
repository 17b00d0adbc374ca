/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_CONTAINER_OF_H
#define SHIM_CONTAINER_OF_H

#include <linux/types.h>

#define container_of(ptr, type, member)						\
({										\
	void *of_ = (void *)(ptr);						\
										\
	_Static_assert(__builtin_types_compatible_p(typeof(*(ptr)),		\
						    typeof(((type *)0)->member)), \
		       "container_of: another type");				\
	(type *)(of_ - offsetof(type, member));					\
})

#endif /* SHIM_CONTAINER_OF_H */
