// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"kvtree"
)

const (
	sendAbove     = 64 << 10 // bytes of answers that are sent before the rest is executed
	loginTimeout  = 60 * time.Second
	deadlineEvery = 10 * time.Second
	lingerTimeout = time.Second
	lingerMost    = 16 << 20 // bytes
)

const noPermission = "NOPERM the store's owner and mode do not allow you this"

// A client is a connection. It has a goroutine of its own: one that does not read its answers, or
// sends a command a byte at a time, keeps nobody else waiting.
type client struct {
	reply
	server *server
	conn   net.Conn
	socket net.Conn // what conn is upon, if that is TLS, or conn
	id     int64
	name   string
	shown  atomic.Pointer[string] // what CLIENT LIST says of it
	since  time.Time
	asked  time.Time // who it is
	peer   *peer     // of a Unix socket
	known  bool      // it has said who it is, or need not
	db     *database
	input  input
	pipeline
	rights  rights
	aborted *time.Time // when a transaction was refused that has not ended
	closing bool
	ending  atomic.Bool
	broken  error     // since which nothing is sent
	silent  time.Time // until when it may be
	slow    time.Time // until when it may be
	half    time.Time // since when a part of the next command is there
	guesses int       // of the password
	place   place
}

// rights are what a client may do with a store, decided when it comes to it, as for a file.
type rights struct {
	store  *opened
	access kvtree.Access
}

// serve reads and executes commands until the client or the server ends it.
func (c *client) serve() error {
	if err := c.handshake(); err != nil {
		return err
	}
	for !c.closing && c.broken == nil {
		c.waitFor()
		if err := c.input.fill(c.conn); err != nil {
			if err == errBusy {
				c.failure("ERR " + err.Error())
				c.send()
			}
			return err
		}
		err := c.executeAll()
		c.flush()
		if err != nil && err != errHTTP {
			c.failure("ERR " + err.Error())
		}
		c.send()
		if err != nil {
			c.server.counts.protocolErrors.Add(1)
			return err
		}
	}
	return c.broken
}

// A timed connection is below TLS, which writes on its own account as well.
type timed struct {
	net.Conn
	slowest time.Duration
}

func (t timed) Write(b []byte) (int, error) {
	t.SetWriteDeadline(time.Now().Add(t.slowest))
	return t.Conn.Write(b)
}

// handshake has limits of its own.
func (c *client) handshake() error {
	if conn, ok := c.conn.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(c.server.context, loginTimeout)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			return err
		}
		if c.known {
			c.server.welcome(c)
		}
	}
	return nil
}

// waitFor says how long a client may be silent.
func (c *client) waitFor() {
	var until time.Time
	if !c.input.isHalf() {
		c.half = time.Time{}
	} else if c.half.IsZero() {
		c.half = *c.server.clock.Load()
	}
	if !c.half.IsZero() && c.known {
		until = c.half.Add(c.server.slowest + tick)
	} else if !c.known {
		until = c.asked.Add(loginTimeout)
	} else if c.server.timeout > 0 {
		until = c.server.clock.Load().Add(c.server.timeout + tick)
	}
	if until != c.silent {
		c.silent = until
		c.conn.SetReadDeadline(until)
	}
	// After it was set: see wake.
	if c.server.context.Err() != nil {
		c.conn.SetReadDeadline(c.since)
	}
}

// executeAll executes the commands that are there as a whole.
func (c *client) executeAll() error {
	for !c.closing && c.broken == nil && c.server.context.Err() == nil {
		args, err := c.input.next()
		if args == nil || err != nil {
			return err
		}
		c.execute(args)
	}
	return nil
}

// execute executes a command, or queues it.
func (c *client) execute(args [][]byte) {
	c.half = time.Time{}
	command := find(args[0])
	if command == nil || !command.queues {
		c.flush()
	}
	if c.aborts(args[0]) {
		return
	}
	if text := c.refuse(command, args); text != "" {
		c.flush()
		c.failure(text)
		return
	}
	command.calls.Add(1)
	command.run(c, args)
	c.sendIfLong()
}

// aborts answers what comes after MULTI, which was refused: to execute it without would do what
// its client did not mean.
func (c *client) aborts(name []byte) bool {
	if c.aborted == nil {
		if c.known && is(name, "MULTI") {
			c.aborted = c.server.clock.Load()
		}
		return false
	}
	c.flush()
	switch {
	case is(name, "EXEC"):
		c.aborted = nil
		c.failure("EXECABORT Transaction discarded because of previous errors.")
	case is(name, "DISCARD"):
		c.aborted = nil
		c.ok()
	case is(name, "RESET"), is(name, "QUIT"):
		c.aborted = nil
		return false
	default:
		c.failure("ERR not executed: kvtree-server has no MULTI")
		// One that has read the answer of MULTI may not say EXEC any more.
		c.closing = c.server.clock.Load().Sub(*c.aborted) > c.server.slowest
	}
	return true
}

