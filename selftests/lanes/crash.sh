#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# crash.sh: crash a store at thousands of points, and judge what is left of it.
#
#   stock    Debian's kernel in QEMU runs workloads on disks that record all writes,
#            and recovers some crashes itself
#   uml      User-Mode Linux runs a longer workload, and recovers crashes of all of
#            them, from ubd disks, with as many CPUs as wrote them, and with one
#   replay   a program of the host replays each record, crashes at every flush and at
#            other points, recovers by the module's source, and judges the result
#   format   the on-disk format: read images of its first version, here and by a
#            program for a big-endian machine; then damage them in every place, as well
#            as a crash of the longest workload
#   cuts     kill machines in the middle of a workload, and while they start
#   boot     systemd starts and shuts down a machine, and attaches and detaches a store
#            that a crash has left
#
# PARTS selects parts; all if it is not set. CRASH_TIME is in seconds: without it, one
# round is run, with what "make check" has time for. With it, rounds with more of
# everything are run for this time, and then the builds that are wrong on purpose and
# that crashes have to find (selftests/broken/crash-*.patch). CRASH_SEED selects other
# crashes. CRASH_LIVES is the number of lives of a store that is recorded from its
# first one on: 31 to 40 by default, while a superblock has room for 32. CRASH_LESS is by
# how many MiB the disks of a store of three differ. With CRASH_CACHED=1, disks always
# keep their caches over a first crash.

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
# What all disks that are there at a time may take, in MB.
DISKS_MB=2048
LESS=${CRASH_LESS:-32}
# The largest of three.
UNEQUAL_MIB=$((MIB + 2 * LESS))
# So that no checkpoint has to make room, and clear the list of lives.
LIVES_MIB=1536

# The format of the disks does not depend on the index. So the stores of one kernel use one
# engine, those of the other use the other, and each machine that is cut gets a random one.
ENGINES=(masstree bwtree)

PATH=$TOP/tools:$PATH

# How much of everything.
settings()
{
	if [ -z "${CRASH_TIME:-}" ]; then
		OPS=100 ATTACH=25 POINTS=300 CHECKS=6 CUTS=6 QEMU_CUTS=0 EVERY=16 PLACES=10000
	else
		OPS=400 ATTACH=100 POINTS=5000 CHECKS=50 CUTS=40 QEMU_CUTS=4 EVERY=1 PLACES=100000
	fi
}

# result NAME RC FILE: one result, and what was said about it.
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

# attempt NAME CMD...: a result of what CMD comes to.
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

# in_lane NAME CMD...: with the module of that lane, and a folder of its own.
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

# write_script ENGINE TEXT: what a guest runs, with the module loaded.
write_script()
{
	{
		echo '#!/bin/bash'
		echo 'set -e'
		# shellcheck disable=SC2016
		printf 'PATH=%q:$PATH\n' "$TOP/tools"
		# Now and then nothing is changed for so long, and an empty epoch follows.
		# shellcheck disable=SC2016
		echo "insmod \"\$KVTREE_MODULE\" engine=$1 log_idle_ms=20"
		echo 'until [ -c /dev/kvtree ]; do sleep 0.1; done'
		printf '%s\n' "$2"
	} >"$LOGS/script"
	chmod +x "$LOGS/script"
	PROGRAM_LONGEST=$((LONGEST / 2)) write_job '' '' 0 0 "$LOGS/script"
}

# A line of the guest's script; what it prints is kept, and what it comes to.
step()
{
	# shellcheck disable=SC2016
	printf 'echo "lane: %s"; rc=0; %s >%q 2>&1 || rc=$?; echo $rc >%q\n' "$1" "$2" \
		"$LOGS/$1.txt" "$LOGS/$1.rc"
}

# run_steps TITLE CMD...: boot; each step of the script is a result.
run_steps()
{
	local title=$1 rc=0
	shift

	rm -f "$LOGS/finished"
	LIMIT=$TIMEOUT LANE_LONGEST=$LONGEST \
		run_logged "$LOGS/output.log" "crash: $title" lane_progress "$@" || rc=$?
	[ -e "$LOGS/finished" ] || rc=1
	"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/kernel.txt" || rc=1
	[ $rc -eq 0 ] || hung >>"$LOGS/kernel.txt"
	return $rc
}

