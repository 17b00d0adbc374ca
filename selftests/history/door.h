/* SPDX-License-Identifier: GPL-2.0 */
/* An operation on its way to a BPF program and back, as its context or in its packet. */
#ifndef KVT_HISTORY_DOOR_H
#define KVT_HISTORY_DOOR_H

enum door_op {
	DOOR_GET,
	DOOR_PUT,
	DOOR_CAS,
	DOOR_ADD,
	DOOR_REMOVE,
};

#define DOOR_KEY	64
#define DOOR_VAL	24

struct door_call {
	__u32 op;		/* enum door_op */
	__s32 ret;
	__u32 key_len;
	__u32 val_len;		/* in; out: of what was found */
	__u32 flags;		/* BPF_KVT_* */
	__u32 reserved;
	__u64 version;		/* in and out */
	__u64 arg;		/* in and out */
	__u8 key[DOOR_KEY];
	__u8 val[DOOR_VAL];
};

#endif /* KVT_HISTORY_DOOR_H */
