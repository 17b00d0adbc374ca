#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fuzz.sh: fuzz the module's whole interface on the kernel of uml-debug, with bytes from libFuzzer,
# which is guided by the module's coverage. Two threads call the module. Meanwhile memory is mapped
# and unmapped, allocations and disk requests fail, and disks are damaged. Each report of the
# kernel is a failure.
#
# FUZZ_TIME is the time in seconds (40). Inputs that reach new code are kept in build/fuzz/corpus;
# selftests/fuzz/corpus has the initial ones. "make check" always begins with the initial ones and
# one seed, so that it does not depend on earlier runs. FUZZ_MERGE=1 only copies the inputs that
# are needed, from both, to build/fuzz/merged. INPUT=FILE runs that input alone.
#
# The input corpus/disks-fail runs first, while the disks are undamaged: it attaches a store, lets
# all requests fail from then on, and makes a change.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

FUZZ=$TOP/selftests/fuzz
FUZZ_TIME=${FUZZ_TIME:-40}
FUZZ_SEED=${FUZZ_SEED:-0}
MEMORY=4G
[ -n "${INPUT:-}${FUZZ_MERGE:-}" ] || LEAST=2

build_programs()
{
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools &&
		make -C "$FUZZ" -j "$JOBS" ${V:+V="$V"}
}

# shellcheck disable=SC2016 # the guest expands it
# Write the script that the guest runs. Inputs that cause a kernel warning are kept beside the
# results.
write_script()
{
	local corpora=("$CORPUS" "$FUZZ/corpus") first=()

	if [ -n "${INPUT:-}" ]; then
		set -- "$(realpath "$INPUT")"
	elif [ -n "${FUZZ_MERGE:-}" ]; then
		rm -rf "$OUT/merged"
		mkdir "$OUT/merged"
		set -- -merge=1 "$OUT/merged" "${corpora[@]}"
	else
		first=("$FUZZ/corpus/disks-fail")
		set -- -seed="$FUZZ_SEED" -max_total_time="$FUZZ_TIME" -max_len=512 -len_control=20 \
			-print_final_stats=1 "${corpora[@]}"
	fi
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		# shellcheck disable=SC2016
		echo 'insmod "${KVTREE_MODULE%.ko}_bwtree.ko" || exit'
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		# Let allocations that may sleep fail too, and print no stack each time.
		echo 'for file in /sys/kernel/debug/fail*/verbose; do echo 0 >$file; done'
		echo 'for file in /sys/kernel/debug/fail*/ignore-gfp-wait; do echo N >$file; done'
		# libFuzzer measures this limit by the clock, and other programs use the
		# processor too: so it is long.
		set -- "$FUZZ/fuzz" -timeout=600 -artifact_prefix="$LOGS/" "$@"
		if [ ${#first[@]} -gt 0 ]; then
			printf '%q ' "$1" "$2" "$3" "${first[@]}"
			printf '>%q 2>&1 || exit\n' "$LOGS/first.log"
		fi
		printf '%q ' "$@"
		printf '>%q 2>&1 || exit\n' "$LOGS/fuzz.log"
		printf '%q\n' "$LANES/unload.sh"
	} >"$LOGS/script"
	chmod +x "$LOGS/script"
	write_job '' '' 0 0 "$LOGS/script"
}

fuzz_progress()
{
	sed -n 's/^#\([0-9]*\)\t.*ft: \([0-9]*\) corp: \([0-9]*\).*/\1 inputs, \3 kept, \2 features/p' \
		"$LOGS/fuzz.log" 2>/dev/null | tail -n 1
}

boot()
{
	uml_boot "$1" null_blk.nr_devices=0
}

judge_run()
{
	local ran='not ok' reports='not ok' failed='not ok'

	! grep -qx 0 "$LOGS/finished" || ran=ok
	"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/reports.txt" && reports=ok
	# Some log must have failed, and have reported that, unless only one input was run.
	{ [ -n "${INPUT:-}" ] || grep -q 'is read-only from now on: .*(error -5)' "$CONSOLE"; } &&
		failed=ok
	{
		sed -n 's/^stat:://p' "$LOGS/fuzz.log"
		[ "$ran" = ok ] || tail -n 5 "$LOGS/fuzz.log"
		head -n 40 "$LOGS/reports.txt"
	} | results "$LOGS/fuzz.ktap" "$ran" calls_made_of_bytes_end_as_documented \
		"$reports" no_kernel_reports "$failed" disks_fail_under_stores
}

main()
{
	local kernel rc=0

	lane_begin fuzz
	"$LANES/deps.sh" fuzz
	CORPUS=$OUT/corpus
	if [ "$SHORT" = 1 ]; then
		CORPUS=$LOGS/corpus FUZZ_SEED=1
	fi
	mkdir -p "$CORPUS"
	kernel=$("$LANES/kernel.sh" uml-debug)
	# Without the KUnit suites, which this lane does not run.
	KVT_CFLAGS="${KVT_CFLAGS:-} -fsanitize-coverage=trace-pc" \
		build_module "$kernel" ARCH=um CONFIG_KUNIT=
	in_tree run_logged "$LOGS/programs.log" 'fuzz: building' '' build_programs
	write_script
	LIMIT=$((FUZZ_TIME + 900)) run_logged "$CONSOLE" 'fuzz: running' fuzz_progress \
		boot "$kernel" || true
	judge_run
	summary fuzz "$LOGS" || rc=1
	return $rc
}

main "$@"