# step_results LANE BOOTED
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

# record NAME ARGUMENT...: a life that is recorded; the next ones are other lives.
record()
{
	local name=$1
	shift

	step "record-$name" "$CRASH record $* --record $RECORDS/$name.log \
		--oracle $RECORDS/$name.oracle"
}

# attach NAME DISK...
attach()
{
	local name=$1
	shift

	step "attach-$name" "$CRASH attach --points $ATTACH --seed $SEED$ROUND \
		--record $RECORDS/$name.log --oracle $RECORDS/$name.oracle $*"
}

# crashed NAME ARGUMENT...: a crash of a life, in which another one begins. It is made twice,
# since it takes long to bring it out of the guest.
crashed()
{
	local name=$1
	shift

	[ "${CRASH_CACHED:-0}" = 0 ] || set -- --cached "$@"
	echo "$CRASH image --seed $SEED$ROUND --record $RECORDS/$name.log \
		--oracle $RECORDS/$name.oracle $*"
}

# One disk, all from one CPU; a life that begins with a crash of that one, from two
# CPUs; three disks, from four.
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
	build_module "$KERNEL_DIR"
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

# The same crashes as in the stock kernel, on ubd disks.
attach_stock()
{
	[ ! -e "$RECORDS/$1.oracle" ] || attach "$@" --compare
}

# Lives of the store of this round that is recorded from its first one on.
lives()
{
	echo $((${CRASH_LIVES:-31 + (SEED + ROUND) % 10}))
}

# One life so long that the log goes round its disk; one that begins with a crash of that, of
# which the disk's cache has kept all, so that recovery finds what a second crash can still take;
# and so many lives that the superblock has no room for another.
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

# The arguments for UML that make disks of files.
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
	build_module "$UML" ARCH=um
	rm -f "$LOGS"/{*.oracle,*.rc,*.txt}
	write_script "${ENGINES[1 - ROUND % 2]}" "$(uml_script)"
	truncate -s ${UNEQUAL_MIB}M "$DISKS"/attach-{0,1,2}.img
	run_steps 'recording and recovering on UML' uml_steps 4
}

# What four CPUs have written, in more streams than this machine has.
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

# The record begins with a crash of that one, which the disks' caches have outlived.
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

# The images, as COMMAND... shows them: are they what they were?
golden()
{
	"$IMAGES/golden.sh" "$DISKS/golden" "$@" >"$LOGS/golden.txt" &&
		diff "$IMAGES/golden/v1.txt" "$LOGS/golden.txt" &&
		echo "$(grep -c ' version ' "$LOGS/golden.txt") values in four stores"
}

# The tool, against what the module has said of them when it wrote them.
golden_check()
{
	cd "$DISKS/golden" &&
		kvtree store check --print one.img | diff one.dump - &&
		kvtree store check --print two-2.img two-1.img | diff two.dump - &&
		echo 'as the module has dumped them'
}

# What crashes have left, on both kinds of machines.
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

# A store with ranges, in three ways.
same_ranges()
{
	"$IMAGES/format" show "$DISKS"/ranges-{1,2}.img >"$LOGS/ranges.txt" &&
		qemu-s390x "$IMAGES/format-s390x" show "$DISKS"/ranges-{1,2}.img |
		diff "$LOGS/ranges.txt" - &&
		kvtree store check "$DISKS"/ranges-{1,2}.img
}

# COMMAND OPTION... DISK...
format()
{
	"$IMAGES/format" "$1" --jobs "$JOBS" --seed "$SEED$ROUND" "${@:2}"
}

