// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Names of counters.
 */
#include "internal.h"

enum { COUNT, GAUGE };

static const struct {
	const char *name;
	int kind;
	const char *text;
} counter[] = {
	[KVTREE_STAT_KEYS] = { "keys", GAUGE,
		"keys in the store" },
	[KVTREE_STAT_BYTES] = { "bytes", GAUGE,
		"bytes charged against the limit: values and nodes" },
	[KVTREE_STAT_GET] = { "get", COUNT,
		"gets" },
	[KVTREE_STAT_GET_MISS] = { "get_miss", COUNT,
		"gets of a key that was not there" },
	[KVTREE_STAT_PUT] = { "put", COUNT,
		"puts" },
	[KVTREE_STAT_CAS] = { "cas", COUNT,
		"compare-and-swaps" },
	[KVTREE_STAT_CAS_FAIL] = { "cas_fail", COUNT,
		"compare-and-swaps that met another version" },
	[KVTREE_STAT_REMOVE] = { "remove", COUNT,
		"removals" },
	[KVTREE_STAT_ADD] = { "add", COUNT,
		"additions" },
	[KVTREE_STAT_SCAN] = { "scan", COUNT,
		"scans" },
	[KVTREE_STAT_SCAN_RECORDS] = { "scan_records", COUNT,
		"records that scans returned" },
	[KVTREE_STAT_ERROR] = { "error", COUNT,
		"operations refused or failed" },
	[KVTREE_STAT_BATCH] = { "batch", COUNT,
		"batches of more than one operation" },
	[KVTREE_STAT_GET_INTERLEAVED] = { "get_interleaved", COUNT,
		"gets looked up together with others" },
	[KVTREE_STAT_READ_RETRY] = { "read_retry", COUNT,
		"reads that met a change and looked again" },
	[KVTREE_STAT_READ_RESTART] = { "read_restart", COUNT,
		"reads that started again from the root" },
	[KVTREE_STAT_READ_BUSY] = { "read_busy", COUNT,
		"reads that gave up" },
	[KVTREE_STAT_LOCK_CONTENDED] = { "lock_contended", COUNT,
		"writes that found a node locked" },
	[KVTREE_STAT_SPLIT_LEAF] = { "split_leaf", COUNT,
		"leaf nodes split" },
	[KVTREE_STAT_SPLIT_INNER] = { "split_inner", COUNT,
		"inner nodes split" },
	[KVTREE_STAT_ROOT_GROW] = { "root_grow", COUNT,
		"roots that got a new node above them" },
	[KVTREE_STAT_LAYER_CREATE] = { "layer_create", COUNT,
		"layers created" },
	[KVTREE_STAT_LAYER_COLLECT] = { "layer_collect", COUNT,
		"layers taken away with their last key" },
	[KVTREE_STAT_LAYER_COLLAPSE] = { "layer_collapse", COUNT,
		"one-key layers folded into their parent" },
	[KVTREE_STAT_NODE_UNLINK] = { "node_unlink", COUNT,
		"empty nodes taken away" },
	[KVTREE_STAT_ROOT_SHRINK] = { "root_shrink", COUNT,
		"roots replaced by their only child" },
	[KVTREE_STAT_LAYERS] = { "layers", GAUGE,
		"layers below the first" },
	[KVTREE_STAT_LEAF_NODES] = { "leaf_nodes", GAUGE,
		"leaf nodes" },
	[KVTREE_STAT_LEAF_BYTES] = { "leaf_bytes", GAUGE,
		"bytes in leaf nodes" },
	[KVTREE_STAT_INNER_NODES] = { "inner_nodes", GAUGE,
		"inner nodes" },
	[KVTREE_STAT_INNER_BYTES] = { "inner_bytes", GAUGE,
		"bytes in inner nodes" },
	[KVTREE_STAT_VALUES] = { "values", GAUGE,
		"value blocks" },
	[KVTREE_STAT_VALUE_BYTES] = { "value_bytes", GAUGE,
		"bytes in value blocks" },
	[KVTREE_STAT_WAITING_BYTES] = { "waiting_bytes", GAUGE,
		"bytes waiting to be freed" },
	[KVTREE_STAT_WAITING_MAX] = { "waiting_max", COUNT,
		"the most bytes that ever waited to be freed" },
	[KVTREE_STAT_WAITING_STALL] = { "waiting_stall", COUNT,
		"writes that waited for memory to be freed" },
	[KVTREE_STAT_RECLAIM_BATCHES] = { "reclaim_batches", COUNT,
		"batches of memory freed" },
	[KVTREE_STAT_URING] = { "uring", COUNT,
		"commands by io_uring that were executed" },
	[KVTREE_STAT_URING_PUNT] = { "uring_punt", COUNT,
		"commands handed to io_uring's workers" },
	[KVTREE_STAT_URING_WAIT] = { "uring_wait", COUNT,
		"commands that waited without a thread" },
	[KVTREE_STAT_URING_CANCEL] = { "uring_cancel", COUNT,
		"commands canceled before they were executed" },
	[KVTREE_STAT_BPF] = { "bpf", COUNT,
		"calls by BPF programs" },
	[KVTREE_STAT_BPF_BUSY] = { "bpf_busy", COUNT,
		"calls by BPF programs that gave up" },
	[KVTREE_STAT_BPF_POST] = { "bpf_post", COUNT,
		"changes that BPF programs queued" },
	[KVTREE_STAT_BPF_POST_DROP] = { "bpf_post_drop", COUNT,
		"changes of BPF programs dropped: the queue was full" },
	[KVTREE_STAT_BPF_POST_FAIL] = { "bpf_post_fail", COUNT,
		"queued changes of BPF programs that could not be made" },
	[KVTREE_STAT_LOG_EPOCH] = { "log_epoch", GAUGE,
		"the epoch that changes are made in" },
	[KVTREE_STAT_LOG_DURABLE] = { "log_durable", GAUGE,
		"the last epoch that is durable" },
	[KVTREE_STAT_LOG_EPOCHS] = { "log_epochs", COUNT,
		"epochs made durable" },
	[KVTREE_STAT_LOG_BYTES] = { "log_bytes", COUNT,
		"bytes written to the devices" },
	[KVTREE_STAT_LOG_FLUSHES] = { "log_flushes", COUNT,
		"flushes of the devices' caches" },
	[KVTREE_STAT_LOG_SYNC] = { "log_sync", COUNT,
		"waits for an epoch to be durable" },
	[KVTREE_STAT_LOG_STALL] = { "log_stall", COUNT,
		"writes that waited for room in the log" },
	[KVTREE_STAT_LOG_FULL] = { "log_full", COUNT,
		"times that the log was full" },
	[KVTREE_STAT_LOG_CHECKPOINTS] = { "log_checkpoints", COUNT,
		"checkpoints" },
	[KVTREE_STAT_LOG_LIVE_BYTES] = { "log_live_bytes", GAUGE,
		"bytes that a checkpoint of everything would write" },
	[KVTREE_STAT_LOG_CAPACITY] = { "log_capacity", GAUGE,
		"bytes that the devices hold" },
	[KVTREE_STAT_LOG_FREE_BYTES] = { "log_free_bytes", GAUGE,
		"bytes of the devices that are free" },
	[KVTREE_STAT_LOG_ERROR] = { "log_error", GAUGE,
		"error since which the store can only be read, or 0" },
	[KVTREE_STAT_URING_WAKE] = { "uring_wake", COUNT,
		"times that a session with waiting commands was woken" },
	[KVTREE_STAT_LOG_LIVE_MAX] = { "log_live_max", GAUGE,
		"bytes of log_live_bytes that fit the devices on this machine" },
	[KVTREE_STAT_LOG_RECORD_BYTES] = { "log_record_bytes", COUNT,
		"bytes of records logged" },
	[KVTREE_STAT_LOG_CHECKPOINT_BYTES] = { "log_checkpoint_bytes", COUNT,
		"bytes of chunks and tables that checkpoints wrote" },
	[KVTREE_STAT_LOG_CHECKPOINTS_FULL] = { "log_checkpoints_full", COUNT,
		"checkpoints that wrote everything" },
	[KVTREE_STAT_LOG_IMAGE_BYTES] = { "log_image_bytes", GAUGE,
		"bytes of the devices that checkpoints take" },
	[KVTREE_STAT_LOG_RANGES] = { "log_ranges", GAUGE,
		"ranges of the last checkpoint that have pieces" },
	[KVTREE_STAT_LOG_PIECES] = { "log_pieces", GAUGE,
		"pieces that these ranges consist of" },
};

