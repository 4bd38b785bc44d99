# SPDX-License-Identifier: Apache-2.0
"""The fabric conformance suite over RoCE."""
import conformance

TOPOLOGY = "one guest"
SECONDS = 400  # on a busy machine


def run(lab):
    conformance.suite(lab, "rxe")
