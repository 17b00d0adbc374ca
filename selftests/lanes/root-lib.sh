# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Make roots with debootstrap, and run commands in them. Sourced after common.sh.

# bootstrap ROOT SUITE: make a new root, and delete an old one. dpkg need not sync files to disk,
# because an unfinished root is deleted.
bootstrap()
{
	as_root rm -rf "$1"
	as_root unshare -m debootstrap --variant=minbase --keyring="$KEYRING" \
		"$2" "$1" "$DEBIAN_MIRROR"
	echo force-unsafe-io | as_root tee "$1/etc/dpkg/dpkg.cfg.d/unsafe-io" >/dev/null
}

# add_suite ROOT SUITE: let apt take packages from there, after an update.
add_suite()
{
	echo "deb $DEBIAN_MIRROR $2 main" |
		as_root tee "$1/etc/apt/sources.list.d/backports.list" >/dev/null
}

# inside ROOT CMD...: run CMD in the root. Only CMD sees what is mounted for it. INITRD=No keeps
# kernel packages from making an initramfs.
inside()
{
	# shellcheck disable=SC2016
	as_root unshare -m sh -ec 'mount -t proc proc "$1/proc"; exec chroot "$@"' - \
		"$1" env -i INITRD=No DEBIAN_FRONTEND=noninteractive LC_ALL=C HOME=/root \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"
}

apt_inside()
{
	inside "$1" apt-get -q -y --no-install-recommends \
		-o Acquire::Retries=3 -o APT::Sandbox::User=root "${@:2}"
}

# made LOG: print how many steps of debootstrap and apt it has.
made()
{
	grep -cE '^(I: (Retrieving|Unpacking|Configuring)|Unpacking|Setting up)' "$1"
}
