#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# user.sh: the engine compiled into programs (selftests/user): its KUnit suites
# with AddressSanitizer and UBSan and with ThreadSanitizer, beside them the
# fuzzers, and a short run of the benchmark.
#
# T=PATTERN selects suites, fuzz, fuzz-log, format and bench; see lane.sh. SANITIZERS selects
# the sanitizers for the suites, asan and tsan. The fuzzer of the engine runs for FUZZ_TIME
# seconds, that of recovery for a quarter of it. They keep interesting inputs in
# build/user/corpus and corpus-log, except in "make check", which begins with the committed
# corpus alone, so as not to depend on earlier runs.

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

# ThreadSanitizer has nothing to say of suites without threads. Where these do as they like it sees
# memory that was freed, too, and uml-debug watches them as well.
THREADED='kvt_* *hazard *_steps *_reclaim'
NOT_RANDOM='kvtree* kvt_[!c]* kvt_c[!o]*'
# Seconds for which the suites may say nothing.
TIMEOUT=${LANE_TIMEOUT:-1900}
if [ "$QUICK" = 1 ]; then
	SANITIZERS=asan LEAST=250
fi
SANITIZERS=${SANITIZERS:-asan tsan}
[ "$SANITIZERS" != 'asan tsan' ] || LEAST=370

# Does T select what is no suite?
want()
{
	[ "$QUICK" = 0 ] || return
	# shellcheck disable=SC2254
	case $1 in
	$(test_glob)) true;;
	*) false;;
	esac
}

# suites SANITIZER: its patterns.
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

# kunit SANITIZER PATTERN NUMBER: its reports are in a log beside the results.
kunit()
{
	local rc=0 out=$LOGS/kunit-$1${3:+-$3}

	"$OUT/kvt-kunit-$1" "$2" \
		>"$out.ktap" 2>"$out.log" || rc=$?
	# T selected none of them.
	if [ $rc -eq 0 ] && grep -q '^1\.\.0$' "$out.ktap"; then
		rm "$out.ktap"
		return
	fi
	echo "# kvtree-lane: exit $rc" >>"$out.ktap"
}

# Input that makes it fail is left in the results. It finds no leaks by itself,
# as memory is freed later and by another thread: fuzz.c counts. One input may take so long by the
# clock, which is all that libFuzzer has, on a machine that has much else to do.
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

# Structures on disks: what a recovery makes of them.
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

# Checkpoints of ranges, as they are and with something wrong in them: selftests/format. The crash
# lane damages more of their bytes.
format()
{
	local rc=0

	"$OUT/kvt-format" ranges --places 500 --every 16 >"$LOGS/format.ktap" \
		2>"$LOGS/format.log" || rc=$?
	echo "# kvtree-lane: exit $rc" >>"$LOGS/format.ktap"
}

# Whether all subjects find the same, whatever it takes, with all workloads.
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

# The fuzzers have one thread each, and the suites sleep now and then.
run()
{
	local sanitizer pattern n

	if want fuzz; then
		fuzz &
	fi
	if want fuzz-log; then
		fuzz_log &
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

# How far it is.
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

# What the sanitizers said.
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

# What T selects, and no more, is built.
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
