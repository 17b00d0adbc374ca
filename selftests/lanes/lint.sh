#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh: checkpatch --strict, sparse, kernel-doc, shellcheck; mypy --strict and
# ruff for the Python package; the order of the module's parts by their includes, and
# circles of files that call each other; what is generated from kvtree.yaml; the rendered
# manual pages. All must be silent; their messages are printed and kept in build/lint/results.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"

CHECKS=0

# kzalloc_obj() is not in 6.12, which the module supports.
IGNORE_ALL=ALLOC_WITH_SIZEOF

# Userspace code has the C library and not the kernel's helpers.
IGNORE_USER=PREFER_KERNEL_TYPES,PREFER_DEFINED_ATTRIBUTE_MACRO,BIT_MACRO,STRCPY
IGNORE_USER+=,STRLCPY,STRNCPY,CAMELCASE,SSCANF_TO_KSTRTO,NAKED_SSCANF
IGNORE_USER+=,CONSIDER_KSTRTO,VOLATILE,EMBEDDED_FUNCTION_NAME

# Replacements of the kernel's headers: they define what the messages say to use.
IGNORE_SHIM=MACRO_ARG_REUSE,MACRO_ARG_UNUSED,MACRO_ARG_PRECEDENCE,COMPLEX_MACRO
IGNORE_SHIM+=,NEW_TYPEDEFS,MEMORY_BARRIER,AVOID_BUG,DATA_RACE,SPACING
IGNORE_SHIM+=,LINUX_VERSION_CODE,IS_ENABLED_CONFIG,EXPORT_SYMBOL
IGNORE_SHIM+=,UNCOMMENTED_DEFINITION

