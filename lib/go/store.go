// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const device = "/dev/kvtree"

// Access selects reading, writing or both.
type Access uint32

const (
	Read      Access = 1 << 0
	Write     Access = 1 << 1
	ReadWrite        = Read | Write
)

// A Flag modifies a change.
type Flag uint16

const (
	// Create makes a put fail with Exists if the key exists.
	Create Flag = fCreate
	// Replace makes a put or an add fail with NotFound if the key or the column is missing.
	Replace Flag = fReplace
	// Durable makes a change of a durable store complete only when it is on the devices.
	Durable Flag = fSync
	// Whole makes a put of columns remove all columns that it does not name.
	Whole Flag = fWhole
)

// A Store is an open store. Close it.
type Store struct {
	descriptor
	durable bool
	left    leaver
}

// Open opens the store of this name; "" is the one named default. Permissions are checked here, as
// for a file.
func Open(name string, access Access) (*Store, error) {
	if name == "" {
		name = "default"
	}
	fd, err := openDevice("open", name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	args := storeOpen{flags: uint32(access)}
	if err := setName(args.name[:], name); err != nil {
		return nil, &Error{Op: "open", Store: name, Err: err}
	}
	n, err := ioctl(fd, iocStoreOpen, unsafe.Pointer(&args))
	if err != nil {
		return nil, &Error{Op: "open", Store: name, Err: err}
	}
	return newStore(n)
}

// FromFile makes a Store of a session that was received from another process. The file may be
// closed afterwards.
func FromFile(file *os.File) (*Store, error) {
	if file == nil {
		return nil, &Error{Op: "open", Err: os.ErrInvalid}
	}
	fd := -1
	conn, err := file.SyscallConn()
	if err == nil {
		var dup error
		err = conn.Control(func(old uintptr) {
			fd, dup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3)
		})
		if err == nil {
			err = dup
		}
	}
	if err != nil {
		return nil, &Error{Op: "open", Store: file.Name(), Err: err}
	}
	return newStore(fd)
}

func newStore(fd int) (*Store, error) {
	s := new(Store)
	s.open(fd)
	info, err := s.Info()
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	s.durable = info.Durable
	runtime.SetFinalizer(s, (*Store).Close)
	return s, nil
}

// openDevice opens a session of the default store, for a call about another store.
func openDevice(what, name string) (fd int, err error) {
	for _, mode := range []int{unix.O_RDWR, unix.O_RDONLY, unix.O_WRONLY} {
		fd, err = unix.Open(device, mode|unix.O_CLOEXEC, 0)
		if err != unix.EACCES {
			break
		}
	}
	if err == unix.ENOENT || err == unix.ENXIO {
		err = NoModule
	}
	if err != nil {
		err = &Error{Op: what, Store: name, Err: err, device: true}
	}
	return fd, err
}

// setName fills in a name with its NUL.
func setName(to []byte, name string) error {
	if len(name) >= len(to) || bytes.IndexByte([]byte(name), 0) >= 0 {
		return Invalid
	}
	copy(to, name)
	return nil
}

// Close ends the session. Calls in progress complete.
func (s *Store) Close() error {
	runtime.SetFinalizer(s, nil)
	return s.close()
}

// FD returns the session's descriptor, to be sent to another process. The store still owns it.
func (s *Store) FD() int {
	return s.fd
}

// Get looks up column 0 of a key's value.
func (s *Store) Get(ctx context.Context, key []byte) ([]byte, error) {
	value, _, err := s.GetVersion(ctx, key)
	return value, err
}

const firstRoom = 1024

// GetVersion looks up column 0 of a key's value, and the value's version.
func (s *Store) GetVersion(ctx context.Context, key []byte) ([]byte, uint64, error) {
	r := newRequest(opGet, key, nil)
	if r.room == nil {
		r.room = make([]byte, firstRoom)
	}
	r.value = r.room
	n, err := s.do(ctx, "get", r)
	if needed := roomNeeded(err); needed > firstRoom {
		value, version, err := s.Append(ctx, make([]byte, 0, needed), key)
		if err != nil {
			return nil, 0, err
		}
		return value, version, nil
	} else if err != nil {
		return nil, 0, err
	}
	value, version := append([]byte{}, r.room[:n]...), r.op.ver
	r.free()
	return value, version, nil
}

