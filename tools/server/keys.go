// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"kvtree"
)

const (
	mostScanned = 1 << 20 // bytes that SCAN reads for one answer
	mostRange   = 4 << 20 // bytes of an answer of KV.RANGE
	recordCost  = 128     // memory of a record in addition to key and value
	flushes     = 1024    // keys removed at once
)

func exists(c *client, args [][]byte) {
	for i, key := range args[1:] {
		c.get(queued{answer: answerFound, key: key, last: i+2 == len(args)})
	}
}

func del(c *client, args [][]byte) {
	for i, key := range args[1:] {
		c.change(queued{answer: answerRemoved, key: key, last: i+2 == len(args)})
	}
}

func typeOf(c *client, args [][]byte) {
	_, _, err := c.columnZero(args[1])
	switch {
	case err == nil:
		c.status("string")
	case errors.Is(err, errWrongType):
		c.status("hash")
	case errors.Is(err, kvtree.NotFound):
		c.status("none")
	default:
		c.error(err)
	}
}

func dbsize(c *client, args [][]byte) {
	info, err := c.store().Info()
	c.integerOr(int64(info.Keys), err)
}

// flushdb removes all keys that existed when it began. Each removal is a change of its own: others
// can see the states in between.
func flushdb(c *client, args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !is(args[1], "ASYNC") && !is(args[1], "SYNC") {
		c.failure(syntaxError)
		return
	}
	var keys [][]byte
	r := kvtree.Range{KeysOnly: true, EndIncluded: true}
	for record, err := range c.store().Scan(c.server.context, kvtree.Range{KeysOnly: true, Reverse: true, Limit: 1}) {
		if err != nil {
			c.error(err)
			return
		}
		r.End = nonNil(record.Key)
	}
	if r.End == nil {
		c.ok()
		return
	}
	for record, err := range c.store().Scan(c.server.context, r) {
		if err == nil && len(keys) == flushes {
			err = c.removeAll(keys)
			keys = keys[:0]
		}
		if err != nil {
			c.error(err)
			return
		}
		keys = append(keys, record.Key)
	}
	err := c.removeAll(keys)
	if err == nil && c.rights.store.durable != 0 {
		err = c.waitsFor(func() error { return c.store().Sync(context.Background()) })
	}
	c.okOr(err)
}

// removeAll removes keys, which may be gone already.
func (c *client) removeAll(keys [][]byte) error {
	var batch kvtree.Batch
	var results []*kvtree.Result
	for _, key := range keys {
		results = append(results, batch.Remove(key))
	}
	c.waitsFor(func() error { return c.store().Run(context.Background(), &batch) })
	for _, result := range results {
		if result.Err != nil && !errors.Is(result.Err, kvtree.NotFound) {
			return result.Err
		}
	}
	return nil
}

// A scanning is a SCAN with its options.
type scanning struct {
	pattern []byte
	count   int
	kind    string
}

func (c *client) scanning(options [][]byte) (scanning, error) {
	s := scanning{count: 10}
	for ; len(options) > 0; options = options[2:] {
		if len(options) < 2 {
			return s, errSyntax
		}
		switch {
		case is(options[0], "MATCH"):
			if s.pattern = options[1]; len(s.pattern) > mostPattern {
				return s, errPattern
			}
		case is(options[0], "COUNT"):
			n, ok := number(options[1])
			if !ok {
				return s, errNotAnInt
			}
			if n < 1 {
				return s, errSyntax
			}
			s.count = int(min(n, 1<<16))
		case is(options[0], "TYPE"):
			s.kind = strings.ToLower(string(options[1]))
		default:
			return s, errSyntax
		}
	}
	return s, nil
}

// within returns the range to read: after a key, and only keys that can match.
func (s *scanning) within(after []byte) kvtree.Range {
	r := kvtree.Range{KeysOnly: s.kind == "", Limit: s.count, Start: after, StartAfter: after != nil}
	if s.kind != "" {
		r.Columns = []uint8{0}
	}
	if prefix := globPrefix(s.pattern); len(prefix) > 0 && len(prefix) <= kvtree.MaxKey {
		if after == nil {
			r.Start = prefix
		}
		r.End = following(prefix)
	}
	return r
}

// following returns the first key after all keys with a prefix; nil if there is none.
func following(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			end := append([]byte(nil), prefix[:n]...)
			end[n-1]++
			return end
		}
	}
	return nil
}

func (s *scanning) takes(record *kvtree.Record) bool {
	switch s.kind {
	case "":
	case "string":
		if len(record.Columns) == 0 {
			return false
		}
	case "hash":
		if len(record.Columns) > 0 {
			return false
		}
	default:
		return false
	}
	return s.pattern == nil || globMatch(s.pattern, record.Key)
}