format_results()
{
	local golden=$DISKS/golden record=$OUT/uml/results/round

	PATH=$PATH:$CACHE/programs/bin
	attempt format-golden golden "$IMAGES/format" show
	attempt format-golden-check golden_check
	attempt format-big-endian golden qemu-s390x "$IMAGES/format-s390x" show
	attempt format-damage format damage --places "$PLACES" --stale "$golden/one-early.img" \
		"$golden/one.img"
	attempt format-damage-two format damage --every "$EVERY" --places $((PLACES / 4)) \
		--stale "$golden"/early-1.img --stale "$golden"/early-2.img \
		"$golden"/two-{1,2}.img
	attempt format-fuzz format fuzz --places $((PLACES / 2)) "$golden/one.img"
	# Superblocks that refer to no checkpoint, which once were refused without a message.
	attempt format-fuzz-nowhere format fuzz --seed 46386 --places 100 "$golden/one.img"
	attempt format-fuzz-two format fuzz --places $((PLACES / 2)) "$golden"/two-{1,2}.img
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

# wait_for TEXT FILE PID: until it is there; or the machine comes to nothing, or says
# nothing.
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

# What is written to a file of the host is there when QEMU is gone.
stock_machine()
{
	local file

	VM_CPUS=4 VM_QEMU_OPTS=
	for file in "$@"; do
		VM_QEMU_OPTS+=" -drive file=$file,format=raw,if=virtio,cache=writeback"
	done
	vm_script "$LANES/guest.sh" "$LOGS/job" 2>&1 | cat
}

# cut_machine LANE MS ARGUMENTS FILE...: a machine with these disks, killed so long after
# it has begun. The workload keeps the results it was given on the first disk.
cut_machine()
{
	local lane=$1 wait=$2 args=$3 letters=vd pid names
	shift 3

	[ "$lane" = stock ] || letters=ubd
	names=("/dev/$letters"{b,c,d,e})
	# The kill may come late: then the workload is complete, and the machine waits.
	write_script "${ENGINES[wait % 2]}" "echo lane: go; $CRASH drive $args --oracle /dev/${letters}a \
		${names[*]:0:$#-1}; sleep infinity"
	: >"$LOGS/output.log"
	set -m
	"${lane}_machine" "$@" >"$LOGS/output.log" 2>&1 </dev/null &
	pid=$!
	set +m
	wait_for "$BEGUN" "$LOGS/output.log" $pid || return
	sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
	# It runs until it is killed.
	kill -KILL -- -$pid || { tail -n 5 "$LOGS/output.log"; return 1; }
	wait $pid 2>/dev/null || true
	[ "$lane" = uml ] || return 0
	"$LANES/ktap.py" --reports "$LOGS/output.log"
}

# Some are cut when they have just begun: while they format, or recover. An emulated
# machine takes its time, and is cut in the load first.
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

# What the life that was cut has left. 3: nothing so far, it was not formatted.
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

# cuts LANE DISKS N: lives of one store, each of which ends by a power cut and is judged
# before the next one begins: N of them, and as many more as it takes until one is cut in
# the load.
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

# by_systemd COMMAND: in a machine that it has started.
by_systemd()
{
	as_root timeout 900 unshare --mount "$LANES/systemd.sh" "$UML" \
		"$MODULE_DIR/kmod/kvtree.ko" "$DISKS/boot.img" "$1"
}

# A store that was not detached is attached, and detached, and attached once more.
boots()
{
	cp --sparse=always "$DISKS/golden/one.img" "$DISKS/boot.img"
	kvtree store probe "$DISKS/boot.img" | grep 'not detached' || return
	by_systemd 'kvtree -s boot put started once' || return
	kvtree store probe "$DISKS/boot.img" | grep -v 'not detached' || return
	by_systemd 'kvtree -s boot get started' | grep -x once || return
	kvtree store probe "$DISKS/boot.img" | grep -v 'not detached'
}

boot_results()
{
	"$IMAGES/golden.sh" "$DISKS/golden" true >/dev/null
	attempt boot-by-systemd in_lane uml boots
	as_root rm -rf "$DISKS/systemd"
}

# A lane that is not this one may be without its kernel.
prepare()
{
	"$LANES/deps.sh" crash
	vm_prepare crash
	UML=$("$LANES/kernel.sh" uml)
	run_logged "$LOGS/programs.log" 'crash: building the programs' '' in_tree build_programs
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