_Static_assert(ARRAY_SIZE(counter) == KVTREE_STAT_NR, "names of counters");

KVTREE_API int kvtree_stat(const struct kvtree *kv, uint64_t *values,
			   unsigned int nr)
{
	struct kvtree_stat_args arg = {
		.values = kvt_ptr(values),
		.nr = nr,
	};
	int err;

	if (nr)
		memset(values, 0, nr * sizeof(*values));
	err = kvt_ioctl(kv, KVTREE_IOC_STAT, &arg);
	return err ? err : (int)arg.nr;
}

KVTREE_API int kvtree_engine_stat(const struct kvtree *kv,
				  struct kvtree_engine_stat *stat, size_t size)
{
	__u32 nr = stat->nr;

	if (size > KVT_IOC_SIZE_MAX || size < sizeof(*stat))
		return -EINVAL;
	memset(stat, 0, size);
	stat->nr = nr;
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_ENGINE_STAT, size), stat);
}

KVTREE_API const char *kvtree_stat_name(unsigned int id)
{
	return id < ARRAY_SIZE(counter) ? counter[id].name : NULL;
}

KVTREE_API const char *kvtree_stat_text(unsigned int id)
{
	return id < ARRAY_SIZE(counter) ? counter[id].text : NULL;
}

KVTREE_API int kvtree_stat_is_gauge(unsigned int id)
{
	return id < ARRAY_SIZE(counter) && counter[id].kind == GAUGE;
}
