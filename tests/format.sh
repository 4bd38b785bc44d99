#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every C file of the project looks as clang-format has it: format.sh SOURCE
set -u
cd "$1" || exit 1
if ! command -v clang-format >/dev/null || ! git ls-files >/dev/null 2>&1; then
	echo 'skipped: clang-format or the repository is not there'
	exit 77
fi
git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror
