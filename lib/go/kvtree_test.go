// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kvtree"
)

var ctx = context.Background()

// number makes the names of this process's stores unique.
var number atomic.Int64

// create creates a store for a test, and opens it.
func create(t testing.TB, settings kvtree.Settings) (*kvtree.Store, string) {
	t.Helper()
	if _, err := os.Stat("/dev/kvtree"); err != nil {
		t.Skip("there is no /dev/kvtree")
	}
	name := fmt.Sprintf("go-%d-%d", os.Getpid(), number.Add(1))
	if err := kvtree.CreateStore(name, settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kvtree.DestroyStore(name) })
	return open(t, name, kvtree.ReadWrite), name
}

func open(t testing.TB, name string, access kvtree.Access) *kvtree.Store {
	t.Helper()
	s, err := kvtree.Open(name, access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newStore(t testing.TB) *kvtree.Store {
	t.Helper()
	s, _ := create(t, kvtree.Settings{})
	return s
}

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// is fails the test unless err is expected.
func is(t testing.TB, err, expected error) *kvtree.Error {
	t.Helper()
	var e *kvtree.Error
	if !errors.Is(err, expected) || !errors.As(err, &e) {
		t.Fatalf("not %v: %v", expected, err)
	}
	return e
}

func TestWhatWasPutIsFound(t *testing.T) {
	s := newStore(t)
	for _, n := range []int{0, 1, 15, 16, 17, 100, kvtree.MaxKey} {
		key := bytes.Repeat([]byte{0xff}, n)
		for _, n := range []int{0, 1, 1023, 1024, 1025, 100_000, kvtree.MaxValue} {
			value := bytes.Repeat([]byte{byte(n)}, n)
			put := must[uint64](t)(s.Put(ctx, key, value))
			got, version, err := s.GetVersion(ctx, key)
			if err != nil || !bytes.Equal(got, value) || version != put || got == nil {
				t.Fatalf("a key of %d and a value of %d bytes: %d, %v", len(key), n, len(got), err)
			}
		}
	}
}

func TestErrorsAreErrnosAndWhatTheStandardLibraryCallsThem(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	_, err := s.Get(ctx, key)
	is(t, err, kvtree.NotFound)
	is(t, err, fs.ErrNotExist)
	if err.Error() != `kvtree: get "k": not found` {
		t.Error(err)
	}
	_, err = s.Put(ctx, key, nil, kvtree.Replace)
	is(t, err, kvtree.NotFound)
	version := must[uint64](t)(s.Put(ctx, key, nil, kvtree.Create))
	_, err = s.Put(ctx, key, nil, kvtree.Create)
	if e := is(t, err, fs.ErrExist); e.Version != version {
		t.Error("not the present version:", e.Version)
	}
	_, err = s.Put(ctx, key, nil, kvtree.Durable)
	is(t, err, kvtree.NotOffered)
	is(t, s.Sync(ctx), kvtree.NotOffered)
	_, err = kvtree.Open("there-is-none", kvtree.Read)
	is(t, err, fs.ErrNotExist)
	is(t, kvtree.CreateStore("a/b", kvtree.Settings{}), kvtree.Invalid)
	is(t, kvtree.CreateStore("a\x00b", kvtree.Settings{}), kvtree.Invalid)
	is(t, kvtree.CreateStore(strings.Repeat("x", 64), kvtree.Settings{}), kvtree.Invalid)
	is(t, kvtree.CreateStore("default", kvtree.Settings{}), kvtree.Exists)
}

func TestWhatIsTooLongIsRefused(t *testing.T) {
	s := newStore(t)
	for _, n := range []int{kvtree.MaxKey + 1, 1 << 16, 1<<16 + 1} {
		_, err := s.Put(ctx, make([]byte, n), nil)
		is(t, err, kvtree.TooLong)
		_, err = s.Get(ctx, make([]byte, n))
		is(t, err, kvtree.TooLong)
		for _, err = range s.Prefix(ctx, make([]byte, n)) {
			is(t, err, kvtree.TooLong)
		}
	}
	_, err := s.Put(ctx, nil, make([]byte, kvtree.MaxValue+1))
	is(t, err, kvtree.TooLong)
	_, err = s.PutColumns(ctx, nil, make([]kvtree.Column, kvtree.MaxColumns+1))
	is(t, err, kvtree.TooLong)
	_, _, err = s.GetColumns(ctx, nil, make([]uint8, 1<<16+1)...)
	is(t, err, kvtree.TooLong)
	for _, err = range s.Scan(ctx, kvtree.Range{Columns: make([]uint8, 1<<16+1)}) {
		is(t, err, kvtree.TooLong)
	}
	_, err = s.PutColumns(ctx, nil, []kvtree.Column{{1, make([]byte, kvtree.MaxValue+1)}})
	is(t, err, kvtree.TooLong)
	var b kvtree.Batch
	long := b.Put(make([]byte, 1<<16), nil)
	is(t, s.Run(ctx, &b), kvtree.TooLong)
	is(t, long.Err, kvtree.TooLong)
	if info := must[kvtree.StoreInfo](t)(s.Info()); info.Keys != 0 {
		t.Error("there are keys:", info.Keys)
	}
}

func TestVersionsOnlyGrow(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	first := must[uint64](t)(s.CompareAndSwap(ctx, key, []byte("1"), 0))
	_, err := s.CompareAndSwap(ctx, key, []byte("2"), 0)
	if e := is(t, err, kvtree.Changed); e.Version != first {
		t.Error(e.Version)
	}
	second := must[uint64](t)(s.CompareAndSwap(ctx, key, []byte("2"), first))
	is(t, s.RemoveVersion(ctx, key, first), kvtree.Changed)
	if err := s.RemoveVersion(ctx, key, second); err != nil {
		t.Fatal(err)
	}
	third := must[uint64](t)(s.Put(ctx, key, nil))
	if removed := must[uint64](t)(s.Remove(ctx, key)); removed != third ||
		first == 0 || second <= first || third <= second {
		t.Error(first, second, third, removed)
	}
	_, err = s.Remove(ctx, key)
	is(t, err, kvtree.NotFound)
}

func TestAppendUsesTheRoomThereIs(t *testing.T) {
	s := newStore(t)
	key, value := []byte("a key of more than sixteen bytes"), bytes.Repeat([]byte("v"), 100)
	s.Put(ctx, key, value)
	room := append(make([]byte, 0, 200), "before"...)
	got, _, err := s.Append(ctx, room, key)
	if err != nil || string(got) != "before"+string(value) || &got[0] != &room[0] {
		t.Fatal(got, err)
	}
	got, _, err = s.Append(ctx, []byte("before"), key)
	if err != nil || string(got) != "before"+string(value) {
		t.Fatal(got, err)
	}
	got, _, err = s.Append(ctx, []byte("before"), []byte("none"))
	is(t, err, kvtree.NotFound)
	if string(got) != "before" {
		t.Fatal(got)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Append(ctx, room, key) }); n > 0 {
		t.Error("allocations:", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Put(ctx, key, value) }); n > 0 {
		t.Error("allocations of a put:", n)
	}
}

func shown(columns []kvtree.Column) string {
	var said []string
	for _, c := range columns {
		said = append(said, fmt.Sprintf("%d=%s", c.ID, c.Data))
	}
	return strings.Join(said, " ")
}

func TestColumnsAreReadAndChangedByTheirNumbers(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	show := func(ids ...uint8) string {
		t.Helper()
		columns, _, err := s.GetColumns(ctx, key, ids...)
		if err != nil {
			t.Fatal(err)
		}
		return shown(columns)
	}
	put := func(expected string, columns []kvtree.Column, flags ...kvtree.Flag) {
		t.Helper()
		must[uint64](t)(s.PutColumns(ctx, key, columns, flags...))
		if got := show(); got != expected {
			t.Errorf("%s instead of %s", got, expected)
		}
	}
	put("1=one 7=", []kvtree.Column{{1, []byte("one")}, {7, []byte{}}})
	put("0=nil 1=one", []kvtree.Column{{0, []byte("nil")}, {7, nil}})
	if got := show(1, 2); got != "1=one" {
		t.Error(got)
	}
	put("9=n", []kvtree.Column{{9, []byte("n")}}, kvtree.Whole)
	put("", nil, kvtree.Whole)
	_, err := s.PutColumns(ctx, key, []kvtree.Column{{2, nil}, {1, nil}})
	is(t, err, kvtree.Invalid)
	_, err = s.CompareAndSwapColumns(ctx, key, nil, 1<<40)
	is(t, err, kvtree.Changed)

	var all []kvtree.Column
	for id := range kvtree.MaxColumns {
		all = append(all, kvtree.Column{uint8(id), bytes.Repeat([]byte{byte(id)}, id*7)})
	}
	version := must[uint64](t)(s.PutColumns(ctx, key, all))
	got, found, err := s.GetColumns(ctx, key)
	if err != nil || found != version || len(got) != len(all) {
		t.Fatal(len(got), found, version, err)
	}
	for i := range got {
		if got[i].ID != uint8(i) || !bytes.Equal(got[i].Data, all[i].Data) {
			t.Fatal(i, got[i])
		}
	}
	_, _, err = s.GetColumns(ctx, []byte("none"))
	is(t, err, kvtree.NotFound)
}

func TestNoAdditionIsLostBetweenGoroutines(t *testing.T) {
	s := newStore(t)
	const each = 2000
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				if _, err := s.Add(ctx, []byte("n"), 3); err != nil {
					t.Error(err)
				}
				s.AddColumn(ctx, []byte("n"), 200, -1)
			}
		}()
	}
	all.Wait()
	sum := must[int64](t)(s.Add(ctx, []byte("n"), 0))
	negative := must[int64](t)(s.AddColumn(ctx, []byte("n"), 200, 0))
	if sum != 8*each*3 || negative != -8*each {
		t.Error(sum, negative)
	}
	value := must[[]byte](t)(s.Get(ctx, []byte("n")))
	if binary.LittleEndian.Uint64(value) != 8*each*3 {
		t.Error(value)
	}
	_, err := s.Add(ctx, []byte("none"), 1, kvtree.Replace)
	is(t, err, kvtree.NotFound)
	s.Put(ctx, []byte("text"), []byte("text"))
	_, err = s.Add(ctx, []byte("text"), 1)
	is(t, err, kvtree.Invalid)
}

