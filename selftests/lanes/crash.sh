#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# crash.sh: crash a store at thousands of points, recover it, and judge the result.
#
#   stock    Debian's kernel in QEMU runs workloads on disks that record all writes,
#            and recovers some crashes itself
#   uml      User-Mode Linux runs a longer workload, and recovers crashes of all
#            workloads from ubd disks, with as many CPUs as had written them, and with one
#   replay   a program of the host replays each record, crashes at every flush and at
#            other points, recovers by the module's source, and judges the result
#   format   the on-disk format: read images of earlier versions, here and by a
#            program for a big-endian machine; then damage every part of them, and of a
#            crash of the longest workload
#   cuts     kill machines in the middle of a workload, and while they start
#   boot     systemd starts and shuts down a machine, and attaches and detaches a store
#            that a crash has left
#
# A life of a store is the time from attaching it to detaching it, or to a crash.
#
# PARTS		the parts to run; all by default
# CRASH_TIME	seconds: run larger rounds for this time, and then the builds broken on purpose
#		that crashes must find (selftests/broken/crash-*.patch). Without it, run one round,
#		which is small enough for "make check"
# CRASH_SEED	selects other crashes
# CRASH_LIVES	lives of the store that is recorded from its first life on: 31 to 40 by default; a
#		superblock has room for 32
# CRASH_LESS	MiB by which the three disks of a store differ in size
# CRASH_CACHED	1: disks always keep their caches over a first crash

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

CRASH=$TOP/selftests/crash/crash
IMAGES=$TOP/selftests/format
TIMEOUT=${LANE_TIMEOUT:-900}
LEAST=25
# Seconds that a step may take.
LONGEST=7200
SEED=${CRASH_SEED:-1}
ROUND=0
RESULTS=0
MEMORY=1G
MIB=136
# Memory for all disks that exist at a time, in MB.
DISKS_MB=2048
LESS=${CRASH_LESS:-32}
# The largest of three.
UNEQUAL_MIB=$((MIB + 2 * LESS))
# Large enough that no checkpoint is needed: a checkpoint would clear the list of lives.
LIVES_MIB=1536

# The format of the disks does not depend on the engine. So the stores of one kernel use one engine,
# those of the other kernel the other one, and each machine that is killed gets a random one.
ENGINES=(masstree bwtree)

PATH=$TOP/tools:$PATH

# Choose how much is done in each part. MOST is EVERY for the first image.
settings()
{
	if [ -z "${CRASH_TIME:-}" ]; then
		OPS=100 ATTACH=25 POINTS=300 CHECKS=6 CUTS=6 QEMU_CUTS=0 MOST=3 EVERY=16 PLACES=2500
	else
		OPS=400 ATTACH=100 POINTS=5000 CHECKS=50 CUTS=40 QEMU_CUTS=4 MOST=1 EVERY=1
		PLACES=100000
	fi
}

# result NAME RC FILE: report a result, with the output in FILE.
result()
{
	local name=$1

	[ "$ROUND" -eq 0 ] || name+="-round-$ROUND"
	RESULTS=$((RESULTS + 1))
	[ ! -s "$3" ] || sed 's/^\(# \)\?/# /' "$3" >>"$KTAP"
	if [ "$2" -eq 0 ]; then
		echo "ok $RESULTS $name" >>"$KTAP"
		say "crash: $name: $(tail -n 1 "$3" 2>/dev/null)"
	else
		echo "not ok $RESULTS $name" >>"$KTAP"
		say "crash: $name: FAILED: $(tail -n 3 "$3" 2>/dev/null)"
	fi
}

# attempt NAME CMD...: run CMD, and report whether it succeeded.
attempt()
{
	local name=$1 rc=0
	shift

	"$@" >"$LOGS/$name.txt" 2>&1 || rc=$?
	result "$name" $rc "$LOGS/$name.txt"
}

build_programs()
{
	make -C "$TOP" -j "$JOBS" ${V:+V="$V"} tools &&
		make -C "$TOP/selftests/crash" -j "$JOBS" ${V:+V="$V"} &&
		PATH=$PATH:$CACHE/programs/bin make -C "$IMAGES" -j "$JOBS" ${V:+V="$V"} \
			format format-s390x
}

