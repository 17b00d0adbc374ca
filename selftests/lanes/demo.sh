#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh: from a bare machine to kvtree at work: install what is needed, build,
# boot Debian's kernel in QEMU and run tools/demo.sh there.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

TESTS=0
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

fail()
{
	say "demo: FAILED: $1"
	if [ -s "$CONSOLE" ]; then
		"$LANES/ktap.py" --reports "$CONSOLE" >&2 || true
		say "demo: last kernel messages (all in $CONSOLE):"
		tail -n 15 "$CONSOLE" >&2
	fi
	exit 1
}

main()
{
	KVT_OUT=demo
	lane_begin demo
	say 'demo: 1. packages, 2. build, 3. boot a Debian kernel in QEMU, 4. use kvtree there'
	vm_prepare demo
	build_module "$KERNEL_DIR"
	run_logged "$LOGS/tools.log" 'demo: building library and tool' '' \
		make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools
	write_job '' '' 0 0 "$TOP/tools/demo.sh"
	say 'demo: booting'
	vm_script "$LANES/guest.sh" "$LOGS/job" </dev/null 2>&1 | cat || true

	[ -e "$LOGS/finished" ] || fail 'the virtual machine did not come to the end'
	[ "$(cat "$LOGS/finished")" = 0 ] || fail 'a step went wrong, see above'
	"$LANES/ktap.py" --reports "$CONSOLE" >/dev/null || fail 'the kernel complained'
	say "demo: all as expected, $(elapsed)"
}

main "$@"
