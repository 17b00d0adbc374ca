// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the test programs; see kvt_test.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../kmod/tests/splitmix64.h"
#include "kvt_test.h"

/* The contents of a buffer before the kernel writes to it. */
#define PATTERN		0xa5
/* Bytes after a scan's buffer that must not change. */
#define GUARD		64

void (*kvt_check_failed)(void);

void kvt_check(bool ok, const char *what, const char *file, int line)
{
	int err = errno;

	if (ok)
		return;
	fprintf(stderr, "# %s:%d: not true: %s (errno %d, %s)\n", file, line, what, err,
		strerror(err));
	if (kvt_check_failed)
		kvt_check_failed();
	_exit(1);
}

int kvt_cmp(struct kvt_bytes a, struct kvt_bytes b)
{
	int cmp = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	if (cmp)
		return cmp;
	return a.len < b.len ? -1 : a.len > b.len;
}

int kvt_open(void)
{
	int fd = open(KVT_DEV, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int kvt_ioctl(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

int kvt_batch(int fd, void *ops, __u32 nr, __u32 *done)
{
	struct kvtree_batch batch = {
		.ops = kvt_ptr(ops),
		.nr = nr,
		.op_size = sizeof(struct kvtree_op),
		.done = ~0u,
	};
	int ret = kvt_ioctl(fd, KVTREE_IOC_BATCH, &batch);

	if (done)
		*done = batch.done;
	return ret;
}

int kvt_batch_all(int fd, struct kvtree_op *ops, __u32 nr)
{
	__u32 i, done;
	int ret;

	for (i = 0; i < nr; i += done) {
		ret = kvt_batch(fd, ops + i, nr - i, &done);
		if (ret < 0)
			return ret;
		if (!done)
			return -EINTR;
	}
	return 0;
}

int kvt_exec(int fd, struct kvtree_op *op)
{
	__u32 done;
	int ret = kvt_batch(fd, op, 1, &done);

	if (ret < 0)
		return ret;
	if (done != 1)
		return -EINTR;
	return op->result;
}

struct kvtree_op kvt_op(int opcode, struct kvt_bytes key)
{
	return (struct kvtree_op){
		.opcode = opcode,
		.key = kvt_ptr(key.data),
		.key_len = key.len,
		.arg_size = opcode == KVTREE_OP_SCAN ? sizeof(struct kvtree_scan) : 0,
	};
}

int kvt_get(int fd, struct kvt_bytes key, void *val, __u32 len, __u64 *version)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, key);
	int ret;

	op.val = kvt_ptr(val);
	op.val_len = len;
	ret = kvt_exec(fd, &op);
	if (version)
		*version = op.version;
	return ret;
}

__u64 kvt_version(int fd, struct kvt_bytes key)
{
	/* The first key that begins with the whole key is the key itself. */
	struct kvtree_scan scan = {
		.flags = KVTREE_SCAN_KEYS_ONLY | KVTREE_SCAN_PREFIX,
		.prefix_len = key.len,
		.limit = 1,
	};
	struct kvt_list list = {};
	__u64 version = 0;
	int ret;

	do {
		ret = kvt_scan_once(fd, key, &scan, 2 * KVTREE_KEY_MAX, &list, NULL);
	} while (ret == -EINTR || (!ret && !list.done));
	KVT_CHECK(ret >= 0);
	if (list.nr && list.rec[0].key.len == key.len)
		version = list.rec[0].version;
	kvt_list_free(&list);
	return version;
}

bool kvt_has(int fd, struct kvt_bytes key, struct kvt_bytes val)
{
	char *buf = malloc(val.len + 1);
	int ret;
	bool same;

	KVT_CHECK(buf);
	ret = kvt_get(fd, key, buf, val.len + 1, NULL);
	same = ret == (int)val.len && !memcmp(buf, val.data, val.len);
	free(buf);
	return same;
}

int kvt_put(int fd, struct kvt_bytes key, struct kvt_bytes val, __u64 *version)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, key);
	int ret;

	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	ret = kvt_exec(fd, &op);
	if (version)
		*version = op.version;
	return ret;
}

