// SPDX-License-Identifier: GPL-2.0
/*
 * Hundreds of concurrent commands, of every kind and in every form, and a model
 * that knows the valid results of each.
 *
 * At most one command at a time changes a key, so the result of a change is known
 * when it is submitted.  Reads may be of any key at any time: they must find a
 * state that the key had while they were under way.  The model keeps the states
 * of a key that a read may still find, by number.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/uring.h"

#define DEPTH		256		/* commands under way */
#define KEYS		2048
#define OPS		8		/* in a batch */
#define HISTORY		16		/* states of a key that are kept */
#define SPAN		24		/* keys in the range of a scan */
#define ROOM		8192		/* bytes at `val` */
#define LARGE		5000		/* a value that gets a block of its own */
#define KEY_ROOM	112
#define COLS		4

static const __u16 col_ids[COLS] = { 0, 1, 5, 200 };

enum kind {
	PLAIN,		/* column 0 alone */
	COUNTER,	/* a number that is added to */
	COLUMNS,	/* changed column by column */
};

/* Bytes that the change with this tag has written. */
struct column {
	__u32 tag;
	__u32 len;			/* or KVTREE_COL_ABSENT */
};

struct state {
	bool there;
	__u64 version;			/* 0: not yet known */
	__u64 number;			/* of a counter */
	struct column col[COLS];
};

struct slot;

struct key {
	struct kvt_bytes name;
	char text[KEY_ROOM];
	enum kind kind;
	__u32 last;			/* state after all changes submitted */
	__u32 settled;			/* state after all changes completed */
	__u32 pinned;			/* oldest state that a read may find */
	__u32 reads;			/* under way */
	const struct slot *owner;	/* the command that may change it */
	__u32 owned;			/* its operations on the key */
	__u64 version;			/* the largest so far */
	struct state state[HISTORY];
};

/* What the model knows of an operation when it is submitted. */
struct act {
	struct kvtree_op sent;
	struct key *key;
	bool exact;			/* only this command changes the key */
	__s32 want;			/* result of a change */
	bool made;			/* it made a state */
	__u32 state;			/* that state, or the one that a change or read met */
	__u32 lo, hi;			/* keys of a scan: lo up to, not including hi */
	__u32 from[SPAN];		/* the states that they had */
};

/* A command and the memory that it uses. */
struct slot {
	struct kvtree_op op[OPS];
	struct act act[OPS];
	__u32 nr;			/* operations */
	__u32 done;			/* of these, by earlier submissions */
	bool batch;
	bool out;			/* the operation comes back */
	bool busy;
	struct kvtree_scan scan[OPS];
	struct kvtree_col cols[OPS][COLS];
	unsigned char val[OPS][ROOM] __attribute__((aligned(8)));
};

struct model {
	int fd;
	struct kvt_ring ring;
	unsigned int sqe_flags;
	bool fixed;			/* registered buffers are offered */
	struct kvt_rand rand;
	__u32 tag;			/* of the last change */
	__u64 todo;			/* operations to submit */
	__u64 submitted;		/* operations */
	__u64 commands;			/* completed */
	__u64 again;			/* batches that were cut off */
	__u64 reads_beside;		/* reads that changes met */
	__u64 answers[KVTREE_OP_NR];
	__u64 misses, swaps_failed, records;
	__u32 under_way, most;
	struct key key[KEYS];
	struct slot slot[DEPTH];
};

/*
 * The model's keys, states and contents
 */

/* Ascending by number, and sharing 0, 8, 40 and 100 bytes. */
static void name_key(struct key *key, __u32 n)
{
	static const int shared[] = { 0, 8, 40, 100 };
	int family = n / (KEYS / NR(shared));

	memset(key->text, 'a' + family, shared[family]);
	sprintf(key->text + shared[family], "%06u", n);
	key->name = kvt_bytes(key->text, shared[family] + 6);
	key->kind = n % 4 < 2 ? PLAIN : n % 4 == 2 ? COUNTER : COLUMNS;
}

static struct state *state_of(struct key *key, __u32 nr)
{
	return &key->state[nr % HISTORY];
}

static __u32 number_of(const struct model *m, const struct key *key)
{
	return key - m->key;
}

static __u64 word(const struct model *m, const struct key *key, int col, __u32 tag, __u32 at)
{
	return (((__u64)tag << 32 | number_of(m, key) << 8 | col) + at) * 0x9e3779b97f4a7c15ull;
}

static void fill(const struct model *m, const struct key *key, int col,
		 const struct column *c, unsigned char *to)
{
	__u32 at, n;
	__u64 w;

	for (at = 0; at < c->len; at += n) {
		n = c->len - at < 8 ? c->len - at : 8;
		w = word(m, key, col, c->tag, at);
		memcpy(to + at, &w, n);
	}
}