// refuse says why a command is not executed.
func (c *client) refuse(command *command, args [][]byte) string {
	switch {
	case !c.known && (command == nil || !command.strangers):
		return "NOAUTH Authentication required."
	case command == nil:
		return absent(args[0])
	case command.arity > 0 && len(args) != command.arity || len(args) < -command.arity:
		return wrongNumber(command.name)
	case command.needs == 0:
		return ""
	}
	rights := c.rightsNow()
	if command.needs&^rights.access != 0 {
		return noPermission
	}
	if command.needs&kvtree.Write != 0 && rights.store.readOnly {
		return "READONLY the store is read-only, or the server may only read it"
	}
	return ""
}

// wrongNumber is of the arguments of a command.
func wrongNumber(name string) string {
	return "ERR wrong number of arguments for '" + strings.ToLower(name) + "' command"
}

// needsPassword says whether the client has to say one: those of Unix sockets are known.
func (c *client) needsPassword() bool {
	return c.peer == nil && c.server.password != nil
}

// rightsNow looks again when the store is another one.
func (c *client) rightsNow() *rights {
	store := c.db.opened.Load()
	if c.rights.store != store {
		// What is queued was allowed for the other, and may find that it is gone.
		c.flush()
		store = c.db.opened.Load()
		c.rights = rights{store, kvtree.ReadWrite}
		if c.peer != nil {
			info, err := store.Info()
			if err != nil {
				info = store.info
			}
			c.rights.access = c.peer.access(&info)
		}
	}
	return &c.rights
}

// store is what the commands of now use.
func (c *client) store() *kvtree.Store {
	return c.rights.store.Store
}

// error answers with an error of the store, or of what a client said.
func (c *client) error(err error) {
	switch {
	case errors.Is(err, kvtree.Gone):
		c.db.again(c.rights.store)
	case errors.Is(err, kvtree.ReadOnly):
		c.failure("READONLY " + err.Error())
		return
	case errors.Is(err, kvtree.AccessDenied):
		c.failure("NOPERM " + err.Error())
		return
	case errors.Is(err, kvtree.LimitReached), errors.Is(err, kvtree.Full):
		c.failure("OOM " + err.Error())
		return
	}
	text := err.Error()
	var e *kvtree.Error
	if errors.As(err, &e) {
		text = "ERR " + text
	}
	c.failure(text)
}

// waitsFor makes a change, which may wait for a disk. Each that does has a thread of the kernel's, of
// which there must not be too many.
func (c *client) waitsFor(change func() error) error {
	if c.rights.store.info.Durable {
		c.db.waiting <- struct{}{}
		defer func() { <-c.db.waiting }()
	}
	return change()
}

// okOr answers with OK, or with an error.
func (c *client) okOr(err error) {
	if err != nil {
		c.error(err)
	} else {
		c.ok()
	}
}

// integerOr answers with a number, or with an error.
func (c *client) integerOr(n int64, err error) {
	if err != nil {
		c.error(err)
	} else {
		c.integer(n)
	}
}

func (c *client) sendIfLong() {
	if len(c.out) >= sendAbove {
		c.send()
	}
}

// send sends the answers. A client that takes none for as long as the slowest may is closed.
func (c *client) send() {
	if len(c.out) == 0 {
		return
	}
	if now := *c.server.clock.Load(); c.slow.Sub(now) < c.server.slowest {
		c.slow = now.Add(c.server.slowest + deadlineEvery)
		c.conn.SetWriteDeadline(c.slow)
	}
	if c.broken == nil {
		_, c.broken = c.conn.Write(c.out)
	}
	if cap(c.out) > 2*sendAbove {
		c.out = nil
	}
	c.out = c.out[:0]
}

// end closes the connection. What was sent and not read would be lost if something that has come
// were not read.
func (c *client) end() {
	defer c.conn.Close()
	c.ending.Store(true)
	conn, ok := c.conn.(interface{ CloseWrite() error })
	if ok && conn.CloseWrite() == nil {
		c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
		io.CopyN(io.Discard, c.conn, lingerMost)
	}
}

// address is the other end, for people.
func (c *client) address() string {
	if c.peer != nil {
		return "unix"
	}
	return c.conn.RemoteAddr().String()
}
