#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# golden.sh VERSION DIRECTORY SHOW...: run the command SHOW on the golden images of a version of the
# format, v1 to v3, which are unpacked into DIRECTORY if they are not there. Its output has to be
# golden/VERSION.txt.

set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
VERSION=$1 DIR=$2
shift 2

if [ ! -e "$DIR/one.img" ]; then
	mkdir -p "$DIR"
	tar -xJf "$HERE/golden/$VERSION.tar.xz" -C "$DIR"
fi
cd "$DIR"

for disks in one.img one-early.img 'two-1.img two-2.img' 'early-2.img early-1.img'; do
	echo "$disks"
	# shellcheck disable=SC2086
	"$@" $disks
	echo
done
