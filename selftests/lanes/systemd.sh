#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# systemd.sh KERNEL MODULE DISK COMMAND: boot a machine with systemd, as distributions do.
#
# The machine is User-Mode Linux. Its root is an overlay: the host's files, and above them an
# installed kvtree. It has DISK, with the store named `boot` in /etc/kvtree/stores. When the
# store is attached, COMMAND runs in the machine, and the machine shuts down. Prints COMMAND's
# output. Run this as root, in a mount namespace of its own.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/uml-lib.sh
. "$LANES/uml-lib.sh"

MEMORY=1G
UML=$1 MODULE=$2 DISK=$3 COMMAND=$4
OUT=$(dirname "$DISK")
LOGS=$OUT/systemd
ROOT=$LOGS/root
SYSTEM=$ROOT/etc/systemd/system

# Install kvtree where modprobe, systemd and udev look for it.
install_kvtree()
{
	local release modules

	release=$(cat "$UML/include/config/kernel.release")
	modules=$ROOT/lib/modules/$release
	make -s -C "$TOP/tools" install PREFIX=/usr DESTDIR="$ROOT"
	install -D -m 644 -t "$modules/extra" "$MODULE" "${MODULE%.ko}_bwtree.ko"
	touch "$modules"/modules.{order,builtin,builtin.modinfo}
	depmod -b "$ROOT" "$release"
}

# Write the units: none that the host has enabled, and one service that runs COMMAND and powers off.
units()
{
	local uuid

	uuid=$("$TOP/tools/kvtree" store probe "$DISK" | sed -n 's/.*UUID=\([^,]*\),.*/\1/p')
	rm -rf "$SYSTEM"
	mkdir -p "$SYSTEM/multi-user.target.wants" "$ROOT/etc/kvtree"
	: >"$ROOT/etc/fstab"
	echo "boot UUID=$uuid" >"$ROOT/etc/kvtree/stores"
	cat >"$SYSTEM/look.service" <<-'END'
		[Service]
		Type=oneshot
		ExecStart=/look
		ExecStopPost=systemctl --no-block poweroff
	END
	ln -s ../look.service "$SYSTEM/multi-user.target.wants"
	cat >"$ROOT/look" <<-END
		#!/bin/bash
		exec >/looked 2>&1
		for i in \$(seq 900); do
			! systemctl --quiet is-active kvtree-attach@boot.service || break
			sleep 0.2
		done
		systemctl --quiet is-active kvtree-attach@boot.service || echo 'it was not attached'
		$COMMAND
	END
	chmod +x "$ROOT/look"
}

main()
{
	rm -rf "$LOGS"
	mkdir -p "$ROOT" "$LOGS"/{upper,work}
	mount -t overlay kvtree -o "lowerdir=/,upperdir=$LOGS/upper,workdir=$LOGS/work" "$ROOT"
	install_kvtree >&2
	units >&2
	(uml_boot "$UML" init=/lib/systemd/systemd rootflags="$ROOT" ubd0="$DISK") \
		>"$LOGS/console" 2>&1 </dev/null || true
	cat "$ROOT/looked" || { tail -n 20 "$LOGS/console"; exit 1; }
}

main
