#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deps.sh LANE...: install the Debian packages that the lanes need. Does
# nothing, and touches no network, when they are all there.
#
# LANE is uml, uml-debug, broken, stock, stock-7, bench, bench-stock, bench-bpf,
# bench-log, bench-net, user, lint, docs, crash, history, hibernate, fuzz, kcsan, arm64, weak,
# deb, packages or demo.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

BACKPORTS_LIST=/etc/apt/sources.list.d/kvtree-backports.list

build_packages='build-essential ccache kmod python3 rsync'
kernel_packages='bc bison flex patch xz-utils perl util-linux ca-certificates
	debian-archive-keyring'

# Print a lane's packages of the main suite. virtme-ng needs file, ip and udev. Tests of attaching
# at boot need systemd and udev.
main_packages()
{
	case $1 in
	broken)
		main_packages uml
		main_packages user
		main_packages crash
		main_packages stock;;
	uml|uml-debug)
		# openssl makes certificates for kvtree-server; systemd has
		# systemd-socket-activate.
		echo "$build_packages $kernel_packages openssl systemd udev"
		user_packages lib lib/python tools selftests;;
	demo)
		echo "$build_packages python3-venv busybox-static file
			iproute2 udev"
		user_packages lib tools;;
	bench-stock)
		main_packages demo
		user_packages tools/bench/stock;;
	bench-bpf)
		main_packages bench-stock
		user_packages selftests/bpf tools/examples;;
	bench-net)
		main_packages bench-stock
		user_packages lib tools;;
	bench-log)
		main_packages bench-stock
		echo "$kernel_packages e2fsprogs"
		user_packages tools/bench/log;;
	stock)
		main_packages bench-bpf
		echo 'openssl systemd'
		user_packages lib/python selftests;;
	fuzz)
		main_packages uml
		main_packages user;;
	history)
		main_packages stock;;
	hibernate)
		main_packages demo
		echo 'cpio xz-utils';;
	crash)
		main_packages uml
		main_packages demo
		user_packages selftests/crash;;
	kcsan)
		main_packages uml
		main_packages demo
		echo 'libelf-dev lz4';;
	arm64|weak)
		echo "$build_packages $kernel_packages";;
	stock-7)
		# Everything is built in a root of its own, with that root's compiler.
		main_packages demo
		echo 'debian-archive-keyring debootstrap make util-linux';;
	user)
		echo "$build_packages"
		user_packages selftests/user;;
	bench)
		echo "$build_packages $kernel_packages"
		user_packages selftests/user;;
	lint)
		echo "$build_packages $kernel_packages sparse shellcheck
			python3-venv"
		user_packages lib tools selftests;;
	docs) echo 'make python3 python3-venv';;
	deb)
		# Everything is built in roots of their own, with their compilers.
		echo 'debian-archive-keyring debootstrap e2fsprogs rsync util-linux';;
	packages) echo 'build-essential lintian rsync';;
	*) die "unknown lane '$1'";;
	esac
}

# Print a lane's packages that have to come from backports.
backports_packages()
{
	case $1 in
	stock|bench-stock|bench-bpf|bench-log|bench-net|demo|crash|history|hibernate|broken)
		stock_packages
		echo qemu-system-x86
		case $1 in
		stock|bench-bpf|history|broken)
			sed 's/#.*//' "$TOP/selftests/bpf/packages.backports"
			echo "$GO_PACKAGE";;
		bench-net) echo "$GO_PACKAGE";;
		esac;;
	stock-7|kcsan|deb) echo 'qemu-system-x86';;
	# Debian 12's libbpf is too old, Debian 13's is not.
	packages) ! right_release || echo libbpf-dev;;
	uml|uml-debug) echo "$GO_PACKAGE";;
	arm64|weak) echo 'qemu-system-arm';;
	lint) stock_packages; echo "$GO_PACKAGE";;
	esac
}

