# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153
#
# Functions of all lanes: build the module in a copy of its source, write the job for the
# guest, and judge the results. Sourced after common.sh.
#
# T=PATTERN    run a part: KUnit suites and kselftest programs whose names contain PATTERN, or
#              match it if it has a *. SUITE.CASE and PROGRAM.CASE select cases, by whole names
#              or patterns. KUNIT_FILTER is an alias. T is one pattern, without blanks.
# ENGINE=NAME  run the programs with this engine only: masstree or bwtree
# KVT_SHORT=1  leave out most tests that another lane runs as well: for "make check"
# TURN         a number that selects what "make check" runs in turns: ten of the broken builds, and
#              a part of the deb lane. "now" takes the number from the commit's hash.
# KVT_QUICK=1  run the tests that find most in a short time: for "make check-quick"
# KVT_OUT      name under build/ instead of the lane's (for a second build)
# KVT_SOURCE   the folder of the module's source, if not this tree
# KVT_TREE     the tree of the library and programs to build and run, if not this one
# KVT_LEAKS    0: do not scan with kmemleak, which takes 12 seconds
# KVT_CFLAGS   more compiler flags for the module
# PROGRAM_LONGEST  seconds after which a test program is stopped, even if it still prints; by
#              default 1800, several times as long as any takes

