#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A topic that rests costs a poll a few instructions, and one load from the topic's memory.
callgrind counts them, so a busy machine makes no difference.

    glances.py GLANCES
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST = {"Ir": 10, "Dr": 3.1, "Dw": 0.1}  # instructions, loads and stores: two loads find the word
SKIPPED = 77


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def totals(report):
    """The count of each event."""
    text = report.read_text()
    names = re.search(r"^events: (.*)", text, re.M).group(1).split()
    counts = re.search(r"^(?:totals|summary): (.*)", text, re.M).group(1).split()
    return dict(zip(names, map(int, counts)))


def main():
    if not shutil.which("valgrind"):
        skip("valgrind is not there")
    probe = subprocess.run(["valgrind", "-q", "--tool=none", sys.argv[1], "only-start"],
                           capture_output=True, text=True)
    if probe.returncode:
        skip(f"callgrind cannot read this build: {' '.join(probe.stderr.split()[:20])}")
    with tempfile.TemporaryDirectory(prefix="tickbus-glances-") as folder:
        report = pathlib.Path(folder) / "report"
        said = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted", "--dump-after=counted",
             "--cache-sim=yes", f"--callgrind-out-file={report}", sys.argv[1]],
            check=True, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TICKBUS_RUNTIME_DIR": folder}).stdout
        few, many, polls = map(int, said.split())
        counts = [totals(report.with_suffix(f".{number}")) for number in (1, 2)]
    wrong = []
    for event, most in MOST.items():
        each = (counts[1][event] - counts[0][event]) / (many - few) / polls
        print(f"{event}: {each:.2f} for each topic that rests, in each poll")
        if not 0 <= each <= most:
            wrong.append(f"{event}: found {each:.2f}, expected at most {most}")
    if counts[0]["Ir"] < polls:
        wrong.append("counted nothing")
    sys.exit("\n".join(wrong) or 0)


main()
