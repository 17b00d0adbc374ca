#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh uml|uml-debug|kcsan|arm64: print the build directory of that lane's kernel
# kernel.sh source: print the unpacked and patched kernel source
#
# Fetches, unpacks, configures and builds whatever is not in the cache yet. The cache is
# ${XDG_CACHE_HOME:-~/.cache}/kvtree; the name of a kernel there depends on the version of the
# source, the patches, the configuration and the compiler. If several instances run at once, the
# later ones wait for the first.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/archive.sh
. "$LANES/archive.sh"

# fetch PACKAGE VERSION DIRECTORY: download a package, and unpack it there.
fetch()
{
	cd "$3"
	rm -f ./*.deb
	apt_private apt-get download "$1=$2"
	dpkg -x "$1"_*.deb .
	rm -f ./*.deb
}

unpack()
{
	local patch

	rm -rf "$2/linux.new"
	mkdir -p "$2/linux.new"
	tar -C "$2/linux.new" --strip-components=1 -xf "$1"
	for patch in "$LANES"/patches/*.patch; do
		patch -d "$2/linux.new" -p 1 -i "$patch"
	done
	rm -rf "${2:?}/usr" "${2:?}/linux"
	mv "$2/linux.new" "$2/linux"
}

# Set PACKAGE, VERSION and DIR.
choose_source()
{
	read -r PACKAGE VERSION < <(choose kernel "$KERNEL_SOURCE_PATTERN" "$KERNEL_SOURCE")
	[ -n "$VERSION" ] || exit 1
	DIR=$CACHE/${PACKAGE}_$VERSION-$(cat "$LANES"/patches/*.patch | digest)
}

# Print the source directory; fetch and unpack it first if it is missing.
source_dir()
{
	local PACKAGE VERSION DIR

	mkdir -p "$CACHE"
	exec 8>"$CACHE/source.lock"
	flock 8
	choose_source
	if [ ! -d "$DIR/linux" ]; then
		forget kernel
		choose_source
	fi
	if [ ! -d "$DIR/linux" ]; then
		mkdir -p "$DIR"
		run_logged "$DIR/fetch.log" "kernel: fetching $PACKAGE $VERSION" '' \
			fetch "$PACKAGE" "$VERSION" "$DIR"
		run_logged "$DIR/unpack.log" 'kernel: unpacking' '' \
			unpack "$DIR/usr/src/$PACKAGE.tar.xz" "$DIR"
	fi
	used "$DIR"
	exec 8>&-
	echo "$DIR/linux"
}

# settings LANE: choose the makefile's arguments, the configuration to begin with, and the fragments
# to add to it.
settings()
{
	case $1 in
	uml) FRAGMENTS=(uml);;
	# UBSan checks only the module, not the rest of the kernel.
	uml-debug) FRAGMENTS=(uml uml-debug) ARGS+=(UBSAN_SANITIZE=n);;
	# KCSAN watches only the module.
	kcsan) FRAGMENTS=(kcsan) BASE=tinyconfig ARGS=(ARCH=x86_64 KCSAN_SANITIZE=n);;
	arm64)
		FRAGMENTS=(arm64) BASE=tinyconfig
		mapfile -t ARGS < <(cross arm64)
		# The same here, but all of the kernel tells KCSAN of its barriers, except the
		# vDSO, which runs in user space.
		ARGS+=(KCSAN_SANITIZE=n KCSAN_INSTRUMENT_BARRIERS=y
			KCSAN_INSTRUMENT_BARRIERS_v{gettimeofday,getrandom}.o=n)
		PATH=$PATH:$CACHE/programs/bin;;
	*) die 'usage: kernel.sh uml|uml-debug|kcsan|arm64|source';;
	esac
	FRAGMENTS=("${FRAGMENTS[@]/#/$LANES/}")
	FRAGMENTS=("${FRAGMENTS[@]/%/.config}")
}

# Check that the configuration has all fragments: Kconfig silently drops options that it cannot set.
check_config()
{
	local frag bad=0 line name

	for frag in "${@:2}"; do
		while read -r line; do
			case $line in
			CONFIG_*=*) name=$line;;
			'# CONFIG_'*' is not set') name=$line;;
			*) continue;;
			esac
			# An option that does not exist counts as not set.
			grep -qxF "$name" "$1/.config" && continue
			[ "${line:0:1}" = '#' ] &&
				! grep -q "^$(cut -d ' ' -f 2 <<<"$line")=" "$1/.config" &&
				continue
			echo "${frag##*/}: not taken: $line"
			bad=1
		done <"$frag"
	done
	return $bad
}

configure()
{
	local src=$1 dir=$2

	make -C "$src" O="$dir" "${ARGS[@]}" "$BASE"
	(cd "$dir" && "$src/scripts/kconfig/merge_config.sh" -m -O "$dir" \
		.config "${FRAGMENTS[@]}")
	make -C "$src" O="$dir" "${ARGS[@]}" olddefconfig
	check_config "$dir" "${FRAGMENTS[@]}"
}

build()
{
	# ccache is not needed: the whole build is kept.
	CCACHE_DISABLE=1 make -C "$1" O="$2" "${ARGS[@]}" -j "$JOBS"
}

# Print a digest of the configuration and the makefile's arguments, without the usual arguments.
key()
{
	{
		grep -h CONFIG_ "${FRAGMENTS[@]}"
		[ "${ARGS[*]} $BASE" = 'ARCH=um defconfig' ] || echo "${ARGS[*]} $BASE"
	} | digest
}

main()
{
	local lane=${1:-} src dir ARGS=(ARCH=um) BASE=defconfig FRAGMENTS

	if [ "$lane" = source ]; then
		source_dir
		return
	fi
	settings "$lane"
	src=$(source_dir)
	dir=$CACHE/$lane-$(basename "$(dirname "$src")")-gcc$(gcc -dumpfullversion)-$(key)
	mkdir -p "$dir"
	exec 9>"$dir.lock"
	flock -n 9 || { say "kernel: waiting for another build of $lane"; flock 9; }
	if [ ! -e "$dir/.kvtree-built" ]; then
		run_logged "$dir/configure.log" "kernel: configuring $lane" '' \
			configure "$src" "$dir"
		run_logged "$dir/build.log" "kernel: building $lane" \
			"echo \$(grep -c '^  CC' '$dir/build.log') objects" \
			build "$src" "$dir"
		touch "$dir/.kvtree-built"
	fi
	used "$dir"
	echo "$dir"
}

main "$@"
