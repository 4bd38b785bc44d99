# SPDX-License-Identifier: Apache-2.0
"""The fabric conformance suite over RoCE."""
import conformance

TOPOLOGY = "one guest, steady"
SECONDS = 1200


def run(lab):
    conformance.suite(lab, "rxe")