# in_lane NAME CMD...: run CMD with the module of that lane, and with a folder of its own.
in_lane()
{
	local out=$OUT logs=$LOGS rc=0

	MODULE_DIR=$BUILD/$1/module
	OUT=$out/$1 LOGS=$out/$1/results CONSOLE=$out/$1/results/console.log
	shift
	mkdir -p "$LOGS" "${MODULE_DIR%/*}"
	"$@" || rc=$?
	OUT=$out LOGS=$logs
	return $rc
}

# write_script ENGINE TEXT: write the script that a guest runs: load the module, and then TEXT.
write_script()
{
	{
		echo '#!/bin/bash'
		echo 'set -e'
		# shellcheck disable=SC2016
		printf 'PATH=%q:$PATH\n' "$TOP/tools"
		# Workloads now and then pause for longer than log_idle_ms, so the log commits
		# an empty epoch.
		# shellcheck disable=SC2016
		echo 'insmod "$KVTREE_MODULE" log_idle_ms=20'
		# shellcheck disable=SC2016
		echo 'insmod "${KVTREE_MODULE%.ko}_bwtree.ko"'
		# Not at once: the store 'default' would have the Bw-tree, and keep its module.
		echo "echo $1 >/sys/module/kvtree/parameters/engine"
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		printf '%s\n' "$2"
	} >"$LOGS/script"
	chmod +x "$LOGS/script"
	PROGRAM_LONGEST=$((LONGEST / 2)) write_job '' '' 0 0 "$LOGS/script"
}

# step NAME CMD: print a line of the guest's script that runs CMD, and keeps its output and status.
step()
{
	# shellcheck disable=SC2016
	printf 'echo "lane: %s"; rc=0; %s >%q 2>&1 || rc=$?; echo $rc >%q\n' "$1" "$2" \
		"$LOGS/$1.txt" "$LOGS/$1.rc"
}

# run_steps TITLE CMD...: boot by CMD; each step of the script is a result.
run_steps()
{
	local title=$1 rc=0
	shift

	rm -f "$LOGS/finished"
	LIMIT=$TIMEOUT LANE_LONGEST=$LONGEST \
		run_logged "$LOGS/output.log" "crash: $title" lane_progress "$@" || rc=$?
	[ "$(cat "$LOGS/finished" 2>/dev/null)" = 0 ] || rc=1
	"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/kernel.txt" || rc=1
	[ $rc -eq 0 ] || hung >>"$LOGS/kernel.txt"
	return $rc
}

# step_results LANE STATUS: report the results of a guest's steps, and STATUS as its kernel's.
step_results()
{
	local dir=$OUT/$1/results name rc

	result "$1-kernel" "$2" "$dir/kernel.txt"
	sed -n 's/^echo "lane: \([^"]*\)".*/\1/p' "$dir/script" | while read -r name; do
		echo "$name"
	done >"$LOGS/steps"
	while read -r name; do
		rc=$(cat "$dir/$name.rc" 2>/dev/null || echo 1)
		result "$1-$name" "$rc" "$dir/$name.txt"
	done <"$LOGS/steps"
}

# record NAME ARGUMENT...: print a step that records a life.
record()
{
	local name=$1
	shift

	step "record-$name" "$CRASH record $* --record $RECORDS/$name.log \
		--oracle $RECORDS/$name.oracle"
}

# attach NAME DISK...: print a step that recovers crashes of a recorded life, on these disks.
attach()
{
	local name=$1
	shift

	step "attach-$name" "$CRASH attach --points $ATTACH --seed $SEED$ROUND \
		--record $RECORDS/$name.log --oracle $RECORDS/$name.oracle $*"
}

# crashed NAME ARGUMENT...: print a command that makes the disks of a crash of a recorded life, from
# which another life can start. The guest and the host both run it, because copying the disks out of
# the guest would take longer.
crashed()
{
	local name=$1
	shift

	[ "${CRASH_CACHED:-0}" = 0 ] || set -- --cached "$@"
	echo "$CRASH image --seed $SEED$ROUND --record $RECORDS/$name.log \
		--oracle $RECORDS/$name.oracle $*"
}

# Record three lives: on one disk, written by one CPU; after a crash of that life, by two CPUs; on
# three disks, by four CPUs.
stock_script()
{
	local life=$((ROUND * 8 + 1))

	record one --life $life --workers 3 --cpus 1 --ops $((OPS * 4)) --mib $MIB \
		--checkpoint 50
	step crashed "$(crashed one /dev/shm/base.img)"
	record again --life $((life + 1)) --workers 4 --cpus 2 --ops $((OPS * 2)) \
		--checkpoint 90 /dev/shm/base.img
	record three --life $((life + 2)) --nbd 3 --workers 6 --cpus 4 --ops $((OPS * 2)) \
		--mib $UNEQUAL_MIB --less "$LESS" --checkpoint 40
	attach one
	attach three
	printf '%q\n' "$LANES/unload.sh"
}

