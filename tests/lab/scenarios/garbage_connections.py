# SPDX-License-Identifier: Apache-2.0
"""Garbage from strangers, silence, good connects in a row: refused or dropped with a reason, memory is bounded, others
unaffected."""
import strangers

TOPOLOGY = "one guest"
SECONDS = 240


def run(lab):
    strangers.affect_nobody(lab, 100)
