// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	firstInput = 8 << 10 // bytes of a client's buffer
	keptInput  = 64 << 10
	keptArgs   = 1024
	spanSize   = 16 // bytes of memory for an argument
	argSize    = 24
	maxLine    = 64 << 10 // bytes of a line: an inline command, or a length
)

// A bound limits what a client may send.
type bound struct {
	bytes int // in a command
	args  int // arguments of a command
}

var (
	// Before authentication.
	strangersBound = bound{16 << 10, 16}
	// Enough for MSET with several long values.
	clientsBound = bound{8 << 20, 64 << 10}
)

// errHTTP closes a browser's connection without an answer.
var errHTTP = errors.New("HTTP")

// An input holds what a client has sent and the server has not executed yet. Parsing continues
// where it stopped. Memory grows as data arrives, whatever length a command announces. Arguments
// refer to the buffer until the next fill.
type input struct {
	bound
	buffer []byte
	begin  int // of the current command
	at     int // end of the parsed part
	end    int
	left   int // missing arguments of the current command
	bulk   int // bytes of the next argument, -1 if not known yet
	spans  [][2]int
	args   [][]byte
	begun  bool
	share  share  // of the memory for long commands
	place  *place // of the client
}

// fill reads more input.
func (in *input) fill(from io.Reader) error {
	in.idle()
	if in.begin == in.end {
		in.begin, in.at, in.end = 0, 0, 0
		in.forget()
		if in.buffer == nil {
			in.buffer = make([]byte, firstInput)
		}
	}
	if in.begin > 0 && len(in.buffer) > keptInput && in.end-in.begin < keptInput {
		in.forget()
		in.move(make([]byte, keptInput))
	} else if in.begin > 0 {
		in.move(in.buffer)
	} else if in.end == len(in.buffer) {
		in.forget()
		if err := in.count(2 * len(in.buffer)); err != nil {
			return err
		}
		in.move(make([]byte, 2*len(in.buffer)))
	}
	in.count(len(in.buffer))
	n, err := from.Read(in.buffer[in.end:])
	in.end += n
	if n > 0 {
		return nil
	}
	return err
}

// count counts a long command's memory with a buffer of this size, unless all clients together have
// too much.
func (in *input) count(size int) error {
	if in.share.budget == nil || size <= keptInput && in.hasFew() && in.share.held == 0 {
		return nil
	}
	held := size + cap(in.spans)*spanSize + max(cap(in.spans), cap(in.args))*argSize
	if held <= keptInput+keptArgs*(spanSize+argSize) {
		held = 0
	}
	if !in.share.resize(held, *in.place) {
		return errBusy
	}
	return nil
}

// hasFew reports whether the lists of arguments take little memory.
func (in *input) hasFew() bool {
	return cap(in.spans) <= keptArgs && cap(in.args) <= keptArgs
}

// idle frees the memory of a long command that was executed.
func (in *input) idle() {
	if in.begin < in.end || len(in.buffer) <= keptInput && in.hasFew() {
		return
	}
	in.forget()
	if len(in.buffer) > keptInput {
		in.buffer, in.begin, in.at, in.end = nil, 0, 0, 0
	}
	in.count(len(in.buffer))
}

// forget drops executed commands from the buffer.
func (in *input) forget() {
	clear(in.args[:cap(in.args)])
	if !in.hasFew() && !in.begun {
		in.args, in.spans = nil, nil
	}
}

// isHalf reports whether a part of a command has arrived.
func (in *input) isHalf() bool {
	return in.end > in.begin
}

// move copies the current command to the beginning of a buffer.
func (in *input) move(to []byte) {
	copy(to, in.buffer[in.begin:in.end])
	for i := range in.spans {
		in.spans[i][0] -= in.begin
		in.spans[i][1] -= in.begin
	}
	in.at -= in.begin
	in.end -= in.begin
	in.begin = 0
	in.buffer = to
}

// next returns the arguments of the next command; nil if it is not complete.
func (in *input) next() ([][]byte, error) {
	args, err := in.parse()
	if err == nil && !in.hasFew() {
		err = in.count(len(in.buffer))
	}
	if err != nil {
		return nil, err
	}
	return args, nil
}

func (in *input) parse() ([][]byte, error) {
	for {
		if in.begun {
			whole, err := in.arguments()
			if err != nil {
				return nil, err
			}
			if whole {
				return in.take(), nil
			}
			return nil, in.tooLong()
		}
		if in.at == in.end {
			return nil, nil
		}
		if in.buffer[in.at] != '*' {
			line, whole, err := in.line()
			if !whole {
				return nil, err
			}
			args, err := in.inline(line)
			if err != nil || len(args) > 0 {
				return args, err
			}
			continue
		}
		n, whole, err := in.length('*', "multibulk", math.MinInt, in.bound.args)
		if !whole {
			return nil, err
		}
		if n <= 0 {
			in.begin = in.at
			continue
		}
		in.expect(n)
	}
}

