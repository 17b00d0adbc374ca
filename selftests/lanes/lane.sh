# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2153
#
# Shared by uml.sh and stock.sh: building the module in a copy of its own, the
# job for the guest, and judging the results. Sourced after common.sh.
#
# T=PATTERN    run a part: KUnit suites and kselftest programs with a name that
#              contains PATTERN, or matches it if it has a *. SUITE.CASE and
#              PROGRAM.CASE select cases, by whole names or patterns. KUNIT_FILTER is an alias.
#              It has no blanks: there is one pattern.
# ENGINE=NAME  run the programs with this engine alone: masstree or bwtree
# KVT_SHORT=1  without most of what another lane tests as well: for "make check"
# KVT_QUICK=1  the tests that find most in a short time: for "make check-quick"
# KVT_OUT      name under build/ instead of the lane's (for a second build)
# KVT_SOURCE   where the module's source is, if not here
# KVT_TREE     the tree to build library and programs of, and to run, if not this one
# KVT_LEAKS    0: do not scan with kmemleak, which takes 12 seconds
# KVT_CFLAGS   more compiler flags for the module
# PROGRAM_LONGEST  seconds after which a test program is stopped, even if it still prints: 1800 if
#              not set, several times what any takes

T=${T:-${KUNIT_FILTER:-}}
# T is passed on a guest's kernel command line: anything after a blank would be for init.
case $T in
*[[:space:]\'\"]*) die "T='$T': one pattern, without blanks and quotes";;
esac
ENGINE=${ENGINE:-}
SHORT=${KVT_SHORT:-0}
QUICK=${KVT_QUICK:-0}

# The tree with the programs to run, and the root folder that they are built for and
# run in; empty means the host's. A lane with another root has a copy of the tree, and
# the prefix INSIDE runs a command there.
TREE=${KVT_TREE:-$TOP}
ROOT=
INSIDE=()

# Called first: only one run of a lane at a time. Not in the middle of it all, where nobody
# can type, may sudo want a password.
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

# Print rules for rsync that leave out what is built, as .gitignore has it.
# There the last line that matches decides, and not the first.
without_products()
{
	tac "$TOP/.gitignore" | sed -e '/^#/d' -e '/^$/d' -e 's/^!/+ /' -e t -e 's/^/- /'
	echo ':- .gitignore'
}

# copy_sources DIRECTORY PATH...: each kernel and each root needs its own
# objects, which are put beside the source. Products survive in the copy, which
# makes the next build short, and do not leak in from the tree. What differs is copied, and
# is then newer than all that was built: by its own time, a file that was edited while it was
# compiled, or is what it was before, would look older than its object.
#
# What a build beside this has made for a moment may vanish (rsync's 24): a source does not.
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

# A module for tests says so if what a store was charged is not what it took, in kernels without
# KUnit too. One that is measured or shown does not look: 0.
TESTS=1

# Where MODULE_DIR is mounted while it is built. Kernels before 6.13 tell the compiler the whole
# path of a module: what has been compiled in another lane, or another clone, is found by one that
# all have.
MODULE_MOUNT=$CACHE/module

# make_module KERNEL MAKE-ARGUMENT...
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

# build_module KERNEL MAKE-ARGUMENT...
build_module()
{
	local kernel=$1
	shift

	# Another lane may have the same module.
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

# test_modules KERNEL: the module's test modules, which there have to be where the kernel has
# KUnit. A benchmark beside them is not a test, and disks are for programs.
test_modules()
{
	local list

	# What was built now: 6.12 lists .o files there, later ones too.
	list=$(sed -n -e 's,^.*\(kmod/tests/[^/]*\)\.k\?o$,\1.ko,; T' -e '/bench/d' -e '/fault/d' \
		-e "s,^,$MODULE_DIR/,p" "$MODULE_DIR/modules.order") ||
		die 'it is not known what was built'
	[ -n "$list" ] || ! "${INSIDE[@]}" grep -q '^CONFIG_KUNIT=[my]' "$1/.config" ||
		die 'no test modules were built, and the kernel has KUnit'
	echo "$list"
}

# in_tree CMD...: one at a time builds in the tree, which several lanes share.
in_tree()
{
	local rc=0

	exec 4>"$BUILD/tree.lock"
	flock 4
	"$@" || rc=$?
	exec 4>&-
	return $rc
}

# Build what T selects, if it selects any: PROGRAMS.
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

# Some programs are only for a distribution's kernel. Those that match LEFT_OUT,
# an extended regular expression of the lane's, run only when T asks for them.
LEFT_OUT=

# What other lanes than uml leave out: what a compiler makes of the library, how the tool takes its
# options and what it is made of, the Python package, the server and its clients, udev. They find
# nothing else under emulation or in a kernel with checkers, where compilers and interpreters take
# minutes.
ONLY_IN_UML='bench_parts|run-bench|run-boot|run-docs|run-reference|run-link|run-man|run-tool|run-python'
ONLY_IN_UML+='|run-server|run-server-tcp|run-go-server|run-sharding|run-mirror'

# Nor do those that do not match this.
ONLY='.*'

# Parameters of the test modules.
TEST_ARGS=

# Where clang has been cached, if it has.
COMPILED=

# Programs that run a second time, where stores that name no engine have the Bw-tree:
# the same.
SECOND=none

# outside PROGRAM...: the scripts here that make what these run, outside the guest, where there is a
# network; "# Made outside:" at their tops.
outside()
{
	# What is compiled may not be there yet.
	head -qn 20 "$@" 2>/dev/null | sed -n 's/^# Made outside: //p' | tr ' ' '\n' | sort -u
}

# Leave out, of the programs listed, what needs that in another root: it is made for the host's.
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

# T as a pattern of names: suites' with their cases, programs', patches'.
test_glob()
{
	case $T in
	*\**|*.*) echo "$T";;
	*) echo "*$T*";;
	esac
}

