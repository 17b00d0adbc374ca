// SPDX-License-Identifier: GPL-2.0

package main

import "kvtree"

// A record is the value of a key as read, with the changes of commands since then. It owns its
// memory: a command may change a string in place.
type record struct {
	version uint64          // as read; 0: the key does not exist
	columns []kvtree.Column // as read
	text    []byte          // the string; nil: it is not a string
	hash    *hash           // once a command needs it
	changed bool            // the string was changed
}

func newRecord(columns []kvtree.Column, version uint64) record {
	r := record{version: version, columns: columns}
	if len(columns) > 0 && columns[0].ID == 0 {
		r.text = nonNil(columns[0].Data)
	}
	return r
}

// asString returns the key's string; nil if the key does not exist.
func (r *record) asString() ([]byte, error) {
	if r.text == nil && (r.version != 0 || !r.isEmpty()) {
		return nil, errWrongType
	}
	return r.text, nil
}

// setString changes the string, and returns its length.
func (r *record) setString(text []byte) int64 {
	r.text, r.changed = nonNil(text), true
	return int64(len(text))
}

// asHash returns the key's hash, to be changed; empty if the key does not exist.
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

// isEmpty reports whether the hash has no fields.
func (r *record) isEmpty() bool {
	return r.text == nil && (r.hash == nil || len(r.hash.fields) == 0)
}

// size returns the length of the value.
func (r *record) size() int {
	n := len(r.text)
	if r.hash != nil {
		for i := range r.hash.fields {
			n += nameLength + len(r.hash.fields[i].name) + len(r.hash.fields[i].value)
		}
	}
	return n
}

// isChanged reports whether there may be something to store.
func (r *record) isChanged() bool {
	return r.changed || r.hash != nil && r.hash.isChanged
}

// isRemoved reports whether the key is to be removed.
func (r *record) isRemoved() bool {
	return r.version != 0 && r.isChanged() && r.isEmpty()
}

// store adds the changes to a batch, on condition that nothing else has changed the key. It keeps
// other columns of a string, which other programs may have stored. It returns nil if there is
// nothing to do.
func (r *record) store(b *kvtree.Batch, key []byte, flag kvtree.Flag) *kvtree.Result {
	switch {
	case r.isRemoved():
		return b.RemoveVersion(key, r.version, flag)
	case r.changed:
		return b.CompareAndSwapColumns(key, []kvtree.Column{{ID: 0, Data: r.text}}, r.version, flag)
	case r.isChanged() && !r.isEmpty():
		return b.CompareAndSwapColumns(key, r.hash.columns(), r.version, flag)
	}
	return nil
}

// stored records that the changes were made.
func (r *record) stored(version uint64) {
	if r.isRemoved() {
		version = 0
	}
	r.version, r.changed = version, false
	if r.hash != nil {
		r.hash.unchange()
	}
}
