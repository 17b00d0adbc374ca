#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Watch the processes of a test program inside the lane's kernel, stop them, and print the stacks of
# those that do not end. Sourced by guest.sh.
#
# processes.sh WHAT PID...: print the stacks of these processes to the console; see tell_stacks().
# The test harness runs this before it kills a test that takes too long.

# stat_of PID: set STATE, PARENT and FLAGS; fails if there is no such process.
stat_of()
{
	local line

	{ read -r line <"/proc/$1/stat"; } 2>/dev/null || return
	# Skip the process's name, which may contain any character.
	read -r STATE PARENT _ _ _ _ FLAGS _ <<<"${line##*) }"
}

# family PID...: print these and all their descendants. Process groups do not suffice: tests have
# their own.
family()
{
	local pid more=1
	local -A parent=() member=()

	[ $# -gt 0 ] || return 0
	for pid in "$@"; do
		member[$pid]=1
	done
	for pid in /proc/[0-9]*; do
		pid=${pid#/proc/}
		! stat_of "$pid" || parent[$pid]=$PARENT
	done
	while [ $more -gt 0 ]; do
		more=0
		for pid in "${!parent[@]}"; do
			if [ -z "${member[$pid]:-}" ] && [ -n "${member[${parent[$pid]}]:-}" ]; then
				member[$pid]=1 more=1
			fi
		done
	done
	echo "${!member[@]}"
}

# Print a line that the host looks for in the console's log.
tell()
{
	echo "kvtree-lane: hung: $*" >/dev/kmsg
}

# tell_thread FOLDER: print the stack of the thread with this folder in /proc.
tell_thread()
{
	local name line

	{ read -r name <"$1/comm"; } 2>/dev/null || return
	stat_of "${1#/proc/}" || return
	tell "  $name, ${1##*/}, state $STATE"
	while read -r line; do
		tell "    ${line#\[<0>\] }"
	done 2>/dev/null <"$1/stack"
}

# Print the stack files of all threads, also of the kernel's, that are in the module.
threads_in_module()
{
	grep -ls '\[kvtree' /proc/[0-9]*/task/[0-9]*/stack
}

# tell_stacks WHAT PID...: print the stacks of the threads of these processes and their descendants,
# and of all threads in the module. First let the kernel print the blocked tasks, because reading
# about such a process may block, too.
tell_stacks()
{
	local what=$1 pid thread
	local -A seen=()
	shift

	# Do not limit the lines per second.
	echo on >/proc/sys/kernel/printk_devkmsg
	tell "$what"
	[ ! -e /proc/sysrq-trigger ] || echo w >/proc/sysrq-trigger
	for pid in $(family "$@"); do
		for thread in "/proc/$pid/task"/[0-9]*; do
			seen[$thread/stack]=1
			tell_thread "$thread"
		done
	done
	for thread in $(threads_in_module); do
		[ -n "${seen[$thread]:-}" ] || tell_thread "${thread%/stack}"
	done
} 2>/dev/null

# remember_processes: set KNOWN to all processes that exist.
remember_processes()
{
	local pid

	KNOWN=()
	for pid in /proc/[0-9]*; do
		KNOWN[${pid#/proc/}]=1
	done
}

# Print the processes that were started since and have lost their parents, and their descendants.
# Leave out threads of the kernel, which come and go.
orphans()
{
	local pid found=()

	for pid in /proc/[0-9]*; do
		pid=${pid#/proc/}
		if [ -z "${KNOWN[$pid]:-}" ] && stat_of "$pid" && [ "$PARENT" -eq 1 ] &&
				[ "$STATE" != Z ] && [ $((FLAGS & 0x200000)) -eq 0 ]; then
			found+=("$pid")
		fi
	done
	family "${found[@]}"
}

# all_ended SECONDS PID...: do these end within SECONDS?
all_ended()
{
	local pid tries=$(($1 * 10))
	shift

	while [ $((tries--)) -gt 0 ]; do
		for pid in "$@"; do
			if stat_of "$pid" && [ "$STATE" != Z ]; then
				sleep 0.1
				continue 2
			fi
		done
		return 0
	done
	return 1
}

# stop_processes PID...: stop these, first with SIGTERM, then with SIGKILL. Fails if that does not
# stop them.
stop_processes()
{
	kill "$@" 2>/dev/null
	all_ended 5 "$@" && return
	kill -KILL "$@" 2>/dev/null
	all_ended 60 "$@"
}

# watch_program NAME PID FILE: stop a program if nothing was written to FILE for PROGRAM_TIMEOUT
# seconds, longer than even a slow machine needs, or after PROGRAM_LONGEST seconds. Returns when the
# program has ended, or cannot be stopped.
watch_program()
{
	local size=-1 now since=$SECONDS start=$SECONDS why=

	while [ -z "$why" ]; do
		sleep 5
		kill -0 "$2" 2>/dev/null || return
		now=$(stat -c %s "$3")
		if [ $((SECONDS - start)) -ge "$PROGRAM_LONGEST" ]; then
			why="it ran for more than $PROGRAM_LONGEST s"
		elif [ "$now" != "$size" ]; then
			size=$now since=$SECONDS
		elif [ $((SECONDS - since)) -ge "$PROGRAM_TIMEOUT" ]; then
			why="it said nothing for $PROGRAM_TIMEOUT s"
		fi
	done
	echo "# kvtree-lane: stopped: $why" >>"$3"
	tell_stacks "$1: $why" "$2"
	# shellcheck disable=SC2046
	stop_processes $(family "$2")
}

# watched NAME CMD...: run a command that cannot be stopped, such as inserting a module, or that the
# host will stop. If it takes too long, print stacks.
watched()
{
	local name=$1 watch rc=0
	shift

	set -m
	tell_late "$name" $$ >/dev/null &
	watch=$!
	set +m
	"$@" || rc=$?
	kill -- -$watch
	wait $watch 2>/dev/null
	return $rc
}

tell_late()
{
	sleep "$PROGRAM_LONGEST"
	tell_stacks "$1: it runs for more than $PROGRAM_LONGEST s" "$2"
}

# clear_up NAME FILE: stop the processes that a program has left behind. Fails if they cannot be
# stopped. Wait for them first, because io_uring may delay the end of a process.
clear_up()
{
	local left

	left=$(orphans)
	# shellcheck disable=SC2086
	if [ -z "$left" ] || all_ended 60 $left; then
		return
	fi
	echo "# kvtree-lane: stopped: it left processes behind" >>"$2"
	# shellcheck disable=SC2086
	tell_stacks "$1: left behind" $left
	# shellcheck disable=SC2086
	stop_processes $left
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	tell_stacks "$@"
fi
