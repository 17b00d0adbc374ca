// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kvtree"
)

// A model predicts the answers of a store.
type model struct {
	prefix  string // of its keys
	strings map[string]string
	hashes  map[string]map[string]string
}

func quoted(text string, found bool) string {
	if !found {
		return "null"
	}
	return strconv.Quote(text)
}

// count makes a command that counts keys, and may remove them.
func (m *model) count(name string, key func() string, rng *rand.Rand, removes bool) ([]string, string) {
	args, n := []string{name}, 0
	for range 1 + rng.Intn(3) {
		k := key()
		args = append(args, k)
		_, isString := m.strings[k]
		_, isHash := m.hashes[k]
		if isString || isHash {
			n++
		}
		if removes {
			delete(m.strings, k)
			delete(m.hashes, k)
		}
	}
	return args, strconv.Itoa(n)
}

// command makes a command, executes it on the model, and returns the expected answer.
func (m *model) command(rng *rand.Rand) ([]string, string) {
	key := func() string {
		return m.prefix + strings.Repeat(string(rune('a'+rng.Intn(8))), []int{1, 20, 300}[rng.Intn(3)])
	}
	value := func() string {
		return strings.Repeat(strconv.Itoa(rng.Intn(100)), []int{0, 1, 1, 1, 700, 3000, 40000}[rng.Intn(7)])
	}
	k := key()
	text, isString := m.strings[k]
	_, isHash := m.hashes[k]
	switch rng.Intn(16) {
	case 0, 1, 2:
		if isHash {
			return []string{"GET", k}, wrongType
		}
		return []string{"GET", k}, quoted(text, isString)
	case 3:
		args, parts := []string{"MGET"}, []string{}
		for range 1 + rng.Intn(5) {
			k := key()
			text, isString := m.strings[k]
			args, parts = append(args, k), append(parts, quoted(text, isString))
		}
		return args, "[" + strings.Join(parts, " ") + "]"
	case 4, 5:
		v := value()
		m.strings[k] = v
		delete(m.hashes, k)
		return []string{"SET", k, v}, "OK"
	case 6:
		v := value()
		if isString || isHash {
			return []string{"SET", k, v, "NX"}, "null"
		}
		m.strings[k] = v
		return []string{"SET", k, v, "NX"}, "OK"
	case 7:
		return m.count("DEL", key, rng, true)
	case 8:
		return m.count("EXISTS", key, rng, false)
	case 9:
		if isHash {
			return []string{"STRLEN", k}, wrongType
		}
		return []string{"STRLEN", k}, strconv.Itoa(len(text))
	case 10:
		if isHash {
			return []string{"APPEND", k, "x"}, wrongType
		}
		m.strings[k] = text + "x"
		return []string{"APPEND", k, "x"}, strconv.Itoa(len(text) + 1)
	case 11:
		n, err := strconv.Atoi(text)
		switch {
		case isHash:
			return []string{"INCRBY", k, "7"}, wrongType
		case isString && (err != nil || strconv.Itoa(n) != text):
			return []string{"INCRBY", k, "7"}, notAnInt
		}
		m.strings[k] = strconv.Itoa(n + 7)
		return []string{"INCRBY", k, "7"}, m.strings[k]
	default:
		return m.hashCommand(rng, k)
	}
}

// hashCommand makes a command for a hash.
func (m *model) hashCommand(rng *rand.Rand, k string) ([]string, string) {
	field := string(rune('f' + rng.Intn(3)))
	name := []string{"HSET", "HSETNX", "HDEL", "HINCRBY"}[rng.Intn(4)]
	args := []string{name, k, field, "1"}
	if name == "HDEL" {
		args = args[:3]
	}
	if _, isString := m.strings[k]; isString {
		return args, wrongType
	}
	old, found := m.hashes[k][field]
	n, _ := strconv.Atoi(old)
	if m.hashes[k] == nil {
		m.hashes[k] = map[string]string{}
	}
	defer func() {
		if len(m.hashes[k]) == 0 {
			delete(m.hashes, k)
		}
	}()
	switch {
	case name == "HDEL":
		delete(m.hashes[k], field)
	case name == "HINCRBY":
		m.hashes[k][field] = strconv.Itoa(n + 1)
		return args, m.hashes[k][field]
	case name == "HSET" || !found:
		m.hashes[k][field] = "1"
	}
	return args, strconv.Itoa(one(found == (name == "HDEL")))
}

