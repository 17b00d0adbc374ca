#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The processes of a test program, inside the lane's kernel: whether they have ended, and where
# they are if they have not. Sourced by guest.sh.
#
# processes.sh WHAT PID...: tell the console where these processes are; see tell_stacks().
# The test harness runs this before it kills a test that takes too long.

# stat_of PID: set STATE, PARENT and FLAGS; fails if there is no such process.
stat_of()
{
	local line

	{ read -r line <"/proc/$1/stat"; } 2>/dev/null || return
	# The name before may have anything in it.
	read -r STATE PARENT _ _ _ _ FLAGS _ <<<"${line##*) }"
}

# family PID...: print these, and what they have started. Tests have process groups of their own.
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

# The host looks for these lines in the console's log.
tell()
{
	echo "kvtree-lane: hung: $*" >/dev/kmsg
}

# tell_thread FOLDER: of /proc.
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

# Threads of the kernel, and others, that are in the module.
threads_in_module()
{
	grep -ls '\[kvtree' /proc/[0-9]*/task/[0-9]*/stack
}

# tell_stacks WHAT PID...: where the threads of these processes are, of those that they have
# started, and all that are in the module. What is blocked, the kernel tells by itself: first,
# since looking at such a process may block, too.
tell_stacks()
{
	local what=$1 pid thread
	local -A seen=()
	shift

	# More than a few lines in a second.
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

# remember_processes: set KNOWN to all that there are.
remember_processes()
{
	local pid

	KNOWN=()
	for pid in /proc/[0-9]*; do
		KNOWN[${pid#/proc/}]=1
	done
}

# Print those that have come since and have lost their parents, and what these have started.
# Threads of the kernel come and go.
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

# all_ended SECONDS PID...: within so many?
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

# stop_processes PID...: politely, then not; fails if there is one that cannot be stopped.
stop_processes()
{
	kill "$@" 2>/dev/null
	all_ended 5 "$@" && return
	kill -KILL "$@" 2>/dev/null
	all_ended 60 "$@"
}

# watch_program NAME PID FILE: stop it when nothing is written to FILE for PROGRAM_TIMEOUT
# seconds, which a slow machine is no reason for, or after PROGRAM_LONGEST seconds. Returns
# when it has ended, or does not let itself be stopped.
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

# watched NAME CMD...: run what cannot be stopped, as a module that is inserted, or what the host
# will stop. What takes too long is looked at.
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

# clear_up NAME FILE: stop what a program has left behind; fails if that cannot be stopped.
# What io_uring still holds is let go of a moment later.
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
