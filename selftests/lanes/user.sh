#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# user.sh: run the engines' sources compiled into programs (selftests/user): the KUnit suites,
# with AddressSanitizer and UBSan and with ThreadSanitizer, the fuzzers, and a short run of
# the benchmark.
#
# T=PATTERN selects suites, fuzz, fuzz-log, fuzz-resp, format and bench; see lane.sh. SANITIZERS
# selects the sanitizers for the suites, asan and tsan. The fuzzer of the engines runs for FUZZ_TIME
# seconds, the one of recovery for a quarter of that. They keep interesting inputs in
# build/user/corpus, corpus-log and corpus-resp. "make check" begins with the committed corpus only,
# so that it does not depend on earlier runs, and leaves out fuzz-resp, whose inputs never repeat.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

# make check always uses one seed, so that its results repeat; other runs use others.
FUZZ_SEED=${FUZZ_SEED:-0}
if [ "$SHORT" = 1 ]; then
	FUZZ_TIME=${FUZZ_TIME:-30} FUZZ_SEED=1
else
	FUZZ_TIME=${FUZZ_TIME:-60}
fi

# For "make check": ThreadSanitizer finds nothing in suites without threads. AddressSanitizer leaves
# out those with freely running threads: ThreadSanitizer also sees uses of freed memory, and
# uml-debug watches them as well.
THREADED='kvt_* *hazard *_steps *_reclaim'
NOT_RANDOM='kvtree* kvt_[!c]* kvt_c[!o]*'
# Seconds after which silent suites are stopped.
TIMEOUT=${LANE_TIMEOUT:-1900}
if [ "$QUICK" = 1 ]; then
	SANITIZERS=asan LEAST=250
fi
SANITIZERS=${SANITIZERS:-asan tsan}
[ "$SANITIZERS" != 'asan tsan' ] || LEAST=370

# want NAME: does T select this part, which is no suite?
want()
{
	[ "$QUICK" = 0 ] || return
	# shellcheck disable=SC2254
	case $1 in
	$(test_glob)) true;;
	*) false;;
	esac
}

wants_resp()
{
	want fuzz-resp && { [ "$SHORT" != 1 ] || [ -n "$T" ]; }
}

# suites SANITIZER: print the patterns of the suites to run with it, one per line.
suites()
{
	if [ "$SHORT" != 1 ] || [ -n "$T" ]; then
		test_glob
	elif [ "$1" = tsan ]; then
		tr ' ' '\n' <<<"$THREADED"
	else
		tr ' ' '\n' <<<"$NOT_RANDOM"
	fi
}

# kunit SANITIZER PATTERN NUMBER: run suites. The sanitizer's reports are in a log beside the
# results.
kunit()
{
	local rc=0 out=$LOGS/kunit-$1${3:+-$3}

	"$OUT/kvt-kunit-$1" "$2" \
		>"$out.ktap" 2>"$out.log" || rc=$?
	# T selected no suite of this program.
	if [ $rc -eq 0 ] && grep -q '^1\.\.0$' "$out.ktap"; then
		rm "$out.ktap"
		return
	fi
	echo "# kvtree-lane: exit $rc" >>"$out.ktap"
}

# Seconds that one input may take. libFuzzer measures by the clock, and other programs use the
# processors too: so it is long.
INPUT_LONGEST=600

fuzz()
{
	local ok='not ok'

	mkdir -p "$CORPUS"
	if timeout $((FUZZ_TIME + 900)) "$OUT/kvt-fuzz" -max_total_time="$FUZZ_TIME" \
			-seed="$FUZZ_SEED" \
			-detect_leaks=0 -timeout=$INPUT_LONGEST -print_final_stats=1 \
			-artifact_prefix="$LOGS/" "$CORPUS" \
			"$TOP/selftests/user/fuzz/corpus" >"$LOGS/fuzz.log" 2>&1; then
		ok='ok'
	fi
	sed -n 's/^stat:://p' "$LOGS/fuzz.log" |
		results "$LOGS/fuzz.ktap" "$ok" operations_made_of_bytes_agree_with_a_model
}

# Fuzz recovery with changed structures of disks.
fuzz_log()
{
	local ok='not ok' golden=$OUT/golden

	mkdir -p "$CORPUS-log" "$golden"
	if tar -xJf "$TOP/selftests/format/golden/v1.tar.xz" -C "$golden" &&
		KVT_GOLDEN=$golden timeout $((FUZZ_TIME / 4 + 900)) "$OUT/kvt-fuzz-log" \
			-seed="$FUZZ_SEED" \
			-max_total_time=$((FUZZ_TIME / 4)) -max_len=64 -timeout=$INPUT_LONGEST \
			-print_final_stats=1 -artifact_prefix="$LOGS/log-" \
			"$CORPUS-log" >"$LOGS/fuzz-log.log" 2>&1; then
		ok='ok'
	fi
	sed -n 's/^stat:://p' "$LOGS/fuzz-log.log" |
		results "$LOGS/fuzz-log.ktap" "$ok" structures_made_of_bytes_are_restored_or_refused
}

