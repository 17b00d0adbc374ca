#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh: measure the index, in programs beside other maps (kvt-bench) and in
# a User-Mode Linux kernel beside the kernel's (kvtree_bench.ko). Tables and
# ratios are printed; all is left in build/bench.json and build/bench.svg.
#
# T=user or T=uml does one of the two. T=chains measures the Bw-tree with chains of
# several lengths, and leaves build/bench-chains.json and .svg. BENCH_ARGS are options for kvt-bench,
# BENCH_UML_ARGS parameters for kvtree_bench.ko.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

MEMORY=4G
PARTS=()

measure_user()
{
	run_logged "$LOGS/build.log" 'bench: building' '' \
		make -C "$TOP/tools/testing" -j "$JOBS" OUTPUT="$OUT" kvt-bench
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
		run_logged "$LOGS/build-$name.log" "bench: building, $name" '' \
			make -C "$TOP/tools/testing" -j "$JOBS" OUTPUT="$OUT/chains/$name" \
			PEERS="$OUT/rust/release/libkvt_bench_peers.a" \
			CFLAGS="-O2 -g -DBW_CHAIN_${level^^}=$length" kvt-bench
		# shellcheck disable=SC2086 # several options
		"$OUT/chains/$name/kvt-bench" --subject bwtree --pages huge --threads 1 \
			--workload W9 --workload W10 --json "$LOGS/chains-$name.json" \
			${BENCH_ARGS:-}
		parts+=("$name=$LOGS/chains-$name.json")
	done
	"$TOP/tools/testing/bench/chains.py" --json "$BUILD/bench-chains.json" \
		--plot "$BUILD/bench-chains.svg" "${parts[@]}"
	say "bench: results in $BUILD/bench-chains.json and $BUILD/bench-chains.svg ($(elapsed))"
}

# What the guest runs.
write_command()
{
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		echo "insmod $OUT/module/kmod/tests/kvtree_bench.ko ${BENCH_UML_ARGS:-} || exit"
		echo 'rmmod kvtree_bench && rmmod kvtree'
	} >"$LOGS/command"
	chmod +x "$LOGS/command"
}

measure_uml()
{
	local kernel

	kernel=$("$LANES/kernel.sh" uml)
	build_module "$kernel" ARCH=um
	write_command
	write_job '' '' 0 0 "$LOGS/command"
	LIMIT=1800 run_logged "$CONSOLE" 'bench: in the kernel' bench_progress \
		uml_boot "$kernel" || true
	[ "$(cat "$LOGS/finished" 2>/dev/null)" = 0 ] ||
		die "the kernel did not come to the end, see $CONSOLE"
	"$LANES/ktap.py" --reports "$CONSOLE" || die "the kernel complained, see $CONSOLE"
	PARTS+=("$CONSOLE")
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
	''|user|uml|chains) ;;
	*) die "T=$T: there are user, uml and chains";;
	esac
	"$LANES/deps.sh" bench
	lane_begin bench
	if [ "$T" = chains ]; then
		run_logged "$LOGS/build.log" 'bench: building' '' \
			make -C "$TOP/tools/testing" -j "$JOBS" OUTPUT="$OUT" kvt-bench
		measure_chains
		return
	fi
	! want user || measure_user
	! want uml || measure_uml
	"$TOP/tools/testing/bench/report.py" --json "$BUILD/bench.json" \
		--plot "$BUILD/bench.svg" "${PARTS[@]}"
	say "bench: results in $BUILD/bench.json and $BUILD/bench.svg ($(elapsed))"
}

main "$@"
