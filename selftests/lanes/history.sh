#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# history.sh: check that stores are linearizable. Several processes use a store at the same time, by
# ioctl, io_uring and BPF programs; porcupine looks for an order of the operations that explains
# all results.
#
#   uml      User-Mode Linux: volatile stores, and durable ones on disks that fail again and
#            again and lose what was not flushed
#   stock    Debian's kernel in QEMU: the same with BPF programs among the processes
#
# PARTS selects parts. HISTORY_TIME is the total time of recording in seconds: 60, and 30
# with KVT_SHORT=1. HISTORY_SEED selects other operations.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

HISTORY=$TOP/selftests/history
LEAST=8
# Half a minute suffices to find the broken builds.
[ "$SHORT" != 1 ] || HISTORY_TIME=${HISTORY_TIME:-30}
SECONDS_EACH=$(((${HISTORY_TIME:-60} + 7) / 8))
SEED=${HISTORY_SEED:-1}
MEMORY=2G

build_programs()
{
	local go

	go=$(go_command) || die "no Go from $GO_OLDEST on"
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools &&
		make -C "$HISTORY" -j "$JOBS" ${V:+V="$V"} GO="$go" "$@" check/check
}

# line ENGINE NAME PROGRAM OPTION...: print the lines of the guest's script that record a history.
line()
{
	local engine=$1 name=$2 program=$3
	shift 3

	echo "echo $engine >/sys/module/kvtree/parameters/engine"
	echo "echo 'lane: recording $name'"
	printf '%q ' "$HISTORY/$program" --seconds "$SECONDS_EACH" --seed "$SEED" "$@" \
		"$LOGS/$name.history"
	printf '>%q 2>&1\n' "$LOGS/$name.txt"
}

uml_lines()
{
	local engine

	for engine in masstree bwtree; do
		line "$engine" "uml-$engine" history
		line "$engine" "uml-$engine-durable" history --durable
	done
}

stock_lines()
{
	local engine

	for engine in masstree bwtree; do
		line "$engine" "stock-$engine" history-bpf
		line "$engine" "stock-$engine-durable" history-bpf --durable
	done
}

# write_script PART: write the script that the guest runs.
write_script()
{
	local script=$LOGS/$1.sh

	{
		echo '#!/bin/bash'
		echo 'set -e'
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE"'
		# shellcheck disable=SC2016
		echo 'insmod "${KVTREE_MODULE%.ko}_bwtree.ko"'
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		"$1_lines"
		printf '%q\n' "$LANES/unload.sh"
	} >"$script"
	chmod +x "$script"
	write_job '' '' 0 0 "$script"
}

boot_uml()
{
	uml_boot "$(cat "$LOGS/kernel")" null_blk.nr_devices=0
}

boot_stock()
{
	vm_script "$LANES/guest.sh" "$LOGS/job" 2>&1 | cat
}

# record PART: boot, and record. The kernel must reach the end of the script without a report.
record()
{
	local part=$1 ok='not ok' out

	MODULE_DIR=$BUILD/$part/module
	CONSOLE=$LOGS/$part.log
	mkdir -p "${MODULE_DIR%/*}"
	if [ "$part" = uml ]; then
		"$LANES/kernel.sh" uml >"$LOGS/kernel"
		build_module "$(cat "$LOGS/kernel")" ARCH=um
		out=$CONSOLE
	else
		vm_prepare "$part"
		build_module "$KERNEL_DIR"
		out=$LOGS/output.log
	fi
	write_script "$part"
	rm -f "$LOGS/finished"
	LIMIT=$((SECONDS_EACH * 20 + 300)) run_logged "$out" "history: $part" lane_progress \
		"boot_$part" || true
	if [ "$(cat "$LOGS/finished" 2>/dev/null)" = 0 ] &&
		"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/$part-reports.txt"; then
		ok=ok
	fi
	tail -q -n 1 "$LOGS/$part"*.txt | results "$LOGS/$part.ktap" "$ok" "${part}_recorded"
}

check()
{
	compgen -G "$LOGS/*.history" >/dev/null || return 0
	"$HISTORY/check/check" "$LOGS"/*.history >"$LOGS/check.ktap" || true
}

main()
{
	local part programs=(history) rc=0

	lane_begin history
	"$LANES/deps.sh" history
	[[ ${PARTS:-stock} != *stock* ]] || programs+=(history-bpf)
	in_tree run_logged "$LOGS/programs.log" 'history: building' '' \
		build_programs "${programs[@]}"
	for part in ${PARTS:-uml stock}; do
		record "$part"
	done
	run_logged "$LOGS/check.log" 'history: checking' '' check
	grep '^#' "$LOGS/check.ktap" >&2 || true
	summary history "$LOGS" || rc=1
	return $rc
}

main "$@"