// expect starts to read n arguments.
func (in *input) expect(n int) {
	in.begun, in.left, in.bulk = true, n, -1
}

func (in *input) tooLong() error {
	if in.end-in.begin >= in.bound.bytes {
		return errors.New("Protocol error: too long a command")
	}
	return nil
}

// line returns the next line, without its end.
func (in *input) line() ([]byte, bool, error) {
	rest := in.buffer[in.at:in.end]
	n := bytes.IndexByte(rest[:min(len(rest), maxLine)], '\n')
	if n < 0 {
		if len(rest) >= maxLine || len(rest) >= in.bound.bytes {
			return nil, false, errors.New("Protocol error: too big inline request")
		}
		return nil, false, nil
	}
	in.at += n + 1
	line := rest[:n]
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, true, nil
}

// inline parses a command of words, as typed by users.
func (in *input) inline(line []byte) ([][]byte, error) {
	in.begin = in.at
	for _, c := range line {
		if c < ' ' && c != '\t' {
			return nil, errors.New("Protocol error: a command with control characters")
		}
	}
	args := in.args[:0]
	for line = bytes.TrimLeft(line, blanks); len(line) > 0; line = bytes.TrimLeft(line, blanks) {
		if len(args) == in.bound.args {
			return nil, errors.New("Protocol error: too many arguments")
		}
		arg, n := word(line)
		if n == 0 {
			return nil, errors.New("Protocol error: unbalanced quotes in request")
		}
		// Check before the quotes are parsed: the error must not be answered.
		if len(args) == 0 && (is(arg, "POST") || is(arg, "HOST:")) {
			return nil, errHTTP
		}
		args = append(args, arg)
		in.args = args
		line = line[n:]
	}
	return args, nil
}

// arguments reads the missing arguments, and reports whether the command is complete.
func (in *input) arguments() (bool, error) {
	for in.left > 0 {
		if in.bulk < 0 {
			n, whole, err := in.length('$', "bulk", 0, in.bound.bytes)
			if !whole {
				return false, err
			}
			in.bulk = n
		}
		if in.end-in.at < in.bulk+2 {
			return false, nil
		}
		end := in.at + in.bulk
		if in.buffer[end] != '\r' || in.buffer[end+1] != '\n' {
			return false, errors.New("Protocol error: expected a line's end after an argument")
		}
		in.spans = append(in.spans, [2]int{in.at, end})
		in.at = end + 2
		in.bulk = -1
		in.left--
	}
	return true, nil
}

// length reads a line of a letter and a number from least to most: the number of arguments of a
// command, or of bytes in an argument. whole reports whether the line is complete.
func (in *input) length(letter byte, name string, least, most int) (n int, whole bool, err error) {
	if n, taken := shortLength(letter, in.buffer[in.at:in.end]); taken > 0 && n <= most {
		in.at += taken
		return n, true, nil
	}
	at := in.at
	line, whole, err := in.line()
	if !whole {
		return 0, false, err
	}
	if got := in.buffer[at]; got != letter {
		return 0, false, fmt.Errorf("Protocol error: expected '%c', got %+q", letter, got)
	}
	long, ok := number(line[1:])
	if !ok || long < int64(least) || long > int64(most) {
		return 0, false, errors.New("Protocol error: invalid " + name + " length")
	}
	return int(long), true, nil
}

// shortLength reads a line of a letter and a number of one or two digits, the most frequent case.
// It returns how many bytes it took, or 0. Keep it short enough for inlining.
func shortLength(letter byte, b []byte) (n, taken int) {
	if len(b) < 5 || b[0] != letter || b[1]-'1' > 8 {
		return 0, 0
	}
	n = int(b[1] - '0')
	if b[2] == '\r' && b[3] == '\n' {
		return n, 4
	}
	if b[2]-'0' <= 9 && b[3] == '\r' && b[4] == '\n' {
		return 10*n + int(b[2]-'0'), 5
	}
	return 0, 0
}

// take returns the arguments of a complete command.
func (in *input) take() [][]byte {
	in.args = in.args[:0]
	for _, span := range in.spans {
		in.args = append(in.args, in.buffer[span[0]:span[1]:span[1]])
	}
	in.spans, in.begun, in.begin = in.spans[:0], false, in.at
	return in.args
}

// number reads a decimal number as Redis does: without a plus sign, spaces or leading zeros.
func number(b []byte) (int64, bool) {
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n < 1<<63
}

// is compares a word of a command, ignoring case, with one in capital letters.
func is(word []byte, name string) bool {
	if len(word) != len(name) {
		return false
	}
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}
