// SPDX-License-Identifier: GPL-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxName     = 256 // bytes in a client's name
	mostGuesses = 10  // wrong passwords
)

func ping(c *client, args [][]byte) {
	switch len(args) {
	case 1:
		c.status("PONG")
	case 2:
		c.bulk(args[1])
	default:
		c.failure(wrongNumber("PING"))
	}
}

func echo(c *client, args [][]byte) {
	c.bulk(args[1])
}

func quit(c *client, _ [][]byte) {
	c.ok()
	c.closing = true
}

// reset restores the state of a new connection. The time to authenticate begins again.
func reset(c *client, _ [][]byte) {
	c.db, c.rights, c.resp3, c.name = c.server.databases[0], rights{}, false, ""
	c.show()
	if c.needsPassword() && c.known {
		c.known, c.input.bound = false, strangersBound
		c.asked = time.Now()
	}
	c.status("RESET")
}

func selectDatabase(c *client, args [][]byte) {
	n, ok := number(args[1])
	if !ok {
		c.failure(notAnInt)
	} else if n < 0 || n >= int64(len(c.server.databases)) {
		c.failure("ERR DB index is out of range")
	} else {
		c.db, c.rights = c.server.databases[n], rights{}
		c.show()
		c.ok()
	}
}

// auth is AUTH [user] password. There is only the default user.
func auth(c *client, args [][]byte) {
	switch {
	case len(args) > 3:
		c.failure(syntaxError)
	case !c.needsPassword():
		c.failure("ERR AUTH <password> called without any password configured: none is required here")
	case c.login(args[1:]):
		c.ok()
	default:
		c.failure(wrongPassword)
	}
}

const wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."

// login checks "password", or "user password".
func (c *client) login(args [][]byte) bool {
	password := args[len(args)-1]
	if len(args) == 2 && string(args[0]) != "default" || !c.server.allows(password) {
		c.guesses++
		c.closing = c.guesses >= mostGuesses
		return false
	}
	c.known, c.input.bound = true, clientsBound
	c.server.welcome(c)
	return true
}

// hello is HELLO [version [AUTH user password] [SETNAME name]].
func hello(c *client, args [][]byte) {
	resp3, name := c.resp3, c.name
	options := args[1:]
	if len(options) > 0 {
		version, ok := number(options[0])
		if !ok {
			c.failure("ERR Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			c.failure("NOPROTO unsupported protocol version")
			return
		}
		resp3 = version == 3
		options = options[1:]
	}
	for len(options) > 0 {
		switch {
		case is(options[0], "AUTH") && len(options) > 2:
			if c.needsPassword() && !c.login(options[1:3]) {
				c.failure(wrongPassword)
				return
			}
			options = options[3:]
		case is(options[0], "SETNAME") && len(options) > 1:
			if name = string(options[1]); !goodName(name) {
				c.failure(badName)
				return
			}
			options = options[2:]
		default:
			c.failure("ERR Syntax error in HELLO option '" + string(options[0]) + "'")
			return
		}
	}
	if !c.known {
		c.failure("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
			"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select " +
			"the RESP protocol version at the same time")
		return
	}
	c.resp3, c.name = resp3, name
	c.show()
	c.greet()
}

func (c *client) greet() {
	c.pairs(7)
	c.text("server")
	c.text("kvtree-server")
	c.text("version")
	c.text(redisVersion)
	c.text("proto")
	c.integer(c.version())
	c.text("id")
	c.integer(c.id)
	c.text("mode")
	c.text("standalone")
	c.text("role")
	c.text("master")
	c.text("modules")
	c.array(0)
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

func goodName(name string) bool {
	for i := range len(name) {
		if name[i] < '!' || name[i] > '~' {
			return false
		}
	}
	return len(name) <= maxName
}

var clientWords = []string{"ID", "GETNAME", "SETNAME", "SETINFO", "INFO", "LIST", "NO-EVICT", "NO-TOUCH"}

// clientCommand is CLIENT, with the subcommands that libraries use when they connect.
func clientCommand(c *client, args [][]byte) {
	word := args[1]
	switch {
	case is(word, "ID") && len(args) == 2:
		c.integer(c.id)
	case is(word, "GETNAME") && len(args) == 2:
		if name := c.name; name == "" {
			c.null()
		} else {
			c.text(name)
		}
	case is(word, "SETNAME") && len(args) == 3:
		if name := string(args[2]); goodName(name) {
			c.name = name
			c.show()
			c.ok()
		} else {
			c.failure(badName)
		}
	case is(word, "SETINFO") && len(args) == 4, is(word, "NO-EVICT") && len(args) == 3,
		is(word, "NO-TOUCH") && len(args) == 3:
		c.ok()
	case is(word, "INFO") && len(args) == 2:
		c.text(c.describe())
	case is(word, "LIST") && len(args) == 2:
		c.text(c.server.describeClients())
	case slices.ContainsFunc(clientWords, func(known string) bool { return is(word, known) }):
		c.failure(wrongNumber("client|" + string(word)))
	default:
		c.failure("ERR kvtree-server has no CLIENT " + string(word[:min(len(word), 64)]) +
			": it has " + strings.Join(clientWords, ", "))
	}
}

// show updates the line for CLIENT LIST, which other clients may read. Unknown values are 0: some
// libraries need all of them.
func (c *client) show() {
	text := fmt.Sprintf("addr=%s laddr=%s fd=0 name=%s idle=0 flags=N db=%d sub=0 psub=0 ssub=0 multi=-1 qbuf=0 "+
		"qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=NULL "+
		"user=default redir=-1 resp=%d", c.address(), c.conn.LocalAddr(), c.name, c.db.number, c.version())
	c.shown.Store(&text)
}

// describe returns a line of CLIENT LIST.
func (c *client) describe() string {
	return fmt.Sprintf("id=%d age=%d %s\n", c.id, int(time.Since(c.since).Seconds()), *c.shown.Load())
}

func (s *server) describeClients() string {
	s.mutex.Lock()
	clients := slices.Collect(maps.Keys(s.clients))
	s.mutex.Unlock()
	slices.SortFunc(clients, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	var text strings.Builder
	for _, c := range clients {
		text.WriteString(c.describe())
	}
	return text.String()
}