// The answers are as if the commands were executed one after the other, in whatever pieces and
// batches they arrive, and whatever other clients are served at the same time.
func TestPipelinesAgainstAModel(t *testing.T) {
	for _, engine := range []string{"masstree", "bwtree"} {
		s := start(t, nil, newStore(t, kvtree.Settings{Engine: engine}))
		var group sync.WaitGroup
		for i := range 6 {
			k := s.connect(t)
			m := &model{fmt.Sprint(i), map[string]string{}, map[string]map[string]string{}}
			group.Add(1)
			go func() {
				defer group.Done()
				m.compare(t, k, rand.New(rand.NewSource(int64(i))))
			}()
		}
		group.Wait()
	}
}

// compare sends pipelines, and compares the answers with the model.
func (m *model) compare(t *testing.T, k *talk, rng *rand.Rand) {
	for round := range 20 {
		var text strings.Builder
		var commands [][]string
		var want []string
		for range 1 + rng.Intn([]int{2, 20, 400}[rng.Intn(3)]) {
			args, answer := m.command(rng)
			text.WriteString(multi(args...))
			commands, want = append(commands, args), append(want, answer)
		}
		sent := make(chan error, 1)
		go func() {
			_, err := k.conn.Write([]byte(text.String()))
			sent <- err
		}()
		for i := range want {
			if got := k.answer(); got != want[i] {
				t.Errorf("client %s, round %d, command %d, %.60q: %.100s, not %.100s", m.prefix, round, i,
					commands[i], got, want[i])
				return
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
			return
		}
	}
}

// No change is lost when many clients, on several loops, change one key.
func TestManyClientsChangeOneKey(t *testing.T) {
	s := start(t, func(s *server) { s.makeLoops(2) })
	const clients, each = 8, 200
	var group sync.WaitGroup
	for i := range clients {
		k := s.connect(t)
		group.Add(1)
		go func() {
			defer group.Done()
			for j := range each {
				k.send(multi("INCR", "n") + multi("HINCRBY", "h", "f", "1") + multi("APPEND", "s", "x") +
					multi("HSET", "h", fmt.Sprint("f", i), fmt.Sprint(j)))
				for range 4 {
					if _, err := strconv.Atoi(k.answer()); err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	group.Wait()
	k := s.connect(t)
	k.expect("GET n", fmt.Sprintf(`"%d"`, clients*each))
	k.expect("HGET h f", fmt.Sprintf(`"%d"`, clients*each))
	k.expect("STRLEN s", fmt.Sprint(clients*each))
	k.expect("HLEN h", fmt.Sprint(clients+1))
	for i := range clients {
		k.expect(fmt.Sprint("HGET h f", i), fmt.Sprintf(`"%d"`, each-1))
	}
}

// Commands sent at once need few system calls.
func TestPipelinesAreBatches(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	calls := func() uint64 { return s.counts.batches.Load() }
	for _, command := range []string{multi("SET", "a", "1"), multi("GET", "a"), multi("MGET", "a", "b"), multi("DEL", "a", "b"),
		multi("INCR", "n"), multi("APPEND", "s", "x"), multi("HSET", "h", "f", "v"), multi("HSETNX", "h", "f", "v"),
		multi("HDEL", "h", "g")} {
		before := calls()
		// Less than one read returns.
		k.send(strings.Repeat(command, 100))
		for range 100 {
			k.answer()
		}
		if n := calls() - before; n > 10 {
			t.Errorf("%.20q: %d calls for 100", command, n)
		}
	}
}

// Commands of several clients need few system calls: first all gets, then all changes.
func TestClientsOfALoopShareBatches(t *testing.T) {
	o := options{stores: []string{newStore(t, kvtree.Settings{})}, maxClients: 100, threads: 1}
	server, err := o.server(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &tested{server: server}
	// Only this test runs the loop.
	l := s.loops[0]
	var talks []*talk
	for i := range 20 {
		k := s.stranger(t)
		k.send(multi("GET", "a") + multi("SET", fmt.Sprint("key", i), "v") + multi("GET", fmt.Sprint("key", i)) +
			multi("INCR", fmt.Sprint("n", i)) + multi("HSET", fmt.Sprint("h", i), "f", "v") + multi("INCR", "all"))
		talks = append(talks, k)
	}
	l.once()
	sum := 0
	for _, k := range talks {
		for _, want := range []string{"null", "OK", `"v"`, "1", "1"} {
			if got := k.answer(); got != want {
				t.Errorf("%s, not %s", got, want)
			}
		}
		n, _ := strconv.Atoi(k.answer())
		sum += n
		k.conn.Close()
	}
	if sum != 20*21/2 {
		t.Error(sum)
	}
	// The updates are read at once, and each client changes one key after the other.
	if n := s.counts.batches.Load(); n != 3+1+3 {
		t.Errorf("%d calls", n)
	}
	for s.connected() > 0 {
		l.once()
	}
	l.close()
	server.databases[0].opened.Load().Close()
}

// A second lookup of some values does not repeat the other lookups.
func TestLongGetsAreLookedUpTwiceAtMost(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	args := []string{"MGET"}
	for i := range 500 {
		key := fmt.Sprint(i)
		args = append(args, key)
		switch i % 3 {
		case 0:
			k.say("SET", key, strings.Repeat("x", 1500*i))
		case 1:
			k.say("HSET", key, "f", "v")
		}
	}
	before := s.counts.operations.Load()
	k.say(args...)
	if n := s.counts.operations.Load() - before; n > 500 {
		t.Errorf("%d lookups in batches for 500 keys", n)
	}
}

func FuzzServer(f *testing.F) {
	s := start(f, nil)
	f.Add([]byte(multi("SET", "a", "b") + multi("HSET", "h", "f", "v") + multi("SCAN", "0", "MATCH", "*")))
	f.Add([]byte(multi("KV.RANGE", "-", "+") + "PING\r\n" + multi("HELLO", "3")))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, other := s.connect(t), s.connect(t)
		k.conn.Write(append(text, "\r\nQUIT\r\n"...))
		other.expect("PING", "PONG")
	})
}

// Changes are made even if the client does not read the answers while it sends.
func TestChangesOfASlowReader(t *testing.T) {
	s := start(t, nil)
	here, there := foreignPair(t)
	if err := there.(foreign).SetWriteBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if err := s.take(there); err != nil {
		t.Fatal(err)
	}
	k := newTalk(t, here)
	value := strings.Repeat("x", 3090)
	k.say("SET", "a", value)
	// The server keeps this much memory, for a value and for commands.
	k.say("GET", "a")
	k.say("SET", "b", strings.Repeat("y", 40000))
	const gets, sets = 21, 600
	text := strings.Repeat(multi("GET", "a"), gets)
	for i := range sets {
		text += multi("SET", fmt.Sprint("key", i), "v")
	}
	if _, err := k.conn.Write([]byte(text + multi("DEL", "a", "b"))); err != nil {
		t.Fatal(err)
	}
	for range gets {
		if got := k.answer(); got != strconv.Quote(value) {
			t.Fatalf("%.100s", got)
		}
	}
	for i := range sets {
		if got := k.answer(); got != "OK" {
			t.Fatalf("SET %d: %.100s", i, got)
		}
	}
	if got := k.answer(); got != "2" {
		t.Errorf("DEL: %s", got)
	}
	for i := range sets {
		k.expect(fmt.Sprint("GET key", i), `"v"`)
	}
}

// The error of a command that needs several batches is the one of its first failing key.
func TestTheFirstErrorOfManyKeys(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	args := []string{"DEL"}
	for i := range 600 {
		args = append(args, fmt.Sprint("key", i))
	}
	args[3] = strings.Repeat("z", kvtree.MaxKey+1)
	if got := k.say(args...); !strings.Contains(got, "zzz") {
		t.Error(got)
	}
}

// Idle clients keep no memory for long commands.
func TestSilentClientsKeepLittle(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	if got := k.say("PING", strings.Repeat("x", 5<<20), "y"); !strings.HasPrefix(got, "ERR") {
		t.Error(got)
	}
	eventually(t, func() bool { return s.server.input.now() == 0 })
}
