#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh: measure the index, in programs beside other maps (kvt-bench) and in
# a User-Mode Linux kernel beside the kernel's (kvtree_bench.ko). Prints tables and
# ratios, and writes all results to build/bench.json and build/bench.svg.
#
# T=user or T=uml selects one of the two. T=reclaim measures puts while memory is freed
# sooner or later, in smaller or larger batches: build/bench-reclaim.json and .svg.
# BENCH_ARGS has options for kvt-bench, BENCH_UML_ARGS parameters for kvtree_bench.ko.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

TESTS=0
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

MEMORY=4G
PARTS=()

measure_user()
{
	run_logged "$LOGS/build.log" 'bench: building' '' \
		make -C "$TOP/selftests/user" -j "$JOBS" OUTPUT="$OUT" kvt-bench
	# It shows what it does on a terminal.
	# shellcheck disable=SC2086 # several options
	"$OUT/kvt-bench" --json "$LOGS/user.json" ${BENCH_ARGS:-}
	PARTS+=("$LOGS/user.json")
}

# bench_module ARGUMENT...: lines of the guest's script.
bench_module()
{
	echo "insmod $OUT/module/kmod/tests/kvtree_bench.ko $* ${BENCH_UML_ARGS:-} || exit"
	echo 'rmmod kvtree_bench || exit'
}

# Measure with each reclaim_interval_ms and each reclaim_batch.
reclaim_script()
{
	local dir=/sys/module/kvtree/parameters interval batch

	for interval in 0 10 20 50 100 200 500; do
		for batch in 1 16 256 4096; do
			echo "echo $interval >$dir/reclaim_interval_ms"
			echo "echo $batch >$dir/reclaim_batch"
			echo "echo 'kvtree_bench: reclaim $interval $batch' >/dev/kmsg"
			bench_module keys=0 latency_seconds=4 latency_peers=0 hold_ms=0
		done
	done
}

# in_kernel SCRIPT: run the lines that SCRIPT prints; their results are in $CONSOLE.
in_kernel()
{
	local kernel

	kernel=$("$LANES/kernel.sh" uml)
	build_module "$kernel" ARCH=um
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		# shellcheck disable=SC2016
		echo 'insmod "${KVTREE_MODULE%.ko}_bwtree.ko" || exit'
		"$1"
		printf '%q\n' "$LANES/unload.sh"
	} >"$LOGS/command"
	chmod +x "$LOGS/command"
	write_job '' '' 0 0 "$LOGS/command"
	LIMIT=1800 run_logged "$CONSOLE" 'bench: in the kernel' bench_progress \
		uml_boot "$kernel" || true
	[ "$(cat "$LOGS/finished" 2>/dev/null)" = 0 ] ||
		die "the kernel did not come to the end, see $CONSOLE"
	"$LANES/ktap.py" --reports "$CONSOLE" || die "the kernel complained, see $CONSOLE"
}

measure_uml()
{
	in_kernel bench_module
	PARTS+=("$CONSOLE")
}

measure_reclaim()
{
	in_kernel reclaim_script
	"$TOP/tools/bench/index/reclaim.py" --json "$BUILD/bench-reclaim.json" \
		--plot "$BUILD/bench-reclaim.svg" "$CONSOLE"
	say "bench: results in $BUILD/bench-reclaim.json and $BUILD/bench-reclaim.svg ($(elapsed))"
}

bench_progress()
{
	grep -c 'kvtree_bench: ' "$CONSOLE" || true
}

# want PART
want()
{
	[ -z "$T" ] || [ "$T" = "$1" ]
}

main()
{
	case $T in
	''|user|uml|reclaim) ;;
	*) die "T=$T: there are user, uml and reclaim";;
	esac
	lane_begin bench
	"$LANES/deps.sh" bench
	if [ "$T" = reclaim ]; then
		measure_reclaim
		return
	fi
	! want user || measure_user
	! want uml || measure_uml
	"$TOP/tools/bench/index/report.py" --json "$BUILD/bench.json" \
		--plot "$BUILD/bench.svg" "${PARTS[@]}"
	say "bench: results in $BUILD/bench.json and $BUILD/bench.svg ($(elapsed))"
}

main "$@"
