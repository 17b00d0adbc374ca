// SPDX-License-Identifier: GPL-2.0
/* Operations and values: see oracle.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "oracle.h"
#include "../../kmod/tests/splitmix64.h"

uint64_t crash_mix(uint64_t x)
{
	return splitmix64(x + SPLITMIX64_STEP);
}

/* One of a row of random numbers, below n. */
static uint32_t draw(uint64_t *row, uint32_t n)
{
	*row = crash_mix(*row);
	return (uint32_t)(*row >> 32) % n;
}

/* Most columns are small, some are logged by reference, a few are large. */
static uint32_t draw_len(uint64_t *row, bool large)
{
	uint32_t what = draw(row, 100);

	if (large)
		return what < 90 ? 4097 + draw(row, 12000) : 4097 + draw(row, CRASH_DATA_MAX / 2);
	if (what < 4)
		return 0;
	if (what < 80)
		return CRASH_DATA_MIN + draw(row, 300);
	return CRASH_DATA_MIN + draw(row, 4000);
}

static void draw_columns(struct crash_op *op, uint64_t *row)
{
	static const uint16_t ids[CRASH_COLS] = { 0, 3, 7, 200 };
	uint32_t i, which = 1 + draw(row, (1 << CRASH_COLS) - 1);

	for (i = 0; i < CRASH_COLS; i++) {
		struct crash_col *col = &op->col[op->ncols];

		if (!(which & 1 << i))
			continue;
		col->id = ids[i];
		col->op = op->id;
		col->gone = draw(row, 8) == 0;
		col->len = col->gone ? 0 : draw_len(row, draw(row, 12) == 0);
		op->ncols++;
	}
}

static void draw_plain(struct crash_op *op, uint64_t *row, bool large)
{
	op->kind = draw(row, 5) ? CRASH_PUT : CRASH_CAS;
	op->ncols = 1;
	op->col[0].op = op->id;
	op->col[0].len = draw_len(row, large);
}

/* The number of an operation says which it is; a key's number, of which kind it is. */
void crash_op_make(struct crash_op *op, uint64_t id)
{
	uint64_t row = crash_mix(id);
	bool removes = draw(&row, 7) == 0;

	memset(op, 0, sizeof(*op));
	op->id = id;
	op->sync = draw(&row, 8) == 0;
	/* Some keys are used more than others. */
	op->key = draw(&row, draw(&row, 3) ? CRASH_KEYS / 4 : CRASH_KEYS);
	if (draw(&row, 64) == 0) {
		op->kind = CRASH_SYNC;
		return;
	}
	if (removes) {
		op->kind = CRASH_REMOVE;
		return;
	}
	switch (op->key % 8) {
	case 0:
		op->kind = CRASH_ADD;
		op->addend = 1 + draw(&row, 1000);
		break;
	case 1:
	case 2:
		op->kind = draw(&row, 8) ? CRASH_COLUMNS : CRASH_WHOLE;
		draw_columns(op, &row);
		break;
	case 3:
		draw_plain(op, &row, draw(&row, 3) == 0);
		break;
	default:
		draw_plain(op, &row, false);
	}
}

/* Of several lengths, and some with long common parts: more than one layer. */
size_t crash_key_make(char *key, uint32_t nr)
{
	size_t len = (size_t)sprintf(key, "key %05u", nr);

	if (nr % 5 == 0) {
		memset(key + len, 'x', 20);
		len += 20;
	} else if (nr % 7 == 0) {
		memset(key + len, 'y', 250);
		len += 250;
	}
	return len;
}

int crash_key_parse(const void *key, size_t len)
{
	char text[16] = "", made[CRASH_KEY_BYTES];
	uint32_t nr;

	if (len < 9)
		return -1;
	memcpy(text, key, 9);
	if (sscanf(text, "key %u", &nr) != 1 || nr >= CRASH_KEYS ||
	    crash_key_make(made, nr) != len || memcmp(made, key, len))
		return -1;
	return (int)nr;
}

/* The beginning of a column's data; the rest is derived from it. */
struct data_head {
	uint64_t op;
	uint32_t len;
	uint16_t key;
	uint16_t col;
};

_Static_assert(sizeof(struct data_head) == CRASH_DATA_MIN, "struct data_head");

void crash_data_make(void *data, uint32_t len, uint64_t op, uint32_t key, uint16_t col)
{
	const struct data_head head = {
		.op = op, .len = len, .key = (uint16_t)key, .col = col,
	};
	uint64_t x = crash_mix(op ^ (uint64_t)col << 48);
	uint32_t at;

	if (!len)
		return;
	memcpy(data, &head, sizeof(head));
	for (at = sizeof(head); at < len; at += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy((char *)data + at, &x, len - at < 8 ? len - at : 8);
	}
}

bool crash_data_parse(const void *data, uint32_t len, uint32_t key, uint16_t col,
		      uint64_t *op)
{
	static __thread char *made;
	struct data_head head;

	*op = 0;
	if (!len)
		return true;
	if (len < CRASH_DATA_MIN || len > CRASH_DATA_MAX)
		return false;
	if (!made)
		made = malloc(CRASH_DATA_MAX);
	memcpy(&head, data, sizeof(head));
	crash_data_make(made, len, head.op, key, col);
	*op = head.op;
	return !memcmp(made, data, len);
}

static void set_column(struct crash_value *value, const struct crash_col *col)
{
	uint32_t i;

	for (i = 0; i < value->ncols && value->col[i].id < col->id; i++)
		;
	if (i < value->ncols && value->col[i].id == col->id) {
		value->ncols--;
		memmove(&value->col[i], &value->col[i + 1],
			(value->ncols - i) * sizeof(value->col[0]));
	}
	if (col->gone)
		return;
	memmove(&value->col[i + 1], &value->col[i], (value->ncols - i) * sizeof(value->col[0]));
	value->col[i] = *col;
	/* An empty column does not tell which operation wrote it. */
	if (!col->len)
		value->col[i].op = 0;
	value->ncols++;
}

void crash_op_apply(struct crash_value *value, const struct crash_op *op, uint64_t version,
		    uint64_t sum)
{
	uint32_t i;

	if (op->kind == CRASH_SYNC)
		return;
	if (op->kind != CRASH_COLUMNS)
		memset(value, 0, sizeof(*value));
	if (op->kind == CRASH_REMOVE)
		return;
	value->present = true;
	value->version = version;
	value->number = op->kind == CRASH_ADD;
	value->sum = sum;
	for (i = 0; i < op->ncols; i++)
		set_column(value, &op->col[i]);
}
