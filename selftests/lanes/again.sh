# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153
#
# "make check" runs each failed test three more times, alone. If it passes each time, it counts as
# passed, and is reported as unstable. Sourced by check.sh after lane.sh.
#
# This does not apply to reports of the kernel's checkers or of sanitizers, to leaks, to inputs that
# a fuzzer found, or to crashes after which data was missing: one occurrence is proof enough.

# The first logs of unstable tests, by lane; "list" has the names of all tests that failed.
UNSTABLE=$BUILD/unstable

# This many tests may be unstable. If more tests failed, none is run again: the check has failed.
UNSTABLE_MOST=2
UNSTABLE_TRIES=3

# Unstable tests of this run, as "LANE TEST", and their logs; tests that failed in this run, and in
# the previous one.
UNSTABLE_NOW=() UNSTABLE_LOGS=() UNSTABLE_FAILED=() UNSTABLE_BEFORE=''

unstable_begin()
{
	mkdir -p "$UNSTABLE"
	# Keep the list until this run writes a new one: the run may be interrupted.
	find "$UNSTABLE" -mindepth 1 -maxdepth 1 ! -name list -exec rm -rf {} +
	UNSTABLE_BEFORE=$(cat "$UNSTABLE/list" 2>/dev/null || true)
}

# has_report LOG...: did a sanitizer write a report there?
has_report()
{
	grep -qsE 'ERROR: |WARNING: |runtime error: ' "$@"
}

# of_suite TEST: print the T that selects a suite's case, without the parameters that may follow it.
of_suite()
{
	local parts

	IFS=. read -ra parts <<<"$1"
	echo "${parts[0]}.${parts[1]:-*}"
}

# of_program PROGRAM TEST: print the T that selects a test of a program of the harness, or of
# run-tool. Other scripts run as a whole, because their tests build on each other.
of_program()
{
	if [[ $1 =~ ^($NO_CASES)$ ]]; then
		echo "$1"
	elif [ -z "$2" ] || [[ $1 = run-!(tool) ]] || [ "$1" = bench_stock ]; then
		echo "$1.*"
	else
		echo "$1.${2##*.}"
	fi
}

# selection LANE FILE TEST: print the variables with which LANE runs only TEST of a result's FILE,
# or all tests of the file if TEST is empty. Fails if the test must not be run again.
selection()
{
	local lane=$1 program sanitizer
	program=$(basename "$2" .ktap)

	[ -e "$2" ] || return
	case $lane/$program in
	*/kernel|*/lane)
		return 1;;
	user/kunit-*)
		[ -n "$3" ] && ! has_report "${2%.ktap}.log" || return
		sanitizer=${program#kunit-}
		echo "SANITIZERS=${sanitizer%%-*}"
		echo "T=$(of_suite "$3")";;
	user/bench)
		echo T=bench;;
	uml*/kunit-*|stock*/kunit-*)
		[ -n "$3" ] || return
		echo "T=$(of_suite "$3")";;
	uml*/*-bwtree|stock*/*-bwtree)
		echo ENGINE=bwtree
		echo "T=$(of_program "${program%-bwtree}" "$3")";;
	uml*|stock*)
		echo "T=$(of_program "$program" "$3")";;
	*)
		return 1;;
	esac
}

# has_passed FILE TEST: did TEST, or any test if TEST is empty, pass without being skipped?
has_passed()
{
	local name=$2 parts

	if [[ $(basename "$1") = kunit-* ]]; then
		IFS=. read -ra parts <<<"$2"
		name=${parts[1]:-${parts[0]}}
	fi
	awk -v name="$name" '
		/^ *ok [0-9]+ / && !/# SKIP/ {
			sub(/^ *ok [0-9]+ (- )?/, "")
			found = found || name == "" || $0 == name
		}
		END { exit !found }' "$1"
}