static bool filled(const struct model *m, const struct key *key, int col,
		   const struct column *c, const unsigned char *p)
{
	__u32 at, n;
	__u64 w;

	for (at = 0; at < c->len; at += n) {
		n = c->len - at < 8 ? c->len - at : 8;
		w = word(m, key, col, c->tag, at);
		if (memcmp(p + at, &w, n))
			return false;
	}
	return true;
}

/* Bytes of a column; one that does not exist has none. */
static __u32 col_len(const struct state *s, int col)
{
	return s->col[col].len == KVTREE_COL_ABSENT ? 0 : s->col[col].len;
}

/* Whether these are the bytes that a column of this state has. */
static bool col_matches(const struct model *m, const struct key *key, const struct state *s,
			int col, const unsigned char *p, __u32 len)
{
	if (len != col_len(s, col))
		return false;
	if (key->kind == COUNTER)
		return !len || !memcmp(p, &s->number, len);
	return !len || filled(m, key, col, &s->col[col], p);
}

/* ... or all of them, described and one behind the other. */
static bool cols_match(const struct model *m, const struct key *key, const struct state *s,
		       const void *descs, int ncols, bool absent, const unsigned char *p,
		       __u32 len)
{
	struct kvtree_col desc;
	int i, n = 0;

	for (i = 0; i < COLS; i++) {
		if (s->col[i].len == KVTREE_COL_ABSENT && !absent)
			continue;
		if (n == ncols)
			return false;
		memcpy(&desc, (const char *)descs + n++ * sizeof(desc), sizeof(desc));
		if (desc.id != col_ids[i] || desc.reserved || desc.len != s->col[i].len)
			return false;
		if (col_len(s, i) > len || !col_matches(m, key, s, i, p, col_len(s, i)))
			return false;
		p += col_len(s, i);
		len -= col_len(s, i);
	}
	return n == ncols && !len;
}

/*
 * Changes: their expected results
 */

static struct state *make_state(struct key *key)
{
	struct state *s = state_of(key, key->last + 1);

	*s = *state_of(key, key->last);
	s->version = 0;
	key->last++;
	return s;
}

static void empty_state(struct state *s)
{
	int i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < COLS; i++)
		s->col[i].len = KVTREE_COL_ABSENT;
}

static bool has_room(const struct key *key)
{
	return key->last + 1 - (key->reads ? key->pinned : key->settled) < HISTORY;
}

/* Apply the conditions of a change to the state that it will meet. */
static __s32 meets(const struct kvtree_op *op, const struct state *s)
{
	bool there = op->opcode == KVTREE_OP_REMOVE || (op->flags & KVTREE_F_REPLACE);
	bool version = op->opcode == KVTREE_OP_CAS || (op->flags & KVTREE_F_VERSION);

	if (there && !s->there)
		return -ENOENT;
	if ((op->flags & KVTREE_F_CREATE) && s->there)
		return -EEXIST;
	/* One that is not yet known is never guessed. */
	if (version && (!s->there != !op->version || s->version != op->version))
		return -ECANCELED;
	return 0;
}

static __u32 some_len(struct model *m)
{
	return kvt_rand_below(&m->rand, 64) ? kvt_rand_below(&m->rand, 65) : LARGE;
}

/* The version that the key has, or one that it never had. */
static __u64 some_version(struct model *m, struct key *key)
{
	const struct state *s = state_of(key, key->last);

	switch (kvt_rand_below(&m->rand, 4)) {
	case 0:
		return 1ull << 62;
	case 1:
		if (!s->there)
			return 1ull << 61;
		return 0;
	default:
		/* Not yet known: that of an earlier operation of the batch. */
		if (s->there && !s->version)
			return 1ull << 63;
		return s->there ? s->version : 0;
	}
}

static void plan_columns(struct model *m, struct slot *slot, int i, struct kvtree_op *op,
			 struct key *key, struct state *s)
{
	struct kvtree_col *descs = slot->cols[i];
	struct column c;
	int col;

	op->flags |= KVTREE_F_COLS;
	if (!kvt_rand_below(&m->rand, 4))
		op->flags |= KVTREE_F_WHOLE;
	op->arg = kvt_ptr(descs);
	if (s && (op->flags & KVTREE_F_WHOLE)) {
		for (col = 0; col < COLS; col++)
			s->col[col].len = KVTREE_COL_ABSENT;
	}
	for (col = 0; col < COLS; col++) {
		if (kvt_rand_below(&m->rand, 2))
			continue;
		c.tag = m->tag;
		c.len = kvt_rand_below(&m->rand, 4) ? kvt_rand_below(&m->rand, 40) :
						      KVTREE_COL_ABSENT;
		if (!col && !kvt_rand_below(&m->rand, 32))
			c.len = LARGE;
		descs[op->ncols++] = (struct kvtree_col){ .id = col_ids[col], .len = c.len };
		if (s)
			s->col[col] = c;
		if (c.len == KVTREE_COL_ABSENT)
			continue;
		fill(m, key, col, &c, slot->val[i] + op->val_len);
		op->val_len += c.len;
	}
}

