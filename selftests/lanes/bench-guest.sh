#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench-guest.sh bench-stock|bench-bpf: build, boot Debian's kernel in QEMU and measure
# there. The table is printed, the results are left in build/bench-stock.json or
# build/bench-bpf.json. Fails if a ratio is not what it is to be.
#
# bench-stock	kvtree beside redis-server and memcached
# bench-bpf	lookups by BPF programs beside the kernel's own maps, and a cache in XDP
#		beside memcached
#
# BENCH_ARGS are options for the program, tools/bench-stock/bench-stock or
# tools/bench-bpf/bench-bpf.
#
# ICOUNT=1 gives the machine one CPU and a clock that advances by a nanosecond
# with each instruction. What is measured then is how many instructions an
# operation takes: the same in every run, whatever else the host does. No ratio
# has to be reached, since an instruction is not a time.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

OPTIONS=${BENCH_ARGS:-}
CACHED=$TOP/tools/examples/memcached

settings()
{
	case $1 in
	bench-stock) ;;
	bench-bpf) OPTIONS="--cache $CACHED/kvtree-memcached $OPTIONS";;
	*) die 'usage: bench-guest.sh bench-stock|bench-bpf';;
	esac
	NAME=$1
	PROGRAM=$TOP/tools/$NAME/$NAME
	JSON=$BUILD/$NAME.json
	[ "${ICOUNT:-0}" != 1 ] || icount
}

icount()
{
	VM_CPUS=1
	VM_QEMU_OPTS='-icount shift=0,sleep=off'
	JSON=$BUILD/$NAME-icount.json
	OPTIONS="--icount --seconds 0.02 --rounds 3 $OPTIONS"
}

build_program()
{
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} lib &&
		make -C "$TOP/tools/$NAME" -j "$JOBS" ${V:+V="$V"}
	[ "$NAME" = bench-stock ] || make -C "$CACHED" -j "$JOBS" ${V:+V="$V"}
}

# What the guest runs.
write_command()
{
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		printf '%q --json %q %s; rc=$?\n' "$PROGRAM" "$LOGS/$NAME.json" "$OPTIONS"
		# shellcheck disable=SC2016
		echo 'rmmod kvtree && exit $rc'
	} >"$LOGS/command"
	chmod +x "$LOGS/command"
}

fail()
{
	say "$NAME: FAILED: $1"
	exit 1
}

main()
{
	local rc

	settings "${1:-}"
	lane_begin "$NAME"
	vm_prepare "$NAME"
	build_module "/lib/modules/$KERNEL/build"
	run_logged "$LOGS/program.log" "$NAME: building the program" '' build_program
	write_command
	write_job '' '' 0 0 "$LOGS/command"
	say "$NAME: booting"
	vm_script "$LANES/guest.sh" "$LOGS/job" </dev/null 2>&1 | cat || true

	[ -e "$LOGS/finished" ] ||
		fail "the virtual machine did not come to the end, see $CONSOLE"
	"$LANES/ktap.py" --reports "$CONSOLE" || fail "the kernel complained, see $CONSOLE"
	[ -s "$LOGS/$NAME.json" ] || fail 'nothing was measured'
	cp "$LOGS/$NAME.json" "$JSON"
	rc=$(cat "$LOGS/finished")
	say "$NAME: results in $JSON ($(elapsed))"
	[ "$rc" = 0 ] || fail 'a ratio is not what it is to be, see above'
}

main "$@"
