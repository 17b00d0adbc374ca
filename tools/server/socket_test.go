// SPDX-License-Identifier: GPL-2.0

package main

import (
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// When a client that read quickly stops, little waits for it in the kernel.
func TestLittleIsUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := limitUnsent(here.(*net.TCPConn)); err != nil {
		t.Fatal(err)
	}
	s, err := newSocket(here)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const quick = 64 << 20
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, there, quick)
		read <- err
	}()
	text := make([]byte, sendAbove)
	for sent := 0; ; {
		n, err := s.tryWrite(text)
		sent += n
		if err != nil && err != errAgain {
			t.Fatal(err)
		}
		if sent < quick || n > 0 {
			continue
		}
		unsent, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQNSD)
		if err != nil {
			t.Fatal(err)
		}
		if unsent > 2*sendAbove {
			t.Error(unsent, "bytes wait")
		}
		break
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}
