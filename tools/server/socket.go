// SPDX-License-Identifier: GPL-2.0

package main

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is a connection without TLS. It never blocks a thread: its loop reports when it can be
// read or written.
type socket struct {
	fd     int
	loop   *loop
	client *client
	ends   [2]net.Addr   // local, remote
	waits  chan struct{} // not nil: a goroutine waits for an event
	read   time.Time     // deadlines
	write  time.Time
	mutex  sync.Mutex
	closed bool
}

// newSocket takes a connection from the net package, and closes it there: otherwise each event
// would also wake the poller of that package.
func newSocket(conn net.Conn) (*socket, error) {
	s := &socket{ends: [2]net.Addr{conn.LocalAddr(), conn.RemoteAddr()}}
	err := onDescriptor(conn, func(fd int) (err error) {
		s.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// onDescriptor calls a function for a connection of the net package.
func onDescriptor(conn net.Conn, do func(fd int) error) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// limitUnsent keeps only the beginning of what a client has not asked for yet in the kernel. Else
// these are up to several MiB for each connection, and the kernel reports that more can be written
// only when a third of them was read: to read that within the maximum time, a client had to be
// quick.
func limitUnsent(conn *net.TCPConn) error {
	return onDescriptor(conn, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, sendAbove)
	})
}

var errAgain error = unix.EAGAIN

// tryRead reads the available data, or returns errAgain.
func (s *socket) tryRead(b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), 0, 0, 0)
	return result(n, errno, io.EOF)
}

// tryWrite writes as much as the socket takes, or returns errAgain.
func (s *socket) tryWrite(b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return result(n, errno, errAgain)
}

// result converts the result of a call; nothing is the error for 0 bytes.
func result(n uintptr, errno syscall.Errno, nothing error) (int, error) {
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errAgain
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, nothing
	}
	return int(n), nil
}

func (s *socket) Read(b []byte) (int, error) {
	for {
		if !s.read.IsZero() && time.Now().After(s.read) {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := s.tryRead(b)
		if err == errAgain {
			err = s.wait(unix.EPOLLIN, s.read)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (s *socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := s.tryWrite(b[done:])
		if err == errAgain {
			err = s.wait(unix.EPOLLOUT, s.write)
		}
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// A noWait reads without waiting.
type noWait struct {
	*socket
}

func (s noWait) Read(b []byte) (int, error) {
	return s.tryRead(b)
}

// wait waits for an event without blocking a thread.
func (s *socket) wait(event uint32, until time.Time) error {
	s.waits = make(chan struct{}, 1)
	defer func() { s.waits = nil }()
	if err := s.loop.watch(s, event|unix.EPOLLONESHOT); err != nil {
		return err
	}
	defer s.loop.unwatch(s)
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-s.waits:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

func (s *socket) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	return unix.Close(s.fd)
}

// abort ends the waits of another goroutine, which then closes the socket.
func (s *socket) abort() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.closed {
		unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
}

func (s *socket) CloseWrite() error {
	return unix.Shutdown(s.fd, unix.SHUT_WR)
}

func (s *socket) LocalAddr() net.Addr {
	return s.ends[0]
}

func (s *socket) RemoteAddr() net.Addr {
	return s.ends[1]
}

func (s *socket) SetDeadline(t time.Time) error {
	s.read, s.write = t, t
	return nil
}

func (s *socket) SetReadDeadline(t time.Time) error {
	s.read = t
	return nil
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.write = t
	return nil
}
