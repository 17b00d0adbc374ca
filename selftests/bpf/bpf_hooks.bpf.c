// SPDX-License-Identifier: GPL-2.0
/* Filters and validators, and a program that changes the store they are attached to. */
#include <linux/bpf.h>
#include <errno.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <kvtree.bpf.h>

#include "call.h"
#include "hooks.h"

char _license[] SEC("license") = "GPL";

struct hooks hooks;
struct call call;

BPF_KVT_STORE(changed);

static __always_inline int key_is_even(struct bpf_kvt_record *rec)
{
	__u8 last = 0;

	return bpf_kvt_record_key(rec, rec->key_len - 1, &last, 1) == 1 && !(last & 1);
}

static __always_inline int value_is_odd(struct bpf_kvt_record *rec)
{
	__u8 byte = 0;

	return bpf_kvt_record_column(rec, 0, PICK_AT, &byte, 1) == 1 && (byte & 1);
}

/* What the kernel tells in two ways agrees. */
static __always_inline void check(struct bpf_kvt_record *rec)
{
	int len = bpf_kvt_record_column_len(rec, 0);
	__u8 byte;

	if (len != (rec->val_len == BPF_KVT_ABSENT ? -ENOENT : (int)rec->val_len))
		hooks.wrong = 1;
	if (bpf_kvt_record_column_len(rec, 256) != -EINVAL)
		hooks.wrong = 2;
	if (bpf_kvt_record_key(rec, rec->key_len, &byte, 1))
		hooks.wrong = 3;
	if (len > 0 && bpf_kvt_record_column(rec, 0, len, &byte, 1))
		hooks.wrong = 4;
}

SEC("struct_ops/match")
int BPF_PROG(match, struct bpf_kvt_record *rec)
{
	__sync_fetch_and_add(&hooks.asked, 1);
	check(rec);
	if (!rec->version)
		hooks.wrong = 5;
	switch (hooks.pick) {
	case PICK_ALL:
		return 1;
	case PICK_KEY:
		return key_is_even(rec);
	case PICK_VALUE:
		return value_is_odd(rec);
	case PICK_COLUMN:
		return bpf_kvt_record_column_len(rec, PICK_ID) > 3;
	case PICK_LARGE:
		return rec->val_len != BPF_KVT_ABSENT && rec->val_len > 1000;
	default:
		return 0;
	}
}

SEC("struct_ops/match_other")
int BPF_PROG(match_other, struct bpf_kvt_record *rec)
{
	return !key_is_even(rec);
}

static __always_inline int column_is_x(struct bpf_kvt_record *rec, __u32 col)
{
	char c = 0;

	return bpf_kvt_record_column(rec, col, 0, &c, 1) == 1 && c == 'x';
}

SEC("struct_ops/allow")
int BPF_PROG(allow, struct bpf_kvt_record *rec)
{
	__u64 number = 0;
	char c = 0;

	__sync_fetch_and_add(&hooks.judged, 1);
	check(rec);
	hooks.key_len = rec->key_len;
	hooks.val_len = rec->val_len;
	hooks.version = rec->version;
	if (bpf_kvt_record_key(rec, 0, &c, 1) == 1 && c == '!')
		return 0;
	if (bpf_kvt_record_column(rec, 0, 0, &c, 1) == 1 && c == '!')
		return 0;
	if (bpf_kvt_record_column(rec, LIMIT_ID, 0, &number, 8) == 8 && number > LIMIT)
		return 0;
	return !column_is_x(rec, 1) || !column_is_x(rec, 2);
}

SEC("struct_ops/allow_nothing")
int BPF_PROG(allow_nothing, struct bpf_kvt_record *rec)
{
	return 0;
}

#define STORE	.store = "bpf-hooks"
#define STRAY	.store = "bpf-hooks-stray"
#define THEIRS	.store = "bpf-hooks-theirs"
#define SEEN	.store = "bpf-hooks-seen"

SEC(".struct_ops.link")
struct bpf_kvt_filter first = { STORE, .match = (void *)match, .name = "picky" };

SEC(".struct_ops.link")
struct bpf_kvt_filter second = { STORE, .match = (void *)match_other, .name = "picky" };

SEC(".struct_ops.link")
struct bpf_kvt_filter nameless = { STORE, .match = (void *)match };

SEC(".struct_ops.link")
struct bpf_kvt_filter misnamed = { STORE, .match = (void *)match, .name = "7 up" };

SEC(".struct_ops.link")
struct bpf_kvt_filter stray = { STRAY, .match = (void *)match, .name = "stray" };

SEC(".struct_ops.link")
struct bpf_kvt_filter theirs = { THEIRS, .match = (void *)match, .name = "theirs" };

SEC(".struct_ops.link")
struct bpf_kvt_filter empty = { STORE, .name = "empty" };

SEC(".struct_ops")
struct bpf_kvt_filter linkless = { STORE, .match = (void *)match, .name = "linkless" };

SEC(".struct_ops.link")
struct bpf_kvt_validator guard = { STORE, .allow = (void *)allow, .name = "guard" };

SEC(".struct_ops.link")
struct bpf_kvt_validator wall = { STORE, .allow = (void *)allow_nothing, .name = "guard" };

SEC(".struct_ops.link")
struct bpf_kvt_filter seen = { SEEN, .match = (void *)match };

SEC(".struct_ops.link")
struct bpf_kvt_validator judged = { SEEN, .allow = (void *)allow };

SEC("xdp")
int change(struct xdp_md *ctx)
{
	__u32 key_size = call.key_size, val_size = call.val_size;

	barrier_var(key_size);
	barrier_var(val_size);
	if (key_size > CALL_KEY || val_size > CALL_VAL)
		return XDP_DROP;
	key_size += sizeof(call.req);
	switch (call.op) {
	case CALL_PUT:
		call.ret = bpf_kvt_put(&changed, &call.req, key_size, call.val, val_size);
		break;
	case CALL_CAS:
		call.ret = bpf_kvt_cas(&changed, &call.req, key_size, call.val, val_size);
		break;
	case CALL_ADD:
		call.ret = bpf_kvt_add(&changed, &call.req, key_size);
		break;
	case CALL_REMOVE:
		call.ret = bpf_kvt_remove(&changed, &call.req, key_size);
		break;
	case CALL_POST:
		call.ret = bpf_kvt_post(&changed, &call.req, key_size, call.val, val_size);
		break;
	}
	call.done++;
	return XDP_PASS;
}
