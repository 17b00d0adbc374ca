#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [KVTREE.KO]: kvtree at work, on what is found on this machine.
#
# Loads the module, stores the names and versions of all installed packages and
# a list of words, looks at them in several ways, and unloads the module. Every
# answer is compared with what sort, awk and grep make of the same input.
#
# To be run as root. The module is KVTREE.KO, or $KVTREE_MODULE, or the one that
# modprobe finds; the tool is the one beside this script, or the one in PATH.
# Whatever the module holds when this starts is lost; a store with the engine bwtree
# must not be there.

set -euo pipefail
export LC_ALL=C
PATH=$(cd "$(dirname "$0")" && pwd):$PATH:/usr/sbin:/sbin

MODULE=${1:-${KVTREE_MODULE:-}}
SHOW=12		# lines of an answer that are shown
TAB=$'\t'

if [ -t 1 ]; then
	BOLD=$'\e[1m' DIM=$'\e[2m' GREEN=$'\e[32m' RED=$'\e[31m' PLAIN=$'\e[0m'
else
	BOLD='' DIM='' GREEN='' RED='' PLAIN=''
fi

title()
{
	printf '\n%s== %s%s\n' "$BOLD" "$*" "$PLAIN"
}

fail()
{
	printf '\n%sFAILED: %s%s\n' "$RED" "$*" "$PLAIN" >&2
	exit 1
}

# Show lines of standard input, and how many there are beside.
show()
{
	awk -v max="$SHOW" '
		NR <= max { print "  " $0 }
		END { if (NR > max) printf "  ... %d more lines\n", NR - max }' "$@"
}

# run STATUS CMD...: show a command and what comes back, which is left in
# the file out; it must exit with STATUS.
run()
{
	local want=$1 rc=0
	shift

	printf '%s$ %s%s\n' "$DIM" "$*" "$PLAIN"
	"$@" >out 2>err || rc=$?
	show out err
	[ $rc -eq "$want" ] || fail "exit status $want expected, $rc came"
}

# Standard input is what the answer to the last command has to be. It may come
# from a pipe, and then this runs in a shell of its own: a file counts.
expect()
{
	cat >expected
	if ! cmp -s expected out; then
		echo "  --- expected, +++ came:" >&2
		diff -u expected out | sed -n '3,40s/^/  /p' >&2 || true
		fail "$1: not the expected answer"
	fi
	echo "$1" >>checked
	printf '  %sok: %s%s\n' "$GREEN" "$1" "$PLAIN"
}

# scan shows a backslash as two.
shown()
{
	sed 's/\\/\\\\/g' "$@"
}

loaded()
{
	grep -q '^kvtree ' /proc/modules
}

# udev may create the node a moment after the module is loaded.
load_module()
{
	local i

	if [ -n "$MODULE" ]; then
		run 0 insmod "$MODULE"
	else
		run 0 modprobe kvtree
	fi
	for i in $(seq 50); do
		[ ! -c /dev/kvtree ] || return 0
		sleep 0.1
	done
	fail "no /dev/kvtree after $i tries"
}

# The installed packages: name, tab, version; one line for a name.
make_packages()
{
	[ -r /var/lib/dpkg/status ] || fail 'no /var/lib/dpkg/status: this is no Debian machine'
	awk '
		/^Package: /	{ name = $2 }
		/^Status: /	{ installed = $0 ~ / installed$/ }
		/^Version: /	{ version = $2 }
		/^$/		{ if (installed) all[name] = version; installed = 0 }
		END {
			if (installed)
				all[name] = version
			for (name in all)
				print name "\t" all[name]
		}' /var/lib/dpkg/status >packages.tsv
	sort -t "$TAB" -k 1,1 packages.tsv >packages.sorted
}

