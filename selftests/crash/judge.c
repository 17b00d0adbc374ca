// SPDX-License-Identifier: GPL-2.0
/* Judging a state: see judge.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "crash.h"
#include "judge.h"

/* A change of a key. */
struct change {
	const struct crash_result *result;
	bool removes;
	struct crash_value after;
	uint64_t start;		/* the latest of this one and those before */
	uint64_t end;		/* the earliest of this one and the later ones */
};

/* The row of a key; its first entry is how it was in the beginning. */
struct row {
	uint32_t nr;
	uint32_t room;
	struct change *change;
	/* Operations of which nothing was heard: at most one of each worker. */
	uint32_t nr_pending;
	struct crash_op pending[CRASH_WORKERS];
};

struct crash_history {
	const struct crash_oracle *oracle;
	struct row row[CRASH_KEYS];
	uint32_t *place[CRASH_WORKERS];	/* of an operation in the row of its key */
	uint64_t moments;		/* starts and ends are below */
	uint64_t *version;		/* the highest that was returned up to a moment */
	int32_t *cover;
};

static const struct crash_result *result_of(const struct crash_history *h, uint64_t op)
{
	return &h->oracle->result[op >> 32 & 0xff][op & 0xffffffff];
}

static bool row_add(struct crash_history *h, const struct crash_result *result, char *text,
		    size_t len)
{
	struct crash_op op;
	struct row *row;

	crash_op_make(&op, result->op);
	if (result->result < 0) {
		/* A CAS that lost, or nothing to be removed. */
		if ((op.kind == CRASH_CAS && result->result == -ECANCELED) ||
		    (op.kind == CRASH_REMOVE && result->result == -ENOENT))
			return true;
		snprintf(text, len, "operation %" PRIx64 " (kind %d): %s", op.id, op.kind,
			 strerror(-result->result));
		return false;
	}
	if (op.kind == CRASH_SYNC)
		return true;
	row = &h->row[op.key];
	if (row->nr == row->room) {
		row->room = row->room ? row->room * 2 : 16;
		row->change = realloc(row->change, row->room * sizeof(*row->change));
	}
	row->change[row->nr++] = (struct change){
		.result = result, .removes = op.kind == CRASH_REMOVE,
	};
	return true;
}

static int change_cmp(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	/* The beginning. */
	if (!x->result || !y->result)
		return !!x->result - !!y->result;
	if (x->result->version != y->result->version)
		return x->result->version < y->result->version ? -1 : 1;
	return x->removes - y->removes;
}

static bool row_finish(struct crash_history *h, uint32_t key, char *text, size_t len)
{
	struct row *row = &h->row[key];
	struct crash_value value = row->change[0].after;
	struct crash_op op;
	uint32_t i;

	qsort(row->change, row->nr, sizeof(*row->change), change_cmp);
	for (i = 1; i < row->nr; i++) {
		const struct crash_result *r = row->change[i].result;

		crash_op_make(&op, r->op);
		if (row->change[i].removes ? !value.present || value.version != r->version :
		    (value.present && value.version >= r->version) ||
		    r->version <= h->oracle->head.floor) {
			/* It may be of one of which nothing was heard. */
			if (!row->nr_pending) {
				snprintf(text, len, "key %u: version %" PRIu64
					 " of operation %" PRIx64 " is not new", key, r->version,
					 r->op);
				return false;
			}
		}
		crash_op_apply(&value, &op, r->version, r->sum);
		row->change[i].after = value;
		row->change[i].start = r->start > row->change[i - 1].start ?
				       r->start : row->change[i - 1].start;
	}
	row->change[0].end = UINT64_MAX;
	for (i = row->nr; i-- > 1; ) {
		uint64_t end = row->change[i].result->end;

		row->change[i].end = i + 1 < row->nr && row->change[i + 1].end < end ?
				     row->change[i + 1].end : end;
		if (row->change[i].end < row->change[i - 1].start) {
			snprintf(text, len, "key %u: versions go back after %" PRIu64, key,
				 row->change[i].result->version);
			return false;
		}
	}
	return true;
}

