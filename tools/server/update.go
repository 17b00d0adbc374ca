// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"slices"

	"kvtree"
)

// Updates are commands that compute a new value from the old one, such as INCR. They are executed
// in rounds. Each round stores new values in one batch, on condition that the versions are still
// those read.
//
// Others must see the changes of a client in the order of its commands, but the kernel continues
// after an operation that fails. So a client changes only one key per round, with all of its next
// commands for this key. Clients that change the same key share it.
//
// If another program has changed a key meanwhile, its commands are executed again in the next
// round. If the new value is refused, they are also executed again, one per round, so that each
// gets its own error. A command that changes nothing, fails or is refused is done if the key was
// read in this round, and so after the client's earlier changes.
//
// In a store whose changes are durable when they are answered, only a round after which no command
// should be left waits for the disk: what it stores is durable after all that was stored before.

// An update is a command that waits for its round.
type update struct {
	edit    func(r *record) (int64, error) // makes all of its changes, or none
	entry   *entry
	answer  int64
	err     error
	changed bool
	done    bool
	left    bool // left to the client's goroutine
}

// An entry is a key being updated.
type entry struct {
	key    []byte
	room   []byte // buffer for the value
	record record
	err    error          // from reading it
	size   int            // of the value read, or of the new one
	isRead bool           // and not known to have changed since
	fresh  bool           // it was read in this round
	long   bool           // too long for room, so not in memory
	alone  bool           // one command per round
	closed bool           // no more commands in this round
	asked  *kvtree.Result // result of reading or storing it
	edits  []*queued      // commands of this round
	lost   int            // rounds lost to other writers since our last change
}

// updates is the state of runUpdates.
type updates struct {
	*work
	entries []entry
	pending []*queued
	rounds  int
	last    bool // no command will be left after this round, unless one has to be repeated
	owed    bool // something was stored that may not be durable
}

// update queues an update. The caller reuses the slice of arguments, but not their content.
func (c *client) update(answer answer, key []byte, edit func(r *record) (int64, error)) {
	c.enqueue(&c.pipeline.updates, queued{answer: answer, key: key, update: &update{edit: edit}})
}

func (w *work) runUpdates() {
	w.queue[0].client.db.waitsFor(w.store, w.runRounds)
	for i := range w.queue {
		w.queue[i].client.answerUpdate(&w.queue[i])
	}
}

func (c *client) answerUpdate(q *queued) {
	switch u := q.update; {
	case u.left:
		return
	case u.err != nil:
		c.error(u.err)
	case q.answer == answerStored:
		c.ok()
	default:
		c.integer(u.answer)
	}
	c.sendOnLoop()
}

func (w *work) runRounds() error {
	arena := arenas.Get().(*[]byte)
	defer arenas.Put(arena)
	u := updates{work: w}
	u.begin(*arena)
	for len(u.pending) > 0 {
		u.round()
	}
	u.sync()
	return nil
}

func (u *updates) round() {
	u.rounds++
	u.read()
	u.edit()
	u.storeAll()
	u.pending = slices.DeleteFunc(u.pending, func(q *queued) bool { return q.update.done })
}

// begin collects the keys, and gives each a part of the memory for its value.
func (u *updates) begin(memory []byte) {
	byKey := make(map[string]*entry, len(u.queue))
	u.entries = make([]entry, 0, len(u.queue))
	for i := range u.queue {
		q := &u.queue[i]
		e := byKey[string(q.key)]
		if e == nil {
			room := max(q.client.room, firstRoom)
			if room > len(memory) {
				room = min(firstRoom, len(memory))
			}
			u.entries = append(u.entries, entry{key: q.key, room: memory[:room:room]})
			e = &u.entries[len(u.entries)-1]
			byKey[string(q.key)] = e
			memory = memory[room:]
		}
		*q.update = update{edit: q.update.edit, entry: e}
		u.pending = append(u.pending, q)
	}
}

// read reads the keys that are not in memory.
func (u *updates) read() {
	for _, q := range u.pending {
		if e := q.update.entry; !e.isRead && e.asked == nil {
			e.asked = u.batch.GetColumnsInto(e.key, e.room)
		}
	}
	u.runBatch()
	for i := range u.entries {
		e := &u.entries[i]
		if e.asked != nil {
			e.took(e.asked.Columns, e.asked.Version, e.asked.Err)
		}
		e.asked = nil
	}
	u.reset()
}

