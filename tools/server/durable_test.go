// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvtree"
)

func execute(t testing.TB, name string, args ...string) string {
	t.Helper()
	said, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(string(said))
}

// A disk holds a durable store. Tests can suspend and resume it.
type disk struct {
	t          testing.TB
	name, path string
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	if _, err := os.Stat("/dev/kvtree"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and /dev/kvtree")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		execute(t, "modprobe", "loop")
	}
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 132<<20); err != nil {
		t.Fatal(err)
	}
	loop := execute(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { execute(t, "losetup", "--detach", loop) })
	d := &disk{t: t, name: fmt.Sprintf("kvtree-go-%d-%d", os.Getpid(), storeNumber.Add(1))}
	execute(t, "dmsetup", "create", "--noudevsync", d.name, "--table",
		fmt.Sprintf("0 %s linear %s 0", execute(t, "blockdev", "--getsz", loop), loop))
	t.Cleanup(func() { execute(t, "dmsetup", "remove", "--noudevsync", "--retry", d.name) })
	d.path = "/dev/" + execute(t, "dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", d.name)
	execute(t, "kvtree", "store", "format", d.path)
	d.attach()
	t.Cleanup(func() { kvtree.DetachStore(d.name) })
	return d
}

func (d *disk) attach() {
	d.t.Helper()
	if err := kvtree.AttachStore(ctx, d.name, kvtree.Attachment{}, d.path); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) stop() {
	d.t.Helper()
	execute(d.t, "dmsetup", "suspend", "--noudevsync", "--nolockfs", "--noflush", d.name)
}

func (d *disk) goOn() {
	d.t.Helper()
	execute(d.t, "dmsetup", "resume", "--noudevsync", d.name)
}

// Commands that change something, in an order in which each one does.
var changes = []string{"SET a 1", "SET a 2 XX", "SET a 3 GET", "SETNX b 1", "MSET a 4 c 5", "GETSET a 6", "APPEND a 7",
	"SETRANGE a 0 8", "INCR a", "DECRBY a 2", "GETDEL c", "HSET h f 1", "HMSET h g 1", "HSETNX h i 1", "HINCRBY h f 2",
	"HDEL h f", "HDEL h g i", "DEL a", "UNLINK b", "SET a 1", "FLUSHDB"}

func TestTheChangesAreAllThatThereAre(t *testing.T) {
	var text = strings.Join(changes, " ") + " DECR INCRBY "
	for _, command := range commands {
		if command.needs&write != 0 && !strings.Contains(text, command.name+" ") {
			t.Error(command.name, "has no test of durability")
		}
	}
}

func stat(t *testing.T, store *kvtree.Store, name string) uint64 {
	t.Helper()
	stats, err := store.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatal("no ", name)
	return 0
}

// An answer implies durability: the epoch open when the command came has ended.
func TestChangesAreDurableWhenTheyAreAnswered(t *testing.T) {
	d := newDisk(t)
	s := start(t, nil, d.name)
	k := s.connect(t)
	store := s.databases[0].opened.Load().Store
	for _, command := range changes {
		open := stat(t, store, "log_epoch")
		if got := k.say(strings.Split(command, " ")...); strings.Contains(got, "ERR") {
			t.Errorf("%s: %s", command, got)
		}
		if durable := stat(t, store, "log_durable"); durable < open {
			t.Errorf("%s is answered in epoch %d, and %d is durable", command, open, durable)
		}
	}
	k.expect("CONFIG GET append*", `["appendfsync" "always" "appendonly" "yes"]`)
}

// The updates of a pipeline, of one key after the other, wait for the disk together.
func TestUpdatesOfAPipelineWaitTogether(t *testing.T) {
	d := newDisk(t)
	s := start(t, nil, d.name)
	k := s.connect(t)
	store := s.databases[0].opened.Load().Store
	before := stat(t, store, "log_sync")
	text := ""
	for i := range 100 {
		text += multi("INCR", fmt.Sprint(i))
	}
	k.send(text)
	for range 100 {
		if got := k.answer(); got != "1" {
			t.Error(got)
		}
	}
	if n := stat(t, store, "log_sync") - before; n == 0 || n > 10 {
		t.Errorf("they have waited %d times", n)
	}
}

// When the last round has ended, its changes and the earlier ones are durable: what becomes of the
// store then is no error of theirs.
func TestTheLastRoundWaitsForAll(t *testing.T) {
	d := newDisk(t)
	s := start(t, nil, d.name)
	u := readFor(s, "INCR a", "APPEND b x", "HSET h f v", "HDEL h f", "INCR a")
	for len(u.pending) > 0 {
		u.round()
	}
	if err := kvtree.DetachStore(d.name); err != nil {
		t.Fatal(err)
	}
	u.sync()
	u.expect(t, "1 1 1 1 2")
}

// A last round that changes nothing does not wait, so that something else must.
func TestUpdatesBeforeOneThatChangesNothingAreDurable(t *testing.T) {
	d := newDisk(t)
	s := start(t, nil, d.name)
	d.stop()
	u := readFor(s, "INCR a", "HDEL h f")
	done := make(chan struct{})
	go func() {
		for len(u.pending) > 0 {
			u.round()
		}
		u.sync()
		close(done)
	}()
	select {
	case <-done:
		t.Error("it was not waited for")
	case <-time.After(time.Second):
	}
	d.goOn()
	<-done
	u.expect(t, "1 0")
}

// With async nothing waits for a disk, until the server stops.
func TestAsync(t *testing.T) {
	d := newDisk(t)
	s := start(t, func(s *server) { s.databases[0].opened.Load().durable = 0 }, d.name)
	k := s.connect(t)
	d.stop()
	for _, command := range changes {
		k.say(strings.Split(command, " ")...)
	}
	store := s.databases[0].opened.Load().Store
	open := stat(t, store, "log_epoch")
	k.expect("SET last 1", "OK")
	s.stop()
	done := make(chan error, 1)
	go func() { done <- s.sync() }()
	select {
	case err := <-done:
		t.Error("the end was not waited for: ", err)
		done <- err
	case <-time.After(time.Second):
	}
	d.goOn()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if durable := stat(t, store, "log_durable"); durable < open {
		t.Errorf("the last change is of epoch %d or later, and %d is durable", open, durable)
	}
}

// The server uses a store again after it was detached and attached.
func TestADurableStoreThatComesBack(t *testing.T) {
	for _, when := range []string{"", "async"} {
		comesBack(t, when)
	}
}

func comesBack(t *testing.T, when string) {
	d := newDisk(t)
	s := start(t, func(s *server) {
		db := s.databases[0]
		db.when = when
		if when == "async" {
			db.opened.Load().durable = 0
		}
	}, d.name)
	k := s.connect(t)
	k.expect("SET a 1", "OK")
	if err := kvtree.DetachStore(d.name); err != nil {
		t.Fatal(err)
	}
	if got := k.say("SET", "a", "2"); !strings.HasPrefix(got, "ERR ") {
		t.Error(got)
	}
	d.attach()
	k.say("GET", "a")
	k.expect("GET a", `"1"`)
	k.expect("SET a 3", "OK")
	if err := kvtree.DetachStore(d.name); err != nil {
		t.Fatal(err)
	}
	// A volatile store of the same name must not replace a durable one.
	if err := kvtree.CreateStore(d.name, kvtree.Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := k.say("SET", "a", "4"); !strings.HasPrefix(got, "ERR ") {
			t.Error(got)
		}
	}
	if err := kvtree.DestroyStore(d.name); err != nil {
		t.Fatal(err)
	}
}
