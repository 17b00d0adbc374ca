// SPDX-License-Identifier: GPL-2.0
/*
 * Hooks as struct_ops: how BPF programs become filters and validators.
 *
 * A hook lives as long as its BPF link.  The link holds the map with the programs, and
 * the map holds the module; the kernel frees the programs' code an RCU grace period after
 * the link has released it.
 */
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/string.h>

#include "bpf.h"
#include "compat.h"
#include "core/hook.h"

/* The layout of both types; the name of the function differs. */
struct hook_ops {
	kvt_hook_fn call;
	char store[BPF_KVT_STORE_NAME];
	char name[BPF_KVT_HOOK_NAME];
};

#define HOOK_OPS_SAME(type, fn)						\
	static_assert(sizeof(struct type) == sizeof(struct hook_ops) &&	\
		      offsetof(struct type, fn) == offsetof(struct hook_ops, call) &&	\
		      offsetof(struct type, store) == offsetof(struct hook_ops, store) &&	\
		      offsetof(struct type, name) == offsetof(struct hook_ops, name))

HOOK_OPS_SAME(bpf_kvt_filter, match);
HOOK_OPS_SAME(bpf_kvt_validator, allow);

static int hooks_init(struct btf *btf)
{
	return 0;
}

/* A hook is called under RCU. */
static int hooks_check_member(const struct btf_type *t, const struct btf_member *member,
			      const struct bpf_prog *prog)
{
	return prog->sleepable ? -EINVAL : 0;
}

/* Whether a string from user space is terminated. */
static int hooks_copy_name(char *to, const char *from, size_t size)
{
	return strscpy_pad(to, from, size) < 0 ? -EINVAL : 1;
}

/* Names are copied unchanged. */
static int hooks_init_member(const struct btf_type *t, const struct btf_member *member,
			     void *kdata, const void *udata)
{
	const struct hook_ops *from = udata;
	struct hook_ops *to = kdata;

	switch (__btf_member_bit_offset(t, member) / 8) {
	case offsetof(struct hook_ops, store):
		return hooks_copy_name(to->store, from->store, sizeof(to->store));
	case offsetof(struct hook_ops, name):
		return hooks_copy_name(to->name, from->name, sizeof(to->name));
	default:
		return 0;
	}
}

static int hooks_validate(void *kdata)
{
	const struct hook_ops *ops = kdata;

	return ops->call ? 0 : -EINVAL;
}

static int hooks_args(struct kvt_hook_args *args, u32 kind, const void *kdata,
		      const struct bpf_link *link)
{
	const struct hook_ops *ops = kdata;

	/* A map registered without a link would have no owner to release it. */
	if (!link)
		return -EOPNOTSUPP;
	*args = (struct kvt_hook_args) {
		.kind = kind,
		.store = ops->store,
		.name = ops->name,
		.call = ops->call,
		.owner = &link->id,
	};
	return 0;
}

static int hooks_attach(u32 kind, const void *kdata, const struct bpf_link *link)
{
	struct kvt_hook_args args;

	return hooks_args(&args, kind, kdata, link) ?: kvt_hook_attach(&args);
}

static int hooks_replace(u32 kind, const void *kdata, const struct bpf_link *link)
{
	struct kvt_hook_args args;

	return hooks_args(&args, kind, kdata, link) ?: kvt_hook_replace(&args);
}

static void hooks_unreg(void *kdata, struct bpf_link *link)
{
	kvt_hook_detach(&link->id);
}

static int filter_reg(void *kdata, struct bpf_link *link)
{
	return hooks_attach(KVTREE_HOOK_FILTER, kdata, link);
}

static int filter_update(void *kdata, void *old_kdata, struct bpf_link *link)
{
	return hooks_replace(KVTREE_HOOK_FILTER, kdata, link);
}

static int validator_reg(void *kdata, struct bpf_link *link)
{
	return hooks_attach(KVTREE_HOOK_VALIDATOR, kdata, link);
}

static int validator_update(void *kdata, void *old_kdata, struct bpf_link *link)
{
	return hooks_replace(KVTREE_HOOK_VALIDATOR, kdata, link);
}

/* Never called: gives kCFI the function's type. */
static int hook_stub(struct bpf_kvt_record *rec)
{
	return 0;
}

static struct bpf_kvt_filter filter_stubs = { .match = hook_stub };
static struct bpf_kvt_validator validator_stubs = { .allow = hook_stub };

static const struct bpf_verifier_ops hooks_verifier_ops = {
	.get_func_proto = bpf_base_func_proto,
	.is_valid_access = bpf_tracing_btf_ctx_access,
};

static struct bpf_struct_ops filter_struct_ops = {
	.verifier_ops = &hooks_verifier_ops,
	.init = hooks_init,
	.check_member = hooks_check_member,
	.init_member = hooks_init_member,
	.reg = filter_reg,
	.unreg = hooks_unreg,
	.update = filter_update,
	.validate = hooks_validate,
	.cfi_stubs = &filter_stubs,
	.owner = THIS_MODULE,
	.name = "bpf_kvt_filter",
};

static struct bpf_struct_ops validator_struct_ops = {
	.verifier_ops = &hooks_verifier_ops,
	.init = hooks_init,
	.check_member = hooks_check_member,
	.init_member = hooks_init_member,
	.reg = validator_reg,
	.unreg = hooks_unreg,
	.update = validator_update,
	.validate = hooks_validate,
	.cfi_stubs = &validator_stubs,
	.owner = THIS_MODULE,
	.name = "bpf_kvt_validator",
};

/* Hooks may neither write nor post. */
BTF_KFUNCS_START(bpf_kfuncs_hook)
#define KVT_KFUNCS_LOOKUP
#define KVT_KFUNCS_RECORD
#include "kfunc_list.h"
BTF_KFUNCS_END(bpf_kfuncs_hook)

static const struct btf_kfunc_id_set bpf_set_hook = {
	.owner = THIS_MODULE,
	.set = &bpf_kfuncs_hook,
};

/**
 * kvt_bpf_hook_init() - register the struct_ops of hooks
 *
 * Context: module init, of a module with BTF, on a kernel with a JIT.
 *
 * Return: 0 or an errno.
 */
int __init kvt_bpf_hook_init(void)
{
	int err;

	err = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &bpf_set_hook);
	if (!err)
		err = register_bpf_struct_ops(&filter_struct_ops, bpf_kvt_filter);
	if (!err)
		err = register_bpf_struct_ops(&validator_struct_ops, bpf_kvt_validator);
	return err;
}
