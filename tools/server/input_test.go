// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"
)

// parts returns its data in pieces of random length.
type parts struct {
	rest []byte
	size func() int
}

func (p *parts) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.rest[:min(len(p.rest), p.size())])
	p.rest = p.rest[n:]
	return n, nil
}

// parseAll returns the commands as text, and the final error.
func parseAll(in *input, from io.Reader) ([]string, error) {
	var got []string
	for {
		args, err := in.next()
		if err != nil {
			return got, err
		}
		if args != nil {
			got = append(got, fmt.Sprintf("%q", args))
			continue
		}
		if err := in.fill(from); err != nil {
			return got, err
		}
	}
}

func parseText(text string, size func() int) ([]string, error) {
	return parseAll(&input{bound: clientsBound}, &parts{[]byte(text), size})
}

func multi(args ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
}

func TestCommandsAreTheSameInAnyPieces(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var text strings.Builder
	var want []string
	for i := range 300 {
		args := []string{"SET"}
		for range rng.Intn(5) {
			length := rng.Intn(40)
			if i%50 == 0 {
				length = rng.Intn(100000)
			}
			args = append(args, strings.Repeat("\r\n$*abc"[rng.Intn(5):], length)[:length])
		}
		if i%7 == 0 {
			text.WriteString("*0\r\n\r\n  \r\n")
			text.WriteString("get  a b\n")
			want = append(want, `["get" "a" "b"]`)
		}
		text.WriteString(multi(args...))
		want = append(want, fmt.Sprintf("%q", args))
	}
	for _, most := range []int{1, 2, 7, 1000, 1 << 20} {
		got, err := parseText(text.String(), func() int { return 1 + rng.Intn(most) })
		if err != io.EOF {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("other commands in pieces of up to %d bytes", most)
		}
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	for _, text := range []string{
		"*1\r\n$-2\r\n", "*1\r\n$-1\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$99999999999999999999\r\n",
		"*1\r\n$8388609\r\n", "*65537\r\n", "*9223372036854775807\r\n", "*a\r\n", "*1\r\n+1\r\n", "*1\r\n\r\n",
		"*1\r\n$1\r\nabc", "*1\r\n$01\r\na\r\n", "*1\r\n$ 1\r\na\r\n", "*+1\r\n$1\r\na\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n", strings.Repeat("x", maxLine+1), "*" + strings.Repeat("1", maxLine+1),
		"*1\r\n$" + strings.Repeat("1", maxLine+1), "POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n",
		"\x16\x03\x01 SET a b\r\n",
		multi("PING") + "*1\r\n$\r\n", "*" + strings.Repeat("1", 19) + "\r\n",
	} {
		for _, size := range []int{1, 1 << 20} {
			got, err := parseText(text, func() int { return size })
			if err == nil || err == io.EOF {
				t.Errorf("%.40q: %v, not refused", text, got)
			}
		}
	}
}

// Whatever the rest of the line is.
func TestABrowserIsNotAnswered(t *testing.T) {
	for _, text := range []string{"POST / HTTP/1.1\r\n", "post /'x HTTP/1.1\r\n", "Host: \"x\r\n"} {
		if _, err := parseText(text, func() int { return 1 }); err != errHTTP {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The error quotes invalid lengths like Redis does, and is printable.
func TestWhatIsNoLengthIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n": "expected '$', got 'f'",
		"*1\r\nfoo\r\n":                          "expected '$', got 'f'",
		"*1\r\n*1\r\n":                           "expected '$', got '*'",
		"*1\r\n\r\n":                             "expected '$', got '\\r'",
		"*1\r\n\n":                               "expected '$', got '\\n'",
		"*1\r\n\x00\r\n":                         "expected '$', got '\\x00'",
		"*1\r\n\xff\r\n":                         "expected '$', got '\\u00ff'",
		"*1\r\n$blabla\r\n":                      "invalid bulk length",
		"*1\r\n$2000000000\r\n":                  "invalid bulk length",
		"*3\r\n$3\r\nSET\r\n$-10\r\n":            "invalid bulk length",
		"*blabla\r\n":                            "invalid multibulk length",
		"*20000000\r\n":                          "invalid multibulk length",
	} {
		if _, err := parseText(text, func() int { return 1 }); err == nil || err.Error() != "Protocol error: "+want {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}

func TestALengthTakesNoMemory(t *testing.T) {
	in := &input{bound: clientsBound}
	_, err := parseAll(in, strings.NewReader("*65536\r\n$8388608\r\n"))
	if err != io.EOF {
		t.Fatal(err)
	}
	if len(in.buffer) > firstInput || cap(in.spans) > 0 {
		t.Errorf("%d bytes, %d arguments", len(in.buffer), cap(in.spans))
	}
}

func TestACommandIsBounded(t *testing.T) {
	for _, bound := range []bound{strangersBound, clientsBound} {
		in := &input{bound: bound}
		text := "*3\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", bound.bytes/2, strings.Repeat("a", bound.bytes/2)), 3)
		_, err := parseAll(in, strings.NewReader(text))
		if err == nil || err == io.EOF {
			t.Errorf("a command of %d bytes was taken where %d are allowed", len(text), bound.bytes)
		}
		if len(in.buffer) > 2*bound.bytes {
			t.Errorf("%d bytes for %d", len(in.buffer), bound.bytes)
		}
	}
}

func TestMemoryOfALongCommandIsGivenBack(t *testing.T) {
	in := &input{bound: clientsBound}
	text := multi("SET", "a", strings.Repeat("v", 1<<20)) + "PING\r\n"
	if _, err := parseAll(in, &parts{[]byte(text), func() int { return len(text) - 6 }}); err != io.EOF {
		t.Fatal(err)
	}
	if len(in.buffer) != firstInput {
		t.Errorf("%d bytes are kept", len(in.buffer))
	}
}

func FuzzInput(f *testing.F) {
	f.Add([]byte(multi("SET", "a", "b")+"PING\r\n"), byte(3))
	f.Add([]byte("*1\r\n$-2\r\n"), byte(1))
	f.Add([]byte(`set "a \x41\"" 'it\'s' b"c"`+"\r\n"), byte(1))
	f.Fuzz(func(t *testing.T, text []byte, size byte) {
		anyBytesCanBeQuoted(t, text[:min(len(text), 1000)])
		whole, err := parseText(string(text), func() int { return len(text) })
		pieces, err2 := parseText(string(text), func() int { return 1 + int(size) })
		if fmt.Sprint(whole, err) != fmt.Sprint(pieces, err2) {
			t.Errorf("%q, %v; in pieces %q, %v", whole, err, pieces, err2)
		}
	})
}

func anyBytesCanBeQuoted(t *testing.T, text []byte) {
	line := `echo "`
	for _, c := range text {
		line += fmt.Sprintf("\\x%02x", c)
	}
	got, err := parseText(line+"\"\n", func() int { return len(line) })
	if want := fmt.Sprintf("[%q]", []string{"echo", string(text)}); fmt.Sprint(got) != want || err != io.EOF {
		t.Errorf("%s is %s, %v", line, got, err)
	}
}

// limited returns an input with a budget of so many bytes.
func limited(most int) (*input, *budget) {
	all, at := newBudget(most), nobody
	return &input{bound: clientsBound, share: share{budget: &all}, place: &at}, &all
}

// A part of the next command does not keep the memory.
func TestMemoryIsGivenBackBeforeAPartOfTheNext(t *testing.T) {
	in, all := limited(mostInput)
	text := multi("SET", "a", strings.Repeat("v", 1<<20)) + "*2\r\n$3\r\nGET\r\n$1"
	from := &parts{[]byte(text), func() int { return 1 << 20 }}
	if got, err := parseAll(in, from); err != io.EOF || len(got) != 1 {
		t.Fatal(len(got), err)
	}
	if len(in.buffer) > keptInput || all.held != 0 {
		t.Errorf("%d bytes are kept, %d counted", len(in.buffer), all.held)
	}
	got, err := parseAll(in, strings.NewReader("\r\na\r\n"))
	if err != io.EOF || fmt.Sprint(got) != `[["GET" "a"]]` {
		t.Error(got, err)
	}
}

func TestLongCommandsOfAllAreBounded(t *testing.T) {
	in, all := limited(1 << 20)
	text := multi("SET", "a", strings.Repeat("v", 2<<20))
	if _, err := parseAll(in, strings.NewReader(text)); err != errBusy {
		t.Error(err)
	}
	if all.held < 512<<10 || all.held > all.most {
		t.Error(all.held, "bytes are counted")
	}
	if in.share.release(); all.held != 0 {
		t.Error(all.held, "bytes are counted")
	}
	in, all = limited(8 << 20)
	if _, err := parseAll(in, strings.NewReader(text+"PING\r\n")); err != io.EOF {
		t.Error(err)
	}
	if all.held != 0 {
		t.Error(all.held, "bytes are counted")
	}
}

// Many short arguments need more memory than their text.
func TestArgumentsAreCounted(t *testing.T) {
	in, all := limited(mostInput)
	text := "*65536\r\n" + strings.Repeat("$0\r\n\r\n", 10000)
	if _, err := parseAll(in, strings.NewReader(text)); err != io.EOF || in.end > keptInput {
		t.Error(in.end, err)
	}
	if all.held < 10000*(spanSize+argSize) {
		t.Error(all.held, "bytes are counted")
	}
	// The last part comes with the end of the command: nothing is read before it is executed.
	in, all = limited(10000 * (spanSize + argSize))
	text = "*10000\r\n" + strings.Repeat("$0\r\n\r\n", 10000)
	if got, err := parseAll(in, strings.NewReader(text)); err != errBusy || len(got) != 0 {
		t.Error(len(got), err)
	}
	if in, all = limited(mostInput); in.share.held != 0 {
		t.Error(in.share.held)
	}
	if got, err := parseAll(in, strings.NewReader(text)); err != io.EOF || len(got) != 1 {
		t.Error(len(got), err)
	}
	if in.idle(); all.held != 0 || in.spans != nil {
		t.Error(all.held, "bytes are counted")
	}
	in, all = limited(10000 * argSize)
	if got, err := parseAll(in, strings.NewReader("A"+strings.Repeat(" b", 20000)+"\n")); err != errBusy || len(got) != 0 {
		t.Error(len(got), err)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1": "1", "-1": "-1", "9223372036854775807": "9223372036854775807",
		"-9223372036854775808": "-9223372036854775808", "9223372036854775808": "no", "-9223372036854775809": "no",
		"": "no", "-": "no", "+1": "no", "01": "no", "-0": "no", " 1": "no", "1 ": "no", "0x1": "no", "1.0": "no",
		"18446744073709551617": "no", "99999999999999999999": "no",
	} {
		got := "no"
		if n, ok := number([]byte(text)); ok {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		matches       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a*", "abc", true},
		{"*c", "abc", true}, {"a*c", "abbbc", true}, {"a*c", "abbb", false}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"[abc]", "b", true}, {"[abc]", "d", false}, {"[^abc]", "d", true},
		{"[^abc]", "a", false}, {"[a-c]x", "bx", true}, {"[c-a]x", "bx", true}, {"[a-c]x", "dx", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {`[\]]`, "]", true}, {`a\`, `a\`, true}, {"[", "[", false},
		{"[a", "a", true}, {"**a**", "xxaxx", true}, {"h?llo*[0-9]", "hello-7", true}, {"\xff*", "\xff\x00", true},
		{"a*b*c*d", "axbxcxd", true}, {"a*b*c*d", "axbxcx", false},
	} {
		if globMatch([]byte(test.pattern), []byte(test.text)) != test.matches {
			t.Errorf("%q, %q", test.pattern, test.text)
		}
		if test.matches && !bytes.HasPrefix([]byte(test.text), globPrefix([]byte(test.pattern))) {
			t.Errorf("%q begins with %q", test.pattern, globPrefix([]byte(test.pattern)))
		}
	}
	// An exponential matcher would never finish.
	if globMatch(bytes.Repeat([]byte("a*"), 500), bytes.Repeat([]byte("a"), 4000)[:3999]) != true ||
		globMatch(append(bytes.Repeat([]byte("a*"), 500), 'b'), bytes.Repeat([]byte("a"), 4000)) {
		t.Error("stars")
	}
}
