// SPDX-License-Identifier: GPL-2.0
/* /dev/kvtree: sessions and their ioctls. */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "batch.h"
#include "bpf/bpf.h"
#include "chardev.h"
#include "core/binding.h"
#include "core/default_store.h"
#include "core/hook.h"
#include "core/store.h"
#include "core/stores.h"
#include "log/log.h"
#include "run.h"
#include "session.h"
#include "uring.h"
#include "user.h"
#include "wait.h"

static const struct file_operations session_fops;

/*
 * Copy a structure out in the caller's size: truncated, or followed by zeros.
 * (copy_struct_to_user() is newer than the oldest kernel supported.)
 */
static int copy_struct_out(void __user *to, size_t usize, const void *from, size_t ksize)
{
	size_t size = min(usize, ksize);

	if (copy_to_user(to, from, size))
		return -EFAULT;
	if (usize > ksize && clear_user(to + ksize, usize - ksize))
		return -EFAULT;
	return 0;
}

static long ioctl_info(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_info info = {
		.abi_version = KVTREE_ABI_VERSION,
		.key_max = KVTREE_KEY_MAX,
		.value_max = KVTREE_VALUE_MAX,
		.cols_max = KVTREE_COLS_MAX,
		.batch_max = KVTREE_BATCH_MAX,
		.key_inline = KVTREE_KEY_INLINE,
		.features = KVTREE_FEAT_COMPAT | KVTREE_FEAT_OP | KVTREE_FEAT_DURABLE |
			    kvt_uring_features() | (kvt_bpf_offered() ? KVTREE_FEAT_BPF : 0),
		.ops = GENMASK_ULL(KVTREE_OP_NR - 1, 0),
	};

	strscpy_pad(info.version, THIS_MODULE->version, sizeof(info.version));
	return copy_struct_out(arg, usize, &info, sizeof(info));
}

static long ioctl_batch(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_batch __user *user = arg;
	struct kvt_op_ctx ctx = kvt_session_ctx(session);
	struct kvtree_batch batch;
	int err = 0, sync_err;
	bool inside = true;
	u64 sync = 0;

	/* A constant size is cheaper to copy. */
	if (usize != sizeof(batch))
		err = copy_struct_from_user(&batch, sizeof(batch), arg, usize);
	else if (copy_from_user(&batch, arg, sizeof(batch)))
		err = -EFAULT;
	if (err)
		return err;
	if (!kvt_session_enter(session))
		return -ESTALE;
	ctx.inside = &inside;
	ctx.sync = &sync;
	err = kvt_batch_run(&ctx, &batch);
	/* All of its operations wait together. */
	sync_err = kvt_op_wait_durable(&ctx);
	kvt_op_leave(&ctx);
	if (put_user(batch.done, &user->done))
		err = -EFAULT;
	/* The caller can learn later why the batch ended early, but not that it is not durable. */
	return sync_err ?: err;
}

/* Execute any operation, if ioctl_op() could not answer it at once. */
static noinline long ioctl_op_slow(struct kvt_session *session, struct kvtree_op __user *user,
				   struct kvtree_op *op)
{
	struct kvt_op_ctx ctx = kvt_session_ctx(session);
	bool inside = true;
	u64 sync = 0;
	int result;

	if (!kvt_session_enter(session))
		return -ESTALE;
	ctx.inside = &inside;
	ctx.sync = &sync;
	result = kvt_op_run(&ctx, op);
	result = kvt_op_wait_durable(&ctx) ?: result;
	kvt_op_leave(&ctx);
	if (result == KVT_INTERRUPTED)
		return result;
	kvt_op_report(&ctx, op, result);
	return kvt_copy_op_out((uintptr_t)user, op) ? 0 : -EFAULT;
}

static long ioctl_op(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_op op __uninitialized;
	bool done = false;
	int err = 0;

	if (usize != sizeof(op))
		err = copy_struct_from_user(&op, sizeof(op), arg, usize);
	else if (!kvt_words_in((u64 *)&op, arg, sizeof(op)))
		err = -EFAULT;
	if (err)
		return err;
	if (kvt_op_is_quick_get(session->access, &op) && kvt_session_enter_rcu(session)) {
		done = kvt_get_quick(session->store, &op);
		if (likely(done))
			kvt_stat_get(&session->store->stats, op.result);
		kvt_session_leave_rcu(session);
	}
	if (likely(done))
		return kvt_copy_answers_out((uintptr_t)arg, usize, &op, 1) ? 0 : -EFAULT;
	return ioctl_op_slow(session, arg, &op);
}

