// SPDX-License-Identifier: GPL-2.0

package main

import "kvtree"

// A record is the value of a key as it was read, and as commands have changed it since. Its memory
// is its own: a command may change a string in its place.
type record struct {
	version uint64          // that was read; 0: the key is not there
	columns []kvtree.Column // that were read
	text    []byte          // a string; nil: it is none
	hash    *hash           // since a command has asked for it
	changed bool            // the string
}

func newRecord(columns []kvtree.Column, version uint64) record {
	r := record{version: version, columns: columns}
	if len(columns) > 0 && columns[0].ID == 0 {
		r.text = nonNil(columns[0].Data)
	}
	return r
}

// asString is the string that a key has; nil if the key is not there.
func (r *record) asString() ([]byte, error) {
	if r.text == nil && (r.version != 0 || !r.isEmpty()) {
		return nil, errWrongType
	}
	return r.text, nil
}

// setString changes the string, and returns how long it is.
func (r *record) setString(text []byte) int64 {
	r.text, r.changed = nonNil(text), true
	return int64(len(text))
}

// asHash is the hash that a key has, to be changed; without fields if the key is not there.
func (r *record) asHash() (*hash, error) {
	if r.text != nil {
		return nil, errWrongType
	}
	if r.hash == nil {
		h, err := newHash(r.columns)
		if err != nil {
			return nil, err
		}
		r.hash = h
	}
	return r.hash, nil
}

// isEmpty says whether all fields are removed, or none was made.
func (r *record) isEmpty() bool {
	return r.text == nil && (r.hash == nil || len(r.hash.fields) == 0)
}

// size is how long it is.
func (r *record) size() int {
	n := len(r.text)
	if r.hash != nil {
		for i := range r.hash.fields {
			n += nameLength + len(r.hash.fields[i].name) + len(r.hash.fields[i].value)
		}
	}
	return n
}

// isChanged says whether there may be something to store.
func (r *record) isChanged() bool {
	return r.changed || r.hash != nil && r.hash.isChanged
}

// isRemoved says whether the key is to be removed.
func (r *record) isRemoved() bool {
	return r.version != 0 && r.isChanged() && r.isEmpty()
}

// store has a batch make the changes, if nobody else has made others. Other columns of a string,
// which only other programs can have made, stay. It returns nil if nothing is to be stored.
func (r *record) store(b *kvtree.Batch, key []byte) *kvtree.Result {
	switch {
	case r.isRemoved():
		return b.RemoveVersion(key, r.version)
	case r.changed:
		return b.CompareAndSwapColumns(key, []kvtree.Column{{ID: 0, Data: r.text}}, r.version)
	case r.isChanged() && !r.isEmpty():
		return b.CompareAndSwapColumns(key, r.hash.columns(), r.version)
	}
	return nil
}

// stored is told that the changes are made.
func (r *record) stored(version uint64) {
	if r.isRemoved() {
		version = 0
	}
	r.version, r.changed = version, false
	if r.hash != nil {
		r.hash.unchange()
	}
}
