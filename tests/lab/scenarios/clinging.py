# SPDX-License-Identifier: Apache-2.0
"""A subscriber that had the publisher's device ask for ever whether it is there, and died: its place is free
again. One that only stopped keeps its own.
"""
import bus

TOPOLOGY = "one guest"
SECONDS = 150


def clinger(host, publisher):
    process = host.start(f"exec /usr/bin/python3 -B $SOURCE/tests/lab/clinger.py {host.rxe} {publisher.rxe} {bus.PORT}")
    process.wait_for("connected")
    return process


def run(lab):
    publisher, gone, stopped = lab.host(1), lab.host(4), lab.host(3)
    daemon = bus.pubd(publisher, bus.market(50), kinds=("shm", "rxe"))
    dies, stops = clinger(gone, publisher), clinger(stopped, publisher)
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == 2, "both subscribers", every=0.3)
    stops.signal("STOP")
    gone.unplug()
    dies.kill()
    lab.wait_until(lambda: bus.counter(publisher, "subscribers") == 1, "its place to be free", 60, every=0.5)
    gone.plug()
    stops.signal("CONT")
    daemon.signal("TERM")
    daemon.wait()