stock_boot()
{
	VM_CPUS=4 vm_script "$LANES/guest.sh" "$LOGS/job" </dev/null 2>&1 | cat
}

stock_run()
{
	RECORDS=$LOGS
	rm -f "$LOGS"/{*.oracle,*.rc,*.txt}
	write_script "${ENGINES[ROUND % 2]}" "$(stock_script)"
	run_steps 'recording on a stock kernel' stock_boot
}

stock_results()
{
	local rc=0

	in_lane stock stock_run || rc=$?
	step_results stock $rc
}

# Recover the crashes of the stock kernel's lives, on ubd disks.
attach_stock()
{
	[ ! -e "$RECORDS/$1.oracle" ] || attach "$@" --compare
}

# Print the number of lives of this round's store that is recorded from its first life on.
lives()
{
	echo $((${CRASH_LIVES:-31 + (SEED + ROUND) % 10}))
}

# Record a life so long that the log wraps around its disk. Record one that starts from a crash of
# it after which the disk's cache kept everything, so that recovery finds data that a second crash
# can still lose. And record so many lives of a store that the superblock has no room for another.
uml_script()
{
	local life=$((ROUND * 8 + 4)) RECORDS=$LOGS

	record round --life $life --workers 5 --cpus 4 --ops $((OPS * 12)) --mib $MIB \
		--checkpoint 30
	step crashed-cached "$(crashed round --cached /dev/shm/cached.img)"
	record cached --life $((life + 1)) --workers 3 --cpus 2 --ops "$OPS" --checkpoint 40 \
		/dev/shm/cached.img
	record lives --life $((life + 2)) --lives "$(lives)" --workers 2 --cpus 2 --ops "$OPS" \
		--mib $LIVES_MIB
	attach round /dev/ubda --compare
	RECORDS=$OUT/../stock/results
	attach_stock one /dev/ubda
	ATTACH=$((ATTACH / 3)) attach_stock three /dev/ubda /dev/ubdb /dev/ubdc
	printf '%q\n' "$LANES/unload.sh"
}

# Print the arguments with which UML uses files as disks.
ubd()
{
	local i=0 file

	for file in "$@"; do
		printf 'ubd%d=%s ' $i "$file"
		i=$((i + 1))
	done
}

uml_steps()
{
	# shellcheck disable=SC2046
	uml_boot "$UML" ncpus="$1" $(ubd "$DISKS"/attach-{0,1,2}.img) >"$CONSOLE"
}

uml_run()
{
	RECORDS=$OUT/../stock/results
	rm -f "$LOGS"/{*.oracle,*.rc,*.txt}
	write_script "${ENGINES[1 - ROUND % 2]}" "$(uml_script)"
	truncate -s ${UNEQUAL_MIB}M "$DISKS"/attach-{0,1,2}.img
	run_steps 'recording and recovering on UML' uml_steps 4
}

# Recover, on a machine with one CPU, what four CPUs have written in more streams.
one_cpu_script()
{
	# shellcheck disable=SC2016
	echo '[ "$(nproc --all)" -eq 1 ]'
	RECORDS=$OUT/../uml/results attach round /dev/ubda --compare
	ATTACH=$((ATTACH / 3)) attach_stock three /dev/ubda /dev/ubdb /dev/ubdc
	printf '%q\n' "$LANES/unload.sh"
}

one_cpu_run()
{
	MODULE_DIR=$BUILD/uml/module
	RECORDS=$OUT/../stock/results
	rm -f "$LOGS"/{*.rc,*.txt}
	write_script "${ENGINES[ROUND % 2]}" "$(one_cpu_script)"
	run_steps 'recovering with one CPU' uml_steps 1
}

uml_results()
{
	local rc=0

	in_lane uml uml_run || rc=$?
	step_results uml $rc
	rc=0
	in_lane one-cpu one_cpu_run || rc=$?
	rm -f "$DISKS"/attach-*
	step_results one-cpu $rc
}

