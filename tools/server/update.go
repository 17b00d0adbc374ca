// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"slices"

	"kvtree"
)

// Updates are commands that make a new value of one that they read, such as INCR. They are executed
// in rounds, each of which stores new values in one batch, if the versions are those that were read.
//
// Others must not see the changes of a client in another order than that of its commands, and the
// kernel goes on after an operation that fails. So a client changes one key in a round, with all of
// its next commands that are for this key. Clients share a key that several of them change.
//
// If others have changed a key meanwhile, its commands are executed again in the next round. So they
// are, one in a round, if the new value is refused: each has an error of its own. A command that
// changes nothing, fails or is refused, is done if the key was read in this round: after the client's
// changes of before.

// An update is a command that waits for its round.
type update struct {
	edit    func(r *record) (int64, error) // changes all that it has to, or nothing
	entry   *entry
	answer  int64
	err     error
	changed bool
	done    bool
	left    bool // to a goroutine of the client's own
}

// An entry is a key that is updated.
type entry struct {
	key    []byte
	room   []byte // for the value
	record record
	err    error          // of reading it
	size   int            // of what was read, or made of it
	isRead bool           // and nothing is known that has changed it
	fresh  bool           // it was read in this round
	long   bool           // and not in memory, since it has no room
	alone  bool           // one command in a round
	closed bool           // for the rest of the round
	asked  *kvtree.Result // of reading or storing it
	edits  []*queued      // of this round
	lost   int            // rounds since it was changed, to others who have
}

// updates are what runUpdates executes.
type updates struct {
	*work
	entries []entry
	pending []*queued
	rounds  int
	changed bool
}

// update queues an update. The slice of a command's arguments is used again; what is in it stays.
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
	c.sendIfLong()
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

// begin finds out which keys there are, and gives each a part of the memory for its value.
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

// read reads the keys that are not read.
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

// runBatch executes the batch, if there is something in it.
func (u *updates) runBatch() {
	if u.batch.Len() > 0 {
		_ = u.run()
	}
}

// took is told what reading the key has found.
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

// edit executes on what was read what may be executed in this round. A client of a loop leaves it
// before its first change of a round, or not in this round: what it leaves is executed after what it
// has changed.
func (u *updates) edit() {
	for _, q := range u.pending {
		q.client.turn, q.client.waits = nil, false
	}
	for _, q := range u.pending {
		c, e := q.client, q.update.entry
		switch {
		case c.waits || e.closed || c.turn != nil && c.turn != e:
			c.waits = true
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
		return
	}
	q.client.turn = e
	e.edits = append(e.edits, q)
	e.closed = e.alone || e.record.isRemoved()
}

// storeAll stores what was edited.
func (u *updates) storeAll() {
	for i := range u.entries {
		e := &u.entries[i]
		if len(e.edits) > 0 {
			e.asked = e.record.store(&u.batch, e.key)
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

// forgetLong gives memory back: a client may update many long values, and each in a round of its own.
func (e *entry) forgetLong() {
	if e.size > max(shortValue, len(e.room)) {
		e.record, e.long = record{}, true
	}
}

// settle decides whether the commands of a round are done, or executed again.
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
		u.changed, e.lost = true, 0
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

// isLost says whether others have changed a key before.
func isLost(err error) bool {
	return errors.Is(err, kvtree.Changed) || errors.Is(err, kvtree.Exists) || errors.Is(err, kvtree.NotFound)
}

// sync waits until what was changed is durable, if it is to be.
func (u *updates) sync() {
	if !u.changed || u.store.durable == 0 {
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
