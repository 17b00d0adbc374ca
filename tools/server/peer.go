// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"kvtree"
)

// A peer is the user at the other end of a Unix socket, from the kernel.
type peer struct {
	uid    uint32
	groups []uint32
}

func peerOf(conn *net.UnixConn) (*peer, error) {
	var p *peer
	err := onDescriptor(conn, func(fd int) (err error) {
		p, err = peerOfSocket(fd)
		return err
	})
	return p, err
}

func peerOfSocket(fd int) (*peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	p := &peer{uid: cred.Uid, groups: []uint32{cred.Gid}}
	for room := 64; ; {
		groups := make([]uint32, room)
		size := uint32(room) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET,
			unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&groups[0])),
			uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == unix.ERANGE && int(size/4) > room:
			room = int(size / 4)
		case errno != 0:
			return nil, fmt.Errorf("SO_PEERGROUPS: %w", errno)
		default:
			p.groups = append(p.groups, groups[:size/4]...)
			return p, nil
		}
	}
}

// access returns what the store's owner and mode allow this user, as if the user had opened it.
func (p *peer) access(info *kvtree.StoreInfo) kvtree.Access {
	if p.uid == 0 {
		return kvtree.ReadWrite
	}
	mode := uint32(info.Mode.Perm())
	switch {
	case p.uid == info.UID:
		mode >>= 6
	case slices.Contains(p.groups, info.GID):
		mode >>= 3
	}
	var access kvtree.Access
	if mode&4 != 0 {
		access |= kvtree.Read
	}
	if mode&2 != 0 {
		access |= kvtree.Write
	}
	return access
}
