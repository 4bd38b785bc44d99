# SPDX-License-Identifier: Apache-2.0
"""Strangers again, with a thousand good connects in a row."""
import strangers

TOPOLOGY = "one guest"
SECONDS = 300
ON_DEMAND = True


def run(lab):
    strangers.affect_nobody(lab, 1000)
