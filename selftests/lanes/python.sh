#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# python.sh: install the Python package of the tree, as a user would, into an
# environment of its own with pytest. selftests/scripts/run-python runs the tests
# in it, in the lane's kernel, and run-server those of kvtree-server with redis-py. Prints the
# environment's interpreter.
#
# KVT_TREE names another tree to install the package of; see lane.sh.
#
# The network is used once, for the wheels that versions names: they are kept in
# ~/.cache/kvtree, and pip is given nothing else.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

TREE=${KVT_TREE:-$TOP}
DIR=$BUILD/python
[ "$TREE" = "$TOP" ] || DIR=$BUILD/$KVT_OUT/python

# The packages from PyPI to build, use and test the package with.
REQUIRED=("setuptools==$SETUPTOOLS_VERSION" "cffi==$CFFI_VERSION"
	"pytest==$PYTEST_VERSION" "redis==$REDIS_PY_VERSION")

# Download into an environment made for this, because Debian's Python has pip only in environments.
download()
{
	local venv=$DIR/download

	python3 -m venv "$venv"
	"$venv/bin/pip" download -q --disable-pip-version-check \
		--only-binary :all: -d "$1" "${REQUIRED[@]}"
	rm -rf "$venv"
}

# Print the folder of wheels, filled on first use.
wheels()
{
	local dir

	dir=$CACHE/wheels-$(printf '%s\n' "${REQUIRED[@]}" "$(python3 -VV)" |
		sha256sum | cut -c 1-12)
	mkdir -p "$dir"
	exec 6>"$dir.lock"
	flock 6
	if [ ! -e "$dir/.complete" ]; then
		run_logged "$dir.log" 'python: wheels from PyPI' '' \
			download "$dir"
		touch "$dir/.complete"
	fi
	exec 6>&-
	echo "$dir"
}

# Print a digest of everything that the environment is made of.
fingerprint()
{
	{
		printf '%s\n' "$TREE" "${REQUIRED[@]}" "$(python3 -VV)"
		cd "$TREE"
		find lib/python lib/Makefile lib/*.[ch] uapi/*.h uapi/linux/kvtree.h -type f \
			! -path '*/tests/*' ! -path '*.egg-info/*' \
			! -path '*_cache/*' ! -path '*/__pycache__/*' -print0 |
			sort -z | xargs -0 sha256sum
	} | sha256sum
}

# install WHEELS: make the environment. pip sees only these wheels. Newer compilers have errors where
# older ones warn.
install()
{
	local venv=$DIR/venv

	rm -rf "$venv"
	python3 -m venv "$venv"
	CFLAGS=-Werror=incompatible-pointer-types KVTREE_PREFIX=$TREE \
		"$venv/bin/pip" install --disable-pip-version-check \
		--no-index --find-links "$1" "$TREE/lib/python" pytest redis
}

# wheel_with_the_library WHEELS: check that a wheel contains the C library if the library is neither
# built nor installed. In the tree it is built, so use a copy of the sources.
wheel_with_the_library()
{
	local copy=$DIR/sources pip=("$DIR/venv/bin/pip" --disable-pip-version-check)

	rm -rf "$copy"
	mkdir "$copy"
	(cd "$TREE" && cp -r --parents lib/Makefile lib/*.[ch] lib/python uapi "$copy")
	PKG_CONFIG=false "${pip[@]}" wheel --no-deps --no-index --find-links "$1" -w "$copy" \
		"$copy/lib/python"
	"${pip[@]}" install --no-deps --no-index --target "$copy/installed" "$copy"/*.whl
	(cd "$copy/installed" && "$DIR/venv/bin/python" -c 'import kvtree')
	! readelf -d "$copy"/installed/kvtree/_native.*.so | grep 'NEEDED.*libkvtree' || return
	rm -rf "$copy"
}

main()
{
	local wheels now

	mkdir -p "$DIR"
	wheels=$(wheels)
	exec 5>"$DIR/lock"
	flock 5
	now=$(fingerprint)
	if [ "$(cat "$DIR/fingerprint" 2>/dev/null)" != "$now" ]; then
		rm -f "$DIR/fingerprint"
		run_logged "$DIR/install.log" 'python: installing the package' '' \
			install "$wheels"
		run_logged "$DIR/wheel.log" 'python: building a wheel' '' \
			wheel_with_the_library "$wheels"
		echo "$now" >"$DIR/fingerprint"
	fi
	echo "$DIR/venv/bin/python"
}

main "$@"
