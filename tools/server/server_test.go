// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kvtree"
)

var ctx = context.Background()

var storeNumber atomic.Int64

// A tested is a server in a test, with its own stores.
type tested struct {
	*server
	stores []string
	socket string
	stop   func()
}

// newStore creates a store, and returns its name.
func newStore(t testing.TB, settings kvtree.Settings) string {
	t.Helper()
	if _, err := os.Stat("/dev/kvtree"); err != nil {
		t.Skip("there is no /dev/kvtree")
	}
	name := fmt.Sprintf("server-%d-%d", os.Getpid(), storeNumber.Add(1))
	if err := kvtree.CreateStore(name, settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kvtree.DestroyStore(name) })
	return name
}

// shortDir creates a folder with a short path: the path of a socket has at most 107 bytes.
func shortDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/run", "kvtree-server-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start serves stores on a Unix socket until the test ends. It calls change before.
func start(t testing.TB, change func(*server), stores ...string) *tested {
	t.Helper()
	if len(stores) == 0 {
		stores = []string{newStore(t, kvtree.Settings{})}
	}
	ctx, cancel := context.WithCancel(ctx)
	server, err := (&options{stores: stores, maxClients: 100}).server(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(server)
	}
	s := &tested{server: server, stores: stores, socket: filepath.Join(shortDir(t), "socket")}
	listener, err := listenUnix(s.socket, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		server.serve([]net.Listener{listener})
		close(done)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(func() {
		s.stop()
		for _, db := range server.databases {
			db.opened.Load().Close()
		}
	})
	return s
}

// A talk is a connection in a test.
type talk struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// A limit for every answer.
const patience = 60 * time.Second

func newTalk(t testing.TB, conn net.Conn) *talk {
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &talk{t, conn, bufio.NewReader(conn)}
}

func (s *tested) connect(t testing.TB) *talk {
	t.Helper()
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	return newTalk(t, conn)
}

// eventually waits until something is so.
func eventually(t testing.TB, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not so yet")
		}
	}
}

func (k *talk) send(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k.conn, text); err != nil {
		k.t.Fatal(err)
	}
}

// answer reads an answer: a string in quotes, null, a number, OK, an error, [an array] or {pairs}.
func (k *talk) answer() string {
	k.t.Helper()
	text, err := k.read()
	if err != nil {
		k.t.Fatal("no answer: ", err)
	}
	return text
}