static void plan_value(struct model *m, struct slot *slot, int i, struct kvtree_op *op,
		       struct key *key, struct state *s)
{
	struct column c = { .tag = m->tag, .len = some_len(m) };
	int col;

	op->val_len = c.len;
	fill(m, key, 0, &c, slot->val[i]);
	if (!s)
		return;
	for (col = 0; col < COLS; col++)
		s->col[col].len = KVTREE_COL_ABSENT;
	s->col[0] = c;
}

/* Which change, and on what condition. */
static void plan_opcode(struct model *m, struct key *key, struct kvtree_op *op)
{
	static const int puts[] = { 0, 0, KVTREE_F_CREATE, KVTREE_F_REPLACE };
	__u32 r = kvt_rand_below(&m->rand, 100);

	if (r < 20) {
		op->opcode = KVTREE_OP_REMOVE;
		if (r < 8)
			op->flags |= KVTREE_F_VERSION;
	} else if (key->kind == COUNTER) {
		op->opcode = KVTREE_OP_ADD;
		op->arg = kvt_rand(&m->rand);
		if (r < 40)
			op->flags |= KVTREE_F_REPLACE;
	} else if (r < 50) {
		op->opcode = KVTREE_OP_CAS;
	} else {
		op->opcode = KVTREE_OP_PUT;
		op->flags |= puts[kvt_rand_below(&m->rand, NR(puts))];
	}
	if (op->opcode == KVTREE_OP_CAS || (op->flags & KVTREE_F_VERSION))
		op->version = some_version(m, key);
}

static void plan_change(struct model *m, struct slot *slot, int i, struct key *key)
{
	struct kvtree_op *op = &slot->op[i];
	struct act *act = &slot->act[i];
	struct state *s = NULL;

	plan_opcode(m, key, op);
	m->tag++;
	act->want = meets(op, state_of(key, key->last));
	act->made = !act->want;
	if (act->made) {
		s = make_state(key);
		if (op->opcode == KVTREE_OP_REMOVE || !s->there)
			empty_state(s);
		s->there = op->opcode != KVTREE_OP_REMOVE;
	}
	act->state = key->last;
	if (op->opcode == KVTREE_OP_ADD && s) {
		s->number += op->arg;
		s->col[0] = (struct column){ .len = 8 };
	} else if (op->opcode == KVTREE_OP_PUT || op->opcode == KVTREE_OP_CAS) {
		op->val = kvt_ptr(slot->val[i]);
		if (key->kind == COLUMNS && kvt_rand_below(&m->rand, 4))
			plan_columns(m, slot, i, op, key, s);
		else
			plan_value(m, slot, i, op, key, s);
	}
	key->owner = slot;
	key->owned++;
}

static void disown(struct key *key)
{
	if (!--key->owned)
		key->owner = NULL;
}

/*
 * Reads: which states they may find
 */

static __u32 pin(struct key *key)
{
	if (!key->reads++)
		key->pinned = key->settled;
	return key->settled;
}

static void plan_get(struct model *m, struct slot *slot, int i, struct key *key)
{
	struct kvtree_op *op = &slot->op[i];
	struct act *act = &slot->act[i];
	int col;

	op->opcode = KVTREE_OP_GET;
	op->val = kvt_ptr(slot->val[i]);
	op->val_len = ROOM;
	if (key->kind == COLUMNS && kvt_rand_below(&m->rand, 4)) {
		op->flags |= KVTREE_F_COLS;
		op->arg = kvt_ptr(slot->cols[i]);
		op->ncols = COLS;
		if (kvt_rand_below(&m->rand, 2))
			op->flags |= KVTREE_F_ALL_COLS;
		for (col = 0; col < COLS; col++)
			slot->cols[i][col] = (struct kvtree_col){ .id = col_ids[col] };
	} else if (!kvt_rand_below(&m->rand, 16)) {
		op->val_len = 16;
	}
	act->state = pin(key);
	/* Changes of the same command come before it, and no others meanwhile. */
	act->exact = key->owner == slot;
	if (act->exact) {
		act->state = key->last;
		key->owned++;
	}
}

