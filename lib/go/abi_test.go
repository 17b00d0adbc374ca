// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// numbers are constants of <linux/kvtree.h>, and our values for them.
var numbers = []struct {
	c    string
	here uint64
}{
	{"KVTREE_KEY_MAX", MaxKey}, {"KVTREE_VALUE_MAX", MaxValue}, {"KVTREE_COLS_MAX", MaxColumns},
	{"KVTREE_BATCH_MAX", MaxBatch}, {"KVTREE_DEVICES_MAX", MaxDevices},
	{"KVTREE_NAME_MAX", maxName}, {"KVTREE_ENGINE_MAX", maxEngine},
	{"KVTREE_KEY_INLINE", keyInline},
	{"KVTREE_OP_GET", opGet}, {"KVTREE_OP_PUT", opPut}, {"KVTREE_OP_CAS", opCAS},
	{"KVTREE_OP_REMOVE", opRemove}, {"KVTREE_OP_ADD", opAdd}, {"KVTREE_OP_SCAN", opScan},
	{"KVTREE_OP_SYNC", opSync},
	{"KVTREE_SCAN_DONE", scanDone}, {"KVTREE_REC_COLS", recCols}, {"KVTREE_REC_MARK", recMark},
	{"KVTREE_STORE_DURABLE", storeDurable}, {"KVTREE_STORE_SYNC", storeSync},
	{"KVTREE_STORE_ATTACHING", storeAttaching}, {"KVTREE_STORE_READ_ONLY", storeReadOnly},
	{"KVTREE_STORE_CHECKPOINTING", storeCheckpointing},
	{"KVTREE_STORE_BPF", storeBPF},
	{"KVTREE_SET_MODE", setMode}, {"KVTREE_SET_UID", setUID}, {"KVTREE_SET_GID", setGID},
	{"KVTREE_SET_LIMIT_BYTES", setLimitBytes}, {"KVTREE_SET_LIMIT_KEYS", setLimitKeys},
	{"KVTREE_ATTACH_SYNC", attachSync}, {"KVTREE_ATTACH_READ_ONLY", attachReadOnly},
	{"KVTREE_ENGINE_STAT_NOW", engineStatNow}, {"KVTREE_FEAT_BPF", featureBPF},
	{"KVTREE_COL_ABSENT", colAbsent},
	{"KVTREE_OPEN_READ", uint64(Read)}, {"KVTREE_OPEN_WRITE", uint64(Write)},
	{"KVTREE_STAT_NR", uint64(len(counters))},
	{"KVTREE_IOC_INFO", uint64(iocInfo)}, {"KVTREE_IOC_BATCH", uint64(iocBatch)},
	{"KVTREE_IOC_STORE_CREATE", uint64(iocStoreCreate)},
	{"KVTREE_IOC_STORE_OPEN", uint64(iocStoreOpen)},
	{"KVTREE_IOC_STORE_DESTROY", uint64(iocStoreDestroy)},
	{"KVTREE_IOC_STORE_LIST", uint64(iocStoreList)},
	{"KVTREE_IOC_STORE_SELF", uint64(iocStoreSelf)}, {"KVTREE_IOC_STAT", uint64(iocStat)},
	{"KVTREE_IOC_OP", uint64(iocOp)}, {"KVTREE_IOC_ENGINE_STAT", uint64(iocEngineStat)},
	{"KVTREE_IOC_STORE_SET", uint64(iocStoreSet)},
	{"KVTREE_IOC_BPF_ACCESS", uint64(iocBPFAccess)}, {"KVTREE_IOC_BPF_BIND", uint64(iocBPFBind)},
	{"KVTREE_IOC_STORE_ATTACH", uint64(iocStoreAttach)},
	{"KVTREE_IOC_STORE_DETACH", uint64(iocStoreDetach)},
	{"KVTREE_IOC_CHECKPOINT", uint64(iocCheckpoint)},
	{"sizeof(struct kvtree_col)", uint64(columnSize)},
	{"sizeof(struct kvtree_rec)", uint64(recordSize)},
	{"offsetof(struct kvtree_col, len)", uint64(unsafe.Offsetof(column{}.len))},
	{"offsetof(struct kvtree_op, key)", uint64(unsafe.Offsetof(operation{}.key))},
	{"offsetof(struct kvtree_op, val_len)", uint64(unsafe.Offsetof(operation{}.valLen))},
	{"offsetof(struct kvtree_op, result)", uint64(unsafe.Offsetof(operation{}.result))},
	{"offsetof(struct kvtree_op, val)", uint64(unsafe.Offsetof(operation{}.val))},
	{"offsetof(struct kvtree_op, version)", uint64(unsafe.Offsetof(operation{}.ver))},
	{"offsetof(struct kvtree_op, arg)", uint64(unsafe.Offsetof(operation{}.arg))},
	{"sizeof(struct kvtree_scan)", uint64(unsafe.Sizeof(scan{}))},
	{"offsetof(struct kvtree_scan, limit)", uint64(unsafe.Offsetof(scan{}.limit))},
	{"offsetof(struct kvtree_scan, filter_id)", uint64(unsafe.Offsetof(scan{}.filterID))},
	{"offsetof(struct kvtree_scan, out_flags)", uint64(unsafe.Offsetof(scan{}.outFlags))},
	{"offsetof(struct kvtree_scan, cols)", uint64(unsafe.Offsetof(scan{}.cols))},
	{"offsetof(struct kvtree_scan, ncols)", uint64(unsafe.Offsetof(scan{}.ncols))},
	{"offsetof(struct kvtree_batch, done)", uint64(unsafe.Offsetof(batch{}.done))},
	{"offsetof(struct kvtree_info, features)", uint64(unsafe.Offsetof(info{}.features))},
	{"offsetof(struct kvtree_info, version)", uint64(unsafe.Offsetof(info{}.version))},
	{"offsetof(struct kvtree_store_create, limit_bytes)",
		uint64(unsafe.Offsetof(storeCreate{}.limitBytes))},
	{"offsetof(struct kvtree_store_create, page_size)",
		uint64(unsafe.Offsetof(storeCreate{}.pageSize))},
	{"offsetof(struct kvtree_store_set, limit_keys)", uint64(unsafe.Offsetof(storeSet{}.limitKeys))},
	{"offsetof(struct kvtree_store_info, keys)", uint64(unsafe.Offsetof(storeInfo{}.keys))},
	{"offsetof(struct kvtree_store_info, progress)", uint64(unsafe.Offsetof(storeInfo{}.progress))},
	{"offsetof(struct kvtree_store_info, uuid)", uint64(unsafe.Offsetof(storeInfo{}.uuid))},
	{"offsetof(struct kvtree_store_attach, devices)",
		uint64(unsafe.Offsetof(storeAttach{}.devices))},
	{"offsetof(struct kvtree_store_attach, until)", uint64(unsafe.Offsetof(storeAttach{}.until))},
	{"offsetof(struct kvtree_engine_stat, text)", uint64(unsafe.Offsetof(engineStat{}.text))},
	{"offsetof(struct kvtree_rec, version)", 16}, {"offsetof(struct kvtree_rec, ncols)", 12},
	{"offsetof(struct kvtree_bpf_bind, access)", uint64(unsafe.Offsetof(bpfBind{}.access))},
}

// TestABI needs a C compiler, and the header next to this module.
func TestABI(t *testing.T) {
	uapi, err := filepath.Abs("../../uapi")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(uapi, "linux/kvtree.h")); err != nil {
		t.Skip("no <linux/kvtree.h> beside it")
	}
	var source strings.Builder
	source.WriteString("#include <stddef.h>\n#include <linux/kvtree.h>\n")
	for i, n := range numbers {
		fmt.Fprintf(&source, "_Static_assert((unsigned long long)(%s) == %dull, \"%d\");\n",
			n.c, n.here, i)
	}
	cc := exec.Command("cc", "-fsyntax-only", "-I", uapi, "-x", "c", "-")
	cc.Stdin = strings.NewReader(source.String())
	if said, err := cc.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}
