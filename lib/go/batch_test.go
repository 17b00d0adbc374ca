// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import "testing"

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