/* The keys from lo up to hi, forward or backward, with their contents. */
static void plan_scan(struct model *m, struct slot *slot, int i)
{
	static const int flags[] = { 0, KVTREE_SCAN_KEYS_ONLY, KVTREE_SCAN_ALL_COLS };
	struct kvtree_scan *scan = &slot->scan[i];
	struct kvtree_op *op = &slot->op[i];
	struct act *act = &slot->act[i];
	const struct key *start, *end;
	__u32 n;

	act->lo = kvt_rand_below(&m->rand, KEYS - SPAN);
	act->hi = act->lo + 1 + kvt_rand_below(&m->rand, SPAN);
	for (n = act->lo; n < act->hi; n++)
		act->from[n - act->lo] = pin(&m->key[n]);

	memset(scan, 0, sizeof(*scan));
	scan->flags = flags[kvt_rand_below(&m->rand, NR(flags))];
	if (kvt_rand_below(&m->rand, 2)) {
		scan->flags |= KVTREE_SCAN_END_INCL;
		start = &m->key[act->lo];
		end = &m->key[act->hi - 1];
	} else {
		start = &m->key[act->lo];
		end = &m->key[act->hi];
	}
	if (kvt_rand_below(&m->rand, 2)) {
		/* The start belongs to the range, the end does so if it is said. */
		scan->flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_END_INCL;
		end = start;
		start = &m->key[act->hi - 1];
	}
	scan->end = kvt_ptr(end->name.data);
	scan->end_len = end->name.len;
	scan->limit = kvt_rand_below(&m->rand, 2) ? 0 : 1 + kvt_rand_below(&m->rand, 8);
	op->opcode = KVTREE_OP_SCAN;
	op->key = kvt_ptr(start->name.data);
	op->key_len = start->name.len;
	op->arg = kvt_ptr(scan);
	op->arg_size = sizeof(*scan);
	op->val = kvt_ptr(slot->val[i]);
	op->val_len = kvt_rand_below(&m->rand, 8) ? ROOM : LARGE + 512;
}

/*
 * Commands
 */

static void give_key(struct model *m, struct kvtree_op *op, const struct key *key)
{
	op->key_len = key->name.len;
	if (key->name.len <= KVTREE_KEY_INLINE && kvt_rand_below(&m->rand, 4)) {
		op->flags |= KVTREE_F_KEY_INLINE;
		memcpy(op->key_inline, key->name.data, key->name.len);
	} else {
		op->key = kvt_ptr(key->name.data);
	}
}

static struct key *find_changeable(struct model *m, const struct slot *slot)
{
	struct key *key;
	int tries;

	for (tries = 0; tries < 8; tries++) {
		key = &m->key[kvt_rand_below(&m->rand, KEYS)];
		if ((!key->owner || key->owner == slot) && has_room(key))
			return key;
	}
	return NULL;
}

static void plan_op(struct model *m, struct slot *slot, int i, bool gets)
{
	__u32 r = gets ? 99 : kvt_rand_below(&m->rand, 100);
	struct kvtree_op *op = &slot->op[i];
	struct act *act = &slot->act[i];
	struct key *key = NULL;

	memset(op, 0, sizeof(*op));
	memset(act, 0, offsetof(struct act, from));
	if (r < 4) {
		plan_scan(m, slot, i);
	} else {
		if (r < 55)
			key = find_changeable(m, slot);
		act->key = key ?: &m->key[kvt_rand_below(&m->rand, KEYS)];
		if (key)
			plan_change(m, slot, i, key);
		else
			plan_get(m, slot, i, act->key);
		give_key(m, op, act->key);
	}
	act->sent = *op;
}

/* Whether the completion alone has all results. */
static bool op_may_be_blind(const struct model *m, const struct kvtree_op *op)
{
	if (!(m->ring.flags & IORING_SETUP_CQE32))
		return false;
	if (op->opcode == KVTREE_OP_SCAN || (op->flags & KVTREE_F_COLS))
		return false;
	return op->opcode != KVTREE_OP_GET || op->val_len == ROOM;
}

static void sqe_of_op(struct model *m, struct slot *slot, struct io_uring_sqe *sqe)
{
	struct kvtree_op *op = &slot->op[0];
	__u64 data = slot - m->slot;

	slot->out = true;
	if ((m->ring.flags & IORING_SETUP_SQE128) && kvt_rand_below(&m->rand, 4)) {
		/* The version comes with the completion. */
		slot->out = !op_may_be_blind(m, op) || kvt_rand_below(&m->rand, 2);
		kvt_sqe_inline(sqe, m->fd, op, slot->out ? op : NULL, data);
		/* Makes bytes that are not written visible. */
		memset(op, 0x5a, sizeof(*op));
	} else {
		kvt_sqe_op(sqe, m->fd, op, data);
	}
	if (m->fixed && slot->act[0].sent.val && !kvt_rand_below(&m->rand, 4)) {
		sqe->rw_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = 0;
	}
}

