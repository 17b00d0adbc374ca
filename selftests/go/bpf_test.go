// SPDX-License-Identifier: GPL-2.0

// Package bpf has BPF programs use stores that a Go program gives them, with
// github.com/cilium/ebpf.
package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"kvtree"
)

// Those of selftests/bpf/bpf_bind.bpf.c: get() counts what value the key "k" has.
const (
	object = "../bpf/bpf_bind.bpf.o"
	stores = 2 // BIND_STORES of its header
)

var ctx = context.Background()

// A bind is struct bind of its header.
type bind struct {
	Got    [stores]uint64
	Stale  uint64
	Wrong  uint64
	ByCopy int32
	ByPart int32
}

func newStore(t *testing.T, name string, bpf bool) *kvtree.Store {
	t.Helper()
	name = fmt.Sprintf("go-bpf-%d-%s", os.Getpid(), name)
	if err := kvtree.CreateStore(name, kvtree.Settings{BPF: bpf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kvtree.DestroyStore(name) })
	s, err := kvtree.Open(name, kvtree.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// load loads the program get() with a store in place of its map.
func load(t *testing.T, replacement *ebpf.Map) *ebpf.Collection {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		t.Fatal(err)
	}
	for name := range spec.Programs {
		if name != "get" {
			delete(spec.Programs, name)
		}
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{".rodata.store": replacement},
	})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(collection.Close)
	return collection
}

func run(t *testing.T, c *ebpf.Collection) bind {
	t.Helper()
	if _, _, err := c.Programs["get"].Test(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	var found bind
	value, err := c.Maps[".bss"].LookupBytes(uint32(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Decode(value, binary.NativeEndian, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func put(t *testing.T, s *kvtree.Store, value uint32) {
	t.Helper()
	if _, err := s.Put(ctx, []byte("k"), binary.NativeEndian.AppendUint32(nil, value)); err != nil {
		t.Fatal(err)
	}
}

func TestAProgramUsesTheStoreThatItIsGiven(t *testing.T) {
	s := newStore(t, "one", true)
	fd, err := s.NewBPFMap("store", kvtree.Read)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMapFromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c := load(t, m)
	put(t, s, 1)
	if found := run(t, c); found.Got[1] != 1 || found.Wrong != 0 {
		t.Errorf("%+v", found)
	}
	put(t, s, 0)
	if found := run(t, c); found.Got[0] != 1 || found.Got[1] != 1 {
		t.Errorf("%+v", found)
	}
	if err := s.AllowBPF(false); err != nil {
		t.Fatal(err)
	}
	if found := run(t, c); found.Stale != 1 || found.Wrong != 0 {
		t.Errorf("%+v", found)
	}
	if _, err := s.NewBPFMap("store", kvtree.Read); !errors.Is(err, kvtree.NotAllowed) {
		t.Error(err)
	}
}

func TestAMapOfOnesOwnIsBoundAndLetGo(t *testing.T) {
	one, two := newStore(t, "one", false), newStore(t, "two", true)
	if err := one.AllowBPF(true); err != nil {
		t.Fatal(err)
	}
	put(t, one, 1)
	put(t, two, 0)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
		Flags: unix.BPF_F_RDONLY_PROG | unix.BPF_F_MMAPABLE})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := one.Bind(m, kvtree.ReadWrite); err != nil {
		t.Fatal(err)
	}
	if err := two.Bind(m, kvtree.Read); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
	c := load(t, m)
	if found := run(t, c); found.Got[1] != 1 {
		t.Errorf("%+v", found)
	}
	if err := one.Unbind(m); err != nil {
		t.Fatal(err)
	}
	if found := run(t, c); found.Stale != 1 {
		t.Errorf("%+v", found)
	}
	if err := one.Unbind(m); !errors.Is(err, kvtree.NotFound) {
		t.Error(err)
	}
}
