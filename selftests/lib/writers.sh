# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Clients that write to kvtree-server while something fails, and record its answers. Sourced after
# server.sh.
#
# In each round, writer W sets its keys, write:ROUND:{W:1} and so on, to the number of the round.
# Each round has other keys, so that acknowledged keys are never written again, and can be checked
# at the end. A writer sends a command only after the answer to the previous one. WORK/answers-W has
# a line for each answer, in order: the round, the key, and the answer. Unanswered commands may have
# been executed. A part of the key is in braces, so that a proxy selects the same server in each
# round.
#
# The script that sources this defines cli(), which runs redis-cli with address and password.

WRITERS=3 WRITER_KEYS=30
WRITER_PIDS=()

# note_answers W ROUND: record the answers. Fails if there are fewer than commands.
note_answers()
{
	local i=0 answer

	while IFS= read -r answer; do
		# redis-cli prints an empty line after an error.
		[ -n "$answer" ] || continue
		i=$((i + 1))
		echo "$2 write:$2:{$1:$i} $answer"
	done
	[ $i -eq $WRITER_KEYS ]
}

# write_rounds W: write rounds until writers_end is called.
write_rounds()
{
	local w=$1 round=0 i

	while [ ! -e "$WORK/writers-end" ]; do
		round=$((round + 1))
		for i in $(seq $WRITER_KEYS); do
			echo "SET write:$round:{$w:$i} $round"
		done | cli 2>&1 | note_answers "$w" $round >>"$WORK/answers-$w"
		if [ "${PIPESTATUS[2]}" -ne 0 ]; then
			echo "writer $w, round $round: not an answer for each command:"
			tail -n 3 "$WORK/answers-$w"
			return
		fi
	done
}

writers_start()
{
	local w

	rm -f "$WORK"/writers-end "$WORK"/answers-*
	WRITER_PIDS=()
	for w in $(seq $WRITERS); do
		: >"$WORK/answers-$w"
		write_rounds "$w" >"$WORK/writer-$w.log" 2>&1 </dev/null &
		WRITER_PIDS+=($!)
	done
}

# rounds W: print how many rounds the writer has ended.
rounds()
{
	local lines

	mapfile -t lines <"$WORK/answers-$1"
	echo $((${#lines[@]} / WRITER_KEYS))
}

# shellcheck disable=SC2317 # called by wait_until
all_have_ended_rounds()
{
	local w

	for w in $(seq $WRITERS); do
		[ "$(rounds "$w")" -ge "${WANTED[w]}" ] || return
	done
}

# writers_go_on ROUNDS: wait until each writer has ended ROUNDS more. If ROUNDS is at least 2,
# WHOLE[W] is then a round that began and ended meanwhile.
writers_go_on()
{
	local w

	WANTED=() WHOLE=()
	for w in $(seq $WRITERS); do
		WANTED[w]=$(($(rounds "$w") + $1))
		WHOLE[w]=${WANTED[w]}
	done
	wait_until all_have_ended_rounds || cat "$WORK"/writer-*.log
}

# answers_of_whole_rounds: print key and answer for the rounds that WHOLE names.
answers_of_whole_rounds()
{
	local w

	for w in $(seq $WRITERS); do
		sed -n "s/^${WHOLE[w]} //p" "$WORK/answers-$w"
	done
}

# counted FILE: print each different line once, after its number of occurrences.
counted()
{
	sort "$1" | uniq -c | sed 's/^ *//'
}

# writers_end: wait for the writers, and print what was wrong.
writers_end()
{
	: >"$WORK/writers-end"
	[ ${#WRITER_PIDS[@]} -eq 0 ] || wait "${WRITER_PIDS[@]}"
	WRITER_PIDS=()
	cat "$WORK"/writer-*.log
}

# nothing_is_lost ANSWERS... <RECORDS: check that RECORDS, as "kvtree scan" prints them, have
# everything that was acknowledged in these files, and nothing that was not sent. Prints what is
# wrong.
nothing_is_lost()
{
	cat "$WORK"/answers-* >"$WORK/answers"
	awk -v least=$((WRITERS * WRITER_KEYS)) '
		part == "sent" { sent[$2] = $1 }
		part == "acknowledged" && $3 == "OK" { acknowledged[$2] = $1; n++ }
		part == "there" {
			there[$1] = $2
			if (!($1 in sent) || $2 != sent[$1])
				print $1 " is " $2 ", which nobody wrote"
		}
		END {
			for (key in acknowledged)
				if (!(key in there))
					print key " is lost, which was acknowledged"
			if (n < least)
				print n + 0 " changes were acknowledged, and not " least
		}' part=sent "$WORK/answers" part=acknowledged "$@" part=there - |
		head -n 20
}