int kvt_put_flags(int fd, struct kvt_bytes key, struct kvt_bytes val, int flags)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, key);

	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	op.flags = flags;
	return kvt_exec(fd, &op);
}

int kvt_put_cols(int fd, struct kvt_bytes key, const struct kvtree_col *cols, int ncols,
		 struct kvt_bytes val, __u64 *version)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, key);
	int ret;

	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols);
	op.ncols = ncols;
	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	ret = kvt_exec(fd, &op);
	if (version)
		*version = op.version;
	return ret;
}

int kvt_get_cols(int fd, struct kvt_bytes key, struct kvtree_col *cols, int ncols,
		 void *val, __u32 len)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, key);

	op.flags = KVTREE_F_COLS;
	op.arg = kvt_ptr(cols);
	op.ncols = ncols;
	op.val = kvt_ptr(val);
	op.val_len = len;
	return kvt_exec(fd, &op);
}

int kvt_cas(int fd, struct kvt_bytes key, struct kvt_bytes val, __u64 *version)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_CAS, key);
	int ret;

	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	op.version = *version;
	ret = kvt_exec(fd, &op);
	*version = op.version;
	return ret;
}

int kvt_remove(int fd, struct kvt_bytes key)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_REMOVE, key);

	return kvt_exec(fd, &op);
}

int kvt_add(int fd, struct kvt_bytes key, int col, __u64 by, __u64 *before)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_ADD, key);
	int ret;

	op.col = col;
	op.arg = by;
	ret = kvt_exec(fd, &op);
	if (before)
		*before = op.arg;
	return ret;
}

static void copy_name(char *to, const char *name)
{
	KVT_CHECK(strlen(name) < KVTREE_NAME_MAX);
	strcpy(to, name);
}

int kvt_create(int fd, const char *name, __u32 mode, __u64 limit_bytes, __u64 limit_keys)
{
	struct kvtree_store_create create = {
		.mode = mode,
		.limit_bytes = limit_bytes,
		.limit_keys = limit_keys,
	};

	copy_name(create.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_CREATE, &create);
}

int kvt_create_as(int fd, const char *name, __u32 mode, __u32 uid, __u32 gid)
{
	struct kvtree_store_create create = { .mode = mode, .uid = uid, .gid = gid };

	copy_name(create.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_CREATE, &create);
}

int kvt_set(int fd, const char *name, const struct kvtree_store_set *set)
{
	struct kvtree_store_set args = *set;

	copy_name(args.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_SET, &args);
}

int kvt_store(int fd, const char *name, __u32 flags)
{
	struct kvtree_store_open open = { .flags = flags };

	copy_name(open.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_OPEN, &open);
}

int kvt_destroy(int fd, const char *name)
{
	struct kvtree_store_destroy destroy = { .flags = 0 };

	copy_name(destroy.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_DESTROY, &destroy);
}

int kvt_self(int fd, struct kvtree_store_info *info)
{
	memset(info, 0, sizeof(*info));
	return kvt_ioctl(fd, KVTREE_IOC_STORE_SELF, info);
}

bool kvt_is_masstree(int fd)
{
	struct kvtree_store_info info;

	KVT_CHECK(kvt_self(fd, &info) == 0);
	return !strcmp(info.engine, "masstree");
}

__u64 kvt_engine_stat(int fd, const char *name)
{
	struct kvtree_engine_stat stat = { .nr = 0 };

	for (; !kvt_ioctl(fd, KVTREE_IOC_ENGINE_STAT, &stat); stat.nr++)
		if (!strcmp(stat.name, name))
			return stat.value;
	return 0;
}

int kvt_find(int fd, const char *name, struct kvtree_store_info *info)
{
	__u64 after = 0;
	int ret;

	do {
		memset(info, 0, sizeof(*info));
		info->after = after;
		ret = kvt_ioctl(fd, KVTREE_IOC_STORE_LIST, info);
		if (ret < 0)
			return ret;
		KVT_CHECK(info->id > after);
		after = info->id;
	} while (strcmp(info->name, name));
	return 0;
}

