// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

/*
Package kvtree is the Go interface to kvtree, the ordered key-value index that lives in the
kernel and is shared by processes and BPF programs. It needs no cgo.

	store, err := kvtree.Open("", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	_, err = store.Put(ctx, []byte("hello"), []byte("world"))
	value, err := store.Get(ctx, []byte("hello"))

Keys and values are any bytes. Keys are ordered as bytes.Compare orders them. Every value has
a version, a number above 0, and each change of a key gives it a greater one, also when the
key is removed and stored again.

All methods of a Store may be called by any number of goroutines. A Batch belongs to one at a
time. What is passed to a call may be changed once it has returned; what was returned is the
caller's.

# Contexts

A context that has ended fails each call before it does anything. Reads, and changes of
volatile stores, are short, and are not interrupted. What may have to wait for a disk (Sync,
changes of a durable store, attaching) is left alone when its context ends: the call returns
the context's error at once, and what it was to do may still be done. While 64 or more calls of
a store that were left like that are under way, others that may have to wait, and whose context
can end, wait until there are fewer, or until their own context ends. With a context that cannot end, such as
context.Background, a call costs least, and is made by the caller's goroutine at once.
*/
package kvtree