# Words, each with the number of its line.
make_words()
{
	if [ -s /usr/share/dict/words ]; then
		WORDS='/usr/share/dict/words'
		awk '{ print $0 "\t" NR }' /usr/share/dict/words >words.tsv
	else
		WORDS='the paths of all installed files, since there is no /usr/share/dict/words'
		cat /var/lib/dpkg/info/*.list | sort -u | awk '{ print $0 "\t" NR }' \
			>words.tsv
	fi
	sort -t "$TAB" -k 1,1 words.tsv >words.sorted
}

line()
{
	sed -n "$1p" "$2"
}

show_packages()
{
	local n name first last

	n=$(wc -l <packages.sorted)
	first=$(line 1 packages.sorted)
	last=$(line "$n" packages.sorted)
	title "$n installed packages: name -> version"
	run 0 kvtree load --tsv packages.tsv
	run 0 kvtree stat keys
	awk '{ print $2 }' out >keys && mv keys out
	echo "$n" | expect 'as many keys as packages'

	for name in "${first%%"$TAB"*}" "${last%%"$TAB"*}" libc6; do
		run 0 kvtree get "$name"
		awk -F "$TAB" -v name="$name" '$1 == name { printf "%s", $2 }' \
			packages.tsv | expect "the version of $name"
	done
	run 1 kvtree get no-such-package
	: | expect 'nothing, and exit status 1'

	run 0 kvtree scan --prefix lib --limit 10
	grep '^lib' packages.sorted | line 1,10 - |
		expect 'the first ten that begin with lib'
	run 0 kvtree scan --prefix lib --limit 10 --reverse
	grep '^lib' packages.sorted | tac | line 1,10 - |
		expect 'the last ten that begin with lib, backwards'
	run 0 kvtree scan --start d --end e
	grep '^d' packages.sorted | expect 'all from d to below e'
	run 0 kvtree scan
	expect 'all packages, as sort orders them' <packages.sorted
}

show_words()
{
	local n some

	n=$(wc -l <words.sorted)
	some=$(line $((n / 2)) words.tsv)
	title "$n words in a store of their own ($WORDS)"
	run 0 kvtree store create words --mode 0644
	run 0 kvtree load --store words --tsv words.tsv
	run 0 kvtree --store words get "${some%%"$TAB"*}"
	printf '%s' "${some#*"$TAB"}" | expect 'its line'
	run 0 kvtree --store words scan
	shown words.sorted | expect 'all words, as sort orders them'
	run 0 kvtree --store words scan --keys-only --reverse
	cut -f 1 words.sorted | tac | shown | expect 'all words, backwards'
}

show_changes()
{
	local version

	title 'changes'
	run 0 kvtree del bash
	run 1 kvtree get bash
	: | expect 'gone'
	run 0 kvtree scan --prefix bas
	grep '^bas' packages.sorted | grep -v "^bash$TAB" >bas || true
	expect 'the scan does not see it either' <bas
	run 0 kvtree add visits 41
	run 0 kvtree add visits
	echo 42 | expect 'the sum'
	run 0 kvtree put colour blue
	run 0 kvtree get --print-version colour
	version=$(cat out)
	run 0 kvtree cas colour "$version" green
	run 1 kvtree cas colour "$version" red
	run 0 kvtree get colour
	printf green | expect 'the second change, from the old version, was refused'
	run 0 kvtree put colour --col 1=dark --col 2=matt
	run 0 kvtree get colour --all-cols
	printf '0=green\n1=dark\n2=matt\n' | expect 'three columns of one value'
}

show_dump()
{
	title 'dump and load'
	run 0 kvtree dump dump
	run 0 kvtree store create copy
	run 0 kvtree --store copy load dump
	run 0 kvtree --store copy dump
	expect 'the copy gives the same dump' <dump
	run 0 kvtree store list
	run 0 kvtree stat
	run 0 kvtree store destroy copy
}

main()
{
	local dir start=$SECONDS

	[ "$(id -u)" = 0 ] || fail 'this needs root, for insmod'
	command -v kvtree >/dev/null || fail 'the tool is not built: make -C tools'
	for dir in "${TMPDIR:-/tmp}" /run /dev/shm; do
		W=$(mktemp -d "$dir/kvtree-demo.XXXXXX" 2>/dev/null) && break
	done
	[ -n "$W" ] || fail 'no folder can be written to'
	trap 'rm -rf "$W"' EXIT
	[ -z "$MODULE" ] || MODULE=$(realpath "$MODULE")
	# For short names in what is shown.
	cd "$W"

	make_packages
	make_words
	[ ! -d /sys/module/kvtree_bwtree ] || rmmod kvtree_bwtree
	! loaded || rmmod kvtree
	title "the module, on Linux $(uname -r)"
	load_module
	run 0 kvtree info
	show_packages
	show_words
	show_changes
	show_dump
	title 'the end'
	run 0 rmmod kvtree
	! loaded || fail 'the module is still there'
	printf '\n%sAll %d answers were right, in %d s.%s\n' "$GREEN" \
		"$(wc -l <checked)" $((SECONDS - start)) "$PLAIN"
}

main