static bool history_fill(struct crash_history *h, char *text, size_t len)
{
	const struct crash_oracle *o = h->oracle;
	uint32_t w, i, key;

	for (key = 0; key < CRASH_KEYS; key++) {
		h->row[key].room = 16;
		h->row[key].change = calloc(16, sizeof(struct change));
		h->row[key].change[0].after = o->base[key];
		h->row[key].nr = 1;
	}
	for (w = 0; w < o->head.workers; w++) {
		for (i = 0; i < CRASH_RESULTS_MAX && o->result[w][i].done; i++) {
			if (!row_add(h, &o->result[w][i], text, len))
				return false;
			if (o->result[w][i].end >= h->moments)
				h->moments = o->result[w][i].end + 1;
		}
		if (i < CRASH_RESULTS_MAX && o->head.phase == CRASH_ATTACHED) {
			struct crash_op op;

			crash_op_make(&op, crash_op_id(o->head.life, w, i));
			if (op.kind != CRASH_SYNC)
				h->row[op.key].pending[h->row[op.key].nr_pending++] = op;
		}
	}
	for (key = 0; key < CRASH_KEYS; key++)
		if (!row_finish(h, key, text, len))
			return false;
	return true;
}

static void history_index(struct crash_history *h)
{
	uint32_t key, i;
	uint64_t t;

	h->version = calloc(h->moments + 1, sizeof(*h->version));
	h->cover = calloc(h->moments + 2, sizeof(*h->cover));
	for (i = 0; i < CRASH_WORKERS; i++)
		h->place[i] = calloc(CRASH_RESULTS_MAX, sizeof(**h->place));
	for (key = 0; key < CRASH_KEYS; key++) {
		const struct row *row = &h->row[key];

		for (i = 1; i < row->nr; i++) {
			const struct crash_result *r = row->change[i].result;

			h->place[r->op >> 32 & 0xff][r->op & 0xffffffff] = i;
			h->version[r->end] = r->version;
		}
	}
	for (t = 1; t <= h->moments; t++)
		if (h->version[t] < h->version[t - 1])
			h->version[t] = h->version[t - 1];
}

struct crash_history *crash_history_new(const struct crash_oracle *oracle, char *text, size_t len)
{
	struct crash_history *h = calloc(1, sizeof(*h));

	h->oracle = oracle;
	h->moments = 1;
	if (oracle->head.magic != CRASH_ORACLE_MAGIC || oracle->head.workers > CRASH_WORKERS)
		crash_die("no record of a workload");
	if (!history_fill(h, text, len)) {
		crash_history_free(h);
		return NULL;
	}
	history_index(h);
	return h;
}

void crash_history_free(struct crash_history *h)
{
	uint32_t i;

	for (i = 0; i < CRASH_KEYS; i++)
		free(h->row[i].change);
	for (i = 0; i < CRASH_WORKERS; i++)
		free(h->place[i]);
	free(h->version);
	free(h->cover);
	free(h);
}

void crash_promise_ack(const struct crash_history *h, struct crash_promise *promise, uint64_t id)
{
	const struct crash_result *result = result_of(h, id);
	uint32_t place = h->place[id >> 32 & 0xff][id & 0xffffffff];
	struct crash_op op;

	crash_op_make(&op, id);
	if (result->op != id || !result->done)
		crash_die("operation %" PRIx64 " is not known", id);
	if (result->end > promise->now)
		promise->now = result->end;
	if (result->result < 0)
		return;
	if (promise->least[op.key] < place)
		promise->least[op.key] = place;
	if (promise->synced < result->start)
		promise->synced = result->start;
}

void crash_promise_all(const struct crash_history *h, struct crash_promise *promise)
{
	const struct crash_oracle *o = h->oracle;
	struct crash_op op;
	uint32_t w, i;

	for (w = 0; w < o->head.workers; w++) {
		for (i = 0; i < CRASH_RESULTS_MAX && o->result[w][i].done; i++) {
			crash_op_make(&op, o->result[w][i].op);
			if (op.sync || op.kind == CRASH_SYNC)
				crash_promise_ack(h, promise, op.id);
		}
	}
	promise->now = h->moments - 1;
	/* It was detached: everything is durable. */
	if (o->head.phase == CRASH_DETACHED)
		promise->synced = h->moments;
}

uint64_t crash_version_seen(const struct crash_history *h, const struct crash_promise *promise)
{
	uint64_t version = h->version[promise->now < h->moments ? promise->now : h->moments];

	return version > h->oracle->head.floor ? version : h->oracle->head.floor;
}

static bool is_pending(const struct row *row, uint64_t op)
{
	uint32_t i;

	for (i = 0; i < row->nr_pending; i++)
		if (row->pending[i].id == op)
			return true;
	return false;
}

static bool pending_kind(const struct row *row, enum crash_kind kind)
{
	uint32_t i;

	for (i = 0; i < row->nr_pending; i++)
		if (row->pending[i].kind == kind)
			return true;
	return false;
}

static bool has_column(const struct crash_value *value, const struct crash_col *col)
{
	uint32_t i;

	for (i = 0; i < value->ncols; i++)
		if (value->col[i].id == col->id)
			return value->col[i].len == col->len && value->col[i].op == col->op;
	return false;
}

