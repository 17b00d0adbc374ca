// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"kvtree"
)

func Example() {
	ctx := context.Background()
	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Put(ctx, []byte("hello"), []byte("world")); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get(ctx, []byte("hello"))
	fmt.Printf("%s %v\n", value, err)
	_, err = store.Remove(ctx, []byte("hello"))
	fmt.Println(err)
	_, err = store.Get(ctx, []byte("hello"))
	fmt.Println(err)
	// Output:
	// world <nil>
	// <nil>
	// kvtree: get "hello": not found
}

func ExampleStore_CompareAndSwap() {
	ctx := context.Background()
	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	key := []byte("config")
	version, err := store.CompareAndSwap(ctx, key, []byte("a"), 0)
	fmt.Println("created:", err)
	_, err = store.CompareAndSwap(ctx, key, []byte("b"), version)
	fmt.Println("changed:", err)
	_, err = store.CompareAndSwap(ctx, key, []byte("c"), version)
	fmt.Println("somebody else changed it:", errors.Is(err, kvtree.Changed))
	store.Remove(ctx, key)
	// Output:
	// created: <nil>
	// changed: <nil>
	// somebody else changed it: true
}

func ExampleStore_Scan() {
	ctx := context.Background()
	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	var batch kvtree.Batch
	for i := range 5 {
		batch.Put(fmt.Appendf(nil, "fruit/%d", i), []byte("an apple"))
	}
	if err := store.Run(ctx, &batch); err != nil {
		log.Fatal(err)
	}
	fruit := kvtree.Range{Prefix: []byte("fruit/"), Reverse: true, Limit: 2}
	for record, err := range store.Scan(ctx, fruit) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", record.Key, record.Value)
	}
	batch.Reset()
	for i := range 5 {
		batch.Remove(fmt.Appendf(nil, "fruit/%d", i))
	}
	fmt.Println(store.Run(ctx, &batch))
	// Output:
	// fruit/4: an apple
	// fruit/3: an apple
	// <nil>
}

func ExampleStore_Add() {
	ctx := context.Background()
	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	store.Add(ctx, []byte("visits"), 1)
	sum, err := store.Add(ctx, []byte("visits"), 41)
	fmt.Println(sum, err)
	store.Remove(ctx, []byte("visits"))
	// Output: 42 <nil>
}

func ExampleStore_PutColumns() {
	ctx := context.Background()
	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	const name, city = 1, 2
	user := []byte("user/1001")
	_, err = store.PutColumns(ctx, user, []kvtree.Column{
		{ID: name, Data: []byte("Ada")},
		{ID: city, Data: []byte("London")},
	})
	fmt.Println("stored:", err)
	// Change one column, and leave the others.
	_, err = store.PutColumns(ctx, user, []kvtree.Column{{ID: city, Data: []byte("Paris")}})
	fmt.Println("moved:", err)
	columns, _, err := store.GetColumns(ctx, user)
	if err != nil {
		log.Fatal(err)
	}
	for _, column := range columns {
		fmt.Printf("%d: %s\n", column.ID, column.Data)
	}
	store.Remove(ctx, user)
	// Output:
	// stored: <nil>
	// moved: <nil>
	// 1: Ada
	// 2: Paris
}

func ExampleStores() {
	settings := kvtree.Settings{Engine: "bwtree", Mode: 0o640, LimitKeys: 1000}
	if err := kvtree.CreateStore("example-orders", settings); err != nil {
		log.Fatal(err)
	}
	defer kvtree.DestroyStore("example-orders")
	stores, err := kvtree.Stores()
	if err != nil {
		log.Fatal(err)
	}
	for _, store := range stores {
		if strings.HasPrefix(store.Name, "example-") {
			fmt.Printf("%s: %s, %v, %d of %d keys\n", store.Name, store.Engine, store.Mode,
				store.Keys, store.LimitKeys)
		}
	}
	// Output: example-orders: bwtree, -rw-r-----, 0 of 1000 keys
}

func ExampleStore_Stats() {
	ctx := context.Background()
	if err := kvtree.CreateStore("example-stats", kvtree.Settings{}); err != nil {
		log.Fatal(err)
	}
	defer kvtree.DestroyStore("example-stats")
	store, err := kvtree.Open("example-stats", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	store.Put(ctx, []byte("a"), []byte("1"))
	store.Put(ctx, []byte("a"), []byte("2"))
	store.Get(ctx, []byte("b"))
	stats, err := store.Stats()
	if err != nil {
		log.Fatal(err)
	}
	for _, stat := range stats {
		switch stat.Name {
		case "keys", "put", "get_miss":
			fmt.Printf("%s: %d (%s)\n", stat.Name, stat.Value, stat.Text)
		}
	}
	// Output:
	// keys: 1 (keys in the store)
	// get_miss: 1 (gets of a key that did not exist)
	// put: 2 (puts)
}