int kvt_stats(int fd, __u64 *values)
{
	struct kvtree_stat_args args = { .values = kvt_ptr(values), .nr = KVTREE_STAT_NR };

	memset(values, 0, KVTREE_STAT_NR * sizeof(*values));
	return kvt_ioctl(fd, KVTREE_IOC_STAT, &args);
}

__u64 kvt_stat(int fd, int id)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(fd, stats) == 0);
	return stats[id];
}

int kvt_module_users(void)
{
	FILE *f = fopen("/sys/module/kvtree/refcnt", "re");
	int n = -1;

	if (!f)
		return -1;
	KVT_CHECK(fscanf(f, "%d", &n) == 1);
	fclose(f);
	return n;
}

bool kvt_module_users_are(void *arg)
{
	return kvt_module_users() == *(int *)arg;
}

__u64 kvt_features(int fd)
{
	struct kvtree_info info = {};

	KVT_CHECK(kvt_ioctl(fd, KVTREE_IOC_INFO, &info) == 0);
	return info.features;
}

unsigned long kvt_taint(void)
{
	/* Machine died, bad page, warning, soft lockup. */
	const unsigned long bad = 1 << 7 | 1 << 5 | 1 << 9 | 1 << 14;
	unsigned long taint = 0;
	FILE *f = fopen("/proc/sys/kernel/tainted", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%lu", &taint) != 1)
		taint = 0;
	fclose(f);
	return taint & bad;
}

void kvt_env_init(struct kvt_env *env, const char *name, __u64 limit_bytes, __u64 limit_keys)
{
	/* A killed test leaves its store; the next one uses another. */
	snprintf(env->name, sizeof(env->name), "test-%s-%d", name, getpid());
	env->taint = kvt_taint();
	env->dev = kvt_open();
	KVT_CHECK(env->dev >= 0);
	KVT_CHECK(kvt_create(env->dev, env->name, 0600, limit_bytes, limit_keys) == 0);
	env->fd = kvt_store(env->dev, env->name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	KVT_CHECK(env->fd >= 0);
}

void kvt_set_param(const char *path, const char *text, char *old, size_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t len;

	KVT_CHECK(fd >= 0);
	if (old) {
		len = pread(fd, old, size - 1, 0);
		KVT_CHECK(len > 0);
		old[len] = '\0';
	}
	KVT_CHECK(pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
	close(fd);
}

void kvt_set_bound(const char *text, char *old, size_t size)
{
	kvt_set_param(KVT_BOUND, text, old, size);
}

void kvt_env_exit(struct kvt_env *env)
{
	close(env->fd);
	KVT_CHECK(kvt_destroy(env->dev, env->name) == 0);
	close(env->dev);
	KVT_CHECK(kvt_taint() == env->taint);
}

static bool padding(const unsigned char *p, size_t len)
{
	/* Zeros, or the old contents: anything else comes from the kernel's memory. */
	while (len--) {
		if (*p != 0 && *p != PATTERN)
			return false;
		p++;
	}
	return true;
}

static struct kvt_bytes duplicate(const void *data, __u32 len)
{
	char *copy = malloc(len + 1);

	KVT_CHECK(copy);
	memcpy(copy, data, len);
	/* Keys that are text can be read as such. */
	copy[len] = '\0';
	return kvt_bytes(copy, len);
}

static void check_cols(const struct kvtree_rec *rec, const unsigned char *val)
{
	__u64 sum = (__u64)rec->ncols * sizeof(struct kvtree_col);
	struct kvtree_col col;
	int i, last = -1;

	KVT_CHECK(sum <= rec->val_len);
	for (i = 0; i < rec->ncols; i++) {
		memcpy(&col, val + i * sizeof(col), sizeof(col));
		KVT_CHECK(col.id > last && col.id < KVTREE_COLS_MAX);
		KVT_CHECK(!col.reserved);
		last = col.id;
		sum += col.len;
	}
	KVT_CHECK(sum == rec->val_len);
}

static void append(struct kvt_list *list, const struct kvtree_rec *rec)
{
	const unsigned char *key = (const unsigned char *)rec + rec->hdr_len;
	const unsigned char *val = key + rec->key_len;
	struct kvt_rec *out;

	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->rec = realloc(list->rec, list->room * sizeof(*list->rec));
		KVT_CHECK(list->rec);
	}
	out = &list->rec[list->nr++];
	out->key = duplicate(key, rec->key_len);
	out->val = duplicate(val, rec->val_len);
	out->version = rec->version;
	out->ncols = rec->ncols;
	out->flags = rec->flags;
}

static void take_records(const unsigned char *buf, __u32 filled, const struct kvtree_scan *scan,
			 bool cols, struct kvt_list *list)
{
	__u32 at = 0, used, count = 0;

	while (at < filled) {
		const struct kvtree_rec *rec = (const void *)(buf + at);

		KVT_CHECK(at % 8 == 0);
		KVT_CHECK(filled - at >= sizeof(*rec));
		KVT_CHECK(rec->hdr_len >= sizeof(*rec));
		KVT_CHECK(rec->key_len <= KVTREE_KEY_MAX);
		used = rec->hdr_len + rec->key_len + rec->val_len;
		KVT_CHECK(rec->val_len <= KVTREE_VALUE_MAX +
			  KVTREE_COLS_MAX * sizeof(struct kvtree_col));
		KVT_CHECK(rec->rec_len >= used && rec->rec_len - used < 8);
		KVT_CHECK(rec->rec_len <= filled - at);
		KVT_CHECK(padding((const unsigned char *)rec + used, rec->rec_len - used));
		if (rec->flags == KVTREE_REC_MARK) {
			/* Only a key, after all records. */
			KVT_CHECK(scan->filter_id && at + rec->rec_len == filled);
			KVT_CHECK(!rec->version && !rec->val_len && !rec->ncols);
			append(list, rec);
			break;
		}
		KVT_CHECK(rec->version != 0);
		KVT_CHECK((rec->flags & ~KVTREE_REC_COLS) == 0);
		if (scan->flags & KVTREE_SCAN_KEYS_ONLY)
			KVT_CHECK(!rec->val_len && !rec->ncols);
		KVT_CHECK(!(rec->flags & KVTREE_REC_COLS) == !cols);
		KVT_CHECK(cols || !rec->ncols);
		if (rec->flags & KVTREE_REC_COLS)
			check_cols(rec, (const unsigned char *)rec + rec->hdr_len + rec->key_len);
		append(list, rec);
		at += rec->rec_len;
		count++;
	}
	KVT_CHECK(count == scan->count);
}

int kvt_scan_once(int fd, struct kvt_bytes start, struct kvtree_scan *scan, __u32 room,
		  struct kvt_list *list, __u32 *need)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, start);
	unsigned char *buf;
	bool cols = scan->ncols || (scan->flags & KVTREE_SCAN_ALL_COLS);
	int i, ret;

	buf = malloc(room + GUARD);
	KVT_CHECK(buf);
	memset(buf, PATTERN, room + GUARD);
	scan->count = 0;
	scan->out_flags = 0;
	op.arg = kvt_ptr(scan);
	op.val = kvt_ptr(buf);
	op.val_len = room;
	ret = kvt_exec(fd, &op);
	for (i = 0; i < GUARD; i++)
		KVT_CHECK(buf[room + i] == PATTERN);
	if (need)
		*need = op.val_len;
	list->calls++;
	list->done = false;
	if (ret >= 0) {
		KVT_CHECK((__u32)ret <= room);
		KVT_CHECK(!scan->limit || scan->count <= scan->limit);
		KVT_CHECK((scan->out_flags & ~KVTREE_SCAN_DONE) == 0);
		list->done = scan->out_flags & KVTREE_SCAN_DONE;
		take_records(buf, ret, scan, cols, list);
	}
	free(buf);
	return ret;
}

