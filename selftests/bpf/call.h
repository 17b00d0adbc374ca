/* SPDX-License-Identifier: GPL-2.0 */
/* A request of a test to a program to call a kfunc, in the program's .bss. */
#ifndef KVT_BPF_CALL_H
#define KVT_BPF_CALL_H

enum call_op {
	CALL_GET,
	CALL_EXISTS,
	CALL_CEIL,
	CALL_FLOOR,
	CALL_LPM,
	CALL_ITER,	/* ret: records; their keys, of CALL_SLOT bytes each, at val */
	CALL_POST,
	CALL_PUT,	/* from here on changes */
	CALL_CAS,
	CALL_ADD,
	CALL_REMOVE,
	CALL_NR
};

/* The maps of a program, by the access that the test binds them for. */
enum call_map {
	CALL_READ,
	CALL_WRITE,
	CALL_BOTH,
	CALL_OTHER,	/* for both, to another store, or not at all */
	CALL_MAPS
};

#define CALL_KEY	1024
#define CALL_VAL	4096
#define CALL_SLOT	16
#define CALL_SLOTS	8

struct call {
	__u32 op;
	__s32 ret;
	__u32 done;		/* how often it was made */
	__u32 map;		/* by which store it is called, CALL_* */
	__u32 key_size;		/* room for the key */
	__u32 val_size;
	__u32 pid;		/* for programs that run for others, too; 0: not now */
	struct bpf_kvt_req req;
	__u8 key[CALL_KEY];
	__u8 val[CALL_VAL];
};

#endif /* KVT_BPF_CALL_H */
