#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unpack.sh PACKAGE[+PACKAGE...][:PROGRAM]...: put the programs of Debian packages into
# ~/.cache/kvtree/programs/bin without installing them. Installing a server would start it,
# now and at every boot; a compiler for another machine cannot be installed beside
# gcc-multilib. PROGRAM defaults to the package's name. Dependencies that are not installed
# are unpacked as well. Programs that exist and start are left as they are.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

DIR=$CACHE/programs

# program ARGUMENT: print the name of its program.
program()
{
	echo "${1##*:}"
}

# starts NAME: does the program exist, and does it start? If the folder was moved, or is shared with
# a container that has other libraries, it does not find what it needs.
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

# Download packages and those dependencies that are not installed, as apt finds them. This takes no
# lock and needs no rights, because it changes nothing outside of this folder.
download()
{
	mkdir -p "$DIR/debs/partial"
	# Delete packages of earlier runs, which may have other versions.
	rm -f "$DIR"/debs/*.deb
	apt-get -q -y -o Dir::Cache::archives="$DIR/debs" -o Debug::NoLocking=1 \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 \
		install --download-only --no-install-recommends "$@"
}

# Download; if that fails, update the lists of packages, which may be missing or old.
fetch()
{
	download "$@" || { apt_update && download "$@"; }
}

# unpacked NAME: print the path of an unpacked program. Servers, and root's programs, are in sbin.
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

# write_program NAME: write a script that runs the program with the libraries unpacked with it.
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
