// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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
