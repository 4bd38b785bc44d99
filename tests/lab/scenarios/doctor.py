# SPDX-License-Identifier: Apache-2.0
"""tickbus doctor finds no fault on a healthy host, and reports each fault with a remedy. The faults: an interface
down, too little lockable memory, no listener at an address, and lost notices."""
import json
import re

import bus
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 120
GUESTS_ONLY = True
IPV6 = "fd09::2"


def doctor(host, address="", before="", status=0):
    text = host.run(f"{before}\nexec tickbus doctor --format json {address}", status)
    rows = [json.loads(line) for line in text.splitlines()]
    bad = [row for row in rows if row["verdict"] == "bad"]
    if bool(bad) != bool(status):
        raise Failed(f"found {len(bad)} bad rows with exit status {status}:\n{text}")
    return rows


def expect(rows, *wanted):
    for verdict, about, found in wanted:
        if not any(row["verdict"] == verdict and row["about"] == about and re.match(found + "$", row["found"]) and
                   bool(row["remedy"]) == (verdict != "good") for row in rows):
            raise Failed(f"found no row {verdict}, {about}, {found} in\n" + "\n".join(map(str, rows)))


def run(lab):
    publisher, reader, broken = lab.host(1), lab.host(2), lab.host(3)
    interface = reader.interface("rxe")
    reader.run(f"ip address add {IPV6}/64 dev {interface} nodad")
    expect(doctor(reader),
           ("good", "rxe2 port 1", r"active, RoCE, MTU 4096, 128 READs at once each way"),
           ("good", "rxe2 port 1", rf"listen at rdma:{re.escape(reader.rxe)}:PORT \({interface}, GID \d+\)"),
           ("good", "rxe2 port 1", r"joins a multicast group; .*"),
           ("advice", "rxe2 port 1", rf"PFC or ECN is not known at {interface}"),
           ("good", "rxe2 port 1", rf"listen at rdma:\[{IPV6}\]:PORT \({interface}, GID \d+\)"),
           ("good", "rxe2 port 1", r"the kernel does not support IPv6 groups: .*"),
           ("good", "siw2 port 1", r"active, iWARP, MTU .*"),
           ("good", "siw2 port 1", r"has no UD multicast: notices go by UDP on its interface"),
           ("good", "siw2 port 1", rf"listen at rdma:{re.escape(reader.siw)}:PORT \({reader.interface('siw')}.*\)"),
           ("good", "locked memory", "unlimited"))
    reader.run(f"ip address del {IPV6}/64 dev {interface}")

    address = bus.address_on(reader, publisher, "rxe")
    down = broken.interface("rxe")
    expect(doctor(reader, address, f"ip link set {down} down\nulimit -l 1024", 1),
           ("advice", "rxe3 port 1", "is down"),  # siw3 is enough
           ("bad", "locked memory", "at most 1048576 bytes: .*"),
           ("bad", address, f"rdma:.*: no publisher listens there"))
    broken.run(f"ip link set {down} up\n" + "".join(
        f"ip route add {route} dev {down} src {broken.rxe} table 103\n" for route in ("10.9.0.0/24", "224.0.0.0/4")))

    daemon = bus.pubd(publisher, bus.market(20))
    for kind, notice in (("rxe", "ud"), ("siw", "udp")):
        where = bus.address_on(reader, publisher, kind)
        expect(doctor(reader, where), ("good", where, "a bus with 1 topic answers"),
               ("good", where, rf"notices arrive from 239\.10\.0\.1:7472 \({notice}\)"))
    reader.block_multicast()
    expect(doctor(reader, address), ("advice", address, r"no notice arrived from 239\.10\.0\.1:7472 \(ud\) in \d+ ms: .*"))
    reader.unblock_multicast()
    daemon.signal("TERM")
    daemon.wait()
