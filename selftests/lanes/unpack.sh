#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unpack.sh PACKAGE[+PACKAGE...][:PROGRAM]...: put the programs of Debian packages into
# ~/.cache/kvtree/programs/bin without installing them. Installing a server would start it,
# now and at every boot; a compiler for another machine cannot be installed beside
# gcc-multilib. PROGRAM defaults to the package's name. Dependencies that are not installed
# are unpacked as well. Programs that are there, and start, are left alone.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

DIR=$CACHE/programs

# The program of an argument.
program()
{
	echo "${1##*:}"
}

# starts NAME: is it there, and does it find what it needs? Where this folder has been moved, or
# is shared with a container that has other libraries, it does not.
starts()
{
	"$DIR/bin/$1" --version &>/dev/null </dev/null
}

missing()
{
	local p

	for p in "$@"; do
		starts "$(program "$p")" || command -v "$(program "$p")" >/dev/null || echo "$p"
	done
}

# apt finds out what is needed and not installed. It takes no lock, and needs no
# rights, as it changes nothing but this folder.
download()
{
	mkdir -p "$DIR/debs/partial"
	# Of another day, and of other versions.
	rm -f "$DIR"/debs/*.deb
	apt-get -q -y -o Dir::Cache::archives="$DIR/debs" -o Debug::NoLocking=1 \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 \
		install --download-only --no-install-recommends "$@"
}

# The lists of packages may be missing or old.
fetch()
{
	download "$@" || { apt_update && download "$@"; }
}

# unpacked NAME: where it was unpacked. Servers, and what root alone uses, are in sbin.
unpacked()
{
	local dir

	for dir in usr/bin usr/sbin bin sbin; do
		if [ -x "$DIR/root/$dir/$1" ]; then
			echo "$DIR/root/$dir/$1"
			return
		fi
	done
	return 1
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
	local program

	program=$(unpacked "$1")
	mkdir -p "$DIR/bin"
	cat >"$DIR/bin/$1" <<-END
		#!/bin/sh
		LD_LIBRARY_PATH=$DIR/root/usr/lib/$(gcc -print-multiarch)
		export LD_LIBRARY_PATH
		exec $program "\$@"
	END
	chmod +x "$DIR/bin/$1"
}

main()
{
	local p list packages

	[ $# -gt 0 ] || die 'usage: unpack.sh PACKAGE...'
	mkdir -p "$CACHE"
	exec 6>"$DIR.lock"
	flock 6
	mapfile -t list < <(missing "$@")
	[ ${#list[@]} -gt 0 ] || return 0
	packages=("${list[@]%%:*}")
	say "deps: unpacking ${packages[*]} in $DIR"
	# shellcheck disable=SC2048,SC2086
	apt_alone run_logged "$BUILD/deps.log" 'deps: download' '' fetch ${packages[*]//+/ }
	unpack
	for p in "${list[@]}"; do
		unpacked "$(program "$p")" >/dev/null ||
			die "${p%%:*}: no program $(program "$p")"
		write_program "$(program "$p")"
		starts "$(program "$p")" || die "$(program "$p") does not start"
	done
}

main "$@"
