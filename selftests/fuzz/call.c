// SPDX-License-Identifier: GPL-2.0
/* Calls by ioctl, and other uses of a descriptor. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/durable.h"

void result_is_documented(int result)
{
	static const int errs[] = {
		/* kvtree.yaml: errnos_test */
		E2BIG, EACCES, EALREADY, EBADF, EBADMSG, EBUSY, ECANCELED, EDQUOT, EEXIST, EFAULT,
		EINTR, EINVAL, EIO, EKEYREJECTED, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, EMSGSIZE,
		ENOBUFS, EOVERFLOW, ENODEV, ENOENT, ENOMEM, ENOPKG, ENOSPC, ENOTBLK, ENOTDIR,
		ENOTTY, ENXIO, EOPNOTSUPP, EPERM, ERANGE, EROFS, ESTALE, EXDEV,
		/* kvtree.yaml: end */
		/* Of io_uring itself. */
		EAGAIN,
	};
	size_t i;

	for (i = 0; result < 0 && i < NR(errs); i++)
		if (result == -errs[i])
			return;
	KVT_CHECK(result >= 0);
}

static void fill_scan(struct input *in, unsigned int thread, struct kvtree_op *op)
{
	struct kvtree_scan *scan = arena_struct(thread, 1024);
	unsigned int rare;

	scan->flags = input_below(in, 512);
	scan->limit = (__u32)input_number(in);
	scan->prefix_len = (__u16)input_below(in, 8);
	if (scan->flags & KVTREE_SCAN_END) {
		scan->end = arena_pointer(in, thread);
		scan->end_len = (__u16)input_number(in);
	}
	if (input_below(in, 8) == 0) {
		scan->cols = arena_pointer(in, thread);
		scan->ncols = (__u16)input_below(in, 8);
	}
	/* Rare things share a byte: more bytes would make other calls of the corpus's inputs. */
	rare = input_below(in, 256);
	if (rare % 16 == 0)
		scan->filter_id = (__u32)input_number(in);
	op->arg = kvt_ptr(scan);
	op->arg_size = rare >= 240 ? (__u16)input_number(in) : sizeof(*scan);
}

/* Descriptors that ascend, most of the time. */
static void fill_cols(struct input *in, unsigned int thread, struct kvtree_op *op)
{
	struct kvtree_col *cols = (struct kvtree_col *)((char *)arena_struct(thread, 2048) + 1024);
	unsigned int id = 0, i;

	op->ncols = (__u16)input_below(in, 8);
	for (i = 0; i < op->ncols; i++) {
		id += input_below(in, 4);
		cols[i].id = (__u16)id++;
		cols[i].len = (__u32)input_number(in);
	}
	op->arg = kvt_ptr(cols);
}

void op_fill(struct input *in, unsigned int thread, struct kvtree_op *op)
{
	unsigned int wild = input_below(in, 32);

	memset(op, 0, sizeof(*op));
	op->opcode = (__u8)input_below(in, KVTREE_OP_NR);
	if (wild < 8)
		op->flags = (__u16)(1u << wild);
	if (input_below(in, 4)) {
		op->flags |= KVTREE_F_KEY_INLINE;
		op->key_len = (__u16)(1 + input_below(in, 16));
		op->key_inline[0] = (__u8)input_below(in, 4);
	} else {
		op->key = arena_pointer(in, thread);
		op->key_len = (__u16)input_number(in);
	}
	op->val = arena_pointer(in, thread);
	op->val_len = (__u32)input_number(in);
	op->version = input_number(in);
	op->arg = input_number(in);
	if (op->opcode == KVTREE_OP_SCAN)
		fill_scan(in, thread, op);
	else if (op->flags & (KVTREE_F_COLS | KVTREE_F_ALL_COLS | KVTREE_F_WHOLE))
		fill_cols(in, thread, op);
	if (wild == 31)
		((__u8 *)op)[input_below(in, sizeof(*op))] = (__u8)input_take(in, 1);
	arena_tame(&op->key, sizeof(*op) - offsetof(struct kvtree_op, key));
}

