# SPDX-License-Identifier: Apache-2.0
"""Notices resume after the publisher's device was removed, and after its interface was down, which the device reports
as an event."""
import bus
import tap
from control_subscriber import ControlSubscriber

TOPOLOGY = "one guest"
SECONDS = 120
ROUTES = ("10.9.0.0/24", "224.0.0.0/4")  # of host 1's first interface, which loses them when it is down


def notices_reach(lab, kind, reader):
    """Waits until notices reach host 2."""
    host = lab.host(2)

    def datagrams():
        capture = tap.Tap(host, kind)
        reader.reads_on(50)
        found = capture.end()
        return found.get("multicast datagram", 0) + sum(count for what, count in found.items()
                                                        if what.startswith("UDP port 7472"))
    lab.wait_until(datagrams, f"a notice over {kind}", 30)


def run(lab):
    publisher = lab.host(1)
    daemon = bus.pubd(publisher, bus.market(200))
    reader = ControlSubscriber(publisher, publisher, "shm")
    reader.sees("appeared")
    for kind in ("rxe", "siw"):
        notices_reach(lab, kind, reader)
    for count, kind in enumerate(("siw", "rxe"), 1):
        publisher.remove_device(kind).wait()
        publisher.return_device(kind)
        daemon.wait_for("(?s)" + ".*".join(["the device is back"] * count))
        notices_reach(lab, kind, reader)
    interface = publisher.interface("rxe")
    publisher.run(f"ip link set {interface} down")
    daemon.wait_for("a sender failed and was started again")
    publisher.run(f"ip link set {interface} up\n" + "".join(
        f"ip route add {route} dev {interface} src {publisher.rxe} table 101\n" for route in ROUTES))
    notices_reach(lab, "rxe", reader)
    reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
