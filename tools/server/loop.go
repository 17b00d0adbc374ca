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

var errFault = errors.New("internal error")

// A loop serves clients without TLS. It reads the input of all clients, executes it together, and
// then answers. It never waits for one client: the client's own goroutine executes commands that
// may take long, and returns the client to the loop.
type loop struct {
	server   *server
	epoll    int
	alarm    int // an eventfd
	events   [mostEvents]unix.EpollEvent
	turn     []*client // being served
	ended    int       // how many of them were answered
	pipeline *pipeline
	ticked   *time.Time
	mutex    sync.Mutex
	sockets  map[int32]*socket // watched by epoll
	over     bool
	closed   bool
}

// makeLoops makes n loops, or by default one for every two processors.
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

// watch adds a socket, and reports an event that is already pending, too.
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

// wake makes the loop check whether the server, or the loop, should stop.
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

// once waits for input, and serves one turn; false if it was the last one.
func (l *loop) once() bool {
	n, err := unix.EpollWait(l.epoll, l.events[:], int(tick.Milliseconds()))
	if err != nil && err != unix.EINTR {
		log.Fatalf("epoll_wait: %v", err)
	}
	goesOn := l.take(l.events[:max(n, 0)])
	l.serve()
	return goesOn
}

// stop ends the loop. It must have no clients.
func (l *loop) stop() {
	l.mutex.Lock()
	l.over = true
	l.mutex.Unlock()
	l.wake()
}

// take adds the clients of a turn: those that have sent something, and those with an expired
// deadline. An event may be for an earlier socket with the same descriptor: serving the new one is
// harmless.
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

// takeLate adds the clients with an expired deadline, or all.
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

// serve executes the commands of all clients in the turn. A panic only ends the clients that were
// not answered yet.
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

// endTurn starts a goroutine for a client if there is more to do than fits into a turn.
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

// give returns a client to the loop.
func (l *loop) give(c *client) bool {
	c.onLoop, c.pipeline, c.alone = true, l.pipeline, 0
	c.input.idle()
	c.waitFor()
	if l.watch(c.plain, unix.EPOLLIN) != nil {
		c.onLoop = false
		return false
	}
	// The loop may have checked before this client was added.
	if l.server.context.Err() != nil {
		l.wake()
	}
	return true
}