func TestABatchIsExecutedInOrder(t *testing.T) {
	s := newStore(t)
	s.Put(ctx, []byte("long"), make([]byte, 2000))
	var b kvtree.Batch
	missing := b.Get([]byte("k"))
	put := b.Put([]byte("k"), []byte("1"))
	got := b.Get([]byte("k"))
	swapped := b.CompareAndSwap([]byte("k"), nil, 0)
	removed := b.Remove([]byte("k"))
	added := b.Add([]byte("n"), 5)
	long := b.Get([]byte("long"))
	b.Room = 2000
	fits := b.Get([]byte("long"))
	err := s.Run(ctx, &b)
	is(t, err, kvtree.Changed)
	is(t, missing.Err, kvtree.NotFound)
	if e := is(t, swapped.Err, kvtree.Changed); e.Version != put.Version || put.Version == 0 {
		t.Error(e.Version, put.Version)
	}
	if string(got.Value) != "1" || got.Version != put.Version || removed.Version != put.Version {
		t.Error(got, removed, put)
	}
	if e := is(t, long.Err, kvtree.NoRoom); e.Needed != 2000 || len(fits.Value) != 2000 {
		t.Error(e.Needed, len(fits.Value))
	}
	if added.Sum != 5 {
		t.Error(added.Sum)
	}
	b.Reset()
	b.Get([]byte("none"))
	if err := s.Run(ctx, &b); err != nil || b.Len() != 1 {
		t.Error("a key that does not exist fails the batch:", err)
	}
}

