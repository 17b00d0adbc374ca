#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# userland.sh ARCHITECTURE: print a folder with a shell and the usual commands for another
# processor.
#
# They are two static programs of the next Debian release, which are fetched on first use and
# kept in the cache.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/archive.sh
. "$LANES/archive.sh"

PACKAGES='bash-static busybox-static'

# The commands that guest.sh and the test programs run.
COMMANDS='basename cat chmod chown cp dirname echo false grep head hostname insmod ip kill
	ln losetup ls mkdir mknod modprobe mount mv poweroff rm rmdir rmmod sed
	seq sh sleep stat sync tail test touch tr true umount uname wc'

# fetch DIRECTORY: download and unpack the packages.
fetch()
{
	local deb

	cd "$1"
	apt_private apt-get update
	# shellcheck disable=SC2086
	apt_private apt-get download $PACKAGES
	for deb in ./*.deb; do
		dpkg -x "$deb" .
	done
	rm -f ./*.deb
}

# make_userland DIRECTORY: make the folder bin in it.
make_userland()
{
	local command

	rm -rf "$1"
	mkdir -p "$1/bin"
	fetch "$1"
	cp "$1"/usr/bin/busybox "$1/bin/busybox"
	cp "$1"/usr/bin/bash-static "$1/bin/bash"
	rm -rf "${1:?}/usr"
	for command in $COMMANDS; do
		ln -s busybox "$1/bin/$command"
	done
}

main()
{
	local APT_ARCH=${1:-} dir

	[ -n "$APT_ARCH" ] || die 'usage: userland.sh ARCHITECTURE'
	dir=$CACHE/userland-$APT_ARCH-$NEXT_SUITE-$(digest <<<"$PACKAGES $COMMANDS")
	dir=$(made_once "$dir" "userland: fetching a shell for $APT_ARCH" '' make_userland)
	echo "$dir/bin"
}

main "$@"