static void submit_slot(struct model *m, struct slot *slot)
{
	struct io_uring_sqe *sqe;

	/* The kernel's thread may not yet have said that it has read others. */
	while (!(sqe = kvt_ring_sqe(&m->ring))) {
		kvt_ring_submit(&m->ring);
		sched_yield();
	}
	if (slot->batch)
		kvt_sqe_batch(sqe, m->fd, &slot->op[slot->done], slot->nr - slot->done,
			      slot - m->slot);
	else
		sqe_of_op(m, slot, sqe);
	sqe->flags |= m->sqe_flags;
	if (kvt_rand_below(&m->rand, 2)) {
		sqe->flags |= IOSQE_FIXED_FILE;
		sqe->fd = 0;
	}
}

static void start_slot(struct model *m, struct slot *slot)
{
	bool gets;
	__u32 i;

	slot->batch = !kvt_rand_below(&m->rand, 8);
	slot->nr = slot->batch ? 1 + kvt_rand_below(&m->rand, OPS) : 1;
	slot->out = true;
	slot->done = 0;
	slot->busy = true;
	gets = slot->batch && !kvt_rand_below(&m->rand, 3);
	for (i = 0; i < slot->nr; i++)
		plan_op(m, slot, i, gets);
	submit_slot(m, slot);
	m->submitted += slot->nr;
	if (++m->under_way > m->most)
		m->most = m->under_way;
}

/*
 * Completions
 */

/* Report an operation with a wrong answer. */
static bool wrong(const struct act *act, __s32 res, __u64 version)
{
	fprintf(stderr, "# opcode %u flags %#x key %.*s: result %d version %#llx", act->sent.opcode,
		act->sent.flags, act->key ? (int)act->key->name.len : 0,
		act->key ? act->key->text : "", res, (unsigned long long)version);
	if (act->key)
		fprintf(stderr, ", wanted %d, version %#llx given, state %u of %u settled, %u made",
			act->want, (unsigned long long)act->sent.version, act->state,
			act->key->settled, act->key->last);
	fputc('\n', stderr);
	return false;
}

/* Fields that nobody may have touched. */
static void check_untouched(const struct kvtree_op *op, const struct kvtree_op *sent, __s32 res)
{
	KVT_CHECK(op->opcode == sent->opcode && op->col == sent->col);
	KVT_CHECK(op->flags == sent->flags && op->key_len == sent->key_len);
	KVT_CHECK(!memcmp(op->key_inline, sent->key_inline, KVTREE_KEY_INLINE));
	KVT_CHECK(op->val == sent->val && op->reserved == sent->reserved);
	KVT_CHECK(op->result == res);
	if (res != -EMSGSIZE)
		KVT_CHECK(op->val_len == sent->val_len);
	if (sent->opcode != KVTREE_OP_ADD || res)
		KVT_CHECK(op->arg == sent->arg);
}

static void settle(struct key *key, __u32 nr, __u64 version)
{
	struct state *s = state_of(key, nr);

	if (s->there) {
		/* Perhaps a read has seen it before. */
		KVT_CHECK(!s->version || s->version == version);
		KVT_CHECK(version > key->version);
		s->version = version;
		key->version = version;
	} else {
		KVT_CHECK(version == state_of(key, nr - 1)->version);
	}
	key->settled = nr;
}

static void check_change(struct slot *slot, struct act *act, const struct kvtree_op *op,
			 __s32 res, __u64 version)
{
	struct key *key = act->key;
	const struct state *s = state_of(key, act->state);

	KVT_CHECK(res == act->want || wrong(act, res, version));
	if (act->made)
		settle(key, act->state, version);
	else if (res == -ENOENT && !(act->sent.flags & KVTREE_F_VERSION))
		KVT_CHECK(version == 0);
	else if (res != -ENOENT)
		KVT_CHECK(version == (s->there ? s->version : 0));
	if (slot->out && act->made && act->sent.opcode == KVTREE_OP_ADD)
		KVT_CHECK(op->arg == s->number - act->sent.arg);
	disown(key);
}

/* Whether a read that found this version may have found this state. */
static bool may_be(const struct key *key, const struct state *s, __u64 version)
{
	if (!s->there)
		return false;
	return s->version ? s->version == version : version > key->version;
}

static bool get_matches(const struct model *m, const struct slot *slot, int i,
			const struct state *s, __s32 res)
{
	const struct act *act = &slot->act[i];
	const struct key *key = act->key;

	if (res == -EMSGSIZE)
		return col_len(s, 0) > act->sent.val_len &&
		       col_len(s, 0) == slot->op[i].val_len;
	if (act->sent.flags & KVTREE_F_COLS)
		return cols_match(m, key, s, slot->cols[i], slot->op[i].ncols,
				  !(act->sent.flags & KVTREE_F_ALL_COLS), slot->val[i], res);
	return col_matches(m, key, s, 0, slot->val[i], res);
}

