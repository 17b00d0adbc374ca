# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Find packages in the backports of the next Debian release, where the kernels of the UML
# lanes and of stock-7 come from, and in that release for other processors. Sourced
# after common.sh.

# Ask the archive for newer versions after this many days.
INDEX_DAYS=7

# Days after which unused directories are removed from the cache.
UNUSED_DAYS=60

digest()
{
	sha256sum | cut -c 1-8
}

# The suite belongs to the next Debian release: keep it out of the system's
# package lists with an apt configuration of our own. APT_ARCH is for packages of that
# release for another processor.
apt_private()
{
	local tool=$1 dir=$CACHE/apt${APT_ARCH:+-$APT_ARCH} suite=$NEXT_SUITE
	shift

	[ -n "${APT_ARCH:-}" ] || suite+=-backports
	mkdir -p "$dir"/{lists/partial,cache/archives/partial,etc}
	echo "deb [signed-by=$KEYRING] $DEBIAN_MIRROR $suite main" >"$dir/etc/sources.list"
	"$tool" -q \
		${APT_ARCH:+-o APT::Architecture="$APT_ARCH" -o APT::Architectures="$APT_ARCH"} \
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

# Print "PACKAGE VERSION" of all packages there of this name pattern, the newest last.
in_archive()
{
	apt_private apt-cache dumpavail | awk -v pattern="^$1\$" '
		$1 == "Package:" { p = $2 }
		$1 == "Version:" && p ~ pattern { print p, $2 }' | sort -V
}

# of_archive PATTERN GOOD: print GOOD if the archive has it, or else the newest version.
of_archive()
{
	local all
	all=$(in_archive "$1")

	grep -xF -e "$2" <<<"$all" || tail -n 1 <<<"$all"
}

# choose NAME PATTERN GOOD: print "PACKAGE VERSION" of the package to use. GOOD is the one that
# is known to work. The archive's answer is kept under NAME. If it is old, the archive is asked
# again, unless the answer is GOOD.
choose()
{
	local name=$1 pattern=$2 good=$3 known answer

	[ "${KVT_NEWEST:-0}" != 1 ] || name+=-of-all good=
	known=$CACHE/newest-$name
	mkdir -p "$CACHE"
	exec 6>"$CACHE/apt.lock"
	flock 6
	if grep -qsxF -e "$good" "$known"; then
		true
	elif [ -n "$(find "$known" -mtime "-$INDEX_DAYS" 2>/dev/null)" ]; then
		true
	elif run_logged "$CACHE/apt-update.log" "$name: asking the archive for versions" '' \
			apt_private apt-get update &&
			answer=$(of_archive "$pattern" "$good") && [ -n "$answer" ]; then
		echo "$answer" >"$known.new"
		mv "$known.new" "$known"
	elif [ -s "$known" ]; then
		say "$name: the archive cannot be reached, using the last known version"
	else
		die "no package $pattern found in $NEXT_SUITE-backports"
	fi
	exec 6>&-
	[ -z "$good" ] || grep -qxF -e "$good" "$known" ||
		say "$name: other kernel than pinned: $(cat "$known"), not $good"
	cat "$known"
}

# forget NAME: ask the archive again, because it may no longer have that version.
forget()
{
	[ "${KVT_NEWEST:-0}" != 1 ] || set -- "$1-of-all"
	rm -f "$CACHE/newest-$1"
}

# made_once DIRECTORY TITLE COUNTER MAKER...: print this directory of the cache. On first use,
# "MAKER... DIRECTORY.new" makes it, while other callers wait.
made_once()
{
	local dir=$1 title=$2
	mkdir -p "$CACHE"
	exec 9>"$dir.lock"
	flock -n 9 || { say "$title: waiting for another run"; flock 9; }
	if [ ! -d "$dir" ]; then
		run_logged "$dir.log" "${@:2}" "$dir.new"
		mv "$dir.new" "$dir"
	fi
	used "$dir"
	exec 9>&-
	echo "$dir"
}

# used DIRECTORY: record that it was used today. Remove directories of the same kind, for other
# versions and patches, that were not used for a long time: they are large.
used()
{
	local old

	touch "$1/.kvtree-used" 2>/dev/null || as_root touch "$1/.kvtree-used"
	find "$CACHE" -mindepth 2 -maxdepth 2 -name .kvtree-used -mtime "+$UNUSED_DAYS" \
		-printf '%h\n' | while read -r old; do
		say "cache: removing $old, not used for $UNUSED_DAYS days"
		rm -rf --one-file-system "$old" 2>/dev/null ||
			as_root rm -rf --one-file-system "$old"
		rm -f "$old.lock" "$old.log"
	done
}
