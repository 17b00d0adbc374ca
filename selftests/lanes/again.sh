# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153
#
# What "make check" does with tests that failed: it runs each once more, alone, three times. If it
# passes each time it counts as passed, and is called unstable. Sourced by check.sh after lane.sh.
#
# What a checker of the kernel or a sanitizer reported, a leak, an input that a fuzzer found, and a
# record in which something is lost are no such failures: seeing them once is proof enough.

# The first logs of unstable tests, by lane, and their names in "list". The names are compared with
# those of the run before.
UNSTABLE=$BUILD/unstable

# So many may be unstable. With more failures nothing is run again: the check has failed anyhow.
UNSTABLE_MOST=2
UNSTABLE_TRIES=3

# "LANE TEST", of this run and of the run before, and where the logs of this run's are.
UNSTABLE_NOW=() UNSTABLE_BEFORE='' UNSTABLE_LOGS=()

unstable_begin()
{
	mkdir -p "$UNSTABLE"
	# The list stays until there is another: a run may be interrupted.
	find "$UNSTABLE" -mindepth 1 -maxdepth 1 ! -name list -exec rm -rf {} +
	UNSTABLE_BEFORE=$(cat "$UNSTABLE/list" 2>/dev/null || true)
}

# has_report LOG...: did a sanitizer write one there?
has_report()
{
	cat "$@" 2>/dev/null | grep -qE 'ERROR: |WARNING: |runtime error: '
}

# of_suite TEST: a suite's case as T selects it; a case's parameters follow it.
of_suite()
{
	local parts

	IFS=. read -ra parts <<<"$1"
	echo "${parts[0]}.${parts[1]:-*}"
}

# of_program PROGRAM TEST: the same for a program, of which T selects cases by the last part of
# their names; scripts' cases have one part, with or without dots.
of_program()
{
	if [ -z "$2" ] || [[ $1 =~ ^($NO_CASES)$ ]]; then
		[[ $1 =~ ^($NO_CASES)$ ]] && echo "$1" || echo "$1.*"
	elif [[ $1 = run-* ]]; then
		echo "$1.$2"
	else
		echo "$1.${2##*.}"
	fi
}

# selection LANE FILE TEST: print the variables with which LANE runs only that TEST of a result's
# FILE, or all of the file's tests if TEST is empty. Fails if it is not to be run again.
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
	crash/crash)
		[[ $3 = boot-* ]] && echo PARTS=boot;;
	*)
		return 1;;
	esac
}

# failed_tests LANE: of the lane's failures print a line for each test: LANE, FILE, TEST, how many
# failures it is, and "ended" if the program's output ended in the middle of it, separated by a
# character that no name has. What did not run after that is no failure of its own.
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

# run_again LANE NAME VARIABLE...: alone. The log is beside the first one's.
run_again()
{
	local lane=$1 log
	log=$UNSTABLE/$1/again-$2.log
	shift 2

	(
		# shellcheck disable=SC2163 # names with values
		export "$@"
		without_locks run_lane "$lane"
	) >>"$log" 2>&1 </dev/null
}

# passes_again LANE FILE TEST ENDED: each time? The tests that did not run because the program ended
# have to pass, too.
passes_again()
{
	local lane=$1 file=$2 test=$3 ended=$4 name i variables
	name=$(basename "$file" .ktap)

	mapfile -t variables < <(selection "$lane" "$file" "$test")
	for i in $(seq $UNSTABLE_TRIES); do
		say "$lane: $name${test:+ $test}: again, $i of $UNSTABLE_TRIES"
		run_again "$lane" "$name" "${variables[@]}" || return
	done
	if [ -n "$test" ] && [ -n "$ended" ]; then
		mapfile -t variables < <(selection "$lane" "$file" '')
		say "$lane: $name: all of it"
		run_again "$lane" "$name" "${variables[@]}"
	fi
}

# unstable LANE TEST LOG
unstable()
{
	UNSTABLE_NOW+=("$1 $2")
	UNSTABLE_LOGS+=("${3#"$TOP"/}")
}

# try_again LANE...: what failed in these lanes, if that may save the check: PASSED and FAILED.
try_again()
{
	local lane file test nr ended name failed=() row failures=0

	mapfile -t failed < <(for lane in "$@"; do failed_tests "$lane"; done)
	for row in "${failed[@]}"; do
		IFS=$'\037' read -r lane file test nr ended <<<"$row"
		selection "$lane" "$file" "$test" >/dev/null || return 0
		failures=$((failures + nr))
	done
	# There may be others, which are no tests.
	[ "$failures" -eq "$FAILED" ] && [ ${#failed[@]} -le $UNSTABLE_MOST ] || return 0
	for row in "${failed[@]}"; do
		IFS=$'\037' read -r lane file test nr ended <<<"$row"
		name=$(basename "$file" .ktap)
		[ -e "$UNSTABLE/$lane" ] || cp -r "$BUILD/$lane/results" "$UNSTABLE/$lane"
		if passes_again "$lane" "$file" "$test" "$ended"; then
			PASSED=$((PASSED + nr)) FAILED=$((FAILED - nr))
			unstable "$lane" "$name${test:+.$test}" "$UNSTABLE/$lane/$name.ktap"
		else
			say "$lane: $name${test:+ $test}: failed again"
		fi
	done
}

# unstable_broken LANE...: broken builds have been tried twice, by broken.sh, which has kept the
# first log and results.
unstable_broken()
{
	local name

	[[ " $* " = *' broken '* ]] || return 0
	while read -r name; do
		mkdir -p "$UNSTABLE/broken"
		cp -r "$BUILD/broken/$name.first" "$UNSTABLE/broken/$name"
		unstable broken "$name" "$UNSTABLE/broken/$name/log"
	done < <(sed -n 's/^# unstable: //p' "$BUILD/broken/results/broken.ktap" 2>/dev/null)
}

# List what was unstable, and FAILED what was so too often.
unstable_end()
{
	local i

	for i in "${!UNSTABLE_NOW[@]}"; do
		echo "UNSTABLE ${UNSTABLE_NOW[i]#* } (${UNSTABLE_LOGS[i]})"
		if grep -qxF -e "${UNSTABLE_NOW[i]}" <<<"$UNSTABLE_BEFORE"; then
			FAILED=$((FAILED + 1))
			echo "FAILED ${UNSTABLE_NOW[i]#* }: unstable in two runs in a row"
		fi
	done
	if [ ${#UNSTABLE_NOW[@]} -gt $UNSTABLE_MOST ]; then
		FAILED=$((FAILED + 1))
		echo "FAILED ${#UNSTABLE_NOW[@]} tests are unstable: more than $UNSTABLE_MOST"
	fi
	printf '%s\n' "${UNSTABLE_NOW[@]}" | sed '/^$/d' >"$UNSTABLE/list"
}
