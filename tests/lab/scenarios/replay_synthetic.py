# SPDX-License-Identifier: Apache-2.0
"""A synthetic day of 2,000 symbols: rows over RoCE and iWARP on other hosts equal those over shared memory."""
import bus
import replay

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    replay.equal_rows(lab, bus.synthetic_file(lab, 20000, symbols=2000), ("quote", "trade"), 32768)
