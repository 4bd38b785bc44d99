# SPDX-License-Identifier: Apache-2.0
"""A synthetic day of 8,000 symbols: rows over RoCE and iWARP on other hosts equal those over shared memory."""
import bus
import replay

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    replay.equal_rows(lab, bus.synthetic_file(lab, 70000), ("quote", "trade"), 65536)
