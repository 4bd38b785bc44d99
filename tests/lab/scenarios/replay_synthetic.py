# SPDX-License-Identifier: Apache-2.0
"""A synthetic day of 8,000 symbols: rows over RoCE and iWARP on other hosts equal those over shared memory."""
import bus
import replay
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 150
SYMBOLS, MESSAGES = 8000, 64512  # the shortest day of so many symbols


def run(lab):
    replay.equal_rows(lab, bus.synthetic_file(lab, MESSAGES, SYMBOLS), ("quote",), 65536)
    lines = (lab.topology.folder / "quote.1.shm").read_text().splitlines()
    column = lines[0].split(",").index("instrument")
    found = len({line.split(",")[column] for line in lines[1:]})
    if found != SYMBOLS:
        raise Failed(f"found rows of {found} instruments, expected {SYMBOLS}")
