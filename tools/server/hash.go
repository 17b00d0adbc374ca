// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"kvtree"
)

// A hash is a value with columns 1 to 255, one for each field: the length of its name (2 bytes,
// little-endian), its name, its value.

const (
	mostFields = 255
	nameLength = 2
)

var (
	errFields  = errors.New("ERR a hash has at most 255 fields")
	errName    = errors.New("ERR a field's name has at most 65535 bytes")
	errNoHash  = errors.New("ERR the columns of this value are not the fields of a hash")
	errHashInt = errors.New("ERR hash value is not an integer")
)

type field struct {
	column uint8
	name   []byte
	value  []byte
}

// A hash has no fields if the key does not exist.
type hash struct {
	fields    []field
	changed   [mostFields + 1]bool // by column
	isChanged bool
}

// hash reads a hash.
func (c *client) hash(key []byte) (*hash, error) {
	columns, _, err := c.store().GetColumns(context.Background(), key)
	if errors.Is(err, kvtree.NotFound) {
		return &hash{}, nil
	} else if err != nil {
		return nil, err
	}
	size := 0
	for _, column := range columns {
		size += len(column.Data)
	}
	c.heavy = c.heavy || size > heavyValue
	if err := c.grow(size); err != nil {
		return nil, err
	}
	return newHash(columns)
}

// newHash makes a hash of the columns of a value.
func newHash(columns []kvtree.Column) (*hash, error) {
	h := &hash{fields: make([]field, 0, len(columns))}
	for _, column := range columns {
		if column.ID == 0 {
			return nil, errWrongType
		}
		data := column.Data
		if len(data) < nameLength {
			return nil, errNoHash
		}
		n := int(binary.LittleEndian.Uint16(data))
		if data = data[nameLength:]; n > len(data) {
			return nil, errNoHash
		}
		h.fields = append(h.fields, field{column.ID, data[:n:n], data[n:]})
	}
	return h, nil
}

func (h *hash) clone() *hash {
	c := *h
	c.fields = slices.Clone(h.fields)
	return &c
}

// find returns a field, or nil.
func (h *hash) find(name []byte) *field {
	for i := range h.fields {
		if string(h.fields[i].name) == string(name) {
			return &h.fields[i]
		}
	}
	return nil
}

// set changes a field, or adds one; it reports whether it was added.
func (h *hash) set(name, value []byte) (bool, error) {
	if f := h.find(name); f != nil {
		f.value = value
		h.change(f.column)
		return false, nil
	}
	if len(name) > 0xffff {
		return false, errName
	}
	// Fields are in the order of their columns: use the first gap.
	i := 0
	for i < len(h.fields) && int(h.fields[i].column) == i+1 {
		i++
	}
	if i == mostFields {
		return false, errFields
	}
	h.fields = slices.Insert(h.fields, i, field{uint8(i + 1), name, value})
	h.change(uint8(i + 1))
	return true, nil
}

func (h *hash) change(column uint8) {
	h.changed[column], h.isChanged = true, true
}

// unchange marks all fields as unchanged.
func (h *hash) unchange() {
	if h.isChanged {
		h.changed, h.isChanged = [mostFields + 1]bool{}, false
	}
}

// remove removes a field, and reports whether it existed.
func (h *hash) remove(name []byte) bool {
	i := slices.IndexFunc(h.fields, func(f field) bool { return string(f.name) == string(name) })
	if i < 0 {
		return false
	}
	h.change(h.fields[i].column)
	h.fields = slices.Delete(h.fields, i, i+1)
	return true
}

// columns returns the changed fields as columns.
func (h *hash) columns() []kvtree.Column {
	var columns []kvtree.Column
	fields := h.fields
	for id := 1; id <= mostFields; id++ {
		var data []byte
		if len(fields) > 0 && int(fields[0].column) == id {
			if h.changed[id] {
				data = fields[0].data()
			}
			fields = fields[1:]
		}
		if h.changed[id] {
			columns = append(columns, kvtree.Column{ID: uint8(id), Data: data})
		}
	}
	return columns
}

// data encodes a field for its column.
func (f *field) data() []byte {
	data := make([]byte, 0, nameLength+len(f.name)+len(f.value))
	data = binary.LittleEndian.AppendUint16(data, uint16(len(f.name)))
	return append(append(data, f.name...), f.value...)
}

