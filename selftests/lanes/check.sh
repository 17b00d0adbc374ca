#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh LANE...: run lanes and sum up their results. The last line is "N passed, N
# failed[, N skipped]". A lane counts as failed if it could not run or its kernel crashed.
#
# Several lanes run at once, one more than there are processors if memory allows: each of them often
# waits, and few tests keep two processors busy. AT_ONCE sets their number. They start in the order
# of the arguments, in which the longest lane comes first. The first lane has priority, since its
# machine is emulated: if one of its processors waits for a processor of the host while it holds a
# lock, the other one spins.
#
# "make check" sets KVT_WHOLE=1. If nothing selects a part of the tests, failed ones are then tried
# again (again.sh), and build/checked records what was checked, and the outcome.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/again.sh
. "$LANES/again.sh"

WHOLE=${KVT_WHOLE:-0}
[ -z "$T$ENGINE${SANITIZERS:-}${FUZZ_TIME:-}${PARTS:-}" ] || WHOLE=0
PASSED=0 FAILED=0 SKIPPED=0
SHOWN=0

# Seconds after which a step of a lane is stopped. Even on a machine that is four times overloaded,
# no step takes half as long.
export LANE_LONGEST=${LANE_LONGEST:-7200}

# Memory that a lane may take, its kernel's included.
LANE_GB=5

# By lane: its process group, and when it began.
declare -A GROUP=() BEGAN=()

run_lane()
{
	case $1 in
	uml|uml-debug) "$LANES/uml.sh" "$1";;
	stock|stock-7|kcsan) "$LANES/stock.sh" "$1";;
	arm64|weak) "$LANES/arm64.sh" "$1";;
	broken) run_broken;;
	*) "$LANES/$1.sh";;
	esac
}

