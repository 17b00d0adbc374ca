#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# go.sh: compile the tests of the Go module of the tree into programs that need nothing else.
# selftests/scripts/run-go runs them, in the lane's kernel. Prints where they are.
#
# KVT_TREE names another tree, whose module is compiled beside; see lane.sh.
#
# The network is used once, for the modules that go.sum names.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

TREE=${KVT_TREE:-$TOP}
DIR=$BUILD/go
[ "$TREE" = "$TOP" ] || DIR=$BUILD/$KVT_OUT/go

compile()
{
	export GOFLAGS='-mod=readonly -trimpath' GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
	cd "$TREE/lib/go" && GOARCH=386 "$GO" vet . && "$GO" vet . && "$GO" test -c -o "$DIR/kvtree.test" . &&
		cd "$TREE/selftests/go" && "$GO" vet . && "$GO" test -c -o "$DIR/bpf.test" .
}

main()
{
	GO=$(go_command) || die "no Go from $GO_OLDEST on"
	mkdir -p "$DIR"
	exec 5>"$DIR/lock"
	flock 5
	run_logged "$DIR/compile.log" 'go: compiling the tests' '' compile
	echo "$DIR"
}

main "$@"
