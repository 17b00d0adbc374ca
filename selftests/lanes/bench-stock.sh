#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench-stock.sh: build, boot Debian's kernel in QEMU and measure kvtree beside
# redis-server and memcached there. The table is printed, the results are left in
# build/bench-stock.json. Fails if a ratio is not what it is to be.
#
# BENCH_ARGS are options for tools/bench-stock/bench-stock.
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

JSON=$BUILD/bench-stock.json
OPTIONS=${BENCH_ARGS:-}

icount()
{
	VM_CPUS=1
	VM_QEMU_OPTS='-icount shift=0,sleep=off'
	JSON=$BUILD/bench-stock-icount.json
	OPTIONS="--icount --seconds 0.02 --rounds 3 $OPTIONS"
}

build_program()
{
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} lib &&
		make -C "$TOP/tools/bench-stock" -j "$JOBS" ${V:+V="$V"}
}

# What the guest runs.
write_command()
{
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		printf '%q --json %q %s; rc=$?\n' "$TOP/tools/bench-stock/bench-stock" \
			"$LOGS/bench-stock.json" "$OPTIONS"
		# shellcheck disable=SC2016
		echo 'rmmod kvtree && exit $rc'
	} >"$LOGS/command"
	chmod +x "$LOGS/command"
}

fail()
{
	say "bench-stock: FAILED: $1"
	exit 1
}

main()
{
	local rc

	[ "${ICOUNT:-0}" != 1 ] || icount
	lane_begin bench-stock
	vm_prepare bench-stock
	build_module "/lib/modules/$KERNEL/build"
	run_logged "$LOGS/program.log" 'bench-stock: building the program' '' build_program
	write_command
	write_job '' '' 0 0 "$LOGS/command"
	say 'bench-stock: booting'
	vm_script "$LANES/guest.sh" "$LOGS/job" </dev/null 2>&1 | cat || true

	[ -e "$LOGS/finished" ] ||
		fail "the virtual machine did not come to the end, see $CONSOLE"
	"$LANES/ktap.py" --reports "$CONSOLE" || fail "the kernel complained, see $CONSOLE"
	[ -s "$LOGS/bench-stock.json" ] || fail 'nothing was measured'
	cp "$LOGS/bench-stock.json" "$JSON"
	rc=$(cat "$LOGS/finished")
	say "bench-stock: results in $JSON ($(elapsed))"
	[ "$rc" = 0 ] || fail 'a ratio is not what it is to be, see above'
}

main "$@"