func (k *talk) read() (string, error) {
	line, err := k.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(line, "\r\n") {
		return "", fmt.Errorf("a line ends otherwise: %q", line)
	}
	rest := line[1 : len(line)-2]
	n, numberErr := strconv.Atoi(rest)
	switch line[0] {
	case '+', '-', ':':
		return rest, nil
	case '_':
		return "null", nil
	}
	if numberErr != nil {
		return "", fmt.Errorf("no length: %q", line)
	}
	switch line[0] {
	case '$':
		if n < 0 {
			return "null", nil
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(k.in, data); err != nil {
			return "", err
		}
		return strconv.Quote(string(data[:n])), nil
	case '*', '~', '%':
		if line[0] == '%' {
			n *= 2
		}
		parts := make([]string, n)
		for i := range parts {
			if parts[i], err = k.read(); err != nil {
				return "", err
			}
		}
		if line[0] == '%' {
			return "{" + strings.Join(parts, " ") + "}", nil
		}
		return "[" + strings.Join(parts, " ") + "]", nil
	}
	return "", fmt.Errorf("no answer: %q", line)
}

// say sends a command, and returns the answer.
func (k *talk) say(args ...string) string {
	k.t.Helper()
	k.send(multi(args...))
	return k.answer()
}

// expect sends the words of a command, and compares the answer. Q is a long word, "" an empty one.
func (k *talk) expect(command, want string) {
	k.t.Helper()
	args := strings.Split(command, " ")
	for i := range args {
		if args[i] == `""` {
			args[i] = ""
		}
	}
	if got := k.say(args...); got != want {
		k.t.Errorf("%s: %s, not %s", command, got, want)
	}
}

// expectAll takes a line for each command: the command, " -> ", its answer.
func (k *talk) expectAll(lines string) {
	k.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		k.expect(command, want)
	}
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

func TestStrings(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		GET a -> null
		SET a 1 -> OK
		GET a -> "1"
		SET a 2 NX -> null
		SET b 2 XX -> null
		SET b 2 NX -> OK
		SET b 3 XX -> OK
		SET b 4 GET -> "3"
		SET c 5 GET -> null
		SET c 6 XX GET -> "5"
		SET c 7 NX GET -> "6"
		SET d 7 NX GET -> null
		SET e 7 XX GET -> null
		GET e -> null
		SET d 8 KEEPTTL -> OK
		SET d 8 NX XX -> ERR syntax error
		SET d 8 EX 10 -> ERR kvtree-server has no SET with EX: keys do not expire
		SET d 8 10 -> ERR syntax error
		MGET a b c d e -> ["1" "4" "6" "8" null]
		MSET a x b y a z -> OK
		MGET a b -> ["z" "y"]
		MSET a x b -> ERR wrong number of arguments for 'mset' command
		SETNX a 1 -> 0
		SETNX f 1 -> 1
		GETSET f 2 -> "1"
		GETSET g 2 -> null
		GETDEL g -> "2"
		GETDEL g -> null
		APPEND i "" -> 0
		GET i -> ""
		DEL i -> 1
		APPEND g abc -> 3
		APPEND g def -> 6
		STRLEN g -> 6
		STRLEN nothing -> 0
		GETRANGE g 1 3 -> "bcd"
		GETRANGE g -3 -1 -> "def"
		GETRANGE g -100 100 -> "abcdef"
		GETRANGE g 4 2 -> ""
		GETRANGE g 6 10 -> ""
		GETRANGE nothing 0 -1 -> ""
		GETRANGE g 0 -9223372036854775808 -> "a"
		GETRANGE g -1 -2 -> ""
		GETRANGE g -100 -50 -> "a"
		GETRANGE g -9223372036854775808 9223372036854775807 -> "abcdef"
		GETRANGE g 0 x -> ERR value is not an integer or out of range
		SETRANGE g 3 XY -> 6
		GET g -> "abcXYf"
		SETRANGE h 2 z -> 3
		GET h -> "\x00\x00z"
		SETRANGE h 1 "" -> 3
		SETRANGE nothing 5 "" -> 0
		GET nothing -> null
		SETRANGE h -1 a -> ERR offset is out of range
		SETRANGE h 9223372036854775807 a -> ERR string exceeds maximum allowed size (1 MiB)
		SETRANGE h 1048576 a -> ERR string exceeds maximum allowed size (1 MiB)
		SET empty "" -> OK
		GET empty -> ""
		STRLEN empty -> 0
		MGET empty nothing -> ["" null]
		GETDEL empty -> ""
		get a -> "z"
		GET -> ERR wrong number of arguments for 'get' command
		GET a b -> ERR wrong number of arguments for 'get' command
	`)
}

func TestNumbersInStrings(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		INCR n -> 1
		INCRBY n 41 -> 42
		DECR n -> 41
		DECRBY n 42 -> -1
		GET n -> "-1"
		SET n 9223372036854775807 -> OK
		INCR n -> ERR increment or decrement would overflow
		DECRBY n -1 -> ERR increment or decrement would overflow
		DECRBY n -9223372036854775808 -> ERR decrement would overflow
		SET n -9223372036854775808 -> OK
		DECR n -> ERR increment or decrement would overflow
		INCRBY n 9223372036854775807 -> -1
		SET n 01 -> OK
		INCR n -> ERR value is not an integer or out of range
		SET n "" -> OK
		INCR n -> ERR value is not an integer or out of range
		INCRBY n 1.5 -> ERR value is not an integer or out of range
		GET n -> ""
	`)
}

func TestHashes(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		HSET h a 1 b 2 -> 2
		HSET h b 3 c 4 -> 1
		HGET h b -> "3"
		HGET h x -> null
		HGET nothing x -> null
		HMGET h a x c -> ["1" null "4"]
		HGETALL h -> ["a" "1" "b" "3" "c" "4"]
		HGETALL nothing -> []
		HKEYS h -> ["a" "b" "c"]
		HVALS h -> ["1" "3" "4"]
		HLEN h -> 3
		HLEN nothing -> 0
		HEXISTS h a -> 1
		HEXISTS h x -> 0
		HSTRLEN h a -> 1
		HSTRLEN h x -> 0
		HSETNX h a 9 -> 0
		HSETNX h d 9 -> 1
		HINCRBY h d -10 -> -1
		HINCRBY h new 5 -> 5
		HSET h text x -> 1
		HINCRBY h text 1 -> ERR hash value is not an integer
		HINCRBY h d -9223372036854775808 -> ERR increment or decrement would overflow
		HDEL h a x new text -> 3
		HGETALL h -> ["b" "3" "c" "4" "d" "-1"]
		HSET h again 1 -> 1
		HGETALL h -> ["again" "1" "b" "3" "c" "4" "d" "-1"]
		HDEL h again b c d -> 4
		EXISTS h -> 0
		HDEL h a -> 0
		HMSET h a 1 -> OK
		HSET h a -> ERR wrong number of arguments for 'hset' command
		HSET h a 1 b -> ERR wrong number of arguments for 'hset' command
		HSET h "" "" -> 1
		HGET h "" -> ""
		TYPE h -> hash
		HSET h a 5 a 6 -> 0
		HGET h a -> "6"
	`)
}

func TestTypesAreKeptApart(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		HSET h a 1 -> 1
		SET s "" -> OK
		TYPE s -> string
		TYPE nothing -> none
		MGET h s -> [null ""]
		EXISTS h s nothing h -> 3
	`)
	for _, command := range []string{"GET h", "STRLEN h", "GETSET h 1", "GETDEL h", "APPEND h x", "GETRANGE h 0 1",
		"SETRANGE h 0 x", "SETRANGE h 0 \"\"", "INCR h", "SET h 1 GET", "HSET s a 1", "HGET s a", "HMGET s a", "HGETALL s",
		"HDEL s a", "HLEN s", "HEXISTS s a", "HINCRBY s a 1", "HKEYS s", "HVALS s", "HSETNX s a 1"} {
		k.expect(command, wrongType)
	}
	k.expectAll(`
		SET h 1 -> OK
		TYPE h -> string
		HGETALL s -> ` + wrongType + `
		DEL h s nothing -> 2
		UNLINK h -> 0
	`)
}

