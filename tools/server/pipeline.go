// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"kvtree"
)

// What clients of a loop send at the same time, and what a client sends at once, is executed in
// batches: gets, which are executed at the same time, changes, in their order, or updates, which read
// a value and store another. What a client has queued is all of one kind, and its answers are in the
// order of its commands.

// What a queued operation is answered with.
type answer uint8

const (
	answerValue   answer = iota // a get: the value, or null
	answerElement               // a get of several: the same, and null for a hash
	answerLength                // a get: bytes of the value
	answerFound                 // gets: how many there are, after the last
	answerArray                 // nothing is executed: begins an array
	answerStored                // a put: OK
	answerIf                    // a put with a condition: OK or null
	answerNew                   // a put that creates: 1 or 0
	answerAll                   // puts: OK, after the last
	answerRemoved               // removals: how many there were, after the last
	answerInteger               // an update: what it has counted
)

type queued struct {
	client *client
	answer answer
	last   bool // of those that have one answer together
	flag   kvtree.Flag
	n      int // elements of an array
	key    []byte
	value  []byte
	update *update
}

const (
	mostQueued = 256
	arenaSize  = 256 << 10
	firstRoom  = 128
)

// A pipeline is what clients have sent and is not executed yet.
type pipeline struct {
	gets    work
	changes work
	updates work
}

// A work is operations of one store.
type work struct {
	execute func(w *work)
	reads   bool // values, and leaves long ones to goroutines of the clients' own
	store   *opened
	queue   []queued
	batch   kvtree.Batch
	results []*kvtree.Result
}

// batching is what a client has in batches.
type batching struct {
	pipeline *pipeline // its loop's, or that of its goroutine
	in       *work     // which has operations of the client's
	rest     []queued  // what a loop has left
	restOf   *opened   // the store that they were allowed for
	room     int       // for a value
	longest  int       // of the values since room was chosen
	count    int64     // of those that have one answer together
	failed   error     // the first error of those
	begun    int       // where their answer is in out; negative if some of it was sent
	turn     *entry    // that it updates in this round
	waits    bool      // for the next round
}

func newPipeline() *pipeline {
	return &pipeline{
		gets:    work{execute: (*work).runGets, reads: true},
		changes: work{execute: (*work).runChanges},
		updates: work{execute: (*work).runUpdates, reads: true},
	}
}

var pipelines = sync.Pool{New: func() any { return newPipeline() }}

// Where gets put their values.
var arenas = sync.Pool{New: func() any {
	arena := make([]byte, arenaSize)
	return &arena
}}

// work is where a command's operations are queued.
func (p *pipeline) work(command *command) *work {
	switch command.needs {
	case both:
		return &p.updates
	case write:
		return &p.changes
	}
	return &p.gets
}

// flush executes everything.
func (p *pipeline) flush() {
	p.updates.flush()
	p.changes.flush()
	p.gets.flush()
}

// get queues a get.
func (c *client) get(q queued) {
	c.enqueue(&c.pipeline.gets, q)
}

// change queues a put, or a removal.
func (c *client) change(q queued) {
	c.enqueue(&c.pipeline.changes, q)
}

func (c *client) enqueue(w *work, q queued) {
	if c.in != w {
		c.flush()
	}
	if len(w.queue) > 0 && w.store != c.rights.store || len(w.queue) >= mostQueued {
		w.flush()
	}
	q.client = c
	if c.leaving && w.reads {
		c.leave(c.rights.store, q)
		return
	}
	c.in, w.store = w, c.rights.store
	w.queue = append(w.queue, q)
}

// flush executes what the client has queued.
func (c *client) flush() {
	if c.in != nil {
		c.in.flush()
	}
}

// leave leaves a command to a goroutine of the client's own.
func (c *client) leave(store *opened, q queued) {
	if len(c.rest) == 0 {
		c.restOf = store
	}
	c.rest = append(c.rest, q)
}

// resume executes what a loop has left, with the store that it was allowed for.
func (c *client) resume() {
	if len(c.rest) == 0 {
		return
	}
	rest, now := c.rest, c.rights
	c.rights.store = c.restOf
	for _, q := range rest {
		if q.update != nil {
			c.enqueue(&c.pipeline.updates, q)
		} else {
			c.get(q)
		}
	}
	c.flush()
	c.rest, c.restOf, c.rights = nil, nil, now
}

// flush executes what is queued.
func (w *work) flush() {
	if len(w.queue) == 0 {
		return
	}
	w.execute(w)
	for i := range w.queue {
		w.queue[i].client.executed()
	}
	clear(w.queue)
	w.queue, w.store = w.queue[:0], nil
}

// reset forgets the batch. Nothing of what clients have sent is kept.
func (w *work) reset() {
	w.batch.Reset()
	clear(w.results)
	w.results = w.results[:0]
}

// executed is told that all that a client had queued is.
func (c *client) executed() {
	read := c.in != nil && c.in.reads
	c.in, c.turn = nil, nil
	if read {
		c.room = min(1<<bits.Len(uint(c.longest)), kvtree.MaxValue)
		c.longest = 0
	}
}

func (w *work) runChanges() {
	for i := range w.queue {
		q := &w.queue[i]
		flag := q.flag | w.store.durable
		if q.answer == answerRemoved {
			w.results = append(w.results, w.batch.Remove(q.key, flag))
		} else {
			w.results = append(w.results, w.batch.Put(q.key, q.value, flag))
		}
	}
	w.queue[0].client.db.waitsFor(w.store, w.run)
	for i := range w.queue {
		w.queue[i].client.answerChange(&w.queue[i], w.results[i].Err)
	}
	w.reset()
}

