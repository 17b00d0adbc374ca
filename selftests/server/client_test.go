// SPDX-License-Identifier: GPL-2.0

// Package server has a client use kvtree-server: github.com/redis/go-redis, as it is.
//
// KVT_SERVER_SOCKET is where the server listens; its databases 0 and 1 are for these tests
// alone. Every test begins with an empty database 0.
package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func connect(t *testing.T, options redis.Options) *redis.Client {
	t.Helper()
	options.Network = "unix"
	options.Addr = os.Getenv("KVT_SERVER_SOCKET")
	if options.Addr == "" {
		t.Skip("no KVT_SERVER_SOCKET")
	}
	// A command that fails is to be seen, and not to be tried again.
	options.MaxRetries = -1
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	return client
}

// each runs a test in both versions of the protocol.
func each(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			client := connect(t, redis.Options{Protocol: protocol})
			if err := client.FlushDB(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, client)
		})
	}
}

// want compares an answer.
func want[T any](t *testing.T, wanted T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("got %#v, %v, not %#v", got, err, wanted)
		}
	}
}

// wantNil is for what does not exist.
func wantNil[T any](t *testing.T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != redis.Nil {
			t.Errorf("got %#v, %v, and not nothing", got, err)
		}
	}
}

// wantError is for what is refused.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, and not an answer with %q", err, text)
	}
}

func TestStrings(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		wantNil[string](t)(c.Get(ctx, "key").Result())
		want(t, "OK")(c.Set(ctx, "key", "a\x00\r\n\xff", 0).Result())
		want(t, "a\x00\r\n\xff")(c.Get(ctx, "key").Result())
		want(t, int64(5))(c.StrLen(ctx, "key").Result())
		want(t, "OK")(c.MSet(ctx, "one", 1, "two", "").Result())
		want(t, []any{"1", nil, ""})(c.MGet(ctx, "one", "none", "two").Result())
		want(t, false)(c.SetNX(ctx, "one", "no", 0).Result())
		want(t, true)(c.SetNX(ctx, "new", "yes", 0).Result())
		want(t, true)(c.SetXX(ctx, "new", "also", 0).Result())
		want(t, "also")(c.SetArgs(ctx, "new", "more", redis.SetArgs{Get: true}).Result())
		want(t, "more")(c.GetSet(ctx, "new", "last").Result())
		want(t, "last")(c.GetDel(ctx, "new").Result())
		wantNil[string](t)(c.GetDel(ctx, "new").Result())
		want(t, int64(3))(c.Append(ctx, "text", "abc").Result())
		want(t, int64(6))(c.Append(ctx, "text", "def").Result())
		want(t, "cde")(c.GetRange(ctx, "text", 2, 4).Result())
		want(t, int64(6))(c.SetRange(ctx, "text", 1, "XY").Result())
		want(t, "aXYdef")(c.Get(ctx, "text").Result())
	})
}

func TestNumbers(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		want(t, int64(1))(c.Incr(ctx, "n").Result())
		want(t, int64(0))(c.Decr(ctx, "n").Result())
		want(t, int64(40))(c.IncrBy(ctx, "n", 40).Result())
		want(t, int64(-2))(c.DecrBy(ctx, "n", 42).Result())
		want(t, -2)(c.Get(ctx, "n").Int())
		c.Set(ctx, "n", "many", 0)
		wantError(t, c.Incr(ctx, "n").Err(), "not an integer")
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		c.MSet(ctx, "one", 1, "two", 2, "three", 3)
		c.HSet(ctx, "hash", "field", "value")
		want(t, int64(3))(c.Exists(ctx, "one", "one", "hash", "none").Result())
		want(t, "string")(c.Type(ctx, "one").Result())
		want(t, "hash")(c.Type(ctx, "hash").Result())
		want(t, "none")(c.Type(ctx, "none").Result())
		want(t, int64(4))(c.DBSize(ctx).Result())
		want(t, int64(2))(c.Del(ctx, "one", "hash", "none").Result())
		want(t, int64(1))(c.Unlink(ctx, "two").Result())
		want(t, "OK")(c.FlushDB(ctx).Result())
		want(t, int64(0))(c.DBSize(ctx).Result())
	})
}