// runBatch executes the batch, unless it is empty.
func (u *updates) runBatch() {
	if u.batch.Len() > 0 {
		_ = u.run()
	}
}

// took takes the result of reading the key.
func (e *entry) took(columns []kvtree.Column, version uint64, err error) {
	e.record, e.err, e.size, e.long = newRecord(columns, version), err, 0, false
	e.isRead, e.fresh = true, true
	for _, column := range columns {
		e.size += len(column.Data)
	}
	failed, ok := err.(*kvtree.Error)
	switch {
	case ok && failed.Err == kvtree.NoRoom:
		e.size, e.long = failed.Needed, true
	case ok && failed.Err == kvtree.NotFound:
		e.err = nil
	}
}

// edit executes the commands that may run in this round on the values read. A client leaves a loop
// either before its first change of a round, or not in this round: commands that it leaves are
// executed after its changes.
func (u *updates) edit() {
	u.last = true
	for _, q := range u.pending {
		q.client.turn, q.client.waits = nil, false
	}
	for _, q := range u.pending {
		c, e := q.client, q.update.entry
		switch {
		case c.waits || e.closed || c.turn != nil && c.turn != e:
			c.waits, u.last = true, false
		case c.leaving || c.onLoop && (u.rounds > mostAlone || e.long && e.size > shortValue):
			c.longest = max(c.longest, e.size)
			c.leaving, q.update.done, q.update.left = true, true, true
			c.leave(u.store, *q)
		default:
			c.longest = max(c.longest, e.size)
			u.editOne(q)
		}
	}
}

func (u *updates) editOne(q *queued) {
	e := q.update.entry
	if e.long {
		e.took(u.store.GetColumns(context.Background(), e.key))
	}
	if q.update.err = e.err; e.err == nil {
		q.update.answer, q.update.err = q.update.edit(&e.record)
	}
	if e.fresh && !e.record.isChanged() {
		q.update.done = true
		e.forgetLong()
		return
	}
	q.client.turn = e
	e.edits = append(e.edits, q)
	e.closed = e.alone || e.record.isRemoved()
}

// storeAll stores the changed values.
func (u *updates) storeAll() {
	flag := kvtree.Flag(0)
	if u.last {
		flag = u.store.durable
	}
	for i := range u.entries {
		e := &u.entries[i]
		if len(e.edits) > 0 {
			e.asked = e.record.store(&u.batch, e.key, flag)
		}
	}
	u.runBatch()
	for i := range u.entries {
		e := &u.entries[i]
		if len(e.edits) > 0 {
			u.settle(e)
		}
		e.forgetLong()
		e.fresh, e.closed, e.asked = false, false, nil
	}
	u.reset()
}

// forgetLong frees memory: a client may update many long values, one per round, or leave many as they
// are in the same round.
func (e *entry) forgetLong() {
	if e.size > max(shortValue, len(e.room)) {
		e.record, e.long = record{}, true
	}
}

// settle decides whether the commands of a round are done, or must be executed again.
func (u *updates) settle(e *entry) {
	stored, version, again := e.asked != nil, e.record.version, false
	var err error
	if stored {
		err, version = e.asked.Err, e.asked.Version
	}
	switch {
	case err == nil && !stored:
		again = !e.fresh
	case err == nil:
		u.owed, e.lost = !u.last, 0
	case isLost(err) && e.lost < mostTries:
		e.lost++
		again = true
	case isLost(err):
		err = errContended
	case (len(e.edits) > 1 || !e.fresh) && !errors.Is(err, kvtree.Lost):
		again, e.alone = true, true
	}
	for _, q := range e.edits {
		q.update.done, q.update.changed = !again, stored && err == nil
		if q.update.err == nil {
			q.update.err = err
		}
	}
	e.size = max(e.size, e.record.size())
	e.record.stored(version)
	e.isRead = err == nil && !again
	e.edits = e.edits[:0]
}

// isLost reports whether another writer has changed the key first.
func isLost(err error) bool {
	return errors.Is(err, kvtree.Changed) || errors.Is(err, kvtree.Exists) || errors.Is(err, kvtree.NotFound)
}

// sync waits until the changes are durable, if required and not known yet.
func (u *updates) sync() {
	if !u.owed || u.store.durable == 0 {
		return
	}
	if err := u.store.Sync(context.Background()); err != nil {
		for i := range u.queue {
			if q := u.queue[i].update; q.changed && q.err == nil {
				q.err = err
			}
		}
	}
}
