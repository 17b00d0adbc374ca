// SPDX-License-Identifier: GPL-2.0
/* The input, piece by piece. */
#include <string.h>

#include "fuzz.h"

__u64 input_take(struct input *in, unsigned int bytes)
{
	__u64 value = 0;

	for (; bytes && in->left; bytes--, in->left--)
		value = value << 8 | *in->at++;
	return value;
}

unsigned int input_below(struct input *in, unsigned int n)
{
	return (unsigned int)input_take(in, n > 256 ? 2 : 1) % n;
}

__u64 input_number(struct input *in)
{
	static const __u64 edges[] = {
		0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 257, 512, 4095, 4096, 4097, 65535,
		65536, 1 << 20, (1 << 20) + 1, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull,
	};
	unsigned int kind = input_below(in, 64);

	if (kind < 32)
		return kind;
	if (kind < 32 + NR(edges))
		return edges[kind - 32];
	return input_take(in, 8);
}

void input_fill(struct input *in, void *to, size_t len)
{
	size_t n = len < in->left ? len : in->left;

	memcpy(to, in->at, n);
	memset((char *)to + n, 0, len - n);
	in->at += n;
	in->left -= n;
}
