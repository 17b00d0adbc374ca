#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# uml.sh uml|uml-debug: build the module against that User-Mode Linux kernel,
# boot it on the host's root (hostfs) and run KUnit suites and kselftests.
#
# T=PATTERN selects tests; see lane.sh. LANE_TIMEOUT is the seconds after which a silent
# machine is stopped.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

SUITES='*'
BOOT=()

settings()
{
	case $1 in
	uml)
		TIMEOUT=${LANE_TIMEOUT:-1300} LEAST=1000
		KUNIT_TIMEOUT=${KUNIT_TIMEOUT:-1200} PROGRAM_TIMEOUT=1000 MEMORY=2G KMEMLEAK=0
		# uml-debug does not expedite grace periods, as is the default of kernels.
		BOOT=(rcupdate.rcu_expedited=1)
		# Programs that read and change the index in all ways, and the log's replay.
		SECOND='abi|scan|stores|many|cursor|calls'
		if [ "$QUICK" = 1 ]; then
			# The engines' suites run with AddressSanitizer.
			SUITES='kvt*_log*' LEAST=400 SECOND='abi'
			ONLY='abi|bad_input|perms|stores|scan|lifetime|signals|cursor|calls|ring|uring'
			ONLY+='|uring_fault|uring_bad|uring_wake|uring_multishot|durable|read_only'
			ONLY+='|run-reference|run-man'
		elif [ "$SHORT" = 1 ]; then
			# Only suites with threads that run freely or interrupt each other, which
			# may behave differently at full speed, and kvt_log_room, which computes
			# for long. The others take the same steps in uml-debug, and most of them
			# in the user lane. The part stock of the crash lane replays with both
			# engines.
			SUITES='kvt_[!p]*'
		else
			SECOND+='|durable'
		fi;;
	uml-debug)
		# KASAN needs a byte for every eight, and memory for its quarantine.
		TIMEOUT=${LANE_TIMEOUT:-1300} LEAST=750
		KUNIT_TIMEOUT=${KUNIT_TIMEOUT:-1200} PROGRAM_TIMEOUT=1200 MEMORY=4G
		PROGRAM_LONGEST=${PROGRAM_LONGEST:-3600}
		KMEMLEAK=${KVT_LEAKS:-1}
		# These, too, test the library and other programs rather than the module. run-engine
		# loads modules into memory of removed ones: see unload_test_modules().
		LEFT_OUT="$ONLY_IN_UML|run-go|ring|run-engine"
		# Only in this lane do allocations fail. For the second engine, memory errors are
		# left to KUnit.
		SECOND='alloc_fail'
		# Leave out programs that use the module's memory as others do and run in other
		# lanes, and programs that take long and run in uml. KT_CASE_LONG() marks cases of
		# suites that take long; they run in uml (kvt_log_room) or user.
		if [ "$SHORT" = 1 ]; then
			TEST_ARGS=ops=20000
			[ -n "$T" ] || BOOT=('kunit.filter=speed>very_slow')
			LEFT_OUT+='|uring_storm|durable|durable_room|durable_faults|memory'
			LEFT_OUT+='|calls|cursor'
		fi;;
	*)
		die 'usage: uml.sh uml|uml-debug';;
	esac
}

# Boot with the parameters for tests. With bdev_allow_write_mounted=0, the kernel lets no other
# program write to devices that are mounted or attached. KUnit waits for a test uninterruptibly: the
# kernel should not report this earlier than KUnit does.
boot()
{
	uml_boot "$1" "${BOOT[@]}" kunit.timeout="$KUNIT_TIMEOUT" bdev_allow_write_mounted=0 \
		sysctl.kernel.hung_task_timeout_secs="$KUNIT_TIMEOUT" \
		kunit.filter_glob="$(T=${T:-$SUITES} test_glob)" \
		null_blk.nr_devices=0 brd.rd_nr=0
}

main()
{
	local kernel modules

	settings "${1:-}"
	lane_begin "$1"
	"$LANES/deps.sh" "$1"
	kernel=$("$LANES/kernel.sh" "$1")
	build_module "$kernel" ARCH=um
	build_programs
	modules=$(test_modules "$kernel")
	write_job "$modules" "$PROGRAMS" "$PROGRAM_TIMEOUT" "$KMEMLEAK"
	LIMIT=$TIMEOUT run_logged "$CONSOLE" "$LANE: running" lane_progress \
		boot "$kernel" || true
	judge
}

main "$@"
