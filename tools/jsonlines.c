// SPDX-License-Identifier: GPL-2.0
/*
 * Records as JSON, an object on each line, as "kvtree scan --json" prints them.
 *
 *	{"key": "k", "value": "v"}
 *	{"key_hex": "00ff", "columns": [{"id": 0, "value": "v"}, {"id": 7, "value_hex": "ff"}]}
 *
 * Other members, such as the version, are ignored.
 */
#include "tool.h"

/* Read bytes from an object: the string NAME, or NAME_hex. */
static int member(struct dumpfile *f, const json_t *obj, const char *name, char **decoded,
		  const char **data, size_t *len)
{
	const json_t *text = json_object_get(obj, name), *hex;
	const char *wrong;
	char hex_name[32];

	snprintf(hex_name, sizeof(hex_name), "%s_hex", name);
	hex = json_object_get(obj, hex_name);
	if (!text == !hex)
		return dumpfile_bad(f, "an object has either \"%s\" or \"%s\"", name, hex_name);
	if (!json_is_string(text ? text : hex))
		return dumpfile_bad(f, "\"%s\" is not a string", text ? name : hex_name);
	*data = json_string_value(text ? text : hex);
	*len = json_string_length(text ? text : hex);
	if (text)
		return 0;
	memcpy(*decoded, *data, *len + 1);
	*data = *decoded;
	wrong = take_hex(*decoded, len);
	if (wrong)
		return dumpfile_bad(f, "\"%s\": %s", hex_name, wrong);
	*decoded += *len + 1;
	return 0;
}

static int column(struct dumpfile *f, struct record *rec, const json_t *obj, json_int_t id,
		  char **decoded)
{
	struct kvtree_column *col = &rec->col[rec->ncols];
	const char *data;
	size_t len;
	int err;

	err = member(f, obj, "value", decoded, &data, &len);
	if (err)
		return err;
	if (len > KVTREE_VALUE_MAX)
		return dumpfile_bad(f, "column %d is too long: a value has at most %u bytes",
				    (int)id, KVTREE_VALUE_MAX);
	col->id = (uint32_t)id;
	col->data = data;
	col->len = (uint32_t)len;
	rec->ncols++;
	return 0;
}

static int columns(struct dumpfile *f, struct record *rec, const json_t *array, char **decoded)
{
	const json_t *one, *id;
	json_int_t last = -1;
	size_t i;
	int err;

	if (!json_is_array(array))
		return dumpfile_bad(f, "\"columns\" is not an array");
	json_array_foreach(array, i, one) {
		id = json_object_get(one, "id");
		if (!json_is_integer(id) || json_integer_value(id) <= last ||
		    json_integer_value(id) >= KVTREE_COLS_MAX)
			return dumpfile_bad(f, "\"columns\": ids go from 0 to %u and ascend",
					    KVTREE_COLS_MAX - 1);
		last = json_integer_value(id);
		/* The column was requested, and does not exist. */
		if (json_is_null(json_object_get(one, "value")) &&
		    !json_object_get(one, "value_hex"))
			continue;
		err = column(f, rec, one, last, decoded);
		if (err)
			return err;
	}
	return 0;
}

/* jansson's messages may quote bytes of the line: hide control characters. */
static const char *printable(char *text)
{
	char *c;

	for (c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return text;
}

/**
 * jsonlines_read() - read a record from the file's line
 * @f: the file
 * @rec: the record, in memory of @f
 * @len: bytes in the line
 *
 * Return: 1, or -EINVAL with f->error set
 */
int jsonlines_read(struct dumpfile *f, struct record *rec, size_t len)
{
	const char *key = NULL;
	json_error_t error;
	json_t *array;
	char *decoded;
	int err;

	json_decref(f->object);
	f->object = json_loadb(f->line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!json_is_object(f->object))
		return dumpfile_bad(f, "not a JSON object: %s", f->object ? "something else" :
				    printable(error.text));
	/* Decoding makes strings shorter. */
	f->decoded = alloc(f->decoded, len + 1);
	decoded = f->decoded;
	err = member(f, f->object, "key", &decoded, &key, &rec->key_len);
	if (err)
		return err;
	if (rec->key_len > KVTREE_KEY_MAX)
		return dumpfile_bad(f, "the key is too long: at most %u bytes", KVTREE_KEY_MAX);
	rec->key = (char *)key;
	rec->ncols = 0;
	array = json_object_get(f->object, "columns");
	if (array && (json_object_get(f->object, "value") ||
		      json_object_get(f->object, "value_hex")))
		return dumpfile_bad(f, "both a value and \"columns\"");
	if (array)
		err = columns(f, rec, array, &decoded);
	else
		err = column(f, rec, f->object, 0, &decoded);
	return err ? err : 1;
}
