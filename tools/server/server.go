// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A server has several listeners, and one or more databases.
type server struct {
	databases  []*database
	loops      []*loop
	password   *[sha256.Size]byte // for TCP; nil: none
	tls        *tls.Config        // for TCP; nil: none
	maxClients int
	timeout    time.Duration // for idle clients; 0: none
	slowest    time.Duration // maximum time for clients to read their answers
	started    time.Time
	counts     counts
	clock      atomic.Pointer[time.Time] // the approximate time
	context    context.Context           // ends when the server should stop
	input      budget                    // of long commands
	unread     budget                    // of answers
	mutex      sync.Mutex
	clients    map[*client]struct{}
	places     map[place]int // used by clients, for places with a limit
	running    sync.WaitGroup
	lastID     int64
}

// counts are counters since the server's start.
type counts struct {
	connections    atomic.Uint64
	rejected       atomic.Uint64
	batches        atomic.Uint64
	operations     atomic.Uint64
	protocolErrors atomic.Uint64
	busy           atomic.Uint64
}

const (
	tick        = time.Second // between updates of clock
	acceptAgain = 100 * time.Millisecond
)

func newServer(ctx context.Context, databases []*database) *server {
	s := &server{databases: databases, maxClients: 10000, slowest: time.Minute, started: time.Now(),
		context: ctx, input: newBudget(mostInput), unread: newBudget(mostUnread),
		clients: map[*client]struct{}{}, places: map[place]int{}}
	s.tick()
	return s
}

func (s *server) tick() {
	now := time.Now()
	s.clock.Store(&now)
}

// setPassword sets the password for TCP.
func (s *server) setPassword(password []byte) {
	sum := sha256.Sum256(password)
	s.password = &sum
}

// allows checks a password in constant time.
func (s *server) allows(password []byte) bool {
	sum := sha256.Sum256(password)
	return subtle.ConstantTimeCompare(sum[:], s.password[:]) == 1
}

// serve accepts clients until the context ends, and returns when all of them have the answers to
// their executed commands.
func (s *server) serve(listeners []net.Listener) {
	var accepting sync.WaitGroup
	for _, listener := range listeners {
		accepting.Add(1)
		go func() {
			defer accepting.Done()
			s.accept(listener)
		}()
	}
	for _, l := range s.loops {
		go l.run()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for s.context.Err() == nil {
		select {
		case <-ticker.C:
			s.tick()
		case <-s.context.Done():
		}
	}
	for _, listener := range listeners {
		listener.Close()
	}
	accepting.Wait()
	s.wake()
	force := time.AfterFunc(s.slowest+deadlineEvery, s.closeAll)
	s.running.Wait()
	force.Stop()
	for _, l := range s.loops {
		l.stop()
	}
}

// closeAll closes clients that do not read their answers.
func (s *server) closeAll() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for c := range s.clients {
		c.abort()
	}
}

// connected returns the number of clients.
func (s *server) connected() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.clients)
}

// wake ends the waits for clients' input. The context has already ended: a client that is about to
// wait sees that or the changed deadline.
func (s *server) wake() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range s.loops {
		l.wake()
	}
	for c := range s.clients {
		if c.plain == nil && !c.ending.Load() {
			c.conn.SetReadDeadline(time.Now())
		}
	}
}

func (s *server) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if s.context.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			// Out of descriptors or memory, or a firewall: try again later.
			log.Printf("%s: %v", listener.Addr(), err)
			time.Sleep(acceptAgain)
			continue
		}
		if err := s.take(conn); err != nil {
			s.counts.rejected.Add(1)
			conn.SetWriteDeadline(time.Now().Add(time.Second))
			fmt.Fprintf(conn, "-ERR %s\r\n", err)
			conn.Close()
		}
	}
}

// A place is a share of the connections: unauthenticated clients, and each user except root, may
// use half of them at most, so that none of them can use all.
type place int64

const (
	nobody    place = -1 // has no limit
	strangers place = -2
)

func placeOf(p *peer) place {
	if p.uid == 0 {
		return nobody
	}
	return place(p.uid)
}

// leave frees a client's place. The caller holds the mutex.
func (s *server) leave(c *client) {
	if c.place == nobody {
		return
	}
	if s.places[c.place]--; s.places[c.place] == 0 {
		delete(s.places, c.place)
	}
	c.place = nobody
}

// welcome moves a client to its place after authentication.
func (s *server) welcome(c *client) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.leave(c)
}

// take starts to serve a connection.
func (s *server) take(conn net.Conn) error {
	c, err := s.newClient(conn)
	if err != nil {
		return err
	}
	if err := s.add(c); err != nil {
		if c.plain != nil {
			c.plain.Close()
		}
		return err
	}
	if c.plain == nil {
		go c.serve()
		return nil
	}
	conn.Close()
	c.plain.loop = s.loops[c.id%int64(len(s.loops))]
	if !c.plain.loop.give(c) {
		go c.finish()
	}
	return nil
}

// newClient returns a client that is not served yet.
func (s *server) newClient(conn net.Conn) (*client, error) {
	c := &client{server: s, conn: conn, since: time.Now(), asked: time.Now(), db: s.databases[0], place: nobody,
		known: true, unread: share{budget: &s.unread}}
	c.input = input{bound: clientsBound, share: share{budget: &s.input}, place: &c.place}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := limitUnsent(tcp); err != nil {
			return nil, err
		}
	}
	local, ok := conn.(*net.UnixConn)
	switch {
	case ok:
		peer, err := peerOf(local)
		if err != nil {
			return nil, err
		}
		c.peer, c.place = peer, placeOf(peer)
	case s.password != nil:
		c.known, c.input.bound, c.place = false, strangersBound, strangers
	case s.tls != nil:
		c.place = strangers
	}
	if !ok && s.tls != nil {
		c.conn, c.abort = tls.Server(timed{conn, s.slowest}, s.tls), func() { conn.Close() }
	} else {
		plain, err := newSocket(conn)
		if err != nil {
			return nil, err
		}
		plain.client = c
		c.conn, c.plain, c.abort = plain, plain, plain.abort
	}
	c.show()
	return c, nil
}

// add counts a client, if the limit allows one more.
func (s *server) add(c *client) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.clients) >= s.maxClients || c.place != nobody && s.places[c.place] >= (s.maxClients+1)/2 {
		return fmt.Errorf("max number of clients reached")
	}
	s.lastID++
	c.id = s.lastID
	s.clients[c] = struct{}{}
	if c.place != nobody {
		s.places[c.place]++
	}
	s.counts.connections.Add(1)
	s.running.Add(1)
	return nil
}

// remove removes a client from the server.
func (s *server) remove(c *client) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.clients, c)
	s.leave(c)
}
