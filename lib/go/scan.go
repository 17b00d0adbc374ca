// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Range selects the records that a scan returns, and their parts. The zero value is all keys,
// with column 0, in ascending order.
type Range struct {
	// Prefix selects the keys that begin with it. Start and End are then not used; to continue
	// after a key, set Start, StartAfter and End instead.
	Prefix []byte
	// Start is the first key of the range, or the last one with Reverse. nil means no bound.
	Start []byte
	// StartAfter leaves Start itself out.
	StartAfter bool
	// End is the end of the range, in the direction of the scan. nil means no bound.
	End []byte
	// EndIncluded makes End part of the range.
	EndIncluded bool
	// Reverse returns keys in descending order.
	Reverse bool
	// KeysOnly returns no values.
	KeysOnly bool
	// Columns are the columns to return in Record.Columns, in ascending order; AllColumns
	// returns all.
	Columns    []uint8
	AllColumns bool
	// Limit is the maximum number of records; 0 is no limit.
	Limit int
	// Filter is the id of a filter of the store, a BPF program, as "kvtree bpf list" shows it.
	Filter uint32
}

// A Record is a result of a scan. The caller owns its memory.
type Record struct {
	Key     []byte
	Value   []byte   // column 0, unless the Range selects columns
	Columns []Column // if it does
	Version uint64
}

const (
	firstScan = 4 << 10
	mostScan  = 64 << 10
)

// Scan returns the records of a range. Concurrent changes may be seen or not; keys come in order,
// and each at most once. An error ends the scan; the next read after the end of the context
// returns the context's error.
func (s *Store) Scan(ctx context.Context, r Range) iter.Seq2[Record, error] {
	// The caller may reuse its memory.
	r.Prefix, r.Start, r.End = bytes.Clone(r.Prefix), bytes.Clone(r.Start), bytes.Clone(r.End)
	r.Columns = slices.Clone(r.Columns)
	return func(yield func(Record, error) bool) {
		if len(r.Columns) > MaxColumns {
			yield(Record{}, &Error{Op: "scan", Err: TooLong})
			return
		}
		c := cursor{store: s, at: r, left: r.Limit, size: firstScan}
		for !c.over {
			records, err := c.read(ctx)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, record := range records {
				if !yield(record, nil) {
					return
				}
			}
		}
	}
}

// Prefix returns the records with keys that begin with prefix.
func (s *Store) Prefix(ctx context.Context, prefix []byte) iter.Seq2[Record, error] {
	return s.Scan(ctx, Range{Prefix: prefix})
}

// A cursor is a position in a range.
type cursor struct {
	store *Store
	at    Range
	last  []byte // the last key read, if any
	begun bool
	left  int
	size  int // of the next buffer
	over  bool
}

func (c *cursor) request() *request {
	at := &c.at
	start, flags := at.Start, uint32(0)
	if at.Prefix != nil {
		start, flags = at.Prefix, scanPrefix
	}
	if at.StartAfter && at.Prefix == nil && at.Start != nil {
		flags |= scanAfter
	}
	if c.begun {
		start = c.last
		flags |= scanAfter
	} else if at.Reverse && (at.Prefix != nil || at.Start == nil) {
		flags |= scanLast
	}
	r := newRequest(opScan, start, nil)
	r.scan = scan{prefixLen: uint16(min(len(at.Prefix), MaxKey+1)), limit: uint32(min(max(c.left, 0), math.MaxInt32)),
		filterID: at.Filter}
	if at.Prefix == nil && at.End != nil {
		flags |= scanEnd
		r.end = at.End
		r.scan.endLen = uint16(min(len(at.End), MaxKey+1))
		if at.EndIncluded {
			flags |= scanEndIncl
		}
	}
	if at.Reverse {
		flags |= scanReverse
	}
	if at.KeysOnly {
		flags |= scanKeysOnly
	}
	if at.AllColumns {
		flags |= scanAllCols
	}
	for _, id := range at.Columns {
		r.ids = append(r.ids, uint16(id))
	}
	r.scan.ncols = uint16(len(r.ids))
	r.scan.flags = flags
	r.op.ncols = uint16(unsafe.Sizeof(scan{}))
	return r
}

// read reads the next records, into new memory.
func (c *cursor) read(ctx context.Context) ([]Record, error) {
	for {
		r := c.request()
		memory := make([]byte, c.size)
		r.value = memory
		n, err := c.store.do(ctx, "scan", r)
		if needed := roomNeeded(err); needed > c.size {
			c.size = needed
			continue
		} else if err != nil {
			return nil, err
		}
		done := r.scan.outFlags&scanDone != 0
		r.free()
		records, err := c.take(memory[:n])
		if err != nil {
			return nil, err
		}
		c.left -= len(records)
		c.over = done || n == 0 || c.at.Limit > 0 && c.left <= 0
		c.size = min(max(2*c.size, firstScan), max(c.size, mostScan))
		return records, nil
	}
}

// take finds the records in a buffer.
func (c *cursor) take(memory []byte) ([]Record, error) {
	var records []Record
	for len(memory) > 0 {
		h, rest, ok := cut(memory)
		if !ok {
			return nil, &Error{Op: "scan", Err: unix.EBADMSG}
		}
		key := memory[h.hdrLen:][:h.keyLen:h.keyLen]
		value := memory[int(h.hdrLen)+int(h.keyLen):][:h.valLen:h.valLen]
		memory = rest
		c.last, c.begun = key, true
		if h.flags&recMark != 0 {
			continue
		}
		record := Record{Key: key, Version: h.ver}
		if h.flags&recCols != 0 {
			record.Columns, ok = columnsOf(int(h.ncols), value)
			if !ok {
				return nil, &Error{Op: "scan", Err: unix.EBADMSG}
			}
		} else if !c.at.KeysOnly {
			record.Value = value
		}
		records = append(records, record)
	}
	c.last = bytes.Clone(c.last)
	return records, nil
}

// cut reads a record's header, and returns what follows the record.
func cut(memory []byte) (h record, rest []byte, ok bool) {
	if len(memory) < recordSize {
		return h, nil, false
	}
	order := binary.NativeEndian
	h = record{
		recLen: order.Uint32(memory), hdrLen: order.Uint16(memory[4:]),
		keyLen: order.Uint16(memory[6:]), valLen: order.Uint32(memory[8:]),
		ncols: order.Uint16(memory[12:]), flags: order.Uint16(memory[14:]),
		ver: order.Uint64(memory[16:]),
	}
	size := uint64(h.hdrLen) + uint64(h.keyLen) + uint64(h.valLen)
	if int(h.hdrLen) < recordSize || size > uint64(h.recLen) || uint64(h.recLen) > uint64(len(memory)) {
		return h, nil, false
	}
	return h, memory[h.recLen:], true
}

// columnsOf reads the columns of a record's value.
func columnsOf(n int, value []byte) ([]Column, bool) {
	if len(value) < n*columnSize {
		return nil, false
	}
	data := value[n*columnSize:]
	order := binary.NativeEndian
	columns := make([]column, 0, n)
	for d := range slices.Chunk(value[:n*columnSize], columnSize) {
		columns = append(columns, column{id: order.Uint16(d), len: order.Uint32(d[4:])})
	}
	return split(columns, data)
}