func TestAHashHas255Fields(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	for i := range 255 {
		k.expect(fmt.Sprintf("HSET h f%d %d", i, i), "1")
	}
	k.expect("HSET h f255 x", "ERR a hash has at most 255 fields")
	k.expect("HLEN h", "255")
	k.expect("HDEL h f7", "1")
	k.expect("HSET h f255 x", "1")
	k.expect("HGET h f255", `"x"`)
	if got := k.say("HSET", "h2", strings.Repeat("n", 65536), "x"); got != errName.Error() {
		t.Error(got)
	}
	if got := k.say("HSET", "h2", strings.Repeat("n", 65535), "x"); got != "1" {
		t.Error(got)
	}
}

// The format of the columns is documented for other programs.
func TestHowValuesLieInAStore(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.expect("HSET h name value", "1")
	k.expect("SET s text", "OK")
	store, err := kvtree.Open(s.stores[0], kvtree.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	columns, _, err := store.GetColumns(ctx, []byte("h"))
	if err != nil || len(columns) != 1 || columns[0].ID != 1 || string(columns[0].Data) != "\x04\x00namevalue" {
		t.Error(columns, err)
	}
	columns, _, err = store.GetColumns(ctx, []byte("s"))
	if err != nil || len(columns) != 1 || columns[0].ID != 0 || string(columns[0].Data) != "text" {
		t.Error(columns, err)
	}
	// Values stored by other programs.
	for i, data := range []string{"", "\x01", "\x05\x00name"} {
		key := fmt.Sprint("other", i)
		if _, err := store.PutColumns(ctx, []byte(key), []kvtree.Column{{ID: 9, Data: []byte(data)}}); err != nil {
			t.Fatal(err)
		}
		k.expect("HGETALL "+key, errNoHash.Error())
	}
}

func TestLimits(t *testing.T) {
	k := start(t, nil).connect(t)
	long := strings.Repeat("k", kvtree.MaxKey)
	value := strings.Repeat("v", kvtree.MaxValue)
	for _, test := range []struct {
		want string
		args []string
	}{
		{"OK", []string{"SET", long, "1"}},
		{`"1"`, []string{"GET", long}},
		{"OK", []string{"SET", "a", value}},
		{strconv.Quote(value), []string{"GET", "a"}},
		{"1048576", []string{"STRLEN", "a"}},
		{`["1" ` + strconv.Quote(value) + ` "1"]`, []string{"MGET", long, "a", long}},
	} {
		if got := k.say(test.args...); got != test.want {
			t.Errorf("%.20q: %.80s", test.args, got)
		}
	}
	for _, args := range [][]string{{"SET", long + "k", "1"}, {"SET", "a", value + "v"}, {"APPEND", "a", "v"},
		{"GET", long + "k"}, {"DEL", long + "k"}, {"HSET", long + "k", "a", "1"}, {"MSET", "x", "1", long + "k", "1"}} {
		if got := k.say(args...); !strings.HasPrefix(got, "ERR ") || !strings.Contains(got, "too long") {
			t.Errorf("%.20q: %.80s", args, got)
		}
	}
	k.expect("GET x", `"1"`)
}

// An error replaces an array that was not sent yet, and is an element of one that was.
func TestAnErrorOfAnElement(t *testing.T) {
	k := start(t, nil).connect(t)
	long, value := strings.Repeat("k", kvtree.MaxKey+1), strings.Repeat("v", 2*sendAbove)
	k.expect("SET a 1", "OK")
	k.say("SET", "b", value)
	for _, args := range [][]string{{"MGET", long}, {"MGET", "a", long, "a"}, {"MGET", long, "b", long}} {
		if got := k.say(args...); !strings.HasPrefix(got, "ERR ") || !strings.Contains(got, "too long") {
			t.Errorf("%.20q: %.80s", args, got)
		}
		k.expect("GET a", `"1"`)
	}
	got := k.say("MGET", "b", long, "a")
	if !strings.HasPrefix(got, "["+strconv.Quote(value)+" ERR ") || !strings.HasSuffix(got, ` "1"]`) {
		t.Errorf("%.80s", got)
	}
	k.expect("GET a", `"1"`)
}

func TestResp3(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		HSET h a 1 -> 1
		HELLO 4 -> NOPROTO unsupported protocol version
		HELLO x -> ERR Protocol version is not an integer or out of range
		HELLO 3 AUTH -> ERR Syntax error in HELLO option 'AUTH'
	`)
	if got := k.say("HELLO", "3", "SETNAME", "me"); !strings.HasPrefix(got, `{"server" "kvtree-server"`) {
		t.Error(got)
	}
	k.expectAll(`
		CLIENT GETNAME -> "me"
		HGETALL h -> {"a" "1"}
		GET nothing -> null
		CONFIG GET save -> {"save" ""}
		RESET -> RESET
		HGETALL h -> ["a" "1"]
	`)
}

func TestConnectionCommands(t *testing.T) {
	s := start(t, nil, newStore(t, kvtree.Settings{}), newStore(t, kvtree.Settings{}))
	k := s.connect(t)
	k.expectAll(`
		PING -> PONG
		PING hi -> "hi"
		ECHO hi -> "hi"
		SET a 0 -> OK
		SELECT 1 -> OK
		GET a -> null
		SET a 1 -> OK
		SET b 1 -> OK
		DBSIZE -> 2
		SELECT 2 -> ERR DB index is out of range
		SELECT -1 -> ERR DB index is out of range
		SELECT x -> ERR value is not an integer or out of range
		GET a -> "1"
		SELECT 0 -> OK
		GET a -> "0"
		DBSIZE -> 1
		FLUSHDB -> OK
		DBSIZE -> 0
		SELECT 1 -> OK
		DBSIZE -> 2
		CLIENT SETNAME x -> OK
		CLIENT GETNAME -> "x"
		CLIENT SETINFO lib-name y -> OK
		CLIENT KILL x -> ERR kvtree-server has no CLIENT KILL: it has ID, GETNAME, SETNAME, SETINFO, INFO, LIST, NO-EVICT, NO-TOUCH
		CLIENT LIST ID 1 -> ERR wrong number of arguments for 'client|list' command
		EXEC -> ERR kvtree-server has no EXEC: there are no transactions
		MULTI -> ERR kvtree-server has no MULTI: there are no transactions
		SET b refused -> ERR not executed: kvtree-server has no MULTI
		nonsense -> ERR not executed: kvtree-server has no MULTI
		EXEC -> EXECABORT Transaction discarded because of previous errors.
		GET b -> "1"
		MULTI -> ERR kvtree-server has no MULTI: there are no transactions
		DISCARD -> OK
		GET b -> "1"
		expire a 1 -> ERR kvtree-server has no EXPIRE: keys do not expire
		nonsense -> ERR unknown command 'NONSENSE'
		AUTH x -> ERR AUTH <password> called without any password configured: none is required here
		CONFIG SET a b -> ERR kvtree-server only has CONFIG GET: its options are fixed when it starts
		CONFIG GET max[c]lients -> ["maxclients" "100"]
		COMMAND INFO get nothing -> [["get" 2 [readonly] 1 1 1] null]
		QUIT -> OK
	`)
	if _, err := k.read(); err != io.EOF {
		t.Error("not closed: ", err)
	}
	k = s.connect(t)
	k.expect("CLIENT SETNAME me", "OK")
	s.connect(t).expect("SELECT 1", "OK")
	if got := k.say("CLIENT", "LIST"); !strings.Contains(got, " db=1 ") ||
		!strings.Contains(got, " name=me ") {
		t.Error(got)
	}
	for _, name := range []string{"a b", "a\n", "a\tb", "a\x00", "\x7f", "\xff", strings.Repeat("a", maxName+1)} {
		if got := k.say("CLIENT", "SETNAME", name); got != badName {
			t.Errorf("%q: %s", name, got)
		}
		if got := k.say("HELLO", "2", "SETNAME", name); got != badName {
			t.Errorf("%q: %s", name, got)
		}
	}
	k.expect("CLIENT GETNAME", `"me"`)
	if got := k.say("CLIENT", "SETNAME", ""); got != "OK" {
		t.Error(got)
	}
	k.expect("CLIENT GETNAME", "null")
	if got := k.say("INFO"); !strings.Contains(got, "redis_version:") || !strings.Contains(got, "db1:keys=2") {
		t.Error(got)
	}
	if got := k.say("INFO", "cpu"); !regexp.MustCompile(`^"# CPU\\r\\nused_cpu_sys:\d+\.\d{6}\\r\\nused_cpu_user:\d+\.\d{6}\\r\\n"$`).MatchString(got) {
		t.Error(got)
	}
	// A command's name must not break the lines of an answer.
	if got := k.say("a\r\n:1\r\n"); got != "ERR unknown command 'A  :1  '" {
		t.Error(got)
	}
	k.expect("PING", "PONG")
}

func TestRange(t *testing.T) {
	k := start(t, nil).connect(t)
	k.expectAll(`
		MSET a 1 b 2 c 3 -> OK
		HSET bb x 1 -> 1
		KV.RANGE - + -> ["a" "b" "bb" "c"]
		KV.RANGE [a [bb -> ["a" "b" "bb"]
		KV.RANGE (a (bb -> ["b"]
		KV.RANGE (a [bb -> ["b" "bb"]
		KV.RANGE [b + LIMIT 2 -> ["b" "bb"]
		KV.RANGE - + LIMIT 0 -> []
		KV.RANGE + - REV -> ["c" "bb" "b" "a"]
		KV.RANGE [c (a REV -> ["c" "bb" "b"]
		KV.RANGE (c [a REV -> ["bb" "b" "a"]
		KV.RANGE + - -> []
		KV.RANGE - + REV -> []
		KV.RANGE - - -> []
		KV.RANGE + + -> []
		KV.RANGE [c [a -> []
		KV.RANGE (a (a -> []
		KV.RANGE (a [a -> []
		KV.RANGE [a [a -> ["a"]
		KV.RANGE [a [c REV -> []
		KV.RANGE ( [b -> ["a" "b"]
		KV.RANGE [ [b -> ["a" "b"]
		KV.RANGE - + WITHVALUES -> ["a" "1" "b" "2" "bb" null "c" "3"]
		KV.RANGE + a -> ERR min or max not valid string range item
		KV.RANGE a + -> ERR min or max not valid string range item
		KV.RANGE - + LIMIT -> ERR syntax error
		KV.RANGE - + LIMIT -1 -> ERR value is not an integer or out of range
		KV.RANGE - + OTHER -> ERR syntax error
	`)
}

// scanAll runs a complete scan, and returns the keys.
func (k *talk) scanAll(options ...string) []string {
	k.t.Helper()
	var keys []string
	for cursor, n := "0", 0; ; n++ {
		got := k.say(append([]string{"SCAN", cursor}, options...)...)
		words := strings.Fields(strings.NewReplacer("[", " ", "]", " ", `"`, " ").Replace(got))
		if len(words) == 0 || n > 100000 {
			k.t.Fatal(got)
		}
		if _, err := strconv.ParseUint(words[0], 10, 53); err != nil {
			k.t.Fatal(got)
		}
		keys = append(keys, words[1:]...)
		if cursor = words[0]; cursor == "0" {
			return keys
		}
	}
}

func TestScan(t *testing.T) {
	s := start(t, nil, newStore(t, kvtree.Settings{}), newStore(t, kvtree.Settings{}))
	k := s.connect(t)
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("key:%03d", i))
		k.say("SET", want[i], "v")
	}
	k.expect("HSET other f 1", "1")
	for _, count := range []string{"1", "7", "250", "500", "501", "100000"} {
		if got := k.scanAll("COUNT", count); fmt.Sprint(got) != fmt.Sprint(append(want[:500:500], "other")) {
			t.Errorf("COUNT %s: %d keys", count, len(got))
		}
		if got := k.scanAll("COUNT", count, "MATCH", "key:?[1-2]3"); len(got) != 10 {
			t.Errorf("COUNT %s: %d keys match", count, len(got))
		}
		if got := k.scanAll("COUNT", count, "TYPE", "Hash"); fmt.Sprint(got) != "[other]" {
			t.Errorf("COUNT %s: hashes %v", count, got)
		}
		if got := k.scanAll("COUNT", count, "TYPE", "string", "MATCH", "*"); len(got) != 500 {
			t.Errorf("COUNT %s: %d strings", count, len(got))
		}
	}
	if got := k.say("SCAN", "0", "MATCH", "other*", "COUNT", "10"); got != `["0" ["other"]]` {
		t.Error("keys that cannot match are read: ", got)
	}
	got := k.say("SCAN", "0")
	cursor := strings.Split(got, `"`)[1]
	k.expectAll(`
		SCAN 0 COUNT 0 -> ERR syntax error
		SCAN 0 COUNT -> ERR syntax error
		SCAN 0 COUNT x -> ERR value is not an integer or out of range
		SCAN x -> ERR invalid cursor
		SCAN 0 MATCH ` + strings.Repeat("a", 1025) + ` -> ERR a pattern has at most 1024 bytes
		CONFIG GET ` + strings.Repeat("a", 1025) + ` -> ERR a pattern has at most 1024 bytes
		SCAN 12345 -> ERR unknown or expired cursor: begin with 0
		SELECT 1 -> OK
		SCAN ` + cursor + ` -> ERR unknown or expired cursor: begin with 0
	`)
	// Another connection may continue the scan, also with another pattern.
	k = s.connect(t)
	if again := k.say("SCAN", cursor); !strings.Contains(again, "key:010") || strings.Contains(again, "key:009") {
		t.Error(again)
	}
	k.expect("SCAN "+cursor+" MATCH a*", `["0" []]`)
	for range mostCursors {
		s.databases[0].put([]byte("x"))
	}
	k.expect("SCAN "+cursor, "ERR unknown or expired cursor: begin with 0")
	cursors := s.databases[0].cursors
	if len(cursors.byID) != mostCursors {
		t.Error(len(cursors.byID), "cursors")
	}
	number, _ := strconv.ParseUint(cursors.put(make([]byte, 1, 1<<20)), 10, 64)
	if after, _ := cursors.get(number); cap(after) > 64 {
		t.Error("a cursor holds ", cap(after), " bytes for a key of one")
	}
}

func TestFlushOfManyKeys(t *testing.T) {
	k := start(t, nil).connect(t)
	var text bytes.Buffer
	for i := range 5000 {
		text.WriteString(multi("SET", fmt.Sprint(i), "v"))
	}
	go k.conn.Write(text.Bytes())
	for range 5000 {
		if got := k.answer(); got != "OK" {
			t.Fatal(got)
		}
	}
	k.expect("DBSIZE", "5000")
	k.expect("FLUSHDB ASYNC", "OK")
	k.expect("DBSIZE", "0")
	k.expect("FLUSHDB NOW", "ERR syntax error")
}

func TestAStoreThatIsGoneAndComesBack(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.expect("SET a 1", "OK")
	if err := kvtree.DestroyStore(s.stores[0]); err != nil {
		t.Fatal(err)
	}
	if got := k.say("GET", "a"); !strings.HasPrefix(got, "ERR ") {
		t.Error(got)
	}
	k.expect("PING", "PONG")
	if err := kvtree.CreateStore(s.stores[0], kvtree.Settings{}); err != nil {
		t.Fatal(err)
	}
	k.say("SET", "a", "2")
	k.expect("SET a 2", "OK")
	k.expect("GET a", `"2"`)
}

func TestEveryCommandReportsThatItsStoreIsDestroyed(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.expect("SET a 1", "OK")
	if err := kvtree.DestroyStore(s.stores[0]); err != nil {
		t.Fatal(err)
	}
	tried := append([]string{"GET a", "MGET a b", "MGET" + strings.Repeat(" a", 3000), "STRLEN a", "EXISTS a", "GETRANGE a 0 1", "SUBSTR a 0 1", "HGET a f", "HMGET a f",
		"HGETALL a", "HKEYS a", "HVALS a", "HEXISTS a f", "HLEN a", "HSTRLEN a f", "TYPE a", "SCAN 0", "KV.RANGE - +",
		"DBSIZE", "INCRBY a 1", "DECR a"}, changes...)
	for _, command := range tried {
		if got := k.say(strings.Fields(command)...); !strings.HasPrefix(got, "ERR ") ||
			!strings.Contains(got, "the store was destroyed or detached") {
			t.Errorf("%.80s: %.200s", command, got)
		}
	}
	for _, command := range commands {
		if command.needs != 0 && !strings.Contains(" "+strings.Join(tried, " ")+" ", " "+command.name+" ") {
			t.Error(command.name, "was not tried")
		}
	}
	k.expect("PING", "PONG")
	if got := k.say("INFO"); strings.Contains(got, "db0:") {
		t.Error(got)
	}
}

func TestMaxClients(t *testing.T) {
	s := start(t, func(s *server) { s.maxClients = 2 })
	a, b := s.connect(t), s.connect(t)
	a.expect("PING", "PONG")
	b.expect("PING", "PONG")
	c := s.connect(t)
	if got := c.answer(); got != "ERR max number of clients reached" {
		t.Error(got)
	}
	if _, err := c.read(); err != io.EOF {
		t.Error(err)
	}
	a.conn.Close()
	for {
		// The server notices it a little later.
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		c := newTalk(t, conn)
		c.conn.Write([]byte(multi("PING")))
		got, err := c.read()
		if got == "PONG" {
			break
		}
		if got != "" && got != "ERR max number of clients reached" {
			t.Fatal(got, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestClientsThatAreSilentAreClosed(t *testing.T) {
	s := start(t, func(s *server) { s.timeout = 2 * time.Second })
	k := s.connect(t)
	k.expect("PING", "PONG")
	if _, err := k.read(); err != io.EOF {
		t.Error(err)
	}
}

// A client that sends without reading answers keeps no other client waiting, and is closed.
func TestAClientThatDoesNotRead(t *testing.T) {
	s := start(t, func(s *server) { s.slowest = 2 * time.Second })
	deaf, other := s.connect(t), s.connect(t)
	if got := other.say("SET", "a", strings.Repeat("v", 1<<20)); got != "OK" {
		t.Fatal(got)
	}
	sent := make(chan error, 1)
	go func() {
		for {
			if _, err := deaf.conn.Write([]byte(multi("GET", "a"))); err != nil {
				sent <- err
				return
			}
		}
	}()
	for ended := false; !ended; {
		select {
		case err := <-sent:
			ended = true
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it was not closed")
			}
		default:
			other.expect("STRLEN a", "1048576")
		}
	}
}

// deaf connects clients that send commands, and do not read the answers. It returns when the server
// executes none of them for a while.
func (s *tested) deaf(t *testing.T, uid, n int, commands string) []*talk {
	t.Helper()
	var all []*talk
	for range n {
		k := s.connectAs(t, uid, uid)
		all = append(all, k)
		go io.WriteString(k.conn, commands)
	}
	for before := uint64(1); before != executed(); time.Sleep(time.Second / 2) {
		before = executed()
	}
	return all
}

// heap returns how much memory is used.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Whatever clients ask for and do not read, they do not hold much memory. Those that hold too much
// are closed.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const most, deaf, each = 4 << 20, 40, 400 << 10
	s := start(t, func(s *server) { s.unread.most, s.input.most = 2*most, 2*most }, newStore(t, kvtree.Settings{Mode: 0o666}))
	k, value := s.connect(t), strings.Repeat("v", 1<<20)
	k.expect("HSET h a "+value[:600<<10]+" b "+value[:400<<10], "2")
	k.expect("SET a "+value, "OK")
	k.expect("SET b "+value[:sendAbove-100], "OK")
	fields := strings.Repeat(" f", 30000) + "\r\n"
	var updates strings.Builder
	for i := range 100 {
		k.expect(fmt.Sprintf("HSET h%d a %s", i, value[:4000]), "1")
		updates.WriteString(multi("HDEL", fmt.Sprint("h", i), "x"))
	}
	for name, commands := range map[string]string{
		"GET":           strings.Repeat(multi("GET", "a"), 4),
		"MGET":          strings.Repeat(multi("MGET", "a", "a", "a"), 4),
		"HGETALL":       strings.Repeat(multi("HGETALL", "h"), 4),
		"HMGET":         strings.Repeat(multi("HMGET", "h", "a", "a", "a"), 4),
		"KV.RANGE":      strings.Repeat(multi("KV.RANGE", "-", "+", "WITHVALUES"), 4),
		"short updates": strings.Repeat(multi("GET", "b")+updates.String(), 8),
		"inline":        strings.Repeat("HMGET nothing"+fields, 8),
		"many words":    strings.Repeat("COMMAND INFO"+fields, 8),
		"one part":      "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n" + value[:900000],
	} {
		before := heap()
		all := s.deaf(t, 1001, deaf, commands)
		eventually(t, func() bool { return heap() < before+most+deaf*each })
		t.Log(name, (heap()-before)>>10, s.server.counts.busy.Load(), s.server.connected())
		for _, k := range all {
			k.conn.Close()
		}
		eventually(t, func() bool { return s.server.connected() == 1 })
		if n, m := s.server.unread.now(), s.server.input.now(); n != 0 || m != 0 {
			t.Error(name, n, m, "bytes are counted")
		}
	}
	if s.server.counts.busy.Load() == 0 {
		t.Error("none was closed")
	}
}

// A client has a few long values at once, however many it asks for: also if they come after short
// ones, for which a batch has room.
func TestManyLongValuesNeedTheMemoryOfOne(t *testing.T) {
	const long, short = 16, 600
	s := start(t, func(s *server) { s.unread.most = 6 << 20 })
	k, value := s.connect(t), strings.Repeat("v", 1<<20)
	k.expect("SET a "+value, "OK")
	k.expect("SET b v", "OK")
	k.send(multi("GET", "a") + strings.Repeat(multi("GET", "b"), short) + strings.Repeat(multi("GET", "a"), long))
	for range 1 + short + long {
		k.answer()
	}
	command := append([]string{"MGET"}, strings.Split(strings.Repeat("b", short)+strings.Repeat("a", long), "")...)
	if got := k.say(command...); len(got) < long*len(value) {
		t.Error(len(got))
	}
}

// Users that do not read, or do not send all of a command, leave half of the memory to others.
func TestAUserLeavesHalfOfTheMemory(t *testing.T) {
	s := start(t, func(s *server) { s.unread.most, s.input.most = 16<<20, 17<<20 }, newStore(t, kvtree.Settings{Mode: 0o666}))
	value := strings.Repeat("v", 1<<20)
	if got := s.connect(t).say("SET", "a", value); got != "OK" {
		t.Fatal(got)
	}
	part := "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n" + value[:900000]
	s.deaf(t, 1001, 20, strings.Repeat(multi("GET", "a"), 4))
	if n := s.server.unread.now(); n < 4<<20 || n > 8<<20 {
		t.Error(n, "bytes are counted")
	}
	for i := range 8 {
		s.connectAs(t, 1001, 1001).send(part)
		eventually(t, func() bool { return s.server.input.now() >= (i+1)<<20 })
	}
	k := s.connectAs(t, 1001, 1001)
	go io.WriteString(k.conn, part)
	if got := k.answer(); got != "ERR "+errBusy.Error() {
		t.Error(got)
	}
	for range 4 {
		k := s.connectAs(t, 1002, 1002)
		if got := k.say("GET", "a"); got != strconv.Quote(value) {
			t.Errorf("%.100s", got)
		}
		if got := k.say("SET", "a", value); got != "OK" {
			t.Errorf("%.100s", got)
		}
	}
}

// A range is not read into memory that others hold.
func TestLongRangesAreRefused(t *testing.T) {
	s := start(t, func(s *server) { s.unread.most = 1 << 20 })
	k := s.connect(t)
	for i := range 6 {
		k.expect(fmt.Sprintf("SET %d %s", i, strings.Repeat("v", 300<<10)), "OK")
	}
	const refused = "ERR too many long answers at once: try again"
	k.expect("KV.RANGE - + WITHVALUES", refused)
	k.expect("SCAN 0 TYPE hash", refused)
	if n := s.server.unread.now(); n != 0 {
		t.Error(n, "bytes are held")
	}
	s.unread.mutex.Lock()
	s.unread.most *= 2
	s.unread.mutex.Unlock()
	if got := k.say("KV.RANGE", "-", "+"); !strings.HasPrefix(got, `["0" `) {
		t.Error(got)
	}
	if got := k.say("KV.RANGE", "-", "+", "WITHVALUES", "LIMIT", "2"); len(got) < 600<<10 {
		t.Errorf("%.100s", got)
	}
}

// A reader takes a KiB a second, by the server's clock.
type slowReader struct {
	net.Conn
	clock    *atomic.Pointer[time.Time]
	deadline time.Time
}

func (r *slowReader) SetWriteDeadline(t time.Time) error {
	r.deadline = t
	return nil
}

func (r *slowReader) Write(b []byte) (int, error) {
	now := r.clock.Load().Add(time.Duration(len(b)>>10) * time.Second)
	r.clock.Store(&now)
	if now.After(r.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// A client may read one answer for longer than it may read nothing.
func TestAClientThatReadsSlowly(t *testing.T) {
	s := &server{slowest: time.Minute}
	now := time.Now()
	s.clock.Store(&now)
	c := &client{server: s, conn: &slowReader{clock: &s.clock}}
	c.out = make([]byte, 4<<20)
	c.send()
	if c.broken != nil || len(c.out) > 0 {
		t.Error(c.broken, len(c.out))
	}
}

func TestStopAnswersWhatWasSent(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	k.expect("SET n 0", "OK")
	idle := s.connect(t)
	idle.expect("PING", "PONG")
	k.send(strings.Repeat(multi("INCR", "n"), 1000))
	if got := k.answer(); got != "1" {
		t.Fatal(got)
	}
	s.stop()
	answered := 1
	for {
		got, err := k.read()
		if err != nil {
			break
		}
		answered++
		if got != strconv.Itoa(answered) {
			t.Fatal(got, answered)
		}
	}
	store, err := kvtree.Open(s.stores[0], kvtree.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if value, err := store.Get(ctx, []byte("n")); err != nil || string(value) != strconv.Itoa(answered) {
		t.Errorf("%d answers, and the number is %s: %v", answered, value, err)
	}
	if _, err := idle.read(); err != io.EOF {
		t.Error(err)
	}
	if _, err := net.Dial("unix", s.socket); err == nil {
		t.Error("it still listens")
	}
}

func TestASocketIsTakenFromNobody(t *testing.T) {
	s := start(t, nil)
	if _, err := listenUnix(s.socket, 0o600); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Error(err)
	}
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("x"), 0o600)
	if _, err := listenUnix(file, 0o600); err == nil {
		t.Error("a file was taken for a socket")
	}
	left := filepath.Join(dir, "left")
	l, err := net.Listen("unix", left)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = listenUnix(left, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(left); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
}
