// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A request is an operation and the memory that it points to, which is pinned while the kernel
// uses its addresses.
type request struct {
	op      operation
	scan    scan
	columns []column
	ids     []uint16
	name    []byte // the caller's key, for errors
	key     []byte // if it does not fit into the operation
	value   []byte
	end     []byte
	room    []byte // for values, reused
	pins    runtime.Pinner
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest makes a request. Lengths that their fields cannot hold are cut to an invalid length.
func newRequest(opcode uint8, key []byte, flags []Flag) *request {
	r := requests.Get().(*request)
	r.op = operation{opcode: opcode}
	for _, flag := range flags {
		r.op.flags |= uint16(flag)
	}
	r.name = key
	r.op.setKey(key)
	if r.op.flags&fKeyInline == 0 {
		r.key = key
	}
	return r
}

// setKey copies a short key into the operation.
func (op *operation) setKey(key []byte) {
	op.keyLen = uint16(min(len(key), MaxKey+1))
	if len(key) <= keyInline {
		op.flags |= fKeyInline
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&op.key)), keyInline), key)
	}
}

// free returns the request to the pool. Nothing may use it any more.
func (r *request) free() {
	r.columns, r.ids = r.columns[:0], r.ids[:0]
	r.name, r.key, r.value, r.end = nil, nil, nil, nil
	requests.Put(r)
}

// pin returns the address of a slice's memory, and pins the memory.
func pin[T any](pins *runtime.Pinner, slice []T) uint64 {
	if len(slice) > 0 {
		pins.Pin(unsafe.SliceData(slice))
	}
	return address(slice)
}

// address returns the address of a slice's memory.
func address[T any](slice []T) uint64 {
	if len(slice) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(slice))))
}

// point fills in the addresses.
func (r *request) point() unsafe.Pointer {
	op := &r.op
	if op.flags&fKeyInline == 0 {
		op.key = [2]uint64{pin(&r.pins, r.key)}
	}
	op.val = pin(&r.pins, r.value)
	op.valLen = uint32(min(len(r.value), math.MaxInt32))
	switch {
	case op.opcode == opScan:
		r.scan.end = pin(&r.pins, r.end)
		r.scan.cols = pin(&r.pins, r.ids)
		r.pins.Pin(r)
		op.arg = uint64(uintptr(unsafe.Pointer(&r.scan)))
	case op.flags&fCols != 0:
		op.arg = pin(&r.pins, r.columns)
	}
	return unsafe.Pointer(op)
}

// own copies the caller's memory, so that the caller need not wait.
func (r *request) own() {
	r.name = bytes.Clone(r.name)
	if r.key != nil {
		r.key = r.name
	}
	r.value = bytes.Clone(r.value)
}

// do executes a request. The caller reads the results from it and frees it; after an error the
// caller must not use it any more.
func (s *Store) do(ctx context.Context, what string, r *request) (int, error) {
	err := ctx.Err()
	if err != nil {
		return 0, r.fail(what, err)
	}
	if ctx.Done() == nil || !s.mayWait(r.op.opcode) {
		_, err = s.call(iocOp, r.point())
		r.pins.Unpin()
	} else {
		r.own()
		var over bool
		over, err = s.left.run(ctx, func() error {
			_, err := s.call(iocOp, r.point())
			r.pins.Unpin()
			return err
		})
		if !over {
			return 0, &Error{Op: what, Key: bytes.Clone(r.name), Err: err}
		}
	}
	if err == nil && r.op.result < 0 {
		err = unix.Errno(-r.op.result)
	}
	if err != nil {
		return 0, r.fail(what, err)
	}
	return int(r.op.result), nil
}

// fail makes an Error from the results of the operation, and frees it.
func (r *request) fail(what string, err error) error {
	e := &Error{Op: what, Key: bytes.Clone(r.name), Err: err}
	e.note(&r.op)
	r.free()
	return e
}

func (e *Error) note(op *operation) {
	switch e.Err {
	case Changed, Exists:
		e.Version = op.ver
	case NoRoom:
		e.Version = op.ver
		e.Needed = int(op.valLen)
		e.columns = int(op.ncols)
	}
}

// mayWait reports whether an operation may wait for a disk.
func (s *Store) mayWait(opcode uint8) bool {
	return s.durable && opcode != opGet && opcode != opScan
}