/*
 * A read has found this version in one of the matching states.  States with versions
 * not yet known may look the same.
 */
struct found {
	__u64 version;
	struct state *state;
	__u32 nr;			/* of states that it may be */
};

/* Whether the state may be the one; then it is entered. */
static void find(struct found *found, struct state *s)
{
	/* Versions do not occur twice. */
	if (found->state && found->state->version == found->version)
		return;
	found->nr++;
	found->state = s;
}

static bool confirm(const struct found *found)
{
	/* It is the version that the change must return. */
	if (found->nr == 1)
		found->state->version = found->version;
	return found->nr;
}

static void check_get(struct model *m, struct slot *slot, int i, __s32 res, __u64 version)
{
	struct act *act = &slot->act[i];
	struct key *key = act->key;
	__u32 until = act->exact ? act->state : key->last, nr;
	struct found found = { .version = version };
	bool gone = false;
	struct state *s;

	KVT_CHECK(res >= 0 || res == -ENOENT || res == -EMSGSIZE);
	for (nr = act->state; nr <= until; nr++) {
		s = state_of(key, nr);
		gone = gone || !s->there;
		if (res != -ENOENT && may_be(key, s, version) &&
		    get_matches(m, slot, i, s, res))
			find(&found, s);
	}
	if (res == -ENOENT)
		KVT_CHECK((gone && version == 0) || wrong(act, res, version));
	else
		KVT_CHECK(confirm(&found) || wrong(act, res, version));
	m->reads_beside += until != act->state;
	m->misses += res == -ENOENT;
	key->reads--;
	if (act->exact)
		disown(key);
}

static bool rec_matches(const struct model *m, const struct key *key, const struct state *s,
			const struct kvtree_scan *scan, const struct kvtree_rec *rec)
{
	const unsigned char *val = (const unsigned char *)rec + rec->hdr_len + rec->key_len;
	size_t descs = rec->ncols * sizeof(struct kvtree_col);

	if (scan->flags & KVTREE_SCAN_KEYS_ONLY)
		return !rec->val_len && !rec->ncols;
	if (!(scan->flags & KVTREE_SCAN_ALL_COLS))
		return !rec->flags && col_matches(m, key, s, 0, val, rec->val_len);
	return rec->flags == KVTREE_REC_COLS && descs <= rec->val_len &&
	       cols_match(m, key, s, val, rec->ncols, false, val + descs, rec->val_len - descs);
}

/* The number of a record's key. */
static __u32 rec_number(const struct model *m, const struct kvtree_rec *rec)
{
	const char *name = (const char *)rec + rec->hdr_len;
	char digits[7] = {};
	__u32 n;

	KVT_CHECK(rec->key_len >= 6);
	memcpy(digits, name + rec->key_len - 6, 6);
	n = strtoul(digits, NULL, 10);
	KVT_CHECK(n < KEYS);
	KVT_CHECK(!kvt_cmp(kvt_bytes(name, rec->key_len), m->key[n].name));
	return n;
}

static void check_rec(struct model *m, const struct act *act, const struct kvtree_scan *scan,
		      const struct kvtree_rec *rec)
{
	struct key *key = &m->key[rec_number(m, rec)];
	struct found found = { .version = rec->version };
	struct state *s;
	__u32 nr;

	for (nr = act->from[number_of(m, key) - act->lo]; nr <= key->last; nr++) {
		s = state_of(key, nr);
		if (may_be(key, s, rec->version) && rec_matches(m, key, s, scan, rec))
			find(&found, s);
	}
	KVT_CHECK(confirm(&found) || wrong(act, rec_number(m, rec), rec->version));
}

/* A key that a scan has skipped was absent at some time. */
static void check_passed(struct model *m, const struct act *act, __u32 n)
{
	struct key *key = &m->key[n];
	bool there = true;
	__u32 nr;

	for (nr = act->from[n - act->lo]; nr <= key->last; nr++)
		there = there && state_of(key, nr)->there;
	KVT_CHECK(!there);
}

