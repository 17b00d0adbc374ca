# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Functions that the lane scripts share. Sourced after "set -euo pipefail".

# Let a failure end $(...) as well. Otherwise its shell would continue, and mark an incomplete cache
# as complete.
shopt -s inherit_errexit

LANES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$LANES/../.." && pwd)
BUILD=${KVT_BUILD:-$TOP/build}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/kvtree
JOBS=${JOBS:-$(nproc)}

# shellcheck source=selftests/lanes/versions
. "$LANES/versions"

# Share compiled objects between lanes and clones.
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$CACHE/ccache CCACHE_MAXSIZE=2G
export CCACHE_BASEDIR=$TOP CCACHE_NOHASHDIR=1

# Hide make's own variables from the makes that are started here: T= and the like would reach the
# kernel's build. V=1 is passed on explicitly.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL ARCH CROSS_COMPILE

# Messages go to stderr, because several scripts print a path on stdout as their result.
say()
{
	printf '%s\n' "$*" >&2
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# go_command: print a Go that is recent enough; fails if there is none.
go_command()
{
	local go version

	for go in go "/usr/lib/go-$GO_OLDEST/bin/go"; do
		go=$(command -v "$go") || continue
		version=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION)
		if printf '%s\n' "$GO_OLDEST" "${version#go}" | sort --check=quiet --version-sort; then
			echo "$go"
			return
		fi
	done
	return 1
}

elapsed()
{
	local s=$((SECONDS - ${1:-0}))

	printf '%d:%02d' $((s / 60)) $((s % 60))
}

# clock_jumped prints the seconds by which the clock has been set forward since this script began.
# They do not count as time in which a machine was busy or silent.
CLOCK_AHEAD=$(($(date +%s) - $(cut -d . -f 1 /proc/uptime)))

clock_jumped()
{
	local jumped=$(($(date +%s) - $(cut -d . -f 1 /proc/uptime) - CLOCK_AHEAD))

	echo $((jumped > 1 ? jumped : 0))
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		# ask_for_root has asked for the password. In a background process group, nobody
		# could type it, and sudo would wait for ever.
		sudo -n "$@" || {
			local rc=$?
			sudo -n true 2>/dev/null ||
				say "sudo wants a password: run \"sudo -v\" first, or this as root"
			return $rc
		}
	else
		die "need root for: $*"
	fi
}

# apt_alone CMD...: run only one of kvtree's apts at a time on this machine. apt itself waits for
# locks of packages, but not for the lock of the lists.
apt_alone()
{
	local dir=/run/lock

	[ -w "$dir" ] || dir=$CACHE
	mkdir -p "$dir"
	(
		flock -n 6 || { say 'deps: waiting for another run'; flock 6; }
		"$@" 6>&-
	) 6>"$dir/kvtree-apt-$(id -u).lock"
}

# Update the lists of packages. Wait while another program updates them, which may take minutes.
apt_update()
{
	local said try rc=0

	for try in {1..30}; do
		rc=0
		said=$(as_root env LC_ALL=C apt-get -q -o Acquire::Retries=3 update 2>&1) || rc=$?
		echo "$said"
		grep -q 'Could not get lock\|Unable to lock' <<<"$said" || break
		sleep "$try"
	done
	return $rc
}

# On a terminal, ask for sudo's password, and keep sudo from forgetting it until this script
# ends.
ask_for_root()
{
	local script=$$

	if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null || sudo -n true 2>/dev/null ||
			[ ! -t 0 ]; then
		return
	fi
	say 'packages are installed and machines are set up by sudo'
	sudo -v
	without_locks remember_password $script >/dev/null 2>&1 &
}

remember_password()
{
	while sleep 50 && kill -0 "$1" 2>/dev/null; do
		sudo -n -v
	done
}

# without_locks CMD...: in a subshell, close the files that are open here and run CMD. Otherwise
# processes that it leaves running would hold the locks for ever.
without_locks()
{
	local fd

	for fd in /proc/"$BASHPID"/fd/*; do
		fd=${fd##*/}
		# bash keeps the script itself open with a high number.
		if [ "$fd" -gt 2 ] && [ "$fd" -lt 200 ]; then
			eval "exec $fd>&-"
		fi
	done
	NEVER=
	"$@"
}

# cross arm64: print the arguments for make to build a kernel and modules for that processor, one
# per line. unpack.sh has unpacked the compiler.
cross()
{
	printf '%s\n' "ARCH=$1" CROSS_COMPILE=aarch64-linux-gnu- \
		"CC=aarch64-linux-gnu-gcc-$ARM64_GCC"
}

# user_packages FOLDER...: print the packages that these folders list as needed to build them.
user_packages()
{
	local folder

	for folder in "$@"; do
		[ ! -e "$TOP/$folder/packages" ] ||
			sed 's/#.*//' "$TOP/$folder/packages"
	done
}

NEVER=

