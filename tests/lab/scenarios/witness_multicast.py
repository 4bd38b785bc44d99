# SPDX-License-Identifier: Apache-2.0
"""UD multicast by mckey, from one host to all others."""
import witness

TOPOLOGY = "one guest"
ON_DEMAND = True  # separate_hosts has it, too


def run(lab):
    witness.multicast(lab.host(1), lab.hosts[1:])
