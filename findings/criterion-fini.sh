#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Criterion 2.4.1: a check that fails in a test's `.fini` function is printed, and the test passes.
#
# Expected: `.fini` runs in the test's process, so a failed cr_assert there fails the test.
# Seen: the message is printed and the summary says that the test passed; the exit status is 0. A check that all is given
# back after a test therefore has to be the last line of the test itself.
set -eu
. "$(dirname "$0")/unpack.sh"
command -v gcc >/dev/null || { echo 'skipped: needs gcc' >&2; exit 77; }
unpack libcriterion-dev=2.4.1-2 libcriterion3=2.4.1-2

cat >"$folder/test.c" <<'C'
#include <criterion/criterion.h>
static void give_back(void) { cr_assert(0, "not all was given back"); }
Test(memory, is_given_back, .fini = give_back) { cr_assert(1); }
Test(memory, check_in_the_test_itself) { cr_assert(0, "not all was given back"); }
C
gcc -o "$folder/test" "$folder/test.c" -I"$root/usr/include" -L"${LD_LIBRARY_PATH%%:*}" -lcriterion
outcome() { # of one test: how often its message was printed, what the summary says, the exit status
	local status=0
	"$folder/test" --filter "memory/$1" >"$folder/out" 2>&1 || status=$?
	echo "printed $(grep -c 'not all was given back' "$folder/out" || true)," \
		"$(grep -o 'Passing: [0-9]* | Failing: [0-9]*' "$folder/out"), status $status"
}
expect 'a check that fails in .fini' "$(outcome is_given_back)" 'printed 1, Passing: 1 | Failing: 0, status 0'
expect 'a check that fails in the test' "$(outcome check_in_the_test_itself)" 'printed 1, Passing: 0 | Failing: 1, status 1'
