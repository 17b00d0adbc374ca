#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh: measure the index, in programs beside other maps (kvt-bench) and in
# a User-Mode Linux kernel beside the kernel's (kvtree_bench.ko). Tables and
# ratios are printed; all is left in build/bench.json and build/bench.svg.
#
# T=user or T=uml does one of the two. T=chains measures the Bw-tree with chains of
# several lengths, and leaves build/bench-chains.json and .svg. T=reclaim measures puts while memory
# is freed sooner or later, and in smaller or larger batches: build/bench-reclaim.json and .svg.
# T=prefix measures keys that begin alike, T=factors the index without some of what makes it fast:
# build/bench-prefix.json and .svg, build/bench-factors.json and .svg. T=partition compares a tree
# for each thread with one for all, and T=instructions counts them, with valgrind: the same files.
# BENCH_ARGS are options for kvt-bench, BENCH_UML_ARGS parameters for kvtree_bench.ko.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

MEMORY=4G
PARTS=()

# build_bench [NAME CFLAGS]: kvt-bench, or one that is compiled otherwise.
build_bench()
{
	run_logged "$LOGS/build${1:+-$1}.log" "bench: building${1:+, $1}" '' \
		make -C "$TOP/tools/testing" -j "$JOBS" OUTPUT="$OUT${1:+/$1}" \
		${1:+PEERS="$OUT/rust/release/libkvt_bench_peers.a" CFLAGS="-O2 -g $2"} kvt-bench
}

# figure NAME RESULTS...: what a program makes of them.
figure()
{
	local name=$1
	shift

	"$TOP/tools/bench/index/$name.py" --json "$BUILD/bench-$name.json" \
		--plot "$BUILD/bench-$name.svg" "$@"
	say "bench: results in $BUILD/bench-$name.json and $BUILD/bench-$name.svg ($(elapsed))"
}

measure_user()
{
	build_bench
	# It shows what it does on a terminal.
	# shellcheck disable=SC2086 # several options
	"$OUT/kvt-bench" --json "$LOGS/user.json" ${BENCH_ARGS:-}
	PARTS+=("$LOGS/user.json")
}

# With each length, of leaves or of inner pages, the engine is compiled anew.
measure_chains()
{
	local name level length parts=()

	for name in leaf-{2,4,6,8,10,12,16,24} inner-{2,4,6,8,12,16,24}; do
		level=${name%-*}
		length=${name#*-}
		build_bench "chains/$name" "-DBW_CHAIN_${level^^}=$length"
		# shellcheck disable=SC2086 # several options
		"$OUT/chains/$name/kvt-bench" --subject bwtree --pages huge --threads 1 \
			--workload W9 --workload W10 --json "$LOGS/chains-$name.json" \
			${BENCH_ARGS:-}
		parts+=("$name=$LOGS/chains-$name.json")
	done
	figure chains "${parts[@]}"
}

# measure_figure NAME OPTION...: one run of kvt-bench, and what a program makes of it.
measure_figure()
{
	local name=$1
	shift

	# shellcheck disable=SC2086 # several options
	"$OUT/kvt-bench" "$@" --pages huge --json "$LOGS/$name.json" ${BENCH_ARGS:-}
	figure "$name" "$LOGS/$name.json"
}

measure_prefix()
{
	measure_figure prefix --workload W12 --threads 1
}

measure_partition()
{
	measure_figure partition --workload W13 --threads "$(nproc)" --subject kvtree \
		--subject partitions
}

# Instructions are the same each time: one round, and one thread.
measure_instructions()
{
	local workload system profile file parts=()

	for workload in W1 W2 W3; do
		for system in kvtree bwtree lmdb skiplist congee treeindex stdmap; do
			profile=$LOGS/callgrind-$workload-$system
			rm -f "$profile".*
			# shellcheck disable=SC2086 # several options
			run_logged "$profile.log" "bench: counting $workload, $system" '' \
				valgrind --tool=callgrind --callgrind-out-file="$profile.%p" \
				"$OUT/kvt-bench" --keys 50000 --rounds 1 --threads 1 --pages huge \
				--workload "$workload" --subject "$system" ${BENCH_ARGS:-}
			# One of the driver, and one of the system where it has such keys.
			for file in "$profile".[0-9]*; do
				parts+=("$workload:$system=$file")
			done
		done
	done
	figure instructions "${parts[@]}"
}

measure_factors()
{
	local name parts=()

	build_bench factors/no-prefetch -DSHIM_NO_PREFETCH
	build_bench factors/prefetch ''
	for name in no-prefetch prefetch; do
		# shellcheck disable=SC2086 # several options
		"$OUT/factors/$name/kvt-bench" --subject kvtree --threads 1 --workload W1 \
			--json "$LOGS/factors-$name.json" ${BENCH_ARGS:-}
		parts+=("$name=$LOGS/factors-$name.json")
	done
	figure factors "${parts[@]}"
}

# bench_module ARGUMENT...: lines of the guest's script.
bench_module()
{
	echo "insmod $OUT/module/kmod/tests/kvtree_bench.ko $* ${BENCH_UML_ARGS:-} || exit"
	echo 'rmmod kvtree_bench || exit'
}

# How long memory is collected before it waits to be freed, by how much is freed at once.
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

# in_kernel SCRIPT: what these lines measure is in $CONSOLE then.
in_kernel()
{
	local kernel

	kernel=$("$LANES/kernel.sh" uml)
	build_module "$kernel" ARCH=um
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
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
	figure reclaim "$CONSOLE"
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
	''|user|uml|chains|reclaim|prefix|factors|partition|instructions) ;;
	*) die "T=$T: there are user, uml, chains, reclaim, prefix, factors, partition and instructions";;
	esac
	lane_begin bench
	"$LANES/deps.sh" bench
	case $T in
	reclaim)
		measure_reclaim
		return;;
	chains|prefix|factors|partition|instructions)
		build_bench
		"measure_$T"
		return;;
	esac
	! want user || measure_user
	! want uml || measure_uml
	"$TOP/tools/bench/index/report.py" --json "$BUILD/bench.json" \
		--plot "$BUILD/bench.svg" "${PARTS[@]}"
	say "bench: results in $BUILD/bench.json and $BUILD/bench.svg ($(elapsed))"
}

main "$@"