# The cases that T selects, as a pattern; nothing if it is for all.
cases()
{
	[[ $T != *.* ]] || echo "${T#*.}"
}

# These cannot be told which cases to run, or have cases that build on each other.
NO_CASES='run-(boot|go|go-bpf|python)'

# Program names that T selects, absolute.
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

# results FILE [STATUS NAME]... <COMMENTS: what a lane itself has found, in KTAP.
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

# write_job TEST_MODULES PROGRAMS PROGRAM_TIMEOUT KMEMLEAK [COMMAND]
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

# second PROGRAMS: those of them that run with the second engine.
second()
{
	case ${ENGINE:-} in
	masstree) ;;
	bwtree) echo "$1";;
	*) grep -E "/($SECOND)\$" <<<"$1" || true;;
	esac
}

# What the guest has come to, for the progress line.
lane_progress()
{
	sed -n -E 's/^lane: //p; s/^.*\] +((not )?ok [0-9]+ )/\1/p' \
		"$CONSOLE" "$LOGS/output.log" 2>/dev/null | tail -n 1 | tr -d '\r'
}

# The Bw-tree holds nothing and waits for nobody: what its objects refer to, but for RCU's
# read side, which is a function in some kernels.  With lockdep that has names of locks.
bwtree_refers_to_no_lock()
{
	local symbols

	symbols=$(nm -u "$MODULE_DIR"/kmod/bwtree/*.o) || return
	grep -vE '\<__rcu_read_(un)?lock\>' <<<"$symbols" | sed 's/^/# /' |
		{ ! grep -iE '[^c]lock|mutex|sem_|semaphore|[^a]wait|complet|synchronize|flush_|(down|up)_'; }
}

# Turn everything that came out into results and their summary. The exit code
# says whether all passed.
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

# What the guest has told of what took too long.
hung()
{
	sed -n 's/^.*kvtree-lane: hung: //p' "$CONSOLE" | head -n 60
}

# nothing_matched RESULT: had T nothing to run there? KUnit makes no plan then.
nothing_matched()
{
	case $1 in
	*/kunit-*) ! grep -q '1\.\.[1-9]' "$1";;
	*) grep -qx '1\.\.0' "$1";;
	esac
}

# A filter leaves modules and programs with nothing to run. It is wrong if it does so with all.
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

# How many tests a lane has at the least: LEAST is about two thirds of those that "make check"
# had when this was written. A list that came out empty, or half, is not to look as if all were
# well. Of a part, nobody knows how many there are.
least()
{
	if [ -n "$T$ENGINE${KVT_SOURCE:-}${KVT_TREE:-}${PARTS:-}" ]; then
		echo 0
	else
		echo "${LEAST:-0}"
	fi
}

# summary NAME DIRECTORY: print the summary of all results there, leave the
# counts for check.sh.
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
