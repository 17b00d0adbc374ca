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
	sendAbove     = 64 << 10 // bytes of answers; more are sent before the next command
	keptOutput    = 2 * sendAbove
	loginTimeout  = 60 * time.Second
	deadlineEvery = 10 * time.Second
	lingerTimeout = time.Second
	lingerMost    = 16 << 20 // bytes
)

const noPermission = "NOPERM the store's owner and mode do not allow you this"

// A client is a connection. The clients of a loop take turns; one that does not read its answers,
// or sends commands that take long, gets a goroutine of its own meanwhile, so that others need not
// wait. A client with TLS always has a goroutine.
type client struct {
	reply
	server *server
	conn   net.Conn
	plain  *socket // conn, without TLS
	abort  func()  // ends the waits of another goroutine
	id     int64
	name   string
	shown  atomic.Pointer[string] // its line in CLIENT LIST
	since  time.Time
	asked  time.Time // for its password
	peer   *peer     // the user, on a Unix socket
	known  bool      // authenticated, or need not be
	db     *database
	input  input
	unread share // of the memory for answers
	batching
	rights  rights
	aborted *time.Time // when MULTI was refused; nil after EXEC or DISCARD
	inTurn  bool       // in the loop's current turn
	onLoop  bool       // served by a loop, so it must not block
	leaving bool       // it leaves the loop when the turn is over
	held    [][]byte   // a command to be executed after the queued ones
	last    *command   // the last command
	alone   int        // commands of this turn that could not join a batch
	heavy   bool       // it reads long values
	holds   int        // bytes that the current command needs until it is answered
	fault   error      // a protocol error, to be reported after the answers
	closing bool
	ending  atomic.Bool
	broken  error     // after which nothing is sent
	slow    time.Time // deadline for reading answers
	half    time.Time // when the first part of the next command arrived
	guesses int       // wrong passwords
	place   place
}

// rights are what a client may do with a store, checked when it selects the store, as for a file.
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

// work executes the commands that the loop has left, in the client's own goroutine, and then
// returns the client to the loop.
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

// fell logs a panic, if any, which ends only this client.
func (c *client) fell(fault any) {
	if fault != nil {
		log.Printf("client %d: %v\n%s", c.id, fault, debug.Stack())
	}
}

// finish closes and removes a client.
func (c *client) finish() {
	defer c.server.running.Done()
	c.end()
	c.input.share.release()
	c.unread.release()
	c.server.remove(c)
}

// goesOn reports whether the next command may be executed.
func (c *client) goesOn() bool {
	return !c.closing && !c.leaving && c.broken == nil && c.fault == nil && c.server.context.Err() == nil
}

// receive reads the available input.
func (c *client) receive() {
	if c.goesOn() {
		c.received(c.input.fill(noWait{c.plain}))
	}
}

// received takes the result of a read.
func (c *client) received(err error) {
	switch err {
	case nil, errAgain:
	case errBusy:
		c.fault = err
	default:
		c.broken = err
	}
}

// executeAll executes all complete commands, and sends the answers. It waits until the client reads
// them.
func (c *client) executeAll() {
	c.pipeline = pipelines.Get().(*pipeline)
	c.resume()
	c.advance()
	c.flush()
	pipelines.Put(c.pipeline)
	c.pipeline = nil
	c.settle()
}

// advance executes commands, or queues them. On a loop it returns true if the next command has to
// wait for the queued ones.
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

// settle completes the answers to the executed commands, and sends them.
func (c *client) settle() {
	if c.fault != nil && len(c.rest) == 0 {
		if c.fault != errHTTP {
			c.failure("ERR " + c.fault.Error())
		}
		if c.fault == errBusy {
			c.server.counts.busy.Add(1)
		} else {
			c.server.counts.protocolErrors.Add(1)
		}
		c.fault, c.closing = nil, true
	}
	c.send()
}

// leaves reports whether the loop has to pass the client to a goroutine of its own.
func (c *client) leaves() bool {
	return c.leaving || c.closing || c.fault != nil || c.broken != nil || len(c.out) > 0
}

// A timed connection sets a deadline for each write: TLS above it also writes on its own.
type timed struct {
	net.Conn
	slowest time.Duration
}

func (t timed) Write(b []byte) (int, error) {
	t.SetWriteDeadline(time.Now().Add(t.slowest))
	return t.Conn.Write(b)
}

// handshake has its own time limit.
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

// waitFor sets how long a client may be silent.
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
	// Check after setting the deadline: see wake.
	if c.server.context.Err() != nil {
		c.conn.SetReadDeadline(c.since)
	}
}