// scan is SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].
func scan(c *client, args [][]byte) {
	number, ok := number(args[1])
	if !ok || number < 0 {
		c.failure("ERR invalid cursor")
		return
	}
	var after []byte
	if number != 0 {
		if after, ok = c.db.cursors.get(uint64(number)); !ok {
			c.failure("ERR unknown or expired cursor: begin with 0")
			return
		}
	}
	s, err := c.scanning(args[2:])
	if err != nil {
		c.error(err)
		return
	}
	keys, last, err := c.look(&s, after)
	if err != nil {
		c.error(err)
		return
	}
	next := "0"
	if last != nil {
		next = c.db.cursors.put(last)
	}
	c.array(2)
	c.text(next)
	c.array(len(keys))
	for _, key := range keys {
		c.bulk(key)
	}
}

// look reads records, and returns the matching keys, and the key to continue after, nil at the end.
func (c *client) look(s *scanning, after []byte) (keys [][]byte, last []byte, err error) {
	r := s.within(after)
	if after != nil && r.End != nil && bytes.Compare(after, r.End) >= 0 {
		return nil, nil, nil
	}
	looked, size, kept := 0, 0, 0
	for record, err := range c.store().Scan(context.Background(), r) {
		if err != nil {
			return nil, nil, err
		}
		if s.takes(&record) {
			keys = append(keys, record.Key)
			kept += len(record.Key) + recordCost
		}
		looked++
		size += len(record.Key) * (1 + len(s.pattern)/16)
		for i := range record.Columns {
			size += len(record.Columns[i].Data)
			kept += len(record.Columns[i].Data)
		}
		if err := c.grow(kept); err != nil {
			return nil, nil, err
		}
		if looked == s.count || size > mostScanned {
			return keys, nonNil(record.Key), nil
		}
	}
	return keys, nil, nil
}

// A rangeEnd is an end of a range.
type rangeEnd struct {
	key      []byte
	included bool
	end      int // -1: before all keys, 1: after all keys
}

// bounded parses an end in the form of ZRANGEBYLEX: "-", "+", "[key" or "(key".
func bounded(arg []byte) (rangeEnd, error) {
	switch {
	case len(arg) == 1 && arg[0] == '-':
		return rangeEnd{end: -1}, nil
	case len(arg) == 1 && arg[0] == '+':
		return rangeEnd{end: 1}, nil
	case len(arg) > 0 && arg[0] == '[':
		return rangeEnd{key: arg[1:], included: true}, nil
	case len(arg) > 0 && arg[0] == '(':
		return rangeEnd{key: arg[1:]}, nil
	}
	return rangeEnd{}, errors.New("ERR min or max not valid string range item")
}

// kvRange is KV.RANGE min max [REV] [LIMIT n] [WITHVALUES]; with REV, max comes first.
func kvRange(c *client, args [][]byte) {
	r := kvtree.Range{KeysOnly: true, Limit: 1000}
	for options := args[3:]; len(options) > 0; options = options[1:] {
		switch {
		case is(options[0], "REV"):
			r.Reverse = true
		case is(options[0], "WITHVALUES"):
			r.KeysOnly = false
			r.Columns = []uint8{0}
		case is(options[0], "LIMIT") && len(options) > 1:
			n, ok := number(options[1])
			if !ok || n < 0 {
				c.failure(notAnInt)
				return
			}
			r.Limit = int(min(n, 1<<20))
			options = options[1:]
		default:
			c.failure(syntaxError)
			return
		}
	}
	empty, err := c.rangeBounds(&r, args[1], args[2])
	if err != nil {
		c.error(err)
		return
	}
	if empty || r.Limit == 0 {
		c.array(0)
		return
	}
	c.sendRange(r)
}

// rangeBounds sets the ends of a range, and reports whether it must be empty.
func (c *client) rangeBounds(r *kvtree.Range, from, to []byte) (empty bool, err error) {
	start, err := bounded(from)
	if err != nil {
		return false, err
	}
	stop, err := bounded(to)
	if err != nil {
		return false, err
	}
	first := -1
	if r.Reverse {
		first = 1
	}
	r.Start, r.StartAfter = start.key, !start.included && start.end == 0
	r.End, r.EndIncluded = stop.key, stop.included
	return start.end == -first || stop.end == first, nil
}

func nonNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

func (c *client) sendRange(r kvtree.Range) {
	var records []kvtree.Record
	size := 0
	for record, err := range c.store().Scan(context.Background(), r) {
		if err != nil {
			c.error(err)
			return
		}
		size += len(record.Key) + recordCost
		if len(record.Columns) > 0 {
			size += len(record.Columns[0].Data)
		}
		if len(records) > 0 && size > mostRange {
			break
		}
		if err := c.grow(size); err != nil {
			c.error(err)
			return
		}
		records = append(records, record)
	}
	if r.KeysOnly {
		c.array(len(records))
	} else {
		c.array(2 * len(records))
	}
	for i := range records {
		c.bulk(records[i].Key)
		if len(records[i].Columns) > 0 {
			c.bulk(records[i].Columns[0].Data)
		} else if !r.KeysOnly {
			c.null()
		}
		c.sendIfLong()
	}
}
