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

// A model is what a store should answer.
type model struct {
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

// command makes a command, executes it on the model, and returns what it should be answered with.
func (m *model) command(rng *rand.Rand) ([]string, string) {
	key := func() string { return strings.Repeat(string(rune('a'+rng.Intn(8))), []int{1, 20, 300}[rng.Intn(3)]) }
	value := func() string {
		return strings.Repeat(strconv.Itoa(rng.Intn(100)), []int{0, 1, 1, 1, 700, 3000, 40000}[rng.Intn(7)])
	}
	k := key()
	text, isString := m.strings[k]
	_, isHash := m.hashes[k]
	switch rng.Intn(12) {
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
	default:
		if isString {
			return []string{"HSET", k, "f", "1"}, wrongType
		}
		if isHash {
			return []string{"HSET", k, "f", "1"}, "0"
		}
		m.hashes[k] = map[string]string{"f": "1"}
		return []string{"HSET", k, "f", "1"}, "1"
	}
}

// Answers are those of commands that are executed one after the other, in whatever pieces and
// batches they arrive.
func TestPipelinesAgainstAModel(t *testing.T) {
	for _, engine := range []string{"masstree", "bwtree"} {
		s := start(t, nil, newStore(t, kvtree.Settings{Engine: engine}))
		k := s.connect(t)
		m := &model{map[string]string{}, map[string]map[string]string{}}
		rng := rand.New(rand.NewSource(7))
		for round := range 60 {
			var text strings.Builder
			var commands [][]string
			var want []string
			for range 1 + rng.Intn(400) {
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
					t.Fatalf("%s, round %d, command %d, %.60q: %.100s, not %.100s", engine, round, i,
						commands[i], got, want[i])
				}
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Changes of one key by many clients are all made.
func TestManyClientsChangeOneKey(t *testing.T) {
	s := start(t, nil)
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

// What is sent at once needs few calls of the kernel.
func TestPipelinesAreBatches(t *testing.T) {
	s := start(t, nil)
	k := s.connect(t)
	calls := func() uint64 { return s.counts.batches.Load() }
	for _, command := range []string{multi("SET", "a", "1"), multi("GET", "a"), multi("MGET", "a", "b"), multi("DEL", "a", "b")} {
		before := calls()
		// Less than is read at once.
		k.send(strings.Repeat(command, 100))
		for range 100 {
			k.answer()
		}
		if n := calls() - before; n > 10 {
			t.Errorf("%.20q: %d calls for 100", command, n)
		}
	}
}

// Values that need a second look do not have the others looked up again.
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
