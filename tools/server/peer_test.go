// SPDX-License-Identifier: GPL-2.0

package main

import (
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kvtree"
)

// connectAs connects as another user, in a thread that ends afterwards. The path of the socket is
// accessible to root only.
func (s *tested) connectAs(t *testing.T, uid, gid int, groups ...uint32) *talk {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		groups = append(groups, uint32(gid))
		_, _, e1 := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
		_, _, e2 := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
		_, _, e3 := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), 0)
		unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
		for _, e := range []unix.Errno{e1, e2, e3} {
			if e != 0 {
				done <- result{nil, e}
				return
			}
		}
		conn, err := net.Dial("unix", s.socket)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return newTalk(t, r.conn)
}

// Users have the same rights through the server as with the store itself.
func TestRightsAreThoseOfTheStore(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	const denied = "NOPERM the store's owner and mode do not allow you this"
	for _, test := range []struct {
		name     string
		uid, gid int
		groups   []uint32
		reads    bool
		writes   bool
	}{
		{"owner", 1001, 1000, nil, true, true},
		{"owner in the group", 1001, 1002, nil, true, true},
		{"group", 1005, 1002, nil, true, false},
		{"supplementary group", 1005, 1000, []uint32{7, 1002, 9}, true, false},
		{"another", 1005, 1000, []uint32{7}, false, true},
	} {
		s := start(t, nil, newStore(t, kvtree.Settings{Mode: 0o642, UID: 1001, GID: 1002}))
		s.connect(t).expect("SET a 1", "OK")
		k := s.connectAs(t, test.uid, test.gid, test.groups...)
		want := map[bool]map[string]string{
			true: {"GET a": `"1"`, "KV.RANGE - +": `["a"]`, "DBSIZE": "1", "TYPE a": "string"},
		}
		for command, answer := range want[true] {
			if !test.reads {
				answer = denied
			}
			k.expect(command, answer)
		}
		answer := "OK"
		if !test.writes {
			answer = denied
		}
		k.expect("SET a 1", answer)
		// Commands that return the old value need both.
		for _, command := range []string{"SET a 1 GET", "GETSET a 1", "INCRBY a 0"} {
			got := k.say(strings.Split(command, " ")...)
			if (got == denied) != !(test.reads && test.writes) {
				t.Errorf("%s: %s: %s", test.name, command, got)
			}
		}
		k.expect("PING", "PONG")
	}
}

// The owner's bits apply to the owner, even if others may do more.
func TestOneClassOfBitsCounts(t *testing.T) {
	info := &kvtree.StoreInfo{UID: 1, GID: 2, Mode: 0o066}
	for _, test := range []struct {
		peer peer
		want kvtree.Access
	}{
		{peer{0, nil}, kvtree.ReadWrite},
		{peer{1, []uint32{2}}, 0},
		{peer{3, []uint32{2}}, kvtree.ReadWrite},
		{peer{3, []uint32{3}}, kvtree.ReadWrite},
	} {
		if got := test.peer.access(info); got != test.want {
			t.Errorf("%v: %v", test.peer, got)
		}
	}
}

func TestRightsAreDecidedAgainForAnotherStore(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	open, closed := kvtree.Settings{Mode: 0o666}, kvtree.Settings{Mode: 0o600}
	s := start(t, nil, newStore(t, open))
	k := s.connectAs(t, 1005, 1005)
	k.expect("SET a 1", "OK")
	if err := kvtree.DestroyStore(s.stores[0]); err != nil {
		t.Fatal(err)
	}
	if err := kvtree.CreateStore(s.stores[0], closed); err != nil {
		t.Fatal(err)
	}
	k.say("GET", "a")
	if got := k.say("GET", "a"); !strings.HasPrefix(got, "NOPERM") {
		t.Error(got)
	}
}

