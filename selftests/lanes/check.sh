#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh LANE...: run lanes one after the other and sum up. The last line
# is "N passed, N failed[, N skipped]". A lane that could not run, or whose
# kernel crashed, counts as failed.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

PASSED=0 FAILED=0 SKIPPED=0

run_lane()
{
	case $1 in
	uml|uml-debug) "$LANES/uml.sh" "$1";;
	stock|stock-7) "$LANES/stock.sh" "$1";;
	*) "$LANES/$1.sh";;
	esac
}

# add NAME DIRECTORY: sum up the counts that the lane left there.
add()
{
	local p f s

	if read -r p f s 2>/dev/null <"$2/counts"; then
		PASSED=$((PASSED + p)) FAILED=$((FAILED + f)) SKIPPED=$((SKIPPED + s))
	else
		FAILED=$((FAILED + 1))
		echo "FAILED $1: did not come to a result"
	fi
}

# lane NAME DIRECTORY CMD...
lane()
{
	local name=$1 results=$BUILD/$2/results start=$SECONDS rc=0
	shift 2

	echo "== $name"
	rm -f "$results/counts"
	"$@" || rc=$?
	add "$name" "$results"
	# A lane may fail for a reason that is no test's.
	if [ $rc -ne 0 ] && [ -e "$results/counts" ] &&
			[ "$(cut -d ' ' -f 2 "$results/counts")" -eq 0 ]; then
		FAILED=$((FAILED + 1))
		echo "FAILED $name: exit code $rc"
	fi
	echo "== $name took $(elapsed "$start")"
}

# Builds that are wrong on purpose, to see that they are caught.
run_broken()
{
	local dir=$BUILD/broken/results

	mkdir -p "$dir"
	rm -f "$dir"/*.ktap
	"$LANES/broken.sh" >"$dir/broken.ktap" || true
	START=$SECONDS summary broken "$dir"
}

# Nothing could run.
die_counted()
{
	FAILED=1
	total | tee "$BUILD/summary"
	exit 1
}

total()
{
	if [ "$SKIPPED" -gt 0 ]; then
		echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
	else
		echo "$PASSED passed, $FAILED failed"
	fi
}

main()
{
	local name

	# shellcheck source=selftests/lanes/lane.sh
	. "$LANES/lane.sh"
	# Not in the middle of it all: a password may have to be typed.
	# A lane that was stopped by ^C ends by itself; so that this does, too.
	trap 'exit 130' INT TERM
	mkdir -p "$BUILD"
	"$LANES/deps.sh" "$@" || die_counted
	for name in "$@"; do
		lane "$name" "$name" run_lane "$name"
		if [ "$name" = uml-debug ] && [ -z "$T" ] &&
				[ -x "$LANES/broken.sh" ]; then
			lane broken broken run_broken
		fi
	done

	[ $# -eq 1 ] || echo "== all lanes took $(elapsed)"
	total | tee "$BUILD/summary"
	[ "$FAILED" -eq 0 ]
}

main "$@"
