# SPDX-License-Identifier: Apache-2.0
"""The fabric conformance suite over iWARP."""
import conformance

TOPOLOGY = "one guest"
SECONDS = 400  # on a busy machine


def run(lab):
    conformance.suite(lab, "siw")