// Commands queued before the server notices that the store was replaced were allowed for the old
// one.
func TestNothingQueuedIsExecutedOnAnotherStore(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	// As many commands as are executed and read at once: before the next one is queued, the
	// server notices the new store.
	sets := slices.Repeat([]string{"SET a s"}, mostQueued)
	gets := slices.Repeat([]string{"GET x"}, mostQueued)
	for _, pipeline := range [][]string{{"SET a stolen", "GET secret", "GET x"}, {"GET x", "SET secret stolen", "GET x"},
		{"GET x", "DEL secret", "GET x"}, append(sets, "SET secret stolen", "GET x"), append(gets, "GET secret", "GET x")} {
		s := start(t, nil, newStore(t, kvtree.Settings{Mode: 0o666}))
		k := s.connectAs(t, 1005, 1005)
		k.expect("SET a 1", "OK")
		if err := kvtree.DestroyStore(s.stores[0]); err != nil {
			t.Fatal(err)
		}
		if err := kvtree.CreateStore(s.stores[0], kvtree.Settings{Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		store, err := kvtree.Open(s.stores[0], kvtree.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Put(ctx, []byte("secret"), []byte("treasure")); err != nil {
			t.Fatal(err)
		}
		text, name := "", pipeline[max(len(pipeline)-3, 0):]
		for _, command := range pipeline {
			text += multi(strings.Split(command, " ")...)
		}
		k.send(text)
		for _, command := range pipeline {
			if got := k.answer(); got == "OK" || got == "1" || strings.HasPrefix(got, `"`) {
				t.Errorf("%v: %s: %s", name, command, got)
			}
		}
		if value, err := store.Get(ctx, []byte("secret")); err != nil || string(value) != "treasure" {
			t.Errorf("%v: %q %v", name, value, err)
		}
		if _, err := store.Get(ctx, []byte("a")); err == nil {
			t.Errorf("%v: stored", name)
		}
	}
}

// Unauthenticated clients, and each user, may use half of the places.
func TestNobodyTakesAllPlaces(t *testing.T) {
	s := start(t, func(s *server) {
		s.setPassword([]byte("secret"))
		s.maxClients = 4
	})
	one := s.stranger(t)
	one.expect("RESET", "RESET")
	s.stranger(t)
	here, there := foreignPair(t)
	defer here.Close()
	if err := s.take(there); err == nil {
		t.Error("three of four")
	}
	one.expect("AUTH secret", "OK")
	s.stranger(t).expect("PING", "NOAUTH Authentication required.")
}

func TestGuessesOfAPasswordAreCounted(t *testing.T) {
	s := start(t, func(s *server) { s.setPassword([]byte("secret")) })
	k := s.stranger(t)
	for range mostGuesses {
		k.expect("AUTH wrong", wrongPassword)
	}
	if _, err := k.read(); err == nil {
		t.Error("it may go on")
	}
}

// A pool may reuse a connection after MULTI was refused, without sending EXEC.
func TestAfterMultiAConnectionIsClosed(t *testing.T) {
	s := start(t, func(s *server) { s.slowest = 0 })
	k := s.connect(t)
	k.expect("MULTI", "ERR kvtree-server has no MULTI: there are no transactions")
	for {
		k.conn.Write([]byte(multi("PING")))
		got, err := k.read()
		if err != nil {
			break
		}
		if got != "ERR not executed: kvtree-server has no MULTI" {
			t.Fatal(got)
		}
		time.Sleep(time.Millisecond)
	}
}

// A part of a command takes memory until the rest arrives.
func TestACommandIsSentInTime(t *testing.T) {
	s := start(t, func(s *server) { s.slowest = 0 })
	k := s.connect(t)
	k.expect("PING", "PONG")
	k.send("*1\r\n$4\r\nPI")
	if _, err := k.read(); err != io.EOF {
		t.Error(err)
	}
}

func TestAPasswordIsAsked(t *testing.T) {
	s := start(t, func(s *server) { s.setPassword([]byte("secret")) })
	// A user of a Unix socket is known.
	s.connect(t).expect("PING", "PONG")

	k := s.stranger(t)
	k.expectAll(`
		PING -> NOAUTH Authentication required.
		SET a 1 -> NOAUTH Authentication required.
		MULTI -> NOAUTH Authentication required.
		AUTH wrong -> ` + wrongPassword + `
		AUTH root secret -> ` + wrongPassword + `
		AUTH a b c -> ERR syntax error
		PING -> NOAUTH Authentication required.
		AUTH default secret -> OK
		PING -> PONG
		AUTH secret -> OK
		RESET -> RESET
		PING -> NOAUTH Authentication required.
		HELLO 3 AUTH default wrong -> ` + wrongPassword + `
	`)
	if got := k.say("HELLO"); !strings.HasPrefix(got, "NOAUTH") {
		t.Error(got)
	}
	if got := k.say("HELLO", "3", "AUTH", "default", "secret"); !strings.HasPrefix(got, "{") {
		t.Error(got)
	}
	k.expect("SET a 1", "OK")

	k = s.stranger(t)
	k.send("*17\r\n")
	if got := k.answer(); !strings.HasPrefix(got, "ERR Protocol error") {
		t.Error("a stranger may send much: ", got)
	}
}

// A foreign connection has no known user, as if from another machine.
type foreign struct {
	*net.UnixConn
}

func foreignPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], foreign{ends[1].(*net.UnixConn)}
}

func (s *tested) stranger(t *testing.T) *talk {
	here, there := foreignPair(t)
	if err := s.take(there); err != nil {
		t.Fatal(err)
	}
	return newTalk(t, here)
}