# Check that builds broken on purpose are caught.
run_broken()
{
	local dir=$BUILD/broken/results

	mkdir -p "$dir"
	rm -f "$dir"/*.ktap
	START=$SECONDS LEAST=7
	"$LANES/broken.sh" ${T:+"$(test_glob)"} >"$dir/broken.ktap" || true
	summary broken "$dir"
}

# add NAME RC: sum up the counts that the lane left.
add()
{
	local name=$1 rc=$2 counts=$BUILD/$1/results/counts p f s

	if read -r p f s 2>/dev/null <"$counts"; then
		PASSED=$((PASSED + p)) FAILED=$((FAILED + f)) SKIPPED=$((SKIPPED + s))
	else
		f=1
		FAILED=$((FAILED + 1))
		echo "FAILED $name: did not come to a result"
	fi
	# A lane may fail although none of its tests did.
	if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
		FAILED=$((FAILED + 1))
		echo "FAILED $name: exit code $rc"
	fi
}

# Lock the lanes: their logs and results belong to this run until it ends. All runs take the locks
# in the same order, so that they cannot deadlock.
own_lanes()
{
	local name fd

	for name in $(printf '%s\n' "$@" | sort -u); do
		exec {fd}>"$BUILD/check-$name.lock"
		flock -n "$fd" || { say "$name: waiting for another run"; flock "$fd"; }
		rm -f "$(log_of "$name")"
	done
}

log_of()
{
	echo "$BUILD/check-$1.log"
}

times_of()
{
	echo "$BUILD/check-$1.times"
}

# Run a lane, and record the processor time that it takes, user and system.
counted_lane()
{
	local rc=0

	[ "$1" = "$FIRST" ] || renice -n 10 -p "$BASHPID" >/dev/null
	run_lane "$1" || rc=$?
	times >"$(times_of "$1")"
	return $rc
}

# Start a lane in a process group of its own, so that everything it starts can be stopped with it.
begin()
{
	rm -f "$BUILD/$1/results"/{counts,failures}
	BEGAN[$1]=$SECONDS
	set -m
	without_locks counted_lane "$1" >"$(log_of "$1")" 2>&1 </dev/null &
	GROUP[$1]=$!
	set +m
}

# end NAME RC: show the lane's output, and count its results.
end()
{
	unset "GROUP[$1]"
	clear_line
	echo "== $1"
	cat "$(log_of "$1")"
	add "$1" "$2"
	echo "== $1 took $(elapsed "${BEGAN[$1]}"), of processors" \
		"$(tail -n 1 "$(times_of "$1")")"
}

# Called at ^C: let the lanes stop what they have started. Signal all jobs, not only those in GROUP:
# a lane that has just begun may not be there yet. A group's first process ends at once, the rest of
# the lane a second later.
stop()
{
	local pids pid tries=100

	mapfile -t pids <<<"$(jobs -p)"
	for pid in "${pids[@]}"; do
		kill -- "-$pid" 2>/dev/null || true
	done
	for pid in "${pids[@]}"; do
		while kill -0 -- "-$pid" 2>/dev/null && [ $((tries--)) -gt 0 ]; do
			sleep 0.1
		done
		kill -KILL -- "-$pid" 2>/dev/null || true
	done
	exit 130
}

clear_line()
{
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# Show what each lane is doing.
show()
{
	local name line='' last

	[ -t 2 ] || [ $((SECONDS - SHOWN)) -ge 20 ] || return 0
	SHOWN=$SECONDS
	for name in "${!GROUP[@]}"; do
		last=$(tail -n 1 "$(log_of "$name")")
		line+="${line:+ | }${last:-$name: beginning}"
	done
	if [ -t 2 ]; then
		printf '\r\033[K%.*s' $(($(tput cols 2>/dev/null || echo 80) - 1)) "$line" >&2
	else
		say "$line"
	fi
}

# Collect the results of the lanes that have ended.
reap()
{
	local name rc

	for name in "${!GROUP[@]}"; do
		if ! kill -0 "${GROUP[$name]}" 2>/dev/null; then
			rc=0
			wait "${GROUP[$name]}" || rc=$?
			end "$name" "$rc"
		fi
	done
}

# several AT_ONCE LANE...: run lanes, at most AT_ONCE of them at a time.
several()
{
	local most=$1 FIRST=$2
	shift

	SHOWN=$SECONDS
	trap stop INT TERM
	while [ $# -gt 0 ] || [ ${#GROUP[@]} -gt 0 ]; do
		while [ $# -gt 0 ] && [ ${#GROUP[@]} -lt "$most" ]; do
			begin "$1"
			shift
		done
		pause 1
		show
		reap
	done
	trap 'exit 130' INT TERM
}

# one LANE: run a lane, and show its output as it appears.
one()
{
	local rc=0 start=$SECONDS

	rm -f "$BUILD/$1/results"/{counts,failures}
	echo "== $1"
	(without_locks run_lane "$1") || rc=$?
	add "$1" "$rc"
	echo "== $1 took $(elapsed "$start")"
}

# Print the available memory in GB: the machine's, or what is left of a container's limit.
memory_gb()
{
	local available group max used

	available=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
	group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
	max=$(cat "$group/memory.max" 2>/dev/null || echo max)
	if [ "$max" != max ]; then
		used=$(cat "$group/memory.current")
		max=$(((max - used) >> 30))
		[ "$max" -ge "$available" ] || available=$max
	fi
	echo "$available"
}

# Print how many lanes to run at once: one more than there are processors, or fewer if memory is
# short; at least one.
at_once()
{
	local lanes gb

	lanes=$(($(nproc) + 1))
	gb=$(memory_gb)
	if [ $((gb / LANE_GB)) -lt "$lanes" ]; then
		lanes=$((gb / LANE_GB))
	fi
	echo $((lanes ? lanes : 1))
}

total()
{
	if [ "$SKIPPED" -gt 0 ]; then
		echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
	else
		echo "$PASSED passed, $FAILED failed"
	fi
}

# Print what is checked: the commit, and a digest of what differs from it. Without git, the output
# is always the same.
state_of_tree()
{
	git -C "$TOP" rev-parse HEAD 2>/dev/null || echo unknown
	{
		git -C "$TOP" diff HEAD || true
		(cd "$TOP" && git ls-files -z --others --exclude-standard | xargs -0r sha256sum) || true
	} 2>/dev/null | sha256sum
}

# write_checked BEGAN STATE: record what was checked, and the outcome.
write_checked()
{
	local tree=clean i

	[ -z "$(git -C "$TOP" status --porcelain 2>&1)" ] || tree='differs from the commit'
	[ "$(state_of_tree)" = "$2" ] || tree='changed during the check'
	{
		echo "commit: $(head -n 1 <<<"$2")"
		echo "tree: $tree"
		echo "began: $1, took $(elapsed)"
		echo "result: $(total)"
		for i in "${UNSTABLE_NOW[@]}"; do
			echo "unstable: $i"
		done
	} >"$BUILD/checked"
}

# try_failed BEGAN STATE LANE...: try failed tests again, and record the outcome.
try_failed()
{
	local began=$1 state=$2
	shift 2

	try_again "$state" "$@"
	unstable_broken "$@"
	unstable_end
	write_checked "$began" "$state"
}

# Build missing kernels before the lanes start. Building one keeps all processors busy: it would
# slow down the other lanes, and the longest lanes would end last. If a kernel cannot be built, its
# lane reports that.
build_kernels()
{
	local name

	for name in "$@"; do
		case $name in
		uml|uml-debug) "$LANES/kernel.sh" "$name" >/dev/null || true;;
		esac
	done
}

# Repeat this warning at the end, where it is seen: a failure may be due to the other kernel.
other_kernels()
{
	local name

	for name in "$@"; do
		grep -hs 'other kernel than pinned' "$(log_of "$name")" || true
	done | sort -u
}

main()
{
	local name most lanes=() began state

	for name in "$@"; do
		# In the lane broken, T selects patches, not tests. So if T selects tests of other
		# lanes, leave this one out.
		[ $# -gt 1 ] && [ "$name" = broken ] && [ -n "${T:-${KUNIT_FILTER:-}}" ] ||
			lanes+=("$name")
	done
	set -- "${lanes[@]}"
	mkdir -p "$BUILD"
	own_lanes "$@"
	[ "$WHOLE" = 0 ] || unstable_begin
	began=$(date -u '+%F %T UTC') state=$(state_of_tree)
	# A lane handles ^C and exits by itself. Without a trap, bash would then continue here.
	trap 'exit 130' INT TERM
	# Ask for a password now: later, nobody may be there to type it.
	ask_for_root
	if ! "$LANES/deps.sh" "$@"; then
		# No lane can run.
		FAILED=1
		total | tee "$BUILD/summary"
		exit 1
	fi
	build_kernels "$@"
	most=${AT_ONCE:-$(at_once)}
	if [ $# -gt 1 ] && [ "$most" -gt 1 ]; then
		several "$most" "$@"
	else
		for name in "$@"; do
			one "$name"
		done
	fi
	[ $# -eq 1 ] || echo "== all lanes took $(elapsed)"
	other_kernels "$@"
	[ "$WHOLE" = 0 ] || try_failed "$began" "$state" "$@"
	total | tee "$BUILD/summary"
	[ "$FAILED" -eq 0 ]
}

main "$@"
