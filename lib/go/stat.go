// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"runtime"
	"unsafe"
)

// A Stat is a counter.
type Stat struct {
	Name  string // as "kvtree stat" shows it
	Text  string // what it counts
	Value uint64
	Now   bool // a gauge; other counters only grow
}

// Counters common to all engines, by their numbers in <linux/kvtree.h>.
var counters = []Stat{
	// kvtree.yaml: counters_go
	{Name: "keys", Text: "keys in the store", Now: true},
	{Name: "bytes", Text: "bytes charged to limit_bytes: values and nodes", Now: true},
	{Name: "get", Text: "gets"},
	{Name: "get_miss", Text: "gets of a key that did not exist"},
	{Name: "put", Text: "puts"},
	{Name: "cas", Text: "compare-and-swaps"},
	{Name: "cas_fail", Text: "compare-and-swaps that met another version"},
	{Name: "remove", Text: "removals"},
	{Name: "add", Text: "additions"},
	{Name: "scan", Text: "scans"},
	{Name: "scan_records", Text: "records that scans returned"},
	{Name: "error", Text: "operations refused or failed"},
	{Name: "batch", Text: "batches of more than one operation"},
	{Name: "get_interleaved", Text: "gets looked up together with others"},
	{Name: "read_retry", Text: "lookups that met a change of a node and read it again"},
	{Name: "read_restart", Text: "lookups that restarted from the root"},
	{Name: "read_busy", Text: "lookups that gave up after a bounded number of retries"},
	{Name: "lock_contended", Text: "writers that found a node locked"},
	{Name: "split_leaf", Text: "leaf nodes split"},
	{Name: "split_inner", Text: "inner nodes split"},
	{Name: "root_grow", Text: "roots that got a new node above them"},
	{Name: "layer_create", Text: "layers created"},
	{Name: "layer_collect", Text: "layers removed with their last key"},
	{Name: "layer_collapse", Text: "one-key layers folded into the layer above"},
	{Name: "node_unlink", Text: "empty leaf nodes removed"},
	{Name: "root_shrink", Text: "roots replaced by their only child"},
	{Name: "layers", Text: "layers below the first", Now: true},
	{Name: "leaf_nodes", Text: "leaf nodes", Now: true},
	{Name: "leaf_bytes", Text: "bytes of leaf nodes", Now: true},
	{Name: "inner_nodes", Text: "inner nodes", Now: true},
	{Name: "inner_bytes", Text: "bytes of inner nodes", Now: true},
	{Name: "values", Text: "values, one for each key", Now: true},
	{Name: "value_bytes", Text: "bytes that values are charged", Now: true},
	{Name: "waiting_bytes", Text: "bytes waiting to be freed", Now: true},
	{Name: "waiting_max", Text: "the most bytes that ever waited to be freed"},
	{Name: "waiting_stall", Text: "writers that waited for memory to be freed"},
	{Name: "reclaim_batches", Text: "batches of memory freed"},
	{Name: "uring", Text: "commands by io_uring that were executed"},
	{Name: "uring_punt", Text: "commands handed to io_uring's workers"},
	{Name: "uring_wait", Text: "commands that waited for an event, without a thread"},
	{Name: "uring_cancel", Text: "commands canceled before they were executed"},
	{Name: "bpf", Text: "calls by BPF programs"},
	{Name: "bpf_busy", Text: "calls by BPF programs that gave up with EBUSY"},
	{Name: "bpf_post", Text: "changes that BPF programs queued"},
	{Name: "bpf_post_drop", Text: "changes of BPF programs dropped: queue full"},
	{Name: "bpf_post_fail", Text: "queued changes of BPF programs that failed"},
	{Name: "log_epoch", Text: "the epoch that changes are made in", Now: true},
	{Name: "log_durable", Text: "the last epoch that is durable", Now: true},
	{Name: "log_epochs", Text: "epochs made durable"},
	{Name: "log_bytes", Text: "bytes written to the devices"},
	{Name: "log_flushes", Text: "flushes of the devices' caches"},
	{Name: "log_sync", Text: "waits for an epoch to be durable"},
	{Name: "log_stall", Text: "writers that waited for room in the log"},
	{Name: "log_full", Text: "times that the log was full"},
	{Name: "log_checkpoints", Text: "checkpoints"},
	{Name: "log_live_bytes", Text: "bytes that a checkpoint of everything writes", Now: true},
	{Name: "log_capacity", Text: "bytes of the devices for log and checkpoints", Now: true},
	{Name: "log_free_bytes", Text: "bytes of log_capacity that are free", Now: true},
	{Name: "log_error", Text: "the errno since which it is read-only, or 0", Now: true},
	{Name: "uring_wake", Text: "times that a session with waiting commands was woken"},
	{Name: "log_live_max", Text: "live bytes that fit the devices on this machine", Now: true},
	{Name: "log_record_bytes", Text: "bytes of records logged"},
	{Name: "log_checkpoint_bytes", Text: "bytes of checkpoints' chunks and tables"},
	{Name: "log_checkpoints_full", Text: "checkpoints that wrote everything"},
	{Name: "log_image_bytes", Text: "bytes of the segments that checkpoints take", Now: true},
	{Name: "log_ranges", Text: "ranges of the last checkpoint that have pieces", Now: true},
	{Name: "log_pieces", Text: "pieces that these ranges consist of", Now: true},
	// kvtree.yaml: end
}

// Stats reads the store's counters.
func (s *Store) Stats() ([]Stat, error) {
	var pins runtime.Pinner
	defer pins.Unpin()

	values := make([]uint64, len(counters))
	args := statArgs{values: pin(&pins, values), nr: uint32(len(values))}
	if _, err := s.call(iocStat, unsafe.Pointer(&args)); err != nil {
		return nil, &Error{Op: "stat", Err: err}
	}
	stats := append([]Stat(nil), counters[:min(len(counters), int(args.nr))]...)
	for i := range stats {
		stats[i].Value = values[i]
	}
	return stats, nil
}

// EngineStats reads the counters of the store's engine. Another version of the module may have
// others.
func (s *Store) EngineStats() ([]Stat, error) {
	var stats []Stat
	for {
		args := engineStat{nr: uint32(len(stats))}
		_, err := s.call(iocEngineStat, unsafe.Pointer(&args))
		if err == NotFound {
			return stats, nil
		} else if err != nil {
			return nil, &Error{Op: "stat", Err: err}
		}
		stats = append(stats, Stat{text(args.name[:]), text(args.text[:]), args.value,
			args.flags&engineStatNow != 0})
	}
}