# pause SECONDS: sleep without starting a process, for loops that wait.
pause()
{
	# A pipe to which nobody writes, but that is open for writing: reading it times out.
	[ -n "$NEVER" ] || exec {NEVER}<> <(:)
	read -rt "$1" -u "$NEVER" || true
}

# Stop a process group: first with SIGTERM, then with SIGKILL.
stop_group()
{
	kill -- "-$1" 2>/dev/null || return 0
	sleep 1
	kill -KILL -- "-$1" 2>/dev/null || true
}

# run_logged LOG TITLE COUNTER CMD...: run CMD with its output in LOG, and show progress: on a
# terminal, a line that rewrites itself, elsewhere a line now and then. COUNTER is a command that
# prints how far CMD is, or "".
#
# If LIMIT is set, CMD is stopped when nothing was written to any file of LOG's folder for LIMIT
# seconds, or after LANE_LONGEST seconds, if that is set. A slow machine alone is no reason to stop.
# Then the exit code is 124, and the file "stopped" in the folder has the reason.
run_logged()
{
	local log=$1 title=$2 counter=$3 start=$SECONDS pid rc=0 tick=0 folder why
	folder=$(dirname "$log")
	shift 3

	mkdir -p "$folder"
	rm -f "$folder/stopped"
	# CMD gets a process group of its own, so that ^C or the time limit can stop everything
	# that CMD has started.
	set -m
	without_locks "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	trap 'stop_group '"$pid"'; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		pause 0.2
		tick=$((tick + 1))
		[ $((tick % 5)) -ne 0 ] ||
			progress "$title" "$start" "$counter" $((tick / 5))
		if [ -n "${LIMIT:-}" ] && [ $((tick % 50)) -eq 0 ] &&
				why=$(past_limit "$folder" "$start"); then
			echo "$why" >"$folder/stopped"
			say "$title: stopped: $why"
			# At SIGTERM, User-Mode Linux exits in the middle of what it is doing, and
			# prints warnings about that.
			kill -KILL -- "-$pid" 2>/dev/null || true
			rc=124
		fi
	done
	wait "$pid" || rc=$((rc ? rc : $?))
	trap - INT TERM
	[ ! -t 2 ] || printf '\r\033[K' >&2
	if [ "$rc" -ne 0 ]; then
		say "$title: failed (exit $rc) after $(elapsed "$start"); end of $log:"
		tail -n 30 "$log" >&2
		return "$rc"
	fi
	if [ $((SECONDS - start)) -ge 2 ]; then
		say "$title: done in $(elapsed "$start")"
	fi
}

# past_limit FOLDER START: if the program that writes there has to be stopped, print why; fail if
# not.
past_limit()
{
	if is_silent "$1" "$LIMIT" "$2"; then
		echo "it said nothing for $LIMIT s"
	elif [ -n "${LANE_LONGEST:-}" ] &&
			[ $((SECONDS - $2)) -ge $((LANE_LONGEST + $(clock_jumped))) ]; then
		echo "it ran past its limit of $LANE_LONGEST s"
	else
		return 1
	fi
}

# is_silent FOLDER SECONDS START: was nothing written there in the last SECONDS?
is_silent()
{
	local longest=$(($2 + $(clock_jumped)))

	[ $((SECONDS - $3)) -ge "$longest" ] &&
		[ -z "$(find "$1" -maxdepth 1 -type f -newermt "-$longest seconds" -print -quit)" ]
}

progress()
{
	local title=$1 start=$2 counter=$3 tick=$4 count=

	if [ -t 2 ]; then
		[ -z "$counter" ] || count=", $(eval "$counter")"
		printf '\r\033[K%s: %s%s' "$title" "$(elapsed "$start")" "$count" >&2
	elif [ $((tick % 20)) -eq 0 ]; then
		[ -z "$counter" ] || count=", $(eval "$counter")"
		say "$title: $(elapsed "$start")$count"
	fi
}

# venv NAME PACKAGE==VERSION...: print the bin directory of a Python environment with these
# packages. It is made on first use, and patched with patches/NAME.
venv()
{
	local name=$1 key dir
	shift

	key=$({
		printf '%s\n' "$@" "$(python3 --version)"
		find "$LANES/patches/$name" -type f -exec cat {} + 2>/dev/null || true
	} | sha256sum | cut -c 1-12)
	dir=$CACHE/venv-$name-$key
	mkdir -p "$CACHE"
	exec 6>"$dir.lock"
	flock 6
	if [ ! -e "$dir/.complete" ]; then
		rm -rf "$dir"
		run_logged "$dir.log" "$name: setting up from PyPI" '' \
			make_venv "$dir" "$name" "$@"
		touch "$dir/.complete"
	fi
	exec 6>&-
	echo "$dir/bin"
}

make_venv()
{
	local patch

	python3 -m venv "$1"
	"$1/bin/pip" install -q --disable-pip-version-check "${@:3}"
	for patch in "$LANES/patches/$2"/*.patch; do
		[ ! -e "$patch" ] || patch -d "$1"/lib/python3*/site-packages -p 1 -i "$patch"
	done
}
