// SPDX-License-Identifier: GPL-2.0
/* Behaviour of hostile callers; see hostile.h. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hostile.h"
#include "kvt_test.h"

const __u64 kvt_wild[KVT_NR_WILD] = {
	8, 4095,
	0x00007ffffffff000ull,
	0x00007fffffffffffull,
	0x0000800000000000ull,
	0x8000000000000000ull,
	0xdead000000000000ull,
	0xffff800000000000ull,
	0xffff888000001000ull,
	0xffffffff81000000ull,
	0xfffffffffffff000ull,
	0xffffffffffffffffull,
};

bool kvt_documented(int err)
{
	static const int errs[] = {
		EINVAL, EFAULT, ENOENT, EEXIST, ECANCELED, EMSGSIZE, E2BIG, EOPNOTSUPP, EDQUOT,
		ENOMEM,
	};
	size_t i;

	for (i = 0; i < NR(errs); i++) {
		if (err == -errs[i])
			return true;
	}
	return err >= 0;
}

bool kvt_race_over(const struct kvt_race *race)
{
	return __atomic_load_n(&race->stop, __ATOMIC_RELAXED);
}

void kvt_race_begin(struct kvt_race *race)
{
	__atomic_store_n(&race->started, 1, __ATOMIC_RELEASE);
}

int kvt_race_start(struct kvt_race *race, int (*fn)(void *arg), void *arg)
{
	int pid;

	race->stop = 0;
	race->started = 0;
	pid = kvt_fork(fn, arg);
	while (!__atomic_load_n(&race->started, __ATOMIC_ACQUIRE))
		sched_yield();
	return pid;
}

void kvt_race_stop(struct kvt_race *race, int pid)
{
	__atomic_store_n(&race->stop, 1, __ATOMIC_RELAXED);
	KVT_CHECK(kvt_wait(pid) == 0);
}

void kvt_stay_clear_of_uml_race(void)
{
	char line[256];
	FILE *f;

	f = fopen("/proc/cpuinfo", "r");
	KVT_CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "User Mode Linux"))
			kvt_run_on(0);
	fclose(f);
}

void kvt_arena_make(struct kvt_arena *a)
{
	a->edge = kvt_map_guarded(KVT_ARENA_PAGES);
	a->mem = (unsigned char *)a->edge - KVT_ARENA_PAGES * sysconf(_SC_PAGESIZE);
}

__u64 kvt_random_pointer(struct kvt_rand *rand, struct kvt_arena *a)
{
	switch (kvt_rand_below(rand, 16)) {
	case 0:
		return kvt_wild[kvt_rand_below(rand, KVT_NR_WILD)];
	case 1:
		return kvt_rand(rand);
	case 2:
		return kvt_ptr(a->edge) - kvt_rand_below(rand, 64);
	case 3:
		return 0;
	default:
		return kvt_ptr(a->mem + kvt_rand_below(rand, 1 << 15));
	}
}

__u64 kvt_random_number(struct kvt_rand *rand)
{
	static const __u64 edges[] = {
		0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 257, 4095, 4096, 4097, 65535,
		1 << 20, (1 << 20) + 1, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull,
	};

	if (kvt_rand_below(rand, 3))
		return kvt_rand_below(rand, 20);
	if (kvt_rand_below(rand, 2))
		return edges[kvt_rand_below(rand, NR(edges))];
	return kvt_rand(rand);
}

void kvt_random_bytes(struct kvt_rand *rand, void *to, size_t len)
{
	unsigned char *p = to;

	while (len--)
		*p++ = kvt_rand(rand);
}

void kvt_random_arena(struct kvt_rand *rand, struct kvt_arena *a)
{
	size_t at;

	for (at = 0; at < 1 << 16; at += 64) {
		if (kvt_rand_below(rand, 4) == 0) {
			struct kvtree_scan *scan = (void *)(a->mem + at);

			memset(scan, 0, sizeof(*scan));
			scan->flags = kvt_rand_below(rand, 512);
			scan->limit = kvt_random_number(rand);
			if (kvt_rand_below(rand, 2)) {
				scan->end = kvt_random_pointer(rand, a);
				scan->end_len = kvt_random_number(rand);
			}
			if (kvt_rand_below(rand, 4) == 0) {
				scan->cols = kvt_random_pointer(rand, a);
				scan->ncols = kvt_rand_below(rand, 5);
			}
			scan->prefix_len = kvt_rand_below(rand, 3) ? 0 : kvt_random_number(rand);
		} else {
			struct kvtree_col *cols = (void *)(a->mem + at);
			int i, id = 0;

			for (i = 0; i < 8; i++) {
				id += kvt_rand_below(rand, 4);
				cols[i].id = id;
				cols[i].reserved = 0;
				cols[i].len = kvt_rand_below(rand, 8) ? kvt_rand_below(rand, 9) :
					      kvt_random_number(rand);
			}
		}
	}
}

void kvt_random_op(struct kvt_rand *rand, struct kvt_arena *a, struct kvtree_op *op)
{
	if (kvt_rand_below(rand, 8) == 0) {
		kvt_random_bytes(rand, op, sizeof(*op));
		return;
	}
	memset(op, 0, sizeof(*op));
	op->opcode = kvt_rand_below(rand, KVTREE_OP_NR + 1);
	op->flags = kvt_rand_below(rand, 3) ? 0 : kvt_rand_below(rand, 512);
	op->key_len = kvt_random_number(rand);
	if (kvt_rand_below(rand, 2)) {
		op->flags |= KVTREE_F_KEY_INLINE;
		op->key_len %= 18;
		op->key_inline[0] = kvt_rand_below(rand, 4);
	} else {
		op->key = kvt_random_pointer(rand, a);
	}
	if (kvt_rand_below(rand, 4)) {
		op->val = kvt_random_pointer(rand, a);
		op->val_len = kvt_random_number(rand);
	}
	if (kvt_rand_below(rand, 2))
		op->version = kvt_random_number(rand);
	if (kvt_rand_below(rand, 2)) {
		op->arg = kvt_random_pointer(rand, a);
		op->ncols = kvt_random_number(rand);
		if (op->opcode == KVTREE_OP_SCAN && kvt_rand_below(rand, 4))
			op->arg_size = sizeof(struct kvtree_scan);
	}
	if (kvt_rand_below(rand, 8) == 0)
		op->col = kvt_rand(rand);
	if (kvt_rand_below(rand, 16) == 0)
		op->reserved = kvt_rand(rand);
}

void kvt_check_sound(int fd)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list up = {}, down = {};
	size_t i;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 20, &up) == 0);
	scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 20, &down) == 0);
	KVT_CHECK(up.nr == down.nr);
	for (i = 0; i < up.nr; i++) {
		const struct kvt_rec *a = &up.rec[i], *b = &down.rec[up.nr - 1 - i];

		KVT_CHECK(kvt_cmp(a->key, b->key) == 0);
		KVT_CHECK(kvt_cmp(a->val, b->val) == 0);
		KVT_CHECK(a->version == b->version);
		if (i)
			KVT_CHECK(kvt_cmp(up.rec[i - 1].key, a->key) < 0);
	}
	kvt_list_free(&up);
	kvt_list_free(&down);
	KVT_CHECK(kvt_put(fd, STR("still"), STR("works"), NULL) == 0);
	KVT_CHECK(kvt_has(fd, STR("still"), STR("works")));
	KVT_CHECK(kvt_remove(fd, STR("still")) == 0);
}

struct kvtree_op kvt_good_op(int opcode)
{
	static struct kvtree_scan scan;
	static char buf[256];
	struct kvtree_op op = kvt_op(opcode, STR("k"));

	if (opcode == KVTREE_OP_NOP || opcode == KVTREE_OP_SYNC)
		return kvt_op(opcode, kvt_bytes(NULL, 0));
	if (opcode == KVTREE_OP_SCAN) {
		memset(&scan, 0, sizeof(scan));
		op.arg = kvt_ptr(&scan);
	}
	if (opcode == KVTREE_OP_GET || opcode == KVTREE_OP_SCAN) {
		op.val = kvt_ptr(buf);
		op.val_len = sizeof(buf);
	}
	if (opcode == KVTREE_OP_PUT || opcode == KVTREE_OP_CAS) {
		op.val = kvt_ptr("new");
		op.val_len = 3;
	}
	if (opcode == KVTREE_OP_ADD)
		op.key = kvt_ptr("n");
	return op;
}

static void *unmap_thread(void *arg)
{
	struct kvt_unmap *u = arg;

	while (!__atomic_load_n(&u->stop, __ATOMIC_RELAXED)) {
		switch (u->how) {
		case 0:
			KVT_CHECK(munmap(u->mem, u->bytes) == 0);
			break;
		case 1:
			KVT_CHECK(madvise(u->mem, u->bytes, MADV_DONTNEED) == 0);
			break;
		case 2:
			KVT_CHECK(mprotect(u->mem, u->bytes, PROT_READ) == 0);
			break;
		}
		sched_yield();
		if (u->how == 2)
			KVT_CHECK(mprotect(u->mem, u->bytes, PROT_READ | PROT_WRITE) == 0);
		else
			KVT_CHECK(mmap(u->mem, u->bytes, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == u->mem);
		sched_yield();
	}
	return NULL;
}

void kvt_unmap_start(struct kvt_unmap *u)
{
	u->stop = 0;
	KVT_CHECK(pthread_create(&u->thread, NULL, unmap_thread, u) == 0);
}

void kvt_unmap_stop(struct kvt_unmap *u)
{
	__atomic_store_n(&u->stop, 1, __ATOMIC_RELAXED);
	KVT_CHECK(pthread_join(u->thread, NULL) == 0);
}

static int truncate_child(void *arg)
{
	struct kvt_truncate *t = arg;

	kvt_race_begin(&t->race);
	while (!kvt_race_over(&t->race)) {
		KVT_CHECK(ftruncate(t->fd, 0) == 0);
		sched_yield();
		KVT_CHECK(ftruncate(t->fd, t->bytes) == 0);
		sched_yield();
	}
	return 0;
}

struct kvt_truncate *kvt_truncate_start(size_t bytes)
{
	struct kvt_truncate *t = kvt_map_shared(sizeof(*t));

	t->bytes = bytes;
	t->fd = memfd_create("kvtree-test", MFD_CLOEXEC);
	KVT_CHECK(t->fd >= 0);
	KVT_CHECK(ftruncate(t->fd, bytes) == 0);
	t->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	KVT_CHECK(t->mem != MAP_FAILED);
	t->pid = kvt_race_start(&t->race, truncate_child, t);
	return t;
}

void kvt_truncate_stop(struct kvt_truncate *t)
{
	kvt_race_stop(&t->race, t->pid);
}
