# SPDX-License-Identifier: Apache-2.0
"""ib_read_lat measures READ between two hosts over RoCE."""
import witness

TOPOLOGY = "one guest"
ON_DEMAND = True  # separate_hosts includes it
GUESTS_ONLY = True


def run(lab):
    witness.latency(lab.host(1), lab.host(2), "rxe")
