#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Twice the messages or lines take about twice the instructions, whatever a stranger writes in them.
callgrind counts instructions, so a busy machine makes no difference.

    costs.py COSTS
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# The logarithm adds a tenth at these sizes, and a table that doubles a fifth. A square would give 4.
MOST = 2.4
SKIPPED = 77


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def total(report):
    return int(re.search(r"^(?:totals|summary): (\d+)", report.read_text(), re.M).group(1))


def main():
    if not shutil.which("valgrind"):
        skip("valgrind is not there")
    probe = subprocess.run(["valgrind", "-q", "--tool=none", sys.argv[1], "only-start"],
                           capture_output=True, text=True)
    if probe.returncode:
        skip(f"callgrind cannot read this build: {' '.join(probe.stderr.split()[:20])}")
    # Filling memory that is freed would count, too.
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
    with tempfile.TemporaryDirectory(prefix="tickbus-costs-") as folder:
        report = pathlib.Path(folder) / "report"
        names = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted", "--dump-after=counted",
             f"--callgrind-out-file={report}", sys.argv[1]],
            check=True, capture_output=True, text=True, env=environment).stdout.splitlines()
        counts = [total(report.with_suffix(f".{number}")) for number in range(1, 2 * len(names) + 1)]
    wrong = []
    for name, once, twice in zip(names, counts[::2], counts[1::2]):
        if not once:
            sys.exit(f"{name}: counted nothing")
        line = f"{name}: {once} instructions, and {twice / once:.2f} times as many for twice the input"
        print(line)
        if twice > MOST * once:
            wrong.append(f"{line}, expected at most {MOST}")
    sys.exit("\n".join(wrong) or 0)


main()
