// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import "unsafe"

// Limits.
const (
	MaxKey     = 4096    // bytes in a key
	MaxValue   = 1 << 20 // bytes in all columns of a value
	MaxColumns = 256     // columns in a value
	MaxBatch   = 4096    // operations in one system call; a Batch may have more
	MaxDevices = 8       // block devices of a durable store
	maxName    = 64      // bytes in a store's name, with the NUL
	maxEngine  = 16      // bytes in an engine's name, with the NUL
	keyInline  = 16      // bytes of a key that fit into its operation
)

// The following is from <linux/kvtree.h>; TestABI compares what is not generated.
const (
	opGet    = 1
	opPut    = 2
	opCAS    = 3
	opRemove = 4
	opAdd    = 5
	opScan   = 6
	opSync   = 7
)

const (
	// kvtree.yaml: op_flags_go
	fKeyInline = 1 << 0
	fCols      = 1 << 1
	fAllCols   = 1 << 2
	fCreate    = 1 << 3
	fReplace   = 1 << 4
	fVersion   = 1 << 5
	fSync      = 1 << 6
	fWhole     = 1 << 7
	// kvtree.yaml: end
)

const (
	// kvtree.yaml: scan_flags_go
	scanReverse  = 1 << 0
	scanKeysOnly = 1 << 1
	scanAfter    = 1 << 2
	scanPrefix   = 1 << 3
	scanEnd      = 1 << 4
	scanLast     = 1 << 5
	scanAllCols  = 1 << 6
	scanEndIncl  = 1 << 7
	// kvtree.yaml: end

	scanDone = 1 << 0 // in the result

	recCols = 1 << 0
	recMark = 1 << 1
)

const (
	storeDurable       = 1 << 0
	storeSync          = 1 << 1
	storeAttaching     = 1 << 2
	storeReadOnly      = 1 << 3
	storeCheckpointing = 1 << 4
	storeBPF           = 1 << 8

	setMode       = 1 << 0
	setUID        = 1 << 1
	setGID        = 1 << 2
	setLimitBytes = 1 << 3
	setLimitKeys  = 1 << 4

	attachSync     = 1 << 0
	attachReadOnly = 1 << 1

	engineStatNow = 1 << 0
	featureBPF    = 1 << 8
)

const colAbsent = 0xffffffff

type column struct {
	id       uint16
	reserved uint16
	len      uint32
}

type operation struct {
	opcode uint8
	col    uint8
	flags  uint16
	keyLen uint16
	ncols  uint16 // for a scan, the size of struct scan
	valLen uint32
	result int32
	key    [2]uint64 // a pointer, or the key
	val    uint64
	ver    uint64
	arg    uint64
	_      uint64
}

type scan struct {
	end       uint64
	endLen    uint16
	prefixLen uint16
	flags     uint32
	limit     uint32
	count     uint32
	filterID  uint32
	outFlags  uint32
	cols      uint64
	ncols     uint16
	_         [3]uint16
	_         [2]uint64
}

type record struct {
	recLen uint32
	hdrLen uint16
	keyLen uint16
	valLen uint32
	ncols  uint16
	flags  uint16
	ver    uint64
}

type batch struct {
	ops    uint64
	nr     uint32
	opSize uint32
	done   uint32
	flags  uint32
	_      [2]uint64
}

type info struct {
	abiVersion uint32
	keyMax     uint32
	valueMax   uint32
	colsMax    uint32
	batchMax   uint32
	keyInline  uint32
	features   uint64
	ops        uint64
	version    [32]byte
	_          [4]uint64
}

type storeCreate struct {
	name       [maxName]byte
	engine     [maxEngine]byte
	flags      uint32
	mode       uint32
	uid        uint32
	gid        uint32
	limitBytes uint64
	limitKeys  uint64
	pageSize   uint32
	_          uint32
	_          [3]uint64
}

type storeOpen struct {
	name  [maxName]byte
	flags uint32
	_     [3]uint32
}

// For destroying and detaching.
type storeEnd struct {
	name  [maxName]byte
	flags uint32
	_     [3]uint32
}

type storeSet struct {
	name       [maxName]byte
	set        uint32
	mode       uint32
	uid        uint32
	gid        uint32
	limitBytes uint64
	limitKeys  uint64
	_          [2]uint64
}

type storeInfo struct {
	after      uint64
	id         uint64
	name       [maxName]byte
	engine     [maxEngine]byte
	flags      uint32
	mode       uint32
	uid        uint32
	gid        uint32
	limitBytes uint64
	limitKeys  uint64
	keys       uint64
	bytes      uint64
	pageSize   uint32
	progress   uint32
	uuid       [16]byte
	_          uint64
}

type storeAttach struct {
	store     uint64
	storeSize uint32
	flags     uint32
	devices   uint64
	nrDevices uint32
	_         uint32
	until     uint64
	_         [3]uint64
}

type checkpoint struct {
	flags uint32
	_     [3]uint32
}

type statArgs struct {
	values uint64
	nr     uint32
	flags  uint32
	_      [2]uint64
}

type engineStat struct {
	nr    uint32
	flags uint32
	value uint64
	name  [32]byte
	text  [80]byte
}

type bpfAccess struct {
	allow uint32
	flags uint32
	_     [3]uint64
}

type bpfBind struct {
	mapFD  int32
	access uint32
	_      [3]uint64
}

const (
	iocWrite = 1
	iocRead  = 2
)

func ioc(dir, nr, size uintptr) uintptr {
	return dir<<30 | size<<16 | 'K'<<8 | nr
}

var (
	iocInfo         = ioc(iocRead, 0x40, unsafe.Sizeof(info{}))
	iocBatch        = ioc(iocRead|iocWrite, 0x41, unsafe.Sizeof(batch{}))
	iocStoreCreate  = ioc(iocWrite, 0x42, unsafe.Sizeof(storeCreate{}))
	iocStoreOpen    = ioc(iocWrite, 0x43, unsafe.Sizeof(storeOpen{}))
	iocStoreDestroy = ioc(iocWrite, 0x44, unsafe.Sizeof(storeEnd{}))
	iocStoreList    = ioc(iocRead|iocWrite, 0x45, unsafe.Sizeof(storeInfo{}))
	iocStoreSelf    = ioc(iocRead|iocWrite, 0x46, unsafe.Sizeof(storeInfo{}))
	iocStat         = ioc(iocRead|iocWrite, 0x47, unsafe.Sizeof(statArgs{}))
	iocOp           = ioc(iocRead|iocWrite, 0x48, unsafe.Sizeof(operation{}))
	iocEngineStat   = ioc(iocRead|iocWrite, 0x49, unsafe.Sizeof(engineStat{}))
	iocStoreSet     = ioc(iocWrite, 0x4a, unsafe.Sizeof(storeSet{}))
	iocBPFAccess    = ioc(iocWrite, 0x50, unsafe.Sizeof(bpfAccess{}))
	iocBPFBind      = ioc(iocWrite, 0x51, unsafe.Sizeof(bpfBind{}))
	iocStoreAttach  = ioc(iocWrite, 0x60, unsafe.Sizeof(storeAttach{}))
	iocStoreDetach  = ioc(iocWrite, 0x61, unsafe.Sizeof(storeEnd{}))
	iocCheckpoint   = ioc(iocWrite, 0x62, unsafe.Sizeof(checkpoint{}))
)
