// SPDX-License-Identifier: GPL-2.0

package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// at is an event between two ticks.
func at(call, ret uint64, e event) *event {
	e.Call, e.Ret = call, ret
	return &e
}

func put(value, version uint64) event {
	return event{Op: opPut, Given: value, Version: version}
}

func get(value, version uint64) event {
	return event{Op: opGet, Found: value, Version: version}
}

func failed(e event, errno syscall.Errno) event {
	e.Result = -int32(errno)
	return e
}

var histories = []struct {
	name   string
	right  bool
	events []*event
}{
	{"a get sees the put before it", true,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, get(4, 10))}},
	{"a stale value", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, put(8, 11)), at(5, 6, get(4, 10))}},
	{"a lost key", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, failed(event{Op: opGet}, syscall.ENOENT))}},
	{"either of two that overlap", true,
		[]*event{at(1, 5, put(4, 10)), at(2, 6, put(8, 11)), at(3, 4, get(8, 11)),
			at(7, 8, get(8, 11))}},
	{"two readers disagree about the order", false,
		[]*event{at(1, 9, put(4, 10)), at(2, 9, put(8, 11)), at(3, 4, get(8, 11)),
			at(5, 6, get(4, 10))}},
	{"a version that does not grow over a removal", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, event{Op: opRemove, Version: 10}),
			at(5, 6, put(8, 10))}},
	{"an add that another was lost to", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, event{Op: opAdd, Given: 4, Found: 4, Version: 11}),
			at(5, 6, event{Op: opAdd, Given: 4, Found: 4, Version: 12})}},
	{"a CAS that should have failed", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, put(8, 11)),
			at(5, 6, event{Op: opCas, Expected: 10, Given: 12, Version: 12})}},
	{"a crash takes back a change", true,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, failed(put(8, 11), syscall.EIO)),
			at(5, 6, get(4, 10))}},
	{"a crash leaves a change", true,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, failed(put(8, 11), syscall.EIO)),
			at(5, 6, get(8, 11))}},
	{"a crash takes back what was durable", false,
		[]*event{at(1, 2, put(4, 10)), at(3, 4, put(8, 11)),
			at(5, 6, failed(put(12, 12), syscall.EIO)), at(7, 8, get(4, 10))}},
}

func TestModel(t *testing.T) {
	for _, h := range histories {
		right := porcupine.CheckOperationsTimeout(model(), operations(h.events), time.Minute)
		if (right == porcupine.Ok) != h.right {
			t.Errorf("%s: %v", h.name, right)
		}
	}
}

func TestVersionIsGivenOutOnce(t *testing.T) {
	lost := at(3, 4, failed(put(8, 11), syscall.EIO))
	again := at(5, 6, put(12, 11))

	if versionsDiffer([]*event{lost, again}) == nil {
		t.Error("a version that a crash has taken back was given out again")
	}
}
