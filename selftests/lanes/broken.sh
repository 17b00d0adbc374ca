#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# broken.sh [NAME...]: modules that are wrong on purpose. Each patch under
# selftests/broken breaks a copy of the source in one way; the debug lane, with
# that module, has to fail, and to say why as the patch expects. A checker or
# a test that has gone blind shows here. Prints KTAP.
#
# The head of a patch says what it needs:
#	Tests:  T= for the lane
#	Expect: extended regular expression for a line of the lane's results

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

PATCHES=$TOP/selftests/broken
COPY=$BUILD/broken/source

# A copy of the module as it is, so that each patch meets the same source. By
# content, and without the times: a file that is whole again has to look newer
# than what was built of it.
fresh_copy()
{
	mkdir -p "$COPY"
	rsync -rlpc --delete "$TOP/Kbuild" "$TOP/kmod" "$TOP/uapi" "$COPY/"
}

# field PATCH NAME: a line of the patch's head.
field()
{
	sed -n "/^---/q; s/^$2: *//p" "$1"
}

# run PATCH LOG: the lane with the broken module. Fails if the lane does not.
run()
{
	local tests

	tests=$(field "$1" Tests)
	fresh_copy
	patch -s -F0 -d "$COPY" -p1 <"$1" || return 1
	! KVT_SOURCE=$COPY KVT_OUT=broken/uml-debug T=$tests \
		"$LANES/uml.sh" uml-debug >"$2" 2>&1
}

# caught PATCH LOG: does the lane say what was to be expected?
caught()
{
	run "$1" "$2" &&
		grep -rqaE -e "$(field "$1" Expect)" "$2" "$BUILD/broken/uml-debug/results"
}

main()
{
	local patch name log n=0 failed=0 names=("$@")

	[ $# -gt 0 ] || mapfile -t names < <(basename -s .patch "$PATCHES"/*.patch)
	echo 'KTAP version 1'
	echo "1..${#names[@]}"
	for name in "${names[@]}"; do
		patch=$PATCHES/$name.patch
		log=$BUILD/broken/$name.log
		n=$((n + 1))
		say "broken: $name"
		if caught "$patch" "$log"; then
			echo "ok $n $name"
		else
			failed=$((failed + 1))
			say "broken: $name: not caught: $(tail -n 3 "$log")"
			echo "# see $log"
			echo "not ok $n $name"
		fi
	done
	[ $failed -eq 0 ]
}

main "$@"
