// SPDX-License-Identifier: GPL-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ring connects as Documentation/several-machines.rst has it. KVT_SERVER_RING is the addresses
// of the servers, and KVT_SERVER_PASSWORD their password.
func ring(t *testing.T) *redis.Ring {
	t.Helper()
	addresses := os.Getenv("KVT_SERVER_RING")
	if addresses == "" {
		t.Skip("no KVT_SERVER_RING")
	}
	shards := map[string]string{}
	for n, address := range strings.Fields(addresses) {
		shards[fmt.Sprint("shard ", n)] = address
	}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:              shards,
		Password:           os.Getenv("KVT_SERVER_PASSWORD"),
		HeartbeatFrequency: 100 * 365 * 24 * time.Hour,
		MaxRetries:         -1,
		// An emulated machine may need longer for an answer.
		DialTimeout: time.Minute,
		ReadTimeout: time.Minute,
	})
	t.Cleanup(func() { ring.Close() })
	return ring
}

// keysOf returns the keys that each shard has, in any order.
func keysOf(t *testing.T, ring *redis.Ring, pattern string) [][]string {
	t.Helper()
	var mutex sync.Mutex
	keys := [][]string{}
	err := ring.ForEachShard(ctx, func(ctx context.Context, shard *redis.Client) error {
		here := []string{}
		scan := shard.Scan(ctx, 0, pattern, 1000).Iterator()
		for scan.Next(ctx) {
			here = append(here, scan.Val())
		}
		mutex.Lock()
		defer mutex.Unlock()
		keys = append(keys, here)
		return scan.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestRingDistributesKeys(t *testing.T) {
	const keys = 300
	ring := ring(t)
	wanted := []string{}
	set, err := ring.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range keys {
			wanted = append(wanted, fmt.Sprint("ring:", n))
			pipe.Set(ctx, wanted[n], n, 0)
		}
		return nil
	})
	if err != nil || len(set) != keys {
		t.Fatal(len(set), "answers:", err)
	}
	for n, key := range wanted {
		want(t, fmt.Sprint(n))(ring.Get(ctx, key).Result())
	}
	// Each server has some, and each key is on one.
	got := []string{}
	for _, here := range keysOf(t, ring, "ring:*") {
		if len(here) < keys/10 {
			t.Errorf("one has %d keys", len(here))
		}
		got = append(got, here...)
	}
	slices.Sort(wanted)
	slices.Sort(got)
	if !slices.Equal(got, wanted) {
		t.Errorf("the shards have %v", got)
	}
}

func TestRingKeepsTagsTogether(t *testing.T) {
	ring := ring(t)
	for n := range 20 {
		if err := ring.Set(ctx, fmt.Sprintf("ring-tag:{ada}:%d", n), n, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	counts := []int{}
	for _, here := range keysOf(t, ring, "ring-tag:*") {
		counts = append(counts, len(here))
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{0, 0, 20}) {
		t.Errorf("the shards have %v of the keys", counts)
	}
}

// KVT_SERVER_RING_DEAD is keys of TestRingDistributesKeys, on a server that does not run.
func TestRingMovesNoKeysOfADeadServer(t *testing.T) {
	dead := strings.Fields(os.Getenv("KVT_SERVER_RING_DEAD"))
	if len(dead) == 0 {
		t.Skip("no KVT_SERVER_RING_DEAD")
	}
	ring := ring(t)
	alive := 0
	for slices.Contains(dead, fmt.Sprint("ring:", alive)) {
		alive++
	}
	for round := range 2 {
		// With the default it is found dead after three heartbeats of half a second.
		time.Sleep(time.Duration(4*round) * time.Second)
		for _, key := range dead[:min(len(dead), 5)] {
			if value, err := ring.Get(ctx, key).Result(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("GET %s: %q, %v", key, value, err)
			}
			if err := ring.Set(ctx, key, "moved", 0).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("SET %s: %v", key, err)
			}
		}
		want(t, fmt.Sprint(alive))(ring.Get(ctx, fmt.Sprint("ring:", alive)).Result())
	}
}
