# SPDX-License-Identifier: Apache-2.0
"""The fabric's conformance suite, unchanged, over RoCE."""
import conformance

TOPOLOGY = "one guest"
SECONDS = 400  # on a machine that others use as well


def run(lab):
    conformance.suite(lab, "rxe")
