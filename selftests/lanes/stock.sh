#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stock.sh stock|stock-7|kcsan: build the module for that kernel, boot it in QEMU and
# run the kselftests, and KUnit where it is there: no distribution kernel has it.
#
# stock has the host's release, its kernel and the host's files. stock-7 has the
# next release, with a kernel 7.x, in a root of its own (root.sh): module, library
# and programs are built there, by its compiler, for its libraries.
#
# kcsan has a kernel with the race detector, which watches the module.
#
# T=PATTERN selects tests; see lane.sh. LANE_TIMEOUT is for how many seconds it may
# print nothing.

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
		# It does not matter to damaged disks which kernel reads them.
		LEFT_OUT="$ONLY_IN_UML|damaged"
		# BPF, which is not in uml.
		SECOND='bpf_kfuncs' LEAST=390
		# uml has them, which is not emulated. What only reads and changes the index
		# does nothing that a kernel could do otherwise.
		if [ "$SHORT" = 1 ]; then
			LEFT_OUT+='|scan|many|cursor|calls|durable|durable_room|durable_faults|read_only'
			LEFT_OUT+='|ring|uring_storm|uring_model|uring_wake|run-go'
		fi;;
	stock-7)
		TREE=$OUT/tree LEAST=210
		# What another kernel, or a newer compiler and C library, may do
		# otherwise: io_uring, BPF, rights, the life of the module. These
		# are not about the kernel:
		LEFT_OUT="$ONLY_IN_UML|bench_stock|run-docs-bpf"
		# These are about the store, which other lanes know with all that
		# is said here, from uring_model on with this kernel in uml:
		LEFT_OUT+='|scan|stores|many|signals|bad_input|calls|cursor'
		LEFT_OUT+='|uring_model|uring_storm|durable|durable_devices|durable_errors'
		LEFT_OUT+='|durable_room|damaged'
		# memcached is there for the host's root alone.
		LEFT_OUT+='|test_memcached'
		# stock has them; and uml, with this kernel and not emulated, has all but BPF.
		if [ "$SHORT" = 1 ]; then
			LEFT_OUT+='|test_firewall|test_latency|bpf_oracle|ring'
			LEFT_OUT+='|uring_bad|uring_fault|uring_held|uring_locked|uring_multishot|uring_wake'
			LEFT_OUT+='|pinned|memory|blocked|read_only'
		fi;;
	kcsan)
		# Where several do something at once: with T=kvtree_... also the others.
		SUITES='kvt_*'
		ONLY='stores|many|lifetime|durable|uring|uring_storm'
		SECOND='many'
		TIMEOUT=${LANE_TIMEOUT:-1300} PROGRAM_TIMEOUT=1200;;
	*)
		die 'usage: stock.sh stock|stock-7|kcsan';;
	esac
}

# The examples' BPF programs: an emulated compiler takes minutes for them.
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
