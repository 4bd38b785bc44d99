# SPDX-License-Identifier: Apache-2.0
"""The publishing threads of two feeds need the same number of user instructions for the same records, with 0 and with
4 remote subscribers."""
import cpu
from guests import Failed
from hosts import Skipped

TOPOLOGY = "one guest"
SECONDS = 300
SUBSCRIBERS = 4
TRIES = 3
BOUND = 1.02  # how many records one flush covers depends on time, and callgrind runs one thread at a time


def run(lab):
    if not lab.host(1).run("command -v valgrind", status=None):
        raise Skipped("valgrind is missing")
    for _ in range(TRIES):  # a difference by chance does not come back
        fewer, more = cpu.instructions(lab, SUBSCRIBERS)
        lab.note(f"{fewer} and {more} instructions of two feeds with the same records, {SUBSCRIBERS} subscribers to "
                 "one of the two")
        if 0 < more <= fewer * BOUND:
            return
    raise Failed(f"found {fewer} and {more} instructions, expected at most {BOUND} times as many")
