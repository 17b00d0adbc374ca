# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Functions for the scripts that test the tool: print results in KTAP, check a command's output, and
# wait for something.

NUMBER=0 FAILED=0

# -t PATTERN: run only the cases that match it.
CASES='*'
[ "${1:-}" != -t ] || CASES=$2

selected()
{
	# shellcheck disable=SC2254
	case $1 in
	$CASES) true;;
	*) false;;
	esac
}

# check NAME CMD...: report a case. It fails if the command fails or prints anything.
check()
{
	local name=$1 said rc=0
	shift

	selected "$name" || return 0
	said=$("$@" 2>&1) || rc=1
	NUMBER=$((NUMBER + 1))
	if [ $rc -eq 0 ] && [ -z "$said" ]; then
		echo "ok $NUMBER $name"
		return
	fi
	echo "# ${said//$'\n'/$'\n# '}"
	echo "not ok $NUMBER $name"
	FAILED=$((FAILED + 1))
}

# expect STATUS TEXT CMD...: CMD must exit with STATUS, and its output must contain TEXT.
expect()
{
	local status=$1 text=$2 said rc=0
	shift 2

	said=$("$@" 2>&1) || rc=$?
	[ $rc -eq "$status" ] || { echo "$*: exit status $rc: $said"; return 1; }
	[[ $said == *"$text"* ]] || { echo "$*: not \"$text\": $said"; return 1; }
}

# wait_until CMD...: wait until CMD succeeds, for a minute at most.
wait_until()
{
	local i

	for i in $(seq 600); do
		! "$@" || return 0
		sleep 0.1
	done
	echo "$*: not so after $i tries"
	return 1
}

# Print the plan at the end. Fails if a case failed.
checks_end()
{
	echo "1..$NUMBER"
	[ $FAILED -eq 0 ]
}
