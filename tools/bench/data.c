// SPDX-License-Identifier: GPL-2.0
/* Keys: the same for all systems, and the same in every run. */
#include <string.h>

#include "common.h"

/**
 * key_make() - the key of a number
 * @key: KEY_LEN bytes
 * @nr: the number
 *
 * Like redis-benchmark: "key:" and twelve digits.
 */
void key_make(char *key, uint32_t nr)
{
	unsigned int i;

	memcpy(key, "key:", 4);
	for (i = KEY_LEN; i-- > 4; nr /= 10)
		key[i] = '0' + nr % 10;
}