func TestColumnsInABatch(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	var many []kvtree.Column
	for id := range 33 {
		many = append(many, kvtree.Column{ID: uint8(id), Data: []byte("x")})
	}
	must[uint64](t)(s.PutColumns(ctx, []byte("many"), many))
	var b kvtree.Batch
	for round := range 3 {
		b.Reset()
		memory := make([]byte, 100)
		made := b.CompareAndSwapColumns(key, []kvtree.Column{{ID: 1, Data: []byte("one")}, {ID: 200, Data: []byte("two")}}, 0)
		all := b.GetColumnsInto(key, memory[:50])
		named := b.GetColumnsInto(key, memory[50:53], 0, 1)
		short := b.GetColumnsInto(key, memory[53:58])
		narrow := b.GetColumnsInto([]byte("many"), memory[60:])
		missing := b.GetColumnsInto([]byte("none"), memory[60:])
		late := b.CompareAndSwapColumns(key, []kvtree.Column{{ID: 1}}, 0)
		kept := b.RemoveVersion(key, 1<<60)
		is(t, s.Run(ctx, &b), kvtree.NoRoom)
		if made.Err != nil || made.Version == 0 || all.Version != made.Version {
			t.Error(made.Err, made.Version, all.Version)
		}
		if got := fmt.Sprintf("%q", all.Columns); all.Err != nil || got != `[{'\x01' "one"} {'È' "two"}]` {
			t.Error(round, got, all.Err)
		}
		if got := fmt.Sprintf("%q", named.Columns); named.Err != nil || got != `[{'\x01' "one"}]` {
			t.Error(round, got, named.Err)
		}
		if e := is(t, short.Err, kvtree.NoRoom); e.Needed != 6 {
			t.Error(e.Needed)
		}
		is(t, narrow.Err, kvtree.NoRoom)
		is(t, missing.Err, kvtree.NotFound)
		is(t, kept.Err, kvtree.Changed)
		is(t, late.Err, kvtree.Changed)
		version := made.Version
		b.Reset()
		changed := b.CompareAndSwapColumns(key, []kvtree.Column{{ID: 1}}, version)
		left := b.GetColumnsInto(key, memory)
		if err := s.Run(ctx, &b); err != nil || len(left.Columns) != 1 || string(left.Columns[0].Data) != "two" {
			t.Error(err, left.Columns)
		}
		version = changed.Version
		b.Reset()
		gone := b.RemoveVersion(key, version)
		again := b.RemoveVersion(key, version)
		is(t, s.Run(ctx, &b), kvtree.NotFound)
		if gone.Err != nil || gone.Version != version {
			t.Error(gone.Err, gone.Version)
		}
		is(t, again.Err, kvtree.NotFound)
	}
}

