#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# unload.sh: remove kvtree. io_uring releases a file only some time after its process has exited,
# longer if processors are busy, so retry for a minute.

for try in $(seq 600); do
	[ -e /sys/module/kvtree ] || exit 0
	# It needs kvtree.
	[ ! -e /sys/module/kvtree_bwtree ] || rmmod kvtree_bwtree 2>/dev/null
	rmmod kvtree 2>/dev/null && exit
	sleep 0.1
done
echo "kvtree is in use after $try tries, by name:"
grep . /sys/module/kvtree*/refcnt
exit 1
