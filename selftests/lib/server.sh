# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Functions for the scripts that test kvtree-server: start and stop the server, and run parts that
# report in KTAP themselves. Sourced after checks.sh.
#
# WORK is a folder for the server's messages. KVTREE_GO is the folder of the program that
# selftests/lanes/go.sh compiles.

SERVER=${KVTREE_GO:-$TOP/build/go}/kvtree-server
SERVER_PID=''
SERVER_LOG=''
export LC_ALL=C

# server_ended: has the server ended? It stays a zombie until it is waited for.
server_ended()
{
	! grep -q '^State:[[:space:]]*[^Z]' "/proc/$SERVER_PID/status" 2>/dev/null
}

server_is_up()
{
	grep -q 'kvtree-server: ready on ' "$SERVER_LOG" || server_ended
}

# server_start ARGUMENT...: start a server, and return when it is ready. A server that a case starts
# is killed at the end of the case, which is a process of its own. Each server has its own log file.
server_start()
{
	[ "$BASHPID" = $$ ] || trap server_kill EXIT
	SERVER_LOG=$(mktemp "$WORK/server-log.XXXXXX") || return
	"$SERVER" "$@" </dev/null >"$SERVER_LOG" 2>&1 &
	SERVER_PID=$!
	if ! wait_until server_is_up || server_ended; then
		echo "kvtree-server $*: $(cat "$SERVER_LOG")"
		server_kill
		return 1
	fi
}

# server_stop: stop the server, and print a message if it does not exit in order.
server_stop()
{
	local rc=0

	kill -TERM "$SERVER_PID"
	wait_until server_ended || kill -KILL "$SERVER_PID"
	wait "$SERVER_PID" || rc=$?
	SERVER_PID=
	[ $rc -eq 0 ] || echo "kvtree-server: exit status $rc: $(cat "$SERVER_LOG")"
	return $rc
}

server_kill()
{
	[ -n "$SERVER_PID" ] || return 0
	kill -KILL "$SERVER_PID"
	wait "$SERVER_PID"
	SERVER_PID=
} 2>/dev/null

# server_refuses STATUS TEXT ARGUMENT...: the server must exit with STATUS, and print TEXT. If it
# starts instead, it is stopped.
server_refuses()
{
	expect "$1" "$2" timeout -k 10 60 "$SERVER" "${@:3}"
}

# part NAME CMD...: report the KTAP results of a program as subtests of one result.
part()
{
	local name=$1 rc=0 result=ok
	shift

	selected "$name" || return 0
	echo "    # Subtest: $name"
	"$@" </dev/null 2>&1 | sed 's/^/    /'
	rc=${PIPESTATUS[0]}
	NUMBER=$((NUMBER + 1))
	if [ "$rc" -ne 0 ]; then
		echo "# exit status $rc"
		result='not ok'
		FAILED=$((FAILED + 1))
	fi
	echo "$result $NUMBER $name"
}

# says WANTED CMD...: CMD must print exactly WANTED.
says()
{
	local wanted=$1 said rc=0
	shift

	said=$("$@" 2>&1) || rc=$?
	[ "$said" != "$wanted" ] || return 0
	echo "$*: exit status $rc: it says (<) what it should not (>)"
	diff <(echo "$said") <(echo "$wanted") | head -n 20
	return 1
}

# missing PROGRAM...: print the programs that do not exist, among them SERVER.
missing()
{
	local p

	for p in "$@"; do
		command -v "$p" >/dev/null || echo "$p"
	done
}
