#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside the lane's kernel, as init (uml) or as virtme-ng's script (stock*).
# Loads the modules, runs the tests and leaves the results in $OUT. The host records
# the kernel's messages from the console.
#
# The host writes the job to the file that KVT_JOB or the first argument names:
#   LANE OUT MODULE TEST_MODULES TEST_ARGS PROGRAMS CASES PROGRAMS_SECOND PROGRAM_TIMEOUT
#   PROGRAM_LONGEST KMEMLEAK COMMAND
#
# KVT_BIN is a folder of programs. They replace the host's if the kernel is for another processor.

set -uo pipefail

# The kernel starts init with almost no environment.
[ $$ -ne 1 ] || export HOME=/root PATH=${KVT_BIN:-/usr/local/sbin:/usr/local/bin}:/usr/sbin:/usr/bin:/sbin:/bin

# shellcheck disable=SC1090
. "${1:-$KVT_JOB}"
# shellcheck source=selftests/lanes/processes.sh
. "${0%/*}/processes.sh"

LANE_KTAP=$OUT/lane.ktap
BWTREE=${MODULE%.ko}_bwtree.ko
STEPS=0

# step STATUS NAME: write a result of the lane itself.
step()
{
	STEPS=$((STEPS + 1))
	printf '%s %d %s\n' "$1" "$STEPS" "$2" >>"$LANE_KTAP"
}

check()
{
	local name=$1
	shift

	if "$@"; then
		step ok "$name"
	else
		step 'not ok' "$name"
		return 1
	fi
}

# The host splits the console's log at these lines.
mark()
{
	echo "kvtree-lane: $*" >/dev/kmsg
}

is_mounted()
{
	grep -q "^[^ ]* $1 " /proc/mounts
}

# As UML's init, mount everything. /tmp stays the host's, because the tree may be under it.
mount_all()
{
	local dir

	for dir in ${KVT_BIN:+/bin /sbin}; do
		mount --bind "$KVT_BIN" "$dir"
	done
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	is_mounted /dev || mount -t devtmpfs dev /dev
	mkdir -p /dev/shm /dev/pts
	mount -t tmpfs tmp /dev/shm
	mount -t devpts pts /dev/pts
	mount -t tmpfs run /run
	ln -sf /proc/self/fd /dev/fd
	ip link set lo up 2>/dev/null
	# Do not use the host's name: tests must not depend on it.
	hostname "$LANE" 2>/dev/null || true
}

mount_debug()
{
	[ -d /sys/kernel/debug/tracing ] ||
		mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
	is_mounted /sys/kernel/tracing ||
		mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	mkdir -p /sys/fs/cgroup
	is_mounted /sys/fs/cgroup ||
		mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
	true
}

# Stop the scheduler's servers that protect ordinary tasks from real-time ones, of which there are
# none here. If a host is so busy that their timers are late, Linux 7.3 starts such a timer twice,
# and reports that.
stop_servers()
{
	local runtime

	for runtime in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do
		[ ! -w "$runtime" ] || echo 0 >"$runtime"
	done
}

kmemleak()
{
	[ "$KMEMLEAK" = 1 ] || return 0
	echo "$1" >/sys/kernel/debug/kmemleak
}

# shellcheck disable=SC2317 # called by check
# kmemleak reports an object as leaked if it is older than five seconds and did not change between
# two scans.
no_leaks()
{
	sleep 6
	# This fails if kmemleak has given up.
	kmemleak scan && kmemleak scan || return
	cat /sys/kernel/debug/kmemleak >"$OUT/kmemleak-$1.txt"
	[ ! -s "$OUT/kmemleak-$1.txt" ] ||
		{ cat "$OUT/kmemleak-$1.txt" >/dev/kmsg; return 1; }
}

# lockdep turns itself off after its first report, or when its tables are full.
# shellcheck disable=SC2317 # called by check
lockdep_on()
{
	grep -q 'debug_locks: *1' /proc/lockdep_stats
}

run_test_module()
{
	local file=$1 name rc=0
	name=$(basename "$file" .ko)

	# KUnit runs the suites of a module while the module is inserted, and prints the results to
	# the kernel's log.
	mark begin "kunit-$name"
	# shellcheck disable=SC2086
	watched "kunit-$name" insmod "$file" ${TEST_ARGS:-} || rc=1
	mark end "kunit-$name"
	check "insmod_$name" [ $rc -eq 0 ]
}

# shellcheck disable=SC2317 # called by check
# Stores of programs that were killed may still use the module.
remove()
{
	for _ in $(seq 600); do
		! rmmod "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	rmmod "$1"
}

# Called only at the end: without KASAN_VMALLOC, KASAN still sees a removed module's red zones in
# its memory, which other modules and stacks may get.
unload_test_modules()
{
	local file name

	for file in $TEST_MODULES; do
		name=$(basename "$file" .ko)
		check "rmmod_$name" rmmod "$name"
	done
	# Programs may have loaded this module.
	[ ! -e /sys/module/kvtree_fault ] || check rmmod_kvtree_fault rmmod kvtree_fault
}

