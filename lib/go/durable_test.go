// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kvtree"
)

func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	said, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(string(said))
}

// A disk is formatted for a store. Tests can suspend and resume it.
type disk struct {
	t          testing.TB
	name, path string
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat("/dev/kvtree"); err != nil {
		t.Skip("there is no /dev/kvtree")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		command(t, "modprobe", "loop")
	}
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 132<<20); err != nil {
		t.Fatal(err)
	}
	loop := command(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { command(t, "losetup", "--detach", loop) })
	d := &disk{t: t, name: fmt.Sprintf("kvtree-go-%d-%d", os.Getpid(), number.Add(1))}
	sectors := command(t, "blockdev", "--getsz", loop)
	command(t, "dmsetup", "create", "--noudevsync", d.name, "--table",
		fmt.Sprintf("0 %s linear %s 0", sectors, loop))
	t.Cleanup(func() { command(t, "dmsetup", "remove", "--noudevsync", "--retry", d.name) })
	d.path = "/dev/" + command(t, "dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", d.name)
	command(t, "kvtree", "store", "format", d.path)
	return d
}

func (d *disk) stop() {
	d.t.Helper()
	command(d.t, "dmsetup", "suspend", "--noudevsync", "--nolockfs", "--noflush", d.name)
}

func (d *disk) goOn() {
	d.t.Helper()
	command(d.t, "dmsetup", "resume", "--noudevsync", d.name)
}

func (d *disk) attach(how kvtree.Attachment) *kvtree.Store {
	d.t.Helper()
	name := d.name
	if err := kvtree.AttachStore(ctx, name, how, d.path); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { kvtree.DetachStore(name) })
	return open(d.t, name, kvtree.ReadWrite)
}

func TestADurableStoreIsThereAgain(t *testing.T) {
	d := newDisk(t)
	s := d.attach(kvtree.Attachment{Settings: kvtree.Settings{Engine: "bwtree", LimitKeys: 10}})
	version := must[uint64](t)(s.Put(ctx, []byte("k"), []byte("v"), kvtree.Durable))
	if err := s.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	info := must[kvtree.StoreInfo](t)(s.Info())
	if !info.Durable || info.Sync || info.ReadOnly || info.LimitKeys != 10 || info.UUID == [16]byte{} {
		t.Errorf("%+v", info)
	}
	is(t, kvtree.DestroyStore(d.name), unix.EBUSY)
	if err := kvtree.DetachStore(d.name); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(ctx, []byte("k"))
	is(t, err, kvtree.Gone)
	s = d.attach(kvtree.Attachment{ReadOnly: true})
	value, found, err := s.GetVersion(ctx, []byte("k"))
	if err != nil || string(value) != "v" || found != version {
		t.Error(value, found, err)
	}
	_, err = s.Put(ctx, []byte("k"), nil)
	is(t, err, kvtree.ReadOnly)
}

