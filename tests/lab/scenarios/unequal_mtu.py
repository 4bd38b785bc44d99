# SPDX-License-Identifier: Apache-2.0
"""Interfaces with unequal MTUs over RoCE, and an MTU that falls under a connection. The publisher refuses a path MTU that
its port does not have, and the reader prints why. It goes on when the MTUs fit, and no record is lost."""
import json

import bus
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
GUESTS_ONLY = True
SMALL, LARGE = 1500, 4200  # MTUs of interfaces
BACKLOG = 100              # records that take READs of several packets
REASON = "the path MTU of this connection is 4096 bytes, but the {}'s port has 1024"


def set_mtu(host, mtu):
    host.run(f"ip link set {host.interface('rxe')} mtu {mtu}")


def falls_behind(lab, publisher, reader):
    """Stops a reader until it has so many records to READ."""
    reader.process.signal("STOP")
    head = bus.heads(publisher)["nasdaq.quote"] + BACKLOG
    lab.wait_until(lambda: bus.heads(publisher)["nasdaq.quote"] >= head, "a backlog", every=0.25)


def run(lab):
    publisher, host = lab.host(1), lab.host(2)
    daemon = bus.pubd(publisher, bus.market(100), kinds=("shm", "rxe"))
    address = bus.address_on(host, publisher, "rxe")
    reader = ControlSubscriber(host, publisher, "rxe")
    reader.reads_on()

    falls_behind(lab, publisher, reader)
    set_mtu(publisher, SMALL)
    reader.process.signal("CONT")
    daemon.wait_for(rf"was refused: {REASON.format('publisher')}")
    host.run(f"tickbus cat {address} nasdaq.quote --count 1 2>&1 | grep -F \"{REASON.format('publisher')}\"")
    rows = [json.loads(line) for line in host.run(f"tickbus doctor --format json {address}", 1).splitlines()]
    if not any(row["about"] == address and row["verdict"] == "bad" and REASON.format("publisher") in row["found"] and
               "mtu" in row["remedy"] for row in rows):
        raise Failed("found no row of the doctor with both MTUs in\n" + "\n".join(map(str, rows)))
    waiting = bus.cat(host, publisher, "rxe", "quote", "--count 100")
    waiting.wait_for(f"waits: .*{REASON.format('publisher')}")

    set_mtu(publisher, LARGE)
    waiting.wait()
    reader.reads_on(BACKLOG + 10)

    falls_behind(lab, publisher, reader)
    set_mtu(host, SMALL)  # the reader's own: its next connection has a smaller path MTU
    reader.process.signal("CONT")
    reader.reads_on(BACKLOG + 10)
    reader.end(lost=0)
    set_mtu(host, LARGE)
    daemon.signal("TERM")
    daemon.wait()
