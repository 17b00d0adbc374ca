// SPDX-License-Identifier: GPL-2.0

package main

import (
	"errors"
	"sync"
)

// Memory of all clients together, in bytes, for long commands, and for answers that are not read.
const (
	mostInput  = 1 << 30
	mostUnread = 1 << 30
)

var (
	errBusy   = errors.New("too many clients send long commands at once")
	errUnread = errors.New("too many long answers at once")
)

// A budget limits what the clients hold of something, in bytes. As for connections, a place has half
// of it at most.
type budget struct {
	most   int
	mutex  sync.Mutex
	held   int
	places map[place]int
}

func newBudget(most int) budget {
	return budget{most: most, places: map[place]int{}}
}

// A share is what one client holds.
type share struct {
	budget *budget // nil: not limited
	held   int
	place  place // for which it is counted
}

// resize changes what a client holds, unless it would be too much.
func (s *share) resize(to int, at place) bool {
	if s.budget == nil || to == s.held {
		return true
	}
	if s.held == 0 {
		s.place = at
	}
	if !s.budget.add(to-s.held, s.place) {
		return false
	}
	s.held = to
	return true
}

// release returns all that a client holds.
func (s *share) release() {
	s.resize(0, s.place)
}

// now returns how much is held.
func (b *budget) now() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.held
}

func (b *budget) add(more int, at place) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if more > 0 && (b.held+more > b.most || at != nobody && b.places[at]+more > b.most/2) {
		return false
	}
	b.held += more
	if at == nobody {
		return true
	}
	if b.places[at] += more; b.places[at] == 0 {
		delete(b.places, at)
	}
	return true
}