# Print the packages of the kernel that is known to work or, with KVT_NEWEST=1, of the newest.
stock_packages()
{
	local release=$STOCK_KERNEL

	[ "${KVT_NEWEST:-0}" != 1 ] || release=amd64
	printf 'linux-%s-%s\n' image "$release" headers "$release"
}

in_archive()
{
	apt-cache show --no-all-versions "$1" >/dev/null 2>&1
}

# Print the packages, with the newest kernel instead of one that the archive no longer has.
of_archive()
{
	local p newest

	for p in "$@"; do
		newest=${p%"$STOCK_KERNEL"}amd64
		if [ "$newest" = "${p}amd64" ] || in_archive "$p"; then
			echo "$p"
		else
			say "deps: $STOCK_SUITE no longer has $p: taking $newest"
			echo "$newest"
		fi
	done
}

# Print a lane's packages that are unpacked rather than installed, and their programs: see
# unpack.sh.
unpacked_packages()
{
	case $1 in
	uml|uml-debug)
		# Clients of kvtree-server, Redis to compare its commands with, a proxy for several
		# servers, and the tool for mirrors.
		echo redis-tools:redis-cli redis-tools:redis-benchmark redis-server nutcracker mdadm;;
	bench-stock|bench-bpf|bench-log)
		sed 's/#.*//' "$TOP/tools/bench/stock/packages.unpacked";;
	stock|bench-net)
		unpacked_packages bench-stock
		unpacked_packages uml;;
	broken)
		unpacked_packages stock
		unpacked_packages crash;;
	crash)
		sed 's/#.*//' "$TOP/selftests/format/packages.unpacked";;
	arm64|weak)
		echo "gcc-$ARM64_GCC-aarch64-linux-gnu+libc6-dev-arm64-cross:aarch64-linux-gnu-gcc-$ARM64_GCC"
		printf 'binutils-aarch64-linux-gnu:aarch64-linux-gnu-%s\n' \
			ar ld nm objcopy objdump readelf strip;;
	esac
}

installed()
{
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# oldest PACKAGE: print the oldest version that suffices; nothing if any does. bookworm itself has
# older ones.
oldest()
{
	case $1 in
	linux-*) echo 6.12;;
	libbpf-dev) echo 1:1.4;;
	bpftool) echo 7.4;;
	qemu-system-x86|qemu-system-arm) echo 1:8.2;;
	esac
}

recent()
{
	local oldest
	oldest=$(oldest "$1")

	[ -z "$oldest" ] || dpkg --compare-versions \
		"$(dpkg-query -W -f '${Version}' "$1")" ge "$oldest"
}

# instead PACKAGE: is there a substitute? rustup's cargo can replace Debian's, which cannot be
# installed beside some others. The newest kernel can replace one that the archive no longer has.
instead()
{
	local newest=${1%"$STOCK_KERNEL"}amd64

	case $1 in
	cargo|rustc) command -v "$1" >/dev/null;;
	"$GO_PACKAGE") go_command >/dev/null;;
	*-"$STOCK_KERNEL")
		installed "$newest" && recent "$newest" &&
			have_suite "$STOCK_SUITE" && ! in_archive "$1";;
	*) false;;
	esac
}

missing()
{
	local p

	for p in "$@"; do
		if ! { installed "$p" && recent "$p"; } && ! instead "$p"; then
			echo "$p"
		fi
	done | sort -u
}

# Is this the Debian release that the lanes' machines and packages are of?
right_release()
{
	grep -qs "^VERSION_CODENAME=${STOCK_SUITE%-*}$" /etc/os-release
}

have_suite()
{
	apt-cache policy 2>/dev/null | grep -q "[ ,]n=$1\(,\|$\)"
}

