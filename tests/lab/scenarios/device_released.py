# SPDX-License-Identifier: Apache-2.0
"""Every process releases a removed device: a subscriber that waits for a publisher, and a publisher with two
addresses on its only device."""
import bus

TOPOLOGY = "one guest"
SECONDS = 120


def uses_a_device(host):
    return "uverbs" in host.run("ls -l /proc/[0-9]*/fd 2>/dev/null; true")


def run(lab):
    publisher, host = lab.host(1), lab.host(2)
    waiting = bus.cat(host, publisher, "rxe", "quote")
    lab.wait_until(lambda: uses_a_device(host), "an open device", every=0.3)
    host.remove_device("rxe").wait()
    host.return_device("rxe")
    waiting.kill()

    daemon = bus.pubd(publisher, bus.market(50), kinds=("rxe",), also=[f"rdma:{publisher.rxe}:{bus.PORT + 2}"])
    others = [(host, kind) for host in lab.hosts for kind in ("rxe", "siw") if (host, kind) != (publisher, "rxe")]
    for host, kind in others:
        host.remove_device(kind).wait()
    publisher.remove_device("rxe").wait()
    publisher.return_device("rxe")
    daemon.wait_for("(?s)the device is back.*the device is back")
    for host, kind in others:
        host.return_device(kind)
    reader = bus.cat(lab.host(2), publisher, "rxe", "quote", "--count 10")
    reader.wait()
    daemon.signal("TERM")
    daemon.wait()
