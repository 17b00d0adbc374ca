// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"io/fs"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Settings are the settings of a new store.
type Settings struct {
	Engine     string      // "masstree" or "bwtree"; "" is the module's default
	Mode       fs.FileMode // permissions, as for a file; 0 is 0600
	UID, GID   uint32
	LimitBytes uint64 // 0: none
	LimitKeys  uint64 // 0: none
	PageSize   uint32 // of the Bw-tree, in bytes; 0: the default
	BPF        bool   // programs may use it, once a map is bound to it
}

// A StoreInfo describes a store.
type StoreInfo struct {
	ID         uint64 // never given to another store
	Name       string
	Engine     string
	Mode       fs.FileMode
	UID, GID   uint32
	LimitBytes uint64
	LimitKeys  uint64
	Keys       uint64
	Bytes      uint64 // charged against the limit
	PageSize   uint32
	UUID       [16]byte // identifies its devices
	Durable    bool
	Sync       bool // every change waits until it is durable
	Attaching  bool // it is being recovered
	ReadOnly   bool // it was attached read-only
	BPF        bool // programs may use it
	// Checkpointing tells whether a checkpoint is being written.
	Checkpointing bool
	// Progress says how much of it is written, in percent, if it writes everything; otherwise 0.
	Progress int
}

// A ModuleInfo describes the kernel module.
type ModuleInfo struct {
	Version  string
	ABI      uint32
	Features uint64 // KVTREE_FEAT_* of <linux/kvtree.h>
	BPF      bool   // programs can use stores
}

func text(b []byte) string {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		b = b[:n]
	}
	return string(b)
}

