# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153,SC2154
#
# Boot a User-Mode Linux kernel on the host's root. Sourced after lane.sh.
#
# MEMORY is the size of the machine's memory, such as 2G.

# UML's memory is a file that fills up as the machine uses it. A note for each machine, named after
# its process, says how large the file may become, so that machines never find /dev/shm full.
SHM=/dev/shm
SHM_NOTES=$SHM/kvtree-machines-$(id -u)

# shm_reserve PID MB: reserve space for a process. Fails if there is not enough.
shm_reserve()
{
	local note size free mb taken=0 rc=0

	mkdir -p "$SHM_NOTES" || return
	exec 6>"$SHM_NOTES/lock"
	flock 6
	for note in "$SHM_NOTES"/[0-9]*; do
		if [ -d "/proc/${note##*/}" ]; then
			mb=$(cat "$note")
			taken=$((taken + ${mb:-0}))
		else
			rm -f "$note"
		fi
	done
	read -r size free < <(df --output=size,avail -B 1M "$SHM" | tail -n 1)
	if [ "$free" -lt "$2" ] || [ $((size - taken)) -lt "$2" ] ||
			! echo "$2" >"$SHM_NOTES/$1"; then
		rc=1
	fi
	exec 6>&-
	return $rc
}

# uml_memory_dir PID MB: print a folder for a process's files of that size: in memory if possible.
# UML's file has to be executable.
uml_memory_dir()
{
	local options

	options=$(findmnt -no OPTIONS "$SHM" || echo noexec)
	if [[ $options != *noexec* ]] && shm_reserve "$1" "$2" 2>/dev/null; then
		echo "$SHM"
	else
		echo "$OUT"
	fi
}

# uml_boot KERNEL ARGUMENT...: boot, and run the job of write_job. Arguments that UML does not know
# become init's environment. Grace periods are as short as possible, so that uses after a grace
# period are caught sooner, and because tests wait for many grace periods.
uml_boot()
{
	local kernel=$1 pid=$BASHPID
	shift

	# This process becomes the kernel, so the note is under its id.
	TMPDIR=$(uml_memory_dir "$pid" "$(numfmt --from=iec --to-unit=1M "$MEMORY")") exec "$kernel/linux" \
		mem="$MEMORY" ncpus=2 seccomp=on \
		rootfstype=hostfs rootflags=/ rw init="$LANES/guest.sh" \
		con=null 'con0=null,fd:1' printk.time=1 panic=-1 \
		rcutree.jiffies_till_first_fqs=0 rcutree.jiffies_till_next_fqs=1 \
		rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 workqueue.watchdog_thresh=120 \
		"$@" KVT_JOB="$LOGS/job"
}
