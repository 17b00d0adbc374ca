// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Column is a part of a value. In a put, nil Data removes the column, and empty Data stores an
// empty one. Get and Put use column 0.
type Column struct {
	ID   uint8
	Data []byte
}

// GetColumns reads columns of a value, in ascending order of their numbers; without numbers, all
// columns. Columns that the value lacks are left out.
func (s *Store) GetColumns(ctx context.Context, key []byte, ids ...uint8) ([]Column, uint64, error) {
	if len(ids) > MaxColumns {
		return nil, 0, &Error{Op: "get columns", Key: bytes.Clone(key), Err: TooLong}
	}
	room, columns := firstRoom, 8
	for {
		r := newRequest(opGet, key, nil)
		r.columns = r.op.askColumns(r.columns, ids, columns)
		data := make([]byte, room)
		r.value = data
		n, err := s.do(ctx, "get columns", r)
		if e, ok := err.(*Error); ok && e.Err == NoRoom && (e.Needed > room || e.columns > columns) {
			room, columns = max(room, e.Needed), max(columns, e.columns)
			continue
		} else if err != nil {
			return nil, 0, err
		}
		found, ok := split(r.op.found(r.columns), data[:n])
		if !ok {
			return nil, 0, r.fail("get columns", unix.EBADMSG)
		}
		version := r.op.ver
		r.free()
		return found, version, nil
	}
}

// askColumns makes a get return these columns, or without ids all, up to room. It returns their
// descriptors, in reused memory.
func (op *operation) askColumns(used []column, ids []uint8, room int) []column {
	columns := used[:0]
	for _, id := range ids {
		columns = append(columns, column{id: uint16(id)})
	}
	op.flags |= fCols
	if len(ids) == 0 {
		op.flags |= fAllCols
		columns = append(columns, make([]column, room)...)
	}
	op.ncols = uint16(min(len(columns), MaxColumns+1))
	return columns
}

// found returns the descriptors of the columns that a get found.
func (op *operation) found(asked []column) []column {
	return asked[:min(int(op.ncols), len(asked))]
}

// split cuts data into columns; false if the columns are longer.
func split(columns []column, data []byte) ([]Column, bool) {
	found := make([]Column, 0, len(columns))
	for _, c := range columns {
		if c.len == colAbsent {
			continue
		}
		if uint64(c.len) > uint64(len(data)) {
			return nil, false
		}
		n := int(c.len)
		found = append(found, Column{uint8(c.id), data[:n:n]})
		data = data[n:]
	}
	return found, true
}

// PutColumns changes columns of a value, all at once; with Whole it removes all others. Columns are
// in ascending order of their numbers.
func (s *Store) PutColumns(ctx context.Context, key []byte, columns []Column,
	flags ...Flag) (uint64, error) {
	return s.changeColumns(ctx, "put columns", opPut, key, columns, 0, flags)
}

// CompareAndSwapColumns is PutColumns if the key has this version; 0 means that it must not exist.
func (s *Store) CompareAndSwapColumns(ctx context.Context, key []byte, columns []Column,
	version uint64, flags ...Flag) (uint64, error) {
	return s.changeColumns(ctx, "compare and swap columns", opCAS, key, columns, version, flags)
}

func (s *Store) changeColumns(ctx context.Context, what string, opcode uint8, key []byte,
	columns []Column, version uint64, flags []Flag) (uint64, error) {
	r := newRequest(opcode, key, flags)
	r.op.ver = version
	if len(columns) > MaxColumns {
		return 0, r.fail(what, TooLong)
	}
	r.columns, r.value = r.op.giveColumns(r.columns, columns)
	return s.doChange(ctx, what, r)
}

// giveColumns makes a change store columns. It returns their descriptors, in reused memory, and
// their data.
func (op *operation) giveColumns(used []column, columns []Column) (descriptors []column, data []byte) {
	op.flags |= fCols
	op.ncols = uint16(min(len(columns), MaxColumns+1))
	descriptors = used[:0]
	for _, c := range columns {
		d := column{id: uint16(c.ID), len: uint32(min(len(c.Data), MaxValue+1))}
		if c.Data == nil {
			d.len = colAbsent
		}
		descriptors = append(descriptors, d)
		if len(columns) == 1 {
			return descriptors, c.Data
		}
		data = append(data, c.Data...)
	}
	return descriptors, data
}

const (
	columnSize = int(unsafe.Sizeof(column{}))
	recordSize = int(unsafe.Sizeof(record{}))
)
