// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"context"
	"sync"
)

// While so many calls that were left alone are under way, no other begins.
const maxLeft = 64

// A leaver counts calls that were left alone.
type leaver struct {
	mutex sync.Mutex
	n     int
	fewer chan struct{} // closed when n has become small enough, if somebody waits for that
}

// run makes a call that may take long, and leaves it alone when the context ends: then it is not
// over, and the error is the context's. The call must not use what belongs to the caller.
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

// wait waits until a call may begin; false if the context ended before.
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

// leave counts a call until it has ended.
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