// onDevice makes a call for a store that is given by its name.
func onDevice(what, name string, cmd uintptr, args unsafe.Pointer) error {
	fd, err := openDevice(what, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := ioctl(fd, cmd, args); err != nil {
		return &Error{Op: what, Store: name, Err: err}
	}
	return nil
}

// Module describes the kernel module.
func Module() (*ModuleInfo, error) {
	var args info
	if err := onDevice("info", "", iocInfo, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return &ModuleInfo{text(args.version[:]), args.abiVersion, args.features,
		args.features&featureBPF != 0}, nil
}

func (settings *Settings) fill(args *storeCreate, name string) error {
	if err := setName(args.name[:], name); err != nil {
		return err
	}
	if err := setName(args.engine[:], settings.Engine); err != nil {
		return err
	}
	args.mode = uint32(settings.Mode.Perm())
	if settings.Mode == 0 {
		args.mode = 0o600
	}
	if settings.BPF {
		args.flags = storeBPF
	}
	args.uid, args.gid = settings.UID, settings.GID
	args.limitBytes, args.limitKeys = settings.LimitBytes, settings.LimitKeys
	args.pageSize = settings.PageSize
	return nil
}

// CreateStore creates a volatile store.
func CreateStore(name string, settings Settings) error {
	var args storeCreate
	if err := settings.fill(&args, name); err != nil {
		return &Error{Op: "create", Store: name, Err: err}
	}
	return onDevice("create", name, iocStoreCreate, unsafe.Pointer(&args))
}

// DestroyStore destroys a volatile store, and waits until its memory is free.
func DestroyStore(name string) error {
	return end("destroy", name, iocStoreDestroy)
}

// DetachStore makes everything durable, and releases the store's devices, which keep its data.
func DetachStore(name string) error {
	return end("detach", name, iocStoreDetach)
}

func end(what, name string, cmd uintptr) error {
	var args storeEnd
	if err := setName(args.name[:], name); err != nil {
		return &Error{Op: what, Store: name, Err: err}
	}
	return onDevice(what, name, cmd, unsafe.Pointer(&args))
}

// Attachment says how a durable store is attached.
type Attachment struct {
	Settings
	Sync     bool   // every change waits until it is durable
	ReadOnly bool   // nothing is written to the devices
	Until    uint64 // with ReadOnly: the store's state at the end of this epoch
}

// AttachStore recovers a durable store from its devices. If the context ends first, recovery goes
// on, and the store will be attached later.
func AttachStore(ctx context.Context, name string, how Attachment, devices ...string) error {
	var store storeCreate
	if err := how.fill(&store, name); err != nil {
		return &Error{Op: "attach", Store: name, Err: err}
	}
	if len(devices) > MaxDevices {
		return &Error{Op: "attach", Store: name, Err: Invalid}
	}
	err := ctx.Err()
	if err == nil && ctx.Done() == nil {
		return attach(name, &store, &how, devices)
	} else if err == nil {
		devices = slices.Clone(devices)
		var over bool
		over, err = attaching.run(ctx, func() error {
			return attach(name, &store, &how, devices)
		})
		if over {
			return err
		}
	}
	return &Error{Op: "attach", Store: name, Err: err}
}

var attaching leaver

func attach(name string, store *storeCreate, how *Attachment, devices []string) error {
	var pins runtime.Pinner
	defer pins.Unpin()

	args := storeAttach{storeSize: uint32(unsafe.Sizeof(*store)), until: how.Until,
		nrDevices: uint32(len(devices))}
	if how.Sync {
		args.flags |= attachSync
	}
	if how.ReadOnly {
		args.flags |= attachReadOnly
	}
	paths := make([]uint64, len(devices))
	for i, path := range devices {
		terminated, err := unix.ByteSliceFromString(path)
		if err != nil {
			return &Error{Op: "attach", Store: name, Err: Invalid}
		}
		paths[i] = pin(&pins, terminated)
	}
	pins.Pin(store)
	args.store = uint64(uintptr(unsafe.Pointer(store)))
	args.devices = pin(&pins, paths)
	return onDevice("attach", name, iocStoreAttach, unsafe.Pointer(&args))
}

// A Change changes the settings of a store that are not nil.
type Change struct {
	Mode       *fs.FileMode
	UID, GID   *uint32
	LimitBytes *uint64
	LimitKeys  *uint64
}

// SetStore changes settings of a store, all of them or none.
func SetStore(name string, change Change) error {
	var args storeSet
	if err := setName(args.name[:], name); err != nil {
		return &Error{Op: "set", Store: name, Err: err}
	}
	if change.Mode != nil {
		args.set |= setMode
		args.mode = uint32(change.Mode.Perm())
	}
	put(&args.set, setUID, &args.uid, change.UID)
	put(&args.set, setGID, &args.gid, change.GID)
	put(&args.set, setLimitBytes, &args.limitBytes, change.LimitBytes)
	put(&args.set, setLimitKeys, &args.limitKeys, change.LimitKeys)
	return onDevice("set", name, iocStoreSet, unsafe.Pointer(&args))
}

func put[T any](set *uint32, flag uint32, field, value *T) {
	if value != nil {
		*set |= flag
		*field = *value
	}
}

func (args *storeInfo) describe() StoreInfo {
	return StoreInfo{
		ID: args.id, Name: text(args.name[:]), Engine: text(args.engine[:]),
		Mode: fs.FileMode(args.mode), UID: args.uid, GID: args.gid,
		LimitBytes: args.limitBytes, LimitKeys: args.limitKeys,
		Keys: args.keys, Bytes: args.bytes, PageSize: args.pageSize, UUID: args.uuid,
		Durable: args.flags&storeDurable != 0, Sync: args.flags&storeSync != 0,
		Attaching: args.flags&storeAttaching != 0,
		ReadOnly:  args.flags&storeReadOnly != 0, BPF: args.flags&storeBPF != 0,
		Checkpointing: args.flags&storeCheckpointing != 0, Progress: int(args.progress),
	}
}

// Stores lists all stores.
func Stores() ([]StoreInfo, error) {
	fd, err := openDevice("list", "")
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var stores []StoreInfo
	for after := uint64(0); ; {
		args := storeInfo{after: after}
		_, err := ioctl(fd, iocStoreList, unsafe.Pointer(&args))
		if err == NotFound {
			return stores, nil
		} else if err != nil {
			return nil, &Error{Op: "list", Err: err}
		}
		stores = append(stores, args.describe())
		after = args.id
	}
}

// Info describes the store.
func (s *Store) Info() (StoreInfo, error) {
	var args storeInfo
	if _, err := s.call(iocStoreSelf, unsafe.Pointer(&args)); err != nil {
		return StoreInfo{}, &Error{Op: "info", Err: err}
	}
	return args.describe(), nil
}

// Checkpoint writes what has changed in a durable store, so that recovery needs no earlier
// log. If the context ends, the checkpoint goes on.
func (s *Store) Checkpoint(ctx context.Context) error {
	call := func() error {
		var args checkpoint
		_, err := s.call(iocCheckpoint, unsafe.Pointer(&args))
		return err
	}
	err := ctx.Err()
	if err == nil && ctx.Done() == nil {
		err = call()
	} else if err == nil {
		_, err = s.left.run(ctx, call)
	}
	if err != nil {
		return &Error{Op: "checkpoint", Err: err}
	}
	return nil
}