// soon is a context that ends after a short time.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// when is a context that ends once a key exists.
func when(s *kvtree.Store, key string) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			if _, err := s.Get(context.Background(), []byte(key)); !errors.Is(err, kvtree.NotFound) {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

func TestWhatWaitsForADiskIsLeftWhenItsContextEnds(t *testing.T) {
	d := newDisk(t)
	s := d.attach(kvtree.Attachment{})
	d.stop()
	defer d.goOn()
	_, err := s.Put(when(s, "put"), []byte("put"), []byte("value"), kvtree.Durable)
	is(t, err, context.Canceled)
	var b kvtree.Batch
	inBatch := b.Put([]byte("in a batch, and long enough"), []byte("too"), kvtree.Durable)
	is(t, s.Run(when(s, "in a batch, and long enough"), &b), context.Canceled)
	is(t, inBatch.Err, context.Canceled)
	is(t, s.Sync(soon(t)), context.DeadlineExceeded)
	is(t, s.Checkpoint(soon(t)), context.DeadlineExceeded)
	d.goOn()
	if err := s.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := must[[]byte](t)(s.Get(ctx, []byte("put"))); string(got) != "value" {
		t.Error(string(got))
	}
}

func TestCallsThatWereLeftAreBounded(t *testing.T) {
	d := newDisk(t)
	s := d.attach(kvtree.Attachment{Sync: true})
	d.stop()
	defer d.goOn()
	// putMany starts n goroutines, each of which puts a key of its own.
	putMany := func(n int, prefix string) {
		var all sync.WaitGroup
		for i := range n {
			all.Add(1)
			go func() {
				defer all.Done()
				_, err := s.Put(soon(t), fmt.Appendf(nil, "%s%d", prefix, i), nil)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}()
		}
		all.Wait()
	}
	keys := func() uint64 {
		return must[kvtree.StoreInfo](t)(s.Info()).Keys
	}
	// On a busy machine contexts may end before any call has begun.
	for keys() < 64 {
		putMany(100, "first")
	}
	putMany(100, "then")
	for range s.Prefix(ctx, []byte("then")) {
		t.Fatal("another call has begun")
	}
	d.goOn()
	// The abandoned calls end then, and let others begin.
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	must[uint64](t)(s.Put(bounded, []byte("more"), nil))
}

func TestABatchWithAContextHasItsResults(t *testing.T) {
	d := newDisk(t)
	s := d.attach(kvtree.Attachment{})
	bounded, cancel := context.WithCancel(ctx)
	var b kvtree.Batch
	b.Put([]byte("a key of more than sixteen bytes"), []byte("v"))
	got := b.Get([]byte("a key of more than sixteen bytes"))
	sum := b.Add([]byte("n"), 2)
	made := b.CompareAndSwapColumns([]byte("c"), []kvtree.Column{{ID: 1, Data: []byte("x")}, {ID: 2, Data: []byte("y")}}, 0)
	columns, value := make([]byte, 10), make([]byte, 10)
	all := b.GetColumnsInto([]byte("c"), columns)
	b.GetInto([]byte("a key of more than sixteen bytes"), value)
	if err := s.Run(bounded, &b); err != nil || string(got.Value) != "v" || sum.Sum != 2 {
		t.Error(err, got, sum)
	}
	if len(all.Columns) != 2 || string(all.Columns[1].Data) != "y" || all.Version != made.Version {
		t.Error(all.Columns, all.Version, made.Version)
	}
	if string(columns[:2]) != "xy" || value[0] != 'v' {
		t.Errorf("not in the caller's memory: %q, %q", columns, value)
	}
	if n := must[int64](t)(s.Add(bounded, []byte("n"), 3)); n != 5 {
		t.Error(n)
	}
	cancel()
	is(t, s.Run(bounded, &b), context.Canceled)
	_, err := s.Add(bounded, []byte("n"), 1)
	is(t, err, context.Canceled)
	_, err = s.Get(bounded, []byte("n"))
	is(t, err, context.Canceled)
	for _, err := range s.Scan(bounded, kvtree.Range{}) {
		is(t, err, context.Canceled)
	}
	is(t, kvtree.AttachStore(bounded, "x", kvtree.Attachment{}, "/dev/null"), context.Canceled)
	if n := must[int64](t)(s.Add(ctx, []byte("n"), 0)); n != 5 {
		t.Error("something was done:", n)
	}
}

func TestWhatCannotBeAttachedIsRefusedWithTheReason(t *testing.T) {
	newDisk(t)
	is(t, kvtree.AttachStore(ctx, "go-none", kvtree.Attachment{}, "/dev/null"), unix.ENOTBLK)
	is(t, kvtree.AttachStore(ctx, "go-none", kvtree.Attachment{}, "a\x00b"), kvtree.Invalid)
	is(t, kvtree.AttachStore(ctx, "go-none", kvtree.Attachment{}, make([]string, 9)...), kvtree.Invalid)
	is(t, kvtree.AttachStore(ctx, "go-none", kvtree.Attachment{}, "/there/is/none"), os.ErrNotExist)
}
