// SPDX-License-Identifier: GPL-2.0

package main

import "strconv"

// A reply collects the answers for a client, in its version of the protocol.
type reply struct {
	out   []byte
	resp3 bool
}

// version of the protocol.
func (r *reply) version() int64 {
	if r.resp3 {
		return 3
	}
	return 2
}

func (r *reply) line(kind byte, n int64) {
	r.out = append(r.out, kind)
	r.out = strconv.AppendInt(r.out, n, 10)
	r.out = append(r.out, '\r', '\n')
}

// status appends a short text without line ends, such as OK.
func (r *reply) status(text string) {
	r.out = append(r.out, '+')
	r.out = append(r.out, text...)
	r.out = append(r.out, '\r', '\n')
}

func (r *reply) ok() {
	r.status("OK")
}

// failure appends an error: a word in capital letters, and a text. Line ends in what it quotes are
// replaced.
func (r *reply) failure(text string) {
	r.out = append(r.out, '-')
	for _, c := range []byte(text) {
		if c < ' ' {
			c = ' '
		}
		r.out = append(r.out, c)
	}
	r.out = append(r.out, '\r', '\n')
}

func (r *reply) integer(n int64) {
	r.line(':', n)
}

func (r *reply) bulk(b []byte) {
	r.line('$', int64(len(b)))
	r.out = append(r.out, b...)
	r.out = append(r.out, '\r', '\n')
}

func (r *reply) text(s string) {
	r.line('$', int64(len(s)))
	r.out = append(r.out, s...)
	r.out = append(r.out, '\r', '\n')
}

func (r *reply) null() {
	if r.resp3 {
		r.out = append(r.out, "_\r\n"...)
	} else {
		r.out = append(r.out, "$-1\r\n"...)
	}
}

// array begins an array of n elements.
func (r *reply) array(n int) {
	r.line('*', int64(n))
}

// pairs begins a map of n keys, each followed by its value.
func (r *reply) pairs(n int) {
	if r.resp3 {
		r.line('%', int64(n))
	} else {
		r.line('*', int64(2*n))
	}
}

// set begins a set of n elements.
func (r *reply) set(n int) {
	if r.resp3 {
		r.line('~', int64(n))
	} else {
		r.line('*', int64(n))
	}
}
