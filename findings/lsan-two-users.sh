#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LeakSanitizer of GCC 12.2.0: a process whose effective user is not its real user ends with a fatal error.
#
# Expected: at the end of a program without a leak nothing is reported, whatever its users are. A process that dropped
# root for good passes, as the sanitizer makes it dumpable again.
# Seen: after seteuid() alone the program ends with status 23 and "LeakSanitizer has encountered a fatal error". The
# thread that looks at the memory may not attach: ptrace(2) compares the real user of the one with all users of the
# other. A test runner that does not look at the exit status of its tests (Criterion) reports success.
set -eu
. "$(dirname "$0")/unpack.sh"
command -v gcc >/dev/null || { echo 'skipped: needs gcc' >&2; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'skipped: only root can become another user' >&2; exit 77; }
unpack liblsan0=12.2.0-14+deb12u1

cat >"$folder/test.c" <<'C'
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
	if (count < 2)
		return 0;
	return strcmp(words[1], "effective") == 0 ? seteuid(65534) : setresuid(65534, 65534, 65534);
}
C
gcc -fsanitize=leak -o "$folder/test" "$folder/test.c"
outcome() { # of a run with these words: what it says, the exit status
	local status=0
	"$folder/test" "$@" >"$folder/out" 2>&1 || status=$?
	echo "$(grep -o 'encountered a fatal error' "$folder/out" || echo silent), status $status"
}
expect 'one user' "$(outcome)" 'silent, status 0'
expect 'another user for good' "$(outcome all)" 'silent, status 0'
expect 'another effective user' "$(outcome effective)" 'encountered a fatal error, status 23'
