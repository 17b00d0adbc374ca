// SPDX-License-Identifier: GPL-2.0

package main

import "errors"

const mostPattern = 1024 // bytes

var errPattern = errors.New("ERR a pattern has at most 1024 bytes")

// A glob is a pattern of Redis: * ? [abc] [^a-z], and \ before a literal character.

// globPrefix returns the prefix of everything that the pattern matches.
func globPrefix(pattern []byte) []byte {
	var prefix []byte
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return prefix
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
		}
		prefix = append(prefix, pattern[i])
	}
	return prefix
}

// globMatch takes time at most proportional to the product of both lengths: it only backtracks to
// the last star.
func globMatch(pattern, text []byte) bool {
	p, t := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, t
			p++
			continue
		}
		if n, ok := globOne(pattern[p:], text[t]); ok {
			p += n
			t++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, t = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches one character, and returns the length of its pattern.
func globOne(pattern []byte, c byte) (int, bool) {
	if len(pattern) == 0 {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return globClass(pattern, c)
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// globClass matches [...]. A class without an end ends with the pattern.
func globClass(pattern []byte, c byte) (int, bool) {
	i, found, not := 1, false, false
	if i < len(pattern) && pattern[i] == '^' {
		not = true
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
			found = found || pattern[i] == c
		} else if i+2 < len(pattern) && pattern[i+1] == '-' {
			low, high := pattern[i], pattern[i+2]
			i += 2
			found = found || min(low, high) <= c && c <= max(low, high)
		} else {
			found = found || pattern[i] == c
		}
	}
	return min(i+1, len(pattern)), found != not
}