// execute executes a command, or queues it. On a loop it returns false, and has done nothing, if
// the command has to wait for the queued ones, or if it may take long: then the client leaves the
// loop.
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
		if c.holds > 0 {
			c.hold(0, 0)
		}
	}
	if c.in == nil {
		c.alone++
	}
	c.sendIfLong()
	return true
}

// hasMuch reports whether a client's input would keep the other clients of the loop waiting.
func (c *client) hasMuch() bool {
	return c.alone >= mostAlone || len(c.input.buffer) > keptInput
}

// find finds a command: often the same as before.
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

// isLong reports whether a command would keep the other clients of the loop waiting.
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

// aborts refuses the commands after MULTI, which was refused itself: executing them immediately is
// not what the client intended.
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
		// After reading the answer to MULTI, a client may never send EXEC.
		c.closing = c.server.clock.Load().Sub(*c.aborted) > c.server.slowest
	}
	return true
}

// refuse returns the error of a command that may not be executed, or "".
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

// wrongNumber is the error for a wrong number of arguments.
func wrongNumber(name string) string {
	return "ERR wrong number of arguments for '" + strings.ToLower(name) + "' command"
}

// needsPassword reports whether the client must authenticate: users of Unix sockets are known.
func (c *client) needsPassword() bool {
	return c.peer == nil && c.server.password != nil
}

// rightsNow checks the rights again if the store was opened again.
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

// store returns the store that the current commands use.
func (c *client) store() *kvtree.Store {
	return c.rights.store.Store
}

// error answers with an error of the store or of the command.
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

// okOr answers with OK or an error.
func (c *client) okOr(err error) {
	if err != nil {
		c.error(err)
	} else {
		c.ok()
	}
}

// integerOr answers with a number or an error.
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

// send sends the answers. A client that reads none of them for the maximum time is closed; a client
// of a loop leaves the loop.
func (c *client) send() {
	if len(c.out) == 0 {
		return
	}
	n := c.trySend()
	if c.onLoop && c.broken == nil {
		c.leaving = c.leaving || n < len(c.out)
	} else {
		c.sendAll(c.out[n:])
		n = len(c.out)
	}
	c.begun -= n
	rest := c.out[n:]
	if cap(c.out) > keptOutput {
		c.out = nil
	}
	c.out = append(c.out[:0], rest...)
}

// trySend sends as much as a socket without TLS takes, and returns how much.
func (c *client) trySend() int {
	if c.broken != nil || c.plain == nil {
		return 0
	}
	n, err := c.plain.tryWrite(c.out)
	if err != errAgain {
		c.broken = err
	}
	return n
}

// sendAll waits until the client has taken the rest of its answers. Time is for a part of them, so
// that a client that reads a long answer slowly but steadily is not closed.
func (c *client) sendAll(rest []byte) {
	if len(rest) == 0 || c.broken != nil {
		return
	}
	unsent := cap(c.out) + c.reads
	if c.pipeline != nil {
		unsent += mostPipeline
	}
	if !c.hold(c.holds, unsent) {
		c.server.counts.busy.Add(1)
		c.broken = errUnread
		c.abort()
		return
	}
	defer c.hold(c.holds, 0)
	for len(rest) > 0 && c.broken == nil {
		if now := *c.server.clock.Load(); c.slow.Sub(now) < c.server.slowest {
			c.slow = now.Add(c.server.slowest + deadlineEvery)
			c.conn.SetWriteDeadline(c.slow)
		}
		n := min(len(rest), sendAbove)
		_, c.broken = c.conn.Write(rest[:n])
		rest = rest[n:]
	}
}

// grow counts what a command has read for its answer, before it is sent.
func (c *client) grow(bytes int) error {
	if bytes > c.holds+sendAbove && !c.hold(bytes, 0) {
		c.server.counts.busy.Add(1)
		return errors.New("ERR " + errUnread.Error() + ": try again")
	}
	return nil
}

// hold counts the memory of the current command, and more while the client waits, and reports
// whether they are allowed. Little is not counted.
func (c *client) hold(command, more int) bool {
	bytes := command + more
	if bytes <= keptOutput {
		bytes = 0
	}
	if !c.unread.resize(bytes, c.place) {
		return false
	}
	c.holds = command
	return true
}

// end closes the connection. It reads the remaining input first: otherwise answers that were sent
// and not read yet would be lost.
func (c *client) end() {
	defer c.conn.Close()
	c.ending.Store(true)
	conn, ok := c.conn.(interface{ CloseWrite() error })
	if ok && conn.CloseWrite() == nil {
		c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
		io.CopyN(io.Discard, c.conn, lingerMost)
	}
}

// address is the other end's address for display.
func (c *client) address() string {
	if c.peer != nil {
		return "unix"
	}
	return c.conn.RemoteAddr().String()
}
