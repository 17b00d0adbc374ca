/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_MINMAX_H
#define SHIM_MINMAX_H

#define shim_choose(a, op, b)				\
({							\
	typeof(a) a_ = (a);				\
	typeof(b) b_ = (b);				\
							\
	a_ op b_ ? a_ : b_;				\
})

#define min(a, b)		shim_choose(a, <, b)
#define max(a, b)		shim_choose(a, >, b)
#define min_t(type, a, b)	shim_choose((type)(a), <, (type)(b))
#define max_t(type, a, b)	shim_choose((type)(a), >, (type)(b))

#define swap(a, b)					\
do {							\
	typeof(a) swap_ = (a);				\
							\
	(a) = (b);					\
	(b) = swap_;					\
} while (0)

#endif /* SHIM_MINMAX_H */
