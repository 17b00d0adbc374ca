#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# limits_test.sh: test that silent and endless programs are stopped, and that a machine that does
# not start is started once more. Prints what is wrong.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

BOOT_LONGEST=2 SAID='a CPU is stalled'
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

# expect NAME REASON CMD...: CMD must be stopped for REASON or, if that is empty, not be stopped.
expect()
{
	local name=$1 reason=$2 wanted=${2:+124} why rc=0
	shift 2

	run_logged "$DIR/$name/log" "$name" '' "$@" 2>/dev/null || rc=$?
	why=$(cat "$DIR/$name/stopped" 2>/dev/null || true)
	[ "$why" = "$reason" ] || echo "$name: stopped for: $why"
	[ $rc -eq "${wanted:-0}" ] || echo "$name: exit code $rc"
}

# A fake machine that comes up at boot number UP_AT, and hangs at earlier ones.
vm()
{
	BOOTS=$((BOOTS + 1))
	if [ $BOOTS -lt "$UP_AT" ]; then
		echo "$SAID" >"$CONSOLE"
		sleep 1000 &
		echo $! >"$CONSOLE.pid"
		wait $!
	else
		echo 'kvtree-lane: start' >"$CONSOLE"
		return 3
	fi
}

# boots UP_AT BOOTS RC: vm_script must boot BOOTS times, and return RC.
boots()
{
	local UP_AT=$1 BOOTS=0 CONSOLE=$DIR/console rc=0

	vm_script true 2>/dev/null || rc=$?
	[ "$BOOTS $rc" = "$2 $3" ] || echo "up at boot $1: booted $BOOTS times, exit code $rc"
	[ "$1" -eq 1 ] || grep -q stalled "$CONSOLE.down" || echo "up at boot $1: nothing kept"
	[ "$1" -gt 1 ] || [ ! -e "$CONSOLE.down" ] || echo "up at boot $1: something kept"
}

main()
{
	export LIMIT=100 LANE_LONGEST=5
	expect loud 'it ran past its limit of 5 s' bash -c 'while sleep 1; do echo; done' &
	LANE_LONGEST='' LIMIT=5 expect silent 'it said nothing for 5 s' sleep 1000 &
	expect short '' echo &
	boots 1 1 3
	boots 2 2 3
	boots 3 2 137
	BOOT_LONGEST=1000 SAID='detected stalls on CPUs: stalled' boots 2 2 3
	wait
}

main
