# SPDX-License-Identifier: Apache-2.0
"""The publishing thread's user instructions for the same records, with 0 and with 4 remote subscribers."""
import cpu
from guests import Failed
from hosts import Skipped

TOPOLOGY = "one guest"
SECONDS = 300
BOUND = 1.02  # how many records one flush covers depends on time, and callgrind runs one thread at a time


def run(lab):
    if not lab.host(1).run("command -v valgrind", status=None):
        raise Skipped("valgrind is not there")
    alone, watched = cpu.instructions(lab, 0), cpu.instructions(lab, 4)
    lab.note(f"{alone} instructions with 0 subscribers, {watched} with 4")
    if watched > alone * BOUND or not alone:
        raise Failed(f"found {alone} instructions with 0 subscribers and {watched} with 4, expected at most "
                     f"{BOUND} times as many")