static long ioctl_store_create(struct kvt_session *session, const void *in, void __user *arg)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return kvt_store_create(in);
}

/* A file for a session; takes over the session if it succeeds. */
static int session_install(struct kvt_session *session, int flags)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	file = anon_inode_getfile("[kvtree]", &session_fops, session, flags);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
}

static int store_open(const struct kvtree_store_open *args)
{
	static const int file_flags[] = {
		[KVTREE_OPEN_READ] = O_RDONLY,
		[KVTREE_OPEN_WRITE] = O_WRONLY,
		[KVTREE_OPEN_READ | KVTREE_OPEN_WRITE] = O_RDWR,
	};
	struct kvt_session *session;
	struct kvt_store *store;
	int ret = -EACCES;

	store = kvt_store_find(args->name);
	if (IS_ERR(store))
		return PTR_ERR(store);
	if (kvt_store_access(store, args->flags) != args->flags)
		goto put;
	ret = -ENOMEM;
	session = kvt_session_new(store, args->flags);
	if (!session)
		goto put;
	ret = session_install(session, file_flags[args->flags]);
	if (ret >= 0)
		return ret;
	kfree(session);
put:
	kvt_store_put(store);
	return ret;
}

static long ioctl_store_open(struct kvt_session *session, const void *in, void __user *arg)
{
	const struct kvtree_store_open *args = in;

	if (!args->flags || args->flags & ~(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE) ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)) ||
	    !kvt_store_name_valid(args->name))
		return -EINVAL;
	return store_open(args);
}

/* Both have the same layout. */
static_assert(sizeof(struct kvtree_store_detach) == sizeof(struct kvtree_store_destroy));

static long store_remove(const struct kvtree_store_destroy *args, int (*remove)(const char *name))
{
	if (args->flags || memchr_inv(args->reserved, 0, sizeof(args->reserved)) ||
	    !kvt_store_name_valid(args->name))
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return remove(args->name);
}

static long ioctl_store_destroy(struct kvt_session *session, const void *in, void __user *arg)
{
	return store_remove(in, kvt_store_destroy);
}

static long ioctl_store_detach(struct kvt_session *session, const void *in, void __user *arg)
{
	return store_remove(in, kvt_store_detach);
}

static long ioctl_store_set(struct kvt_session *session, const void *in, void __user *arg)
{
	return kvt_store_set(in);
}

static void free_paths(char **paths)
{
	u32 i;

	for (i = 0; i < KVTREE_DEVICES_MAX; i++)
		kfree(paths[i]);
}

static int copy_paths(char **paths, const struct kvtree_store_attach *args)
{
	const u64 __user *user = u64_to_user_ptr(args->devices);
	u64 at;
	u32 i;

	for (i = 0; i < args->nr_devices; i++) {
		if (get_user(at, user + i))
			return -EFAULT;
		paths[i] = strndup_user(u64_to_user_ptr(at), PATH_MAX);
		if (IS_ERR(paths[i])) {
			int err = PTR_ERR(paths[i]);

			paths[i] = NULL;
			return err;
		}
	}
	return 0;
}

