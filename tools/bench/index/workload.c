// SPDX-License-Identifier: GPL-2.0
/* See workload.h. */
#include "workload.h"

/*
 * Steps that other maps take as well come before those that only kvtree takes, which change what
 * the next steps find.  But after churn_W7, the keys to be put are gone.
 */
static const struct step random_8[] = {
	{ "insert_W1", "W1", PHASE_INSERT },
	{ "chase", "W1", PHASE_CHASE },
	{ "get_W1", "W1", PHASE_GET },
	{ "batch32_get_W1", "W1", PHASE_BATCH },
	{ "scan100_W1", "W1", PHASE_SCAN_100 },
	{ "scan_W4", "W4", PHASE_SCAN },
	{ "mix_W5", "W5", PHASE_MIX },
	{ "put_W1", "W1", PHASE_PUT },
	{ "batch32_put_W1", "W1", PHASE_PUT_BATCH },
	{ "churn_W7", "W7", PHASE_CHURN },
	{ 0 }
};

static const struct step decimal[] = {
	{ "insert_W2", "W2", PHASE_INSERT },
	{ "get_W2", "W2", PHASE_GET },
	{ "batch32_get_W2", "W2", PHASE_BATCH },
	{ "scan100_W2", "W2", PHASE_SCAN_100 },
	{ "put_W2", "W2", PHASE_PUT },
	{ "batch32_put_W2", "W2", PHASE_PUT_BATCH },
	{ 0 }
};

static const struct step prefix_40[] = {
	{ "insert_W3", "W3", PHASE_INSERT },
	{ "get_W3", "W3", PHASE_GET },
	{ "batch32_get_W3", "W3", PHASE_BATCH },
	{ "scan100_W3", "W3", PHASE_SCAN_100 },
	{ "put_W3", "W3", PHASE_PUT },
	{ "batch32_put_W3", "W3", PHASE_PUT_BATCH },
	{ 0 }
};

static const struct step ascending[] = {
	{ "insert_ascending_W6", "W6", PHASE_INSERT },
	{ 0 }
};

static const struct step descending[] = {
	{ "insert_descending_W6", "W6", PHASE_INSERT },
	{ 0 }
};

static const struct step user[] = {
	{ "insert_W8", "W8", PHASE_INSERT },
	{ "mycsb_a_W8", "W8", PHASE_COLS_A },
	{ "mycsb_b_W8", "W8", PHASE_COLS_B },
	{ "mycsb_c_W8", "W8", PHASE_COLS_C },
	{ "mycsb_e_W8", "W8", PHASE_COLS_E },
	{ 0 }
};

static const struct step ten_digits[] = {
	{ "insert_digits_W8", "W8", PHASE_INSERT },
	{ "mycsb_a_digits_W8", "W8", PHASE_COLS_A },
	{ "mycsb_b_digits_W8", "W8", PHASE_COLS_B },
	{ "mycsb_c_digits_W8", "W8", PHASE_COLS_C },
	{ "mycsb_e_digits_W8", "W8", PHASE_COLS_E },
	{ 0 }
};

/* The workloads of the paper on the Bw-tree: see its section VI. */
static const struct step synthetic[] = {
	{ "insert_W9", "W9", PHASE_INSERT },
	{ "synthetic_W9", "W9", PHASE_SYNTHETIC },
	{ 0 }
};

static const struct step gamers[] = {
	{ "insert_W10", "W10", PHASE_INSERT },
	{ "gamers_W10", "W10", PHASE_GAMERS },
	{ 0 }
};

static const struct step chunks[] = {
	{ "insert_W11", "W11", PHASE_INSERT },
	{ "chunks_W11", "W11", PHASE_CHUNKS },
	{ 0 }
};

const struct group groups[] = {
	{ KEYS_RANDOM_8, false, 0, random_8 },
	{ KEYS_DECIMAL, false, 0, decimal },
	{ KEYS_COMMON_32, false, 0, prefix_40 },
	{ KEYS_ASCENDING, false, 0, ascending },
	{ KEYS_DESCENDING, false, 0, descending },
	{ KEYS_USER, true, 0, user },
	{ KEYS_TEN_DIGITS, true, 0, ten_digits },
	{ KEYS_RANDOM_8, false, 0, synthetic },
	{ KEYS_GAMER, false, 1200, gamers },
	{ KEYS_HASH_20, false, 44, chunks },
	{ .steps = NULL }
};
