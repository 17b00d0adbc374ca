// SPDX-License-Identifier: GPL-2.0

package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"kvtree"
)

const mostWaiting = 256

// A database is a store, with the number that SELECT uses.
type database struct {
	number int
	name   string
	when   string     // always, async or "": when changes are answered
	mutex  sync.Mutex // held to reopen the store
	opened atomic.Pointer[opened]
	// One slot for each change that may wait for disks: each blocks a thread.
	waiting chan struct{}
	*cursors
}

// opened is an open store.
type opened struct {
	*kvtree.Store
	info     kvtree.StoreInfo
	readOnly bool        // for the server
	durable  kvtree.Flag // flag of each change
}

func open(name, when string) (*opened, error) {
	store, err := kvtree.Open(name, kvtree.ReadWrite)
	readOnly := errors.Is(err, kvtree.AccessDenied) || errors.Is(err, kvtree.ReadOnly)
	if readOnly {
		store, err = kvtree.Open(name, kvtree.Read)
	}
	if err != nil {
		return nil, err
	}
	info, err := store.Info()
	if err != nil {
		store.Close()
		return nil, err
	}
	o := &opened{Store: store, info: info, readOnly: readOnly || info.ReadOnly}
	if info.Durable && when != "async" {
		o.durable = kvtree.Durable
	}
	return o, nil
}

// newDatabase opens the store of a database. when is always, async or "": when to answer changes.
func newDatabase(number int, name, when string) (*database, error) {
	db := &database{number: number, name: name, when: when, cursors: newCursors(number),
		waiting: make(chan struct{}, mostWaiting)}
	o, err := open(name, when)
	if errors.Is(err, kvtree.NotFound) {
		return nil, fmt.Errorf("there is no store %s: see \"kvtree store create\" and \"kvtree store attach\"", name)
	} else if errors.Is(err, kvtree.AccessDenied) {
		return nil, fmt.Errorf("%w: run the server as root", err)
	} else if err != nil {
		return nil, err
	}
	db.opened.Store(o)
	if when == "always" && !o.info.Durable {
		return nil, fmt.Errorf("--durable always: the store %s is volatile", name)
	}
	return db, nil
}

// synced reports whether changes are durable when they are answered.
func (db *database) synced() bool {
	o := db.opened.Load()
	return o.durable != 0 || o.info.Sync
}

// waitsFor makes a change, which may wait for a disk. Each waiting change blocks a thread, so their
// number is limited.
func (db *database) waitsFor(store *opened, change func() error) error {
	if store.info.Durable {
		db.waiting <- struct{}{}
		defer func() { <-db.waiting }()
	}
	return change()
}

// again opens the store that now has the name of one that is gone. It does not replace a durable
// store by a volatile one.
func (db *database) again(gone *opened) {
	if !db.mutex.TryLock() {
		return
	}
	defer db.mutex.Unlock()
	if db.opened.Load() != gone {
		return
	}
	o, err := open(db.name, db.when)
	if err != nil {
		return
	}
	if gone.info.Durable && !o.info.Durable {
		o.Close()
		return
	}
	// Others may still use the old one: it is closed with its last reference.
	db.opened.Store(o)
}