static void check_scan(struct model *m, struct slot *slot, int i, __s32 res)
{
	const struct kvtree_scan *scan = &slot->scan[i];
	const struct act *act = &slot->act[i];
	bool reverse = scan->flags & KVTREE_SCAN_REVERSE;
	/* The next key that may come: from `lo` up, or from `hi` down. */
	__u32 lo = act->lo, hi = act->hi, n, count = 0;
	__s32 at;

	KVT_CHECK(res >= 0 && (__u32)res <= act->sent.val_len);
	KVT_CHECK(!(scan->out_flags & ~KVTREE_SCAN_DONE));
	for (at = 0; at < res; count++) {
		const struct kvtree_rec *rec = (const void *)(slot->val[i] + at);

		KVT_CHECK(at % 8 == 0 && rec->rec_len <= (__u32)(res - at));
		KVT_CHECK(rec->hdr_len + rec->key_len + rec->val_len <= rec->rec_len);
		n = rec_number(m, rec);
		KVT_CHECK(n >= lo && n < hi);
		while (reverse ? hi > n + 1 : lo < n)
			check_passed(m, act, reverse ? --hi : lo++);
		if (reverse)
			hi = n;
		else
			lo = n + 1;
		check_rec(m, act, scan, rec);
		at += rec->rec_len;
	}
	KVT_CHECK(count == scan->count && (!scan->limit || count <= scan->limit));
	m->records += count;
	if (scan->out_flags & KVTREE_SCAN_DONE)
		for (; lo < hi; lo++)
			check_passed(m, act, lo);
	for (n = act->lo; n < act->hi; n++)
		m->key[n].reads--;
}

/* One operation has this result; the version is the completion's, or the operation's. */
static void check_op(struct model *m, struct slot *slot, int i, __s32 res, __u64 version)
{
	const struct kvtree_op *op = &slot->op[i];
	struct act *act = &slot->act[i];

	if (slot->out) {
		check_untouched(op, &act->sent, res);
		version = op->version;
	}
	m->answers[act->sent.opcode]++;
	if (act->sent.opcode == KVTREE_OP_CAS)
		m->swaps_failed += res == -ECANCELED;
	if (act->sent.opcode == KVTREE_OP_SCAN)
		check_scan(m, slot, i, res);
	else if (act->sent.opcode == KVTREE_OP_GET)
		check_get(m, slot, i, res, version);
	else
		check_change(slot, act, op, res, version);
}

static void complete_batch(struct model *m, struct slot *slot, __s32 res)
{
	__u32 n;

	/* Nothing, where the first would have had to sleep. */
	if (res == -EAGAIN)
		res = 0;
	KVT_CHECK(res >= 0 && (__u32)res <= slot->nr - slot->done);
	for (n = slot->done + res; slot->done < n; slot->done++)
		check_op(m, slot, slot->done, slot->op[slot->done].result, 0);
}

static void complete(struct model *m, const struct kvt_cqe *cqe)
{
	struct slot *slot;

	KVT_CHECK(cqe->data < DEPTH);
	slot = &m->slot[cqe->data];
	KVT_CHECK(slot->busy);
	KVT_CHECK(!cqe->flags && !cqe->extra[1]);
	m->commands++;
	if (slot->batch) {
		complete_batch(m, slot, cqe->res);
		if (slot->done < slot->nr) {
			m->again++;
			submit_slot(m, slot);
			return;
		}
	} else {
		if ((m->ring.flags & IORING_SETUP_CQE32) && slot->out)
			KVT_CHECK(cqe->extra[0] == slot->op[0].version);
		check_op(m, slot, 0, cqe->res, cqe->extra[0]);
	}
	slot->busy = false;
	m->under_way--;
}

static void run(struct model *m)
{
	struct kvt_cqe cqe;
	__u32 next = 0;

	while (m->submitted < m->todo || m->under_way) {
		while (m->submitted < m->todo && m->under_way < DEPTH) {
			while (m->slot[next % DEPTH].busy)
				next++;
			start_slot(m, &m->slot[next % DEPTH]);
		}
		kvt_ring_wait(&m->ring, &cqe);
		do
			complete(m, &cqe);
		while (kvt_ring_peek(&m->ring, &cqe));
	}
}

/* When no command is under way, the store equals the model, including versions. */
static void check_store(struct model *m)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = {};
	const struct kvt_rec *rec;
	__u32 n, next = 0;
	size_t descs;

	KVT_CHECK(kvt_scan_all(m->fd, STR(""), &scan, 1 << 18, &list) == 0);
	for (n = 0; n < KEYS; n++) {
		struct key *key = &m->key[n];
		const struct state *s = state_of(key, key->last);

		KVT_CHECK(key->last == key->settled && !key->owned && !key->reads);
		if (!s->there)
			continue;
		KVT_CHECK(next < list.nr);
		rec = &list.rec[next++];
		descs = rec->ncols * sizeof(struct kvtree_col);
		KVT_CHECK(!kvt_cmp(rec->key, key->name));
		KVT_CHECK(rec->version == s->version);
		KVT_CHECK(cols_match(m, key, s, rec->val.data, rec->ncols, false,
				     (const unsigned char *)rec->val.data + descs,
				     rec->val.len - descs));
	}
	KVT_CHECK(next == list.nr);
	kvt_list_free(&list);
}

FIXTURE(model) {
	struct kvt_env env;
	struct model *m;
};

