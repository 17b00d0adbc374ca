// SPDX-License-Identifier: GPL-2.0

package main

import (
	"errors"
	"fmt"
	"log"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const mostEvents = 512

var errFault = errors.New("a fault of the server's")

// A loop serves clients without TLS. It reads what all of them have sent, executes it together, and
// then answers. It never waits for one: what may take long is done by a goroutine of the client's
// own, and the loop has the client again after that.
type loop struct {
	server   *server
	epoll    int
	alarm    int // an eventfd
	events   [mostEvents]unix.EpollEvent
	turn     []*client // that are served now
	ended    int       // of those, have their answers
	pipeline *pipeline
	ticked   *time.Time
	mutex    sync.Mutex
	sockets  map[int32]*socket // that are watched
	over     bool
	closed   bool
}

// makeLoops makes as many as there are processors for, beside those of the clients.
func (s *server) makeLoops(n int) error {
	if n == 0 {
		n = (runtime.NumCPU() + 1) / 2
	}
	for range n {
		l, err := newLoop(s)
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
	}
	return nil
}

func newLoop(s *server) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	alarm, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	l := &loop{server: s, epoll: epoll, alarm: alarm, pipeline: newPipeline(), sockets: map[int32]*socket{}}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(alarm)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, alarm, &event); err != nil {
		l.close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return l, nil
}

func (l *loop) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	unix.Close(l.epoll)
	unix.Close(l.alarm)
}

// watch has the loop tell, or see itself, when an event comes: it may be there already.
func (l *loop) watch(s *socket, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(s.fd)}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, s.fd, &event)
	if err == nil {
		l.sockets[event.Fd] = s
	}
	return err
}

func (l *loop) unwatch(s *socket) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.sockets, int32(s.fd))
	unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.fd, nil)
}

// wake has the loop look whether the server, or the loop, is to end.
func (l *loop) wake() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.closed {
		one := [8]byte{1}
		unix.Write(l.alarm, one[:])
	}
}

// run serves until stop.
func (l *loop) run() {
	defer l.close()
	for l.once() {
	}
}

// once waits for a turn, and serves it; false if it was the last.
func (l *loop) once() bool {
	n, err := unix.EpollWait(l.epoll, l.events[:], int(tick.Milliseconds()))
	if err != nil && err != unix.EINTR {
		log.Fatalf("epoll_wait: %v", err)
	}
	goesOn := l.take(l.events[:max(n, 0)])
	l.serve()
	return goesOn
}

// stop ends it when it has no clients.
func (l *loop) stop() {
	l.mutex.Lock()
	l.over = true
	l.mutex.Unlock()
	l.wake()
}

// take finds the clients whose turn it is: those that have sent something, and those whose time is
// over. An event may be one of before for a descriptor that is another socket now: to look at that
// does no harm.
func (l *loop) take(events []unix.EpollEvent) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := range events {
		switch s := l.sockets[events[i].Fd]; {
		case s == nil:
		case s.waits == nil:
			l.add(s.client)
		default:
			select {
			case s.waits <- struct{}{}:
			default:
			}
		}
	}
	ends := l.server.context.Err() != nil
	if now := l.server.clock.Load(); ends || now != l.ticked {
		l.ticked = now
		l.takeLate(*now, ends)
	}
	return !l.over
}

// takeLate finds those that have said nothing for too long, or all.
func (l *loop) takeLate(now time.Time, all bool) {
	for _, s := range l.sockets {
		late := !s.read.IsZero() && now.After(s.read) && !s.client.inTurn
		if s.waits == nil && (all || late) {
			s.client.closing = true
			l.add(s.client)
		}
	}
}

// add adds a client to the turn, once.
func (l *loop) add(c *client) {
	if !c.inTurn {
		c.inTurn = true
		l.turn = append(l.turn, c)
	}
}

// serve gives each client of a turn what it has asked for. A fault of the server's ends these
// clients alone.
func (l *loop) serve() {
	defer func() {
		if fault := recover(); fault != nil {
			log.Printf("%v\n%s", fault, debug.Stack())
			*l.pipeline = *newPipeline()
			for _, c := range l.turn[l.ended:] {
				c.broken, c.in = errFault, nil
				l.endTurn(c)
			}
		}
		clear(l.turn)
		l.turn, l.ended = l.turn[:0], 0
	}()
	for _, c := range l.turn {
		c.receive()
	}
	for again := true; again; {
		again = false
		for _, c := range l.turn {
			again = c.advance() || again
		}
		l.pipeline.flush()
	}
	for _, c := range l.turn {
		c.settle()
		l.endTurn(c)
	}
}

// endTurn leaves a client to a goroutine of its own if there is more to do for it than can be done
// at once.
func (l *loop) endTurn(c *client) {
	c.inTurn, c.alone = false, 0
	l.ended++
	if c.leaves() {
		l.unwatch(c.plain)
		c.onLoop = false
		go c.work()
	} else {
		c.input.idle()
		c.waitFor()
	}
}

// give has the loop serve a client, which is the loop's from then on.
func (l *loop) give(c *client) bool {
	c.onLoop, c.pipeline, c.alone = true, l.pipeline, 0
	c.input.idle()
	c.waitFor()
	if l.watch(c.plain, unix.EPOLLIN) != nil {
		c.onLoop = false
		return false
	}
	// The loop may have looked before this one was there.
	if l.server.context.Err() != nil {
		l.wake()
	}
	return true
}