# run_program FILE [ENGINE]: run a test program, or only $CASES of it. The engine is part of the
# results' name. Fails if the program cannot be stopped.
run_program()
{
	local file=$1 name result start=$SECONDS rc=0 pid watch ended
	local -A KNOWN=()
	name=$(basename "$file")${2:+-$2}
	result=$OUT/$name.ktap

	mark program "$name"
	echo "lane: $name"
	remember_processes
	: >"$result"
	set -m
	(cd "$(dirname "$file")" && exec "$file" ${CASES:+-t "$CASES"} </dev/null) >>"$result" 2>&1 &
	pid=$!
	watch_program "$name" $pid "$result" >/dev/null &
	watch=$!
	set +m
	wait -n -p ended $pid $watch || rc=$?
	if [ "$ended" = $pid ]; then
		kill -- -$watch
		wait $watch 2>/dev/null
	fi
	clear_up "$name" "$result" && [ "$ended" = $pid ] || ended=
	printf '\n# kvtree-lane: exit %d after %d s\n' $rc $((SECONDS - start)) >>"$result"
	echo "lane: $name: exit $rc, $((SECONDS - start)) s"
	[ -n "$ended" ] || check "${name}_can_be_ended" false
}

# The module's parameters are restored after each program: one that was stopped may leave them
# changed.
PARAMETERS=/sys/module/kvtree/parameters

remember_parameters()
{
	(cd "$PARAMETERS" && grep -s . -- *) >"$OUT/parameters"
}

restore_parameters()
{
	local name value

	while IFS=: read -r name value; do
		[ "$(cat "$PARAMETERS/$name")" = "$value" ] || echo "$value" >"$PARAMETERS/$name"
	done <"$OUT/parameters"
} 2>/dev/null

# removes_module FILE: does this program remove the module? Then it runs when nothing uses the
# module.
removes_module()
{
	case $(basename "$1") in
	durable_unload|run-engine) true;;
	*) false;;
	esac
}

# udev may create the node a moment after the module is loaded.
device_appears()
{
	local i

	for i in $(seq 600); do
		[ -c /dev/kvtree ] && return
		sleep 0.1
	done
	echo "no /dev/kvtree after $i tries"
	return 1
}

# Run programs a second time, while the Bw-tree is the default engine.
run_second()
{
	local file engine=/sys/module/kvtree/parameters/engine

	[ -n "$PROGRAMS_SECOND" ] || return 0
	echo bwtree >"$engine"
	for file in $PROGRAMS_SECOND; do
		run_program "$file" bwtree || return
	done
	check engine_stayed_bwtree grep -qx bwtree "$engine"
}

run_tests()
{
	local file

	mark start
	kmemleak clear
	check insmod_kvtree insmod "$MODULE" || return
	check device_appears device_appears || return
	check insmod_kvtree_bwtree insmod "$BWTREE" || return
	remember_parameters
	# Without the module's types, BPF programs could not call its kfuncs.
	[ ! -e /sys/kernel/btf/vmlinux ] || check module_has_btf [ -s /sys/kernel/btf/kvtree ]
	for file in $TEST_MODULES; do
		echo "lane: $(basename "$file"): KUnit"
		run_test_module "$file"
	done
	# If a program cannot be stopped, end here: it waits in the kernel, and other programs, and
	# the removal of the module, would wait for it.
	for file in $PROGRAMS; do
		removes_module "$file" || run_program "$file" || return
		restore_parameters
	done
	run_second || return
	restore_parameters
	if [ "$KMEMLEAK" = 1 ]; then
		check no_leaks_while_loaded no_leaks loaded
	fi
	unload_test_modules
	check rmmod_kvtree_bwtree remove kvtree_bwtree
	for file in $PROGRAMS; do
		! removes_module "$file" || run_program "$file" || return
	done
	check rmmod_kvtree "${0%/*}/unload.sh"
	[ ! -e /proc/lockdep_stats ] || check lockdep_still_on lockdep_on
	if [ "$KMEMLEAK" = 1 ]; then
		check no_leaks_after_rmmod no_leaks unloaded
	fi
}

# Run the demo or a shell instead of tests.
run_command()
{
	mark start
	if [ "$COMMAND" = bash ]; then
		insmod "$MODULE" && insmod "$BWTREE" && device_appears && bash
	else
		watched "${COMMAND##*/}" "$COMMAND"
	fi
}

main()
{
	local rc=0

	if [ $$ -eq 1 ]; then
		mount_all
		# Tests write large files, and the host's /tmp may be small.
		export TMPDIR=$OUT/tmp
		mkdir -p "$TMPDIR"
	fi
	mount_debug
	stop_servers
	uname -r >"$OUT/uname"
	if [ -n "$COMMAND" ]; then
		run_command || rc=$?
	else
		printf 'KTAP version 1\n' >"$LANE_KTAP"
		run_tests
		printf '1..%d\n' "$STEPS" >>"$LANE_KTAP"
	fi
	[ $$ -ne 1 ] || rm -rf "$TMPDIR"
	echo "$rc" >"$OUT/finished"
	[ $$ -ne 1 ] || power_off
	exit "$rc"
}

# init must not exit, and there may be no poweroff program.
power_off()
{
	sync
	[ -z "${KVT_BIN:-}" ] || busybox poweroff -f
	python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
}

main
