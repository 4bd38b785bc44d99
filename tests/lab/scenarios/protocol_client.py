# SPDX-License-Identifier: Apache-2.0
"""A subscriber written from docs/protocol.md alone, with pyverbs, reads the records that `tickbus cat` prints, and
their notices."""
import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
RECORDS, NOTICES = 800, 20


def run(lab):
    publisher = lab.host(1)
    daemon = bus.pubd(publisher, bus.market())
    clients = {}
    for kind, number in zip(lab.kinds, (2, 3)):
        host = lab.host(number)
        clients[kind] = host.start(
            f"exec /usr/bin/python3 -B $SOURCE/tests/lab/protocol_client.py {host.address(kind)} "
            f"{publisher.address(kind)} {bus.PORT} nasdaq.quote {RECORDS} {NOTICES} >$OUT/client.{kind}")
    bus.cat(publisher, publisher, "shm", "quote", f"--count {RECORDS}", out="client.shm").wait()
    wanted = bus.rows(lab, "client.shm")
    for kind, client in clients.items():
        client.wait()
        found = bus.rows(lab, f"client.{kind}")
        if found != wanted or wanted[0] != RECORDS:
            raise Failed(f"over {kind}: found {found[0]} rows that differ from the {wanted[0]} of tickbus cat")
    daemon.signal("TERM")
    daemon.wait()
