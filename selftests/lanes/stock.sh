#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stock.sh: build the module for Debian's kernel, boot that in QEMU and run the
# kselftests. KUnit is not there: no distribution kernel has it.
#
# T=PATTERN selects programs; see lane.sh. LANE_TIMEOUT is in seconds.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

TIMEOUT=${LANE_TIMEOUT:-900}
PROGRAM_TIMEOUT=300

boot()
{
	vm_script "$LANES/guest.sh" "$LOGS/job" 2>&1 | cat
}

main()
{
	local rc=0

	lane_begin stock
	vm_prepare stock
	build_module "/lib/modules/$KERNEL/build"
	build_programs
	PROGRAMS=$(programs)
	[ -n "$PROGRAMS" ] || die "no program matches T=$T"
	write_job '' "$PROGRAMS" "$PROGRAM_TIMEOUT" 0
	LIMIT=$TIMEOUT run_logged "$LOGS/output.log" 'stock: running' lane_progress \
		boot || rc=$?
	[ $rc -ne 124 ] || say "stock: stopped after $TIMEOUT s"
	judge
}

main "$@"