# Fuzz what the server reads: about as many inputs as take half of the time. Go keeps one on which
# it fails in tools/server/testdata; all tests of the server begin with these.
fuzz_resp()
{
	local ok='not ok'

	mkdir -p "$CORPUS-resp"
	if (cd "$TREE/tools/server" && timeout $((FUZZ_TIME + 900)) "$OUT/kvt-fuzz-resp" \
			-test.run='^$' -test.fuzz='^FuzzInput$' -test.parallel=1 \
			-test.fuzztime=$((FUZZ_TIME * 2000))x -test.fuzzminimizetime=20x \
			-test.fuzzcachedir="$CORPUS-resp") >"$LOGS/fuzz-resp.log" 2>&1; then
		ok='ok'
	fi
	results "$LOGS/fuzz-resp.ktap" "$ok" commands_of_any_bytes_are_read_alike_in_pieces </dev/null
}

# The server's tests, with what Go needs to know which inputs reach new code.
build_resp()
{
	local go

	go=$(go_command) || die "no Go from $GO_OLDEST on"
	cd "$TREE/tools/server" && GOFLAGS='-mod=readonly -trimpath' GOTOOLCHAIN=local GOWORK=off \
		CGO_ENABLED=0 "$go" test -c -fuzz=FuzzInput -o "$OUT/kvt-fuzz-resp" .
}

# Read checkpoints of ranges, intact and damaged: selftests/format. The crash lane damages more of
# their bytes.
format()
{
	local rc=0

	"$OUT/kvt-format" ranges --places 500 --every 16 >"$LOGS/format.ktap" \
		2>"$LOGS/format.log" || rc=$?
	echo "# kvtree-lane: exit $rc" >>"$LOGS/format.ktap"
}

# Run all workloads briefly, to check that all maps find the same. Times do not matter.
bench()
{
	local ok='not ok' workloads=() i

	for i in {1..11}; do
		workloads+=(-w "W$i")
	done
	if timeout 1800 "$OUT/kvt-bench" -k 5000 -r 1 -p huge "${workloads[@]}" \
			-j "$LOGS/bench.json" >"$LOGS/bench.log" 2>&1; then
		ok='ok'
	fi
	results "$LOGS/bench.ktap" "$ok" all_maps_find_the_same </dev/null
}

# Run everything. The fuzzers run beside the rest: they have one thread each, and suites sleep at
# times.
run()
{
	local sanitizer pattern n

	if want fuzz; then
		fuzz &
	fi
	if want fuzz-log; then
		fuzz_log &
	fi
	if wants_resp; then
		fuzz_resp &
	fi
	if want format; then
		format
	fi
	if want bench; then
		bench
	fi
	for sanitizer in $SANITIZERS; do
		n=
		while read -r pattern; do
			kunit "$sanitizer" "$pattern" $n
			n=$((n + 1))
		done < <(suites "$sanitizer")
	done
	wait
}

# Print how far the lane is, for the progress line.
user_progress()
{
	local f

	for f in asan tsan; do
		[ ! -e "$LOGS/kunit-$f.ktap" ] ||
			echo -n "$f $(cat "$LOGS/kunit-$f"*.ktap |
				grep -c '^ *\(not \)\?ok '), "
	done
	sed -n 's/^#\([0-9]*\)\t.*exec.s: \([0-9]*\).*/fuzz \1 (\2\/s)/p' \
		"$LOGS/fuzz.log" 2>/dev/null | tail -n 1
}

# Print the sanitizers' reports.
show_reports()
{
	local f

	for f in "$LOGS"/*.log; do
		if grep -qE 'ERROR: |WARNING: |runtime error: ' "$f"; then
			echo "$f:"
			grep -m 1 -A 25 -E 'ERROR: |WARNING: |runtime error: ' "$f"
		fi
	done
}

# Print the programs that T needs, to build no others.
programs()
{
	local name

	for name in $SANITIZERS; do
		echo "kvt-kunit-$name"
	done
	for name in fuzz fuzz-log format bench; do
		! want "$name" || echo "kvt-$name"
	done
}

main()
{
	local rc=0

	lane_begin user
	CORPUS=$OUT/corpus
	[ "$SHORT" != 1 ] || CORPUS=$LOGS/corpus
	"$LANES/deps.sh" user
	# shellcheck disable=SC2046
	run_logged "$LOGS/build.txt" 'user: building' '' \
		make -C "$TREE/selftests/user" -j "$JOBS" OUTPUT="$OUT" $(programs)
	! wants_resp ||
		run_logged "$LOGS/build-resp.txt" 'user: building the fuzzer of the server' '' build_resp
	LIMIT=$TIMEOUT run_logged "$LOGS/run.txt" 'user: running' user_progress run || true
	compgen -G "$LOGS/*.ktap" >/dev/null || die "nothing matches T=$T"
	summary user "$LOGS" || rc=1
	if [ $rc -ne 0 ]; then
		show_reports
		say "user: logs in $LOGS"
	fi
	return $rc
}

main "$@"
