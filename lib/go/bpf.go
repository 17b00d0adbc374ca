// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Map is a BPF map: *ebpf.Map of github.com/cilium/ebpf is one.
type Map interface {
	FD() int
	Freeze() error
}

// NewBPFMap makes a BPF map bound to the store, with an access that the session has. Programs
// loaded with it in place of the map that BPF_KVT_STORE() declares can use the store. The name has
// at most 15 bytes. The caller owns the map's descriptor, which NewBPFMap returns.
// With github.com/cilium/ebpf:
//
//	spec, err := ebpf.LoadCollectionSpec("firewall.bpf.o") // has BPF_KVT_STORE(rules)
//	fd, err := store.NewBPFMap("rules", kvtree.Read)
//	rules, err := ebpf.NewMapFromFD(fd)
//	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
//		MapReplacements: map[string]*ebpf.Map{".rodata.rules": rules},
//	})
func (s *Store) NewBPFMap(name string, access Access) (int, error) {
	// As loaders make such a map: they only reuse one with the same attributes.
	attr := mapCreate{mapType: unix.BPF_MAP_TYPE_ARRAY, keySize: 4, valueSize: 8, maxEntries: 1,
		mapFlags: unix.BPF_F_RDONLY_PROG | unix.BPF_F_MMAPABLE}
	if err := setName(attr.name[:], name); err != nil {
		return -1, &Error{Op: "make a BPF map", Err: err}
	}
	fd, err := bpf(unix.BPF_MAP_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return -1, &Error{Op: "make a BPF map", Err: err}
	}
	if err := s.Bind(descriptorOfMap(fd), access); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// A mapCreate is the beginning of union bpf_attr.
type mapCreate struct {
	mapType, keySize, valueSize, maxEntries, mapFlags uint32
	innerMapFD, numaNode                              uint32
	name                                              [16]byte
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

type descriptorOfMap int

func (fd descriptorOfMap) FD() int {
	return int(fd)
}

func (fd descriptorOfMap) Freeze() error {
	attr := struct{ fd uint32 }{uint32(fd)}
	_, err := bpf(unix.BPF_MAP_FREEZE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// Bind binds a BPF map of the caller to the store, and freezes it. The map is an array with one
// element and the flag BPF_F_RDONLY_PROG. Bind it before loading programs with it.
func (s *Store) Bind(m Map, access Access) error {
	if err := s.bind(m, access); err != nil {
		return err
	}
	if err := m.Freeze(); err != nil {
		s.Unbind(m)
		return &Error{Op: "freeze a BPF map", Err: err}
	}
	return nil
}

// Unbind ends the binding of a BPF map: programs get ESTALE.
func (s *Store) Unbind(m Map) error {
	return s.bind(m, 0)
}

func (s *Store) bind(m Map, access Access) error {
	args := bpfBind{mapFD: int32(m.FD()), access: uint32(access)}
	defer runtime.KeepAlive(m)
	if _, err := s.call(iocBPFBind, unsafe.Pointer(&args)); err != nil {
		return &Error{Op: "bind a BPF map", Err: err}
	}
	return nil
}

// AllowBPF lets programs use the store, or forbids it again, which ends all bindings.
func (s *Store) AllowBPF(allow bool) error {
	args := bpfAccess{}
	if allow {
		args.allow = 1
	}
	if _, err := s.call(iocBPFAccess, unsafe.Pointer(&args)); err != nil {
		return &Error{Op: "allow BPF", Err: err}
	}
	return nil
}
