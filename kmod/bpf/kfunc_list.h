/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kfuncs with their flags, included in every set of them.  A kfunc must have the same
 * flags in all sets.  The includer defines macros for the set's content:
 *
 *	KVT_KFUNCS_LOOKUP	lookups
 *	KVT_KFUNCS_ITER		iterators
 *	KVT_KFUNCS_POST		posts
 *	KVT_KFUNCS_WRITE	writes, for programs that never interrupt a writer
 *	KVT_KFUNCS_RECORD	the record that a hook is asked about
 */
#ifdef KVT_KFUNCS_LOOKUP
BTF_ID_FLAGS(func, bpf_kvt_get, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_exists, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_ceil, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_floor, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_lpm, KF_TRUSTED_ARGS)
#undef KVT_KFUNCS_LOOKUP
#endif
#ifdef KVT_KFUNCS_ITER
BTF_ID_FLAGS(func, bpf_iter_kvt_new, KF_ITER_NEW | KF_RCU_PROTECTED | KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_iter_kvt_next, KF_ITER_NEXT | KF_RET_NULL)
BTF_ID_FLAGS(func, bpf_iter_kvt_destroy, KF_ITER_DESTROY)
BTF_ID_FLAGS(func, bpf_iter_kvt_status)
BTF_ID_FLAGS(func, bpf_kvt_iter_key, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_iter_val, KF_TRUSTED_ARGS)
#undef KVT_KFUNCS_ITER
#endif
#ifdef KVT_KFUNCS_POST
BTF_ID_FLAGS(func, bpf_kvt_post, KF_TRUSTED_ARGS)
#undef KVT_KFUNCS_POST
#endif
#ifdef KVT_KFUNCS_WRITE
BTF_ID_FLAGS(func, bpf_kvt_put, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_cas, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_add, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_remove, KF_TRUSTED_ARGS)
#undef KVT_KFUNCS_WRITE
#endif
#ifdef KVT_KFUNCS_RECORD
BTF_ID_FLAGS(func, bpf_kvt_record_key, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_record_column, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_kvt_record_column_len, KF_TRUSTED_ARGS)
#undef KVT_KFUNCS_RECORD
#endif
