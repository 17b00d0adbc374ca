// SPDX-License-Identifier: GPL-2.0
/* Shared by the tests of BPF programs. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "lib.h"

static char log_text[1 << 16];

int kvt_bpf_access(int fd, bool allow)
{
	struct kvtree_bpf_access args = { .allow = allow };

	return kvt_ioctl(fd, KVTREE_IOC_BPF_ACCESS, &args);
}

int kvt_bpf_bind(int fd, int map_fd, __u32 access)
{
	struct kvtree_bpf_bind args = { .map_fd = map_fd, .access = access };

	return kvt_ioctl(fd, KVTREE_IOC_BPF_BIND, &args);
}

int kvt_bpf_unbind_id(int fd, __u32 map_id)
{
	struct kvtree_bpf_unbind args = { .map_id = map_id };

	return kvt_ioctl(fd, KVTREE_IOC_BPF_UNBIND, &args);
}

int kvt_bpf_binding(int fd, struct kvtree_bpf_binding *binding)
{
	__u32 after = binding->map_id;

	memset(binding, 0, sizeof(*binding));
	binding->after = after;
	return kvt_ioctl(fd, KVTREE_IOC_BPF_BINDING, binding);
}

__u32 kvt_bpf_map_id(int map_fd)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	KVT_CHECK(bpf_obj_get_info_by_fd(map_fd, &info, &len) == 0);
	return info.id;
}

int kvt_bpf_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_RDONLY_PROG);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "kvt_test", 4, 8, 1, &opts);

	KVT_CHECK(fd >= 0);
	return fd;
}

void kvt_bpf_env_init(struct kvt_bpf_env *env, const char *name, __u64 limit_bytes)
{
	kvt_env_init(&env->env, name, limit_bytes, 0);
	KVT_CHECK(kvt_bpf_access(env->env.fd, true) == 0);
	kvt_bpf_quiet();
}

void kvt_bpf_env_bind(const struct kvt_bpf_env *env, const struct bpf_map *map, __u32 access)
{
	KVT_CHECK(kvt_bpf_bind(env->env.fd, bpf_map__fd(map), access) == 0);
}

void kvt_bpf_env_exit(struct kvt_bpf_env *env)
{
	kvt_env_exit(&env->env);
}

/* The arguments depend on the type: packets need data, other types must not have any. */
int kvt_bpf_run(int prog_fd, unsigned int repeat)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	char packet[64] = { 0 };
	struct bpf_test_run_opts opts = { .sz = sizeof(opts) };

	if (bpf_prog_get_info_by_fd(prog_fd, &info, &len))
		return -errno;
	switch (info.type) {
	case BPF_PROG_TYPE_SYSCALL:
	case BPF_PROG_TYPE_TRACING:
		/* These run once. */
		return bpf_prog_test_run_opts(prog_fd, &opts);
	default:
		opts.data_in = packet;
		opts.data_size_in = sizeof(packet);
		opts.repeat = repeat;
		return bpf_prog_test_run_opts(prog_fd, &opts);
	}
}

static int log_print(enum libbpf_print_level level, const char *format, va_list args)
{
	size_t used = strlen(log_text);

	if (level == LIBBPF_DEBUG)
		return 0;
	/* Of a long one the end matters, where the verifier says why. */
	if (used > sizeof(log_text) / 2) {
		memmove(log_text, log_text + used / 2, used - used / 2 + 1);
		used = strlen(log_text);
	}
	vsnprintf(log_text + used, sizeof(log_text) - used, format, args);
	return 0;
}

void kvt_bpf_quiet(void)
{
	log_text[0] = 0;
	libbpf_set_print(log_print);
}

const char *kvt_bpf_log(void)
{
	return log_text;
}
