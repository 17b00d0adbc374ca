// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Batch is a list of operations that one system call executes in order; adjacent gets are looked
// up together. It is not a transaction: others may see some of its changes before the rest, and an
// operation that fails does not stop the next. Do not modify keys and values passed to a Batch
// until Run returns.
type Batch struct {
	// Room is the memory for the value of each Get added from now on, in bytes; 0 means 1024. A
	// longer value fails with NoRoom.
	Room    int
	ops     []operation
	results []*Result
	done    int // how many were executed
}

// A Result is the outcome of an operation of a Batch. Before Run its error is NotExecuted.
type Result struct {
	Value   []byte   // for a Get
	Columns []Column // for a GetColumnsInto
	Version uint64   // of the value found, stored or removed
	Sum     int64    // for an Add
	Err     error

	what    string
	key     []byte
	value   []byte // the value to store, or memory for the value found
	columns []column
	delta   int64
	spare   *Error // from before Reset, to be reused
}

// Len returns the number of operations.
func (b *Batch) Len() int {
	return len(b.ops)
}

// Longer keys of errors are not kept for reuse, nor longer lists of columns.
const (
	keptKey     = 128
	keptColumns = 2 * columnsRoom
)

// Reset empties the batch for other operations. It reuses the memory of earlier results, and of
// errors that say NotFound: do not read them any more.
func (b *Batch) Reset() {
	for _, result := range b.results {
		kept := Result{spare: result.spare, columns: result.columns[:0]}
		if kept.spare != nil && cap(kept.spare.Key) > keptKey {
			kept.spare = nil
		}
		if cap(kept.columns) > keptColumns {
			kept.columns = nil
		}
		*result = kept
	}
	b.ops, b.results, b.done = b.ops[:0], b.results[:0], 0
}

func (b *Batch) append(what string, opcode uint8, key, value []byte, flags []Flag) (*operation, *Result) {
	op := operation{opcode: opcode}
	for _, flag := range flags {
		op.flags |= uint16(flag)
	}
	op.setKey(key)
	result := b.result()
	result.what, result.key, result.value, result.Err = what, key, value, notExecuted
	b.ops = append(b.ops, op)
	return &b.ops[len(b.ops)-1], result
}

var notExecuted = &Error{Op: "batch", Err: NotExecuted}

// result appends an empty result, reusing one from before Reset if there is any.
func (b *Batch) result() *Result {
	n := len(b.results)
	if n < cap(b.results) && b.results[:n+1][n] != nil {
		b.results = b.results[:n+1]
	} else {
		b.results = append(b.results, new(Result))
	}
	return b.results[n]
}

// Get looks a key up.
func (b *Batch) Get(key []byte) *Result {
	room := b.Room
	if room <= 0 {
		room = firstRoom
	}
	_, result := b.append("get", opGet, key, make([]byte, room), nil)
	return result
}

// GetInto looks a key up, and copies its value to the caller's memory; NoRoom if it is longer.
func (b *Batch) GetInto(key, to []byte) *Result {
	_, result := b.append("get", opGet, key, to, nil)
	return result
}

const columnsRoom = 32

// GetColumnsInto looks up columns of a value, in ascending order of their numbers; without numbers,
// all columns, up to 32. It copies their data to the caller's memory; NoRoom if there are more data
// or columns.
func (b *Batch) GetColumnsInto(key, to []byte, ids ...uint8) *Result {
	op, result := b.append("get columns", opGet, key, to, nil)
	result.columns = op.askColumns(result.columns, ids, columnsRoom)
	return result
}

// Put stores a value.
func (b *Batch) Put(key, value []byte, flags ...Flag) *Result {
	_, result := b.append("put", opPut, key, value, flags)
	return result
}

// CompareAndSwap stores a value if the key has this version; 0 means that it must not exist.
func (b *Batch) CompareAndSwap(key, value []byte, version uint64, flags ...Flag) *Result {
	op, result := b.append("compare and swap", opCAS, key, value, flags)
	op.ver = version
	return result
}

// PutColumns changes columns of a value, all at once; with Whole it removes all others. Columns are
// in ascending order of their numbers; nil Data removes a column.
func (b *Batch) PutColumns(key []byte, columns []Column, flags ...Flag) *Result {
	return b.changeColumns("put columns", opPut, key, columns, 0, flags)
}

// CompareAndSwapColumns is PutColumns if the key has this version; 0 means that it must not exist.
func (b *Batch) CompareAndSwapColumns(key []byte, columns []Column, version uint64, flags ...Flag) *Result {
	return b.changeColumns("compare and swap columns", opCAS, key, columns, version, flags)
}

func (b *Batch) changeColumns(what string, opcode uint8, key []byte, columns []Column, version uint64,
	flags []Flag) *Result {
	op, result := b.append(what, opcode, key, nil, flags)
	op.ver = version
	result.columns, result.value = op.giveColumns(result.columns, columns)
	return result
}

// Remove removes a key.
func (b *Batch) Remove(key []byte, flags ...Flag) *Result {
	_, result := b.append("remove", opRemove, key, nil, flags)
	return result
}

// RemoveVersion removes a key if it has this version; Changed if it has another, NotFound if it
// does not exist.
func (b *Batch) RemoveVersion(key []byte, version uint64, flags ...Flag) *Result {
	op, result := b.append("remove", opRemove, key, nil, flags)
	op.flags |= fVersion
	op.ver = version
	return result
}

