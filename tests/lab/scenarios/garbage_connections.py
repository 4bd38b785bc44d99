# SPDX-License-Identifier: Apache-2.0
"""Garbage from strangers, silence and a storm of connects: refused or dropped with a reason, others unaffected."""
import strangers

TOPOLOGY = "one guest"
SECONDS = 240


def run(lab):
    strangers.affect_nobody(lab, 30)
