#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stock.sh stock|stock-7|kcsan: build the module for that kernel, boot it in QEMU and
# run the kselftests, and KUnit if the kernel has it: no distribution kernel does.
#
# stock uses the host's release, with its kernel and the host's files. stock-7 uses the next
# release, with a kernel 7.x, in a root of its own (root.sh): module, library and programs
# are built there, by its compiler, for its libraries.
#
# kcsan uses a kernel with the race detector, which watches the module.
#
# T=PATTERN selects tests; see lane.sh. LANE_TIMEOUT is the seconds after which a silent
# machine is stopped.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

TIMEOUT=${LANE_TIMEOUT:-1300}
PROGRAM_TIMEOUT=1000
SUITES='*'

settings()
{
	case $1 in
	stock)
		# Another kernel does not read damaged disks differently.
		LEFT_OUT="$ONLY_IN_UML|damaged"
		# The program for BPF, which uml cannot run.
		SECOND='bpf_kfuncs' LEAST=390
		# These run in uml, which is not emulated. Reading and changing the index, and what
		# checkpoints write, do not depend on the kernel. durable_sleep runs in stock-7; the
		# lane hibernate has this kernel hibernate.
		if [ "$SHORT" = 1 ]; then
			LEFT_OUT+='|scan|many|cursor|calls|durable|durable_room|durable_faults|read_only'
			LEFT_OUT+='|durable_ranges|durable_sleep'
			LEFT_OUT+='|ring|uring_storm|uring_model|uring_wake|run-go'
		fi;;
	stock-7)
		TREE=$OUT/tree LEAST=210
		# Run the tests of what may differ with another kernel, or with a newer
		# compiler and C library: io_uring, BPF, permissions, loading and unloading
		# the module. These do not depend on the kernel:
		LEFT_OUT="$ONLY_IN_UML|bench_stock|run-docs-bpf"
		# These test the store, as they do in other lanes; those from uring_model
		# on run in uml, which has a kernel of the same version:
		LEFT_OUT+='|scan|stores|many|signals|bad_input|calls|cursor'
		LEFT_OUT+='|uring_model|uring_storm|durable|durable_devices|durable_errors'
		LEFT_OUT+='|durable_room|damaged'
		# memcached is unpacked only for the host's root.
		LEFT_OUT+='|test_memcached'
		# These run in stock. All except BPF's also run in uml, which has a kernel of the
		# same version and is not emulated.
		if [ "$SHORT" = 1 ]; then
			LEFT_OUT+='|test_firewall|test_latency|bpf_oracle|ring'
			LEFT_OUT+='|uring_bad|uring_fault|uring_held|uring_locked|uring_multishot|uring_wake'
			LEFT_OUT+='|pinned|memory|blocked|read_only|durable_ranges'
		fi;;
	kcsan)
		# Only tests in which several threads act at once. T=kvtree_... selects others.
		SUITES='kvt_[!l]*'
		ONLY='stores|many|lifetime|durable|uring|uring_storm'
		SECOND='many'
		TIMEOUT=${LANE_TIMEOUT:-1300} PROGRAM_TIMEOUT=1200;;
	*)
		die 'usage: stock.sh stock|stock-7|kcsan';;
	esac
}

# Compile the examples' BPF programs here: an emulated compiler takes minutes.
compile_examples()
{
	[[ $PROGRAMS = */run-docs-bpf* ]] || return 0
	COMPILED=$OUT/compiled
	KVT_COMPILED=$COMPILED run_logged "$LOGS/compiled.log" "$LANE: compiling the examples" '' \
		"$TREE/selftests/scripts/run-docs-bpf" --compile || die 'examples were not compiled'
}

boot()
{
	VM_ARGS="kunit.timeout=1200 kunit.filter_glob=$(T=${T:-$SUITES} test_glob)" \
		vm_script "$TREE/selftests/lanes/guest.sh" "$LOGS/job" 2>&1 | cat
}

main()
{
	local modules

	lane_begin "${1:-}"
	settings "$1"
	vm_prepare "$1"
	build_module "$KERNEL_DIR"
	[ -z "$ROOT" ] || copy_sources "$TREE" "$TOP/"
	build_programs
	compile_examples
	modules=$(test_modules "$KERNEL_DIR")
	[ -n "$PROGRAMS$modules" ] || die "no program matches T=$T"
	write_job "$modules" "$PROGRAMS" "$PROGRAM_TIMEOUT" 0
	LIMIT=$TIMEOUT run_logged "$LOGS/output.log" "$LANE: running" lane_progress \
		boot || true
	judge
}

main "$@"
