#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# hibernate.sh: a machine with a durable store writes its memory to a disk, powers off, and is
# resumed: Debian's kernel in QEMU, with only busybox, the module, the tool and the program
# selftests/hibernate/hibernate.
#
# LANE_TIMEOUT is the seconds after which a silent machine is stopped.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

TIMEOUT=${LANE_TIMEOUT:-600}
COMMANDS='cat echo grep insmod mkswap mount poweroff rmmod sh sleep swapon'

build_programs()
{
	make -C "$TREE" -j "$JOBS" ${V:+V="$V"} tools &&
		make -C "$TREE/selftests/hibernate" ${V:+V="$V"}
}

# copy_program FROM TO: copy a program, and the libraries that it needs.
copy_program()
{
	local library

	install -D "$1" "$2"
	# ldd fails for a static program, which needs none.
	for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*\.so[^ ]*' || true); do
		[ -e "$FILES$library" ] || install -D "$library" "$FILES$library"
	done
}

# The names of modules' files may end in .xz.
copy_module_of_kernel()
{
	local file

	file=$(find "/lib/modules/$KERNEL/kernel/$1" -name "$2.ko*" -print -quit)
	[ -n "$file" ] || die "the kernel has no module $2"
	if [[ $file = *.xz ]]; then
		xz -dc "$file" >"$FILES/$2.ko"
	else
		cp "$file" "$FILES/$2.ko"
	fi
}

# Make the initramfs that is the machine's root, and the disks. The paths of program and tool are as
# in the tree, so that the program finds the tool.
make_files()
{
	local command

	rm -rf "$FILES"
	mkdir -p "$FILES"/{bin,dev,proc,sys,tmp}
	copy_program "$(command -v busybox)" "$FILES/bin/busybox"
	for command in $COMMANDS; do
		ln -s busybox "$FILES/bin/$command"
	done
	cp "$MODULE_DIR/kmod/kvtree.ko" "$FILES/"
	copy_module_of_kernel drivers/block virtio_blk
	copy_module_of_kernel crypto crc32c_generic
	copy_program "$TREE/tools/kvtree" "$FILES/tools/kvtree"
	copy_program "$TREE/selftests/hibernate/hibernate" "$FILES/selftests/hibernate/hibernate"
	install "$TREE/selftests/hibernate/init" "$FILES/init"
	(cd "$FILES" && find . | cpio -o -H newc --quiet | gzip -1) >"$OUT/initrd"
	rm -rf "$FILES"
	rm -f "$OUT/store" "$OUT/swap"
	truncate -s 160M "$OUT/store"
	truncate -s 512M "$OUT/swap"
}

# A machine whose tasks hang ends, and tells where they are.
PANICS='panic=-1 oops=panic sysctl.kernel.hung_task_panic=1'

# run_machine [ARGUMENT...]: run the machine until it powers off.
run_machine()
{
	local accel=(-accel 'tcg,thread=multi' -cpu "$EMULATED_CPU")

	[ "${KVT_KVM:-0}" != 1 ] || accel=(-accel kvm)
	qemu-system-x86_64 "${accel[@]}" -smp 2 -m 384M -nodefaults -no-user-config \
		-display none -no-reboot -serial "file:$CONSOLE" -pidfile "$CONSOLE.pid" \
		-kernel "$IMAGE" -initrd "$OUT/initrd" \
		-append "console=ttyS0 ignore_loglevel $PANICS $KERNEL_ARGS $*" \
		-drive "file=$OUT/store,format=raw,if=virtio,discard=unmap" \
		-drive "file=$OUT/swap,format=raw,if=virtio"
}

# boot NAME TITLE [ARGUMENT...]: run the machine, with kernel messages in NAME.console.
boot()
{
	LIMIT=$TIMEOUT CONSOLE=$LOGS/$1.console run_logged "$LOGS/$1.log" "hibernate: $2" '' \
		start_machine run_machine "${@:3}" || true
}

# ok_if CMD...: print the KTAP status for a command.
ok_if()
{
	if "$@"; then echo ok; else echo 'not ok'; fi
}

judge_both()
{
	local asleep resumed quiet=ok

	cat "$LOGS"/{first,second}.console >"$CONSOLE"
	asleep=$(ok_if grep -qa 'PM: Image saving done' "$LOGS/first.console")
	# A busy machine may have refused to freeze, and tried again. No task that refused may be in
	# the module.
	! grep -a -A 100 'refusing to freeze' "$LOGS/first.console" | grep '\[kvtree' >/dev/null ||
		asleep='not ok'
	resumed=$(ok_if grep -qa '^hibernate: finished' "$LOGS/second.console")
	"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/reports.txt" || quiet='not ok'
	{ grep -aE '^(hibernate|[a-z/_]+\.c:[0-9]+:)' "$CONSOLE" || true; } | tr -d '\r' |
		results "$LOGS/hibernate.ktap" "$asleep" machine_hibernates_under_load \
			"$resumed" resumed_store_has_lost_nothing "$quiet" no_kernel_reports
}

main()
{
	local rc=0 FILES

	lane_begin hibernate
	FILES=$OUT/files
	vm_prepare hibernate
	# Use the stock lane's folder, because the module is the same.
	MODULE_DIR=$BUILD/${KVT_OUT:-stock}/module
	mkdir -p "${MODULE_DIR%/*}"
	build_module "$KERNEL_DIR"
	in_tree run_logged "$LOGS/programs.log" 'hibernate: building' '' build_programs
	make_files
	boot first 'going to sleep'
	boot second 'waking up' resumed
	judge_both
	summary hibernate "$LOGS" || rc=1
	if [ $rc -ne 0 ]; then
		head -n 20 "$LOGS/reports.txt"
		tail -n 20 "$CONSOLE"
		say "hibernate: kernel messages in $CONSOLE"
	fi
	return $rc
}

main "$@"
