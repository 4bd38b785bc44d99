# SPDX-License-Identifier: Apache-2.0
"""A subscriber that had the publisher's device ask for ever whether it is there, and died: its place is free
again."""
import bus

TOPOLOGY = "one guest"
SECONDS = 150


def run(lab):
    publisher, host = lab.host(1), lab.host(4)
    daemon = bus.pubd(publisher, bus.market(50), kinds=("shm", "rxe"))
    clinger = host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/clinger.py {host.rxe} {publisher.rxe} {bus.PORT}")
    clinger.wait_for("connected")
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == 1, "a subscriber", every=0.3)
    host.unplug()
    clinger.kill()
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == 0, "its place to be free", 60, every=0.5)
    host.plug()
    daemon.signal("TERM")
    daemon.wait()
