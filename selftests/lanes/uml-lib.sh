# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153,SC2154
#
# Booting a User-Mode Linux kernel on the host's root. Sourced after lane.sh.
#
# MEMORY is the machine's, as in 2G.

# What the machines of all lanes may take together, in MB: the files are filled later.
ALL_MEMORY=8192

# UML's memory is a file, that has to be executable and should be in memory.
uml_memory_dir()
{
	local free options

	free=$(df --output=avail -B 1M /dev/shm 2>/dev/null | tail -n 1 || echo 0)
	options=$(findmnt -no OPTIONS /dev/shm || echo noexec)
	if [ "$free" -ge "$ALL_MEMORY" ] && [[ $options != *noexec* ]]; then
		echo /dev/shm
	else
		echo "$OUT"
	fi
}

# uml_boot KERNEL ARGUMENT...: runs the job of write_job. UML takes what it does
# not know of the command line as init's environment.
uml_boot()
{
	local kernel=$1
	shift

	TMPDIR=$(uml_memory_dir) exec "$kernel/linux" \
		mem="$MEMORY" ncpus=2 seccomp=on \
		rootfstype=hostfs rootflags=/ rw init="$LANES/guest.sh" \
		con=null 'con0=null,fd:1' printk.time=1 panic=-1 \
		rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 \
		"$@" KVT_JOB="$LOGS/job"
}