void call_op(struct input *in, unsigned int thread)
{
	int fd = session_take(in), err;
	struct kvtree_op op;

	op_fill(in, thread, &op);
	err = kvt_ioctl(fd, KVTREE_IOC_OP, &op);
	result_is_documented(err);
	if (!err)
		result_is_documented(op.result);
}

void call_batch(struct input *in, unsigned int thread)
{
	struct kvtree_op op[ARENA_BATCH], *ops = arena_batch(thread);
	struct kvtree_batch batch = { .ops = kvt_ptr(ops), .op_size = sizeof(op[0]) };
	int fd = session_take(in), err;
	unsigned int i;

	batch.nr = 1 + input_below(in, ARENA_BATCH);
	for (i = 0; i < batch.nr; i++)
		op_fill(in, thread, &op[i]);
	memcpy(ops, op, batch.nr * sizeof(op[0]));
	switch (input_below(in, 16)) {
	case 0:
		/* Where the other thread may change them. */
		batch.ops = arena_pointer(in, thread);
		break;
	case 1:
		batch.op_size = (__u32)input_number(in);
		batch.nr = (__u32)input_number(in);
		break;
	case 2:
		batch.flags = (__u32)input_number(in);
		break;
	}
	err = kvt_ioctl(fd, KVTREE_IOC_BATCH, &batch);
	result_is_documented(err);
	if (!err)
		KVT_CHECK(batch.done <= batch.nr);
}

static const __u64 limits[] = { 0, 4096, 65536, 1 << 20 };

static void fill_create(struct input *in, struct kvtree_store_create *create)
{
	static const char *const engines[] = { "", "masstree", "bwtree", "none" };

	strcpy(create->name, name_take(in));
	strcpy(create->engine, engines[input_below(in, NR(engines))]);
	create->mode = input_below(in, 512);
	create->limit_bytes = limits[input_below(in, NR(limits))];
	create->limit_keys = input_below(in, 8);
	if (input_below(in, 4) == 0)
		create->page_size = (__u32)input_number(in);
	if (input_below(in, 8) == 0)
		create->flags = (__u32)input_number(in);
}

static void set_store(struct input *in, unsigned int thread, int fd)
{
	struct kvtree_store_set *set = arena_struct(thread, sizeof(*set));

	strcpy(set->name, name_take(in));
	set->set = (__u32)input_below(in, 64);
	set->mode = input_below(in, 512);
	set->limit_bytes = limits[input_below(in, NR(limits))];
	set->limit_keys = input_below(in, 8);
	result_is_documented(kvt_ioctl(fd, KVTREE_IOC_STORE_SET, set));
}

void call_store(struct input *in, unsigned int thread)
{
	struct kvtree_store_create *create = arena_struct(thread, sizeof(*create));
	int fd = session_take(in), err;

	switch (input_below(in, 5)) {
	case 0:
		fill_create(in, create);
		result_is_documented(kvt_ioctl(fd, KVTREE_IOC_STORE_CREATE, create));
		break;
	case 1:
	case 2:
		err = kvt_store(fd, name_take(in), (__u32)input_below(in, 4));
		if (err >= 0)
			session_give(err);
		else
			result_is_documented(err);
		break;
	case 3:
		result_is_documented(kvt_destroy(fd, name_take(in)));
		break;
	default:
		if (input_below(in, 4))
			session_close(in);
		else
			set_store(in, thread, fd);
	}
}

