// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const isOpen = 1 << 62

// A descriptor counts its users, and closes the file after the last one once close was called.
type descriptor struct {
	fd    int
	state atomic.Int64 // number of users, and isOpen
}

func (d *descriptor) open(fd int) {
	d.fd = fd
	d.state.Store(isOpen)
}

func (d *descriptor) take() bool {
	for {
		n := d.state.Load()
		if n&isOpen == 0 {
			return false
		}
		if d.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (d *descriptor) give() {
	if d.state.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

func (d *descriptor) close() error {
	if !d.take() {
		return ErrClosed
	}
	defer d.give()
	// Only the first caller closes it.
	if d.state.And(^isOpen)&isOpen == 0 {
		return ErrClosed
	}
	return nil
}

// call is ioctl(2), repeated when it is interrupted.
func (d *descriptor) call(cmd uintptr, arg unsafe.Pointer) (int, error) {
	if !d.take() {
		return 0, ErrClosed
	}
	defer d.give()
	return ioctl(d.fd, cmd, arg)
}

func ioctl(fd int, cmd uintptr, arg unsafe.Pointer) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), cmd, uintptr(arg))
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}
