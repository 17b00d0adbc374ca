// SPDX-License-Identifier: GPL-2.0

package main

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// When a client that read quickly stops, little waits for it in the kernel.
func TestLittleIsUnsent(t *testing.T) {
	s := start(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.take(here); err != nil {
		t.Fatal(err)
	}
	k := newTalk(t, conn)
	if got := k.say("SET", "a", strings.Repeat("v", 1<<20)); got != "OK" {
		t.Fatal(got)
	}
	const quick = 32
	k.send(strings.Repeat(multi("GET", "a"), quick+64))
	for range quick {
		k.answer()
	}
	// Then the server waits for it.
	var c *client
	eventually(t, func() bool {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		for c = range s.clients {
		}
		return s.unread.now() > 0
	})
	unsent, err := unix.IoctlGetInt(c.plain.fd, unix.SIOCOUTQNSD)
	if err != nil {
		t.Fatal(err)
	}
	if unsent > 4*sendAbove {
		t.Error(unsent, "bytes wait")
	}
}
