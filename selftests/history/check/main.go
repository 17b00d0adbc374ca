// SPDX-License-Identifier: GPL-2.0

// check FILE...: decide whether histories that ../history has recorded are linearizable, key
// by key, with porcupine.  Prints KTAP, a result for each file, and leaves a picture of the
// history of each key that is not beside the file.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

// key is one key of one round.
type key struct {
	round uint32
	key   uint16
}

func (k key) String() string {
	return fmt.Sprintf("round %d key %d", k.round, k.key)
}

func byKey(events []event) map[key][]*event {
	keys := make(map[key][]*event)
	for i := range events {
		k := key{events[i].Round, events[i].Key}
		keys[k] = append(keys[k], &events[i])
	}
	return keys
}

func operations(events []*event) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, e := range events {
		if e.outcome() == nothing {
			continue
		}
		ops = append(ops, porcupine.Operation{
			ClientId: int(e.Worker),
			Input:    e,
			Call:     int64(e.Call),
			Return:   int64(e.Ret),
		})
	}
	return ops
}

// A version is given out once, also if what had it is lost in a crash.
func versionsDiffer(events []*event) error {
	made := make(map[uint64]*event)
	for _, e := range events {
		changes := e.Op != opGet && e.Op != opRemove && e.Op != opRemoveAt
		if !changes || (e.Result != 0 && e.outcome() != maybe) {
			continue
		}
		if other := made[e.Version]; other != nil {
			return fmt.Errorf("two changes have version %d: %v, and %v", e.Version, other, e)
		}
		made[e.Version] = e
	}
	return nil
}

// processorTime is the CPU time that the program has used so far.
func processorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// decide looks for an order, for so much of the processors' time: on a machine that has much
// else to do, that is more by the clock, which is all that porcupine knows.
func decide(ops []porcupine.Operation, limit time.Duration) (porcupine.CheckResult,
	porcupine.LinearizationInfo) {
	end := processorTime() + limit*time.Duration(runtime.NumCPU())
	for clock := limit; ; clock *= 2 {
		result, info := porcupine.CheckOperationsVerbose(model(), ops, clock)
		if result != porcupine.Unknown || processorTime() >= end {
			return result, info
		}
	}
}

func checkKey(k key, events []*event, limit time.Duration, picture string) error {
	if err := versionsDiffer(events); err != nil {
		return err
	}
	ops := operations(events)
	result, info := decide(ops, limit)
	if result == porcupine.Ok {
		return nil
	}
	if err := porcupine.VisualizePath(model(), info, picture); err != nil {
		return err
	}
	if result == porcupine.Unknown {
		return fmt.Errorf("undecided after %v, see %s", limit, picture)
	}
	return fmt.Errorf("not linearizable, see %s", picture)
}

// checkAll checks each key, several at a time.
func checkAll(keys map[key][]*event, limit time.Duration, path string) []string {
	var (
		failed []string
		lock   sync.Mutex
		group  sync.WaitGroup
		queue  = make(chan key)
	)
	for n := runtime.NumCPU(); n > 0; n-- {
		group.Add(1)
		go func() {
			defer group.Done()
			for k := range queue {
				picture := fmt.Sprintf("%s-%d-%d.html", path, k.round, k.key)
				if err := checkKey(k, keys[k], limit, picture); err != nil {
					lock.Lock()
					failed = append(failed, fmt.Sprintf("%v: %v", k, err))
					lock.Unlock()
				}
			}
		}()
	}
	for k := range keys {
		queue <- k
	}
	close(queue)
	group.Wait()
	sort.Strings(failed)
	return failed
}

// counts summarizes the history: how often each operation succeeded and failed.
func counts(events []event) (string, int) {
	var did, refused [opCount]int
	lost := 0
	for i := range events {
		e := &events[i]
		switch {
		case e.outcome() == nothing || e.outcome() == maybe:
			lost++
		case e.Result == 0:
			did[e.Op]++
		default:
			refused[e.Op]++
		}
	}
	text, missing := "", 0
	for op := range did {
		text += fmt.Sprintf("%s %d/%d, ", opNames[op], did[op], refused[op])
		if did[op] == 0 || (refused[op] == 0 && op != opPut) {
			missing++
		}
	}
	return fmt.Sprintf("%sunanswered %d", text, lost), missing
}

// check returns what is wrong with a file's history.
func check(path string, limit time.Duration) []string {
	events, err := readEvents(path)
	if err != nil {
		return []string{err.Error()}
	}
	keys := byKey(events)
	text, missing := counts(events)
	fmt.Printf("# %s: %d operations on %d keys: %s\n", path, len(events), len(keys), text)
	if missing > 0 {
		return []string{fmt.Sprintf("%d kinds of answers never came", missing)}
	}
	return checkAll(keys, limit, path)
}

func main() {
	limit := flag.Duration("limit", time.Minute, "processor time for one key")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: check [-limit TIME] FILE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Printf("KTAP version 1\n1..%d\n", flag.NArg())
	status := 0
	for i, path := range flag.Args() {
		failed := check(path, *limit)
		ok := "ok"
		if len(failed) > 0 {
			ok, status = "not ok", 1
		}
		for _, text := range failed {
			fmt.Printf("# %s\n", text)
		}
		fmt.Printf("%s %d %s_is_linearizable\n", ok, i+1, name(path))
	}
	os.Exit(status)
}

// name is the name of a result: the file without folder and suffix.
func name(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}
