// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Notifications reach a path or an abstract address.
func TestSystemdIsTold(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprint("@kvtree-server-test-", os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", path)
		notify("READY=1")
		conn.SetReadDeadline(time.Now().Add(patience))
		text := make([]byte, 100)
		n, err := conn.Read(text)
		if err != nil || string(text[:n]) != "READY=1" {
			t.Errorf("%s: %q %v", path, text[:n], err)
		}
		conn.Close()
	}
}

// Sockets for another process are ignored.
func TestSocketsOfAnotherProcess(t *testing.T) {
	t.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()+1))
	t.Setenv("LISTEN_FDS", "1")
	if l, err := passedListeners(); len(l) != 0 || err != nil {
		t.Errorf("%v %v", l, err)
	}
	if _, is := os.LookupEnv("LISTEN_FDS"); is {
		t.Error("a child would see them")
	}
	t.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
	if l, err := passedListeners(); len(l) != 0 || err != nil {
		t.Errorf("no number: %v %v", l, err)
	}
	t.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
	t.Setenv("LISTEN_FDS", "-1")
	if _, err := passedListeners(); err == nil {
		t.Error("-1 sockets")
	}
}

// A passed socket must be listening.
func TestAPassedDescriptor(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	listens, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer listens.Close()
	// A copy that the callee may close.
	own, err := unix.FcntlInt(listens.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, test := range []struct {
		fd   int
		want string
	}{
		{own, ""},
		{pair[0], "does not listen"},
		{int(null.Fd()), "socket"},
	} {
		got, err := passedListener(test.fd)
		if test.want == "" && err == nil {
			if got.Addr().String() != l.Addr().String() {
				t.Error(got.Addr())
			}
			got.Close()
		} else if err == nil || test.want == "" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, not %q", err, test.want)
		}
	}
}
