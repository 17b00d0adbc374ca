#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm.sh: a shell in Debian's kernel under QEMU, with the module loaded and the
# tool in PATH. The host's files are there to read; what the guest writes is
# gone with it.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

main()
{
	[ -t 0 ] || die 'needs a terminal'
	KVT_OUT=vm
	lane_begin vm
	vm_prepare stock
	build_module "$KERNEL_DIR"
	run_logged "$LOGS/tools.log" 'vm: building library and tool' '' \
		make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools
	write_job '' '' 0 0 bash
	printf '#!/bin/bash\nexec %q %q\n' "$LANES/guest.sh" "$LOGS/job" \
		>"$LOGS/shell"
	chmod +x "$LOGS/shell"
	vm --shell "$LOGS/shell"
}

main "$@"
