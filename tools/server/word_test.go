// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestQuotesOfInlineCommands(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`set a b`, `["set" "a" "b"]`},
		{` set  "a b"	'c d' `, `["set" "a b" "c d"]`},
		{`set a ""`, `["set" "a" ""]`},
		{`set a ''`, `["set" "a" ""]`},
		{`"" a`, `["" "a"]`},
		{`set a"b c"`, `["set" "ab c"]`},
		{`set a'b c' d`, `["set" "ab c" "d"]`},
		{`set "it's" 'a "b"'`, `["set" "it's" "a \"b\""]`},
		{`set "\x00\xfF\x7e" x`, `["set" "\x00\xff~" "x"]`},
		{`set "\n\r\t\b\a\"\\\'\z"`, `["set" "\n\r\t\b\a\"\\'z"]`},
		{`set "\xg1" "\x1" "\x"`, `["set" "xg1" "x1" "x"]`},
		{`set '\n\'\\x' 'a\"b'`, `["set" "\\n'\\\\x" "a\\\"b"]`},
		{`set '\\'`, "unbalanced"},
		{`set a\x41 \"`, "unbalanced"},
		{`set a\x41 b\`, `["set" "a\\x41" "b\\"]`},
		{`set "a`, "unbalanced"},
		{`set 'a`, "unbalanced"},
		{`set "`, "unbalanced"},
		{`set "a\"`, "unbalanced"},
		{`set "a\`, "unbalanced"},
		{`set 'a\'`, "unbalanced"},
		{`set "a"b`, "unbalanced"},
		{`set 'a'b`, "unbalanced"},
		{`set "a""b"`, "unbalanced"},
		{`set """test-key""" test-value`, "unbalanced"},
	} {
		got, err := parseText(test.line+"\r\n"+"PING\r\n", func() int { return 1 })
		if test.want == "unbalanced" {
			if len(got) > 0 || err == nil || err.Error() != "Protocol error: unbalanced quotes in request" {
				t.Errorf("%s: %s %v", test.line, got, err)
			}
		} else if fmt.Sprint(got) != "["+test.want+` ["PING"]]` || err != io.EOF {
			t.Errorf("%s: %s %v, not %s", test.line, got, err, test.want)
		}
	}
}

func TestWordsOfInlineCommandsAreBounded(t *testing.T) {
	for _, n := range []int{strangersBound.args, strangersBound.args + 1} {
		in := &input{bound: strangersBound}
		got, err := parseAll(in, strings.NewReader(strings.Repeat("''\t", n)+"\n"))
		if (n > strangersBound.args) == (err == io.EOF) || err == io.EOF && len(got) != 1 {
			t.Errorf("%d words: %d commands, %v", n, len(got), err)
		}
	}
}
