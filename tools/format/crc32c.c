// SPDX-License-Identifier: GPL-2.0
/* crc32c (Castagnoli), eight bytes at a time: by tables, or the processor's own instruction. */
#include "../../kmod/log/format/env.h"

#define POLYNOMIAL	0x82f63b78u	/* bits reversed */

static u32 table[8][256];

static void __attribute__((constructor)) table_init(void)
{
	u32 crc, i;
	int bit, k;

	for (i = 0; i < 256; i++) {
		crc = i;
		for (bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		table[0][i] = crc;
	}
	for (i = 0; i < 256; i++)
		for (k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

#ifdef __x86_64__
static u32 __attribute__((target("sse4.2"))) by_instruction(u32 crc, const u8 *p, size_t len)
{
	u64 word, sum = crc;

	for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum = __builtin_ia32_crc32di(sum, word);
	}
	for (crc = (u32)sum; len; len--)
		crc = __builtin_ia32_crc32qi(crc, *p++);
	return crc;
}
#endif

/**
 * kvt_crc32c() - go on with a checksum
 * @crc: of what came before; ~0 in the beginning
 * @data: bytes
 * @len: how many
 *
 * Return: the checksum, as the kernel's function of this name.
 */
u32 kvt_crc32c(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;

#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return by_instruction(crc, p, len);
#endif
	for (; len >= 8; len -= 8, p += 8) {
		crc ^= p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24;
		crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^
		      table[5][crc >> 16 & 0xff] ^ table[4][crc >> 24] ^
		      table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}