int kvt_scan_all(int fd, struct kvt_bytes start, const struct kvtree_scan *scan, __u32 room,
		 struct kvt_list *list)
{
	struct kvt_bytes from = start;
	struct kvtree_scan next = *scan;
	__u32 need, size = room;
	size_t nr, idle = 0;
	int ret;

	for (;;) {
		nr = list->nr;
		ret = kvt_scan_once(fd, from, &next, size, list, &need);
		if (ret == -EMSGSIZE) {
			KVT_CHECK(need > size);
			size = need;
			continue;
		}
		if (ret == -EINTR)
			continue;
		if (ret < 0 || list->done)
			return ret < 0 ? ret : 0;
		size = room;
		if (list->nr == nr) {
			/* Allowed if a signal came, but not for ever. */
			KVT_CHECK(++idle < 100000);
			continue;
		}
		from = list->rec[list->nr - 1].key;
		next.flags = (next.flags & ~KVTREE_SCAN_LAST) | KVTREE_SCAN_AFTER;
	}
}

void kvt_list_free(struct kvt_list *list)
{
	size_t i;

	for (i = 0; i < list->nr; i++) {
		free((void *)list->rec[i].key.data);
		free((void *)list->rec[i].val.data);
	}
	free(list->rec);
	memset(list, 0, sizeof(*list));
}

