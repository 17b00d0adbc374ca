// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"kvtree"
)

// Commands that a client sends at once are executed in batches: gets beside each other, which are
// executed at the same time, or changes beside each other, in their order. Answers are in the order
// of the commands.

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
)

type queued struct {
	answer answer
	last   bool // of those that have one answer together
	flag   kvtree.Flag
	n      int // elements of an array
	key    []byte
	value  []byte
}

const (
	mostQueued = 1024
	arenaSize  = 256 << 10
	firstRoom  = 1 << 10
)

// A pipeline is what a client has sent and is not executed yet.
type pipeline struct {
	queue   []queued
	changes bool // or gets
	batch   kvtree.Batch
	results []*kvtree.Result
	room    int   // for a value
	longest int   // of the values since room was chosen
	count   int64 // of those that have one answer together
	failed  error // the first error of those
}

// Where gets put their values.
var arenas = sync.Pool{New: func() any {
	arena := make([]byte, arenaSize)
	return &arena
}}

// get queues a get.
func (c *client) get(q queued) {
	c.enqueue(false, q)
}

// change queues a put, or a removal.
func (c *client) change(q queued) {
	c.enqueue(true, q)
}

func (c *client) enqueue(changes bool, q queued) {
	p := &c.pipeline
	if len(p.queue) > 0 && (p.changes != changes || len(p.queue) >= mostQueued) {
		c.flush()
	}
	p.changes = changes
	p.queue = append(p.queue, q)
}

// flush executes what is queued.
func (c *client) flush() {
	p := &c.pipeline
	if len(p.queue) == 0 {
		return
	}
	if p.changes {
		c.runChanges()
	} else {
		c.runGets()
	}
	// Nothing of what a client has sent is kept.
	p.batch.Reset()
	clear(p.results)
	clear(p.queue)
	p.results, p.queue = p.results[:0], p.queue[:0]
}

func (c *client) runChanges() {
	p := &c.pipeline
	for i := range p.queue {
		q := &p.queue[i]
		flag := q.flag | c.rights.store.durable
		if q.answer == answerRemoved {
			p.results = append(p.results, p.batch.Remove(q.key, flag))
		} else {
			p.results = append(p.results, p.batch.Put(q.key, q.value, flag))
		}
	}
	c.waitsFor(c.run)
	for i := range p.queue {
		c.answerChange(&p.queue[i], p.results[i].Err)
	}
}

// run executes the batch. Each operation has a result of its own.
func (c *client) run() error {
	p := &c.pipeline
	c.server.counts.batches.Add(1)
	c.server.counts.operations.Add(uint64(p.batch.Len()))
	return c.store().Run(context.Background(), &p.batch)
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
	p := &c.pipeline
	if counts {
		p.count++
	}
	if p.failed == nil {
		p.failed = err
	}
	if !q.last {
		return
	}
	if p.failed != nil {
		c.error(p.failed)
	} else if q.answer == answerAll {
		c.ok()
	} else {
		c.integer(p.count)
	}
	p.count, p.failed = 0, nil
}

func (c *client) runGets() {
	p := &c.pipeline
	arena := arenas.Get().(*[]byte)
	defer arenas.Put(arena)
	p.room = max(p.room, firstRoom)
	for queue := p.queue; len(queue) > 0 && c.broken == nil; {
		queue = queue[c.runSomeGets(queue, *arena):]
	}
	p.room = min(1<<bits.Len(uint(p.longest)), kvtree.MaxValue)
	p.longest = 0
}

// runSomeGets executes as many as there is room for, and returns how many.
func (c *client) runSomeGets(queue []queued, memory []byte) int {
	p := &c.pipeline
	p.batch.Reset()
	p.results = p.results[:0]
	if p.room > len(memory) {
		memory = make([]byte, p.room)
	}
	for i := range queue {
		room := p.room
		switch queue[i].answer {
		case answerArray:
			p.results = append(p.results, nil)
			continue
		case answerFound, answerLength:
			room = 0
		}
		if room > len(memory) {
			break
		}
		p.results = append(p.results, p.batch.GetInto(queue[i].key, memory[:room:room]))
		memory = memory[room:]
	}
	_ = c.run()
	for i, result := range p.results {
		if queue[i].answer == answerArray {
			c.array(queue[i].n)
		} else {
			c.answerGet(&queue[i], result)
		}
		c.sendIfLong()
	}
	return len(p.results)
}

// answerGet looks again where a value is longer than its room, or empty, as a hash is.
func (c *client) answerGet(q *queued, result *kvtree.Result) {
	value, err := result.Value, result.Err
	length := len(value)
	var e *kvtree.Error
	switch {
	case errors.As(err, &e) && e.Err == kvtree.NoRoom:
		length, err = e.Needed, nil
		if q.answer == answerValue || q.answer == answerElement {
			value, _, err = c.value(q.key)
		}
	case err == nil && length == 0 && q.answer != answerFound:
		value, _, err = c.columnZero(q.key)
		length = len(value)
	}
	c.pipeline.longest = max(c.pipeline.longest, len(value))
	c.pipeline.room = max(c.pipeline.room, len(value))
	c.answerRead(q, value, length, err)
}

func (c *client) answerRead(q *queued, value []byte, length int, err error) {
	missing := errors.Is(err, kvtree.NotFound)
	switch {
	case q.answer == answerFound && missing:
		c.together(q, false, nil)
	case q.answer == answerFound:
		c.together(q, err == nil, err)
	case q.answer == answerLength && missing:
		c.integer(0)
	case missing || q.answer == answerElement && errors.Is(err, errWrongType):
		c.null()
	case err != nil:
		c.error(err)
	case q.answer == answerLength:
		c.integer(int64(length))
	default:
		c.bulk(value)
	}
}
