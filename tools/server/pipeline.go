// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"kvtree"
)

// Commands that clients of a loop send at the same time, and that one client sends at once, are
// executed in batches: of gets, which are looked up together; of changes, in order; or of updates,
// which read a value and store a new one. The queued commands of a client are all of one kind, and
// are answered in order.

// How to answer a queued operation.
type answer uint8

const (
	answerValue   answer = iota // a get: the value, or null
	answerElement               // one get of several: the same, and null for a hash
	answerLength                // a get: the value's length
	answerFound                 // gets: the number of existing keys, after the last
	answerArray                 // no operation: begins an array
	answerStored                // a put: OK
	answerIf                    // a put with a condition: OK or null
	answerNew                   // a put that creates: 1 or 0
	answerAll                   // puts: OK, after the last
	answerRemoved               // removals: the number removed, after the last
	answerInteger               // an update: its number
)

type queued struct {
	client *client
	answer answer
	last   bool // the last operation with a common answer
	flag   kvtree.Flag
	n      int // elements of an array
	key    []byte
	value  []byte
	update *update
}

const (
	mostQueued   = 256
	mostPipeline = 256 << 10 // bytes of a pipeline
	arenaSize    = 256 << 10
	firstRoom    = 128
)

// A pipeline holds the commands of clients that are not executed yet.
type pipeline struct {
	gets    work
	changes work
	updates work
}

// A work holds operations on one store.
type work struct {
	execute func(w *work)
	reads   bool // it reads values, and leaves long ones to clients' goroutines
	store   *opened
	queue   []queued
	batch   kvtree.Batch
	results []*kvtree.Result
}

// batching is the state of a client's commands in batches.
type batching struct {
	pipeline *pipeline // of its loop or of its goroutine
	in       *work     // which holds the client's operations
	rest     []queued  // commands that the loop has left
	restOf   *opened   // the store for which they were allowed
	room     int       // for a value
	longest  int       // the longest value since room was chosen
	reads    int       // bytes of memory for gets that are being answered
	count    int64     // for operations with a common answer
	failed   error     // their first error
	begun    int       // where their answer starts in out; negative if partly sent
	turn     *entry    // the key that it updates in this round
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

// Buffers for the values of gets.
var arenas = sync.Pool{New: func() any {
	arena := make([]byte, arenaSize)
	return &arena
}}

// work returns where to queue a command's operations.
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

// leave leaves a command to the client's own goroutine.
func (c *client) leave(store *opened, q queued) {
	if len(c.rest) == 0 {
		c.restOf = store
	}
	c.rest = append(c.rest, q)
}

// resume executes the commands that a loop has left, with the store for which they were allowed.
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
	c := w.queue[0].client
	for i := range w.queue {
		w.queue[i].client.executed()
	}
	clear(w.queue)
	w.queue, w.store = w.queue[:0], nil
	c.sendIfLong()
}

// sendOnLoop sends a long answer if it does not wait for the client. Others are sent when what their
// batch has read is freed.
func (c *client) sendOnLoop() {
	if c.onLoop {
		c.sendIfLong()
	}
}

// reset empties the batch, and drops all references to clients' data.
func (w *work) reset() {
	w.batch.Reset()
	clear(w.results)
	w.results = w.results[:0]
}

// executed resets a client's state after its queued operations were executed.
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

// run executes the batch. Each operation has its own result.
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
	c.sendOnLoop()
}

// together collects the results of several operations, and answers after the last.
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
	for queue := w.queue; len(queue) > 0; {
		queue = queue[w.runSomeGets(queue):]
		w.queue[0].client.sendIfLong()
	}
}

// runSomeGets executes as many gets as fit into memory, and returns how many.
func (w *work) runSomeGets(queue []queued) int {
	arena := arenas.Get().(*[]byte)
	defer arenas.Put(arena)
	defer w.reset()
	memory := *arena
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
		c := queue[i].client
		c.answerGet(w.store, &queue[i], result)
		// Values that did not fit were read again. There may be many, and each may be long.
		if len(c.out) > arenaSize+sendAbove {
			c.reads = arenaSize + c.room
			c.sendIfLong()
			c.reads = 0
		}
	}
	return len(w.results)
}

// room returns how much memory a get needs; negative if there is nothing to execute.
func (q *queued) room() int {
	switch {
	case q.answer == answerArray || q.client.broken != nil || q.client.leaving:
		return -1
	case q.answer == answerFound || q.answer == answerLength:
		return 0
	}
	return max(q.client.room, firstRoom)
}

// answerGet answers a get, or leaves it to the client's goroutine. The result may be nil.
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
	c.sendOnLoop()
}

// answerResult reads again if a value did not fit, or is empty and may be a hash.
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

// element answers with an element of an array. An error replaces the whole array, unless a part of
// it was already sent.
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
