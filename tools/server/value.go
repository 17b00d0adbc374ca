// SPDX-License-Identifier: GPL-2.0

package main

import (
	"context"
	"errors"

	"kvtree"
)

// A string is column 0 of a value; a value without column 0 is a hash.

var (
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	errContended = errors.New("ERR too many clients change this key at once: try again")
)

// A value of this length is too long to be read for a short answer on a loop.
const heavyValue = 64 << 10

// Retries of a change because others changed the same key.
const mostTries = 1000

// value reads a string.
func (c *client) value(key []byte) ([]byte, uint64, error) {
	value, version, err := c.store().GetVersion(context.Background(), key)
	c.heavy = c.heavy || len(value) > heavyValue
	if err != nil || len(value) > 0 {
		return value, version, err
	}
	return c.columnZero(key)
}

// columnZero reads a string, and distinguishes an empty one from a hash.
func (c *client) columnZero(key []byte) ([]byte, uint64, error) {
	columns, version, err := c.store().GetColumns(context.Background(), key, 0)
	if err != nil {
		return nil, 0, err
	}
	if len(columns) == 0 {
		return nil, version, errWrongType
	}
	return columns[0].Data, version, nil
}

// current is value, but returns nil and version 0 for a missing key.
func (c *client) current(key []byte) ([]byte, uint64, error) {
	value, version, err := c.value(key)
	if errors.Is(err, kvtree.NotFound) {
		return nil, 0, nil
	}
	return value, version, err
}

// retry calls a function that reads a key and changes that version, again if others changed it
// meanwhile.
func (c *client) retry(change func() error) error {
	for range mostTries {
		err := change()
		if !errors.Is(err, kvtree.Changed) && !errors.Is(err, kvtree.Exists) {
			return err
		}
	}
	return errContended
}

// removeVersion removes a key. If the key is gone, it has changed.
func (c *client) removeVersion(key []byte, version uint64) error {
	err := c.store().RemoveVersion(context.Background(), key, version, c.rights.store.durable)
	if errors.Is(err, kvtree.NotFound) {
		return kvtree.Changed
	}
	return err
}
