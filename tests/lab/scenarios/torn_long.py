# SPDX-License-Identifier: Apache-2.0
"""The same with a million READs: 125,000 of each size of slot over each kind of device."""
import torn_reads

TOPOLOGY = "one guest, bytewise"
SECONDS = 7200
ON_DEMAND = True


def run(lab):
    torn_reads.none_wrong(lab, 125000)
