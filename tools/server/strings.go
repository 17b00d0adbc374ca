// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"
	"math"
	"strconv"

	"kvtree"
)

const (
	syntaxError = "ERR syntax error"
	notAnInt    = "ERR value is not an integer or out of range"
)

var (
	errSyntax    = errors.New(syntaxError)
	errNotAnInt  = errors.New(notAnInt)
	errOverflow  = errors.New("ERR increment or decrement would overflow")
	errDecrement = errors.New("ERR decrement would overflow")
	errOffset    = errors.New("ERR offset is out of range")
	errTooLong   = errors.New("ERR string exceeds maximum allowed size (1 MiB)")
)

func get(c *client, args [][]byte) {
	c.get(queued{answer: answerValue, key: args[1]})
}

func mget(c *client, args [][]byte) {
	c.get(queued{answer: answerArray, n: len(args) - 1})
	for i, key := range args[1:] {
		c.get(queued{answer: answerElement, key: key, last: i+2 == len(args)})
	}
}

func strlen(c *client, args [][]byte) {
	c.get(queued{answer: answerLength, key: args[1]})
}

// set is SET key value [NX | XX] [GET] [KEEPTTL].
func set(c *client, args [][]byte) {
	q := queued{answer: answerStored, key: args[1], value: args[2]}
	returns := false
	for _, option := range args[3:] {
		switch {
		case is(option, "NX") && q.flag&kvtree.Replace == 0:
			q.answer, q.flag = answerIf, kvtree.Create
		case is(option, "XX") && q.flag&kvtree.Create == 0:
			q.answer, q.flag = answerIf, kvtree.Replace
		case is(option, "GET"):
			returns = true
		case is(option, "KEEPTTL"):
		case is(option, "EX"), is(option, "PX"), is(option, "EXAT"), is(option, "PXAT"):
			c.flush()
			c.failure("ERR kvtree-server has no SET with " + string(option) + ": keys do not expire")
			return
		default:
			c.flush()
			c.failure(syntaxError)
			return
		}
	}
	if returns {
		c.flush()
		c.swap(q)
	} else {
		c.change(q)
	}
}

// swap stores a value if its condition holds, and answers with the old one.
func (c *client) swap(q queued) {
	if c.rights.access&read == 0 {
		c.failure(noPermission)
		return
	}
	var old []byte
	err := c.retry(func() error {
		value, version, err := c.current(q.key)
		if old = value; err != nil {
			return err
		}
		if err := c.grow(len(old)); err != nil {
			return err
		}
		if q.flag == kvtree.Create && version != 0 || q.flag == kvtree.Replace && version == 0 {
			return nil
		}
		return c.waitsFor(func() error {
			_, err := c.store().CompareAndSwap(context.Background(), q.key, q.value, version,
				c.rights.store.durable)
			return err
		})
	})
	c.bulkOr(old, err)
}

// bulkOr answers with a string, with null if it is nil, or with an error.
func (c *client) bulkOr(value []byte, err error) {
	if err != nil {
		c.error(err)
	} else if value == nil {
		c.null()
	} else {
		c.bulk(value)
	}
}

func setnx(c *client, args [][]byte) {
	c.change(queued{answer: answerNew, flag: kvtree.Create, key: args[1], value: args[2]})
}

func mset(c *client, args [][]byte) {
	if len(args)%2 == 0 {
		c.flush()
		c.failure(wrongNumber("MSET"))
		return
	}
	for i := 1; i < len(args); i += 2 {
		c.change(queued{answer: answerAll, key: args[i], value: args[i+1], last: i+2 == len(args)})
	}
}

func getset(c *client, args [][]byte) {
	c.swap(queued{key: args[1], value: args[2]})
}

func getdel(c *client, args [][]byte) {
	var old []byte
	err := c.retry(func() error {
		value, version, err := c.current(args[1])
		if old = value; err != nil || version == 0 {
			return err
		}
		if err := c.grow(len(old)); err != nil {
			return err
		}
		return c.waitsFor(func() error { return c.removeVersion(args[1], version) })
	})
	c.bulkOr(old, err)
}

func appendTo(c *client, args [][]byte) {
	text := args[2]
	c.update(answerInteger, args[1], func(r *record) (int64, error) {
		old, err := r.asString()
		if err != nil {
			return 0, err
		}
		return r.setString(append(old, text...)), nil
	})
}

// getrange is GETRANGE key first last; negative offsets count from the end.
func getrange(c *client, args [][]byte) {
	first, ok := number(args[2])
	last, ok2 := number(args[3])
	if !ok || !ok2 {
		c.failure(notAnInt)
		return
	}
	value, _, err := c.current(args[1])
	if err != nil {
		c.error(err)
		return
	}
	n := int64(len(value))
	backwards := first < 0 && last < 0 && first > last
	if first < 0 {
		first = max(first+n, 0)
	}
	if last < 0 {
		last = max(last+n, 0)
	}
	if last = min(last, n-1); backwards || first > last {
		c.bulk(nil)
		return
	}
	c.bulk(value[first : last+1])
}

// setrange is SETRANGE key offset text. It fills a gap before the offset with zeros.
func setrange(c *client, args [][]byte) {
	text := args[3]
	offset, ok := number(args[2])
	c.update(answerInteger, args[1], func(r *record) (int64, error) {
		if !ok {
			return 0, errNotAnInt
		} else if offset < 0 {
			return 0, errOffset
		}
		old, err := r.asString()
		if err != nil || len(text) == 0 {
			return int64(len(old)), err
		}
		if offset > kvtree.MaxValue || int(offset)+len(text) > kvtree.MaxValue {
			return 0, errTooLong
		}
		if missing := int(offset) + len(text) - len(old); missing > 0 {
			old = append(old, make([]byte, missing)...)
		}
		copy(old[offset:], text)
		return r.setString(old), nil
	})
}

var step = []byte("1")

func incr(c *client, args [][]byte) {
	c.add(args[1], step, 1)
}

func decr(c *client, args [][]byte) {
	c.add(args[1], step, -1)
}

func incrby(c *client, args [][]byte) {
	c.add(args[1], args[2], 1)
}

func decrby(c *client, args [][]byte) {
	c.add(args[1], args[2], -1)
}

// add adds to, or subtracts from, a decimal number; a missing key counts as 0.
func (c *client) add(key, operand []byte, sign int64) {
	delta, ok := number(operand)
	c.update(answerInteger, key, func(r *record) (int64, error) {
		if !ok {
			return 0, errNotAnInt
		} else if sign < 0 && delta == math.MinInt64 {
			return 0, errDecrement
		}
		old, err := r.asString()
		if err != nil {
			return 0, err
		}
		n, err := sum(old, sign*delta)
		if err == nil {
			r.setString(strconv.AppendInt(nil, n, 10))
		}
		return n, err
	})
}

// sum adds to a number in its stored form; nil is 0.
func sum(old []byte, delta int64) (int64, error) {
	n, ok := number(old)
	if !ok && old != nil {
		return 0, errNotAnInt
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, errOverflow
	}
	return n + delta, nil
}