static int attach_check(const struct kvtree_store_attach *args)
{
	if (args->flags & ~(KVTREE_ATTACH_SYNC | KVTREE_ATTACH_READ_ONLY) || !args->nr_devices ||
	    args->nr_devices > KVTREE_DEVICES_MAX ||
	    (args->until && !(args->flags & KVTREE_ATTACH_READ_ONLY)) || args->reserved2 ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	return kvt_struct_size_check(args->store_size, KVTREE_STORE_CREATE_SIZE_VER0);
}

static long ioctl_store_attach(struct kvt_session *session, const void *in, void __user *arg)
{
	char *paths[KVTREE_DEVICES_MAX] = {};
	const struct kvtree_store_attach *args = in;
	struct kvtree_store_create store;
	int err;

	err = attach_check(args);
	if (err)
		return err;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	err = kvt_copy_struct_in(true, &store, sizeof(store), args->store, args->store_size);
	if (!err)
		err = copy_paths(paths, args);
	if (!err)
		err = kvt_store_attach(&store, args, paths);
	free_paths(paths);
	return err;
}

static long ioctl_checkpoint(struct kvt_session *session, const void *in, void __user *arg)
{
	const struct kvtree_checkpoint *args = in;
	int err;

	if (args->flags || memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!kvt_session_enter(session))
		return -ESTALE;
	err = -EOPNOTSUPP;
	if (session->store->log)
		err = kvt_log_checkpoint(session->store->log);
	kvt_session_leave(session);
	return err;
}

/* Only `after` is input.  Reserved fields must be 0, since they may get a meaning later. */
static int copy_store_info(struct kvtree_store_info *info, const void __user *arg, size_t usize)
{
	int err = copy_struct_from_user(info, sizeof(*info), arg, usize);

	if (!err && info->reserved)
		err = -EINVAL;
	*info = (struct kvtree_store_info) { .after = err ? 0 : info->after };
	return err;
}

static long ioctl_store_list(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_store_info info;
	int err;

	err = copy_store_info(&info, arg, usize);
	if (!err)
		err = kvt_store_list(&info);
	return err ?: copy_struct_out(arg, usize, &info, sizeof(info));
}

static long ioctl_store_self(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_store_info info;
	int err;

	err = copy_store_info(&info, arg, usize);
	if (err)
		return err;
	if (!session->store)
		return -ESTALE;
	err = kvt_store_describe(session->store, &info);
	return err ?: copy_struct_out(arg, usize, &info, sizeof(info));
}

static long ioctl_stat(struct kvt_session *session, const void *in, void __user *arg)
{
	struct kvtree_stat_args __user *user = arg;
	const struct kvtree_stat_args *args = in;
	u32 nr = min_t(u32, args->nr, KVTREE_STAT_NR);
	u64 values[KVTREE_STAT_NR];
	u32 id;

	if (args->flags || memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!kvt_session_enter(session))
		return -ESTALE;
	for (id = 0; session->access && id < nr; id++)
		values[id] = kvt_store_stat(session->store, id);
	kvt_session_leave(session);
	if (!session->access)
		return -EACCES;
	if (copy_to_user(u64_to_user_ptr(args->values), values, nr * sizeof(*values)) ||
	    put_user(KVTREE_STAT_NR, &user->nr))
		return -EFAULT;
	return 0;
}

static long ioctl_engine_stat(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_engine_stat stat;
	int err = copy_struct_from_user(&stat, sizeof(stat), arg, usize);

	if (err)
		return err;
	if (!kvt_session_enter(session))
		return -ESTALE;
	err = session->access ? kvt_store_engine_stat(session->store, &stat) : -EACCES;
	kvt_session_leave(session);
	return err ?: copy_struct_out(arg, usize, &stat, sizeof(stat));
}

static int bpf_access(struct kvt_store *store, bool allow)
{
	if (!kvt_store_owned(store))
		return -EPERM;
	if (!allow) {
		kvt_bindings_forbid(store);
		kvt_hooks_drop(store);
		return 0;
	}
	return kvt_store_allow_bpf(store);
}

static long ioctl_bpf_access(struct kvt_session *session, const void *in, void __user *arg)
{
	const struct kvtree_bpf_access *args = in;
	int err;

	if (args->allow > 1 || args->flags ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!kvt_session_enter(session))
		return -ESTALE;
	err = bpf_access(session->store, args->allow);
	kvt_session_leave(session);
	return err;
}

static long ioctl_bpf_bind(struct kvt_session *session, const void *in, void __user *arg)
{
	const struct kvtree_bpf_bind *args = in;
	int err;

	if (args->access & ~(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE) ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!kvt_session_enter(session))
		return -ESTALE;
	/* A session without any access must not end the bindings of others. */
	err = -EACCES;
	if (session->access && !(args->access & ~session->access))
		err = kvt_bpf_map_bind(session->store, args->map_fd, args->access);
	kvt_session_leave(session);
	return err;
}

static long ioctl_bpf_unbind(struct kvt_session *session, const void *in, void __user *arg)
{
	const struct kvtree_bpf_unbind *args = in;
	int err = -EPERM;

	if (args->flags || memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!kvt_session_enter(session))
		return -ESTALE;
	if (kvt_store_owned(session->store))
		err = kvt_unbind(session->store, args->map_id);
	kvt_session_leave(session);
	return err;
}

/* As for a store, `after` is input. */
static long ioctl_bpf_binding(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_bpf_binding info;
	int err = copy_struct_from_user(&info, sizeof(info), arg, usize);

	if (err)
		return err;
	if (memchr_inv(info.reserved, 0, sizeof(info.reserved)))
		return -EINVAL;
	info = (struct kvtree_bpf_binding) { .after = info.after };
	if (!kvt_session_enter(session))
		return -ESTALE;
	err = session->access ? kvt_bindings_list(session->store, &info) : -EACCES;
	kvt_session_leave(session);
	return err ?: copy_struct_out(arg, usize, &info, sizeof(info));
}

/* As for a store, `after` is input. */
static long ioctl_bpf_hook(struct kvt_session *session, void __user *arg, size_t usize)
{
	struct kvtree_bpf_hook info;
	int err = copy_struct_from_user(&info, sizeof(info), arg, usize);

	if (err)
		return err;
	if (memchr_inv(info.reserved, 0, sizeof(info.reserved)))
		return -EINVAL;
	info = (struct kvtree_bpf_hook) { .after = info.after };
	if (!kvt_session_enter(session))
		return -ESTALE;
	err = session->access ? kvt_hook_list(session->store, &info) : -EACCES;
	kvt_session_leave(session);
	return err ?: copy_struct_out(arg, usize, &info, sizeof(info));
}

/* Argument structures that are copied before their ioctl runs. */
union args {
	struct kvtree_store_create store_create;
	struct kvtree_store_open store_open;
	struct kvtree_store_destroy store_destroy;
	struct kvtree_store_detach store_detach;
	struct kvtree_store_set store_set;
	struct kvtree_store_attach store_attach;
	struct kvtree_checkpoint checkpoint;
	struct kvtree_stat_args stat;
	struct kvtree_bpf_access bpf_access;
	struct kvtree_bpf_bind bpf_bind;
	struct kvtree_bpf_unbind bpf_unbind;
};

/*
 * The ioctls by number, with the first published size of their structures.  Fast
 * ioctls, and those that only fill in their structure, do their own copying.
 */
static const struct {
	long (*run)(struct kvt_session *session, void __user *arg, size_t usize);
	long (*run_copied)(struct kvt_session *session, const void *in, void __user *arg);
	unsigned int cmd;
	unsigned int size;
	unsigned int ksize;	/* of the copied structure */
} ioctls[] = {
#define IOCTL(name, fn, ver0)						\
	[_IOC_NR(KVTREE_IOC_##name) - 0x40] = {				\
		.run = fn, .cmd = KVTREE_IOC_##name, .size = ver0,	\
	}
#define COPIED(name, fn, ver0)						\
	[_IOC_NR(KVTREE_IOC_##name) - 0x40] = {				\
		.run_copied = fn, .cmd = KVTREE_IOC_##name, .size = ver0, \
		.ksize = _IOC_SIZE(KVTREE_IOC_##name),			\
	}
	IOCTL(INFO, ioctl_info, KVTREE_INFO_SIZE_VER0),
	IOCTL(BATCH, ioctl_batch, KVTREE_BATCH_SIZE_VER0),
	COPIED(STORE_CREATE, ioctl_store_create, KVTREE_STORE_CREATE_SIZE_VER0),
	COPIED(STORE_OPEN, ioctl_store_open, KVTREE_STORE_OPEN_SIZE_VER0),
	COPIED(STORE_DESTROY, ioctl_store_destroy, KVTREE_STORE_DESTROY_SIZE_VER0),
	IOCTL(STORE_LIST, ioctl_store_list, KVTREE_STORE_INFO_SIZE_VER0),
	IOCTL(STORE_SELF, ioctl_store_self, KVTREE_STORE_INFO_SIZE_VER0),
	COPIED(STAT, ioctl_stat, KVTREE_STAT_ARGS_SIZE_VER0),
	IOCTL(OP, ioctl_op, KVTREE_OP_SIZE_VER0),
	IOCTL(ENGINE_STAT, ioctl_engine_stat, KVTREE_ENGINE_STAT_SIZE_VER0),
	COPIED(STORE_SET, ioctl_store_set, KVTREE_STORE_SET_SIZE_VER0),
	COPIED(BPF_ACCESS, ioctl_bpf_access, KVTREE_BPF_ACCESS_SIZE_VER0),
	COPIED(BPF_BIND, ioctl_bpf_bind, KVTREE_BPF_BIND_SIZE_VER0),
	IOCTL(BPF_HOOK, ioctl_bpf_hook, KVTREE_BPF_HOOK_SIZE_VER0),
	IOCTL(BPF_BINDING, ioctl_bpf_binding, KVTREE_BPF_BINDING_SIZE_VER0),
	COPIED(BPF_UNBIND, ioctl_bpf_unbind, KVTREE_BPF_UNBIND_SIZE_VER0),
	COPIED(STORE_ATTACH, ioctl_store_attach, KVTREE_STORE_ATTACH_SIZE_VER0),
	COPIED(STORE_DETACH, ioctl_store_detach, KVTREE_STORE_DETACH_SIZE_VER0),
	COPIED(CHECKPOINT, ioctl_checkpoint, KVTREE_CHECKPOINT_SIZE_VER0),
#undef COPIED
#undef IOCTL
};

static noinline long run_copied(struct kvt_session *session, unsigned int nr, void __user *arg,
				size_t usize)
{
	union args args;
	int err;

	err = copy_struct_from_user(&args, ioctls[nr].ksize, arg, usize);
	return err ?: ioctls[nr].run_copied(session, &args, arg);
}

static long session_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	unsigned int nr = _IOC_NR(cmd) - 0x40;
	size_t usize = _IOC_SIZE(cmd);
	int err;

	if (nr >= ARRAY_SIZE(ioctls))
		return -ENOTTY;
	nr = array_index_nospec(nr, ARRAY_SIZE(ioctls));
	/* Everything but the size has to match. */
	if ((cmd ^ ioctls[nr].cmd) & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT))
		return -ENOTTY;
	err = kvt_struct_size_check(usize, ioctls[nr].size);
	if (err)
		return err;
	if (!ioctls[nr].run)
		return run_copied(file->private_data, nr, (void __user *)arg, usize);
	return ioctls[nr].run(file->private_data, (void __user *)arg, usize);
}

/* Make all earlier changes durable; volatile stores cannot. */
static int session_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct kvt_session *session = file->private_data;
	struct kvt_log *log;
	int err = -EINVAL;

	if (!kvt_session_enter(session))
		return -ESTALE;
	log = session->store->log;
	if (!(session->access & KVTREE_OPEN_WRITE))
		err = -EACCES;
	else if (log)
		err = kvt_log_sync(log, kvt_log_dirty_epoch(log));
	kvt_session_leave(session);
	return err;
}

static int session_release(struct inode *inode, struct file *file)
{
	kvt_session_free(file->private_data);
	return 0;
}

/* A process closes the file: cancel its pending commands. */
static int session_flush(struct file *file, fl_owner_t owner)
{
	kvt_wait_cancel_owner(file->private_data, owner);
	return 0;
}

static unsigned int file_access(const struct file *file)
{
	unsigned int access = 0;

	if (file->f_mode & FMODE_READ)
		access |= KVTREE_OPEN_READ;
	if (file->f_mode & FMODE_WRITE)
		access |= KVTREE_OPEN_WRITE;
	return access;
}

/*
 * Any user may open the device, if only to open other stores.  Operations get EACCES
 * without rights to the default store, and ESTALE if there is none.
 */
static int device_open(struct inode *inode, struct file *file)
{
	struct kvt_store *store;
	unsigned int access = 0;
	int err;

	err = kvt_default_store_wait();
	if (err)
		return err;
	store = kvt_store_find(KVT_DEFAULT_STORE);
	if (IS_ERR(store))
		store = NULL;
	else
		access = kvt_store_access(store, file_access(file));
	file->private_data = kvt_session_new(store, access);
	if (!file->private_data) {
		kvt_store_put(store);
		return -ENOMEM;
	}
	return 0;
}

static const struct file_operations session_fops = {
	.owner = THIS_MODULE,
	.flush = session_flush,
	.fsync = session_fsync,
	.release = session_release,
	.unlocked_ioctl = session_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = kvt_uring_cmd,
};

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.flush = session_flush,
	.fsync = session_fsync,
	.release = session_release,
	.unlocked_ioctl = session_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = kvt_uring_cmd,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvtree",
	.fops = &device_fops,
	.mode = 0666,
};

/**
 * kvt_chardev_init() - make /dev/kvtree
 *
 * Context: module init, when stores can be made.
 *
 * Return: 0 or an errno.
 */
int kvt_chardev_init(void)
{
	return misc_register(&device);
}

/**
 * kvt_chardev_exit() - remove /dev/kvtree
 *
 * Context: module exit: no session is left.
 */
void kvt_chardev_exit(void)
{
	misc_deregister(&device);
}