T=${T:-${KUNIT_FILTER:-}}
# T becomes part of the guest's kernel command line, where a blank would end it.
case $T in
*[[:space:]\'\"]*) die "T='$T': one pattern, without blanks and quotes";;
esac
ENGINE=${ENGINE:-}
SHORT=${KVT_SHORT:-0}
QUICK=${KVT_QUICK:-0}

# The tree with the programs to run, and the root folder that they are built for and run in; an
# empty ROOT means the host's. A lane with another root has a copy of the tree, and the prefix
# INSIDE runs a command in that root.
TREE=${KVT_TREE:-$TOP}
ROOT=
INSIDE=()

# The number of this turn.
turn()
{
	if [ "$TURN" != now ]; then
		echo "$((10#$TURN))"
	else
		echo $((16#$(git -C "$TOP" rev-parse --short=7 HEAD 2>/dev/null || date +%-j)))
	fi
}

# lane_begin LANE: called first. Wait until no other run of the lane is in progress, set the lane's
# variables, and delete old results. sudo asks for a password here, and not later, when nobody may
# be there to type it.
lane_begin()
{
	ask_for_root
	LANE=$1
	OUT=$BUILD/${KVT_OUT:-$LANE}
	LOGS=$OUT/results
	MODULE_DIR=$OUT/module
	mkdir -p "$OUT"
	exec 7>"$OUT.lock"
	flock -n 7 || { say "$LANE: waiting for another run"; flock 7; }
	rm -rf "$LOGS"
	mkdir -p "$LOGS"
	CONSOLE=$LOGS/console.log
	START=$SECONDS
}

# Print rules with which rsync leaves out build products, from .gitignore. In .gitignore the last
# matching line decides, in rsync the first.
without_products()
{
	tac "$TOP/.gitignore" | sed -e '/^#/d' -e '/^$/d' -e 's/^!/+ /' -e t -e 's/^/- /'
	echo ':- .gitignore'
}

# copy_sources DIRECTORY PATH...: copy sources, because each kernel and each root needs its own
# objects, which are written next to the sources. Build products in the copy are kept, so that the
# next build is short; those of the tree are not copied.
#
# Files that differ are copied with the current time, and so are newer than all objects. With its
# own time, a file that was edited while it was compiled, or changed back, could look older than its
# object.
#
# rsync exits with 24 if a file has vanished. This happens only to temporary files of a build that
# runs in the tree at the same time.
copy_sources()
{
	mkdir -p "$1"
	without_products | rsync -rlpc --delete --filter='. -' --exclude=/.git "${@:2}" "$1/" ||
		[ $? -eq 24 ]
}

copy_module()
{
	local source=${KVT_SOURCE:-$TOP}

	copy_sources "$MODULE_DIR" "$source/Kbuild" "$source/kmod" "$source/uapi"
}

# 1: build the module for tests. It then reports when the memory charged to a store differs from
# what the store has taken, in kernels without KUnit too. Benchmarks and the demo set 0.
TESTS=1

# MODULE_DIR is mounted here while it is built. Kernels before 6.13 give the compiler the whole path
# of a module. With the same path in all lanes and clones, ccache finds what another one has
# compiled.
MODULE_MOUNT=$CACHE/module

# make_module KERNEL MAKE-ARGUMENT...: compile the module in MODULE_DIR.
make_module()
{
	local kernel=$1 mount=(unshare --mount)
	shift

	[ "$(id -u)" -eq 0 ] || mount+=(--map-root-user)
	mkdir -p "$MODULE_MOUNT"
	if [ ${#INSIDE[@]} -gt 0 ] ||
			! "${mount[@]}" mount --bind "$MODULE_DIR" "$MODULE_MOUNT" 2>/dev/null; then
		"${INSIDE[@]}" make -C "$kernel" M="$MODULE_DIR" -j "$JOBS" "$@" modules
	else
		# shellcheck disable=SC2016
		"${mount[@]}" bash -ec 'mount --bind "$1" "$2"; exec make -C "$3" M="$2" "${@:4}"' \
			- "$MODULE_DIR" "$MODULE_MOUNT" "$kernel" -j "$JOBS" "$@" modules
	fi
}

# build_module KERNEL MAKE-ARGUMENT...: copy the module's source, and compile it.
build_module()
{
	local kernel=$1
	shift

	# Another lane may use the same folder.
	exec 5>"$MODULE_DIR.lock"
	flock 5
	copy_module
	run_logged "$LOGS/module.log" "$LANE: building the module" '' \
		make_module "$kernel" ${V:+V="$V"} KVT_TESTS="$TESTS" \
		${KVT_CFLAGS:+KVT_CFLAGS="$KVT_CFLAGS"} "$@" ||
		die 'the module was not built'
	grep -E 'warning:|WARNING:' "$LOGS/module.log" >&2 || true
	exec 5>&-
}

# test_modules KERNEL: print the test modules. If the kernel has KUnit, there must be some. The
# benchmark is no test, and the module with faulty disks is loaded by programs.
test_modules()
{
	local list

	# modules.order lists what was built now. Kernels from 6.12 on list .o files there.
	list=$(sed -n -e 's,^.*\(kmod/tests/[^/]*\)\.k\?o$,\1.ko,; T' -e '/bench/d' -e '/fault/d' \
		-e "s,^,$MODULE_DIR/,p" "$MODULE_DIR/modules.order") ||
		die 'it is not known what was built'
	[ -n "$list" ] || ! "${INSIDE[@]}" grep -q '^CONFIG_KUNIT=[my]' "$1/.config" ||
		die 'no test modules were built, and the kernel has KUnit'
	echo "$list"
}

# in_tree CMD...: run CMD, which builds in the tree, while no other lane does so.
in_tree()
{
	local rc=0

	exec 4>"$BUILD/tree.lock"
	flock 4
	"$@" || rc=$?
	exec 4>&-
	return $rc
}

# Set PROGRAMS to the programs that T selects, and build them.
build_programs()
{
	PROGRAMS=$(programs) || [ -n "$T$ENGINE" ] || die 'the programs could not be listed'
	if [ -z "$PROGRAMS" ]; then
		return
	elif [ "$TREE" = "$TOP" ]; then
		in_tree make_programs
	else
		make_programs
	fi
}

make_programs()
{
	run_logged "$LOGS/selftests.log" "$LANE: building library and selftests" '' \
		"${INSIDE[@]}" make -C "$TREE" -j "$JOBS" ${V:+V="$V"} selftests
}

# Programs that match this extended regular expression run only if T selects them. Lanes set it.
LEFT_OUT=

# Programs that only uml runs: they test the compiled library, the tool's options and parts, the
# Python package, the server and its clients, and udev. They would find nothing more under emulation
# or in a kernel with checkers, where compilers and interpreters take minutes.
ONLY_IN_UML='bench_parts|run-bench|run-boot|run-docs|run-reference|run-link|run-man|run-tool|run-python'
ONLY_IN_UML+='|run-server|run-server-tcp|run-go-server|run-sharding|run-mirror'

# Programs that do not match this run only if T selects them, too.
ONLY='.*'

# Parameters of the test modules.
TEST_ARGS=

# The folder with BPF programs that were compiled in advance, if any: see stock.sh.
COMPILED=

# Programs that match this run a second time, with the Bw-tree as the default engine.
SECOND=none

# outside PROGRAM...: print the scripts of this folder that must run outside the guest, where there
# is a network, to make what these programs need. A program's first lines name them: "# Made
# outside:".
outside()
{
	# A program that has to be compiled may not exist yet.
	head -qn 20 "$@" 2>/dev/null | sed -n 's/^# Made outside: //p' | tr ' ' '\n' | sort -u
}

# Filter a list of programs: in another root, leave out those that need files made outside, which
# are made for the host.
for_this_root()
{
	local path

	if [ -z "$ROOT" ]; then
		cat
	else
		while read -r path; do
			[ -n "$(outside "$path")" ] || echo "$path"
		done
	fi
}

list_programs()
{
	{
		"${INSIDE[@]}" make -s -C "$TREE/selftests" list || exit
		case $LANE in
		stock*) "${INSIDE[@]}" make -s -C "$TREE/selftests" list-stock || exit;;
		esac
	} | sed '/^$/d' | for_this_root | if [ -z "$T" ]; then
		grep -E "/($ONLY)\$" | grep -vE "/(${LEFT_OUT:-none})\$"
	else
		cat
	fi
}

# Print T as a pattern for the names of suites with their cases, of programs, or of patches.
test_glob()
{
	case $T in
	*\**|*.*) echo "$T";;
	*) echo "*$T*";;
	esac
}

# Print the pattern of the cases that T selects; nothing if it selects all.
cases()
{
	[[ $T != *.* ]] || echo "${T#*.}"
}

# These programs cannot run single cases, or have cases that build on each other.
NO_CASES='run-(boot|go|go-bpf|python)'

# Print the paths of the programs that T selects.
programs()
{
	local path glob without=none

	[ -z "$(cases)" ] || without=$NO_CASES
	glob=$(test_glob)
	glob=${glob%%.*}
	list_programs | grep -vE "/($without)\$" | while read -r path; do
		case $path in
		/*) ;;
		selftests/*) path=$TREE/$path;;
		*) path=$TREE/selftests/$path;;
		esac
		# shellcheck disable=SC2254
		case $(basename "$path") in
		$glob) echo "$path";;
		esac
	done
}

# results FILE [STATUS NAME]... <COMMENTS: write results of the lane itself to FILE, in KTAP.
results()
{
	local file=$1 n=0
	shift

	{
		printf 'KTAP version 1\n1..%d\n' $(($# / 2))
		sed 's/^/# /'
		while [ $# -gt 0 ]; do
			n=$((n + 1))
			echo "$1 $n $2"
			shift 2
		done
	} >"$file"
}

# write_job TEST_MODULES PROGRAMS PROGRAM_TIMEOUT KMEMLEAK [COMMAND]: write the job for guest.sh.
write_job()
{
	local name made python='' go=''

	# shellcheck disable=SC2086
	for name in ${2:+$(outside $2)}; do
		made=$("$LANES/$name")
		printf -v "${name%.sh}" %s "$made"
	done
	{
		printf 'PROGRAMS_SECOND=%q\n' "$(second "$2")"
		for name in LANE LOGS; do
			printf '%s=%q\n' "${name/LOGS/OUT}" "${!name}"
		done
		printf 'MODULE=%q\n' "$MODULE_DIR/kmod/kvtree.ko"
		printf 'TEST_MODULES=%q\n' "$1"
		printf 'TEST_ARGS=%q\n' "$TEST_ARGS"
		[ "${ENGINE:-}" != bwtree ] || set -- "$1" '' "${@:3}"
		printf 'PROGRAMS=%q\n' "$2"
		printf 'CASES=%q\n' "$(cases)"
		printf 'PROGRAM_TIMEOUT=%q\n' "$3"
		printf 'PROGRAM_LONGEST=%q\n' "${PROGRAM_LONGEST:-1800}"
		printf 'KMEMLEAK=%q\n' "$4"
		printf 'COMMAND=%q\n' "${5:-}"
		printf 'export KVTREE_MODULE=%q\n' "$MODULE_DIR/kmod/kvtree.ko"
		printf 'export KVTREE_PYTHON=%q\n' "$python"
		printf 'export KVTREE_GO=%q\n' "$go"
		printf 'export KVT_SHORT=%q\n' "$SHORT"
		printf 'export KVT_TEST_LONGEST=%q\n' $((${PROGRAM_LONGEST:-1800} / 12))
		printf 'export KVT_COMPILED=%q\n' "$COMPILED"
		printf 'export KVTREE_STACKS=%q\n' "$TREE/selftests/lanes/processes.sh"
		printf 'export LD_LIBRARY_PATH=%q\n' "$TREE/lib"
		# shellcheck disable=SC2016
		printf 'PATH=%q:$PATH:%q\n' "$TREE/tools" "$CACHE/programs/bin"
	} >"$LOGS/job"
}

# second PROGRAMS: print those that run with the second engine.
second()
{
	case ${ENGINE:-} in
	masstree) ;;
	bwtree) echo "$1";;
	*) grep -E "/($SECOND)\$" <<<"$1" || true;;
	esac
}

# Print what the guest is doing, for the progress line.
lane_progress()
{
	sed -n -E 's/^lane: //p; s/^.*\] +((not )?ok [0-9]+ )/\1/p' \
		"$CONSOLE" "$LOGS/output.log" 2>/dev/null | tail -n 1 | tr -d '\r'
}

# Check that the Bw-tree's objects refer to no function that locks or waits. The read side of RCU,
# which is a function in some kernels, is allowed. With lockdep, it refers to locks, so lockdep's
# kernel is not checked.
bwtree_refers_to_no_lock()
{
	local symbols

	symbols=$(nm -u "$MODULE_DIR"/kmod/bwtree/*.o) || return
	grep -vE '\<__rcu_read_(un)?lock\>' <<<"$symbols" | sed 's/^/# /' |
		{ ! grep -iE '[^c]lock|mutex|sem_|semaphore|[^a]wait|complet|synchronize|flush_|(down|up)_'; }
}

# Make results of the lane's output, and print their summary. Fails if a test failed.
judge()
{
	local rc=0 n=2

	[ "$LANE" = uml-debug ] || n=3
	"$LANES/ktap.py" --split "$CONSOLE" "$LOGS"
	[ -z "$T" ] || drop_empty
	if [ ! -e "$LOGS/lane.ktap" ]; then
		echo 'KTAP version 1' >"$LOGS/lane.ktap"
	fi
	{
		echo 'KTAP version 1'
		echo "1..$n"
		if [ -e "$LOGS/finished" ]; then
			echo 'ok 1 kernel_ran_to_the_end'
		else
			echo 'not ok 1 kernel_ran_to_the_end'
		fi
		if "$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/reports.txt"; then
			echo 'ok 2 no_kernel_reports'
		else
			sed 's/^/# /' "$LOGS/reports.txt"
			echo 'not ok 2 no_kernel_reports'
		fi
		if [ $n -lt 3 ]; then
			:
		elif bwtree_refers_to_no_lock; then
			echo 'ok 3 bwtree_refers_to_no_lock'
		else
			echo 'not ok 3 bwtree_refers_to_no_lock'
		fi
	} >"$LOGS/kernel.ktap"

	summary "$LANE" "$LOGS" || rc=1
	if [ $rc -ne 0 ]; then
		head -n 20 "$LOGS/reports.txt"
		hung
		say "$LANE: logs in $LOGS, kernel messages in $CONSOLE"
	fi
	return $rc
}

# Print what the guest has reported about programs that took too long.
hung()
{
	sed -n 's/^.*kvtree-lane: hung: //p' "$CONSOLE" | head -n 60
}

# nothing_matched RESULT: did T select nothing there? KUnit prints no plan then.
nothing_matched()
{
	case $1 in
	*/kunit-*) ! grep -q '1\.\.[1-9]' "$1";;
	*) grep -qx '1\.\.0' "$1";;
	esac
}