func TestABatchPutsColumnsAndAddsToThem(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	columns := []kvtree.Column{{ID: 1, Data: []byte("one")}, {ID: 2, Data: []byte("two")}}
	var b kvtree.Batch
	for round := range 2 {
		b.Reset()
		made := b.PutColumns(key, columns, kvtree.Create)
		added := b.AddColumn(key, 9, 5)
		again := b.PutColumns(key, columns[:1], kvtree.Create)
		b.PutColumns(key, []kvtree.Column{{ID: 1}, {ID: 3, Data: []byte{}}})
		sum := b.AddColumn(key, 9, -7)
		all := b.GetColumnsInto(key, make([]byte, 20))
		whole := b.PutColumns(key, columns[1:], kvtree.Whole)
		left := b.GetColumnsInto(key, make([]byte, 20))
		many := b.PutColumns(key, make([]kvtree.Column, kvtree.MaxColumns+1))
		b.Remove(key)
		is(t, s.Run(ctx, &b), kvtree.Exists)
		if e := is(t, again.Err, kvtree.Exists); made.Err != nil || e.Version <= made.Version {
			t.Error(made.Err, made.Version, e.Version)
		}
		if added.Sum != 5 || sum.Sum != -2 {
			t.Error(added.Sum, sum.Sum)
		}
		if got := shown(all.Columns); got != "2=two 3= 9=\xfe\xff\xff\xff\xff\xff\xff\xff" {
			t.Error(round, got)
		}
		if got := shown(left.Columns); whole.Err != nil || got != "2=two" || left.Version != whole.Version {
			t.Error(round, whole.Err, got)
		}
		is(t, many.Err, kvtree.TooLong)
	}
}