# failed_tests LANE: print a line for each failed test: LANE, FILE, TEST, its number of failures,
# and "ended" if the program's output ended in the middle of the test. A character that no name
# contains separates them. Tests that did not run because the output had ended count as failures of
# that test.
failed_tests()
{
	local failures=$BUILD/$1/results/failures

	[ ! -e "$failures" ] || awk -F '\t' -v OFS='\037' -v lane="$1" '
		{ test = $2; end = "" }
		test ~ /^\(|\.\(/ { test = $3; end = "ended" }
		{
			key = lane OFS $1 OFS test
			if (!(key in nr))
				order[++n] = key
			nr[key]++
			if (end)
				ended[key] = end
		}
		END {
			for (i = 1; i <= n; i++)
				print order[i], nr[order[i]], ended[order[i]]
		}' "$failures"
}

# run_again LANE LOG VARIABLE...: run a lane with these variables, in a process group of its own.
run_again()
{
	local lane=$1 log=$2 rc=0
	shift 2

	trap stop INT TERM
	set -m
	(
		# shellcheck disable=SC2163 # names with values
		export "$@"
		without_locks run_lane "$lane"
	) >>"$log" 2>&1 </dev/null &
	# shellcheck disable=SC2004 # by name
	GROUP[$lane]=$!
	set +m
	wait "${GROUP[$lane]}" || rc=$?
	trap 'exit 130' INT TERM
	unset "GROUP[$lane]"
	return $rc
}

# passes_again LANE FILE TEST VARIABLES [VARIABLES-OF-ALL]: does the test pass each time? With
# VARIABLES-OF-ALL, does the whole program pass afterwards? Variables are separated by new lines.
passes_again()
{
	local lane=$1 file=$2 test=$3 name log i variables
	name=$(basename "$file" .ktap)
	log=$UNSTABLE/$lane/again-$name.log

	mapfile -t variables <<<"$4"
	for i in $(seq $UNSTABLE_TRIES); do
		say "$lane: $name${test:+ $test}: again, $i of $UNSTABLE_TRIES"
		run_again "$lane" "$log" "${variables[@]}" && has_passed "$file" "$test" || return
	done
	if [ -n "${5:-}" ]; then
		mapfile -t variables <<<"$5"
		say "$lane: $name: all of it"
		run_again "$lane" "$log" "${variables[@]}" && has_passed "$file" ''
	fi
}

# keep_results LANE: keep the results of the first run, except tests' temporary files, which may be
# large.
keep_results()
{
	[ ! -e "$UNSTABLE/$1" ] || return 0
	mkdir -p "$UNSTABLE/$1"
	find "$BUILD/$1/results" -mindepth 1 -maxdepth 1 ! -name tmp \
		-exec cp -r -t "$UNSTABLE/$1" {} + || say "$1: not all logs could be kept"
}

# unstable LANE TEST LOG: record an unstable test.
unstable()
{
	UNSTABLE_NOW+=("$1 $2")
	UNSTABLE_LOGS+=("${3#"$TOP"/}")
}

# try_again STATE LANE...: run the failed tests of these lanes again, if that can make the check
# pass, and adjust PASSED and FAILED. If the tree has changed since the check began, a pass does not
# count, because it is of another source.
try_again()
{
	local state=$1 lane file test nr ended name row i rows tests=() alls=() failures=0 again=1
	shift

	mapfile -t rows < <(for lane in "$@"; do failed_tests "$lane"; done)
	for row in "${rows[@]}"; do
		IFS=$'\037' read -r lane file test nr ended <<<"$row"
		name=$(basename "$file" .ktap)
		UNSTABLE_FAILED+=("$lane $name${test:+.$test}")
		failures=$((failures + nr))
		tests+=("$(selection "$lane" "$file" "$test" || true)")
		alls+=("$([ -z "$test" ] || [ -z "$ended" ] || selection "$lane" "$file" '' || true)")
		[ -n "${tests[-1]}" ] || again=0
	done
	# Other failures are not of tests, so running tests again cannot make the check pass.
	[ "$failures" -eq "$FAILED" ] && [ ${#rows[@]} -le $UNSTABLE_MOST ] && [ $again = 1 ] ||
		return 0
	for i in "${!rows[@]}"; do
		IFS=$'\037' read -r lane file test nr ended <<<"${rows[i]}"
		name=$(basename "$file" .ktap)
		keep_results "$lane"
		if ! passes_again "$lane" "$file" "$test" "${tests[i]}" "${alls[i]}"; then
			say "$lane: $name${test:+ $test}: failed again"
		elif [ "$(state_of_tree)" != "$state" ]; then
			say "$lane: $name: the tree has changed since it failed"
		else
			PASSED=$((PASSED + nr)) FAILED=$((FAILED - nr))
			unstable "$lane" "$name${test:+.$test}" "$UNSTABLE/$lane/$name.ktap"
		fi
	done
}

# unstable_broken LANE...: record the broken builds that were caught only at broken.sh's second try.
# broken.sh has kept the log and results of the first.
unstable_broken()
{
	local name

	[[ " $* " = *' broken '* ]] || return 0
	while read -r name; do
		mkdir -p "$UNSTABLE/broken"
		cp -r "$BUILD/broken/$name.first" "$UNSTABLE/broken/$name" ||
			say "broken: $name: not all logs could be kept"
		UNSTABLE_FAILED+=("broken $name")
		unstable broken "$name" "$UNSTABLE/broken/$name/log"
	done < <(sed -n 's/^# unstable: //p' "$BUILD/broken/results/broken.ktap" 2>/dev/null)
}

# List the unstable tests. Those that failed in the previous run too count as failed.
unstable_end()
{
	local i

	for i in "${!UNSTABLE_NOW[@]}"; do
		echo "UNSTABLE ${UNSTABLE_NOW[i]#* } (${UNSTABLE_LOGS[i]})"
		if grep -qxF -e "${UNSTABLE_NOW[i]}" <<<"$UNSTABLE_BEFORE"; then
			FAILED=$((FAILED + 1))
			echo "FAILED ${UNSTABLE_NOW[i]#* }: it failed in the run before, too"
		fi
	done
	if [ ${#UNSTABLE_NOW[@]} -gt $UNSTABLE_MOST ]; then
		FAILED=$((FAILED + 1))
		echo "FAILED ${#UNSTABLE_NOW[@]} tests are unstable: more than $UNSTABLE_MOST"
	fi
	printf '%s\n' "${UNSTABLE_FAILED[@]}" | sed '/^$/d' >"$UNSTABLE/list"
}