func TestHashes(t *testing.T) {
	type person struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	each(t, func(t *testing.T, c *redis.Client) {
		want(t, int64(2))(c.HSet(ctx, "hash", person{"Ada", 36}).Result())
		var p person
		if err := c.HGetAll(ctx, "hash").Scan(&p); err != nil || p != (person{"Ada", 36}) {
			t.Error(p, err)
		}
		want(t, "Ada")(c.HGet(ctx, "hash", "name").Result())
		wantNil[string](t)(c.HGet(ctx, "hash", "none").Result())
		want(t, []any{"36", nil})(c.HMGet(ctx, "hash", "age", "none").Result())
		want(t, int64(37))(c.HIncrBy(ctx, "hash", "age", 1).Result())
		want(t, true)(c.HExists(ctx, "hash", "age").Result())
		want(t, false)(c.HSetNX(ctx, "hash", "age", "no").Result())
		want(t, int64(2))(c.HLen(ctx, "hash").Result())
		want(t, map[string]string{"name": "Ada", "age": "37"})(c.HGetAll(ctx, "hash").Result())
		want(t, map[string]string{})(c.HGetAll(ctx, "none").Result())
		keys, err := c.HKeys(ctx, "hash").Result()
		slices.Sort(keys)
		want(t, []string{"age", "name"})(keys, err)
		vals, err := c.HVals(ctx, "hash").Result()
		slices.Sort(vals)
		want(t, []string{"37", "Ada"})(vals, err)
		want(t, int64(2))(c.HDel(ctx, "hash", "name", "age", "none").Result())
		want(t, int64(0))(c.Exists(ctx, "hash").Result())
		c.Set(ctx, "string", "value", 0)
		wantError(t, c.HGet(ctx, "string", "field").Err(), "WRONGTYPE")
	})
}

func TestScanFindsEachKeyOnce(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		var wanted, found []string
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := 1000; i < 3000; i++ {
				key := fmt.Sprint("user:", i)
				wanted = append(wanted, key)
				p.Set(ctx, key, i, 0)
				p.Set(ctx, "other:"+key, i, 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		it := c.Scan(ctx, 0, "user:*", 50).Iterator()
		for it.Next(ctx) {
			found = append(found, it.Val())
		}
		slices.Sort(found)
		want(t, wanted)(found, it.Err())
	})
}

func TestPipelineAnswersInOrder(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		type answer struct {
			got  *redis.StringCmd
			next *redis.IntCmd
		}
		var answers []answer
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 1000 {
				key := fmt.Sprint("key", i%10)
				p.Set(ctx, key, i, 0)
				answers = append(answers, answer{p.Get(ctx, key), p.Incr(ctx, key)})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			want(t, i)(a.got.Int())
			want(t, int64(i+1))(a.next.Result())
		}
	})
}

// go-redis' TxPipelined is MULTI and EXEC.
func TestTransactionsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "key", "value", 0)
			return nil
		})
		wantError(t, err, "kvtree-server has no MULTI")
		want(t, "PONG")(c.Ping(ctx).Result())
	})
}

func TestClientsLoseNoIncrement(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		const clients, times = 8, 200
		var running sync.WaitGroup
		for range clients {
			running.Add(1)
			go func() {
				defer running.Done()
				for range times {
					if err := c.Incr(ctx, "n").Err(); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		running.Wait()
		want(t, clients*times)(c.Get(ctx, "n").Int())
	})
}

// A call that was cancelled closes its connection: what it was answered is nobody else's.
func TestCancelledCallsMixUpNothing(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		// One connection, with what was sent beforehand.
		conn := connect(t, redis.Options{Protocol: c.Options().Protocol, PoolSize: 1,
			ContextTimeoutEnabled: true})
		for i := range 200 {
			key := fmt.Sprint("key", i)
			short, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, err := conn.Get(short, "none").Result()
				if err == nil || got != "" {
					t.Errorf("got %q, %v", got, err)
				}
			}()
			cancel()
			<-done
			want(t, "OK")(conn.Set(ctx, key, i, 0).Result())
			want(t, i)(conn.Get(ctx, key).Int())
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := conn.Ping(ended).Err(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want(t, "PONG")(conn.Ping(ctx).Result())
	})
}

func TestConnections(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		named := connect(t, redis.Options{Protocol: c.Options().Protocol, ClientName: "somebody"})
		want(t, "somebody")(named.ClientGetName(ctx).Result())
		list, err := c.ClientList(ctx).Result()
		if err != nil || !strings.Contains(list, "name=somebody") {
			t.Errorf("got %q, %v", list, err)
		}
		want[any](t, "hello")(c.Do(ctx, "echo", "hello").Result())
		info, err := c.Info(ctx, "server").Result()
		if err != nil || !strings.Contains(info, "redis_version:") {
			t.Errorf("got %q, %v", info, err)
		}
		if commands, err := c.Command(ctx).Result(); err != nil || commands["get"] == nil {
			t.Errorf("got %v, %v", commands, err)
		}
		if at, err := c.Time(ctx).Result(); err != nil || at.Unix() <= 0 {
			t.Errorf("got %v, %v", at, err)
		}
	})
}

func TestDatabasesAreApart(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client) {
		other := connect(t, redis.Options{Protocol: c.Options().Protocol, DB: 1})
		t.Cleanup(func() { other.FlushDB(ctx) })
		want(t, "OK")(other.Set(ctx, "key", "other", 0).Result())
		wantNil[string](t)(c.Get(ctx, "key").Result())
		none := connect(t, redis.Options{Protocol: c.Options().Protocol, DB: 99})
		if err := none.Ping(ctx).Err(); err == nil {
			t.Error("there is a database 99")
		}
	})
}
