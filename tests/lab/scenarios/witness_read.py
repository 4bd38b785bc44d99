# SPDX-License-Identifier: Apache-2.0
"""READ and WRITE by rping, both ways between two hosts, over RoCE and iWARP."""
import witness

TOPOLOGY = "one guest"
ON_DEMAND = True  # separate_hosts includes it


def run(lab):
    for kind in ("rxe", "siw"):
        witness.read(lab.host(1), lab.host(2), kind)
        witness.read(lab.host(2), lab.host(1), kind)
