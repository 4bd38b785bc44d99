# SPDX-License-Identifier: Apache-2.0
"""Every host has an active RoCE and an active iWARP device. Only RoCE supports multicast."""
import re

from guests import Failed

TOPOLOGY = "one guest"
GUESTS_ONLY = True


def run(lab):
    for host in lab.hosts:
        for kind, transport, groups in (("rxe", "InfiniBand", r"[1-9]\d*"), ("siw", "iWARP", "0")):
            text = host.run(f"ibv_devinfo -v -d {kind}{host.number}")
            for wanted in ("PORT_ACTIVE", f"transport:\t+{transport} ", f"max_mcast_grp:\t+{groups}$"):
                if not re.search(wanted, text, re.M):
                    raise Failed(f"{kind}{host.number}: found no {wanted!r} in\n{text}")