# Drop the results of modules and programs in which T selected nothing. Fail if that is true of all.
drop_empty()
{
	local f dropped='' left=''

	for f in "$LOGS"/*.ktap; do
		if [ "$f" = "$LOGS/lane.ktap" ]; then
			continue
		elif nothing_matched "$f"; then
			rm "$f"
			dropped=1
		else
			left=1
		fi
	done
	[ -z "$dropped" ] || [ -n "$left" ] || die "nothing matches T=$T"
}

# Print the minimum number of tests of the lane: LEAST, about two thirds of those that "make check"
# had when this was written. So a list of tests that is empty or incomplete by mistake does not
# pass. If only a part was selected, there is no minimum.
least()
{
	if [ -n "$T$ENGINE${KVT_SOURCE:-}${KVT_TREE:-}${PARTS:-}" ]; then
		echo 0
	else
		echo "${LEAST:-0}"
	fi
}

# summary NAME DIRECTORY: print the summary of all results there, and write the counts for
# check.sh.
summary()
{
	local rc=0 text

	find "${2%/*}" -path '*/results/*.down' -printf "$1: a machine did not come up: %p\\n"
	text=$("$LANES/ktap.py" --counts "$2/counts" --failures "$2/failures" \
		--least "$(least)" "$2"/*.ktap) || rc=$?
	sed '$d' <<<"$text" | sed "s,$TOP/,,"
	echo "$1: $(tail -n 1 <<<"$text") ($(elapsed "${START:-0}"))"
	return $rc
}