# ignore FILE: print the types of messages that do not apply to the file.
ignore()
{
	echo -n "$IGNORE_ALL"
	case $1 in
	# The only file that may compare versions.
	kmod/compat.h) echo ,LINUX_VERSION_CODE,CONSTANT_COMPARISON;;
	# TRACE_EVENT() has a layout of its own.
	kmod/base/trace.h) echo ,PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE;;
	# This file has a list in the form of a macro that takes a macro.
	kmod/base/park.h) echo ,COMPLEX_MACRO,MACRO_ARG_REUSE;;
	# BPF programs, and the header that they include: kfuncs are extern, and libbpf has its own
	# names.
	uapi/kvtree.bpf.h) echo ",$IGNORE_USER,AVOID_EXTERNS,MACRO_ARG_REUSE";;
	*.bpf.c) echo ",$IGNORE_USER,AVOID_EXTERNS,STATIC_CONST_CHAR_ARRAY,MACRO_WITH_FLOW_CONTROL";;
	# BIT() is not for userspace; _Static_assert is.
	uapi/*) echo ,BIT_MACRO,CAMELCASE;;
	selftests/user/*|tools/bench/index/*) echo ",$IGNORE_USER,$IGNORE_SHIM";;
	Documentation/*|lib/*|tools/*|selftests/*) echo ",$IGNORE_USER";;
	esac
}

# Leave out the test harness, which is a copy of the kernel's, and skeletons, which bpftool
# generates.
c_files()
{
	find "$@" -name '*.[ch]' ! -name '*.mod.c' ! -name 'kselftest*.h' \
		! -name '*.skel.h' | sort
}

scripts()
{
	find .ci debian selftests tools -type f -size -200k ! -name '*.[ch]' \
		-exec grep -lE -m 1 '^#!/bin/(ba)?sh|^# shellcheck shell=' {} + | sort
}

# For each input in which a check has found nothing, a file named after the fingerprint of the input
# and of the check.
KNOWN=$CACHE/lint

# fingerprint WORD... <INPUT: print the name of such a file.
fingerprint()
{
	{ echo "$*"; cat; } | sha256sum | cut -d ' ' -f 1
}

# is_known NAME: does it exist? If so, keep it for some more time.
is_known()
{
	[ -e "$KNOWN/$1" ] && touch "$KNOWN/$1"
}

know()
{
	mkdir -p "$KNOWN"
	touch "$KNOWN/$1"
}

forget_old()
{
	[ ! -d "$KNOWN" ] || find "$KNOWN" -type f -mtime +60 -delete
}

# Run checkpatch on many files at a time, because starting it takes longer than reading a file.
# Leave out files in which it has found nothing before.
checkpatch()
{
	local source=$1 list=$OUT/files said=$OUT/said tool types file name

	tool=$(cat "$source"/scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch} |
		fingerprint)
	for file in $(c_files kmod uapi lib tools selftests Documentation); do
		types=$(ignore "$file")
		# shellcheck disable=SC2094
		name=checkpatch-$(fingerprint "$tool" "$types" "$file" <"$file")
		is_known "$name" || echo "$types $file $name"
	done >"$list"
	checkpatch_list "$source" "$list" >"$said"
	while read -r _ file name; do
		grep -q "^$file:" "$said" || know "$name"
	done <"$list"
	cat "$said"
}

# checkpatch_list SOURCE LIST: run checkpatch on the files of LIST.
checkpatch_list()
{
	local source=$1 list=$2 types

	cut -d ' ' -f 1 "$list" | sort -u | while read -r types; do
		awk -v types="$types" '$1 == types { print $2 }' "$list" |
			xargs -P "$JOBS" -n 20 "$source/scripts/checkpatch.pl" \
			--no-tree --root="$source" --strict --terse --no-summary \
			--show-types --no-signoff --ignore "$types" -f || true
	done | sort -V | without_export_lines
	# checkpatch leaves these files behind.
	rm -f .checkpatch-camelcase.*
}

# Drop messages about a missing blank line before KVT_EXPORT...(): checkpatch allows that only for
# EXPORT_SYMBOL().
without_export_lines()
{
	local line file number

	while read -r line; do
		IFS=: read -r file number _ <<<"$line"
		case $line in
		*LINE_SPACING*) ! sed -n "${number}p" "$file" |
			grep -q '^KVT_EXPORT' || continue;;
		esac
		echo "$line"
	done
}

# The Bw-tree can be left out (n), or be a part of kvtree.ko (y). Almost all objects are already
# there.
engine_choices()
{
	local dir=$OUT/module/kmod choice is
	local -A expected=([n]=0 [y]=1)

	for choice in n y; do
		rm -f "$dir/kvtree_bwtree.ko"
		make_module "/lib/modules/$KERNEL/build" KVT_TESTS=1 KVTREE_BWTREE=$choice \
			>"$LOGS/engine-$choice.log" 2>&1 ||
			{ echo "KVTREE_BWTREE=$choice:"; tail -n 20 "$LOGS/engine-$choice.log"; }
		is=$(nm "$dir/kvtree.ko" | grep -cw kvt_bwtree_ops || true)
		[ "$is" -eq "${expected[$choice]}" ] || echo "KVTREE_BWTREE=$choice: $is Bw-trees"
		[ ! -e "$dir/kvtree_bwtree.ko" ] || echo "KVTREE_BWTREE=$choice: kvtree_bwtree.ko"
	done
}

# Run sparse, and circles.py on the objects. They use the stock kernel's headers, because bookworm's
# sparse is too old for those of 7.x. KUnit suites are checked as well, although that kernel could
# not load them; the warnings about their undefined symbols are ignored. "make check-quick" checks
# only what has changed (C=1). Then build the module with the other choices.
sparse_check()
{
	local said

	mkdir -p "$OUT/module"
	copy_module
	make_module "/lib/modules/$KERNEL/build" -k C=$((2 - QUICK)) CONFIG_KUNIT=m KVT_TESTS=1 \
		KBUILD_MODPOST_WARN=1 >"$LOGS/sparse.log" 2>&1 ||
		tail -n 20 "$LOGS/sparse.log"
	said=$(grep -E '^[^ ]*(kmod|uapi)/[^ ]*: (warning|error):' "$LOGS/sparse.log" |
		sed "s,^.*/module/,," | sort -u || true
		"$LANES/circles.py" "$OUT/module/kmod" 2>&1 || echo 'circles.py failed'
		engine_choices)
	[ -n "$said" ] || return 0
	echo "$said"
	# With C=1, files that are not compiled again are not checked: let the next run report this
	# again.
	rm -rf "$OUT/module"
}

kernel_doc()
{
	# shellcheck disable=SC2046
	"$1/scripts/kernel-doc" -none -Wreturn $(c_files kmod lib) 2>&1 || true
}

shell_check()
{
	# shellcheck disable=SC2046
	shellcheck -x -P . -f gcc $(scripts) || true
}

# Patches that break a build on purpose must fit exactly, or they would break something else.
patches_fit()
{
	"$LANES/broken.py" check selftests/broken/*.patch
	"$LANES/broken.sh" --lint
	tests_of broken
}

# lib/Makefile has the version. These files repeat it, because they cannot take it from there.
versions_agree()
{
	local version soname file

	version=$(sed -n 's/^VERSION.*:= *//p' lib/Makefile)
	soname=$(sed -n 's/^SOVER.*:= *//p' lib/Makefile)
	grep -qxF "Package: libkvtree$soname" debian/control ||
		echo "debian/control: no libkvtree$soname"
	for file in kmod/main.c kmod/bwtree_main.c; do
		grep -qxF "MODULE_VERSION(\"$version\");" $file || echo "$file: not $version"
	done
	grep -qxF "version = \"$version\"" lib/python/pyproject.toml ||
		echo "lib/python/pyproject.toml: not $version"
	head -n 1 debian/changelog | grep -qF "kvtree ($version) " ||
		echo "debian/changelog: not $version"
}

# tests_of NAME [PYTHON]: print what is wrong with NAME.py.
tests_of()
{
	"${2:-python3}" -B "$LANES/$1_test.py" 2>&1 | grep -v -e '^\.*$' -e '^-*$' \
		-e '^Ran .* tests' -e '^OK$' || true
}

