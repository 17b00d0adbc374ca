// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestADescriptorIsClosedWhenNobodyUsesIt(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	open := func() bool {
		var stat unix.Stat_t
		return unix.Fstat(fd, &stat) == nil
	}
	var d descriptor
	if d.take() {
		t.Error("used without being open")
	}
	d.open(fd)
	d.take()
	if err := d.close(); err != nil || !open() {
		t.Error("closed while it is used:", err)
	}
	if d.take() {
		t.Error("used again")
	}
	if err := d.close(); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if d.give(); open() {
		t.Error("not closed")
	}
}

// An errno of /dev/kvtree is not one of a store.
func TestADeviceThatIsNotThereIsNoStoresDevice(t *testing.T) {
	for want, err := range map[string]*Error{
		"kvtree: open a: no /dev/kvtree: load the module (modprobe kvtree)": {Op: "open", Store: "a", Err: NoModule, device: true},
		"kvtree: attach a: one of the store's devices is missing":           {Op: "attach", Store: "a", Err: NoModule},
		"kvtree: open a: /dev/kvtree: permission denied":                    {Op: "open", Store: "a", Err: AccessDenied, device: true},
	} {
		if err.Error() != want {
			t.Errorf("%s, not %s", err, want)
		}
	}
	if _, err := os.Stat(device); err == nil {
		return
	}
	_, open := Open("a", Read)
	_, list := Stores()
	_, info := Module()
	for _, err := range []error{open, list, info} {
		if e, ok := err.(*Error); !ok || !e.device || !errors.Is(err, NoModule) {
			t.Error(err)
		}
	}
}

// An odd context has a new error each time, of a type that cannot be compared.
type odd struct{ context.Context }

type oddError []int

func (oddError) Error() string { return "odd" }

func (odd) Err() error { return oddError{} }

func TestAnyErrorOfAContextWillDo(t *testing.T) {
	var l leaver
	ended, cancel := context.WithCancel(context.Background())
	end := make(chan struct{})
	cancel()
	over, err := l.run(odd{ended}, func() error { <-end; return nil })
	if _, ok := err.(oddError); over || !ok || l.n != 1 {
		t.Error(over, err, l.n)
	}
	close(end)
	for left := 1; left > 0; {
		l.mutex.Lock()
		left = l.n
		l.mutex.Unlock()
	}
}

func TestWhatAScanReturnsIsLookedAt(t *testing.T) {
	var c cursor
	for _, memory := range [][]byte{
		make([]byte, recordSize-1),
		make([]byte, recordSize),
		{24, 0, 0, 0, 24, 0, 1, 0, 23: 0},
		{25, 0, 0, 0, 24, 0, 1, 0, 23: 0},
		{24, 0, 0, 0, 23, 0, 0, 0, 23: 0},
		{24, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 1, 0, recCols, 0, 23: 0},
		{32, 0, 0, 0, 24, 0, 0, 0, 8, 0, 0, 0, 1, 0, recCols, 0, 28: 1, 31: 0},
	} {
		if _, err := c.take(memory); !errors.Is(err, unix.EBADMSG) {
			t.Error(memory, err)
		}
	}
	whole := []byte{32, 0, 0, 0, 24, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 23: 0, 24: 'k', 25: 'v', 26: 'w', 31: 0}
	records, err := c.take(whole)
	if err != nil || len(records) != 1 || string(records[0].Key) != "k" ||
		string(records[0].Value) != "vw" || records[0].Version != 9 {
		t.Error(records, err)
	}
}
