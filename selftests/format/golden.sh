#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# golden.sh DIRECTORY SHOW...: run the command SHOW on the golden images, which are unpacked into
# DIRECTORY if they are not there. Its output has to be golden/v1.txt.

set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=$1
shift

if [ ! -e "$DIR/one.img" ]; then
	mkdir -p "$DIR"
	tar -xJf "$HERE/golden/v1.tar.xz" -C "$DIR"
fi
cd "$DIR"

for disks in one.img one-early.img 'two-1.img two-2.img' 'early-2.img early-1.img'; do
	echo "$disks"
	# shellcheck disable=SC2086
	"$@" $disks
	echo
done
