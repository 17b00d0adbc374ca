#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deb.sh: build the Debian packages on Debian 12 and 13, in roots made with debootstrap, and use
# them in a machine of each: install, restart, upgrade, purge. Debian 12 runs the kernel of its
# backports.
#
# The first version is installed before the machine starts, because the machine is emulated and has
# no network. The upgrade runs in the machine, but DKMS is given a compiled module: compiling it
# there would take ten minutes.
#
# RELEASES selects the releases. TURN selects one of them, and leaves the upgrade out two times out
# of three; see lane.sh. LANE_TIMEOUT is the seconds after which a silent machine is stopped.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"
# shellcheck source=selftests/lanes/vm-lib.sh
. "$LANES/vm-lib.sh"
# shellcheck source=selftests/lanes/archive.sh
. "$LANES/archive.sh"
# shellcheck source=selftests/lanes/root-lib.sh
. "$LANES/root-lib.sh"

STAGES='first second third'
RELEASES=${RELEASES:-bookworm trixie}
TIMEOUT=${LANE_TIMEOUT:-3600}
PACKAGES='ca-certificates dbus initramfs-tools kmod procps systemd-sysv udev zstd'
KERNEL_PACKAGES='linux-image-amd64 linux-headers-amd64'
HERE=/kvtree-check

# Print the packages that Documentation/packages.rst says to install first.
kernel_packages()
{
	case $1 in
	bookworm) echo "-t bookworm-backports $KERNEL_PACKAGES libbpf1";;
	*) echo "$KERNEL_PACKAGES";;
	esac
}

# make_base RELEASE ROOT
make_base()
{
	bootstrap "$2" "$1"
	[ "$1" != bookworm ] || add_suite "$2" bookworm-backports
	apt_inside "$2" update
	# shellcheck disable=SC2086
	apt_inside "$2" install $PACKAGES
	# shellcheck disable=SC2046
	apt_inside "$2" install $(kernel_packages "$1")
	inside "$2" update-initramfs -c -k all
	apt_inside "$2" clean
}

# copy_root FROM TO
copy_root()
{
	as_root rm -rf "$2"
	as_root cp -a "$1" "$2"
}

# root NAME MAKER...
root()
{
	made_once "$CACHE/$1" "deb: making $1" "echo \$(made '$CACHE/$1.log') steps" "${@:2}"
}

# next_version TREE: set the next version in all files that repeat it; lint.sh compares them.
next_version()
{
	(cd "$1" && sed -i "s/$VERSION/$NEXT/" debian/changelog lib/Makefile kmod/main.c \
		kmod/bwtree_main.c lib/python/pyproject.toml)
}