// Add adds to the number that the key's value holds.
func (b *Batch) Add(key []byte, delta int64, flags ...Flag) *Result {
	return b.AddColumn(key, 0, delta, flags...)
}

// AddColumn adds to the number in a column.
func (b *Batch) AddColumn(key []byte, id uint8, delta int64, flags ...Flag) *Result {
	op, result := b.append("add", opAdd, key, nil, flags)
	op.col = id
	op.arg = uint64(delta)
	result.delta = delta
	return result
}

// Run executes the operations of a batch that have not been executed. It returns the first error
// of an operation, except NotFound of a Get. If the system call itself failed, it returns that
// error, which is also the result of every operation that was not executed. If the context ended
// before Run did, each operation may have been executed or not: do not use the batch again.
func (s *Store) Run(ctx context.Context, b *Batch) error {
	n, err := 0, ctx.Err()
	switch {
	case err != nil:
	case ctx.Done() == nil || !s.batchMayWait(b):
		n, err = s.runBatch(b.ops[b.done:], b.results[b.done:])
	default:
		n, err = s.runCopy(ctx, b)
	}
	return b.report(n, err)
}

// runCopy executes a copy of the batch, which it abandons if the context ends.
func (s *Store) runCopy(ctx context.Context, b *Batch) (int, error) {
	own, n := b.rest(), 0
	over, err := s.left.run(ctx, func() (err error) {
		n, err = s.runBatch(own.ops, own.results)
		return err
	})
	if !over {
		return 0, err
	}
	copy(b.ops[b.done:], own.ops)
	for i, result := range own.results {
		b.results[b.done+i].found(&own.ops[i], result)
	}
	return n, err
}

// found copies what an operation of a copy has found. The memory may be the caller's: GetInto.
func (r *Result) found(op *operation, from *Result) {
	if op.opcode == opGet && op.result >= 0 {
		copy(r.value, from.value[:op.result])
		r.columns = from.columns
	}
}

func (s *Store) batchMayWait(b *Batch) bool {
	for i := range b.ops[b.done:] {
		if s.mayWait(b.ops[b.done+i].opcode) {
			return true
		}
	}
	return false
}

// rest copies the operations that have not been executed.
func (b *Batch) rest() *Batch {
	own := &Batch{ops: slices.Clone(b.ops[b.done:])}
	for _, result := range b.results[b.done:] {
		own.results = append(own.results, &Result{
			key: bytes.Clone(result.key), value: bytes.Clone(result.value),
			columns: slices.Clone(result.columns),
		})
	}
	return own
}

// runBatch executes operations, and returns how many. It does not pin keys, values and columns, as
// unix.Readv does not pin its buffers: the results refer to them, and heap memory does not move.
func (s *Store) runBatch(ops []operation, results []*Result) (int, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	defer runtime.KeepAlive(results)
	for i, result := range results {
		op := &ops[i]
		if op.flags&fKeyInline == 0 {
			op.key = [2]uint64{address(result.key)}
		}
		if op.flags&fCols != 0 {
			op.arg = address(result.columns)
		}
		op.val = address(result.value)
		op.valLen = uint32(min(len(result.value), math.MaxInt32))
	}
	n := 0
	for n < len(ops) {
		part := ops[n:min(n+MaxBatch, len(ops))]
		args := &batch{nr: uint32(len(part)), opSize: uint32(unsafe.Sizeof(operation{}))}
		args.ops = pin(&pins, part)
		_, err := s.call(iocBatch, unsafe.Pointer(args))
		n += int(min(args.done, args.nr))
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// report fills in the results of n more operations, and the error of the rest.
func (b *Batch) report(n int, err error) error {
	var first error
	begun := b.done
	b.done += n
	for i, result := range b.results[begun:] {
		op := &b.ops[begun+i]
		if i >= n {
			// An operation that was not executed is not lost.
			if err != Lost {
				result.fail(err)
			}
			continue
		}
		result.take(op)
		if err == Lost && result.Err == nil && op.opcode != opGet {
			result.fail(Lost)
		}
		if first == nil && result.Err != nil && !(op.opcode == opGet && result.missing()) {
			first = result.Err
		}
	}
	if err != nil {
		return &Error{Op: "batch", Err: err}
	}
	return first
}

// fail makes an error. NotFound, the most frequent one, reuses memory from before Reset.
func (r *Result) fail(err error) *Error {
	e := r.spare
	if e == nil || err != NotFound {
		e = new(Error)
	}
	if err == NotFound {
		r.spare = e
	}
	*e = Error{Op: r.what, Key: append(slices.Grow(e.Key[:0], len(r.key)), r.key...), Err: err}
	r.Err = e
	return e
}

func (r *Result) missing() bool {
	e, ok := r.Err.(*Error)
	return ok && e.Err == NotFound
}

func (r *Result) take(op *operation) {
	r.Err = nil
	if op.result < 0 {
		r.fail(unix.Errno(-op.result)).note(op)
		return
	}
	r.Version = op.ver
	switch {
	case op.opcode == opGet && op.flags&fCols != 0:
		found, ok := split(op.found(r.columns), r.value[:op.result])
		if !ok {
			r.fail(unix.EBADMSG)
		}
		r.Columns = found
	case op.opcode == opGet:
		r.Value = r.value[:op.result:op.result]
	case op.opcode == opAdd:
		r.Sum = int64(op.arg) + r.delta
	}
}
