# SPDX-License-Identifier: Apache-2.0
"""Nobody keeps a device that was removed: no subscriber that waits for a publisher, and no publisher on the only
device there is, whose two addresses share what is registered."""
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
    others = [(one, kind) for one in lab.hosts for kind in ("rxe", "siw") if (one, kind) != (publisher, "rxe")]
    for one, kind in others:
        one.remove_device(kind).wait()
    publisher.remove_device("rxe").wait()
    publisher.return_device("rxe")
    daemon.wait_for("(?s)the device is back.*the device is back")
    for one, kind in others:
        one.return_device(kind)
    reader = bus.cat(host, publisher, "rxe", "quote", "--count 10")
    reader.wait()
    daemon.signal("TERM")
    daemon.wait()
