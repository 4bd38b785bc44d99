# SPDX-License-Identifier: Apache-2.0
"""Garbage, silence and many good connections from strangers: each is refused or dropped with a reason, memory is
bounded, and other subscribers are not affected."""
import strangers

TOPOLOGY = "one guest"
SECONDS = 240


def run(lab):
    strangers.others_unaffected(lab, 60)
