// SPDX-License-Identifier: GPL-2.0
/*
 * JSON output.
 */
#include <inttypes.h>

#include "stores.h"

/**
 * json_new() - an empty object
 *
 * Return: the object
 */
json_t *json_new(void)
{
	json_t *obj = json_object();

	if (!obj)
		die("out of memory");
	return obj;
}

/**
 * json_add() - add a member to an object, or an element to an array
 * @obj: the object or array
 * @name: the member's name; not used for an array
 * @value: its value; the object takes ownership
 */
void json_add(json_t *obj, const char *name, json_t *value)
{
	int err;

	if (json_is_array(obj))
		err = json_array_append_new(obj, value);
	else
		err = json_object_set_new(obj, name, value);
	if (err)
		die("out of memory");
}

/**
 * json_add_bytes() - add bytes to an object
 * @obj: the object
 * @name: the member's name; it becomes NAME_hex if the bytes are not UTF-8, or
 *	with --hex
 * @data: the bytes
 * @len: their number
 */
void json_add_bytes(json_t *obj, const char *name, const void *data, size_t len)
{
	json_t *text = NULL;
	char member[32];
	size_t size;
	FILE *out;
	char *hex;

	/* jansson refuses strings that are not UTF-8. */
	if (!tool.hex)
		text = json_stringn(len ? data : "", len);
	if (text) {
		json_add(obj, name, text);
		return;
	}
	out = open_memstream(&hex, &size);
	if (!out)
		die("out of memory");
	put_hex(out, data, len);
	if (fclose(out))
		die("out of memory");
	snprintf(member, sizeof(member), "%s_hex", name);
	json_add(obj, member, json_string(hex));
	free(hex);
}

/**
 * json_add_columns() - add columns to an object, as an array
 * @obj: the object
 * @cols: the columns
 */
void json_add_columns(json_t *obj, const struct kvtree_columns *cols)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < cols->nr; i++) {
		const struct kvtree_column *col = &cols->col[i];
		json_t *one = json_new();

		json_add(one, "id", json_integer(col->id));
		if (col->len == KVTREE_COL_ABSENT)
			json_add(one, "value", json_null());
		else
			json_add_bytes(one, "value", col->data, col->len);
		json_add(array, NULL, one);
	}
	json_add(obj, "columns", array);
}

/**
 * json_add_u64() - add a number to an object
 * @obj: the object
 * @name: the member's name
 * @n: the number; above 2^63 it is added as a string, because jansson's integers end
 *	there
 */
void json_add_u64(json_t *obj, const char *name, uint64_t n)
{
	char text[24];

	if (n <= INT64_MAX) {
		json_add(obj, name, json_integer((json_int_t)n));
		return;
	}
	snprintf(text, sizeof(text), "%" PRIu64, n);
	json_add(obj, name, json_string(text));
}

/**
 * json_add_store() - add the members that describe a store
 * @obj: the object
 * @si: the store
 */
void json_add_store(json_t *obj, const struct kvtree_store_info *si)
{
	static const uint8_t none[16];
	char mode[8], uuid[37];

	snprintf(mode, sizeof(mode), "%04o", si->mode);
	json_add(obj, "name", json_string(si->name));
	json_add_u64(obj, "id", si->id);
	json_add(obj, "engine", json_string(si->engine));
	json_add_u64(obj, "page_size", si->page_size);
	json_add(obj, "mode", json_string(mode));
	json_add_u64(obj, "uid", si->uid);
	json_add_u64(obj, "gid", si->gid);
	json_add_u64(obj, "limit_bytes", si->limit_bytes);
	json_add_u64(obj, "limit_keys", si->limit_keys);
	json_add_u64(obj, "keys", si->keys);
	json_add_u64(obj, "bytes", si->bytes);
	json_add(obj, "durable", json_boolean(si->flags & KVTREE_STORE_DURABLE));
	json_add(obj, "sync", json_boolean(si->flags & KVTREE_STORE_SYNC));
	json_add(obj, "attaching", json_boolean(si->flags & KVTREE_STORE_ATTACHING));
	json_add(obj, "checkpointing", json_boolean(si->flags & KVTREE_STORE_CHECKPOINTING));
	json_add_u64(obj, "progress", si->progress);
	json_add(obj, "read_only", json_boolean(si->flags & KVTREE_STORE_READ_ONLY));
	if (memcmp(si->uuid, none, sizeof(none))) {
		uuid_text(uuid, si->uuid);
		json_add(obj, "uuid", json_string(uuid));
	}
}

/* Escape U+007F to U+009F, which JSON need not escape: control characters of terminals. */
static void put_escaped(const char *text)
{
	size_t len = strcspn(text, "\x7f\xc2");

	while (text[len]) {
		fwrite(text, 1, len, stdout);
		text += len;
		len = 0;
		if (*text == '\x7f') {
			fputs("\\u007f", stdout);
			text++;
		} else if ((unsigned char)text[1] < 0xa0) {
			printf("\\u%04x", (unsigned char)text[1]);
			text += 2;
		} else {
			len = 2;
		}
		len += strcspn(text + len, "\x7f\xc2");
	}
	fputs(text, stdout);
}

/**
 * json_print() - print an object on a line of its own, and free it
 * @obj: the object
 */
void json_print(json_t *obj)
{
	char *text = json_dumps(obj, 0);

	if (!text)
		die("out of memory");
	put_escaped(text);
	putchar('\n');
	free(text);
	json_decref(obj);
}
