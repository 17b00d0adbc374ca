// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree_test

import (
	"os"
	"testing"
)

// Examples cannot call Skip.
func TestMain(m *testing.M) {
	if _, err := os.Stat("/dev/kvtree"); err != nil {
		os.Args = append(os.Args, "-test.run=^Test")
	}
	os.Exit(m.Run())
}
