#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# limits_test.sh: is stopped what says nothing, and what goes on for ever? Prints what is wrong.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

# expect NAME REASON CMD...: REASON is empty for what is not stopped.
expect()
{
	local name=$1 reason=$2 wanted=${2:+124} why rc=0
	shift 2

	run_logged "$DIR/$name/log" "$name" '' "$@" 2>/dev/null || rc=$?
	why=$(cat "$DIR/$name/stopped" 2>/dev/null || true)
	[ "$why" = "$reason" ] || echo "$name: stopped for: $why"
	[ $rc -eq "${wanted:-0}" ] || echo "$name: exit code $rc"
}

main()
{
	export LIMIT=100 LANE_LONGEST=5
	expect loud 'it ran past its limit of 5 s' bash -c 'while sleep 1; do echo; done' &
	LANE_LONGEST='' LIMIT=5 expect silent 'it said nothing for 5 s' sleep 1000 &
	expect short '' echo &
	wait
}

main