static __u64 fnv(__u64 hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len--)
		hash = (hash ^ *p++) * 0x100000001b3ull;
	return hash;
}

__u64 kvt_digest(int fd)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = {};
	__u64 hash = 0xcbf29ce484222325ull;
	size_t i;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 18, &list) == 0);
	for (i = 0; i < list.nr; i++) {
		const struct kvt_rec *rec = &list.rec[i];

		hash = fnv(hash, &rec->key.len, sizeof(rec->key.len));
		hash = fnv(hash, rec->key.data, rec->key.len);
		hash = fnv(hash, &rec->val.len, sizeof(rec->val.len));
		hash = fnv(hash, rec->val.data, rec->val.len);
		hash = fnv(hash, &rec->version, sizeof(rec->version));
	}
	kvt_list_free(&list);
	return hash;
}

void kvt_rand_init(struct kvt_rand *rand, __u64 salt)
{
	const char *env = getenv("KVT_SEED");
	__u64 seed = env ? strtoull(env, NULL, 0) : 20261121;

	fprintf(stderr, "# seed %llu (KVT_SEED), salt %llu\n", (unsigned long long)seed,
		(unsigned long long)salt);
	rand->state = (seed + 1) * SPLITMIX64_STEP + salt;
}

__u64 kvt_rand(struct kvt_rand *rand)
{
	return splitmix64(rand->state += SPLITMIX64_STEP);
}

__u32 kvt_rand_below(struct kvt_rand *rand, __u32 n)
{
	return (kvt_rand(rand) >> 32) * n >> 32;
}

bool kvt_allow_tags(void)
{
#if defined(__aarch64__) && defined(PR_SET_TAGGED_ADDR_CTRL)
	return !prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0);
#else
	return false;
#endif
}

char *kvt_map_guarded(size_t pages)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	KVT_CHECK(p != MAP_FAILED);
	/* Not a hole, which the next mmap() might fill. */
	KVT_CHECK(mprotect(p + pages * page, page, PROT_NONE) == 0);
	return p + pages * page;
}

void *kvt_map_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	KVT_CHECK(p != MAP_FAILED);
	return p;
}

