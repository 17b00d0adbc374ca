// SPDX-License-Identifier: GPL-2.0
/*
 * Post a record for each read and write of a file.
 *
 * Tracing programs may run anywhere and cannot change a store themselves: they post
 * changes, which a worker makes.  Lookups are allowed, and avoid posting a name that is
 * already stored.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <kvtree.bpf.h>

#include "latency.h"

char _license[] SEC("license") = "GPL";

BPF_KVT_STORE(store);			/* for reading and writing */
const volatile __u64 clock_offset;	/* from the CPU's clock to the time of day */
const volatile __u32 only_pid;		/* 0: all */
const volatile __u32 not_pid;		/* the recorder itself */
const volatile bool all_kinds;		/* not only regular files */

struct lat_counts counts;

#define ENOENT		2
#define ENOSPC		28
#define IFMT		0170000
#define IFREG		0100000

/* The fields of kernel structures used here; their offsets are found at load time. */
struct super_block {
	__u32 s_dev;
} __attribute__((preserve_access_index));

struct inode {
	__u16 i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
} __attribute__((preserve_access_index));

struct qstr {
	const unsigned char *name;
} __attribute__((preserve_access_index));

struct dentry {
	struct qstr d_name;
} __attribute__((preserve_access_index));

struct path {
	struct dentry *dentry;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	struct path f_path;
} __attribute__((preserve_access_index));

/* Calls in progress.  A call may make another one, for another file. */
struct begun {
	__u64 thread;
	__u64 file;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct begun);
	__type(value, __u64);
} begun SEC(".maps");

static __always_inline bool wanted(struct file *file)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (pid == not_pid || (only_pid && pid != only_pid))
		return false;
	return all_kinds || (file->f_inode->i_mode & IFMT) == IFREG;
}

static __always_inline void begin(struct file *file)
{
	struct begun key = { bpf_get_current_pid_tgid(), (__u64)file };
	__u64 now = bpf_ktime_get_ns();

	if (wanted(file) && bpf_map_update_elem(&begun, &key, &now, BPF_ANY))
		__sync_fetch_and_add(&counts.missed, 1);
}

static __always_inline void post_name(struct file *file, const struct lat_file *key)
{
	struct {
		struct bpf_kvt_req req;
		struct lat_file key;
	} ask = { { .key_len = sizeof(*key) }, *key };
	const unsigned char *from;
	char name[LAT_NAME];
	long len;

	if (bpf_kvt_exists(&store, &ask, sizeof(ask)) != -ENOENT)
		return;
	from = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	len = bpf_probe_read_kernel_str(name, sizeof(name), from);
	if (len < 1 || len > LAT_NAME)
		return;
	ask.req.flags = BPF_KVT_CREATE;
	/* If it is dropped, the next call posts it again. */
	bpf_kvt_post(&store, &ask, sizeof(ask), name, len - 1);
}

static __always_inline void post_call(const struct lat_key *key, struct lat_call *call)
{
	struct {
		struct bpf_kvt_req req;
		struct lat_key key;
	} ask = { { .key_len = sizeof(*key) }, *key };
	int err;

	err = bpf_kvt_post(&store, &ask, sizeof(ask), call, sizeof(*call));
	if (!err)
		__sync_fetch_and_add(&counts.posted, 1);
	else if (err == -ENOSPC)
		__sync_fetch_and_add(&counts.dropped, 1);
	else
		__sync_fetch_and_add(&counts.missed, 1);
}

static __always_inline void end(struct file *file, __u8 op, __s64 result)
{
	struct begun at = { bpf_get_current_pid_tgid(), (__u64)file };
	__u64 now = bpf_ktime_get_ns(), *start;
	struct lat_call call = { .op = op, .result = result, .pid = at.thread >> 32 };
	struct lat_key key;

	start = bpf_map_lookup_elem(&begun, &at);
	if (!start)
		return;
	call.ns = now - *start;
	bpf_map_delete_elem(&begun, &at);
	bpf_get_current_comm(call.comm, sizeof(call.comm));
	key.file.dev = bpf_htonl(file->f_inode->i_sb->s_dev);
	key.file.ino = bpf_cpu_to_be64(file->f_inode->i_ino);
	key.time = bpf_cpu_to_be64(now + clock_offset);
	key.cpu = bpf_htons(bpf_get_smp_processor_id());
	post_name(file, &key.file);
	post_call(&key, &call);
}

SEC("fentry/vfs_read")
int BPF_PROG(read_begins, struct file *file)
{
	begin(file);
	return 0;
}

SEC("fexit/vfs_read")
int BPF_PROG(read_ends, struct file *file, char *buf, unsigned long count,
	     __s64 *pos, __s64 result)
{
	end(file, LAT_READ, result);
	return 0;
}

SEC("fentry/vfs_write")
int BPF_PROG(write_begins, struct file *file)
{
	begin(file);
	return 0;
}

SEC("fexit/vfs_write")
int BPF_PROG(write_ends, struct file *file, char *buf, unsigned long count,
	     __s64 *pos, __s64 result)
{
	end(file, LAT_WRITE, result);
	return 0;
}
