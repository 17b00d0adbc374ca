#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm.sh: run a shell in Debian's kernel under QEMU, with the module loaded and everything that
# the examples in the documentation use: the tool, the server, the library, compilers. Its home
# directory is lost with the guest. The host's files can be read.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

install_tools()
{
	local to=(PREFIX="$OUT/usr" UDEVDIR="$OUT/usr/udev" UNITDIR="$OUT/usr/systemd")

	make -C "$TOP/lib" -j "$JOBS" install "${to[@]}"
	make -C "$TOP/tools" -j "$JOBS" install install-server GO="$(go_command)" "${to[@]}"
	# Debian's package clang-19 has no program named clang.
	[ ! -x /usr/bin/clang-19 ] || ln -sf /usr/bin/clang-19 "$OUT/usr/bin/clang"
}

# Write the script that the guest runs: a shell in its home directory.
write_shell()
{
	cat >"$LOGS/shell" <<-EOF
		#!/bin/bash
		export HOME=/tmp/home PATH='$OUT/usr/bin':\$PATH
		export LD_LIBRARY_PATH='$OUT/usr/lib' PKG_CONFIG_PATH='$OUT/usr/lib/pkgconfig'
		mkdir -p "\$HOME/kmod" && cd "\$HOME" || exit
		ln -s '$MODULE_DIR/kmod/kvtree.ko' '$MODULE_DIR/kmod/kvtree_bwtree.ko' kmod/
		exec '$LANES/guest.sh' '$LOGS/job'
	EOF
	chmod +x "$LOGS/shell"
}

main()
{
	[ -t 0 ] || die 'needs a terminal'
	KVT_OUT=vm
	lane_begin vm
	vm_prepare stock
	build_module "$KERNEL_DIR"
	run_logged "$LOGS/tools.log" 'vm: building library, tool and server' '' install_tools
	write_job '' '' 0 0 bash
	write_shell
	vm --shell "$LOGS/shell"
}

main "$@"
