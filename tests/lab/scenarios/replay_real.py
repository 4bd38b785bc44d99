# SPDX-License-Identifier: Apache-2.0
"""A real ITCH file: rows over RoCE and iWARP on other hosts equal those over shared memory."""
import bus
import replay

TOPOLOGY = "one guest"
SECONDS = 120


def run(lab):
    replay.equal_rows(lab, bus.real_file(), ("quote", "trade", "depth10"), 131072)
