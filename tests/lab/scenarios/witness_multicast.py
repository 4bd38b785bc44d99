# SPDX-License-Identifier: Apache-2.0
"""UD multicast by mckey, from a host to all others."""
import witness

TOPOLOGY = "one guest"
ON_DEMAND = True  # separate_hosts includes it


def run(lab):
    witness.multicast(lab.host(1), lab.hosts[1:])
