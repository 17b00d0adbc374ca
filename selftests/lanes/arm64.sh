#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# arm64.sh arm64|weak: build the module and test programs for arm64, boot an arm64 kernel in
# QEMU on the host's files, and run the KUnit suites and the programs that need neither a
# library nor the tool.
#
# The emulated processor orders memory accesses as the host's does, more strictly than a real
# arm64. So the lane tests the rest of the architecture: its atomic instructions, the compiler's
# code for it, and pages of 64 KiB. In the lane weak, KCSAN watches the module, and delays
# accesses as far as no barrier prevents it.
#
# T=PATTERN selects tests; see lane.sh. LANE_TIMEOUT is the seconds after which a silent
# machine is stopped.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

TIMEOUT=${LANE_TIMEOUT:-700}
PROGRAM_TIMEOUT=600 KUNIT_TIMEOUT=${KUNIT_TIMEOUT:-600}
# Shorter runs of the suites than elsewhere, because the machine is emulated.
TEST_ARGS=ops=20000
SECOND='many'

settings()
{
	case $1 in
	arm64)
		SUITES='*' LEAST=450
		ONLY='abi|scan|bad_input|stores|many|signals|uring|uring_model'
		# Both lanes use one kernel; only weak needs its KCSAN.
		MODULE_ARGS=(KCSAN_SANITIZE=n);;
	weak)
		# Only tests in which several threads act at once.
		SUITES='kvt_[!l]*' LEAST=50
		ONLY='stores|many|uring|uring_storm'
		TIMEOUT=${LANE_TIMEOUT:-1300} PROGRAM_TIMEOUT=1200 KUNIT_TIMEOUT=${KUNIT_TIMEOUT:-1200}
		MODULE_ARGS=();;
	*)
		die 'usage: arm64.sh arm64|weak';;
	esac
}

# Build the programs that T selects, in a copy of the tree.
make_programs()
{
	local names
	mapfile -t names <<<"${PROGRAMS//$TREE\/selftests\//}"

	run_logged "$LOGS/selftests.log" "$LANE: building selftests" '' \
		make -C "$TREE/selftests" -j "$JOBS" ${V:+V="$V"} "${CROSS[2]}" \
		LDFLAGS=-static "${names[@]}"
}

# The guest alone writes its files while it runs, so it can keep what it knows of them. With
# cache=mmap, a stat() of a file that is being extended shortens it again in Linux 7.3: lines of
# results were lost.
boot()
{
	local args=(
		console=ttyAMA0 ignore_loglevel panic=-1 rcupdate.rcu_cpu_stall_timeout=120
		root=host rootfstype=9p
		'rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose' rw
		kunit.timeout="$KUNIT_TIMEOUT" kunit.filter_glob="$(T=${T:-$SUITES} test_glob)"
		init="$BIN/bash" KVT_BIN="$BIN" -- "$LANES/guest.sh" "$LOGS/job")

	exec qemu-system-aarch64 -machine virt,gic-version=3 -cpu neoverse-n1 -smp 2 -m 2G \
		-accel tcg,thread=multi -nodefaults -no-user-config -display none -no-reboot \
		-serial "file:$CONSOLE" -global virtio-mmio.force-legacy=false \
		-fsdev local,id=host,path=/,security_model=none,multidevs=remap \
		-device virtio-9p-device,fsdev=host,mount_tag=host \
		-kernel "$1/arch/arm64/boot/Image" -append "${args[*]}"
}

main()
{
	local kernel modules BIN CROSS

	settings "${1:-}"
	lane_begin "$1"
	"$LANES/deps.sh" "$1"
	PATH=$PATH:$CACHE/programs/bin
	mapfile -t CROSS < <(cross arm64)
	kernel=$("$LANES/kernel.sh" arm64)
	BIN=$("$LANES/userland.sh" arm64)
	build_module "$kernel" "${CROSS[@]}" "${MODULE_ARGS[@]}"
	copy_sources "$OUT/programs" "$TREE/"
	TREE=$OUT/programs
	build_programs
	modules=$(test_modules "$kernel")
	write_job "$modules" "$PROGRAMS" "$PROGRAM_TIMEOUT" 0
	LIMIT=$TIMEOUT run_logged "$LOGS/output.log" "$LANE: running" lane_progress \
		boot "$kernel" || true
	judge
}

main "$@"
