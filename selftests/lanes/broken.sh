#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# broken.sh [NAME...]: builds that are wrong on purpose. Each patch under
# selftests/broken breaks a copy of the source in one way. A lane runs with that copy,
# and the test that the patch names has to fail. This finds tests and checkers that no
# longer detect anything. Prints KTAP.
#
# broken.py describes the format of patches, and makes one from "git diff". The head of a patch is
# a line or two that say what it breaks, and these fields:
#	Lane:   user, user-tsan, uml, uml-debug (the default), stock, arm64, weak, crash, history,
#	        hibernate or fuzz
#	Tests:  T for the lane; for crash and history, PARTS
#	Expect: extended regular expression that matches the result line of the test that must
#	        fail, or a line of the kernel's or a sanitizer's report
#	May:    crash, if the kernel may die before the tests end
#	Turn:   none, if it takes minutes, as in arm64, crash, fuzz, hibernate, history and weak
#
# A patch that is not caught is tried once more, with three times the time, since a busy machine
# may have been too slow. If it is caught then, and the first try had not timed out, the test that
# should have caught it is unstable; the first log and results stay in build/broken/NAME.first.
#
# NAME may have wildcards. Without a NAME, all patches are run or, with TURN, about ten of
# those that have a turn; see lane.sh.
#
# "broken.sh --lint" only looks at the heads.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

PATCHES=$TOP/selftests/broken
A_TURN=10

# limits N: set time limits, N times the usual ones. They are shorter than those of lanes without a
# patch, because hanging is expected here.
limits()
{
	export LANE_TIMEOUT=$((400 * $1)) KUNIT_TIMEOUT=$((330 * $1))
	export PROGRAM_LONGEST=$((300 * $1)) LANE_LONGEST=$((600 * $1))
}

# head_of PATCH: set HEAD to the fields of the patch's head, by name.
head_of()
{
	local name value

	HEAD=()
	while IFS=: read -r name value; do
		case $name in
		---*) return;;
		Lane|Tests|Expect|May|Turn) HEAD[$name]=${value#"${value%%[! ]*}"};;
		esac
	done <"$1"
}

# field PATCH NAME [DEFAULT]: print a field of the patch's head.
field()
{
	local -A HEAD=()

	head_of "$1"
	echo "${HEAD[$2]:-${3:-}}"
}

lane_of()
{
	field "$1" Lane uml-debug
}

# Patches may also change sources that are not part of the module. These are built in the copy too;
# all other tests are those of the tree.
patches_programs()
{
	grep -qE '^--- (lib|tools|selftests|uapi|kmod/log/format)/' "$1"
}

# run PATCH TREE: run the patch's lane with the broken copy.
run()
{
	local lane
	lane=$(lane_of "$1")

	export T KVT_SOURCE=$2 KVT_OUT=broken/$lane KVT_LEAKS=0 KVT_TREE
	T=$(field "$1" Tests)
	KVT_TREE=$TOP
	! patches_programs "$1" || KVT_TREE=$2
	# Scanning for leaks takes 12 seconds: do it only if the patch expects a leak.
	case $(field "$1" Expect) in
	*leak*|*unreferenced*) KVT_LEAKS=1;;
	esac
	case $lane in
	user) KVT_TREE=$2 SANITIZERS=asan "$LANES/user.sh";;
	user-tsan) KVT_TREE=$2 SANITIZERS=tsan "$LANES/user.sh";;
	stock) "$LANES/stock.sh" stock;;
	arm64) LANE_LONGEST=7200 PROGRAM_LONGEST=3600 "$LANES/arm64.sh" arm64;;
	weak) LANE_LONGEST=7200 PROGRAM_LONGEST=3600 "$LANES/arm64.sh" weak;;
	crash) crash "$2";;
	fuzz) FUZZ_TIME=60 "$LANES/fuzz.sh";;
	history) PARTS=$T HISTORY_TIME=30 env -u T "$LANES/history.sh";;
	hibernate) "$LANES/hibernate.sh";;
	*) "$LANES/uml.sh" "$lane";;
	esac
}

