/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is known of a workload: its operations, their results, and the orders in which
 * they can have taken place.
 *
 * An operation follows from its number alone (life, worker, index among the worker's
 * operations), and a value from the number of the operation that wrote it.  So every
 * byte of a value can be checked.
 */
#ifndef CRASH_ORACLE_H
#define CRASH_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRASH_KEYS	320u
#define CRASH_WORKERS	8u
#define CRASH_COLS	4u
#define CRASH_KEY_BYTES	300u	/* the longest key has fewer */
#define CRASH_DATA_MIN	16u	/* bytes of a column that is not empty */
#define CRASH_DATA_MAX	(256u << 10)

enum crash_kind {
	CRASH_PUT,		/* the whole value */
	CRASH_CAS,		/* the same, at the version found before */
	CRASH_COLUMNS,		/* some columns */
	CRASH_WHOLE,		/* some columns, and no others stay */
	CRASH_ADD,
	CRASH_REMOVE,
	CRASH_SYNC,
};

/* The column for numbers. */
#define CRASH_ADD_COL	1

/* The key of which lives before the one with a workload add one to its number. */
#define CRASH_LIVES_KEY	0

/* A column after an operation; the operation that wrote it determines its contents. */
struct crash_col {
	uint16_t id;
	uint16_t gone;		/* of an operation: it is removed */
	uint32_t len;
	uint64_t op;
};

struct crash_op {
	uint64_t id;
	uint32_t key;
	enum crash_kind kind;
	bool sync;
	uint64_t addend;
	uint32_t ncols;
	struct crash_col col[CRASH_COLS];
};

/* The value of a key. */
struct crash_value {
	bool present;
	bool number;		/* it is `sum`, and no columns */
	uint32_t ncols;
	uint64_t version;
	uint64_t sum;
	struct crash_col col[CRASH_COLS];
};

/* What became of an operation. */
struct crash_result {
	uint64_t op;
	uint64_t start;		/* the count of such moments when it began */
	uint64_t end;		/* ... and when it had returned */
	uint64_t version;	/* made or removed */
	uint64_t sum;		/* ADD: the number that it stored */
	int32_t result;
	uint32_t done;		/* 1: the rest is filled */
	uint64_t pad[2];
};

/* How far a life came. */
enum crash_phase {
	CRASH_NOTHING,
	CRASH_FORMATTED,
	CRASH_ATTACHED,		/* `base` is filled */
	CRASH_DETACHED,
};

#define CRASH_ORACLE_MAGIC	0x6861737263747666ull
#define CRASH_RESULTS_MAX	16384u		/* of a worker */

struct crash_oracle_head {
	uint64_t magic;
	uint32_t life;
	uint32_t workers;
	uint32_t phase;		/* enum crash_phase */
	uint32_t lives;		/* before it, in the same record */
	uint64_t floor;		/* versions of earlier lives are not above it */
};

/* The format in a file, or on a device. */
struct crash_oracle {
	union {
		struct crash_oracle_head head;
		char sector[4096];
	};
	union {
		struct crash_value base[CRASH_KEYS];	/* when the life began */
		char bases[64 << 10];
	};
	struct crash_result result[CRASH_WORKERS][CRASH_RESULTS_MAX];
};

_Static_assert(sizeof(struct crash_result) == 64, "a sector has whole ones");
_Static_assert(sizeof(struct crash_value) * CRASH_KEYS <= 64 << 10, "bases");

static inline uint64_t crash_op_id(uint32_t life, uint32_t worker, uint32_t place)
{
	return (uint64_t)life << 40 | (uint64_t)worker << 32 | place;
}

uint64_t crash_mix(uint64_t x);
void crash_op_make(struct crash_op *op, uint64_t id);
size_t crash_key_make(char *key, uint32_t nr);
/* The number of a key, or -1: it is none of these. */
int crash_key_parse(const void *key, size_t len);
void crash_data_make(void *data, uint32_t len, uint64_t op, uint32_t key, uint16_t col);
/* Whether bytes are what some operation wrote there; it goes to *op. */
bool crash_data_parse(const void *data, uint32_t len, uint32_t key, uint16_t col,
		      uint64_t *op);
/* Apply an operation to a value. */
void crash_op_apply(struct crash_value *value, const struct crash_op *op, uint64_t version,
		    uint64_t sum);

#endif /* CRASH_ORACLE_H */
