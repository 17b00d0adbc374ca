// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"context"
	"sync"
)

// While this many abandoned calls are running, no other call begins.
const maxLeft = 64

// A leaver counts abandoned calls.
type leaver struct {
	mutex sync.Mutex
	n     int
	fewer chan struct{} // closed when n is below maxLeft again; nil if nothing waits
}

// run makes a call that may take long, and abandons it when the context ends: then over is false,
// and err is the context's error. The call must not use memory of the caller.
func (l *leaver) run(ctx context.Context, call func() error) (over bool, err error) {
	if !l.wait(ctx) {
		return false, ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		done <- call()
	}()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
		l.leave(done)
		return false, ctx.Err()
	}
}

// wait waits until a call may begin; false if the context ends first.
func (l *leaver) wait(ctx context.Context) bool {
	for {
		l.mutex.Lock()
		if l.n < maxLeft {
			l.mutex.Unlock()
			return true
		}
		if l.fewer == nil {
			l.fewer = make(chan struct{})
		}
		fewer := l.fewer
		l.mutex.Unlock()
		select {
		case <-fewer:
		case <-ctx.Done():
			return false
		}
	}
}

// leave counts an abandoned call until it ends.
func (l *leaver) leave(done <-chan error) {
	l.mutex.Lock()
	l.n++
	l.mutex.Unlock()
	go func() {
		<-done
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.n--
		if l.n < maxLeft && l.fewer != nil {
			close(l.fewer)
			l.fewer = nil
		}
	}()
}
