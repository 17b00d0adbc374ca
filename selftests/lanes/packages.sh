#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packages.sh: build the Debian packages that the folder debian describes, for the release this
# runs on, and check them with lintian. They end up in build/packages.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

# Build only with the release's own programs. Go keeps the modules of kvtree-server in the cache.
# Build no packages with debugging information: "apt install ./*.deb" would install them too.
build()
{
	cd "$1"
	PATH=/usr/sbin:/usr/bin:/sbin:/bin DEB_BUILD_OPTIONS=noautodbgsym \
		GOCACHE=$CACHE/go/cache GOMODCACHE=$CACHE/go/modules \
		dpkg-buildpackage -b -us -uc -j"$JOBS"
}

main()
{
	lane_begin packages
	"$LANES/deps.sh" packages
	rm -rf "$OUT/source"
	rm -f "$OUT"/*.{deb,changes,buildinfo}
	copy_sources "$OUT/source" "$TOP/"
	run_logged "$LOGS/build.log" 'packages: building' '' build "$OUT/source"
	run_logged "$LOGS/lintian.log" 'packages: lintian' '' \
		lintian --fail-on error,warning "$OUT"/*.changes
	ls "$OUT"/*.deb
}

main