/* As has_column(), or of an operation of which nothing was heard. */
static bool value_fits(const struct row *row, const struct crash_value *is,
		       const struct crash_value *was)
{
	uint32_t i;

	if (is->number != was->number || (is->number && is->sum != was->sum))
		return is->number && pending_kind(row, CRASH_ADD);
	for (i = 0; i < is->ncols; i++)
		if (!has_column(was, &is->col[i]) && !is_pending(row, is->col[i].op) &&
		    !(row->nr_pending && !is->col[i].len))
			return false;
	return is->ncols == was->ncols || row->nr_pending;
}

/* Whether the key can be as it is after the first @i changes. */
static bool place_fits(const struct row *row, const struct crash_value *is, uint32_t i)
{
	const struct crash_value *was = &row->change[i].after;

	if (!is->present)
		return !was->present || pending_kind(row, CRASH_REMOVE);
	if (was->present && was->version == is->version)
		return value_fits(row, is, was);
	/* Something came between this change and the next one. */
	return row->nr_pending && (!i || row->change[i].result->version < is->version) &&
	       (i + 1 == row->nr || row->change[i + 1].result->version >= is->version) &&
	       value_fits(row, is, was);
}

static void say_key(char *text, size_t len, const struct row *row, uint32_t key,
		    const struct crash_value *is, uint32_t least)
{
	const struct change *last = &row->change[row->nr - 1];

	snprintf(text, len, "key %u: found %s version %" PRIu64 " (%u columns, operation %" PRIx64
		 "); of %u changes at least %u have to be there, the last is version %" PRIu64,
		 key, is->present ? "" : "nothing,", is->version, is->ncols,
		 is->ncols ? is->col[0].op : 0, row->nr - 1, least,
		 last->result ? last->result->version : 0);
}

/* The moments at which a key is as it is found.  Returns their number. */
static uint32_t key_cover(const struct crash_history *h, const struct row *row,
			  const struct crash_value *is, uint32_t least)
{
	uint64_t from, to, covered = 0;
	uint32_t i, n = 0;

	for (i = least; i < row->nr; i++) {
		if (!place_fits(row, is, i))
			continue;
		from = row->change[i].start;
		to = i + 1 < row->nr ? row->change[i + 1].end : h->moments + 1;
		if (from < covered)
			from = covered;
		if (from >= to)
			continue;
		h->cover[from]++;
		h->cover[to]--;
		covered = to;
		n++;
	}
	return n;
}

/* Say which keys contradict each other, if two do. */
static void say_cut(const struct crash_history *h, const struct crash_promise *promise,
		    const struct crash_state *state, char *text, size_t len)
{
	uint64_t first = promise->synced, last = h->moments + 1;
	uint32_t key, i, is_there = CRASH_KEYS, is_not = CRASH_KEYS;

	for (key = 0; key < CRASH_KEYS; key++) {
		const struct row *row = &h->row[key];

		for (i = promise->least[key]; i < row->nr; i++) {
			if (!place_fits(row, &state->value[key], i))
				continue;
			if (!state->value[key].present)
				break;
			if (row->change[i].start > first) {
				first = row->change[i].start;
				is_there = key;
			}
			if (i + 1 < row->nr && row->change[i + 1].end < last) {
				last = row->change[i + 1].end;
				is_not = key;
			}
			break;
		}
	}
	snprintf(text, len, "no state that ever was: key %u has a change that began at %" PRIu64
		 ", key %u lacks one that had returned at %" PRIu64 " (%u: what was promised)",
		 is_there, first, is_not, last, CRASH_KEYS);
}

bool crash_judge(const struct crash_history *h, const struct crash_promise *promise,
		 const struct crash_state *state, char *text, size_t len)
{
	int32_t cover = 0;
	uint32_t key;
	uint64_t t;

	if (state->error || state->wrong) {
		snprintf(text, len, "%s%s%s", state->text, state->error ? ": " : "",
			 state->error ? strerror(-state->error) : "");
		return false;
	}
	memset(h->cover, 0, (h->moments + 2) * sizeof(*h->cover));
	for (key = 0; key < CRASH_KEYS; key++) {
		if (key_cover(h, &h->row[key], &state->value[key], promise->least[key]))
			continue;
		say_key(text, len, &h->row[key], key, &state->value[key], promise->least[key]);
		return false;
	}
	for (t = 0; t <= h->moments; t++) {
		cover += h->cover[t];
		if (cover == CRASH_KEYS && t >= promise->synced)
			return true;
	}
	say_cut(h, promise, state, text, len);
	return false;
}