# build ROOT VERSION: run "make deb" in a copy of the tree in ROOT.
build()
{
	local tree=$1/kvtree debs=$OUT/$RELEASE-$2

	as_root install -d -o "$(id -u)" "$tree"
	copy_sources "$tree" "$TOP/"
	[ "$2" = "$VERSION" ] || next_version "$tree"
	# An earlier run may have been interrupted.
	inside "$1" dpkg --configure -a
	apt_inside "$1" update
	apt_inside "$1" install make
	# Go may have to accept the certificate of a proxy.
	as_root cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
	inside "$1" make -C /kvtree deb
	rm -rf "$debs"
	mkdir "$debs"
	cp "$tree"/build/packages/*.deb "$debs"
}

# others ROOT DEB...: print the packages that apt installs along with these.
others()
{
	apt_inside "$1" -s install "${@:2}" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v kvtree
}

unit()
{
	cat <<-END
		[Service]
		StandardOutput=tty
		StandardError=inherit
		TTYPath=/dev/ttyS1
		ExecStart=$HERE/guest
	END
}

# compile_next ROOT: compile the next version's module, and make DKMS copy it instead of compiling.
compile_next()
{
	local source=$HERE/source/usr/src/kvtree-$NEXT kernel

	kernel=$(basename "$(echo "$1"/lib/modules/*-amd64)")
	dpkg -x "$1$HERE"/next/kvtree-dkms_*.deb "$1$HERE/source"
	inside "$1" make -C "/lib/modules/$kernel/build" "M=$source" -j "$JOBS" modules
	echo "MAKE[0]=\"cp $source/kmod/kvtree.ko $source/kmod/kvtree_bwtree.ko kmod/\"" |
		as_root tee "$1/etc/dkms/kvtree-$NEXT.conf" >/dev/null
}

# install_packages ROOT: install the packages as a user would, and whatever selftests/deb/guest
# needs.
install_packages()
{
	local root=$1 check=$1$HERE unit=etc/systemd/system/kvtree-check.service list

	as_root install -d -o "$(id -u)" "$check"
	cp "$TOP"/selftests/deb/* "$TOP/selftests/lib/checks.sh" "$check"
	cp -r "$OUT/$RELEASE-$VERSION" "$check/now"
	[ "$NEXT" = "$VERSION" ] || cp -r "$OUT/$RELEASE-$NEXT" "$check/next"
	echo "$STAGES" >"$check/stages"
	echo "$NEXT" >"$check/version"
	unit | as_root tee "$root/$unit" >/dev/null
	as_root mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
	as_root ln -s "/$unit" "$root/etc/systemd/system/multi-user.target.wants"
	apt_inside "$root" update
	mapfile -t list < <(cd "$root" && printf '/%s\n' "${HERE#/}"/now/*.deb)
	# shellcheck disable=SC2046
	apt_inside "$root" install gcc libc6-dev redis-tools $(others "$root" "${list[@]}")
	[ "$NEXT" = "$VERSION" ] || compile_next "$root"
	inside "$root" $HERE/files >"$check/before"
	apt_inside "$root" install "${list[@]}"
}

# make_machine ROOT: make the machine's kernel, initramfs and root disk from ROOT, and a disk for a
# store.
make_machine()
{
	rm -rf "$MACHINE"
	mkdir "$MACHINE"
	cp "$1"/boot/vmlinuz-* "$MACHINE/kernel"
	cp "$1"/boot/initrd.img-* "$MACHINE/initrd"
	as_root mke2fs -q -t ext4 -d "$1" "$MACHINE/root" 6G
	as_root chown "$(id -u)" "$MACHINE/root"
	as_root rm -rf "$1"
	truncate -s 160M "$MACHINE/store"
}

# boot CONSOLE RESULTS: run the machine until it restarts or powers off.
boot()
{
	local accel=(-accel 'tcg,thread=multi' -cpu "$EMULATED_CPU")

	[ "${KVT_KVM:-0}" != 1 ] || accel=(-accel kvm)
	exec qemu-system-x86_64 "${accel[@]}" -smp 2 -m 2G -nodefaults -no-user-config \
		-display none -no-reboot -serial "file:$1" -serial "file:$2" \
		-kernel "$MACHINE/kernel" -initrd "$MACHINE/initrd" \
		-append "root=/dev/vda rw console=ttyS0 ignore_loglevel panic=-1 $KERNEL_ARGS" \
		-drive "file=$MACHINE/root,format=raw,if=virtio,cache=unsafe" \
		-drive "file=$MACHINE/store,format=raw,if=virtio"
}

# Boot the machine once for each stage.
use()
{
	local stage console results

	for stage in $STAGES; do
		console=$LOGS/$RELEASE-$stage.console results=$LOGS/$RELEASE-$stage.ktap
		LIMIT=$TIMEOUT run_logged "$LOGS/$RELEASE-$stage.log" "deb: $RELEASE: $stage start" \
			"grep -c '^ok' '$results' || true" boot "$console" "$results" || true
		sed -i 's/\r$//' "$results"
		cat "$console" >>"$CONSOLE"
		grep -q '^1\.\.' "$results" || break
	done
}

release()
{
	local MACHINE base root version

	base=$(root "deb-$1-$(echo "$PACKAGES $(kernel_packages "$1")" | digest)" make_base "$1")
	root=$(root "$(basename "$base")-build-$(digest <"$TOP/debian/control")" copy_root "$base")
	# Runs in other clones build in the same root.
	exec 9>"$root.lock"
	flock 9
	for version in $(printf '%s\n' "$VERSION" "$NEXT" | sort -u); do
		run_logged "$LOGS/$1-$version.log" "deb: $1: building version $version" '' \
			build "$root" "$version"
	done
	exec 9>&-
	MACHINE=$OUT/$1
	run_logged "$LOGS/$1-copy.log" "deb: $1: copying a root" '' copy_root "$base" "$MACHINE.new"
	run_logged "$LOGS/$1-install.log" "deb: $1: installing" '' install_packages "$MACHINE.new"
	run_logged "$LOGS/$1-machine.log" "deb: $1: making disks" '' make_machine "$MACHINE.new"
	use
}

# Select what has its turn. In six of them, each release comes up once with the upgrade.
take_turn()
{
	local n releases

	n=$(turn)
	read -r -a releases <<<"$RELEASES"
	RELEASES=${releases[n % ${#releases[@]}]}
	[ $((n % 3)) -eq 0 ] || STAGES='first third'
	say "deb: $RELEASES, stages $STAGES; TURN=$n RELEASES='${releases[*]}' repeats it"
}

main()
{
	local RELEASE installed=() quiet=ok rc=0 one tests=29

	if [ -n "${TURN:-}" ]; then
		take_turn
	fi
	VERSION=$(sed -n 's/^VERSION.*:= *//p' "$TOP/lib/Makefile") NEXT=$VERSION.1
	[[ $STAGES = *second* ]] || NEXT=$VERSION tests=17
	# The number of all tests.
	LEAST=$((1 + tests * $(wc -w <<<"$RELEASES")))
	lane_begin deb
	"$LANES/deps.sh" deb
	: >"$CONSOLE"
	for RELEASE in $RELEASES; do
		one=ok
		# In the background: if release were called as a condition, bash would ignore
		# errors in it.
		release "$RELEASE" &
		wait $! || one='not ok'
		installed+=("$one" "${RELEASE}_packages_are_built_and_installed")
	done
	"$LANES/ktap.py" --reports "$CONSOLE" >"$LOGS/reports.txt" || quiet='not ok'
	results "$LOGS/lane.ktap" "${installed[@]}" "$quiet" no_kernel_reports <"$LOGS/reports.txt"
	summary deb "$LOGS" || rc=1
	[ $rc -eq 0 ] || say "deb: logs in $LOGS"
	return $rc
}

main "$@"
