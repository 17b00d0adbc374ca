# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Packages of the next Debian release's backports, which the kernels of the UML
# lanes and of stock-7 come from. Sourced after common.sh.

# Days for which the newest version known is taken to be the newest.
INDEX_DAYS=7

digest()
{
	sha256sum | cut -c 1-8
}

# The suite belongs to the next Debian release: keep it out of the system's
# package lists with an apt configuration of our own.
apt_private()
{
	local tool=$1 dir=$CACHE/apt
	shift

	mkdir -p "$dir"/{lists/partial,cache/archives/partial,etc}
	echo "deb [signed-by=$KEYRING] $DEBIAN_MIRROR $NEXT_SUITE-backports main" \
		>"$dir/etc/sources.list"
	"$tool" -q \
		-o Dir::Etc::SourceList="$dir/etc/sources.list" \
		-o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null \
		-o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State::Lists="$dir/lists" \
		-o Dir::State::Status=/dev/null \
		-o Dir::Cache="$dir/cache" \
		-o APT::Sandbox::User="$(id -un)" \
		-o Acquire::Languages=none \
		-o Acquire::Retries=3 \
		"$@"
}

# Print "PACKAGE VERSION" of the newest package of this name pattern.
newest_in_archive()
{
	apt_private apt-cache dumpavail | awk -v pattern="^$1\$" '
		$1 == "Package:" { p = $2 }
		$1 == "Version:" && p ~ pattern { print p, $2 }' | sort -V | tail -n 1
}

# choose_newest NAME PATTERN: print "PACKAGE VERSION" of the package to use,
# asking the archive only when the last answer, kept under NAME, is old.
choose_newest()
{
	local known=$CACHE/newest-$1 answer

	mkdir -p "$CACHE"
	exec 6>"$CACHE/apt.lock"
	flock 6
	if [ -n "$(find "$known" -mtime "-$INDEX_DAYS" 2>/dev/null)" ]; then
		true
	elif run_logged "$CACHE/apt-update.log" "$1: looking for the newest version" '' \
			apt_private apt-get update &&
			answer=$(newest_in_archive "$2") && [ -n "$answer" ]; then
		echo "$answer" >"$known.new"
		mv "$known.new" "$known"
	elif [ -s "$known" ]; then
		say "$1: the archive cannot be reached, using the last known version"
	else
		die "no package $2 found in $NEXT_SUITE-backports"
	fi
	exec 6>&-
	cat "$known"
}
