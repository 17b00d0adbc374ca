// SPDX-License-Identifier: GPL-2.0
/* See results.h. JSON has no infinite numbers: members with such values are left out. */
#include <errno.h>
#include <stdlib.h>

#include "results.h"
#include "spread.h"

static json_t *checked(json_t *value)
{
	if (!value)
		abort();
	return value;
}

/**
 * results_new() - begin a report
 *
 * Return: an object without ratios and rows, which may get other members
 */
json_t *results_new(void)
{
	return checked(json_pack("{s:{}, s:[]}", "ratios", "rows"));
}

/**
 * results_add_ratio() - add a ratio
 * @results: the report
 * @name: what is compared with what
 * @value: the ratio
 */
void results_add_ratio(json_t *results, const char *name, double value)
{
	json_object_set_new(json_object_get(results, "ratios"), name, json_real(value));
}

static json_t *values_json(const struct results_row *row)
{
	json_t *values = checked(json_array());
	unsigned int i;

	for (i = 0; i < row->runs; i++)
		json_array_append_new(values, json_real(row->values[i]));
	return values;
}

/**
 * results_add_row() - add the result of one system under one workload
 * @results: the report
 * @row: the common members of rows
 *
 * Return: the row, which belongs to @results, for further members
 */
json_t *results_add_row(json_t *results, const struct results_row *row)
{
	struct spread s = spread_of(row->values, row->runs);
	json_t *obj;

	obj = checked(json_pack("{s:s, s:s, s:i, s:o*, s:o*, s:o*, s:i, s:s, s:o}",
				"workload", row->workload,
				"system", row->system,
				"threads", (int)row->threads,
				"median", json_real(s.median),
				"min", json_real(s.min),
				"max", json_real(s.max),
				"runs", (int)row->runs,
				"unit", row->unit,
				"values", values_json(row)));
	if (json_array_append_new(json_object_get(results, "rows"), obj))
		abort();
	return obj;
}

/**
 * results_write() - write a report to a file and free it
 * @results: the report
 * @path: the file
 *
 * Return: 0 or an errno
 */
int results_write(json_t *results, const char *path)
{
	int err;

	errno = 0;
	err = json_dump_file(results, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	if (err)
		err = errno ?: ENOMEM;
	json_decref(results);
	return err;
}