// run executes the batch. Each operation has a result of its own.
func (w *work) run() error {
	counts := &w.queue[0].client.server.counts
	counts.batches.Add(1)
	counts.operations.Add(uint64(w.batch.Len()))
	return w.store.Run(context.Background(), &w.batch)
}

func (c *client) answerChange(q *queued, err error) {
	exists := errors.Is(err, kvtree.Exists)
	missing := errors.Is(err, kvtree.NotFound)
	switch {
	case q.answer == answerIf && (exists || missing):
		c.null()
	case q.answer == answerNew && exists:
		c.integer(0)
	case q.answer == answerRemoved && missing:
		c.together(q, false, nil)
	case q.answer == answerRemoved || q.answer == answerAll:
		c.together(q, true, err)
	case err != nil:
		c.error(err)
	case q.answer == answerNew:
		c.integer(1)
	default:
		c.ok()
	}
	c.sendIfLong()
}

// together answers several operations after the last.
func (c *client) together(q *queued, counts bool, err error) {
	if counts {
		c.count++
	}
	if c.failed == nil {
		c.failed = err
	}
	if !q.last {
		return
	}
	if c.failed != nil {
		c.error(c.failed)
	} else if q.answer == answerAll {
		c.ok()
	} else {
		c.integer(c.count)
	}
	c.count, c.failed = 0, nil
}

func (w *work) runGets() {
	arena := arenas.Get().(*[]byte)
	defer arenas.Put(arena)
	for queue := w.queue; len(queue) > 0; {
		queue = queue[w.runSomeGets(queue, *arena):]
		w.reset()
	}
}

// runSomeGets executes as many as there is room for, and returns how many.
func (w *work) runSomeGets(queue []queued, memory []byte) int {
	for i := range queue {
		room := queue[i].room()
		if len(w.results) == 0 && room > len(memory) {
			memory = make([]byte, room)
		}
		if room > len(memory) {
			break
		}
		if room < 0 {
			w.results = append(w.results, nil)
			continue
		}
		w.results = append(w.results, w.batch.GetInto(queue[i].key, memory[:room:room]))
		memory = memory[room:]
	}
	if w.batch.Len() > 0 {
		_ = w.run()
	}
	for i, result := range w.results {
		queue[i].client.answerGet(w.store, &queue[i], result)
	}
	return len(w.results)
}

// room is how much a get needs; negative if nothing is executed.
func (q *queued) room() int {
	switch {
	case q.answer == answerArray || q.client.broken != nil || q.client.leaving:
		return -1
	case q.answer == answerFound || q.answer == answerLength:
		return 0
	}
	return max(q.client.room, firstRoom)
}

// answerGet answers, or leaves it to a goroutine of the client's own. The result may be nil.
func (c *client) answerGet(store *opened, q *queued, result *kvtree.Result) {
	switch {
	case c.leaving:
		c.leave(store, *q)
	case q.answer == answerArray:
		c.begun = len(c.out)
		c.array(q.n)
	case result != nil:
		c.answerResult(store, q, result)
	}
	c.sendIfLong()
}

// answerResult looks again where a value is longer than its room, or empty, as a hash is.
func (c *client) answerResult(store *opened, q *queued, result *kvtree.Result) {
	value, err := result.Value, result.Err
	length := len(value)
	e, failed := err.(*kvtree.Error)
	switch {
	case failed && e.Err == kvtree.NoRoom:
		length, err = e.Needed, nil
		if q.answer == answerValue || q.answer == answerElement {
			c.room = max(c.room, length)
			c.longest = max(c.longest, length)
			if c.onLoop {
				c.leaving = true
				c.leave(store, *q)
				return
			}
			value, _, err = c.value(q.key)
		}
	case err == nil && length == 0 && q.answer != answerFound:
		value, _, err = c.columnZero(q.key)
		length = len(value)
	}
	c.longest = max(c.longest, len(value))
	c.room = max(c.room, len(value))
	c.answerRead(q, value, length, err)
}

func (c *client) answerRead(q *queued, value []byte, length int, err error) {
	missing := errors.Is(err, kvtree.NotFound)
	switch {
	case q.answer == answerElement:
		c.element(q, value, err)
	case q.answer == answerFound && missing:
		c.together(q, false, nil)
	case q.answer == answerFound:
		c.together(q, err == nil, err)
	case q.answer == answerLength && missing:
		c.integer(0)
	case missing:
		c.null()
	case err != nil:
		c.error(err)
	case q.answer == answerLength:
		c.integer(int64(length))
	default:
		c.bulk(value)
	}
}

// element answers with an element of an array. An error takes the place of the whole array, unless
// some of it was sent.
func (c *client) element(q *queued, value []byte, err error) {
	switch {
	case c.failed != nil:
	case err == nil:
		c.bulk(value)
	case errors.Is(err, kvtree.NotFound) || errors.Is(err, errWrongType):
		c.null()
	case c.begun < 0:
		c.error(err)
	default:
		c.out, c.failed = c.out[:c.begun], err
	}
	if q.last && c.failed != nil {
		c.error(c.failed)
		c.failed = nil
	}
}