func roomNeeded(err error) int {
	if e, ok := err.(*Error); ok && e.Err == NoRoom {
		return e.Needed
	}
	return 0
}

// Append looks up a key, and appends its value to a slice: without an allocation if the value
// fits. It returns the value's version. All of the slice's capacity may be overwritten.
func (s *Store) Append(ctx context.Context, to, key []byte) ([]byte, uint64, error) {
	for {
		r := newRequest(opGet, key, nil)
		r.value = to[len(to):cap(to)]
		n, err := s.do(ctx, "get", r)
		if needed := roomNeeded(err); needed > cap(to)-len(to) {
			to = slices.Grow(to, needed)
			continue
		} else if err != nil {
			return to, 0, err
		}
		version := r.op.ver
		r.free()
		return to[:len(to)+n], version, nil
	}
}

// Put stores a value as column 0, and removes all other columns. It returns the new version.
func (s *Store) Put(ctx context.Context, key, value []byte, flags ...Flag) (uint64, error) {
	return s.change(ctx, "put", opPut, key, value, 0, flags)
}

// CompareAndSwap stores a value if the key has this version; 0 means that it must not exist. It
// returns the new version.
func (s *Store) CompareAndSwap(ctx context.Context, key, value []byte, version uint64,
	flags ...Flag) (uint64, error) {
	return s.change(ctx, "compare and swap", opCAS, key, value, version, flags)
}

// Remove removes a key. It returns the version of the removed value.
func (s *Store) Remove(ctx context.Context, key []byte, flags ...Flag) (uint64, error) {
	return s.change(ctx, "remove", opRemove, key, nil, 0, flags)
}

// RemoveVersion removes a key if it has this version; Changed if it has another, NotFound if it
// does not exist.
func (s *Store) RemoveVersion(ctx context.Context, key []byte, version uint64,
	flags ...Flag) error {
	_, err := s.change(ctx, "remove", opRemove, key, nil, version, slices.Concat(flags, []Flag{fVersion}))
	return err
}

func (s *Store) change(ctx context.Context, what string, opcode uint8, key, value []byte,
	version uint64, flags []Flag) (uint64, error) {
	r := newRequest(opcode, key, flags)
	r.value = value
	r.op.ver = version
	return s.doChange(ctx, what, r)
}

// doChange executes a change, and returns its version.
func (s *Store) doChange(ctx context.Context, what string, r *request) (uint64, error) {
	if _, err := s.do(ctx, what, r); err != nil {
		return 0, err
	}
	version := r.op.ver
	r.free()
	return version, nil
}

// Add adds to the little-endian number of 8 bytes that the key's value holds, and returns the sum.
// A key that does not exist counts as 0. Get returns the bytes: see binary.LittleEndian.Uint64.
func (s *Store) Add(ctx context.Context, key []byte, delta int64, flags ...Flag) (int64, error) {
	return s.AddColumn(ctx, key, 0, delta, flags...)
}

// AddColumn adds to the number in a column.
func (s *Store) AddColumn(ctx context.Context, key []byte, id uint8, delta int64,
	flags ...Flag) (sum int64, err error) {
	r := newRequest(opAdd, key, flags)
	r.op.col = id
	r.op.arg = uint64(delta)
	_, err = s.do(ctx, "add", r)
	if err != nil {
		return 0, err
	}
	sum = int64(r.op.arg) + delta
	r.free()
	return sum, nil
}

// Sync waits until all earlier changes, by any process, are durable.
func (s *Store) Sync(ctx context.Context) error {
	r := newRequest(opSync, nil, nil)
	r.op.flags = 0
	_, err := s.do(ctx, "sync", r)
	if err == nil {
		r.free()
	}
	return err
}
