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

// A hash is a value with columns 1 to 255, one for each field: bytes of its name (2 bytes,
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

// A hash is a value as it was read; it has no fields, and version 0, if the key is not there.
type hash struct {
	version uint64
	fields  []field
	changed [mostFields + 1]bool // by column
}

func (c *client) hash(key []byte) (*hash, error) {
	columns, version, err := c.store().GetColumns(context.Background(), key)
	if errors.Is(err, kvtree.NotFound) {
		return &hash{}, nil
	} else if err != nil {
		return nil, err
	}
	h := &hash{version: version, fields: make([]field, 0, len(columns))}
	for _, column := range columns {
		c.heavy = c.heavy || len(column.Data) > heavyValue
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

// find returns a field, nil if the hash has not got it.
func (h *hash) find(name []byte) *field {
	for i := range h.fields {
		if string(h.fields[i].name) == string(name) {
			return &h.fields[i]
		}
	}
	return nil
}

// set changes a field, or adds one; whether it was added.
func (h *hash) set(name, value []byte) (bool, error) {
	if f := h.find(name); f != nil {
		f.value = value
		h.changed[f.column] = true
		return false, nil
	}
	if len(name) > 0xffff {
		return false, errName
	}
	// They are in the order of their columns: the first gap is taken.
	i := 0
	for i < len(h.fields) && int(h.fields[i].column) == i+1 {
		i++
	}
	if i == mostFields {
		return false, errFields
	}
	h.fields = slices.Insert(h.fields, i, field{uint8(i + 1), name, value})
	h.changed[i+1] = true
	return true, nil
}

// remove removes a field; whether it was there.
func (h *hash) remove(name []byte) bool {
	i := slices.IndexFunc(h.fields, func(f field) bool { return string(f.name) == string(name) })
	if i < 0 {
		return false
	}
	h.changed[h.fields[i].column] = true
	h.fields = slices.Delete(h.fields, i, i+1)
	return true
}

// columns are those that were changed, as they are stored.
func (h *hash) columns() []kvtree.Column {
	var columns []kvtree.Column
	fields := h.fields
	for id := 1; id <= mostFields; id++ {
		var data []byte
		if len(fields) > 0 && int(fields[0].column) == id {
			f := &fields[0]
			fields = fields[1:]
			data = binary.LittleEndian.AppendUint16(data, uint16(len(f.name)))
			data = append(append(data, f.name...), f.value...)
		}
		if h.changed[id] {
			columns = append(columns, kvtree.Column{ID: uint8(id), Data: data})
		}
	}
	return columns
}

// storeHash makes the changes, if nobody else has made others.
func (c *client) storeHash(key []byte, h *hash) error {
	columns := h.columns()
	switch {
	case len(columns) == 0:
		return nil
	case len(h.fields) == 0:
		return c.removeVersion(key, h.version)
	}
	_, err := c.store().CompareAndSwapColumns(context.Background(), key, columns, h.version, c.rights.store.durable)
	return err
}

// updateHash has a function change a hash, again if others change it meanwhile.
func (c *client) updateHash(key []byte, change func(h *hash) error) error {
	return c.retry(func() error {
		h, err := c.hash(key)
		if err != nil {
			return err
		}
		if err = change(h); err != nil {
			return err
		}
		return c.waitsFor(func() error { return c.storeHash(key, h) })
	})
}

// setFields stores the fields of a command; how many are new.
func (c *client) setFields(args [][]byte) (added int64, err error) {
	err = c.updateHash(args[1], func(h *hash) error {
		added = 0
		for i := 2; i < len(args); i += 2 {
			new, err := h.set(args[i], args[i+1])
			if err != nil {
				return err
			}
			if new {
				added++
			}
		}
		return nil
	})
	return added, err
}

func hset(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failure(wrongNumber("HSET"))
		return
	}
	added, err := c.setFields(args)
	c.integerOr(added, err)
}

func hmset(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failure(wrongNumber("HMSET"))
		return
	}
	_, err := c.setFields(args)
	c.okOr(err)
}

func hsetnx(c *client, args [][]byte) {
	var added int64
	err := c.updateHash(args[1], func(h *hash) error {
		added = 0
		if h.find(args[2]) != nil {
			return nil
		}
		added = 1
		_, err := h.set(args[2], args[3])
		return err
	})
	c.integerOr(added, err)
}

func hdel(c *client, args [][]byte) {
	var removed int64
	err := c.updateHash(args[1], func(h *hash) error {
		removed = 0
		for _, name := range args[2:] {
			if h.remove(name) {
				removed++
			}
		}
		return nil
	})
	c.integerOr(removed, err)
}

func hincrby(c *client, args [][]byte) {
	delta, ok := number(args[3])
	if !ok {
		c.failure(notAnInt)
		return
	}
	var n int64
	err := c.updateHash(args[1], func(h *hash) error {
		var old []byte
		if f := h.find(args[2]); f != nil {
			old = nonNil(f.value)
		}
		var err error
		if n, err = sum(old, delta); err != nil {
			if err == errNotAnInt {
				err = errHashInt
			}
			return err
		}
		_, err = h.set(args[2], strconv.AppendInt(nil, n, 10))
		return err
	})
	c.integerOr(n, err)
}

// hashRead has a function answer with a hash.
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
