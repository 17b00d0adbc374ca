// SPDX-License-Identifier: GPL-2.0
/* The workload: see drive.h. */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "../lib/durable.h"
#include "../lib/kvt_test.h"
#include "../lib/uring.h"
#include "crash.h"
#include "drive.h"

/* Moments: counted by all workers together. */
static uint64_t moment;

struct worker {
	struct crash_drive *drive;
	uint32_t nr;
	pthread_t thread;
	char *data;
	bool by_ring;		/* io_uring, where a sync waits without the thread */
	struct kvt_ring ring;
};

static uint64_t now(void)
{
	return __atomic_add_fetch(&moment, 1, __ATOMIC_SEQ_CST);
}

/* The columns' descriptors and data. */
static struct kvt_bytes fill_columns(const struct crash_op *op, struct kvtree_col *cols, char *data)
{
	uint32_t i, len = 0;

	for (i = 0; i < op->ncols; i++) {
		const struct crash_col *col = &op->col[i];

		cols[i] = (struct kvtree_col){
			.id = col->id, .len = col->gone ? KVTREE_COL_ABSENT : col->len,
		};
		crash_data_make(data + len, col->len, op->id, op->key, col->id);
		len += col->len;
	}
	return kvt_bytes(data, len);
}

static void make_op(struct kvtree_op *op, const struct crash_op *what, struct kvt_bytes key,
		    struct kvtree_col *cols, char *data)
{
	static const int code[] = {
		[CRASH_PUT] = KVTREE_OP_PUT, [CRASH_CAS] = KVTREE_OP_CAS,
		[CRASH_COLUMNS] = KVTREE_OP_PUT, [CRASH_WHOLE] = KVTREE_OP_PUT,
		[CRASH_ADD] = KVTREE_OP_ADD, [CRASH_REMOVE] = KVTREE_OP_REMOVE,
		[CRASH_SYNC] = KVTREE_OP_SYNC,
	};
	struct kvt_bytes val = fill_columns(what, cols, data);

	*op = kvt_op(code[what->kind], key);
	if (what->sync && what->kind != CRASH_SYNC)
		op->flags |= KVTREE_F_SYNC;
	if (what->ncols) {
		op->val = kvt_ptr(val.data);
		op->val_len = val.len;
	}
	if (what->kind == CRASH_COLUMNS || what->kind == CRASH_WHOLE) {
		op->flags |= KVTREE_F_COLS | (what->kind == CRASH_WHOLE ? KVTREE_F_WHOLE : 0);
		op->arg = kvt_ptr(cols);
		op->ncols = (__u16)what->ncols;
	}
	if (what->kind == CRASH_ADD) {
		op->arg = what->addend;
		op->col = CRASH_ADD_COL;
	}
}

/* A batch of one, or a command on the worker's ring. */
static int execute(struct worker *w, struct kvtree_op *op)
{
	int err;

	if (!w->by_ring)
		return kvt_exec(w->drive->fd, op);
	kvt_sqe_op(kvt_ring_sqe(&w->ring), w->drive->fd, op, w->nr);
	err = kvt_ring_result(&w->ring, w->nr);
	return err < 0 ? err : op->result;
}

static void run_op(struct worker *w, const struct crash_op *what, struct crash_result *result)
{
	char key[CRASH_KEY_BYTES];
	struct kvt_bytes bytes = kvt_bytes(key, crash_key_make(key, what->key));
	struct kvtree_col cols[CRASH_COLS];
	struct kvtree_op op;
	int fd = w->drive->fd;

	if (what->kind == CRASH_SYNC)
		bytes = kvt_bytes(NULL, 0);
	make_op(&op, what, bytes, cols, w->data);
	result->op = what->id;
	result->start = now();
	if (what->kind == CRASH_CAS)
		op.version = kvt_version(fd, bytes);
	result->result = execute(w, &op);
	result->end = now();
	result->version = op.version;
	result->sum = what->kind == CRASH_ADD ? op.arg + what->addend : 0;
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct crash_drive *drive = w->drive;
	struct crash_oracle *o = drive->oracle;
	struct crash_result result;
	struct crash_op op;
	cpu_set_t set;
	uint32_t i;

	CPU_ZERO(&set);
	CPU_SET(w->nr % drive->cpus, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		crash_die("there are no %u CPUs", drive->cpus);
	if (w->by_ring)
		kvt_ring_make(&w->ring, 8, 0);
	for (i = 0; i < drive->ops && i < CRASH_RESULTS_MAX; i++) {
		memset(&result, 0, sizeof(result));
		crash_op_make(&op, crash_op_id(o->head.life, w->nr, i));
		run_op(w, &op, &result);
		result.done = 1;
		o->result[w->nr][i] = result;
		drive->done(drive, &op, &result);
		if (drive->checkpoint_every && w->nr == 0 &&
		    i % drive->checkpoint_every == drive->checkpoint_every - 1)
			KVT_CHECK(kvt_checkpoint(drive->fd) == 0);
	}
	if (w->by_ring)
		kvt_ring_exit(&w->ring);
	return NULL;
}

void crash_drive_run(struct crash_drive *drive)
{
	struct worker workers[CRASH_WORKERS];
	uint32_t i, nr = drive->oracle->head.workers;

	for (i = 0; i < nr; i++) {
		workers[i] = (struct worker){
			.drive = drive, .nr = i, .data = malloc(CRASH_COLS * CRASH_DATA_MAX),
			.by_ring = i % 2,
		};
		KVT_CHECK(!pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]));
	}
	for (i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		free(workers[i].data);
	}
}

/* Keys that do not begin as the workload's are left out. */
void crash_drive_scan(int fd, struct crash_state *state)
{
	struct kvtree_scan scan = {
		.flags = KVTREE_SCAN_ALL_COLS | KVTREE_SCAN_PREFIX, .prefix_len = 3,
	};
	struct kvt_list list = { 0 };
	size_t i;
	int j, key;

	memset(state, 0, sizeof(*state));
	KVT_CHECK(kvt_scan_all(fd, STR("key"), &scan, 4 << 20, &list) >= 0);
	for (i = 0; i < list.nr; i++) {
		const struct kvt_rec *rec = &list.rec[i];
		const char *data = (const char *)rec->val.data +
				   rec->ncols * sizeof(struct kvtree_col);
		struct kvtree_col col;

		key = crash_key_parse(rec->key.data, rec->key.len);
		if (key < 0)
			crash_die("a key that nobody has put");
		state->value[key].present = true;
		state->value[key].version = rec->version;
		for (j = 0; j < rec->ncols; j++, data += col.len) {
			memcpy(&col, (const char *)rec->val.data + j * sizeof(col), sizeof(col));
			if (!crash_state_column(state, (uint32_t)key, col.id, data, col.len))
				break;
		}
	}
	kvt_list_free(&list);
}

uint64_t crash_drive_version(int fd)
{
	__u64 version = 0;

	KVT_CHECK(kvt_put(fd, STR("other"), STR("x"), &version) == 0);
	KVT_CHECK(kvt_remove(fd, STR("other")) == 0);
	return version;
}