int kvt_child(void)
{
	int parent = getpid(), pid;

	fflush(stdout);
	fflush(stderr);
	pid = fork();
	KVT_CHECK(pid >= 0);
	if (!pid) {
		KVT_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

int kvt_fork(int (*fn)(void *arg), void *arg)
{
	int pid = kvt_child();

	if (!pid)
		_exit(fn(arg));
	return pid;
}

void kvt_read_process(const char *process, const char *file, char *text, size_t size)
{
	char path[300];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/%s", process, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, size - 1);
	text[len > 0 ? len : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static bool thread_blocks(int pid, const char *tid, const char *name)
{
	char thread[300], text[200], *at;

	snprintf(thread, sizeof(thread), "%d/task/%s", pid, tid);
	kvt_read_process(thread, "stat", text, sizeof(text));
	at = strchr(text, '(');
	return at && !strncmp(at + 1, name, strlen(name)) && strstr(at, ") D ");
}

bool kvt_thread_blocks(int pid, const char *name)
{
	struct dirent *entry;
	bool found = false;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	KVT_CHECK(tasks);
	while (!found && (entry = readdir(tasks)))
		found = thread_blocks(pid, entry->d_name, name);
	closedir(tasks);
	return found;
}

int kvt_wait(int pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		KVT_CHECK(errno == EINTR);
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

bool kvt_has_ended(void *process)
{
	struct kvt_process *p = process;
	int ret = waitpid(p->pid, &p->status, WNOHANG);

	KVT_CHECK(ret >= 0);
	return ret;
}

int kvt_run(int (*fn)(void *arg), void *arg)
{
	return kvt_wait(kvt_fork(fn, arg));
}

void kvt_send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	KVT_CHECK(sendmsg(sock, &msg, 0) == 1);
}

int kvt_receive_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd;

	KVT_CHECK(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1);
	KVT_CHECK(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

void kvt_drop(__u32 uid, __u32 gid)
{
	KVT_CHECK(setgroups(0, NULL) == 0);
	KVT_CHECK(setresgid(gid, gid, gid) == 0);
	/* Leaving uid 0 gives up all capabilities. */
	KVT_CHECK(setresuid(uid, uid, uid) == 0);
}

void kvt_run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	KVT_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

void kvt_sleep_ms(unsigned int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts) < 0)
		KVT_CHECK(errno == EINTR);
}

static bool kernel_has_checkers(void)
{
	return !access("/proc/lockdep_stats", F_OK);
}

__u64 kvt_fewer(__u64 n, unsigned int part)
{
	return kernel_has_checkers() ? n / part : n;
}

bool kvt_leave_out(void)
{
	const char *text = getenv("KVT_SHORT");

	return text && !strcmp(text, "1") && kernel_has_checkers();
}

static void tell_stacks(const char *name, int pid)
{
	char *script = getenv("KVTREE_STACKS"), number[16];
	int child;

	if (!script)
		return;
	snprintf(number, sizeof(number), "%d", pid);
	child = kvt_child();
	if (!child) {
		execl(script, script, name, number, NULL);
		_exit(1);
	}
	kvt_wait(child);
}

/* Whether it is of the group, and runs or is blocked. */
static bool is_alive(const char *process, int group)
{
	char text[512], *after, state;
	int its_group;

	kvt_read_process(process, "stat", text, sizeof(text));
	/* After the name, which may contain anything. */
	after = strrchr(text, ')');
	return after && sscanf(after + 1, " %c %*d %d", &state, &its_group) == 2 &&
	       its_group == group && state != 'Z';
}

/* Whether a group of processes has ended; the harness has not waited for all of them. */
static bool group_has_ended(void *group)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	bool alive = false;

	KVT_CHECK(processes);
	while (!alive && (entry = readdir(processes)))
		alive = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			is_alive(entry->d_name, *(int *)group);
	closedir(processes);
	return !alive;
}

void kvt_timed_out(const char *name, int pid)
{
	tell_stacks(name, pid);
	if (kvt_check_failed)
		kvt_check_failed();
	KVT_CHECK(kill(-pid, SIGKILL) == 0);
	if (kvt_eventually(group_has_ended, &pid))
		return;
	printf("Bail out! %s cannot be killed\n", name);
	fflush(stdout);
	_exit(1);
}

bool kvt_eventually(bool (*until)(void *arg), void *arg)
{
	int i;

	for (i = 0; i < 6000; i++) {
		if (until(arg))
			return true;
		kvt_sleep_ms(10);
	}
	return false;
}

bool kvt_try_again(time_t *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!*end)
		*end = now.tv_sec + 200;
	return now.tv_sec < *end;
}

int kvt_nth_open(void)
{
	return open(KVT_NTH, O_RDWR | O_CLOEXEC);
}

void kvt_nth_set(int nth, unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	/* This copies from user memory as well, which may be what fails. */
	while (pwrite(nth, text, len, 0) != len)
		KVT_CHECK(errno == EFAULT);
}

bool kvt_nth_done(int nth)
{
	char text[16] = "";
	unsigned int left;

	if (pread(nth, text, sizeof(text) - 1, 0) < 0) {
		/* It was left, and hit this read. */
		KVT_CHECK(errno == EFAULT);
		return false;
	}
	left = strtoul(text, NULL, 10);
	if (left)
		kvt_nth_set(nth, 0);
	return !left;
}
