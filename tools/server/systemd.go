// SPDX-License-Identifier: GPL-2.0

package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sockets from systemd, and notifications to it.

const firstPassed = 3 // descriptor, sd_listen_fds(3)

// passedListeners returns the sockets that systemd has passed to this process.
func passedListeners() ([]net.Listener, error) {
	pid, number := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if pid != strconv.Itoa(os.Getpid()) || number == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS=%s: not a number of sockets", number)
	}
	var listeners []net.Listener
	for fd := firstPassed; fd < firstPassed+int(n); fd++ {
		l, err := passedListener(fd)
		if err != nil {
			return nil, fmt.Errorf("descriptor %d, passed by systemd: %w", fd, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// passedListener takes a descriptor if it is a listening socket.
func passedListener(fd int) (net.Listener, error) {
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return nil, err
	}
	if listens == 0 {
		return nil, errors.New("it does not listen")
	}
	file := os.NewFile(uintptr(fd), "passed")
	defer file.Close()
	return net.FileListener(file)
}

// notify reports a state to systemd, if it asks for that: sd_notify(3).
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		log.Printf("cannot notify systemd of %s: %v", state, err)
	}
}
