// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"kvtree"
)

// queue sends commands that are updates as a client.
func (c *client) queue(commands ...string) {
	for _, line := range commands {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		find(args[0]).run(c, args)
	}
}

// readFor sends commands as a client, and reads their keys.
func readFor(s *tested, commands ...string) *updates {
	db := s.databases[0]
	c := &client{server: s.server, db: db, batching: batching{pipeline: newPipeline()}}
	c.rights.store = db.opened.Load()
	c.queue(commands...)
	u := &updates{work: &c.pipeline.updates}
	u.begin(make([]byte, arenaSize))
	u.read()
	return u
}

// answers returns the answers so far, and "?" for commands that are not done.
func (u *updates) answers() string {
	text := ""
	for i := range u.queue {
		switch q := u.queue[i].update; {
		case !q.done:
			text += " ?"
		case q.err != nil:
			text += " error"
		default:
			text += fmt.Sprint(" ", q.answer)
		}
	}
	return text[1:]
}

func (u *updates) expect(t *testing.T, want string) {
	t.Helper()
	if got := u.answers(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A client's changes are seen in order, even if another writer has changed one of the keys.
func TestUpdatesOfAClientKeepTheirOrder(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	u := readFor(s, "INCR a", "INCR a", "INCR b", "INCR a")
	k.expect("SET a 5", "OK")
	u.round()
	u.expect(t, "? ? ? ?")
	k.expect("MGET a b", `["5" null]`)
	u.round()
	u.expect(t, "6 7 ? ?")
	k.expect("MGET a b", `["7" null]`)
	u.round()
	u.expect(t, "6 7 1 ?")
	u.round()
	u.expect(t, "6 7 1 8")
	k.expect("MGET a b", `["8" "1"]`)
}

// A command that changes nothing sees a value read after the client's earlier changes.
func TestAnUpdateThatChangesNothingIsNotOld(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.expect("HSET h f v", "1")
	u := readFor(s, "HSETNX h f w", "HDEL h g", "INCR h", "INCR a", "HSETNX h f w", "HDEL h g")
	u.round()
	u.expect(t, "0 0 error 1 ? ?")
	k.expect("HDEL h f", "1")
	k.expect("HSET h g v", "1")
	u.round()
	u.expect(t, "0 0 error 1 ? ?")
	u.round()
	u.expect(t, "0 0 error 1 1 1")
	k.expect("HGETALL h", `["f" "w"]`)
}

// An error belongs to its own command, whatever is stored together with it.
func TestUpdatesHaveErrorsOfTheirOwn(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.say("SET", "a", strings.Repeat("v", kvtree.MaxValue-4))
	k.expect("SET max 9223372036854775806", "OK")
	tooMany := []string{"HSET", "h"}
	for i := range mostFields {
		tooMany = append(tooMany, "f"+strconv.Itoa(i), "")
	}
	long := strings.Repeat("k", kvtree.MaxKey+1)
	var text string
	var wants []string
	for _, test := range []struct {
		want string
		args []string
	}{
		{"1048573", []string{"APPEND", "a", "x"}},
		{"ERR kvtree: compare and swap columns \"a\": too long", []string{"APPEND", "a", "yyyy"}},
		{"1048576", []string{"APPEND", "a", "zzz"}},
		{"ERR kvtree: get columns \"kkk", []string{"INCR", long}},
		{"9223372036854775807", []string{"INCR", "max"}},
		{"ERR increment or decrement would overflow", []string{"INCR", "max"}},
		{"9223372036854775806", []string{"DECR", "max"}},
		{"1", []string{"HSET", "h", "f", "v"}},
		{errFields.Error(), tooMany},
		{"1", []string{"HSET", "h", "g", "v"}},
		{wrongType, []string{"APPEND", "h", "v"}},
		{"ERR wrong number of arguments for 'hset' command", []string{"HSET", "h", "i", "v", "j"}},
		{notAnInt, []string{"HINCRBY", "h", "f", "x"}},
		{errHashInt.Error(), []string{"HINCRBY", "h", "f", "1"}},
		{"OK", []string{"HMSET", "h", "g", "w", "h", "v"}},
	} {
		text += multi(test.args...)
		wants = append(wants, test.want)
	}
	k.send(text)
	for i, want := range wants {
		if got := k.answer(); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %.80s, not %s", i, got, want)
		}
	}
	k.expect("GETRANGE a 1048571 -1", `"vxzzz"`)
	k.expect("HGETALL h", `["f" "v" "g" "w" "h" "v"]`)
	k.expect("GET max", `"9223372036854775806"`)
}

// A hash loses its last field and is created again, or is replaced by a string.
func TestUpdatesMakeAKeyAnew(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	text := ""
	for _, command := range []string{"HSET h f v", "HDEL h f", "HSET h g v", "HDEL h g", "APPEND h x", "HSET h f v"} {
		text += multi(strings.Fields(command)...)
	}
	k.send(text)
	for i, want := range []string{"1", "1", "1", "1", "1", wrongType} {
		if got := k.answer(); got != want {
			t.Errorf("%d: %s, not %s", i, got, want)
		}
	}
	k.expect("HSET old f v", "1")
	k.send(multi("HDEL", "old", "f") + multi("APPEND", "old", "x") + multi("APPEND", "h", "y"))
	for _, want := range []string{"1", "1", "2"} {
		if got := k.answer(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	k.expect("MGET h old", `["xy" "x"]`)
}

// SETRANGE changes a string in place, and fills gaps with zeros, whatever the buffer contained.
func TestSetRangeIsInPlace(t *testing.T) {
	c := &client{batching: batching{pipeline: newPipeline()}}
	c.queue("SETRANGE k 1 x", "SETRANGE k 5 yz", "SETRANGE k 0 ab")
	room := bytes.Repeat([]byte{'?'}, 64)
	copy(room, "old")
	r := newRecord([]kvtree.Column{{ID: 0, Data: room[:3]}}, 1)
	for i, want := range []string{"oxd", "oxd\x00\x00yz", "abd\x00\x00yz"} {
		n, err := c.pipeline.updates.queue[i].update.edit(&r)
		if string(r.text) != want || n != int64(len(want)) || err != nil {
			t.Errorf("%d: %q, %d, %v", i, r.text, n, err)
		}
	}
	if &r.text[0] != &room[0] {
		t.Error("it was copied")
	}
}

// settleOne settles a command that was executed alone, on a value read in an earlier round or in
// this one.
func settleOne(e *entry, fresh bool, err error) *update {
	q := &queued{update: &update{entry: e}}
	e.edits, e.fresh = append(e.edits, q), fresh
	e.asked = &kvtree.Result{Version: 2, Err: err}
	(&updates{}).settle(e)
	return q.update
}

// A value may be refused because the old one was outdated: the error is final if it was read in
// this round.
func TestARefusalOfAnOldValueIsNotFinal(t *testing.T) {
	refusal := &kvtree.Error{Err: kvtree.Refused}
	e := &entry{isRead: true}
	if q := settleOne(e, false, refusal); q.done || e.isRead {
		t.Error("it is not executed again")
	}
	if q := settleOne(e, true, refusal); !q.done || q.err != refusal {
		t.Errorf("done: %v, %v", q.done, q.err)
	}
	lost := &kvtree.Error{Err: kvtree.Lost}
	if q := settleOne(e, false, lost); !q.done || q.err != lost {
		t.Errorf("a successful command is executed again: %v, %v", !q.done, q.err)
	}
}

// A key that others keep changing is given up after many lost rounds in a row.
func TestRoundsAreLostOneAfterTheOther(t *testing.T) {
	changed := &kvtree.Error{Err: kvtree.Changed}
	e := &entry{}
	for range 2 {
		for i := range mostTries {
			if q := settleOne(e, true, changed); q.done {
				t.Fatalf("given up after %d", i)
			}
		}
		if q := settleOne(e, true, nil); !q.done || q.err != nil {
			t.Fatal(q.err)
		}
	}
	e.lost = mostTries
	if q := settleOne(e, true, changed); !q.done || q.err != errContended {
		t.Errorf("done: %v, %v", q.done, q.err)
	}
}

// A batch keeps long values, old or new, for one round only.
func TestLongValuesAreKeptForARound(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	long := strings.Repeat("v", 64<<10)
	var commands []string
	want := ""
	for i := range 8 {
		n := strconv.Itoa(i)
		k.say("SET", "a"+n, long)
		k.say("HSET", "h"+n, "f", long)
		commands = append(commands, "APPEND a"+n+" x", "HSETNX h"+n+" f x", "HSET h"+n+" g x",
			"SETRANGE b"+n+" 65536 x", "APPEND a"+n+" y")
		want += " 65537 0 1 65537 65538"
	}
	u := readFor(s, commands...)
	for len(u.pending) > 0 {
		u.round()
		for i := range u.entries {
			e := &u.entries[i]
			kept := e.record.size()
			for _, column := range e.record.columns {
				kept += len(column.Data)
			}
			if kept > shortValue {
				t.Fatalf("%d bytes of %s are kept", kept, e.key)
			}
		}
	}
	u.expect(t, want[1:])
	k.expect("GETRANGE a7 65535 -1", `"vxy"`)
	k.expect("STRLEN b7", "65537")
	k.expect("HMGET h7 g", `["x"]`)
}

// A command that changes nothing does not keep what it has read for others of its round.
func TestLongValuesAreNotKeptUnchanged(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	var commands []string
	for i := range 8 {
		n := strconv.Itoa(i)
		k.say("HSET", "h"+n, "f", strings.Repeat("v", 64<<10))
		commands = append(commands, "HSETNX h"+n+" f x", "HDEL h"+n+" g")
	}
	u := readFor(s, commands...)
	u.read()
	u.edit()
	for i := range u.entries {
		if e := &u.entries[i]; e.record.columns != nil || !e.long {
			t.Error("the value of", string(e.key), "is kept")
		}
	}
	u.storeAll()
	u.expect(t, strings.TrimSpace(strings.Repeat("0 ", len(commands))))
}

// Other clients of a loop do not wait for many rounds: the client's own goroutine executes the rest
// in order.
func TestALoopHasFewRounds(t *testing.T) {
	for _, test := range []struct {
		rounds int
		onLoop bool
		left   int
	}{{mostAlone, true, 0}, {mostAlone + 1, false, 0}, {mostAlone + 1, true, 3}} {
		c := &client{onLoop: test.onLoop, batching: batching{pipeline: newPipeline()}}
		c.queue("INCR a", "INCR b", "INCR a")
		u := &updates{work: &c.pipeline.updates, rounds: test.rounds}
		u.begin(make([]byte, arenaSize))
		for i := range u.entries {
			u.entries[i].took(nil, 0, &kvtree.Error{Err: kvtree.NotFound})
		}
		u.edit()
		if len(c.rest) != test.left || c.leaving != (test.left > 0) {
			t.Errorf("%+v: left %d, leaving: %v", test, len(c.rest), c.leaving)
		}
		for i := range c.rest {
			if q := u.queue[i].update; c.rest[i].update != q || !q.left || !q.done {
				t.Errorf("%+v: %d is not left in its order", test, i)
			}
		}
	}
}

// A long pipeline for different keys is executed completely and in order, on the loop and after it.
func TestManyRoundsKeepTheirOrder(t *testing.T) {
	k := start(t, nil).connect(t)
	const keys, times = 40, 5
	text := ""
	for i := range keys * times {
		text += multi("INCR", "k"+strconv.Itoa(i%keys))
	}
	k.send(text + multi("GET", "k0"))
	for i := range keys * times {
		if got, want := k.answer(), strconv.Itoa(i/keys+1); got != want {
			t.Fatalf("%d: %s, not %s", i, got, want)
		}
	}
	if got := k.answer(); got != strconv.Quote(strconv.Itoa(times)) {
		t.Error(got)
	}
}
