// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"syscall"
	"testing"
)

// Reset keeps the memory of small errors and results only.
func TestAResetBatchKeepsLittle(t *testing.T) {
	for length, kept := range map[int]bool{8: true, 4096: false} {
		var b Batch
		r := b.Get(make([]byte, length))
		r.columns = make([]column, length)
		r.fail(NotFound)
		b.Reset()
		if r.spare != nil != kept || cap(r.columns) > 0 != kept {
			t.Error(length, r.spare, cap(r.columns))
		}
	}
}

// Only errors that say NotFound have memory that is reused.
func TestAResetBatchLeavesOtherErrors(t *testing.T) {
	var b Batch
	failed := b.Get([]byte("first")).fail(syscall.EINVAL)
	b.Reset()
	b.Get([]byte("other")).fail(NotFound)
	if string(failed.Key) != "first" || failed.Err != syscall.EINVAL {
		t.Error(failed)
	}
}