func TestWhatWasExecutedIsNotExecutedAgain(t *testing.T) {
	s := newStore(t)
	version := must[uint64](t)(s.Put(ctx, []byte("k"), []byte("theirs")))
	var b kvtree.Batch
	sum := b.Add([]byte("n"), 5)
	lost := b.CompareAndSwap([]byte("k"), []byte("mine"), version+1)
	got := b.Get([]byte("k"))
	is(t, got.Err, kvtree.NotExecuted)
	is(t, s.Run(ctx, &b), kvtree.Changed)
	if err := s.Run(ctx, &b); err != nil {
		t.Error(err)
	}
	is(t, lost.Err, kvtree.Changed)
	again := b.Add([]byte("n"), 5)
	if err := s.Run(ctx, &b); err != nil || sum.Sum != 5 || again.Sum != 10 {
		t.Error(err, sum, again)
	}
	s.Put(ctx, []byte("k"), []byte("others"))
	if string(got.Value) != "theirs" {
		t.Errorf("%s", got.Value)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	put := b.Put([]byte("k"), nil)
	is(t, s.Run(ended, &b), context.Canceled)
	is(t, put.Err, context.Canceled)
	is(t, lost.Err, kvtree.Changed)
}

func TestABatchMayBeLongerThanTheKernelTakes(t *testing.T) {
	s := newStore(t)
	var b kvtree.Batch
	const n = 3*kvtree.MaxBatch + 5
	for i := range n {
		b.Put(fmt.Appendf(nil, "a key that is long: %d", i), fmt.Appendf(nil, "%d", i))
	}
	var gets []*kvtree.Result
	for i := range n {
		gets = append(gets, b.Get(fmt.Appendf(nil, "a key that is long: %d", i)))
	}
	if err := s.Run(ctx, &b); err != nil {
		t.Fatal(err)
	}
	for i, got := range gets {
		if got.Err != nil || string(got.Value) != fmt.Sprint(i) {
			t.Fatal(i, got)
		}
	}
}

func TestMemoryIsHeldWhileTheKernelHasItsAddress(t *testing.T) {
	s := newStore(t)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	for i := range 300 {
		var b kvtree.Batch
		var gets []*kvtree.Result
		for j := range 20 {
			key := fmt.Appendf(nil, "%32d", j)
			b.Put(key, fmt.Appendf(make([]byte, 0, 100), "%d of %d", j, i))
			gets = append(gets, b.Get(fmt.Appendf(nil, "%32d", j)))
		}
		if err := s.Run(ctx, &b); err != nil {
			t.Fatal(err)
		}
		for j, got := range gets {
			if expected := fmt.Sprintf("%d of %d", j, i); string(got.Value) != expected {
				t.Fatalf("%q instead of %q", got.Value, expected)
			}
		}
	}
}

// inRange returns the keys that a scan of sorted keys should return, in its order.
func inRange(keys []string, r kvtree.Range) []string {
	var found []string
	keys = slices.Clone(keys)
	if r.Reverse {
		slices.Reverse(keys)
	}
	before := func(a, b string) bool {
		return a < b != r.Reverse && a != b
	}
	for _, key := range keys {
		if r.Prefix != nil {
			if !strings.HasPrefix(key, string(r.Prefix)) {
				continue
			}
		} else if r.Start != nil && (before(key, string(r.Start)) ||
			r.StartAfter && key == string(r.Start)) {
			continue
		} else if r.End != nil && (before(string(r.End), key) ||
			!r.EndIncluded && key == string(r.End)) {
			continue
		}
		if r.Limit > 0 && len(found) == r.Limit {
			break
		}
		found = append(found, key)
	}
	return found
}

func TestScansReturnTheirRange(t *testing.T) {
	for _, engine := range []string{"masstree", "bwtree"} {
		t.Run(engine, func(t *testing.T) {
			s, _ := create(t, kvtree.Settings{Engine: engine})
			random := rand.New(rand.NewSource(1))
			word := func() []byte {
				key := make([]byte, random.Intn(12))
				for i := range key {
					key[i] = "\x00ab\xff"[random.Intn(4)]
				}
				return key
			}
			there := map[string]bool{}
			for range 2000 {
				key := word()
				there[string(key)] = true
				must[uint64](t)(s.Put(ctx, key, append([]byte("v"), key...)))
			}
			var keys []string
			for key := range there {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			some := func() []byte {
				if random.Intn(3) == 0 {
					return nil
				}
				return word()
			}
			for range 500 {
				r := kvtree.Range{Start: some(), End: some(), Reverse: random.Intn(2) == 0,
					StartAfter: random.Intn(2) == 0, EndIncluded: random.Intn(2) == 0,
					KeysOnly: random.Intn(2) == 0, Limit: random.Intn(3) * random.Intn(300)}
				if random.Intn(3) == 0 {
					r.Prefix = word()[:0:0]
					r.Prefix = append(r.Prefix, word()...)
				}
				var got []string
				for record, err := range s.Scan(ctx, r) {
					if err != nil {
						t.Fatal(err)
					}
					if !r.KeysOnly && string(record.Value) != "v"+string(record.Key) ||
						record.Version == 0 {
						t.Fatalf("%q has %q", record.Key, record.Value)
					}
					got = append(got, string(record.Key))
					if len(got) > len(keys) {
						t.Fatalf("%+v: more records than there are", r)
					}
				}
				if expected := inRange(keys, r); !slices.Equal(got, expected) {
					t.Fatalf("%+v: %d records instead of %d", r, len(got), len(expected))
				}
			}
		})
	}
}

func TestRecordsAreTheCallers(t *testing.T) {
	s := newStore(t)
	long := make([]byte, 300_000)
	for i := range 50 {
		s.Put(ctx, fmt.Appendf(nil, "%03d", i), long[:i*6000])
		long[i] = byte(i)
	}
	var records []kvtree.Record
	for record, err := range s.Prefix(ctx, []byte("0")) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	if len(records) != 50 {
		t.Fatal(len(records))
	}
	for i, record := range records {
		if string(record.Key) != fmt.Sprintf("%03d", i) || len(record.Value) != i*6000 ||
			cap(record.Key) != 3 {
			t.Fatal(i, record.Key, len(record.Value))
		}
	}
	n := 0
	for range s.Scan(ctx, kvtree.Range{}) {
		if n++; n == 7 {
			break
		}
	}
	if n != 7 {
		t.Error("a loop that was left went on")
	}
}

func TestARangeIsCopied(t *testing.T) {
	s := newStore(t)
	for i := range 26 {
		s.Put(ctx, []byte{'a' + byte(i)}, nil)
	}
	end := []byte("d")
	records := s.Scan(ctx, kvtree.Range{End: end})
	end[0] = 'z'
	n := 0
	for range records {
		n++
	}
	if n != 3 {
		t.Error("records:", n)
	}
}

func TestScansReturnColumns(t *testing.T) {
	s := newStore(t)
	s.PutColumns(ctx, []byte("a"), []kvtree.Column{{0, []byte("0")}, {3, []byte("three")}})
	s.PutColumns(ctx, []byte("b"), []kvtree.Column{{2, []byte("two")}})
	show := func(r kvtree.Range) (said string) {
		for record, err := range s.Scan(ctx, r) {
			if err != nil {
				t.Fatal(err)
			}
			said += fmt.Sprintf("%s: %s %s;", record.Key, shown(record.Columns), record.Value)
		}
		return said
	}
	if got := show(kvtree.Range{AllColumns: true}); got != "a: 0=0 3=three ;b: 2=two ;" {
		t.Error(got)
	}
	if got := show(kvtree.Range{Columns: []uint8{2, 3}}); got != "a: 3=three ;b: 2=two ;" {
		t.Error(got)
	}
	if got := show(kvtree.Range{}); got != "a:  0;b:  ;" {
		t.Error(got)
	}
	for _, err := range s.Scan(ctx, kvtree.Range{Filter: 77}) {
		is(t, err, unix.ENXIO)
	}
}

func TestSessionsMayDoWhatTheyWereOpenedFor(t *testing.T) {
	s, name := create(t, kvtree.Settings{})
	s.Put(ctx, []byte("k"), []byte("v"))
	reader := open(t, name, kvtree.Read)
	_, err := reader.Put(ctx, []byte("k"), nil)
	is(t, err, kvtree.AccessDenied)
	is(t, err, fs.ErrPermission)
	writer := open(t, name, kvtree.Write)
	_, err = writer.Get(ctx, []byte("k"))
	is(t, err, kvtree.AccessDenied)
	for _, err = range writer.Scan(ctx, kvtree.Range{}) {
		is(t, err, kvtree.AccessDenied)
	}
}

func TestStoresAreListedAsTheyWereMade(t *testing.T) {
	s, name := create(t, kvtree.Settings{Engine: "bwtree", Mode: 0o640, UID: 7, GID: 8,
		LimitBytes: 1 << 20, LimitKeys: 3})
	var limit uint64 = 4
	var mode fs.FileMode = 0o604
	if err := kvtree.SetStore(name, kvtree.Change{LimitKeys: &limit, Mode: &mode}); err != nil {
		t.Fatal(err)
	}
	stores := must[[]kvtree.StoreInfo](t)(kvtree.Stores())
	at := slices.IndexFunc(stores, func(i kvtree.StoreInfo) bool { return i.Name == name })
	if at < 0 {
		t.Fatal("it is not listed")
	}
	listed, own := stores[at], must[kvtree.StoreInfo](t)(s.Info())
	if listed != own || own.Engine != "bwtree" || own.Mode != mode || own.UID != 7 ||
		own.GID != 8 || own.LimitBytes != 1<<20 || own.LimitKeys != 4 || own.Durable {
		t.Errorf("%+v, %+v", listed, own)
	}
	for i := range 4 {
		must[uint64](t)(s.Put(ctx, []byte{byte(i)}, nil))
	}
	_, err := s.Put(ctx, []byte("more"), nil)
	is(t, err, kvtree.LimitReached)
	if err := kvtree.DestroyStore(name); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, []byte{0})
	is(t, err, kvtree.Gone)
	var b kvtree.Batch
	get := b.Get([]byte{0})
	is(t, s.Run(ctx, &b), kvtree.Gone)
	is(t, get.Err, kvtree.Gone)
	is(t, kvtree.DestroyStore(name), kvtree.NotFound)
	is(t, kvtree.DetachStore("default"), kvtree.NotOffered)
	if module := must[*kvtree.ModuleInfo](t)(kvtree.Module()); module.ABI != 1 || module.Version == "" {
		t.Errorf("%+v", module)
	}
}

func TestCountersCount(t *testing.T) {
	s := newStore(t)
	read := func(name string) uint64 {
		stats := must[[]kvtree.Stat](t)(s.Stats())
		at := slices.IndexFunc(stats, func(stat kvtree.Stat) bool { return stat.Name == name })
		return stats[at].Value
	}
	for i := range 10 {
		s.Put(ctx, []byte{byte(i)}, nil)
		s.Get(ctx, []byte("none"))
	}
	if read("keys") != 10 || read("put") != 10 || read("get") != 10 || read("get_miss") != 10 {
		t.Error(s.Stats())
	}
	names := map[string]bool{}
	for _, stat := range must[[]kvtree.Stat](t)(s.EngineStats()) {
		if stat.Name == "" || stat.Text == "" || names[stat.Name] {
			t.Errorf("%+v", stat)
		}
		names[stat.Name] = true
	}
}

func TestAClosedStoreIsReported(t *testing.T) {
	s, _ := create(t, kvtree.Settings{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(ctx, nil)
	is(t, err, kvtree.ErrClosed)
	is(t, err, fs.ErrClosed)
	if err := s.Close(); !errors.Is(err, kvtree.ErrClosed) {
		t.Error(err)
	}
}

func descriptors(t testing.TB) int {
	return len(must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd")))
}

// Otherwise another file could get the descriptor's number in the middle of a call.
func TestClosingWaitsForCallsThatAreUnderWay(t *testing.T) {
	_, name := create(t, kvtree.Settings{})
	before := descriptors(t)
	for range 200 {
		s := must[*kvtree.Store](t)(kvtree.Open(name, kvtree.ReadWrite))
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					_, err := s.Put(ctx, []byte("k"), nil)
					if errors.Is(err, kvtree.ErrClosed) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		runtime.Gosched()
		s.Close()
		all.Wait()
	}
	if after := descriptors(t); after > before+20 {
		t.Error("descriptors before and after:", before, after)
	}
}

func TestASessionCanBePassedOn(t *testing.T) {
	s, name := create(t, kvtree.Settings{})
	reader := open(t, name, kvtree.Read)
	fd := must[int](t)(unix.Dup(reader.FD()))
	file := os.NewFile(uintptr(fd), "session")
	passed := must[*kvtree.Store](t)(kvtree.FromFile(file))
	defer passed.Close()
	file.Close()
	s.Put(ctx, []byte("k"), []byte("v"))
	if value := must[[]byte](t)(passed.Get(ctx, []byte("k"))); string(value) != "v" {
		t.Error(value)
	}
	_, err := passed.Put(ctx, []byte("k"), nil)
	is(t, err, kvtree.AccessDenied)
	null := must[*os.File](t)(os.Open("/dev/null"))
	defer null.Close()
	_, err = kvtree.FromFile(nil)
	is(t, err, os.ErrInvalid)
	_, err = kvtree.FromFile(null)
	is(t, err, unix.ENOTTY)
}

func TestABatchPutsValuesWhereItIsTold(t *testing.T) {
	s := newStore(t)
	long := strings.Repeat("v", 3000)
	var b kvtree.Batch
	for round := range 3 {
		b.Reset()
		b.Put([]byte("k"), []byte(fmt.Sprint("value", round)))
		b.Put([]byte("a long key, longer than an operation"), []byte(long))
		if err := s.Run(ctx, &b); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		memory := make([]byte, 100)
		value := b.GetInto([]byte("k"), memory[10:20])
		short := b.GetInto([]byte("a long key, longer than an operation"), memory[50:])
		none := b.GetInto([]byte("k"), nil)
		missing := b.GetInto([]byte("nothing"), memory[:10])
		if !errors.Is(value.Err, kvtree.NotExecuted) {
			t.Error(value.Err)
		}
		if err := s.Run(ctx, &b); !errors.Is(err, kvtree.NoRoom) {
			t.Error(err)
		}
		want := fmt.Sprint("value", round)
		if value.Err != nil || string(value.Value) != want || string(memory[10:16]) != want || memory[9] != 0 || memory[16] != 0 {
			t.Errorf("%q %v %q", value.Value, value.Err, memory[:30])
		}
		for result, needed := range map[*kvtree.Result]int{short: len(long), none: len(want)} {
			var e *kvtree.Error
			if !errors.As(result.Err, &e) || e.Err != kvtree.NoRoom || e.Needed != needed {
				t.Error(result.Err)
			}
		}
		if !errors.Is(missing.Err, kvtree.NotFound) {
			t.Error(missing.Err)
		}
	}
}

// Nothing is written beyond a value, whatever its length.
func TestNothingIsWrittenBeyondAValue(t *testing.T) {
	s := newStore(t)
	key := []byte("k")
	var b kvtree.Batch
	for n := range 100 {
		value := bytes.Repeat([]byte("v"), n)
		must[uint64](t)(s.Put(ctx, key, value))
		want := append(bytes.Clone(value), bytes.Repeat([]byte("."), 100-n)...)
		alone, first, second := bytes.Repeat([]byte("."), 100), bytes.Repeat([]byte("."), 100), bytes.Repeat([]byte("."), 100)
		b.Reset()
		b.GetInto(key, first[:n])
		b.GetInto(key, second)
		if err := s.Run(ctx, &b); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Append(ctx, alone[:0], key); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(alone, want) || !bytes.Equal(first, want) || !bytes.Equal(second, want) {
			t.Errorf("%d bytes: %q %q %q", n, alone, first, second)
		}
	}
}

// In a reused batch, looking up a missing key allocates as little as looking up an existing one.
func TestAMissingKeyTakesNoMemory(t *testing.T) {
	s := newStore(t)
	must[uint64](t)(s.Put(ctx, []byte("k"), []byte("v")))
	var b kvtree.Batch
	memory := make([]byte, 10)
	allocations := func(key string) float64 {
		return testing.AllocsPerRun(100, func() {
			b.Reset()
			for range 10 {
				b.GetInto([]byte(key), memory)
			}
			s.Run(ctx, &b)
		})
	}
	if found, missing := allocations("k"), allocations("none"); missing > found {
		t.Error(found, missing)
	}
}
