// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Look keys up into reused memory, which grows when a value is larger than all
 * before it.
 *
 * Shown in: kvtree_get_into(3)
 *
 * Prints:
 *	short: 3 bytes, in 4
 *	long: 9 bytes, in 9
 *	not found: no such key, store, device or file
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
	char *data;
	size_t size;
};

static int get(const struct kvtree *kv, const char *key,
	       struct buffer *buf, size_t *len)
{
	char *more;
	int err;

	for (;;) {
		err = kvtree_get_into(kv, kvtree_str(key), buf->data,
				      buf->size, len, NULL);
		if (err != -EMSGSIZE)
			return err;
		/* It may be larger still when it is read again. */
		more = realloc(buf->data, *len);
		if (!more)
			return -ENOMEM;
		buf->data = more;
		buf->size = *len;
	}
}

int main(void)
{
	static const char *const keys[] = { "short", "long", "none" };
	struct buffer buf = { .data = malloc(4), .size = 4 };
	struct kvtree *kv;
	size_t i, len;
	int err;

	err = buf.data ? kvtree_open(NULL, 0, &kv) : -ENOMEM;
	if (!err)
		err = kvtree_put(kv, kvtree_str("short"),
				 kvtree_str("abc"), 0, NULL);
	if (!err)
		err = kvtree_put(kv, kvtree_str("long"),
				 kvtree_str("abcdefghi"), 0, NULL);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	for (i = 0; i < 3; i++) {
		err = get(kv, keys[i], &buf, &len);
		if (err)
			puts(kvtree_strerror(err));
		else
			printf("%s: %zu bytes, in %zu\n", keys[i], len,
			       buf.size);
		kvtree_del(kv, kvtree_str(keys[i]), 0, NULL);
	}
	free(buf.data);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
