# SPDX-License-Identifier: Apache-2.0
"""The device refuses a key of another realm to a peer that knows it. Listeners on a device share registrations, but over
iWARP each connection has its own. A second hello that comes again from another host is refused."""
import secrets

import bus

TOPOLOGY = "one guest"
SECONDS = 120
SECOND = bus.PORT + 2
NAMES = ("desk", "risk")
REALMS = """realms:
  - {{ name: desk, ticket_file: {0}/desk.ticket, topics: [ nasdaq.quote, nasdaq.depth10 ] }}
  - {{ name: risk, ticket_file: {0}/risk.ticket, topics: [ nasdaq.trade, nasdaq.depth10 ] }}
"""


def second_address(lab, host, kind):
    """Another address of the machine that runs the host, or `-`. A guest has the addresses of all its hosts."""
    other = lab.host(4)
    found = other.address(kind)
    return found if other.guest is host.guest and found != host.address(kind) else "-"


def run(lab):
    publisher, readers = lab.host(1), dict(zip(lab.kinds, (lab.host(2), lab.host(3))))
    tickets = {name: secrets.token_hex(32) for name in NAMES}
    for host in (publisher, *readers.values()):
        host.run("umask 077\n" + "".join(f"echo {ticket} >$TICKBUS_RUNTIME_DIR/{name}.ticket\n"
                                         for name, ticket in tickets.items()))
    daemon = bus.pubd(publisher, bus.market(), topics=("quote", "trade", "depth10"),
                      also=[f"rdma:{publisher.address(kind)}:{SECOND}" for kind in lab.kinds],
                      below=REALMS.format(publisher.environment()["TICKBUS_RUNTIME_DIR"]))
    for kind, host in readers.items():
        other = second_address(lab, host, kind)
        print(host.run(f"/usr/bin/python3 -B $SOURCE/tests/lab/realms_client.py {host.address(kind)} {other} "
                       f"{publisher.address(kind)} {bus.PORT} {SECOND} {tickets['desk']} {tickets['risk']} "
                       f"{'own-keys' if kind == 'siw' else ''}"), end="")
        bus.cat(host, publisher, kind, "trade", "--count 20", "--ticket $TICKBUS_RUNTIME_DIR/risk.ticket").wait()
        refused = bus.cat(host, publisher, kind, "trade")
        refused.wait_for("the subscriber has no ticket")
        refused.wait(status=3)
    daemon.signal("TERM")
    daemon.wait()
    for host in (publisher, *readers.values()):
        host.run("rm $TICKBUS_RUNTIME_DIR/*.ticket")