# add_backports PACKAGE...: make them available.
add_backports()
{
	have_suite "$STOCK_SUITE" && return
	grep -qs "$STOCK_SUITE" "$BACKPORTS_LIST" && return
	right_release ||
		die "this needs Debian ${STOCK_SUITE%-*}, for these packages of $STOCK_SUITE: $*"
	say "deps: adding $STOCK_SUITE in $BACKPORTS_LIST"
	echo "deb $(backports_mirror) $STOCK_SUITE main" |
		as_root tee "$BACKPORTS_LIST" >/dev/null
}

# Print the mirror that has the backports. When support for a release ends, mirrors drop its
# backports, and the archive of old releases has them.
backports_mirror()
{
	local got rc=0

	got=$(mktemp)
	/usr/lib/apt/apt-helper -q download-file \
		"$DEBIAN_MIRROR/dists/$STOCK_SUITE/InRelease" "$got" >/dev/null 2>&1 || rc=$?
	rm -f "$got"
	if [ $rc -eq 0 ]; then
		echo "$DEBIAN_MIRROR"
	else
		echo "[check-valid-until=no] $OLD_MIRROR"
	fi
}

# Run apt-get. If it would have to remove an installed package, it fails instead.
apt_run()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-remove \
		-o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 \
		-o Acquire::Retries=3 "$@"
}

can_install()
{
	apt_run -s install --no-install-recommends "$@" >/dev/null 2>&1
}

# fitting PACKAGE...: print the packages, with "/SUITE" after those that must come from backports. A
# -dev package depends on one version of its library. If the library came from backports, as a
# kernel from there may require, only the -dev package from there can be installed.
fitting()
{
	local p

	if can_install "$@"; then
		printf '%s\n' "$@"
		return
	fi
	for p in "$@"; do
		if ! can_install "$p" && can_install "$p/$STOCK_SUITE"; then
			p=$p/$STOCK_SUITE
		fi
		echo "$p"
	done
}

install_missing()
{
	local lane main=() backports=()

	for lane in "$@"; do
		# shellcheck disable=SC2207
		main+=($(main_packages "$lane"))
		# shellcheck disable=SC2207
		backports+=($(backports_packages "$lane"))
	done
	mapfile -t main < <(missing "${main[@]}")
	mapfile -t backports < <(missing "${backports[@]}")
	[ $((${#main[@]} + ${#backports[@]})) -gt 0 ] || return 0

	say "deps: installing ${main[*]} ${backports[*]}"
	[ ${#backports[@]} -eq 0 ] || add_backports "${backports[@]}"
	run_logged "$BUILD/deps.log" 'deps: package lists' '' apt_update
	if [ ${#main[@]} -gt 0 ]; then
		mapfile -t main < <(fitting "${main[@]}")
		run_logged "$BUILD/deps.log" 'deps: packages' '' \
			apt_run install --no-install-recommends "${main[@]}"
	fi
	if [ ${#backports[@]} -gt 0 ]; then
		mapfile -t backports < <(of_archive "${backports[@]}")
		run_logged "$BUILD/deps.log" 'deps: kernel and QEMU' '' \
			apt_run install --no-install-recommends \
			-t "$STOCK_SUITE" "${backports[@]}"
	fi
}

# Install the packages that debian/control lists for building.
build_depends()
{
	! dpkg-checkbuilddeps "$TOP/debian/control" 2>/dev/null || return 0
	run_logged "$BUILD/deps.log" 'deps: package lists' '' apt_update
	run_logged "$BUILD/deps.log" 'deps: packages to build packages with' '' \
		apt_run build-dep --no-install-recommends "$TOP"
}

main()
{
	local lane unpacked=()

	[ $# -gt 0 ] || die 'usage: deps.sh LANE...'
	apt_alone install_missing "$@"
	for lane in "$@"; do
		[ "$lane" != packages ] || apt_alone build_depends
		# shellcheck disable=SC2207
		unpacked+=($(unpacked_packages "$lane"))
	done
	[ ${#unpacked[@]} -eq 0 ] || "$LANES/unpack.sh" "${unpacked[@]}"
}

main "$@"
