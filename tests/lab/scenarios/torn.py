# SPDX-License-Identifier: Apache-2.0
"""READs that meet the writer: torn copies occur, and no torn copy is delivered. Without comparing the check, some
are."""
import torn_reads

TOPOLOGY = "one guest, bytewise"
SECONDS = 900


def run(lab):
    torn_reads.none_wrong(lab, torn_reads.reads_wanted(120000))
    torn_reads.some_wrong_without_the_check(lab)
