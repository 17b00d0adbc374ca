#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# root.sh: print the folder of the next Debian release with the kernel of its
# backports, its headers, and all that kvtree is built and tested with.
#
# Made with debootstrap on first use. The cache is ${XDG_CACHE_HOME:-~/.cache}/kvtree;
# a root is found there by release, version of the kernel and packages. Several
# may ask at once: the later ones wait for the first.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/archive.sh
. "$LANES/archive.sh"

# What a guest needs to come up, and what builds.
PACKAGES='ca-certificates iproute2 kmod procps python3 systemd-sysv udev
	bpftool build-essential ccache clang libbpf-dev llvm pahole'
KERNEL_PACKAGES='linux-image-amd64 linux-headers-amd64'

# Print all packages but the kernel's, one a line.
packages()
{
	{
		echo "$PACKAGES"
		user_packages lib tools tools/examples selftests selftests/bpf
	} | tr -s ' \t' '\n' | sed '/^$/d' | sort -u
}

bootstrap()
{
	as_root unshare -m debootstrap --variant=minbase --keyring="$KEYRING" \
		"$NEXT_SUITE" "$1" "$DEBIAN_MIRROR"
}

# What is mounted is seen by this command alone. No initramfs is made: virtme-ng brings its
# own.
inside()
{
	local root=$1
	shift

	# shellcheck disable=SC2016
	as_root unshare -m sh -ec 'mount -t proc proc "$1/proc"; exec chroot "$@"' - \
		"$root" env -i INITRD=No DEBIAN_FRONTEND=noninteractive LC_ALL=C \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

apt_inside()
{
	inside "$1" apt-get -q -y --no-install-recommends \
		-o Acquire::Retries=3 -o APT::Sandbox::User=root "${@:2}"
}

# A root that was not finished is thrown away: nothing has to be on disk before.
no_sync()
{
	echo force-unsafe-io | as_root tee "$1/etc/dpkg/dpkg.cfg.d/unsafe-io" >/dev/null
}

make_root()
{
	local root=$1 version=$2 list
	mapfile -t list < <(packages)

	as_root rm -rf "$root"
	bootstrap "$root"
	no_sync "$root"
	echo "deb $DEBIAN_MIRROR $NEXT_SUITE-backports main" |
		as_root tee "$root/etc/apt/sources.list.d/backports.list" >/dev/null
	apt_inside "$root" update
	apt_inside "$root" install "${list[@]}"
	# shellcheck disable=SC2086
	apt_inside "$root" install -t "$NEXT_SUITE-backports" ${KERNEL_PACKAGES// /=$version }=$version
	apt_inside "$root" clean
}

# How far debootstrap and apt are, by their log.
made()
{
	grep -cE '^(I: (Retrieving|Unpacking|Configuring)|Unpacking|Setting up)' "$1"
}

# Set VERSION and DIR.
choose_root()
{
	read -r _ VERSION < <(choose stock-7 linux-image-amd64 "$KERNEL_IMAGE")
	[ -n "$VERSION" ] || exit 1
	DIR=$CACHE/root-${NEXT_SUITE}_$VERSION-$(packages | digest)
}

main()
{
	local VERSION DIR dir

	choose_root
	if [ ! -d "$DIR" ]; then
		forget stock-7
		choose_root
	fi
	dir=$DIR
	exec 9>"$dir.lock"
	flock -n 9 || { say 'stock-7: waiting for another to make the root'; flock 9; }
	if [ ! -d "$dir" ]; then
		run_logged "$dir.log" "stock-7: making a Debian $NEXT_SUITE" \
			"echo \$(made '$dir.log') steps" make_root "$dir.new" "$VERSION"
		as_root mv "$dir.new" "$dir"
	fi
	used "$dir"
	exec 9>&-
	echo "$dir"
}

main "$@"
