// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes as text.
 *
 * Every byte string can be written on one line and read back: printable UTF-8
 * characters are written literally, except a backslash as \\, and every other
 * byte as \t, \n, \r or \xHH.  When reading, every byte except a backslash is
 * literal.
 */
#include <wchar.h>
#include <wctype.h>

#include "tool.h"

static const char digits[] = "0123456789abcdef";

/* The number of ASCII bytes from p on that are written literally. */
static size_t plain(const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && p[n] >= ' ' && p[n] <= '~' && p[n] != '\\')
		n++;
	return n;
}

/* The length of the printable character beyond ASCII at p, or 0. */
static size_t printable(const char *p, size_t len)
{
	mbstate_t st = { 0 };
	wchar_t wc;
	size_t n;

	if ((unsigned char)*p < 0x80)
		return 0;
	n = mbrtowc(&wc, p, len, &st);
	if (n == (size_t)-1 || n == (size_t)-2 || !iswprint((wint_t)wc))
		return 0;
	return n;
}

static void put_escape(FILE *out, char c)
{
	putc_unlocked('\\', out);
	switch (c) {
	case '\\':
		putc_unlocked('\\', out);
		break;
	case '\t':
		putc_unlocked('t', out);
		break;
	case '\n':
		putc_unlocked('n', out);
		break;
	case '\r':
		putc_unlocked('r', out);
		break;
	default:
		putc_unlocked('x', out);
		put_hex(out, &c, 1);
	}
}

/**
 * put_text() - write bytes as text
 * @out: the output
 * @data: the bytes
 * @len: their number
 */
void put_text(FILE *out, const void *data, size_t len)
{
	const char *p = data, *end = p + len;
	size_t n;

	while (p < end) {
		n = plain(p, (size_t)(end - p));
		if (!n)
			n = printable(p, (size_t)(end - p));
		if (n) {
			fwrite_unlocked(p, 1, n, out);
			p += n;
		} else {
			put_escape(out, *p++);
		}
	}
}

/**
 * put_hex() - write bytes in hexadecimal
 * @out: the output
 * @data: the bytes
 * @len: their number
 */
void put_hex(FILE *out, const void *data, size_t len)
{
	const unsigned char *p = data, *end = p + len;

	for (; p < end; p++) {
		putc_unlocked(digits[*p >> 4], out);
		putc_unlocked(digits[*p & 15], out);
	}
}

/**
 * put_bytes() - write bytes in the selected form: as text, or with --hex
 * @out: the output
 * @data: the bytes
 * @len: their number
 */
void put_bytes(FILE *out, const void *data, size_t len)
{
	if (tool.hex)
		put_hex(out, data, len);
	else
		put_text(out, data, len);
}

/**
 * put_column() - write a column as ID=DATA
 * @out: the output
 * @col: the column
 */
void put_column(FILE *out, const struct kvtree_column *col)
{
	fprintf(out, "%u=", col->id);
	put_bytes(out, col->data, col->len);
}

static int hex_digit(char c)
{
	const char *p;

	if (c >= 'A' && c <= 'F')
		c += 'a' - 'A';
	p = c ? strchr(digits, c) : NULL;
	return p ? (int)(p - digits) : -1;
}

/**
 * take_text() - decode text in place
 * @text: the text
 * @len: its length; then the number of bytes
 *
 * Return: NULL, or an error message
 */
const char *take_text(char *text, size_t *len)
{
	char *from = memchr(text, '\\', *len), *to = from, *end = text + *len;

	if (!from)
		return NULL;
	while (from < end) {
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		if (++from == end)
			return "a backslash at the end";
		switch (*from++) {
		case '\\':
			*to++ = '\\';
			break;
		case 't':
			*to++ = '\t';
			break;
		case 'n':
			*to++ = '\n';
			break;
		case 'r':
			*to++ = '\r';
			break;
		case 'x':
			if (end - from < 2 || hex_digit(from[0]) < 0 || hex_digit(from[1]) < 0)
				return "\\x without two hexadecimal digits";
			*to++ = (char)(hex_digit(from[0]) << 4 | hex_digit(from[1]));
			from += 2;
			break;
		default:
			return "unknown escape: use \\\\, \\t, \\n, \\r or \\xHH";
		}
	}
	*len = (size_t)(to - text);
	return NULL;
}

/**
 * take_hex() - decode hexadecimal digits in place
 * @text: the digits
 * @len: their number; then the number of bytes
 *
 * Return: NULL, or an error message
 */
const char *take_hex(char *text, size_t *len)
{
	size_t i;

	if (*len % 2)
		return "an odd number of hexadecimal digits";
	for (i = 0; i < *len; i += 2) {
		int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

		if (high < 0 || low < 0)
			return "not a hexadecimal number";
		text[i / 2] = (char)(high << 4 | low);
	}
	*len /= 2;
	return NULL;
}
