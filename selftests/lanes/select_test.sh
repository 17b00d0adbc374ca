#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# select_test.sh: test that T selects the right programs and cases, and that a lane fails if T
# selects nothing. Prints what is wrong.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=selftests/lanes/lane.sh
. "$LANES/lane.sh"

DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

# expect WHAT GOT WANTED: print a message unless both are equal.
expect()
{
	[ "$2" = "$3" ] || echo "$1: got '$2', not '$3'"
}

# Replaces the function of lane.sh: the programs that exist.
list_programs()
{
	printf '/%s\n' ring uring uring_bad run-link run-go
}

# selected T: print the names of programs and the pattern of cases that T selects.
selected()
{
	T=$1
	echo "$(programs | xargs -rn 1 basename | xargs) $(cases)"
}

# refused T: print the message about a T that cannot be on a kernel's command line.
refused()
{
	# shellcheck disable=SC2016 # it expands them
	T=$1 bash -c '. "$1/common.sh"; . "$1/lane.sh"' select_test.sh "$LANES" 2>&1 ||
		echo refused
}

# ran ARGUMENT...: print the cases that a program of the harness runs with these arguments.
ran()
{
	"$DIR/ring" "$@" | sed -n 's/^ok [0-9]* //p' | xargs
}

make_ring()
{
	cat >"$DIR/ring.c" <<-END
		#include "kselftest_harness.h"
		void kvt_timed_out(const char *name, int pid) { }
		void kvt_leftovers_begin(void) { }
		void kvt_leftovers_release(void) { }
		void kvt_leftovers_remove(void) { }
		FIXTURE(ring) { };
		FIXTURE_SETUP(ring) { }
		FIXTURE_TEARDOWN(ring) { }
		TEST_F(ring, one) { }
		TEST_F(ring, other) { }
		TEST(one_more) { }
		TEST_HARNESS_MAIN
	END
	gcc -std=gnu11 -I"$TOP/selftests" -o "$DIR/ring" "$DIR/ring.c"
}

# left TEXT...: make results with these texts, and print which of them drop_empty leaves.
left()
{
	local text n=0

	LOGS=$DIR/results
	rm -rf "$LOGS"
	mkdir "$LOGS"
	: >"$LOGS/kunit-module.ktap"
	printf 'KTAP version 1\nok 1 insmod_kvtree\n' >"$LOGS/lane.ktap"
	for text in "$@"; do
		n=$((n + 1))
		printf '%b' "$text" >"$LOGS/$n.ktap"
	done
	(drop_empty) 2>&1 || return 0
	(cd "$LOGS" && echo ./[1-9]*.ktap)
}

# modules CONFIG PATH...: print the test modules for a kernel with the line CONFIG in its
# configuration, if these files were built.
modules()
{
	MODULE_DIR=$DIR/bench
	mkdir -p "$MODULE_DIR"
	echo "$1" >"$MODULE_DIR/.config"
	shift
	printf '%s\n' "$@" >"$MODULE_DIR/modules.order"
	(test_modules "$MODULE_DIR") 2>&1 | sed "s,$MODULE_DIR/,," | xargs
}

main()
{
	local order=(/fault/kmod/tests/kvt_test.ko kmod/tests/bench.ko kmod/kvtree.ko kmod/tests/a.o)
	local none='select_test.sh: no test modules were built, and the kernel has KUnit'
	local nothing='TAP version 13\n1..0\n# PASSED\n' one='TAP version 13\n1..1\nok 1 one\n'

	make_ring
	expect 'T=' "$(selected '')" 'ring uring uring_bad run-link run-go '
	expect 'T=ring' "$(selected ring)" 'ring uring uring_bad '
	expect 'T=ring*' "$(selected 'ring*')" 'ring '
	expect 'T=ring.one' "$(selected ring.one)" 'ring one'
	expect 'T=*.one*' "$(selected '*.one*')" 'ring uring uring_bad run-link one*'
	expect 'T=run-go.one' "$(selected run-go.one)" ' one'

	expect 'a pattern is taken' "$(refused 'ring*.one?')" ''
	expect 'two patterns' "$(refused 'ring uring')" "$(
		echo "select_test.sh: T='ring uring': one pattern, without blanks and quotes"
		echo refused)"
	expect 'quotes' "$(refused "ring'" | tail -n 1)$(refused 'ring"' | tail -n 1)" refusedrefused

	expect 'all cases' "$(ran)" 'global.one_more ring.one ring.other'
	expect 'one case' "$(ran -t one)" 'ring.one'
	expect 'a pattern of cases' "$(ran -t 'one*')" 'global.one_more ring.one'
	expect 'but a pattern' "$(ran -T '*er' -f 'r*')" 'ring.one'
	expect 'no case' "$(ran -t none)" ''

	expect 'test modules' "$(modules CONFIG_KUNIT=m "${order[@]}")" \
		'kmod/tests/kvt_test.ko kmod/tests/a.ko'
	expect 'no test modules' "$(modules CONFIG_KUNIT=y kmod/kvtree.ko)" "$none"
	expect 'no KUnit' "$(modules '# CONFIG_KUNIT is not set' kmod/kvtree.ko)" ''
	LEAST=5
	expect 'least of all' "$(T='' least)" 5
	expect 'least of a part' "$(T=x least)$(T='' ENGINE=bwtree least)$(T='' PARTS=x least)" 000
	unset LEAST

	T=x
	expect 'nothing ran' "$(left "$nothing")" 'select_test.sh: nothing matches T=x'
	expect 'one ran' "$(left "$nothing" "$one")" './2.ktap'
	expect 'one was skipped' "$(left "$nothing" 'KTAP version 1\n1..0 # SKIP no\n')" './2.ktap'
	expect 'one died' "$(left "$nothing" 'Segmentation fault\n')" './2.ktap'
}

main