# interface PYTHON: print which generated parts are not up to date.
interface()
{
	"$1" -B Documentation/regen.py --check
	tests_of regen "$1"
}

# Run ruff and mypy. Their settings are in lib/python/pyproject.toml.
python_check()
{
	cd "$TOP/lib/python"
	"$1/ruff" check -q --no-cache --output-format concise . || true
	"$1/ruff" check -q --no-cache --output-format concise --config pyproject.toml --ignore D \
		"$TOP/selftests/server" || true
	"$1/mypy" --no-error-summary --cache-dir "$OUT/mypy" || true
}

go_check()
{
	local go

	go=$(go_command) || die "no Go from $GO_OLDEST on"
	cd "$TOP"
	"$(dirname "$(readlink -f "$go")")/gofmt" -l lib/go tools/server selftests/go \
		selftests/server selftests/history/check
}

man_pages()
{
	make -s -C "$TOP" man && "$TOP/selftests/scripts/check-pages"
}

# check_once NAME FINGERPRINT CMD...: like check, but skip CMD if it has passed with the same input.
check_once()
{
	local name=$1 known=$1-$2
	shift 2

	if is_known "$known"; then
		CHECKS=$((CHECKS + 1))
		say "lint: $name: nothing has changed"
		echo "ok $CHECKS $name" >>"$LOGS/lint.ktap"
	elif check "$name" "$@"; then
		know "$known"
	fi
}

# check NAME CMD...: passes if CMD prints nothing.
check()
{
	local name=$1 log=$LOGS/$1.txt rc=0
	shift

	CHECKS=$((CHECKS + 1))
	run_logged "$log" "lint: $name" '' "$@" || rc=$?
	if [ $rc -eq 0 ] && [ ! -s "$log" ]; then
		echo "ok $CHECKS $name" >>"$LOGS/lint.ktap"
		return
	fi
	head -n 40 "$log"
	echo "not ok $CHECKS $name" >>"$LOGS/lint.ktap"
	say "lint: $name: $(wc -l <"$log") lines, see $log"
	return 1
}

# Print everything that sparse's result depends on.
sparse_input()
{
	sparse --version 2>&1
	gcc --version | head -n 1
	echo "$KERNEL"
	find kmod uapi Kbuild "$LANES/lint.sh" "$LANES/lane.sh" "$LANES/circles.py" -type f \
		\( -name '*.[ch]' -o -name Kbuild -o -name '*.mk' -o -name lint.sh -o -name lane.sh \
		-o -name circles.py \) ! -name '*.mod.c' | sort | xargs sha256sum
}

doc_input()
{
	echo "$1"
	{ c_files kmod lib; echo "$LANES/lint.sh"; } | xargs sha256sum
}

shell_input()
{
	shellcheck --version
	{ scripts; echo "$LANES/lint.sh"; } | xargs sha256sum
}

# Print everything that the results of the lanes' own tests depend on: they run the lanes' scripts
# with fake machines, builds and programs.
lanes_input()
{
	bash --version
	python3 --version
	gcc --version
	git --version
	{
		find "$LANES" -type f ! -path '*/__pycache__/*' | sort
		printf "%s\n" "$TOP"/selftests/kselftest*.h
	} | xargs sha256sum
}

main()
{
	local source python lanes

	lane_begin lint
	"$LANES/deps.sh" lint
	KERNEL=$(stock_kernel)
	source=$("$LANES/kernel.sh" source)
	python=$(venv lint-python "mypy==$MYPY_VERSION" "ruff==$RUFF_VERSION" \
		"types-cffi==$TYPES_CFFI_VERSION" "pytest==$PYTEST_VERSION" \
		"pyyaml==$PYYAML_VERSION")
	cd "$TOP"
	LEAST=16
	printf 'KTAP version 1\n1..%d\n' $LEAST >"$LOGS/lint.ktap"
	forget_old
	check checkpatch checkpatch "$source" || true
	check_once sparse "$(sparse_input | fingerprint)" sparse_check
	check_once kernel-doc "$(doc_input "$source" | fingerprint)" kernel_doc "$source"
	check_once shellcheck "$(shell_input | fingerprint)" shell_check
	check patches patches_fit || true
	check interface interface "$python/python3" || true
	check versions versions_agree || true
	# ktap.py judges the results of all other tests.
	check ktap.py tests_of ktap || true
	check found "$LANES/found_test.sh" || true
	lanes=$(lanes_input | fingerprint)
	check_once limits "$lanes" "$LANES/limits_test.sh"
	check_once again "$lanes" "$LANES/again_test.sh"
	check_once select "$lanes" "$LANES/select_test.sh"
	check python python_check "$python" || true
	check go go_check || true
	check layers "$LANES/layers.py" || true
	check man in_tree man_pages || true
	summary lint "$LOGS"
}

main "$@"
