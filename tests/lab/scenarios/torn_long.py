# SPDX-License-Identifier: Apache-2.0
"""A million READs that meet the writer, or as many as TICKBUS_LAB_READS says: no wrong record."""
import torn_reads

TOPOLOGY = "one guest, bytewise"
SECONDS = 7200
ON_DEMAND = True


def run(lab):
    torn_reads.none_wrong(lab, torn_reads.reads_wanted(1000000))
