#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# root.sh: print the folder of a root with the next Debian release, the kernel of its backports
# with headers, and everything that kvtree is built and tested with.
#
# The root is made with debootstrap on first use, in the cache, ${XDG_CACHE_HOME:-~/.cache}/kvtree.
# Its name depends on the release, the version of the kernel and the packages. If several
# instances run at once, the later ones wait for the first.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/archive.sh
. "$LANES/archive.sh"
# shellcheck source=selftests/lanes/root-lib.sh
. "$LANES/root-lib.sh"

# Packages that a guest needs to boot, and packages to build with.
PACKAGES='ca-certificates iproute2 kmod procps python3 systemd-sysv udev
	bpftool build-essential ccache clang libbpf-dev llvm pahole'
KERNEL_PACKAGES='linux-image-amd64 linux-headers-amd64'

# Print all packages except the kernel's, one per line.
packages()
{
	{
		echo "$PACKAGES"
		user_packages lib tools tools/examples selftests selftests/bpf
	} | tr -s ' \t' '\n' | sed '/^$/d' | sort -u
}

# make_root VERSION ROOT: make a root with this version of the kernel.
make_root()
{
	local version=$1 root=$2 list
	mapfile -t list < <(packages)

	bootstrap "$root" "$NEXT_SUITE"
	add_suite "$root" "$NEXT_SUITE-backports"
	apt_inside "$root" update
	apt_inside "$root" install "${list[@]}"
	# This makes no initramfs: virtme-ng has its own.
	# shellcheck disable=SC2086
	apt_inside "$root" install -t "$NEXT_SUITE-backports" ${KERNEL_PACKAGES// /=$version }=$version
	apt_inside "$root" clean
}

# Set VERSION, the kernel's, and DIR, the root.
choose_root()
{
	read -r _ VERSION < <(choose stock-7 linux-image-amd64 "$KERNEL_IMAGE")
	[ -n "$VERSION" ] || exit 1
	DIR=$CACHE/root-${NEXT_SUITE}_$VERSION-$(packages | digest)
}

main()
{
	local VERSION DIR

	choose_root
	if [ ! -d "$DIR" ]; then
		forget stock-7
		choose_root
	fi
	made_once "$DIR" "stock-7: making a Debian $NEXT_SUITE" "echo \$(made '$DIR.log') steps" \
		make_root "$VERSION"
}

main "$@"
