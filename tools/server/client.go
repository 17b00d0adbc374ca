// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"runtime/debug"
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

// A client is a connection. Those of a loop take turns; one that does not read its answers, or asks
// for what takes long, has a goroutine of its own meanwhile, and keeps nobody else waiting. So has
// one with TLS as long as it is there.
type client struct {
	reply
	server *server
	conn   net.Conn
	plain  *socket // conn, without TLS
	abort  func()  // ends what another goroutine waits for
	id     int64
	name   string
	shown  atomic.Pointer[string] // what CLIENT LIST says of it
	since  time.Time
	asked  time.Time // who it is
	peer   *peer     // of a Unix socket
	known  bool      // it has said who it is, or need not
	db     *database
	input  input
	batching
	rights  rights
	aborted *time.Time // when a transaction was refused that has not ended
	inTurn  bool       // of its loop
	onLoop  bool       // and nothing may wait for it
	leaving bool       // the loop, when its turn is over
	held    [][]byte   // a command that is to be executed after what is queued
	last    *command   // that it has said
	alone   int        // commands of this turn that no batch of the turn's could have
	heavy   bool       // it reads long values
	fault   error      // in what it has sent, to be told after the answers
	closing bool
	ending  atomic.Bool
	broken  error     // since which nothing is sent
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

// serve reads and executes commands of a client with TLS until it or the server ends it.
func (c *client) serve() {
	defer func() {
		c.fell(recover())
		c.finish()
	}()
	c.broken = c.handshake()
	for c.goesOn() {
		c.waitFor()
		c.received(c.input.fill(c.conn))
		c.executeAll()
	}
}

// work does what the loop has left to a goroutine of the client's own, and gives the client back.
func (c *client) work() {
	given := false
	defer func() {
		c.fell(recover())
		if !given {
			c.finish()
		}
	}()
	c.leaving = false
	c.executeAll()
	given = c.goesOn() && c.plain.loop.give(c)
}

// fell is told of a fault of the server's, if there was one, which ends this client alone.
func (c *client) fell(fault any) {
	if fault != nil {
		log.Printf("client %d: %v\n%s", c.id, fault, debug.Stack())
	}
}

// finish ends a client.
func (c *client) finish() {
	defer c.server.running.Done()
	c.end()
	c.server.remove(c)
	c.input.release()
}

// goesOn says whether the next command may be executed.
func (c *client) goesOn() bool {
	return !c.closing && !c.leaving && c.broken == nil && c.fault == nil && c.server.context.Err() == nil
}

// receive reads what is there.
func (c *client) receive() {
	if c.goesOn() {
		c.received(c.input.fill(noWait{c.plain}))
	}
}

// received is told what became of reading.
func (c *client) received(err error) {
	switch err {
	case nil, errAgain:
	case errBusy:
		c.fault = err
	default:
		c.broken = err
	}
}

// executeAll executes the commands that are there as a whole, and sends the answers. It waits for
// the client to take them.
func (c *client) executeAll() {
	c.pipeline = pipelines.Get().(*pipeline)
	c.resume()
	c.advance()
	c.flush()
	c.settle()
	pipelines.Put(c.pipeline)
	c.pipeline = nil
}

// advance executes commands, or queues them. On a loop it returns true if there is one that has to
// wait for what is queued.
func (c *client) advance() bool {
	for c.goesOn() {
		args := c.held
		if args == nil {
			args, c.fault = c.input.next()
		}
		if args == nil {
			return false
		}
		c.held = nil
		if !c.execute(args) {
			c.held = args
			return !c.leaving
		}
	}
	return false
}

// settle ends the answers to what has been executed, and sends them.
func (c *client) settle() {
	if c.fault != nil && len(c.rest) == 0 {
		if c.fault != errHTTP {
			c.failure("ERR " + c.fault.Error())
		}
		if c.fault != errBusy {
			c.server.counts.protocolErrors.Add(1)
		}
		c.fault, c.closing = nil, true
	}
	c.send()
}

// leaves says whether a loop has to leave the client to a goroutine of its own.
func (c *client) leaves() bool {
	return c.leaving || c.closing || c.fault != nil || c.broken != nil || len(c.out) > 0
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
	c.conn.SetReadDeadline(until)
	// After it was set: see wake.
	if c.server.context.Err() != nil {
		c.conn.SetReadDeadline(c.since)
	}
}

// execute executes a command, or queues it. On a loop it returns false, and has done nothing, if
// the command has to wait for what is queued, or may take long: then the client is leaving.
func (c *client) execute(args [][]byte) bool {
	c.half = time.Time{}
	command := c.find(args[0])
	if !c.onLoop && (command == nil || !command.queues) {
		c.flush()
	}
	refusal := c.refuse(command, args)
	queues := refusal == "" && command.queues && c.aborted == nil
	if c.onLoop {
		if c.in != nil && !(queues && c.in == c.pipeline.work(command)) {
			c.alone++
			return false
		}
		if c.leaving = c.hasMuch() || refusal == "" && c.isLong(command, args); c.leaving {
			return false
		}
	}
	if !queues {
		c.flush()
	}
	if c.aborts(args[0]) {
		return true
	}
	if refusal != "" {
		c.failure(refusal)
	} else {
		command.calls.Add(1)
		command.run(c, args)
	}
	if c.in == nil {
		c.alone++
	}
	c.sendIfLong()
	return true
}

// hasMuch says whether others should not wait for all that a client asks for in a turn.
func (c *client) hasMuch() bool {
	return c.alone >= mostAlone || len(c.input.buffer) > keptInput
}

// find finds a command: often the one of before.
func (c *client) find(name []byte) *command {
	if c.last == nil || !is(name, c.last.name) {
		c.last = find(name)
	}
	return c.last
}

const (
	shortArgs  = 256
	fewArgs    = 16
	shortValue = 4 << 10
	mostAlone  = 16
)

// isLong says whether others should not wait for a command.
func (c *client) isLong(command *command, args [][]byte) bool {
	updates := command.queues && command.needs == both
	switch {
	case command.long || len(args) > shortArgs:
		return true
	case !command.queues && c.heavy, (updates || !command.queues) && len(args) > fewArgs:
		return true
	case command.needs&write != 0 && c.rights.store.info.Durable:
		return true
	}
	return command.queues && command.needs != write && c.room > shortValue
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
		c.alone = mostAlone
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

// waitsFor makes a change of the store.
func (c *client) waitsFor(change func() error) error {
	return c.db.waitsFor(c.rights.store, change)
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
	if len(c.out) >= sendAbove && !c.leaving {
		c.send()
	}
}

// send sends the answers. A client that takes none for as long as the slowest may is closed; that of
// a loop leaves it.
func (c *client) send() {
	if len(c.out) == 0 {
		return
	}
	n := len(c.out)
	switch {
	case c.broken != nil:
	case c.onLoop:
		n = c.trySend()
	default:
		if now := *c.server.clock.Load(); c.slow.Sub(now) < c.server.slowest {
			c.slow = now.Add(c.server.slowest + deadlineEvery)
			c.conn.SetWriteDeadline(c.slow)
		}
		_, c.broken = c.conn.Write(c.out)
	}
	c.begun -= n
	rest := c.out[n:]
	if cap(c.out) > 2*sendAbove {
		c.out = nil
	}
	c.out = append(c.out[:0], rest...)
}

// trySend sends what the client takes, and returns how much that is.
func (c *client) trySend() int {
	n, err := c.plain.tryWrite(c.out)
	c.leaving = c.leaving || n < len(c.out)
	if err != errAgain {
		c.broken = err
	}
	return n
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