// updateHash queues a change of a hash. If change fails, it must leave the hash as it was.
func (c *client) updateHash(key []byte, change func(h *hash) (int64, error)) {
	c.update(answerInteger, key, func(r *record) (int64, error) {
		h, err := r.asHash()
		if err != nil {
			return 0, err
		}
		return change(h)
	})
}

// setFields stores the fields of a command, all or none, and returns how many are new.
func (r *record) setFields(command string, pairs [][]byte) (added int64, err error) {
	if len(pairs)%2 != 0 {
		return 0, errors.New(wrongNumber(command))
	}
	old, err := r.asHash()
	if err != nil {
		return 0, err
	}
	h := old.clone()
	for i := 0; i < len(pairs); i += 2 {
		new, err := h.set(pairs[i], pairs[i+1])
		if err != nil {
			return 0, err
		}
		if new {
			added++
		}
	}
	r.hash = h
	return added, nil
}

func hset(c *client, args [][]byte) {
	pairs := slices.Clone(args[2:])
	c.update(answerInteger, args[1], func(r *record) (int64, error) { return r.setFields("HSET", pairs) })
}

func hmset(c *client, args [][]byte) {
	pairs := slices.Clone(args[2:])
	c.update(answerStored, args[1], func(r *record) (int64, error) { return r.setFields("HMSET", pairs) })
}

func hsetnx(c *client, args [][]byte) {
	name, value := args[2], args[3]
	c.updateHash(args[1], func(h *hash) (int64, error) {
		if h.find(name) != nil {
			return 0, nil
		}
		_, err := h.set(name, value)
		return 1, err
	})
}

func hdel(c *client, args [][]byte) {
	names := slices.Clone(args[2:])
	c.updateHash(args[1], func(h *hash) (removed int64, _ error) {
		for _, name := range names {
			if h.remove(name) {
				removed++
			}
		}
		return removed, nil
	})
}

func hincrby(c *client, args [][]byte) {
	name := args[2]
	delta, ok := number(args[3])
	c.update(answerInteger, args[1], func(r *record) (int64, error) {
		if !ok {
			return 0, errNotAnInt
		}
		h, err := r.asHash()
		if err != nil {
			return 0, err
		}
		var old []byte
		if f := h.find(name); f != nil {
			old = nonNil(f.value)
		}
		n, err := sum(old, delta)
		if err == errNotAnInt {
			return 0, errHashInt
		} else if err != nil {
			return 0, err
		}
		_, err = h.set(name, strconv.AppendInt(nil, n, 10))
		return n, err
	})
}

// hashRead reads a hash and answers with a function.
func (c *client) hashRead(key []byte, answer func(h *hash)) {
	h, err := c.hash(key)
	if err != nil {
		c.error(err)
		return
	}
	answer(h)
}

func (c *client) fieldOrNull(f *field) {
	if f == nil {
		c.null()
	} else {
		c.bulk(f.value)
	}
}

func hget(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) { c.fieldOrNull(h.find(args[2])) })
}

func hmget(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		c.array(len(args) - 2)
		for _, name := range args[2:] {
			c.fieldOrNull(h.find(name))
			if c.sendIfLong(); c.broken != nil {
				return
			}
		}
	})
}

func hgetall(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		c.pairs(len(h.fields))
		for i := range h.fields {
			c.bulk(h.fields[i].name)
			c.bulk(h.fields[i].value)
		}
	})
}

func hkeys(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		c.array(len(h.fields))
		for i := range h.fields {
			c.bulk(h.fields[i].name)
		}
	})
}

func hvals(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		c.array(len(h.fields))
		for i := range h.fields {
			c.bulk(h.fields[i].value)
		}
	})
}

func hlen(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) { c.integer(int64(len(h.fields))) })
}

func hexists(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		if h.find(args[2]) != nil {
			c.integer(1)
		} else {
			c.integer(0)
		}
	})
}

func hstrlen(c *client, args [][]byte) {
	c.hashRead(args[1], func(h *hash) {
		if f := h.find(args[2]); f != nil {
			c.integer(int64(len(f.value)))
		} else {
			c.integer(0)
		}
	})
}
