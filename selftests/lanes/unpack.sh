#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unpack.sh PACKAGE...: have the programs of Debian packages in
# ~/.cache/kvtree/programs/bin without installing them. Servers would be started
# by their installation, and at every boot from then on. Each package has a
# program of its own name; what it needs and is not installed is unpacked along
# with it. Nothing is done for a program that is there.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

DIR=$CACHE/programs

missing()
{
	local p

	for p in "$@"; do
		[ -x "$DIR/bin/$p" ] || command -v "$p" >/dev/null || echo "$p"
	done
}

# apt finds out what is needed and not installed. It takes no lock, and needs no
# rights, as it changes nothing but this folder.
download()
{
	mkdir -p "$DIR/debs/partial"
	apt-get -q -y -o Dir::Cache::archives="$DIR/debs" -o Debug::NoLocking=1 \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 \
		install --download-only --no-install-recommends "$@"
}

# The lists of packages may be missing or old.
fetch()
{
	download "$@" || { as_root apt-get -q update && download "$@"; }
}

unpack()
{
	local deb

	for deb in "$DIR"/debs/*.deb; do
		dpkg -x "$deb" "$DIR/root"
	done
}

# write_program NAME: the program with the libraries that were unpacked with it.
write_program()
{
	mkdir -p "$DIR/bin"
	cat >"$DIR/bin/$1" <<-END
		#!/bin/sh
		LD_LIBRARY_PATH=$DIR/root/usr/lib/$(gcc -print-multiarch)
		export LD_LIBRARY_PATH
		exec $DIR/root/usr/bin/$1 "\$@"
	END
	chmod +x "$DIR/bin/$1"
}

main()
{
	local p list

	[ $# -gt 0 ] || die 'usage: unpack.sh PACKAGE...'
	mkdir -p "$CACHE"
	exec 6>"$DIR.lock"
	flock 6
	mapfile -t list < <(missing "$@")
	[ ${#list[@]} -gt 0 ] || return 0
	say "deps: unpacking ${list[*]} in $DIR"
	run_logged "$BUILD/deps.log" 'deps: download' '' fetch "${list[@]}"
	unpack
	for p in "${list[@]}"; do
		[ -x "$DIR/root/usr/bin/$p" ] || die "the package $p has no program $p"
		write_program "$p"
	done
}

main "$@"
