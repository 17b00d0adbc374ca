// SPDX-License-Identifier: GPL-2.0

package main

import (
	"encoding/hex"
	"strings"
)

// Separators of the words of an inline command.
const blanks = " \t"

func isBlank(c byte) bool {
	return strings.IndexByte(blanks, c) >= 0
}

// word reads a word of an inline command as Redis does, in place. It returns how many bytes it
// took, or 0 if a quotation has no end, or text follows its end without a blank.
//
// A quotation may begin within a word, and its end is the word's end. Between double quotes \xHH is
// a byte, \n, \r, \t, \b and \a are as in C, and other characters after a backslash are literal.
// Between single quotes only \' is an escape.
func word(line []byte) (arg []byte, n int) {
	arg = line[:0]
	quote := byte(0)
	for n < len(line) {
		c, taken := line[n], 1
		switch {
		case c == quote && n+1 < len(line) && !isBlank(line[n+1]):
			return nil, 0
		case c == quote:
			return arg[:len(arg):len(arg)], n + 1
		case quote != 0:
			c, taken = escaped(line[n:], quote)
		case isBlank(c):
			return arg[:len(arg):len(arg)], n
		case c == '"' || c == '\'':
			quote = c
			n++
			continue
		}
		arg = append(arg, c)
		n += taken
	}
	if quote != 0 {
		return nil, 0
	}
	return arg[:len(arg):len(arg)], n
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}

// escaped reads a character between quotes, and returns how many bytes it took.
func escaped(text []byte, quote byte) (c byte, taken int) {
	if text[0] != '\\' || len(text) == 1 || quote == '\'' && text[1] != '\'' {
		return text[0], 1
	}
	if quote == '"' && text[1] == 'x' && len(text) >= 4 {
		var b [1]byte
		if _, err := hex.Decode(b[:], text[2:4]); err == nil {
			return b[0], 4
		}
	}
	if c, ok := escapes[text[1]]; ok {
		return c, 2
	}
	return text[1], 2
}
