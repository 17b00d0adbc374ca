// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"container/list"
	"strconv"
	"sync"
	"time"
)

// Redis' SCAN continues from a number. Here the number is a key's that the server remembers: a
// client may continue from another connection. The server first forgets cursors that were used,
// and then the oldest.
const mostCursors = 4096

type cursor struct {
	number uint64
	after  []byte
}

type cursors struct {
	mutex  sync.Mutex
	last   uint64
	byID   map[uint64]*list.Element
	recent *list.List
}

// newCursors starts with numbers that depend on the time and the database, so that no other
// database and no earlier server has given them. They fit a float64 exactly, which some clients
// use.
func newCursors(database int) *cursors {
	return &cursors{last: uint64(time.Now().UnixMilli()+int64(database)<<32) << 8, byID: map[uint64]*list.Element{},
		recent: list.New()}
}

func (cs *cursors) put(after []byte) string {
	cs.mutex.Lock()
	defer cs.mutex.Unlock()
	cs.last++
	// Copy: the key may be part of a much larger buffer.
	cs.byID[cs.last] = cs.recent.PushFront(&cursor{cs.last, bytes.Clone(after)})
	if cs.recent.Len() > mostCursors {
		oldest := cs.recent.Remove(cs.recent.Back()).(*cursor)
		delete(cs.byID, oldest.number)
	}
	return strconv.FormatUint(cs.last, 10)
}

func (cs *cursors) get(number uint64) ([]byte, bool) {
	cs.mutex.Lock()
	defer cs.mutex.Unlock()
	element, ok := cs.byID[number]
	if !ok {
		return nil, false
	}
	cs.recent.MoveToBack(element)
	return element.Value.(*cursor).after, true
}
