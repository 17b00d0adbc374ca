// SPDX-License-Identifier: GPL-2.0
/* Numbers and JSON. */
#include <errno.h>
#include <stdlib.h>

#include "example.h"

/**
 * parse_number() - parse a decimal number
 * @text: the text
 * @max: the maximum
 * @n: set
 *
 * Return: whether it is a number
 */
bool parse_number(const char *text, uint64_t max, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *n <= max;
}

/**
 * json_put() - add a member to an object, or an element to an array
 * @obj: the object or array
 * @name: the member's name; not used for an array
 * @value: its value; the object takes ownership
 */
void json_put(json_t *obj, const char *name, json_t *value)
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
 * json_print() - print an object on a line of its own, and free it
 * @obj: the object
 */
void json_print(json_t *obj)
{
	json_dumpf(obj, stdout, 0);
	putchar('\n');
	json_decref(obj);
}
