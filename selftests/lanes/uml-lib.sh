# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153,SC2154
#
# Booting a User-Mode Linux kernel on the host's root. Sourced after lane.sh.
#
# MEMORY is the machine's, as in 2G.

# The machines' memory is in files that are filled later. What each may take is noted here, under
# its process: they must not find /dev/shm full then.
SHM=/dev/shm
SHM_NOTES=$SHM/kvtree-machines-$(id -u)

# shm_reserve PID MB: fails if there is no room for so much.
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

# uml_memory_dir PID MB: where a process may have files of that size. They should be in memory,
# and UML's have to be executable.
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

# uml_boot KERNEL ARGUMENT...: runs the job of write_job. UML takes what it does
# not know of the command line as init's environment. Grace periods are as short as possible:
# uses after a grace period are caught sooner, and tests wait for many grace periods.
uml_boot()
{
	local kernel=$1 pid=$BASHPID
	shift

	# The kernel will be this process.
	TMPDIR=$(uml_memory_dir "$pid" "$(numfmt --from=iec --to-unit=1M "$MEMORY")") exec "$kernel/linux" \
		mem="$MEMORY" ncpus=2 seccomp=on \
		rootfstype=hostfs rootflags=/ rw init="$LANES/guest.sh" \
		con=null 'con0=null,fd:1' printk.time=1 panic=-1 \
		rcutree.jiffies_till_first_fqs=0 rcutree.jiffies_till_next_fqs=1 \
		rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 workqueue.watchdog_thresh=120 \
		"$@" KVT_JOB="$LOGS/job"
}
