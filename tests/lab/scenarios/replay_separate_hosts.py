# SPDX-License-Identifier: Apache-2.0
"""Each host is a guest: rows over RoCE and iWARP, on one other host and then on two, equal those over shared
memory."""
import bus
import replay

TOPOLOGY = "several guests"
SECONDS = 180


def run(lab):
    path = bus.synthetic_file(lab, 3000, symbols=100)
    for hosts in (2, 3):
        others = [(number, kind) for number in range(2, hosts + 1) for kind in lab.kinds]
        replay.equal_rows(lab, path, ("quote",), 8192, (replay.LOCAL, *others))
