/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of BPF programs share. */
#ifndef KVT_BPF_LIB_H
#define KVT_BPF_LIB_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <kvtree.bpf.h>

#include "lib/kvt_test.h"

/* A store that programs may use, and its handles. */
struct kvt_bpf_env {
	struct kvt_env env;
	__u64 read;
	__u64 write;
	__u64 both;
};

/* They end the process if they fail. */
void kvt_bpf_env_init(struct kvt_bpf_env *env, const char *name, __u64 limit_bytes);
void kvt_bpf_env_exit(struct kvt_bpf_env *env);

int kvt_bpf_access(int fd, bool allow);
/* 0 or an errno. */
int kvt_bpf_handle(int fd, __u32 access, __u64 *handle);

/* BPF_PROG_TEST_RUN of a program of any type that can: 0 or an errno. */
int kvt_bpf_run(int prog_fd, unsigned int repeat);

/* libbpf's messages, kept from standard output; what came last. */
void kvt_bpf_quiet(void);
const char *kvt_bpf_log(void);

#endif /* KVT_BPF_LIB_H */
