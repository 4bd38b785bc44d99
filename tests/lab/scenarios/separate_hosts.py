# SPDX-License-Identifier: Apache-2.0
"""Each host is a guest: READ over RoCE and iWARP, multicast, and a pulled cable."""
import witness

TOPOLOGY = "several guests"
SECONDS = 120
GUESTS_ONLY = True


def run(lab):
    for kind in ("rxe", "siw"):
        witness.read(lab.host(1), lab.host(2), kind)
        witness.latency(lab.host(1), lab.host(2), kind)
    witness.multicast(lab.host(1), lab.hosts[1:])
    lab.wait_until(lambda: lab.host(2).reaches(lab.host(1)), "the cable to be in")
    lab.host(1).unplug()
    lab.wait_until(lambda: not lab.host(2).reaches(lab.host(1)), "the cable to be out")
    lab.host(1).plug()
    lab.wait_until(lambda: lab.host(2).reaches(lab.host(1)), "the cable to be in")
