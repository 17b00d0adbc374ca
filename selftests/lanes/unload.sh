#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# unload.sh: remove kvtree. io_uring lets go of a file a moment after the process that had it
# is gone, and later where processors are busy: for a minute it is tried again.

for try in $(seq 600); do
	[ -e /sys/module/kvtree ] || exit 0
	rmmod kvtree 2>/dev/null && exit
	sleep 0.1
done
echo "kvtree is in use after $try tries: $(cat /sys/module/kvtree/refcnt)"
exit 1
