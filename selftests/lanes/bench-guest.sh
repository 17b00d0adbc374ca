#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench-guest.sh bench-stock|bench-bpf|bench-log|bench-net: build, boot a virtual machine and
# measure there. Prints tables and writes the results to build/NAME.json. Fails if a
# ratio misses its target.
#
# bench-stock	kvtree beside redis-server and memcached, on Debian's kernel in QEMU
# bench-bpf	lookups by BPF programs beside the kernel's own maps, and a cache in XDP
#		beside memcached, there too
# bench-log	durable stores beside LMDB, RocksDB and Redis, on User-Mode Linux and on
#		Debian's kernel; T=uml or T=stock does one of the two
# bench-net	kvtree-server beside redis-server, with redis-benchmark, on Debian's kernel
#
# BENCH_ARGS has options for the program, tools/bench/*/NAME. For bench-log, BENCH_MEMORY is the
# machine's memory (4G), and BENCH_DISK_MB the size of each of its four disks (1536), two of which
# are in that memory as far as they are written to.
#
# ICOUNT=1 gives the machine one CPU and a clock that advances by one nanosecond per
# instruction. This counts the instructions of an operation. Their number is the same in
# every run, whatever else the host does. Ratios have no targets then, since
# instructions are not times.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

TESTS=0

OPTIONS=${BENCH_ARGS:-}
CACHED=$TOP/tools/examples/memcached

# The results of each lane: LANE=FILE.
PARTS=()
MISSED=0

# Time of a request on devices in memory, ns; the size of each device.
LATENCY=100000
DISK_MB=${BENCH_DISK_MB:-1536}

settings()
{
	case $1 in
	bench-stock) ;;
	bench-bpf) OPTIONS="--cache $CACHED/kvtree-memcached $OPTIONS";;
	bench-log) VM_MEMORY=${BENCH_MEMORY:-4G};;
	bench-net) OPTIONS="--server $BUILD/go/kvtree-server $OPTIONS";;
	*) die 'usage: bench-guest.sh bench-stock|bench-bpf|bench-log|bench-net';;
	esac
	NAME=$1
	FOLDER=$TOP/tools/bench/${NAME#bench-}
	PROGRAM=$FOLDER/$NAME
	JSON=$BUILD/$NAME.json
	if [ "${ICOUNT:-0}" = 1 ]; then
		[ "$NAME" != bench-net ] || die 'bench-net: several programs share the processors, which ICOUNT=1 has not'
		icount
	fi
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
	if [ "$NAME" = bench-net ]; then
		make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools && "$LANES/go.sh"
		return
	fi
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} lib &&
		make -C "$FOLDER" -j "$JOBS" ${V:+V="$V"} || return
	case $NAME in
	bench-bpf) make -C "$CACHED" -j "$JOBS" ${V:+V="$V"};;
	bench-log) make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools;;
	esac
}

# null_blk NAME: commands that make a device in memory, without a cache of its own.
null_blk()
{
	local dir=/sys/kernel/config/nullb/$1 setting

	echo "mkdir $dir"
	for setting in memory_backed=1 discard=1 "size=$DISK_MB" blocksize=4096 \
			submit_queues=2 irqmode=2 "completion_nsec=$LATENCY" power=1; do
		echo "echo ${setting#*=} >$dir/${setting%=*}"
	done
}

# disks FIRST SECOND: the devices that bench-log writes to. The first pair has targets.
disks()
{
	echo 'set -e'
	# In UML, null_blk is built in.
	echo 'modprobe -q null_blk nr_devices=0 || true'
	echo 'mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config'
	null_blk store
	null_blk files
	echo 'set +e'
	DISKS="null_blk=/dev/store,/dev/files disk=$1,$2"
}

# Write the script that the guest runs.
write_command()
{
	DISKS=
	{
		echo '#!/bin/bash'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" || exit'
		# shellcheck disable=SC2016
		echo 'insmod "${KVTREE_MODULE%.ko}_bwtree.ko" || exit'
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		[ $# -eq 0 ] || disks "$@"
		printf '%q --json %q %s %s; rc=$?\n' "$PROGRAM" "$LOGS/$NAME.json" "$OPTIONS" \
			"$DISKS"
		# shellcheck disable=SC2016
		printf '%q && exit $rc\n' "$LANES/unload.sh"
	} >"$LOGS/command"
	chmod +x "$LOGS/command"
	write_job '' '' 0 0 "$LOGS/command"
}

fail()
{
	say "$NAME: FAILED: $1"
	exit 1
}

# Make the files that the guest uses as disks.
disk_files()
{
	FILES=("$OUT/store.img" "$OUT/files.img")
	rm -f "${FILES[@]}"
	truncate -s "${DISK_MB}M" "${FILES[@]}"
	trap 'rm -f "${FILES[@]}"' EXIT
}

in_stock()
{
	local file

	vm_prepare "$NAME"
	build_module "$KERNEL_DIR"
	if [ "$NAME" = bench-log ]; then
		disk_files
		for file in "${FILES[@]}"; do
			VM_QEMU_OPTS="${VM_QEMU_OPTS:-} -drive file=$file,format=raw,if=virtio"
		done
		write_command /dev/vda /dev/vdb
	else
		write_command
	fi
	say "$NAME: booting"
	vm_script "$LANES/guest.sh" "$LOGS/job" </dev/null 2>&1 | cat || true
}

in_uml()
{
	local kernel

	kernel=$("$LANES/kernel.sh" uml)
	build_module "$kernel" ARCH=um
	disk_files
	write_command /dev/ubda /dev/ubdb
	say "$NAME: booting User-Mode Linux"
	MEMORY=$VM_MEMORY
	(uml_boot "$kernel" "ubd0=${FILES[0]}" "ubd1=${FILES[1]}" null_blk.nr_devices=0) \
		2>&1 </dev/null | tee "$CONSOLE" | grep -v --line-buffered '^\[ *[0-9.]*\]' || true
}

# measure LANE: build, boot, and collect the results. Without LANE, it is stock.
measure()
{
	local rc

	lane_begin "$NAME${1:+-$1}"
	run_logged "$LOGS/program.log" "$NAME: building the program" '' in_tree build_program
	"in_${1:-stock}"
	[ -e "$LOGS/finished" ] ||
		fail "the virtual machine did not come to the end, see $CONSOLE"
	"$LANES/ktap.py" --reports "$CONSOLE" || fail "the kernel complained, see $CONSOLE"
	[ -s "$LOGS/$NAME.json" ] || fail 'nothing was measured'
	rc=$(cat "$LOGS/finished")
	[ "$rc" -le 1 ] || fail 'the program failed, see above'
	# Only the ratios of the first lane have targets.
	[ ${#PARTS[@]} -gt 0 ] || MISSED=$rc
	PARTS+=("${1:-stock}=$LOGS/$NAME.json")
}

main()
{
	settings "${1:-}"
	ask_for_root
	"$LANES/deps.sh" "$NAME"
	if [ "$NAME" = bench-log ]; then
		[ "$T" = uml ] || measure stock
		[ "$T" = stock ] || measure uml
		"$TOP/tools/bench/results.py" --json "$JSON" "${PARTS[@]}"
	else
		measure
		cp "$LOGS/$NAME.json" "$JSON"
	fi
	say "$NAME: results in $JSON ($(elapsed))"
	[ "$MISSED" -eq 0 ] || fail 'a ratio misses its target, see above'
}

main "$@"