# The crash lane runs wholly in the copy. If it only replays, it uses the records that the lane of
# the tree has made; if there are none, it makes its own.
crash()
{
	local records=

	if [ "$T" = replay ] && compgen -G "$BUILD/crash/*/results/*.oracle" >/dev/null; then
		records=$BUILD/crash
	elif [ "$T" = replay ]; then
		T='stock uml replay'
	fi
	env -u CRASH_TIME -u LANE_TIMEOUT -u KVT_SOURCE -u KVT_TREE -u T \
		KVT_BUILD="$BUILD/broken/crash" KVT_OUT=. CRASH_RECORDS="$records" \
		PARTS="$T" "$1/selftests/lanes/crash.sh"
}

# Print the results that failed, and the reports of the kernel and the sanitizers. Leave out the
# lane's own result about the kernel, which is no test.
failures()
{
	grep -haE '^ *not ok ' "$1"/*.ktap |
		grep -vE ' (kernel_ran_to_the_end|no_kernel_reports)$' || true
	cat "$1/reports.txt" 2>/dev/null || true
	grep -haE 'ERROR: |WARNING: |SUMMARY: |runtime error: ' "$1"/{kunit-*,format}.log 2>/dev/null || true
}

# came_to_tests RESULTS: did the kernel of the lane reach the tests?
came_to_tests()
{
	[ -e "$1/kernel.ktap" ] && grep -q '^ok [0-9]* insmod_kvtree$' "$1/lane.ktap"
}

# missed PATCH RESULTS: print why the patch is not caught; nothing if it is. A kernel's report
# counts even if the kernel had to be stopped afterwards.
missed()
{
	local stopped

	stopped=$(cat "$2/stopped" 2>/dev/null || true)
	case $(lane_of "$1") in
	user*|crash|history|hibernate|fuzz)
		if ! compgen -G "$2/*.ktap" >/dev/null; then
			echo 'it was not built'
			return
		fi;;
	*)
		if ! came_to_tests "$2"; then
			echo 'it was not built, or not loaded'
			return
		elif ! grep -q '^ok 1 kernel_ran_to_the_end$' "$2/kernel.ktap" &&
				[ "$(field "$1" May)" != crash ] && [ -z "$stopped" ]; then
			echo 'the kernel did not run to its end'
			return
		fi;;
	esac
	failures "$2" | grep -qE -e "$(field "$1" Expect)" ||
		echo "${stopped:+$stopped; }nothing fails as expected, but: $(failures "$2" | head -n 5 | tr '\n' ';')"
}

# Let ^C end this shell even if the lane handles ^C and exits by itself: bash would continue then.
# Call this in each subshell, because subshells reset traps.
end_at_signals()
{
	trap 'exit 130' INT TERM
}

# try NAME: run a patch's lane, and print why the patch is not caught.
try()
{
	local patch=$PATCHES/$1.patch dir log=$BUILD/broken/$1.log
	end_at_signals
	dir=$BUILD/broken/$(lane_of "$patch")

	# Each patch applies to the same source. rsync's messages about kept build products do not
	# matter.
	copy_sources "$dir/tree" "$TOP/" >"$log"
	if ! "$LANES/broken.py" apply "$patch" "$dir/tree" >>"$log" 2>&1; then
		echo 'the patch does not fit'
		return
	fi
	if (end_at_signals && run "$patch" "$dir/tree") >>"$log" 2>&1; then
		echo 'all tests pass'
		return
	fi
	missed "$patch" "$dir/results"
}

# keep_first NAME: keep its log and results before it is tried again.
keep_first()
{
	local first=$BUILD/broken/$1.first results
	results=$BUILD/broken/$(lane_of "$PATCHES/$1.patch")/results

	rm -rf "$first"
	mkdir -p "$first"
	cp "$BUILD/broken/$1.log" "$first/log"
	[ ! -d "$results" ] || cp -r "$results" "$first/" ||
		say "broken: $1: not all of the first results could be kept"
}

# was_slow NAME: was the first try, or a program in it, stopped by a time limit?
was_slow()
{
	local results=$BUILD/broken/$1.first/results

	[ -e "$results/stopped" ] ||
		grep -qsaE '^# kvtree-lane: stopped: it (said|ran)' "$results"/*.ktap
}

# try_twice NAME: print why it is not caught even with more time.
try_twice()
{
	local why

	end_at_signals
	limits 1
	why=$(try "$1")
	if [ -n "$why" ] && [ "$why" != 'the patch does not fit' ]; then
		say "broken: $1: not caught: $why; once more"
		keep_first "$1"
		limits 3
		why=$(try "$1")
	fi
	echo -n "$why"
}

# Print the names that match the arguments, grouped by lane: patches of one lane share most of what
# is built.
select_names()
{
	local pattern patch

	for pattern in "$@"; do
		for patch in "$PATCHES"/$pattern.patch; do
			[ -e "$patch" ] || die "no patch $pattern"
			echo "$(lane_of "$patch") $(basename "$patch" .patch)"
		done
	done | sort -u | cut -d ' ' -f 2
}

# has_turn PATCH: patches that take minutes have none.
has_turn()
{
	case $(lane_of "$1") in
	arm64|crash|fuzz|hibernate|history|weak) false;;
	*) [ "$(field "$1" Turn)" != none ];;
	esac
}

# Select about ten patches for this turn, in an order by hashes. Each patch comes up once in as many
# successive turns as there are tens of patches.
names_by_turns()
{
	local all n turns number from

	mapfile -t all < <(for n in "$PATCHES"/*.patch; do
		has_turn "$n" || continue
		n=$(basename "$n" .patch)
		echo "$(sha256sum <<<"$n" | cut -c 1-8) $n"
	done | sort | cut -d ' ' -f 2)
	turns=$(((${#all[@]} + A_TURN - 1) / A_TURN))
	number=$(turn)
	n=$((number % turns))
	say "broken: turn $n of $turns; TURN=$number repeats it"
	from=$((n * ${#all[@]} / turns))
	select_names "${all[@]:from:(n + 1) * ${#all[@]} / turns - from}"
}

# Print what is wrong with the heads. An Expect that matches every failure would prove nothing.
lint()
{
	local patch
	local -A HEAD=()

	for patch in "$PATCHES"/*.patch; do
		head_of "$patch"
		[ -n "${HEAD[Tests]:-}" ] || echo "$patch: no Tests:"
		[ -n "${HEAD[Expect]:-}" ] || echo "$patch: no Expect:"
		! [[ 'not ok 1 any_other_test' =~ ${HEAD[Expect]:-} ]] ||
			echo "$patch: Expect: names no test"
		case ${HEAD[Lane]:-uml-debug} in
		user|user-tsan|uml|uml-debug|stock|arm64|weak|crash|history|hibernate|fuzz) ;;
		*) echo "$patch: unknown Lane:";;
		esac
		case ${HEAD[May]:-} in
		''|crash) ;;
		*) echo "$patch: unknown May:";;
		esac
		case ${HEAD[Turn]:-} in
		''|none) ;;
		*) echo "$patch: unknown Turn:";;
		esac
	done
}

main()
{
	local name why n=0 failed=0 names start text

	if [ "${1:-}" = --lint ]; then
		lint
		return
	elif [ $# -eq 0 ] && [ -n "${TURN:-}" ]; then
		text=$(names_by_turns)
	else
		text=$(select_names "${@:-*}")
	fi
	mapfile -t names <<<"$text"
	end_at_signals
	mkdir -p "$BUILD/broken"
	# All patches are applied to one copy, so only one instance may run.
	exec 3>"$BUILD/broken.lock"
	flock -n 3 || { say 'broken: waiting for another run'; flock 3; }
	echo 'KTAP version 1'
	echo "1..${#names[@]}"
	for name in "${names[@]}"; do
		n=$((n + 1)) start=$SECONDS
		say "broken: $n of ${#names[@]}: $name"
		rm -rf "$BUILD/broken/$name.first"
		why=$(try_twice "$name")
		if [ -z "$why" ]; then
			[ ! -e "$BUILD/broken/$name.first" ] || was_slow "$name" ||
				echo "# unstable: $name"
			echo "ok $n $name"
			say "broken: $name: caught, $(elapsed "$start")"
		else
			failed=$((failed + 1))
			say "broken: $name: not caught: $why"
			echo "# $why; see build/broken/$name.log"
			echo "not ok $n $name"
		fi
	done
	[ $failed -eq 0 ]
}

main "$@"
