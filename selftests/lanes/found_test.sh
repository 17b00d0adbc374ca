#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# found_test.sh: test that programs are built again when a library or another compiler is
# installed, or their source has changed. Prints what is wrong. The compilers and pkg-config are
# fakes, which record their arguments.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

# fake NAME: make a program NAME from standard input.
fake()
{
	mkdir -p "$DIR/bin"
	{ echo '#!/bin/bash'; cat; } >"$DIR/bin/$1"
	chmod +x "$DIR/bin/$1"
}

# The fake compiler records its arguments, and makes an empty output file.
compiler()
{
	fake cc <<-END
		[ "\$1" != --version ] || { echo 'cc $1'; exit; }
		echo "\$*" >>$DIR/compiled
		while [ \$# -gt 0 ]; do
			[ "\$1" != -o ] || [ "\$2" = /dev/null ] || : >"\$2"
			shift
		done
	END
}

# go_is VERSION: make a fake Go of that version, which makes the files that it is told to make.
go_is()
{
	fake go <<-END
		[ "\$1" != version ] || { echo 'go version $1'; exit; }
		echo "go \$*" >>$DIR/compiled
		[ "\$1" != build ] || : >check
	END
}

# library NAME VERSION: let pkg-config report this version; without VERSION, no library.
library()
{
	fake pkg-config <<-END
		version=1.0
		case "\$*" in
		*$1*) version=$2;;
		esac
		[ -n "\$version" ] || exit 1
		case "\$1" in
		--modversion) echo "\$version";;
		--atleast-version=*) dpkg --compare-versions "\$version" ge "\${1#*=}";;
		--libs) echo -lfake;;
		esac
	END
}

# compiled FOLDER TEXT [TARGET]: run make, and print how many commands with TEXT it ran.
compiled()
{
	: >"$DIR/compiled"
	make -s -C "$DIR/tree/$1" CC="$DIR/bin/cc" PKG_CONFIG="$DIR/bin/pkg-config" \
		CLANG="$DIR/bin/cc" GO="$DIR/bin/go" PYTHON=none BPF_CLANG= "${3:-all}" >"$DIR/make.log" 2>&1 || cat "$DIR/make.log"
	grep -c -e "$2" "$DIR/compiled" || true
}

# expect FOLDER TEXT TEST WHAT [TARGET]: check the number that compiled prints by TEST, such as
# "-gt 10".
expect()
{
	local n

	n=$(compiled "$1" "$2" "${5:-}")
	# shellcheck disable=SC2086
	test "$n" $3 || echo "$1: $4: $n compiled"
}

main()
{
	mkdir "$DIR/tree"
	copy_sources "$DIR/tree" "$TOP/lib" "$TOP/tools" "$TOP/uapi" "$TOP/kmod" "$TOP/selftests"

	compiler 1
	library libbpf ''
	expect tools HAVE_LIBBPF '-eq 0' 'without libbpf'
	library libbpf 1.1
	expect tools HAVE_LIBBPF '-eq 0' 'with an old libbpf'
	expect tools ' -c ' '-eq 0' 'with nothing new'
	library libbpf 1.4.6
	expect tools -DHAVE_LIBBPF '-gt 20' 'libbpf was installed'
	expect tools ' -c ' '-eq 0' 'with nothing new'
	expect lib ' -c ' '-eq 0' 'with nothing new'
	library jansson 2.0
	expect tools/bench/stock ' -c ' '-gt 5' 'for the first time'
	expect tools/bench/stock ' -c ' '-eq 0' 'with nothing new'
	library jansson 2.1
	expect tools/bench/stock ' -c ' '-gt 5' 'a library was updated'

	expect selftests ' -c ' '-gt 1' 'for the first time' abi/abi
	expect selftests ' -c ' '-eq 0' 'with nothing new' abi/abi
	expect selftests/fuzz '-c -o obj/input.o' '-eq 1' 'for the first time'
	expect selftests/history '-c -o obj/work.o' '-eq 1' 'for the first time'
	expect selftests/history ' -c ' '-eq 0' 'with nothing new'
	go_is 1.19
	expect selftests/history 'go build' '-eq 1' 'for the first time' check/check
	expect selftests/history 'go build' '-eq 0' 'with nothing new' check/check
	go_is 1.24
	expect selftests/history 'go build' '-eq 1' 'another Go' check/check
	library libbpf 1.5
	expect selftests/history '-c -o obj/work.o' '-eq 1' 'a library was updated'
	compiler 2
	expect selftests/fuzz '-c -o obj/input.o' '-eq 1' 'another compiler'
	expect selftests/history '-c -o obj/work.o' '-eq 1' 'another compiler'
	expect lib ' -c ' '-gt 10' 'another compiler'
	expect selftests ' -c ' '-gt 1' 'another compiler' abi/abi

	# As if it was edited after the compiler had read it, and before the object was written.
	copy_sources "$DIR/source" "$TOP/lib"
	echo >>"$DIR/source/lib/ring.c"
	touch -d '1 hour ago' "$DIR/source/lib/ring.c"
	copy_sources "$DIR/tree" "$DIR/source/lib"
	expect lib ' -c ' '-gt 0' 'a source was edited while it was compiled'
	expect lib ' -c ' '-eq 0' 'with nothing new'
}

main
