/* SPDX-License-Identifier: GPL-2.0 */
/* Settings of the hooks by a test, and their results, in the programs' .bss. */
#ifndef KVT_BPF_HOOKS_H
#define KVT_BPF_HOOKS_H

/* What a filter selects. */
enum pick {
	PICK_NONE,
	PICK_ALL,
	PICK_KEY,	/* keys that end with an even byte */
	PICK_VALUE,	/* values with an odd byte at PICK_AT */
	PICK_COLUMN,	/* values with a column PICK_ID of more than 3 bytes */
	PICK_LARGE,	/* more than 1000 bytes in column 0 */
	PICK_OTHER,	/* the rest of PICK_KEY */
	PICKS
};

#define PICK_AT		2
#define PICK_ID		5

/*
 * What the validator refuses: values that begin with '!'; 8 bytes in column 7 that
 * are more than LIMIT; columns 1 and 2 that are both "x"; keys that begin with '!'.
 */
#define LIMIT_ID	7
#define LIMIT		100

struct hooks {
	__u32 pick;		/* of the first filter; the second has PICK_OTHER */
	__u64 asked;		/* how often a filter was */
	__u64 judged;		/* how often the validator was */
	__u32 key_len;		/* what the validator saw last */
	__u32 val_len;
	__u64 version;
	__u32 wrong;		/* what cannot be was seen */
};

#endif /* KVT_BPF_HOOKS_H */
