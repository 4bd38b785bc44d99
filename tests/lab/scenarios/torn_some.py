# SPDX-License-Identifier: Apache-2.0
"""The same with 200,000 READs: 25,000 of each size of slot over each kind of device."""
import torn_reads

TOPOLOGY = "one guest, bytewise"
SECONDS = 1500
ON_DEMAND = True


def run(lab):
    torn_reads.none_wrong(lab, 25000)
