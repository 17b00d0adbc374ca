#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# go.sh: compile kvtree-server, its tests, and the tests of the tree's Go module into static
# programs. selftests/scripts/run-go and run-server run them in the lane's kernel. Prints their
# folder.
#
# KVT_TREE names another tree to compile the modules of; see lane.sh.
#
# The network is used once, for the modules that the go.sum files name.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

TREE=${KVT_TREE:-$TOP}
DIR=$BUILD/go
[ "$TREE" = "$TOP" ] || DIR=$BUILD/$KVT_OUT/go

# vetted_test FOLDER PROGRAM: run go vet, and compile the tests of FOLDER into PROGRAM.
vetted_test()
{
	cd "$TREE/$1" && "$GO" vet . && "$GO" test -c -o "$DIR/$2" .
}

compile()
{
	export GOFLAGS='-mod=readonly -trimpath' GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
	(cd "$TREE/lib/go" && GOARCH=386 "$GO" vet .) &&
		vetted_test lib/go kvtree.test &&
		vetted_test selftests/go bpf.test &&
		vetted_test selftests/server client.test &&
		vetted_test tools/server server.test &&
		"$GO" build -o "$DIR/kvtree-server" .
}

main()
{
	GO=$(go_command) || die "no Go from $GO_OLDEST on"
	mkdir -p "$DIR"
	exec 5>"$DIR/lock"
	flock 5
	run_logged "$DIR/compile.log" 'go: compiling the server and the tests' '' compile
	echo "$DIR"
}

main "$@"