void call_attach(struct input *in, unsigned int thread)
{
	struct kvtree_store_attach *args = arena_struct(thread, 4096);
	struct kvtree_store_create *create = arena_struct(thread, sizeof(*create));
	struct kvtree_checkpoint checkpoint = { 0 };
	__u64 paths[3];
	int fd = session_take(in);
	unsigned int i, rare;

	switch (input_below(in, 6)) {
	case 0:
	case 1:
		fill_create(in, create);
		args->store = kvt_ptr(create);
		args->store_size = sizeof(*create);
		args->nr_devices = 1 + input_below(in, NR(paths));
		for (i = 0; i < args->nr_devices; i++)
			paths[i] = kvt_ptr(disk_path(i));
		args->devices = kvt_ptr(paths);
		args->flags = input_below(in, 4) ? 0 : (__u32)input_number(in);
		rare = input_below(in, 256);
		if (rare % 8 == 0)
			args->devices = arena_pointer(in, thread);
		else if (rare >= 248)
			args->store_size = (__u32)input_number(in);
		else if (rare >= 240)
			args->store = arena_pointer(in, thread);
		result_is_documented(kvt_ioctl(fd, KVTREE_IOC_STORE_ATTACH, args));
		break;
	case 2:
		result_is_documented(kvt_detach(fd, name_take(in)));
		break;
	case 3:
		disks_damage(in);
		break;
	case 4:
		disks_fail(in);
		break;
	default:
		result_is_documented(kvt_ioctl(fd, KVTREE_IOC_CHECKPOINT, &checkpoint));
	}
}

/* Calls that only report something. */
void call_tell(struct input *in, unsigned int thread)
{
	static const unsigned long cmds[] = {
		KVTREE_IOC_INFO, KVTREE_IOC_STORE_LIST, KVTREE_IOC_STORE_SELF, KVTREE_IOC_STAT,
		KVTREE_IOC_ENGINE_STAT, KVTREE_IOC_BPF_ACCESS, KVTREE_IOC_BPF_BIND,
		KVTREE_IOC_BPF_HOOK, KVTREE_IOC_BPF_BINDING, KVTREE_IOC_BPF_UNBIND,
	};
	unsigned long cmd = cmds[input_below(in, NR(cmds))];
	__u32 *words = arena_struct(thread, _IOC_SIZE(cmd));
	int fd = session_take(in);

	words[0] = (__u32)input_number(in);
	if (cmd == KVTREE_IOC_STAT) {
		struct kvtree_stat_args *args = (void *)words;

		args->values = arena_pointer(in, thread);
		args->nr = (__u32)input_number(in);
	}
	result_is_documented(kvt_ioctl(fd, cmd, words));
}

/* Any command of any size, with any bytes. */
void call_raw(struct input *in, unsigned int thread)
{
	unsigned int nr = 0x40 + input_below(in, 0x28);
	unsigned long cmd = _IOC(input_below(in, 4), 'K', nr, input_below(in, 512));
	void *args = arena_struct(thread, 512);
	int fd = session_take(in);

	input_fill(in, args, input_below(in, 64));
	arena_tame(args, 512);
	if (input_below(in, 8) == 0)
		args = (void *)arena_pointer(in, thread);
	result_is_documented(kvt_ioctl(fd, cmd, args));
}

void call_file(struct input *in, unsigned int thread)
{
	struct pollfd poll_fd = { .fd = session_take(in), .events = POLLIN | POLLOUT };
	void *map;
	int fd;

	switch (input_below(in, 6)) {
	case 0:
		fsync(poll_fd.fd);
		break;
	case 1:
		poll(&poll_fd, 1, 0);
		break;
	case 2:
		(void)!read(poll_fd.fd, (void *)arena_pointer(in, thread), input_number(in));
		break;
	case 3:
		(void)!write(poll_fd.fd, (void *)arena_pointer(in, thread), input_number(in));
		break;
	case 4:
		map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, poll_fd.fd, 0);
		if (map != MAP_FAILED)
			munmap(map, 4096);
		break;
	default:
		fd = dup(poll_fd.fd);
		if (fd >= 0)
			session_give(fd);
	}
}