# after NAME: the record starts from a crash of NAME, after which the disks had kept their caches.
after()
{
	local record=${oracle%/*}/$1

	first=(--first "$record.log" --first-oracle "$record.oracle")
}

replay_results()
{
	local oracle name base first

	for oracle in "${CRASH_RECORDS:-$OUT}"/{stock,uml}/results/*.oracle; do
		[ -e "$oracle" ] || continue
		name=$(basename "$oracle" .oracle)
		base=() first=()
		if [ "$name" = cached ]; then
			after round
		elif [ "$name" = again ] && [ "${CRASH_CACHED:-0}" != 0 ]; then
			after one
		elif [ "$name" = again ]; then
			base=("$DISKS/base.img")
			$(RECORDS=${oracle%/*} crashed one) "${base[@]}" >/dev/null
		fi
		attempt "replay-$name" "$CRASH" replay --jobs "$JOBS" --points "$POINTS" \
			--check "$CHECKS" --seed "$SEED$ROUND" --dir "$DISKS" \
			--record "${oracle%.oracle}.log" --oracle "$oracle" "${first[@]}" "${base[@]}"
	done
}

# golden COMMAND...: does COMMAND still show the same contents of the images of all versions?
golden()
{
	local version

	for version in v1 v2 v3; do
		"$IMAGES/golden.sh" $version "$DISKS/$version" "$@" >"$LOGS/golden-$version.txt" &&
			diff "$IMAGES/golden/$version.txt" "$LOGS/golden-$version.txt" || return
	done
	echo "$(cat "$LOGS"/golden-*.txt | grep -c ' version ') values in twelve stores"
}

# Does the tool find in the images what the module had dumped when it wrote them?
golden_check()
{
	local version

	for version in v1 v2 v3; do
		cd "$DISKS/$version" &&
			kvtree store check --print one.img | diff one.dump - &&
			kvtree store check --print two-2.img two-1.img | diff two.dump - || return
	done
	echo 'as the module has dumped them'
}

# Do both kinds of machines read the same from the disks of crashes?
same_elsewhere()
{
	local n seed record=$OUT/uml/results/round

	for n in 1 2 3 4; do
		seed=$SEED$ROUND$n
		"$CRASH" image --seed "$seed" --record "$record.log" --oracle "$record.oracle" \
			"$DISKS/crash.img" >/dev/null
		"$IMAGES/format" show "$DISKS/crash.img" >"$LOGS/here.txt"
		qemu-s390x "$IMAGES/format-s390x" show "$DISKS/crash.img" |
			diff "$LOGS/here.txt" - || return
		head -n 1 "$LOGS/here.txt"
	done
}

# Do both kinds of machines and the tool read a store with ranges?
same_ranges()
{
	"$IMAGES/format" show "$DISKS"/ranges-{1,2}.img >"$LOGS/ranges.txt" &&
		qemu-s390x "$IMAGES/format-s390x" show "$DISKS"/ranges-{1,2}.img |
		diff "$LOGS/ranges.txt" - &&
		kvtree store check "$DISKS"/ranges-{1,2}.img
}

# format COMMAND OPTION... DISK...
format()
{
	"$IMAGES/format" "$1" --jobs "$JOBS" --seed "$SEED$ROUND" "${@:2}"
}

format_results()
{
	local golden=$DISKS/v1 sparse=$DISKS/v3 record=$OUT/uml/results/round

	PATH=$PATH:$CACHE/programs/bin
	attempt format-golden golden "$IMAGES/format" show
	attempt format-golden-check golden_check
	attempt format-big-endian golden qemu-s390x "$IMAGES/format-s390x" show
	attempt format-damage format damage --every "$MOST" --places "$PLACES" \
		--stale "$golden/one-early.img" "$golden/one.img"
	attempt format-damage-two format damage --every "$EVERY" --places $((PLACES / 4)) \
		--stale "$golden"/early-1.img --stale "$golden"/early-2.img \
		"$golden"/two-{1,2}.img
	attempt format-damage-sparse format damage --every "$EVERY" --places $((PLACES / 4)) \
		--stale "$sparse"/early-1.img --stale "$sparse"/early-2.img \
		"$sparse"/two-{1,2}.img
	attempt format-fuzz format fuzz --places $((PLACES / 2)) "$golden/one.img"
	# A seed that yields superblocks without a checkpoint: they must be refused with a message.
	attempt format-fuzz-nowhere format fuzz --seed 46386 --places 100 "$golden/one.img"
	attempt format-fuzz-two format fuzz --places $((PLACES / 4)) "$golden"/two-{1,2}.img
	attempt format-fuzz-sparse format fuzz --places $((PLACES / 4)) "$sparse"/two-{1,2}.img
	attempt format-ranges format ranges --every "$EVERY" --places $((PLACES / 10))
	attempt format-build format build "$DISKS"/ranges-{1,2}.img
	attempt format-big-endian-ranges same_ranges
	attempt format-damage-ranges format damage --every "$EVERY" --places $((PLACES / 4)) \
		"$DISKS"/ranges-{1,2}.img
	attempt format-fuzz-ranges format fuzz --places $((PLACES / 2)) "$DISKS"/ranges-{1,2}.img
	[ -e "$record.oracle" ] || return 0
	attempt format-big-endian-crash same_elsewhere
	attempt format-damage-crash format damage --every $((EVERY * 16)) --places $((PLACES / 4)) \
		"$DISKS/crash.img"
}

# wait_for TEXT FILE PID: wait until FILE contains TEXT. Fail if the machine ends before that, or if
# it is silent for too long and is stopped.
wait_for()
{
	local start=$SECONDS tick=0

	while kill -0 "$3" 2>/dev/null; do
		! grep -q -a "$1" "$2" || return 0
		tick=$((tick + 1))
		if [ $((tick % 500)) -eq 0 ] && is_silent "${2%/*}" "$TIMEOUT" "$start"; then
			stop_group "$3"
		fi
		pause 0.02
	done
	tail -n 5 "$2"
	return 1
}

uml_machine()
{
	# shellcheck disable=SC2046
	uml_boot "$UML" ncpus=4 $(ubd "$@")
}

# The disks are files of the host with cache=writeback: they keep all writes when QEMU is killed.
stock_machine()
{
	local file

	VM_CPUS=4 VM_QEMU_OPTS=
	for file in "$@"; do
		VM_QEMU_OPTS+=" -drive file=$file,format=raw,if=virtio,cache=writeback"
	done
	vm_script "$LANES/guest.sh" "$LOGS/job" 2>&1 | cat
}

# cut_machine LANE MS ARGUMENTS FILE...: start a machine with these disks, and kill it MS
# milliseconds after it has printed $BEGUN. The workload writes the results of its changes to the
# first disk.
cut_machine()
{
	local lane=$1 wait=$2 args=$3 letters=vd pid names
	shift 3

	[ "$lane" = stock ] || letters=ubd
	names=("/dev/$letters"{b,c,d,e})
	# If the workload ends before the kill, the machine waits for it.
	write_script "${ENGINES[wait % 2]}" "echo lane: go; $CRASH drive $args --oracle /dev/${letters}a \
		${names[*]:0:$#-1}; sleep infinity"
	: >"$LOGS/output.log"
	set -m
	"${lane}_machine" "$@" >"$LOGS/output.log" 2>&1 </dev/null &
	pid=$!
	set +m
	wait_for "$BEGUN" "$LOGS/output.log" $pid || return
	sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
	# The machine must still be running.
	kill -KILL -- -$pid || { tail -n 5 "$LOGS/output.log"; return 1; }
	wait $pid 2>/dev/null || true
	[ "$lane" = uml ] || return 0
	"$LANES/ktap.py" --reports "$LOGS/output.log"
}

# Choose when to kill the machine: some are killed just after the beginning, while they format or
# recover. An emulated machine is slow, so it is first killed later, during the load.
draw_wait()
{
	BEGUN='lane: go' WAIT=$((RANDOM % 120))
	if [ -n "$FORMAT" ] && [ "$1" = uml ]; then
		WAIT=$((RANDOM % (50 << $2)))
	elif [ -n "$FORMAT" ] || [ $((RANDOM % 3)) -gt 0 ]; then
		BEGUN='lane: attached' WAIT=$((RANDOM % 900))
	fi
	[ "$1" = uml ] || WAIT=$((WAIT * 10))
}

# Judge the disks of the life that was killed. Returns 3 if they were not formatted yet.
judge()
{
	local life=$1 journal=$2 state=$3 rc=0
	shift 3

	"$CRASH" judge --life "$life" --oracle "$journal" --state "$state" "$@" \
		>"$LOGS/judge.txt" || rc=$?
	cat "$LOGS/judge.txt"
	! grep -q '^cut in the load' "$LOGS/judge.txt" || LOADS=$((LOADS + 1))
	[ $rc -eq 0 ] || return $rc
	kvtree store check "$@" >/dev/null
}

# cuts LANE DISKS N: run N lives of one store. Each ends by killing the machine, and is judged
# before the next one begins. If no life was killed during the load, run more, up to five times N.
cuts()
{
	local lane=$1 disks=$2 n=$3 life=0 rc journal=$DISKS/journal.img files=()

	RANDOM=$((SEED * 100 + ROUND)) FORMAT=--format LOADS=0
	rm -f "$DISKS"/* "$LOGS/state"
	while [ ${#files[@]} -lt "$disks" ]; do
		files+=("$DISKS/disk-$((${#files[@]} + 1)).img")
	done
	truncate -s ${MIB}M "${files[@]}"
	while [ "$life" -lt "$n" ] ||
			{ [ "$LOADS" -eq 0 ] && [ "$life" -lt $((n * 5)) ]; }; do
		life=$((life + 1))
		rm -f "$journal"
		truncate -s 9M "$journal"
		draw_wait "$lane" "$life"
		cut_machine "$lane" "$WAIT" "--life $life --workers $((1 + RANDOM % 6)) \
			--cpus $((1 << RANDOM % 3)) --ops 16000 --checkpoint $((20 + RANDOM % 100)) \
			$FORMAT" "$journal" "${files[@]}" || return
		rc=0
		judge "$life" "$journal" "$LOGS/state" "${files[@]}" || rc=$?
		[ $rc -ne 3 ] || continue
		[ $rc -eq 0 ] || return $rc
		FORMAT=
	done
	echo "$life power cuts on $disks disks, $LOADS of them in the load"
	[ "$LOADS" -gt 0 ]
}

cuts_results()
{
	attempt cuts-one in_lane uml cuts uml 1 "$CUTS"
	attempt cuts-three in_lane uml cuts uml 3 "$CUTS"
	[ "$QEMU_CUTS" -eq 0 ] || attempt cuts-qemu in_lane stock cuts stock 2 "$QEMU_CUTS"
}

# by_systemd COMMAND: run COMMAND in a machine that systemd has booted.
by_systemd()
{
	as_root timeout 900 unshare --mount "$LANES/systemd.sh" "$UML" \
		"$MODULE_DIR/kmod/kvtree.ko" "$DISKS/boot.img" "$1"
}

# Boot with a store that was not detached: it is attached, and detached at shutdown. Boot once more.
boots()
{
	cp --sparse=always "$DISKS/v1/one.img" "$DISKS/boot.img"
	kvtree store probe "$DISKS/boot.img" | grep 'not detached' || return
	by_systemd 'kvtree -s boot put started once' || return
	kvtree store probe "$DISKS/boot.img" | grep -v 'not detached' || return
	by_systemd 'kvtree -s boot get started' | grep -x once || return
	kvtree store probe "$DISKS/boot.img" | grep -v 'not detached'
}

boot_results()
{
	"$IMAGES/golden.sh" v1 "$DISKS/v1" true >/dev/null
	attempt boot-by-systemd in_lane uml boots
	as_root rm -rf "$DISKS/systemd"
}

# Build or find everything that this lane takes from other lanes, including their kernels.
prepare()
{
	"$LANES/deps.sh" crash
	vm_prepare crash
	UML=$("$LANES/kernel.sh" uml)
	run_logged "$LOGS/programs.log" 'crash: building the programs' '' in_tree build_programs
	in_lane stock build_module "$KERNEL_DIR"
	in_lane uml build_module "$UML" ARCH=um
	DISKS=$(mktemp -d "$(uml_memory_dir $$ $DISKS_MB)/kvtree-crash-XXXXXX")
	trap 'rm -rf "$DISKS"' EXIT
}

round()
{
	local part

	for part in ${PARTS:-stock uml replay format cuts boot}; do
		"${part}_results"
	done
}

main()
{
	local rc=0

	settings
	lane_begin crash
	KTAP=$LOGS/crash.ktap
	echo 'KTAP version 1' >"$KTAP"
	prepare
	round
	while [ $SECONDS -lt "${CRASH_TIME:-0}" ]; do
		ROUND=$((ROUND + 1))
		round
	done
	echo "1..$RESULTS" >>"$KTAP"
	[ -z "${CRASH_TIME:-}" ] || "$LANES/broken.sh" 'crash-*' >"$LOGS/broken.ktap" || true
	summary crash "$LOGS" || rc=1
	return $rc
}

main "$@"
