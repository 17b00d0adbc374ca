/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests of BPF programs. */
#ifndef KVT_BPF_LIB_H
#define KVT_BPF_LIB_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <kvtree.bpf.h>

#include "lib/kvt_test.h"

#define KVT_RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* A store that programs may use. */
struct kvt_bpf_env {
	struct kvt_env env;
};

/* They end the process if they fail. */
void kvt_bpf_env_init(struct kvt_bpf_env *env, const char *name, __u64 limit_bytes);
void kvt_bpf_env_bind(const struct kvt_bpf_env *env, const struct bpf_map *map, __u32 access);
void kvt_bpf_env_exit(struct kvt_bpf_env *env);
/* A map that can be bound. */
int kvt_bpf_map(void);
__u32 kvt_bpf_map_id(int map_fd);

/* 0 or an errno. */
int kvt_bpf_access(int fd, bool allow);
int kvt_bpf_bind(int fd, int map_fd, __u32 access);
int kvt_bpf_unbind_id(int fd, __u32 map_id);
int kvt_bpf_binding(int fd, struct kvtree_bpf_binding *binding);

/* BPF_PROG_TEST_RUN of a program of any type that can: 0 or an errno. */
int kvt_bpf_run(int prog_fd, unsigned int repeat);

/* libbpf's messages, kept from standard output; what came last. */
void kvt_bpf_quiet(void);
const char *kvt_bpf_log(void);

#endif /* KVT_BPF_LIB_H */
