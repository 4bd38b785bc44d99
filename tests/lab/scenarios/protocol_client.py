# SPDX-License-Identifier: Apache-2.0
"""A subscriber of docs/protocol.md and pyverbs alone reads what `tickbus cat` prints, and its notices."""
import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS, NOTICES = 800, 20


def run(lab):
    publisher = lab.host(1)
    daemon = bus.pubd(publisher, bus.market())
    witnesses = {}
    for kind, number in zip(lab.kinds, (2, 3)):
        host = lab.host(number)
        witnesses[kind] = host.start(
            f"exec /usr/bin/python3 -B $SOURCE/tests/lab/protocol_client.py {host.address(kind)} "
            f"{publisher.address(kind)} {bus.PORT} nasdaq.quote {RECORDS} {NOTICES} >$OUT/witness.{kind}")
    bus.cat(publisher, publisher, "shm", "quote", f"--count {RECORDS}", out="witness.shm").wait()
    wanted = bus.rows(lab, "witness.shm")
    for kind, witness in witnesses.items():
        witness.wait()
        found = bus.rows(lab, f"witness.{kind}")
        if found != wanted or wanted[0] != RECORDS:
            raise Failed(f"over {kind}: found {found[0]} rows that are not the {wanted[0]} of tickbus cat")
    daemon.signal("TERM")
    daemon.wait()