FIXTURE_VARIANT(model) {
	unsigned int ring_flags;
	unsigned int sqe_flags;
	__u64 ops;
};

FIXTURE_VARIANT_ADD(model, inline) {
	.ring_flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.ops = 1000000,
};

FIXTURE_VARIANT_ADD(model, by_pointer) {
	.ops = 100000,
};

FIXTURE_VARIANT_ADD(model, sqpoll) {
	.ring_flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQE128,
	.ops = 100000,
};

FIXTURE_VARIANT_ADD(model, defer_taskrun) {
	.ring_flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER |
		      IORING_SETUP_CQE32,
	.ops = 100000,
};

FIXTURE_VARIANT_ADD(model, async) {
	.ring_flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.sqe_flags = IOSQE_ASYNC,
	.ops = 10000,
};

FIXTURE_SETUP(model)
{
	struct kvtree_info info = {};
	struct iovec iov;
	struct model *m;
	int i;

	kvt_env_init(&self->env, "model", 0, 0);
	m = kvt_map_shared(sizeof(*m));
	self->m = m;
	m->fd = self->env.fd;
	m->sqe_flags = variant->sqe_flags;
	kvt_rand_init(&m->rand, variant->ring_flags + variant->sqe_flags);
	for (i = 0; i < KEYS; i++) {
		name_key(&m->key[i], i);
		empty_state(&m->key[i].state[0]);
	}
	ASSERT_EQ(0, kvt_ring_init(&m->ring, DEPTH, variant->ring_flags));
	ASSERT_EQ(0, kvt_ring_files(&m->ring, &m->fd, 1));
	ASSERT_EQ(0, kvt_ioctl(m->fd, KVTREE_IOC_INFO, &info));
	ASSERT_TRUE(info.features & KVTREE_FEAT_URING);
	m->fixed = info.features & KVTREE_FEAT_URING_FIXED;
	iov.iov_base = m->slot;
	iov.iov_len = sizeof(m->slot);
	if (m->fixed)
		ASSERT_EQ(0, kvt_ring_buffers(&m->ring, &iov, 1));
}

FIXTURE_TEARDOWN(model)
{
	kvt_ring_exit(&self->m->ring);
	kvt_env_exit(&self->env);
}

TEST_F_TIMEOUT(model, every_answer_is_one_that_was_true_meanwhile, 1800)
{
	__u64 ops = kvt_fewer(variant->ops, variant->ops < 100000 ? 1 : 10);
	__u64 before[KVTREE_STAT_NR], after[KVTREE_STAT_NR];
	struct model *m = self->m;
	int i;

	ASSERT_EQ(0, kvt_stats(m->fd, before));
	while (m->todo < ops) {
		m->todo += ops < 100000 ? ops : 100000;
		run(m);
		/* A lane takes a program that says nothing for long for one that hangs. */
		TH_LOG("%llu of %llu operations", m->submitted, ops);
	}
	ASSERT_EQ(0, kvt_stats(m->fd, after));
	for (i = 0; i < KVTREE_STAT_NR; i++)
		after[i] -= before[i];
	TH_LOG("%llu operations in %llu commands, up to %u at once; %llu reads beside changes",
	       m->submitted, m->commands, m->most, m->reads_beside);
	check_store(m);

	/* It was io_uring that served them, many at once. */
	EXPECT_EQ(m->commands, after[KVTREE_STAT_URING]);
	EXPECT_EQ(DEPTH, m->most);
	EXPECT_LE(m->todo, m->submitted);
	EXPECT_LT(0, m->reads_beside);
	/* Each was done, and once. */
	EXPECT_EQ(m->answers[KVTREE_OP_GET], after[KVTREE_STAT_GET]);
	EXPECT_EQ(m->misses, after[KVTREE_STAT_GET_MISS]);
	EXPECT_EQ(m->answers[KVTREE_OP_PUT], after[KVTREE_STAT_PUT]);
	EXPECT_EQ(m->answers[KVTREE_OP_CAS], after[KVTREE_STAT_CAS]);
	EXPECT_EQ(m->swaps_failed, after[KVTREE_STAT_CAS_FAIL]);
	EXPECT_EQ(m->answers[KVTREE_OP_REMOVE], after[KVTREE_STAT_REMOVE]);
	EXPECT_EQ(m->answers[KVTREE_OP_ADD], after[KVTREE_STAT_ADD]);
	EXPECT_EQ(m->answers[KVTREE_OP_SCAN], after[KVTREE_STAT_SCAN]);
	EXPECT_EQ(m->records, after[KVTREE_STAT_SCAN_RECORDS]);
	EXPECT_EQ(0, after[KVTREE_STAT_ERROR]);
}

TEST_HARNESS_MAIN
