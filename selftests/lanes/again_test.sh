#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# again_test.sh: test how "make check" treats tests that fail by chance, and those that always fail,
# with a lane that fails on demand. Prints what is wrong.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/again.sh
. "$LANES/again.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
FAKE=$DIR/selftests/lanes

# Make a fake lane that runs a program "prog" with three tests. These files in $DIR control it:
#	twin		run a second program
#	PROGRAM.TEST	"N": the test fails N times; "N hang": it hangs N times;
#			"N late": it passes N times, and fails after that
#	skip		tests that are run again are skipped
#	edit		the tree is changed when tests are run again
#	report		results to add to the kernel's
#	wait		after this many runs of a part, start a machine that never ends;
#			the file "machine" then has its process id
make_lane()
{
	mkdir -p "$FAKE"
	cp "$LANES"/{check.sh,common.sh,lane.sh,again.sh,ktap.py,broken.py,versions} "$FAKE/"
	cp "$LANES/broken.sh" "$FAKE/try.sh"
	printf '#!/bin/sh\n' | tee "$FAKE/deps.sh" >"$FAKE/kernel.sh"
	cat >"$FAKE/uml.sh" <<-'END'
		#!/bin/bash
		set -euo pipefail
		. "$(dirname "$0")/common.sh"
		. "$LANES/lane.sh"

		# run STATE NUMBER TEST: STATE is the file PROGRAM.TEST
		run()
		{
			local left how

			read -r left how < <(cat "$1" 2>/dev/null || echo 0)
			echo "#  RUN           x.$3 ..."
			[ "$left" -eq 0 ] || echo "$((left - 1)) $how" >"$1"
			if [ "$how" = late ] && [ "$left" -eq 0 ]; then
				how=now
			elif [ -n "$T" ] && [ -e "$TOP/skip" ]; then
				echo "ok $2 x.$3 # SKIP"
				return
			elif [ "$how" = late ] || [ "$left" -eq 0 ]; then
				echo "ok $2 x.$3"
				return
			fi
			[ "$how" != hang ] || { echo '# kvtree-lane: stopped: it said nothing'; exit; }
			echo "not ok $2 x.$3"
		}

		# program NAME
		program()
		{
			local n=0 name names=(one two three)

			case ${T#*.} in
			''|'*') ;;
			*) names=("${T#*.}");;
			esac
			echo TAP version 13
			echo "1..${#names[@]}"
			for name in "${names[@]}"; do
				n=$((n + 1))
				run "$TOP/$1.$name" $n "$name"
			done
		}

		lane_begin uml
		echo "${T:-all}" >>"$TOP/runs"
		if [ -n "$T" ] && [ -e "$TOP/wait" ]; then
			left=$(cat "$TOP/wait")
			echo $((left - 1)) >"$TOP/wait"
			# shellcheck disable=SC2016 # the machine expands it
			[ "$left" -gt 0 ] || run_logged "$LOGS/machine.log" machine '' \
				bash -c 'echo $$ >"$0"; sleep 1000; true' "$TOP/machine"
		fi
		printf 'KTAP version 1\n1..1\nok 1 insmod_kvtree\n' >"$LOGS/lane.ktap"
		[ ! -e "$TOP/slow" ] || mv "$TOP/slow" "$LOGS/stopped"
		printf 'KTAP version 1\n1..1\n%sok 1 kernel_ran_to_the_end\n' \
			"$(cat "$TOP/report" 2>/dev/null || true)" >"$LOGS/kernel.ktap"
		for name in prog twin; do
			[ $name = prog ] || [ -e "$TOP/twin" ] || continue
			[ -n "$T" ] && [ "${T%%.*}" != $name ] || (program $name) >"$LOGS/$name.ktap"
		done
		[ -z "$T" ] || [ ! -e "$TOP/edit" ] || git -C "$TOP" add -f edit
		summary uml "$LOGS"
	END
	cat >"$FAKE/broken.sh" <<-'END'
		#!/bin/bash
		dir=${0%/*}/../../build/broken
		mkdir -p "$dir/patch.first"
		touch "$dir/patch.first/log"
		printf 'KTAP version 1\n1..7\n# unstable: patch\n'
		printf 'ok %d patch\n' 1 2 3 4 5 6 7
	END
	chmod +x "$FAKE"/*.sh
}

# Make a repository: check.sh asks git whether the tree has changed.
make_tree()
{
	printf '*\n' >"$DIR/.gitignore"
	git -C "$DIR" init -q
	git -C "$DIR" -c user.name=x -c user.email=x@x commit -q --allow-empty -m x
}

# Memory noted for a machine counts only while the machine's process exists.
memory_is_reserved()
{
	local machines="$LANES/uml-lib.sh" said

	said=$(
		# shellcheck source=selftests/lanes/uml-lib.sh
		. "$machines"
		SHM=$DIR SHM_NOTES=$DIR/notes
		df() { printf 'size avail\n1000 1000\n'; }
		sleep 60 >/dev/null &
		other=$!
		mkdir "$SHM_NOTES"
		: >"$SHM_NOTES/$$"
		shm_reserve $other 600 && echo -n 'one '
		shm_reserve $$ 600 || echo -n 'not two '
		kill $other && { wait $other || true; }
		shm_reserve $$ 600 && echo -n 'another'
	)
	[ "$said" = 'one not two another' ] || echo "memory: $said"
	said=$(
		# shellcheck source=selftests/lanes/uml-lib.sh
		. "$machines"
		SHM_NOTES=$DIR/notes MEMORY=1G LOGS=$DIR
		rm -rf "$SHM_NOTES"
		mkdir -p "$DIR/kernel"
		# shellcheck disable=SC2016 # it expands them
		printf '#!/bin/sh\necho $$ $(ls %s)\n' "$SHM_NOTES" >"$DIR/kernel/linux"
		chmod +x "$DIR/kernel/linux"
		OUT=$DIR
		uml_boot "$DIR/kernel"
	)
	[ "$said" = "${said%% *} ${said%% *} lock" ] || echo "memory: process and notes: $said"
}

# check WHAT RC CLOSING RUNS UNSTABLE [LANE...]: run a whole check. It must exit with RC, end with
# the line CLOSING and list the tests UNSTABLE. RUNS are the values of T with which the lane must
# run.
check()
{
	local what=$1 rc=0 wanted=$2 said unstable

	rm -f "$DIR/runs"
	said=$(env -u T -u ENGINE KVT_WHOLE=1 KVT_BUILD="$DIR/build" "$FAKE/check.sh" "${@:6}" \
		2>/dev/null) || rc=$?
	unstable=$(sed -n 's/^UNSTABLE //p' <<<"$said" | xargs)
	[ $rc -eq "$wanted" ] || echo "$what: exit code $rc"
	[ "$(tail -n 1 <<<"$said")" = "$3" ] || echo "$what: '$(tail -n 1 <<<"$said")', not '$3'"
	[ "$(xargs <"$DIR/runs")" = "$4" ] || echo "$what: ran '$(xargs <"$DIR/runs")', not '$4'"
	[ "$unstable" = "$5" ] || echo "$what: unstable '$unstable', not '$5'"
	grep -qxF "result: $3" "$DIR/build/checked" || echo "$what: build/checked has not '$3'"
	rm -f "$DIR"/{prog,twin}.* "$DIR"/{report,skip,twin}
}

# Run a check without failures, after which the list of failed tests is empty.
all_is_well()
{
	rm -f "$DIR"/{prog,twin}.* "$DIR"/{report,skip,twin}
	check 'all is well' 0 '5 passed, 0 failed' all '' uml
}

# fails HOW TEST...: let tests fail. HOW is the content of PROGRAM.TEST.
fails()
{
	local test

	for test in "${@:2}"; do
		echo "$1" | tee "$DIR/prog.$test" >"$DIR/twin.$test"
	done
}

# expect LANE FILE TEST WANTED: selection must print WANTED.
expect()
{
	local got

	mkdir -p "$DIR/results"
	touch "$DIR/results/$2"
	got=$(selection "$1" "$DIR/results/$2" "$3" | xargs) || got=none
	[ "$got" = "$4" ] || echo "$1/$2 $3: selected by '$got', not '$4'"
}

# broken WHAT RC SAID: run broken.sh with one patch. It must exit with RC and print SAID.
broken()
{
	local rc=0 said

	said=$(env -u T KVT_BUILD="$DIR/build" "$FAKE/try.sh" one 2>/dev/null | grep -v '^KTAP\|^1\.\.' |
		xargs) || rc=$?
	[ $rc -eq "$2" ] || echo "$1: exit code $rc"
	# shellcheck disable=SC2053
	[[ $said == $3 ]] || echo "$1: said '$said', not '$3'"
	rm -f "$DIR"/{prog,twin}.*
}

# interrupted WHAT CMD...: signal CMD's process group, as a terminal does at ^C, while the machine
# of the second try runs. CMD must stop the machine, exit with 130, and print no result.
interrupted()
{
	local what=$1 pid machine rc=0 tries=600
	shift

	rm -f "$DIR/machine"
	set -m
	env -u T -u ENGINE KVT_BUILD="$DIR/build" "$@" >"$DIR/said" 2>/dev/null </dev/null &
	pid=$!
	set +m
	while [ ! -s "$DIR/machine" ] && [ $((tries--)) -gt 0 ]; do
		sleep 0.1
	done
	# Not SIGINT: the caller of this script may ignore it, and bash cannot undo that.
	kill -TERM -- "-$pid" || true
	wait "$pid" || rc=$?
	[ $rc -eq 130 ] || echo "$what: exit code $rc"
	machine=$(cat "$DIR/machine" 2>/dev/null || true)
	[ -n "$machine" ] || echo "$what: there was no second try"
	# The command line of a zombie is empty.
	if [ -n "$machine" ] && grep -qsa . "/proc/$machine/cmdline"; then
		echo "$what: the machine was left"
		kill -KILL "$machine"
	fi
	! grep -q '^ok\|^not ok\|^[0-9]* passed' "$DIR/said" || echo "$what: there is a result"
	rm -f "$DIR/wait"
}

interruptions()
{
	all_is_well
	fails 1 one
	echo 0 >"$DIR/wait"
	interrupted 'a check' env KVT_WHOLE=1 "$FAKE/check.sh" uml
	rm -f "$DIR"/{prog,twin}.*
	fails '2 late' one
	echo 1 >"$DIR/wait"
	interrupted 'a broken build' "$FAKE/try.sh" one
	rm -f "$DIR"/{prog,twin}.*
}

broken_builds()
{
	mkdir -p "$DIR/selftests/broken"
	cat >"$DIR/selftests/broken/one.patch" <<-'END'
		Lane: uml
		Tests: prog.one
		Expect: not ok 1 x.one
		--- broken
		@@
		-it
		+is
	END
	echo it >"$DIR/broken"
	echo /build/ >"$DIR/.gitignore"
	fails 9 one
	broken 'caught' 0 'ok 1 one'
	fails '1 late' one
	broken 'caught late' 0 '# unstable: one ok 1 one'
	[ -e "$DIR/build/broken/one.first/results/prog.ktap" ] || echo 'caught late: the first is not kept'
	fails '1 late' one
	touch "$DIR/slow"
	broken 'too slow' 0 'ok 1 one'
	fails '2 late' one
	broken 'not caught' 1 '# all tests pass;* not ok 1 one'
}

selections()
{
	expect uml uring.ktap uring.sqpoll.one T=uring.one
	expect uml uring.ktap '' 'T=uring.*'
	expect uml abi-bwtree.ktap x.one 'ENGINE=bwtree T=abi.one'
	expect uml-debug kunit-kvtree_kunit.ktap kvt_park.case.3 T=kvt_park.case
	expect uml-debug kunit-kvtree_kunit.ktap kvt_park 'T=kvt_park.*'
	expect uml-debug kunit-kvtree_kunit.ktap '' none
	expect uml run-docs.ktap Documentation/abi.rst:7 'T=run-docs.*'
	expect uml run-tool.ktap one T=run-tool.one
	expect uml run-boot.ktap one T=run-boot
	expect stock test_firewall.ktap one T=test_firewall.one
	expect uml kernel.ktap no_kernel_reports none
	expect uml-debug lane.ktap no_leaks_while_loaded none
	expect user kunit-tsan-1.ktap kvt_park.case 'SANITIZERS=tsan T=kvt_park.case'
	echo 'WARNING: ThreadSanitizer: data race' >"$DIR/results/kunit-asan.log"
	yes x | head -c 100000 >>"$DIR/results/kunit-asan.log" || true
	expect user kunit-asan.ktap kvt_park.case none
	expect user fuzz.ktap one none
	expect crash crash.ktap replay-one none
	expect history check.ktap one none
}

main()
{
	local log='(build/unstable/uml/prog.ktap)' three='prog.one prog.one prog.one'

	make_lane
	make_tree
	memory_is_reserved
	all_is_well
	fails 1 one
	check 'one fails once' 0 '5 passed, 0 failed' "all $three" "prog.x.one $log" uml
	grep -q 'not ok 1 x.one' "$DIR/build/unstable/uml/prog.ktap" || echo 'the first log is not kept'
	grep -qx 'unstable: uml prog.x.one' "$DIR/build/checked" || echo 'build/checked: not unstable'
	fails 1 one
	check 'and in the next run' 1 '5 passed, 1 failed' "all $three" "prog.x.one $log" uml
	all_is_well
	fails 1 one
	check 'and then again' 0 '5 passed, 0 failed' "all $three" "prog.x.one $log" uml
	fails 2 two
	check 'another, which fails again' 1 '4 passed, 1 failed' 'all prog.two' '' uml
	fails 9 one
	check 'one fails always' 1 '4 passed, 1 failed' 'all prog.one' '' uml
	fails 1 one
	check 'and in the next run once' 1 '5 passed, 1 failed' "all $three" "prog.x.one $log" uml
	all_is_well
	fails 1 one two
	check 'two fail' 0 '5 passed, 0 failed' "all $three ${three//one/two}" \
		"prog.x.one $log prog.x.two $log" uml
	fails 1 one two three
	check 'three fail' 1 '2 passed, 3 failed' all '' uml
	all_is_well
	fails '1 hang' two
	check 'one hangs' 0 '5 passed, 0 failed' "all ${three//one/two} prog.*" \
		"prog.x.two $log" uml
	fails '2 hang' three
	check 'one hangs again' 1 '4 passed, 2 failed' 'all prog.three' '' uml
	fails 1 one
	touch "$DIR/skip"
	check 'what is skipped has not passed' 1 '4 passed, 1 failed' 'all prog.one' '' uml
	fails 1 one
	all_is_well
	fails 1 one
	touch "$DIR/twin"
	check 'one in each of two programs' 0 '8 passed, 0 failed' \
		"all $three ${three//prog/twin}" "prog.x.one $log twin.x.one ${log/prog/twin}" uml
	all_is_well
	fails 1 one
	touch "$DIR/edit"
	check 'the tree changes' 1 '4 passed, 1 failed' "all $three" '' uml
	git -C "$DIR" rm -q -f edit
	fails 1 one
	echo -n 'not ' >"$DIR/report"
	check 'the kernel reports' 1 '3 passed, 2 failed' all '' uml
	check 'a broken build' 0 '12 passed, 0 failed' all 'patch (build/unstable/broken/patch/log)' \
		uml broken
	all_is_well
	fails 1 one two
	check 'too many are unstable' 1 '12 passed, 1 failed' "all $three ${three//one/two}" \
		"prog.x.one $log prog.x.two $log patch (build/unstable/broken/patch/log)" uml broken
	selections
	broken_builds
	interruptions
}

main
