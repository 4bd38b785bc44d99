# SPDX-License-Identifier: Apache-2.0
"""READs that meet the writer: torn copies occur, none is delivered; without the check's compare some are."""
import torn_reads

TOPOLOGY = "one guest"
SECONDS = 240


def run(lab):
    torn_reads.none_wrong(lab, 2500)
    torn_reads.some_wrong_without_the_check(lab, 2500)
