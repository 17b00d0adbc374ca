// SPDX-License-Identifier: GPL-2.0

package main

import "testing"

// A place has half, and all together have no more than there is.
func TestSharesOfABudget(t *testing.T) {
	b := newBudget(100)
	shares := make([]share, 5)
	for i := range shares {
		shares[i].budget = &b
	}
	for _, step := range []struct {
		share, to int
		at        place
		ok        bool
	}{
		{0, 30, 1, true},
		{1, 21, 1, false},
		{1, 20, 1, true},
		{2, 1, 1, false},
		{2, 51, 2, false},
		{2, 40, 2, true},
		{3, 11, nobody, false},
		{3, 10, nobody, true},
		{4, 1, 3, false},
		// Less is always allowed, and counts for the place where it was taken.
		{0, 20, nobody, true},
		{3, 20, nobody, true},
		{1, 21, 2, false},
		{3, 10, nobody, true},
		{1, 30, 2, true},
	} {
		if ok := shares[step.share].resize(step.to, step.at); ok != step.ok {
			t.Error(step, ok)
		}
	}
	if b.held != 100 || b.places[1] != 50 || b.places[2] != 40 {
		t.Error(b.held, b.places)
	}
	for i := range shares {
		shares[i].release()
	}
	if b.held != 0 || len(b.places) != 0 {
		t.Error(b.held, b.places)
	}
}
